//! The logits in blocks: the greatest of each is known while they are dense, so
//! that most verbs can skip most blocks, and all sums are taken block by block,
//! so that they have the same bits however the candidates lie.

use super::{Candidate, Scratch, select_top};
use crate::{
    TokenId,
    kernels::{self, BLOCK, Range},
};

/// Logits per part, where blocks are too large.
const PART: usize = 16;

/// The logits of one block.
pub(super) fn block(logits: &[f32], index: usize) -> &[f32] {
    &logits[index * BLOCK..logits.len().min((index + 1) * BLOCK)]
}

/// Notes the greatest logit of every block. False if a logit is NaN or +inf;
/// seldom also where none is.
pub(super) fn maxima(logits: &[f32], maxima: &mut Vec<f32>) -> bool {
    maxima.clear();
    maxima.resize(logits.len().div_ceil(BLOCK), 0.0);
    kernels::maxima(logits, maxima)
}

/// Corrects the maximum of the block in which the logit at `at` has changed.
pub(super) fn refresh(logits: &[f32], maxima: &mut [f32], at: usize) {
    maxima[at / BLOCK] = kernels::maximum(block(logits, at / BLOCK));
}

/// The first position of the greatest logit, and that logit, where logits are
/// still to be divided.
pub(super) fn first_maximum(logits: &[f32], divisor: f32, maxima: &[f32]) -> (usize, f32) {
    let best = kernels::maximum(maxima);
    let index = maxima.iter().position(|m| *m == best).unwrap_or_default();
    let within = block(logits, index).iter().position(|logit| *logit / divisor == best);
    (index * BLOCK + within.unwrap_or_default(), best)
}

impl Scratch {
    /// Appends to `found`, by id, the dense candidates whose logits lie in
    /// `range` and not in `but`, where they are still to be divided.
    pub(super) fn find(
        maxima: &[f32],
        positions: &mut Vec<u32>,
        (logits, divisor): (&[f32], f32),
        (range, but): (Range, Range),
        found: &mut Vec<Candidate>,
    ) {
        // A little more, since division rounds.
        let wide = if divisor == 1.0 { range } else { range.before_division(divisor) };
        let narrow = if divisor == 1.0 { but } else { Range::NONE };
        let wanted = |c: &Candidate| range.holds(c.logit) && !but.holds(c.logit);
        for (index, _) in maxima.iter().enumerate().filter(|(_, max)| **max >= range.low) {
            let block = block(logits, index);
            positions.clear();
            kernels::positions(block, wide, narrow, positions);
            let first = (index * BLOCK) as u32;
            let candidate = |&at: &u32| Candidate {
                id: TokenId(first + at),
                logit: block[at as usize] / divisor,
            };
            found.extend(positions.iter().map(candidate).filter(wanted));
        }
    }

    /// Lists the dense candidates whose logits lie in `range`, by id.
    pub(super) fn list_range(&mut self, dense: (&[f32], f32), range: Range) {
        let Self { maxima, positions, list, .. } = self;
        list.clear();
        Self::find(maxima, positions, dense, (range, Range::NONE), list);
    }

    /// The same in `other`.
    pub(super) fn note_range(&mut self, dense: (&[f32], f32), range: Range) {
        std::mem::swap(&mut self.list, &mut self.other);
        self.list_range(dense, range);
        std::mem::swap(&mut self.list, &mut self.other);
    }

    /// How many blocks can hold a logit that is at least `floor`.
    pub(super) fn hot_blocks(&self, floor: f32) -> usize {
        kernels::count_at_least(&self.maxima, floor)
    }

    /// How many dense logits are at least `floor`.
    pub(super) fn count_at_least(&self, logits: &[f32], floor: f32) -> usize {
        let hot = self.maxima.iter().enumerate().filter(|(_, max)| **max >= floor);
        hot.map(|(index, _)| kernels::count_at_least(block(logits, index), floor)).sum()
    }

