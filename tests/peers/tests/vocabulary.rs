//! What hangs on a model's vocabulary: tokens of texts, the text of tokens, and
//! the stages that ask for it.

use std::{
    collections::{BTreeSet, HashMap},
    path::Path,
};

use logitchain_core::{Candidates, Registry, RngKind, Scratch, TokenId, Vocab};
use logitchain_engine::{Special, Tokenizer as _, prompt_tokens};
use logitchain_peers::{
    gguf,
    llama::{Entry, Model, Sampler},
    models::{self, Words},
    stages::Stage,
    texts,
};
use logitchain_stages as _;
use rand::{RngExt as _, SeedableRng as _, seq::IndexedRandom as _};
use rand_xoshiro::Xoshiro256PlusPlus;

type Random = Xoshiro256PlusPlus;

fn ids(tokens: &[TokenId]) -> Vec<u32> {
    tokens.iter().map(|token| token.0).collect()
}

fn same_tokens(path: &Path) {
    let tokens = same_tokens_of(path, 2000);
    println!("2000 texts plain and parsed, {tokens} tokens");
}

/// The tokens' bytes are the text, but for a space that a vocabulary may put in
/// front, and bytes for which there is no token.
fn gives_back(ours: &logitchain_engine::GgufTokenizer, tokens: &[u32], text: &str) {
    let whole = ours.try_encode_parts(&[(text, Special::Plain)]).is_ok();
    let bytes: Vec<u8> = tokens.iter().flat_map(|&id| ours.bytes(TokenId(id)).to_vec()).collect();
    // Each special token may have a space put behind it.
    let spaces = |bytes: &[u8]| bytes.iter().filter(|&&byte| byte != b' ').copied().collect();
    let (found, expected): (Vec<u8>, Vec<u8>) = (spaces(&bytes), spaces(text.as_bytes()));
    assert!(!whole || found == expected, "{text:?} comes back as {}", bytes.escape_ascii());
}

/// Returns how many tokens there were.
fn same_tokens_of(path: &Path, texts: u64) -> usize {
    let model = Model::load_vocabulary(path);
    let ours = models::tokenizer(path);
    let (mut tokens, mut specials) = (0, 0);
    for number in 0..texts {
        let text = texts::text(number);
        for (special, parse) in [(Special::Plain, false), (Special::Parse, true)] {
            let theirs = model.tokenize(text.as_bytes(), false, parse);
            let own = ids(&ours.encode(&text, special));
            assert_eq!(own, theirs, "text {number}, {special:?}: {text:?}");
            gives_back(&ours, &own, &text);
            tokens += own.len();
            specials += own.iter().filter(|token| ours.is_special(TokenId(**token))).count();
            if let Ok(own) = prompt_tokens(&ours, &text, special) {
                let mut theirs = model.tokenize(text.as_bytes(), true, parse);
                // llama.cpp begins a text that brings the token along once more.
                let begin = ours.beginning_of_text().map(|token| token.0);
                if begin.is_some() && theirs.get(1) == begin.as_ref() {
                    theirs.remove(0);
                }
                assert_eq!(ids(&own), theirs, "text {number} as a prompt: {text:?}");
            }
        }
        let plain = model.tokenize(text.as_bytes(), false, false);
        assert_eq!(ids(&ours.tokenize(text.as_bytes())), plain, "text {number}: {text:?}");
    }
    assert!(specials > 100, "only {specials} special tokens");
    tokens
}

#[test]
fn the_embedded_models_texts_have_llama_cpps_tokens() {
    same_tokens(&models::embedded());
}

#[test]
#[ignore = "needs SmolLM2, which is not part of the repository"]
fn smollm2s_texts_have_llama_cpps_tokens() {
    same_tokens(&models::smollm2());
}

#[test]
#[ignore = "needs Gemma 3, which is not part of the repository"]
fn gemma_3s_texts_have_llama_cpps_tokens() {
    same_tokens(&models::gemma3());
}

