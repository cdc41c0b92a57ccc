//! Each architecture in both programs, by small models with random weights.
//!
//! `BLESS=1` writes some of llama.cpp's logits down for the engine's own tests.

#[path = "../../../crates/engine/tests/architectures/models.rs"]
mod models;

use std::{fmt::Write as _, fs, path::Path};

use logitchain_core::TokenId;
use logitchain_engine::{CacheType, Gguf, GgufModel, LoadOptions, Model as _};
use logitchain_peers::llama::Model;

const GOLDEN: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/engine/tests/architectures/logits.txt");

/// Keys and values are in 16 bits. llama.cpp rounds queries and the weights of
/// values as well.
const CLOSE_IN_F16: f32 = 2e-2;

/// The largest distance of two programs' logits, and the largest logit, over
/// all positions of all prompts.
fn compare(ours: &GgufModel, mut theirs: impl FnMut(&[u32]) -> Vec<Vec<f32>>) -> (f32, f32) {
    let (mut apart, mut largest) = (0.0_f32, 0.0_f32);
    for prompt in models::prompts() {
        let mut session = ours.session();
        for (token, expected) in prompt.iter().zip(theirs(&prompt)) {
            let own = session.forward(&[TokenId(*token)]).expect("a text that fits");
            for (own, expected) in own.iter().zip(&expected) {
                apart = apart.max((own - expected).abs());
                largest = largest.max(expected.abs());
            }
        }
    }
    (apart, largest)
}

#[test]
fn every_architecture_has_llama_cpps_logits() {
    let mut golden = String::new();
    let mut wrong = Vec::new();
    for (number, models::Case { name, bytes }) in models::cases().into_iter().enumerate() {
        let path =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("architecture-{number}.gguf"));
        fs::write(&path, &bytes).expect("room for the file");
        let theirs = Model::load(&path);
        let gguf = Gguf::from_bytes(bytes).expect("a sound file");
        let ours = |cache| {
            let mut options = LoadOptions::default();
            options.cache = cache;
            GgufModel::from_gguf(&gguf, &options).unwrap_or_else(|error| panic!("{name}: {error}"))
        };

        let mut context = theirs.context(models::CONTEXT, 1);
        let mut each = |prompt: &[u32]| {
            context.clear();
            context.forward_each(prompt)
        };
        let (apart, largest) = compare(&ours(CacheType::F32), &mut each);
        for (index, prompt) in models::prompts().iter().enumerate() {
            let logits = each(prompt).pop().expect("a prompt is not empty");
            write!(golden, "{name}; prompt {index};").expect("a string takes all");
            for logit in logits.iter().step_by(models::EVERY) {
                write!(golden, " {logit:.5}").expect("a string takes all");
            }
            golden.push('\n');
        }
        let mut context = theirs.context_in_f16(models::CONTEXT, 1);
        let (apart_in_f16, _) = compare(&ours(CacheType::F16), |prompt| {
            context.clear();
            context.forward_each(prompt)
        });
        println!("{name}: {apart:.1e} apart, {apart_in_f16:.1e} in F16; logits to {largest:.1}");
        // Or the network is too dull for a difference to show.
        assert!(largest > 1.0, "{name}");
        if apart > models::closeness(name) || apart_in_f16 > CLOSE_IN_F16 {
            wrong.push(name);
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
    if std::env::var_os("BLESS").is_some() {
        fs::write(GOLDEN, &golden).expect("a writable file");
    }
    let written = fs::read_to_string(GOLDEN).expect("the file");
    let texts = |text: &str| {
        text.lines().map(|line| line.rsplit_once(';').map(|l| l.0.to_owned())).collect::<Vec<_>>()
    };
    assert_eq!(texts(&written), texts(&golden), "run with BLESS=1");
}
