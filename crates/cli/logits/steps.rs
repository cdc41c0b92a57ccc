use logitchain_core::{Chain, TokenId};
use logitchain_engine::{Model as _, Session};

use super::{Logits, Recording};
use crate::report::Failure;

/// The logits, and the token that followed.
type Step = (Vec<f32>, Option<TokenId>);

/// The steps of a text, each with its logits and the token that followed, if it is
/// known.
///
/// They end early where something fails: [`finish`](Self::finish) says so.
#[derive(Debug)]
pub(crate) struct Steps<'a> {
    source: Source<'a>,
    limit: Option<usize>,
    /// Those that followed the prompt, as far as they are known.
    pub(crate) tokens: Vec<TokenId>,
    nth: usize,
    failure: Option<Failure>,
}

#[derive(Debug)]
enum Source<'a> {
    /// The chain writes the text.
    Written {
        session: Box<Session>,
        chain: Box<Chain>,
        unread: Vec<TokenId>,
    },
    Recorded(&'a mut Recording),
}

impl Logits {
    /// The steps of a text, up to so many. A text that is not recorded is the one
    /// that `chain`, which has heard the prompt, writes.
    pub(crate) fn steps(&mut self, chain: &Chain, limit: Option<usize>) -> Steps<'_> {
        let source = match self {
            Self::Prompt { model, tokens } => Source::Written {
                session: Box::new(model.session()),
                chain: Box::new(chain.clone()),
                unread: tokens.clone(),
            },
            Self::Recorded { recording, .. } => Source::Recorded(recording),
        };
        Steps { source, limit, tokens: Vec::new(), nth: 0, failure: None }
    }
}

impl Steps<'_> {
    /// The tokens of the text.
    pub(crate) fn finish(self) -> Result<Vec<TokenId>, Failure> {
        self.failure.map_or(Ok(self.tokens), Err)
    }

    fn step(&mut self) -> Result<Option<Step>, Failure> {
        match &mut self.source {
            Source::Recorded(recording) => {
                if self.nth == recording.len() {
                    return Ok(None);
                }
                Ok(Some((recording.logits(self.nth)?, recording.token(self.nth))))
            }
            Source::Written { session, chain, unread } => {
                let ended = |token: &TokenId| session.tokenizer().is_end_of_generation(*token);
                let full = session.context_length().is_some_and(|all| session.position() >= all);
                if full || self.tokens.last().is_some_and(ended) {
                    return Ok(None);
                }
                let logits = session.forward(unread)?.to_vec();
                let token = chain
                    .sample(&mut logits.clone())
                    .map_err(|source| Failure::Sample { nth: self.nth + 1, source })?;
                chain.accept(token);
                *unread = vec![token];
                Ok(Some((logits, Some(token))))
            }
        }
    }
}

impl Iterator for Steps<'_> {
    type Item = Step;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failure.is_some() || self.limit == Some(self.nth) {
            return None;
        }
        let step = self.step().unwrap_or_else(|failure| {
            self.failure = Some(failure);
            None
        })?;
        self.nth += 1;
        self.tokens.extend(step.1);
        Some(step)
    }
}
