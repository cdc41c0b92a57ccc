use std::{cell::RefCell, rc::Rc};

use logitchain_core::{Chain, Distribution, DistributionError, SampleError, TokenId, Trace};
use logitchain_engine::TokenPicker;

/// What is to be seen of every token. More costs more time, and changes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Look {
    pub(crate) logits: bool,
    pub(crate) trace: bool,
    pub(crate) law: bool,
}

/// What was seen of the last token.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// As the model gave them.
    pub(crate) logits: Vec<f32>,
    pub(crate) trace: Option<Trace>,
    /// What the token was drawn from.
    pub(crate) law: Option<Result<Distribution, DistributionError>>,
}

/// A chain that shows what it does.
#[derive(Debug)]
pub(crate) struct Watched {
    chain: Chain,
    look: Look,
    seen: Rc<RefCell<Seen>>,
}

impl Watched {
    /// The chain, and where to look after each token.
    pub(crate) fn new(chain: Chain, look: Look) -> (Self, Rc<RefCell<Seen>>) {
        let seen = Rc::default();
        (Self { chain, look, seen: Rc::clone(&seen) }, seen)
    }
}

impl TokenPicker for Watched {
    fn sample(&mut self, logits: &mut [f32]) -> Result<TokenId, SampleError> {
        let mut seen = self.seen.borrow_mut();
        if self.look.logits {
            seen.logits.clear();
            seen.logits.extend_from_slice(logits);
        }
        if self.look.law {
            seen.law = Some(self.chain.distribution(logits));
        }
        if !self.look.trace {
            return self.chain.sample(logits);
        }
        let trace = self.chain.trace(logits);
        let token = trace.outcome().clone();
        seen.trace = Some(trace);
        token
    }

    fn accept(&mut self, token: TokenId) {
        self.chain.accept(token);
    }
}
