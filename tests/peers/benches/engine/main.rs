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
use logitchain_engine::{GgufModel, JointStep, LoadOptions, Model as _, Session};
use logitchain_peers::{
    llama::{Context, Model},
    models,
};

/// The prompt's tokens.
const PROMPT: usize = 256;

/// How many tokens follow, one by one.
const STEPS: usize = 64;

/// How many texts are then continued side by side, each from what there is.
const TEXTS: usize = 8;

/// By how many tokens.
const JOINT_STEPS: usize = 16;

/// The longest text.
const LENGTH: usize = PROMPT + STEPS + JOINT_STEPS;

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
    fn clear(&mut self);

    fn forward(&mut self, tokens: &[u32]);

    /// Makes [`TEXTS`] of it.
    fn multiply(&mut self);

    /// Appends a token to each of these.
    fn forward_all(&mut self, tokens: &[u32]);
}

struct Ours {
    text: Session,
    texts: Vec<Session>,
    step: JointStep,
}

impl Ours {
    fn new(model: &GgufModel) -> Self {
        Self { text: model.session(), texts: Vec::new(), step: JointStep::default() }
    }
}

impl Text for Ours {
    fn clear(&mut self) {
        self.text.rewind(0);
    }

    fn forward(&mut self, tokens: &[u32]) {
        let tokens: Vec<TokenId> = tokens.iter().copied().map(TokenId).collect();
        black_box(self.text.forward(&tokens).expect("a text that fits"));
    }

    fn multiply(&mut self) {
        self.texts = vec![self.text.clone(); TEXTS];
    }

    fn forward_all(&mut self, tokens: &[u32]) {
        let tokens: Vec<[TokenId; 1]> = tokens.iter().map(|&token| [TokenId(token)]).collect();
        let mut texts: Vec<(&mut Session, &[TokenId])> =
            self.texts.iter_mut().zip(&tokens).map(|(text, token)| (text, &token[..])).collect();
        black_box(self.step.forward(&mut texts).expect("texts that fit"));
    }
}

impl Text for Context<'_> {
    fn clear(&mut self) {
        Context::clear(self);
    }

    fn forward(&mut self, tokens: &[u32]) {
        black_box(Context::forward(self, tokens));
    }

    fn multiply(&mut self) {
        Context::multiply(self, TEXTS);
    }

    fn forward_all(&mut self, tokens: &[u32]) {
        Context::forward_all(self, tokens);
    }
}

/// The same tokens for both, from all over the vocabulary.
fn tokens(size: usize) -> impl Iterator<Item = u32> {
    (0..).map(move |i| (i * 7919 % size) as u32)
}

/// Tokens per second in a prompt, and one by one after it.
fn rates(text: &mut dyn Text, size: usize) -> [f64; 2] {
    let tokens: Vec<u32> = tokens(size).take(PROMPT + STEPS).collect();
    let (prompt, rest) = tokens.split_at(PROMPT);
    text.clear();
    let first = seconds(|| text.forward(prompt));
    let second = seconds(|| rest.iter().for_each(|&token| text.forward(&[token])));
    [PROMPT as f64 / first, STEPS as f64 / second]
}

/// Tokens per second of many texts side by side, all together.
fn joint_rate(text: &mut dyn Text, size: usize) -> f64 {
    text.multiply();
    let tokens: Vec<u32> = tokens(size).take(TEXTS * JOINT_STEPS).collect();
    let time = seconds(|| tokens.chunks(TEXTS).for_each(|tokens| text.forward_all(tokens)));
    tokens.len() as f64 / time
}

fn speed(path: &Path, threads: usize) {
    let model = ours(path, threads);
    let size = model.tokenizer().size();
    let mut session = Ours::new(&model);
    let their_model = Model::load(path);
    let mut context =
        their_model.context_with_defaults(LENGTH as u32, TEXTS as u32, threads as i32);
    let mut results: [[Vec<f64>; 4]; 2] = Default::default();
    for turn in 0..=TURNS {
        let texts: [&mut dyn Text; 2] = [&mut session, &mut context];
        for (text, results) in texts.into_iter().zip(&mut results) {
            let [prompt, one] = rates(text, size);
            let joint = joint_rate(text, size);
            // The first turn is for warming up.
            if turn > 0 {
                let rates = [prompt, one, joint, joint / one];
                results.iter_mut().zip(rates).for_each(|(results, rate)| results.push(rate));
            }
        }
    }
    let [ours, theirs] = results.map(|results| results.map(median));
    let what = ["prompt, tokens/s", "one text, tokens/s", "eight texts, tokens/s", "eight to one"];
    for (i, what) in what.into_iter().enumerate() {
        let what = format!("{what}, {threads} threads");
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
    let cache = ours_cache(path);
    println!("(the file has {:.1} MB, keys and values {:.1})", size as f64 / 1e6, cache);
}

/// The megabytes of that text's keys and values.
fn ours_cache(path: &Path) -> f64 {
    ours(path, 1).cache_bytes(PROMPT + STEPS) as f64 / 1e6
}

/// Prints the most memory that the process held, in megabytes.
fn memory(program: &str, path: &Path) {
    if program == "logitchain" {
        let model = ours(path, 2);
        rates(&mut Ours::new(&model), model.tokenizer().size());
    } else {
        let model = Model::load(path);
        let mut context = model.context_with_defaults(LENGTH as u32, 1, 2);
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
