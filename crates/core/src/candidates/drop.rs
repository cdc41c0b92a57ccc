//! Verbs that drop candidates.

use super::{
    Candidate, Candidates, Fault, Order, Scratch, blocks, dense, floor_of, select_top, weight,
};
use crate::kernels;

/// How far below what it should reach a sum of probabilities may stay.
///
/// Tokens of which four fifths are asked for, or words counted in a text, have
/// sums that are exactly the number asked for, on paper. In `f32` weights they
/// come out some 5e-8 above or below it.
const SLACK: f64 = 1e-7;

impl Candidates<'_> {
    /// Keeps the `n` most likely candidates, one at least.
    pub fn keep_top(&mut self, n: usize) {
        let n = n.max(1);
        if self.mirror {
            self.rank_all();
        }
        match self.order {
            None => {
                if n >= self.logits.len() {
                    return;
                }
                self.scratch.find_top(self.logits, n);
                self.take_other(Order::Id);
            }
            Some(order) => {
                let Scratch { list, spare, .. } = &mut *self.scratch;
                if n >= list.len() {
                    return;
                }
                if order == Order::Rank {
                    list.truncate(n);
                } else {
                    select_top(list, n, spare);
                }
            }
        }
        self.mass = None;
    }

    /// Keeps the candidates whose logit is at least `floor` or, if those are
    /// fewer than `min_keep`, the `min_keep` most likely ones; the best always
    /// stays.
    pub fn keep_at_least(&mut self, floor: f32, min_keep: usize) {
        let kept = match self.order {
            None => {
                self.scratch.find_at_least(self.logits, floor);
                self.scratch.other.len()
            }
            Some(_) => self.scratch.list.iter().filter(|c| c.logit >= floor).count(),
        };
        if kept < min_keep.max(1) {
            self.keep_top(min_keep);
            return;
        }
        if self.order.is_none() {
            self.take_other(Order::Id);
        } else {
            self.scratch.list.retain(|c| c.logit >= floor);
        }
        self.mass = None;
    }

    /// Keeps the candidates whose probability is at least `p`; the best always
    /// stays.
    pub fn keep_probable(&mut self, p: f64) {
        if self.mirror {
            self.rank_all();
        }
        let (best, least) = (self.best(), p * self.mass());
        let mirror = self.mirror;
        if self.order.is_none() {
            // No weight is above the best one's 1.
            self.scratch.find_at_least(self.logits, floor_of(best.logit, least).min(best.logit));
            self.take_other(Order::Id);
        }
        self.retain(|c| {
            c.id == best.id || f64::from(weight(mirror, c.logit - best.logit)) >= least
        });
    }

    /// Keeps the fewest most likely candidates whose probabilities sum to at
    /// least `p`, but `min_keep` at least and never none.
    ///
    /// # Precision
    ///
    /// Sums are taken in `f64` over weights in `f32`, most likely first. One that
    /// is within a ten-millionth of `p` counts as `p`: the weights are no more
    /// precise.
    pub fn keep_nucleus(&mut self, p: f64, min_keep: usize) {
        let needed = (p - SLACK) * self.mass();
        let best = self.best().logit;
        if self.mirror {
            self.rank_all();
        } else {
            self.narrow_to_mass(needed, min_keep);
        }
        let exp = |x| weight(self.mirror, x);
        let mut sum = 0.0;
        let reached = self.scratch.list.iter().position(|c| {
            sum += f64::from(exp(c.logit - best));
            sum >= needed
        });
        let n = reached.map_or(usize::MAX, |at| at + 1).max(min_keep);
        self.scratch.list.truncate(n);
        self.mass = None;
    }

    /// Keeps the candidates with the lowest scores, as few as have
    /// probabilities that sum to at least `p`, but `min_keep` at least and
    /// never none. `score` is given a candidate's probability; of equal scores
    /// the more likely candidate comes first.
    pub fn keep_lowest(&mut self, score: impl Fn(f64) -> f64, p: f64, min_keep: usize) {
        self.rank_all();
        let (best, mass) = (self.best().logit, self.mass());
        let mirror = self.mirror;
        let Scratch { list, other, scored, .. } = &mut *self.scratch;
        scored.clear();
        scored.extend(list.iter().zip(0..).map(|(c, at)| {
            let p = f64::from(weight(mirror, c.logit - best)) / mass;
            (score(p) as f32, at)
        }));
        scored.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        other.clear();
        let mut sum = 0.0;
        for (_, at) in &*scored {
            let c = list[*at as usize];
            other.push(c);
            sum += f64::from(weight(mirror, c.logit - best));
            if sum >= (p - SLACK) * mass && other.len() >= min_keep {
                break;
            }
        }
        self.take_other(Order::Other);
    }

    /// Drops the `n` most likely candidates; the least likely one always stays.
    pub fn drop_top(&mut self, n: usize) {
        let n = n.min(self.len() - 1);
        if self.order.is_none() && !self.mirror {
            // A dropped token is a masked one, and those are quickly masked.
            self.scratch.find_top(self.logits, n);
            let Scratch { maxima, other, .. } = &mut *self.scratch;
            for c in other {
                let at = c.id.index();
                self.logits[at] = f32::NEG_INFINITY;
                blocks::refresh(self.logits, maxima, at);
            }
        } else {
            self.rank_all();
            self.scratch.list.drain(..n);
        }
        self.mass = None;
    }

    /// Keeps the candidates that `keep` accepts. If it accepts none, the chain
    /// fails and names the stage.
    pub fn retain(&mut self, mut keep: impl FnMut(Candidate) -> bool) {
        let Scratch { list, other, .. } = &mut *self.scratch;
        other.clear();
        match self.order {
            None => other.extend(dense(self.logits).filter(|c| keep(*c))),
            Some(_) => other.extend(list.iter().copied().filter(|c| keep(*c))),
        }
        if other.is_empty() {
            // The candidates stay as they are, so that the stage can go on to
            // its end; the chain stops right after it.
            self.fault = self.fault.or(Some(Fault::Exhausted));
            return;
        }
        self.take_other(self.order.unwrap_or(Order::Id));
    }

    /// Goes on with the candidates that are listed in `other`.
    fn take_other(&mut self, order: Order) {
        let Scratch { list, other, .. } = &mut *self.scratch;
        std::mem::swap(list, other);
        self.order = Some(order);
        self.mass = None;
    }

    /// Ranks as many of the most likely candidates as have `needed` mass (and
    /// number `min_keep`), and drops candidates that cannot be among them.
    fn narrow_to_mass(&mut self, needed: f64, min_keep: usize) {
        if self.order == Some(Order::Rank) {
            return;
        }
        let best = self.best().logit;
        for depth in [4.0, 8.0, 12.0] {
            let floor = best - depth;
            match self.order {
                None => self.scratch.find_at_least(self.logits, floor),
                Some(_) => {
                    let Scratch { list, other, .. } = &mut *self.scratch;
                    other.clear();
                    other.extend(list.iter().filter(|c| c.logit >= floor));
                }
            }
            let other = &self.scratch.other;
            let mass: f64 = other.iter().map(|c| f64::from(kernels::exp(c.logit - best))).sum();
            // A thousandth more than needed, so that the order of the sum
            // cannot matter; a narrow miss only costs another round.
            if mass > needed * 1.001 && other.len() >= min_keep {
                self.take_other(self.order.unwrap_or(Order::Id));
                break;
            }
        }
        self.rank_all();
    }
}
