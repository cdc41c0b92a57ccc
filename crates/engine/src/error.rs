use std::{io, path::PathBuf};

use logitchain_core::TokenId;
use thiserror::Error;

use crate::{GgufError, LoadError, TokenizerError};

/// Why a model could not be loaded or run.
///
/// `Display` leaves the cause to `source`.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EngineError {
    /// A call to a model gave it no tokens.
    #[error("no tokens to evaluate; a text needs at least one")]
    NoTokens,

    /// A token that the model does not have.
    #[error("the model has no token {token}; ids are below {size}")]
    UnknownToken {
        /// The token.
        token: TokenId,
        /// Number of tokens.
        size: usize,
    },

    /// A text is longer than the model can read.
    #[error("{tokens} more tokens do not fit: {left} of the model's {context} positions are left")]
    ContextFull {
        /// How many were to be appended.
        tokens: usize,
        /// How many would fit.
        left: usize,
        /// The model's limit.
        context: usize,
    },

    /// The system does not give the threads that were asked for.
    #[error("cannot start {count} threads")]
    Threads {
        /// How many.
        count: usize,
        /// Why not.
        source: rayon::ThreadPoolBuildError,
    },

    /// A model that cannot be run.
    #[error(transparent)]
    Load(#[from] LoadError),

    /// A model's file cannot be read.
    #[error("cannot open the model '{}'", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },

    /// A model's file is not what it should be.
    #[error(transparent)]
    Gguf(#[from] GgufError),

    /// A model's file has a tokenizer that cannot be used.
    #[error("the model's tokenizer cannot be used")]
    Tokenizer(#[from] TokenizerError),
}
