//! Where a prompt's beginning can be had without reading it.

use std::ops::RangeInclusive;

use logitchain_core::TokenId;

use super::{Reading, RequestId, Writing};

/// What another text has is worth a step's wait and a copy where it is half of the
/// prompt, but for a few tokens, or so many of it.
const WORTHWHILE: RangeInclusive<usize> = 4..=32;

/// An admitted text that begins as a prompt does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) request: RequestId,
    /// How many of its tokens are the prompt's too. Never all of the prompt: the last
    /// token must be read, for its logits.
    pub(super) tokens: usize,
}

impl Source {
    /// The text that has most of a prompt's beginning, or will have it when its own
    /// prompt is read; of several the first, which has it before the others.
    pub(super) fn of(prompt: &[TokenId], writing: &[Writing], reading: &[Reading]) -> Option<Self> {
        let written = writing.iter().map(|text| (text.request, &text.text));
        let read = reading.iter().map(|text| (text.request, &text.prompt));
        let most = written.chain(read).fold(None, |most: Option<Self>, (request, text)| {
            let tokens = common(prompt, text).min(prompt.len() - 1);
            if most.is_none_or(|most| tokens > most.tokens) {
                Some(Self { request, tokens })
            } else {
                most
            }
        });
        let least = (prompt.len() / 2).clamp(*WORTHWHILE.start(), *WORTHWHILE.end());
        most.filter(|most| most.tokens >= least)
    }
}

/// How many tokens two texts have in common at their beginning.
fn common(a: &[TokenId], b: &[TokenId]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}
