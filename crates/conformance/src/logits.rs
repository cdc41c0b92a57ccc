//! Logits and texts to measure with: like a model's, or hard, of any length, and
//! the same on every machine.

use logitchain_core::TokenId;

use crate::inputs::Noise;

impl Noise {
    /// From 0 to below 1.
    fn uniform(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Normal, with mean 0 (Box and Muller, 1958). By `libm`, since the system's
    /// functions differ from machine to machine.
    fn normal(&mut self, deviation: f64) -> f64 {
        let radius = (-2.0 * libm::log(1.0 - self.uniform())).sqrt();
        radius * libm::cos(std::f64::consts::TAU * self.uniform()) * deviation
    }
}

/// As where a model has a few dozen tokens in mind: normal with a deviation of
/// 2.5, and 50 tokens anywhere raised to between 8 and 16.
pub fn peaked(n: usize) -> Vec<f32> {
    let mut noise = Noise(11);
    let mut logits: Vec<f32> = (0..n).map(|_| noise.normal(2.5) as f32).collect();
    for _ in 0..n.min(50) {
        let at = noise.below(n);
        logits[at] = (8.0 + 8.0 * noise.uniform()) as f32;
    }
    logits
}

/// As where a model has no idea: normal with a deviation of 1. Nine tenths of
/// the probability are spread over some 60 % of the tokens.
pub fn flat(n: usize) -> Vec<f32> {
    let mut noise = Noise(12);
    (0..n).map(|_| noise.normal(1.0) as f32).collect()
}

/// Evenly from -12 to below 12; the last token is the most likely one.
pub fn ascending(n: usize) -> Vec<f32> {
    (0..n).map(|id| (24.0 * id as f64 / n as f64 - 12.0) as f32).collect()
}

/// [`ascending`] from the other end.
pub fn descending(n: usize) -> Vec<f32> {
    ascending(n).into_iter().rev().collect()
}

/// All the same.
pub fn equal(n: usize) -> Vec<f32> {
    vec![0.25; n]
}

/// All masked but one in the first half.
pub fn masked_but_one(n: usize) -> Vec<f32> {
    let mut logits = vec![f32::NEG_INFINITY; n];
    logits[n / 3] = 1.0;
    logits
}

/// A text of `n` random tokens, from among `distinct` ones that lie evenly in a
/// vocabulary of `size`.
pub fn text(n: usize, distinct: usize, size: usize) -> Vec<TokenId> {
    let mut noise = Noise(13);
    let token = |nth: usize| TokenId((nth * size / distinct) as u32);
    (0..n).map(|_| token(noise.below(distinct))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean and deviation of the sum of many: within five standard errors, which
    /// are 1 / sqrt(n) and 1 / sqrt(2 n) of the deviation.
    #[test]
    fn flat_logits_are_normal() {
        let logits = flat(100_000);
        let n = logits.len() as f64;
        let mean = logits.iter().map(|l| f64::from(*l)).sum::<f64>() / n;
        let squares = logits.iter().map(|l| (f64::from(*l) - mean).powi(2)).sum::<f64>() / n;
        assert!(mean.abs() < 5.0 / n.sqrt(), "mean {mean}");
        assert!((squares.sqrt() - 1.0).abs() < 5.0 / (2.0 * n).sqrt(), "variance {squares}");
        // 2.275 % of a normal distribution lie above two deviations.
        let above = logits.iter().filter(|l| **l > 2.0).count();
        assert!((2_000..2_550).contains(&above), "{above} above 2");
    }

    /// Of N(0, 2.5), 1e-7 lie above 13: none of 32,000 tokens but raised ones.
    #[test]
    fn peaked_logits_have_fifty_peaks() {
        let logits = peaked(32_000);
        let above = logits.iter().filter(|l| **l > 13.0).count();
        assert!((8..=30).contains(&above), "{above} above 13");
        assert!(logits.iter().all(|l| *l < 16.0));
    }

    #[test]
    fn hard_logits_are_what_they_are_called() {
        assert_eq!(ascending(4), [-12.0, -6.0, 0.0, 6.0]);
        assert_eq!(descending(4), [6.0, 0.0, -6.0, -12.0]);
        assert!(ascending(1_000_000).is_sorted_by(|a, b| a < b));
        let alone: Vec<usize> =
            (0..9).filter(|id| masked_but_one(9)[*id] > f32::NEG_INFINITY).collect();
        assert_eq!(alone, [3]);
    }

    #[test]
    fn a_text_has_as_many_distinct_tokens_as_it_may() {
        let mut tokens = text(10_000, 100, 32_000);
        tokens.sort_unstable();
        tokens.dedup();
        assert_eq!((tokens.len(), tokens[1]), (100, TokenId(320)));
    }
}
