//! What a text shows of its tokens, and when it ends: the same for a text alone and for
//! one among many.

use logitchain_core::TokenId;

use crate::{GenerateOptions, StopReason, Tokenizer, Utf8Stream};

/// A text that is being written.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    options: GenerateOptions,
    characters: Utf8Stream,
    tokens: usize,
}

impl Ending {
    pub(crate) fn new(options: GenerateOptions) -> Self {
        Self { options, ..Self::default() }
    }

    /// Whether no token is wanted at all.
    pub(crate) fn is_over_at_once(&self) -> bool {
        self.options.max_tokens == Some(0)
    }

    /// What there is to show after a token, and why it is the last, if it is. `full`:
    /// the text has no room for the token.
    pub(crate) fn push(
        &mut self,
        token: TokenId,
        tokenizer: &dyn Tokenizer,
        full: bool,
    ) -> (String, Option<StopReason>) {
        let Self { options, characters, tokens } = self;
        *tokens += 1;
        let mut text = String::new();
        let mut reason = None;
        if tokenizer.is_end_of_generation(token) {
            reason = Some(StopReason::EndOfGeneration(token));
        } else if options.show_special || !tokenizer.is_special(token) {
            let (bytes, stop) = options.stops.push(tokenizer.bytes(token));
            text += &characters.push(&bytes);
            reason = stop.map(|stop| StopReason::StopString(options.stops.text(stop).to_owned()));
        }
        let limit = options.max_tokens.is_some_and(|max| *tokens >= max);
        let reason = reason
            .or_else(|| limit.then_some(StopReason::TokenLimit))
            .or_else(|| full.then_some(StopReason::ContextFull));
        if reason.is_some() {
            text += &characters.push(&options.stops.finish());
            text += characters.finish();
        }
        (text, reason)
    }
}