/// The same tokens behind every other pre-tokenizer.
fn same_tokens_behind_each_pre_tokenizer(path: &Path, texts: u64) {
    let file = std::fs::read(path).expect("the model");
    let mut counts = std::collections::BTreeSet::new();
    for (_, _, names) in logitchain_engine::Supported::new().tokenizers {
        for name in names {
            let changed = gguf::with_text(&file, "tokenizer.ggml.pre", name);
            let file_name = format!("{name}-{}", path.file_name().expect("a name").display());
            let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(file_name);
            std::fs::write(&path, changed).expect("room for the file");
            let tokens = same_tokens_of(&path, texts);
            std::fs::remove_file(&path).expect("the file is there");
            println!("{name}: {tokens} tokens");
            counts.insert(tokens);
        }
    }
    // Or it does not matter which is used.
    assert!(counts.len() > 4, "{counts:?}");
}

#[test]
fn the_embedded_models_texts_have_llama_cpps_tokens_behind_each_pre_tokenizer() {
    same_tokens_behind_each_pre_tokenizer(&models::embedded(), 2000);
}

#[test]
#[ignore = "needs SmolLM2, which is not part of the repository"]
fn smollm2s_texts_have_llama_cpps_tokens_behind_each_pre_tokenizer() {
    same_tokens_behind_each_pre_tokenizer(&models::smollm2(), 2000);
}

fn same_pieces(path: &Path) {
    let model = Model::load_vocabulary(path);
    let Words { ours, theirs } = Words::of(path, &model);
    assert_eq!(ours.size(), theirs.size());
    // Of several tokens that may end a turn, llama.cpp takes the first in the
    // order of a hash table, and we the first in the order of a list.
    for vocab in [&ours as &dyn Vocab, &theirs] {
        let end = vocab.end_of_turn().expect("both models have one");
        assert!(ours.is_end_of_generation(end), "token {end}");
        println!("the turn ends with {}", ours.bytes(end).escape_ascii());
    }
    let mut ends = 0;
    for token in (0..ours.size() as u32).map(TokenId) {
        assert_eq!(ours.bytes(token), theirs.bytes(token), "token {token}");
        assert_eq!(ours.is_special(token), theirs.is_special(token), "token {token}");
        let end = ours.is_end_of_generation(token);
        assert_eq!(end, theirs.is_end_of_generation(token), "token {token}");
        ends += usize::from(end);
    }
    assert!(ends > 0, "no token ends a generation");
    println!("{} tokens, {ends} of them end a generation", ours.size());
}

#[test]
fn the_embedded_models_tokens_are_what_they_are_in_llama_cpp() {
    same_pieces(&models::embedded());
}

#[test]
#[ignore = "needs SmolLM2, which is not part of the repository"]
fn smollm2s_tokens_are_what_they_are_in_llama_cpp() {
    same_pieces(&models::smollm2());
}

#[test]
#[ignore = "needs Gemma 3, which is not part of the repository"]
fn gemma_3s_tokens_are_what_they_are_in_llama_cpp() {
    same_pieces(&models::gemma3());
}

/// Small, and with texts that Gemma's lacks.
#[test]
fn a_sentencepiece_vocabulary_is_what_it_is_in_llama_cpp() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sentencepiece.gguf");
    std::fs::write(&path, gguf::sentencepiece()).expect("room for the file");
    same_pieces(&path);
    same_tokens(&path);
}

/// Its special tokens take white space behind them away.
#[test]
fn a_vocabulary_of_phi_3_has_llama_cpps_tokens() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("phi-3.gguf");
    std::fs::write(&path, gguf::sentencepiece_of("Phi-3 mini")).expect("room for the file");
    let model = Model::load_vocabulary(&path);
    let ours = models::tokenizer(&path);
    let mut stripped = 0;
    for number in 0..2000 {
        let text = texts::text(number);
        for (special, parse) in [(Special::Plain, false), (Special::Parse, true)] {
            let theirs = model.tokenize(text.as_bytes(), false, parse);
            let own = ids(&ours.encode(&text, special));
            assert_eq!(own, theirs, "text {number}, {special:?}: {text:?}");
            let bytes: usize = own.iter().map(|&id| ours.bytes(TokenId(id)).len()).sum();
            stripped += usize::from(bytes < text.len());
        }
    }
    assert!(stripped > 50, "{stripped} texts lost white space");
}

