//! A CPU engine: models, tokenizers, and the decode loop.

mod chat;
mod embedded;
mod error;
mod generate;
mod gguf;
mod llama;
mod load_error;
mod math;
mod model;
mod ngram;
mod prompt;
mod session;
mod stop;
mod threads;
mod tokenizer;
mod utf8;
mod weights;

pub use crate::{
    chat::{ChatMessage, ChatTemplate},
    embedded::EMBEDDED_GGUF,
    error::EngineError,
    generate::{GenerateOptions, Generation, Step, StopReason, Timings, TokenPicker},
    gguf::{Gguf, GgufError, TensorInfo, TensorType},
    load_error::LoadError,
    model::{Model, Special, Tokenizer},
    ngram::NgramModel,
    prompt::prompt_tokens,
    session::{GgufModel, LoadOptions, Session},
    stop::StopStrings,
    tokenizer::{GgufTokenizer, TokenizerError},
    utf8::Utf8Stream,
};
