//! A CPU engine: models, tokenizers, and the decode loop.

mod error;
mod model;

pub use crate::{
    error::EngineError,
    model::{Model, Special, Tokenizer},
};
