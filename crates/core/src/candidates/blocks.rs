//! Passes over the dense logits. The vocabulary is cut into blocks; the
//! greatest logit of each is known, so that most passes can skip most blocks.

use super::{Candidate, exp::exp};
use crate::TokenId;

/// Logits per block.
pub(super) const BLOCK: usize = 256;

/// The logits of one block.
pub(super) fn block(logits: &[f32], index: usize) -> &[f32] {
    &logits[index * BLOCK..logits.len().min((index + 1) * BLOCK)]
}

/// Notes the greatest logit of every block. False if a logit is NaN or +inf.
pub(super) fn maxima(logits: &[f32], maxima: &mut Vec<f32>) -> bool {
    maxima.clear();
    let mut fine = true;
    maxima.extend(logits.chunks(BLOCK).map(|block| {
        fine &= block.iter().fold(true, |fine, logit| fine & (*logit < f32::INFINITY));
        maximum(block)
    }));
    fine
}

/// The greatest logit of a block, which holds no NaN.
pub(super) fn maximum(block: &[f32]) -> f32 {
    // Independent lanes, so that the compiler can use vectors.
    const LANES: usize = 32;
    let greater = |a: f32, b: f32| if a > b { a } else { b };
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let chunks = block.chunks_exact(LANES);
    let rest = chunks.remainder().iter().copied().fold(f32::NEG_INFINITY, greater);
    for chunk in chunks {
        for (lane, &logit) in lanes.iter_mut().zip(chunk) {
            *lane = greater(*lane, logit);
        }
    }
    lanes.into_iter().fold(rest, greater)
}

/// Corrects the maximum of the block in which the logit at `at` has changed.
pub(super) fn refresh(logits: &[f32], maxima: &mut [f32], at: usize) {
    maxima[at / BLOCK] = maximum(block(logits, at / BLOCK));
}

/// The first position of the greatest logit.
pub(super) fn first_maximum(logits: &[f32], maxima: &[f32]) -> usize {
    let best = maximum(maxima);
    let index = maxima.iter().position(|m| *m == best).unwrap_or_default();
    let within = block(logits, index).iter().position(|logit| *logit == best);
    index * BLOCK + within.unwrap_or_default()
}

/// Lists the unmasked candidates with at least the logit `floor`, by id.
pub(super) fn collect_at_least(
    logits: &[f32],
    maxima: &[f32],
    floor: f32,
    list: &mut Vec<Candidate>,
) {
    let floor = floor.max(f32::MIN);
    for (index, _) in maxima.iter().enumerate().filter(|(_, max)| **max >= floor) {
        let ids = (index * BLOCK) as u32..;
        let all = ids.zip(block(logits, index)).filter(|(_, logit)| **logit >= floor);
        list.extend(all.map(|(id, &logit)| Candidate { id: TokenId(id), logit }));
    }
}

/// Lists candidates among which the `n` most likely are, by id.
pub(super) fn collect_top(
    logits: &[f32],
    maxima: &[f32],
    floors: &mut Vec<f32>,
    n: usize,
    list: &mut Vec<Candidate>,
) {
    // The n-th greatest of the blocks' maxima bounds the n-th greatest logit
    // from below.
    let floor = if n == 0 || n > maxima.len() {
        f32::NEG_INFINITY
    } else {
        floors.clear();
        floors.extend_from_slice(maxima);
        *floors.select_nth_unstable_by(n - 1, |a, b| b.total_cmp(a)).1
    };
    collect_at_least(logits, maxima, floor, list);
}

/// Each block's number and its sum of `exp(logit - best)`.
pub(super) fn masses<'a>(
    logits: &'a [f32],
    maxima: &'a [f32],
    best: f32,
) -> impl Iterator<Item = (usize, f64)> + 'a {
    logits.chunks(BLOCK).zip(maxima).enumerate().map(move |(index, (block, max))| {
        // Below this every weight is 0.
        let mass = if max - best < -104.0 {
            0.0
        } else {
            block.iter().map(|logit| f64::from(exp(logit - best))).sum()
        };
        (index, mass)
    })
}

/// The blocks of candidates that are listed by id.
pub(super) fn listed(list: &[Candidate]) -> impl Iterator<Item = &[Candidate]> {
    list.chunk_by(|a, b| a.id.index() / BLOCK == b.id.index() / BLOCK)
}

/// Sum of `exp(logit - best)` over listed candidates, in their order.
pub(super) fn mass(list: &[Candidate], best: f32) -> f64 {
    list.iter().map(|c| f64::from(exp(c.logit - best))).sum()
}
