use std::collections::BTreeMap;

use logitchain_core::{
    BuildContext, Candidates, Chain, ChainConfig, Kind, OrderDiff, ParamError, Registry, Sampler,
    Stage, StageConfig, StageRng, TokenId, compare,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ChiSquared, ContinuousCDF as _};

use crate::NumberVocab;

/// Weights are `f32`, which are this precise; what differs less may be equal.
const ROUNDING: f64 = 1e-6;

/// How improbable draws must be to be refused: a right chain is once in a million
/// seeds.
const LEAST_P: f64 = 1e-6;

/// How many tokens a message shows.
const SHOWN: usize = 12;

/// All orders of some things, such as the stages of a chain: n! of them, the given
/// one first.
///
/// ```
/// let orders: Vec<_> = logitchain_conformance::orders(&["top_k", "top_p", "min_p"]).collect();
/// assert_eq!(orders.len(), 6);
/// assert_eq!(orders[0], ["top_k", "top_p", "min_p"]);
/// assert_eq!(orders[5], ["min_p", "top_p", "top_k"]);
/// ```
pub fn orders<T: Clone>(things: &[T]) -> impl Iterator<Item = Vec<T>> {
    let mut next: Option<Vec<usize>> = Some((0..things.len()).collect());
    std::iter::from_fn(move || {
        let places = next.take()?;
        next = following(&places);
        Some(places.iter().map(|at| things[*at].clone()).collect())
    })
}

/// The next permutation in order of the alphabet.
fn following(places: &[usize]) -> Option<Vec<usize>> {
    let pivot = (1..places.len()).rfind(|at| places[at - 1] < places[*at])? - 1;
    let mut next = places.to_vec();
    let swap = (pivot + 1..next.len()).rfind(|at| next[*at] > next[pivot])?;
    next.swap(pivot, swap);
    next[pivot + 1..].reverse();
    Some(next)
}

/// Checks that two chains choose the same tokens with the same probabilities, to
/// one in a million.
///
/// # Panics
///
/// If they do not, with a table of what differs most; or if the probabilities of a
/// chain cannot be told.
pub fn assert_same_distribution(a: &Chain, b: &Chain, logits: &[f32]) {
    let diff = diff(a, b, logits);
    assert!(same(&diff), "the chains differ\n{}", table(a, b, &diff));
}

/// Checks that two chains choose other tokens, or with other probabilities.
///
/// # Panics
///
/// If they do not; or if the probabilities of a chain cannot be told.
pub fn assert_orders_differ(a: &Chain, b: &Chain, logits: &[f32]) {
    let diff = diff(a, b, logits);
    assert!(!same(&diff), "the chains do not differ\n{}", table(a, b, &diff));
}

/// Checks that two stages do the same in both orders.
///
/// ```
/// # use logitchain_core::{BuildContext, Candidates, Kind, ParamError, Sampler, Stage};
/// # macro_rules! stage { ($name:ident, $text:literal, $kind:ident, $apply:expr) => {
/// #     #[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
/// #     struct $name {}
/// #     impl Sampler for $name { fn apply(&mut self, c: &mut Candidates<'_>) { ($apply)(c); } }
/// #     impl Stage for $name {
/// #         const NAME: &'static str = $text;
/// #         const KIND: Kind = Kind::$kind;
/// #         fn build(self, _: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> { Ok(Box::new(self)) }
/// #     }
/// # } }
/// # stage!(TopTwo, "top_two", Filter, |c: &mut Candidates<'_>| c.keep_top(2));
/// # stage!(Halve, "halve", Rescale, |c: &mut Candidates<'_>| c.temper(2.0));
/// use logitchain_conformance::assert_commutes;
///
/// // The two most likely are the same at any temperature.
/// assert_commutes(&TopTwo {}, &Halve {}, &[2.0, 1.0, 0.5]);
/// ```
///
/// # Panics
///
/// If they do not, with a table of what differs most; or if a stage rejects its
/// parameters, or selects.
pub fn assert_commutes<A: Stage, B: Stage>(a: &A, b: &B, logits: &[f32]) {
    let (first, second) = (pair(a, b, logits.len()), pair(b, a, logits.len()));
    let diff = diff(&first, &second, logits);
    let (a, b) = (A::NAME, B::NAME);
    assert!(same(&diff), "`{a}` and `{b}` do not commute\n{}", table(&first, &second, &diff));
}

/// Draws so many tokens from a copy of a chain, accepting none, and checks that they
/// come as often as [`Chain::distribution`] says: Pearson's chi-squared test, over
/// bins in which 5 are expected, refuses what would come of chance once in a million
/// times.
///
/// # Panics
///
/// If they do not, with a table; or if the probabilities cannot be told, or move
/// while tokens are drawn, as mirostat's do at a rate above 0.
pub fn assert_matches_distribution(chain: &Chain, logits: &[f32], draws: u32) {
    let law = |chain: &Chain| {
        chain.distribution(logits).unwrap_or_else(|e| panic!("`{chain}`: {}", crate::whole(&e)))
    };
    let expected = law(chain);
    let mut copy = chain.clone();
    let mut memory = logits.to_vec();
    let mut counts = BTreeMap::new();
    for _ in 0..draws {
        memory.copy_from_slice(logits);
        let token = copy.sample(&mut memory).unwrap_or_else(|e| panic!("`{chain}`: {e}"));
        *counts.entry(token.0).or_insert(0) += 1;
    }
    assert!(law(&copy) == expected, "`{chain}`: its probabilities move while it draws");
    let p = p_value(&counts, &expected.by_id().iter().map(|(id, p)| (id.0, *p)).collect());
    let count = |id: TokenId| f64::from(counts.get(&id.0).copied().unwrap_or(0));
    let mut ids: Vec<TokenId> = expected.by_id().iter().map(|(id, _)| *id).collect();
    ids.extend(counts.keys().map(|id| TokenId(*id)).filter(|id| !expected.contains(*id)));
    let rows = ids.iter().map(|id| (*id, expected.probability(*id), count(*id) / f64::from(draws)));
    let heads = ["says", "comes"];
    assert!(
        p > LEAST_P,
        "`{chain}`: {draws} tokens do not come as it says, p = {p:.1e}\n{}",
        rows_of_most_difference(heads, rows.collect())
    );
}

