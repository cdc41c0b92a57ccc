//! What hangs on rounding in a stage.
//!
//! llama.cpp takes its sums in `f32`, one candidate after the other, so that over
//! many candidates they are off by far more than a last digit. [`theirs`] does
//! its arithmetic over again, bit for bit: sums, products and quotients are those
//! of IEEE 754, and Rust's `exp`, `ln`, `log2` and `powf` of an `f32` are the C
//! library's functions that llama.cpp calls. [`ours`] takes the formula in `f64`.
//! So nothing is waved through for being near: a difference between the programs
//! is rounding only if llama.cpp has exactly what its arithmetic gives, and
//! logitchain what the formula gives.

use std::collections::HashMap;

use crate::{llama::Entry, stages::Stage};

/// By what part one operation in `f32` can change its result: half a last digit.
const ROUNDED: f64 = 1.0 / (1_u64 << 24) as f64;

/// What remains where both sides take sums of up to 200,000 numbers in `f64`.
const SUMMED: f64 = 1e-10;

/// A sum of probabilities so far below its limit reaches it in logitchain.
const SLACK: f64 = 1e-7;

/// The candidates before and after a stage, in the order of the array.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// What the stage was given.
    pub before: &'a [Entry],
    /// What it left.
    pub after: &'a [Entry],
}

/// What a result should have been.
pub type Wrong = String;

/// What a stage keeps from one token to the next, as one program rounds it.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// mirostat's limit.
    pub mu: f32,
    /// adaptive-p's sum of probabilities, and their number.
    average: (f32, f32),
    /// The token that adaptive-p drew, with its probability.
    drawn: Option<(u32, f32)>,
}

impl Memory {
    /// At the start of a text.
    pub fn new(selector: Option<&Stage>) -> Self {
        let (mut mu, mut average) = (0.0, (0.0, 0.0));
        match selector {
            Some(Stage::Mirostat { tau, .. } | Stage::MirostatV2 { tau, .. }) => mu = 2.0 * tau,
            Some(Stage::AdaptiveP { target, decay, .. }) => {
                average = (target / (1.0 - decay), 1.0 / (1.0 - decay));
            }
            _ => {}
        }
        Self { mu, average, drawn: None }
    }

    /// Learns which token the selecting stage drew.
    pub fn draw(&mut self, selector: &Stage, change: Change<'_>, token: u32, p: Probabilities) {
        // The probability and its surprise.
        let of = |entries: &[Entry]| {
            let at = entries.iter().position(|e| e.id == token).expect("a candidate is drawn");
            match p {
                Probabilities::Single => (softmax(entries)[at], -softmax(entries)[at].log2()),
                Probabilities::Double => {
                    let p = exact(entries).0[at];
                    (p as f32, -p.log2() as f32)
                }
            }
        };
        match selector {
            Stage::Mirostat { tau, eta, .. } | Stage::MirostatV2 { tau, eta, .. } => {
                self.mu -= eta * (of(change.after).1 - tau);
            }
            Stage::AdaptiveP { target, .. } if *target >= 0.0 => {
                self.drawn = Some((token, of(change.before).0));
            }
            _ => {}
        }
    }

    /// Learns which token was appended to the text.
    pub fn accept(&mut self, selector: Option<&Stage>, token: u32) {
        if let (Some(Stage::AdaptiveP { decay, .. }), Some((drawn, p))) =
            (selector, self.drawn.take())
            && drawn == token
        {
            self.average = (p + decay * self.average.0, 1.0 + decay * self.average.1);
        }
    }

    /// The probability at which adaptive-p aims.
    fn aim(&self, target: f32) -> f32 {
        (2.0 * target - self.average.0 / self.average.1).clamp(0.0, 1.0)
    }
}

/// How a program computes probabilities.
#[derive(Clone, Copy, Debug)]
pub enum Probabilities {
    /// llama.cpp's way.
    Single,
    /// logitchain's way.
    Double,
}

