//! Don't repeat yourself: which token is penalised, by how much, and how far
//! back a match may reach.

use logitchain::{TokenId, Vocab};

use crate::support::{assert_logits, left, logits_after, refusal, refusal_in, watched, watched_in};

/// What each of ten tokens loses.
fn losses(parameters: &str, history: &[u32]) -> Vec<f32> {
    let list = format!("dry{{multiplier=0.8,base=1.75{parameters}}}");
    logits_after(&list, history, &[0.0; 10]).iter().map(|logit| -logit).collect()
}

/// Only this token loses, and so much.
#[track_caller]
fn assert_loses(parameters: &str, history: &[u32], token: usize, loss: f32) {
    let mut expected = [0.0; 10];
    expected[token] = loss;
    assert_logits(&losses(parameters, history), &expected);
}

/// The exponent counts from the allowed length: a match of two, the default,
/// costs .8 * 1.75^0. An engine began one too high: 2.45 for 1.4.
#[test]
fn a_match_of_the_allowed_length_costs_the_multiplier() {
    assert_loses("", &[1, 2, 3, 9, 1, 2], 3, 0.8);
    assert_loses("", &[7, 1, 2, 3, 9, 7, 1, 2], 3, 1.4);
    assert_loses(",allowed_length=3", &[7, 1, 2, 3, 9, 7, 1, 2], 3, 0.8);
    // 2 alone is a match of one.
    assert_loses("", &[2, 3, 9, 2], 3, 0.0);
    assert_loses(",allowed_length=1", &[2, 3, 9, 2], 3, 0.8);
}

/// 3 follows "1 2" and, elsewhere, "2" alone.
#[test]
fn of_two_matches_the_longer_counts_once() {
    assert_loses(",allowed_length=1", &[1, 2, 3, 9, 2, 3, 8, 1, 2], 3, 1.4);
    assert_loses(",allowed_length=1", &[2, 3, 9, 1, 2, 3, 8, 1, 2], 3, 1.4);
}

/// A match may overlap the end that it matches: "1 1 1" ends as it did one
/// token earlier, with two tokens in common, and 1 would go on.
#[test]
fn a_loop_of_one_token_is_a_repetition() {
    assert_loses("", &[1, 1, 1], 1, 0.8);
    assert_loses("", &[1, 1, 1, 1], 1, 1.4);
}

/// The length of the history minus one underflowed.
#[test]
fn an_empty_or_tiny_history_is_no_repetition() {
    for last_n in ["0", "1", "64", "\"all\""] {
        let parameters = format!(",last_n={last_n}");
        for history in [&[][..], &[1], &[1, 1]] {
            assert_eq!(losses(&parameters, history), [0.0; 10], "{last_n}, {history:?}");
        }
    }
    assert_eq!(losses(",last_n=1", &[1, 1, 1, 1]), [0.0; 10]);
    assert_eq!(losses(",last_n=0", &[1, 1, 1, 1]), [0.0; 10]);
}

/// In 200 tokens without a repetition "1 2 3" stands at the beginning, and the
/// text ends with "1 2".
#[test]
fn a_repetition_beyond_the_window_is_not_seen() {
    let mut history = vec![1, 2, 3];
    history.extend(100..300);
    history.extend([1, 2]);
    assert_loses("", &history, 3, 0.0);
    assert_loses(",last_n=\"all\"", &history, 3, 0.8);
    assert_loses(",last_n=205", &history, 3, 0.8);
    // Without the first 1 the match is one token long.
    assert_loses(",last_n=204", &history, 3, 0.0);
}

// ---- breakers ----------------------------------------------------------------

