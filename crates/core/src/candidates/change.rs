//! Verbs that change logits.

use std::{collections::HashMap, hash::BuildHasher};

use super::{Candidate, Candidates, Fault, Order, blocks, weight};
use crate::{
    TokenId,
    kernels::{self, is_logit},
};

impl Candidates<'_> {
    /// Divides every logit by `t`, which must be positive and finite: otherwise
    /// the chain fails and names the stage.
    pub fn temper(&mut self, t: f32) {
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
            // Division keeps order, so a block's greatest logit stays its greatest.
            kernels::divide(self.logits, t);
            kernels::divide(&mut self.scratch.maxima, t);
            self.mass = None;
        } else {
            self.rescale(|logit| logit / t);
        }
    }

    /// Replaces every logit by a function of it that keeps their order.
    pub fn rescale(&mut self, f: impl Fn(f32) -> f32) {
        self.rewrite_in_place(|c| f(c.logit));
        // Rounding can make equals of neighbours, which then rank by id; only
        // llama.cpp's array leaves them as they lie.
        let ranked = |a: &Candidate, b: &Candidate| {
            if self.mirror { a.logit >= b.logit } else { a.rank(b).is_lt() }
        };
        if self.order == Some(Order::Rank) && !self.scratch.list.is_sorted_by(ranked) {
            self.forget_rank();
        }
    }

    /// Replaces every logit; `f` is given the candidate and its probability.
    pub fn rewrite(&mut self, mut f: impl FnMut(Candidate, f64) -> f32) {
        let (best, mass, mirror) = (self.best().logit, self.mass(), self.mirror);
        self.rewrite_in_place(|c| f(c, f64::from(weight(mirror, c.logit - best)) / mass));
        self.forget_rank();
    }

    /// Replaces the logit of one token, if it is still a candidate.
    pub fn update(&mut self, id: TokenId, f: impl FnOnce(f32) -> f32) {
        match self.order {
            None => {
                let at = id.index();
                if at < self.logits.len() && self.logits[at] > f32::NEG_INFINITY {
                    let new = f(self.logits[at]);
                    self.set_dense(at, new);
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
        self.mass = None;
    }

    /// Replaces the logit of every candidate that `table` names; `f` is given
    /// the logit and the table's value. Takes time in proportion to the table
    /// or to the candidates, whichever is smaller.
    pub fn adjust<T, S: BuildHasher>(
        &mut self,
        table: &HashMap<TokenId, T, S>,
        f: impl Fn(f32, &T) -> f32,
    ) {
        if self.order.is_none() {
            for (&id, value) in table {
                self.update(id, |logit| f(logit, value));
            }
            return;
        }
        for at in 0..self.scratch.list.len() {
            let Candidate { id, logit } = self.scratch.list[at];
            if let Some(value) = table.get(&id) {
                self.set_sparse(at, f(logit, value));
            }
        }
        self.drop_masked();
        self.mass = None;
    }

    fn rewrite_in_place(&mut self, mut f: impl FnMut(Candidate) -> f32) {
        let mut bad = None;
        // What is no number is masked, so that the stage can go on to its end.
        let mut check = |id, new: f32| {
            if is_logit(new) {
                return new;
            }
            if bad.is_none_or(|(first, _)| id < first) {
                bad = Some((id, new));
            }
            f32::NEG_INFINITY
        };
        match self.order {
            None => {
                for (id, logit) in (0..).map(TokenId).zip(self.logits.iter_mut()) {
                    if *logit > f32::NEG_INFINITY {
                        *logit = check(id, f(Candidate { id, logit: *logit }));
                    }
                }
                blocks::maxima(self.logits, &mut self.scratch.maxima);
            }
            Some(_) => {
                for c in &mut self.scratch.list {
                    c.logit = check(c.id, f(*c));
                }
            }
        }
        if let Some((id, value)) = bad {
            self.break_at(id, value);
        }
        self.drop_masked();
        self.mass = None;
    }

    fn set_dense(&mut self, at: usize, new: f32) {
        if is_logit(new) {
            self.logits[at] = new;
            blocks::refresh(self.logits, &mut self.scratch.maxima, at);
            if new == f32::NEG_INFINITY {
                self.drop_masked();
            }
        } else {
            self.break_at(TokenId(at as u32), new);
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