/// llama.cpp's answer is what its arithmetic gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// By numbers all along.
    Finite,
    /// By one that is none, or too large for an `int`.
    Undefined,
}

/// Whether a stage makes logits of sums, so that they differ by rounding.
pub fn is_summed(stage: &Stage) -> bool {
    match stage {
        Stage::Temperature { range, .. } => *range > 0.0,
        Stage::AdaptiveP { target, .. } => *target >= 0.0,
        _ => false,
    }
}

/// Whether a stage keeps as many candidates as their probabilities tell.
pub fn is_cut(stage: &Stage) -> bool {
    matches!(
        stage,
        Stage::TopP { .. }
            | Stage::MinP { .. }
            | Stage::TopNSigma { .. }
            | Stage::Typical { .. }
            | Stage::Xtc { .. }
            | Stage::Mirostat { .. }
            | Stage::MirostatV2 { .. }
    )
}

fn best(entries: &[Entry]) -> f32 {
    entries.iter().map(|e| e.logit).fold(f32::NEG_INFINITY, f32::max)
}

/// Most likely first.
fn ranked(entries: &[Entry]) -> Vec<Entry> {
    let mut ranked = entries.to_vec();
    ranked.sort_by(|a, b| b.logit.total_cmp(&a.logit));
    ranked
}

fn add(numbers: impl Iterator<Item = f32>) -> f32 {
    numbers.fold(0.0, |sum, x| sum + x)
}

/// llama.cpp's probabilities.
fn softmax(entries: &[Entry]) -> Vec<f32> {
    let best = best(entries);
    let weights: Vec<f32> = entries.iter().map(|e| (e.logit - best).exp()).collect();
    let sum = add(weights.iter().copied());
    weights.into_iter().map(|w| w / sum).collect()
}

/// Probabilities and their entropy, of weights in `f32`: both programs take the
/// weight of a difference of logits in `f32`, and round it to `f32`.
fn exact(entries: &[Entry]) -> (Vec<f64>, f64) {
    let best = best(entries);
    let below = |e: &Entry| f64::from(e.logit - best);
    let weight = |e: &Entry| f64::from(below(e).exp() as f32);
    let sum: f64 = entries.iter().map(weight).sum();
    // The logarithm of a sum near 1 is that of what the others add to the best.
    let top = entries.iter().position(|e| e.logit == best);
    let others = || entries.iter().enumerate().filter(|(at, _)| Some(*at) != top).map(|(_, e)| e);
    let rest: f64 = others().map(weight).sum();
    let products: f64 = others().filter(|e| weight(e) > 0.0).map(|e| weight(e) * below(e)).sum();
    let entropy = rest.ln_1p() - products / (1.0 + rest);
    (entries.iter().map(|e| weight(e) / sum).collect(), entropy)
}

/// Whether the most likely candidates were dropped, so many of them, and of the
/// others as many kept; of equals any.
fn is_part(change: Change<'_>, drops: usize, keeps: usize) -> bool {
    let logits = |entries: &[Entry]| -> Vec<f32> { entries.iter().map(|e| e.logit).collect() };
    let all = ranked(change.before);
    let part = all[drops..].iter().take(keeps).copied().collect::<Vec<_>>();
    logits(&part) == logits(&ranked(change.after))
}

/// Whether the most likely candidates were kept, so many of them.
fn keeps(change: Change<'_>, count: usize) -> bool {
    is_part(change, 0, count)
}