fn normal(rng: &mut Random) -> f32 {
    (0..12).map(|_| rng.random::<f32>()).sum::<f32>() - 6.0
}

/// What a stage of ours leaves of logits, by id.
fn apply(sampler: &mut dyn logitchain_core::Sampler, logits: &[f32]) -> Vec<Entry> {
    let (mut logits, mut scratch) = (logits.to_vec(), Scratch::default());
    let candidates = Candidates::for_draws_by(RngKind::Mt19937, &mut logits, &mut scratch);
    let mut candidates = candidates.expect("finite logits");
    sampler.apply(&mut candidates);
    let mut left: Vec<Entry> =
        candidates.iter().map(|c| Entry { id: c.id.0, logit: c.logit }).collect();
    left.sort_by_key(|e| e.id);
    left
}

/// The same of llama.cpp's.
fn apply_theirs(sampler: &mut Sampler, logits: &[f32]) -> Vec<Entry> {
    let all = (0..).zip(logits).map(|(id, &logit)| Entry { id, logit });
    let mut left: Vec<Entry> = all.filter(|e| e.logit > f32::NEG_INFINITY).collect();
    sampler.apply(&mut left, &mut false);
    left.retain(|e| e.logit > f32::NEG_INFINITY);
    left.sort_by_key(|e| e.id);
    left
}

/// A text that repeats itself, made of stretches of tokens.
fn repetitive(rng: &mut Random, stretches: &[Vec<u32>], size: usize) -> Vec<u32> {
    let mut pool: Vec<&[u32]> =
        (0..6).filter_map(|_| stretches.choose(rng)).map(Vec::as_slice).collect();
    let others = [0; 2].map(|_| [rng.random_range(0..size as u32)]);
    pool.extend(others.iter().map(|one| one.as_slice()));
    let phrase: Vec<u32> = (0..rng.random_range(3..9))
        .flat_map(|_| *pool.choose(rng).expect("a pool"))
        .copied()
        .collect();
    let mut history = Vec::new();
    while history.len() < 90 {
        history.extend(&phrase[rng.random_range(0..3)..]);
        if rng.random_range(0..3) == 0 {
            history.extend(stretches.choose(rng).into_iter().flatten());
        }
    }
    history.truncate(rng.random_range(1..90));
    history
}

/// Breakers in several surroundings, as the tokens that they become, and other
/// tokens one by one.
fn stretches(breakers: &[&str], model: &Model) -> Vec<Vec<u32>> {
    let mut all = Vec::new();
    for breaker in breakers {
        for text in [breaker.to_string(), format!("and{breaker}king"), format!(" {breaker} ")] {
            all.extend([false, true].map(|parse| model.tokenize(text.as_bytes(), false, parse)));
        }
    }
    let others = " the being of a man, \"so—they\" king:\n\n*Go* 日本語 é 1";
    let others = model.tokenize(others.as_bytes(), false, false);
    all.extend(others.into_iter().map(|token| vec![token]));
    all
}

/// Whether a text holds a breaker of which a token ends inside a character. The
/// rest of such a breaker is no UTF-8: llama.cpp's tokenizer makes U+FFFD of it,
/// which is never met in the text, and ours tokenizes its bytes.
fn cuts(breaker: &str, text: &[u32], vocab: &dyn Vocab) -> bool {
    let (mut bytes, mut ends) = (Vec::new(), Vec::new());
    for token in text {
        bytes.extend_from_slice(vocab.bytes(TokenId(*token)));
        ends.push(bytes.len());
    }
    let found = bytes.windows(breaker.len()).enumerate();
    found.filter(|(_, window)| *window == breaker.as_bytes()).any(|(start, _)| {
        let inside = ends.iter().filter(|end| **end > start && **end < start + breaker.len());
        inside.into_iter().any(|end| !breaker.is_char_boundary(end - start))
    })
}

