//! `Candidates` against a naive oracle: a `Vec`, fully sorted, in `f64`.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::StageRng;

/// What a stage may do, as data.
#[derive(Clone, Debug)]
enum Step {
    KeepTop(usize),
    KeepAtLeast { below_best: f32, min_keep: usize },
    KeepProbable(f64),
    KeepNucleus { p: f64, min_keep: usize },
    KeepTypical { p: f64, min_keep: usize },
    DropTop(usize),
    RetainEvery(u32),
    Temper(f32),
    Update(u32, f32),
    Adjust(Vec<u32>, f32),
    Rewrite,
    Sort,
    LookAtTop(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let min_keep = 0..4_usize;
    let step = prop_oneof![
        (0..400_usize).prop_map(Step::KeepTop),
        (0.0..9.0_f32, min_keep.clone())
            .prop_map(|(below_best, min_keep)| Step::KeepAtLeast { below_best, min_keep }),
        (0.0..0.2).prop_map(Step::KeepProbable),
        (0.0..1.1, min_keep.clone()).prop_map(|(p, min_keep)| Step::KeepNucleus { p, min_keep }),
        (0.0..1.1, min_keep).prop_map(|(p, min_keep)| Step::KeepTypical { p, min_keep }),
        (0..5_usize).prop_map(Step::DropTop),
        (1..4_u32).prop_map(Step::RetainEvery),
        (0.2..3.0_f32).prop_map(Step::Temper),
        (0..700_u32, -3.0..3.0_f32).prop_map(|(id, by)| Step::Update(id, by)),
        (prop::collection::vec(0..700_u32, 0..20), -3.0..3.0_f32)
            .prop_map(|(ids, by)| Step::Adjust(ids, by)),
        Just(Step::Rewrite),
        Just(Step::Sort),
        (0..9_usize).prop_map(Step::LookAtTop),
    ];
    prop::collection::vec(step, 0..7)
}

/// Logits over several blocks; few distinct values, so that ties are common.
fn logits() -> impl Strategy<Value = Vec<f32>> {
    let logit = prop_oneof![
        8 => (-40..40_i8).prop_map(|l| f32::from(l) / 8.0),
        2 => -9.0..9.0_f32,
        1 => Just(f32::NEG_INFINITY),
    ];
    (1..700_usize)
        .prop_flat_map(move |n| prop::collection::vec(logit.clone(), n))
        .prop_filter("something must be left", |l| l.iter().any(|l| *l > f32::NEG_INFINITY))
}

/// Steps that take other ways where many candidates stay.
fn large_step() -> impl Strategy<Value = Step> {
    let min_keep = prop_oneof![4 => Just(0_usize), 1 => 0..9_000_usize];
    prop_oneof![
        (1..40_000_usize).prop_map(Step::KeepTop),
        (0.0..9.0_f32, min_keep.clone())
            .prop_map(|(below_best, min_keep)| Step::KeepAtLeast { below_best, min_keep }),
        (0.0..0.001).prop_map(Step::KeepProbable),
        (0.0..1.0, min_keep.clone()).prop_map(|(p, min_keep)| Step::KeepNucleus { p, min_keep }),
        (0.0..1.0, min_keep).prop_map(|(p, min_keep)| Step::KeepTypical { p, min_keep }),
        (0..300_usize).prop_map(Step::DropTop),
        (0.3..2.0_f32).prop_map(Step::Temper),
        Just(Step::Sort),
    ]
}

/// Sums of uniform numbers, about normal; in steps of `grain`, if that is not 0.
fn noise(seed: u64, n: usize, spread: f32, grain: f32) -> Vec<f32> {
    let mut rng = StageRng::for_stage(RngKind::default(), seed, "noise", 0);
    let mut logit = || {
        let sum: f64 = (0..6).map(|_| rng.uniform() - 0.5).sum();
        let logit = sum as f32 * spread * 1.4;
        if grain > 0.0 { (logit / grain).round() * grain } else { logit }
    };
    (0..n).map(|_| logit()).collect()
}

/// The oracle, always most likely first.
struct Naive(Vec<Candidate>);

/// A case that hangs on the rounding of a sum.
struct TooClose;

impl Naive {
    fn new(logits: &[f32]) -> Self {
        let mut naive = Self(dense(logits).collect());
        naive.sort();
        naive
    }

