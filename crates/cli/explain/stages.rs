use std::fmt::Display;

use anstyle::Style;
use logitchain_core::{Cut, Kind, Snapshot, StageTrace, Trace};

use crate::{
    table::{Align, Cell, Table, bar, number, percent},
    value::stage as written,
};

/// How wide the bar of the largest entropy is.
const BAR: usize = 8;

/// A line for each stage.
pub(super) fn table(trace: &Trace) -> String {
    let columns = [
        (Align::Right, ""),
        (Align::Left, "stage"),
        (Align::Right, "candidates"),
        (Align::Left, "what it does"),
        (Align::Right, "drops"),
        (Align::Right, "entropy, bits"),
        (Align::Left, ""),
    ];
    let mut table = Table::new(columns.map(|(align, head)| (align, head.to_owned())).to_vec());
    let entropies = trace.stages().iter().map(|stage| stage.after().entropy());
    let most = entropies.fold(trace.start().entropy(), f64::max);
    let entropy = |at: &Snapshot| format!("{:.3}", at.entropy());
    let entropy_bar = |at: &Snapshot| bar(at.entropy() / most, BAR);

    let start = trace.start();
    let masked = match trace.vocabulary() - start.len() {
        0 => String::new(),
        masked => format!("{masked} are -inf from the start"),
    };
    table.row(vec![
        Cell::default(),
        "logits".into(),
        start.len().to_string().into(),
        masked.into(),
        Cell::default(),
        entropy(start).into(),
        entropy_bar(start).into(),
    ]);
    for stage in trace.stages() {
        let position = stage.place().position.to_string();
        if stage.is_neutral() {
            let dimmed = |text: String| Cell::styled(text, Style::new().dimmed());
            let count = stage.after().len().to_string();
            let name = stage.place().name.to_owned();
            table.row(
                [position, name, count, "off: its parameters do nothing".to_owned()]
                    .map(dimmed)
                    .to_vec(),
            );
            continue;
        }
        let (before, after) = (stage.before(), stage.after());
        let removed = stage.removed_mass();
        let drops = if before.len() == after.len() { String::new() } else { percent(removed) };
        let last = stage.place() == trace.stages()[trace.stages().len() - 1].place();
        let selects = match trace.draw() {
            _ if !last || stage.kind() != Kind::Select || trace.outcome().is_err() => None,
            Some(_) => Some("draws"),
            None => Some("chooses"),
        };
        let mut deeds = deeds(stage);
        deeds.extend(selects.map(str::to_owned));
        let deeds =
            if deeds.is_empty() { "changes nothing here".to_owned() } else { deeds.join(", ") };
        table.row(vec![
            position.into(),
            written(stage.place().name, stage.params()).into(),
            change(before.len(), after.len()).into(),
            deeds.into(),
            drops.into(),
            change(entropy(before), entropy(after)).into(),
            entropy_bar(after).into(),
        ]);
    }
    table.render()
}

/// `4 → 3`, or `4`.
fn change(before: impl Display, after: impl Display) -> String {
    let (before, after) = (before.to_string(), after.to_string());
    if before == after { before } else { format!("{before} → {after}") }
}

/// What a stage did, in words.
pub(crate) fn deeds(stage: &StageTrace) -> Vec<String> {
    let mut deeds = Vec::new();
    for coin in stage.coins() {
        let side = if coin.outcome { "yes" } else { "no" };
        deeds.push(format!("a coin of {} says {side}", number(coin.probability)));
    }
    let (removed, changed) = (stage.removed().len(), stage.changed().len());
    match stage.cut() {
        Some(cut) if removed > 0 => deeds.push(keeps(cut, stage.before())),
        None if removed > 0 => deeds.push(format!("drops {}", tokens(removed))),
        _ => {}
    }
    match stage.temperature() {
        Some(t) if changed > 0 => deeds.push(format!("divides logits by {}", number(t))),
        None if changed > 0 => deeds.push(format!("rewrites the logits of {}", tokens(changed))),
        _ => {}
    }
    deeds
}

fn tokens(count: usize) -> String {
    format!("{count} {}", if count == 1 { "token" } else { "tokens" })
}

/// The rule by which tokens were kept, with its threshold.
pub(super) fn keeps(cut: Cut, before: &Snapshot) -> String {
    match cut {
        Cut::Top { n, logit } => {
            format!("keeps the {n} most likely: logit ≥ {}", number(logit))
        }
        Cut::DropTop { n, logit } => {
            format!("drops the {n} most likely: logit ≥ {}", number(logit))
        }
        Cut::Logit { floor } => {
            let best = before.top(1).first().map_or(floor, |best| best.logit);
            let ratio = f64::from(floor - best).exp();
            format!("keeps logit ≥ {}: p ≥ {} of the best", number(floor), number(ratio))
        }
        Cut::Probability { floor } => format!("keeps p ≥ {}", percent(floor)),
        Cut::Nucleus { p, mass, logit } => format!(
            "keeps the most likely that reach {}, in sum {}: logit ≥ {}",
            number(p),
            number(mass),
            number(logit)
        ),
        Cut::Typical { surprise, reach, p, mass } => format!(
            "keeps those within {} of {} bits of surprise that reach {}, in sum {}",
            number(reach),
            number(surprise),
            number(p),
            number(mass)
        ),
        other => format!("{other:?}"),
    }
}