/// Checks llama.cpp's result of a stage, given its logits below 3.3e8; `n_vocab`
/// counts the vocabulary.
///
/// # Errors
///
/// What its arithmetic gives, where that is something else.
pub fn theirs(
    stage: &Stage,
    memory: &Memory,
    change: Change<'_>,
    n_vocab: usize,
) -> Result<Right, Wrong> {
    let Change { before, after } = change;
    let finite = |right: bool, what: &dyn Fn() -> Wrong| {
        if right { Ok(Right::Finite) } else { Err(format!("llama.cpp: {}", what())) }
    };
    match stage {
        Stage::TopP { p, min_keep } => {
            // Summed as the array lies, then walked from the most likely one.
            let mut probabilities: Vec<(f32, f32)> =
                before.iter().map(|e| e.logit).zip(softmax(before)).collect();
            probabilities.sort_by(|a, b| b.0.total_cmp(&a.0));
            let mut sum = 0.0_f32;
            let mut count = 0;
            for (_, x) in probabilities {
                sum += x;
                count += 1;
                if sum >= *p && count >= *min_keep {
                    break;
                }
            }
            finite(keeps(change, count), &|| format!("{count} reach {p} in f32"))
        }
        Stage::MinP { p, min_keep } => {
            let floor = best(before) + p.ln();
            let count = before.iter().filter(|e| e.logit >= floor).count().max(1).max(*min_keep);
            finite(keeps(change, count), &|| format!("{count} reach {floor}"))
        }
        Stage::TopNSigma { n } => {
            let size = before.len() as f32;
            let mean = add(before.iter().map(|e| e.logit)) / size;
            let squares = before.iter().fold(0.0_f32, |sum, e| {
                (f64::from(sum) + f64::from(e.logit - mean).powi(2)) as f32
            });
            let floor = best(before) - n * (squares / size).sqrt();
            let count = before.iter().filter(|e| e.logit >= floor).count();
            finite(keeps(change, count), &|| format!("{count} reach {floor}"))
        }
        Stage::Typical { p, min_keep } => their_typical(change, *p, *min_keep),
        Stage::Xtc { threshold, min_keep, .. } => {
            let ranked = ranked(before);
            let p = softmax(&ranked);
            let last = p.iter().take_while(|p| **p >= *threshold).count().saturating_sub(1);
            let drops = if before.len() - last >= *min_keep { last } else { 0 };
            finite(is_part(change, drops, usize::MAX), &|| format!("drops {drops}"))
        }
        Stage::Temperature { t, range, exponent } if *range > 0.0 => {
            let Some(t) = their_temperature(before, (*t, *range, *exponent)) else {
                return finite(before == after, &|| "leaves a lone candidate".to_owned());
            };
            if t <= 0.0 {
                return finite(keeps(change, 1), &|| "leaves the best".to_owned());
            }
            let mut expected: Vec<Entry> =
                before.iter().map(|e| Entry { id: e.id, logit: e.logit / t }).collect();
            expected.retain(|e| e.logit > f32::NEG_INFINITY);
            finite(is_same(&expected, after), &|| format!("a temperature of {t}"))
        }
        Stage::AdaptiveP { target, .. } if *target >= 0.0 => {
            let aim = memory.aim(*target);
            let expected: Vec<Entry> = before
                .iter()
                .zip(softmax(before))
                .map(|(e, p)| Entry { id: e.id, logit: adapted(p, aim) })
                .collect();
            finite(is_same(&expected, after), &|| format!("an aim of {aim}"))
        }
        Stage::MirostatV2 { .. } => {
            let p = softmax(&ranked(before));
            let count = p.iter().position(|p| -p.log2() > memory.mu).unwrap_or(p.len()).max(1);
            finite(keeps(change, count), &|| format!("{count} are below {}", memory.mu))
        }
        Stage::Mirostat { m, .. } => {
            let k = their_estimate(before, *m, memory.mu, n_vocab);
            // A conversion that does not fit gives the least `int`.
            let fits = k.abs() < 2_147_483_648.0;
            let count = if fits { (k as usize).max(1) } else { 1 };
            let right = finite(keeps(change, count), &|| format!("an estimate of {k}"));
            if fits { right } else { right.map(|_| Right::Undefined) }
        }
        _ => Ok(Right::Finite),
    }
}