    fn sort(&mut self) {
        self.0.sort_by(Candidate::rank);
    }

    fn probabilities(&self) -> Vec<f64> {
        let best = f64::from(self.0[0].logit);
        let weights: Vec<f64> =
            self.0.iter().map(|c| libm::exp(f64::from(c.logit) - best)).collect();
        let sum: f64 = weights.iter().sum();
        weights.into_iter().map(|w| w / sum).collect()
    }

    /// How many of `ps` reach the sum `p`.
    fn reach(ps: impl Iterator<Item = f64>, p: f64, min_keep: usize) -> Result<usize, TooClose> {
        let mut sum = 0.0;
        let mut count = 0;
        for probability in ps {
            sum += probability;
            count += 1;
            if (sum - p).abs() < 1e-6 {
                return Err(TooClose);
            }
            if sum >= p && count >= min_keep {
                break;
            }
        }
        Ok(count)
    }

    fn step(&mut self, step: &Step) -> Result<(), TooClose> {
        let best = self.0[0].logit;
        match *step {
            Step::KeepTop(n) => self.0.truncate(n.max(1)),
            Step::KeepAtLeast { below_best, min_keep } => {
                let kept = self.0.iter().filter(|c| c.logit >= best - below_best).count();
                self.0.truncate(kept.max(min_keep).max(1));
            }
            Step::KeepProbable(p) => {
                let ps = self.probabilities();
                if ps.iter().any(|q| (q - p).abs() < 1e-6) {
                    return Err(TooClose);
                }
                self.0.truncate(ps.iter().filter(|q| **q >= p).count().max(1));
            }
            Step::KeepNucleus { p, min_keep } => {
                let n = Self::reach(self.probabilities().into_iter(), p, min_keep)?;
                self.0.truncate(n);
            }
            Step::KeepTypical { p, min_keep } => {
                let ps = self.probabilities();
                let mut order: Vec<usize> = (0..ps.len()).collect();
                let entropy: f64 = ps.iter().map(|p| -p * libm::log(*p)).sum();
                let score = |at: &usize| (-libm::log(ps[*at]) - entropy).abs();
                order.sort_by(|a, b| score(a).total_cmp(&score(b)));
                let n = Self::reach(order.iter().map(|at| ps[*at]), p, min_keep)?;
                // At the cut, distinct probabilities may lie the same way off the
                // entropy but for rounding.
                if n < order.len() {
                    let (last, next) = (order[n - 1], order[n]);
                    let equal = self.0[last].logit == self.0[next].logit;
                    if !equal && score(&next) - score(&last) < 1e-6 {
                        return Err(TooClose);
                    }
                }
                let kept: Vec<Candidate> = order[..n].iter().map(|at| self.0[*at]).collect();
                self.0 = kept;
                self.sort();
            }
            Step::DropTop(n) => {
                self.0.drain(..n.min(self.0.len() - 1));
            }
            Step::RetainEvery(n) => {
                let kept: Vec<_> = self.0.iter().copied().filter(|c| c.id.0 % n == 0).collect();
                if !kept.is_empty() {
                    self.0 = kept;
                }
            }
            Step::Temper(t) => {
                self.0.iter_mut().for_each(|c| c.logit /= t);
                // Rounding can make equals of neighbours, which then rank by id.
                self.sort();
            }
            Step::Update(id, by) => self.change(&[id], by),
            Step::Adjust(ref ids, by) => self.change(ids, by),
            Step::Rewrite => {
                self.0.iter_mut().for_each(|c| c.logit = -c.logit);
                self.sort();
            }
            Step::Sort | Step::LookAtTop(_) => {}
        }
        Ok(())
    }

