use std::{
    fs::{self, File},
    io::{self, BufWriter, Write as _},
    path::{Path, PathBuf},
};

use logitchain_core::{Snapshot, StageTrace, TokenId, Trace, Vocab};
use serde::Serialize;

use crate::{output, report::Failure, signals, watched::Seen};

/// A file with a line of JSON for every token.
#[derive(Debug)]
pub(crate) struct TraceLog {
    path: PathBuf,
    file: BufWriter<File>,
    step: usize,
    /// Whether the file is a new one that says nothing yet.
    is_bare: bool,
}

/// What is written of a token.
#[derive(Debug, Serialize)]
struct Line {
    /// From 1.
    step: usize,
    id: Option<TokenId>,
    text: Option<String>,
    /// As the model gave it.
    model_probability: Option<f64>,
    /// After all stages.
    probability: Option<f64>,
    stages: Vec<Stage>,
    /// Of all stages, in microseconds.
    us: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// A stage that ran.
#[derive(Debug, Serialize)]
struct Stage {
    /// In the chain, from 1.
    position: usize,
    name: &'static str,
    /// How many candidates there were.
    before: usize,
    after: usize,
    us: f64,
}

impl TraceLog {
    /// Begins a file; one that is there is not replaced.
    pub(crate) fn create(path: &Path) -> Result<Self, Failure> {
        let created = File::create_new(path);
        let is_bare = created.is_ok();
        let file = match created {
            // A terminal or a pipe has nothing to lose.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && !path.is_file() => {
                File::options().write(true).open(path)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(Failure::Usage(format!(
                    "--trace: '{}' is there already; remove it, or name another file",
                    path.display()
                )));
            }
            file => file,
        };
        let file = file.map_err(|source| output::write_failure(path, source))?;
        if is_bare {
            signals::remove_file(path);
        }
        Ok(Self { path: path.into(), file: BufWriter::new(file), step: 0, is_bare })
    }

    /// The text has begun, or is over: the file stays, as short as it may be.
    pub(crate) fn keep(&mut self) {
        if std::mem::take(&mut self.is_bare) {
            signals::keep_file(&self.path);
        }
    }

    /// Writes the line of the last token.
    pub(crate) fn write_seen(&mut self, seen: &Seen, vocab: &dyn Vocab) -> Result<(), Failure> {
        seen.trace.as_ref().map_or(Ok(()), |trace| self.write(trace, vocab))
    }

    /// Writes the line of the token with which a text failed, if it did.
    pub(crate) fn write_failed<T>(
        &mut self,
        text: &Result<T, Failure>,
        seen: &Seen,
        vocab: &dyn Vocab,
    ) -> Result<(), Failure> {
        match text {
            Err(Failure::Sample { .. }) => self.write_seen(seen, vocab),
            _ => Ok(()),
        }
    }

    /// Writes the line of a token, whole and at once.
    fn write(&mut self, trace: &Trace, vocab: &dyn Vocab) -> Result<(), Failure> {
        self.keep();
        self.step += 1;
        let line = Line::new(self.step, trace, vocab);
        let line = serde_json::to_string(&line).expect("numbers, texts and lists are JSON");
        let written = writeln!(self.file, "{line}").and_then(|()| self.file.flush());
        written.map_err(|source| output::write_failure(&self.path, source))
    }
}

/// A text that could not be begun leaves no empty file, which would be in the way of the
/// next.
impl Drop for TraceLog {
    fn drop(&mut self) {
        if self.is_bare {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Line {
    fn new(step: usize, trace: &Trace, vocab: &dyn Vocab) -> Self {
        let (id, error) = match trace.outcome() {
            Ok(token) => (Some(*token), None),
            Err(error) => (None, Some(error.to_string())),
        };
        let end = trace.draw().map_or(trace.end(), |draw| draw.candidates());
        let probability = |at: &Snapshot| Some(at.get(id?)?.probability);
        let run: Vec<&StageTrace> = trace.stages().iter().filter(|s| !s.is_neutral()).collect();
        let micros = |stage: &StageTrace| stage.time().as_nanos() as f64 / 1e3;
        Self {
            step,
            id,
            text: id.map(|id| String::from_utf8_lossy(vocab.bytes(id)).into_owned()),
            model_probability: probability(trace.start()),
            probability: probability(end),
            us: run.iter().map(|stage| micros(stage)).sum(),
            stages: run
                .into_iter()
                .map(|stage| Stage {
                    position: stage.place().position,
                    name: stage.place().name,
                    before: stage.before().len(),
                    after: stage.after().len(),
                    us: micros(stage),
                })
                .collect(),
            error,
        }
    }
}
