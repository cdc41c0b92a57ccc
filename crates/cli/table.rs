//! Tables of text, with styles for a terminal.

use std::fmt::Write as _;

use anstyle::Style;
use unicode_width::UnicodeWidthStr as _;

/// Space between columns.
const GAP: &str = "  ";

/// Where a column's texts stand.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Align {
    Left,
    Right,
}

/// A text in a table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    pub(crate) fn styled(text: impl Into<String>, style: Style) -> Self {
        Self { text: text.into(), style }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::styled(text, Style::new())
    }
}

/// Rows of cells.
#[derive(Debug)]
pub(crate) struct Table {
    aligns: Vec<Align>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// With a row of heads.
    pub(crate) fn new(columns: Vec<(Align, String)>) -> Self {
        let (aligns, heads): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
        let heads = heads.into_iter().map(|head| Cell::styled(head, Style::new().bold()));
        Self { aligns, rows: vec![heads.collect()] }
    }

    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// With escape sequences for the styles, and no space at the ends of lines.
    pub(crate) fn render(&self) -> String {
        let width = |cell: &Cell| cell.text.width();
        let column = |nth| self.rows.iter().filter_map(move |row: &Vec<Cell>| row.get(nth));
        let widths: Vec<usize> =
            (0..self.aligns.len()).map(|nth| column(nth).map(width).max().unwrap_or(0)).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut spaces = 0;
            for (nth, cell) in row.iter().enumerate() {
                let fill = widths[nth] - width(cell);
                let (before, after) = match self.aligns[nth] {
                    Align::Left => (0, fill),
                    Align::Right => (fill, 0),
                };
                if cell.text.is_empty() {
                    spaces += fill;
                } else {
                    let Cell { text: cell, style } = cell;
                    let gap = spaces + before;
                    let _ = write!(text, "{:gap$}{style}{cell}{style:#}", "");
                    spaces = after;
                }
                spaces += GAP.len();
            }
            text.push('\n');
        }
        text
    }
}

/// A share of 1 as a bar of at most so many columns, to an eighth of one.
pub(crate) fn bar(share: f64, columns: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * 8.0 * columns as f64).round() as usize;
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

/// `12.35 %`; what is above 0 never reads as 0.
pub(crate) fn percent(share: f64) -> String {
    if share > 0.0 && share < 0.000_05 {
        "<0.01 %".to_owned()
    } else {
        format!("{:.2} %", 100.0 * share)
    }
}

/// With four decimals, without zeros at the end.
pub(crate) fn number(value: impl Into<f64>) -> String {
    let text = format!("{:.4}", value.into());
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_text_on_a_terminal() {
        let heads = [(Align::Left, "a"), (Align::Right, "b"), (Align::Left, "c")];
        let heads = heads.map(|(align, head)| (align, head.to_owned())).to_vec();
        let mut table = Table::new(heads);
        // Two characters of two columns each.
        table.row(vec!["日本".into(), "1".into(), Cell::default()]);
        table.row(vec![Cell::default(), "100".into(), "x".into()]);
        let text = anstream::adapter::strip_str(&table.render()).to_string();
        assert_eq!(text, "a       b  c\n日本    1\n      100  x\n");
    }

    #[test]
    fn bars_are_of_eighths() {
        assert_eq!(bar(0.0, 4), "");
        assert_eq!(bar(1.0, 4), "████");
        // 4 * 0.4 is 1.6, nearest to 13 eighths.
        assert_eq!(bar(0.4, 4), "█▋");
        assert_eq!(bar(f64::NAN, 4), "");
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(number(-0.000_01), "0");
        assert_eq!(number(12.340_04), "12.34");
        assert_eq!(number(120.0), "120");
        assert_eq!(percent(0.000_01), "<0.01 %");
        assert_eq!(percent(0.123_456), "12.35 %");
    }
}
