//! Entropy and number of tokens over the first flag with several values.

use std::error::Error;

use plotters::{
    coord::ranged1d::{AsRangedCoord, ValueFormatter},
    element::DashedPathElement,
    prelude::*,
};

use super::output::Sweep;
use crate::report::Failure;

const WIDTH: u32 = 900;
const PANEL: u32 = 340;
/// Of a line of the legend.
const LINE: i32 = 20;
/// Of the sample of a line in the legend.
const SAMPLE: i32 = 24;

/// The lines are drawn in these colours, which most eyes tell apart (Okabe and Ito,
/// 2008), and then in these again, broken.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(70, 70, 70),
];

/// So many lines can be told apart.
const MAX_LINES: usize = 2 * COLOURS.len();

/// The settings that differ in the first flag alone.
struct Line {
    name: String,
    /// By the first flag's value.
    points: Vec<Point>,
}

#[derive(Clone, Copy)]
struct Point {
    at: f64,
    entropy: f64,
    tokens: f64,
}

/// Whether there is something to draw.
pub(crate) fn check_axis<'a>(
    axes: &[String],
    settings: impl Iterator<Item = &'a [String]>,
) -> Result<(), Failure> {
    let Some(flag) = axes.first() else {
        return Err(Failure::Usage(
            "--svg needs a flag with several values to draw over, as in --temp 0.2..2:0.2"
                .to_owned(),
        ));
    };
    let mut lines = Vec::new();
    for values in settings {
        if number(&values[0]).is_none() {
            return Err(Failure::Usage(format!(
                "--svg draws over the first flag with several values, {flag}, and `{}` is no \
                 number; put another flag first",
                values[0]
            )));
        }
        if !lines.contains(&&values[1..]) {
            lines.push(&values[1..]);
        }
    }
    if lines.len() > MAX_LINES {
        return Err(Failure::Usage(format!(
            "--svg would draw {} lines over {flag}, one for each combination of {}; {MAX_LINES} \
             are the most that can be told apart",
            lines.len(),
            axes[1..].join(" and ")
        )));
    }
    Ok(())
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

fn lines(sweep: &Sweep) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for row in &sweep.settings {
        let flags = sweep.axes[1..].iter().zip(&row.values[1..]);
        let name = flags.map(|(flag, value)| format!("{flag} {value}")).collect::<Vec<_>>();
        let name = name.join(" ");
        let point = Point {
            at: number(&row.values[0]).unwrap_or_default(),
            entropy: row.measures.entropy_bits,
            tokens: row.measures.reachable_tokens as f64,
        };
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push(point),
            None => lines.push(Line { name, points: vec![point] }),
        }
    }
    for line in &mut lines {
        line.points.sort_by(|a, b| a.at.total_cmp(&b.at));
    }
    lines
}

/// The picture, whose first axis has been checked.
pub(crate) fn svg(sweep: &Sweep) -> String {
    let mut svg = String::new();
    draw(&mut svg, &sweep.axes[0], &lines(sweep)).expect("memory takes all");
    svg
}

fn draw<'a>(svg: &'a mut String, axis: &str, lines: &[Line]) -> Result<(), Box<dyn Error + 'a>> {
    let named = lines.len() > 1;
    let longest = lines.iter().map(|line| line.name.chars().count()).max().unwrap_or(0);
    let legend = if named { 60 + 7 * longest as u32 } else { 0 };
    let height = (2 * PANEL).max(60 + (LINE as usize * lines.len()) as u32);
    let root = SVGBackend::with_string(svg, (WIDTH + legend, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let (charts, names) = root.split_horizontally(WIDTH);
    let (top, bottom) = charts.split_vertically(height / 2);

    let points = || lines.iter().flat_map(|line| &line.points);
    let most = |of: fn(&Point) -> f64| points().map(of).fold(0.0, f64::max);
    let bits = 0.0..1.05 * most(|point| point.entropy).max(1.0);
    panel(&top, "entropy (bits)", axis, lines, bits, |point| point.entropy)?;
    let tokens = (0.8..1.5 * most(|point| point.tokens).max(10.0)).log_scale();
    panel(&bottom, "reachable tokens (logarithmic)", axis, lines, tokens, |point| point.tokens)?;

    if named {
        for (nth, line) in lines.iter().enumerate() {
            let y = 40 + LINE * nth as i32;
            let sample = [(4, y), (4 + SAMPLE, y)];
            match style(nth) {
                (colour, false) => {
                    names.draw(&PathElement::new(sample, colour.stroke_width(2)))?;
                }
                (colour, true) => {
                    names.draw(&DashedPathElement::new(sample, 5, 3, colour.stroke_width(2)))?;
                }
            }
            names.draw(&Text::new(line.name.clone(), (12 + SAMPLE, y - 7), font(14)))?;
        }
    }
    root.present()?;
    Ok(())
}

/// The colour of a line, and whether it is broken.
fn style(nth: usize) -> (RGBColor, bool) {
    (COLOURS[nth % COLOURS.len()], nth >= COLOURS.len())
}

fn font(size: i32) -> FontDesc<'static> {
    ("sans-serif", size).into_font()
}

fn panel<'a, Y>(
    area: &DrawingArea<SVGBackend<'a>, plotters::coord::Shift>,
    what: &str,
    axis: &str,
    lines: &[Line],
    range: Y,
    of: fn(&Point) -> f64,
) -> Result<(), Box<dyn Error + 'a>>
where
    Y: AsRangedCoord<Value = f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let at = || lines.iter().flat_map(|line| &line.points).map(|point| point.at);
    let (low, high) = (at().fold(f64::MAX, f64::min), at().fold(f64::MIN, f64::max));
    let mut chart = ChartBuilder::on(area)
        .margin(16)
        .x_label_area_size(48)
        .y_label_area_size(72)
        .build_cartesian_2d(low..high, range)?;
    chart
        .configure_mesh()
        .x_desc(axis)
        .y_desc(what)
        .x_label_formatter(&|x| short(*x))
        .y_label_formatter(&|y| short(*y))
        .label_style(font(14))
        .axis_desc_style(font(16))
        .bold_line_style(RGBColor(215, 215, 215))
        .light_line_style(WHITE)
        .draw()?;
    let curve = |line: &Line| -> Vec<(f64, f64)> {
        line.points.iter().map(|point| (point.at, of(point))).collect()
    };
    for (nth, line) in lines.iter().enumerate() {
        let (colour, broken) = style(nth);
        let points = curve(line);
        // A line is seen beside those that are drawn upon it.
        let above = lines[nth + 1..].iter().filter(|other| curve(other) == points).count() as u32;
        let (stroke, radius) = (colour.stroke_width(2 + 4 * above), 3 + 2 * above);
        if broken {
            chart.draw_series(DashedLineSeries::new(points.iter().copied(), 6, 4, stroke))?;
        } else {
            chart.draw_series(LineSeries::new(points.iter().copied(), stroke))?;
        }
        let circles = points.iter().map(|point| Circle::new(*point, radius, colour.filled()));
        chart.draw_series(circles)?;
    }
    Ok(())
}

/// Without digits that come of rounding.
fn short(number: f64) -> String {
    let text = format!("{number:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
