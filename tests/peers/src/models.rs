//! The models that both programs load.

use std::path::PathBuf;

use logitchain_engine::{Gguf, GgufTokenizer};

use crate::{llama::Model, vocab::LlamaVocab};

/// The model that is part of logitchain, as a file.
pub fn embedded() -> PathBuf {
    repository().join("crates/engine/models/logitchain-tiny-f16.gguf")
}

/// SmolLM2-135M-Instruct in Q4_1, which is not part of the repository: the file
/// that `LOGITCHAIN_SMOLLM2` names, or where `.ci/models` puts it.
pub fn smollm2() -> PathBuf {
    let fetched = || repository().join(".cache/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf");
    std::env::var_os("LOGITCHAIN_SMOLLM2").map_or_else(fetched, PathBuf::from)
}

/// Gemma 3 270M in `Q4_K_M`, which is not part of the repository: the file that
/// `LOGITCHAIN_GEMMA3` names, or where `.ci/models` puts it.
pub fn gemma3() -> PathBuf {
    let fetched = || repository().join(".cache/gemma3/gemma-3-270m-q4_k_m.gguf");
    std::env::var_os("LOGITCHAIN_GEMMA3").map_or_else(fetched, PathBuf::from)
}

fn repository() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "..", ".."].iter().collect()
}

/// How many tokens to generate: `LOGITCHAIN_TOKENS`, or as many as fit a test.
///
/// # Panics
///
/// If it is no number.
pub fn tokens_or(default: usize) -> usize {
    std::env::var("LOGITCHAIN_TOKENS").map_or(default, |n| n.parse().expect("a number of tokens"))
}

/// logitchain's tokenizer of a file.
///
/// # Panics
///
/// If it cannot read it.
pub fn tokenizer(path: &std::path::Path) -> GgufTokenizer {
    let gguf = Gguf::open(path).unwrap_or_else(|e| panic!("{e}"));
    GgufTokenizer::from_gguf(&gguf).unwrap_or_else(|e| panic!("{e}"))
}

/// The words of a file in both programs.
#[derive(Debug)]
pub struct Words<'a> {
    /// By logitchain's tokenizer.
    pub ours: GgufTokenizer,
    /// By llama.cpp's.
    pub theirs: LlamaVocab<'a>,
}

impl<'a> Words<'a> {
    /// Reads a file that llama.cpp has loaded as `model`.
    pub fn of(path: &std::path::Path, model: &'a Model) -> Self {
        Self { ours: tokenizer(path), theirs: LlamaVocab::of(model) }
    }
}
