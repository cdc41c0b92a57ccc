use ratatui::{
    Frame,
    layout::Rect,
    style::Style,
    text::{Line, Span},
};

use super::{BOLD, CHANGED, CHOSEN, DIM, Scene, WRONG, show, title, words};
use crate::{
    list::range,
    value::value,
    watch::{
        look::{Look, StageLook, percent},
        state::State,
    },
};

/// Columns of what is removed, and of an entropy.
const REMOVED: usize = 7;
const BITS: usize = 6;

/// The stages, one in a line.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, scene: Scene<'_>) {
    let Scene { state, look, .. } = scene;
    let places = state.draft.places(state.registry);
    let mut rows = vec![Row::logits(look)];
    for (nth, place) in places.iter().enumerate() {
        let stage = place.and_then(|place| look.stages.get(place));
        rows.push(Row::stage(state, nth, stage, place.is_some()));
    }
    let columns = Columns::new(&rows, area.width.into());
    // The chosen stage is in sight.
    let height = usize::from(area.height).saturating_sub(1);
    let first = (state.stage + 2).saturating_sub(height);
    let head = Row {
        name: "stage".to_owned(),
        params: "parameters".to_owned(),
        candidates: "candidates".to_owned(),
        removed: "removed".to_owned(),
        bits: "bits".to_owned(),
        ..Row::default()
    };
    let head = columns.line(&head, "─ ").patch_style(super::TITLE);
    let lines = rows.iter().enumerate().skip(first).map(|(nth, row)| {
        let chosen = nth == state.stage + 1;
        let line = columns.line(row, if chosen { "▸ " } else { "  " });
        line.patch_style(if chosen { row.style.patch(BOLD) } else { row.style })
    });
    show(frame, std::iter::once(head).chain(lines).collect(), area);
}

/// What is known about the chosen stage: its parameters and what it did.
pub(super) fn details(frame: &mut Frame<'_>, area: Rect, scene: Scene<'_>) {
    let Scene { state, look, .. } = scene;
    let slot = &state.draft.slots[state.stage];
    let stage = slot.registration(state.registry);
    let (width, height) = (usize::from(area.width), usize::from(area.height));

    let mut lines = Vec::new();
    if height > 1 {
        lines.push(title(&format!("{}: {}", slot.name, stage.summary()), area.width));
    }
    let place = state.draft.places(state.registry)[state.stage];
    let deed = place.and_then(|place| look.stages.get(place)).map_or("", |stage| &stage.deed);
    let deed = if deed.is_empty() { vec![] } else { words::wrap(&[Span::raw(deed)], width) };
    // The chosen parameter is in sight.
    let params = params_in_full(state, width);
    let chosen = params.iter().position(|line| line.iter().any(|span| span.style == CHOSEN));
    let room = height.saturating_sub(lines.len() + deed.len()).max(1);
    let first = (chosen.unwrap_or(0) + 1).saturating_sub(room);
    lines.extend(params.into_iter().skip(first).take(room));
    lines.extend(deed);
    if let Some(param) = state.chosen() {
        let about = param.description.split("\n\n").next().unwrap_or_default();
        let about = about.split_whitespace().collect::<Vec<_>>().join(" ");
        let about = Span::styled(format!("{}: {about}", param.name), DIM);
        lines.extend(words::wrap(&[about], width));
    }
    show(frame, lines, area);
}

fn params_in_full(state: &State<'_>, width: usize) -> Vec<Line<'static>> {
    let slot = &state.draft.slots[state.stage];
    let mut spans = Vec::new();
    for (nth, param) in slot.params(state.registry).iter().enumerate() {
        let text = words::plain(&format!("{}={}", param.name, value(&slot.value(param))));
        spans.push(Span::raw(if nth == 0 { "" } else { "  " }));
        if nth == state.param {
            spans.push(Span::styled(text, CHOSEN));
            spans.push(Span::styled(range(param), DIM));
        } else {
            spans.push(Span::styled(text, BOLD));
        }
    }
    if spans.is_empty() {
        spans.push(Span::styled("no parameters", DIM));
    }
    words::wrap(&spans, width)
}

#[derive(Default)]
struct Row {
    name: String,
    params: String,
    candidates: String,
    removed: String,
    bits: String,
    style: Style,
}

impl Row {
    fn logits(look: &Look) -> Self {
        Self {
            name: "logits".to_owned(),
            candidates: look.start.count.to_string(),
            bits: format!("{:.2}", look.start.entropy),
            ..Self::default()
        }
    }

    fn stage(state: &State<'_>, nth: usize, stage: Option<&StageLook>, present: bool) -> Self {
        let slot = &state.draft.slots[nth];
        let changed = if state.is_slot_changed(nth) { "*" } else { "" };
        let row = Self { name: format!("{}{changed}", slot.name), ..Self::default() };
        let style = if changed.is_empty() { Style::new() } else { CHANGED };
        let Some(stage) = stage else {
            let candidates = if present { "not reached" } else { "off" }.to_owned();
            return Self { candidates, style: DIM, ..row };
        };
        let params = params(state, nth, stage);
        if stage.neutral {
            return Self { params, candidates: "off".to_owned(), style: DIM, ..row };
        }
        let (before, after) = (stage.before.count, stage.after.count);
        let dropped = before != after;
        Self {
            params,
            candidates: if dropped { format!("{before}→{after}") } else { after.to_string() },
            removed: if dropped { percent(stage.removed_mass) } else { String::new() },
            bits: if after == 0 { String::new() } else { format!("{:.2}", stage.after.entropy) },
            style: if after == 0 { WRONG } else { style },
            ..row
        }
    }
}

/// The parameters that are not as by default, and the first one.
fn params(state: &State<'_>, nth: usize, stage: &StageLook) -> String {
    let all = state.draft.slots[nth].params(state.registry);
    let shown = all.iter().enumerate().filter_map(|(nth, param)| {
        let now = stage.params.get(&param.name)?;
        let shown = nth == 0 || *now != param.default;
        shown.then(|| words::plain(&format!("{}={}", param.name, value(now))))
    });
    shown.collect::<Vec<_>>().join(" ")
}

struct Columns {
    name: usize,
    params: usize,
    candidates: usize,
}

impl Columns {
    fn new(rows: &[Row], width: usize) -> Self {
        let widest = |column: fn(&Row) -> &str, least| {
            rows.iter().map(|row| words::width(column(row))).fold(least, usize::max)
        };
        let candidates = widest(|row| &row.candidates, 10).min(15);
        let name = widest(|row| &row.name, 6).min(13);
        // Two columns in front, and one between.
        let rest = width.saturating_sub(2 + name + 1 + candidates + 1 + REMOVED + 1 + BITS);
        let params = if rest >= 8 { rest - 1 } else { 0 };
        let name = if params == 0 { name + rest } else { name };
        Self { name, params, candidates }
    }

    fn line(&self, row: &Row, mark: &str) -> Line<'static> {
        let mut line = format!("{mark}{} ", words::pad(&row.name, self.name));
        if self.params > 0 {
            line += &words::pad(&row.params, self.params);
            line += " ";
        }
        line += &words::pad_left(&row.candidates, self.candidates);
        line += &words::pad_left(&row.removed, REMOVED + 1);
        line += &words::pad_left(&row.bits, BITS + 1);
        Line::from(line)
    }
}
