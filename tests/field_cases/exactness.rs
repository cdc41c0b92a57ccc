//! The fast paths (blocks, partial sorts, sums over a part) against a slow
//! oracle: lists, full sorts and `f64`, written from the stages' definitions.

use std::collections::BTreeSet;

use logitchain::{ChainConfig, NoVocab, RngKind, TokenId};

use crate::support::{build, left, softmax};

/// SplitMix64, so that every run tries the same.
struct Random(u64);

impl Random {
    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.word() % n as u64) as usize
    }

    fn uniform(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Near enough to a normal deviate.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    fn logits(&mut self) -> Vec<f32> {
        let size = self.pick(&[8, 9, 100, 255, 256, 257, 511, 1000, 1000, 3000]);
        // Large ones are slow for the oracle, so there are fewer of them.
        let size = if self.below(20) == 0 { 20_000 } else { size };
        let shape = self.below(7);
        let mut logits: Vec<f32> = (0..size)
            .map(|id| match shape {
                0 => self.normal() * 3.0,
                // Many ties.
                1 => (self.normal() * 3.0).round() * 0.5,
                // Flat, all equal.
                2 => 1.25,
                // Nearly flat.
                3 => self.uniform(),
                // Falling and rising with the id.
                4 => -(id as f64) * 0.01,
                5 => id as f64 * 0.01,
                // Far from 0.
                _ => self.normal() * 2.0 - 50.0,
            } as f32)
            .collect();
        // Peaked.
        if self.below(3) == 0 {
            let at = self.below(size);
            logits[at] += 12.0;
        }
        if self.below(3) == 0 {
            let share = self.pick(&[0.01, 0.5, 0.9]);
            let spared = self.below(size);
            for (id, logit) in logits.iter_mut().enumerate() {
                if id != spared && self.uniform() < share {
                    *logit = f32::NEG_INFINITY;
                }
            }
        }
        logits
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    TopK(usize),
    TopP(f64, usize),
    MinP(f64, usize),
    Typical(f64, usize),
    TopNSigma(f64),
    Xtc(f64),
    Temperature(f64),
    Penalties(f64, f64, f64),
}

impl Step {
    fn random(random: &mut Random) -> Self {
        let keep = if random.below(4) == 0 { 1 + random.below(30) } else { 0 };
        match random.below(8) {
            0 => Self::TopK(random.pick(&[1, 2, 3, 10, 40, 257, 1000, 30_000])),
            1 => Self::TopP(random.pick(&[0.0313, 0.5171, 0.9023, 0.9511, 0.9929]), keep),
            2 => Self::MinP(random.pick(&[0.00123, 0.0507, 0.1013, 0.5021]), keep),
            3 => Self::Typical(random.pick(&[0.1037, 0.5013, 0.9037]), keep),
            4 => Self::TopNSigma(random.pick(&[0.503, 1.017, 2.031])),
            5 => Self::Xtc(random.pick(&[0.00117, 0.0513, 0.2039])),
            6 => Self::Temperature(random.pick(&[0.31, 0.8, 1.7])),
            _ => Self::Penalties(random.pick(&[0.9, 1.0, 1.3]), 0.11, 0.23),
        }
    }

    fn text(self) -> String {
        match self {
            Self::TopK(k) => format!("top_k{{k={k}}}"),
            Self::TopP(p, keep) => format!("top_p{{p={p},min_keep={keep}}}"),
            Self::MinP(p, keep) => format!("min_p{{p={p},min_keep={keep}}}"),
            Self::Typical(p, keep) => format!("typical{{p={p},min_keep={keep}}}"),
            Self::TopNSigma(n) => format!("top_n_sigma{{n={n}}}"),
            Self::Xtc(t) => format!("xtc{{probability=1,threshold={t}}}"),
            Self::Temperature(t) => format!("temperature{{t={t}}}"),
            Self::Penalties(repeat, frequency, presence) => format!(
                "penalties{{repeat={repeat},frequency={frequency},presence={presence},last_n=\"all\"}}"
            ),
        }
    }
}

/// The oracle's candidates, or the news that the case is too close to call:
/// something lies within rounding of a threshold.
struct Oracle {
    list: Vec<(u32, f64)>,
    too_close: bool,
}

impl Oracle {
    fn new(logits: &[f32]) -> Self {
        let all = (0..).zip(logits.iter().map(|l| f64::from(*l)));
        let list = all.filter(|c| c.1 > f64::NEG_INFINITY).collect();
        Self { list, too_close: false }
    }

    /// How far our numbers may be off the oracle's: the weights by 2e-7 of
    /// themselves, and logits, as `f32`, by 6e-8 of theirs at each step.
    fn noise(&self) -> f64 {
        self.list.iter().fold(5.0, |size: f64, c| size.max(c.1.abs())) * 4e-7
    }

    /// Equal numbers are a tie; different ones that could round to one are not
    /// to be told apart.
    fn compare(&mut self, a: f64, b: f64) {
        self.too_close |= a != b && (a - b).abs() < self.noise();
    }

    fn rank(&mut self) {
        // Not a total order of bits: 0.0 and -0.0 are a tie.
        let order = |a: f64, b: f64| b.partial_cmp(&a).expect("numbers");
        self.list.sort_by(|a, b| order(a.1, b.1).then(a.0.cmp(&b.0)));
    }

    /// Cuts the ranked list after `n`.
    fn cut(&mut self, n: usize) {
        if n < self.list.len() {
            self.compare(self.list[n - 1].1, self.list[n].1);
            self.list.truncate(n);
        }
    }

    fn probabilities(&self) -> Vec<f64> {
        let best = self.list.iter().fold(f64::NEG_INFINITY, |best, c| best.max(c.1));
        let weights: Vec<f64> = self.list.iter().map(|c| (c.1 - best).exp()).collect();
        let sum: f64 = weights.iter().sum();
        weights.iter().map(|w| w / sum).collect()
    }

    /// How many of these in order have a sum of `p`.
    fn reach(&mut self, probabilities: impl Iterator<Item = f64>, p: f64) -> usize {
        let mut sum = 0.0;
        let mut n = 0;
        let noise = self.noise();
        for next in probabilities {
            sum += next;
            n += 1;
            self.too_close |= (sum - p).abs() < noise;
            if sum >= p {
                break;
            }
        }
        n
    }

    fn keep_at_least(&mut self, floor: f64, keep: usize) {
        self.rank();
        let noise = self.noise();
        self.too_close |= self.list.iter().any(|c| (c.1 - floor).abs() < noise);
        let n = self.list.iter().filter(|c| c.1 >= floor).count();
        self.cut(n.max(keep).max(1));
    }

    fn step(&mut self, step: Step, counts: &[u32]) {
        // What is reckoned with logits is f32, as they are.
        let narrow = |x: f64| f64::from(x as f32);
        self.rank();
        let best = self.list[0].1;
        match step {
            Step::TopK(k) => self.cut(k),
            Step::TopP(p, keep) => {
                let n = self.reach(self.probabilities().into_iter(), p);
                self.cut(n.max(keep));
            }
            Step::MinP(p, keep) => self.keep_at_least(best + narrow(p).ln(), keep),
            Step::TopNSigma(n) => {
                let count = self.list.len() as f64;
                let mean = self.list.iter().map(|c| c.1).sum::<f64>() / count;
                let squares = self.list.iter().map(|c| (c.1 - mean).powi(2)).sum::<f64>();
                self.keep_at_least(best - narrow(n) * (squares / count).sqrt(), 1);
            }
            Step::Typical(p, keep) => {
                let probabilities = self.probabilities();
                let surprise = |p: f64| if p > 0.0 { -p.ln() } else { f64::INFINITY };
                let entropy: f64 =
                    probabilities.iter().filter(|p| **p > 0.0).map(|p| p * surprise(*p)).sum();
                let mut order: Vec<(f64, usize)> = probabilities
                    .iter()
                    .enumerate()
                    .map(|(at, p)| ((surprise(*p) - entropy).abs(), at))
                    .collect();
                order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
                let n = self.reach(order.iter().map(|(_, at)| probabilities[*at]), p);
                let n = n.max(keep).min(order.len());
                if let Some(next) = order.get(n) {
                    // Equal logits are as far off and tie; others may change
                    // places by rounding where they are almost as far off.
                    let noise = self.noise();
                    let near = |d: f64| (d - order[n - 1].0).abs().min((d - next.0).abs()) < noise;
                    let logits = order.iter().filter(|o| near(o.0)).map(|o| self.list[o.1].1);
                    let mut logits: Vec<f64> = logits.collect();
                    logits.dedup();
                    self.too_close |= logits.len() > 1 && (next.0 - order[n - 1].0) < noise;
                }
                self.list = order[..n].iter().map(|(_, at)| self.list[*at]).collect();
            }
            Step::Xtc(t) => {
                let probabilities = self.probabilities();
                let noise = self.noise() * t;
                self.too_close |= probabilities.iter().any(|p| (p - t).abs() < noise);
                let n = probabilities.iter().filter(|p| **p >= t).count();
                if n > 1 {
                    self.compare(self.list[n - 2].1, self.list[n - 1].1);
                    self.list.drain(..n - 1);
                }
            }
            Step::Temperature(t) => self.list.iter_mut().for_each(|c| c.1 /= narrow(t)),
            Step::Penalties(repeat, frequency, presence) => {
                for (id, logit) in &mut self.list {
                    let count = counts[*id as usize];
                    if count > 0 {
                        let r = narrow(repeat);
                        let repeated = if *logit > 0.0 { *logit / r } else { *logit * r };
                        *logit = repeated - f64::from(count) * narrow(frequency) - narrow(presence);
                    }
                }
            }
        }
    }
}

/// Runs `n` cases of `steps` stages; gives back how many were too close.
fn agree(random: &mut Random, n: usize, steps: impl Fn(&mut Random) -> Vec<Step>) -> usize {
    let mut skipped = 0;
    for case in 0..n {
        let logits = random.logits();
        let steps = steps(random);
        let history: Vec<u32> = (0..50).map(|_| random.below(logits.len()) as u32).collect();
        let mut counts = vec![0; logits.len()];
        history.iter().for_each(|id| counts[*id as usize] += 1);

        let mut oracle = Oracle::new(&logits);
        steps.iter().for_each(|step| oracle.step(*step, &counts));
        if oracle.too_close {
            skipped += 1;
            continue;
        }

        let list = steps.iter().map(|step| step.text()).collect::<Vec<_>>().join(";");
        // Chains that draw as llama.cpp does sort more and round elsewhere.
        let mut config = ChainConfig::from_samplers(&format!("{list};probe")).expect("a list");
        config.rng = RngKind::ALL[case % 2].1;
        let mut chain = build(&config, &NoVocab);
        history.iter().for_each(|id| chain.accept(TokenId(*id)));
        let mut got = softmax(&left(&mut chain, &logits));
        got.sort_by_key(|c| c.0);
        let mut expected: Vec<(u32, f64)> =
            oracle.list.iter().map(|c| c.0).zip(oracle.probabilities()).collect();
        expected.sort_by_key(|c| c.0);
        let context = || format!("case {case}: {list} of {} logits, {}", logits.len(), config.rng);
        let ids = |all: &[(u32, f64)]| all.iter().map(|c| c.0).collect::<BTreeSet<_>>();
        let different = &ids(&got) ^ &ids(&expected);
        assert!(different.is_empty(), "{}: {different:?}", context());
        let noise = 10.0 * oracle.noise();
        for (got, expected) in got.iter().zip(&expected) {
            assert!((got.1 - expected.1).abs() <= noise * expected.1, "{}", context());
        }
    }
    skipped
}

#[test]
fn every_filter_agrees_with_the_oracle() {
    let mut random = Random(1);
    let skipped = agree(&mut random, 1200, |random| vec![Step::random(random)]);
    assert!(skipped < 48, "{skipped} cases are too close to call");
}

#[test]
fn every_chain_agrees_with_the_oracle() {
    let mut random = Random(2);
    let skipped = agree(&mut random, 1200, |random| {
        (0..2 + random.below(4)).map(|_| Step::random(random)).collect()
    });
    assert!(skipped < 200, "{skipped} cases are too close to call");
}

/// The default chain of the command line, with all its stages at work.
#[test]
fn the_usual_chain_agrees_with_the_oracle() {
    let mut random = Random(3);
    let skipped = agree(&mut random, 300, |_| {
        vec![
            Step::Penalties(1.1, 0.05, 0.1),
            Step::TopNSigma(3.01),
            Step::TopK(40),
            Step::Typical(0.9713, 0),
            Step::TopP(0.9511, 0),
            Step::MinP(0.0507, 0),
            Step::Xtc(0.1017),
            Step::Temperature(0.8),
        ]
    });
    assert!(skipped < 15, "{skipped} cases are too close to call");
}
