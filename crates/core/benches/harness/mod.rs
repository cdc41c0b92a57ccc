//! How the benchmarks measure: a piece of work and what it is compared with, by
//! turns, so that both see the same machine however it drifts; and the table of
//! it all.
//!
//! A chain overwrites its logits. Each turn begins with a fresh copy of them in
//! one and the same buffer, which is not timed. The copy leaves them in the cache
//! as a model's last layer would, for the work and for the reference alike.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use criterion::Criterion;

/// Criterion's samples, and the rows of the table.
const SAMPLES: usize = 20;

/// How many floats after a cache line's boundary the logits begin: 4, where the
/// usual allocator of Linux puts a large `Vec`. At 0 all reads are faster, the one
/// of 32 bytes at a time by up to a half.
pub(crate) const AFTER_LINE: usize = 4;

/// How long a piece of work may take.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code, reason = "each benchmark has limits of its own kind")]
pub(crate) enum Limit {
    /// It is only shown, in reads of the logits.
    None,
    /// So many reads of the logits, and so many microseconds.
    Reads(f64, f64),
    /// So many times what the reference takes.
    Times(f64),
    /// So many microseconds more than the reference.
    MoreMicros(f64),
}

/// A piece of work: the logits that it is given, and one turn of it, which
/// returns the time that counts.
pub(crate) struct Work<'a, F> {
    pub(crate) logits: &'a [f32],
    pub(crate) turn: F,
}

/// One read of the logits: `R` in the table.
pub(crate) fn read(logits: &[f32]) -> Work<'_, impl FnMut(&mut [f32]) -> Duration> {
    Work { logits, turn: |logits: &mut [f32]| timed(|| maximum(logits)) }
}

/// How long `work` takes.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    black_box(work());
    start.elapsed()
}

/// Where the logits of every turn lie.
pub(crate) fn buffer(memory: &mut Vec<f32>, size: usize) -> &mut [f32] {
    memory.resize(size + 32, 0.0);
    let start = memory.as_ptr().align_offset(64) + AFTER_LINE;
    &mut memory[start..start + size]
}

/// All that was measured.
pub(crate) struct Report {
    criterion: Criterion,
    rows: Vec<[String; 6]>,
    over: usize,
}

impl Report {
    pub(crate) fn new() -> Self {
        let criterion = Criterion::default()
            .sample_size(SAMPLES)
            .warm_up_time(Duration::from_millis(300))
            .measurement_time(Duration::from_secs(1))
            .nresamples(1000)
            .without_plots()
            .configure_from_args();
        Self { criterion, rows: Vec::new(), over: 0 }
    }

    /// Measures `work` beside `reference`, and adds a row.
    pub(crate) fn measure(
        &mut self,
        name: &str,
        limit: Limit,
        mut work: Work<'_, impl FnMut(&mut [f32]) -> Duration>,
        mut reference: Work<'_, impl FnMut(&mut [f32]) -> Duration>,
    ) {
        let size = work.logits.len();
        let mut memory = Vec::new();
        let buffer = buffer(&mut memory, size);
        let mut samples = Vec::new();
        self.criterion.bench_function(&format!("{name}/{size}"), |bencher| {
            bencher.iter_custom(|turns| {
                let mut sums = [Duration::ZERO; 2];
                for _ in 0..turns {
                    buffer.copy_from_slice(reference.logits);
                    sums[1] += (reference.turn)(buffer);
                    buffer.copy_from_slice(work.logits);
                    sums[0] += (work.turn)(buffer);
                }
                samples.push(sums.map(|sum| sum.as_secs_f64() * 1e6 / turns as f64));
                sums[0]
            });
        });
        // Fewer where names are only listed, filtered or tried; the first ones
        // were for warming up.
        if samples.len() >= SAMPLES {
            let samples = &samples[samples.len() - SAMPLES..];
            let [work, reference] = [0, 1].map(|which| median(samples.iter().map(|s| s[which])));
            self.add(name, size, limit, work, reference);
        }
    }

