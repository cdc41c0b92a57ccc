//! The state as a picture. Everything that a colour says is said by a character
//! too.

mod chain;
mod draw;
mod help;
mod status;
mod text;
mod tokens;
mod words;

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    text::{Line, Span},
};

use super::{look::Look, recording::Recording, state::State};

/// The terminal must have so many columns and lines.
const MIN: (u16, u16) = (60, 15);

/// From so many columns on, the tokens stand beside the chain.
const WIDE: u16 = 76;

pub(super) const DIM: Style = Style::new().add_modifier(Modifier::DIM);
pub(super) const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
pub(super) const TITLE: Style = Style::new().fg(Color::Cyan).add_modifier(Modifier::BOLD);
pub(super) const CHANGED: Style = Style::new().fg(Color::Yellow).add_modifier(Modifier::BOLD);
pub(super) const WRONG: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
pub(super) const CHOSEN: Style = Style::new().add_modifier(Modifier::REVERSED);

/// All that is shown.
#[derive(Clone, Copy)]
pub(super) struct Scene<'a> {
    pub(super) state: &'a State<'a>,
    pub(super) look: &'a Look,
    pub(super) recording: &'a Recording<'a>,
}

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, scene: Scene<'_>) {
    let area = frame.area();
    if area.width < MIN.0 || area.height < MIN.1 {
        let (width, height) = (area.width, area.height);
        let text = format!("{width}×{height}: the terminal needs {}×{}", MIN.0, MIN.1);
        return frame.render_widget(Line::from(text), area);
    }
    let below = status::lines(scene, area.width);
    let status = below.len() as u16;
    let tall = area.height >= 20;
    let mut text = text::lines(scene, area.width);
    // Its end is what counts.
    let most = if tall { usize::from(area.height / 8) } else { 2 };
    text.drain(..text.len().saturating_sub(most));
    let [head, above, middle, draw, status] = area.layout(&Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(text.len() as u16),
        Constraint::Min(6),
        Constraint::Length(if tall { 3 } else { 2 }),
        Constraint::Length(status),
    ]));
    let (chain, details, tokens) = panes(middle, scene);
    frame.render_widget(status::head(scene, head.width), head);
    show(frame, text, above);
    chain::draw(frame, chain, scene);
    chain::details(frame, details, scene);
    tokens::draw(frame, tokens, scene);
    draw::draw(frame, draw, scene, tall);
    show(frame, below, status);
    if scene.state.mode == super::state::Mode::Help {
        help::draw(frame, area);
    }
}

/// As many lines as there are rows for.
pub(super) fn show(frame: &mut Frame<'_>, lines: Vec<Line<'static>>, area: Rect) {
    for (line, row) in lines.into_iter().zip(area.rows()) {
        frame.render_widget(line, row);
    }
}

/// The chain, what there is to know about the chosen stage, and the tokens.
fn panes(area: Rect, scene: Scene<'_>) -> (Rect, Rect, Rect) {
    // A title, the logits, and the stages.
    let rows = scene.state.draft.slots.len() as u16 + 2;
    if area.width >= WIDE {
        // Where there is room, the parameters stand in the chain.
        let share = if area.width >= 110 { 55 } else { 58 };
        let [left, right] = area.layout(
            &Layout::horizontal([Constraint::Percentage(share), Constraint::Min(0)]).spacing(2),
        );
        let details = 6.min(left.height.saturating_sub(rows).max(3));
        let [chain, details] =
            left.layout(&Layout::vertical([Constraint::Min(3), Constraint::Length(details)]));
        return (chain, details, right);
    }
    let details = if area.height >= 14 { 3 } else { 1 };
    let most = (area.height - details) / 2;
    area.layout::<3>(&Layout::vertical([
        Constraint::Length(rows.min(most)),
        Constraint::Length(details),
        Constraint::Min(2),
    ]))
    .into()
}

/// A title, and a rule to the end of the line.
pub(super) fn title(text: &str, width: u16) -> Line<'static> {
    let text = words::cut(text, usize::from(width).saturating_sub(4));
    let text = Span::styled(format!("─ {text} "), TITLE);
    let rest = usize::from(width).saturating_sub(text.width());
    Line::from(vec![text, Span::styled("─".repeat(rest), DIM)])
}
