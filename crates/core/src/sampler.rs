use std::fmt::Debug;

use crate::{Candidates, StageRng, TokenId};

/// A stage at run time: edits the candidates, once per generated token.
///
/// Everything that can fail has failed when the stage was built, so `apply`
/// returns nothing.
///
/// # For implementors
///
/// * Two samplers built from the same parameters and seed must behave
///   identically, on every machine.
/// * A sampler that draws does so once per `apply`, whatever the data, so that
///   what other stages drop cannot shift its stream: a token by
///   [`Candidates::draw`], a decision by [`StageRng::coin`](crate::StageRng::coin),
///   anything else by [`StageRng::uniform`](crate::StageRng::uniform).
/// * Never assume an order of the candidates: ask for it.
pub trait Sampler: Debug + Send + CloneSampler {
    /// Edits the candidates for the next token.
    fn apply(&mut self, candidates: &mut Candidates<'_>);

    /// Learns that `token` was appended to the text.
    ///
    /// Called for every prompt token too, so that penalties see the prompt.
    fn accept(&mut self, token: TokenId) {
        let _ = token;
    }

    /// Returns to the state right after construction. A sampler that draws calls
    /// [`StageRng::reset`](crate::StageRng::reset) here.
    fn reset(&mut self) {}

    /// Takes another random stream, and draws from it from now on. A sampler that
    /// draws keeps it in place of the one that it was built with.
    fn reseed(&mut self, rng: StageRng) {
        let _ = rng;
    }

    /// Notes from now on what it takes to come back to the present state, and
    /// returns true. What an earlier checkpoint noted is forgotten.
    ///
    /// Where this returns false, as it does by default, the chain copies the whole
    /// sampler instead: notes are worth their while if the state grows with the
    /// text.
    fn checkpoint(&mut self) -> bool {
        false
    }

    /// Goes back to the last [`checkpoint`](Self::checkpoint), and forgets it.
    /// Called only if that returned true, and at most once for each.
    fn rollback(&mut self) {}
}

/// Makes `Box<dyn Sampler>` cloneable; implemented for every `Sampler + Clone`.
pub trait CloneSampler {
    /// Clones the sampler, its state included, into a box.
    fn clone_box(&self) -> Box<dyn Sampler>;
}

impl<T: Sampler + Clone + 'static> CloneSampler for T {
    fn clone_box(&self) -> Box<dyn Sampler> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn Sampler> {
    fn clone(&self) -> Self {
        (**self).clone_box()
    }
}

// The trait must stay usable as `Box<dyn Sampler>`, and chains must be movable
// to another thread and cloneable for parallel sequences.
const _: () = {
    const fn assert_traits<T: Send + Clone>() {}
    assert_traits::<Box<dyn Sampler>>();
    assert_traits::<crate::Chain>();
};
