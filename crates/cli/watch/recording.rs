use logitchain_core::{Chain, TokenId};

use crate::report::Failure;

/// So many bytes of logits are kept: a changed chain is run again over all steps
/// before the one that is looked at.
const MEMORY: usize = 256 << 20;

/// Where logits come from, step by step.
pub(crate) trait Source {
    /// The next step, after `before` has followed the one before it.
    fn next(&mut self, before: Option<TokenId>) -> Result<Next, Failure>;

    /// Whether any step can be had without those before it: how many there are, and
    /// what to say at their end.
    fn rows(&self) -> Option<(usize, String)> {
        None
    }

    /// Goes to one of these, which then is the next.
    fn seek(&mut self, _row: usize) {}
}

/// What a [`Source`] has next.
#[derive(Debug)]
pub(crate) enum Next {
    /// Logits, and the token that followed them where that is known.
    Step { logits: Vec<f32>, token: Option<TokenId> },
    /// Nothing more, for this reason.
    End(String),
}

/// The steps that have been seen, and the way to more of them.
pub(crate) struct Recording<'a> {
    prompt: Vec<TokenId>,
    steps: Vec<Recorded>,
    end: Option<String>,
    source: Box<dyn Source + 'a>,
    /// The given chain, as the last step left it.
    chain: Chain,
    /// Whether every step stands for itself, with no text before it.
    alone: bool,
    memory: usize,
}

/// One step.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorded {
    /// None of a row that is not looked at.
    pub(crate) logits: Vec<f32>,
    /// What followed: the known token or the given chain's; none where that fails.
    pub(crate) token: Option<TokenId>,
}

impl<'a> Recording<'a> {
    /// A text that begins with these tokens. `chain` is the given one, as built.
    pub(crate) fn of_text(
        prompt: Vec<TokenId>,
        mut chain: Chain,
        source: Box<dyn Source + 'a>,
    ) -> Self {
        prompt.iter().for_each(|token| chain.accept(*token));
        Self { prompt, alone: false, ..Self::of_rows(chain, source) }
    }

    /// Steps that have nothing to do with each other.
    pub(crate) fn of_rows(chain: Chain, source: Box<dyn Source + 'a>) -> Self {
        let (count, end) = source.rows().unzip();
        let steps = vec![Recorded::default(); count.unwrap_or_default()];
        Self { prompt: Vec::new(), steps, end, source, chain, alone: true, memory: MEMORY }
    }

    /// Goes on until there is a step of this number, counted from 0. If there is
    /// none, [`end`](Self::end) says why.
    pub(crate) fn reach(&mut self, nth: usize) -> Result<bool, Failure> {
        if self.steps.get(nth).is_some_and(|step| step.logits.is_empty()) {
            self.source.seek(nth);
            if let Next::Step { logits, token } = self.source.next(None)? {
                let step = self.record(logits, token);
                // No other is needed meanwhile.
                self.steps.fill(Recorded::default());
                self.steps[nth] = step;
            }
        }
        while nth >= self.steps.len() && self.end.is_none() {
            let kept: usize = self.steps.iter().map(|step| size_of_val(&*step.logits)).sum();
            if kept >= self.memory {
                let (steps, memory) = (self.steps.len(), self.memory);
                let memory = match memory >> 20 {
                    0 => format!("{memory} bytes"),
                    mebibytes => format!("{mebibytes} MiB"),
                };
                self.end = Some(format!("the logits of {steps} steps fill the {memory} kept"));
                break;
            }
            match self.source.next(self.steps.last().and_then(|step| step.token))? {
                Next::End(reason) => self.end = Some(reason),
                Next::Step { logits, token } => {
                    let step = self.record(logits, token);
                    self.steps.push(step);
                }
            }
        }
        Ok(nth < self.steps.len())
    }

    /// A step, with the token that followed; the chain's own where none is known.
    fn record(&mut self, logits: Vec<f32>, token: Option<TokenId>) -> Recorded {
        if self.alone {
            self.chain.reset();
        }
        let own = self.chain.sample(&mut logits.clone()).ok();
        let token = token.or(own);
        token.into_iter().for_each(|token| self.chain.accept(token));
        Recorded { logits, token }
    }

    /// Whether a step of this number is still to be computed or read.
    pub(crate) fn is_new(&self, nth: usize) -> bool {
        nth >= self.steps.len() && self.end.is_none()
    }

    /// The tokens in front of the first step.
    pub(crate) fn prompt(&self) -> &[TokenId] {
        &self.prompt
    }

    /// The steps whose tokens stand in front of this one.
    pub(crate) fn before(&self, nth: usize) -> &[Recorded] {
        if self.alone { &[] } else { &self.steps[..nth] }
    }

    pub(crate) fn steps(&self) -> &[Recorded] {
        &self.steps
    }

    /// Why there are no more steps than these, once that is known.
    pub(crate) fn end(&self) -> Option<&str> {
        self.end.as_deref()
    }

    #[cfg(test)]
    pub(crate) fn limit_memory(&mut self, bytes: usize) {
        self.memory = bytes;
    }
}
