use std::sync::LazyLock;

use logitchain_core::{TokenId, Vocab};
use proptest::prelude::*;

use super::{GgufTokenizer, TokenizerError, TokenizerSpec};
use crate::{Special, Tokenizer, gguf::StringArray, prompt_tokens};

fn strings(list: &[&str]) -> StringArray {
    list.iter().collect()
}

/// Byte-level: 0 to 9 as listed.
fn byte_level() -> TokenizerSpec {
    TokenizerSpec {
        model: "gpt2".into(),
        pre: Some("gpt-2".into()),
        tokens: strings(&["a", "b", "Ġ", "ab", "Ġab", "<|im_end|>", "<think>", "Ã", "©", "<s>"]),
        types: Some(vec![1, 1, 1, 1, 1, 3, 4, 1, 1, 3]),
        merges: Some(strings(&["a b", "Ġ ab"])),
        ..TokenizerSpec::default()
    }
}

fn sentencepiece() -> TokenizerSpec {
    TokenizerSpec {
        model: "llama".into(),
        tokens: strings(&[
            "<unk>", "<s>", "</s>", "▁", "a", "▁a", "<", "/", "s", ">", "</", "s>", "aa",
        ]),
        types: Some(vec![2, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]),
        scores: Some(vec![
            0.0, 0.0, 0.0, -9.0, -9.0, -1.0, -9.0, -9.0, -9.0, -9.0, -2.0, -3.0, -4.0,
        ]),
        unknown: Some(0),
        ..TokenizerSpec::default()
    }
}

fn tokenizer(spec: &TokenizerSpec) -> GgufTokenizer {
    GgufTokenizer::new(spec.clone()).unwrap()
}

fn ids(tokens: &[TokenId]) -> Vec<u32> {
    tokens.iter().map(|token| token.0).collect()
}

fn refused(spec: &TokenizerSpec) -> String {
    GgufTokenizer::new(spec.clone()).unwrap_err().to_string()
}

#[test]
fn special_tokens_are_found_only_where_they_are_parsed() {
    let bpe = tokenizer(&byte_level());
    assert_eq!(ids(&bpe.encode("ab<|im_end|> ab", Special::Parse)), [3, 5, 4]);
    assert!(!bpe.encode("ab<|im_end|> ab", Special::Plain).contains(&TokenId(5)));
    assert!(!bpe.tokenize(b"<|im_end|>").contains(&TokenId(5)));
}

#[test]
fn user_defined_tokens_are_found_everywhere() {
    let bpe = tokenizer(&byte_level());
    assert_eq!(ids(&bpe.encode("a<think>b", Special::Plain)), [0, 6, 1]);
    assert_eq!(ids(&bpe.tokenize(b"\xFFa<think>")), [0, 6]);
}

#[test]
fn longer_special_tokens_are_found_before_shorter_ones() {
    let mut spec = byte_level();
    spec.tokens.edit(|t| t[6] = "end|><s".into());
    // The longest first, though another one begins before it.
    assert_eq!(ids(&tokenizer(&spec).encode("<|im_end|><s>", Special::Parse)), [5, 9]);
    spec.tokens.edit(|t| t[5] = "<|im_".into());
    assert_eq!(ids(&tokenizer(&spec).encode("<|im_end|><s>", Special::Parse)), [5, 6]);
}

#[test]
fn no_special_token_touches_a_plain_part_but_words_span_parts() {
    use Special::{Parse, Plain};
    let bpe = tokenizer(&byte_level());
    let encode = |parts: &[(&str, Special)]| ids(&bpe.encode_parts(parts));
    assert_eq!(encode(&[("<|im_end|> ", Parse), ("ab", Plain), ("<|im_end|>", Parse)]), [5, 4, 5]);
    assert_eq!(encode(&[("<|im_", Parse), ("end|>ab", Parse)]), [5, 3]);
    assert!(!encode(&[("<", Plain), ("|im_end|>", Parse)]).contains(&5));
    assert!(!encode(&[("<|im_end|", Parse), (">", Plain)]).contains(&5));
    assert!(!encode(&[("<|im_", Parse), ("e", Plain), ("nd|>", Parse)]).contains(&5));
    assert_eq!(encode(&[("<|im_", Parse), ("", Plain), ("end|>", Parse)]), [5]);
    assert_eq!(encode(&[("<th", Plain), ("ink>", Parse)]), [6]);
}

