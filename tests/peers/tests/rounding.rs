//! The stages whose results hang on sums, against what the arithmetic of each
//! program gives: llama.cpp's to the last bit, ours as near as the formula in
//! `f64` tells. By these the differences of random chains are explained.

use std::collections::HashSet;

use logitchain_core::{Candidates, Registry, RngKind, Scratch};
use logitchain_peers::{
    llama::{Entry, Sampler},
    random::Case,
    rounding::{self, Change, Memory, Right},
    stages::Stage,
    vocab::Sized,
};
use logitchain_stages as _;

const SEED: u32 = 1;

fn stages(number: u64) -> [Stage; 12] {
    // From .05 to .95, and one that changes with every case.
    let p = 0.05 + 0.9 * (number * 37 % 101) as f32 / 101.0;
    let tau = 6.0 * p;
    [
        Stage::TopP { p, min_keep: 0 },
        Stage::TopP { p, min_keep: 3 },
        Stage::Typical { p, min_keep: 0 },
        Stage::Typical { p, min_keep: 3 },
        Stage::MinP { p: 0.4 * p, min_keep: 0 },
        Stage::MinP { p: 0.4 * p, min_keep: 3 },
        Stage::TopNSigma { n: 4.0 * p },
        Stage::Xtc { probability: 1.0, threshold: p * 0.2, min_keep: 0, seed: SEED },
        Stage::Temperature { t: 2.0 * p, range: p, exponent: 0.5 + p },
        Stage::AdaptiveP { target: p, decay: 0.9, seed: SEED },
        Stage::Mirostat { tau, eta: 0.1, m: 100, seed: SEED },
        Stage::MirostatV2 { tau, eta: 0.1, seed: SEED },
    ]
}

/// What both programs make of the same logits.
fn applied(
    stage: &Stage,
    before: &[Entry],
    n_vocab: usize,
    registry: &Registry,
) -> [Vec<Entry>; 2] {
    let mut theirs = before.to_vec();
    Sampler::new(stage, n_vocab, None).apply(&mut theirs, &mut false);
    theirs.retain(|e| e.logit > f32::NEG_INFINITY);
    let mut logits = vec![f32::NEG_INFINITY; n_vocab];
    before.iter().for_each(|e| logits[e.id as usize] = e.logit);
    let mut scratch = Scratch::default();
    let mut mine = Candidates::for_draws_by(RngKind::Mt19937, &mut logits, &mut scratch)
        .expect("logits that are numbers");
    let sampler = stage.sampler(registry, &Sized(n_vocab));
    sampler.expect("a stage that does something").apply(&mut mine);
    [theirs, mine.iter().map(|c| Entry { id: c.id.0, logit: c.logit }).collect()]
}

/// Results that are wrong by as little as can be: a survivor less, one more, a
/// logit that is off by a hundredth of its weight.
fn broken(stage: &Stage, before: &[Entry], after: &[Entry]) -> Vec<Vec<Entry>> {
    let mut all = Vec::new();
    if after.len() > 1 {
        all.push(after[..after.len() - 1].to_vec());
        all.push(after[1..].to_vec());
    }
    let left: HashSet<u32> = after.iter().map(|e| e.id).collect();
    if let Some(dropped) = before.iter().find(|e| !left.contains(&e.id)) {
        all.push([after, &[*dropped]].concat());
    }
    if rounding::is_summed(stage) {
        let mut one = after.to_vec();
        one[0].logit += 0.01;
        all.push(one);
    }
    all
}

#[test]
fn each_program_has_what_its_arithmetic_gives_and_nothing_else_passes() {
    let registry = Registry::linked().expect("distinct names");
    let (mut undefined, mut refused) = (0, 0);
    for number in 0..500 {
        let logits = Case::new(number).logits;
        let n_vocab = logits.len();
        let mut before: Vec<Entry> =
            (0..).zip(&logits).map(|(id, &logit)| Entry { id, logit }).collect();
        before.retain(|e| e.logit > f32::NEG_INFINITY);
        for stage in stages(number) {
            let memory = Memory::new(Some(&stage));
            let [theirs, ours] = applied(&stage, &before, n_vocab, &registry);
            let their = |after: &[Entry]| {
                rounding::theirs(&stage, &memory, Change { before: &before, after }, n_vocab)
            };
            let our = |after: &[Entry]| {
                rounding::ours(&stage, &memory, Change { before: &before, after }, n_vocab)
            };
            match their(&theirs).unwrap_or_else(|e| panic!("case {number}, {stage:?}: {e}")) {
                Right::Undefined => undefined += 1,
                Right::Finite => {
                    for wrong in broken(&stage, &before, &theirs) {
                        assert!(their(&wrong).is_err(), "case {number}, {stage:?}, llama.cpp");
                        refused += 1;
                    }
                }
            }
            our(&ours).unwrap_or_else(|e| panic!("case {number}, {stage:?}: {e}"));
            for wrong in broken(&stage, &before, &ours) {
                assert!(our(&wrong).is_err(), "case {number}, {stage:?}, ours");
                refused += 1;
            }
        }
    }
    println!("{refused} wrong results refused, {undefined} of llama.cpp's by no number");
    assert!(refused > 20_000 && undefined < 100);
}

#[test]
fn llama_cpps_logits_are_known_to_the_last_bit() {
    let registry = Registry::linked().expect("distinct names");
    for number in 0..200 {
        let logits = Case::new(number).logits;
        let mut before: Vec<Entry> =
            (0..).zip(&logits).map(|(id, &logit)| Entry { id, logit }).collect();
        before.retain(|e| e.logit > f32::NEG_INFINITY);
        for stage in stages(number).iter().filter(|stage| rounding::is_summed(stage)) {
            let memory = Memory::new(Some(stage));
            let [mut theirs, _] = applied(stage, &before, logits.len(), &registry);
            theirs[0].logit = theirs[0].logit.next_up();
            let change = Change { before: &before, after: &theirs };
            assert!(rounding::theirs(stage, &memory, change, logits.len()).is_err());
        }
    }
}
