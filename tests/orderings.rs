//! Which stages commute, on logits of a real model: all 120 orders of five stages
//! against a naive reckoning of what each does, which shares no code with them.
//!
//! `golden/recorded.safetensors` holds three steps of SmolLM2-135M-Instruct (`Q4_1`):
//! `logits` (steps x vocabulary, `f32`), and `tokens`, what was appended after each.
//! The ignored test below made it, on this repository's engine.

use std::{
    collections::{BTreeSet, HashMap},
    path::Path,
};

use logitchain::{
    Chain, ChainConfig, Registry, TokenId, compare, compare_run,
    engine::{GgufModel, LoadOptions, Model as _, Special, prompt_tokens},
    stages::{MinP, Temperature, TopK, TopP},
};
use logitchain_conformance::{
    NumberVocab, assert_commutes, assert_matches_distribution, assert_orders_differ,
    assert_same_distribution, orders,
};
use safetensors::{Dtype, SafeTensors, tensor::TensorView};

const FILE: &str = "tests/golden/recorded.safetensors";

/// Five stages of which ten pairs can be made; at a temperature that matters.
const STAGES: [&str; 5] =
    ["top_k{k=40}", "typical{p=0.8}", "top_p{p=0.9}", "min_p{p=0.05}", "temperature{t=1.5}"];

/// The pairs that commute whatever the logits. A temperature keeps the order of
/// tokens, and with it the `k` most likely ones. `top_k` and `min_p` look at nothing
/// but ranks and at the best logit, which both keep, so that each drops the same
/// tokens after the other. `top_p` and `typical` add up probabilities, which change
/// with every token dropped and with the temperature; so does the distance to the
/// best logit, which `min_p` looks at.
const COMMUTING: [[usize; 2]; 2] = [[0, 3], [0, 4]];

/// The logits of each step, and the tokens that followed.
fn recorded() -> (Vec<Vec<f32>>, Vec<TokenId>) {
    let bytes = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE)).expect("a file");
    let file = SafeTensors::deserialize(&bytes).expect("safetensors");
    let logits = file.tensor("logits").expect("logits");
    assert_eq!(logits.dtype(), Dtype::F32);
    let [_, size] = logits.shape() else { panic!("steps x vocabulary") };
    let rows = logits.data().chunks(size * 4).map(|row| {
        row.chunks(4).map(|b| f32::from_le_bytes(b.try_into().expect("four bytes"))).collect()
    });
    let tokens = file.tensor("tokens").expect("tokens");
    assert_eq!(tokens.dtype(), Dtype::U32);
    let tokens = tokens
        .data()
        .chunks(4)
        .map(|b| TokenId(u32::from_le_bytes(b.try_into().expect("four bytes"))));
    (rows.collect(), tokens.collect())
}

fn chain(stages: &[&str]) -> Chain {
    let list = [stages, &["dist"]].concat().join(";");
    let registry = Registry::linked().expect("distinct names");
    let config = ChainConfig::from_samplers(&list).expect("a list");
    config.build(&registry, &NumberVocab::new(0)).expect("a chain")
}

/// Candidates as the naive reckoning has them: ids and logits, most likely first.
type Naive = Vec<(u32, f64)>;

fn softmax(all: &Naive) -> Vec<f64> {
    let weights: Vec<f64> = all.iter().map(|c| (c.1 - all[0].1).exp()).collect();
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / sum).collect()
}

/// The first of a list of probabilities that reach a sum.
fn reaching(p: f64, probabilities: impl Iterator<Item = f64>) -> usize {
    let mut sum = 0.0;
    probabilities
        .take_while(|q| {
            let short = sum < p;
            sum += q;
            short
        })
        .count()
}

/// What a stage does, by the letter of its paper.
fn naive(stage: &str, mut all: Naive) -> Naive {
    let p = softmax(&all);
    match stage {
        "top_k{k=40}" => all.truncate(40),
        "top_p{p=0.9}" => all.truncate(reaching(0.9, p.iter().copied())),
        "min_p{p=0.05}" => {
            let best = p[0];
            all = all.into_iter().zip(p).filter(|(_, q)| *q >= 0.05 * best).map(|c| c.0).collect();
        }
        "typical{p=0.8}" => {
            let entropy: f64 = p.iter().filter(|q| **q > 0.0).map(|q| -q * q.ln()).sum();
            let mut near: Vec<_> = all.into_iter().zip(p).collect();
            let far = |q: f64| (-q.ln() - entropy).abs();
            near.sort_by(|a, b| far(a.1).total_cmp(&far(b.1)));
            let kept = reaching(0.8, near.iter().map(|c| c.1));
            all = near.into_iter().take(kept).map(|c| c.0).collect();
            all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        }
        "temperature{t=1.5}" => all.iter_mut().for_each(|c| c.1 /= 1.5),
        _ => panic!("{stage}"),
    }
    all
}

