use proptest::prelude::*;

use super::*;
use crate::{EMBEDDED_GGUF, EngineError, GgufModel, LoadOptions, Model, gguf::test_file::TestFile};
use logitchain_core::TokenId;

/// A whole model with the smallest possible numbers, all different.
fn sample() -> TestFile {
    let numbers = |count: usize| -> Vec<f32> {
        (0..count).map(|i| (i as f32 * 0.7 + count as f32).sin()).collect()
    };
    let mut file = TestFile::new()
        .string("general.architecture", "llama")
        .u32("llama.context_length", 16)
        .u32("llama.embedding_length", 8)
        .u32("llama.block_count", 2)
        .u32("llama.attention.head_count", 2)
        .u32("llama.attention.head_count_kv", 1)
        .u32("llama.feed_forward_length", 6)
        .f32("llama.attention.layer_norm_rms_epsilon", 1e-5)
        .string("tokenizer.ggml.model", "gpt2")
        .string("tokenizer.ggml.pre", "gpt-2")
        .strings("tokenizer.ggml.tokens", &["a", "b", "ab"])
        .strings("tokenizer.ggml.merges", &["a b"])
        .tensor_f32("token_embd.weight", &[8, 3], &numbers(24))
        .tensor_f32("output_norm.weight", &[8], &numbers(8));
    for i in 0..2 {
        for (part, shape) in [
            ("attn_norm", &[8][..]),
            ("attn_q", &[8, 8]),
            ("attn_k", &[8, 4]),
            ("attn_v", &[8, 4]),
            ("attn_output", &[8, 8]),
            ("ffn_norm", &[8]),
            ("ffn_gate", &[8, 6]),
            ("ffn_up", &[8, 6]),
            ("ffn_down", &[6, 8]),
        ] {
            let name = format!("blk.{i}.{part}.weight");
            let count = shape.iter().product::<u64>() as usize;
            file = file.tensor_f32(&name, shape, &numbers(count));
        }
    }
    file
}

fn load(file: &TestFile) -> Result<GgufModel, EngineError> {
    GgufModel::from_gguf(&Gguf::from_bytes(file.bytes())?, &LoadOptions::default())
}

fn complaint(file: &TestFile) -> String {
    load(file).expect_err("the model is wrong").to_string()
}

#[test]
fn a_small_sound_model_is_loaded() {
    let model = load(&sample()).unwrap();
    let mut session = model.session();
    let logits = session.forward(&[TokenId(0), TokenId(2)]).unwrap();
    assert!(logits.len() == 3 && logits.iter().all(|x| x.is_finite()), "{logits:?}");
}

#[test]
fn an_output_of_its_own_takes_the_place_of_the_embedding() {
    let mut tied = load(&sample()).unwrap().session();
    let file = sample().tensor_f32("output.weight", &[8, 3], &[0.0; 24]);
    let mut untied = load(&file).unwrap().session();
    assert!(tied.forward(&[TokenId(1)]).unwrap().iter().all(|&x| x.abs() > 1e-3));
    assert!(untied.forward(&[TokenId(1)]).unwrap().iter().all(|&x| x.abs() < 1e-9));
}

#[test]
fn what_a_model_lacks_is_named() {
    for (name, expected) in [
        ("general.architecture", "the file lacks the metadata key 'general.architecture'"),
        ("llama.context_length", "the file lacks the metadata key 'llama.context_length'"),
        (
            "llama.attention.layer_norm_rms_epsilon",
            "the file lacks the metadata key 'llama.attention.layer_norm_rms_epsilon'",
        ),
        ("token_embd.weight", "the file lacks the tensor 'token_embd.weight'"),
        ("blk.1.ffn_up.weight", "the file lacks the tensor 'blk.1.ffn_up.weight'"),
        ("output_norm.weight", "the file lacks the tensor 'output_norm.weight'"),
    ] {
        assert_eq!(complaint(&sample().without(name)), expected);
    }
}

