use std::time::Duration;

use logitchain_core::{Chain, Registry, TokenId};
use logitchain_engine::{
    GenerateOptions, GgufModel, Request, SchedulerLimits, Special, prompt_tokens,
};

use crate::{
    args::{ContinueArgs, RunArgs},
    chain_args::ChainPlan,
    generate::{announce, generate, why},
    many,
    output::{Stream, tell},
    report::{self, Failure},
    stage_flags::Given,
    timing,
    trace_log::TraceLog,
    watched::{Look, Watched},
};

/// How many tokens are generated where nothing is said.
pub(crate) const DEFAULT_LIMIT: usize = 128;

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
    if args.n_samples.get() == 1 {
        return continue_text(&args.one, given, registry, None);
    }
    for (flag, given) in
        [("--timing", args.one.timing.timing), ("--trace", args.one.trace.is_some())]
    {
        if given {
            return Err(Failure::Usage(format!(
                "`{flag}` is about one text, and `--n-samples` writes several; leave one out"
            )));
        }
    }
    let Start { model, chain, prompt, tokens, options, .. } =
        Start::new(&args.one, given, registry)?;
    announce(&chain);
    let echo = if args.one.echo { prompt.as_str() } else { "" };
    samples(&model, &chain, &tokens, &options, args.n_samples.get(), echo)
}

/// What a text is continued from.
struct Start {
    model: GgufModel,
    load: Duration,
    chain: Chain,
    prompt: String,
    tokens: Vec<TokenId>,
    options: GenerateOptions,
}

impl Start {
    fn new(args: &ContinueArgs, given: Vec<Given>, registry: &Registry) -> Result<Self, Failure> {
        let plan = ChainPlan::new(&args.text.chain, given, registry)?;
        let options = args.text.generate.options(DEFAULT_LIMIT)?;
        let prompt = args.prompt.read(args.text.generate.escape)?;
        let (model, load) = args.model.load()?;
        let chain = plan.for_model(registry, &model, &mut |line| tell(line))?;
        let special = if args.text.special { Special::Parse } else { Special::Plain };
        let tokens = prompt_tokens(model.tokenizer(), &prompt, special)?;
        Ok(Self { model, load, chain, prompt, tokens, options })
    }
}

/// Continues a text, and keeps its logits if it is told how.
pub(crate) fn continue_text(
    args: &ContinueArgs,
    given: Vec<Given>,
    registry: &Registry,
    keeping: Option<&StartKeeping<'_>>,
) -> Result<(), Failure> {
    let Start { model, load, chain, prompt, tokens, options } = Start::new(args, given, registry)?;
    let vocab = model.tokenizer();
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
    log.iter_mut().for_each(TraceLog::keep);
    if let Some(keep) = keep {
        keep.finish()?;
    }
    tell(why(&text.stopped, &options));
    if args.timing.timing {
        tell(timing::table(load, &text.timings));
    }
    Ok(())
}

/// Writes several texts of one prompt, each whole. One that fails keeps none of the
/// others from being written.
fn samples(
    model: &GgufModel,
    chain: &Chain,
    prompt: &[TokenId],
    options: &GenerateOptions,
    count: usize,
    echo: &str,
) -> Result<(), Failure> {
    let seed = |nth: usize| chain.rng().nth_seed(chain.seed(), nth as u64);
    let requests = (0..count).map(|nth| {
        let mut chain = chain.clone();
        chain.reseed(seed(nth))?;
        Ok(Request { prompt: prompt.to_vec(), chain, options: options.clone() })
    });
    let (mut nth, mut failed) = (0, 0);
    many::in_order(model, SchedulerLimits::default(), requests, |outcome| {
        tell(format_args!("text {} of {count}, seed: {}", nth + 1, seed(nth)));
        nth += 1;
        let mut stream = Stream::new();
        stream.write(echo)?;
        stream.write(&outcome.text)?;
        stream.finish()?;
        match &outcome.end {
            Ok(stopped) => tell(why(stopped, options)),
            Err(failure) => {
                failed += 1;
                tell(format_args!("error: text {nth} of {count}: {}", report::line(failure)));
            }
        }
        Ok(())
    })?;
    if failed == 0 { Ok(()) } else { Err(Failure::Samples { failed, all: count }) }
}
