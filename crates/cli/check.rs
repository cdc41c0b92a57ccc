use std::{
    fs, io,
    path::{Path, PathBuf},
};

use logitchain_core::{NoVocab, Registry, Vocab};
use logitchain_engine::LoadOptions;

use crate::{
    args::CheckArgs,
    chain_args,
    model_args::load,
    output::{self, tell},
    report::{self, Failure},
};

/// Checks chain files, all of them, and prints the chains of those that are
/// right.
pub(crate) fn check(args: &CheckArgs, registry: &Registry) -> Result<(), Failure> {
    let load = |path| load(path, &LoadOptions::default());
    let model = args.model.as_deref().map(load).transpose()?;
    let mut files = Vec::new();
    for path in &args.files {
        if path.is_dir() {
            let before = files.len();
            let read =
                |source: io::Error| Failure::Read { path: path.clone(), source: source.into() };
            collect(path, &mut files).map_err(read)?;
            if files.len() == before {
                let problem = format!("the folder '{}' has no .toml files", path.display());
                return Err(Failure::Usage(problem));
            }
        } else {
            files.push(path.clone());
        }
    }
    // Alone and by its own name a file need not be named again.
    let alone = args.files == files && files.len() == 1;
    let mut failures = Vec::new();
    for file in &files {
        let chain = match &model {
            Some(model) => chain_line(file, registry, model.tokenizer()),
            None => chain_line(file, registry, &NoVocab),
        };
        match chain {
            Ok(chain) if alone => output::write(&format!("{chain}\n"))?,
            Ok(chain) => output::write(&format!("{}: {chain}\n", file.display()))?,
            Err(failure) => failures.push(failure),
        }
    }
    let (all, wrong) = (files.len(), failures.len());
    match failures.pop() {
        Some(failure) if all == 1 => Err(failure),
        Some(last) => {
            for failure in failures.iter().chain([&last]) {
                tell(format_args!("error: {}", report::line(failure)));
            }
            Err(Failure::Checked { wrong, all })
        }
        None => Ok(()),
    }
}

/// The chain files of a folder and of those in it, by name.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    let entries = fs::read_dir(folder)?;
    let mut entries = entries.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::path);
    for entry in entries {
        let path = entry.path();
        // A link to a folder is not followed: it might lead back.
        if entry.file_type()?.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            files.push(path);
        }
    }
    Ok(())
}

fn chain_line(file: &Path, registry: &Registry, vocab: &dyn Vocab) -> Result<String, Failure> {
    let chain = chain_args::read(file)?.build(registry, vocab);
    chain
        .map(|chain| chain.to_string())
        .map_err(|source| Failure::ChainFile { path: file.into(), source: Box::new(source) })
}
