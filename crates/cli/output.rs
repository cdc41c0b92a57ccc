//! Writing to stdout, where a reader may have gone.

use std::io::{self, Write as _};

use crate::report::Failure;

/// Writes a text at once.
pub(crate) fn write(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Failure::Write)
}

/// Writes a text as it comes, and remembers whether the last line has ended.
#[derive(Debug)]
pub(crate) struct Stream {
    in_line: bool,
}

impl Stream {
    pub(crate) fn new() -> Self {
        Self { in_line: false }
    }

    pub(crate) fn write(&mut self, text: &str) -> Result<(), Failure> {
        if let Some(last) = text.chars().last() {
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
