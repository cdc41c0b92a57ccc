//! Tokenizers of GGUF files.

mod byte_level_bpe;
mod error;
mod merge;
mod pre_tokenizer;
mod sentencepiece;
mod spec;
mod special;
mod spellings;
#[cfg(test)]
mod tests;
mod texts;
mod vocabulary;

pub use self::error::TokenizerError;
pub(crate) use self::pre_tokenizer::names as pre_tokenizer_names;

use std::ops::Range;

use logitchain_core::{TokenId, Vocab};

use self::{
    byte_level_bpe::ByteLevelBpe,
    pre_tokenizer::PreTokenizer,
    sentencepiece::SentencePiece,
    spec::TokenizerSpec,
    special::{Fragment, SpecialTokens},
    vocabulary::Vocabulary,
};
use crate::{EngineError, Gguf, Special, Tokenizer, gguf::Shown};

/// The tokenizer of a GGUF file, with the ids that llama.cpp gives.
///
/// Of `tokenizer.ggml.model` it knows `gpt2`, which is byte-level BPE, and
/// `llama`, which is SentencePiece with scores. A byte-level one cuts texts into
/// words first, as `tokenizer.ggml.pre` names it; `default` stands in where the
/// key is missing. A name that is not among [`Supported`](crate::Supported) ones
/// is an error, since the ids would be wrong.
///
/// - User-defined tokens are always found by their text, special tokens only
///   with [`Special::Parse`]. Tokens of type unknown count as special.
/// - Tokens whose text is a known end marker, such as `<|im_end|>`, end a
///   generation like those that the file names, and are special whatever type
///   the file gives them.
/// - An id that the file does not name does not exist: none is guessed, even
///   where llama.cpp has a default. Without `bos_token_id` no text is begun with
///   a token, and without any end marker a text never ends by itself.
/// - [`Vocab::bytes`] gives the bytes of running text (`<0xNN>` is one byte, `▁`
///   a space), and special tokens as they are printed.
/// - The texts of the tokens stay in the file, which is kept open.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use logitchain_core::Vocab;
/// use logitchain_engine::{EMBEDDED_GGUF, Gguf, GgufTokenizer, Special, Tokenizer};
///
/// let tokenizer = GgufTokenizer::from_gguf(&Gguf::from_static(EMBEDDED_GGUF)?)?;
/// let tokens = tokenizer.encode("In the beginning", Special::Plain);
/// let bytes: Vec<u8> = tokens.iter().flat_map(|&t| tokenizer.bytes(t)).copied().collect();
/// assert_eq!(bytes, b"In the beginning");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct GgufTokenizer {
    vocabulary: Vocabulary,
    specials: SpecialTokens,
    scheme: Scheme,
    adds_bos: bool,
    chat_template: Option<String>,
}

#[derive(Debug)]
enum Scheme {
    ByteLevel(Box<ByteLevelBpe>),
    SentencePiece { pieces: SentencePiece, adds_space: bool },
}

impl GgufTokenizer {
    /// Reads and checks a file's tokenizer.
    ///
    /// # Errors
    ///
    /// If a key is missing or of the wrong type, the kind of tokenizer is
    /// unknown, or its parts contradict each other.
    pub fn from_gguf(gguf: &Gguf) -> Result<Self, EngineError> {
        Ok(Self::new(TokenizerSpec::from_gguf(gguf)?)?)
    }

    fn new(mut spec: TokenizerSpec) -> Result<Self, TokenizerError> {
        let (vocabulary, scheme, adds_bos) = match spec.model.as_str() {
            "gpt2" => {
                let pre_tokenizer = PreTokenizer::named(spec.pre.as_deref().unwrap_or("default"))?;
                let adds_bos = pre_tokenizer.begins_with_bos();
                let vocabulary = Vocabulary::new(&mut spec, byte_level_bpe::decoder())?;
                let bpe = ByteLevelBpe::new(&spec, pre_tokenizer, &vocabulary)?;
                (vocabulary, Scheme::ByteLevel(Box::new(bpe)), adds_bos)
            }
            "llama" => {
                let vocabulary = Vocabulary::new(&mut spec, sentencepiece::decode)?;
                let pieces = SentencePiece::new(spec.scores, &vocabulary)?;
                let adds_space = spec.add_space_prefix.unwrap_or(true);
                (vocabulary, Scheme::SentencePiece { pieces, adds_space }, true)
            }
            found => {
                return Err(TokenizerError::UnknownModel { found: Shown(found).to_string() });
            }
        };
        Ok(Self {
            specials: SpecialTokens::new(&vocabulary, spec.name.as_deref()),
            vocabulary,
            scheme,
            adds_bos: spec.add_bos.unwrap_or(adds_bos),
            chat_template: spec.chat_template,
        })
    }

