//! A picture of the view, for the README.

use std::fmt::Write as _;

use ratatui::{
    buffer::{Buffer, Cell},
    style::{Color, Modifier},
};

/// In pixels; the font's width is what its size and family make it.
const CELL: (f64, f64) = (8.4, 18.0);
const FONT: f64 = 14.0;
const MARGIN: f64 = 14.0;
const PAPER: &str = "#1a1b26";
const INK: &str = "#c0caf5";

/// The cells of a buffer as SVG.
pub(super) fn svg(buffer: &Buffer) -> String {
    let area = buffer.area;
    let (width, height) = (
        f64::from(area.width) * CELL.0 + 2.0 * MARGIN,
        f64::from(area.height) * CELL.1 + 2.0 * MARGIN,
    );
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.1} {height:.1}\" \
         font-family=\"'DejaVu Sans Mono', Menlo, Consolas, monospace\" font-size=\"{FONT}\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{PAPER}\"/>\n"
    );
    for y in 0..area.height {
        let mut x = 0;
        while x < area.width {
            let cell = &buffer[(x, y)];
            let same = |other: &Cell| {
                (other.fg, other.bg, other.modifier) == (cell.fg, cell.bg, cell.modifier)
                    && drawn(other) == drawn(cell)
            };
            let length = (x..area.width).take_while(|x| same(&buffer[(*x, y)])).count() as u16;
            let text: String = (x..x + length).map(|x| buffer[(x, y)].symbol()).collect();
            run(&mut svg, cell, &text, (x, y, length));
            x += length;
        }
    }
    svg + "</svg>\n"
}

/// Blocks are drawn as rectangles, since fonts leave gaps between them: how wide
/// and how dense.
fn drawn(cell: &Cell) -> Option<(f64, f64)> {
    let eighths = ["▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"];
    match cell.symbol() {
        "▓" => Some((1.0, 0.75)),
        "░" => Some((1.0, 0.35)),
        symbol => {
            let nth = eighths.iter().position(|eighth| *eighth == symbol)?;
            Some(((nth as f64 + 1.0) / 8.0, 1.0))
        }
    }
}

/// Cells that look the same.
fn run(svg: &mut String, cell: &Cell, text: &str, (x, y, length): (u16, u16, u16)) {
    let (left, top) = (MARGIN + f64::from(x) * CELL.0, MARGIN + f64::from(y) * CELL.1);
    let width = f64::from(length) * CELL.0;
    let (mut ink, mut paper) = (colour(cell.fg, INK), colour(cell.bg, PAPER));
    if cell.modifier.contains(Modifier::REVERSED) {
        (ink, paper) = (paper, ink);
    }
    let mut rect = |y: f64, (width, height): (f64, f64), fill: &str, opacity: f64| {
        let _ = writeln!(
            svg,
            "<rect x=\"{left:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
             fill=\"{fill}\" fill-opacity=\"{opacity}\"/>"
        );
    };
    if paper != PAPER {
        rect(top, (width, CELL.1), paper, 1.0);
    }
    if let Some((part, opacity)) = drawn(cell) {
        let dim = if cell.modifier.contains(Modifier::DIM) { 0.6 } else { 1.0 };
        return rect(top + 3.0, (width * part, CELL.1 - 6.0), ink, opacity * dim);
    }
    if text.trim().is_empty() {
        return;
    }
    let mut style = String::new();
    if cell.modifier.contains(Modifier::BOLD) {
        style += " font-weight=\"bold\"";
    }
    if cell.modifier.contains(Modifier::CROSSED_OUT) {
        style += " text-decoration=\"line-through\"";
    }
    if cell.modifier.contains(Modifier::DIM) {
        style += " opacity=\"0.55\"";
    }
    // With a length of its own the text stays in its cells, whatever the font.
    let _ = writeln!(
        svg,
        "<text x=\"{left:.1}\" y=\"{:.1}\" textLength=\"{width:.1}\" xml:space=\"preserve\" \
         fill=\"{ink}\"{style}>{}</text>",
        top + CELL.1 - 4.5,
        text.replace('&', "&amp;").replace('<', "&lt;"),
    );
}

fn colour(colour: Color, otherwise: &'static str) -> &'static str {
    match colour {
        Color::Black => "#15161e",
        Color::Red => "#f7768e",
        Color::Green => "#9ece6a",
        Color::Yellow => "#e0af68",
        Color::Blue => "#7aa2f7",
        Color::Cyan => "#7dcfff",
        _ => otherwise,
    }
}