#[test]
fn numbers_that_contradict_each_other_are_named() {
    let changed = |key: &str, number| sample().without(key).u32(key, number);
    for (file, expected) in [
        (
            changed("llama.embedding_length", 0),
            "the metadata value 'llama.embedding_length' is 0; it must be positive",
        ),
        (
            changed("llama.attention.head_count", 3),
            "the metadata value 'llama.attention.head_count' is 3; it must be a divisor of llama.embedding_length 8",
        ),
        (
            changed("llama.attention.head_count_kv", 3),
            "the metadata value 'llama.attention.head_count_kv' is 3; it must be a divisor of the 2 heads",
        ),
        (
            changed("llama.rope.dimension_count", 3),
            "the metadata value 'llama.rope.dimension_count' is 3; it must be even and at most 4, the length of keys",
        ),
        (
            changed("llama.rope.dimension_count", 6),
            "the metadata value 'llama.rope.dimension_count' is 6; it must be even and at most 4, the length of keys",
        ),
        (
            changed("llama.attention.value_length", 5),
            "the metadata value 'llama.attention.value_length' is 5; it must be 4, the length of keys",
        ),
        (
            changed("llama.attention.key_length", u32::MAX - 1),
            "the tensor 'blk.0.attn_q.weight' has the shape [8, 8]; the metadata ask for [8, 8589934588]",
        ),
        (
            changed("llama.block_count", u32::MAX),
            "the metadata value 'llama.block_count' is 4294967295; it must be at most 20, the number of tensors",
        ),
        (
            changed("llama.block_count", 1),
            "the file has the tensor 'blk.1.attn_k.weight', which a model of the architecture llama does not use",
        ),
        (
            sample().f32("llama.rope.freq_base", f32::NAN),
            "the metadata value 'llama.rope.freq_base' is NaN; it must be finite and at least 1",
        ),
        (
            changed("llama.attention.layer_norm_rms_epsilon", 0),
            "the metadata value 'llama.attention.layer_norm_rms_epsilon' is the u32 0; it must be a floating-point number",
        ),
    ] {
        assert_eq!(complaint(&file), expected);
    }
}

#[test]
fn numbers_of_which_there_must_be_some_are_not_zero() {
    for key in [
        "llama.context_length",
        "llama.block_count",
        "llama.feed_forward_length",
        "llama.attention.head_count",
        "llama.attention.head_count_kv",
        "llama.attention.key_length",
        "llama.rope.dimension_count",
    ] {
        let expected = format!("the metadata value '{key}' is 0; it must be positive");
        assert_eq!(complaint(&sample().without(key).u32(key, 0)), expected);
    }
}

#[test]
fn an_epsilon_or_a_base_that_cannot_be_computed_with_is_refused() {
    let epsilon = "llama.attention.layer_norm_rms_epsilon";
    for (key, number, expected) in [
        (epsilon, f32::NAN, "is NaN; it must be from 0 to below 1"),
        (epsilon, -1e-5, "is -0.00001; it must be from 0 to below 1"),
        (epsilon, f32::INFINITY, "is inf; it must be from 0 to below 1"),
        ("llama.rope.freq_base", 0.0, "is 0; it must be finite and at least 1"),
        ("llama.rope.freq_base", -1.0, "is -1; it must be finite and at least 1"),
        ("llama.rope.freq_base", f32::INFINITY, "is inf; it must be finite and at least 1"),
    ] {
        let message = complaint(&sample().without(key).f32(key, number));
        assert_eq!(message, format!("the metadata value '{key}' {expected}"));
    }
}

#[test]
fn a_context_longer_than_any_memory_takes_none_before_it_is_used() {
    let key = "llama.context_length";
    let model = load(&sample().without(key).u32(key, u32::MAX)).unwrap();
    let mut session = model.session();
    assert!(session.forward(&[TokenId(0)]).unwrap().iter().all(|x| x.is_finite()));
}

#[test]
fn a_vocabulary_size_that_is_not_the_number_of_tokens_is_refused() {
    load(&sample().u32("llama.vocab_size", 3)).unwrap();
    assert_eq!(
        complaint(&sample().u32("llama.vocab_size", 5)),
        "the metadata value 'llama.vocab_size' is 5; it must be 3, the number of tokens"
    );
    assert_eq!(
        complaint(&sample().string("llama.vocab_size", "3")),
        "the metadata value 'llama.vocab_size' is the string '3'; it must be a whole number of at most 32 bits"
    );
}

