use std::{cmp::Ordering, cmp::Reverse, ops::Range};

use super::{TokenizerError, TokenizerSpec, merge::merge_all, vocabulary::Vocabulary};

/// What stands for a space in a SentencePiece vocabulary.
const SPACE: &str = "\u{2581}";

/// SentencePiece's BPE as llama.cpp runs it: of all neighbours that make a
/// token together, those of the best score are joined first.
///
/// What no token spells becomes its `<0xNN>` tokens or, where they are missing,
/// the unknown token; if that is missing too it is left out, and whoever asks
/// for tokens is told.
#[derive(Debug)]
pub(super) struct SentencePiece {
    scores: Vec<f32>,
    bytes: Box<[Option<u32>; 256]>,
}

impl SentencePiece {
    pub(super) fn new(
        scores: Option<Vec<f32>>,
        vocabulary: &Vocabulary,
    ) -> Result<Self, TokenizerError> {
        let (key, expected) = (TokenizerSpec::SCORES, vocabulary.size());
        let scores = scores.ok_or(TokenizerError::MissingKey { key })?;
        if scores.len() != expected {
            return Err(TokenizerError::Length { key, found: scores.len(), expected });
        }
        if let Some((token, _)) = (0..).zip(&scores).find(|(_, score)| score.is_nan()) {
            return Err(TokenizerError::Score { token });
        }
        let byte = |b: usize| vocabulary.plain_id(format!("<0x{b:02X}>").as_bytes());
        Ok(Self { scores, bytes: Box::new(std::array::from_fn(byte)) })
    }

    /// Appends the tokens of a text, before which a space is put if `space`.
    /// Returns the first character of it that has none.
    pub(super) fn encode(
        &self,
        text: &[u8],
        space: bool,
        vocabulary: &Vocabulary,
        tokens: &mut Vec<u32>,
    ) -> Option<char> {
        let mut left_out = None;
        let mut escaped = Vec::with_capacity(text.len() + 3);
        if space {
            escaped.extend_from_slice(SPACE.as_bytes());
        }
        for &byte in text {
            match byte {
                b' ' => escaped.extend_from_slice(SPACE.as_bytes()),
                byte => escaped.push(byte),
            }
        }
        let pieces = merge_all(symbols(&escaped), |left, right| {
            let joined = left.start..right.end;
            let id = vocabulary.plain_id(&escaped[joined.clone()])?;
            Some((Reverse(Score(self.scores[id as usize])), joined))
        });
        for range in pieces {
            // Nobody misses the space in front if there is no token for it.
            let is_text = range.start > 0 || !space;
            let piece = &escaped[range];
            if let Some(id) = vocabulary.plain_id(piece) {
                tokens.push(id);
                continue;
            }
            let bytes: Option<Vec<u32>> =
                piece.iter().map(|&byte| self.bytes[usize::from(byte)]).collect();
            match (bytes, vocabulary.unknown()) {
                (Some(bytes), _) => tokens.extend(bytes),
                (None, Some(unknown)) => tokens.push(unknown),
                (None, None) if is_text && left_out.is_none() => {
                    let first = String::from_utf8_lossy(piece).chars().next();
                    left_out = first.map(|c| if SPACE.starts_with(c) { ' ' } else { c });
                }
                (None, None) => {}
            }
        }
        left_out
    }
}

/// The characters of a text; a byte that belongs to none is by itself.
fn symbols(text: &[u8]) -> Vec<Range<usize>> {
    let mut symbols = Vec::with_capacity(text.len());
    let mut start = 0;
    for chunk in text.utf8_chunks() {
        for c in chunk.valid().chars() {
            symbols.push(start..start + c.len_utf8());
            start += c.len_utf8();
        }
        for _ in chunk.invalid() {
            symbols.push(start..start + 1);
            start += 1;
        }
    }
    symbols
}

/// Appends the bytes that a token's text in a vocabulary file stands for.
pub(super) fn decode(text: &str, bytes: &mut Vec<u8>) {
    let (mut rest, space) = (text.as_bytes(), SPACE.as_bytes());
    while let Some(at) = rest.windows(space.len()).position(|part| part == space) {
        bytes.extend_from_slice(&rest[..at]);
        bytes.push(b' ');
        rest = &rest[at + space.len()..];
    }
    bytes.extend_from_slice(rest);
}

/// A score, checked to be a number.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
struct Score(f32);

impl Eq for Score {}

#[expect(
    clippy::derive_ord_xor_partial_ord,
    reason = "the two agree on all but NaN, which is not let in"
)]
impl Ord for Score {
    fn cmp(&self, other: &Self) -> Ordering {
        self.partial_cmp(other).expect("scores are checked not to be NaN")
    }
}
