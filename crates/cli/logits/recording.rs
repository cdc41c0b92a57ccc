use std::{
    fs::File,
    io::{Read as _, Seek as _},
    path::{Path, PathBuf},
};

use logitchain_core::TokenId;

use super::{metadata::Notes, npy, rows::Rows, safetensors};
use crate::{input, logits_error::LogitsError, model_args::EMBEDDED, report::Failure};

/// The logits of every step of a text, and what is known of the text.
#[derive(Debug)]
pub(crate) struct Recording {
    /// `None` for what was typed.
    path: Option<PathBuf>,
    logits: Source,
    notes: Notes,
}

#[derive(Debug)]
enum Source {
    Typed(Vec<f32>),
    File(Rows),
}

impl Recording {
    pub(super) fn typed(logits: Vec<f32>) -> Self {
        Self { path: None, logits: Source::Typed(logits), notes: Notes::default() }
    }

    /// Opens a file, and reads all but its logits.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let (rows, notes) = open(path).map_err(|source| failure(path, source))?;
        Ok(Self { path: Some(path.into()), logits: Source::File(rows), notes })
    }

    /// How many steps there are; one at least.
    pub(crate) fn len(&self) -> usize {
        match &self.logits {
            Source::Typed(_) => 1,
            Source::File(rows) => rows.steps,
        }
    }

    /// How many logits each step has; one at least.
    pub(crate) fn vocabulary(&self) -> usize {
        match &self.logits {
            Source::Typed(logits) => logits.len(),
            Source::File(rows) => rows.vocabulary,
        }
    }

    /// The logits of a step, counted from 0; none is NaN or +inf.
    pub(crate) fn logits(&mut self, step: usize) -> Result<Vec<f32>, Failure> {
        match &mut self.logits {
            Source::Typed(logits) => Ok(logits.clone()),
            Source::File(rows) => rows
                .read(step)
                .map_err(|source| failure(self.path.as_deref().unwrap_or(Path::new("")), source)),
        }
    }

    /// The token that was chosen at a step, counted from 0, if it is known; it is
    /// known of all steps or of none.
    pub(crate) fn token(&self, step: usize) -> Option<TokenId> {
        self.notes.tokens.as_ref()?.get(step).copied()
    }

    /// The tokens before the first step.
    pub(crate) fn prompt(&self) -> &[TokenId] {
        &self.notes.prompt
    }

    /// Whether the model in the program gave these logits.
    pub(crate) fn is_of_embedded(&self) -> bool {
        self.notes.model.as_deref() == Some(EMBEDDED)
    }

    /// The stages that chose the tokens, as `--samplers` takes them, and their seed.
    pub(crate) fn chain(&self) -> Option<(&str, &str)> {
        self.notes.chain.as_ref().map(|(chain, seed)| (&**chain, &**seed))
    }

    /// As messages name it.
    pub(crate) fn place(&self) -> String {
        self.path.as_ref().map_or_else(|| "--logits".to_owned(), |p| format!("'{}'", p.display()))
    }
}

fn failure(path: &Path, source: LogitsError) -> Failure {
    Failure::Logits { path: path.into(), source }
}

fn open(path: &Path) -> Result<(Rows, Notes), LogitsError> {
    // Only in a plain file can a step be looked up.
    input::check_plain(path)?;
    let mut file = File::open(path)?;
    let mut start = Vec::new();
    (&file).take(8).read_to_end(&mut start)?;
    file.rewind()?;
    if start.starts_with(npy::MAGIC) {
        return Ok((npy::open(file)?, Notes::default()));
    }
    match start.try_into() {
        // The length of a header, which is JSON.
        Ok(length) if u64::from_le_bytes(length) <= safetensors::HEADER_LIMIT => {
            safetensors::open(file)
        }
        _ => Err(LogitsError::Format),
    }
}
