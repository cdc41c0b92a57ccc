//! Reading what users wrote, which may have no end or be no text.

use std::{
    fs::{self, File},
    io::{self, BufRead, Read},
    path::Path,
    str::Utf8Error,
};

use crate::{
    input_error::{InputError, Limit},
    report::Failure,
};

const MB: u64 = 1_000_000;

/// A chain file is written by hand: the longest in use has some hundred lines.
const CHAIN_LIMIT: Limit = Limit { mb: 1, what: "a chain file" };

/// Ten times what the largest contexts hold.
const PROMPT_LIMIT: Limit = Limit { mb: 64, what: "a prompt" };

/// The text of a chain file.
pub(crate) fn chain_file(path: &Path) -> Result<String, Failure> {
    file(path, CHAIN_LIMIT)
}

/// The text of a file with a prompt.
pub(crate) fn prompt_file(path: &Path) -> Result<String, Failure> {
    file(path, PROMPT_LIMIT)
}

/// All of stdin.
pub(crate) fn stdin() -> Result<String, Failure> {
    all(io::stdin().lock(), PROMPT_LIMIT).map_err(Failure::Stdin)
}

/// A text, line by line.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    reader: R,
    /// What has been read, for the place of what is no text.
    bytes: usize,
    lines: usize,
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self { reader, bytes: 0, lines: 0 }
    }

    /// The next line, with its end; empty at the end of the text.
    pub(crate) fn next(&mut self) -> Result<String, InputError> {
        let text = line(&mut self.reader, PROMPT_LIMIT).map_err(|error| match error {
            InputError::NotUtf8 { byte, line } => {
                InputError::NotUtf8 { byte: self.bytes + byte, line: self.lines + line }
            }
            error => error,
        })?;
        self.bytes += text.len();
        self.lines += 1;
        // Some programs mark UTF-8 so; it is no part of the first line.
        Ok(match text.strip_prefix('\u{FEFF}') {
            Some(rest) if self.lines == 1 => rest.to_owned(),
            _ => text,
        })
    }
}

/// Whether a file is one that can be read at any place. A pipe cannot, and to open it
/// may wait for ever.
pub(crate) fn check_plain(path: &Path) -> Result<(), InputError> {
    let found = fs::metadata(path)?;
    match (found.is_file(), found.is_dir()) {
        (true, _) => Ok(()),
        (_, true) => Err(InputError::Folder),
        _ => Err(InputError::NotPlain),
    }
}

/// Opens a file to read.
pub(crate) fn open(path: &Path) -> Result<File, InputError> {
    let file = File::open(path)?;
    if file.metadata()?.is_dir() { Err(InputError::Folder) } else { Ok(file) }
}

fn file(path: &Path, limit: Limit) -> Result<String, Failure> {
    let read = open(path).and_then(|file| all(file, limit));
    read.map_err(|source| Failure::Read { path: path.into(), source })
}

fn all(reader: impl Read, limit: Limit) -> Result<String, InputError> {
    let mut bytes = Vec::new();
    reader.take(limit.mb * MB + 1).read_to_end(&mut bytes)?;
    text(bytes, limit)
}

fn line(reader: impl BufRead, limit: Limit) -> Result<String, InputError> {
    let mut bytes = Vec::new();
    reader.take(limit.mb * MB + 1).read_until(b'\n', &mut bytes)?;
    text(bytes, limit)
}

fn text(bytes: Vec<u8>, limit: Limit) -> Result<String, InputError> {
    if bytes.len() as u64 > limit.mb * MB {
        return Err(InputError::TooLong(limit));
    }
    String::from_utf8(bytes).map_err(|error| not_utf8(error.as_bytes(), error.utf8_error()))
}

fn not_utf8(bytes: &[u8], error: Utf8Error) -> InputError {
    let byte = error.valid_up_to();
    let breaks = bytes[..byte].iter().filter(|&&byte| byte == b'\n').count();
    InputError::NotUtf8 { byte, line: breaks + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Limit = Limit { mb: 1, what: "a test" };

    #[test]
    fn a_text_may_be_as_long_as_the_limit_and_no_longer() {
        let read = |bytes| all(io::repeat(b'a').take(bytes), LIMIT);
        assert_eq!(read(MB).expect("a text").len() as u64, MB);
        for endless in
            [read(MB + 1), read(u64::MAX), line(io::BufReader::new(io::repeat(b'a')), LIMIT)]
        {
            let message = endless.expect_err("too long").to_string();
            assert_eq!(message, "it is longer than 1 MB, the most that a test may have");
        }
    }

    #[test]
    fn a_byte_that_is_no_text_is_named_with_its_place() {
        let message = all(&b"one\ntw\xF6"[..], LIMIT).expect_err("latin-1").to_string();
        assert_eq!(message, "byte 6, in line 2, is not UTF-8");
    }
}
