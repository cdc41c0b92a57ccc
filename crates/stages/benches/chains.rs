//! What a chain costs per token, over vocabularies of four sizes, in reads of
//! the logits. `cargo bench -p logitchain-stages --bench chains` prints a table
//! with a limit for each.

#[path = "../../core/benches/harness/mod.rs"]
mod harness;

use std::time::Duration;

use harness::{Limit, Report, Work, read, timed};
use logitchain_conformance::logits;
use logitchain_core::{Chain, ChainConfig, NoVocab, Registry, TokenId};
use logitchain_stages::DEFAULT_ORDER;

/// Vocabularies of Llama 2, Llama 3, Qwen2.5 and Gemma 3.
const SIZES: [usize; 4] = [32_000, 128_256, MAIN_SIZE, 262_144];

const MAIN_SIZE: usize = 151_936;

fn main() {
    let mut report = Report::new();
    for size in SIZES {
        usual(&mut report, size);
    }
    hard_logits(&mut report);
    long_texts(&mut report);
    report.print();
}

fn build(list: &str) -> Chain {
    let registry = Registry::linked().expect("distinct names");
    let config = ChainConfig::from_samplers(list).expect("a list");
    config.build(&registry, &NoVocab).expect("a chain")
}

fn sampled<'a>(
    mut chain: Chain,
    logits: &'a [f32],
) -> Work<'a, impl FnMut(&mut [f32]) -> Duration> {
    Work {
        logits,
        turn: move |logits: &mut [f32]| timed(|| chain.sample(logits).expect("a token")),
    }
}

/// The chains that people use.
fn usual(report: &mut Report, size: usize) {
    let (peaked, flat) = (logits::peaked(size), logits::flat(size));
    // A small vocabulary's read is so short that what is done once weighs more.
    let once = if size <= 32_000 { 3.0 } else { 0.0 };
    let default = format!("{DEFAULT_ORDER};dist");
    let penalised = default.replacen("penalties", "penalties{repeat=1.1,frequency=0.1}", 1);
    let (top_p, typical) = ("top_p{p=0.95};temperature;dist", "typical{p=0.9};dist");
    let chains: [(&str, &str, &[f32], f64); 14] = [
        ("greedy", "greedy", &peaked, 1.1),
        ("default", &default, &peaked, 1.5),
        ("default, penalties", &penalised, &peaked, 1.6),
        ("min_p, temperature", "min_p{p=0.05};temperature;dist", &peaked, 1.5),
        ("temperature", "temperature;dist", &peaked, 5.0),
        ("top_p, temperature", top_p, &peaked, 6.0),
        ("top_p, temperature, flat", top_p, &flat, 25.0),
        ("top_n_sigma", "top_n_sigma{n=1};dist", &peaked, 3.0),
        ("typical", typical, &peaked, 10.0),
        ("typical, flat", typical, &flat, 25.0),
        ("mirostat_v2", "mirostat_v2", &peaked, 10.0),
        // Two tokens or more have a twentieth each, so that it acts.
        ("xtc", "xtc{probability=1,threshold=0.05};dist", &peaked, 10.0),
        ("adaptive_p", "adaptive_p{target=0.5}", &peaked, 10.0),
        ("dynamic temperature", "temperature{range=0.5};dist", &peaked, 10.0),
    ];
    for (name, list, logits, reads) in chains {
        let mut chain = build(list);
        logits::text(64, size, size).into_iter().for_each(|token| chain.accept(token));
        report.measure(name, Limit::Reads(reads, once), sampled(chain, logits), read(logits));
    }
}

/// Logits that are sorted, tied or masked may cost four times what random ones
/// (flat: nothing about them helps) cost the same chain.
fn hard_logits(report: &mut Report) {
    type Make = fn(usize) -> Vec<f32>;
    let shapes: [(&str, Make); 4] = [
        ("ascending", logits::ascending),
        ("descending", logits::descending),
        ("all equal", logits::equal),
        ("all masked but one", logits::masked_but_one),
    ];
    let default = format!("{DEFAULT_ORDER};dist");
    let chains = [
        ("greedy", "greedy"),
        ("default", &default),
        ("temperature", "temperature;dist"),
        ("top_p, temperature", "top_p{p=0.95};temperature;dist"),
    ];
    let flat = logits::flat(MAIN_SIZE);
    for (name, list) in chains {
        for (shape, make) in shapes {
            let hard = make(MAIN_SIZE);
            let (work, reference) = (sampled(build(list), &hard), sampled(build(list), &flat));
            report.measure(&format!("{name}, {shape}"), Limit::Times(4.0), work, reference);
        }
    }
}

/// What a stage that remembers the text adds to a token.
fn long_texts(report: &mut Report) {
    let logits = logits::peaked(MAIN_SIZE);
    for (length, micros) in [(4_096, 10.0), (131_072, 20.0)] {
        let whole = length + length / 8;
        let random = logits::text(whole, MAIN_SIZE, MAIN_SIZE);
        let same = vec![TokenId(7); whole];
        for (what, text) in [("random", &random), ("one token", &same)] {
            for (window, last_n) in [("all", "\"all\""), ("last", &length.to_string())] {
                let dry = format!("dry{{multiplier=0.8,last_n={last_n}}};greedy");
                let name = format!("dry, {window} {length}, {what}");
                remembering(report, &name, &dry, text.split_at(length), micros, &logits);
            }
        }
    }
    let text = logits::text(131_072 + 4_096, 10_000, MAIN_SIZE);
    let penalties = "penalties{repeat=1.1,frequency=0.1,last_n=\"all\"};greedy";
    let text = text.split_at(131_072);
    remembering(report, "penalties, all 131072", penalties, text, 50.0, &logits);
}

/// Token for token, after a text has been read: until it has grown by what
/// follows, then from its beginning.
fn remembering(
    report: &mut Report,
    name: &str,
    list: &str,
    (text, following): (&[TokenId], &[TokenId]),
    micros: f64,
    logits: &[f32],
) {
    let mut long = build(list);
    text.iter().for_each(|token| long.accept(*token));
    // What may be prepared at the first token is.
    long.sample(&mut logits.to_vec()).expect("a token");
    let mut chain = long.clone();
    let mut next = following.iter();
    let turn = |logits: &mut [f32]| {
        let token = next.next().copied().unwrap_or_else(|| {
            chain = long.clone();
            next = following.iter();
            following[0]
        });
        timed(|| {
            chain.accept(token);
            chain.sample(logits).expect("a token")
        })
    };
    let mut plain = build("greedy");
    let reference = |logits: &mut [f32]| {
        timed(|| {
            plain.accept(TokenId(7));
            plain.sample(logits).expect("a token")
        })
    };
    let (work, reference) = (Work { logits, turn }, Work { logits, turn: reference });
    report.measure(name, Limit::MoreMicros(micros), work, reference);
}
