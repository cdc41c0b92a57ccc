//! Speculative decoding keeps the distribution of the model's own chain.

use logitchain::{
    BuildContext, ChainConfig, Distribution, NoVocab, Registry, RngKind, StageRng, TokenId,
    speculative::{SpeculativeError, Verdict, accept, verify},
};
use logitchain_conformance::p_value;

fn rng(seed: u64) -> StageRng {
    BuildContext::new(&NoVocab, RngKind::default(), seed).rng()
}

fn law(probabilities: &[f64]) -> Distribution {
    Distribution::from_probabilities(probabilities).expect("probabilities")
}

fn draw(law: &Distribution, rng: &mut StageRng) -> TokenId {
    let u = rng.uniform();
    let mut sum = 0.0;
    let all = law.by_id().iter();
    let mut ends = all.map(|(id, p)| {
        sum += p;
        (*id, sum)
    });
    ends.find(|(_, end)| *end > u).map_or(law.best(), |(id, _)| id)
}

/// The chance of counts as far off as these, by chi-squared.
fn chance(counts: &[u32], law: &Distribution) -> f64 {
    let law = law.by_id().iter().map(|(id, p)| (id.0, *p)).collect();
    let counts = (0..).zip(counts.iter().copied()).filter(|(_, count)| *count > 0).collect();
    p_value(&counts, &law)
}

const TARGET: [f64; 5] = [0.4, 0.25, 0.2, 0.15, 0.0];

/// Leviathan et al. (2023), appendix A.1: whatever is drafted, the target's law; and
/// the share that stays is the sum of the lesser of both probabilities, here
/// .1 + .2 + .1 + .1 = .5.
#[test]
fn single_tokens_have_the_targets_distribution() {
    const DRAWS: usize = 100_000;
    let (draft, target) = (law(&[0.1, 0.2, 0.1, 0.1, 0.5]), law(&TARGET));
    let (mut drafting, mut judging) = (rng(1), rng(2));
    let (mut counts, mut accepted) = ([0; 5], 0_usize);
    for _ in 0..DRAWS {
        let drafted = draw(&draft, &mut drafting);
        let token = match accept(drafted, &draft, &target, &mut judging).expect("a draft") {
            Verdict::Accepted => {
                accepted += 1;
                drafted
            }
            Verdict::Replaced(token) => token,
        };
        counts[token.index()] += 1;
    }
    let chance = chance(&counts, &target);
    assert!(chance > 1e-4, "{counts:?} have a chance of {chance}");
    // Five standard deviations of .5 * sqrt(100,000) = 158.
    assert!(DRAWS.div_ceil(2).abs_diff(accepted) < 5 * 158, "{accepted} accepted");
}

/// Always keeping what is drafted would give the draft's law, which this tells apart.
#[test]
fn the_test_sees_a_rule_that_keeps_everything() {
    let draft = law(&[0.38, 0.27, 0.2, 0.15, 0.0]);
    let mut drafting = rng(1);
    let mut counts = [0; 5];
    (0..100_000).for_each(|_| counts[draw(&draft, &mut drafting).index()] += 1);
    assert!(chance(&counts, &law(&TARGET)) < 1e-9);
}

/// A chain's own probabilities, three tokens at a time from a second chain's drafts:
/// the first token of each round, and the one after a first that stays.
#[test]
fn drafts_by_a_chain_have_the_other_chains_distribution() {
    let registry = Registry::linked().expect("distinct names");
    let build = |list: &str| {
        let config = ChainConfig::from_samplers(list).expect("a list");
        config.build(&registry, &NoVocab).expect("a chain")
    };
    let mut drafter = build("temperature{t=1.5};dist");
    let target = build("top_k{k=4};min_p{p=0.1};temperature{t=0.7};dist");
    let logits = |place: usize| -> Vec<f32> {
        (0..6).map(|id| ((id * 3 + place * 2) % 6) as f32 * 0.6).collect()
    };
    let targets: Vec<Distribution> =
        (0..4).map(|at| target.distribution(&logits(at)).expect("a distribution")).collect();
    let mut judging = rng(3);
    let mut counts = vec![vec![0; 6]; 4];
    for _ in 0..30_000 {
        let mut draft = Vec::new();
        for place in 0..3 {
            let law = drafter.distribution(&logits(place)).expect("a distribution");
            let token = drafter.sample(&mut logits(place)).expect("a token");
            drafter.accept(token);
            draft.push((token, law));
        }
        let verified = verify(&draft, &targets, &mut judging).expect("a draft");
        for (place, (token, _)) in draft.iter().take(verified.accepted).enumerate() {
            counts[place][token.index()] += 1;
        }
        counts[verified.accepted][verified.next.index()] += 1;
    }
    for (place, (counts, law)) in counts.iter().zip(&targets).enumerate() {
        let chance = chance(counts, law);
        assert!(chance > 1e-4, "place {place}: {counts:?} have a chance of {chance}");
    }
}

#[test]
fn what_cannot_have_been_drafted_is_refused() {
    let (draft, target) = (law(&[1.0, 0.0]), law(&[0.5, 0.5]));
    let token = TokenId(1);
    let refused = Err(SpeculativeError::NotDrafted { token });
    assert_eq!(accept(token, &draft, &target, &mut rng(1)), refused);
    let error = verify(&[(TokenId(0), draft)], &[target], &mut rng(1)).expect_err("one too few");
    assert_eq!(error, SpeculativeError::Count { drafted: 1, given: 1 });
}