fn same_dry(path: &Path) {
    let model = Model::load_vocabulary(path);
    let words = Words::of(path, &model);
    let registry = Registry::linked().expect("distinct names");
    let size = words.ours.size();
    let (mut histories, mut penalised, mut broken, mut cut_inside) = (0, 0, 0, 0);
    let sets: [&[&str]; 11] = [
        &["\n", ":", "\"", "*"],
        &["\n"],
        &["—"],
        &["</s>"],
        &["<|im_end|>", "<|im_start|>"],
        &["the", "ing of"],
        &["日本", "é", "ü"],
        &["👩\u{200d}💻"],
        &[" an", "\n\nROM"],
        &[". And it came to pass, when the king had"],
        &["x²", "\t}", "1", "11"],
    ];
    for (set, breakers) in sets.iter().enumerate() {
        let mut rng = Random::seed_from_u64(set as u64);
        let stage = |breakers: Vec<String>| Stage::Dry {
            multiplier: 0.8,
            base: 1.3,
            allowed_length: 1,
            last_n: 64,
            breakers,
        };
        let owned: Vec<String> = breakers.iter().map(|&text| text.to_owned()).collect();
        let with = stage(owned);
        let without = stage(vec!["none".to_owned()]);
        let vocabularies: [&dyn Vocab; 2] = [&words.ours, &words.theirs];
        let mut own = vocabularies.map(|v| with.sampler(&registry, v).expect("not neutral"));
        let mut unbroken = without.sampler(&registry, &words.ours).expect("not neutral");
        let mut theirs = Sampler::new(&with, size, Some(&model));
        let stretches = stretches(breakers, &model);
        let mut changed = 0;
        for _ in 0..200 {
            let history = repetitive(&mut rng, &stretches, size);
            let logits: Vec<f32> = (0..size).map(|_| normal(&mut rng)).collect();
            theirs.reset();
            unbroken.reset();
            own.iter_mut().for_each(|s| s.reset());
            for &token in &history {
                theirs.accept(token);
                unbroken.accept(TokenId(token));
                own.iter_mut().for_each(|s| s.accept(TokenId(token)));
            }
            let expected = apply_theirs(&mut theirs, &logits);
            let [left, by_theirs] = own.each_mut().map(|s| apply(&mut **s, &logits));
            let differing = by_theirs.iter().zip(&expected).find(|(a, b)| a != b);
            assert_eq!(differing, None, "breakers {breakers:?} after {history:?}");
            assert_eq!(by_theirs.len(), expected.len());
            if left != expected {
                let recent = &history[history.len().saturating_sub(64)..];
                let cut = breakers.iter().any(|breaker| cuts(breaker, recent, &words.ours));
                assert!(cut, "breakers {breakers:?} after {history:?}");
                cut_inside += 1;
            }
            penalised += expected.iter().zip(&logits).filter(|(e, was)| e.logit != **was).count();
            changed += usize::from(apply(&mut *unbroken, &logits) != left);
            histories += 1;
        }
        // Or the breakers were never met.
        assert!(changed > 10, "breakers {breakers:?} mattered {changed} times");
        broken += changed;
    }
    assert!(penalised > histories, "{penalised} tokens");
    println!(
        "{histories} histories, {penalised} tokens penalised, breakers mattered in {broken}; \
         {cut_inside} differ by breakers of which a token ends inside a character"
    );
}

#[test]
fn dry_breaks_the_embedded_models_tokens_as_llama_cpp_does() {
    same_dry(&models::embedded());
}

#[test]
#[ignore = "needs SmolLM2, which is not part of the repository"]
fn dry_breaks_smollm2s_tokens_as_llama_cpp_does() {
    same_dry(&models::smollm2());
}

