//! Texts that fit, and cannot steer a terminal.

use logitchain_core::{TokenId, Vocab};
use ratatui::{
    style::Style,
    text::{Line, Span},
};

use crate::token_text;

/// A token as one word, in which spaces can be seen; its id where no text is known.
pub(crate) fn token(vocab: &dyn Vocab, id: TokenId) -> String {
    let text = token_text::shown(vocab, id);
    match text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        None => format!("#{id}"),
        Some("") => text,
        // It stands without quotes here.
        Some(text) => text.replace("\\'", "'").replace("\\\"", "\"").replace(' ', "␣"),
    }
}

/// A text without what moves the cursor.
pub(crate) fn plain(text: &str) -> String {
    let seen = text.chars().map(|c| match c {
        '\n' => '↵',
        '\t' => '⇥',
        c if c.is_control() || turns(c) => '\u{FFFD}',
        c => c,
    });
    seen.collect()
}

/// Whether it changes the direction of what follows.
fn turns(c: char) -> bool {
    matches!(c, '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

/// How many columns a text takes.
pub(crate) fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// The beginning of a text that fits, with an ellipsis where some is missing.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let span = Span::raw(text);
    let mut short = String::new();
    for grapheme in span.styled_graphemes(Style::new()) {
        if width(&short) + width(grapheme.symbol) + 1 > columns {
            break;
        }
        short += grapheme.symbol;
    }
    if columns > 0 { short + "…" } else { short }
}

/// The text in exactly so many columns.
pub(crate) fn pad(text: &str, columns: usize) -> String {
    let text = cut(text, columns);
    let missing = columns - width(&text);
    text + &" ".repeat(missing)
}

/// The same, with the text at the end.
pub(crate) fn pad_left(text: &str, columns: usize) -> String {
    let text = cut(text, columns);
    " ".repeat(columns - width(&text)) + &text
}

/// Breaks texts into lines, at spaces where there are some.
pub(crate) fn wrap(spans: &[Span<'_>], columns: usize) -> Vec<Line<'static>> {
    let all = spans.iter().flat_map(|span| span.styled_graphemes(Style::new()));
    let mut lines: Vec<Vec<(String, Style)>> = vec![Vec::new()];
    let mut used = 0;
    for grapheme in all {
        let wide = width(grapheme.symbol);
        if used + wide > columns {
            let line = lines.last_mut().expect("there is a first");
            let space = line.iter().rposition(|(symbol, _)| symbol == " ");
            // A word that fills the line is broken.
            let rest = space.map_or_else(Vec::new, |space| line.split_off(space + 1));
            used = rest.iter().map(|(symbol, _)| width(symbol)).sum();
            lines.push(rest);
        }
        used += wide;
        let line = lines.last_mut().expect("there is a first");
        line.push((grapheme.symbol.to_owned(), grapheme.style));
    }
    let line = |line: Vec<(String, Style)>| {
        let mut spans: Vec<Span<'static>> = Vec::new();
        for (symbol, style) in line {
            match spans.last_mut().filter(|span| span.style == style) {
                Some(span) => *span.content.to_mut() += &symbol,
                None => spans.push(Span::styled(symbol, style)),
            }
        }
        Line::from(spans)
    };
    lines.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use ratatui::style::Modifier;

    use super::*;

    #[test]
    fn texts_are_as_wide_as_a_terminal_shows_them() {
        // Two characters of two columns each.
        assert_eq!(width("日本"), 4);
        assert_eq!(cut("日本", 4), "日本");
        assert_eq!(cut("日本", 3), "日…");
        assert_eq!(cut("日本", 2), "…");
        assert_eq!(cut("日本", 0), "");
        assert_eq!(pad("日本", 3), "日…");
        assert_eq!(pad("日", 4), "日  ");
        assert_eq!(pad_left("日", 4), "  日");
        assert_eq!(pad_left("abc", 2), "a…");
    }

    #[test]
    fn lines_break_at_spaces_and_long_words_anywhere() {
        let lines = |text: &str, columns| {
            let lines = wrap(&[Span::raw(text)], columns);
            lines.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(lines("ab cd ef", 5), ["ab ", "cd ef"]);
        assert_eq!(lines("abcdef", 4), ["abcd", "ef"]);
        assert_eq!(lines("日本日本", 5), ["日本", "日本"]);
        assert_eq!(lines("", 5), [""]);
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let styled = wrap(&[Span::raw("ab"), Span::styled("cd e", bold)], 4);
        assert_eq!(styled[0].spans, [Span::raw("ab"), Span::styled("cd", bold)]);
    }

    #[test]
    fn a_token_is_one_word() {
        #[derive(Debug)]
        struct One(&'static [u8]);
        impl Vocab for One {
            fn size(&self) -> usize {
                1
            }

            fn bytes(&self, _: TokenId) -> &[u8] {
                self.0
            }
        }
        for (bytes, word) in [
            (&b" it's \"a\""[..], "␣it's␣\"a\""),
            (b"\n", "\\n"),
            (b"a\xE2", "a\\xE2"),
            (b"", "\"\""),
        ] {
            assert_eq!(token(&One(bytes), TokenId(0)), word);
        }
        assert_eq!(token(&One(b"a"), TokenId(7)), "#7");
    }

    #[test]
    fn nothing_in_a_text_steers_the_terminal() {
        assert_eq!(plain("a\n\tb\u{1b}[1m\u{202e}é"), "a↵⇥b\u{FFFD}[1m\u{FFFD}é");
    }
}
