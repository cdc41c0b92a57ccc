//! Draws against the probabilities that they should have.

use logitchain_core::{Chain, Distribution, SampleError, TokenId};
use statrs::distribution::{ChiSquared, ContinuousCDF as _};

/// So many draws must be expected in a cell for the test to hold.
const LEAST_EXPECTED: f64 = 5.0;

/// Draws tokens, one after the other, all from the same logits. Nothing is accepted
/// in between.
pub(crate) fn draw(
    chain: &mut Chain,
    logits: &[f32],
    draws: u32,
) -> Result<Vec<TokenId>, SampleError> {
    let mut memory = logits.to_vec();
    let drawn = (0..draws).map(|_| {
        memory.copy_from_slice(logits);
        chain.sample(&mut memory)
    });
    drawn.collect()
}

/// How often each token came, by id; only those that did.
pub(crate) fn counts(drawn: &[TokenId]) -> Vec<(TokenId, u32)> {
    let mut tokens = drawn.to_vec();
    tokens.sort_unstable();
    tokens.chunk_by(|a, b| a == b).map(|same| (same[0], same.len() as u32)).collect()
}

/// The entropy of the frequencies, in bits.
pub(crate) fn entropy(counts: &[(TokenId, u32)]) -> f64 {
    let draws = f64::from(counts.iter().map(|(_, count)| count).sum::<u32>());
    let shares = counts.iter().map(|(_, count)| f64::from(*count) / draws);
    // 0 has no sign here.
    shares.map(|share| -share * share.log2()).sum::<f64>() + 0.0
}

/// The probability that draws from `law` would be at least as far off it: Pearson's
/// chi-squared test, with cells in which fewer than 5 draws are expected joined.
/// `None` where there is but one cell.
pub(crate) fn p_value(counts: &[(TokenId, u32)], law: &Distribution) -> Option<f64> {
    pearson(counts, law.tokens())
}

/// `law` has the most likely first.
fn pearson(counts: &[(TokenId, u32)], law: &[(TokenId, f64)]) -> Option<f64> {
    let draws = f64::from(counts.iter().map(|(_, count)| count).sum::<u32>());
    let count = |token| {
        let at = counts.binary_search_by_key(&token, |(token, _)| *token);
        at.map_or(0.0, |at| f64::from(counts[at].1))
    };
    if law.iter().map(|(token, _)| count(*token)).sum::<f64>() < draws {
        return Some(0.0);
    }
    // The expected ones of a cell, and those that came.
    let mut cells: Vec<(f64, f64)> = Vec::new();
    // The least likely come first, so that each cell is full before the next begins.
    for (token, p) in law.iter().rev() {
        let one = (p * draws, count(*token));
        match cells.last_mut() {
            Some(cell) if cell.0 < LEAST_EXPECTED => {
                (cell.0, cell.1) = (cell.0 + one.0, cell.1 + one.1);
            }
            _ => cells.push(one),
        }
    }
    // The last one may be short of them.
    if let [.., (expected, came), last] = &mut cells[..]
        && last.0 < LEAST_EXPECTED
    {
        (*expected, *came) = (*expected + last.0, *came + last.1);
        cells.pop();
    }
    let freedom = cells.len().checked_sub(2)? + 1;
    let off: f64 = cells.iter().map(|(expected, came)| (came - expected).powi(2) / expected).sum();
    ChiSquared::new(freedom as f64).ok().map(|law| law.sf(off))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn p(counts: &[u32], law: &[f64]) -> Option<f64> {
        let ids = || (0..).map(TokenId);
        let counts: Vec<_> = ids().zip(counts.iter().copied()).filter(|(_, n)| *n > 0).collect();
        pearson(&counts, &ids().zip(law.iter().copied()).collect::<Vec<_>>())
    }

    fn assert_p(counts: &[u32], law: &[f64], expected: f64) {
        let p = p(counts, law).expect("two cells or more");
        assert!((p - expected).abs() < 1e-6, "{p}, not {expected}");
    }

    /// Of two degrees of freedom the probability is exp(-x / 2).
    #[test]
    fn the_probability_is_that_of_pearsons_sum() {
        // 100 / 200 + 100 / 100 + 0 / 100
        assert_p(&[190, 110, 100], &[0.5, 0.25, 0.25], (-0.75_f64).exp());
        // As expected.
        assert_p(&[200, 100, 100], &[0.5, 0.25, 0.25], 1.0);
    }

    /// 60 draws, of which 1.2 are expected of each of the last five: together 6.
    #[test]
    fn rare_tokens_share_a_cell() {
        let law = [0.5, 0.4, 0.02, 0.02, 0.02, 0.02, 0.02];
        // 0 / 30 + 9 / 24 + 9 / 6
        assert_p(&[30, 21, 9], &law, (-0.9375_f64).exp());
        assert_p(&[30, 21, 1, 2, 3, 2, 1], &law, (-0.9375_f64).exp());
        // 20 draws leave 10 and 8 to the first, and 2 that have to join the second.
        // The least likely gather until there are 5, and so take the second in.
        assert_p(&[10, 8, 2], &law, 1.0);
    }

    #[test]
    fn what_cannot_come_and_does_has_no_probability() {
        assert_eq!(p(&[1, 1, 1], &[0.5, 0.5]), Some(0.0));
    }

    #[test]
    fn one_cell_proves_nothing() {
        assert_eq!(p(&[7], &[1.0]), None);
        assert_eq!(p(&[3, 3], &[0.5, 0.5]), None);
    }

    #[test]
    fn entropy_is_that_of_the_frequencies() {
        let counts: Vec<_> = (0..).map(TokenId).zip([2, 1, 1]).collect();
        assert_eq!(entropy(&counts), 1.5);
        assert_eq!(entropy(&counts[..1]), 0.0);
    }
}
