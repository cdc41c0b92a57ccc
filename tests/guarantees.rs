//! What every chain promises, whatever its stages.

use logitchain_core::{Chain, ChainConfig, NoVocab, Registry, Seed, TokenId};
use logitchain_stages as _;

fn build(list: &str, seed: u64) -> Chain {
    let mut config = ChainConfig::from_samplers(list).expect("a list");
    config.seed = Seed::Fixed(seed);
    config.build(&Registry::linked().expect("distinct names"), &NoVocab).expect("a chain")
}

/// Logits that differ from step to step, over several hundred tokens.
fn logits(step: u64) -> Vec<f32> {
    (0..600_u64)
        .map(|i| {
            let x = (i * 2_654_435_761 + step * 40_503).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            x as f32 / (1 << 24) as f32 * 12.0
        })
        .collect()
}

fn next(chain: &mut Chain, step: u64) -> TokenId {
    let token = chain.sample(&mut logits(step)).expect("a token");
    chain.accept(token);
    token
}

fn run(chain: &mut Chain, steps: std::ops::Range<u64>) -> Vec<u32> {
    steps.map(|step| next(chain, step).0).collect()
}

/// Chains in which every built-in stage is active at least once.
const CHAINS: [&str; 7] = [
    "penalties{repeat=1.3,frequency=0.1};dry{multiplier=0.8};top_k;typical{p=0.9};top_p;min_p;temperature",
    "logit_bias{bias=[\"3+4\",\"5-inf\"]};top_n_sigma{n=1.5};xtc{probability=0.5,threshold=0.05};temperature{t=1.5}",
    "temperature{t=1.2,range=0.7};top_p{p=0.8}",
    "temperature;mirostat",
    "temperature;mirostat_v2",
    "min_p{p=0.02};adaptive_p{target=0.3}",
    "penalties{presence=0.5,last_n=\"all\"};greedy",
];

#[test]
fn the_same_seed_gives_the_same_tokens_and_another_seed_others() {
    for list in CHAINS {
        assert_eq!(run(&mut build(list, 5), 0..60), run(&mut build(list, 5), 0..60), "{list}");
        if !list.ends_with("greedy") {
            assert_ne!(run(&mut build(list, 5), 0..60), run(&mut build(list, 6), 0..60), "{list}");
        }
    }
}

#[test]
fn a_clone_continues_as_the_original_would() {
    for list in CHAINS {
        let mut original = build(list, 5);
        run(&mut original, 0..30);
        let mut copy = original.clone();
        assert_eq!(run(&mut original, 30..60), run(&mut copy, 30..60), "{list}");
    }
}

#[test]
fn reset_equals_a_fresh_build() {
    for list in CHAINS {
        let mut chain = build(list, 5);
        let first = run(&mut chain, 0..40);
        chain.reset();
        assert_eq!(run(&mut chain, 0..40), first, "{list}");
    }
}

#[test]
fn a_neutral_stage_anywhere_changes_no_token() {
    let neutral = [
        "penalties",
        "dry",
        "top_n_sigma",
        "top_k{k=0}",
        "typical",
        "top_p{p=1}",
        "min_p{p=0}",
        "xtc",
        "temperature{t=1}",
        "logit_bias",
    ];
    let stages = ["top_k{k=50}", "xtc{probability=0.5,threshold=0.02}", "temperature{t=1.3}"];
    let plain = run(&mut build(&stages.join(";"), 9), 0..50);
    for extra in neutral {
        for at in 0..=stages.len() {
            let mut with = stages.to_vec();
            with.insert(at, extra);
            let mut chain = build(&with.join(";"), 9);
            assert!(chain.to_string().contains('?'), "{chain}");
            assert_eq!(run(&mut chain, 0..50), plain, "{chain}");
        }
    }
}

#[test]
fn adding_or_removing_a_stage_leaves_the_other_streams_alone() {
    // Stages that draw but cannot change the outcome here: no token ever has
    // half of the probability.
    let with = "xtc{probability=1,threshold=0.5};top_k{k=300}";
    assert_eq!(run(&mut build(with, 3), 0..50), run(&mut build("top_k{k=300}", 3), 0..50));
}

#[test]
fn the_stages_of_one_chain_draw_unrelated_numbers() {
    // Were coin and draw the same number, a low draw would always meet an
    // active coin: with the probability 0.5, tokens from the upper half of the
    // line would never follow one. Over 200 tokens both occur with either.
    let mut chain = build("xtc{probability=0.5,threshold=0.1}", 11);
    let mut counts = [0; 4];
    for _ in 0..400 {
        // Inactive: ids 0 to 3, a quarter each. Active: only id 3 of those.
        let token = chain.sample(&mut [1.0, 1.0, 1.0, 1.0]).expect("a token").index();
        counts[token] += 1;
    }
    // Ids 0 to 2 each: 0.5 * 0.25 of 400 = 50, within four standard deviations.
    for (id, count) in counts[..3].iter().enumerate() {
        assert!((24..=76).contains(count), "token {id} was drawn {count} times");
    }
}

#[test]
fn every_u64_is_a_seed_of_its_own() {
    let seeds = [0, 1, 42, u64::from(u32::MAX), 1 << 32, u64::MAX - 1, u64::MAX];
    let runs: Vec<_> = seeds.iter().map(|seed| run(&mut build("", *seed), 0..20)).collect();
    for (i, a) in runs.iter().enumerate() {
        assert!(runs[i + 1..].iter().all(|b| a != b), "seed {} repeats another", seeds[i]);
    }
}

#[test]
fn a_logit_that_is_no_number_stops_the_chain_and_names_the_token() {
    let mut chain = build("temperature", 1);
    let error = |chain: &mut Chain, logits: &mut [f32]| {
        chain.sample(logits).expect_err("bad logits").to_string()
    };
    assert_eq!(error(&mut chain, &mut []), "the model gave no logits");
    let nan = "the logit of token 1 is NaN: as the model gave it";
    assert_eq!(error(&mut chain, &mut [1.0, f32::NAN, 2.0]), nan);
    // The next call works.
    assert!(chain.sample(&mut [1.0, f32::NEG_INFINITY, 2.0]).is_ok());
}
