//! Where a prompt's beginning can be had without reading it.

use std::{collections::VecDeque, ops::RangeInclusive};

use logitchain_core::TokenId;

use super::{Reading, RequestId, Writing};
use crate::{Model as _, Session};

/// What another text has is worth a step's wait and a copy where it is half of the
/// prompt. Of a short one it must be so many tokens, and of a long one so many will do.
const WORTHWHILE: RangeInclusive<usize> = 4..=32;

/// An admitted text that begins as a prompt does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) request: RequestId,
    /// How many of its tokens are the prompt's too.
    pub(super) tokens: usize,
}

impl Source {
    /// The text that has most of a prompt's beginning, or will have it when its own
    /// prompt is read; of several the first, which has it before the others.
    pub(super) fn of(prompt: &[TokenId], writing: &[Writing], reading: &[Reading]) -> Option<Self> {
        let written = writing.iter().map(|text| (text.request, &text.text));
        let read = reading.iter().map(|text| (text.request, &text.prompt));
        let most = written.chain(read).fold(None, |most: Option<Self>, (request, text)| {
            let tokens = common(prompt, text);
            if most.is_none_or(|most| tokens > most.tokens) {
                Some(Self { request, tokens })
            } else {
                most
            }
        });
        most.filter(|most| is_worthwhile(most.tokens, prompt))
    }
}

/// Texts that are over, the latest last.
#[derive(Debug, Default)]
pub(super) struct Kept {
    texts: VecDeque<KeptText>,
}

#[derive(Debug)]
struct KeptText {
    text: Vec<TokenId>,
    session: Session,
    bytes: usize,
}

impl Kept {
    /// Keeps a text, and of all so many at most.
    pub(super) fn keep(&mut self, text: Writing, most: usize) {
        let Writing { text, session, bytes, .. } = text;
        self.texts.push_back(KeptText { text, session, bytes });
        while self.texts.len() > most {
            self.texts.pop_front();
        }
    }

    /// Forgets the oldest until all fit into so many bytes.
    pub(super) fn shrink(&mut self, bytes: usize) {
        while self.bytes() > bytes {
            self.texts.pop_front();
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.texts.iter().map(|kept| kept.bytes).sum()
    }

    /// The beginning of a prompt, if one has more of it than the `known` tokens that can
    /// be had elsewhere. That one is kept no longer.
    pub(super) fn take(&mut self, prompt: &[TokenId], known: usize) -> Option<Session> {
        let tokens = |kept: &KeptText| common(prompt, &kept.text);
        let (at, tokens) = self.texts.iter().map(tokens).enumerate().max_by_key(|(_, n)| *n)?;
        if tokens <= known || !is_worthwhile(tokens, prompt) {
            return None;
        }
        // Its memory goes over as well: a copy would be there beside it for a moment.
        let mut session = self.texts.remove(at)?.session;
        session.rewind(tokens);
        session.shrink();
        Some(session)
    }
}

fn is_worthwhile(tokens: usize, prompt: &[TokenId]) -> bool {
    tokens >= (prompt.len() / 2).clamp(*WORTHWHILE.start(), *WORTHWHILE.end())
}

/// How many tokens a prompt has in common with a text, at their beginning. The last one
/// of the prompt is none of them: it must be read, for its logits.
fn common(prompt: &[TokenId], text: &[TokenId]) -> usize {
    prompt[..prompt.len() - 1].iter().zip(text).take_while(|(a, b)| a == b).count()
}
