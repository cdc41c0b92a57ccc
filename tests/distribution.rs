//! Tokens come as often as they are probable: 100,000 draws of every chain
//! against the exact probabilities, by a chi-squared test. What a chain itself says
//! of its probabilities is held to the same.
//!
//! The candidates that a stage draws from are written down by a watching stage
//! in its place; from their logits the probabilities are computed here, in
//! `f64` and as the definition says. A twin of `dist` that is off by little
//! fails the same test, so that the test is known to see something.
//!
//! Seeds are fixed: an outcome is the same in every run. With a true generator
//! one test in a thousand would fail at p > 0.001.

use std::collections::BTreeMap;

use logitchain::{
    BuildContext, Candidates, Chain, ChainConfig, DistributionError, Kind, NoVocab, ParamError,
    RngKind, Sampler, Seed, Stage, StageRng, TokenId,
};
use logitchain_conformance::p_value;

mod support;

use support::{left, registry, softmax, watched};

const DRAWS: u32 = 100_000;
const LEAST_P: f64 = 0.001;

/// What the chain has accepted before: `4 5 6` would be continued by 7.
const HISTORY: [u32; 9] = [4, 5, 6, 7, 9, 9, 4, 5, 6];

/// Probabilities by token.
type Law = BTreeMap<u32, f64>;

/// The model's logits.
#[derive(Clone, Copy, Debug)]
enum Logits {
    /// 24 different ones.
    Steep,
    /// 32 equal ones.
    Flat,
    /// 24, every third one masked.
    Masked,
    /// 300, which is more than a block of the candidates' memory.
    Many,
}

impl Logits {
    fn list(self) -> Vec<f32> {
        match self {
            Self::Steep => (0..24_u8).map(|i| f32::from(i * 7 % 24) * 0.2 - 1.5).collect(),
            Self::Flat => vec![0.7; 32],
            Self::Masked => Self::Steep
                .list()
                .into_iter()
                .zip(0..)
                .map(|(logit, i)| if i % 3 == 0 { f32::NEG_INFINITY } else { logit })
                .collect(),
            Self::Many => (0..300_u16).map(|i| f32::from(i * 61 % 300) * 0.02).collect(),
        }
    }
}

fn build(list: &str, rng: RngKind) -> Chain {
    let mut config = ChainConfig::from_samplers(list).expect("a list");
    (config.rng, config.seed) = (rng, Seed::Fixed(1));
    let registry = registry().with::<Twin>().and_then(|all| all.with::<CoinTwin>());
    let mut chain = config.build(&registry.expect("distinct names"), &NoVocab).expect("a chain");
    HISTORY.iter().for_each(|token| chain.accept(TokenId(*token)));
    chain
}

/// How often each token comes. Nothing is accepted in between, so that what the
/// stages know of the text stays as it is.
fn counts(list: &str, rng: RngKind, logits: Logits) -> BTreeMap<u32, u32> {
    let mut chain = build(list, rng);
    let logits = logits.list();
    let mut worked_in = logits.clone();
    let mut counts = vec![0; logits.len()];
    for _ in 0..DRAWS {
        worked_in.copy_from_slice(&logits);
        counts[chain.sample(&mut worked_in).expect("a token").index()] += 1;
    }
    (0..).zip(counts).filter(|(_, count)| *count > 0).collect()
}

/// What these stages leave, as ids and logits; most likely first.
fn candidates(stages: &str, logits: Logits) -> Vec<(u32, f32)> {
    let mut chain = watched(stages);
    HISTORY.iter().for_each(|token| chain.accept(TokenId(*token)));
    left(&mut chain, &logits.list())
}

/// A chain and the exact probabilities of its tokens.
fn assert_draws(list: &str, rng: RngKind, logits: Logits, law: &Law) {
    let chain = build(list, rng);
    let said = chain.distribution(&logits.list()).unwrap_or_else(|e| panic!("`{list}`: {e}"));
    let said = said.by_id().iter().map(|(token, p)| (token.0, *p));
    let equal = said.clone().map(|(token, _)| token).eq(law.keys().copied());
    let close = said.clone().zip(law.values()).all(|((_, p), exact)| (p - exact).abs() < 1e-6);
    assert!(equal && close, "`{list}`, {rng}: says {:?}, is {law:?}", Law::from_iter(said));
    let p = p_value(&counts(list, rng, logits), law);
    assert!(p > LEAST_P, "`{list}` over {logits:?} logits, {rng}: p = {p}");
}

/// With these probabilities, those of what these stages leave.
fn mixed(worlds: &[(f64, &str)], logits: Logits) -> Law {
    let mut law = Law::new();
    for (share, stages) in worlds {
        for (token, p) in softmax(&candidates(stages, logits)) {
            *law.entry(token).or_default() += share * p;
        }
    }
    law
}

