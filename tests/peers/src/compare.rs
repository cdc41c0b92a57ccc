//! One case through both programs, stage by stage.
//!
//! Masked entries are taken out of llama.cpp's array between stages: there they
//! still count towards sizes, here they are no candidates. The `sorted` mark is
//! taken off after a logit bias, which moves logits and leaves it on. Both are
//! known differences, and would hide others.

use std::{collections::BTreeSet, fmt};

use logitchain_core::{Candidates, Registry, RngKind, Scratch, TokenId, Vocab};

use crate::{
    llama::{Entry, Model, Sampler},
    random::Case,
    stages::Stage,
    vocab::Sized,
};

/// How many tokens each case draws.
const STEPS: usize = 3;

/// In what a case ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Outcome {
    /// Same survivors after every stage, same probabilities, same tokens.
    Same,
    /// A stage masked every token: an error here, token 0 or so there.
    NothingLeft,
    /// Equal logits, of which one program kept or drew another one.
    Tie,
    /// A sum of probabilities within the rounding of an `f32` sum of the limit.
    SumAtLimit,
    /// A logit or probability within rounding of the threshold.
    ValueAtThreshold,
    /// Scores within rounding of each other at the edge of the typical set.
    ScoreAtEdge,
    /// Logits beyond 3.3e8, which llama.cpp's bucket sort takes for the lowest,
    /// and whose squares may leave the range of `f32`.
    HugeLogits,
    /// A dynamic temperature so near 0 that logits divided by it leave the range
    /// of `f32`; here the best candidate stays.
    TinyTemperature,
    /// Probability 0, by which llama.cpp's typical entropy is NaN.
    NanEntropy,
    /// mirostat's estimate overflows an `int` in llama.cpp.
    EstimateOverflows,
    /// mirostat's estimate is within rounding of a whole number.
    EstimateAtWhole,
    /// The number drawn is within rounding of the border of two tokens.
    DrawAtBorder,
    /// infill leaves an end of the turn that had been dropped before: llama.cpp
    /// brings it back.
    EndBroughtBack,
    /// Probabilities differ by more than 1e-5 and less than 1e-3 after a dynamic
    /// temperature, for which llama.cpp sums the entropy in `f32`, or after
    /// adaptive-p, whose steep curve magnifies the rounding of an `f32` sum.
    SumInF32,
}

/// A difference that is none of the known kinds.
#[derive(Clone, Debug)]
pub struct Unexplained(pub String);

impl fmt::Display for Unexplained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Candidates with their probabilities, in `f64`.
struct Exact {
    /// Most likely first, ties by id.
    ranked: Vec<(Entry, f64)>,
}

impl Exact {
    fn of(entries: &[Entry]) -> Self {
        let best = entries.iter().map(|e| e.logit).fold(f32::NEG_INFINITY, f32::max);
        let weight = |e: &Entry| (f64::from(e.logit) - f64::from(best)).exp();
        let sum: f64 = entries.iter().map(weight).sum();
        let mut ranked: Vec<_> = entries.iter().map(|e| (*e, weight(e) / sum)).collect();
        ranked.sort_by(|a, b| b.0.logit.total_cmp(&a.0.logit).then(a.0.id.cmp(&b.0.id)));
        Self { ranked }
    }

    fn is_huge(&self) -> bool {
        self.ranked.iter().any(|(e, _)| e.logit.abs() > 3.3e8)
    }

    fn entropy(&self) -> f64 {
        self.ranked.iter().filter(|(_, p)| *p > 0.0).map(|(_, p)| -p * p.ln()).sum()
    }

    /// What typical's scores can be off by in llama.cpp: it sums the
    /// probabilities and the entropy one after the other in `f32`, as is done
    /// here to see how far that leads.
    fn score_noise(&self) -> f64 {
        let weights: Vec<f32> =
            self.ranked.iter().map(|(e, _)| (e.logit - self.best()).exp()).collect();
        let sum: f32 = weights.iter().sum();
        let entropy: f32 =
            weights.iter().map(|w| w / sum).filter(|p| *p > 0.0).map(|p| -p * p.ln()).sum();
        let exact: f64 = weights.iter().map(|w| f64::from(*w)).sum();
        let shift = (f64::from(sum) / exact).ln().abs();
        2e-5 + 2.0 * ((f64::from(entropy) - self.entropy()).abs() + shift)
    }

