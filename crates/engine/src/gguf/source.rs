use std::{fs::File, io, path::Path, sync::Arc};

use memmap2::Mmap;

/// Where a file's bytes are. A clone shares them.
#[derive(Clone)]
pub(crate) enum Source {
    Static(&'static [u8]),
    Mapped(Arc<Mmap>),
    Owned(Arc<[u8]>),
}

impl Source {
    #[allow(unsafe_code)]
    pub(crate) fn map(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        // Mapping something without bytes, a directory for one, fails in ways
        // that differ between systems.
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        // SAFETY: the mapping is read-only and lives as long as the handle in
        // `Source`. Another process that changes or cuts the file meanwhile
        // could break it; `Gguf::open` tells its caller that none may.
        let map = unsafe { Mmap::map(&file)? };
        Ok(Self::Mapped(Arc::new(map)))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Static(bytes) => bytes,
            Self::Mapped(map) => map,
            Self::Owned(bytes) => bytes,
        }
    }
}
