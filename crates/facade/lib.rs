//! Sampler chains for language models: a chain is a list of stages that turns a
//! model's scores into one token, and the list is yours.
//!
//! This crate puts the parts together: all of the crate `logitchain_core` at
//! the top, the built-in [`stages`], and a CPU [`engine`] with a small model.
//! `cargo doc --workspace --no-deps` documents them all, with links between them.
//!
//! ```
//! use logitchain::{
//!     ChainConfig, Registry,
//!     engine::{GenerateOptions, Generation, GgufModel, Special, prompt_tokens},
//! };
//!
//! let model = GgufModel::embedded();
//! let config = ChainConfig::from_samplers("top_k{k=40};temperature{t=0.8}")?;
//! let mut chain = config.build(&Registry::linked()?, model.tokenizer())?;
//! assert_eq!(chain.to_string(), "logits -> top-k -> temp-ext -> dist");
//!
//! let prompt = prompt_tokens(model.tokenizer(), "In the beginning", Special::Plain)?;
//! let options = GenerateOptions { max_tokens: Some(8), ..Default::default() };
//! let mut session = model.session();
//! let mut text = String::new();
//! for step in Generation::new(&mut session, &mut chain, &prompt, options)? {
//!     text += &step?.text;
//! }
//! assert!(!text.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A program that names this crate has the built-in stages in its
//! [`Registry::linked`]. Those of another crate join with `use its_name as _;`.

#![forbid(unsafe_code)]

pub use logitchain_core::*;

/// The built-in stages.
pub mod stages {
    pub use logitchain_stages::*;
}

/// Models, tokenizers, and the decode loop.
pub mod engine {
    pub use logitchain_engine::*;
}

/// The programs of the README compile and run.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
