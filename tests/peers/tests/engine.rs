//! logitchain's engine against llama.cpp's: logits, and the greedy text.
//!
//! llama.cpp writes the text; logitchain's engine reads it along and scores each
//! next token. Where it would choose the same at every step, it writes the same
//! text by itself. `LOGITCHAIN_TOKENS` sets how many tokens each text gets.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use logitchain_core::TokenId;
use logitchain_engine::{CacheType, GgufModel, LoadOptions, Model as _};
use logitchain_peers::{
    gguf,
    llama::{Context, Model},
    models,
};

const PROMPTS: [&str; 10] = [
    "ROMEO.",
    "In the beginning God created the heavens and the earth. ",
    "ACT III. SCENE I. A Room in the Palace.\n\n[Enter KING.]\n\nKING.\n",
    "And he said to them, \"Go,",
    "Blessed are",
    "Once upon a time",
    "def main():\n    print(\"hello\")\n",
    "1, 2, 3, 4, 5,",
    "Zürich — 東京 — ",
    "The capital of France is",
];

/// The most likely token, of equal ones the first.
fn best(logits: &[f32]) -> usize {
    (0..logits.len()).fold(0, |best, id| if logits[id] > logits[best] { id } else { best })
}

/// By how much the most likely token leads.
fn margin(logits: &[f32]) -> f32 {
    let top = best(logits);
    let others = logits.iter().enumerate().filter(|(id, _)| *id != top);
    logits[top] - others.map(|(_, x)| *x).fold(f32::NEG_INFINITY, f32::max)
}

/// llama.cpp's greedy text: its tokens, and the logits from which each came.
fn greedy(context: &mut Context<'_>, prompt: &[u32], count: usize) -> Vec<(u32, Vec<f32>)> {
    context.clear();
    let mut logits = context.forward(prompt).to_vec();
    let mut text = Vec::new();
    for step in 0..count {
        let token = best(&logits) as u32;
        text.push((token, logits.clone()));
        if step + 1 < count {
            logits.copy_from_slice(context.forward(&[token]));
        }
    }
    text
}

/// The same steps by logitchain's engine.
fn read_along(model: &GgufModel, prompt: &[u32], text: &[(u32, Vec<f32>)]) -> Vec<Vec<f32>> {
    let mut session = model.session();
    let mut next: Vec<TokenId> = prompt.iter().copied().map(TokenId).collect();
    let mut steps = Vec::new();
    for (token, _) in text {
        steps.push(session.forward(&next).expect("a text that fits").to_vec());
        next = vec![TokenId(*token)];
    }
    steps
}

impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at most {:.2e} apart, typically {:.2e}", self.largest, self.typical())
    }
}

/// The differences of two lists of logits.
#[derive(Clone, Copy, Debug, Default)]
struct Distance {
    largest: f32,
    squares: f64,
    count: usize,
}

impl Distance {
    fn add(&mut self, a: &[f32], b: &[f32]) {
        assert_eq!(a.len(), b.len());
        for (x, y) in a.iter().zip(b) {
            self.largest = self.largest.max((x - y).abs());
            self.squares += f64::from(x - y).powi(2);
        }
        self.count += a.len();
    }

    /// Root of the mean square.
    fn typical(&self) -> f64 {
        (self.squares / self.count as f64).sqrt()
    }
}

fn written(name: &str, bytes: &[u8]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, bytes).expect("room for the file");
    path
}

/// A file's weights as F32, in a file that goes when it is dropped.
struct Exact(PathBuf);

impl Exact {
    fn of(path: &Path) -> Self {
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name in UTF-8");
        let file = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        // Tests run side by side, each with a file of its own.
        let thread = std::thread::current();
        let test = thread.name().expect("a test's thread has its name");
        Self(written(&format!("{test}-{name}"), &gguf::in_f32(&file)))
    }
}

