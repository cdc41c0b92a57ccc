//! Worked examples: small distributions whose results are printed in full, so
//! that they can be checked with a pocket calculator. Expected values are from
//! the definitions (softmax, Shannon's entropy), rounded to the digits shown.

mod support;

use logitchain::{
    ChainConfig, NoVocab, TokenId,
    engine::{Model, NgramModel, Special},
};
use support::{build, distribution, ids, left, ln, logits_after, set, softmax, watched};

/// the, cat, sat, mat, dog, ran
const SIX: [f32; 6] = [2.0, 1.0, 0.5, 0.1, -0.5, -1.0];

/// The probabilities that the stages leave, most likely first, as printed with
/// three digits.
fn printed(list: &str, logits: &[f32]) -> String {
    let all = distribution(list, logits);
    all.iter().map(|(_, p)| format!("{p:.3}")[1..].to_owned()).collect::<Vec<_>>().join(" ")
}

fn entropy_in_bits(list: &str, logits: &[f32]) -> f64 {
    distribution(list, logits).iter().map(|(_, p)| if *p > 0.0 { -p * p.log2() } else { 0.0 }).sum()
}

#[test]
fn softmax_of_six_tokens() {
    assert_eq!(printed("", &SIX), ".534 .196 .119 .080 .044 .027");
}

#[test]
fn temperature_sharpens_and_flattens() {
    // e^(-1 / 0.2) = e^-5 = .0067; the last three are below a thousandth.
    assert_eq!(printed("temperature{t=0.2}", &SIX), ".993 .007 .001 .000 .000 .000");
    assert_eq!(printed("temperature{t=1.5}", &SIX), ".402 .206 .148 .113 .076 .054");
}

#[test]
fn top_k_shares_the_rest_among_the_kept() {
    assert_eq!(printed("top_k{k=3}", &SIX), ".629 .231 .140");
}

#[test]
fn top_p_keeps_the_token_with_which_the_sum_is_reached() {
    // .534 + .196 + .119 = .849 falls short of .9; with .080 it is .929.
    assert_eq!(printed("top_p{p=0.9}", &SIX), ".575 .211 .128 .086");
}

#[test]
fn entropy_grows_with_temperature_up_to_that_of_six_equal_tokens() {
    // log2 6 = 2.585.
    for (t, bits) in [
        (0.05, "0.000"),
        (0.2, "0.066"),
        (0.7, "1.470"),
        (1.0, "1.938"),
        (1.5, "2.273"),
        (5.0, "2.556"),
        (100.0, "2.585"),
    ] {
        let list = format!("temperature{{t={t}}}");
        assert_eq!(format!("{:.3}", entropy_in_bits(&list, &SIX)), bits, "at {t}");
    }
}

#[test]
fn the_order_of_temperature_and_top_p_matters() {
    let first = "temperature{t=1.5};top_p{p=0.9}";
    assert_eq!(printed(first, &SIX), ".425 .218 .156 .120 .080");
    let last = "top_p{p=0.9};temperature{t=1.5}";
    assert_eq!(printed(last, &SIX), ".462 .237 .170 .130");
}

