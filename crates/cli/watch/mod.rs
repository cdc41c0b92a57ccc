//! `explain --watch`: a chain at work, token by token, and what it would do if it
//! were another.

mod draft;
mod line;
mod look;
mod recording;
mod source;
mod state;
#[cfg(test)]
mod svg;
mod terminal;
#[cfg(test)]
mod tests;
mod value;
mod view;

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::Path,
};

use logitchain_core::{Chain, ChainConfig, Registry};
use ratatui::DefaultTerminal;

pub(crate) use self::terminal::check;
use self::{
    draft::Draft,
    look::Look,
    recording::Recording,
    state::{Ask, Mode, State},
    terminal::Screen,
    view::Scene,
};
use crate::{logits::Logits, output, report::Failure};

/// Shows the steps of a text from this one on, counted from 0, and lets the user
/// change the chain: as built, with what else its config says.
pub(crate) fn watch(
    logits: &mut Logits,
    step: usize,
    (config, chain): (&ChainConfig, &Chain),
    registry: &Registry,
) -> Result<(), Failure> {
    let (mut recording, vocab) = source::open(logits, chain.clone());
    if !recording.reach(step)? {
        let reason = recording.end().unwrap_or_default();
        return Err(Failure::Usage(format!("--step {}: {reason}", step + 1)));
    }
    let mut state = State::new(Draft::new(config, chain, registry), registry, vocab);
    state.step = step;
    {
        let mut screen = Screen::new()?;
        run(&mut screen.terminal, &mut recording, &mut state)?;
    }
    state.farewell().map_or(Ok(()), |flags| output::write(&format!("{flags}\n")))
}

/// From key to key, until the user quits.
fn run(
    terminal: &mut DefaultTerminal,
    recording: &mut Recording<'_>,
    state: &mut State<'_>,
) -> Result<(), Failure> {
    let mut look = look(recording, state)?;
    let mut looked_at = (state.draft.clone(), state.step);
    loop {
        // Keys may come faster than pictures.
        if !terminal::is_pending().map_err(Failure::Terminal)? {
            if looked_at != (state.draft.clone(), state.step) {
                look = self::look(recording, state)?;
                looked_at = (state.draft.clone(), state.step);
            }
            show(terminal, recording, state, &look)?;
        }
        let Some(key) = terminal::key().map_err(Failure::Terminal)? else { continue };
        let ask = state.key(key);
        if let Ask::Step(nth) = ask
            && recording.is_new(nth)
        {
            // The model may take its time.
            state.say(format!("step {}...", nth + 1));
            show(terminal, recording, state, &look)?;
            state.said = None;
        }
        if ask == Ask::Quit {
            return Ok(());
        }
        act(ask, recording, state);
    }
}

fn show(
    terminal: &mut DefaultTerminal,
    recording: &Recording<'_>,
    state: &State<'_>,
    look: &Look,
) -> Result<(), Failure> {
    let scene = Scene { state, look, recording };
    terminal.draw(|frame| view::draw(frame, scene)).map(|_| ()).map_err(Failure::Terminal)
}

/// Does what the state cannot.
fn act(ask: Ask, recording: &mut Recording<'_>, state: &mut State<'_>) {
    match ask {
        Ask::Nothing | Ask::Quit => {}
        Ask::Step(nth) => step(recording, state, nth),
        Ask::LastStep => step(recording, state, recording.steps().len() - 1),
        Ask::Write { path, overwrite } => write(state, &path, overwrite),
    }
}

/// Goes to a step, or says why there is none.
fn step(recording: &mut Recording<'_>, state: &mut State<'_>, nth: usize) {
    match recording.reach(nth) {
        Ok(true) => state.step = nth,
        Ok(false) => state.say(recording.end().unwrap_or("this is the last step").to_owned()),
        Err(failure) => state.complain(crate::report::line(&failure)),
    }
}

fn look(recording: &Recording<'_>, state: &State<'_>) -> Result<Look, Failure> {
    let chain = state.draft.build(state.registry, state.vocab)?;
    Ok(Look::new(chain, recording, state.step))
}

/// Writes the chain file, or asks whether to overwrite what is there.
fn write(state: &mut State<'_>, path: &Path, overwrite: bool) {
    let text = state.draft.file(state.registry, state.is_changed());
    let written = if overwrite {
        fs::write(path, text)
    } else {
        File::create_new(path).and_then(|mut file| file.write_all(text.as_bytes()))
    };
    match written {
        Ok(()) => state.wrote(path),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            state.mode = Mode::Overwrite(path.to_owned());
        }
        Err(error) => state.complain(format!("cannot write {}: {error}", path.display())),
    }
}
