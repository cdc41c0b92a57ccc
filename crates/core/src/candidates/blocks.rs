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
    /// `range` and not in `but`, where they are still to be divided. Stops after
    /// the block with which they are more than `limit`.
    pub(super) fn find(
        maxima: &[f32],
        positions: &mut Vec<u32>,
        (logits, divisor): (&[f32], f32),
        (range, but): (Range, Range),
        found: &mut Vec<Candidate>,
        limit: usize,
    ) {
        // A little more, since division rounds.
        let wide = if divisor == 1.0 { range } else { range.before_division(divisor) };
        let narrow = if divisor == 1.0 { but } else { Range::NONE };
        let wanted = |c: &Candidate| range.holds(c.logit) && !but.holds(c.logit);
        for (index, _) in maxima.iter().enumerate().filter(|(_, max)| **max >= range.low) {
            let block = block(logits, index);
            positions.clear();
            if wide.high == f32::MAX && narrow == Range::NONE {
                kernels::positions_from(block, wide.low, positions);
            } else {
                kernels::positions(block, wide, narrow, positions);
            }
            let first = (index * BLOCK) as u32;
            let candidate = |&at: &u32| Candidate {
                id: TokenId(first + at),
                logit: block[at as usize] / divisor,
            };
            if divisor == 1.0 {
                found.extend(positions.iter().map(candidate));
            } else {
                found.extend(positions.iter().map(candidate).filter(wanted));
            }
            if found.len() > limit {
                break;
            }
        }
    }

    /// Lists the dense candidates whose logits lie in `range`, by id.
    pub(super) fn list_range(&mut self, dense: (&[f32], f32), range: Range) {
        let Self { maxima, positions, list, .. } = self;
        list.clear();
        Self::find(maxima, positions, dense, (range, Range::NONE), list, usize::MAX);
    }

    /// The same in `other`, unless they are more than `limit`.
    fn note_range(&mut self, dense: (&[f32], f32), range: Range, limit: usize) -> bool {
        let Self { maxima, positions, other, .. } = self;
        other.clear();
        Self::find(maxima, positions, dense, (range, Range::NONE), other, limit);
        other.len() <= limit
    }

    /// Corrects the maxima after logits outside a range were masked, and perhaps
    /// some that are `tie`.
    pub(super) fn refresh_masked(&mut self, logits: &[f32], range: Range, tie: Option<f32>) {
        for (index, maximum) in self.maxima.iter_mut().enumerate() {
            if *maximum < range.low {
                *maximum = f32::NEG_INFINITY;
            } else if *maximum > range.high || Some(*maximum) == tie {
                *maximum = kernels::maximum(block(logits, index));
            }
        }
    }

    /// Whether many candidates are near the best.
    pub(super) fn is_flat(&self, best: f32) -> bool {
        self.hot_blocks(best - 2.0) * 4 > self.maxima.len()
    }

    /// How many blocks can hold a logit that is at least `floor`.
    pub(super) fn hot_blocks(&self, floor: f32) -> usize {
        kernels::count_at_least(&self.maxima, floor)
    }

    /// About how many dense logits are at least `floor`, as some blocks have it.
    pub(super) fn about_at_least(&self, (logits, divisor): (&[f32], f32), floor: f32) -> usize {
        const STEP: usize = 16;
        let floor = if divisor == 1.0 { floor } else { floor * divisor };
        let some = logits.chunks(BLOCK).step_by(STEP);
        some.map(|block| kernels::count_at_least(block, floor)).sum::<usize>() * STEP
    }

    /// How many dense logits are at least `floor`.
    pub(super) fn count_at_least(&self, logits: &[f32], floor: f32) -> usize {
        let hot = self.maxima.iter().enumerate().filter(|(_, max)| **max >= floor);
        hot.map(|(index, _)| kernels::count_at_least(block(logits, index), floor)).sum()
    }

    /// Lists in `other` the `n` most likely dense candidates, by id.
    pub(super) fn find_top(&mut self, dense: (&[f32], f32), n: usize) {
        let (logits, divisor) = dense;
        // The n-th greatest of some parts' maxima bounds the n-th greatest logit
        // from below. Where there are too few blocks, smaller parts will do.
        self.spare.clear();
        if n <= self.maxima.len() {
            self.spare.extend_from_slice(&self.maxima);
        } else if n <= logits.len().div_ceil(PART) {
            let maximum = |part: &[f32]| kernels::maximum_of_few(part) / divisor;
            self.spare.extend(logits.chunks(PART).map(maximum));
        }
        let floor = nth_greatest(&mut self.spare, n);
        // Where the logits are sorted or tied, far too many can reach it.
        let limit = if n <= self.maxima.len() { 4 * n + 512 } else { usize::MAX };
        if !self.note_range(dense, Range::from(floor), limit) {
            self.find_top_of_many(dense, n, floor, limit);
        }
        select_top(&mut self.other, n, &mut self.spare);
    }

    /// Lists in `other` at least the `n` most likely, of more than `limit` that
    /// reach `floor`.
    fn find_top_of_many(&mut self, dense: (&[f32], f32), n: usize, floor: f32, limit: usize) {
        let (logits, divisor) = dense;
        let mut floor = floor;
        if !self.note_range(dense, Range::from(floor.next_up()), limit) {
            // Smaller parts of the blocks that hold them give a higher bound.
            self.spare.clear();
            for (index, _) in self.maxima.iter().enumerate().filter(|(_, max)| **max >= floor) {
                let parts = block(logits, index).chunks(PART).map(kernels::maximum_of_few);
                self.spare.extend(parts.map(|max| max / divisor));
            }
            floor = nth_greatest(&mut self.spare, n);
            self.note_range(dense, Range::from(floor.next_up()), usize::MAX);
        }
        // Of those that are just at the bound, the first.
        let missing = n.saturating_sub(self.other.len());
        if missing > 0 {
            let Self { maxima, positions, list, other, .. } = self;
            let equals = Range { low: floor, high: floor };
            list.clear();
            Self::find(maxima, positions, dense, (equals, Range::NONE), list, missing);
            list.truncate(missing);
            other.extend_from_slice(list);
            other.sort_unstable_by_key(|c| c.id);
        }
    }

    /// The `n`-th greatest of the dense logits.
    pub(super) fn nth_greatest_of(&mut self, logits: &[f32], n: usize) -> f32 {
        self.spare.clear();
        self.spare.extend_from_slice(logits);
        nth_greatest(&mut self.spare, n)
    }

    /// The candidate that is the `n`-th, counted from 1, of those with a logit, by
    /// id.
    pub(super) fn nth_equal(&self, logits: &[f32], logit: f32, n: usize) -> Option<Candidate> {
        let mut left = n;
        for (index, _) in self.maxima.iter().enumerate().filter(|(_, max)| **max >= logit) {
            let block = block(logits, index);
            let after = kernels::count_at_least(block, logit.next_up());
            let count = kernels::count_at_least(block, logit) - after;
            if left <= count {
                let mut equals = block.iter().enumerate().filter(|(_, l)| **l == logit);
                let (at, _) = equals.nth(left - 1)?;
                return Some(Candidate { id: TokenId((index * BLOCK + at) as u32), logit });
            }
            left -= count;
        }
        None
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
        // What stood there is overwritten, so that clearing it would be in vain.
        self.weights.resize(self.weights.len().max(logits.len()), 0.0);
        kernels::weigh(logits, best, &mut self.weights[..logits.len()], &mut self.masses);
    }

    /// Notes the weight `exp(logit - best)` of every candidate in `list`, which
    /// lies by id, and the sum of each block that has some.
    pub(super) fn weigh_list(&mut self, best: f32) {
        weigh(&self.list, best, &mut self.spare);
        self.masses.clear();
        let mut start = 0;
        let mut all = [0.0; BLOCK];
        for block in listed(&self.list) {
            let weights = &self.spare[start..start + block.len()];
            let at = |n: usize| (block[n].id.index() % BLOCK, weights[n]);
            let mass = match block.len() {
                1 => kernels::mass_of_few(at(0), None),
                2 => kernels::mass_of_few(at(0), Some(at(1))),
                _ => {
                    for (c, weight) in block.iter().zip(weights) {
                        all[c.id.index() % BLOCK] = *weight;
                    }
                    let mass = kernels::block_mass(&all);
                    for c in block {
                        all[c.id.index() % BLOCK] = 0.0;
                    }
                    mass
                }
            };
            self.masses.push(mass);
            start += block.len();
        }
    }
}

/// The `n`-th greatest of some numbers; if they are fewer, less than any.
fn nth_greatest(numbers: &mut [f32], n: usize) -> f32 {
    if (1..=numbers.len()).contains(&n) {
        *numbers.select_nth_unstable_by(n - 1, |a, b| b.total_cmp(a)).1
    } else {
        f32::NEG_INFINITY
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
