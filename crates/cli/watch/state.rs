use std::path::PathBuf;

use logitchain_core::{Param, Registry, Vocab};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::{draft::Draft, line::Line, value};
use crate::{
    logits::check_texts,
    report::{self, Failure},
};

/// What there is to see but for the candidates, and what the keys do to it.
pub(crate) struct State<'a> {
    pub(crate) registry: &'a Registry,
    pub(crate) vocab: &'a dyn Vocab,
    given: Draft,
    pub(crate) draft: Draft,
    /// The chain as it was last written to a file.
    written: Option<Draft>,
    /// Whether the chain is to be printed on leaving in any case.
    print: bool,
    /// Counted from 0, as are the stage and its parameter.
    pub(crate) step: usize,
    pub(crate) stage: usize,
    pub(crate) param: usize,
    pub(crate) mode: Mode,
    /// What there is to say, and whether something is wrong.
    pub(crate) said: Option<(String, bool)>,
}

/// What the keys are for.
#[derive(Debug, PartialEq)]
pub(crate) enum Mode {
    Watch,
    Help,
    /// A value for the chosen parameter is typed.
    Value(Line),
    /// A name for the chain file is typed.
    Name(Line),
    /// Whether to overwrite this file.
    Overwrite(PathBuf),
}

/// What a key asks for that is not for the state to do.
#[derive(Debug, PartialEq)]
pub(crate) enum Ask {
    Nothing,
    Step(usize),
    /// The last step that has been seen.
    LastStep,
    Write {
        path: PathBuf,
        overwrite: bool,
    },
    Quit,
}

impl<'a> State<'a> {
    /// At the first step, with the chain as given.
    pub(crate) fn new(given: Draft, registry: &'a Registry, vocab: &'a dyn Vocab) -> Self {
        Self {
            registry,
            vocab,
            draft: given.clone(),
            given,
            written: None,
            print: false,
            step: 0,
            stage: 0,
            param: 0,
            mode: Mode::Watch,
            said: None,
        }
    }

    pub(crate) fn is_changed(&self) -> bool {
        self.draft != self.given
    }

    /// Whether the stage at this place is another than in the given chain.
    pub(crate) fn is_slot_changed(&self, nth: usize) -> bool {
        self.draft.slots.get(nth) != self.given.slots.get(nth)
    }

    /// The chosen parameter, if the chosen stage has any.
    pub(crate) fn chosen(&self) -> Option<Param> {
        let params = self.draft.slots[self.stage].params(self.registry);
        params.into_iter().nth(self.param)
    }

    /// What to print on leaving: the chain, if it was changed and is in no file.
    pub(crate) fn farewell(&self) -> Option<String> {
        let lost = self.is_changed() && self.written.as_ref() != Some(&self.draft);
        (lost || self.print).then(|| self.draft.flags(self.registry))
    }

    /// The chain has been written to a file.
    pub(crate) fn wrote(&mut self, path: &std::path::Path) {
        self.written = Some(self.draft.clone());
        self.say(format!("written to {}", path.display()));
    }

    pub(crate) fn say(&mut self, what: impl Into<String>) {
        self.said = Some((what.into(), false));
    }

    pub(crate) fn complain(&mut self, what: impl Into<String>) {
        self.said = Some((what.into(), true));
    }

