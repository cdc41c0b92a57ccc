use logitchain_core::{
    Chain, Kind, SampleError, Snapshot, StageTrace, TokenId, Trace, TracedToken,
};

use super::recording::Recording;
use crate::explain::stages::deeds;

/// No list of tokens is longer.
const MAX_ROWS: usize = 60;

/// What a chain did at one step: all that the view shows of it.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) start: Point,
    /// Of the stages that were reached.
    pub(crate) stages: Vec<StageLook>,
    pub(crate) outcome: Result<TokenId, SampleError>,
    pub(crate) draw: Option<DrawLook>,
    /// The first step before this one at which the chain fails, counted from 0.
    pub(crate) failed_before: Option<usize>,
}

/// The candidates at one point.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    pub(crate) count: usize,
    /// In bits.
    pub(crate) entropy: f64,
}

#[derive(Debug)]
pub(crate) struct StageLook {
    pub(crate) params: toml::Table,
    pub(crate) neutral: bool,
    pub(crate) before: Point,
    pub(crate) after: Point,
    pub(crate) removed_mass: f64,
    /// What it did, in words; may be empty.
    pub(crate) deed: String,
    /// The tokens to show after it.
    pub(crate) rows: Vec<Row>,
}

/// A token before and after a stage.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) id: TokenId,
    pub(crate) before: f64,
    /// `None` if the stage removed it.
    pub(crate) after: Option<f64>,
    /// Whether it was gone before; `before` is then what the model gave.
    pub(crate) gone: bool,
}

#[derive(Debug)]
pub(crate) struct DrawLook {
    pub(crate) u: f64,
    pub(crate) token: TokenId,
    /// Tokens in their order on the line, with beginning and end.
    pub(crate) line: Vec<(TokenId, f64, f64)>,
}

impl Look {
    /// Runs a freshly built chain over the text and all steps up to this one. At
    /// each step before, it draws as it would and then hears what really followed,
    /// so that its history and its random numbers are those of this step.
    pub(crate) fn new(mut chain: Chain, recording: &Recording<'_>, nth: usize) -> Self {
        recording.prompt().iter().for_each(|token| chain.accept(*token));
        let mut failed_before = None;
        let here = &recording.steps()[nth];
        let mut logits = Vec::new();
        for (step, recorded) in recording.before(nth).iter().enumerate() {
            logits.clone_from(&recorded.logits);
            if chain.sample(&mut logits).is_err() {
                failed_before = failed_before.or(Some(step));
            }
            recorded.token.into_iter().for_each(|token| chain.accept(token));
        }
        logits.clone_from(&here.logits);
        let trace = chain.trace(&mut logits);
        let wanted: Vec<TokenId> =
            here.token.into_iter().chain(trace.outcome().as_ref().ok().copied()).collect();
        Self {
            start: Point::of(trace.start()),
            stages: trace.stages().iter().map(|s| StageLook::new(s, &trace, &wanted)).collect(),
            outcome: trace.outcome().clone(),
            draw: trace.draw().map(|draw| DrawLook {
                u: draw.u,
                token: draw.token,
                line: draw.line().collect(),
            }),
            failed_before,
        }
    }
}

impl Point {
    fn of(snapshot: &Snapshot) -> Self {
        Self { count: snapshot.len(), entropy: snapshot.entropy() }
    }
}

impl StageLook {
    fn new(stage: &StageTrace, trace: &Trace, wanted: &[TokenId]) -> Self {
        Self {
            params: stage.params().clone(),
            neutral: stage.is_neutral(),
            before: Point::of(stage.before()),
            after: Point::of(stage.after()),
            removed_mass: stage.removed_mass(),
            deed: deed(stage),
            rows: rows(stage, trace.start(), wanted),
        }
    }
}

fn deed(stage: &StageTrace) -> String {
    if stage.is_neutral() {
        return "off: its parameters do nothing".to_owned();
    }
    match deeds(stage).join(", ") {
        // What a selecting stage does is shown by the draw.
        deeds if deeds.is_empty() && stage.kind() != Kind::Select => {
            "changes nothing here".to_owned()
        }
        deeds => deeds,
    }
}

/// The tokens that were most likely before or after a stage, and then those of the
/// model's that had gone before.
fn rows(stage: &StageTrace, start: &Snapshot, wanted: &[TokenId]) -> Vec<Row> {
    let (before, after) = (stage.before(), stage.after());
    let ids = |snapshot: &Snapshot| {
        snapshot.top(MAX_ROWS).into_iter().map(|token| token.id).collect::<Vec<_>>()
    };
    let row = |id: TokenId| {
        let after = after.get(id).map(|token| token.probability);
        match before.get(id) {
            Some(TracedToken { probability, .. }) => {
                Some(Row { id, before: probability, after, gone: false })
            }
            None => {
                let before = start.get(id)?.probability;
                Some(Row { id, before, after: None, gone: true })
            }
        }
    };
    let all = [ids(before), ids(after), ids(start), wanted.to_vec()].concat();
    let mut all: Vec<Row> = all.into_iter().filter_map(row).collect();
    let most = |row: &Row| row.before.max(row.after.unwrap_or(0.0));
    all.sort_by(|a, b| a.gone.cmp(&b.gone).then(most(b).total_cmp(&most(a))).then(a.id.cmp(&b.id)));
    all.dedup_by_key(|row| row.id);
    let kept =
        all.iter().enumerate().filter(|(nth, row)| *nth < MAX_ROWS || wanted.contains(&row.id));
    kept.map(|(_, row)| *row).collect()
}

/// A probability for people, in at most six characters.
pub(crate) fn percent(p: f64) -> String {
    let p = 100.0 * p;
    match p {
        0.0 => "0%".to_owned(),
        p if p < 0.01 => "<0.01%".to_owned(),
        p if p < 9.995 => format!("{p:.2}%"),
        p if p < 99.95 => format!("{p:.1}%"),
        p if p < 100.0 => format!("{p:.2}%").replace("100.00", "~100"),
        _ => "100%".to_owned(),
    }
}
