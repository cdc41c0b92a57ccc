use std::mem;

use super::{
    TokenizerError, TokenizerSpec, error::cut, spec::FillInTheMiddle, spellings::Spellings,
    texts::Texts,
};

/// A token's type in a GGUF file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A piece of text.
    Normal,
    /// Stands for what no token spells.
    Unknown,
    /// Not text: its printed form counts only where special tokens are parsed.
    Control,
    /// A piece of text that is cut out before anything else.
    UserDefined,
    /// A piece of text that the model never saw.
    Unused,
    /// One byte, written `<0xNN>`.
    Byte,
}

impl Kind {
    fn from_gguf(token: u32, found: i32) -> Result<Self, TokenizerError> {
        Ok(match found {
            0 | 1 => Self::Normal,
            2 => Self::Unknown,
            3 => Self::Control,
            4 => Self::UserDefined,
            5 => Self::Unused,
            6 => Self::Byte,
            _ => return Err(TokenizerError::TokenType { token, found }),
        })
    }

    /// Whether the printed form is not text.
    pub(super) fn is_special(self) -> bool {
        matches!(self, Self::Control | Self::Unknown)
    }
}

/// Texts that end a generation although the file names another token, or none.
/// The first that is there also ends a turn, if no other token is named for it.
const END_MARKERS: [&str; 22] = [
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "<｜end▁of▁sentence｜>",
    "<|eom_id|>",
    "<|return|>",
    "<|call|>",
    "<|calls|>",
    "<|flush|>",
    "<end_of_utterance>",
    "</s>",
    "<eos>",
    "[EOS]",
    "<turn|>",
    "<|tool_response>",
    "[e~[",
];
/// How many of the end markers may end a turn.
const TURN_MARKERS: usize = 10;

/// A token of a model that fills gaps: the texts by which it is found where its
/// key is missing.
struct FimToken {
    key: &'static str,
    id: fn(&FillInTheMiddle) -> Option<u32>,
    /// Padding, and what stands between the files of a repository: a model that
    /// fills a gap has come to the end of its own.
    ends: bool,
    texts: &'static [&'static str],
}

const FIM_TOKENS: [FimToken; 6] = [
    FimToken {
        key: TokenizerSpec::FIM_PREFIX,
        id: |fim| fim.prefix,
        ends: false,
        texts: &[
            "<|fim_prefix|>",
            "<fim-prefix>",
            "<fim_prefix>",
            "<｜fim▁begin｜>",
            "<PRE>",
            "▁<PRE>",
            "<|code_prefix|>",
            "<|prefix|>",
        ],
    },
    FimToken {
        key: TokenizerSpec::FIM_SUFFIX,
        id: |fim| fim.suffix,
        ends: false,
        texts: &[
            "<|fim_suffix|>",
            "<fim-suffix>",
            "<fim_suffix>",
            "<｜fim▁hole｜>",
            "<SUF>",
            "▁<SUF>",
            "<|code_suffix|>",
            "<|suffix|>",
        ],
    },
    FimToken {
        key: TokenizerSpec::FIM_MIDDLE,
        id: |fim| fim.middle,
        ends: false,
        texts: &[
            "<|fim_middle|>",
            "<fim-middle>",
            "<fim_middle>",
            "<｜fim▁end｜>",
            "<MID>",
            "▁<MID>",
            "<|code_middle|>",
            "<|middle|>",
        ],
    },
    FimToken {
        key: TokenizerSpec::FIM_PADDING,
        id: |fim| fim.padding,
        ends: true,
        texts: &["<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"],
    },
    FimToken {
        key: TokenizerSpec::FIM_REPOSITORY,
        id: |fim| fim.repository,
        ends: true,
        texts: &["<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"],
    },
    FimToken {
        key: TokenizerSpec::FIM_SEPARATOR,
        id: |fim| fim.separator,
        ends: true,
        texts: &["<|file_sep|>"],
    },
];

/// The tokens of a file, checked.
#[derive(Debug)]
pub(super) struct Vocabulary {
    texts: Texts,
    spellings: Spellings,
    kinds: Vec<Kind>,
    bos: Option<u32>,
    eos: Option<u32>,
    unknown: Option<u32>,
    end_of_turn: Option<u32>,
    ends: Vec<u32>,
}

