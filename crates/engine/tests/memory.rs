//! What a vocabulary takes, in memory that is held and at most while it is read; and that
//! a scheduler's limit holds in the middle of a step too.
//!
//! A vocabulary's limits are sums of what each token must have. Whatever does not grow with
//! the vocabulary falls out, since two sizes are compared.
#![allow(unsafe_code, reason = "an allocator that counts")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[allow(dead_code, unreachable_pub, reason = "other tests use the rest")]
#[path = "../src/gguf/test_file.rs"]
mod test_file;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

use logitchain_core::{ChainConfig, Registry, TokenId, Vocab as _};
use logitchain_engine::{
    GenerateOptions, Gguf, GgufModel, GgufTokenizer, Request, Scheduler, SchedulerLimits, Special,
    Tokenizer as _,
};
use logitchain_stages as _;
use test_file::TestFile;

/// Counts the bytes that each thread has, and has had at most.
struct Counting;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

fn note(bytes: isize) {
    // A thread that ends has nothing to count any more.
    let held = HELD.try_with(|held| {
        held.set(held.get() + bytes);
        held.get()
    });
    let _ = MOST.try_with(|most| most.set(most.get().max(held.unwrap_or(0))));
}

// SAFETY: everything is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size() as isize);
        // SAFETY: as the caller has promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        note(-(layout.size() as isize));
        // SAFETY: as the caller has promised.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // A larger piece may exist before the old one is gone.
        let old = layout.size() as isize;
        let both = if size > layout.size() { old } else { 0 };
        note(size as isize - old + both);
        note(-both);
        // SAFETY: as the caller has promised.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Sizes that fill a table of a power of two to its seven eighths.
const SMALL: usize = 7 << 10;
const LARGE: usize = 7 << 14;
/// What a table takes for each entry besides the entry: a byte, and an eighth of
/// it all is free.
fn in_table(entry: f64) -> f64 {
    (entry + 1.0) * 8.0 / 7.0
}

/// Words of the letters a to z, shorter ones first.
fn words(count: usize) -> Vec<String> {
    let mut words: Vec<String> = ('a'..='z').map(String::from).collect();
    for at in 0.. {
        if words.len() >= count {
            break;
        }
        let longer = ('a'..='z').map(|last| format!("{}{last}", words[at]));
        let longer: Vec<String> = longer.collect();
        words.extend(longer);
    }
    words.truncate(count);
    words
}

fn file(model: &str, texts: &[String], more: impl FnOnce(TestFile) -> TestFile) -> Vec<u8> {
    let types = 1_i32.to_le_bytes().repeat(texts.len());
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let file = TestFile::new()
        .string("tokenizer.ggml.model", model)
        .strings("tokenizer.ggml.tokens", &texts)
        .array("tokenizer.ggml.token_type", 5, texts.len() as u64, &types);
    more(file).bytes()
}

/// Every second word has a space before it.
fn sentencepiece(count: usize) -> Vec<u8> {
    let space = |at: usize| if at.is_multiple_of(2) { "" } else { "▁" };
    let texts = words(count).into_iter().enumerate();
    let texts: Vec<String> = texts.map(|(at, word)| space(at).to_owned() + &word).collect();
    let scores: Vec<u8> = (0..count).flat_map(|at| (-(at as f32)).to_le_bytes()).collect();
    file("llama", &texts, |file| file.array("tokenizer.ggml.scores", 6, count as u64, &scores))
}

/// Every word but the letters is a merge.
fn byte_level(count: usize) -> Vec<u8> {
    let texts = words(count);
    let merges = texts[26..].iter().map(|word| word.split_at(word.len() - 1));
    let merges: Vec<String> = merges.map(|(left, right)| format!("{left} {right}")).collect();
    let merges: Vec<&str> = merges.iter().map(String::as_str).collect();
    file("gpt2", &texts, |file| {
        file.string("tokenizer.ggml.pre", "gpt-2").strings("tokenizer.ggml.merges", &merges)
    })
}

/// Bytes that are held, and that were held at most.
#[derive(Clone, Copy)]
struct Memory {
    held: isize,
    most: isize,
}

