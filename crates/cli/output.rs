//! Writing to stdout and stderr, where a reader may have gone.

use std::{
    fmt::Display,
    io::{self, Write as _},
    path::Path,
};

use crate::report::Failure;

/// Writes a text at once.
pub(crate) fn write(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Failure::Write)
}

/// Writes a text with escape sequences for styles at once. They are left out where
/// stdout is no terminal, or `NO_COLOR` is set.
pub(crate) fn write_styled(text: &str) -> Result<(), Failure> {
    let mut out = anstream::AutoStream::auto(io::stdout().lock());
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Failure::Write)
}

/// A file that is there is only replaced on demand; a terminal or a pipe has nothing to
/// lose.
pub(crate) fn check_new(flag: &str, path: &Path, force: bool) -> Result<(), Failure> {
    let problem = match path {
        path if path.is_dir() => "is a folder",
        path if path.is_file() && !force => "is there already; --force replaces it",
        _ => return Ok(()),
    };
    Err(Failure::Usage(format!("{flag}: '{}' {problem}", path.display())))
}

/// Why a file could not be written.
pub(crate) fn write_failure(path: &Path, source: io::Error) -> Failure {
    Failure::WriteFile { path: path.into(), source }
}

/// Writes a line to stderr.
///
/// Where stderr is closed or full there is nobody to tell, and no reason to
/// withhold the text: stdout and the exit code stay as they are.
pub(crate) fn tell(line: impl Display) {
    tell_on(format!("{line}\n"));
}

/// Writes to stderr, and leaves the line open.
pub(crate) fn tell_on(text: impl Display) {
    // In one piece: others may write there too.
    let _ = io::stderr().write_all(text.to_string().as_bytes());
}

/// Writes a text as it comes, and remembers whether the last line has ended.
#[derive(Debug)]
pub(crate) struct Stream {
    in_line: bool,
    silent: bool,
}

impl Stream {
    pub(crate) fn new() -> Self {
        Self { in_line: false, silent: false }
    }

    /// Writes nothing.
    pub(crate) fn none() -> Self {
        Self { in_line: false, silent: true }
    }

    pub(crate) fn write(&mut self, text: &str) -> Result<(), Failure> {
        if let Some(last) = text.chars().last().filter(|_| !self.silent) {
            self.in_line = last != '\n';
            write(text)?;
        }
        Ok(())
    }

    /// Ends the last line.
    pub(crate) fn finish(&mut self) -> Result<(), Failure> {
        if self.in_line { self.write("\n") } else { Ok(()) }
    }
}
