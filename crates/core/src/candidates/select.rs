//! Verbs that settle on a token.

use super::{
    Candidate, Candidates, Order,
    blocks::{self, BLOCK},
    exp,
};
use crate::{StageRng, TokenId};

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

    fn walk_ids(&mut self, u: f64) -> TokenId {
        let best = self.best().logit;
        if self.order.is_none() {
            let target = u * self.mass();
            let mut sum = 0.0;
            for (block, mass) in blocks::masses(self.logits, &self.scratch.maxima, best) {
                if sum + mass > target {
                    let found = (block * BLOCK..).zip(blocks::block(self.logits, block)).find(
                        |(_, logit)| {
                            sum += f64::from(exp::exp(**logit - best));
                            sum > target
                        },
                    );
                    if let Some((id, _)) = found {
                        return TokenId(id as u32);
                    }
                } else {
                    sum += mass;
                }
            }
        } else {
            if self.order != Some(Order::Id) {
                self.scratch.list.sort_unstable_by_key(|c| c.id);
                self.order = Some(Order::Id);
                self.mass = None;
            }
            let target = u * self.mass();
            let mut sum = 0.0;
            for block in blocks::listed(&self.scratch.list) {
                let mass = blocks::mass(block, best);
                if sum + mass > target {
                    let found = block.iter().find(|c| {
                        sum += f64::from(exp::exp(c.logit - best));
                        sum > target
                    });
                    if let Some(c) = found {
                        return c.id;
                    }
                } else {
                    sum += mass;
                }
            }
        }
        // Rounding kept the sum below the target: the last that can be drawn.
        let drawable = |c: &Candidate| exp::exp(c.logit - best) > 0.0;
        self.iter().filter(drawable).last().map_or(self.best().id, |c| c.id)
    }

    fn walk_array(&mut self, u: f64) -> TokenId {
        self.make_sparse();
        let target = u * self.mass();
        let best = self.best().logit;
        let mut sum = 0.0;
        let list = &self.scratch.list;
        let found = list.iter().find(|c| {
            sum += f64::from(exp::exp_nearest(c.logit - best));
            sum >= target
        });
        found.unwrap_or(&list[list.len() - 1]).id
    }
}
