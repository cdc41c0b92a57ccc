//! Verbs that look and change nothing.

use std::cmp::Ordering;

use super::{Candidate, Candidates, Order, Scratch, blocks, floor_of, select_top, weight};
use crate::{TokenId, kernels};

impl Candidates<'_> {
    /// How many candidates remain; at least one. While nothing has been
    /// dropped this counts the unmasked logits, a read of them all.
    #[allow(clippy::len_without_is_empty, reason = "there is always a candidate")]
    pub fn len(&self) -> usize {
        match self.order {
            None => kernels::moments(self.logits, 0.0).0,
            Some(_) => self.scratch.list.len(),
        }
    }

    /// The most likely candidate.
    pub fn best(&self) -> Candidate {
        let list = &self.scratch.list;
        match self.order {
            None => {
                let id = blocks::first_maximum(self.logits, &self.scratch.maxima);
                Candidate { id: TokenId(id as u32), logit: self.logits[id] }
            }
            Some(Order::Rank) => list[0],
            Some(_) => list[1..]
                .iter()
                .fold(list[0], |best, c| if c.rank(&best) == Ordering::Less { *c } else { best }),
        }
    }

    /// The logit of a token, if it is still a candidate.
    pub fn logit(&self, id: TokenId) -> Option<f32> {
        match self.order {
            None => self.logits.get(id.index()).copied().filter(|logit| *logit > f32::NEG_INFINITY),
            Some(_) => self.position(id).map(|at| self.scratch.list[at].logit),
        }
    }

    /// The probability of a token among the current candidates; 0 if it is none.
    pub fn probability(&mut self, id: TokenId) -> f64 {
        let mass = self.mass();
        let best = self.best().logit;
        self.logit(id).map_or(0.0, |logit| f64::from(self.exp(logit - best)) / mass)
    }

    /// All candidates, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = Candidate> + '_ {
        let (dense, sparse): (&[f32], &[Candidate]) = match self.order {
            None => (self.logits, &[]),
            Some(_) => (&[], &self.scratch.list),
        };
        let dense = (0..).map(TokenId).zip(dense).map(|(id, &logit)| Candidate { id, logit });
        dense.filter(|c| c.logit > f32::NEG_INFINITY).chain(sparse.iter().copied())
    }

    /// All candidates, most likely first. Sorts them all: where the first few
    /// would do, [`top`](Self::top) is much cheaper.
    pub fn sorted(&mut self) -> &[Candidate] {
        self.rank_all();
        &self.scratch.list
    }

    /// The `n` most likely candidates, most likely first; fewer if there are
    /// fewer. Drops none.
    pub fn top(&mut self, n: usize) -> &[Candidate] {
        if self.mirror {
            self.rank_all();
        }
        match self.order {
            Some(Order::Rank) => {}
            None => self.scratch.find_top(self.logits, n),
            Some(_) => {
                let Scratch { list, other, spare, .. } = &mut *self.scratch;
                other.clear();
                other.extend_from_slice(list);
                select_top(other, n, spare);
            }
        }
        let Scratch { list, other, .. } = &mut *self.scratch;
        if self.order == Some(Order::Rank) {
            &list[..n.min(list.len())]
        } else {
            other.sort_unstable_by(Candidate::rank);
            other
        }
    }

    /// All candidates with their probabilities, most likely first. Sorts them
    /// all.
    pub fn ranked(&mut self) -> impl Iterator<Item = (Candidate, f64)> + '_ {
        self.rank_all();
        let (best, mass, mirror) = (self.best().logit, self.mass(), self.mirror);
        let probability = move |logit| f64::from(weight(mirror, logit - best)) / mass;
        self.scratch.list.iter().map(move |c| (*c, probability(c.logit)))
    }

    /// How many candidates have at least the probability `p`.
    pub fn count_probable(&mut self, p: f64) -> usize {
        if self.mirror {
            self.rank_all();
        }
        let (best, least) = (self.best().logit, p * self.mass());
        let mirror = self.mirror;
        let probable = |c: &&Candidate| f64::from(weight(mirror, c.logit - best)) >= least;
        if self.order.is_none() {
            self.scratch.find_at_least(self.logits, floor_of(best, least));
            self.scratch.other.iter().filter(probable).count()
        } else {
            self.scratch.list.iter().filter(probable).count()
        }
    }

    /// The entropy of the candidates' probabilities, in nats.
    pub fn entropy(&mut self) -> f64 {
        // llama.cpp sorts wherever it measures entropy.
        if self.mirror {
            self.rank_all();
        }
        let best = self.best();
        // Without the best token, whose 1 would swallow the digits of a small
        // rest; the entropy of a near certainty depends on them.
        let (rest, products) = match self.order {
            None if !self.mirror => {
                let at = best.id.index();
                let (before, after) = (&self.logits[..at], &self.logits[at + 1..]);
                let (a, b) = kernels::weighted(before, best.logit);
                let (c, d) = kernels::weighted(after, best.logit);
                (a + c, b + d)
            }
            _ => self.iter().filter(|c| c.id != best.id).fold((0.0, 0.0), |(rest, sum), c| {
                let below = c.logit - best.logit;
                let weight = f64::from(self.exp(below));
                (rest + weight, sum + weight * f64::from(below))
            }),
        };
        (libm::log1p(rest) - products / (1.0 + rest)).max(0.0)
    }

    /// The population standard deviation of the candidates' logits.
    pub fn deviation(&self) -> f64 {
        let moments = |from: f64| match self.order {
            None => kernels::moments(self.logits, from),
            Some(_) => self.iter().fold((0, 0.0, 0.0), |(count, sum, squares), c| {
                let distance = f64::from(c.logit) - from;
                (count + 1, sum + distance, squares + distance * distance)
            }),
        };
        let (count, sum, _) = moments(0.0);
        let mean = sum / count as f64;
        (moments(mean).2 / count as f64).sqrt()
    }
}
