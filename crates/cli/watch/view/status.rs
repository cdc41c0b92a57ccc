use ratatui::text::{Line, Span};

use super::{BOLD, CHANGED, CHOSEN, DIM, Scene, TITLE, WRONG, words};
use crate::{list::range, watch::state::Mode};

const KEYS: [(&str, &str); 11] = [
    ("←→", "step"),
    ("↑↓", "stage"),
    ("Tab", "parameter"),
    ("+-", "change"),
    ("=", "type"),
    ("K J", "move"),
    ("d", "off/on"),
    ("r", "reset"),
    ("w", "write"),
    ("?", "help"),
    ("q", "quit"),
];

/// Which step it is, and which token.
pub(super) fn head(scene: Scene<'_>, width: u16) -> Line<'static> {
    let Scene { state, look, recording } = scene;
    let seen = recording.steps().len();
    let of = match recording.end() {
        Some(_) => format!(" of {seen}"),
        None => String::new(),
    };
    let token = recording.steps()[state.step].token;
    let text = |token| words::cut(&words::token(state.vocab, token), 20);
    let mut line = Line::from(vec![
        Span::styled(format!("step {}{of}", state.step + 1), TITLE),
        Span::raw("  "),
        Span::styled(token.map_or_else(|| "no token".to_owned(), text), BOLD),
    ]);
    match look.outcome {
        Ok(other) if Some(other) != token => {
            line.push_span(Span::styled(format!(" → {} with this chain", text(other)), CHANGED));
        }
        Err(_) if token.is_some() => line.push_span(Span::styled(" → none with this chain", WRONG)),
        _ => {}
    }
    let right = if state.is_changed() { "chain changed" } else { "chain as given" };
    let gap = usize::from(width).saturating_sub(line.width() + right.len());
    line.push_span(" ".repeat(gap));
    let style = if state.is_changed() { CHANGED } else { DIM };
    line.push_span(Span::styled(right, style));
    line
}

/// What is typed, what there is to say, or else the keys.
pub(super) fn lines(scene: Scene<'_>, width: u16) -> Vec<Line<'static>> {
    let Scene { state, look, .. } = scene;
    let mut lines = Vec::new();
    let asked = match &state.mode {
        Mode::Value(line) => {
            let param = state.chosen();
            let name = param.as_ref().map_or("", |param| &param.name);
            let hint = param.as_ref().map(range).unwrap_or_default();
            Some((format!("{name} = "), Some(line), hint))
        }
        Mode::Name(line) => {
            let hint =
                if line.text().is_empty() { "  (none: print --samplers on leaving)" } else { "" };
            Some(("chain file: ".to_owned(), Some(line), hint.to_owned()))
        }
        Mode::Overwrite(path) => {
            let path = words::plain(&path.display().to_string());
            Some((format!("overwrite {path}? y/n"), None, String::new()))
        }
        Mode::Watch | Mode::Help => None,
    };
    if let Some((what, line, hint)) = asked {
        let mut spans = vec![Span::styled(what, CHANGED)];
        if let Some(line) = line {
            let style = if line.suggested { CHOSEN } else { BOLD };
            spans.push(Span::styled(words::plain(line.text()), style));
            spans.push(Span::styled("█", BOLD));
        }
        spans.push(Span::styled(hint, DIM));
        lines.extend(words::wrap(&spans, width.into()));
    }
    if let Some((said, wrong)) = &state.said {
        let style = if *wrong { WRONG } else { BOLD };
        lines.extend(words::wrap(&[Span::styled(words::plain(said), style)], width.into()));
    } else if lines.is_empty()
        && let Some(step) = look.failed_before
    {
        lines.push(Line::styled(format!("this chain fails at step {} already", step + 1), WRONG));
    } else if lines.is_empty() {
        lines.push(keys(width));
    }
    // The rest of the picture needs its place.
    lines.truncate(4);
    lines
}

/// As many keys as there is room for; help is always there.
fn keys(width: u16) -> Line<'static> {
    let length = |(key, what): &(&str, &str)| words::width(key) + 1 + what.len() + 2;
    let mut room = usize::from(width) + 2;
    let last: usize = KEYS[KEYS.len() - 2..].iter().map(length).sum();
    let mut line = Line::default();
    for (nth, entry) in KEYS.iter().enumerate() {
        let needed = length(entry) + if nth + 2 < KEYS.len() { last } else { 0 };
        if needed > room {
            continue;
        }
        room -= length(entry);
        line.push_span(Span::styled(entry.0, BOLD));
        line.push_span(Span::styled(format!(" {}  ", entry.1), DIM));
    }
    line
}