impl Vocabulary {
    /// Checks the tokens, and takes them; `decode` appends the bytes of a normal
    /// one.
    pub(super) fn new(
        spec: &mut TokenizerSpec,
        decode: impl Fn(&str, &mut Vec<u8>),
    ) -> Result<Self, TokenizerError> {
        let texts = Texts::new(mem::take(&mut spec.tokens))?;
        let size = texts.size();
        let mut kinds = vec![Kind::Normal; size as usize];
        if let Some(types) = &spec.types {
            if types.len() != kinds.len() {
                let (key, found, expected) = (TokenizerSpec::TYPES, types.len(), kinds.len());
                return Err(TokenizerError::Length { key, found, expected });
            }
            for ((token, kind), &of_gguf) in (0..).zip(&mut kinds).zip(types) {
                *kind = Kind::from_gguf(token, of_gguf)?;
                if *kind == Kind::Byte && byte_of(texts.get(token)).is_none() {
                    let text = cut(texts.get(token));
                    return Err(TokenizerError::ByteToken { token, text });
                }
            }
        }

        let check = |key, id: Option<u32>| match id {
            Some(found) if found >= size => {
                Err(TokenizerError::IdOutOfRange { key, found, last: size - 1 })
            }
            id => Ok(id),
        };
        let bos = check(TokenizerSpec::BOS, spec.bos)?;
        let eos = check(TokenizerSpec::EOS, spec.eos)?;
        let eot = check(TokenizerSpec::EOT, spec.eot)?;
        let unknown = check(TokenizerSpec::UNKNOWN, spec.unknown)?;
        let marker = |text: &&str| texts.id(text.as_bytes());
        let markers: Vec<u32> = END_MARKERS.iter().filter_map(marker).collect();
        for &end in &markers {
            // Some files call them normal: what a user types must not end a text.
            kinds[end as usize] = Kind::Control;
        }
        let eom = check(TokenizerSpec::EOM, spec.eom)?;
        let mut ends: Vec<u32> = [eos, eot, eom].into_iter().flatten().chain(markers).collect();
        for FimToken { key, id, ends: is_end, texts } in FIM_TOKENS {
            let found: Vec<u32> = match check(key, id(&spec.fim))? {
                Some(id) => vec![id],
                None => {
                    let found: Vec<u32> = texts.iter().filter_map(marker).collect();
                    found.iter().for_each(|&id| kinds[id as usize] = Kind::Control);
                    found
                }
            };
            ends.extend(found.into_iter().filter(|_| is_end));
        }
        let end_of_turn =
            eot.or_else(|| END_MARKERS[..TURN_MARKERS].iter().find_map(marker)).or(eos);

        let untyped = spec.types.is_none();
        let mut spellings = Spellings::with_capacity(kinds.len(), texts.total_bytes());
        for (text, kind) in texts.iter().zip(&kinds) {
            let byte = match kind {
                Kind::Byte => byte_of(text),
                Kind::Normal if untyped => byte_of(text),
                _ => None,
            };
            spellings.push(|bytes| match (byte, kind) {
                (Some(byte), _) => bytes.push(byte),
                (None, Kind::Normal | Kind::Unused) => decode(text, bytes),
                (None, _) => bytes.extend_from_slice(text.as_bytes()),
            });
        }
        spellings.shrink_to_fit();
        Ok(Self { texts, spellings, kinds, bos, eos, unknown, end_of_turn, ends })
    }

    pub(super) fn size(&self) -> usize {
        self.kinds.len()
    }

    /// The token of that text in the file.
    pub(super) fn id(&self, text: &[u8]) -> Option<u32> {
        self.texts.id(text)
    }

    /// The token of that text in the file, unless it is special.
    pub(super) fn plain_id(&self, text: &[u8]) -> Option<u32> {
        self.id(text).filter(|&id| !self.is_special(id))
    }

    /// The bytes that a token stands for; none for an id out of range.
    pub(super) fn bytes(&self, id: u32) -> &[u8] {
        self.spellings.get(id)
    }

    pub(super) fn is_special(&self, id: u32) -> bool {
        self.kinds.get(id as usize).is_some_and(|kind| kind.is_special())
    }

    /// The type of a token that exists.
    pub(super) fn kind(&self, id: u32) -> Kind {
        self.kinds[id as usize]
    }

    pub(super) fn ends_generation(&self, id: u32) -> bool {
        self.ends.contains(&id)
    }

    pub(super) fn end_of_turn(&self) -> Option<u32> {
        self.end_of_turn
    }

    pub(super) fn bos(&self) -> Option<u32> {
        self.bos
    }

    pub(super) fn eos(&self) -> Option<u32> {
        self.eos
    }

    pub(super) fn unknown(&self) -> Option<u32> {
        self.unknown
    }

    /// The tokens that count by their printed form, with that and their types.
    pub(super) fn printed_forms(&self) -> impl Iterator<Item = (u32, &str, Kind)> {
        let counts = |kind: Kind| kind.is_special() || kind == Kind::UserDefined;
        let tokens = (0..).zip(&self.kinds).filter(move |&(_, &kind)| counts(kind));
        tokens.map(|(id, &kind)| (id, self.texts.get(id), kind))
    }
}

/// The byte that `<0xNN>` stands for.
fn byte_of(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
    let hexadecimal = digits.len() == 2 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    hexadecimal.then(|| u8::from_str_radix(digits, 16).ok()).flatten()
}
