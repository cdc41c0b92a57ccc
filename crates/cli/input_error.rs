//! Why there is no text where users should have written one.

use std::io;

use thiserror::Error;

/// How long a text may be. A device or a pipe has no length to look at first,
/// so that all texts are read up to here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    pub(crate) mb: u64,
    pub(crate) what: &'static str,
}

/// Why there is no text.
#[derive(Debug, Error)]
pub(crate) enum InputError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("it is a folder")]
    Folder,
    #[error("it is a pipe or a device, and is read here and there; save it to a file first")]
    NotPlain,
    #[error("it is longer than {} MB, the most that {} may have", .0.mb, .0.what)]
    TooLong(Limit),
    /// The byte is counted from 0, the line from 1.
    #[error("byte {byte}, in line {line}, is not UTF-8")]
    NotUtf8 { byte: usize, line: usize },
}