fn their_typical(change: Change<'_>, limit: f32, min_keep: usize) -> Result<Right, Wrong> {
    let Change { before, after } = change;
    let ranked = ranked(before);
    let p = softmax(&ranked);
    let entropy = p.iter().fold(0.0_f32, |sum, p| sum + -p * p.ln());
    if entropy.is_nan() {
        return Ok(Right::Undefined);
    }
    let mut scored: HashMap<u32, (f32, f32)> =
        ranked.iter().zip(p).map(|(e, p)| (e.id, ((-p.ln() - entropy).abs(), p))).collect();
    // The array that is left lies in the order of its scores.
    let (mut sum, mut highest) = (0.0_f32, 0.0_f32);
    for (e, count) in after.iter().zip(1..) {
        let Some((score, p)) = scored.remove(&e.id) else {
            return Err(format!("llama.cpp: token {} was no candidate", e.id));
        };
        if score < highest {
            return Err(format!("llama.cpp: {score} after {highest}"));
        }
        highest = score;
        sum += p;
        let reached = sum > limit && count >= min_keep;
        if reached != (count == after.len()) && (reached || after.len() < before.len()) {
            return Err(format!("llama.cpp: {sum} with {count} of {}", after.len()));
        }
    }
    match scored.values().find(|(score, _)| *score < highest) {
        Some((score, _)) => Err(format!("llama.cpp: keeps {highest} and drops {score}")),
        None => Ok(Right::Finite),
    }
}

/// The temperature by the entropy; `None` for a lone candidate.
fn their_temperature(before: &[Entry], (t, range, exponent): (f32, f32, f32)) -> Option<f32> {
    if before.len() < 2 {
        return None;
    }
    let (low, high) = ((t - range).max(0.0), t + range);
    let most = -(1.0 / before.len() as f32).ln();
    let p = softmax(&ranked(before));
    let entropy = p.iter().filter(|p| **p > 0.0).fold(0.0_f32, |sum, p| sum - p * p.ln());
    Some(low + (high - low) * (entropy / most).powf(exponent))
}

fn adapted(p: f32, aim: f32) -> f32 {
    let d = ((p - aim) * (1.0 / 0.3_f32)).abs();
    5.0 - 10.0 * d * d / (1.0 + d)
}

fn their_estimate(before: &[Entry], m: i32, mu: f32, n_vocab: usize) -> f32 {
    let p = softmax(&ranked(before));
    let top = &p[..p.len().min(m as usize)];
    let (mut products, mut squares) = (0.0_f32, 0.0_f32);
    for (pair, i) in top.windows(2).zip(1_u16..) {
        let t = (f32::from(i + 1) / f32::from(i)).ln();
        products += t * (pair[0] / pair[1]).ln();
        squares += t * t;
    }
    let exponent = products / squares;
    let excess = exponent - 1.0;
    // Hidden from the compiler, which would make another function of it.
    let two = std::hint::black_box(2.0_f32);
    let fraction = (excess * two.powf(mu)) / (1.0 - (n_vocab as f32).powf(-excess));
    fraction.powf(1.0 / exponent)
}

/// The greatest difference of two lists' logits, if they hold the same tokens.
pub fn distance(a: &[Entry], b: &[Entry]) -> Option<f64> {
    worst(a, b, |x, y| (f64::from(x) - f64::from(y)).abs())
}

/// Whether two lists hold the same tokens with the same logits, which may be
/// infinite.
fn is_same(a: &[Entry], b: &[Entry]) -> bool {
    worst(a, b, |x, y| f64::from(u8::from(x != y))) == Some(0.0)
}

/// The greatest difference by some measure, if two lists hold the same tokens.
fn worst(a: &[Entry], b: &[Entry], measure: impl Fn(f32, f32) -> f64) -> Option<f64> {
    let by_id: HashMap<u32, f32> = a.iter().map(|e| (e.id, e.logit)).collect();
    if a.len() != b.len() {
        return None;
    }
    // `max` would pass over what is no number.
    b.iter().try_fold(0.0, |worst: f64, e| {
        let x = measure(*by_id.get(&e.id)?, e.logit);
        if x.is_nan() { None } else { Some(worst.max(x)) }
    })
}

