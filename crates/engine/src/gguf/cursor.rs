use std::fmt::{self, Write as _};

use super::GgufError;

/// Reads a file from front to back and never past its end.
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    pub(super) fn position(&self) -> usize {
        self.position
    }

    /// The next `length` bytes. `what` is put into words only if they are
    /// missing.
    pub(super) fn take(
        &mut self,
        length: u64,
        what: fmt::Arguments<'_>,
    ) -> Result<&'a [u8], GgufError> {
        let rest = &self.bytes[self.position..];
        let fits = usize::try_from(length).ok().and_then(|length| rest.get(..length));
        let Some(taken) = fits else {
            return Err(GgufError::Truncated {
                what: what.to_string(),
                at: self.position,
                needed: length,
                left: rest.len(),
            });
        };
        self.position += taken.len();
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: fmt::Arguments<'_>) -> Result<[u8; N], GgufError> {
        let bytes = self.take(N as u64, what)?;
        Ok(bytes.try_into().expect("take returns as many bytes as asked for"))
    }

    pub(super) fn u32(&mut self, what: fmt::Arguments<'_>) -> Result<u32, GgufError> {
        self.array(what).map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self, what: fmt::Arguments<'_>) -> Result<u64, GgufError> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// A string: its length, then as many bytes.
    pub(super) fn string(&mut self, what: fmt::Arguments<'_>) -> Result<&'a str, GgufError> {
        let length = self.u64(what)?;
        let at = self.position;
        let bytes = self.take(length, what)?;
        str::from_utf8(bytes).map_err(|_| GgufError::NotUtf8 { what: what.to_string(), at })
    }

    /// A string that names something.
    pub(super) fn name(
        &mut self,
        limit: usize,
        what: fmt::Arguments<'_>,
    ) -> Result<&'a str, GgufError> {
        let name = self.string(what)?;
        if name.len() > limit {
            let what = what.to_string();
            return Err(GgufError::NameTooLong { what, length: name.len(), limit });
        }
        Ok(name)
    }
}

/// A text from the file as it may stand in a message: on one line, and not too
/// long.
pub(crate) struct Shown<'a>(pub(crate) &'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Longer than any tensor's name may be.
        const LONGEST: usize = 100;
        for c in self.0.chars().take(LONGEST) {
            write!(f, "{}", c.escape_debug())?;
        }
        if self.0.chars().nth(LONGEST).is_some() {
            f.write_char('…')?;
        }
        Ok(())
    }
}

/// The same in quotes.
pub(super) struct Quoted<'a>(pub(super) &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}'", Shown(self.0))
    }
}

pub(super) fn quoted(text: &str) -> String {
    Quoted(text).to_string()
}
