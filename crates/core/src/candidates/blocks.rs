//! The dense logits in blocks: the greatest logit of each is known, so that most
//! verbs can skip most blocks.

use super::{Candidate, Scratch, select_top};
use crate::{
    TokenId,
    kernels::{self, BLOCK},
};

/// Logits per part, where blocks are too large.
const PART: usize = 16;

/// The logits of one block.
pub(super) fn block(logits: &[f32], index: usize) -> &[f32] {
    &logits[index * BLOCK..logits.len().min((index + 1) * BLOCK)]
}

/// Notes the greatest logit of every block. False if a logit is NaN or +inf.
pub(super) fn maxima(logits: &[f32], maxima: &mut Vec<f32>) -> bool {
    maxima.clear();
    maxima.resize(logits.len().div_ceil(BLOCK), 0.0);
    kernels::maxima(logits, maxima)
}

/// Corrects the maximum of the block in which the logit at `at` has changed.
pub(super) fn refresh(logits: &[f32], maxima: &mut [f32], at: usize) {
    maxima[at / BLOCK] = kernels::maximum(block(logits, at / BLOCK));
}

/// The first position of the greatest logit.
pub(super) fn first_maximum(logits: &[f32], maxima: &[f32]) -> usize {
    let best = kernels::maximum(maxima);
    let index = maxima.iter().position(|m| *m == best).unwrap_or_default();
    let within = block(logits, index).iter().position(|logit| *logit == best);
    index * BLOCK + within.unwrap_or_default()
}

impl Scratch {
    /// Lists in `other` the unmasked candidates with at least the logit `floor`,
    /// by id.
    pub(super) fn find_at_least(&mut self, logits: &[f32], floor: f32) {
        let Self { maxima, positions, other, .. } = self;
        other.clear();
        let floor = floor.max(f32::MIN);
        for (index, _) in maxima.iter().enumerate().filter(|(_, max)| **max >= floor) {
            let block = block(logits, index);
            positions.clear();
            kernels::at_least(block, floor, positions);
            let first = (index * BLOCK) as u32;
            other.extend(
                positions
                    .iter()
                    .map(|&at| Candidate { id: TokenId(first + at), logit: block[at as usize] }),
            );
        }
    }

    /// Lists in `other` the `n` most likely candidates, by id.
    pub(super) fn find_top(&mut self, logits: &[f32], n: usize) {
        // The n-th greatest of some parts' maxima bounds the n-th greatest logit
        // from below. Where there are too few blocks, smaller parts will do.
        self.floors.clear();
        if n <= self.maxima.len() {
            self.floors.extend_from_slice(&self.maxima);
        } else {
            self.floors.extend(logits.chunks(PART).map(kernels::maximum_of_few));
        }
        let floor = if (1..=self.floors.len()).contains(&n) {
            *self.floors.select_nth_unstable_by(n - 1, |a, b| b.total_cmp(a)).1
        } else {
            f32::NEG_INFINITY
        };
        self.find_at_least(logits, floor);
        select_top(&mut self.other, n, &mut self.spare);
    }
}

/// Each block's sum of `exp(logit - best)`.
pub(super) fn masses(logits: &[f32], best: f32, masses: &mut Vec<f64>) {
    masses.clear();
    masses.resize(logits.len().div_ceil(BLOCK), 0.0);
    kernels::masses(logits, best, masses);
}

/// The blocks of candidates that are listed by id.
pub(super) fn listed(list: &[Candidate]) -> impl Iterator<Item = &[Candidate]> {
    list.chunk_by(|a, b| a.id.index() / BLOCK == b.id.index() / BLOCK)
}

/// A listed block's sum of `exp(logit - best)`, with the bits that the dense
/// block would give.
pub(super) fn mass(list: &[Candidate], best: f32) -> f64 {
    kernels::mass_of(list.iter().map(|c| (c.id.index() % BLOCK, kernels::exp(c.logit - best))))
}