    /// Lists in `other` the `n` most likely dense candidates, by id.
    pub(super) fn find_top(&mut self, (logits, divisor): (&[f32], f32), n: usize) {
        // The n-th greatest of some parts' maxima bounds the n-th greatest logit
        // from below. Where there are too few blocks, smaller parts will do.
        let floors = &mut self.weights;
        floors.clear();
        if n <= self.maxima.len() {
            floors.extend_from_slice(&self.maxima);
        } else if n <= logits.len().div_ceil(PART) {
            floors.extend(logits.chunks(PART).map(|part| kernels::maximum_of_few(part) / divisor));
        }
        let floor = if (1..=floors.len()).contains(&n) {
            *floors.select_nth_unstable_by(n - 1, |a, b| b.total_cmp(a)).1
        } else {
            f32::NEG_INFINITY
        };
        self.note_range((logits, divisor), Range::from(floor));
        select_top(&mut self.other, n, &mut self.weights);
    }

    /// Notes each dense block's sum of `exp(logit - best)`.
    pub(super) fn weigh_blocks(&mut self, logits: &[f32], divisor: f32, best: f32) {
        self.masses.clear();
        self.masses.resize(logits.len().div_ceil(BLOCK), 0.0);
        if divisor == 1.0 {
            kernels::masses(logits, best, &mut self.masses);
        } else {
            kernels::masses_at(logits, divisor, best, &mut self.masses);
        }
    }

    /// Notes the weight `exp(logit - best)` of every dense logit in `weights`, and
    /// each block's sum of them.
    pub(super) fn weigh_dense(&mut self, logits: &[f32], best: f32) {
        self.masses.clear();
        self.masses.resize(logits.len().div_ceil(BLOCK), 0.0);
        self.weights.resize(logits.len(), 0.0);
        kernels::weigh(logits, best, &mut self.weights, &mut self.masses);
    }

    /// Notes the weight `exp(logit - best)` of every candidate in `list`, which
    /// lies by id, and the sum of each block that has some.
    pub(super) fn weigh_list(&mut self, best: f32) {
        weigh(&self.list, best, &mut self.weights);
        self.masses.clear();
        let mut start = 0;
        for block in listed(&self.list) {
            let weights = &self.weights[start..start + block.len()];
            let at = |n: usize| (block[n].id.index() % BLOCK, weights[n]);
            let mass = match block.len() {
                1 => kernels::mass_of_few(at(0), None),
                2 => kernels::mass_of_few(at(0), Some(at(1))),
                _ => {
                    let mut mass = [0.0];
                    kernels::masses(&spread_out(block), best, &mut mass);
                    mass[0]
                }
            };
            self.masses.push(mass);
            start += block.len();
        }
    }
}

/// Writes the weight `exp(logit - best)` of every candidate to `weights`.
pub(super) fn weigh(list: &[Candidate], best: f32, weights: &mut Vec<f32>) {
    weights.clear();
    let mut chunk = [0.0; BLOCK];
    for part in list.chunks(BLOCK) {
        for (logit, c) in chunk.iter_mut().zip(part) {
            *logit = c.logit;
        }
        let start = weights.len();
        weights.resize(start + part.len(), 0.0);
        kernels::weights(&chunk[..part.len()], best, &mut weights[start..]);
    }
}

/// The blocks of candidates that are listed by id.
pub(super) fn listed(list: &[Candidate]) -> impl Iterator<Item = &[Candidate]> {
    list.chunk_by(|a, b| a.id.index() / BLOCK == b.id.index() / BLOCK)
}

/// A listed block as it would be if it were dense.
pub(super) fn spread_out(block: &[Candidate]) -> [f32; BLOCK] {
    let mut logits = [f32::NEG_INFINITY; BLOCK];
    for c in block {
        logits[c.id.index() % BLOCK] = c.logit;
    }
    logits
}
