use logitchain_core::Registry;
use logitchain_engine::{Special, prompt_tokens};

use crate::{
    args::RunArgs,
    chain_args::ChainPlan,
    generate::{announce, generate, why},
    output::{Stream, tell},
    report::Failure,
    stage_flags::Given,
    timing,
};

/// How many tokens are generated where nothing is said.
const DEFAULT_LIMIT: usize = 128;

/// Continues a text.
pub(crate) fn run(args: &RunArgs, given: Vec<Given>, registry: &Registry) -> Result<(), Failure> {
    let plan = ChainPlan::new(&args.chain, given, registry)?;
    let options = args.generate.options(DEFAULT_LIMIT)?;
    let prompt = args.prompt.read(args.generate.escape)?;
    let (model, load) = args.model.load()?;
    let mut chain = plan.for_model(registry, model.tokenizer())?;
    let special = if args.special { Special::Parse } else { Special::Plain };
    let tokens = prompt_tokens(model.tokenizer(), &prompt, special)?;

    announce(&chain);
    let mut stream = Stream::new();
    if args.echo {
        stream.write(&prompt)?;
    }
    let text = generate(&mut model.session(), &mut chain, &tokens, &options, &mut stream)?;
    stream.finish()?;
    tell(why(&text.stopped, &options));
    if args.generate.timing {
        tell(timing::table(load, &text.timings));
    }
    Ok(())
}