    fn logit(&self, id: u32) -> f32 {
        self.ranked.iter().find(|(e, _)| e.id == id).expect("a candidate").0.logit
    }

    fn p(&self, id: u32) -> f64 {
        self.ranked.iter().find(|(e, _)| e.id == id).expect("a candidate").1
    }

    fn best(&self) -> f32 {
        self.ranked[0].0.logit
    }

    /// What an `f32` sum over so many probabilities can be off by.
    fn noise(&self) -> f64 {
        1e-6 + self.ranked.len() as f64 * 3e-8
    }
}

/// Runs a case through both programs.
///
/// # Errors
///
/// If they differ in a way that is not known.
pub fn compare(case: &Case, registry: &Registry) -> Result<Outcome, Unexplained> {
    let size = case.logits.len();
    let mut pair = Pair::new(&case.chain, registry, &Sized(size), None);
    case.history.iter().for_each(|token| pair.accept(*token));
    for step in 0..STEPS {
        let place = |e: Unexplained| Unexplained(format!("case {}, step {step}: {e}", case.number));
        match pair.step(&case.logits).map_err(place)? {
            (Outcome::Same, Some(token)) => pair.accept(token),
            (outcome, _) => return Ok(outcome),
        }
    }
    Ok(Outcome::Same)
}

/// A chain in both programs.
#[derive(Debug)]
pub struct Pair<'a> {
    chain: &'a [Stage],
    theirs: Vec<Sampler>,
    /// `None` for what does nothing.
    ours: Vec<Option<Box<dyn logitchain_core::Sampler>>>,
    scratch: Scratch,
    /// mirostat's limit.
    mu: f64,
}

impl<'a> Pair<'a> {
    /// Builds the chain in both; with the model, if a stage asks for its text.
    pub fn new(
        chain: &'a [Stage],
        registry: &Registry,
        vocab: &dyn Vocab,
        model: Option<&Model>,
    ) -> Self {
        let theirs = chain.iter().map(|stage| Sampler::new(stage, vocab.size(), model)).collect();
        let ours = chain.iter().map(|stage| stage.sampler(registry, vocab)).collect();
        let mu = match chain.last() {
            Some(Stage::Mirostat { tau, .. } | Stage::MirostatV2 { tau, .. }) => {
                2.0 * f64::from(*tau)
            }
            _ => 0.0,
        };
        Self { chain, theirs, ours, scratch: Scratch::default(), mu }
    }

    /// Tells both that a token was appended to the text.
    pub fn accept(&mut self, token: u32) {
        self.theirs.iter_mut().for_each(|s| s.accept(token));
        self.ours.iter_mut().flatten().for_each(|s| s.accept(TokenId(token)));
    }

