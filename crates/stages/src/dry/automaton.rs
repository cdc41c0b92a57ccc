use std::collections::HashMap;

use foldhash::fast::FixedState;
use logitchain_core::TokenId;

/// The state of no tokens, the first of all.
const ROOT: u32 = 0;
/// No state, or the end of a list.
const NONE: u32 = u32::MAX;

/// A state with more followers than these has them in a hash table too.
const FEW: u32 = 8;

/// The longest match that each token would continue.
pub(super) type Matches = HashMap<TokenId, Match, FixedState>;

/// How a token would continue a match.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Match {
    /// The tokens of the match.
    pub(super) length: u32,
    /// Whether no shorter end of the text can give a longer one.
    settled: bool,
}

/// All pieces of a text, and which tokens followed each: a suffix automaton
/// (Blumer et al., 1985), grown by a token at a time.
///
/// Pieces that occurred at the same places share a state. A state's link leads to
/// the longest end of its pieces that occurred at further places too, so the links
/// from `last` pass all ends of the text, longest first, and the followers only
/// become more on the way.
///
/// Pieces longer than `depth` are not told apart from their ends of that length,
/// which bounds the walk along the links.
#[derive(Clone, Debug)]
pub(super) struct Automaton {
    depth: u32,
    states: Vec<State>,
    followers: Vec<Follower>,
    /// The followers of the states that have many, by state and token: their
    /// places in `followers`.
    many: HashMap<u64, u32, FixedState>,
    /// Tokens seen.
    tokens: u32,
    /// The state of the text's end, as far back as the last break.
    last: u32,
    /// The text's end of the length that is asked for, or all that there is.
    near: End,
    /// Whether each state knows its latest place.
    dated: bool,
    notes: Option<Notes>,
}

/// What it takes to be again as at a checkpoint.
#[derive(Clone, Debug)]
struct Notes {
    states: usize,
    followers: usize,
    tokens: u32,
    last: u32,
    near: End,
    /// What was overwritten, in order.
    writes: Vec<Write>,
}

/// What stood in some place before it was overwritten.
#[derive(Clone, Copy, Debug)]
enum Write {
    State(u32, State),
    Follower(u32, Follower),
    Many(u64, Option<u32>),
}

#[derive(Clone, Copy, Debug)]
struct State {
    /// The tokens of the longest piece.
    length: u32,
    link: u32,
    /// How many tokens had been seen when a piece of the state was last seen.
    latest: u32,
    /// The number of followers.
    count: u32,
    /// The first of the list of followers.
    first: u32,
}

#[derive(Clone, Copy, Debug)]
struct Follower {
    token: TokenId,
    /// The state of the pieces with the token after them.
    target: u32,
    next: u32,
}

/// An end of the text, and the state that it belongs to.
#[derive(Clone, Copy, Debug)]
struct End {
    state: u32,
    length: u32,
}

impl Automaton {
    const ONLY_ROOT: State = State { length: 0, link: NONE, latest: 0, count: 0, first: NONE };

    /// Tells pieces of up to `depth` tokens apart. `dated`: knows when each was
    /// last seen, for which every token costs a walk along the links.
    pub(super) fn new(depth: u32, dated: bool) -> Self {
        Self {
            depth,
            states: vec![Self::ONLY_ROOT],
            followers: Vec::new(),
            many: HashMap::default(),
            tokens: 0,
            last: ROOT,
            near: End { state: ROOT, length: 0 },
            dated,
            notes: None,
        }
    }

    pub(super) fn clear(&mut self) {
        self.states.clear();
        self.states.push(Self::ONLY_ROOT);
        self.followers.clear();
        self.many.clear();
        self.tokens = 0;
        self.notes = None;
        self.break_text();
    }

    /// Notes what changes from now on.
    pub(super) fn checkpoint(&mut self) {
        let mut writes = self.notes.take().map(|notes| notes.writes).unwrap_or_default();
        writes.clear();
        self.notes = Some(Notes {
            states: self.states.len(),
            followers: self.followers.len(),
            tokens: self.tokens,
            last: self.last,
            near: self.near,
            writes,
        });
    }

    /// Goes back to the checkpoint, if there is one, and forgets it.
    pub(super) fn rollback(&mut self) {
        let Some(notes) = self.notes.take() else { return };
        for write in notes.writes.into_iter().rev() {
            match write {
                Write::State(at, state) => self.states[at as usize] = state,
                Write::Follower(at, follower) => self.followers[at as usize] = follower,
                Write::Many(key, Some(place)) => {
                    self.many.insert(key, place);
                }
                Write::Many(key, None) => {
                    self.many.remove(&key);
                }
            }
        }
        self.states.truncate(notes.states);
        self.followers.truncate(notes.followers);
        (self.tokens, self.last, self.near) = (notes.tokens, notes.last, notes.near);
    }