    fn change(&mut self, ids: &[u32], by: f32) {
        for c in self.0.iter_mut().filter(|c| ids.contains(&c.id.0)) {
            c.logit += by;
        }
        self.sort();
    }
}

fn step(candidates: &mut Candidates<'_>, step: &Step) {
    let best = candidates.best().logit;
    match *step {
        Step::KeepTop(n) => candidates.keep_top(n),
        Step::KeepAtLeast { below_best, min_keep } => {
            candidates.keep_at_least(best - below_best, min_keep);
        }
        Step::KeepProbable(p) => candidates.keep_probable(p),
        Step::KeepNucleus { p, min_keep } => candidates.keep_nucleus(p, min_keep),
        Step::KeepTypical { p, min_keep } => {
            let entropy = candidates.entropy();
            candidates.keep_typical(entropy, p, min_keep);
        }
        Step::DropTop(n) => candidates.drop_top(n),
        Step::RetainEvery(n) => {
            if candidates.iter().any(|c| c.id.0 % n == 0) {
                candidates.retain(|c| c.id.0 % n == 0);
            }
        }
        Step::Temper(t) => candidates.temper(t),
        Step::Update(id, by) => candidates.update(TokenId(id), |logit| logit + by),
        Step::Adjust(ref ids, by) => {
            let table: HashMap<TokenId, f32> = ids.iter().map(|id| (TokenId(*id), by)).collect();
            candidates.adjust(&table, |logit, by| logit + by);
        }
        Step::Rewrite => candidates.rewrite(|logit, _| -logit),
        Step::Sort => {
            candidates.sorted();
        }
        Step::LookAtTop(n) => {
            candidates.top(n);
        }
    }
}

fn ranked(candidates: &Candidates<'_>) -> Vec<Candidate> {
    let mut list: Vec<Candidate> = candidates.iter().collect();
    list.sort_by(Candidate::rank);
    list
}

/// The equality that matters: -0.0 is 0.0.
fn assert_same(wanted: &[Candidate], got: &[Candidate]) -> Result<(), TestCaseError> {
    let at = wanted.iter().zip(got).position(|(a, b)| a != b);
    let at = at.unwrap_or(wanted.len().min(got.len()));
    prop_assert_eq!(wanted.get(at), got.get(at), "at rank {}", at);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_steps_leave_what_the_naive_oracle_leaves(logits in logits(), steps in steps()) {
        for (_, rng) in RngKind::ALL {
            let mut naive = Naive::new(&logits);
            let (mut memory, mut scratch) = (logits.clone(), Scratch::default());
            let mut candidates =
                Candidates::for_draws_by(rng, &mut memory, &mut scratch).expect("valid logits");
            for s in &steps {
                if naive.step(s).is_err() {
                    break;
                }
                step(&mut candidates, s);
                assert_same(&naive.0, &ranked(&candidates))?;
                prop_assert_eq!(candidates.len(), naive.0.len());
                prop_assert_eq!(candidates.best(), naive.0[0]);
                prop_assert!(candidates.fault().is_none());

                let ps = naive.probabilities();
                let entropy: f64 = ps.iter().filter(|p| **p > 0.0).map(|p| -p * libm::log(*p)).sum();
                prop_assert!((candidates.entropy() - entropy).abs() < 1e-5);
                let last = naive.0.len() - 1;
                prop_assert!((candidates.probability(naive.0[last].id) - ps[last]).abs() < 1e-6);
                assert_same(&naive.0[..naive.0.len().min(3)], candidates.top(3))?;
            }
        }
    }

    /// Over many logits: passes over all of them find what few cannot tell.
    #[test]
    fn large_vocabularies_too(
        seed: u64,
        n in 3_000..40_000_usize,
        spread in prop_oneof![Just(0.01_f32), 0.1..4.0_f32],
        grain in prop_oneof![2 => Just(0.0_f32), 1 => 0.05..1.0_f32],
        first in prop::option::of(0.3..2.0_f32),
        steps in prop::collection::vec(large_step(), 1..4),
    ) {
        let logits = noise(seed, n, spread, grain);
        let mut naive = Naive::new(&logits);
        let (mut memory, mut scratch) = (logits.clone(), Scratch::default());
        let mut candidates = Candidates::new(&mut memory, &mut scratch).expect("valid logits");
        for s in first.map(Step::Temper).iter().chain(&steps) {
            if naive.step(s).is_err() {
                break;
            }
            step(&mut candidates, s);
            prop_assert_eq!(candidates.len(), naive.0.len());
            assert_same(&naive.0, &ranked(&candidates))?;
            let ps = naive.probabilities();
            let entropy: f64 = ps.iter().filter(|p| **p > 0.0).map(|p| -p * libm::log(*p)).sum();
            prop_assert!((candidates.entropy() - entropy).abs() < 1e-5);
            let count = naive.0.len() as f64;
            let mean = naive.0.iter().map(|c| f64::from(c.logit)).sum::<f64>() / count;
            let squares = naive.0.iter().map(|c| (f64::from(c.logit) - mean).powi(2)).sum::<f64>();
            let deviation = (squares / count).sqrt();
            prop_assert!((candidates.deviation() - deviation).abs() <= deviation * 1e-6);
        }
    }

    /// The default generator's draws walk by id, whatever was done before:
    /// looking, and the way by which a set came about, cannot matter.
    #[test]
    fn draws_do_not_depend_on_the_layout(logits in logits(), seed: u64, keep in 1..300_usize) {
        let draw = |prepare: fn(&mut Candidates<'_>, usize)| {
            let (mut memory, mut scratch) = (logits.clone(), Scratch::default());
            let mut candidates = Candidates::new(&mut memory, &mut scratch).expect("valid logits");
            prepare(&mut candidates, keep);
            let mut rng = StageRng::for_stage(RngKind::default(), seed, "dist", 0);
            candidates.draw(&mut rng)
        };
        let dense = draw(|_, _| {});
        prop_assert_eq!(dense, draw(|c, _| { c.sorted(); }));
        prop_assert_eq!(dense, draw(|c, _| c.retain(|_| true)));
        prop_assert_eq!(dense, draw(|c, _| { c.entropy(); c.top(5); c.len(); }));
        let kept = draw(|c, n| c.keep_top(n));
        prop_assert_eq!(kept, draw(|c, n| { c.sorted(); c.keep_top(n); }));
        prop_assert_eq!(kept, draw(|c, n| { c.keep_top(n); c.sorted(); }));
    }

    /// Walking the candidates in `f64` by hand gives the same token, unless the
    /// number falls within rounding of a border.
    #[test]
    fn draws_choose_where_the_number_falls(logits in logits(), seed: u64) {
        let (mut memory, mut scratch) = (logits.clone(), Scratch::default());
        let mut candidates = Candidates::new(&mut memory, &mut scratch).expect("valid logits");
        let mut rng = StageRng::for_stage(RngKind::default(), seed, "dist", 0);
        let u = rng.clone().uniform();
        let got = candidates.draw(&mut rng);

        let best = f64::from(candidates.best().logit);
        let weights: Vec<f64> = logits.iter().map(|l| libm::exp(f64::from(*l) - best)).collect();
        let sum: f64 = weights.iter().sum();
        let before: f64 = weights[..got.index()].iter().sum::<f64>() / sum;
        let after = before + weights[got.index()] / sum;
        prop_assert!(before - 1e-6 < u && u < after + 1e-6, "{u} is not in {before}..{after}");
        prop_assert!(weights[got.index()] > 0.0);
    }
}

fn with<T>(logits: &[f32], f: impl FnOnce(&mut Candidates<'_>) -> T) -> T {
    let (mut logits, mut scratch) = (logits.to_vec(), Scratch::default());
    f(&mut Candidates::new(&mut logits, &mut scratch).expect("valid logits"))
}

#[test]
fn logits_that_are_no_numbers_are_errors_that_name_the_token() {
    let error = |logits: &[f32]| {
        let (mut logits, mut scratch) = (logits.to_vec(), Scratch::default());
        Candidates::new(&mut logits, &mut scratch).expect_err("bad logits").to_string()
    };
    assert_eq!(error(&[]), "the model gave no logits");
    assert_eq!(error(&[1.0, f32::NAN]), "the logit of token 1 is NaN: as the model gave it");
    let mut long = vec![0.0; 1000];
    long[700] = f32::INFINITY;
    assert_eq!(error(&long), "the logit of token 700 is inf: as the model gave it");
    let masked = [f32::NEG_INFINITY; 3];
    assert_eq!(error(&masked), "no candidates are left: the model masked every token");
}

#[test]
fn masking_or_dropping_the_last_candidate_is_a_fault_and_not_a_panic() {
    for listed in [false, true] {
        let fault = |f: fn(&mut Candidates<'_>)| {
            with(&[1.0, 2.0], |c| {
                if listed {
                    c.retain(|_| true);
                }
                f(c);
                // A stage may go on after its fault.
                c.keep_top(1);
                c.entropy();
                c.fault()
            })
        };
        assert_eq!(fault(|c| c.retain(|_| false)), Some(Fault::Exhausted));
        assert_eq!(fault(|c| c.rescale(|_| f32::NEG_INFINITY)), Some(Fault::Exhausted));
        let mask = |c: &mut Candidates<'_>| {
            c.update(TokenId(0), |_| f32::NEG_INFINITY);
            c.update(TokenId(1), |_| f32::NEG_INFINITY);
        };
        assert_eq!(fault(mask), Some(Fault::Exhausted));
        let infinite = Some(Fault::NonFinite(TokenId(1), f32::INFINITY));
        assert_eq!(fault(|c| c.update(TokenId(1), |_| f32::INFINITY)), infinite);
        let Some(Fault::NonFinite(TokenId(0), value)) = fault(|c| c.rescale(|_| f32::NAN)) else {
            panic!("a NaN must be a fault of the first token");
        };
        assert!(value.is_nan());
    }
}

#[test]
fn a_masked_token_is_no_candidate_and_stays_masked() {
    with(&[1.0, f32::NEG_INFINITY, 2.0], |c| {
        c.update(TokenId(1), |_| 5.0);
        c.rewrite(|logit, _| logit + 1.0);
        assert_eq!(c.logit(TokenId(1)), None);
        assert_eq!(c.len(), 2);
        assert_eq!(c.probability(TokenId(1)), 0.0);
    });
}

#[test]
fn tiny_temperatures_leave_the_best_and_its_equals() {
    for t in [1e-45, 1e-40, 1e-30, 1e-6] {
        let ids = with(&[1.0, 3.0, 2.999, -2.0], |c| {
            c.temper(t);
            c.keep_probable(1e-9);
            c.iter().map(|c| c.id.0).collect::<Vec<_>>()
        });
        assert_eq!(ids, [1], "at temperature {t}");
    }
}

#[test]
fn ids_outside_the_vocabulary_are_no_candidates() {
    with(&[1.0, 2.0], |c| {
        c.update(TokenId(2), |_| unreachable!("there is no such candidate"));
        c.update(TokenId(u32::MAX), |_| unreachable!("there is no such candidate"));
        assert_eq!(c.logit(TokenId(2)), None);
    });
}

#[test]
fn neighbours_that_rounding_makes_equal_rank_by_id_whatever_was_ranked_before() {
    // Equal after division by 1.5, by hand: both round to 1.1333336.
    let logits = [1.700_000_3, 1.700_000_4, 0.0];
    for prepare in [
        |_: &mut Candidates<'_>| {},
        |c: &mut Candidates<'_>| {
            c.sorted();
        },
    ] {
        with(&logits, |c| {
            prepare(c);
            c.temper(1.5);
            assert_eq!(c.logit(TokenId(0)), c.logit(TokenId(1)));
            assert_eq!(c.best().id, TokenId(0));
            assert_eq!(c.sorted()[0].id, TokenId(0));
        });
    }
}

