use super::TokenizerError;
use crate::{EngineError, Gguf, gguf::StringArray};

/// What a file says about its tokenizer, unchecked.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct TokenizerSpec {
    /// The model's.
    pub(super) name: Option<String>,
    pub(super) model: String,
    pub(super) pre: Option<String>,
    pub(super) tokens: StringArray,
    pub(super) types: Option<Vec<i32>>,
    pub(super) scores: Option<Vec<f32>>,
    pub(super) merges: Option<StringArray>,
    pub(super) bos: Option<u32>,
    pub(super) eos: Option<u32>,
    pub(super) eot: Option<u32>,
    pub(super) eom: Option<u32>,
    pub(super) fim: FillInTheMiddle,
    pub(super) unknown: Option<u32>,
    pub(super) add_bos: Option<bool>,
    pub(super) add_space_prefix: Option<bool>,
    pub(super) chat_template: Option<String>,
}

/// The tokens of a model that fills a gap in a text.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FillInTheMiddle {
    pub(super) prefix: Option<u32>,
    pub(super) suffix: Option<u32>,
    pub(super) middle: Option<u32>,
    pub(super) padding: Option<u32>,
    pub(super) repository: Option<u32>,
    pub(super) separator: Option<u32>,
}

impl TokenizerSpec {
    pub(super) const MODEL: &str = "tokenizer.ggml.model";
    pub(super) const TOKENS: &str = "tokenizer.ggml.tokens";
    pub(super) const TYPES: &str = "tokenizer.ggml.token_type";
    pub(super) const SCORES: &str = "tokenizer.ggml.scores";
    pub(super) const MERGES: &str = "tokenizer.ggml.merges";
    pub(super) const BOS: &str = "tokenizer.ggml.bos_token_id";
    pub(super) const EOS: &str = "tokenizer.ggml.eos_token_id";
    pub(super) const EOT: &str = "tokenizer.ggml.eot_token_id";
    pub(super) const EOM: &str = "tokenizer.ggml.eom_token_id";
    pub(super) const FIM_PREFIX: &str = "tokenizer.ggml.fim_pre_token_id";
    pub(super) const FIM_SUFFIX: &str = "tokenizer.ggml.fim_suf_token_id";
    pub(super) const FIM_MIDDLE: &str = "tokenizer.ggml.fim_mid_token_id";
    pub(super) const FIM_PADDING: &str = "tokenizer.ggml.fim_pad_token_id";
    pub(super) const FIM_REPOSITORY: &str = "tokenizer.ggml.fim_rep_token_id";
    pub(super) const FIM_SEPARATOR: &str = "tokenizer.ggml.fim_sep_token_id";
    pub(super) const UNKNOWN: &str = "tokenizer.ggml.unknown_token_id";

    pub(super) fn from_gguf(gguf: &Gguf) -> Result<Self, EngineError> {
        let missing = |key| TokenizerError::MissingKey { key };
        let string = |key| Ok::<_, EngineError>(gguf.string(key)?.map(str::to_owned));
        // Some writers say "none" with -1.
        let id = |key| Ok::<_, EngineError>(gguf.u32(key)?.filter(|&id| id != u32::MAX));
        Ok(Self {
            name: string("general.name")?,
            model: string(Self::MODEL)?.ok_or_else(|| missing(Self::MODEL))?,
            pre: string("tokenizer.ggml.pre")?,
            tokens: gguf.string_array(Self::TOKENS)?.ok_or_else(|| missing(Self::TOKENS))?,
            types: gguf.i32s(Self::TYPES)?,
            scores: gguf.f32s(Self::SCORES)?,
            merges: gguf.string_array(Self::MERGES)?,
            bos: id(Self::BOS)?,
            eos: id(Self::EOS)?,
            eot: id(Self::EOT)?,
            eom: id(Self::EOM)?,
            // The second keys are older.
            fim: FillInTheMiddle {
                prefix: id(Self::FIM_PREFIX)?.or(id("tokenizer.ggml.prefix_token_id")?),
                suffix: id(Self::FIM_SUFFIX)?.or(id("tokenizer.ggml.suffix_token_id")?),
                middle: id(Self::FIM_MIDDLE)?.or(id("tokenizer.ggml.middle_token_id")?),
                padding: id(Self::FIM_PADDING)?,
                repository: id(Self::FIM_REPOSITORY)?,
                separator: id(Self::FIM_SEPARATOR)?,
            },
            unknown: id(Self::UNKNOWN)?,
            add_bos: gguf.bool("tokenizer.ggml.add_bos_token")?,
            add_space_prefix: gguf.bool("tokenizer.ggml.add_space_prefix")?,
            chat_template: string("tokenizer.chat_template")?,
        })
    }
}