#[test]
fn keys_that_are_not_understood_are_refused_and_those_that_say_nothing_new_are_not() {
    let key = |part: &str| format!("llama.{part}");
    for (file, part) in [
        (sample().u32("llama.attention.sliding_window", 8), "attention.sliding_window"),
        (sample().f32("llama.logit_scale", 1.0), "logit_scale"),
        (sample().f32("llama.attn_logit_softcapping", 50.0), "attn_logit_softcapping"),
        (sample().raw("llama.attention.causal", 7, &[0]), "attention.causal"),
        (sample().f32("llama.rope.scaling.yarn_ext_factor", 1.0), "rope.scaling.yarn_ext_factor"),
        (sample().f32("llama.rope.scaling.new", 1.0), "rope.scaling.new"),
    ] {
        let expected = "is unknown for the architecture llama; the model may need what it asks for";
        assert_eq!(complaint(&file), format!("the metadata key '{}' {expected}", key(part)));
    }
    for file in [
        sample().raw("llama.attention.causal", 7, &[1]),
        sample().f32("llama.rope.scaling.yarn_ext_factor", -1.0),
        sample().string("llama.tensor_data_layout", "Meta AI original pth"),
        sample().u32("llama.expert_count", 0),
        // Other keys are nobody's business here.
        sample().u32("qwen2.expert_count", 8),
    ] {
        load(&file).unwrap();
    }
}

#[test]
fn scaling_of_positions_that_cannot_be_computed_is_refused() {
    let key = |part: &str| format!("llama.rope.scaling.{part}");
    for (part, number, expected) in [
        ("factor", f32::NAN, "NaN; it must be finite and not negative"),
        ("factor", -2.0, "-2; it must be finite and not negative"),
        ("attn_factor", 0.0, "0; it must be finite and positive"),
        ("yarn_beta_fast", f32::INFINITY, "inf; it must be finite and positive"),
    ] {
        let expected = format!("the metadata value '{}' is {expected}", key(part));
        assert_eq!(complaint(&sample().f32(&key(part), number)), expected);
    }
    assert_eq!(
        complaint(&sample().string(&key("type"), "ntk")),
        "the metadata value 'llama.rope.scaling.type' is ntk; it must be none, linear, yarn or longrope"
    );
}

/// By their definition: a factor of 0 or 1 divides nothing, nor does any where
/// the type is `none`; a factor of 2 does, with a type or without.
#[test]
fn a_factor_divides_positions_unless_the_type_is_none() {
    let text = [0, 2, 1, 1].map(TokenId);
    let logits = |file: &TestFile| load(file).unwrap().session().forward(&text).unwrap().to_vec();
    let plain = logits(&sample());
    let (kind, factor) = ("llama.rope.scaling.type", "llama.rope.scaling.factor");
    for same in [
        sample().f32(factor, 0.0),
        sample().f32(factor, 1.0),
        sample().f32(factor, 2.0).string(kind, "none"),
        sample().u32("llama.rope.scaling.original_context_length", 8),
    ] {
        assert_eq!(logits(&same), plain);
    }
    let divided = logits(&sample().f32(factor, 2.0));
    assert_ne!(divided, plain);
    assert_eq!(logits(&sample().f32(factor, 2.0).string(kind, "linear")), divided);
    assert_eq!(logits(&sample().f32("llama.rope.scale_linear", 2.0)), divided);
}

#[test]
fn long_texts_of_the_file_are_cut_in_messages() {
    let long = "x\n".repeat(2500);
    let file = || sample().without("general.architecture").string("general.architecture", &long);
    let tokenizer = |key: &str| sample().without(key).string(key, &long);
    for file in [
        file(),
        sample().string("llama.rope.scaling.type", &long),
        sample().f32(&format!("llama.rope.scaling.{long}"), 1.0),
        tokenizer("tokenizer.ggml.model"),
        tokenizer("tokenizer.ggml.pre"),
        sample().without("tokenizer.ggml.merges").strings("tokenizer.ggml.merges", &[&long]),
        sample()
            .without("tokenizer.ggml.merges")
            .strings("tokenizer.ggml.merges", &[&format!("a {long}")]),
        sample()
            .without("tokenizer.ggml.tokens")
            .strings("tokenizer.ggml.tokens", &["a", &long, &long]),
    ] {
        let error = load(&file).unwrap_err();
        let source = std::error::Error::source(&error).map(ToString::to_string);
        let message = format!("{error}: {}", source.unwrap_or_default());
        assert!(message.len() < 700 && message.contains('…'), "{message}");
        assert!(!message.contains('\n'), "{message}");
    }
}