#[test]
fn bytes_that_are_not_utf_8_are_tokenized_byte_by_byte() {
    let bpe = tokenizer(&byte_level());
    assert_eq!(ids(&bpe.tokenize(b"\xA9ab\xC3")), [8, 3, 7]);
    assert_eq!(ids(&bpe.tokenize("é".as_bytes())), [7, 8]);
    assert_eq!(ids(&bpe.tokenize(b"\xFF")), [0; 0]);
}

#[test]
fn known_end_markers_end_a_generation_though_no_key_names_them() {
    let mut spec = byte_level();
    spec.types = Some(vec![1; 10]);
    let bpe = tokenizer(&spec);
    assert!(bpe.is_end_of_generation(TokenId(5)) && bpe.is_special(TokenId(5)));
    assert!(!bpe.is_end_of_generation(TokenId(9)));
    assert_eq!(bpe.end_of_turn(), Some(TokenId(5)));
    spec.eos = Some(9);
    let bpe = tokenizer(&spec);
    assert!(bpe.is_end_of_generation(TokenId(9)) && bpe.is_end_of_generation(TokenId(5)));
    assert_eq!((bpe.end_of_turn(), bpe.eos_token()), (Some(TokenId(5)), Some(TokenId(9))));
    // A token of plain text that the file names stays one.
    spec.eot = Some(0);
    let bpe = tokenizer(&spec);
    assert_eq!(bpe.end_of_turn(), Some(TokenId(0)));
    assert!(bpe.is_end_of_generation(TokenId(0)) && !bpe.is_special(TokenId(0)));
}

/// As llama.cpp has it: SmolLM2 holds `<reponame>`, which no key names.
#[test]
fn what_stands_between_files_ends_a_generation_but_no_turn() {
    for marker in ["<reponame>", "<|file_sep|>", "<|fim_pad|>"] {
        let mut spec = byte_level();
        spec.tokens.edit(|t| t[5] = marker.into());
        let bpe = tokenizer(&spec);
        assert!(bpe.is_end_of_generation(TokenId(5)) && bpe.is_special(TokenId(5)), "{marker}");
        assert_eq!(bpe.end_of_turn(), None, "{marker}");
    }
}

#[test]
fn missing_special_ids_are_no_ids() {
    let mut spec = byte_level();
    spec.tokens.edit(|t| t[5] = "<|plain|>".into());
    spec.add_bos = Some(true);
    let bpe = tokenizer(&spec);
    assert_eq!((bpe.beginning_of_text(), bpe.bos_token(), bpe.eos_token()), (None, None, None));
    assert_eq!(bpe.end_of_turn(), None);
    assert!((0..20).all(|id| !bpe.is_end_of_generation(TokenId(id))));
    assert_eq!(bpe.bytes(TokenId(u32::MAX)), b"");
    assert!(!bpe.is_special(TokenId(10)));
}

#[test]
fn a_text_begins_with_bos_if_the_file_or_else_the_kind_says_so() {
    let begins = |spec: &TokenizerSpec| tokenizer(spec).beginning_of_text().is_some();
    let mut spec = TokenizerSpec { bos: Some(9), ..byte_level() };
    assert!(!begins(&spec));
    assert_eq!(tokenizer(&spec).bos_token(), Some(TokenId(9)));
    spec.pre = Some("llama-bpe".into());
    assert!(begins(&spec));
    spec.add_bos = Some(false);
    assert!(!begins(&spec));
    assert!(begins(&TokenizerSpec { bos: Some(1), ..sentencepiece() }));
}

