//! How a chain's time grows with the vocabulary: times from 8,000 to 1,000,000
//! logits, the slopes in a log-log plot, and the plot itself, `growth.svg` beside
//! this file. `cargo bench -p logitchain-stages --bench growth` rewrites it. One
//! read of the logits is drawn too: where they outgrow a cache, it is the read that
//! grows faster.

#[path = "../../core/benches/harness/mod.rs"]
#[allow(dead_code, reason = "shared by benchmarks that use different parts")]
mod harness;

use std::{
    error::Error,
    path::PathBuf,
    time::{Duration, Instant},
};

use harness::{AFTER_LINE, read, timed};
use logitchain_conformance::logits;
use logitchain_core::{ChainConfig, NoVocab, Registry};
use logitchain_stages::DEFAULT_ORDER;
use plotters::prelude::*;

const FIRST: f64 = 8_000.0;
const LAST: f64 = 1_000_000.0;
const STEPS: usize = 14;

/// A chain, and its median time in microseconds at each size.
struct Curve {
    name: &'static str,
    points: Vec<(f64, f64)>,
}

impl Curve {
    /// The exponent of the power of the size by which the time grows: least
    /// squares over the logarithms.
    fn slope(&self) -> f64 {
        let logs = || self.points.iter().map(|(x, y)| (x.ln(), y.ln()));
        let n = self.points.len() as f64;
        let (x_mean, y_mean) = logs().fold((0.0, 0.0), |(a, b), (x, y)| (a + x / n, b + y / n));
        let products: f64 = logs().map(|(x, y)| (x - x_mean) * (y - y_mean)).sum();
        products / logs().map(|(x, _)| (x - x_mean).powi(2)).sum::<f64>()
    }
}

#[allow(clippy::print_stdout, reason = "numbers to read are what the program is for")]
fn main() -> Result<(), Box<dyn Error>> {
    // `cargo test --benches` only asks whether it starts.
    if !std::env::args().any(|arg| arg == "--bench") {
        return Ok(());
    }
    let default = format!("{DEFAULT_ORDER};dist");
    type Make = fn(usize) -> Vec<f32>;
    let chains: [(&str, &str, Make); 5] = [
        ("greedy", "greedy", logits::peaked),
        ("default chain", &default, logits::peaked),
        ("temperature", "temperature;dist", logits::peaked),
        ("top_p, flat", "top_p{p=0.95};dist", logits::flat),
        ("typical, flat", "typical{p=0.9};dist", logits::flat),
    ];
    let mut curves = Vec::new();
    for (name, list, make) in chains {
        let mut curve = Curve { name, points: Vec::new() };
        for step in 0..=STEPS {
            let size = (FIRST * (LAST / FIRST).powf(step as f64 / STEPS as f64)).round();
            let mut chain =
                ChainConfig::from_samplers(list)?.build(&Registry::linked()?, &NoVocab)?;
            let sample = |logits: &mut [f32]| timed(|| chain.sample(logits).expect("a token"));
            curve.points.push((size, micros(sample, &make(size as usize))));
        }
        curves.push(curve);
    }
    let mut reads = Curve { name: "one read", points: Vec::new() };
    for (size, _) in &curves[0].points {
        reads.points.push((*size, micros(read(&[]).turn, &logits::peaked(*size as usize))));
    }
    curves.push(reads);
    for curve in &curves {
        println!("{:<14}  slope {:.2}", curve.name, curve.slope());
        for (size, micros) in &curve.points {
            println!("{size:>14} logits  {micros:>10.1} µs");
        }
    }
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("benches/growth.svg");
    draw(&path, &curves)?;
    println!("{}", path.display());
    Ok(())
}

/// The median time over half a second. The logits are copied anew each time,
/// which is not timed.
fn micros(mut work: impl FnMut(&mut [f32]) -> Duration, logits: &[f32]) -> f64 {
    // As in the other benchmarks.
    let mut memory = vec![0.0; logits.len() + 32];
    let aligned = memory.as_ptr().align_offset(64) + AFTER_LINE;
    let buffer = &mut memory[aligned..aligned + logits.len()];
    let mut times = Vec::new();
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(500) || times.len() < 5 {
        buffer.copy_from_slice(logits);
        times.push(work(buffer));
    }
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e6
}

fn draw(path: &PathBuf, curves: &[Curve]) -> Result<(), Box<dyn Error>> {
    // Colours that are told apart by most eyes (Okabe and Ito, 2008).
    const COLOURS: [RGBColor; 6] = [
        RGBColor(0, 114, 178),
        RGBColor(213, 94, 0),
        RGBColor(0, 158, 115),
        RGBColor(204, 121, 167),
        RGBColor(230, 159, 0),
        RGBColor(90, 90, 90),
    ];
    let font = |size: u32| ("sans-serif", size).into_font();
    let root = SVGBackend::new(path, (840, 560)).into_drawing_area();
    root.fill(&WHITE)?;
    let all = || curves.iter().flat_map(|curve| &curve.points).map(|(_, micros)| *micros);
    let (least, most) = (all().fold(f64::MAX, f64::min), all().fold(0.0, f64::max));
    let decade = |micros: f64| 10_f64.powf(micros);
    let range = decade(least.log10().floor())..decade(most.log10().ceil());
    let mut chart = ChartBuilder::on(&root)
        .caption("Time per token by size of the vocabulary", font(20))
        .margin(16)
        .margin_right(44)
        .x_label_area_size(52)
        .y_label_area_size(76)
        .build_cartesian_2d((FIRST..LAST).log_scale(), range.log_scale())?;
    chart
        .configure_mesh()
        .x_desc("vocabulary (tokens, logarithmic)")
        .y_desc("time per token (µs, logarithmic)")
        .x_label_formatter(&|size| grouped(*size))
        .y_label_formatter(&|micros| grouped(*micros))
        .label_style(font(14))
        .axis_desc_style(font(16))
        .bold_line_style(RGBColor(200, 200, 200))
        .light_line_style(RGBColor(240, 240, 240))
        .draw()?;
    for (curve, colour) in curves.iter().zip(COLOURS) {
        let style = colour.stroke_width(2);
        chart
            .draw_series(LineSeries::new(curve.points.iter().copied(), style).point_size(3))?
            .label(format!("{}: slope {:.2}", curve.name, curve.slope()))
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], style));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE)
        .border_style(RGBColor(200, 200, 200))
        .label_font(font(14))
        .draw()?;
    root.present()?;
    Ok(())
}

/// A number with a comma for every thousand.
fn grouped(number: f64) -> String {
    if number < 1000.0 {
        return number.to_string();
    }
    let thousands = (number / 1000.0).floor();
    format!("{},{:03}", grouped(thousands), (number - thousands * 1000.0).round())
}
