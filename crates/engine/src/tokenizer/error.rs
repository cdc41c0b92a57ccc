use thiserror::Error;

/// Why a file's tokenizer cannot be used.
///
/// Texts that come from the file are cut if they are long.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// A key that every tokenizer of its kind needs is not there.
    #[error("the key `{key}` is missing")]
    MissingKey {
        /// The key.
        key: &'static str,
    },
    /// The tokenizer is of a kind that this engine does not have.
    #[error(
        "tokenizer model `{found}` is unknown; there are gpt2 (byte-level BPE) and llama (SentencePiece)"
    )]
    UnknownModel {
        /// As the file says.
        found: String,
    },
    /// The rule that cuts a text into words is unknown: its ids would be wrong.
    #[error("pre-tokenizer `{found}` is unknown; there are {known}")]
    UnknownPreTokenizer {
        /// As the file says.
        found: String,
        /// What could have been.
        known: String,
    },
    /// There are no tokens, or more than an id can number.
    #[error("a vocabulary has between 1 and {} tokens, this one {found}", u32::MAX)]
    Size {
        /// Number of tokens in the file.
        found: usize,
    },
    /// A list that goes with the tokens has another length.
    #[error("`{key}` has {found} entries for {expected} tokens")]
    Length {
        /// The list's key.
        key: &'static str,
        /// Its length.
        found: usize,
        /// The number of tokens.
        expected: usize,
    },
    /// Two tokens have the same text.
    #[error("tokens {first} and {second} are both {text:?}; a text must have one id")]
    DuplicateToken {
        /// The text.
        text: String,
        /// The lower id.
        first: u32,
        /// The higher id.
        second: u32,
    },
    /// A token's type is none of GGUF's.
    #[error("token {token} has type {found}; types run from 0 to 6")]
    TokenType {
        /// The token's id.
        token: u32,
        /// The type.
        found: i32,
    },
    /// A token that should be a byte is none.
    #[error(
        "token {token} is of the type byte, but its text is {text:?}; bytes are <0x00> to <0xFF>"
    )]
    ByteToken {
        /// The token's id.
        token: u32,
        /// Its text, cut if it is long.
        text: String,
    },
    /// A token's score cannot be compared with others.
    #[error("token {token} has the score NaN, which cannot be ranked")]
    Score {
        /// The token's id.
        token: u32,
    },
    /// A key names a token outside the vocabulary.
    #[error("`{key}` is {found}, but ids end at {last}")]
    IdOutOfRange {
        /// The key.
        key: &'static str,
        /// Its value.
        found: u32,
        /// The highest id.
        last: u32,
    },
    /// A merge is not two tokens with a space between them.
    #[error("merge {index} is {text:?}; a merge is two tokens with a space between them")]
    MergeSyntax {
        /// Position in the list, from 0.
        index: usize,
        /// The merge.
        text: String,
    },
    /// A merge needs a token that does not exist.
    #[error("merge {index}, {text:?}, needs the token {token:?}, which does not exist")]
    MergeToken {
        /// Position in the list, from 0.
        index: usize,
        /// The merge.
        text: String,
        /// The token.
        token: String,
    },
}

/// A text of the file's as an error keeps it: its message is to stay one that
/// can be read.
pub(super) fn cut(text: &str) -> String {
    const LONGEST: usize = 100;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
