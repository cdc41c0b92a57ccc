mod fate;
pub(crate) mod stages;
mod tokens;

use logitchain_core::{Fate, Registry, Step, TokenId, Trace, TraceReport, Vocab};
use serde::Serialize;

use crate::{
    args::ExplainArgs,
    chain_args::ChainPlan,
    generate::announce,
    output::{self, tell},
    report::Failure,
    stage_flags::Given,
    table::{number, percent},
    token_text::named,
    value::list,
    watch,
};

/// A trace as JSON.
#[derive(Debug, Serialize)]
struct Report {
    /// From 1.
    step: usize,
    #[serde(flatten)]
    trace: TraceReport,
    /// What became of the tokens that were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    asked: Vec<Asked>,
}

#[derive(Debug, Serialize)]
struct Asked {
    id: TokenId,
    #[serde(flatten)]
    fate: Fate,
    path: Vec<Step>,
}

/// Shows what a chain does for one token.
pub(crate) fn explain(
    args: &ExplainArgs,
    given: Vec<Given>,
    registry: &Registry,
) -> Result<(), Failure> {
    if args.watch {
        // Before anything takes its time.
        watch::check()?;
    }
    let plan = ChainPlan::new(&args.chain, given, registry)?;
    let config = plan.config().clone();
    let mut logits = args.logits.open()?;
    let mut chain = logits.chain(plan, registry)?;
    let step = args.logits.step();
    if let Some((recorded, seed)) = logits.recorded_chain()
        && (recorded, seed) != (&*list(&chain), &*chain.seed().to_string())
    {
        tell(format!(
            "note: the tokens were recorded with --samplers '{recorded}' --seed {seed}, which is \
             not this chain"
        ));
    }
    if args.watch {
        announce(&chain);
        return watch::watch(&mut logits, step - 1, (&config, &chain), registry);
    }
    let mut row = logits.at(step, &mut chain)?;
    let vocab = logits.vocab();
    let mut asked = Vec::new();
    for text in &args.token {
        asked.extend(fate::find(text, vocab, row.len())?);
    }

    announce(&chain);
    let trace = chain.trace(&mut row);
    let text = if args.json {
        json(&trace, args.top, vocab, step, &asked)
    } else {
        table(&trace, args.top, vocab, &asked)
    };
    output::write_styled(&text)?;
    match trace.outcome() {
        Ok(_) => Ok(()),
        Err(source) => Err(Failure::Sample { nth: step, source: source.clone() }),
    }
}

fn json(trace: &Trace, top: usize, vocab: &dyn Vocab, step: usize, asked: &[TokenId]) -> String {
    let fate = |&id: &TokenId| Asked { id, fate: trace.fate(id), path: trace.path(id) };
    let asked = asked.iter().map(fate).collect();
    let report = Report { step, trace: trace.report(top, vocab), asked };
    let report = serde_json::to_string(&report);
    format!("{}\n", report.expect("numbers, texts and lists are JSON"))
}

fn table(trace: &Trace, top: usize, vocab: &dyn Vocab, asked: &[TokenId]) -> String {
    let mut text = stages::table(trace);
    if top > 0 || !asked.is_empty() {
        text += &format!("\n{}", tokens::table(trace, top, vocab, asked));
    }
    if let Some(outcome) = outcome(trace, vocab) {
        text += &format!("\n{outcome}\n");
    }
    for &token in asked {
        text += &format!("\n{}\n", fate::sentence(trace, token, vocab));
    }
    text
}

/// How the token was chosen.
fn outcome(trace: &Trace, vocab: &dyn Vocab) -> Option<String> {
    let token = *trace.outcome().as_ref().ok()?;
    let name = named(vocab, token);
    Some(match trace.draw() {
        Some(draw) => format!(
            "u = {} falls between {} and {}, where {name} lies: it is drawn, with {}",
            number(draw.u),
            number(draw.low),
            number(draw.high),
            percent(draw.high - draw.low)
        ),
        None => format!("{name} is chosen, without a draw"),
    })
}
