use ratatui::{
    Frame,
    layout::Rect,
    style::{Color, Modifier, Style},
    text::{Line, Span},
};

use super::{BOLD, CHANGED, DIM, Scene, show, title, words};
use crate::{
    table,
    watch::look::{Row, percent},
};

const GONE: Style = DIM.add_modifier(Modifier::CROSSED_OUT);
const REMOVED: Style = Style::new().fg(Color::Red).add_modifier(Modifier::CROSSED_OUT);

/// Of a probability, as `percent` writes it.
const NUMBER: usize = 6;

/// The tokens before and after the chosen stage, or after the last one that ran.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, scene: Scene<'_>) {
    let Scene { state, look, recording } = scene;
    let place = state.draft.places(state.registry)[state.stage];
    let name = state.draft.slots[state.stage].name;
    let stage = place.and_then(|place| look.stages.get(place));
    let Some(stage) = stage else {
        let text = if place.is_some() { "was not reached" } else { "is off" };
        return frame.render_widget(title(&format!("{name} {text}"), area.width), area);
    };
    let recorded = recording.steps()[state.step].token;
    let mark = |row: &Row| match (recorded == Some(row.id), look.outcome == Ok(row.id)) {
        (true, _) => ("• ", BOLD),
        (_, true) => ("» ", CHANGED),
        _ => ("  ", Style::new()),
    };
    let height = usize::from(area.height).saturating_sub(1);
    let rows = visible(&stage.rows, height, |row| mark(row).0 != "  ");

    let texts: Vec<String> = rows.iter().map(|row| words::token(state.vocab, row.id)).collect();
    let widest = texts.iter().map(|text| words::width(text)).max().unwrap_or(0);
    let width = usize::from(area.width);
    let text_width = widest.clamp(6, (width / 3).clamp(6, 20));
    let bar_width = width.saturating_sub(2 + text_width + 1 + 1 + NUMBER + 1 + NUMBER);
    let scale = rows.iter().map(|row| row.before.max(row.after.unwrap_or(0.0))).fold(0.0, f64::max);

    let head = title(&format!("{name}: before → after"), area.width);
    let mut lines = vec![head];
    for (row, text) in rows.iter().zip(&texts) {
        let (mark, style) = mark(row);
        let style = match row.after {
            Some(_) => style,
            None if row.gone => GONE,
            None => REMOVED,
        };
        let text = words::cut(text, text_width);
        let missing = text_width - words::width(&text);
        let mut line = Line::from(vec![
            Span::styled(mark, style.remove_modifier(Modifier::CROSSED_OUT)),
            Span::styled(text, style),
            Span::raw(" ".repeat(missing + 1)),
        ]);
        bar(row, scale, bar_width).into_iter().for_each(|span| line.push_span(span));
        let dim = if row.gone { DIM } else { Style::new() };
        line.push_span(Span::styled(words::pad_left(&percent(row.before), NUMBER + 1), dim));
        let after = row.after.map_or_else(|| "×".to_owned(), percent);
        line.push_span(Span::styled(words::pad_left(&after, NUMBER + 1), dim));
        lines.push(line);
    }
    show(frame, lines, area);
}

/// The first rows, and in place of the last ones those that must be seen.
fn visible(rows: &[Row], height: usize, must: impl Fn(&Row) -> bool) -> Vec<Row> {
    let hidden = rows.iter().skip(height).filter(|row| must(row)).count();
    let first = rows.iter().take(height).enumerate();
    let first = first.filter(|(nth, row)| *nth + hidden < height || must(row));
    let rest = rows.iter().skip(height).filter(|row| must(row));
    first.map(|(_, row)| row).chain(rest).take(height).copied().collect()
}

/// What stayed, and behind it what was won or lost.
fn bar(row: &Row, scale: f64, width: usize) -> Vec<Span<'static>> {
    let (before, after) = (row.before, row.after.unwrap_or(0.0));
    let kept = table::bar(before.min(after) / scale, width);
    let columns = words::width(&kept);
    // Whole columns, since a difference of less than one says nothing.
    let end = (before.max(after) / scale * width as f64).round() as usize;
    let rest = end.saturating_sub(columns);
    let (sign, style) = match (after > before, row.gone) {
        (true, _) => ("▓", Style::new().fg(Color::Green)),
        (_, true) => ("░", DIM),
        (_, false) => ("░", Style::new().fg(Color::Red)),
    };
    vec![
        Span::styled(kept, Style::new().fg(Color::Blue)),
        Span::styled(sign.repeat(rest), style),
        Span::raw(" ".repeat(width.saturating_sub(columns + rest))),
    ]
}
