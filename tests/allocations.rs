//! What sampling allocates: after a while nothing, and never more memory than the
//! vocabulary justifies.
#![allow(unsafe_code, reason = "an allocator that counts")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    sync::atomic::{AtomicUsize, Ordering},
};

use logitchain::{
    Batch, Chain, ChainConfig, NoVocab, Registry, RngKind, TokenId, stages::DEFAULT_ORDER,
};
use logitchain_conformance::logits;

/// Counts what each thread allocates, so that tests side by side do not disturb
/// each other.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
    static BYTES: Cell<isize> = const { Cell::new(0) };
    /// Whether the thread belongs to a pool.
    static POOLED: Cell<bool> = const { Cell::new(false) };
}

/// What all threads of pools have allocated.
static ALLOCATIONS_OF_POOLS: AtomicUsize = AtomicUsize::new(0);

fn note(allocations: usize, bytes: isize) {
    if POOLED.try_with(Cell::get) == Ok(true) {
        ALLOCATIONS_OF_POOLS.fetch_add(allocations, Ordering::Relaxed);
    }
    // A thread that ends has nothing to count any more.
    let _ = ALLOCATIONS.try_with(|n| n.set(n.get() + allocations));
    let _ = BYTES.try_with(|n| n.set(n.get() + bytes));
}

// SAFETY: everything is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(1, layout.size() as isize);
        // SAFETY: as the caller has promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        note(0, -(layout.size() as isize));
        // SAFETY: as the caller has promised.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(1, size as isize - layout.size() as isize);
        // SAFETY: as the caller has promised.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const VOCABULARY: usize = 32_000;

/// Chains with every stage, and some that keep many candidates.
fn lists() -> Vec<String> {
    let penalties = "penalties{repeat=1.1,frequency=0.1}";
    [
        "greedy",
        "temperature",
        "top_k",
        "top_k{k=20000}",
        "top_p{p=0.95}",
        "top_p{p=0.95,min_keep=9000}",
        "min_p",
        "min_p{p=0.0001}",
        "typical{p=0.9}",
        "typical{p=0.9,min_keep=9000}",
        "top_n_sigma{n=1}",
        "top_n_sigma{n=3};top_p{p=0.8}",
        "xtc{probability=1,threshold=0.0001}",
        "temperature{range=0.5};top_p{p=0.99};min_p{p=0.001}",
        "mirostat",
        "mirostat_v2",
        "adaptive_p{target=0.3}",
        "temperature;adaptive_p{target=0.3}",
        penalties,
        "dry{multiplier=0.8,breakers=[\"none\"]}",
        "logit_bias{bias=[\"7-1.5\",\"9-inf\"]}",
        DEFAULT_ORDER,
    ]
    .map(str::to_owned)
    .into()
}

fn build(list: &str, rng: RngKind) -> Chain {
    let registry = Registry::linked().expect("distinct names");
    let mut config = ChainConfig::from_samplers(list).unwrap_or_else(|e| panic!("{list}: {e}"));
    config.rng = rng;
    config.build(&registry, &NoVocab).unwrap_or_else(|e| panic!("{list}: {e}"))
}

fn run(chain: &mut Chain, memory: &mut [f32], all: &[Vec<f32>], tokens: usize) {
    for n in 0..tokens {
        memory.copy_from_slice(&all[n % all.len()]);
        let token = chain.sample(memory).expect("a token");
        // As texts do, they repeat themselves now and then.
        chain.accept(TokenId(token.0 % 100));
    }
}

#[test]
fn nothing_is_allocated_per_token_after_a_while() {
    let all = [logits::peaked(VOCABULARY), logits::flat(VOCABULARY)];
    let mut memory = vec![0.0; VOCABULARY];
    for (name, rng) in RngKind::ALL {
        for list in lists() {
            let mut chain = build(&list, rng);
            run(&mut chain, &mut memory, &all, 300);
            let before = ALLOCATIONS.get();
            run(&mut chain, &mut memory, &all, 50);
            assert_eq!(ALLOCATIONS.get() - before, 0, "`{list}` with {name}");
        }
    }
}

