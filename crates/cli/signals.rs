//! What is put right before Ctrl-C or a `kill` ends the program: half a file, and a
//! terminal that no shell could use.
//!
//! Where there are no such signals, this does nothing.

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// What is not as it should be when the program ends.
#[derive(Debug)]
struct Unfinished {
    files: Vec<PathBuf>,
    screen: bool,
}

static UNFINISHED: Mutex<Unfinished> = Mutex::new(Unfinished { files: Vec::new(), screen: false });

fn unfinished() -> MutexGuard<'static, Unfinished> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file that is to go with the program.
pub(crate) fn remove_file(path: &Path) {
    unfinished().files.push(path.into());
    listen();
}

/// A file that may stay.
pub(crate) fn keep_file(path: &Path) {
    unfinished().files.retain(|file| file != path);
}

/// Whether the terminal is a screen that must be given back.
pub(crate) fn restore_screen(is: bool) {
    unfinished().screen = is;
    listen();
}

#[cfg(unix)]
fn listen() {
    use std::{fs, sync::Once, thread};

    use signal_hook::{
        consts::{SIGINT, SIGTERM},
        iterator::Signals,
        low_level::emulate_default_handler,
    };

    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Without it the program ends as others do.
        let Ok(mut signals) = Signals::new([SIGINT, SIGTERM]) else { return };
        thread::spawn(move || {
            for signal in signals.forever() {
                // Held to the end: nothing new is begun.
                let unfinished = unfinished();
                for file in &unfinished.files {
                    let _ = fs::remove_file(file);
                }
                if unfinished.screen {
                    let _ = ratatui::try_restore();
                }
                // So that a shell sees which signal it was.
                let _ = emulate_default_handler(signal);
            }
        });
    });
}

#[cfg(not(unix))]
fn listen() {}
