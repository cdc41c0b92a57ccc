//! Verbs that settle on a token.

use super::{Candidate, Candidates, blocks};
use crate::{
    StageRng, TokenId,
    kernels::{self, BLOCK},
    trace::Draw,
};

impl Candidates<'_> {
    /// Chooses at random, each candidate with its probability, and spends one
    /// number of `rng`.
    ///
    /// The candidates lie side by side on a line, each as long as its
    /// probability: in order of id for the default generator; for mt19937 as in
    /// llama.cpp's array (by id, and most likely first after a stage that
    /// sorts). The one in which the number falls is chosen.
    pub fn draw(&mut self, rng: &mut StageRng) -> TokenId {
        // A draw that nobody records is one more unknown to whoever watches.
        let u = if self.record.is_some() { rng.uniform_unseen() } else { rng.uniform() };
        let id = if self.mirror { self.walk_array(u) } else { self.walk_ids(u) };
        self.choose(id);
        if self.record.is_some() {
            self.note_draw(u, id);
        }
        id
    }

    /// Notes the line on which `u` fell; the candidates lie in its order.
    #[cold]
    fn note_draw(&mut self, u: f64, id: TokenId) {
        let line: Vec<Candidate> = self.iter().collect();
        let draw = Draw::new(u, id, line, self.mirror);
        if let Some(record) = &mut self.record {
            record.draws.push(draw);
        }
    }

    /// Settles on one token. Only stages of kind
    /// [`Select`](crate::Kind::Select) do.
    pub fn choose(&mut self, id: TokenId) {
        self.chosen = Some(id);
    }

    /// The token settled on, if any.
    pub fn chosen(&self) -> Option<TokenId> {
        self.chosen
    }

    /// Replaces every logit by a function of the candidate's probability, and
    /// draws. Gives the token, and the probability that it had before.
    pub fn draw_reshaped(&mut self, rng: &mut StageRng, f: impl Fn(f32) -> f32) -> (TokenId, f32) {
        if !self.mirror {
            self.rank_ids();
        }
        self.rewrite(|_, p| f(p));
        let id = self.draw(rng);
        let at = match self.order {
            None => Some(id.index()),
            Some(_) => self.position(id),
        };
        // Nothing has moved since the probabilities were noted.
        let p = at.and_then(|at| self.scratch.before.get(at));
        (id, p.copied().unwrap_or_default())
    }

    /// The token in whose stretch of the line `u` falls, by id. Whole blocks are
    /// passed over by their masses.
    fn walk_ids(&mut self, u: f64) -> TokenId {
        self.rank_ids();
        let mut rest = u * self.mass();
        let masses = &self.scratch.masses;
        let hit = masses.iter().position(|mass| {
            let found = *mass > rest;
            rest -= if found { 0.0 } else { *mass };
            found
        });
        let index = hit.unwrap_or_else(|| {
            // Rounding kept the whole sum below the target.
            rest = f64::INFINITY;
            masses.iter().rposition(|mass| *mass > 0.0).unwrap_or_default()
        });
        let (index, mut logits) = match self.order {
            None => {
                let block = blocks::block(self.logits, index);
                let mut logits = [f32::NEG_INFINITY; BLOCK];
                logits[..block.len()].copy_from_slice(block);
                (index, logits)
            }
            Some(_) => {
                let block = blocks::listed(&self.scratch.list).nth(index).unwrap_or_default();
                let index = block.first().map_or(0, |c| c.id.index() / BLOCK);
                (index, blocks::spread_out(block))
            }
        };
        if self.divisor != 1.0 {
            kernels::divide(&mut logits, self.divisor);
        }
        let mut weights = [0.0; BLOCK];
        kernels::weights(&logits, self.best().logit, &mut weights);
        // The last token with a weight: rounding can keep the sum of a block
        // below what its mass says.
        let (mut sum, mut last) = (0.0, None);
        for (at, weight) in weights.into_iter().enumerate().filter(|(_, weight)| *weight > 0.0) {
            sum += f64::from(weight);
            last = Some(at);
            if sum > rest {
                break;
            }
        }
        last.map_or(self.best().id, |at| TokenId((index * BLOCK + at) as u32))
    }

    fn walk_array(&mut self, u: f64) -> TokenId {
        self.make_sparse();
        let target = u * self.mass();
        let best = self.best().logit;
        let mut sum = 0.0;
        let list = &self.scratch.list;
        let found = list.iter().find(|c| {
            sum += f64::from(kernels::exp_nearest(c.logit - best));
            sum >= target
        });
        found.unwrap_or(&list[list.len() - 1]).id
    }
}
