//! Verbs that drop candidates.

use super::{Candidate, Candidates, Fault, Order, Scratch, blocks, select_top, weight};
use crate::{
    kernels::{self, Range},
    trace::Verb,
};

/// Where more than one candidate of so many stays, listing them would cost more
/// than masking the others.
pub(super) const LISTED: usize = 32;

impl Candidates<'_> {
    /// Keeps the `n` most likely candidates, one at least.
    pub fn keep_top(&mut self, n: usize) {
        let n = n.max(1);
        self.note(Verb::Top { n });
        if self.mirror {
            self.rank_all();
        } else if self.order == Some(Order::Other) {
            self.rank_ids();
        }
        match self.order {
            None => {
                if n >= self.logits.len() {
                    return;
                }
                if n * 16 > self.logits.len() {
                    self.mask_but_top(n);
                    return;
                }
                self.scratch.find_top((self.logits, self.divisor), n);
                self.take_other();
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
        self.drop_done(true);
    }

    /// Keeps the candidates whose logit is at least `floor` or, if those are
    /// fewer than `min_keep`, the `min_keep` most likely ones; the best always
    /// stays.
    pub fn keep_at_least(&mut self, floor: f32, min_keep: usize) {
        self.note(Verb::Logit { floor });
        self.keep_from(floor, min_keep, false);
    }

    /// Does so. `weigh`: as the mass was known before, it is to be afterwards too,
    /// where that costs little.
    fn keep_from(&mut self, floor: f32, min_keep: usize, weigh: bool) {
        let mut mass = None;
        let kept = match self.order {
            None if self.many_from(floor, min_keep.max(1)) => {
                self.settle();
                let range = Range::from(floor);
                if weigh {
                    let best = self.best().logit;
                    kernels::mask_below(self.logits, range.low, best, &mut self.scratch.masses);
                    mass = Some(self.scratch.masses.iter().sum());
                } else {
                    kernels::mask(self.logits, range, None);
                }
                self.scratch.refresh_masked(self.logits, range, None);
                true
            }
            None => self.list_from(floor, min_keep.max(1)),
            Some(_) => {
                let list = &mut self.scratch.list;
                let kept = list.iter().filter(|c| c.logit >= floor).count() >= min_keep.max(1);
                if kept {
                    list.retain(|c| c.logit >= floor);
                }
                kept
            }
        };
        if kept {
            self.drop_done(true);
            self.mass = mass;
        } else {
            self.keep_top(min_keep);
        }
    }

    /// Keeps the candidates whose probability is at least `p`, or less than a
    /// ten-millionth part below it; the best always stays.
    pub fn keep_probable(&mut self, p: f64) {
        if self.mirror {
            self.rank_all();
            let (best, least) = (self.best(), p * self.mass());
            self.retain(|c| {
                c.id == best.id || f64::from(weight(true, c.logit - best.logit)) >= least
            });
        } else {
            let floor = self.floor_of(p);
            // Whoever asks for probabilities will go on with them.
            self.keep_from(floor, 1, true);
        }
        self.note(Verb::Probability { floor: p });
    }

    /// Drops the `n` most likely candidates; the least likely one always stays.
    pub fn drop_top(&mut self, n: usize) {
        if n == 0 {
            return;
        }
        self.settle();
        // Most often there are more, which takes no counting of all.
        let n = if self.iter().nth(n).is_some() { n } else { self.len() - 1 };
        self.note(Verb::DropTop { n });
        if self.order.is_none() && !self.mirror {
            // A dropped token is a masked one, and those are quickly masked.
            self.scratch.find_top((self.logits, 1.0), n);
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
        self.drop_done(false);
    }

    /// Keeps the candidates that `keep` accepts. If it accepts none, the chain
    /// fails and names the stage.
    pub fn retain(&mut self, mut keep: impl FnMut(Candidate) -> bool) {
        self.settle();
        let list = &mut self.scratch.list;
        let kept = match self.order {
            None => {
                list.clear();
                list.extend(super::dense(self.logits).filter(|c| keep(*c)));
                if list.is_empty() {
                    false
                } else {
                    self.order = Some(Order::Id);
                    true
                }
            }
            Some(_) => {
                let mut kept = 0;
                for at in 0..list.len() {
                    if keep(list[at]) {
                        list[kept] = list[at];
                        kept += 1;
                    }
                }
                if kept > 0 {
                    list.truncate(kept);
                }
                kept > 0
            }
        };
        if kept {
            self.drop_done(false);
        } else {
            // The candidates stay as they are, so that the stage can go on to
            // its end; the chain stops right after it.
            self.fault = self.fault.or(Some(Fault::Exhausted));
        }
    }

    /// Whether the dense candidates from `floor` on are too many for a list, and
    /// `at_least` so many.
    fn many_from(&self, floor: f32, at_least: usize) -> bool {
        let low = Range::from(floor).low;
        let hot = self.scratch.hot_blocks(low);
        hot >= at_least
            && hot * 8 > self.scratch.maxima.len()
            && self.scratch.about_at_least((self.logits, self.divisor), low) * LISTED
                > self.logits.len()
    }

    /// Lists the dense candidates from `floor` on, unless they are fewer than
    /// `at_least`. Says whether it has.
    fn list_from(&mut self, floor: f32, at_least: usize) -> bool {
        self.scratch.list_range((self.logits, self.divisor), Range::from(floor));
        if self.scratch.list.len() < at_least {
            return false;
        }
        self.list_made();
        true
    }

    /// Masks the dense candidates outside a range, and those with the logit of
    /// `last` whose ids come after its.
    pub(super) fn mask_but(&mut self, range: Range, last: Candidate) {
        let (before, after) = self.logits.split_at_mut(last.id.index() + 1);
        kernels::mask(before, range, None);
        kernels::mask(after, range, Some(last.logit));
        self.scratch.refresh_masked(self.logits, range, Some(last.logit));
    }

    /// Masks all dense candidates but the `n` most likely.
    fn mask_but_top(&mut self, n: usize) {
        self.settle();
        let low = self.scratch.nth_greatest_of(self.logits, n);
        if low == f32::NEG_INFINITY {
            return;
        }
        let above = self.scratch.count_at_least(self.logits, low.next_up());
        if let Some(last) = self.scratch.nth_equal(self.logits, low, n - above) {
            self.mask_but(Range::from(low), last);
        }
        self.drop_done(true);
    }

    /// Notes the greatest logit of every block anew.
    pub(super) fn refresh_all(&mut self) {
        blocks::maxima(self.logits, &mut self.scratch.maxima);
    }

    /// Goes on with the candidates that are listed in `other`, by id.
    fn take_other(&mut self) {
        let Scratch { list, other, .. } = &mut *self.scratch;
        std::mem::swap(list, other);
        self.list_made();
    }

    /// Goes on with the candidates that are in `list`, by id, and divided.
    pub(super) fn list_made(&mut self) {
        self.order = Some(Order::Id);
        self.divisor = 1.0;
    }

    /// Forgets what was known before candidates were dropped.
    pub(super) fn drop_done(&mut self, best_stays: bool) {
        let best = self.best.get().filter(|_| best_stays);
        self.touch();
        self.best.set(best);
    }

    /// Makes long lists dense again: what is not listed is masked.
    pub(super) fn make_dense(&mut self) {
        if self.order.is_none() || self.scratch.list.len() * LISTED <= self.logits.len() {
            return;
        }
        self.logits.fill(f32::NEG_INFINITY);
        for c in &self.scratch.list {
            self.logits[c.id.index()] = c.logit;
        }
        self.order = None;
        self.refresh_all();
    }
}
