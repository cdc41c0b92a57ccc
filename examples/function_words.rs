//! What a repeat penalty over the whole text does to `the`, `of` and `and`.
//!
//! Every long text has used these words, so a penalty that remembers all of it makes
//! them less likely for good, whatever the grammar asks for. A window of 64 tokens
//! forgets them where the text does without them for a while, as in a list of names.
//!
//! `cargo run --release --example function_words`

use logitchain::{
    Chain, ChainConfig, Registry, Seed, TokenId,
    engine::{GgufModel, Model as _, Special, prompt_tokens},
};

/// A sentence full of such words, then names.
const PROMPT: &str = "And these are the names of the children of Israel, and of the fathers of \
    the tribes, that came into the land: Reuben, Simeon, Levi, Judah, Issachar, Zebulun, Joseph, \
    Benjamin, Dan, Naphtali, Gad, Asher, Moses, Aaron, Joshua, Samuel, David, Solomon, Isaiah, \
    Jeremiah, Ezekiel. Then came David";

const WORDS: [&str; 12] =
    ["the", "of", "and", "to", "in", "that", "for", "unto", "with", "his", "he", "a"];

/// The settings that are compared: no penalty, and one of 1.3 over 64 tokens and all.
const PENALTIES: [&str; 3] = ["repeat=1", "repeat=1.3,last_n=64", "repeat=1.3,last_n=\"all\""];

const SEEDS: u64 = 60;
const LENGTH: usize = 16;

/// What came of one seed.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    /// How many of the tokens were function words.
    count: f64,
    /// How probable function words were together, on average.
    mass: f64,
}

/// The tokens of function words, each with the space before it.
fn function_words(model: &GgufModel) -> Vec<TokenId> {
    let vocab = model.tokenizer();
    let ids = (0..vocab.size() as u32).map(TokenId);
    let is = |id: &TokenId| {
        let text = std::str::from_utf8(vocab.bytes(*id)).unwrap_or_default();
        text.strip_prefix(' ').is_some_and(|word| WORDS.contains(&word))
    };
    ids.filter(is).collect()
}

/// Continues the prompt with each seed.
fn outcomes(model: &GgufModel, penalty: &str) -> Result<Vec<Outcome>, Box<dyn std::error::Error>> {
    let words = function_words(model);
    let prompt = prompt_tokens(model.tokenizer(), PROMPT, Special::Plain)?;
    let list = format!("penalties{{{penalty}}};temperature{{t=1}};dist");
    let mut config = ChainConfig::from_samplers(&list)?;
    let registry = Registry::linked()?;
    let mut session = model.session();
    let start = session.forward(&prompt)?.to_vec();
    let mut outcomes = Vec::new();
    for seed in 1..=SEEDS {
        config.seed = Seed::Fixed(seed);
        let mut chain: Chain = config.build(&registry, model.tokenizer())?;
        prompt.iter().for_each(|token| chain.accept(*token));
        session.rewind(prompt.len());
        let mut logits = start.clone();
        let mut outcome = Outcome { count: 0.0, mass: 0.0 };
        for _ in 0..LENGTH {
            let law = chain.distribution(&logits)?;
            let mass: f64 = words.iter().map(|word| law.probability(*word)).sum();
            outcome.mass += mass / LENGTH as f64;
            let token = chain.sample(&mut logits)?;
            outcome.count += f64::from(u8::from(words.contains(&token)));
            chain.accept(token);
            logits = session.forward(&[token])?.to_vec();
        }
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

/// The mean, and the standard error of the mean.
fn mean(numbers: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let n = numbers.clone().count() as f64;
    let mean = numbers.clone().sum::<f64>() / n;
    let variance = numbers.map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, (variance / n).sqrt())
}

#[allow(clippy::print_stdout, reason = "an example shows what it does")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = GgufModel::embedded();
    println!("{PROMPT} ...\n\nof {LENGTH} tokens, with {SEEDS} seeds:\n");
    println!("{:<26}{:>16}{:>20}", "penalties", "function words", "their probability");
    for penalty in PENALTIES {
        let all = outcomes(&model, penalty)?;
        let (count, count_error) = mean(all.iter().map(|one| one.count));
        let (mass, mass_error) = mean(all.iter().map(|one| one.mass));
        let count = format!("{count:.2} ± {count_error:.2}");
        println!("{penalty:<26}{count:>16}{:>20}", format!("{mass:.3} ± {mass_error:.3}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How far apart the means are, in standard errors of their difference.
    fn apart(a: (f64, f64), b: (f64, f64)) -> f64 {
        (a.0 - b.0) / a.1.hypot(b.1)
    }

    #[test]
    fn the_window_does_not_reach_back_to_the_function_words() {
        let model = GgufModel::embedded();
        let words = function_words(&model);
        assert_eq!(words.len(), WORDS.len());
        let prompt = prompt_tokens(model.tokenizer(), PROMPT, Special::Plain).expect("a prompt");
        let (before, window) = prompt.split_at(prompt.len() - 64);
        assert!(before.iter().filter(|token| words.contains(token)).count() >= 10);
        assert!(!window.iter().any(|token| words.contains(token)));
    }

    /// Seeds are fixed, so this holds in every run or in none.
    #[test]
    fn a_penalty_over_the_whole_text_suppresses_function_words_and_a_window_does_not() {
        let model = GgufModel::embedded();
        let [none, window, all] = PENALTIES.map(|p| outcomes(&model, p).expect("texts"));
        let of = |of: fn(&Outcome) -> f64| {
            [&none, &window, &all].map(|outcomes| mean(outcomes.iter().map(of)))
        };
        for [none, window, all] in [of(|one| one.count), of(|one| one.mass)] {
            assert!(apart(none, all) > 3.0, "{none:?} {all:?}");
            assert!(apart(window, all) > 3.0, "{window:?} {all:?}");
            assert!(apart(none, window) < 1.0, "{none:?} {window:?}");
            assert!(all.0 < 0.8 * none.0, "{none:?} {all:?}");
        }
    }
}
