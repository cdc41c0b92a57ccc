//! How long logitchain and other programs take for the same tokens.
//!
//! `cargo bench --features speed` in `tests/peers` prints the table of the
//! README; a word after `--` chooses among its rows. All programs take turns, in
//! one run, so that all see the same machine. Before a chain is measured, each
//! program draws with it, and the tokens must be spread as logitchain's are.

#[path = "../../../../crates/core/benches/harness/mod.rs"]
#[allow(dead_code, reason = "the limits are for benchmarks of logitchain alone")]
mod harness;
mod programs;

use std::{fmt::Write, time::Duration};

use criterion::{BenchmarkGroup, Criterion, SamplingMode, measurement::WallTime};
use harness::{buffer, median, read, timed};
use logitchain_conformance::logits;
use logitchain_core::{Candidates, Registry, Scratch};
use logitchain_peers::{stages::Stage, vocab::Sized};
use logitchain_stages as _;
use programs::{Note, PROGRAMS, Program, SEED};

/// Qwen2.5's vocabulary.
const SIZE: usize = 151_936;

/// How many tokens the text has before the first one is drawn.
const TEXT: usize = 4_096;

/// Criterion's samples; each is at least one turn of every program.
const SAMPLES: usize = 200;

/// How many tokens each program draws before it is measured.
const DRAWS: usize = 200;

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(SAMPLES)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(6))
        .nresamples(2_000)
        .without_plots()
        .configure_from_args();
    let mut group = criterion.benchmark_group("speed");
    group.sampling_mode(SamplingMode::Flat);
    let mut table = Table::default();
    let (peaked, flat) = (logits::peaked(SIZE), logits::flat(SIZE));
    for (name, stages) in chains() {
        let logits = if name.ends_with("flat") { &flat } else { &peaked };
        measure(&mut group, &mut table, name, &stages, logits);
    }
    group.finish();
    table.print();
}

/// The chains, all over logits with a few dozen likely tokens but for the one
/// called flat, whose nucleus holds 112,000.
fn chains() -> Vec<(&'static str, Vec<Stage>)> {
    let dist = Stage::Dist { seed: SEED };
    let temperature = Stage::Temperature { t: 0.8, range: 0.0, exponent: 1.0 };
    let min_p = Stage::MinP { p: 0.05, min_keep: 0 };
    let top_p = Stage::TopP { p: 0.95, min_keep: 0 };
    let penalties = Stage::Penalties { last_n: 64, repeat: 1.1, frequency: 0.1, presence: 0.0 };
    let dry = Stage::Dry {
        multiplier: 0.8,
        base: 1.75,
        allowed_length: 2,
        last_n: TEXT as i32,
        breakers: Vec::new(),
    };
    let default =
        [Stage::TopK { k: 40 }, top_p.clone(), min_p.clone(), temperature.clone(), dist.clone()];
    let after = |stage| [&[stage][..], &default].concat();
    let nucleus = vec![top_p, temperature.clone(), dist.clone()];
    vec![
        ("greedy", vec![Stage::Greedy]),
        ("top_k, top_p, min_p, temperature", default.to_vec()),
        ("the same after penalties", after(penalties)),
        ("the same after dry, 4,096 tokens", after(dry)),
        ("min_p, temperature", vec![min_p, temperature.clone(), dist.clone()]),
        ("temperature", vec![temperature, dist.clone()]),
        ("top_p, temperature", nucleus.clone()),
        ("top_p, temperature, flat", nucleus),
        ("top_n_sigma", vec![Stage::TopNSigma { n: 1.0 }, dist.clone()]),
        ("typical", vec![Stage::Typical { p: 0.9, min_keep: 0 }, dist.clone()]),
        ("mirostat_v2", vec![Stage::MirostatV2 { tau: 5.0, eta: 0.1, seed: SEED }]),
        (
            "dynamic temperature",
            vec![Stage::Temperature { t: 0.8, range: 0.5, exponent: 1.0 }, dist],
        ),
    ]
}

