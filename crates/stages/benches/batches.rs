//! What batches of rows cost beside their parts, over the vocabulary of Qwen2.5.
//! `cargo bench -p logitchain-stages --bench batches` prints a table with a limit for
//! each.

#[path = "../../core/benches/harness/mod.rs"]
mod harness;

use std::{
    hint::{self, black_box},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use harness::{Limit, Report, Work, maximum, read, timed};
use logitchain_conformance::logits;
use logitchain_core::{Batch, Chain, ChainConfig, NoVocab, Registry};
use logitchain_stages::DEFAULT_ORDER;
use rayon::ThreadPool;

const SIZE: usize = 151_936;

const ROWS: [usize; 4] = [1, 8, 64, 256];

fn main() {
    let mut report = Report::new();
    for rows in ROWS {
        let logits = logits::peaked(SIZE).repeat(rows);
        per_row(&mut report, rows, &logits);
        // Half a microsecond more than the read, for each row.
        let limit = Limit::Reads(1.1, 0.5 * rows as f64);
        let work = batch(vec![build("greedy"); rows], &logits);
        report.measure(&format!("greedy, {rows} rows"), limit, work, read(&logits));
    }
    mixed(&mut report);
    report.print();
}

fn build(list: &str) -> Chain {
    let registry = Registry::linked().expect("distinct names");
    let config = ChainConfig::from_samplers(list).expect("a list");
    config.build(&registry, &NoVocab).expect("a chain")
}

fn default() -> Chain {
    build(&format!("{DEFAULT_ORDER};dist"))
}

fn batch_of(chains: Vec<Chain>) -> Batch {
    let mut batch = Batch::default();
    for (seed, mut chain) in (0..).zip(chains) {
        chain.reseed(seed).expect("any seed");
        batch.push(chain);
    }
    batch
}

fn sample(batch: &mut Batch, logits: &mut [f32]) {
    let tokens = batch.sample(logits, SIZE, SIZE).expect("rows");
    assert!(tokens.iter().all(Result::is_ok), "tokens");
}

/// A token for each row.
fn batch(chains: Vec<Chain>, logits: &[f32]) -> Work<'_, impl FnMut(&mut [f32]) -> Duration> {
    let mut batch = batch_of(chains);
    Work { logits, turn: move |logits: &mut [f32]| timed(|| sample(&mut batch, logits)) }
}

/// Beside the same rows, each sampled by one chain alone. (One and the same row again and
/// again would lie in a nearer cache than many.)
fn per_row(report: &mut Report, rows: usize, logits: &[f32]) {
    let mut alone = default();
    let turn = |logits: &mut [f32]| {
        timed(|| {
            for row in logits.chunks_exact_mut(SIZE) {
                alone.sample(row).expect("a token");
            }
        })
    };
    let work = batch(vec![default(); rows], logits);
    report.measure(
        &format!("default, {rows} rows"),
        Limit::Times(1.1),
        work,
        Work { logits, turn },
    );
}

/// Of four rows two are greedy, one has the default chain, and one draws from all
/// tokens.
fn mixed(report: &mut Report) {
    const ROWS: usize = 64;
    let logits = logits::peaked(SIZE).repeat(ROWS);
    let all = build("temperature;dist");
    let four = [build("greedy"), default(), build("greedy"), all.clone()];
    let chains: Vec<Chain> = vec![four; ROWS / 4].into_iter().flatten().collect();

    let mut parts = [
        batch_of(vec![build("greedy"); ROWS / 2]),
        batch_of(vec![default(); ROWS / 4]),
        batch_of(vec![all; ROWS / 4]),
    ];
    let turn = |logits: &mut [f32]| {
        timed(|| {
            let mut rest = &mut *logits;
            for part in &mut parts {
                let (own, others) = rest.split_at_mut(part.len() * SIZE);
                sample(part, own);
                rest = others;
            }
        })
    };
    let parts = Work { logits: &logits, turn };
    let work = batch(chains.clone(), &logits);
    report.measure("mixed, 64 rows, its parts", Limit::Times(1.05), work, parts);

    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("two threads");
    let mut on_two = batch_of(chains.clone());
    let turn = |logits: &mut [f32]| {
        on_both(&pool, || {
            let tokens = on_two.par_sample(logits, SIZE, SIZE).expect("rows");
            assert!(tokens.iter().all(Result::is_ok), "tokens");
        })
    };
    let work = Work { logits: &logits, turn };
    let limit = Limit::Times(0.56);
    report.measure("mixed, 64 rows, 2 threads", limit, work, batch(chains, &logits));
    // What the machine makes of a second thread where nothing is to be divided.
    let turn = |logits: &mut [f32]| {
        let (a, b) = logits.split_at(logits.len() / 2);
        on_both(&pool, || {
            black_box(rayon::join(|| maximum(a), || maximum(b)));
        })
    };
    let work = Work { logits: &logits, turn };
    report.measure("read, 64 rows, 2 threads", limit, work, read(&logits));
}

/// Both threads are awake before, as with an engine whose pass ends where sampling
/// begins: to wake a sleeping one, and to give it a processor of its own, can take
/// longer than all rows take.
fn on_both(pool: &ThreadPool, act: impl FnOnce() + Send) -> Duration {
    let (begun, done) = (AtomicBool::new(false), AtomicBool::new(false));
    pool.scope(|scope| {
        scope.spawn(|_| {
            begun.store(true, Ordering::Release);
            while !done.load(Ordering::Acquire) {
                rayon::yield_now();
            }
        });
        let start = Instant::now();
        while !begun.load(Ordering::Acquire) || start.elapsed() < Duration::from_millis(10) {
            hint::spin_loop();
        }
        let time = timed(act);
        done.store(true, Ordering::Release);
        time
    })
}
