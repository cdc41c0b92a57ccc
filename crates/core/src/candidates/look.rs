//! Verbs that look and change nothing.

use super::{Candidate, Candidates, Order, SLACK, Scratch, blocks, select_top, weight};
use crate::{
    TokenId,
    kernels::{self, BLOCK, Spread},
};

impl Candidates<'_> {
    /// How many candidates remain; at least one. While nothing has been
    /// dropped this counts the unmasked logits, a read of them all.
    #[allow(clippy::len_without_is_empty, reason = "there is always a candidate")]
    pub fn len(&self) -> usize {
        match self.order {
            Some(_) => self.scratch.list.len(),
            None => {
                let count = self.count.get().unwrap_or_else(|| {
                    if self.divisor < 1.0 {
                        // What is not masked yet may be, once it is divided.
                        self.iter().count()
                    } else {
                        kernels::count_at_least(self.logits, f32::MIN)
                    }
                });
                self.count.set(Some(count));
                count
            }
        }
    }

    /// The most likely candidate.
    pub fn best(&self) -> Candidate {
        if let Some(best) = self.best.get() {
            return best;
        }
        let list = &self.scratch.list;
        let best = match self.order {
            None => {
                let maxima = &self.scratch.maxima;
                let (id, logit) = blocks::first_maximum(self.logits, self.divisor, maxima);
                Candidate { id: TokenId(id as u32), logit }
            }
            Some(Order::Rank) => list[0],
            Some(_) => list[1..]
                .iter()
                .fold(list[0], |best, c| if c.rank(&best).is_lt() { *c } else { best }),
        };
        self.best.set(Some(best));
        best
    }

    /// The logit of a token, if it is still a candidate.
    pub fn logit(&self, id: TokenId) -> Option<f32> {
        match self.order {
            None => {
                let logit = self.logits.get(id.index()).map(|logit| logit / self.divisor);
                logit.filter(|logit| *logit > f32::NEG_INFINITY)
            }
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
        let divided = |logit: &f32| logit / self.divisor;
        let dense = dense.iter().map(divided).zip((0..).map(TokenId));
        let dense = dense.map(|(logit, id)| Candidate { id, logit });
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
        } else if self.order == Some(Order::Other) {
            self.rank_ids();
        }
        match self.order {
            Some(Order::Rank) => {}
            None => self.scratch.find_top((self.logits, self.divisor), n),
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
        let (best, mass, mirror) = (self.best().logit, self.mass(), self.mirror);
        self.rank_all();
        let probability = move |logit| f64::from(weight(mirror, logit - best)) / mass;
        self.scratch.list.iter().map(move |c| (*c, probability(c.logit)))
    }

    /// How many candidates have at least the probability `p`, or one that is less
    /// than a ten-millionth part below it.
    pub fn count_probable(&mut self, p: f64) -> usize {
        if self.mirror {
            self.rank_all();
            let (best, least) = (self.best().logit, p * self.mass());
            let probable = |c: &Candidate| f64::from(weight(true, c.logit - best)) >= least;
            return self.iter().filter(probable).count();
        }
        let floor = self.floor_of(p);
        self.settle();
        match self.order {
            None => self.scratch.count_at_least(self.logits, floor),
            Some(_) => self.iter().filter(|c| c.logit >= floor).count(),
        }
    }

    /// The lowest logit that has at least the probability `p`.
    pub(super) fn floor_of(&mut self, p: f64) -> f32 {
        let best = f64::from(self.best().logit);
        let distance = libm::log(p * self.mass() * (1.0 - SLACK));
        if distance.is_nan() {
            // `p` is no probability.
            return f32::MIN;
        }
        let reaches = |logit: f32| f64::from(logit) - best >= distance;
        // The sum may round where the difference does not.
        let mut floor = (best + distance) as f32;
        while floor > f32::MIN && reaches(floor.next_down()) {
            floor = floor.next_down();
        }
        while floor < f32::INFINITY && !reaches(floor) {
            floor = floor.next_up();
        }
        floor
    }

    /// The entropy of the candidates' probabilities, in nats.
    pub fn entropy(&mut self) -> f64 {
        let best = self.best();
        // Without the best token, whose 1 would swallow the digits of a small
        // rest; the entropy of a near certainty depends on them.
        let (rest, products) = if self.mirror {
            // llama.cpp sorts wherever it measures entropy.
            self.rank_all();
            self.iter().filter(|c| c.id != best.id).fold((0.0, 0.0), |(rest, sum), c| {
                let below = c.logit - best.logit;
                let weight = f64::from(self.exp(below));
                (rest + weight, sum + weight * f64::from(below))
            })
        } else {
            self.settle();
            self.rank_ids();
            self.weighted_but(best)
        };
        (libm::log1p(rest) - products / (1.0 + rest)).max(0.0)
    }

    /// The sums over all candidates but the best of `exp(x)` and `exp(x) * x`,
    /// where `x` is how far their logits lie from its.
    fn weighted_but(&mut self, best: Candidate) -> (f64, f64) {
        let (index, at) = (best.id.index() / BLOCK, best.id.index() % BLOCK);
        // Where many are near the best, the weights will be needed too.
        let noted = self.order.is_none() && self.scratch.is_flat(best.logit);
        let Scratch { list, masses, weights, .. } = &mut *self.scratch;
        masses.clear();
        let (mut count, mut products) = (1, 0.0);
        let mut own = [f32::NEG_INFINITY; BLOCK];
        // The best's block is looked at last, without it; here as there.
        let place = match self.order {
            None => {
                masses.resize(self.logits.len().div_ceil(BLOCK), 0.0);
                let (before, rest) = self.logits.split_at(index * BLOCK);
                let (block, after) = rest.split_at(rest.len().min(BLOCK));
                own[..block.len()].copy_from_slice(block);
                weights.resize(weights.len().max(self.logits.len()), 0.0);
                let (masses_before, masses_after) = masses.split_at_mut(index);
                let (weights_before, rest) = weights.split_at_mut(index * BLOCK);
                let weights_after = &mut rest[block.len()..][..after.len()];
                for (logits, masses, weights) in [
                    (before, masses_before, weights_before),
                    (after, &mut masses_after[1..], weights_after),
                ] {
                    let weights = if noted { weights } else { &mut [] };
                    let (found, moment) = kernels::weighted(logits, best.logit, masses, weights);
                    count += found;
                    products += moment;
                }
                index
            }
            Some(_) => {
                let mut moments = [0.0, 0.0];
                let mut place = 0;
                for block in blocks::listed(list) {
                    let of = block[0].id.index() / BLOCK;
                    let mut mass = [0.0];
                    let logits = blocks::spread_out(block);
                    if of == index {
                        own = logits;
                        place = masses.len();
                    } else {
                        let (found, moment) =
                            kernels::weighted(&logits, best.logit, &mut mass, &mut []);
                        count += found;
                        moments[usize::from(of > index)] += moment;
                    }
                    masses.push(mass[0]);
                }
                products = moments[0] + moments[1];
                place
            }
        };
        own[at] = f32::NEG_INFINITY;
        let mut mass = [0.0];
        let (found, moment) = kernels::weighted(&own, best.logit, &mut mass, &mut []);
        let rest = masses.iter().sum::<f64>() + mass[0];
        // With it the block has the mass that others count on.
        own[at] = best.logit;
        kernels::masses(&own, best.logit, &mut mass);
        masses[place] = mass[0];
        if noted {
            let end = self.logits.len().min((index + 1) * BLOCK);
            let weights = &mut weights[index * BLOCK..end];
            kernels::weights(&own[..weights.len()], best.logit, weights);
            self.weighed = true;
        }
        self.mass = Some(masses.iter().sum());
        self.count.set(Some(count + found));
        (rest, products + moment)
    }

    /// The population standard deviation of the candidates' logits.
    pub fn deviation(&mut self) -> f64 {
        self.settle();
        if !self.mirror {
            self.rank_ids();
        }
        // The nearer to the mean the distances are taken from, the less of their
        // squares cancels.
        let mut from = self.mean_of_first_block();
        for _ in 0..3 {
            let Spread { count, sum, squares } = self.spread(from);
            let distance = sum / count as f64;
            let variance = squares / count as f64 - distance * distance;
            if !(1e-20..1e30).contains(&variance) {
                break;
            }
            if distance * distance < 16.0 * variance {
                return variance.sqrt();
            }
            from = (f64::from(from) + distance) as f32;
        }
        // Squares of such distances leave the range of f32, or there are none.
        let best = self.best().logit;
        if self.iter().all(|c| c.logit == best) {
            return 0.0;
        }
        let count = self.len() as f64;
        let mean = self.iter().map(|c| f64::from(c.logit)).sum::<f64>() / count;
        let squares = self.iter().map(|c| (f64::from(c.logit) - mean).powi(2)).sum::<f64>();
        (squares / count).sqrt()
    }
}

impl Candidates<'_> {
    fn mean_of_first_block(&self) -> f32 {
        let index = |c: &Candidate| c.id.index() / BLOCK;
        let mut candidates = self.iter();
        let Some(first) = candidates.next() else { return 0.0 };
        let block = candidates.take_while(|c| index(c) == index(&first));
        let (sum, count) = block.fold((f64::from(first.logit), 1.0), |(sum, count), c| {
            (sum + f64::from(c.logit), count + 1.0)
        });
        (sum / count) as f32
    }

    /// How the logits spread about one.
    fn spread(&self, from: f32) -> Spread {
        if self.order.is_none() {
            return kernels::spread(self.logits, from);
        }
        let blocks = blocks::listed(&self.scratch.list);
        blocks.fold(Spread::default(), |all, block| {
            let more = kernels::spread(&blocks::spread_out(block), from);
            Spread {
                count: all.count + more.count,
                sum: all.sum + more.sum,
                squares: all.squares + more.squares,
            }
        })
    }
}
