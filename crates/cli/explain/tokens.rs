use anstyle::{AnsiColor, Style};
use logitchain_core::{StageTrace, TokenId, Trace, Vocab};

use crate::{
    table::{Align, Cell, Table, bar, number, percent},
    token_text::shown,
};

/// How wide the bar of a certain token is.
const BAR: usize = 16;

/// The most likely tokens, at the start and at the end, on their way through the
/// stages that change something.
pub(super) fn table(trace: &Trace, top: usize, vocab: &dyn Vocab, asked: &[TokenId]) -> String {
    let stages: Vec<&StageTrace> =
        trace.stages().iter().filter(|stage| stage.before() != stage.after()).collect();
    let mut columns = vec![
        (Align::Right, "token".to_owned()),
        (Align::Left, if vocab.size() > 0 { "text" } else { "" }.to_owned()),
        (Align::Right, "logit".to_owned()),
        (Align::Right, "start".to_owned()),
    ];
    let head = |stage: &&StageTrace| {
        (Align::Right, format!("{} {}", stage.place().position, stage.place().name))
    };
    columns.extend(stages.iter().map(head));
    columns.push((Align::Left, String::new()));
    let mut table = Table::new(columns);

    let chosen = trace.outcome().as_ref().ok().copied();
    let tokens = listed(trace, top, chosen, asked);
    for &token in &tokens {
        table.row(row(trace, token, &stages, chosen == Some(token), vocab));
    }
    let listed = tokens.iter().filter_map(|&token| trace.start().get(token));
    let (count, mass) = listed.fold((0, 0.0), |(n, sum), token| (n + 1, sum + token.probability));
    let mut text = table.render();
    let rest = trace.start().len() - count;
    if rest > 0 {
        let others = if rest == 1 { "1 other has" } else { &format!("{rest} others have") };
        text += &format!("{others} {} at the start\n", percent((1.0_f64 - mass).max(0.0)));
    }
    text
}

/// By what the model thought of them; what it masked comes last.
fn listed(trace: &Trace, top: usize, chosen: Option<TokenId>, asked: &[TokenId]) -> Vec<TokenId> {
    let start = trace.start();
    let best = start.top(top).into_iter().chain(trace.end().top(top)).map(|token| token.id);
    let mut tokens: Vec<TokenId> =
        best.chain(chosen.filter(|_| top > 0)).chain(asked.iter().copied()).collect();
    let logit = |token| start.get(token).map_or(f32::NEG_INFINITY, |token| token.logit);
    tokens.sort_by(|&a, &b| logit(b).total_cmp(&logit(a)).then(a.cmp(&b)));
    tokens.dedup();
    tokens
}

fn row(
    trace: &Trace,
    token: TokenId,
    stages: &[&StageTrace],
    chosen: bool,
    vocab: &dyn Vocab,
) -> Vec<Cell> {
    let start = trace.start().get(token);
    let end = trace.end().get(token);
    let name = match (end, chosen) {
        (_, true) => Style::new().bold().fg_color(Some(AnsiColor::Green.into())),
        (Some(_), false) => Style::new(),
        (None, false) => Style::new().dimmed().strikethrough(),
    };
    let mut cells = vec![
        Cell::styled(token.to_string(), name),
        Cell::styled(shown(vocab, token), name),
        start.map_or_else(|| "-inf".to_owned(), |token| number(token.logit)).into(),
        start.map_or_else(String::new, |token| percent(token.probability)).into(),
    ];
    let mut last = match start {
        None => "masked from the start".to_owned(),
        Some(_) => String::new(),
    };
    for stage in stages {
        let Some(after) = stage.after().get(token) else {
            if let Some(before) = stage.before().get(token) {
                let gone = Style::new().dimmed().strikethrough();
                cells.push(Cell::styled(percent(before.probability), gone));
                last = format!("dropped by {} {}", stage.place().position, stage.place().name);
            } else {
                cells.push(Cell::default());
            }
            continue;
        };
        let before = stage.before().get(token);
        let rewritten = before.is_some_and(|before| before.logit != after.logit);
        let logit = if rewritten { format!("({}) ", number(after.logit)) } else { String::new() };
        cells.push(format!("{logit}{}", percent(after.probability)).into());
    }
    cells.push(match end {
        Some(end) => {
            let style =
                if chosen { name } else { Style::new().fg_color(Some(AnsiColor::Blue.into())) };
            let mark = if chosen { " chosen" } else { "" };
            Cell::styled(bar(end.probability, BAR) + mark, style)
        }
        None => Cell::styled(last, Style::new().dimmed()),
    });
    cells
}
