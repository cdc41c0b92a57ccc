use std::{
    io::{self, IsTerminal as _},
    time::Duration,
};

use ratatui::{
    DefaultTerminal,
    crossterm::event::{self, Event, KeyEvent, KeyEventKind},
};

use crate::{report::Failure, signals};

/// Refuses where there is nothing to draw on.
pub(crate) fn check() -> Result<(), Failure> {
    if io::stdout().is_terminal() {
        return Ok(());
    }
    let problem = "--watch needs a terminal, and stdout is a pipe or a file; leave one of both out";
    Err(Failure::Usage(problem.to_owned()))
}

/// The terminal, as a screen. Given back when dropped; on a panic also before its
/// message is written.
#[derive(Debug)]
pub(crate) struct Screen {
    pub(crate) terminal: DefaultTerminal,
}

impl Screen {
    pub(crate) fn new() -> Result<Self, Failure> {
        signals::restore_screen(true);
        match ratatui::try_init() {
            Ok(terminal) => Ok(Self { terminal }),
            Err(error) => {
                signals::restore_screen(false);
                // It may have got half way.
                let _ = ratatui::try_restore();
                Err(Failure::Terminal(error))
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Where the terminal is gone there is nothing to restore.
        let _ = ratatui::try_restore();
        signals::restore_screen(false);
    }
}

/// Whether there is a key already.
pub(crate) fn is_pending() -> io::Result<bool> {
    event::poll(Duration::ZERO)
}

/// The next key; `None` where the picture must be drawn again for another reason.
pub(crate) fn key() -> io::Result<Option<KeyEvent>> {
    Ok(match event::read()? {
        Event::Key(key) if key.kind != KeyEventKind::Release => Some(key),
        _ => None,
    })
}