/// Logits with a few likely tokens, of which some begin others.
fn families(rng: &mut Random, words: &Words<'_>, by_text: &HashMap<&[u8], u32>) -> Vec<f32> {
    let size = words.ours.size();
    let mut logits: Vec<f32> = (0..size).map(|_| normal(rng) - 8.0).collect();
    let high = 4.0 * rng.random::<f32>();
    // Close together, none of them may be likely enough to stay.
    let spread = *[0.1, 1.5].choose(rng).expect("a list");
    for _ in 0..rng.random_range(1..9) {
        let token = rng.random_range(0..size as u32);
        let text = words.ours.bytes(TokenId(token));
        logits[token as usize] = high + spread * normal(rng);
        for length in 1..text.len() {
            if let Some(id) = by_text.get(&text[..length])
                && rng.random()
            {
                logits[*id as usize] = high + spread * normal(rng);
            }
        }
    }
    for (token, logit) in (0..).zip(&mut logits) {
        if words.ours.is_end_of_generation(TokenId(token)) {
            *logit = match rng.random_range(0..4) {
                0 => f32::NEG_INFINITY,
                1 => high - 2.0 * rng.random::<f32>(),
                _ => high - 4.0 - 4.0 * rng.random::<f32>(),
            };
        }
    }
    logits
}

fn same_infill(path: &Path, most: usize) {
    let model = Model::load_vocabulary(path);
    let words = Words::of(path, &model);
    let registry = Registry::linked().expect("distinct names");
    let size = words.ours.size();
    let all = || (0..size as u32).map(TokenId);
    let by_text: HashMap<&[u8], u32> = all().map(|t| (words.ours.bytes(t), t.0)).collect();
    let vocabularies: [&dyn Vocab; 2] = [&words.ours, &words.theirs];
    let mut own = vocabularies.map(|v| Stage::Infill.sampler(&registry, v).expect("not neutral"));
    let mut theirs = Sampler::new(&Stage::Infill, size, Some(&model));
    // Or infill may keep another end where it keeps nothing else.
    let one_end = words.ours.end_of_turn() == words.theirs.end_of_turn();
    let mut rng = Random::seed_from_u64(7);
    let (mut same, mut brought_back, mut sizes) = (0, 0, [0; 4]);
    for case in 0..1000 {
        let mut logits = families(&mut rng, &words, &by_text);
        // A top-k before it: llama.cpp compares each token with each.
        let keep = rng.random_range(1..most);
        let mut order: Vec<usize> = (0..size).collect();
        order.sort_by(|a, b| logits[*b].total_cmp(&logits[*a]).then(a.cmp(b)));
        order[keep..].iter().for_each(|id| logits[*id] = f32::NEG_INFINITY);
        let ids = |list: Vec<Entry>| -> BTreeSet<u32> { list.iter().map(|e| e.id).collect() };
        let expected = ids(apply_theirs(&mut theirs, &logits));
        let [left, by_theirs] = own.each_mut().map(|s| ids(apply(&mut **s, &logits)));
        if one_end || left.iter().any(|id| !words.ours.is_end_of_generation(TokenId(*id))) {
            assert_eq!(left, by_theirs, "case {case}: two vocabularies, two answers");
        }
        sizes[by_theirs.len().min(3)] += 1;
        if by_theirs == expected {
            same += 1;
            continue;
        }
        // The end of the turn alone, which was no candidate.
        let end = words.theirs.end_of_turn().expect("both models have one");
        let dropped = logits[end.index()] == f32::NEG_INFINITY;
        let back = expected == BTreeSet::from([end.0]) && dropped;
        assert!(back, "case {case}, of {keep}: {expected:?} by llama.cpp, {by_theirs:?} here");
        brought_back += 1;
    }
    println!("{same} of 1000 the same, {brought_back} dropped ends brought back; sizes {sizes:?}");
    assert!(sizes[1..].iter().all(|count| *count > 20), "{sizes:?}");
    assert!(same > 600 && brought_back > 0, "{same} the same, {brought_back} brought back");
}

#[test]
fn infill_keeps_the_same_of_the_embedded_models_tokens() {
    same_infill(&models::embedded(), 400);
}

#[test]
#[ignore = "needs SmolLM2, which is not part of the repository"]
fn infill_keeps_the_same_of_smollm2s_tokens() {
    same_infill(&models::smollm2(), 400);
}
