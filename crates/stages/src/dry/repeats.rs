use logitchain_core::TokenId;

use super::automaton::{Automaton, Matches};
use crate::Window;

/// Finds the tokens that would continue a repetition, without reading the text
/// again.
///
/// Nothing leaves an automaton. Where the window slides there are two, and the
/// newer takes over when the older has seen two windows of text and the newer
/// one.
#[derive(Clone, Debug)]
pub(super) struct Repeats {
    allowed: u32,
    /// The longest match that is told from longer ones.
    longest: u32,
    window: Window,
    older: Automaton,
    newer: Automaton,
    /// The text's first token, until it occurs again.
    first: Option<TokenId>,
    checkpoint: Option<Box<Checkpoint>>,
}

/// What the automata's own notes do not say.
#[derive(Clone, Debug)]
struct Checkpoint {
    first: Option<TokenId>,
    /// The automata of then that have been replaced since: the older first.
    replaced: Vec<Automaton>,
}

impl Repeats {
    pub(super) fn new(allowed: u32, longest: u32, window: Window) -> Self {
        let (longest, slides) = match window {
            Window::Last(n) => (longest.min(n), true),
            Window::All => (longest, false),
        };
        let automaton = Automaton::new(longest.saturating_add(1), slides);
        Self {
            allowed,
            longest,
            window,
            older: automaton.clone(),
            newer: automaton,
            first: None,
            checkpoint: None,
        }
    }

    /// The number of tokens in the window.
    pub(super) fn len(&self) -> usize {
        match self.window {
            Window::Last(n) => self.older.tokens().min(n as usize),
            Window::All => self.older.tokens(),
        }
    }

    /// Appends a token. `breaks`: no match reaches over it, and it continues none.
    pub(super) fn push(&mut self, token: TokenId, breaks: bool) {
        match self.older.tokens() {
            0 => self.first = Some(token),
            _ if self.first == Some(token) => self.first = None,
            _ => {}
        }
        let allowed = self.allowed;
        let take = |automaton: &mut Automaton| {
            if breaks { automaton.skip() } else { automaton.push(token, allowed) }
        };
        if let Window::Last(n) = self.window {
            let n = n as usize;
            if self.older.tokens() == n {
                // So that its lists never grow while they are in use.
                self.newer.make_room(2 * n);
            }
            if self.older.tokens() >= n {
                take(&mut self.newer);
            }
        }
        take(&mut self.older);
        if let Window::Last(n) = self.window
            && self.older.tokens() / 2 >= n as usize
        {
            std::mem::swap(&mut self.older, &mut self.newer);
            match &mut self.checkpoint {
                Some(checkpoint) if checkpoint.replaced.len() < 2 => {
                    let new = Automaton::new(self.longest.saturating_add(1), true);
                    checkpoint.replaced.push(std::mem::replace(&mut self.newer, new));
                }
                _ => self.newer.clear(),
            }
        }
    }

    /// Lists the longest match that each token would continue, of those that
    /// reach back no further than `reach`.
    pub(super) fn find(&self, reach: usize, found: &mut Matches) {
        found.clear();
        let longest = (self.longest as usize).min(reach) as u32;
        let start = match self.window {
            Window::Last(_) => Some((self.older.tokens() - self.len()) as u32),
            Window::All => None,
        };
        self.older.find(self.allowed, longest, start, found);
        // The first token follows nothing, not even a match of no tokens.
        if start.is_none()
            && let Some(first) = self.first
        {
            found.remove(&first);
        }
    }

    pub(super) fn clear(&mut self) {
        self.checkpoint = None;
        self.older.clear();
        self.newer.clear();
    }

    /// Notes what changes from now on.
    pub(super) fn checkpoint(&mut self) {
        self.checkpoint = Some(Box::new(Checkpoint { first: self.first, replaced: Vec::new() }));
        self.older.checkpoint();
        self.newer.checkpoint();
    }

    /// Goes back to the checkpoint, if there is one, and forgets it.
    pub(super) fn rollback(&mut self) {
        let Some(checkpoint) = self.checkpoint.take() else { return };
        let mut replaced = checkpoint.replaced.into_iter();
        if let Some(older) = replaced.next() {
            self.newer = std::mem::replace(&mut self.older, older);
        }
        if let Some(newer) = replaced.next() {
            self.newer = newer;
        }
        self.first = checkpoint.first;
        self.older.rollback();
        self.newer.rollback();
    }
}
