use std::{io, path::PathBuf};

use thiserror::Error;

use crate::{GgufError, TokenizerError};

/// Why a model could not be loaded or run.
///
/// `Display` leaves the cause to `source`.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EngineError {
    /// A call to a model gave it no tokens.
    #[error("no tokens to evaluate; a text needs at least one")]
    NoTokens,

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