/// Checks logitchain's result of a stage.
///
/// # Errors
///
/// What the formula gives, where that is something else.
pub fn ours(
    stage: &Stage,
    memory: &Memory,
    change: Change<'_>,
    n_vocab: usize,
) -> Result<(), Wrong> {
    let Change { before, after } = change;
    let check = |right: bool, what: &dyn Fn() -> Wrong| {
        if right { Ok(()) } else { Err(format!("logitchain: {}", what())) }
    };
    let between = |low: usize, high: usize| {
        check((low..=high).any(|count| keeps(change, count)), &|| {
            format!("{low} to {high} stay, not {}", after.len())
        })
    };
    match stage {
        Stage::TopK { k } if *k > 0 => between(*k as usize, *k as usize),
        Stage::TopP { p, min_keep } => {
            let (p, limit) = (exact(&ranked(before)).0, f64::from(*p) - SLACK);
            let reach = |limit: f64| {
                let mut sum = 0.0;
                let at = p.iter().position(|p| {
                    sum += p;
                    sum >= limit
                });
                at.map_or(p.len(), |at| at + 1).max(*min_keep)
            };
            between(reach(limit - SUMMED), reach(limit + SUMMED))
        }
        Stage::MinP { p, min_keep } if *p > 0.0 => {
            // The logarithm and the sum are rounded to `f32`.
            let (best, below) = (f64::from(best(before)), f64::from(*p).ln());
            let noise = ROUNDED * (2.0 * below.abs() + best.abs());
            let reach = |floor: f64| {
                let count = before.iter().filter(|e| f64::from(e.logit) >= floor).count();
                count.max(1).max(*min_keep)
            };
            between(reach(best + below + noise), reach(best + below - noise))
        }
        Stage::TopNSigma { n } if *n > 0.0 => {
            let logits = || before.iter().map(|e| f64::from(e.logit));
            let size = before.len() as f64;
            let mean = logits().sum::<f64>() / size;
            let squares: f64 = logits().map(|logit| (logit - mean).powi(2)).sum();
            // The distance and the floor are rounded to `f32`.
            let below = f64::from(*n) * (squares / size).sqrt();
            let best = f64::from(best(before));
            let noise = ROUNDED * (2.0 * below + best.abs()) + SUMMED * below;
            let reach = |floor: f64| logits().filter(|logit| *logit >= floor).count().max(1);
            between(reach(best - below + noise), reach(best - below - noise))
        }
        Stage::Typical { p, min_keep } => our_typical(change, f64::from(*p), *min_keep),
        Stage::Xtc { threshold, min_keep, .. } => {
            let (p, threshold) = (exact(&ranked(before)).0, f64::from(*threshold));
            let drops = |threshold: f64| {
                let last = p.iter().take_while(|p| **p >= threshold).count().saturating_sub(1);
                if before.len() - last >= *min_keep { last } else { 0 }
            };
            let can = [drops(threshold - SUMMED), drops(threshold + SUMMED)];
            let right = can.iter().any(|drops| is_part(change, *drops, usize::MAX));
            check(right, &|| format!("drops {can:?}, not to {}", after.len()))
        }
        Stage::Temperature { t, range, exponent } if *range > 0.0 => {
            if before.len() < 2 {
                return check(before == after, &|| "leaves a lone candidate".to_owned());
            }
            let (low, high) = ((t - range).max(0.0), t + range);
            let share = exact(before).1 / (before.len() as f64).ln();
            let (low, high) = (f64::from(low), f64::from(high));
            let t = low + (high - low) * share.powf(f64::from(*exponent));
            if t <= 0.0 {
                return between(1, 1);
            }
            if f64::from(best(before)).abs() / t > f64::from(f32::MAX) {
                let equals = before.iter().filter(|e| e.logit == best(before)).count();
                return between(equals, equals);
            }
            // The power, its product, the sum and the quotient are rounded.
            let near = |x: f32, y: f32| {
                let expected = f64::from(x) / t;
                (f64::from(y) - expected).abs() - 4.5 * ROUNDED * expected.abs()
            };
            // Far below the best, a quotient may overflow.
            let fits = |e: &&Entry| f64::from(e.logit) / t > -f64::from(f32::MAX);
            let fitting: Vec<Entry> = before.iter().filter(fits).copied().collect();
            let off = worst(&fitting, after, |x, y| near(x, y).max(0.0));
            check(off == Some(0.0), &|| format!("a temperature of {t}"))
        }
        Stage::AdaptiveP { target, .. } if *target >= 0.0 => {
            let aim = memory.aim(*target);
            let expected: Vec<Entry> = before
                .iter()
                .zip(exact(before).0)
                .map(|(e, p)| Entry { id: e.id, logit: adapted(p as f32, aim) })
                .collect();
            // A probability that lies between two numbers of `f32` may come out as
            // either, 2^-24 apart; so may those that the aim was made of, twice
            // that. A logit changes by less than 10 / .3 times as much, since the
            // slope of 10 d^2 / (1 + d) stays below 10; it is a number below 32,
            // whose digits end at 2^-19.
            let most = 3.0 * ROUNDED * 10.0 / 0.3 + 32.0 * ROUNDED;
            let off = distance(&expected, after);
            check(off.is_some_and(|off| off <= most), &|| format!("an aim of {aim}, {off:?} off"))
        }
        Stage::MirostatV2 { .. } => {
            let p = exact(&ranked(before)).0;
            let count = |mu: f64| p.iter().position(|p| -p.log2() > mu).unwrap_or(p.len()).max(1);
            // The limit is one of `f32`, and learnt from such.
            let (mu, noise) = (f64::from(memory.mu), 4.0 * ROUNDED * f64::from(memory.mu.abs()));
            between(count(mu - noise - SUMMED), count(mu + noise + SUMMED))
        }
        Stage::Mirostat { m, .. } => {
            // The limit is learnt in `f32`; near a whole number any digit counts.
            let noise = 4.0 * ROUNDED * f64::from(memory.mu.abs()) + SUMMED;
            let count = |off: f64| {
                let k = our_estimate(before, *m, f64::from(memory.mu) + off, n_vocab);
                // Without any slope there is no exponent, and all stay.
                if k.is_nan() { before.len() } else { (k as usize).clamp(1, before.len()) }
            };
            between(count(-noise), count(noise))
        }
        _ => Ok(()),
    }
}