    /// `plain` are ranges, in order, within which no special token may lie.
    fn encode_bytes(&self, text: &[u8], special: Special, plain: &[Range<usize>]) -> Encoded {
        let mut tokens = Vec::new();
        let mut left_out = None;
        // SentencePiece models saw a space before each text, and saw texts begin
        // after each special token.
        let mut begins = true;
        for fragment in
            self.specials.split(&self.vocabulary, text, special == Special::Parse, plain)
        {
            match (fragment, &self.scheme) {
                (Fragment::Token(id), _) => {
                    tokens.push(id);
                    begins = true;
                }
                (Fragment::Text(range), Scheme::ByteLevel(bpe)) => {
                    let lost = bpe.encode(&text[range], &self.vocabulary, &mut tokens);
                    left_out = left_out.or(lost);
                }
                (Fragment::Text(range), Scheme::SentencePiece { pieces, adds_space }) => {
                    // An empty text has no fragment to put a space before.
                    if !range.is_empty() {
                        let space = *adds_space && begins;
                        let lost =
                            pieces.encode(&text[range], space, &self.vocabulary, &mut tokens);
                        left_out = left_out.or(lost);
                        begins = false;
                    }
                }
            }
        }
        Encoded { tokens: tokens.into_iter().map(TokenId).collect(), left_out }
    }

    fn encode_joined(&self, parts: &[(&str, Special)]) -> Encoded {
        let mut text = String::new();
        let mut plain = Vec::new();
        for &(part, special) in parts {
            let start = text.len();
            text += part;
            if special == Special::Plain && !part.is_empty() {
                plain.push(start..text.len());
            }
        }
        self.encode_bytes(text.as_bytes(), Special::Parse, &plain)
    }
}

/// The tokens of a text, and the first character for which there is none.
struct Encoded {
    tokens: Vec<TokenId>,
    left_out: Option<char>,
}

impl Vocab for GgufTokenizer {
    fn size(&self) -> usize {
        self.vocabulary.size()
    }

    fn bytes(&self, token: TokenId) -> &[u8] {
        self.vocabulary.bytes(token.0)
    }

    fn is_special(&self, token: TokenId) -> bool {
        self.vocabulary.is_special(token.0)
    }

    fn is_end_of_generation(&self, token: TokenId) -> bool {
        self.vocabulary.ends_generation(token.0)
    }

    fn end_of_turn(&self) -> Option<TokenId> {
        self.vocabulary.end_of_turn().map(TokenId)
    }

    fn tokenize(&self, text: &[u8]) -> Vec<TokenId> {
        self.encode_bytes(text, Special::Plain, &[]).tokens
    }
}

impl Tokenizer for GgufTokenizer {
    fn encode(&self, text: &str, special: Special) -> Vec<TokenId> {
        self.encode_bytes(text.as_bytes(), special, &[]).tokens
    }

    fn encode_parts(&self, parts: &[(&str, Special)]) -> Vec<TokenId> {
        self.encode_joined(parts).tokens
    }

    fn try_encode_parts(&self, parts: &[(&str, Special)]) -> Result<Vec<TokenId>, EngineError> {
        let Encoded { tokens, left_out } = self.encode_joined(parts);
        match left_out {
            Some(character) => Err(EngineError::Unspelled { character }),
            None => Ok(tokens),
        }
    }

    fn beginning_of_text(&self) -> Option<TokenId> {
        self.vocabulary.bos().filter(|_| self.adds_bos).map(TokenId)
    }

    fn bos_token(&self) -> Option<TokenId> {
        self.vocabulary.bos().map(TokenId)
    }

    fn eos_token(&self) -> Option<TokenId> {
        self.vocabulary.eos().map(TokenId)
    }

    fn chat_template(&self) -> Option<&str> {
        self.chat_template.as_deref()
    }
}
