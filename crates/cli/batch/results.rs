//! The results of a batch: lines of JSON, on stdout or in a file that may hold some of
//! them already.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, BufRead, BufReader, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

use serde::de::IgnoredAny;

use crate::{output, report::Failure};

/// What is known of a result before it is there.
#[derive(Debug)]
pub(crate) struct Expected {
    /// As JSON.
    pub(crate) id: String,
    pub(crate) sample: Option<usize>,
    /// Of the request, its model and its chain.
    pub(crate) fingerprint: u64,
    pub(crate) seed: u64,
    /// Whether the seed may be another one.
    pub(crate) random: bool,
    /// Of the request.
    pub(crate) line: usize,
}

impl Expected {
    /// The beginning of the line.
    fn head(&self) -> String {
        format!("{}{},", self.fixed_head(), self.seed)
    }

    /// What all runs of the program begin the line with.
    fn fixed_head(&self) -> String {
        let sample = self.sample.map(|nth| format!("\"sample\":{nth},")).unwrap_or_default();
        let request = format!("\"request\":\"{:016x}\",", self.fingerprint);
        format!("{{\"id\":{},{sample}{request}\"seed\":", self.id)
    }

    fn known_head(&self) -> String {
        if self.random { self.fixed_head() } else { self.head() }
    }

    /// Whether a whole line is the result.
    fn is(&self, line: &[u8]) -> bool {
        line.starts_with(self.known_head().as_bytes())
            && serde_json::from_slice::<IgnoredAny>(line).is_ok()
    }

    /// Whether a line without its end may be one that was cut off.
    fn may_be(&self, part: &[u8]) -> bool {
        let head = self.known_head();
        part.iter().zip(head.as_bytes()).all(|(a, b)| a == b)
    }
}

/// Where results go.
#[derive(Debug)]
pub(crate) struct Out {
    /// `None` for stdout.
    file: Option<(PathBuf, File)>,
    /// How many are there.
    pub(crate) done: usize,
    /// How many of these are failures.
    pub(crate) failed: usize,
}

impl Out {
    /// A file is looked through, and made ready for what is missing. One with other
    /// lines stays as it is.
    pub(crate) fn open(
        path: Option<&Path>,
        expected: impl Iterator<Item = Expected>,
    ) -> Result<Self, Failure> {
        let mut out = Self { file: None, done: 0, failed: 0 };
        let Some(path) = path else { return Ok(out) };
        let failed = |source| Failure::WriteFile { path: path.into(), source };
        let refused = |problem: String| Failure::Resume { path: path.into(), problem };
        // What is no file, such as a terminal, holds nothing. A pipe that is opened to be
        // read as well would take all that nobody reads, and lose it.
        let plain = path.metadata().map_or(true, |found| found.is_file());
        let mut options = OpenOptions::new();
        let mut file = options
            .read(plain)
            .write(true)
            .create(plain)
            .truncate(false)
            .open(path)
            .map_err(failed)?;
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            return Err(refused("another program is writing it".to_owned()));
        }
        if plain {
            let kept = out.look_through(&file, expected).map_err(failed)?.map_err(refused)?;
            file.set_len(kept).map_err(failed)?;
            file.seek(SeekFrom::Start(kept)).map_err(failed)?;
        }
        out.file = Some((path.into(), file));
        Ok(out)
    }

    /// Counts the results that are there. Returns how many bytes they have, or why
    /// they are none.
    fn look_through(
        &mut self,
        file: &File,
        mut expected: impl Iterator<Item = Expected>,
    ) -> io::Result<Result<u64, String>> {
        let mut reader = BufReader::new(file);
        let (mut kept, mut line) = (0, Vec::new());
        loop {
            line.clear();
            if reader.read_until(b'\n', &mut line)? == 0 {
                return Ok(Ok(kept));
            }
            let number = self.done + 1;
            let Some(expected) = expected.next() else {
                return Ok(Err(format!("line {number} is one more than there are results")));
            };
            let Expected { line: request, seed, .. } = expected;
            let whole = line.ends_with(b"\n");
            let fits = if whole { expected.is(&line) } else { expected.may_be(&line) };
            if !fits {
                let id = &expected.id;
                let sample = expected.sample.map(|nth| format!(", sample {nth}"));
                let sample = sample.unwrap_or_default();
                return Ok(Err(format!(
                    "line {number} is not the result of line {request} as it is now (id \
                     {id}{sample}, seed {seed}); give another file"
                )));
            }
            if !whole {
                return Ok(Ok(kept));
            }
            kept += line.len() as u64;
            self.done += 1;
            self.failed += usize::from(is_failure(&line));
        }
    }

    /// Writes a result, at once.
    pub(crate) fn write(
        &mut self,
        expected: &Expected,
        members: &str,
        failed: bool,
    ) -> Result<(), Failure> {
        let line = format!("{}{members}}}\n", expected.head());
        match &mut self.file {
            None => output::write(&line)?,
            Some((path, file)) => file
                .write_all(line.as_bytes())
                .map_err(|source| Failure::WriteFile { path: path.clone(), source })?,
        }
        self.done += 1;
        self.failed += usize::from(failed);
        Ok(())
    }
}

/// Whether a result is a failure.
fn is_failure(line: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Part {
        error: Option<IgnoredAny>,
    }
    serde_json::from_slice(line).is_ok_and(|Part { error }| error.is_some())
}