fn our_typical(change: Change<'_>, limit: f64, min_keep: usize) -> Result<(), Wrong> {
    let Change { before, after } = change;
    let mut scored = scores(before);
    let mut highest = 0.0_f64;
    let mut sum = 0.0;
    let limit = limit - SLACK;
    for (e, count) in after.iter().zip(1..) {
        let Some((score, p)) = scored.remove(&e.id) else {
            return Err(format!("logitchain: token {} was no candidate", e.id));
        };
        if is_below(score, highest) {
            return Err(format!("logitchain: {score} after {highest}"));
        }
        highest = highest.max(score);
        sum += p;
        let last = count == after.len();
        if !last && sum > limit + SUMMED && count >= min_keep {
            return Err(format!("logitchain: {sum} with {count} of {}", after.len()));
        }
        if last && after.len() < before.len() && (sum < limit - SUMMED || count < min_keep) {
            return Err(format!("logitchain: {sum} is all"));
        }
    }
    match scored.values().find(|(score, _)| is_below(*score, highest)) {
        Some((score, _)) => Err(format!("logitchain: keeps {highest} and drops {score}")),
        None => Ok(()),
    }
}

/// Whether a score is lower; logitchain compares them in `f32`.
fn is_below(score: f64, other: f64) -> bool {
    // A product, since both may be infinite.
    score < other * (1.0 - 2.0 * ROUNDED) - SUMMED
}

