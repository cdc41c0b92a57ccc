use ratatui::{
    Frame,
    layout::Rect,
    style::{Color, Modifier, Style},
    text::{Line, Span},
};

use super::{DIM, Scene, WRONG, show, title, words};
use crate::watch::look::DrawLook;

const FALLEN: Style = Style::new().fg(Color::Black).bg(Color::Yellow).add_modifier(Modifier::BOLD);

/// The line on which the random number fell.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, scene: Scene<'_>, tall: bool) {
    let Scene { state, look, .. } = scene;
    let (head, mut lines) = match (&look.draw, &look.outcome) {
        (Some(draw), _) => {
            let token = words::token(state.vocab, draw.token);
            let found = draw.line.iter().find(|(id, ..)| *id == draw.token);
            let (low, high) = found.map_or((0.0, 1.0), |(_, low, high)| (*low, *high));
            let head = format!("draw: u = {:.4} fell on {token}, {low:.4} to {high:.4}", draw.u);
            (head, stretches(draw, scene, area.width.into(), tall))
        }
        (None, Ok(token)) => {
            let token = words::token(state.vocab, *token);
            ("draw".to_owned(), vec![Line::from(format!("none: {token} was chosen without it"))])
        }
        (None, Err(error)) => {
            let error = words::plain(&crate::report::line(error));
            let error = Span::styled(error, WRONG);
            ("the chain fails".to_owned(), words::wrap(&[error], area.width.into()))
        }
    };
    lines.insert(0, title(&head, area.width));
    show(frame, lines, area);
}

fn stretches(draw: &DrawLook, scene: Scene<'_>, width: usize, tall: bool) -> Vec<Line<'static>> {
    let cell = |x: f64| ((x * width as f64) as usize).min(width);
    let fell = cell(draw.u).min(width.saturating_sub(1));
    let mut line = Line::default();
    let mut used = 0;
    for &(id, low, high) in &draw.line {
        let (from, to) = (cell(low).max(used), cell(high));
        // What is too short for a column leaves it to the others.
        if to <= from {
            continue;
        }
        line.push_span(Span::styled("·".repeat(from - used), DIM));
        let style = if id == draw.token { FALLEN } else { Style::new() };
        // A letter or two say nothing of a longer token.
        let room = to - from - 1;
        let text = words::token(scene.state.vocab, id);
        let text = if room < 3 && words::width(&text) > room { "" } else { &text };
        let label = format!("│{}", words::pad(text, room));
        line.push_span(Span::styled(label, style));
        used = to;
    }
    line.push_span(Span::styled("·".repeat(width - used), DIM));
    if !tall {
        return vec![line];
    }
    let scale = (0..width).map(|column| match column {
        column if column == fell => '▲',
        0 => '0',
        column if column + 1 == width => '1',
        _ => ' ',
    });
    vec![line, Line::from(scale.collect::<String>())]
}