    pub(crate) fn key(&mut self, key: KeyEvent) -> Ask {
        self.said = None;
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Ask::Quit;
        }
        match std::mem::replace(&mut self.mode, Mode::Watch) {
            Mode::Watch => return self.watch(key),
            Mode::Help => {}
            Mode::Value(line) => self.value(line, key),
            Mode::Name(line) => return self.name(line, key),
            Mode::Overwrite(path) => match key.code {
                KeyCode::Char('y' | 'Y') => return Ask::Write { path, overwrite: true },
                _ => self.say("not written"),
            },
        }
        Ask::Nothing
    }

    fn watch(&mut self, key: KeyEvent) -> Ask {
        let shift = key.modifiers.contains(KeyModifiers::SHIFT);
        match key.code {
            KeyCode::Right | KeyCode::Char('n') => return Ask::Step(self.step + 1),
            KeyCode::Left | KeyCode::Char('p') => match self.step.checked_sub(1) {
                Some(step) => return Ask::Step(step),
                None => self.say("this is the first step"),
            },
            KeyCode::Home => return Ask::Step(0),
            KeyCode::End => return Ask::LastStep,
            KeyCode::Up if shift => self.shift(true),
            KeyCode::Down if shift => self.shift(false),
            KeyCode::Char('K') => self.shift(true),
            KeyCode::Char('J') => self.shift(false),
            KeyCode::Up | KeyCode::Char('k') => self.choose(self.stage.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.choose(self.stage + 1),
            KeyCode::Tab | KeyCode::Enter => self.turn(true),
            KeyCode::BackTab => self.turn(false),
            KeyCode::Char('+') => self.step_value(true),
            KeyCode::Char('-') => self.step_value(false),
            KeyCode::Char('=' | 'e') => self.ask_value(),
            KeyCode::Char('d') => self.toggle(),
            KeyCode::Char('r') => {
                let name = self.draft.slots[self.stage].name;
                self.draft = self.given.clone();
                // Another stage may stand there, with other parameters.
                if self.draft.slots[self.stage].name != name {
                    self.param = 0;
                }
                self.say("the chain is as given");
            }
            KeyCode::Char('w') => self.mode = Mode::Name(Line::default()),
            KeyCode::Char('?') => self.mode = Mode::Help,
            KeyCode::Char('q') => return Ask::Quit,
            _ => {}
        }
        Ask::Nothing
    }

    fn choose(&mut self, stage: usize) {
        let stage = stage.min(self.draft.slots.len() - 1);
        if stage != self.stage {
            (self.stage, self.param) = (stage, 0);
        }
    }

    /// Goes round the parameters.
    fn turn(&mut self, forth: bool) {
        let slot = &self.draft.slots[self.stage];
        let all = slot.params(self.registry).len();
        if all == 0 {
            self.say(format!("`{}` has no parameters", slot.name));
        } else {
            self.param = (self.param + if forth { 1 } else { all - 1 }) % all;
        }
    }

    /// Takes a changed chain, if it can be built.
    fn change(&mut self, draft: Draft) -> bool {
        let chain = draft.build(self.registry, self.vocab).map_err(Failure::Chain);
        match chain.and_then(|chain| check_texts(&chain, self.vocab)) {
            Ok(()) => {
                self.draft = draft;
                true
            }
            Err(failure) => {
                self.complain(report::line(&failure));
                false
            }
        }
    }

    fn shift(&mut self, up: bool) {
        let to = if up { self.stage.checked_sub(1) } else { Some(self.stage + 1) };
        let Some(to) = to.filter(|to| *to < self.draft.slots.len()) else {
            return self.say(format!("it is the {} already", if up { "first" } else { "last" }));
        };
        let mut draft = self.draft.clone();
        draft.slots.swap(self.stage, to);
        if self.change(draft) {
            self.stage = to;
        }
    }

    fn toggle(&mut self) {
        let slot = &self.draft.slots[self.stage];
        let name = slot.name;
        let neutral = || {
            let places = self.draft.places(self.registry);
            let chain = self.draft.build(self.registry, self.vocab).ok()?;
            Some(chain.stages()[places[self.stage]?].is_neutral())
        };
        if !slot.off && neutral() == Some(true) {
            return self.say(format!("`{name}` is off by its parameters; change them"));
        }
        let mut draft = self.draft.clone();
        draft.slots[self.stage].off = !slot.off;
        let off = draft.slots[self.stage].off;
        if self.change(draft) {
            self.say(format!("`{name}` is {}", if off { "off" } else { "on" }));
        }
    }

    fn set(&mut self, param: &Param, value: toml::Value) -> bool {
        let said = format!("{} = {}", param.name, crate::value::value(&value));
        let mut draft = self.draft.clone();
        let slot = &mut draft.slots[self.stage];
        slot.set(param, value);
        // Or the change would not be seen.
        let was_off = std::mem::replace(&mut slot.off, false);
        let taken = self.change(draft);
        if taken {
            self.say(if was_off { format!("{said}, and the stage is on") } else { said });
        }
        taken
    }

    fn step_value(&mut self, up: bool) {
        let Some(param) = self.chosen() else { return self.turn(true) };
        let slot = &self.draft.slots[self.stage];
        let stage = slot.registration(self.registry);
        match value::step(stage, &param, &slot.value(&param), up) {
            Some(value) => {
                self.set(&param, value);
            }
            None => self.say(format!("`{}` has no next value; = types one", param.name)),
        }
    }

    fn ask_value(&mut self) {
        let Some(param) = self.chosen() else { return self.turn(true) };
        let value = self.draft.slots[self.stage].value(&param);
        self.mode = Mode::Value(Line::suggesting(value::to_type(&value)));
    }

    fn value(&mut self, mut line: Line, key: KeyEvent) {
        let Some(param) = self.chosen() else { return };
        match key.code {
            KeyCode::Esc => return,
            KeyCode::Enter => {
                let taken = match value::typed(&param, line.text()) {
                    Ok(value) => self.set(&param, value),
                    Err(problem) => {
                        self.complain(problem);
                        false
                    }
                };
                if taken {
                    return;
                }
            }
            _ => line.key(key),
        }
        self.mode = Mode::Value(line);
    }

    fn name(&mut self, mut line: Line, key: KeyEvent) -> Ask {
        match key.code {
            KeyCode::Esc => self.say("not written"),
            KeyCode::Enter if line.text().is_empty() => {
                self.print = true;
                self.say("--samplers will be printed on leaving");
            }
            KeyCode::Enter => {
                return Ask::Write { path: line.text().into(), overwrite: false };
            }
            _ => {
                line.key(key);
                self.mode = Mode::Name(line);
            }
        }
        Ask::Nothing
    }
}