#[test]
fn llama_3_takes_a_word_that_is_a_token_whatever_the_merges_say() {
    let mut spec = byte_level();
    spec.tokens.edit(|t| t.push("ba".into()));
    spec.types = None;
    assert_eq!(ids(&tokenizer(&spec).encode("ba", Special::Plain)), [1, 0]);
    spec.pre = Some("llama-bpe".into());
    assert_eq!(ids(&tokenizer(&spec).encode("ba", Special::Plain)), [10]);
}

#[test]
fn a_missing_pre_tokenizer_is_the_default_one() {
    let mut spec = byte_level();
    spec.tokens.edit(|t| t.push("!".into()));
    spec.tokens.edit(|t| t.push("!b".into()));
    spec.merges.as_mut().unwrap().edit(|m| m.push("! b".into()));
    spec.types = None;
    for (pre, expected) in [(None, [10, 1]), (Some("default".into()), [10, 1])] {
        spec.pre = pre;
        assert_eq!(ids(&tokenizer(&spec).encode("!b", Special::Plain)), expected);
    }
}

#[test]
fn sentencepiece_joins_the_best_score_first_and_puts_a_space_before() {
    let mut spec = sentencepiece();
    // "▁a" at -1 comes before "aa" at -4.
    assert_eq!(ids(&tokenizer(&spec).encode("aa", Special::Plain)), [5, 4]);
    assert_eq!(ids(&tokenizer(&spec).encode("a a", Special::Plain)), [5, 5]);
    assert_eq!(ids(&tokenizer(&spec).encode("a<s>a", Special::Parse)), [5, 1, 5]);
    assert_eq!(ids(&tokenizer(&spec).encode("", Special::Plain)), [0; 0]);
    spec.add_space_prefix = Some(false);
    assert_eq!(ids(&tokenizer(&spec).encode("aa", Special::Plain)), [12]);
    assert_eq!(tokenizer(&spec).bytes(TokenId(5)), b" a");
}

#[test]
fn merges_never_make_a_special_token_of_plain_text() {
    let spec = TokenizerSpec { add_space_prefix: Some(false), ..sentencepiece() };
    assert_eq!(ids(&tokenizer(&spec).encode("</s>", Special::Plain)), [10, 11]);
    let mut spec = byte_level();
    spec.tokens.edit(|t| t.extend(["<", "s>"].map(String::from)));
    spec.types.as_mut().unwrap().extend([1, 1]);
    spec.merges.as_mut().unwrap().edit(|m| m.push("< s>".into()));
    assert!(!tokenizer(&spec).encode("<s>", Special::Plain).contains(&TokenId(9)));
}

#[test]
fn what_no_token_spells_becomes_bytes_or_the_unknown_token() {
    let mut spec = TokenizerSpec { add_space_prefix: Some(false), ..sentencepiece() };
    assert_eq!(ids(&tokenizer(&spec).encode("aé", Special::Plain)), [4, 0]);
    spec.unknown = None;
    assert_eq!(ids(&tokenizer(&spec).encode("aé", Special::Plain)), [4]);
    spec.tokens.edit(|t| t.extend(["<0xC3>", "<0xA9>"].map(String::from)));
    spec.types.as_mut().unwrap().extend([6, 6]);
    spec.scores.as_mut().unwrap().extend([0.0, 0.0]);
    let bytes = tokenizer(&spec);
    assert_eq!(ids(&bytes.encode("aé", Special::Plain)), [4, 13, 14]);
    assert_eq!(bytes.bytes(TokenId(13)), b"\xC3");
    spec.types = None;
    assert_eq!(tokenizer(&spec).bytes(TokenId(13)), b"\xC3");
}

