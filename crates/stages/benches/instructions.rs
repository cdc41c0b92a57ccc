//! How many instructions the main chains take for a token, under Valgrind, which
//! knows no noise. `tests/instructions.rs` runs this, and compares with the
//! counts in `instructions.txt` beside this file.

#![allow(missing_docs, reason = "macros write functions without")]

use gungraun::{library_benchmark, library_benchmark_group, main};
use logitchain_conformance::logits;
use logitchain_core::{Chain, ChainConfig, NoVocab, Registry, TokenId};
use logitchain_stages::DEFAULT_ORDER;

/// A chain that has sampled before, so that its memory is there, and logits.
fn prepared(list: &str) -> (Chain, Vec<f32>) {
    let registry = Registry::linked().expect("distinct names");
    let config = ChainConfig::from_samplers(list).expect("a list");
    let mut chain = config.build(&registry, &NoVocab).expect("a chain");
    let logits = logits::peaked(151_936);
    chain.sample(&mut logits.clone()).expect("a token");
    (chain, logits)
}

fn prepared_default() -> (Chain, Vec<f32>) {
    prepared(&format!("{DEFAULT_ORDER};dist"))
}

// The chain and the logits are returned, so that freeing them is not counted.
#[library_benchmark]
#[bench::greedy(args = ["greedy"], setup = prepared)]
#[bench::default_chain(setup = prepared_default)]
#[bench::temperature(args = ["temperature;dist"], setup = prepared)]
#[bench::top_p(args = ["top_p{p=0.95};temperature;dist"], setup = prepared)]
fn sample((mut chain, mut logits): (Chain, Vec<f32>)) -> (TokenId, Chain, Vec<f32>) {
    (chain.sample(&mut logits).expect("a token"), chain, logits)
}

library_benchmark_group!(name = tokens, benchmarks = sample);

main!(library_benchmark_groups = tokens);