/// The probability that draws by a law would look at least as far off as these
/// counts: Pearson's test, over bins in which 5 draws are expected.
///
/// ```
/// use logitchain_conformance::p_value;
///
/// // 16 / 50 + 16 / 50 is .64, of one degree of freedom.
/// let law = [(0, 0.5), (1, 0.5)].into();
/// let p = p_value(&[(0, 54), (1, 46)].into(), &law);
/// assert!((p - 0.4237).abs() < 1e-4);
/// assert_eq!(p_value(&[(7, 100)].into(), &law), 0.0);
/// ```
pub fn p_value(counts: &BTreeMap<u32, u32>, law: &BTreeMap<u32, f64>) -> f64 {
    if counts.keys().any(|token| !law.contains_key(token)) {
        return 0.0;
    }
    let draws: u32 = counts.values().sum();
    let mut bins: Vec<(f64, f64)> = law
        .iter()
        .map(|(token, p)| (p * f64::from(draws), counts.get(token).copied().unwrap_or(0).into()))
        .collect();
    bins.sort_by(|a, b| b.0.total_cmp(&a.0));
    while let [.., below, (expected, count)] = &mut bins[..]
        && *expected < 5.0
    {
        (below.0, below.1) = (below.0 + *expected, below.1 + *count);
        bins.pop();
        // What has grown by it may still be the least.
        bins.sort_by(|a, b| b.0.total_cmp(&a.0));
    }
    if bins.len() < 2 {
        return 1.0;
    }
    let off: f64 = bins.iter().map(|(expected, count)| (count - expected).powi(2) / expected).sum();
    ChiSquared::new((bins.len() - 1) as f64).map_or(1.0, |chi| chi.sf(off))
}

fn diff(a: &Chain, b: &Chain, logits: &[f32]) -> OrderDiff {
    compare(a, b, logits).unwrap_or_else(|e| panic!("{}", crate::whole(&e)))
}

fn same(diff: &OrderDiff) -> bool {
    let close = |id: &TokenId| (diff.a.probability(*id) - diff.b.probability(*id)).abs() < ROUNDING;
    diff.same_kept() && diff.both.iter().all(close)
}

fn table(a: &Chain, b: &Chain, diff: &OrderDiff) -> String {
    let ids = diff.both.iter().chain(&diff.only_a).chain(&diff.only_b);
    let rows = ids.map(|id| (*id, diff.a.probability(*id), diff.b.probability(*id))).collect();
    format!(
        "a: {a}\nb: {b}\ntotal variation {:.6}, {} tokens in both, {} in a only, {} in b only\n{}",
        diff.total_variation,
        diff.both.len(),
        diff.only_a.len(),
        diff.only_b.len(),
        rows_of_most_difference(["a", "b"], rows)
    )
}

fn rows_of_most_difference(heads: [&str; 2], mut rows: Vec<(TokenId, f64, f64)>) -> String {
    let off = |row: &(TokenId, f64, f64)| (row.1 - row.2).abs();
    rows.sort_by(|x, y| off(y).total_cmp(&off(x)).then(x.0.cmp(&y.0)));
    let mut text = format!("{:>8} {:>10} {:>10}\n", "token", heads[0], heads[1]);
    for (id, a, b) in rows.iter().take(SHOWN) {
        text += &format!("{id:>8} {a:>10.6} {b:>10.6}\n");
    }
    if rows.len() > SHOWN {
        text += &format!("     ... {} more, which differ less\n", rows.len() - SHOWN);
    }
    text
}

/// A chain of two stages that draws.
fn pair<A: Stage, B: Stage>(a: &A, b: &B, size: usize) -> Chain {
    let mut config = ChainConfig::default();
    config.stages = vec![configured(a), configured(b), StageConfig::new(Draw::NAME)];
    let registry = Registry::default().with::<Draw>().and_then(Registry::with::<A>);
    let registry =
        if A::NAME == B::NAME { registry } else { registry.and_then(Registry::with::<B>) };
    let chain = registry.and_then(|registry| config.build(&registry, &NumberVocab::new(size)));
    chain.unwrap_or_else(|e| panic!("`{}` and `{}`: {}", A::NAME, B::NAME, crate::whole(&e)))
}

fn configured<S: Stage>(stage: &S) -> StageConfig {
    let mut config = StageConfig::new(S::NAME);
    config.params = toml::Table::try_from(stage)
        .unwrap_or_else(|e| panic!("`{}`: its parameters are no table: {e}", S::NAME));
    config
}

/// Draw a token.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Draw {}

#[derive(Clone, Debug)]
struct Drawing(StageRng);

impl Stage for Draw {
    const NAME: &'static str = "draw";
    const KIND: Kind = Kind::Select;

    fn build(self, cx: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> {
        Ok(Box::new(Drawing(cx.rng())))
    }
}

impl Sampler for Drawing {
    fn apply(&mut self, candidates: &mut Candidates<'_>) {
        candidates.draw(&mut self.0);
    }
}
