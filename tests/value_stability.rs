//! A seed means the same text in every release: streams and draws are held to
//! `stability/draws.toml`.
//!
//! The file was not written down from this code. `stability/oracle.py` computes
//! it: the generators from their published descriptions (mt19937 compared with
//! Python's and numpy's), the way from a seed to a stage's stream and all stages
//! from their documentation. So the tests say that the code is right as well as
//! that it stays.
//!
//! There is no way to bless another outcome, and `BLESS=1` does nothing here. A
//! test that fails means that people's seeds would give other texts. To want
//! that is a breaking change; the head of the file says how it is made.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
};

use logitchain::{
    BuildContext, Candidates, ChainConfig, Kind, NoVocab, ParamError, Registry, RngKind, Sampler,
    Seed, Stage, StageRng, TokenId,
};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pinned {
    logits: Vec<f32>,
    stream: Vec<Stream>,
    draws: Vec<Draws>,
}

/// The start of a stage's stream.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stream {
    rng: RngKind,
    seed: String,
    /// The stages that have this stream.
    stages: Vec<String>,
    /// How many stages of the name stand before it.
    nth: usize,
    words: Vec<String>,
    numbers: Vec<f64>,
}

/// The first tokens that a chain draws.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Draws {
    rng: RngKind,
    seed: String,
    chain: String,
    tokens: Vec<u32>,
}

fn pinned() -> Pinned {
    toml::from_str(include_str!("stability/draws.toml")).expect("streams and draws")
}

fn number(seed: &str) -> u64 {
    seed.parse().expect("a seed")
}

fn config(list: &str, rng: RngKind, seed: &str) -> ChainConfig {
    let mut config = ChainConfig::from_samplers(list).expect("a list");
    (config.rng, config.seed) = (rng, Seed::Fixed(number(seed)));
    config
}

thread_local! {
    // What stages of these names are given while a chain is built.
    static STREAMS: RefCell<Vec<StageRng>> = const { RefCell::new(Vec::new()) };
}