    /// A state that is about to change.
    fn state(&mut self, at: u32) -> &mut State {
        let state = &mut self.states[at as usize];
        if let Some(notes) = &mut self.notes
            && (at as usize) < notes.states
        {
            notes.writes.push(Write::State(at, *state));
        }
        state
    }

    fn redirect(&mut self, at: u32, target: u32) {
        let follower = &mut self.followers[at as usize];
        if let Some(notes) = &mut self.notes
            && (at as usize) < notes.followers
        {
            notes.writes.push(Write::Follower(at, *follower));
        }
        follower.target = target;
    }

    fn insert_many(&mut self, key: u64, place: u32) {
        let before = self.many.insert(key, place);
        if let Some(notes) = &mut self.notes {
            notes.writes.push(Write::Many(key, before));
        }
    }

    /// Makes room for a text of so many tokens, the first of which is still to
    /// come.
    pub(super) fn make_room(&mut self, tokens: usize) {
        // Every token adds a state and splits one at most, and a suffix automaton
        // has at most 3n - 4 followers.
        if self.states.capacity() <= 2 * tokens {
            self.states = Vec::with_capacity(2 * tokens + 1);
            self.states.push(Self::ONLY_ROOT);
        }
        if self.followers.capacity() < 3 * tokens {
            self.followers = Vec::with_capacity(3 * tokens);
        }
    }

    pub(super) fn tokens(&self) -> usize {
        self.tokens as usize
    }

    /// Takes a token over which no piece reaches and which follows none.
    pub(super) fn skip(&mut self) {
        self.tokens = self.tokens.saturating_add(1);
        self.break_text();
    }

    fn break_text(&mut self) {
        self.last = ROOT;
        self.near = End { state: ROOT, length: 0 };
    }

    /// Appends a token. `allowed` is the length that [`find`](Self::find) will ask
    /// for, always the same.
    pub(super) fn push(&mut self, token: TokenId, allowed: u32) {
        self.tokens = self.tokens.saturating_add(1);
        self.extend(token);
        if self.dated {
            let mut at = self.last;
            while at != NONE {
                let tokens = self.tokens;
                let state = self.state(at);
                state.latest = tokens;
                at = state.link;
            }
        }
        if allowed > 0 {
            self.near.length = self.near.length.min(allowed - 1);
            self.settle_near();
            if let Some(at) = self.follower(self.near.state, token) {
                self.near.state = self.followers[at as usize].target;
            }
            self.near.length += 1;
            self.settle_near();
        }
    }

    /// Goes to the state of `near` from one of longer pieces that end with it.
    fn settle_near(&mut self) {
        while let Some(length) = self.link_length(self.near.state)
            && length >= self.near.length
        {
            self.near.state = self.states[self.near.state as usize].link;
        }
    }

    fn extend(&mut self, token: TokenId) {
        if let Some(at) = self.follower(self.last, token) {
            let target = self.followers[at as usize].target;
            let length = self.states[self.last as usize].length;
            // Longer pieces than the depth may share what they share.
            let whole = length >= self.depth || self.states[target as usize].length == length + 1;
            self.last = if whole { target } else { self.split(self.last, token, target) };
        } else {
            let new = self.states.len() as u32;
            let length = self.states[self.last as usize].length + 1;
            self.states.push(State { length, ..Self::ONLY_ROOT });
            let mut at = self.last;
            let link = loop {
                if at == NONE {
                    break ROOT;
                }
                if let Some(follower) = self.follower(at, token) {
                    let target = self.followers[follower as usize].target;
                    let length = self.states[at as usize].length + 1;
                    let whole = self.states[target as usize].length == length;
                    break if whole { target } else { self.split(at, token, target) };
                }
                self.add(at, token, new);
                at = self.states[at as usize].link;
            };
            self.state(new).link = link;
            self.last = new;
        }
        while self.link_length(self.last).is_some_and(|length| length >= self.depth) {
            self.last = self.states[self.last as usize].link;
        }
    }

    /// Gives the pieces of `target` that are no longer than those of `from` with
    /// `token` a state of their own: only they occurred once more.
    fn split(&mut self, from: u32, token: TokenId, target: u32) -> u32 {
        let new = self.states.len() as u32;
        let old = self.states[target as usize];
        let length = self.states[from as usize].length + 1;
        self.states.push(State { length, count: 0, first: NONE, ..old });
        let mut next = old.first;
        while next != NONE {
            let follower = self.followers[next as usize];
            self.add(new, follower.token, follower.target);
            next = follower.next;
        }
        self.state(target).link = new;
        let mut at = from;
        while at != NONE
            && let Some(follower) = self.follower(at, token)
            && self.followers[follower as usize].target == target
        {
            self.redirect(follower, new);
            at = self.states[at as usize].link;
        }
        new
    }

