//! Files from strangers: damaged at every level, none may panic, and none may
//! get more memory than it has bytes to show for.
//!
//! `LOGITCHAIN_FUZZ_SECONDS=3600 cargo test --release --test hostile_files --
//! --ignored --nocapture` goes on for an hour.
#![allow(unsafe_code, reason = "an allocator that measures")]

#[allow(dead_code, reason = "other tests use the rest")]
#[path = "architectures/models.rs"]
mod models;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    num::NonZero,
    ops::Range,
    time::{Duration, Instant},
};

use logitchain_core::TokenId;
use logitchain_engine::{
    EMBEDDED_GGUF, Gguf, GgufModel, LoadOptions, Model as _, RecommendedSampling, Special,
};
use proptest::{prelude::*, sample::Index};

/// Remembers the largest piece of memory that a thread asked for.
struct Measuring;

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

fn note(bytes: usize) {
    // A thread that ends has nothing to measure any more.
    let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(bytes)));
}

// SAFETY: everything is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Measuring {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: as the caller has promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as the caller has promised.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size);
        // SAFETY: as the caller has promised.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static MEASURING: Measuring = Measuring;

/// A sound file, and where its levels are.
struct Sample {
    bytes: Vec<u8>,
    /// Magic number, version and counts; keys and values; tensors' entries; data.
    levels: [Range<usize>; 4],
    /// Where keys, lengths, types and numbers begin in keys and entries.
    fields: Vec<usize>,
}

/// Walks through a sound file as the format is specified.
struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
    fields: Vec<usize>,
}

impl Walk<'_> {
    fn number(&mut self, bytes: usize) -> u64 {
        self.fields.push(self.at);
        let mut number = [0; 8];
        number[..bytes].copy_from_slice(&self.bytes[self.at..][..bytes]);
        self.at += bytes;
        u64::from_le_bytes(number)
    }

    fn text(&mut self) {
        let length = self.number(8) as usize;
        self.fields.push(self.at);
        self.at += length;
    }

    fn value(&mut self, kind: u64) {
        match kind {
            8 => self.text(),
            9 => {
                let (kind, count) = (self.number(4), self.number(8));
                let known = self.fields.len();
                (0..count).for_each(|_| self.value(kind));
                // A few of many elements.
                self.fields.truncate(known + 8);
            }
            _ => {
                let sizes = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8];
                self.number(sizes[kind as usize]);
            }
        }
    }
}

impl Sample {
    fn new(bytes: Vec<u8>) -> Self {
        let mut walk = Walk { bytes: &bytes, at: 4, fields: vec![0] };
        walk.number(4);
        let (tensors, values) = (walk.number(8), walk.number(8));
        let header = walk.at;
        for _ in 0..values {
            walk.text();
            let kind = walk.number(4);
            walk.value(kind);
        }
        let keys = walk.at;
        for _ in 0..tensors {
            walk.text();
            let rank = walk.number(4);
            for _ in 0..rank {
                walk.number(8);
            }
            walk.number(4);
            walk.number(8);
        }
        let (entries, fields) = (walk.at, walk.fields);
        let levels = [0..header, header..keys, keys..entries, entries..bytes.len()];
        Self { bytes, levels, fields }
    }
}

/// Something that happens to a file.
#[derive(Clone, Debug)]
enum Damage {
    /// A bit turns over.
    Bit { level: usize, at: Index, bit: u8 },
    /// A number, a length or a type becomes another.
    Number { field: Index, bytes: usize, value: u64 },
    /// A number grows or shrinks a little.
    Near { field: Index, by: i8 },
    /// Some bytes are gone.
    Gap { level: usize, at: Index, length: usize },
    /// Some bytes stand once more, somewhere.
    Copy { from: Index, to: Index, length: usize },
    /// The file ends early.
    End { at: Index },
}

fn damage() -> impl Strategy<Value = Damage> {
    let level = || 0..4_usize;
    let telling = prop::sample::select(vec![
        0,
        1,
        2,
        3,
        5,
        7,
        8,
        9,
        12,
        16,
        31,
        64,
        255,
        256,
        1 << 16,
        i64::from(i32::MAX) as u64,
        u64::from(u32::MAX),
        1 << 32,
        1 << 48,
        i64::MAX as u64,
        u64::MAX - 31,
        u64::MAX,
        // Numbers as f32: NaN, infinity, a large one, one close to 0, -1.
        0x7fc0_0000,
        0x7f80_0000,
        0x7f00_0000,
        1,
        0xbf80_0000,
    ]);
    prop_oneof![
        3 => (level(), any::<Index>(), 0..8_u8)
            .prop_map(|(level, at, bit)| Damage::Bit { level, at, bit }),
        6 => (any::<Index>(), prop::sample::select(vec![1_usize, 2, 4, 8]), telling)
            .prop_map(|(field, bytes, value)| Damage::Number { field, bytes, value }),
        3 => (any::<Index>(), any::<i8>()).prop_map(|(field, by)| Damage::Near { field, by }),
        1 => (level(), any::<Index>(), 1..70_usize)
            .prop_map(|(level, at, length)| Damage::Gap { level, at, length }),
        1 => (any::<Index>(), any::<Index>(), 1..70_usize)
            .prop_map(|(from, to, length)| Damage::Copy { from, to, length }),
        1 => any::<Index>().prop_map(|at| Damage::End { at }),
    ]
}

