use std::fmt::{self, Debug};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A position in the model's vocabulary, from 0.
///
/// ```
/// # use logitchain_core::TokenId;
/// assert_eq!(TokenId(7).index(), 7);
/// assert_eq!(TokenId(7).to_string(), "7");
/// ```
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct TokenId(pub u32);

impl TokenId {
    /// The position as an index into the logits.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// What a stage may ask about the tokens while it is built.
///
/// Most stages need none of it. DRY asks for text, to find its sequence
/// breakers, and infill asks which tokens end a generation.
///
/// # For implementors
///
/// Ids run from 0 to `size() - 1`. The optional methods have answers that suit
/// a vocabulary of plain text; a tokenizer overrides them.
pub trait Vocab: Debug {
    /// Number of tokens; a model's logits have this length.
    fn size(&self) -> usize;

    /// The bytes that `token` stands for in running text, the printed form of
    /// special tokens (`<|im_end|>`) included. Need not be whole UTF-8
    /// characters. Empty for an id outside the vocabulary.
    fn bytes(&self, token: TokenId) -> &[u8];

    /// Whether `token` is a control token, whose printed form is not text.
    fn is_special(&self, token: TokenId) -> bool {
        let _ = token;
        false
    }

    /// Whether `token` ends a generation.
    fn is_end_of_generation(&self, token: TokenId) -> bool {
        let _ = token;
        false
    }

    /// The token that ends a turn or, where there is none, the text.
    fn end_of_turn(&self) -> Option<TokenId> {
        None
    }

    /// Splits plain text into tokens: no beginning-of-text token is added, and
    /// printed forms of special tokens are not special.
    ///
    /// The provided method takes the longest token that fits, from left to
    /// right (of equal ones the lowest id), and skips bytes that no token
    /// begins with.
    fn tokenize(&self, text: &[u8]) -> Vec<TokenId> {
        let mut rest = text;
        let mut tokens = Vec::new();
        while !rest.is_empty() {
            let fits = (0..self.size() as u32).map(TokenId).filter(|&token| {
                let bytes = self.bytes(token);
                !bytes.is_empty() && !self.is_special(token) && rest.starts_with(bytes)
            });
            let longest = fits.fold(None, |best: Option<TokenId>, token| match best {
                Some(b) if self.bytes(b).len() >= self.bytes(token).len() => best,
                _ => Some(token),
            });
            match longest {
                Some(token) => {
                    tokens.push(token);
                    rest = &rest[self.bytes(token).len()..];
                }
                None => rest = &rest[1..],
            }
        }
        tokens
    }
}

/// No vocabulary: for chains that are only checked or printed, or whose stages
/// ask for none. Its size is 0, and stages do not check token ids against it.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoVocab;

impl Vocab for NoVocab {
    fn size(&self) -> usize {
        0
    }

    fn bytes(&self, _: TokenId) -> &[u8] {
        &[]
    }
}