#[test]
fn tensors_that_do_not_fit_are_named() {
    let changed = |name: &str, shape: &[u64], kind, bytes: usize| {
        sample().without(name).tensor(name, shape, kind, &vec![0; bytes])
    };
    for (file, expected) in [
        (
            changed("blk.0.attn_k.weight", &[4, 8], 0, 128),
            "the tensor 'blk.0.attn_k.weight' has the shape [4, 8]; the metadata ask for [8, 4]",
        ),
        (
            changed("output_norm.weight", &[8, 1], 0, 32),
            "the tensor 'output_norm.weight' has the shape [8, 1]; the metadata ask for [8]",
        ),
        (
            changed("token_embd.weight", &[8, 3, 2], 0, 192),
            "the tensor 'token_embd.weight' has the shape [8, 3, 2]; the metadata ask for [8, 3]",
        ),
        (
            changed("token_embd.weight", &[8, 4], 0, 128),
            "the tokenizer has 3 tokens, the network scores 4",
        ),
        (
            changed("blk.1.ffn_up.weight", &[8, 6], 26, 192),
            "the tensor 'blk.1.ffn_up.weight' has the type I32; supported are: F32, F16, BF16, Q8_0, \
             Q4_0, Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS",
        ),
        (
            sample().tensor_f32("blk.0.attn_norm.bias", &[8], &[0.0; 8]),
            "the file has the tensor 'blk.0.attn_norm.bias', which a model of the architecture llama does not use",
        ),
        (
            sample().tensor_f32("blk.0.attn_q.bias", &[4], &[0.0; 4]),
            "the tensor 'blk.0.attn_q.bias' has the shape [4]; the metadata ask for [8]",
        ),
        (
            sample().tensor_f32("rope_freqs.weight", &[2], &[1.0, 0.0]),
            "the tensor 'rope_freqs.weight' holds 0; it must be finite and positive",
        ),
    ] {
        assert_eq!(complaint(&file), expected);
    }
}

#[test]
fn what_the_engine_leaves_out_is_refused() {
    for (file, expected) in [
        (
            sample().without("general.architecture").string("general.architecture", "gpt-j"),
            "the architecture 'gpt-j' is not supported; known are: llama, mistral3, smollm3, qwen2, qwen3, gemma, gemma2, gemma3, phi3",
        ),
        (
            sample().u32("llama.expert_count", 8),
            "the model needs a mixture of experts, which is not supported (llama.expert_count is 8)",
        ),
    ] {
        assert_eq!(complaint(&file), expected);
    }
}

/// Runs a model, if it is one; nothing may panic.
fn try_out(bytes: Vec<u8>) {
    let Ok(gguf) = Gguf::from_bytes(bytes) else { return };
    let options =
        LoadOptions { threads: Some(std::num::NonZero::<usize>::MIN), ..LoadOptions::default() };
    let Ok(model) = GgufModel::from_gguf(&gguf, &options) else { return };
    let mut session = model.session();
    let _ = session.forward(&[TokenId(0), TokenId(2)]);
    let _ = session.forward(&[TokenId(1)]);
}

proptest! {
    #[test]
    fn a_damaged_small_model_never_panics(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)
    ) {
        let mut bytes = sample().bytes();
        for (index, byte) in damage {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        try_out(bytes);
    }
}

proptest! {
    // Each copies the whole model.
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn the_embedded_model_with_a_damaged_header_never_panics(
        damage in prop::collection::vec((any::<bool>(), 0..1000_usize, 0..8_u32), 1..3)
    ) {
        let sizes = Gguf::from_static(EMBEDDED_GGUF).unwrap();
        let data: usize = sizes.tensors().map(|(_, info)| info.size()).sum();
        let header = EMBEDDED_GGUF.len() - data;
        let mut bytes = EMBEDDED_GGUF.to_vec();
        for (in_front, distance, bit) in damage {
            // Between the numbers in front and the tensors' entries, which end
            // the header, there is only the vocabulary.
            let at = if in_front { distance } else { header - 1 - distance };
            bytes[at] ^= 1 << bit;
        }
        try_out(bytes);
    }
}