/// Chains that end in `dist`, most without a coin.
const CHAINS: [(Logits, &str); 18] = [
    (Logits::Steep, ""),
    (Logits::Flat, ""),
    (Logits::Masked, ""),
    (Logits::Many, ""),
    (Logits::Masked, "shuffle"),
    (Logits::Steep, "top_k{k=8}"),
    (Logits::Many, "top_k{k=70}"),
    (Logits::Steep, "top_p{p=0.6}"),
    (Logits::Many, "top_p{p=0.3,min_keep=3};temperature{t=0.7}"),
    (Logits::Steep, "min_p{p=0.1}"),
    (Logits::Masked, "min_p{p=0.02};temperature{t=1.6}"),
    (Logits::Steep, "typical{p=0.7}"),
    (Logits::Masked, "top_n_sigma{n=1.2}"),
    (Logits::Steep, "temperature{t=1,range=0.5}"),
    (Logits::Steep, "penalties{repeat=1.3,frequency=0.2,presence=0.4};top_k{k=12}"),
    (Logits::Steep, "dry{multiplier=1.5}"),
    (Logits::Steep, "logit_bias{bias=[\"3+2\",\"5-inf\"]};temperature{t=1.2}"),
    (
        Logits::Steep,
        "penalties{repeat=1.1};dry{multiplier=0.8};top_n_sigma{n=2};top_k{k=20};typical{p=0.95};\
         top_p;min_p;xtc;temperature",
    ),
];

fn chains_draw_by_their_probabilities(rng: RngKind) {
    for (logits, stages) in CHAINS {
        let list = if stages.is_empty() { "dist".into() } else { format!("{stages};dist") };
        assert_draws(&list, rng, logits, &mixed(&[(1.0, stages)], logits));
    }
}

#[test]
fn chains_draw_by_their_probabilities_from_xoshiro() {
    chains_draw_by_their_probabilities(RngKind::Xoshiro256PlusPlus);
}

#[test]
fn chains_draw_by_their_probabilities_from_mt19937() {
    chains_draw_by_their_probabilities(RngKind::Mt19937);
}

/// Where the coin falls, XTC acts as with the probability 1, and else it is as
/// good as absent.
#[test]
fn chains_with_a_coin_draw_by_their_probabilities() {
    let cases = [
        (
            "xtc{probability=0.4,threshold=0.06};dist",
            [(0.4, "xtc{probability=1,threshold=0.06}"), (0.6, "")],
        ),
        (
            "temperature{t=1.5};typical{p=0.9};xtc{probability=0.25,threshold=0.05};min_p{p=0.3};dist",
            [
                (
                    0.25,
                    "temperature{t=1.5};typical{p=0.9};xtc{probability=1,threshold=0.05};min_p{p=0.3}",
                ),
                (0.75, "temperature{t=1.5};typical{p=0.9};min_p{p=0.3}"),
            ],
        ),
    ];
    for (list, worlds) in cases {
        let law = mixed(&worlds, Logits::Steep);
        assert_ne!(law, mixed(&[(1.0, worlds[1].1)], Logits::Steep), "{list}: the coin matters");
        for (_, rng) in RngKind::ALL {
            assert_draws(list, rng, Logits::Steep, &law);
        }
    }
}

#[test]
fn greedy_never_takes_another_token() {
    for (_, rng) in RngKind::ALL {
        for logits in [Logits::Flat, Logits::Masked] {
            let best = candidates("", logits)[0].0;
            assert_draws("greedy", rng, logits, &Law::from([(best, 1.0)]));
        }
    }
}

/// A rate of 0 keeps the limit at 2 tau, where it starts.
#[test]
fn mirostat_v2_draws_among_tokens_below_its_limit() {
    for (logits, tau) in [(Logits::Steep, 1.7), (Logits::Masked, 1.2)] {
        let all = candidates("", logits);
        let within: Vec<_> = softmax(&all)
            .into_iter()
            .zip(all)
            .filter(|((_, p), _)| -p.log2() <= 2.0 * tau)
            .map(|(_, candidate)| candidate)
            .collect();
        assert!(within.len() > 1 && within.len() < candidates("", logits).len());
        let law = Law::from_iter(softmax(&within));
        for (_, rng) in RngKind::ALL {
            assert_draws(&format!("mirostat_v2{{tau={tau},eta=0}}"), rng, logits, &law);
        }
    }
}

