use ratatui::{
    Frame,
    layout::Rect,
    text::{Line, Span},
    widgets::{Block, Clear, Paragraph},
};

use super::{BOLD, TITLE};

const HELP: [(&str, &str); 12] = [
    ("← → p n", "the step before, the next one; Home and End"),
    ("↑ ↓ k j", "the stage before, the next one"),
    ("Tab Enter", "the next parameter of the stage"),
    ("+ -", "the parameter's next value"),
    ("= e", "type a value; Enter takes it, Esc leaves it"),
    ("K J", "move the stage; also Shift with ↑ ↓"),
    ("d", "switch the stage off or on"),
    ("r", "the chain as it was given"),
    ("w", "write the chain file, or print --samplers"),
    ("q", "quit; a chain that is in no file is printed"),
    ("• »", "the token of the text, this chain's token"),
    ("▓ ░ ×", "won, lost, removed"),
];

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect) {
    let lines = HELP.map(|(keys, what)| {
        Line::from(vec![Span::styled(format!(" {keys:<11}"), BOLD), Span::raw(what)])
    });
    let (width, height) = (60.min(area.width), (lines.len() as u16 + 2).min(area.height));
    let area = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    let block = Block::bordered().title(Span::styled(" any key goes back ", TITLE));
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(lines.to_vec()).block(block), area);
}
