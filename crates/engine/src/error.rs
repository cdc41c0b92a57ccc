use thiserror::Error;

/// Why a model could not be loaded or run.
///
/// `Display` leaves the cause to `source`.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EngineError {
    /// A call to a model gave it no tokens.
    #[error("no tokens to evaluate; a text needs at least one")]
    NoTokens,
}
