//! The built-in sampling stages, one file each, with llama.cpp's semantics.
//!
//! Linking this crate registers them all: `use logitchain_stages as _;`. Each
//! file's name, or its folder's, is the stage's name; where a stage differs from
//! llama.cpp, its documentation says so. [`differences`] has them all on a page.
//!
//! ```
//! use logitchain_core::{ChainConfig, NoVocab, Registry};
//! use logitchain_stages as _;
//!
//! let config = ChainConfig::from_samplers("top_k{k=2};temperature{t=0.5}")?;
//! let mut chain = config.build(&Registry::linked()?, &NoVocab)?;
//! assert_eq!(chain.to_string(), "logits -> top-k -> temp-ext -> dist");
//! let token = chain.sample(&mut [2.0, 1.2, 0.4, -0.6])?;
//! assert!(token.0 < 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod adaptive_p;
mod dist;
mod dry;
mod greedy;
mod infill;
mod logit_bias;
mod min_p;
mod mirostat;
mod mirostat_v2;
mod penalties;
mod temperature;
mod top_k;
mod top_n_sigma;
mod top_p;
mod typical;
mod window;
mod xtc;

#[doc = include_str!("differences.md")]
pub mod differences {}

pub use crate::{
    adaptive_p::AdaptiveP,
    dist::Dist,
    dry::Dry,
    greedy::Greedy,
    infill::Infill,
    logit_bias::{Bias, LogitBias},
    min_p::MinP,
    mirostat::Mirostat,
    mirostat_v2::MirostatV2,
    penalties::{Penalties, PenaltyOrder},
    temperature::Temperature,
    top_k::TopK,
    top_n_sigma::TopNSigma,
    top_p::TopP,
    typical::Typical,
    window::Window,
    xtc::Xtc,
};

/// The stages of llama.cpp's default chain, in its order; `dist` follows.
pub const DEFAULT_ORDER: &str = "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature";
