//! Verbs that settle on a token.

use super::{Candidate, Candidates, Order, blocks};
use crate::{
    StageRng, TokenId,
    kernels::{self, BLOCK},
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
        let u = rng.uniform();
        let id = if self.mirror { self.walk_array(u) } else { self.walk_ids(u) };
        self.choose(id);
        id
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

    /// The token in whose stretch of the line `u` falls, by id. Whole blocks are
    /// passed over by their masses.
    fn walk_ids(&mut self, u: f64) -> TokenId {
        if !matches!(self.order, None | Some(Order::Id)) {
            self.scratch.list.sort_unstable_by_key(|c| c.id);
            self.order = Some(Order::Id);
            self.mass = None;
        }
        let target = u * self.mass();
        let best = self.best().logit;
        let mut rest = target;
        // The last token with a weight: rounding can keep the sum of a block
        // below what its mass says.
        let mut last = self.best().id;
        let mut within = |block: &mut dyn Iterator<Item = (TokenId, f32)>, rest: f64| {
            let mut sum = 0.0;
            for (id, logit) in block {
                let weight = f64::from(kernels::exp(logit - best));
                sum += weight;
                if sum > rest {
                    return Some(id);
                }
                if weight > 0.0 {
                    last = id;
                }
            }
            None
        };
        let Self { logits, scratch, order, .. } = self;
        if order.is_none() {
            for (index, &mass) in scratch.masses.iter().enumerate() {
                if mass > rest {
                    let ids = (index * BLOCK..).map(|id| TokenId(id as u32));
                    let block = blocks::block(logits, index).iter().copied();
                    return within(&mut ids.zip(block), rest).unwrap_or(last);
                }
                rest -= mass;
            }
        } else {
            for block in blocks::listed(&scratch.list) {
                let mass = blocks::mass(block, best);
                if mass > rest {
                    let entries = block.iter().map(|c| (c.id, c.logit));
                    return within(&mut { entries }, rest).unwrap_or(last);
                }
                rest -= mass;
            }
        }
        // Rounding kept the whole sum below the target.
        let drawable = |c: &Candidate| kernels::exp(c.logit - best) > 0.0;
        self.iter().filter(drawable).last().map_or(last, |c| c.id)
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