/// The naive reckoning of one step's logits, which remembers what stages leave.
struct Reckoning(HashMap<Vec<&'static str>, Naive>);

impl Reckoning {
    fn of(logits: &[f32]) -> Self {
        let mut all: Naive = (0..).zip(logits.iter().map(|logit| f64::from(*logit))).collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        Self([(Vec::new(), all)].into())
    }

    fn left(&mut self, stages: &[&'static str]) -> Naive {
        if let Some(left) = self.0.get(stages) {
            return left.clone();
        }
        let (last, before) = stages.split_last().expect("what no stage leaves is known");
        let left = naive(last, self.left(before));
        self.0.insert(stages.to_vec(), left.clone());
        left
    }

    /// The probabilities at the end of the stages, by id.
    fn law(&mut self, stages: &[&'static str]) -> Vec<(u32, f64)> {
        let left = self.left(stages);
        let p = softmax(&left);
        let mut law: Vec<_> = left.into_iter().map(|c| c.0).zip(p).collect();
        law.sort_by_key(|c| c.0);
        law
    }
}

fn differ(a: &[(u32, f64)], b: &[(u32, f64)]) -> bool {
    let far = |(a, b): (&(u32, f64), &(u32, f64))| a.0 != b.0 || (a.1 - b.1).abs() > 1e-6;
    a.len() != b.len() || a.iter().zip(b).any(far)
}

fn said(chain: &Chain, logits: &[f32]) -> Vec<(u32, f64)> {
    let law = chain.distribution(logits).expect("known probabilities");
    law.by_id().iter().map(|(id, p)| (id.0, *p)).collect()
}

#[test]
fn all_orders_of_five_stages_give_what_a_naive_reckoning_does() {
    let (rows, _) = recorded();
    let mut counts = Vec::new();
    for (step, logits) in rows.iter().enumerate() {
        let mut reckoning = Reckoning::of(logits);
        let mut outcomes = BTreeSet::new();
        for order in orders(&STAGES) {
            let (got, expected) = (said(&chain(&order), logits), reckoning.law(&order));
            assert!(
                !differ(&got, &expected),
                "step {step}, {order:?}: {} tokens, not {}",
                got.len(),
                expected.len()
            );
            outcomes
                .insert(got.iter().map(|c| (c.0, (c.1 * 1e5).round() as u32)).collect::<Vec<_>>());
        }
        counts.push(outcomes.len());
    }
    // The distributions that differ in the fifth decimal, counted by a script in
    // Python. The more a model hesitates, the more the order matters: the entropies
    // of the steps are 3.1, 8.4 and 2.2 bits.
    assert_eq!(counts, [8, 20, 3]);
}

/// On every step, the engine's chains and the naive reckoning agree on which pairs
/// differ; those that must commute do, and every other pair differs on some step.
#[test]
fn two_pairs_of_ten_commute() {
    let (rows, _) = recorded();
    let mut reckonings: Vec<_> = rows.iter().map(|logits| Reckoning::of(logits)).collect();
    let pairs = (0..STAGES.len()).flat_map(|a| (a + 1..STAGES.len()).map(move |b| [a, b]));
    let (commuting, others): (Vec<_>, Vec<_>) = pairs.partition(|pair| {
        let one = pair.map(|at| STAGES[at]);
        let other = [one[1], one[0]];
        let differs = rows.iter().zip(&mut reckonings).map(|(logits, reckoning)| {
            let expected = differ(&reckoning.law(&one), &reckoning.law(&other));
            let got = differ(&said(&chain(&one), logits), &said(&chain(&other), logits));
            assert_eq!(got, expected, "{one:?}");
            got
        });
        // All of them are looked at.
        differs.filter(|differs| *differs).count() == 0
    });
    assert_eq!((&commuting[..], others.len()), (&COMMUTING[..], 8));
}

/// A pair that commutes may be swapped wherever it stands side by side.
#[test]
fn swapping_what_commutes_never_matters() {
    let (rows, _) = recorded();
    for order in orders(&[0, 1, 2, 3, 4]) {
        for at in 0..4 {
            let mut swapped = order.clone();
            swapped.swap(at, at + 1);
            if COMMUTING.contains(&[order[at], order[at + 1]]) {
                let named =
                    |order: &[usize]| chain(&Vec::from_iter(order.iter().map(|i| STAGES[*i])));
                assert_same_distribution(&named(&order), &named(&swapped), &rows[0]);
            }
        }
    }
}

const LOGITS: [f32; 6] = [2.0, 1.0, 0.5, 0.1, -0.5, -1.0];

fn assert_probabilities(chain: &Chain, expected: &[f64]) {
    let got = said(chain, &LOGITS);
    let close = got.iter().zip(expected).all(|(got, expected)| (got.1 - expected).abs() < 5e-4);
    assert!(got.len() == expected.len() && close, "{chain}: {got:?}");
}

/// By hand. e^(logit / 1.5) is 3.794 1.948 1.396 1.069 .717 .513, in sum 9.436: the
/// first five reach .9, and of their sum 8.923 they are .425 .218 .156 .120 .080.
/// Without the temperature the first four reach it (.534 .196 .119 .080), and
/// of 8.206 they are .462 .237 .170 .130.
#[test]
fn top_p_before_or_after_the_temperature_is_not_the_same() {
    let after = chain(&["temperature{t=1.5}", "top_p{p=0.9}"]);
    let before = chain(&["top_p{p=0.9}", "temperature{t=1.5}"]);
    assert_probabilities(&after, &[0.425, 0.218, 0.156, 0.120, 0.080]);
    assert_probabilities(&before, &[0.462, 0.237, 0.170, 0.130]);
    assert_orders_differ(&after, &before, &LOGITS);

    let diff = compare(&after, &before, &LOGITS).expect("known probabilities");
    assert_eq!(diff.only_a, [TokenId(4)]);
    assert_eq!((diff.both.len(), diff.only_b.len()), (4, 0));
    // The fifth token's share goes to the others: of 8.923 it is .717.
    assert!((diff.total_variation - 0.7165 / 8.9225).abs() < 1e-4, "{}", diff.total_variation);
    assert_eq!(diff.kl_ab, f64::INFINITY);
    // The others grow by 8.9225 / 8.2060 each: the binary logarithm of that.
    assert!((diff.kl_ba - 0.1208).abs() < 1e-4, "{}", diff.kl_ba);
    let json = serde_json::to_value(&diff).expect("JSON");
    assert_eq!(json["kl_ab"], "inf");
    assert_eq!(json["only_a"], serde_json::json!([4]));
}

/// By the definition, with a = (.5, .5) and b = (.25, .75): KL(a|b) = .5 + .5 log2
/// (2/3) = .2075, KL(b|a) = -.25 + .75 log2 1.5 = .1887; their mean is (.375, .625),
/// and the divergences from it are .0466 and .0452.
#[test]
fn divergences_are_those_of_the_textbook() {
    let stage = |p: f32| format!("logit_bias{{bias=[\"1{p:+}\"]}}");
    let a = chain(&["temperature{t=2}"]);
    let b = chain(&[&stage(3_f32.ln())]);
    let diff = compare(&a, &b, &[0.0, 0.0]).expect("known probabilities");
    let close =
        |got: f64, expected: f64| assert!((got - expected).abs() < 1e-4, "{got} {expected}");
    close(diff.total_variation, 0.25);
    close(diff.kl_ab, 0.2075);
    close(diff.kl_ba, 0.1887);
    close(diff.jensen_shannon, 0.0488);
    close(diff.entropy_a, 1.0);
    close(diff.entropy_b, 0.8113);
}

#[test]
fn a_run_is_summed_up() {
    let (rows, tokens) = recorded();
    let run = || rows.iter().map(Vec::as_slice).zip(tokens.iter().copied());
    let first = chain(&["temperature{t=1.5}", "top_p{p=0.9}"]);
    let last = chain(&["top_p{p=0.9}", "temperature{t=1.5}"]);
    let diff = compare_run(&first, &last, run()).expect("known probabilities");
    let steps: Vec<_> = rows.iter().map(|logits| compare(&first, &last, logits)).collect();
    let variations: Vec<f64> =
        steps.iter().map(|diff| diff.as_ref().expect("known").total_variation).collect();
    assert_eq!(diff.steps, 3);
    assert!((diff.total_variation.mean - variations.iter().sum::<f64>() / 3.0).abs() < 1e-12);
    assert_eq!(diff.total_variation.max, variations.iter().copied().fold(0.0, f64::max));
    assert_eq!(diff.kept_differs, 1.0);
    assert_eq!(diff.best_differs, 0.0);

    let same = compare_run(&first, &first, run()).expect("known probabilities");
    assert_eq!((same.total_variation.max, same.kept_differs, same.parts_at), (0.0, 0.0, None));
    // The best token of each step is forbidden to the second.
    let banned = chain(&["xtc{probability=1,threshold=0.000001}"]);
    let diff = compare_run(&chain(&["top_k{k=1}"]), &banned, run()).expect("known probabilities");
    let parting = diff.parts_at.expect("different tokens");
    assert_eq!((diff.best_differs, parting.step), (1.0, 0));
    assert_ne!(parting.a, parting.b);

    // What was accepted counts: the penalty is of the step after.
    let bans = chain(&["penalties{presence=100}"]);
    let diff = compare_run(&bans, &chain(&[]), run()).expect("known probabilities");
    assert!(diff.total_variation.max > 0.0, "{diff:?}");

    let dead = chain(&["logit_bias{bias=[\"0-inf\",\"1-inf\"]}"]);
    let two = [([1.0, 2.0, 3.0], TokenId(1)), ([1.0, 2.0, f32::NEG_INFINITY], TokenId(1))];
    let run = two.iter().map(|(logits, token)| (logits.as_slice(), *token));
    let error = compare_run(&chain(&[]), &dead, run).expect_err("nothing is left");
    assert_eq!(error.to_string(), "step 2: `logits -> logit-bias -> dist`");
}

#[test]
fn chains_draw_recorded_tokens_by_their_probabilities() {
    let (rows, _) = recorded();
    let all = chain(&STAGES);
    assert_matches_distribution(&all, &rows[0], 2_000);
    let coin = chain(&["top_k{k=20}", "xtc{probability=0.4,threshold=0.05}"]);
    assert_matches_distribution(&coin, &rows[1], 2_000);
}

#[test]
fn stages_that_commute_can_say_so() {
    let (rows, _) = recorded();
    let hot = Temperature { t: 1.5, ..Default::default() };
    assert_commutes(&TopK { k: 40 }, &hot, &rows[0]);
    assert_commutes(&TopK { k: 40 }, &MinP { p: 0.05, min_keep: 0 }, &rows[0]);
}

#[test]
#[should_panic(expected = "`top_p` and `temperature` do not commute")]
fn stages_that_do_not_commute_are_found_out() {
    let hot = Temperature { t: 1.5, ..Default::default() };
    assert_commutes(&TopP { p: 0.9, min_keep: 0 }, &hot, &LOGITS);
}

#[test]
// e^(-.5 / 1.5) is .716531, of the five's 8.922487.
#[should_panic(expected = "       4   0.080306   0.000000")]
fn a_message_shows_the_tokens_with_both_probabilities() {
    let after = chain(&["temperature{t=1.5}", "top_p{p=0.9}"]);
    let before = chain(&["top_p{p=0.9}", "temperature{t=1.5}"]);
    assert_same_distribution(&after, &before, &LOGITS);
}

#[test]
#[should_panic(expected = "the chains do not differ")]
fn orders_that_do_not_differ_are_found_out() {
    assert_orders_differ(&chain(&["typical{p=1}"]), &chain(&["top_k{k=6}"]), &LOGITS);
}

#[test]
#[should_panic(expected = "its probabilities move while it draws")]
fn a_law_that_moves_cannot_be_tested_by_counting() {
    let registry = Registry::linked().expect("distinct names");
    let config = ChainConfig::from_samplers("mirostat_v2{tau=1}").expect("a list");
    let chain = config.build(&registry, &NumberVocab::new(6)).expect("a chain");
    assert_matches_distribution(&chain, &LOGITS, 20);
}

/// Writes the file: `LOGITCHAIN_SMOLLM2=model.gguf cargo test --release --test
/// orderings -- --ignored`. The tokens are drawn by `dist` with the seed 42.
#[test]
#[ignore = "needs the model, and writes the recorded logits"]
fn records_three_steps_of_the_model() {
    let path = std::env::var("LOGITCHAIN_SMOLLM2").expect("LOGITCHAIN_SMOLLM2 names the model");
    let model = GgufModel::load(Path::new(&path), &LoadOptions::default()).expect("a model");
    let prompt = "The lighthouse keeper opened the door and saw";
    let mut input = prompt_tokens(model.tokenizer(), prompt, Special::Plain).expect("a prompt");
    let (mut session, mut chain) = (model.session(), chain(&["top_k{k=40}"]));
    let (mut logits, mut tokens) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let row = session.forward(&input).expect("logits");
        logits.extend(row.iter().flat_map(|logit| logit.to_le_bytes()));
        let token = chain.sample(row).expect("a token");
        chain.accept(token);
        tokens.extend(token.0.to_le_bytes());
        input = vec![token];
    }
    let shape = vec![3, logits.len() / 12];
    let view = |dtype, shape, data| TensorView::new(dtype, shape, data).expect("a tensor");
    let tensors = [
        ("logits", view(Dtype::F32, shape, &logits)),
        ("tokens", view(Dtype::U32, vec![3], &tokens)),
    ];
    let file = safetensors::serialize(tensors, None).expect("a file");
    std::fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE), file).expect("written");
}
