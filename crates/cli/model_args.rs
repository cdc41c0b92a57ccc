use std::{
    num::NonZero,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use clap::Args;
use logitchain_engine::{CacheType, EMBEDDED_GGUF, EngineError, Gguf, GgufModel, LoadOptions};

use crate::{count::count, input, report::Failure};

/// The name of the model in the program.
pub(crate) const EMBEDDED: &str = "logitchain-tiny, in the program";

#[derive(Debug, Args)]
pub(crate) struct ModelArgs {
    /// A GGUF file, whose own recommendations for sampling go before the defaults
    /// below [default: the small model in the program]
    #[arg(short, long, value_name = "MODEL.gguf")]
    pub(crate) model: Option<PathBuf>,
    /// Compute on so many threads [default: as many as the machine has, and one
    /// for the model in the program]; the text does not depend on it
    #[arg(
        short,
        long,
        value_name = "N",
        allow_negative_numbers = true,
        value_parser = count
    )]
    pub(crate) threads: Option<NonZero<usize>>,
    /// How a text's keys and values are remembered: f16, or f32 for more memory
    /// and a little exactness
    #[arg(long, value_name = "TYPE", default_value = "f16", value_parser = cache_type)]
    pub(crate) cache_type: CacheType,
}

impl ModelArgs {
    /// The file's name, without its folders.
    pub(crate) fn name(&self) -> String {
        let file = |path: &PathBuf| {
            path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
        };
        self.model.as_ref().map_or_else(|| EMBEDDED.to_owned(), file)
    }

    /// What of these decides a text. What is not said is as by default.
    pub(crate) fn identity(&self) -> String {
        match self.cache_type {
            CacheType::F16 => self.name(),
            CacheType::F32 => self.name() + " --cache-type f32",
        }
    }

    /// The model, and how long it took to load.
    pub(crate) fn load(&self) -> Result<(GgufModel, Duration), Failure> {
        let start = Instant::now();
        let mut options = LoadOptions::default();
        options.threads = self.threads;
        options.cache = self.cache_type;
        let model = match &self.model {
            Some(path) => load(path, &options)?,
            None => {
                // It is too small to be faster on more.
                options.threads = options.threads.or(NonZero::new(1));
                let gguf = Gguf::from_static(EMBEDDED_GGUF).map_err(EngineError::from)?;
                GgufModel::from_gguf(&gguf, &options)?
            }
        };
        Ok((model, start.elapsed()))
    }
}

/// The model of a file.
pub(crate) fn load(path: &Path, options: &LoadOptions) -> Result<GgufModel, Failure> {
    // It is mapped into memory.
    input::check_plain(path).map_err(|source| Failure::OpenModel { path: path.into(), source })?;
    GgufModel::load(path, options).map_err(|source| match source {
        // One names the file itself, the other is not about it.
        EngineError::Open { .. } | EngineError::TooManyThreads { .. } => source.into(),
        source => Failure::Model { path: path.into(), source: Box::new(source) },
    })
}

fn cache_type(text: &str) -> Result<CacheType, &'static str> {
    match text {
        "f16" => Ok(CacheType::F16),
        "f32" => Ok(CacheType::F32),
        _ => Err("write f16 or f32"),
    }
}
