use logitchain_core::TokenId;
use logitchain_engine::{Model as _, Session};

use super::recording::{Next, Source};
use crate::{progress::Progress, report::Failure};

/// So many tokens are evaluated between two reports of progress.
const PART: usize = 64;

/// A model that continues a text, a token at a time as it is asked.
pub(crate) struct ModelSource {
    session: Session,
    /// What it has not read yet: at first the prompt.
    unread: Vec<TokenId>,
    steps: usize,
}

impl ModelSource {
    pub(crate) fn new(session: Session, prompt: &[TokenId]) -> Self {
        Self { session, unread: prompt.to_vec(), steps: 0 }
    }

    /// Why nothing follows after this token.
    fn end(&self, token: TokenId) -> Option<String> {
        if self.session.tokenizer().is_end_of_generation(token) {
            return Some(format!("the model ended the text (token {token})"));
        }
        let full = |length| self.session.position() >= length;
        let full = self.session.context_length().is_some_and(full);
        full.then(|| "the model's context is full".to_owned())
    }
}

impl Source for ModelSource {
    fn next(&mut self, before: Option<TokenId>) -> Result<Next, Failure> {
        if self.steps > 0 {
            let Some(token) = before else {
                let end = format!("the chain picks no token at step {}", self.steps);
                return Ok(Next::End(end));
            };
            if let Some(end) = self.end(token) {
                return Ok(Next::End(end));
            }
            self.unread.push(token);
        }
        let progress = Progress::new(self.unread.len());
        let (mut logits, mut read) = (Vec::new(), 0);
        for part in self.unread.chunks(PART) {
            logits = self.session.forward(part)?.to_vec();
            read += part.len();
            progress.done(read);
        }
        progress.clear();
        self.unread.clear();
        self.steps += 1;
        Ok(Next::Step { logits, token: None })
    }
}
