//! Random decisions in sight: while a thread watches, its coins are noted and can
//! be told how to fall, and numbers of unknown use are counted.

use std::cell::{Cell, RefCell};

use serde::Serialize;

/// A coin that a stage tossed by [`StageRng::coin`](crate::StageRng::coin).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Coin {
    /// With which it comes up true.
    pub probability: f64,
    /// How it fell.
    pub outcome: bool,
}

/// What was seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// The coins, in order.
    pub(crate) coins: Vec<Coin>,
    /// How many random numbers were drawn of which nobody knows what became.
    pub(crate) unknown: usize,
}

#[derive(Debug, Default)]
struct Watch {
    /// How the first coins have to fall, and the others as they can; `None` if all
    /// fall as they like.
    script: Option<Vec<bool>>,
    seen: Seen,
}

thread_local! {
    // A stage's stream belongs to its sampler, where nothing can be handed in; a
    // chain that is watched stays on its thread.
    static WATCHING: Cell<bool> = const { Cell::new(false) };
    static WATCH: RefCell<Watch> = RefCell::default();
}

/// Puts back, also after a panic, what was watched before.
struct Before {
    watching: bool,
    watch: Watch,
}

impl Drop for Before {
    fn drop(&mut self) {
        WATCHING.set(self.watching);
        WATCH.set(std::mem::take(&mut self.watch));
    }
}

/// Runs `f`, and gives all that was seen. With a script no coin falls by chance: the
/// first ones as it says, the others true if they can.
pub(crate) fn watching<T>(script: Option<&[bool]>, f: impl FnOnce() -> T) -> (T, Seen) {
    let new = Watch { script: script.map(<[bool]>::to_vec), seen: Seen::default() };
    let _before = Before { watching: WATCHING.replace(true), watch: WATCH.replace(new) };
    let result = f();
    (result, seen())
}

/// All that was seen so far.
pub(crate) fn seen() -> Seen {
    WATCH.with_borrow(|watch| watch.seen.clone())
}

/// Notes a coin, and says how it falls.
pub(crate) fn coin(probability: f64, outcome: bool) -> bool {
    if !WATCHING.get() {
        return outcome;
    }
    WATCH.with_borrow_mut(|Watch { script, seen }| {
        let outcome = script.as_ref().map_or(outcome, |script| {
            script.get(seen.coins.len()).copied().unwrap_or(probability > 0.0)
        });
        seen.coins.push(Coin { probability, outcome });
        outcome
    })
}

/// Notes a number of unknown use.
#[inline]
pub(crate) fn unknown() {
    if WATCHING.get() {
        WATCH.with_borrow_mut(|watch| watch.seen.unknown += 1);
    }
}