/// The prompt would vanish, in whole or in part.
#[test]
fn a_character_without_a_token_is_named_rather_than_left_out() {
    let lost = |spec: &TokenizerSpec, text: &str| {
        let result = prompt_tokens(&tokenizer(spec), text, Special::Plain);
        result.map_err(|error| error.to_string())
    };
    let refused = |character: &str| {
        Err(format!(
            "the model has no token for the character {character}, and none for unknown ones"
        ))
    };
    let spec = byte_level();
    assert_eq!(lost(&spec, "abé").map(|tokens| ids(&tokens)), Ok(vec![3, 7, 8]));
    assert_eq!(lost(&spec, "abèx"), refused("'è' (U+00E8)"));
    assert_eq!(lost(&spec, "ab x"), refused("'x' (U+0078)"));
    assert_eq!(lost(&spec, "zy"), refused("'z' (U+007A)"));
    // What is a token as a whole needs none for its characters.
    assert_eq!(lost(&spec, "a<think>").map(|tokens| ids(&tokens)), Ok(vec![0, 6]));

    let mut spec = sentencepiece();
    assert_eq!(lost(&spec, "é").map(|tokens| ids(&tokens)), Ok(vec![3, 0]));
    spec.unknown = None;
    assert_eq!(lost(&spec, "aéz"), refused("'é' (U+00E9)"));
    spec.tokens.edit(|t| t[3] = "x".into());
    assert_eq!(lost(&spec, "x a").map(|tokens| ids(&tokens)), Ok(vec![3, 5]));
    assert_eq!(lost(&spec, "x x"), refused("' ' (U+0020)"));
}

#[test]
fn a_token_of_the_type_byte_that_is_no_byte_is_refused() {
    for text in ["<0xZZ>", "<0x1>", "<0x100>", "a"] {
        let mut spec = sentencepiece();
        spec.tokens.edit(|t| t[12] = text.into());
        spec.tokens.edit(|t| t[4] = "b".into());
        spec.types.as_mut().unwrap()[12] = 6;
        let expected = format!(
            "token 12 is of the type byte, but its text is {text:?}; bytes are <0x00> to <0xFF>"
        );
        assert_eq!(refused(&spec), expected);
    }
}

#[test]
fn a_word_of_a_megabyte_is_no_trouble() {
    let text = "ab".repeat(1 << 19);
    assert_eq!(tokenizer(&byte_level()).encode(&text, Special::Plain).len(), 1 << 19);
    assert_eq!(tokenizer(&sentencepiece()).encode(&text, Special::Parse).len(), 1 << 20);
}

#[test]
fn faults_in_a_file_are_errors_that_say_what_was_found() {
    let expect = |change: &dyn Fn(&mut TokenizerSpec), expected: &str| {
        let mut spec = byte_level();
        change(&mut spec);
        let error = refused(&spec);
        assert!(error.contains(expected), "{error}");
    };
    expect(&|s| s.model = "bert".into(), "`bert` is unknown; there are gpt2");
    expect(&|s| s.pre = Some("bloom".into()), "`bloom` is unknown");
    expect(&|s| s.tokens.edit(Vec::clear), "this one 0");
    expect(&|s| s.types = Some(vec![1; 9]), "token_type` has 9 entries for 10 tokens");
    expect(&|s| s.types = Some(vec![7; 10]), "token 0 has type 7");
    expect(&|s| s.tokens.edit(|t| t[1] = "a".into()), "tokens 0 and 1 are both \"a\"");
    expect(&|s| s.bos = Some(10), "bos_token_id` is 10, but ids end at 9");
    expect(&|s| s.eos = Some(99), "eos_token_id` is 99");
    expect(&|s| s.eot = Some(99), "eot_token_id` is 99");
    expect(&|s| s.unknown = Some(99), "unknown_token_id` is 99");
    expect(&|s| s.merges = None, "`tokenizer.ggml.merges` is missing");
    expect(&|s| s.merges = Some(strings(&["a b", "ab"])), "merge 1 is \"ab\"");
    expect(&|s| s.merges = Some(strings(&["a "])), "merge 0 is \"a \"");
    expect(&|s| s.merges = Some(strings(&[""])), "merge 0 is \"\"");
    expect(&|s| s.merges = Some(strings(&["a zz"])), "needs the token \"zz\"");
    expect(&|s| s.merges = Some(strings(&["b a"])), "needs the token \"ba\"");
}

