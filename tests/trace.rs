//! A trace says what a chain does, and changes nothing.

use logitchain::{
    Chain, ChainConfig, Cut, Fate, NoVocab, Registry, RngKind, SampleError, Seed, StagePlace,
    TokenId,
};
use logitchain_conformance::NumberVocab;
use proptest::prelude::*;

fn build(list: &str, rng: RngKind, seed: u64) -> Chain {
    let mut config = ChainConfig::from_samplers(list).unwrap_or_else(|e| panic!("{list}: {e}"));
    (config.rng, config.seed) = (rng, Seed::Fixed(seed));
    let registry = Registry::linked().expect("distinct names");
    let vocab = NumberVocab::new(600).ending_generation(&[3, 40]);
    config.build(&registry, &vocab).unwrap_or_else(|e| panic!("{list}: {e}"))
}

/// Every stage that does not select, with parameters that make it work; some that
/// can leave nothing, and a neutral one.
const STAGES: [&str; 22] = [
    "dry{multiplier=0.8,breakers=[\"7\"]}",
    "infill",
    "logit_bias{bias=[\"0+2\",\"5-inf\",\"9-1.5\"]}",
    "logit_bias{bias=[\"0-inf\",\"1-inf\",\"2-inf\"]}",
    "min_p",
    "min_p{p=0.3,min_keep=4}",
    "penalties{repeat=1.2,frequency=0.2,presence=0.3}",
    "temperature{t=1.7}",
    "temperature{t=0.4}",
    "temperature{t=0.9,range=0.5}",
    "temperature{t=0}",
    "top_k{k=0}",
    "top_k{k=5}",
    "top_k{k=90}",
    "top_n_sigma{n=1.2}",
    "top_p{p=0.6}",
    "top_p{p=0.95,min_keep=3}",
    "typical{p=0.7}",
    "typical{p=0.95}",
    "xtc{probability=0.5,threshold=0.02}",
    "xtc{probability=1,threshold=0.1,min_keep=2}",
    "top_p{p=0}",
];

const SELECTORS: [&str; 6] =
    ["dist", "greedy", "mirostat", "mirostat_v2{tau=2}", "adaptive_p{target=0.3}", "adaptive_p"];

/// Logits with ties and masks, of a block of memory or several.
fn logits() -> impl Strategy<Value = Vec<f32>> {
    let logit = prop_oneof![
        1 => Just(f32::NEG_INFINITY),
        6 => (-40_i8..40).prop_map(|n| f32::from(n) * 0.25),
        3 => -9.0_f32..9.0,
    ];
    prop::collection::vec(logit, 1..600)
}