impl Damage {
    fn to(&self, sample: &Sample, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        let within = |level: usize, at: &Index, length: usize| {
            let range = &sample.levels[level];
            let place = range.start + at.index(range.len().max(1));
            place.min(length - 1)
        };
        match self {
            Self::Bit { level, at, bit } => {
                let at = within(*level, at, bytes.len());
                bytes[at] ^= 1 << bit;
            }
            Self::Number { field, bytes: count, value } => {
                let at = *field.get(&sample.fields);
                for (to, from) in bytes.iter_mut().skip(at).zip(&value.to_le_bytes()[..*count]) {
                    *to = *from;
                }
            }
            Self::Near { field, by } => {
                if let Some(byte) = bytes.get_mut(*field.get(&sample.fields)) {
                    *byte = byte.wrapping_add_signed(*by);
                }
            }
            Self::Gap { level, at, length } => {
                let at = within(*level, at, bytes.len());
                bytes.drain(at..(at + length).min(bytes.len()));
            }
            Self::Copy { from, to, length } => {
                let from = from.index(bytes.len());
                let piece = bytes[from..(from + length).min(bytes.len())].to_vec();
                let to = to.index(bytes.len());
                bytes.splice(to..to, piece);
            }
            Self::End { at } => bytes.truncate(at.index(bytes.len())),
        }
    }
}

/// Does with a file whatever can be done, as far as it goes. Whether it is a
/// model.
fn use_up(bytes: Vec<u8>) -> bool {
    let length = bytes.len();
    LARGEST.set(0);
    let runs = run(bytes);
    // The table of merges is the largest: 17 bytes for each, of which more than
    // half may be free, for strings that take eight bytes in the file or more.
    let (largest, limit) = (LARGEST.get(), 5 * length + (1 << 20));
    assert!(largest <= limit, "{largest} bytes at once for a file of {length}");
    runs
}

fn run(bytes: Vec<u8>) -> bool {
    let Ok(gguf) = Gguf::from_bytes(bytes) else { return false };
    for key in gguf.keys() {
        let _ = (gguf.string(key), gguf.bool(key), gguf.u32(key), gguf.f32(key));
        let _ = (gguf.strings(key), gguf.f32s(key), gguf.i32s(key));
    }
    let _ = RecommendedSampling::read(&gguf);
    let mut options = LoadOptions::default();
    options.threads = Some(NonZero::<usize>::MIN);
    // What a text needs is the text's business, not the file's.
    options.context = NonZero::new(16);
    let Ok(model) = GgufModel::from_gguf(&gguf, &options) else { return false };
    let tokenizer = model.tokenizer();
    for special in [Special::Plain, Special::Parse] {
        let tokens = tokenizer.encode("The <s> end.\n  héé 東京</s>", special);
        assert!(tokens.iter().all(|&token| token.index() < tokenizer.size()));
    }
    let mut session = model.session();
    let _ = session.forward(&[TokenId(0), TokenId(3), TokenId(2)]);
    session.rewind(1);
    let _ = session.forward(&[TokenId(1)]);
    true
}

/// Every kind of model, and the one in the program.
fn samples() -> Vec<Sample> {
    let files = models::cases().into_iter().map(|case| case.bytes);
    files.chain([EMBEDDED_GGUF.to_vec()]).map(Sample::new).collect()
}

fn damaged(sample: &Sample, damages: &[Damage]) -> Vec<u8> {
    let mut bytes = sample.bytes.clone();
    damages.iter().for_each(|damage| damage.to(sample, &mut bytes));
    bytes
}

#[test]
fn damaged_models_of_all_architectures_neither_panic_nor_take_more_memory_than_they_have() {
    let samples = samples();
    for sample in &samples {
        assert!(use_up(sample.bytes.clone()), "a sound file is a model");
    }
    let config = ProptestConfig::with_cases(300);
    proptest!(config, |(which in any::<Index>(), damages in prop::collection::vec(damage(), 1..5))| {
        // All but the one in the program, which takes its time.
        let sample = which.get(&samples[..samples.len() - 1]);
        use_up(damaged(sample, &damages));
    });
}

/// Goes on from the batch that `LOGITCHAIN_FUZZ_FIRST` names, which is how to see
/// a fault again.
#[test]
#[ignore = "goes on for as long as LOGITCHAIN_FUZZ_SECONDS says"]
fn damaged_models_for_a_long_time() {
    use proptest::{
        strategy::ValueTree as _,
        test_runner::{RngAlgorithm, TestRng, TestRunner},
    };
    const BATCH: u64 = 10_000;

    let number = |name| std::env::var(name).map(|n| n.parse::<u64>().expect("a number"));
    let seconds = number("LOGITCHAIN_FUZZ_SECONDS").expect("LOGITCHAIN_FUZZ_SECONDS");
    let first = number("LOGITCHAIN_FUZZ_FIRST").unwrap_or(0);
    let samples = samples();
    let strategy = (any::<Index>(), prop::collection::vec(damage(), 1..6));
    let (start, mut models) = (Instant::now(), 0_u64);
    for batch in first.. {
        if start.elapsed() >= Duration::from_secs(seconds) {
            break;
        }
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&batch.to_le_bytes());
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
        let mut runner = TestRunner::new_with_rng(ProptestConfig::default(), rng);
        for _ in 0..BATCH {
            let (which, damages) = strategy.new_tree(&mut runner).expect("a file").current();
            let at = which.index(samples.len());
            let bytes = damaged(&samples[at], &damages);
            match std::panic::catch_unwind(|| use_up(bytes)) {
                Ok(model) => models += u64::from(model),
                Err(_) => panic!("batch {batch}, sample {at}: {damages:?}"),
            }
        }
        let files = (batch - first + 1) * BATCH;
        println!("batch {batch}: {files} files, {models} of them models, {:?}", start.elapsed());
    }
}