    /// Draws a token in both: the first difference, and llama.cpp's token. All
    /// stages run on both sides, whatever came before.
    ///
    /// # Errors
    ///
    /// If they differ in a way that is not known.
    pub fn step(&mut self, logits: &[f32]) -> Result<(Outcome, Option<u32>), Unexplained> {
        let mut own_logits = logits.to_vec();
        let mut mine =
            Candidates::for_draws_by(RngKind::Mt19937, &mut own_logits, &mut self.scratch)
                .map_err(|e| Unexplained(e.to_string()))?;
        let mut entries: Vec<Entry> =
            (0..).zip(logits).map(|(id, &logit)| Entry { id, logit }).collect();
        entries.retain(|e| e.logit > f32::NEG_INFINITY);
        let (mut sorted, mut selected) = (false, None);
        let mut outcome = Outcome::Same;
        // Why the two arrays lie in different orders, once they do.
        let mut reordered = None;
        for ((stage, sampler), own) in self.chain.iter().zip(&mut self.theirs).zip(&mut self.ours) {
            let before = entries.clone();
            selected = sampler.apply(&mut entries, &mut sorted).or(selected);
            entries.retain(|e| e.logit > f32::NEG_INFINITY);
            if matches!(stage, Stage::LogitBias { .. }) {
                sorted = false;
            }
            if let Some(own) = own {
                own.apply(&mut mine);
            }
            if entries.is_empty() {
                return Ok((Outcome::NothingLeft, None));
            }
            if outcome != Outcome::Same {
                continue;
            }
            let left: BTreeSet<u32> = entries.iter().map(|e| e.id).collect();
            let kept: BTreeSet<u32> = mine.iter().map(|c| c.id.0).collect();
            if left != kept {
                outcome = explain(stage, &Exact::of(&before), &left, &kept, self.mu).ok_or_else(
                    || {
                        let (theirs, ours) = (left.len(), kept.len());
                        let text =
                            format!("after {stage:?} llama.cpp keeps {theirs} and we {ours}");
                        Unexplained(text)
                    },
                )?;
                continue;
            }
            let order: Vec<u32> = mine.iter().map(|c| c.id.0).collect();
            if reordered.is_none() && entries.iter().map(|e| e.id).ne(order.iter().copied()) {
                let reason = explain_order(stage, &Exact::of(&before), &entries, &order);
                let text = || Unexplained(format!("another order after {stage:?}"));
                reordered = Some(reason.ok_or_else(text)?);
            }
        }
        if outcome == Outcome::Same {
            outcome = probabilities(self.chain, &entries, &mine)?;
        }
        let (Some(token), Some(own)) = (selected, mine.chosen()) else {
            return Err(Unexplained("nothing selected".to_owned()));
        };
        if token != own.0 && outcome == Outcome::Same {
            let reason = reordered.or_else(|| explain_draw(&entries, token, own.0));
            outcome = reason.ok_or_else(|| {
                let chain = self.chain;
                Unexplained(format!("llama.cpp draws {token} and we {own} after {chain:?}"))
            })?;
        }
        if let Some(Stage::Mirostat { tau, eta, .. } | Stage::MirostatV2 { tau, eta, .. }) =
            self.chain.last()
        {
            self.mu -= f64::from(*eta) * (-Exact::of(&entries).p(token).log2() - f64::from(*tau));
        }
        Ok((outcome, Some(token)))
    }
}

/// Compares the probabilities of the same survivors.
fn probabilities(
    chain: &[Stage],
    entries: &[Entry],
    mine: &Candidates<'_>,
) -> Result<Outcome, Unexplained> {
    let mut by_id: Vec<Entry> = entries.to_vec();
    by_id.sort_by_key(|e| e.id);
    let mut own: Vec<Entry> = mine.iter().map(|c| Entry { id: c.id.0, logit: c.logit }).collect();
    own.sort_by_key(|e| e.id);
    let softmax = |list: &[Entry]| -> Vec<f64> {
        let best = list.iter().map(|e| e.logit).fold(f32::NEG_INFINITY, f32::max);
        let weights: Vec<f64> =
            list.iter().map(|e| (f64::from(e.logit) - f64::from(best)).exp()).collect();
        let sum: f64 = weights.iter().sum();
        weights.into_iter().map(|w| w / sum).collect()
    };
    let difference =
        softmax(&by_id).iter().zip(softmax(&own)).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    let summing = |stage: &Stage| match stage {
        Stage::Temperature { range, .. } => *range > 0.0,
        Stage::AdaptiveP { .. } => true,
        _ => false,
    };
    if difference <= 1e-5 {
        Ok(Outcome::Same)
    } else if difference < 1e-3 && chain.iter().any(summing) {
        Ok(Outcome::SumInF32)
    } else {
        let text = format!("probabilities differ by {difference} after {chain:?}");
        Err(Unexplained(text))
    }
}

