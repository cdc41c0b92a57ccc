//! The embedded model and the built-in stages, generating.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use logitchain_core::{Chain, ChainConfig, Registry, TokenId, Vocab};
use logitchain_engine::{
    GenerateOptions, Generation, GgufModel, Model, Special, Step, StopReason, StopStrings,
    prompt_tokens,
};
use logitchain_stages as _;

const PROMPT: &str = "In the beginning";

fn chain(samplers: &str, vocab: &dyn Vocab) -> Chain {
    ChainConfig::from_samplers(samplers)
        .unwrap()
        .build(&Registry::linked().unwrap(), vocab)
        .unwrap()
}

fn generate(samplers: &str, stops: &[&str], max_tokens: usize) -> (Vec<Step>, StopReason) {
    let model = GgufModel::embedded();
    let mut session = model.session();
    let mut chain = chain(samplers, model.tokenizer());
    let prompt = prompt_tokens(model.tokenizer(), PROMPT, Special::Plain).unwrap();
    assert_eq!(Some(prompt[0]), model.tokenizer().beginning_of_text());
    let stops = StopStrings::new(stops.iter().copied()).unwrap();
    let options =
        GenerateOptions { max_tokens: Some(max_tokens), stops, ..GenerateOptions::default() };
    let mut generation = Generation::new(&mut session, &mut chain, &prompt, options).unwrap();
    let steps = generation.by_ref().collect::<Result<_, _>>().unwrap();
    let reason = generation.stop_reason().unwrap().clone();
    (steps, reason)
}

fn text(steps: &[Step]) -> String {
    steps.iter().map(|step| step.text.as_str()).collect()
}

#[test]
fn the_same_chain_gives_the_same_text() {
    let (first, reason) = generate("top_k;temperature;dist", &[], 40);
    let (second, _) = generate("top_k;temperature;dist", &[], 40);
    assert_eq!(first, second);
    assert_eq!((first.len(), reason), (40, StopReason::TokenLimit));
}

#[test]
fn the_streamed_text_is_the_text_of_the_tokens() {
    let (steps, _) = generate("temperature{t=2};dist", &[], 60);
    let model = GgufModel::embedded();
    let bytes = steps.iter().flat_map(|step| model.tokenizer().bytes(step.token));
    let bytes: Vec<u8> = bytes.copied().collect();
    assert_eq!(text(&steps), String::from_utf8_lossy(&bytes));
}

#[test]
fn a_stop_string_cuts_the_same_text_short() {
    let (whole, _) = generate("greedy", &[], 60);
    let whole = text(&whole);
    let stop: String = whole.chars().skip(20).take(7).collect();
    let (steps, reason) = generate("greedy", &[&stop], 60);
    assert_eq!(text(&steps), whole[..whole.find(&stop).unwrap()]);
    assert_eq!(reason, StopReason::StopString(stop));
}

#[test]
fn a_text_that_fills_the_context_ends_there() {
    let model = GgufModel::embedded();
    let context = model.session().context_length().unwrap();
    let (steps, reason) = generate("logit_bias{bias=['2-inf']};greedy", &[], usize::MAX);
    let prompt = prompt_tokens(model.tokenizer(), PROMPT, Special::Plain).unwrap();
    // The last token is sampled, but has no place any more.
    assert_eq!(prompt.len() + steps.len(), context + 1);
    assert_eq!(reason, StopReason::ContextFull);
    assert!(steps.iter().all(|step| step.token != TokenId(2)));
}
