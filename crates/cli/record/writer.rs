use std::{
    collections::HashMap,
    fs,
    io::{self, BufWriter, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

use half::f16;
use logitchain_core::TokenId;
use safetensors::{
    Dtype, SafeTensorError,
    tensor::{Metadata as Header, TensorInfo},
};
use tempfile::NamedTempFile;

use crate::{
    logits::{LOGITS, Metadata, PROMPT, TOKENS},
    output,
    report::Failure,
    run::Keep,
    signals,
};

/// The lengths in a header have so many digits at most, all together: two offsets
/// for three tensors, and four dimensions.
const DIGITS: usize = 10 * 20;

/// The flag that names the file.
const FLAG: &str = "--output";

/// Headers are as long as a multiple of this, so that what follows is aligned.
const ALIGNMENT: usize = 8;

/// A recording in the making: a file without a name until it is whole.
#[derive(Debug)]
pub(super) struct Writer {
    path: PathBuf,
    force: bool,
    file: BufWriter<NamedTempFile>,
    /// How much is left free for the header, whose lengths are known at the end.
    room: usize,
    dtype: Dtype,
    vocabulary: usize,
    notes: HashMap<String, String>,
    prompt: Vec<TokenId>,
    tokens: Vec<TokenId>,
}

/// A file that is there is only replaced on demand.
pub(super) fn check(path: &Path, force: bool) -> Result<(), Failure> {
    output::check_new(FLAG, path, force)?;
    // A device or a pipe would be replaced by a file, and so would a link.
    if path.symlink_metadata().is_ok_and(|found| !found.is_file()) {
        let problem = format!("{FLAG}: '{}' is no plain file", path.display());
        return Err(Failure::Usage(problem));
    }
    Ok(())
}

impl Writer {
    pub(super) fn create(
        path: &Path,
        force: bool,
        half: bool,
        vocabulary: usize,
        prompt: &[TokenId],
        notes: &Metadata,
    ) -> Result<Self, Failure> {
        let failed = |source| output::write_failure(path, source);
        // On the same disk, so that it can be renamed.
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let file = temporary(folder.unwrap_or(Path::new("."))).map_err(failed)?;
        signals::remove_file(file.path());
        let mut writer = Self {
            path: path.into(),
            force,
            file: BufWriter::new(file),
            room: 0,
            dtype: if half { Dtype::F16 } else { Dtype::F32 },
            vocabulary,
            notes: notes.entries(),
            prompt: prompt.to_vec(),
            tokens: Vec::new(),
        };
        let shortest = writer.header().map_err(failed)?;
        writer.room = (shortest.len() + DIGITS).next_multiple_of(ALIGNMENT);
        let blank = vec![b' '; 8 + writer.room];
        writer.file.write_all(&blank).map_err(failed)?;
        Ok(writer)
    }

    /// For what has been recorded so far.
    fn header(&self) -> io::Result<Vec<u8>> {
        let (steps, vocabulary) = (self.tokens.len(), self.vocabulary);
        let size = self.dtype.bitsize() / 8;
        let tensors = [
            (LOGITS, self.dtype, vec![steps, vocabulary], steps * vocabulary * size),
            (TOKENS, Dtype::U32, vec![steps], 4 * steps),
            (PROMPT, Dtype::U32, vec![self.prompt.len()], 4 * self.prompt.len()),
        ];
        let mut start = 0;
        let tensors = tensors.map(|(name, dtype, shape, length)| {
            let data_offsets = (start, start + length);
            start += length;
            (name.to_owned(), TensorInfo { dtype, shape, data_offsets })
        });
        let invalid = |error: SafeTensorError| io::Error::other(error);
        let header = Header::new(Some(self.notes.clone()), tensors.into()).map_err(invalid)?;
        // The same text gives the same bytes.
        let mut header = serde_json::to_value(&header)?;
        header.sort_all_objects();
        Ok(serde_json::to_vec(&header)?)
    }

    fn write(&mut self, logits: &[f32]) -> io::Result<()> {
        for &logit in logits {
            match self.dtype {
                Dtype::F16 => {
                    let half = f16::from_f32(logit);
                    if half.is_infinite() && logit.is_finite() {
                        return Err(io::Error::other(format!(
                            "the logit {logit} does not fit into f16; leave --f16 out"
                        )));
                    }
                    self.file.write_all(&half.to_le_bytes())?;
                }
                _ => self.file.write_all(&logit.to_le_bytes())?,
            }
        }
        Ok(())
    }

    fn close(mut self) -> Result<(), Failure> {
        let path = self.path.clone();
        let failed = |source| output::write_failure(&path, source);
        let written = self.header().and_then(|mut header| {
            for token in self.tokens.iter().chain(&self.prompt) {
                self.file.write_all(&token.0.to_le_bytes())?;
            }
            header.resize(self.room.max(header.len()), b' ');
            if header.len() > self.room {
                return Err(io::Error::other("the header is longer than the room for it"));
            }
            self.file.seek(SeekFrom::Start(0))?;
            self.file.write_all(&(header.len() as u64).to_le_bytes())?;
            self.file.write_all(&header)?;
            self.file.flush()
        });
        written.map_err(failed)?;
        let file = self.file.into_inner().map_err(|error| failed(error.into_error()))?;
        file.as_file().sync_all().map_err(failed)?;
        let named = if self.force { file.persist(&path) } else { file.persist_noclobber(&path) };
        match named {
            Ok(_) => Ok(()),
            Err(error) => {
                // It may have come into being meanwhile.
                output::check_new(FLAG, &path, self.force)?;
                Err(failed(error.error))
            }
        }
    }
}

impl Keep for Writer {
    fn keep(&mut self, logits: &[f32], token: TokenId) -> Result<(), Failure> {
        self.tokens.push(token);
        self.write(logits).map_err(|source| output::write_failure(&self.path, source))
    }

    fn finish(self: Box<Self>) -> Result<(), Failure> {
        self.close()
    }
}

fn temporary(folder: &Path) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    // As other programs' files: the user's mask takes away from it.
    #[cfg(unix)]
    builder.permissions(<fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o666));
    builder.prefix(".logitchain-").tempfile_in(folder)
}
