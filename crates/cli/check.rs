use std::path::Path;

use logitchain_core::{NoVocab, Registry, Vocab};
use logitchain_engine::LoadOptions;

use crate::{
    args::CheckArgs,
    chain_args,
    model_args::load,
    output,
    report::{self, Failure},
};

/// Checks chain files, all of them, and prints the chains of those that are
/// right.
pub(crate) fn check(args: &CheckArgs, registry: &Registry) -> Result<(), Failure> {
    let load = |path| load(path, &LoadOptions::default());
    let model = args.model.as_deref().map(load).transpose()?;
    let mut failures = Vec::new();
    for file in &args.files {
        let chain = match &model {
            Some(model) => chain_line(file, registry, model.tokenizer()),
            None => chain_line(file, registry, &NoVocab),
        };
        match chain {
            Ok(chain) if args.files.len() == 1 => output::write(&format!("{chain}\n"))?,
            Ok(chain) => output::write(&format!("{}: {chain}\n", file.display()))?,
            Err(failure) => failures.push(failure),
        }
    }
    let (all, wrong) = (args.files.len(), failures.len());
    match failures.pop() {
        Some(failure) if all == 1 => Err(failure),
        Some(last) => {
            for failure in failures.iter().chain([&last]) {
                eprintln!("error: {}", report::line(failure));
            }
            Err(Failure::Checked { wrong, all })
        }
        None => Ok(()),
    }
}

fn chain_line(file: &Path, registry: &Registry, vocab: &dyn Vocab) -> Result<String, Failure> {
    let chain = chain_args::read(file)?.build(registry, vocab);
    chain
        .map(|chain| chain.to_string())
        .map_err(|source| Failure::ChainFile { path: file.into(), source: Box::new(source) })
}