#[test]
fn a_rescale_that_turns_the_order_around_is_seen() {
    with(&[1.0, 2.0], |c| {
        c.sorted();
        c.rescale(|logit| -logit);
        assert_eq!(c.best().id, TokenId(0));
    });
}

#[test]
fn a_temperature_that_is_none_is_a_fault() {
    for t in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        let fault = with(&[1.0, 2.0], |c| {
            c.temper(t);
            c.fault()
        });
        assert!(matches!(fault, Some(Fault::NonFinite(TokenId(1), _))), "{t}: {fault:?}");
    }
}

#[test]
fn of_several_broken_logits_the_lowest_token_is_named() {
    let table: HashMap<TokenId, ()> = (0..100).rev().map(|id| (TokenId(id), ())).collect();
    for listed in [false, true] {
        let fault = with(&[1.0; 100], |c| {
            if listed {
                c.retain(|_| true);
            }
            c.adjust(&table, |_, ()| f32::INFINITY);
            c.fault()
        });
        assert_eq!(fault, Some(Fault::NonFinite(TokenId(0), f32::INFINITY)));
    }
}

#[test]
fn dropping_the_top_leaves_the_rest_however_it_lies() {
    for listed in [false, true] {
        let ids = with(&[3.0, 1.0, 2.0, f32::NEG_INFINITY], |c| {
            if listed {
                c.retain(|_| true);
            }
            c.drop_top(1);
            c.sorted().iter().map(|c| c.id.0).collect::<Vec<_>>()
        });
        assert_eq!(ids, [2, 1]);
    }
}

