use crate::{tokenizer, transformer, weights};

/// What GGUF files the engine runs, from the tables that decide it.
///
/// ```
/// let supported = logitchain_engine::Supported::new();
/// assert!(supported.architectures.iter().any(|(name, _)| *name == "llama"));
/// assert!(supported.weight_types.iter().any(|name| name == "Q8_0"));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Supported {
    /// Values of `general.architecture`, and well-known models that have them.
    pub architectures: Vec<(&'static str, &'static str)>,
    /// Names of tensor types.
    pub weight_types: Vec<String>,
    /// Values of `tokenizer.ggml.model`, with what kind of tokenizer it is and,
    /// where there is a choice, the values of `tokenizer.ggml.pre`.
    pub tokenizers: Vec<(&'static str, &'static str, Vec<&'static str>)>,
}

impl Supported {
    /// The tables of this version.
    #[allow(clippy::new_without_default, reason = "it is no value that could be otherwise")]
    pub fn new() -> Self {
        let architectures = transformer::KNOWN.map(|known| (known.name, known.models));
        let weight_types = weights::format_names();
        Self {
            architectures: architectures.to_vec(),
            weight_types: weight_types.split(", ").map(str::to_owned).collect(),
            tokenizers: vec![
                ("gpt2", "byte-level BPE", tokenizer::pre_tokenizer_names()),
                ("llama", "SentencePiece with scores", vec![]),
            ],
        }
    }
}