impl Drop for Exact {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// How two programs read the same texts.
#[derive(Debug, Default)]
struct Reading {
    /// Between the two.
    between: Distance,
    /// llama.cpp from itself with the weights in F32.
    theirs: Distance,
    /// logitchain from the same.
    ours: Distance,
    /// By how much llama.cpp's token led where logitchain would choose another.
    partings: Vec<f32>,
}

/// Has llama.cpp write greedy texts with a file's weights, and compares.
fn read(path: &Path, exact: &Path, count: usize) -> Reading {
    let theirs = Model::load(path);
    let mut options = LoadOptions::default();
    options.cache = CacheType::F32;
    let ours = GgufModel::load(path, &options).expect("a model that we can run");
    let exact = Model::load(exact);
    let (mut context, mut exact_context) = (theirs.context(256, 1), exact.context(256, 1));
    let mut reading = Reading::default();
    let mut whole = 0;
    for (at, prompt) in PROMPTS.iter().enumerate() {
        let prompt = theirs.tokenize(prompt.as_bytes(), true, true);
        assert!(prompt.len() + count <= 256, "{} tokens", prompt.len());
        let text = greedy(&mut context, &prompt, count);
        let steps = read_along(&ours, &prompt, &text);
        let mut tokens = prompt.clone();
        tokens.extend(text.iter().map(|(token, _)| token));
        exact_context.clear();
        let truth = exact_context.forward_each(&tokens);
        let mut parts = None;
        for (step, ((token, logits), own)) in text.iter().zip(&steps).enumerate() {
            let truth = &truth[prompt.len() - 1 + step];
            reading.between.add(logits, own);
            reading.theirs.add(logits, truth);
            reading.ours.add(own, truth);
            if best(own) != *token as usize {
                let lead = margin(logits);
                println!(
                    "prompt {at}, step {step}: another token, where llama.cpp's leads by {lead}"
                );
                reading.partings.push(lead);
                parts.get_or_insert(step);
            }
        }
        whole += usize::from(parts.is_none());
        println!("prompt {at}: the same greedy text for {} tokens", parts.unwrap_or(count));
    }
    println!(
        "{} texts of {count} tokens, {whole} the same, {} tokens differ",
        PROMPTS.len(),
        reading.partings.len()
    );
    println!("logits of the two: {}", reading.between);
    println!("llama.cpp's from those with weights in F32: {}", reading.theirs);
    println!("ours from those: {}", reading.ours);
    reading
}

/// A prompt has up to 56 of the context's 256 tokens.
fn whole_context() -> usize {
    models::tokens_or(200).min(200)
}

/// With weights in F32 both compute in `f32`, and only the order of sums differs.
#[test]
fn the_embedded_model_in_f32_writes_the_same_greedy_text() {
    let exact = Exact::of(&models::embedded());
    let reading = read(&exact.0, &exact.0, whole_context());
    assert!(reading.partings.is_empty(), "{reading:?}");
    assert!(reading.between.largest < 1e-4, "{reading:?}");
}

/// With weights in F16 llama.cpp rounds activations to F16, and we do not.
#[test]
fn the_embedded_model_parts_only_where_llama_cpps_rounding_decides() {
    let path = models::embedded();
    let reading = read(&path, &Exact::of(&path).0, whole_context());
    assert!(reading.between.largest < 2e-2, "{reading:?}");
    assert!(reading.ours.largest < 1e-4, "{reading:?}");
    let noise = reading.theirs.largest;
    assert!(reading.partings.iter().all(|lead| *lead < noise), "{reading:?}");
}

/// The types of small integers, and the one that llama.cpp falls back to where
/// rows are not whole blocks of 256.
const QUANTISED: [(&str, u32, u32); 12] = [
    ("Q4_0", 2, 2),
    ("Q4_1", 3, 3),
    ("Q5_0", 6, 6),
    ("Q5_1", 7, 7),
    ("Q8_0", 8, 8),
    ("IQ4_NL", 20, 20),
    ("Q2_K", 10, 20),
    ("Q3_K", 11, 20),
    ("Q4_K", 12, 6),
    ("Q5_K", 13, 7),
    ("Q6_K", 14, 8),
    ("IQ4_XS", 23, 20),
];

/// Both round activations to 8 bits: we in groups of 16 or 32, llama.cpp in
/// groups of 32 or 256.
#[test]
fn the_embedded_model_quantised_is_no_further_from_the_truth_than_llama_cpps() {
    let file = std::fs::read(models::embedded()).expect("the embedded model");
    let (mut ours, mut theirs) = (0.0, 0.0);
    for (name, wide, narrow) in QUANTISED {
        let kind = |shape: &[usize]| if shape[0].is_multiple_of(256) { wide } else { narrow };
        let path = written(&format!("embedded-{name}.gguf"), &gguf::with_types(&file, kind));
        let exact = Exact::of(&path);
        println!("{name}:");
        let reading = read(&path, &exact.0, whole_context().min(50));
        let _ = std::fs::remove_file(path);
        // One type's rounding may happen to fall better in one program.
        assert!(reading.ours.typical() < 1.1 * reading.theirs.typical(), "{name}: {reading:?}");
        ours += reading.ours.typical();
        theirs += reading.theirs.typical();
    }
    println!("all types together: ours {ours:.4}, llama.cpp's {theirs:.4}");
    assert!(ours < theirs);
}

/// With quantised weights both round activations to 8 bits, each in its way.
#[test]
#[ignore = "needs SmolLM2, which is not part of the repository"]
fn smollm2_parts_only_where_rounding_decides() {
    let path = models::smollm2();
    let reading = read(&path, &Exact::of(&path).0, models::tokens_or(30).min(200));
    let noise = reading.theirs.largest;
    assert!(reading.partings.iter().all(|lead| *lead < noise), "{reading:?}");
    // No further from the truth than llama.cpp itself.
    assert!(reading.ours.typical() < 1.05 * reading.theirs.typical(), "{reading:?}");
    assert!(reading.ours.largest < 1.5 * noise, "{reading:?}");
}

/// llama.cpp looks GELU up in a table of 16-bit numbers, which adds up over 18
/// layers.
#[test]
#[ignore = "needs Gemma 3, which is not part of the repository"]
fn gemma_3_in_f32_parts_only_where_rounding_decides() {
    let exact = Exact::of(&models::gemma3());
    let reading = read(&exact.0, &exact.0, models::tokens_or(20).min(200));
    let noise = reading.between.largest;
    assert!(noise < 0.15 && reading.between.typical() < 0.01, "{reading:?}");
    assert!(reading.partings.iter().all(|lead| *lead < noise), "{reading:?}");
}