/// Measures a chain in all programs that have it, and the plain read, by turns.
fn measure(
    group: &mut BenchmarkGroup<'_, WallTime>,
    table: &mut Table,
    name: &str,
    stages: &[Stage],
    source: &[f32],
) {
    let mut memory = Vec::new();
    let buffer = buffer(&mut memory, SIZE);
    let text = text(source);
    let mut following = text.iter().cycle();
    let mut programs = Vec::new();
    let mut plain = read(source);
    let mut samples = Vec::new();
    group.bench_function(name, |bencher| {
        if programs.is_empty() {
            programs = ready(stages, &text, source, buffer);
        }
        bencher.iter_custom(|turns| {
            let mut sums = [None; PROGRAMS.len()];
            let mut reads = Duration::ZERO;
            for _ in 0..turns {
                buffer.copy_from_slice(source);
                reads += (plain.turn)(buffer);
                let token = *following.next().expect("a token");
                for (sum, program) in sums.iter_mut().zip(&mut programs) {
                    if let Some((program, _)) = program {
                        buffer.copy_from_slice(source);
                        let time = timed(|| {
                            program.accept(token);
                            program.sample(buffer)
                        });
                        *sum = Some(sum.unwrap_or_default() + time);
                    }
                }
            }
            let micros = |sum: Duration| sum.as_secs_f64() * 1e6 / turns as f64;
            samples.push((micros(reads), sums.map(|sum| sum.map(micros))));
            sums[0].unwrap_or_default()
        });
    });
    // Fewer where names are only listed, filtered or tried; the first ones were
    // for warming up.
    if samples.len() >= SAMPLES {
        let samples = &samples[samples.len() - SAMPLES..];
        let cells = std::array::from_fn(|which| {
            let (_, note) = programs[which].as_ref()?;
            Some((median(samples.iter().filter_map(|(_, times)| times[which])), *note))
        });
        let read = median(samples.iter().map(|(read, _)| *read));
        table.rows.push(Row { name: name.to_owned(), read, cells });
    }
}

/// Random tokens, of which every eighth is one of the eight most likely next
/// ones, so that penalties change what is drawn.
fn text(source: &[f32]) -> Vec<u32> {
    let mut likely: Vec<u32> = (0..SIZE as u32).collect();
    likely.sort_unstable_by(|a, b| source[*b as usize].total_cmp(&source[*a as usize]));
    let random = logits::text(TEXT, 1_000, SIZE).into_iter().map(|token| token.0);
    (0..).zip(random).map(|(n, token)| if n % 8 == 0 { likely[n / 8 % 8] } else { token }).collect()
}

type Ready = Option<(Box<dyn Program>, Note)>;

/// The programs that have the chain, all having read the text.
fn ready(stages: &[Stage], text: &[u32], source: &[f32], buffer: &mut [f32]) -> Vec<Ready> {
    let expected = expected(stages, text, source);
    PROGRAMS
        .iter()
        .map(|(name, make)| {
            let (mut program, note) = make(stages, SIZE)?;
            text.iter().for_each(|token| program.accept(*token));
            let mut counts = vec![0_usize; SIZE];
            for _ in 0..DRAWS {
                buffer.copy_from_slice(source);
                counts[program.sample(buffer) as usize] += 1;
            }
            if note.is_none() {
                agree(name, &counts, &expected);
            }
            Some((program, note))
        })
        .collect()
}

