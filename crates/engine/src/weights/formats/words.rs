//! Bytes, eight at a time: the compiler does not shift lone bytes side by side.

/// A byte in all places of a word.
pub(super) const fn all(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

#[inline(always)]
pub(super) fn load(bytes: &[u8; 32]) -> [u64; 4] {
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    words
}

#[inline(always)]
pub(super) fn store(words: [u64; 4], out: &mut [u8; 32]) {
    for (word, out) in words.iter().zip(out.as_chunks_mut::<8>().0) {
        *out = word.to_le_bytes();
    }
}

/// Words made of words.
#[inline(always)]
pub(super) fn join(a: [u64; 4], b: [u64; 4], f: impl Fn(u64, u64) -> u64) -> [u64; 4] {
    let mut words = [0; 4];
    for i in 0..4 {
        words[i] = f(a[i], b[i]);
    }
    words
}