#[test]
fn a_peaked_distribution_leaves_few_tokens_and_a_flat_one_all() {
    let peaked = [5.0, 2.0, 1.0, 0.0, -1.0, -2.0];
    // e^0 / (e^0 + e^-3 + e^-4 + e^-5 + e^-6 + e^-7) = .927
    assert_eq!(format!("{:.3}", distribution("", &peaked)[0].1), "0.927");
    assert_eq!(ids("top_p{p=0.9}", &peaked), [0]);
    assert_eq!(ids("top_p{p=0.95}", &peaked), [0, 1]);
    // e^-3 = .0498 is below a tenth of the best.
    assert_eq!(ids("min_p{p=0.1}", &peaked), [0]);
    let flat = [1.0, 0.9, 0.8, 0.7, 0.6, 0.5];
    assert_eq!(ids("top_p{p=0.9}", &flat), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn a_long_tail_counts_for_top_p_and_not_for_min_p() {
    let mut probabilities = vec![0.30, 0.25, 0.20, 0.10];
    probabilities.extend([0.015; 10]);
    let logits = ln(&probabilities);
    // .85 + 6 * .015 = .94, + 7 * .015 = .955
    assert_eq!(ids("top_p{p=0.95}", &logits), Vec::from_iter(0..11));
    // A tenth of .30 is .03.
    assert_eq!(ids("min_p{p=0.1}", &logits), [0, 1, 2, 3]);
}

#[test]
fn five_tokens_with_top_p_of_four_fifths() {
    // .40 + .30 = .70, + .15 = .85
    assert_eq!(ids("top_p{p=0.8}", &ln(&[0.40, 0.30, 0.15, 0.10, 0.05])), [0, 1, 2]);
}

#[test]
fn three_tokens_at_three_temperatures() {
    let logits = [4.0, 3.0, 2.0];
    // By hand: with x = e^(-1/t) the shares are 1, x and x^2 of 1 + x + x^2.
    for (t, expected) in [(0.5, ".867 .117 .016"), (0.8, ".731 .209 .060"), (2.0, ".506 .307 .186")]
    {
        assert_eq!(printed(&format!("temperature{{t={t}}}"), &logits), expected, "at {t}");
    }
}

#[test]
fn penalties_can_be_subtracted_before_the_division() {
    // 8.5 - 3 * 0.5 - 0.3 = 6.7, and 6.7 / 1.1 = 6.0909; the default order
    // gives 8.5 / 1.1 - 1.8 = 5.9273.
    let parameters = "last_n=64,repeat=1.1,frequency=0.5,presence=0.3";
    let after = |order: &str| {
        let list = format!("penalties{{{parameters}{order}}}");
        format!("{:.4}", logits_after(&list, &[0, 0, 0], &[8.5, 0.0])[0])
    };
    assert_eq!(after(",order=\"subtract_first\""), "6.0909");
    assert_eq!(after(",order=\"repeat_first\""), "5.9273");
    assert_eq!(after(""), "5.9273");
}

// ---- a bigram model of characters --------------------------------------------

const CATS_AND_DOGS: &str = "the cat sat on the mat. the dog sat on the log. the cat saw the dog. \
                             the dog saw the cat. a cat and a dog sat on a mat.";

fn bigram() -> NgramModel {
    NgramModel::of_characters(CATS_AND_DOGS, 2).expect("a text and an order")
}

/// The characters behind ids, in their order.
fn text(model: &NgramModel, ids: impl IntoIterator<Item = u32>) -> String {
    let bytes = ids.into_iter().flat_map(|id| model.tokenizer().bytes(TokenId(id)).to_vec());
    String::from_utf8(bytes.collect()).expect("characters")
}

fn after_a_space(model: &mut NgramModel) -> Vec<f32> {
    let space = model.tokenizer().encode(" ", Special::Plain);
    model.forward(&space).expect("a known character").to_vec()
}

/// Counted by hand: the words but the first, by their first letters.
#[test]
fn a_bigram_model_counts_what_follows_a_space() {
    let mut model = bigram();
    after_a_space(&mut model);
    let counts: Vec<(TokenId, u32)> = model.counts().collect();
    let counts: Vec<String> =
        counts.iter().map(|(id, n)| format!("{}{n}", text(&model, [id.0]))).collect();
    assert_eq!(counts.join(" "), "a4 c4 d4 l1 m2 o3 s5 t7");
}

#[test]
fn top_p_and_min_p_after_a_space() {
    let mut model = bigram();
    let logits = after_a_space(&mut model);
    // 7 + 5 + 4 + 4 + 4 = 24 of 30 are .80, with the 3 of o they are .90.
    assert_eq!(text(&model, ids("top_p{p=0.89}", &logits)), "tsacdo");
    // A fifth of t's 7 is 1.4: only l with its 1 lies below.
    assert_eq!(text(&model, ids("min_p{p=0.2}", &logits)), "tsacdom");
}

/// 27 of 30 are .9 exactly. Neither .9 nor the weights are numbers that a
/// computer has, so a sum that is this close counts as reached.
#[test]
fn a_sum_on_the_boundary_counts_as_reached() {
    let mut model = bigram();
    let logits = after_a_space(&mut model);
    assert_eq!(text(&model, ids("top_p{p=0.9}", &logits)), "tsacdo");
    // Just off the boundary there is no doubt.
    assert_eq!(text(&model, ids("top_p{p=0.899999}", &logits)), "tsacdo");
    assert_eq!(text(&model, ids("top_p{p=0.900001}", &logits)), "tsacdom");
}

#[test]
fn greedy_from_t_loops() {
    let mut model = bigram();
    let config = ChainConfig::from_samplers("greedy").expect("a list");
    let mut chain = build(&config, &NoVocab);
    let mut tokens = model.tokenizer().encode("t", Special::Plain);
    for _ in 0..11 {
        let last = tokens[tokens.len() - 1];
        let next = chain.sample(model.forward(&[last]).expect("a known character"));
        tokens.push(next.expect("a token"));
    }
    assert_eq!(text(&model, tokens.iter().map(|t| t.0)), "the the the ");
}

#[test]
fn the_bigrams_softmax_is_the_counts_proportions() {
    let mut model = bigram();
    let logits = after_a_space(&mut model);
    let all = softmax(&left(&mut watched(""), &logits));
    let t = all[0];
    assert_eq!(text(&model, [t.0]), "t");
    assert!((t.1 - 7.0 / 30.0).abs() < 1e-6, "{}", t.1);
    assert_eq!(set("", &logits).len(), 8);
}