#[test]
fn faults_in_scores_are_errors() {
    let mut spec = sentencepiece();
    spec.scores = None;
    let error = GgufTokenizer::new(spec.clone()).unwrap_err();
    assert!(matches!(error, TokenizerError::MissingKey { .. }));
    spec.scores = Some(vec![0.0; 3]);
    assert!(refused(&spec).contains("has 3 entries for 13 tokens"));
    spec.scores = Some(vec![f32::NAN; 13]);
    assert!(refused(&spec).contains("token 0 has the score NaN"));
}

#[test]
fn empty_tokens_may_repeat_for_nothing_spells_them() {
    let mut spec = byte_level();
    spec.tokens.edit(|t| t[7] = String::new());
    spec.tokens.edit(|t| t[8] = String::new());
    assert_eq!(ids(&tokenizer(&spec).encode("ab", Special::Parse)), [3]);
}

/// Byte-level tokenizers that have all bytes, one for each pre-tokenizer.
static EVERY_BYTE: LazyLock<Vec<GgufTokenizer>> = LazyLock::new(|| {
    let mut spec = byte_level();
    for c in super::byte_level_bpe::byte_chars() {
        if !spec.tokens.iter().any(|text| text == c.to_string()) {
            spec.tokens.edit(|t| t.push(c.to_string()));
            spec.types.as_mut().unwrap().push(1);
        }
    }
    let named = |pre: &str| TokenizerSpec { pre: Some(pre.into()), ..spec.clone() };
    ["gpt-2", "smollm", "llama-bpe", "qwen2", "default"].map(|pre| tokenizer(&named(pre))).into()
});

static NO_UNKNOWN: LazyLock<[GgufTokenizer; 2]> = LazyLock::new(|| {
    [byte_level(), TokenizerSpec { unknown: None, ..sentencepiece() }].map(|s| tokenizer(&s))
});

proptest! {
    #[test]
    fn any_bytes_come_back_whole(text in prop::collection::vec(any::<u8>(), 0..60)) {
        for bpe in EVERY_BYTE.iter() {
            let tokens = bpe.tokenize(&text);
            let back: Vec<u8> = tokens.iter().flat_map(|&t| bpe.bytes(t)).copied().collect();
            prop_assert_eq!(&back, &text);
        }
    }

    #[test]
    fn plain_text_never_holds_a_special_token(text in "[<|im_end>s/ab ]{0,30}(<\\|im_end\\|>|</s>|<s>)?[ab]*") {
        for tokenizer in NO_UNKNOWN.iter() {
            for token in tokenizer.encode(&text, Special::Plain) {
                prop_assert!(!tokenizer.is_special(token));
            }
        }
    }
}

/// As llama.cpp's vocabulary does it: a key says which token it is, and only
/// without it the text does.
#[test]
fn padding_and_separators_of_files_end_a_generation_and_gap_marks_do_not() {
    let with = |change: fn(&mut TokenizerSpec)| {
        let mut spec = byte_level();
        let added = ["<|fim_pad|>", "<|fim_prefix|>", "<|file_sep|>"].map(String::from);
        spec.tokens.edit(|t| t.extend(added));
        spec.types = None;
        change(&mut spec);
        GgufTokenizer::new(spec).unwrap()
    };
    let id = |tokenizer: &GgufTokenizer, text: &str| {
        let ids = (0..tokenizer.size() as u32).map(TokenId);
        ids.into_iter().find(|&token| tokenizer.bytes(token) == text.as_bytes()).unwrap()
    };
    let by_text = with(|_| {});
    for (text, ends) in [("<|fim_pad|>", true), ("<|file_sep|>", true), ("<|fim_prefix|>", false)] {
        assert_eq!(by_text.is_end_of_generation(id(&by_text, text)), ends, "{text}");
        assert!(by_text.is_special(id(&by_text, text)), "{text}");
    }
    let by_key = with(|spec| {
        spec.fim.padding = Some(0);
        spec.eom = Some(1);
    });
    assert!(by_key.is_end_of_generation(TokenId(0)) && by_key.is_end_of_generation(TokenId(1)));
    assert!(!by_key.is_end_of_generation(id(&by_key, "<|fim_pad|>")));
}