/// A stage in the place of a built-in one that hands out its stream.
macro_rules! in_place_of {
    ($($stage:ident: $name:literal,)*) => {
        $(
            /// Hand out the stream that the chain gives to a stage of this name.
            #[derive(Clone, Debug, Default, serde::Serialize, Deserialize, schemars::JsonSchema)]
            struct $stage {}

            impl Stage for $stage {
                const NAME: &'static str = $name;
                const KIND: Kind = Kind::Filter;

                fn build(self, cx: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> {
                    STREAMS.with_borrow_mut(|all| all.push(cx.rng()));
                    Ok(Box::new(self))
                }
            }

            impl Sampler for $stage {
                fn apply(&mut self, _: &mut Candidates<'_>) {}
            }
        )*

        /// The streams that a chain gives to these stages, in their order.
        fn streams(rng: RngKind, seed: &str, stages: &[&str]) -> Vec<StageRng> {
            let registry = Ok(Registry::default())$(.and_then(Registry::with::<$stage>))*;
            let registry = registry.and_then(Registry::with::<logitchain::stages::Greedy>);
            let list = format!("{};greedy", stages.join(";"));
            let registry = registry.expect("distinct names");
            config(&list, rng, seed).build(&registry, &NoVocab).expect("a chain");
            STREAMS.take()
        }
    };
}

in_place_of! {
    InPlaceOfAdaptiveP: "adaptive_p",
    InPlaceOfDist: "dist",
    InPlaceOfMirostat: "mirostat",
    InPlaceOfMirostatV2: "mirostat_v2",
    InPlaceOfXtc: "xtc",
}

#[test]
fn a_seed_gives_these_words_and_numbers_to_each_stage() {
    for Stream { rng, seed, stages, nth, words, numbers } in pinned().stream {
        assert_eq!((words.len(), numbers.len()), (32, 32));
        for stage in stages {
            let mut given = streams(rng, &seed, &vec![stage.as_str(); nth + 1]);
            let stream = given.pop().expect("a stream");
            let (mut raw, mut uniform) = (stream.clone(), stream);
            for (at, (word, number)) in words.iter().zip(&numbers).enumerate() {
                let place = format!("{rng}, seed {seed}, {stage} {nth}: at {at}");
                let word = u64::from_str_radix(word, 16).expect("a word");
                assert_eq!(raw.word(), word, "{place}");
                // As bits: the decimals in the file are exact.
                assert_eq!(uniform.uniform().to_bits(), number.to_bits(), "{place}");
            }
        }
    }
}

/// Each token is accepted, as it is in generating a text.
#[test]
fn a_seed_gives_these_tokens() {
    let Pinned { logits, draws, .. } = pinned();
    let registry = Registry::linked().expect("distinct names");
    for Draws { rng, seed, chain: list, tokens } in draws {
        assert_eq!(tokens.len(), 64);
        let mut chain = config(&list, rng, &seed).build(&registry, &NoVocab).expect("a chain");
        for (at, expected) in tokens.into_iter().enumerate() {
            let token = chain.sample(&mut logits.clone()).expect("a token");
            chain.accept(token);
            assert_eq!(token, TokenId(expected), "{list}, {rng}, seed {seed}: draw {at}");
        }
    }
}

/// Where a stage stands and what stands beside it makes no difference.
#[test]
fn a_stage_has_its_stream_in_whatever_chain() {
    let all = ["xtc", "adaptive_p", "xtc", "mirostat", "dist", "xtc", "mirostat_v2"];
    for (_, rng) in RngKind::ALL {
        let together = streams(rng, "42", &all);
        for (at, (stage, mut stream)) in all.iter().zip(together).enumerate() {
            let nth = all[..at].iter().filter(|s| s == &stage).count();
            let alone = streams(rng, "42", &vec![*stage; nth + 1]).pop();
            let word = alone.expect("a stream").word();
            assert_eq!(stream.word(), word, "{rng}: `{stage}` {nth}");
        }
    }
}

/// A stage's `Debug` shows the stream that it holds; which stages draw is read
/// from there, so that none can be forgotten.
#[test]
fn every_stage_that_draws_is_pinned_for_both_generators_and_all_seeds() {
    let registry = Registry::linked().expect("distinct names");
    let context = BuildContext::new(&NoVocab, RngKind::default(), 0);
    let drawing: BTreeSet<&str> = registry
        .iter()
        .filter(|stage| stage.origin == "logitchain-stages")
        .filter(|stage| {
            let built = stage.build(&stage.defaults(), &context).expect("defaults that build");
            format!("{built:?}").contains("StageRng")
        })
        .map(|stage| stage.name)
        .collect();
    assert_eq!(
        drawing,
        BTreeSet::from(["adaptive_p", "dist", "mirostat", "mirostat_v2", "xtc"]),
        "stages with a stream"
    );

    let seeds = |rng| {
        let edges = [0, 1, 42, u64::from(u32::MAX), 1 << 32, u64::MAX];
        // mt19937 has seeds of 32 bits.
        let known = |seed: &u64| rng == RngKind::default() || u32::try_from(*seed).is_ok();
        BTreeSet::from_iter(edges.into_iter().filter(known))
    };
    let Pinned { stream, draws, .. } = pinned();
    for (name, rng) in RngKind::ALL {
        let mut streams = BTreeMap::<&str, BTreeSet<u64>>::new();
        for stream in stream.iter().filter(|s| s.rng == rng && s.nth == 0) {
            for stage in &stream.stages {
                streams.entry(stage).or_default().insert(number(&stream.seed));
            }
        }
        let mut texts = BTreeMap::<&str, BTreeSet<u64>>::new();
        for draws in draws.iter().filter(|d| d.rng == rng) {
            for stage in draws.chain.split(';') {
                let stage = stage.split('{').next().expect("a name");
                texts.entry(stage).or_default().insert(number(&draws.seed));
            }
        }
        let all: BTreeMap<_, _> = drawing.iter().map(|stage| (*stage, seeds(rng))).collect();
        assert_eq!(streams, all, "streams of {name}");
        assert_eq!(texts, all, "tokens of {name}");
    }
}