    fn add(&mut self, name: &str, size: usize, limit: Limit, work: f64, reference: f64) {
        let multiple = work / reference;
        let (what, found, fine) = match limit {
            Limit::None => (String::new(), format!("{multiple:.2} R"), None),
            Limit::Reads(reads, more) => {
                let plus = if more > 0.0 { format!(" + {more} µs") } else { String::new() };
                let fine = work <= reads * reference + more;
                (format!("{reads} R{plus}"), format!("{multiple:.2} R"), Some(fine))
            }
            Limit::Times(times) => {
                (format!("{times} x"), format!("{multiple:.2} x"), Some(multiple <= times))
            }
            Limit::MoreMicros(micros) => {
                let more = work - reference;
                (format!("{micros} µs"), format!("{more:.2} µs"), Some(more <= micros))
            }
        };
        let verdict = fine.map_or("", |fine| if fine { "ok" } else { "OVER" });
        self.over += usize::from(fine == Some(false));
        let micros = format!("{work:.2}");
        self.rows.push([name.into(), size.to_string(), micros, found, what, verdict.into()]);
    }

    /// Prints the table.
    #[allow(clippy::print_stdout, reason = "a table to read is what the program is for")]
    pub(crate) fn print(&mut self) {
        if self.rows.is_empty() {
            return;
        }
        let heads = ["work", "logits", "µs", "found", "limit", ""].map(String::from);
        println!("\nR is one read of the logits, for their maximum, {}.\n", how_to_read());
        let widths = [0, 1, 2, 3, 4, 5].map(|column| {
            let cells = self.rows.iter().map(|row| row[column].chars().count());
            cells.chain([heads[column].chars().count()]).max().unwrap_or_default()
        });
        for row in [&heads].into_iter().chain(&self.rows) {
            let [name, size, micros, found, limit, verdict] = row;
            let [a, b, c, d, e, _] = widths;
            println!("{name:a$}  {size:>b$}  {micros:>c$}  {found:>d$}  {limit:>e$}  {verdict}");
        }
        if self.rows.iter().any(|row| !row[4].is_empty()) {
            println!("\n{} of {} over their limit", self.over, self.rows.len());
        }
        self.criterion.final_summary();
    }
}

/// The median of an even number of samples, the upper one.
pub(crate) fn median(samples: impl Iterator<Item = f64>) -> f64 {
    let mut samples: Vec<f64> = samples.collect();
    samples.sort_unstable_by(f64::total_cmp);
    samples[samples.len() / 2]
}

pub(crate) fn how_to_read() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        return "with AVX2";
    }
    "in a plain loop, since the machine has no AVX2"
}

/// The greatest logit, by the fastest plain read that AVX2 can do: eight vectors
/// at a time, and nothing but their maximum.
#[allow(unsafe_code, reason = "code for vectors may only run where they are")]
pub(crate) fn maximum(logits: &[f32]) -> f32 {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the machine has just said that it has it.
        return unsafe { maximum_by_avx2(logits) };
    }
    greatest_of(logits)
}

fn greatest_of(logits: &[f32]) -> f32 {
    logits.iter().copied().fold(f32::NEG_INFINITY, |a, b| if a > b { a } else { b })
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "vectors are loaded from where a pointer says")]
#[target_feature(enable = "avx2")]
fn maximum_by_avx2(logits: &[f32]) -> f32 {
    use std::arch::x86_64::{_mm256_loadu_ps, _mm256_max_ps, _mm256_set1_ps, _mm256_storeu_ps};

    let mut greatest = [_mm256_set1_ps(f32::NEG_INFINITY); 8];
    let (chunks, rest) = logits.as_chunks::<64>();
    for chunk in chunks {
        for (greatest, vector) in greatest.iter_mut().zip(chunk.as_chunks::<8>().0) {
            // SAFETY: `vector` is eight floats to read.
            let vector = unsafe { _mm256_loadu_ps(vector.as_ptr()) };
            *greatest = _mm256_max_ps(*greatest, vector);
        }
    }
    let mut lanes = [[0.0; 8]; 8];
    for (lanes, greatest) in lanes.iter_mut().zip(greatest) {
        // SAFETY: `lanes` is eight floats to write.
        unsafe { _mm256_storeu_ps(lanes.as_mut_ptr(), greatest) };
    }
    greatest_of(rest).max(greatest_of(lanes.as_flattened()))
}
