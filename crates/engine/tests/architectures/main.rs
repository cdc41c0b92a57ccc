//! Every architecture, by small models with random weights.
//!
//! `logits.txt` holds logits that llama.cpp gave for their files;
//! `tests/peers` wrote it, and compares all logits.

mod models;

use std::num::NonZero;

use logitchain_core::TokenId;
use logitchain_engine::{CacheType, Gguf, GgufModel, LoadOptions, Model as _, Session};
use proptest::prelude::*;

fn load(bytes: Vec<u8>, threads: usize, cache: CacheType) -> GgufModel {
    let mut options = LoadOptions::default();
    options.threads = NonZero::new(threads);
    options.cache = cache;
    let gguf = Gguf::from_bytes(bytes).expect("a sound file");
    GgufModel::from_gguf(&gguf, &options).unwrap_or_else(|error| panic!("{error}"))
}

fn tokens(ids: &[u32]) -> Vec<TokenId> {
    ids.iter().copied().map(TokenId).collect()
}

fn bits(session: &mut Session, tokens: &[TokenId]) -> Vec<u32> {
    session.forward(tokens).expect("a text that fits").iter().map(|x| x.to_bits()).collect()
}

#[test]
fn every_architecture_has_the_logits_that_llama_cpp_gave() {
    let mut lines = include_str!("logits.txt").lines();
    for models::Case { name, bytes } in models::cases() {
        let model = load(bytes, 1, CacheType::F32);
        for (index, prompt) in models::prompts().iter().enumerate() {
            let line = lines.next().expect("a line for each prompt");
            let expected = line.strip_prefix(&format!("{name}; prompt {index}; "));
            let expected = expected.unwrap_or_else(|| panic!("{name}, prompt {index}: {line}"));
            let mut session = model.session();
            let logits = session.forward(&tokens(prompt)).expect("a text that fits");
            let found = logits.iter().step_by(models::EVERY);
            assert_eq!(found.len(), expected.split(' ').count());
            for (found, expected) in found.zip(expected.split(' ')) {
                let expected: f32 = expected.parse().expect("a number");
                assert!(
                    (found - expected).abs() < models::closeness(name),
                    "{name}: {found}, not {expected}"
                );
            }
        }
    }
    assert_eq!(lines.next(), None);
}

/// The golden data could not tell two networks apart that give the same. One
/// tensor of queries, keys and values holds the very numbers of three.
#[test]
fn no_two_cases_are_the_same_network_but_that_with_one_tensor_for_three() {
    let prompt = tokens(&models::prompts()[2]);
    let mut seen = Vec::new();
    for models::Case { name, bytes } in models::cases() {
        let found = bits(&mut load(bytes, 1, CacheType::F32).session(), &prompt);
        for (other, bits) in &seen {
            let same = (*other, name) == ("llama", "llama, one tensor of queries, keys and values");
            assert_eq!(&found == bits, same, "{name} and {other}");
        }
        seen.push((name, found));
    }
}

#[test]
fn keys_and_values_in_16_bits_are_near_those_in_32() {
    let prompt = tokens(&models::prompts()[2]);
    for models::Case { name, bytes } in models::cases() {
        let [exact, rounded] = [CacheType::F32, CacheType::F16].map(|cache| {
            let mut session = load(bytes.clone(), 1, cache).session();
            session.forward(&prompt).expect("a text that fits").to_vec()
        });
        let apart = exact.iter().zip(&rounded).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(apart > 0.0 && apart < 0.02, "{name}: {apart}");
    }
}

proptest! {
    // Each goes through all architectures.
    #![proptest_config(ProptestConfig::with_cases(4))]
    #[test]
    fn slices_threads_and_rewinding_change_no_bit(
        slices in prop::collection::vec(1_usize..80, 1..12),
        threads in 1_usize..4,
        aside in prop::collection::vec(3_u32..259, 1..70),
        back_to in any::<prop::sample::Index>(),
        sixteen in any::<bool>(),
    ) {
        let cache = if sixteen { CacheType::F16 } else { CacheType::F32 };
        let prompt = tokens(&models::prompts()[2]);
        for models::Case { name, bytes } in models::cases() {
            let expected = bits(&mut load(bytes.clone(), 1, cache).session(), &prompt);

            let model = load(bytes, threads, cache);
            let mut session = model.session();
            let mut rest = &prompt[..];
            let mut found = Vec::new();
            for slice in slices.iter().copied().chain([usize::MAX]) {
                let (now, later) = rest.split_at(slice.min(rest.len()));
                if !now.is_empty() {
                    found = bits(&mut session, now);
                }
                rest = later;
            }
            prop_assert_eq!(&found, &expected, "{}: {:?}, {} threads", name, &slices, threads);

            // Another way from somewhere, and back.
            let position = back_to.index(prompt.len());
            session.rewind(position);
            session.forward(&tokens(&aside)).expect("a text that fits");
            session.rewind(position);
            let found = bits(&mut session, &prompt[position..]);
            prop_assert_eq!(&found, &expected, "{}: back to {}", name, position);
        }
    }

    /// Of some texts, each begins as an earlier one does, up to any place, and takes its
    /// keys and values from there. What is expected reads every text anew.
    #[test]
    fn a_text_that_takes_its_beginning_from_another_has_the_bits_of_one_read_anew(
        texts in prop::collection::vec(
            (
                any::<prop::sample::Index>(),
                any::<prop::sample::Index>(),
                prop::collection::vec(3_u32..259, 1..60),
                1_usize..80,
            ),
            2..6,
        ),
        threads in 1_usize..4,
        sixteen in any::<bool>(),
    ) {
        let cache = if sixteen { CacheType::F16 } else { CacheType::F32 };
        for models::Case { name, bytes } in models::cases() {
            let model = load(bytes, threads, cache);
            // Texts with their sessions.
            let mut all: Vec<(Vec<TokenId>, Session)> = Vec::new();
            for (other, place, more, slice) in &texts {
                let (mut text, mut session) = match all.len() {
                    0 => (Vec::new(), model.session()),
                    count => {
                        let (text, session) = &all[other.index(count)];
                        let place = place.index(text.len().min(150) + 1);
                        (text[..place].to_vec(), session.fork_at(place))
                    }
                };
                prop_assert_eq!(session.position(), text.len());
                let mut found = Vec::new();
                for slice in tokens(more).chunks(*slice) {
                    found = bits(&mut session, slice);
                }
                text.extend(tokens(more));
                let expected = bits(&mut model.session(), &text);
                prop_assert_eq!(found, expected, "{}: {:?}", name, texts);
                all.push((text, session));
            }
            // Those from which others came are as they were.
            for (mut text, mut session) in all {
                let found = bits(&mut session, &tokens(&[7]));
                text.push(TokenId(7));
                prop_assert_eq!(found, bits(&mut model.session(), &text), "{}", name);
            }
        }
    }
}