fn load(bytes: Vec<u8>) -> (GgufTokenizer, Memory) {
    // As a mapped file, which takes no memory of the program's.
    let bytes: &'static [u8] = bytes.leak();
    let before = HELD.get();
    MOST.set(before);
    let tokenizer = GgufTokenizer::from_gguf(&Gguf::from_static(bytes).unwrap()).unwrap();
    (tokenizer, Memory { held: HELD.get() - before, most: MOST.get() - before })
}

/// Bytes for each token, of those that only the larger vocabulary has, beyond
/// the bytes that the tokens stand for.
fn per_token(file: impl Fn(usize) -> Vec<u8>) -> [f64; 2] {
    let [small, large] = [SMALL, LARGE].map(|count| {
        let (tokenizer, memory) = load(file(count));
        assert_eq!(tokenizer.size(), count);
        let bytes: usize = (0..count as u32).map(|id| tokenizer.bytes(TokenId(id)).len()).sum();
        let tokens = tokenizer.encode("ace", Special::Plain);
        let text: Vec<u8> =
            tokens.iter().flat_map(|&token| tokenizer.bytes(token)).copied().collect();
        assert!(text.ends_with(b"ace"), "{}", text.escape_ascii());
        [memory.held - bytes as isize, memory.most - bytes as isize]
    });
    [0, 1].map(|at| (large[at] - small[at]) as f64 / (LARGE - SMALL) as f64)
}

fn check(kind: &str, [held, most]: [f64; 2], [needed, at_most]: [f64; 2]) {
    // A hundredth of a byte: what is rounded up, a hundred bytes in all.
    let close = |found: f64, limit: f64| found <= limit + 0.01;
    assert!(close(held, needed), "{kind}: {held:.2} bytes per token, not {needed:.2}");
    assert!(close(most, at_most), "{kind}: at most {most:.2} bytes per token, not {at_most:.2}");
}

/// Where the text begins in the file and where the bytes end, the id in the
/// table by text, and the type.
fn common() -> f64 {
    4.0 + 4.0 + in_table(4.0) + 1.0
}

/// As GGUF has it, while the file is read.
const TYPE: f64 = 4.0;

#[test]
fn a_sentencepiece_vocabulary_has_each_fact_once() {
    let needed = common() + 4.0;
    // Half of the tokens have a space, which is two bytes longer in the file.
    check("sentencepiece", per_token(sentencepiece), [needed, needed + TYPE + 1.0]);
}

#[test]
fn a_byte_level_vocabulary_has_each_fact_once() {
    // Of each merge two tokens, what they make, and the rank.
    let needed = common() + in_table(16.0);
    // Where the merge begins in the file.
    check("byte-level", per_token(byte_level), [needed, needed + TYPE + 4.0]);
}

/// The most bytes that the second of two requests with one prompt takes, beyond what is
/// held without any text, if so many texts are kept.
fn most_of_the_second(kept: usize, limit: usize) -> isize {
    let model = GgufModel::embedded();
    let registry = Registry::linked().unwrap();
    let chain = ChainConfig::from_samplers("greedy").unwrap();
    let chain = chain.build(&registry, model.tokenizer()).unwrap();
    let mut limits = SchedulerLimits::default();
    (limits.kept, limits.memory) = (kept, Some(limit));
    let mut scheduler = Scheduler::new(&model, limits);
    let without = HELD.get();
    for _ in 0..2 {
        MOST.set(HELD.get());
        let prompt = (3..203).map(TokenId).collect();
        let options = GenerateOptions { max_tokens: Some(10), ..GenerateOptions::default() };
        scheduler.submit(Request { prompt, chain: chain.clone(), options }).unwrap();
        while !scheduler.is_idle() {
            scheduler.step().unwrap();
        }
    }
    MOST.get() - without
}

#[test]
fn a_kept_text_that_lends_its_beginning_is_never_there_twice() {
    // The last token is never evaluated.
    let limit = GgufModel::embedded().cache_bytes(209);
    let [none, one] = [0, 1].map(|kept| most_of_the_second(kept, limit));
    // Without it all else is the same, and more of the prompt is read at a time.
    assert!(one <= none, "{one} bytes where a text is kept, {none} where none is, of {limit}");
}