/// The probability of each token at the end of a chain, by logitchain's stages.
/// All of the tokens for mirostat, which starts with a limit of ten bits and
/// raises it.
fn expected(stages: &[Stage], text: &[u32], source: &[f32]) -> Vec<f64> {
    let registry = Registry::linked().expect("distinct names");
    let (mut logits, mut scratch) = (source.to_vec(), Scratch::default());
    let mut candidates = Candidates::new(&mut logits, &mut scratch).expect("finite logits");
    for stage in stages.iter().filter(|stage| !stage.selects()) {
        let mut sampler = stage.sampler(&registry, &Sized(SIZE)).expect("a stage that acts");
        text.iter().for_each(|token| sampler.accept(logitchain_core::TokenId(*token)));
        sampler.apply(&mut candidates);
    }
    let best = candidates.iter().map(|c| c.logit).fold(f32::NEG_INFINITY, f32::max);
    let greedy = stages == [Stage::Greedy];
    let mut weights = vec![0.0; SIZE];
    for candidate in candidates.iter().filter(|c| !greedy || c.logit == best) {
        weights[candidate.id.index()] = f64::from(candidate.logit - best).exp();
    }
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / sum).collect()
}

/// Only possible tokens were drawn, and the likely ones about as often as they
/// should be: Pearson's chi-squared, with all unlikely ones taken together, is
/// within six standard deviations of its mean.
fn agree(program: &str, counts: &[usize], expected: &[f64]) {
    let (mut rest, mut cells) = ((0, 0.0), Vec::new());
    for (token, (&count, &p)) in counts.iter().zip(expected).enumerate() {
        assert!(count == 0 || p > 0.0, "{program} draws {token}, which is no candidate");
        let mean = DRAWS as f64 * p;
        if mean >= 2.0 {
            cells.push((count, mean));
        } else {
            rest = (rest.0 + count, rest.1 + mean);
        }
    }
    cells.extend((rest.1 >= 2.0).then_some(rest));
    let squared: f64 =
        cells.iter().map(|(count, mean)| (*count as f64 - mean).powi(2) / mean).sum();
    let freedom = (cells.len() as f64 - 1.0).max(1.0);
    assert!(
        squared <= freedom + 6.0 * (2.0 * freedom).sqrt(),
        "{program}'s tokens are spread otherwise: chi-squared is {squared:.0} of {freedom}"
    );
}

/// All that was measured, in microseconds.
#[derive(Default)]
struct Table {
    rows: Vec<Row>,
}

struct Row {
    name: String,
    read: f64,
    cells: [Option<(f64, Note)>; PROGRAMS.len()],
}

impl Table {
    /// In Markdown, with a note under the table for each that a cell refers to.
    fn print(&self) {
        if self.rows.is_empty() {
            return;
        }
        let mut notes: Vec<(&str, &str)> = Vec::new();
        let heads = PROGRAMS.map(|(name, _)| name).join(" | ");
        let mut text = format!("| | {heads} |\n|---|{}\n", "---:|".repeat(PROGRAMS.len()));
        for Row { name, read, cells } in &self.rows {
            write!(text, "| {name} |").expect("memory");
            let ours = cells[0].expect("logitchain has every chain").0;
            for ((program, _), cell) in PROGRAMS.iter().zip(cells) {
                let Some((micros, note)) = cell else {
                    text.push_str(" – |");
                    continue;
                };
                let (multiple, unit) = if *program == "logitchain" {
                    (ours / read, "R")
                } else {
                    (micros / ours, "x")
                };
                let (micros, multiple) = (grouped(*micros), grouped(multiple));
                write!(text, " {micros} ({multiple} {unit})").expect("memory");
                if let Some(note) = note {
                    let place = notes.iter().position(|known| *known == (program, note));
                    let place = place.unwrap_or_else(|| {
                        notes.push((program, note));
                        notes.len() - 1
                    });
                    write!(text, " [{}]", place + 1).expect("memory");
                }
                text.push_str(" |");
            }
            text.push('\n');
        }
        for (number, (program, note)) in (1..).zip(notes) {
            writeln!(text, "\n[{number}] {program} {note}").expect("memory");
        }
        let read = median(self.rows.iter().map(|row| row.read));
        println!(
            "\n{text}\nR is one read of the logits, {read:.1} µs, {}.",
            harness::how_to_read()
        );
    }
}

/// A whole number with commas, or tenths where it is small.
fn grouped(number: f64) -> String {
    if number < 99.95 {
        return format!("{number:.1}");
    }
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
