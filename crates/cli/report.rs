//! What went wrong, in one line.

use std::{borrow::Cow, error::Error, io, path::PathBuf, process::ExitCode};

use logitchain_core::{ChainError, CompareError, DistributionError, SampleError, StageError};
use logitchain_engine::EngineError;
use thiserror::Error;

use crate::{input_error::InputError, logits_error::LogitsError};

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
    /// In a stage that a flag has put into the chain: it has no place in what
    /// the user wrote.
    #[error(transparent)]
    Param(#[from] StageError),
    #[error("cannot read '{}'", path.display())]
    Read { path: PathBuf, source: InputError },
    #[error("the logits of '{}'", path.display())]
    Logits { path: PathBuf, source: LogitsError },
    /// A command line that clap cannot see through.
    #[error("{0}")]
    Usage(String),
    /// All of it has been reported already.
    #[error("{wrong} of {all} chain files are wrong")]
    Checked { wrong: usize, all: usize },
    /// A line of a batch.
    #[error("{file}: line {line}")]
    Line { file: String, line: usize, source: Box<Self> },
    /// The results say why.
    #[error("{failed} of {all} texts failed; their results say why")]
    Texts { failed: usize, all: usize },
    /// All of it has been reported already.
    #[error("{failed} of {all} texts failed")]
    Samples { failed: usize, all: usize },
    #[error("'{}' cannot go on with these requests: {problem}", path.display())]
    Resume { path: PathBuf, problem: String },
    #[error("cannot open the model '{}'", path.display())]
    OpenModel { path: PathBuf, source: InputError },
    #[error("the model '{}'", path.display())]
    Model { path: PathBuf, source: Box<EngineError> },
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Tokens are counted from 1.
    #[error("cannot pick token {nth} of the text")]
    Sample { nth: usize, source: SampleError },
    #[error(transparent)]
    Compare(#[from] CompareError),
    #[error("`{setting}`")]
    Setting { setting: String, source: Box<Self> },
    #[error(
        "the model has no chat template, so it cannot chat: continue texts with `run`, or give a \
         model that has one with -m"
    )]
    NoChatTemplate,
    /// Tokens are counted from 1.
    #[error("no probabilities are known of token {nth} of the text")]
    Law { nth: usize, source: DistributionError },
    #[error("cannot write the output")]
    Write(#[source] io::Error),
    #[error("cannot write '{}'", path.display())]
    WriteFile { path: PathBuf, source: io::Error },
    #[error("cannot use the terminal")]
    Terminal(#[source] io::Error),
    #[error("cannot read stdin")]
    Stdin(#[source] InputError),
}

impl Failure {
    /// 2 for what the user wrote, 1 for what happened.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Setting { source, .. } => source.exit_code(),
            Self::Model { source, .. } if is_missing(source) => ExitCode::from(2),
            Self::Engine(
                EngineError::EmptyStop
                | EngineError::TooManyThreads { .. }
                | EngineError::Open { .. },
            )
            | Self::OpenModel { .. }
            | Self::Chain(_)
            | Self::ChainFile { .. }
            | Self::Flag { .. }
            | Self::Param(_)
            | Self::Stdin(InputError::TooLong(_) | InputError::NotUtf8 { .. })
            | Self::Read { .. }
            | Self::Logits { .. }
            | Self::Usage(_)
            | Self::Line { .. }
            | Self::Resume { .. }
            | Self::Checked { .. } => ExitCode::from(2),
            Self::Model { .. }
            | Self::Engine(_)
            | Self::Sample { .. }
            | Self::Compare(_)
            | Self::NoChatTemplate
            | Self::Law { .. }
            | Self::Texts { .. }
            | Self::Samples { .. }
            | Self::Write(_)
            | Self::WriteFile { .. }
            | Self::Terminal(_)
            | Self::Stdin(_) => ExitCode::FAILURE,
        }
    }

    pub(crate) fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Write(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// Whether a file of a model cannot be opened.
fn is_missing(error: &EngineError) -> bool {
    match error {
        EngineError::Part { source, .. } => is_missing(source),
        error => matches!(error, EngineError::Open { .. }),
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
    short(&line).replace(char::is_control, "\u{FFFD}")
}

/// What a user wrote is repeated up to so many characters,
const QUOTE: usize = 200;

/// and no message is longer than this, whatever it repeats.
const LINE: usize = 1200;

/// A message without most of a text that it quotes at length.
fn short(line: &str) -> String {
    let parts = line.split('`').enumerate();
    // Every other part stands between backquotes.
    let parts =
        parts.map(|(nth, part)| if nth % 2 == 1 { cut(part, QUOTE, 0) } else { part.into() });
    // The end is kept as well: it says what would be right.
    cut(&parts.collect::<Vec<_>>().join("`"), 2 * LINE / 3, LINE / 3).into_owned()
}

/// So many characters from the beginning of a text and from its end, if it has
/// more.
fn cut(text: &str, head: usize, tail: usize) -> Cow<'_, str> {
    let length = text.chars().count();
    if length <= head + tail {
        return text.into();
    }
    let start: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(length - tail).collect();
    format!("{start}…{end}").into()
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

    #[test]
    fn long_quotes_and_long_messages_are_cut() {
        let long = "ä".repeat(5000);
        let quoted = short(&format!("`{long}` is no `stage`"));
        assert_eq!(quoted, format!("`{}…` is no `stage`", "ä".repeat(QUOTE)));
        let line = short(&format!("{long} is none; write one"));
        assert_eq!(line.chars().count(), LINE + 1);
        assert!(line.ends_with("ä is none; write one"), "{line}");
        assert_eq!(short("`a` is short"), "`a` is short");
    }
}
