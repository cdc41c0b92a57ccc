use std::fmt;

/// The bytes that each token stands for, one behind the other.
#[derive(Default)]
pub(super) struct Spellings {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl Spellings {
    /// With room for so many tokens of so many bytes together.
    pub(super) fn with_capacity(tokens: usize, bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), ends: Vec::with_capacity(tokens) }
    }

    /// Adds the bytes of the next token.
    pub(super) fn push(&mut self, append: impl FnOnce(&mut Vec<u8>)) {
        append(&mut self.bytes);
        let end = u32::try_from(self.bytes.len());
        self.ends.push(end.expect("no token has more bytes than its text in the file"));
    }

    pub(super) fn shrink_to_fit(&mut self) {
        self.bytes.shrink_to_fit();
    }

    /// None for an id out of range.
    pub(super) fn get(&self, id: u32) -> &[u8] {
        let id = id as usize;
        let Some(&end) = self.ends.get(id) else { return &[] };
        let start = id.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start as usize..end as usize]
    }
}

impl fmt::Debug for Spellings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Spellings({} tokens, {} bytes)", self.ends.len(), self.bytes.len())
    }
}