/// Listing tells blocks that are masked throughout no longer from others.
#[test]
fn a_draw_after_a_look_at_all_still_falls_where_the_mass_is() {
    let mut logits = vec![f32::NEG_INFINITY; 256];
    logits.extend([5.0; 256]);
    logits.extend([-5.0; 256]);
    for seed in 0..50 {
        let drawn = with(&logits, |c| {
            c.probability(TokenId(300));
            assert_eq!(c.ranked().count(), 512);
            c.draw(&mut StageRng::for_stage(RngKind::default(), seed, "dist", 0))
        });
        // By hand: the others have one part in 22,000 of the mass.
        assert!((256..512).contains(&drawn.0), "seed {seed}: {drawn:?}");
    }
}

/// Distances from the best that round to the same `f64` are equal, and the higher
/// logit comes first: of 400 equal probabilities but for the best's, by hand.
#[test]
fn logits_that_only_rounding_makes_equally_far_stay_in_order() {
    let ids = |logits: &[f32], f: fn(&mut Candidates<'_>)| {
        with(logits, |c| {
            f(c);
            c.iter().map(|c| c.id.0).collect::<Vec<_>>()
        })
    };
    for sign in [1.0, -1.0] {
        let mut logits: Vec<f32> = (0..400_i16).map(|i| sign * f32::from(i) * 1e-20).collect();
        logits[7] = 1.0;
        // e of 399 + e, so that .5 takes 199 others.
        let half = ids(&logits, |c| c.keep_nucleus(0.5, 0));
        assert_eq!(half.len(), 200);
        assert!(half.contains(&7) && half.contains(&if sign > 0.0 { 399 } else { 0 }));
        assert_eq!(ids(&logits, |c| c.keep_nucleus(0.9, 0)).len(), 360);
        assert_eq!(ids(&logits, |c| c.keep_nucleus(0.0, 100)).len(), 100);
        let typical = |min_keep| {
            with(&logits, |c| {
                let entropy = c.entropy();
                c.keep_typical(entropy, 0.0, min_keep);
                c.len()
            })
        };
        assert_eq!((typical(0), typical(250)), (1, 250));
    }
    let mut huge: Vec<f32> = (0..400_i16).map(|i| f32::from(i) * 1e-3).collect();
    huge[7] = 1e12;
    assert_eq!(ids(&huge, |c| c.keep_nucleus(0.0, 100)).len(), 100);
}

/// A third each is less than .3333335, however great the logits are.
#[test]
fn great_logits_do_not_blur_a_probability() {
    for logit in [1.0, 1e9, 1e10, 1e17] {
        let count = |p| with(&[logit; 3], |c| c.count_probable(p));
        assert_eq!([count(0.333), count(0.333_333_5), count(0.6)], [3, 0, 0], "at {logit}");
    }
}

#[test]
fn a_drawn_tokens_probability_is_its_own_where_others_are_masked() {
    let logits = [0.1_f32, 0.2, 0.3, 0.4].map(|p| libm::log(f64::from(p)) as f32);
    for listed in [false, true] {
        let (id, p) = with(&logits, |c| {
            if listed {
                c.retain(|_| true);
            }
            let mut rng = StageRng::for_stage(RngKind::default(), 1, "dist", 0);
            c.draw_reshaped(&mut rng, |p| if p < 0.35 { f32::NEG_INFINITY } else { 0.0 })
        });
        assert_eq!(id, TokenId(3));
        assert!((p - 0.4).abs() < 1e-6, "{p}");
    }
}