/// 16 bytes per entry, and a little that does not grow with it.
#[test]
fn a_chain_needs_no_more_memory_than_its_vocabulary_justifies() {
    for (name, rng) in RngKind::ALL {
        for list in lists() {
            let bytes = std::thread::spawn(move || {
                let all = [logits::peaked(VOCABULARY), logits::flat(VOCABULARY)];
                let mut memory = vec![0.0; VOCABULARY];
                let mut chain = build(&list, rng);
                let before = BYTES.get();
                run(&mut chain, &mut memory, &all, 4);
                (list, BYTES.get() - before)
            });
            let (list, bytes) = bytes.join().expect("no panic");
            let per_entry = bytes as f64 / VOCABULARY as f64;
            assert!(per_entry <= 16.5, "`{list}` with {name}: {per_entry:.2} bytes per entry");
        }
    }
}

/// Ten chains on one thread need what one does.
#[test]
fn chains_of_a_thread_share_their_memory() {
    let needed = |chains: usize| {
        std::thread::spawn(move || {
            let all = [logits::flat(VOCABULARY)];
            let mut memory = vec![0.0; VOCABULARY];
            let list = "typical{p=0.9}";
            let mut chains: Vec<Chain> =
                (0..chains).map(|_| build(list, RngKind::default())).collect();
            let before = BYTES.get();
            chains.iter_mut().for_each(|chain| run(chain, &mut memory, &all, 3));
            BYTES.get() - before
        })
        .join()
        .expect("no panic")
    };
    let (one, ten) = (needed(1), needed(10));
    assert!(one > 0 && ten < one + one / 10, "one needs {one} bytes, and ten {ten}");
}

#[test]
fn a_batch_allocates_nothing_per_step_after_a_while() {
    let lists = lists();
    let rows = lists.len();
    let all = logits::peaked(VOCABULARY).repeat(rows);
    let mut memory = all.clone();
    let mut batch = Batch::default();
    lists.iter().for_each(|list| batch.push(build(list, RngKind::default())));
    let mut step = |batch: &mut Batch, parallel: bool| {
        memory.copy_from_slice(&all);
        let tokens = match parallel {
            false => batch.sample(&mut memory, VOCABULARY, VOCABULARY),
            true => batch.par_sample(&mut memory, VOCABULARY, VOCABULARY),
        };
        assert!(tokens.expect("rows that fit").iter().all(Result::is_ok));
    };
    (0..20).for_each(|_| step(&mut batch, false));
    let before = ALLOCATIONS.get();
    (0..5).for_each(|_| step(&mut batch, false));
    assert_eq!(ALLOCATIONS.get() - before, 0);

    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(2)
        .start_handler(|_| POOLED.set(true))
        .build()
        .expect("threads");
    let counted = pool.install(|| {
        // Each thread must have met every row.
        (0..200).for_each(|_| step(&mut batch, true));
        let before = ALLOCATIONS_OF_POOLS.load(Ordering::Relaxed);
        (0..50).for_each(|_| step(&mut batch, true));
        ALLOCATIONS_OF_POOLS.load(Ordering::Relaxed) - before
    });
    assert_eq!(counted, 0);
}

/// A row that waits costs what its chain remembers: nothing of it grows with the
/// vocabulary.
#[test]
fn waiting_rows_cost_no_memory_for_logits() {
    let needed = |vocabulary: usize| {
        std::thread::spawn(move || {
            let mut memory = vec![0.0; vocabulary];
            let mut template = build(DEFAULT_ORDER, RngKind::default());
            let mut sample = |chain: &mut Chain| {
                memory.fill(1.0);
                chain.sample(&mut memory).expect("a token");
                chain.accept(TokenId(5));
            };
            sample(&mut template);
            let before = BYTES.get();
            let mut waiting: Vec<Chain> = vec![template; 1000];
            waiting.iter_mut().for_each(&mut sample);
            BYTES.get() - before
        })
        .join()
        .expect("no panic")
    };
    let (small, large) = (needed(100), needed(100_000));
    // What the thread's own memory grew by is not the rows'.
    assert!(large < small + small / 10, "{small} bytes, and {large} of a large vocabulary");
    assert!(small < 1000 * 4096, "{} bytes a row", small / 1000);
}
