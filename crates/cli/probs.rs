use anstyle::{AnsiColor, Style};
use logitchain_core::{Distribution, Registry, TokenId, Trace, Vocab};
use logitchain_engine::{Special, prompt_tokens};
use serde::Serialize;

use crate::{
    args::ProbsArgs,
    chain_args::ChainPlan,
    generate::{announce, generate, why},
    output::{self, Stream, tell},
    report::Failure,
    stage_flags::Given,
    table::{Align, Cell, Table, bar, number, percent},
    token_text::shown,
    watched::{Look, Watched},
};

/// How many tokens are generated where nothing is said.
const DEFAULT_LIMIT: usize = 8;

/// How wide the bar of a certain token is.
const BAR: usize = 16;

/// A step as JSON.
#[derive(Debug, Serialize)]
struct Line {
    /// From 1.
    step: usize,
    id: TokenId,
    text: String,
    top: Vec<Row>,
}

/// A token of a step.
#[derive(Debug, Serialize)]
struct Row {
    id: TokenId,
    text: String,
    logit: f32,
    /// As the model gave it.
    model_probability: f64,
    /// With which the chain takes it, whatever its random numbers.
    probability: f64,
}

/// Shows what each token of a generation was drawn from.
pub(crate) fn probs(
    args: &ProbsArgs,
    given: Vec<Given>,
    registry: &Registry,
) -> Result<(), Failure> {
    let plan = ChainPlan::new(&args.chain, given, registry)?;
    let options = args.generate.options(DEFAULT_LIMIT)?;
    let prompt = args.prompt.read(args.generate.escape)?;
    let (model, load) = args.model.load()?;
    let vocab = model.tokenizer();
    let chain = plan.for_model(registry, &model, &mut |line| tell(line))?;
    let special = if args.special { Special::Parse } else { Special::Plain };
    let tokens = prompt_tokens(vocab, &prompt, special)?;

    announce(&chain);
    let (mut picker, seen) = Watched::new(chain, Look { trace: true, law: true, logits: false });
    let columns = [
        (Align::Right, "step"),
        (Align::Right, "token"),
        (Align::Left, "text"),
        (Align::Right, "logit"),
        (Align::Right, "model"),
        (Align::Right, "chain"),
        (Align::Left, ""),
    ];
    let mut table = Table::new(columns.map(|(align, head)| (align, head.to_owned())).to_vec());
    let mut step = 0;
    let on_step = &mut |token: TokenId| {
        step += 1;
        let mut seen = seen.borrow_mut();
        let (Some(trace), Some(law)) = (seen.trace.take(), seen.law.take()) else { return Ok(()) };
        let law = law.map_err(|source| Failure::Law { nth: step, source })?;
        let line = Line::new(step, token, args.top, &trace, &law, vocab);
        if args.json {
            let line = serde_json::to_string(&line).expect("numbers, texts and lists are JSON");
            return output::write(&format!("{line}\n"));
        }
        line.add_to(&mut table, vocab);
        Ok(())
    };
    let text = generate(
        &mut model.session(),
        &mut picker,
        &tokens,
        &options,
        &mut Stream::none(),
        on_step,
    );
    if !args.json {
        output::write_styled(&table.render())?;
    }
    let text = text?;
    tell(why(&text.stopped, &options));
    if args.timing.timing {
        tell(crate::timing::table(load, &text.timings));
    }
    Ok(())
}

impl Line {
    fn new(
        step: usize,
        token: TokenId,
        top: usize,
        trace: &Trace,
        law: &Distribution,
        vocab: &dyn Vocab,
    ) -> Self {
        // Those that can come first; then what the model thought most likely.
        let raw = trace.start().top(top);
        let mut ids: Vec<TokenId> = law.tokens().iter().take(top).map(|(id, _)| *id).collect();
        for token in raw {
            if ids.len() < top && !ids.contains(&token.id) {
                ids.push(token.id);
            }
        }
        if top > 0 && !ids.contains(&token) {
            ids.push(token);
        }
        let text = |id| String::from_utf8_lossy(vocab.bytes(id)).into_owned();
        let rows = ids.into_iter().filter_map(|id| {
            let start = trace.start().get(id)?;
            Some(Row {
                id,
                text: text(id),
                logit: start.logit,
                model_probability: start.probability,
                probability: law.probability(id),
            })
        });
        Self { step, id: token, text: text(token), top: rows.collect() }
    }

    fn add_to(&self, table: &mut Table, vocab: &dyn Vocab) {
        for (nth, row) in self.top.iter().enumerate() {
            let (mark, style) = if row.id == self.id {
                (" chosen", Style::new().bold().fg_color(Some(AnsiColor::Green.into())))
            } else if row.probability > 0.0 {
                ("", Style::new())
            } else {
                ("", Style::new().dimmed())
            };
            table.row(vec![
                if nth == 0 { self.step.to_string().into() } else { Cell::default() },
                Cell::styled(row.id.to_string(), style),
                Cell::styled(shown(vocab, row.id), style),
                number(row.logit).into(),
                percent(row.model_probability).into(),
                percent(row.probability).into(),
                (bar(row.probability, BAR) + mark).into(),
            ]);
        }
    }
}