/// Tokens as their bytes.
#[derive(Debug)]
struct Pieces(Vec<&'static [u8]>);

impl Vocab for Pieces {
    fn size(&self) -> usize {
        self.0.len()
    }

    fn bytes(&self, token: TokenId) -> &[u8] {
        self.0.get(token.index()).copied().unwrap_or_default()
    }
}

/// What token 5 loses after "0 2 3 4 1 5 ... 0 2 3 4 1".
fn loss_after_five_equal(breakers: &str, vocab: &dyn Vocab) -> f32 {
    let list = format!("dry{{multiplier=1,base=2,allowed_length=1,breakers=[{breakers}]}}");
    let mut chain = watched_in(&list, vocab);
    [0, 2, 3, 4, 1, 5, 6, 0, 2, 3, 4, 1].iter().for_each(|id| chain.accept(TokenId(*id)));
    let left = left(&mut chain, &[0.0; 7]);
    -left.iter().find(|c| c.0 == 5).expect("token 5").1
}

/// With breakers in the text "cut" at the dash the match is the one token after
/// it, 2^0; without, five tokens, 2^4.
#[test]
fn a_breaker_spelled_by_several_tokens_ends_a_match() {
    let vocab = Pieces(vec![b"a", b"b", &[0xe2], &[0x80], &[0x94], b"c", b"d"]);
    assert_eq!(loss_after_five_equal("\"none\"", &vocab), 16.0);
    assert_eq!(loss_after_five_equal("\"\u{2014}\"", &vocab), 1.0);
    // A character that shares two bytes with the dash is none.
    assert_eq!(loss_after_five_equal("\"\u{2013}\"", &vocab), 16.0);
}

/// An em dash among the breakers ended the process: parts of it are no text.
/// Nor may any of these end it, or break where they do not occur.
#[test]
fn breakers_of_any_characters_are_taken() {
    let vocab = Pieces(vec![b"a", b"b", &[0xe2], &[0x80], &[0x94], b"c", b"d"]);
    for breaker in [r#""\n""#, r#""「""#, r#""é""#, r#""😀""#, r#"'\n'"#] {
        assert_eq!(loss_after_five_equal(breaker, &vocab), 16.0, "{breaker}");
    }
}

/// The token after which a breaker stands is never penalised for continuing
/// over it: a token that contains a breaker is exempt.
#[test]
fn a_token_that_contains_a_breaker_is_never_penalised() {
    let vocab = Pieces(vec![b"a", b"b", b"x:", b"y", b"z"]);
    let mut chain = watched_in("dry{multiplier=1,base=2}", &vocab);
    [0, 1, 2, 3, 0, 1].iter().for_each(|id| chain.accept(TokenId(*id)));
    assert!(left(&mut chain, &[0.0; 5]).iter().all(|c| c.1 == 0.0));
    let mut chain = watched_in("dry{multiplier=1,base=2,breakers=[\"none\"]}", &vocab);
    [0, 1, 2, 3, 0, 1].iter().for_each(|id| chain.accept(TokenId(*id)));
    assert_eq!(left(&mut chain, &[0.0; 5])[4], (2, -1.0));
}

#[test]
fn breakers_that_cannot_be_meant_are_refused() {
    let vocab = Pieces(vec![b"a"]);
    assert_eq!(
        refusal_in("dry{breakers=[\"\\n\",\"\"]}", &vocab),
        "stage 1, `dry`: `breakers` has an empty text, which breaks nothing"
    );
    assert_eq!(
        refusal_in(&format!("dry{{breakers=[\"{}\"]}}", "ab".repeat(5000)), &vocab),
        "stage 1, `dry`: `breakers` has one of 10000 bytes, `ababababab…`; at most 40 are allowed"
    );
}

/// Numbers with which the penalty would shrink or vanish as a match grows.
#[test]
fn bases_below_one_and_what_is_no_number_are_refused() {
    assert_eq!(
        refusal("dry{multiplier=1,base=0.9}"),
        "stage 1, `dry`: `base` must be at least 1, got 0.9"
    );
    assert_eq!(
        refusal("dry{multiplier=nan}"),
        "stage 1, `dry`: `multiplier` must be a finite number, got NaN"
    );
}

/// A power that grows without bound would end as -inf, a ban, or as NaN.
#[test]
fn a_long_match_costs_no_more_than_a_number_can_hold() {
    let mut chain = watched("dry{multiplier=0.8,last_n=\"all\"}");
    for _ in 0..3000 {
        chain.accept(TokenId(1));
    }
    let left = left(&mut chain, &[0.0, 5.0]);
    assert_eq!(left.len(), 2);
    assert!(left[1].1 < -1e37, "{left:?}");
}

/// A quadratic search took 38 seconds over 1,024 equal tokens in one engine.
/// A quarter of a million takes milliseconds in linear time, and some minutes
/// in quadratic time (3 * 10^10 comparisons): the bound need not be tight.
#[test]
fn the_search_takes_linear_time() {
    let random = |i: u32| i.wrapping_mul(2_654_435_761) >> 16 & 1;
    for history in [&(|_| 1_u32) as &dyn Fn(u32) -> u32, &random, &|i| i % 3] {
        let mut chain = watched("dry{multiplier=0.8,last_n=\"all\"}");
        (0..1 << 18).for_each(|i| chain.accept(TokenId(history(i))));
        let start = std::time::Instant::now();
        left(&mut chain, &[0.0; 4]);
        assert!(start.elapsed().as_secs() < 5, "{:?}", start.elapsed());
    }
}
