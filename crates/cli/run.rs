use logitchain_core::{Chain, Registry, TokenId};
use logitchain_engine::{Special, prompt_tokens};

use crate::{
    args::RunArgs,
    chain_args::ChainPlan,
    generate::{announce, generate, why},
    output::{Stream, tell},
    report::Failure,
    stage_flags::Given,
    timing,
    trace_log::TraceLog,
    watched::{Look, Watched},
};

/// How many tokens are generated where nothing is said.
const DEFAULT_LIMIT: usize = 128;

/// Keeps the logits of a text, and the tokens that were chosen by them.
pub(crate) trait Keep {
    /// Of one more step.
    fn keep(&mut self, logits: &[f32], token: TokenId) -> Result<(), Failure>;

    /// The text is over, and right.
    fn finish(self: Box<Self>) -> Result<(), Failure>;
}

/// Begins to keep: gets the chain, the prompt's tokens, and the number of logits.
pub(crate) type StartKeeping<'a> =
    dyn Fn(&Chain, &[TokenId], usize) -> Result<Box<dyn Keep>, Failure> + 'a;

/// Continues a text.
pub(crate) fn run(args: &RunArgs, given: Vec<Given>, registry: &Registry) -> Result<(), Failure> {
    continue_text(args, given, registry, None)
}

/// Continues a text, and keeps its logits if it is told how.
pub(crate) fn continue_text(
    args: &RunArgs,
    given: Vec<Given>,
    registry: &Registry,
    keeping: Option<&StartKeeping<'_>>,
) -> Result<(), Failure> {
    let plan = ChainPlan::new(&args.chain, given, registry)?;
    let options = args.generate.options(DEFAULT_LIMIT)?;
    let prompt = args.prompt.read(args.generate.escape)?;
    let (model, load) = args.model.load()?;
    let vocab = model.tokenizer();
    let chain = plan.for_model(registry, &model)?;
    let special = if args.special { Special::Parse } else { Special::Plain };
    let tokens = prompt_tokens(vocab, &prompt, special)?;
    let mut log = args.trace.as_deref().map(TraceLog::create).transpose()?;
    let mut keep = keeping.map(|start| start(&chain, &tokens, vocab.size())).transpose()?;

    announce(&chain);
    let mut stream = Stream::new();
    if args.echo {
        stream.write(&prompt)?;
    }
    let look = Look { logits: keep.is_some(), trace: log.is_some(), law: false };
    let (mut picker, seen) = Watched::new(chain, look);
    let mut on_step = |token| {
        let seen = seen.borrow();
        if let Some(log) = &mut log {
            log.write_seen(&seen, vocab)?;
        }
        keep.as_mut().map_or(Ok(()), |keep| keep.keep(&seen.logits, token))
    };
    let mut session = model.session();
    let text = generate(&mut session, &mut picker, &tokens, &options, &mut stream, &mut on_step);
    if let Some(log) = &mut log {
        log.write_failed(&text, &seen.borrow(), vocab)?;
    }
    let text = text?;
    stream.finish()?;
    if let Some(keep) = keep {
        keep.finish()?;
    }
    tell(why(&text.stopped, &options));
    if args.generate.timing {
        tell(timing::table(load, &text.timings));
    }
    Ok(())
}