/// The known reason for which a stage kept other candidates, if it is one.
fn explain(
    stage: &Stage,
    before: &Exact,
    theirs: &BTreeSet<u32>,
    ours: &BTreeSet<u32>,
    mu: f64,
) -> Option<Outcome> {
    let differing: Vec<u32> = theirs.symmetric_difference(ours).copied().collect();
    let dropped = |id: &u32| !before.ranked.iter().any(|(e, _)| e.id == *id);
    if matches!(stage, Stage::Infill) && theirs.len() == 1 && theirs.iter().any(dropped) {
        return Some(Outcome::EndBroughtBack);
    }
    let first = before.logit(differing[0]);
    // As many, and all that differ have one logit: a choice among equals.
    if theirs.len() == ours.len() && differing.iter().all(|id| before.logit(*id) == first) {
        return Some(Outcome::Tie);
    }
    if before.is_huge() {
        return Some(Outcome::HugeLogits);
    }
    let all = |near: &dyn Fn(u32) -> bool| differing.iter().all(|id| near(*id));
    let noise = before.noise();
    match stage {
        Stage::Temperature { t, range, exponent } if *range > 0.0 => {
            let (t, range) = (f64::from(*t), f64::from(*range));
            let low = (t - range).max(0.0);
            let share = before.entropy() / (before.ranked.len() as f64).ln();
            let t = low + (t + range - low) * share.powf(f64::from(*exponent));
            let overflows = f64::from(before.best()).abs() / t > f64::from(f32::MAX);
            // In `f32` such an entropy can also come out as 0, which is greedy.
            (overflows || share < 1e-6).then_some(Outcome::TinyTemperature)
        }
        Stage::TopP { p, .. } => {
            // Both keep a prefix of the ranks; the sums between its two ends
            // must lie at the limit.
            let (few, many) = (theirs.len().min(ours.len()), theirs.len().max(ours.len()));
            let mut sum = 0.0;
            let sums: Vec<f64> = before
                .ranked
                .iter()
                .map(|(_, p)| {
                    sum += p;
                    sum
                })
                .collect();
            let between = &sums[few - 1..many - 1];
            between
                .iter()
                .all(|sum| (sum - f64::from(*p)).abs() <= noise)
                .then_some(Outcome::SumAtLimit)
        }
        Stage::MinP { p, .. } => {
            let floor = f64::from(before.best()) + f64::from(*p).ln();
            let near = |id| (f64::from(before.logit(id)) - floor).abs() <= 1e-5;
            all(&near).then_some(Outcome::ValueAtThreshold)
        }
        Stage::TopNSigma { n } => {
            let count = before.ranked.len() as f64;
            let mean = before.ranked.iter().map(|(e, _)| f64::from(e.logit)).sum::<f64>() / count;
            let squares: f64 =
                before.ranked.iter().map(|(e, _)| (f64::from(e.logit) - mean).powi(2)).sum();
            let floor = f64::from(before.best()) - f64::from(*n) * (squares / count).sqrt();
            let near = |id| (f64::from(before.logit(id)) - floor).abs() <= 1e-4 + count * 1e-8;
            all(&near).then_some(Outcome::ValueAtThreshold)
        }
        Stage::Xtc { threshold, .. } => {
            let near = |id| (before.p(id) - f64::from(*threshold)).abs() <= noise;
            // The token that must stay is the last at or above the threshold.
            before.ranked.iter().any(|(e, _)| near(e.id)).then_some(Outcome::ValueAtThreshold)
        }
        Stage::Typical { p, .. } => typical(before, theirs, ours, f64::from(*p)),
        Stage::MirostatV2 { .. } => {
            let near = |id| (-before.p(id).log2() - mu).abs() <= 1e-4 + noise;
            all(&near).then_some(Outcome::ValueAtThreshold)
        }
        Stage::Mirostat { m, .. } => {
            let k = estimate(before, *m, mu);
            if k.is_nan() || k >= 2_147_483_647.0 {
                Some(Outcome::EstimateOverflows)
            } else if (theirs.len().abs_diff(ours.len()) as f64) <= 1.0 + k * 1e-3 {
                Some(Outcome::EstimateAtWhole)
            } else {
                None
            }
        }
        _ => None,
    }
}

