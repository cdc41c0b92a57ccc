//! The contract between sampling stages and everything that runs them.
//!
//! * A [`Sampler`] is a stage at run time: it edits the [`Candidates`].
//! * A [`Stage`] is a stage as a user writes it: a name and parameters that
//!   build a [`Sampler`].
//! * A [`Registry`] finds a stage by name; [`register_stage!`] puts one in.
//! * A [`ChainConfig`] is a chain as data, from a file or a list; it builds a
//!   [`Chain`], which turns logits into a token.
//!
//! ```
//! use logitchain_core::*;
//! # #[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
//! # struct First {}
//! # impl Sampler for First { fn apply(&mut self, c: &mut Candidates<'_>) { c.choose(c.best().id); } }
//! # impl Stage for First {
//! #     const NAME: &'static str = "first";
//! #     const KIND: Kind = Kind::Select;
//! #     fn build(self, _: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> { Ok(Box::new(self)) }
//! # }
//! let registry = Registry::default().with::<First>()?;
//! let mut chain = ChainConfig::from_samplers("first")?.build(&registry, &NoVocab)?;
//! assert_eq!(chain.to_string(), "logits -> first");
//! assert_eq!(chain.sample(&mut [0.5, 2.0, 1.0])?, TokenId(1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! This crate knows no model, no tokenizer and no stage.

mod batch;
mod candidates;
mod chain;
mod chain_file;
mod config;
mod error;
mod kernels;
mod list;
mod param;
mod registry;
mod rng;
mod sampler;
mod schema;
pub mod speculative;
mod stage;
mod token;
mod trace;

pub use crate::{
    batch::{Batch, BatchError},
    candidates::{Candidate, Candidates, Scratch},
    chain::{Chain, Link},
    config::{ChainConfig, StageConfig},
    error::{ChainError, ParamError, Place, SampleError, StageError, StagePlace},
    param::{Param, ParamKind},
    registry::{Built, Registration, Registry},
    rng::{RngKind, Seed, SeedError, StageRng},
    sampler::{CloneSampler, Sampler},
    stage::{BuildContext, Kind, Stage},
    token::{NoVocab, TokenId, Vocab},
    trace::{
        CandidatesReport, Change, ChangeReport, Coin, CompareError, Cut, Distribution,
        DistributionError, Draw, Fate, OrderDiff, Parting, RunDiff, Snapshot, Spread, StageReport,
        StageTrace, Step, TokenReport, Trace, TraceReport, TracedToken, compare, compare_run,
    },
};

#[doc(hidden)]
pub mod __private {
    pub use inventory;
}
