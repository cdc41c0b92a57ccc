//! A CPU engine: models, tokenizers, and the decode loop.

mod embedded;
mod error;
mod gguf;
mod model;
mod tokenizer;

pub use crate::{
    embedded::EMBEDDED_GGUF,
    error::EngineError,
    gguf::{Gguf, GgufError, TensorInfo, TensorType},
    model::{Model, Special, Tokenizer},
    tokenizer::{GgufTokenizer, TokenizerError},
};
