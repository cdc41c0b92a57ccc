mod writer;

use logitchain_core::{Chain, Registry, RngKind};

use self::writer::Writer;
use crate::{
    args::RecordArgs,
    logits::Metadata,
    report::Failure,
    run::{self, Keep},
    stage_flags::Given,
    value::list,
};

/// Continues a text, and saves the logits of each of its tokens.
pub(crate) fn record(
    args: &RecordArgs,
    given: Vec<Given>,
    registry: &Registry,
) -> Result<(), Failure> {
    if args.run.text.generate.generates_nothing() {
        let problem = "--predict 0 leaves nothing to record; write a number from 1, or -1";
        return Err(Failure::Usage(problem.to_owned()));
    }
    writer::check(&args.output, args.force)?;
    if args.run.trace.as_ref() == Some(&args.output) {
        let problem = format!("--output and --trace are both '{}'", args.output.display());
        return Err(Failure::Usage(problem));
    }
    let start = |chain: &Chain, prompt: &[_], vocabulary| {
        let same = RngKind::ALL.iter().find(|(_, rng)| *rng == chain.rng());
        let notes = Metadata {
            model: args.run.model.name(),
            chain: list(chain),
            seed: chain.seed(),
            rng: same.map_or("", |(name, _)| *name),
        };
        let writer =
            Writer::create(&args.output, args.force, args.f16, vocabulary, prompt, &notes)?;
        Ok(Box::new(writer) as Box<dyn Keep>)
    };
    run::continue_text(&args.run, given, registry, Some(&start))
}
