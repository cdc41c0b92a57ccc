//! Verbs that change logits.

use std::{collections::HashMap, hash::BuildHasher};

use super::{Candidate, Candidates, Fault, Order, Scratch, blocks, weight};
use crate::{
    TokenId,
    kernels::{self, BLOCK, is_logit},
};

impl Candidates<'_> {
    /// Divides every logit by `t`, which must be positive and finite: otherwise
    /// the chain fails and names the stage.
    pub fn temper(&mut self, t: f32) {
        if let Some(record) = &mut self.record {
            record.temperature = Some(t);
        }
        if !(t > 0.0 && t.is_finite()) {
            self.break_at(self.best().id, f32::NAN);
            return;
        }
        if t < 1.0 {
            let best = self.best();
            if !(best.logit / t).is_finite() {
                // Only the best can matter where the logits leave the range of
                // f32: all but its equals are infinitely far below.
                self.retain(|c| c.logit == best.logit);
                return;
            }
        }
        if self.order.is_none() {
            self.settle();
            // Division keeps order, so a block's greatest logit stays its greatest.
            kernels::divide(&mut self.scratch.maxima, t);
            self.divisor = t;
            self.touch();
            // Beyond, a quotient by way of the inverse is not exact.
            if self.mirror || !(1e-30..1e30).contains(&t) {
                self.settle();
            }
        } else {
            self.rescale(|logit| logit / t);
        }
    }

    /// Replaces every logit by a function of it that keeps their order.
    pub fn rescale(&mut self, f: impl Fn(f32) -> f32) {
        self.settle();
        match self.order {
            None => {
                let fine = kernels::map(self.logits, f, &mut self.scratch.maxima);
                self.rewritten(fine);
            }
            Some(_) => {
                self.scratch.list.iter_mut().for_each(|c| c.logit = f(c.logit));
                self.rewritten(false);
            }
        }
        // Rounding can make equals of neighbours, which then rank by id; only
        // llama.cpp's array leaves them as they lie.
        let ranked = |a: &Candidate, b: &Candidate| {
            if self.mirror { a.logit >= b.logit } else { a.rank(b).is_lt() }
        };
        if self.order == Some(Order::Rank) && !self.scratch.list.is_sorted_by(ranked) {
            self.forget_rank();
        }
    }

    /// Replaces every logit by a function of it and of the candidate's
    /// probability.
    pub fn rewrite(&mut self, f: impl Fn(f32, f32) -> f32) {
        self.settle();
        let best = self.best().logit;
        if self.order.is_none() && !self.mirror {
            self.weigh_dense();
            let Scratch { weights, before, .. } = &mut *self.scratch;
            std::mem::swap(weights, before);
        }
        let mass = self.mass();
        let Scratch { list, before, maxima, .. } = &mut *self.scratch;
        let fine = match self.order {
            _ if self.mirror => {
                self.make_sparse();
                let probability = |logit| (f64::from(weight(true, logit - best)) / mass) as f32;
                let Scratch { list, before, .. } = &mut *self.scratch;
                before.clear();
                before.extend(list.iter().map(|c| probability(c.logit)));
                list.iter_mut().zip(before).for_each(|(c, p)| c.logit = f(c.logit, *p));
                false
            }
            None => kernels::map_weighted(self.logits, before, (1.0 / mass) as f32, f, maxima),
            Some(_) => {
                blocks::weigh(list, best, before);
                for (c, p) in list.iter_mut().zip(before) {
                    *p *= (1.0 / mass) as f32;
                    c.logit = f(c.logit, *p);
                }
                false
            }
        };
        if self.order.is_some() {
            // What is masked will not be listed.
            let Scratch { list, before, .. } = &mut *self.scratch;
            let mut new = list.iter().map(|c| c.logit);
            before.retain(|_| new.next().is_some_and(|l| l > f32::NEG_INFINITY && is_logit(l)));
        }
        self.rewritten(fine);
        self.forget_rank();
    }

    /// Replaces the logit of one token, if it is still a candidate.
    pub fn update(&mut self, id: TokenId, f: impl FnOnce(f32) -> f32) {
        self.settle();
        match self.order {
            None => {
                let at = id.index();
                if at < self.logits.len() && self.logits[at] > f32::NEG_INFINITY {
                    let new = f(self.logits[at]);
                    self.set_dense(at, new);
                    self.drop_masked();
                }
            }
            Some(_) => {
                if let Some(at) = self.position(id) {
                    let new = f(self.scratch.list[at].logit);
                    self.set_sparse(at, new);
                    self.drop_masked();
                }
            }
        }
        self.touch();
    }

    /// Replaces the logit of every candidate that `table` names; `f` is given
    /// the logit and the table's value. Takes time in proportion to the table
    /// or to the candidates, whichever is smaller.
    pub fn adjust<T, S: BuildHasher>(
        &mut self,
        table: &HashMap<TokenId, T, S>,
        f: impl Fn(f32, &T) -> f32,
    ) {
        self.settle();
        if self.order.is_none() {
            for (&id, value) in table {
                let at = id.index();
                if at < self.logits.len() && self.logits[at] > f32::NEG_INFINITY {
                    let new = f(self.logits[at], value);
                    self.set_dense(at, new);
                }
            }
        } else {
            for at in 0..self.scratch.list.len() {
                let Candidate { id, logit } = self.scratch.list[at];
                if let Some(value) = table.get(&id) {
                    self.set_sparse(at, f(logit, value));
                }
            }
        }
        self.drop_masked();
        self.touch();
    }

    /// Looks at logits that a function has replaced, unless dense ones are known to
    /// be fine. What is no number is masked, so that the stage can go on to its
    /// end.
    fn rewritten(&mut self, fine: bool) {
        let bad = match self.order {
            None if fine => None,
            None => {
                let bad = |(logit, _): &(&mut f32, u32)| !is_logit(**logit);
                let mut first = None;
                for (logit, id) in self.logits.iter_mut().zip(0..).filter(bad) {
                    first = first.or(Some((TokenId(id), *logit)));
                    *logit = f32::NEG_INFINITY;
                }
                self.refresh_all();
                first
            }
            Some(_) => {
                let mut first = None;
                for c in self.scratch.list.iter_mut().filter(|c| !is_logit(c.logit)) {
                    if first.is_none_or(|(id, _)| c.id < id) {
                        first = Some((c.id, c.logit));
                    }
                    c.logit = f32::NEG_INFINITY;
                }
                first
            }
        };
        if let Some((id, value)) = bad {
            self.break_at(id, value);
        }
        self.drop_masked();
        self.touch();
    }

    #[inline]
    fn set_dense(&mut self, at: usize, new: f32) {
        if !is_logit(new) {
            self.break_at(TokenId(at as u32), new);
            return;
        }
        let old = std::mem::replace(&mut self.logits[at], new);
        let maxima = &mut self.scratch.maxima;
        let maximum = &mut maxima[at / BLOCK];
        if new >= *maximum {
            *maximum = new;
        } else if old >= *maximum {
            blocks::refresh(self.logits, maxima, at);
        }
    }

    fn set_sparse(&mut self, at: usize, new: f32) {
        let c = &mut self.scratch.list[at];
        if is_logit(new) {
            c.logit = new;
        } else {
            c.logit = f32::NEG_INFINITY;
            let id = c.id;
            self.break_at(id, new);
        }
        self.forget_rank();
    }

    /// The list may no longer stand in order of rank.
    fn forget_rank(&mut self) {
        if self.order == Some(Order::Rank) {
            self.order = Some(Order::Other);
        }
    }

    /// Remembers the first logit that is no number, for the chain to report.
    fn break_at(&mut self, id: TokenId, value: f32) {
        // Of several the lowest id, whatever the order in which they were met.
        match self.fault {
            Some(Fault::NonFinite(first, _)) if first <= id => {}
            Some(Fault::Exhausted) => {}
            _ => self.fault = Some(Fault::NonFinite(id, value)),
        }
    }

    /// Drops listed candidates whose logit has become -inf. Where none would be
    /// left, the chain stops after the stage; until then one stays.
    fn drop_masked(&mut self) {
        let masked = |c: &Candidate| c.logit == f32::NEG_INFINITY;
        let list = &mut self.scratch.list;
        let exhausted = match self.order {
            None => {
                let none = kernels::maximum(&self.scratch.maxima) == f32::NEG_INFINITY;
                if none {
                    self.logits[0] = 0.0;
                    blocks::refresh(self.logits, &mut self.scratch.maxima, 0);
                }
                none
            }
            Some(_) => {
                let first = list[0].id;
                list.retain(|c| !masked(c));
                if list.is_empty() {
                    list.push(Candidate { id: first, logit: 0.0 });
                    true
                } else {
                    false
                }
            }
        };
        if exhausted {
            self.fault = self.fault.or(Some(Fault::Exhausted));
        }
    }
}
