//! Chains under glass: what a chain would draw from, instead of one draw.

// Each test program uses some of this.
#![allow(dead_code, reason = "shared by test programs that use different parts")]

use std::{cell::RefCell, error::Error};

use logitchain::{
    BuildContext, Candidate, Candidates, Chain, ChainConfig, Kind, NoVocab, ParamError, Registry,
    Sampler, Seed, Stage, TokenId, Vocab,
};

thread_local! {
    // A chain gives nothing out but a token; what it chose from comes out here.
    static SEEN: RefCell<Vec<Candidate>> = const { RefCell::new(Vec::new()) };
}

/// Write down the candidates, and take the most likely one.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Probe {}

impl Stage for Probe {
    const NAME: &'static str = "probe";
    const KIND: Kind = Kind::Select;

    fn build(self, _: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> {
        Ok(Box::new(self))
    }
}

impl Sampler for Probe {
    fn apply(&mut self, candidates: &mut Candidates<'_>) {
        let mut all: Vec<_> = candidates.iter().collect();
        all.sort_by(Candidate::rank);
        candidates.choose(all[0].id);
        SEEN.set(all);
    }
}

/// Lay the candidates out in memory from the least likely to the most likely.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Shuffle {}

impl Stage for Shuffle {
    const NAME: &'static str = "shuffle";
    const KIND: Kind = Kind::Filter;

    fn build(self, _: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> {
        Ok(Box::new(self))
    }
}

impl Sampler for Shuffle {
    fn apply(&mut self, candidates: &mut Candidates<'_>) {
        candidates.keep_typical(1000.0, 1.0, usize::MAX);
    }
}

/// The built-in stages and those of this file.
pub(crate) fn registry() -> Registry {
    let registry = Registry::linked().and_then(Registry::with::<Probe>);
    registry.and_then(Registry::with::<Shuffle>).expect("no two stages share a name")
}

/// A chain that draws, from a list of stages.
pub(crate) fn drawing(list: &str, seed: u64) -> Chain {
    let mut config = ChainConfig::from_samplers(list).expect("a list of stages");
    config.seed = Seed::Fixed(seed);
    build(&config, &NoVocab)
}

/// A chain whose end is watched, from a list of filters, penalties and so on.
pub(crate) fn watched(list: &str) -> Chain {
    watched_in(list, &NoVocab)
}

/// The same for a vocabulary.
pub(crate) fn watched_in(list: &str, vocab: &dyn Vocab) -> Chain {
    let list = if list.is_empty() { "probe".to_owned() } else { format!("{list};probe") };
    build(&ChainConfig::from_samplers(&list).expect("a list of stages"), vocab)
}

pub(crate) fn build(config: &ChainConfig, vocab: &dyn Vocab) -> Chain {
    config.build(&registry(), vocab).unwrap_or_else(|e| panic!("{config}: {}", whole(&e)))
}

/// What is left at the end of a watched chain, most likely first.
pub(crate) fn left(chain: &mut Chain, logits: &[f32]) -> Vec<(u32, f32)> {
    chain.sample(&mut logits.to_vec()).unwrap_or_else(|e| panic!("{chain}: {e}"));
    SEEN.take().iter().map(|c| (c.id.0, c.logit)).collect()
}

/// The ids that these stages leave, most likely first.
pub(crate) fn ids(list: &str, logits: &[f32]) -> Vec<u32> {
    left(&mut watched(list), logits).iter().map(|(id, _)| *id).collect()
}

/// The ids that these stages leave, by id.
pub(crate) fn set(list: &str, logits: &[f32]) -> Vec<u32> {
    let mut ids = ids(list, logits);
    ids.sort_unstable();
    ids
}

/// The logits that these stages leave after this history, by id; -inf for what
/// they drop.
pub(crate) fn logits_after(list: &str, history: &[u32], logits: &[f32]) -> Vec<f32> {
    let mut chain = watched(list);
    history.iter().for_each(|id| chain.accept(TokenId(*id)));
    let mut all = vec![f32::NEG_INFINITY; logits.len()];
    for (id, logit) in left(&mut chain, logits) {
        all[id as usize] = logit;
    }
    all
}

/// The probabilities behind candidates, in their order.
pub(crate) fn softmax(left: &[(u32, f32)]) -> Vec<(u32, f64)> {
    let best = left.iter().fold(f64::NEG_INFINITY, |best, c| best.max(f64::from(c.1)));
    let weights: Vec<f64> = left.iter().map(|c| (f64::from(c.1) - best).exp()).collect();
    let sum: f64 = weights.iter().sum();
    left.iter().zip(weights).map(|(c, weight)| (c.0, weight / sum)).collect()
}

/// The probabilities that these stages leave, most likely first.
pub(crate) fn distribution(list: &str, logits: &[f32]) -> Vec<(u32, f64)> {
    softmax(&left(&mut watched(list), logits))
}

/// Logits of these probabilities.
pub(crate) fn ln(probabilities: &[f64]) -> Vec<f32> {
    probabilities.iter().map(|p| p.ln() as f32).collect()
}

/// Checks ids, and probabilities to one in 100,000.
#[track_caller]
pub(crate) fn assert_distribution(got: &[(u32, f64)], expected: &[(u32, f64)]) {
    let close = |(a, b): (&(u32, f64), &(u32, f64))| a.0 == b.0 && (a.1 - b.1).abs() < 1e-5;
    let equal = got.len() == expected.len() && got.iter().zip(expected).all(close);
    assert!(equal, "got {got:?}, expected {expected:?}");
}

/// Checks logits to one in 100,000.
#[track_caller]
pub(crate) fn assert_logits(got: &[f32], expected: &[f32]) {
    // Equality is for the infinities.
    let close = |(a, b): (&f32, &f32)| a == b || (a - b).abs() < 1e-5;
    let equal = got.len() == expected.len() && got.iter().zip(expected).all(close);
    assert!(equal, "got {got:?}, expected {expected:?}");
}

/// Why a chain file or a list, of the built-in stages, cannot be built.
#[track_caller]
pub(crate) fn refusal(list_or_file: &str) -> String {
    refusal_in(list_or_file, &NoVocab)
}

/// The same for a vocabulary.
#[track_caller]
pub(crate) fn refusal_in(list_or_file: &str, vocab: &dyn Vocab) -> String {
    let config = if list_or_file.contains("\n") {
        list_or_file.parse()
    } else {
        ChainConfig::from_samplers(list_or_file)
    };
    let registry = Registry::linked().expect("no two stages share a name");
    match config.and_then(|config| config.build(&registry, vocab)) {
        Ok(chain) => panic!("{list_or_file:?} was built: {chain}"),
        Err(error) => whole(&error),
    }
}

/// An error with all its causes, in one line.
pub(crate) fn whole(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
