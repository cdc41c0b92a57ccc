//! A CPU engine: models, tokenizers, and the decode loop.

mod embedded;
mod error;
mod gguf;
mod llama;
mod load_error;
mod math;
mod model;
mod session;
mod threads;
mod tokenizer;
mod weights;

pub use crate::{
    embedded::EMBEDDED_GGUF,
    error::EngineError,
    gguf::{Gguf, GgufError, TensorInfo, TensorType},
    load_error::LoadError,
    model::{Model, Special, Tokenizer},
    session::{GgufModel, LoadOptions, Session},
    tokenizer::{GgufTokenizer, TokenizerError},
};
