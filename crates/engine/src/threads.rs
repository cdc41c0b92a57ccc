use std::{
    cell::Cell,
    fmt, hint,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use logitchain_core::{Batch, SampleError, TokenId};
use rayon::{ThreadPool, ThreadPoolBuilder, prelude::*};

use crate::EngineError;

/// Handing work to other threads pays from about this many multiplications
/// on.
#[cfg(not(test))]
const WORTH_SHARING: usize = 300_000;

/// The models of tests are small, and are to be divided nevertheless.
#[cfg(test)]
const WORTH_SHARING: usize = 100;

/// How often a thread looks for work in vain before it lets others run: some
/// tens of microseconds.
const PATIENCE: usize = 500;

/// More would hinder each other long before; and who asks for a hundred
/// thousand would bring down the machine.
const MOST: usize = 512;

/// The threads that compute a model, if more than the caller's own.
///
/// How work is divided never shows in a result: no sum crosses threads.
#[derive(Clone)]
pub(crate) struct Threads {
    pool: Option<Arc<ThreadPool>>,
}

/// Whether some work is to be divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Split {
    /// Not worth it.
    Whole,
    /// Into about so many parts.
    Parts(usize),
}

impl Threads {
    pub(crate) fn new(count: usize) -> Result<Self, EngineError> {
        if count <= 1 {
            return Ok(Self { pool: None });
        }
        if count > MOST {
            return Err(EngineError::TooManyThreads { count, limit: MOST });
        }
        let name = |i| format!("logitchain-{i}");
        let pool = ThreadPoolBuilder::new().num_threads(count).thread_name(name).build();
        let pool = pool.map_err(|source| EngineError::Threads { count, source })?;
        Ok(Self { pool: Some(Arc::new(pool)) })
    }

    /// Runs a computation of so many multiplications, on the pool if any of it
    /// may be divided: there, dividing is cheaper than from outside.
    pub(crate) fn run<R: Send>(&self, work: usize, compute: impl FnOnce() -> R + Send) -> R {
        match &self.pool {
            // Within another computation all threads are awake already.
            Some(pool) if pool.current_thread_index().is_some() && COMPUTES.get() => compute(),
            Some(pool) if work >= 10 * WORTH_SHARING => pool.install(|| while_awake(compute)),
            _ => compute(),
        }
    }

    /// Picks a token for each row, in a computation on all threads.
    pub(crate) fn sample<'a>(
        &self,
        batch: &'a mut Batch,
        logits: &mut [f32],
        vocabulary: usize,
    ) -> &'a [Result<TokenId, SampleError>] {
        let tokens = match &self.pool {
            Some(pool) if batch.len() > 1 && pool.current_thread_index().is_some() => {
                batch.par_sample(logits, vocabulary, vocabulary)
            }
            _ => batch.sample(logits, vocabulary, vocabulary),
        };
        tokens.expect("a row of logits for each chain")
    }

    /// How to divide so many multiplications.
    pub(crate) fn split(&self, work: usize) -> Split {
        match &self.pool {
            // Outside the pool `run` found the whole not worth sharing.
            Some(pool) if work >= WORTH_SHARING && pool.current_thread_index().is_some() => {
                // A thread that is held up leaves its last part to others.
                Split::Parts(2 * pool.current_num_threads())
            }
            _ => Split::Whole,
        }
    }

    /// Does something with each part, on all threads.
    fn for_each<T: Send>(&self, parts: Vec<T>, act: impl Fn(T) + Sync + Send) {
        parts.into_par_iter().for_each(act);
    }

    /// The same, where so many multiplications are worth it.
    pub(crate) fn each<T: Send>(
        &self,
        work: usize,
        parts: impl Iterator<Item = T>,
        act: impl Fn(T) + Sync + Send,
    ) {
        match self.split(work) {
            Split::Whole => parts.for_each(act),
            Split::Parts(_) => self.for_each(parts.collect(), act),
        }
    }
}

thread_local! {
    /// Whether the thread is in the middle of a computation, and may at most
    /// help with another.
    static COMPUTES: Cell<bool> = const { Cell::new(false) };
}

/// Computes, on a thread of a pool, while all other threads of it look for
/// parts: to wake one up takes as long as a small matrix.
fn while_awake<R: Send>(compute: impl FnOnce() -> R + Send) -> R {
    /// Whatever happens, the others are let go.
    struct Done<'a>(&'a AtomicBool, bool);

    impl Drop for Done<'_> {
        fn drop(&mut self) {
            COMPUTES.set(self.1);
            self.0.store(true, Ordering::Release);
        }
    }

    let done = AtomicBool::new(false);
    rayon::scope(|scope| {
        for _ in 1..rayon::current_num_threads() {
            scope.spawn(|_| look_for_work(&done));
        }
        let _done = Done(&done, COMPUTES.replace(true));
        compute()
    })
}

fn look_for_work(done: &AtomicBool) {
    // A thread that waits for its parts takes up whatever there is. If it began
    // to wait for another computation here, and a thread of that one for this,
    // neither would end.
    if COMPUTES.get() {
        return;
    }
    let mut in_vain = 0;
    while !done.load(Ordering::Acquire) {
        if rayon::yield_now() == Some(rayon::Yield::Executed) {
            in_vain = 0;
        } else if in_vain < PATIENCE {
            in_vain += 1;
            hint::spin_loop();
        } else {
            // Other programs may need the processor.
            thread::yield_now();
        }
    }
}

impl fmt::Debug for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.pool.as_ref().map_or(1, |pool| pool.current_num_threads());
        f.debug_tuple("Threads").field(&count).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_thousand_threads_are_refused() {
        let error = Threads::new(100_000).unwrap_err();
        assert_eq!(error.to_string(), "100000 threads are too many; at most 512 can be asked for");
    }

    #[test]
    fn computations_on_the_same_threads_do_not_wait_for_each_other() {
        let threads = Threads::new(2).unwrap();
        let compute = |number: usize| {
            threads.run(usize::MAX, || {
                for _ in 0..200 {
                    let mut parts = [number; 4];
                    threads.for_each(parts.iter_mut().collect(), |part| *part += 1);
                    assert_eq!(parts, [number + 1; 4]);
                }
                number
            })
        };
        std::thread::scope(|scope| {
            let numbers: Vec<_> = (0..6).map(|n| scope.spawn(move || compute(n))).collect();
            let numbers = numbers.into_iter().map(|number| number.join().unwrap());
            assert_eq!(numbers.collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
        });
    }

    #[test]
    fn a_panic_ends_a_computation_too() {
        let threads = Threads::new(2).unwrap();
        let run = || threads.run(usize::MAX, || panic!("on purpose"));
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        assert!(panic.is_err());
        assert_eq!(threads.run(usize::MAX, || 1), 1);
    }

    #[test]
    fn work_is_divided_only_where_it_pays() {
        let alone = Threads::new(1).unwrap();
        assert_eq!(alone.run(usize::MAX, || alone.split(usize::MAX)), Split::Whole);
        let two = Threads::new(2).unwrap();
        assert_eq!(two.run(usize::MAX, || two.split(usize::MAX)), Split::Parts(4));
        assert_eq!(two.run(usize::MAX, || two.split(WORTH_SHARING - 1)), Split::Whole);
        // The whole was not worth the way to the pool.
        assert_eq!(two.run(WORTH_SHARING, || two.split(usize::MAX)), Split::Whole);
    }
}