/// The same for typical.
fn typical(
    before: &Exact,
    theirs: &BTreeSet<u32>,
    ours: &BTreeSet<u32>,
    limit: f64,
) -> Option<Outcome> {
    let best = before.best();
    // llama.cpp's `expf` underflows here.
    if before.ranked.iter().any(|(e, _)| e.logit - best < -103.0) {
        return Some(Outcome::NanEntropy);
    }
    let entropy = before.entropy();
    let mut scored: Vec<(f64, u32, f64)> =
        before.ranked.iter().map(|(e, p)| ((-p.ln() - entropy).abs(), e.id, *p)).collect();
    scored.sort_by(|a, b| a.0.total_cmp(&b.0));
    // The edge by exact sums.
    let mut sum = 0.0;
    let edge = scored.iter().position(|(_, _, p)| {
        sum += p;
        sum >= limit
    });
    let edge = scored[edge.unwrap_or(scored.len() - 1)].0;
    let noise = before.score_noise();
    let near = |id: u32| {
        scored.iter().any(|(score, other, _)| *other == id && (score - edge).abs() <= noise)
    };
    if theirs.symmetric_difference(ours).all(|id| near(*id)) {
        return Some(Outcome::ScoreAtEdge);
    }
    // Or the sums at one of the two edges lie at the limit.
    let mass = |set: &BTreeSet<u32>| -> f64 {
        scored.iter().filter(|(_, id, _)| set.contains(id)).map(|(_, _, p)| p).sum()
    };
    let at_limit = |set| (mass(set) - limit).abs() <= before.noise();
    (at_limit(theirs) || at_limit(ours)).then_some(Outcome::SumAtLimit)
}

/// mirostat's k before it is rounded down.
fn estimate(before: &Exact, m: i32, mu: f64) -> f64 {
    let top = &before.ranked[..before.ranked.len().min(m as usize)];
    let (mut products, mut squares) = (0.0, 0.0);
    for (pair, i) in top.windows(2).zip(1..) {
        let t = (f64::from(i + 1) / f64::from(i)).ln();
        products += t * (f64::from(pair[0].0.logit) - f64::from(pair[1].0.logit));
        squares += t * t;
    }
    let exponent = products / squares;
    let excess = exponent - 1.0;
    let size = before.ranked.len() as f64;
    (excess * mu.exp2() / (1.0 - size.powf(-excess))).powf(1.0 / exponent)
}

/// The known reason for which a stage left the same candidates in another order,
/// if it is one: equal logits, or scores of typical within rounding.
fn explain_order(stage: &Stage, before: &Exact, theirs: &[Entry], ours: &[u32]) -> Option<Outcome> {
    let misplaced = || theirs.iter().zip(ours).filter(|(e, id)| e.id != **id);
    if misplaced().all(|(e, id)| before.logit(e.id) == before.logit(*id)) {
        return Some(Outcome::Tie);
    }
    if before.is_huge() {
        return Some(Outcome::HugeLogits);
    }
    let typical = matches!(stage, Stage::Typical { .. });
    let entropy = before.entropy();
    let score = |id| (-before.p(id).ln() - entropy).abs();
    let noise = before.score_noise();
    let near = misplaced().all(|(e, id)| (score(e.id) - score(*id)).abs() <= noise);
    if typical && before.ranked.iter().any(|(e, _)| e.logit - before.best() < -103.0) {
        return Some(Outcome::NanEntropy);
    }
    (typical && near).then_some(Outcome::ScoreAtEdge)
}

/// The known reason for which another token was drawn from the same array, if it
/// is one.
fn explain_draw(array: &[Entry], token: u32, own: u32) -> Option<Outcome> {
    let exact = Exact::of(array);
    if exact.logit(token) == exact.logit(own) && exact.ranked[0].0.logit == exact.logit(own) {
        // greedy among equals.
        return Some(Outcome::Tie);
    }
    // The two tokens' stretches of the line meet, but for tokens of no length.
    let at = |id| array.iter().position(|e| e.id == id).expect("a candidate");
    let (low, high) = (at(token).min(at(own)), at(token).max(at(own)));
    let gap: f64 = array[low + 1..high].iter().map(|e| exact.p(e.id)).sum();
    (gap <= 1e-6).then_some(Outcome::DrawAtBorder)
}