/// A rate of 0 again. How many tokens there are to choose among is the paper's
/// formula, by its letters: s is the exponent, N the number of candidates.
#[test]
fn mirostat_draws_among_as_many_tokens_as_it_estimates() {
    for (logits, tau) in [(Logits::Steep, 2.5_f64), (Logits::Masked, 2.0)] {
        let all = candidates("", logits);
        let p: Vec<f64> = softmax(&all).into_iter().map(|(_, p)| p).collect();
        let (mut above, mut below) = (0.0, 0.0);
        for i in 1..p.len().min(100) {
            let t = ((i + 1) as f64 / i as f64).ln();
            above += t * (p[i - 1] / p[i]).ln();
            below += t * t;
        }
        let s = above / below;
        let (epsilon, n) = (s - 1.0, all.len() as f64);
        let k = (epsilon * (2.0 * tau).exp2() / (1.0 - n.powf(-epsilon))).powf(1.0 / s);
        assert!(k > 2.0 && k < n, "{logits:?}: k = {k}");
        let law = Law::from_iter(softmax(&all[..k as usize]));
        for (_, rng) in RngKind::ALL {
            assert_draws(&format!("mirostat{{tau={tau},eta=0}}"), rng, logits, &law);
        }
    }
}

/// As nothing is accepted, the mean stays the target, and with it the aim.
#[test]
fn adaptive_p_draws_by_the_distance_from_its_aim() {
    for (logits, target) in [(Logits::Steep, 0.08), (Logits::Masked, 0.3), (Logits::Flat, 0.0)] {
        let law = softmax(&candidates("", logits))
            .into_iter()
            .map(|(token, p)| {
                let d = (p - target).abs() / 0.3;
                (token, (5.0 - 10.0 * d * d / (1.0 + d)).exp())
            })
            .collect::<Law>();
        let sum: f64 = law.values().sum();
        let law = law.into_iter().map(|(token, weight)| (token, weight / sum)).collect();
        for (_, rng) in RngKind::ALL {
            assert_draws(&format!("adaptive_p{{target={target}}}"), rng, logits, &law);
        }
    }
}

#[test]
fn adaptive_p_without_a_target_draws_by_the_probabilities() {
    let law = mixed(&[(1.0, "top_k{k=15}")], Logits::Steep);
    for (_, rng) in RngKind::ALL {
        assert_draws("top_k{k=15};adaptive_p", rng, Logits::Steep, &law);
    }
}

/// Acts or not, and nothing else: two bins.
fn coin_p_value(stage: &str, probability: f64, rng: RngKind) -> f64 {
    let best = candidates("", Logits::Steep)[0].0;
    let counts = counts(&format!("{stage};greedy"), rng, Logits::Steep);
    let stays = counts.get(&best).copied().unwrap_or(0);
    let counts = [(0, stays), (1, DRAWS - stays)].into_iter().filter(|(_, n)| *n > 0).collect();
    p_value(&counts, &Law::from([(0, 1.0 - probability), (1, probability)]))
}

/// The best token goes exactly where XTC acts.
#[test]
fn xtc_acts_as_often_as_it_is_told() {
    for (_, rng) in RngKind::ALL {
        for probability in [0.01, 0.3, 0.5, 0.9] {
            let stage = format!("xtc{{probability={probability},threshold=0.06}}");
            let p = coin_p_value(&stage, probability, rng);
            assert!(p > LEAST_P, "{stage}, {rng}: p = {p}");
        }
    }
}

/// Drop the best token with a probability that is a little too great.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct CoinTwin {
    probability: f64,
    excess: f64,
    #[serde(skip)]
    rng: Option<StageRng>,
}

impl Default for CoinTwin {
    fn default() -> Self {
        Self { probability: 0.3, excess: 0.0, rng: None }
    }
}

impl Stage for CoinTwin {
    const NAME: &'static str = "coin_twin";
    const KIND: Kind = Kind::Filter;

    fn build(mut self, cx: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> {
        self.rng = Some(cx.rng());
        Ok(Box::new(self))
    }
}

impl Sampler for CoinTwin {
    fn apply(&mut self, candidates: &mut Candidates<'_>) {
        let probability = self.probability + self.excess;
        if self.rng.as_mut().expect("set by build").coin(probability) {
            candidates.drop_top(1);
        }
    }
}

#[test]
fn a_coin_that_is_off_by_little_is_found_out() {
    for (_, rng) in RngKind::ALL {
        let p = |excess: f64| coin_p_value(&format!("coin_twin{{excess={excess}}}"), 0.3, rng);
        assert!(p(0.0) > LEAST_P, "the fair twin, {rng}: p = {}", p(0.0));
        // A hundredth is 6.9 standard deviations.
        assert!(p(0.01) < LEAST_P, "{rng}: p = {}", p(0.01));
    }
}

/// Draw like `dist`, but for one small mistake.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Twin {
    /// The random number times this: 1 is fair.
    stretch: f64,
    /// Weights at this temperature: 1 is fair.
    t: f64,
    /// Of the random number only so many bits: 53 are fair.
    bits: u8,
    /// A token that never comes; there is none of the default's number.
    never: u32,
    #[serde(skip)]
    rng: Option<StageRng>,
}

