//! How fast logitchain's engine and llama.cpp run the same model files.
//!
//! `cargo bench --bench engine` in `tests/peers` measures SmolLM2, and
//! `cargo bench --bench engine -- FILE...` other files. The two programs take
//! turns in one run, with the same number of threads; each figure is a median.
//! llama.cpp has its defaults (keys and values in F16, flash attention where it
//! chooses so) and a pool of threads that stays. Its threads spin: nothing else
//! may run meanwhile.

use std::{env, fs, hint::black_box, num::NonZero, path::Path, process::Command, time::Instant};

use logitchain_core::TokenId;
use logitchain_engine::{GgufModel, LoadOptions, Model as _, Session};
use logitchain_peers::{
    llama::{Context, Model},
    models,
};

/// The prompt's tokens.
const PROMPT: usize = 256;

/// How many tokens follow, one by one.
const STEPS: usize = 64;

/// The whole text: after those, as many come eight at a time.
const LENGTH: usize = PROMPT + 2 * STEPS;

/// How often the programs take turns.
const TURNS: usize = 5;

/// Where a process of its own learns whose memory it measures.
const MEASURED: &str = "LOGITCHAIN_MEASURED";

fn main() {
    if let Ok(program) = env::var(MEASURED) {
        let path = env::args().nth(1).expect("a file");
        return memory(&program, Path::new(&path));
    }
    let files: Vec<String> = env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let files = match files.is_empty() {
        true => vec![models::smollm2()],
        false => files.into_iter().map(Into::into).collect(),
    };
    for file in files {
        println!("{}", file.display());
        println!("| | logitchain | llama.cpp | ratio |");
        println!("|---|---:|---:|---:|");
        load(&file);
        for threads in [1, 2] {
            speed(&file, threads);
        }
        resident(&file);
    }
}

/// Prints a row; `better` is the ratio in our favour.
fn row(what: &str, ours: f64, theirs: f64, better: f64) {
    println!("| {what} | {ours:.1} | {theirs:.1} | {better:.2} |");
}

fn ours(path: &Path, threads: usize) -> GgufModel {
    let mut options = LoadOptions::default();
    options.threads = NonZero::new(threads);
    GgufModel::load(path, &options).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn seconds(act: impl FnOnce()) -> f64 {
    let start = Instant::now();
    act();
    start.elapsed().as_secs_f64()
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn load(path: &Path) {
    let (mut our_times, mut their_times) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        our_times.push(1e3 * seconds(|| drop(black_box(ours(path, 1)))));
        their_times.push(1e3 * seconds(|| drop(black_box(Model::load(path)))));
    }
    let (ours, theirs) = (median(our_times), median(their_times));
    row("load, ms", ours, theirs, theirs / ours);
}

/// A text in one of the programs.
trait Text {
    fn forward(&mut self, tokens: &[u32]);
}

impl Text for Session {
    fn forward(&mut self, tokens: &[u32]) {
        let tokens: Vec<TokenId> = tokens.iter().copied().map(TokenId).collect();
        black_box(logitchain_engine::Model::forward(self, &tokens).expect("a text that fits"));
    }
}

impl Text for Context<'_> {
    fn forward(&mut self, tokens: &[u32]) {
        black_box(Context::forward(self, tokens));
    }
}

/// Tokens per second in a prompt, one by one after it, and eight by eight.
fn rates(text: &mut dyn Text, size: usize) -> [f64; 3] {
    // The same tokens for both, from all over the vocabulary.
    let tokens: Vec<u32> = (0..LENGTH).map(|i| (i * 7919 % size) as u32).collect();
    let (prompt, rest) = tokens.split_at(PROMPT);
    let (one_by_one, eight_by_eight) = rest.split_at(STEPS);
    let first = seconds(|| text.forward(prompt));
    let second = seconds(|| one_by_one.iter().for_each(|&token| text.forward(&[token])));
    let third = seconds(|| eight_by_eight.chunks(8).for_each(|tokens| text.forward(tokens)));
    [PROMPT as f64 / first, STEPS as f64 / second, STEPS as f64 / third]
}

fn speed(path: &Path, threads: usize) {
    let model = ours(path, threads);
    let size = model.tokenizer().size();
    let mut session = model.session();
    let their_model = Model::load(path);
    let length = LENGTH as u32;
    let mut context = their_model.context_with_defaults(length, threads as i32);
    let mut results: [[Vec<f64>; 3]; 2] = Default::default();
    for turn in 0..=TURNS {
        session.rewind(0);
        let first = rates(&mut session, size);
        context.clear();
        let second = rates(&mut context, size);
        // The first one is for warming up.
        if turn > 0 {
            for (results, rates) in results.iter_mut().zip([first, second]) {
                results.iter_mut().zip(rates).for_each(|(results, rate)| results.push(rate));
            }
        }
    }
    let [ours, theirs] = results.map(|results| results.map(median));
    for (i, what) in ["prompt", "one by one", "eight by eight"].into_iter().enumerate() {
        let what = format!("{what}, tokens/s, {threads} threads");
        row(&what, ours[i], theirs[i], ours[i] / theirs[i]);
    }
}

/// Runs this program once for each of the two, and prints what it held.
fn resident(path: &Path) {
    let of = |program: &str| -> f64 {
        let this = env::current_exe().expect("a path");
        let out = Command::new(this).arg(path).env(MEASURED, program).output();
        let out = String::from_utf8(out.expect("this program runs").stdout).expect("a number");
        out.trim().parse().expect("a number")
    };
    let (ours, theirs) = (of("logitchain"), of("llama.cpp"));
    row("memory at the end, MB", ours, theirs, theirs / ours);
    let size = fs::metadata(path).expect("a file").len();
    println!("(the file has {:.1} MB)", size as f64 / 1e6);
}

/// Prints the most memory that the process held, in megabytes.
fn memory(program: &str, path: &Path) {
    if program == "logitchain" {
        let model = ours(path, 2);
        rates(&mut model.session(), model.tokenizer().size());
    } else {
        let model = Model::load(path);
        let mut context = model.context_with_defaults(LENGTH as u32, 2);
        rates(&mut context, model.size());
    }
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("the line");
    let kilobytes: f64 = line
        .split_whitespace()
        .nth(1)
        .and_then(|number| number.parse().ok())
        .expect("a number of kilobytes");
    println!("{}", kilobytes * 1024.0 / 1e6);
}
