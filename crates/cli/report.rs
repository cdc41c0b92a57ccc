//! What went wrong, in one line.

use std::{error::Error, io, path::PathBuf, process::ExitCode};

use logitchain_core::{ChainError, SampleError};
use logitchain_engine::EngineError;
use thiserror::Error;

/// Why the program ends early.
///
/// As everywhere, `Display` leaves the cause to `source`.
#[derive(Debug, Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Chain(#[from] ChainError),
    #[error("{}", path.display())]
    ChainFile { path: PathBuf, source: Box<ChainError> },
    #[error("{flag}")]
    Flag { flag: String, source: Box<Self> },
    #[error("cannot read '{}'", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// A command line that clap cannot see through.
    #[error("{0}")]
    Usage(String),
    /// All of it has been reported already.
    #[error("{wrong} of {all} chain files are wrong")]
    Checked { wrong: usize, all: usize },
    #[error("the model '{}'", path.display())]
    Model { path: PathBuf, source: Box<EngineError> },
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Tokens are counted from 1.
    #[error("cannot pick token {nth} of the text")]
    Sample { nth: usize, source: SampleError },
    #[error(
        "the model has no chat template, so it cannot chat: continue texts with `run`, or give a \
         model that has one with -m"
    )]
    NoChatTemplate,
    #[error("cannot write the output")]
    Write(#[source] io::Error),
    #[error("cannot read stdin")]
    Stdin(#[source] io::Error),
}

impl Failure {
    /// 2 for what the user wrote, 1 for what happened.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Engine(EngineError::EmptyStop | EngineError::TooManyThreads { .. })
            | Self::Chain(_)
            | Self::ChainFile { .. }
            | Self::Flag { .. }
            | Self::Read { .. }
            | Self::Usage(_)
            | Self::Checked { .. } => ExitCode::from(2),
            Self::Model { .. }
            | Self::Engine(_)
            | Self::Sample { .. }
            | Self::NoChatTemplate
            | Self::Write(_)
            | Self::Stdin(_) => ExitCode::FAILURE,
        }
    }

    pub(crate) fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Write(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// An error and its causes, in one line.
pub(crate) fn line(error: &dyn Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        line = format!("{line}: {error}");
        cause = error.source();
    }
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    // A file's own words may be among them, and are not to steer a terminal.
    line.replace(char::is_control, "\u{FFFD}")
}

#[cfg(test)]
mod tests {
    use logitchain_core::ChainConfig;

    use super::*;

    #[test]
    fn causes_follow_in_one_line() {
        let source = "\n[[stage]\n".parse::<ChainConfig>().expect_err("not TOML");
        let failure = Failure::ChainFile { path: "a.toml".into(), source: source.into() };
        let line = line(&failure);
        assert!(line.starts_with("a.toml: line 2: not TOML: "), "{line}");
        assert!(!line.contains('\n') && !line.contains('^'), "{line}");
    }
}