impl Default for Twin {
    fn default() -> Self {
        Self { stretch: 1.0, t: 1.0, bits: 53, never: u32::MAX, rng: None }
    }
}

impl Stage for Twin {
    const NAME: &'static str = "twin";
    const KIND: Kind = Kind::Select;

    fn build(mut self, cx: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> {
        self.rng = Some(cx.rng());
        Ok(Box::new(self))
    }
}

impl Sampler for Twin {
    fn apply(&mut self, candidates: &mut Candidates<'_>) {
        let u = self.rng.as_mut().expect("set by build").uniform();
        let steps = f64::from(self.bits).exp2();
        let u = (u * steps).floor() / steps * self.stretch;
        let (t, never) = (self.t, self.never);
        let mut weights: Vec<_> = candidates
            .iter()
            .filter(|c| c.id.0 != never)
            .map(|c| (c.id, (f64::from(c.logit) / t).exp()))
            .collect();
        weights.sort_by_key(|(id, _)| *id);
        let sum: f64 = weights.iter().map(|(_, weight)| weight).sum();
        let mut end = 0.0;
        let drawn = weights.iter().find(|(_, weight)| {
            end += weight;
            end > u * sum
        });
        candidates.choose(drawn.unwrap_or(&weights[weights.len() - 1]).0);
    }
}

#[test]
fn a_twin_that_is_off_by_little_is_found_out() {
    let law = mixed(&[(1.0, "")], Logits::Steep);
    let rare = candidates("", Logits::Steep)[23].0;
    let biased = [
        "twin{stretch=0.98}".to_owned(),
        "twin{t=1.04}".to_owned(),
        "twin{bits=8}".to_owned(),
        format!("twin{{never={rare}}}"),
    ];
    for (_, rng) in RngKind::ALL {
        let p = |twin: &str| p_value(&counts(twin, rng, Logits::Steep), &law);
        assert!(p("twin") > LEAST_P, "the fair twin, {rng}: p = {}", p("twin"));
        for twin in &biased {
            assert!(p(twin) < LEAST_P, "`{twin}`, {rng}: p = {}", p(twin));
        }
    }
}

/// Two degrees of freedom have the closed form e^(-x/2). Of 120, with 40
/// expected in each bin, 30, 50 and 40 are off by (100 + 100) / 40 = 5.
#[test]
fn the_test_itself_gives_the_textbook_number() {
    let law = Law::from([(0, 1.0 / 3.0), (1, 1.0 / 3.0), (2, 1.0 / 3.0)]);
    let p = p_value(&BTreeMap::from([(0, 30), (1, 50), (2, 40)]), &law);
    assert!((p - (-2.5_f64).exp()).abs() < 1e-9, "{p}");
    // What cannot come has no excuse.
    assert_eq!(p_value(&BTreeMap::from([(0, 40), (1, 40), (3, 40)]), &law), 0.0);
}

/// Three bins in which 2 are expected make one of 6, in which 9 are off by
/// 9 / 6 + 9 / 54 = 5 / 3. With one degree of freedom, p = erfc(sqrt(5 / 6)).
#[test]
fn bins_that_expect_too_little_are_merged() {
    let small = 2.0 / 60.0;
    let law = Law::from([(0, small), (1, small), (2, small), (3, 0.9)]);
    let p = p_value(&BTreeMap::from([(0, 0), (1, 4), (2, 5), (3, 51)]), &law);
    assert!((p - 0.196_705_6).abs() < 1e-6, "{p}");
}

#[test]
fn a_stage_that_draws_in_its_own_way_is_named() {
    let logits = Logits::Steep.list();
    for (_, rng) in RngKind::ALL {
        let error = build("top_k;twin", rng).distribution(&logits).expect_err("its own way");
        assert!(matches!(&error, DistributionError::OwnDraw { stage } if stage.position == 2));
        assert!(error.to_string().starts_with("stage 2, `twin`, uses random numbers"), "{error}");
    }
}

#[test]
fn more_coins_than_can_be_looked_at_are_an_error() {
    let list = |coins: usize| ["coin_twin"; 20][..coins].join(";") + ";greedy";
    let logits = Logits::Steep.list();
    // All coins fall with .3, so the best of 24 tokens stays with .7^12.
    let law = build(&list(12), RngKind::default()).distribution(&logits).expect("12 coins");
    let best = candidates("", Logits::Steep)[0].0;
    assert!((law.probability(TokenId(best)) - 0.7_f64.powi(12)).abs() < 1e-12);
    let error = build(&list(13), RngKind::default()).distribution(&logits).expect_err("13 coins");
    assert!(matches!(&error, DistributionError::Coins { stage } if stage.position == 13));
}
