//! Two chains, side by side.

mod one;
mod text;

use logitchain_core::{Chain, CompareError, Registry, TokenId, compare, compare_run};

use self::text::Parted;
use crate::{
    args::CompareArgs,
    chain_args::{BIAS, WrittenChain},
    logits::Logits,
    output::{tell, write_styled},
    report::Failure,
    stage_flags::Given,
};

/// As messages call the chains.
const NAMES: [&str; 2] = ["chain A", "chain B"];

/// How many tokens are shown where nothing is said.
const DEFAULT_TOP: usize = 10;

/// Compares two chains, at one step of a text or over many.
pub(crate) fn compare_chains(
    args: &CompareArgs,
    given: &[Given],
    registry: &Registry,
) -> Result<(), Failure> {
    // Both are to draw with the same seed, a random one too.
    let general = args.general.drawn()?;
    let written = |name, text| WrittenChain::of(name, text, &general, registry);
    let (a, b) = (written(NAMES[0], &args.a)?, written(NAMES[1], &args.b)?);
    for given in given {
        if ![&a, &b].iter().any(|chain| takes(chain, given, registry)) {
            let stages = given.targets.iter().map(|target| format!("`{}`", target.stage));
            return Err(Failure::Usage(format!(
                "{} belongs to {}, which neither chain has",
                given.flag,
                stages.collect::<Vec<_>>().join(" and "),
            )));
        }
    }
    let plan = |chain: WrittenChain| {
        let own = given.iter().filter(|given| takes(&chain, given, registry)).cloned().collect();
        chain.plan(own, registry)
    };
    let (a, b) = (plan(a)?, plan(b)?);

    let mut source = args.logits.open()?;
    let (mut a, mut b) = (source.chain(a, registry)?, source.chain(b, registry)?);
    for (name, chain) in NAMES.iter().zip([&a, &b]) {
        tell(format_args!("{name}: {chain} (seed {})", chain.seed()));
    }
    for token in source.prompt() {
        a.accept(*token);
        b.accept(*token);
    }
    let whole = matches!(&source, Logits::Recorded { recording, .. } if recording.len() > 1);
    let text = match (args.predict, args.logits.asked_step()) {
        (Some(limit), _) => many(args, &mut source, &a, &b, limit.0)?,
        (None, None) if whole && args.top.is_some() => {
            let problem = "--top is for one step of the file; choose it with --step";
            return Err(Failure::Usage(problem.to_owned()));
        }
        (None, None) if whole => many(args, &mut source, &a, &b, None)?,
        (None, step) => {
            let step = step.unwrap_or(1);
            let logits = at(step, &mut source, &mut a, &mut b)?;
            let diff = compare(&a, &b, &logits);
            let diff = diff.map_err(|error| CompareError { step, ..error })?;
            let one = one::One { a: a.to_string(), b: b.to_string(), diff, vocab: source.vocab() };
            let top = args.top.unwrap_or(DEFAULT_TOP);
            if args.json { one.json(top) } else { one.table(top) }
        }
    };
    write_styled(&text)
}

/// Whether a flag has something to say to a chain; a bias has, to every chain.
fn takes(chain: &WrittenChain, given: &Given, registry: &Registry) -> bool {
    given.targets.iter().any(|t| t.stage == BIAS.0 || chain.has(t.stage, registry))
}

/// The logits of a step, counted from 1, of a text that the first chain writes, or
/// that is recorded. The chains have then done what came before.
fn at(step: usize, source: &mut Logits, a: &mut Chain, b: &mut Chain) -> Result<Vec<f32>, Failure> {
    if let Logits::Recorded { recording, .. } = source
        && recording.token(0).is_none()
    {
        // Each row stands for itself, and the others need not even be right.
        return source.at(step, a);
    }
    let mut steps = source.steps(a, Some(step));
    let (mut found, mut there) = (None, 0);
    for (logits, token) in &mut steps {
        there += 1;
        if there == step {
            found = Some(logits);
            break;
        }
        let Some(token) = token else { continue };
        for chain in [&mut *a, &mut *b] {
            let drawn = chain.sample(&mut logits.clone());
            drawn.map_err(|source| Failure::Sample { nth: there, source })?;
            chain.accept(token);
        }
    }
    steps.finish()?;
    found.ok_or_else(|| Failure::Usage(format!("--step {step}: the text ends after {there}")))
}

/// Compares the chains over a text.
fn many(
    args: &CompareArgs,
    source: &mut Logits,
    a: &Chain,
    b: &Chain,
    limit: Option<usize>,
) -> Result<String, Failure> {
    let mut steps = source.steps(a, limit);
    let diff = compare_run(a, b, &mut steps);
    let tokens = steps.finish()?;
    let diff = diff?;
    let vocab = source.vocab();
    let parted = diff.parts_at.map(|at| {
        // What is not known of the text cannot be shown.
        let before: Vec<TokenId> =
            source.prompt().iter().chain(tokens.iter().take(at.step)).copied().collect();
        Parted { at, before }
    });
    let many = text::Many { a: a.to_string(), b: b.to_string(), diff, parted, vocab };
    Ok(if args.json { many.json() } else { many.table() })
}