    fn link_length(&self, state: u32) -> Option<u32> {
        self.states.get(self.states[state as usize].link as usize).map(|state| state.length)
    }

    fn key(state: u32, token: TokenId) -> u64 {
        u64::from(state) << 32 | u64::from(token.0)
    }

    /// The place of a state's follower.
    fn follower(&self, state: u32, token: TokenId) -> Option<u32> {
        let State { count, first, .. } = self.states[state as usize];
        if count > FEW {
            return self.many.get(&Self::key(state, token)).copied();
        }
        let mut at = first;
        while at != NONE {
            let follower = &self.followers[at as usize];
            if follower.token == token {
                return Some(at);
            }
            at = follower.next;
        }
        None
    }

    fn add(&mut self, index: u32, token: TokenId, target: u32) {
        let place = self.followers.len() as u32;
        let state = self.state(index);
        let next = std::mem::replace(&mut state.first, place);
        state.count += 1;
        let count = state.count;
        self.followers.push(Follower { token, target, next });
        if count == FEW + 1 {
            let mut at = place;
            while at != NONE {
                let Follower { token, next, .. } = self.followers[at as usize];
                self.insert_many(Self::key(index, token), at);
                at = next;
            }
        } else if count > FEW {
            self.insert_many(Self::key(index, token), place);
        }
    }

    /// For each token the longest end of the text that it once followed, of at
    /// least `allowed` and at most `longest` tokens, which is less than the depth.
    /// Of what began before the token at `start`, only what lies after that
    /// counts.
    pub(super) fn find(&self, allowed: u32, longest: u32, start: Option<u32>, found: &mut Matches) {
        if self.near.length < allowed {
            return;
        }
        // As many tokens as there are to be found.
        let near = &self.states[self.near.state as usize];
        let all = match start {
            None => near.count,
            Some(start) => {
                let inside = |f: &Follower| self.inside(f, start).is_some_and(|n| n >= allowed);
                self.followers_of(near).filter(|f| inside(f)).count() as u32
            }
        };
        let mut settled = 0;
        let mut at = self.last;
        loop {
            let state = self.states[at as usize];
            let next = self.link_length(at);
            // Followers become no fewer, and no older, on the way: those of a
            // match as long as this one are all at the next state, and a state
            // with as many as are settled has just these.
            if next.is_none_or(|next| next < longest) && state.count > settled {
                let length = state.length.min(longest);
                settled += self.find_at(&state, allowed, length, start, found);
            }
            if settled == all || next.is_none_or(|next| next < allowed) {
                return;
            }
            at = state.link;
        }
    }

    /// The same for the followers of one state. How many have been settled by it.
    fn find_at(
        &self,
        state: &State,
        allowed: u32,
        length: u32,
        start: Option<u32>,
        found: &mut Matches,
    ) -> u32 {
        let mut settled = 0;
        for follower in self.followers_of(state) {
            let inside = match start {
                None => length,
                Some(start) => match self.inside(follower, start) {
                    Some(inside) => length.min(inside),
                    None => continue,
                },
            };
            if inside < allowed {
                continue;
            }
            let best = found.entry(follower.token).or_default();
            if !best.settled {
                best.length = best.length.max(inside);
                best.settled = best.length >= length;
                settled += u32::from(best.settled);
            }
        }
        settled
    }

    fn followers_of(&self, state: &State) -> impl Iterator<Item = &Follower> {
        let at = |place: u32| self.followers.get(place as usize);
        std::iter::successors(at(state.first), move |follower| at(follower.next))
    }

    /// How many tokens stand between `start` and the follower's latest place, if
    /// any.
    fn inside(&self, follower: &Follower, start: u32) -> Option<u32> {
        // The follower was the last token when its state was last seen.
        let place = self.states[follower.target as usize].latest - 1;
        place.checked_sub(start).filter(|inside| *inside > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One state each for runs of no token up to four; longer ones are not told
    /// from those.
    #[test]
    fn a_loop_takes_no_more_memory_than_the_longest_match() {
        let mut automaton = Automaton::new(3, true);
        for _ in 0..1000 {
            automaton.push(TokenId(5), 2);
        }
        assert!(automaton.states.len() <= 5, "{}", automaton.states.len());
        assert!(automaton.followers.len() <= 5, "{}", automaton.followers.len());
        let mut found = Matches::default();
        automaton.find(2, 2, Some(0), &mut found);
        assert_eq!(found.into_iter().map(|(id, m)| (id.0, m.length)).collect::<Vec<_>>(), [(5, 2)]);
    }
}