/// Scores of typical and probabilities.
fn scores(entries: &[Entry]) -> HashMap<u32, (f64, f64)> {
    let (p, entropy) = exact(entries);
    entries.iter().zip(p).map(|(e, p)| (e.id, ((-p.ln() - entropy).abs(), p))).collect()
}

/// mirostat's k before it is rounded down.
fn our_estimate(before: &[Entry], m: i32, mu: f64, n_vocab: usize) -> f64 {
    let ranked = ranked(before);
    let top = &ranked[..ranked.len().min(m as usize)];
    let (mut products, mut squares) = (0.0, 0.0);
    for (pair, i) in top.windows(2).zip(1..) {
        let t = (f64::from(i + 1) / f64::from(i)).ln();
        products += t * (f64::from(pair[0].logit) - f64::from(pair[1].logit));
        squares += t * t;
    }
    let exponent = products / squares;
    let excess = exponent - 1.0;
    let size = n_vocab as f64;
    let limit = match 1.0 - size.powf(-excess) {
        0.0 => 1.0 / size.ln(),
        denominator => excess / denominator,
    };
    (limit * mu.exp2()).powf(1.0 / exponent)
}

/// Sorts what typical left by exact scores.
pub fn sort_by_score(before: &[Entry], after: &mut [Entry]) {
    let scored = scores(before);
    after.sort_by(|a, b| scored[&a.id].0.total_cmp(&scored[&b.id].0));
}

/// Whether llama.cpp's array stands by exact scores of typical too, so that only
/// the sum at its end makes a difference.
pub fn is_typical_by_score(change: Change<'_>) -> bool {
    let mut scored = scores(change.before);
    let kept: Option<Vec<f64>> =
        change.after.iter().map(|e| scored.remove(&e.id).map(|(score, _)| score)).collect();
    kept.is_some_and(|kept| {
        let highest = kept.last().copied().unwrap_or_default();
        kept.is_sorted() && scored.values().all(|(score, _)| *score >= highest)
    })
}

/// Whether an array lies in the order of the logits that it had before, as a
/// stage that sorts leaves it.
pub fn is_ranked(change: Change<'_>) -> bool {
    let logits: HashMap<u32, f32> = change.before.iter().map(|e| (e.id, e.logit)).collect();
    let after: Option<Vec<f32>> = change.after.iter().map(|e| logits.get(&e.id).copied()).collect();
    after.is_some_and(|after| after.is_sorted_by(|a, b| a >= b))
}

/// Checks a stage that changes each logit by itself, or none, of candidates whose
/// logits were up to `apart` from each other's in the two programs; how far they
/// are now.
///
/// # Errors
///
/// If they are further apart than the stage can have made them.
pub fn spread(
    stage: &Stage,
    apart: f64,
    before: &[Entry],
    theirs: &[Entry],
    ours: &[Entry],
) -> Result<f64, Wrong> {
    let slope = match stage {
        Stage::Temperature { t, .. } if *t > 0.0 => 1.0 / f64::from(*t),
        Stage::Penalties { repeat, .. } => f64::from(repeat.max(1.0 / repeat)),
        _ => 1.0,
    };
    let now = distance(theirs, ours).ok_or_else(|| "other candidates".to_owned())?;
    // A product or quotient and two sums, each in `f32`, of numbers no greater
    // than the greatest before or after.
    let greatest =
        |list: &[Entry]| list.iter().map(|e| f64::from(e.logit.abs())).fold(0.0, f64::max);
    let most = slope * apart + 8.0 * ROUNDED * (greatest(before) * slope + greatest(theirs));
    if now <= most {
        Ok(now)
    } else {
        Err(format!("logits are {now} apart after {stage:?}, where {most} would be rounding"))
    }
}