fn list() -> impl Strategy<Value = String> {
    let stages = prop::collection::vec(prop::sample::select(&STAGES[..]), 0..7);
    (stages, prop::sample::select(&SELECTORS[..])).prop_map(|(mut stages, selector)| {
        stages.push(selector);
        stages.join(";")
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Its `Debug` shows all of a chain's state, the random streams' included.
    #[test]
    fn tracing_changes_neither_the_token_nor_the_state(
        list in list(), logits in logits(), seed in 0_u64..1000, mt in any::<bool>(),
    ) {
        let rng = RngKind::ALL[usize::from(mt)].1;
        let mut sampled = build(&list, rng, seed);
        let mut traced = sampled.clone();
        for step in 0..4_u16 {
            let mut logits: Vec<f32> = logits.clone();
            let by = usize::from(step) * 7 % logits.len();
            logits.rotate_left(by);
            let before = format!("{traced:?}");
            let law = traced.distribution(&logits);
            prop_assert_eq!(format!("{traced:?}"), before);
            let trace = traced.trace(&mut logits.clone());
            let token = sampled.sample(&mut logits);
            prop_assert_eq!(trace.outcome(), &token);
            prop_assert_eq!(format!("{traced:?}"), format!("{sampled:?}"));
            let Ok(token) = token else { break };

            let chosen = matches!(trace.fate(token), Fate::Chosen { .. });
            prop_assert!(chosen, "{:?}", trace.fate(token));
            // A coin may fall so that the chain fails, where it has not.
            if let Ok(law) = law {
                prop_assert!(law.contains(token));
            }
            if let Some(draw) = trace.draw() {
                let fell = draw.low - 1e-9 <= draw.u && draw.u <= draw.high + 1e-9;
                prop_assert!(fell && draw.token == token, "{:?} {} {}", draw.u, draw.low, draw.high);
            }
            let lost: usize = trace.stages().iter().map(|stage| stage.removed().len()).sum();
            prop_assert_eq!(trace.start().len() - lost, trace.end().len());
            sampled.accept(token);
            traced.accept(token);
        }
    }

    /// Where no coin is tossed, the law is what the trace saw at the draw.
    #[test]
    fn a_distribution_is_what_a_trace_draws_from(list in list(), logits in logits()) {
        let list = list.split(';').filter(|stage| !stage.starts_with("xtc"));
        let list = list.collect::<Vec<_>>().join(";");
        let mut chain = build(&list, RngKind::default(), 1);
        let law = chain.distribution(&logits);
        let trace = chain.trace(&mut logits.clone());
        match (law, trace.draw()) {
            (Ok(law), Some(draw)) => {
                let drawn: Vec<_> = draw.candidates().iter().map(|t| (t.id, t.probability)).collect();
                prop_assert_eq!(law.by_id(), drawn);
            }
            (Ok(law), None) => {
                prop_assert_eq!(law.tokens(), &[(trace.outcome().clone().expect("a token"), 1.0)]);
            }
            (Err(_), _) => prop_assert!(trace.outcome().is_err()),
        }
    }
}

const LOGITS: [f32; 6] = [2.0, 1.0, 0.5, 0.1, -0.5, -1.0];

fn close(got: f64, expected: f64) {
    assert!((got - expected).abs() < 1e-4, "got {got}, expected {expected}");
}

/// By hand: e^logit is 7.389 2.718 1.649 1.105 .607 .368, in sum 13.836, so that the
/// probabilities are .5341 .1965 .1192 .0799 .0438 .0266. The first four reach .9
/// with .9296; token 1 goes first from a penalty of 1. Divided by 1.5 the logits are
/// 1.3333 .6667 .3333 .0667, and e^ these 3.7937 1.9477 1.3956 1.0690, in sum 8.2060.
#[test]
fn a_trace_shows_what_a_hand_calculation_does() {
    let mut chain = build("top_p{p=0.9};top_k{k=0};temperature{t=1.5};dist", RngKind::default(), 1);
    let trace = chain.trace(&mut LOGITS.clone());
    let [top_p, top_k, temperature, dist] = trace.stages() else { panic!("four stages") };

    assert_eq!((top_p.before().len(), top_p.after().len()), (6, 4));
    let removed: Vec<_> = top_p.removed().iter().map(|t| (t.id.0, t.logit)).collect();
    assert_eq!(removed, [(4, -0.5), (5, -1.0)]);
    close(top_p.removed()[0].probability, 0.0438);
    close(top_p.removed_mass(), 0.0704);
    let Some(Cut::Nucleus { p, mass, logit }) = top_p.cut() else { panic!("{:?}", top_p.cut()) };
    assert_eq!((p, logit), (0.9, 0.1));
    close(mass, 0.9296);
    // The sum of -p log2 p over all six.
    close(top_p.before().entropy(), 1.9384);
    let top = top_p.before().top(2);
    assert_eq!([top[0].id, top[1].id], [TokenId(0), TokenId(1)]);
    close(top[1].probability, 0.1965);

    assert!(!top_p.time().is_zero() && top_k.time().is_zero());
    assert!(top_k.is_neutral() && top_k.removed().is_empty() && top_k.changed().is_empty());

    assert_eq!(temperature.temperature(), Some(1.5));
    assert_eq!(temperature.changed().len(), 4);
    assert_eq!(temperature.changed()[1].after, 1.0_f32 / 1.5);
    close(temperature.after().get(TokenId(0)).expect("kept").probability, 3.7937 / 8.2060);

    let draw = trace.draw().expect("a draw");
    assert_eq!(dist.place(), &StagePlace { position: 4, name: "dist" });
    let ends = [0.0, 3.7937, 5.7414, 7.1370, 8.2060].map(|end| end / 8.2060);
    let at = draw.token.index();
    close(draw.low, ends[at]);
    close(draw.high, ends[at + 1]);
    assert!(draw.low <= draw.u && draw.u < draw.high);
}

#[test]
fn every_fate_is_told_apart() {
    let list = "logit_bias{bias=[\"1-inf\"]};min_p{p=0.2};dist";
    let mut chain = build(list, RngKind::default(), 1);
    let mut logits = LOGITS;
    logits[2] = f32::NEG_INFINITY;
    let trace = chain.trace(&mut logits);
    assert_eq!(trace.fate(TokenId(6)), Fate::Unknown { vocabulary: 6 });
    assert_eq!(trace.fate(TokenId(2)), Fate::Masked);
    let Fate::Removed { stage, cut: None, .. } = trace.fate(TokenId(1)) else { panic!("banned") };
    assert_eq!(stage, StagePlace { position: 1, name: "logit_bias" });
    // ln .2 is -1.6094, and the probability of token 4 is .607 / 9.469.
    let Fate::Removed { stage, cut: Some(Cut::Logit { floor }), logit, probability } =
        trace.fate(TokenId(4))
    else {
        panic!("{:?}", trace.fate(TokenId(4)))
    };
    assert_eq!((stage.name, logit), ("min_p", -0.5));
    close(floor.into(), 0.3906);
    close(probability, 0.0641);
    assert_eq!(trace.path(TokenId(4)).len(), 2);
    let chosen = *trace.outcome().as_ref().expect("a token");
    assert_eq!(chosen, TokenId(0));
    assert!(matches!(trace.fate(chosen), Fate::Chosen { .. }));

    let mut chain = build("top_k{k=2};greedy", RngKind::default(), 1);
    let trace = chain.trace(&mut LOGITS.clone());
    let Fate::Left { probability, .. } = trace.fate(TokenId(1)) else { panic!("left") };
    // 1 / (1 + e).
    close(probability, 0.2689);
}

#[test]
fn every_rule_tells_its_threshold() {
    let cut = |list: &str| {
        let trace = build(list, RngKind::default(), 1).trace(&mut LOGITS.clone());
        trace.stages()[0].cut()
    };
    assert_eq!(cut("top_k{k=3};greedy"), Some(Cut::Top { n: 3, logit: 0.5 }));
    assert_eq!(cut("min_p{p=1,min_keep=2};greedy"), Some(Cut::Top { n: 2, logit: 1.0 }));
    let xtc = "xtc{probability=1,threshold=0.1};greedy";
    // .5341 .1965 .1192 are top choices, and all but the last of them go.
    assert_eq!(cut(xtc), Some(Cut::DropTop { n: 2, logit: 1.0 }));
    let Some(Cut::Typical { surprise, reach, p, mass }) = cut("typical{p=0.3};greedy") else {
        panic!("typical")
    };
    // The entropy is 1.9384; the surprises are .9049 2.3476 3.0690 3.6460 4.5117 5.2330,
    // so that 1 comes first (.4092), and 0 next (1.0335).
    close(surprise, 1.9384);
    close(reach, 1.0335);
    close(mass, 0.7305);
    assert_eq!(p, 0.3);
    let mirostat = cut("mirostat_v2{tau=1.2}");
    // A surprise of at most 2.4 bits.
    let Some(Cut::Probability { floor }) = mirostat else { panic!("{mirostat:?}") };
    close(floor, 2_f64.powf(-2.4));
    assert_eq!(cut("penalties;greedy"), None);
}

#[test]
fn coins_are_shown_with_how_they_fell() {
    let mut chain = build("xtc{probability=0.5,threshold=0.1};greedy", RngKind::default(), 1);
    let mut outcomes = std::collections::BTreeSet::new();
    for _ in 0..20 {
        let trace = chain.trace(&mut LOGITS.clone());
        let [coin] = trace.stages()[0].coins() else { panic!("one coin") };
        assert_eq!(coin.probability, 0.5);
        assert_eq!(coin.outcome, !trace.stages()[0].removed().is_empty());
        assert!(trace.stages()[1].coins().is_empty());
        outcomes.insert(coin.outcome);
    }
    assert_eq!(outcomes.len(), 2);
}

/// Weights 3 and 1 are three quarters and one quarter of the line. Order: by id, and
/// with mt19937 after a stage that sorts most likely first, as in llama.cpp's array.
#[test]
fn a_draw_shows_its_line_in_the_order_in_which_it_was_walked() {
    for (rng, order) in [
        (RngKind::Xoshiro256PlusPlus, [(0, 0.0, 0.25), (1, 0.25, 1.0)]),
        (RngKind::Mt19937, [(1, 0.0, 0.75), (0, 0.75, 1.0)]),
    ] {
        let mut chain = build("top_k{k=2};dist", rng, 1);
        let trace = chain.trace(&mut [0.0, 3.0_f32.ln(), -9.0]);
        let draw = trace.draw().expect("a draw");
        let line: Vec<_> = draw.line().collect();
        assert_eq!(line.len(), 2);
        for ((id, low, high), (expected, from, to)) in line.into_iter().zip(order) {
            assert_eq!(id.0, expected, "{rng}");
            close(low, from);
            close(high, to);
            assert_eq!((low, high) == (draw.low, draw.high), id == draw.token);
        }
    }
}

#[test]
fn a_chain_that_fails_gives_what_it_did_until_then() {
    let list = "top_k{k=2};logit_bias{bias=[\"0-inf\",\"1-inf\"]};min_p;dist";
    let trace = build(list, RngKind::default(), 1).trace(&mut LOGITS.clone());
    let stage = StagePlace { position: 2, name: "logit_bias" };
    assert_eq!(trace.outcome(), &Err(SampleError::Exhausted { stage: Some(stage.clone()) }));
    assert_eq!(trace.stages().len(), 2);
    assert!(trace.end().is_empty() && trace.draw().is_none());
    assert_eq!(trace.stages()[1].removed().len(), 2);
    assert!(matches!(trace.fate(TokenId(0)), Fate::Removed { stage: at, .. } if at == stage));

    let trace = build("dist", RngKind::default(), 1).trace(&mut [0.0, f32::NAN]);
    assert!(matches!(trace.outcome(), Err(SampleError::NonFinite { token: TokenId(1), .. })));
    assert!(trace.stages().is_empty() && trace.start().is_empty());
    let report = trace.report(3, &NoVocab);
    assert_eq!(report.error.as_deref(), Some("the logit of token 1 is NaN: as the model gave it"));
}

#[test]
fn a_report_is_json_with_texts() {
    let mut chain = build("penalties{presence=1};top_k{k=2};dist", RngKind::default(), 1);
    chain.accept(TokenId(0));
    let trace = chain.trace(&mut LOGITS.clone());
    let json = serde_json::to_value(trace.report(1, &NumberVocab::new(6))).expect("JSON");
    let [penalties, top_k, _] = &json["stages"].as_array().expect("stages")[..] else {
        panic!("three stages")
    };
    assert_eq!(penalties["changed"][0]["text"], "0");
    assert_eq!(penalties["changed"][0]["before"], 2.0);
    assert_eq!(penalties["changed"][0]["logit"], 1.0);
    assert_eq!(top_k["cut"], serde_json::json!({ "rule": "top", "n": 2, "logit": 1.0 }));
    assert_eq!(top_k["removed_count"], 4);
    assert_eq!(top_k["removed"][0]["id"], 2);
    assert_eq!(top_k["params"]["k"], 2);
    assert_eq!(json["token"]["id"], json["draw"]["token"]);
    let fate = serde_json::to_value(trace.fate(TokenId(5))).expect("JSON");
    assert_eq!(fate["fate"], "removed");
    assert_eq!(fate["stage"]["name"], "top_k");
}
