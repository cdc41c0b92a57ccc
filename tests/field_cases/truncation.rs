//! Stages that drop candidates: which stay, and with what probability.

use crate::support::{
    assert_distribution, distribution, drawing, ids, left, ln, refusal, set, watched,
};

const FOUR: [f32; 4] = [2.0, 1.2, 0.4, -0.6];

/// The token with which the sum reaches `p` belongs to the nucleus: engines
/// have dropped it, and others kept one more. Running sums: .5 .8 .95 1.
#[test]
fn top_p_keeps_the_token_that_crosses_and_none_after_it() {
    let logits = ln(&[0.5, 0.3, 0.15, 0.05]);
    for (p, kept) in
        [(0.30, 1), (0.49, 1), (0.51, 2), (0.79, 2), (0.81, 3), (0.94, 3), (0.96, 4), (1.0, 4)]
    {
        assert_eq!(ids(&format!("top_p{{p={p}}}"), &logits), Vec::from_iter(0..kept), "at {p}");
    }
    // At 0 the most likely token still stays.
    assert_eq!(ids("top_p{p=0.0}", &logits), [0]);
}

/// Halves and quarters have exact logarithms in our arithmetic, so a sum can
/// reach `p` exactly; then the shortest such prefix stays, as the definition
/// says.
#[test]
fn a_sum_that_equals_p_is_enough() {
    let logits = ln(&[0.5, 0.25, 0.125, 0.125]);
    assert_eq!(ids("top_p{p=0.75}", &logits), [0, 1]);
    assert_eq!(ids("top_p{p=0.875}", &logits), [0, 1, 2]);
}

#[test]
fn a_filter_that_is_off_changes_no_bit() {
    let logits: Vec<f32> = (0..1000_u32).map(|i| (i * 37 % 101) as f32 * 0.37 - 9.0).collect();
    let bits = |list: &str| {
        let all = left(&mut watched(list), &logits);
        all.into_iter().map(|(id, logit)| (id, logit.to_bits())).collect::<Vec<_>>()
    };
    for list in [
        "top_p{p=1.0}",
        "top_k{k=0}",
        "top_k{k=-1}",
        "top_k{k=1000}",
        "min_p{p=0.0}",
        "typical{p=1.0}",
        "top_n_sigma{n=0.0}",
        "top_n_sigma{n=-1.0}",
        "xtc{probability=0.0,threshold=0.1}",
        "xtc{probability=1.0,threshold=0.51}",
    ] {
        assert_eq!(bits(list), bits(""), "{list}");
    }
}

/// The numbers differ with the order, so a setting means nothing without it.
/// Softmax of the logits: .579542 .260405 .117008 .043045; of their halves
/// .418029 .280213 .187832 .113926.
#[test]
fn temperature_before_or_after_a_threshold_gives_different_candidates() {
    for (list, expected) in [
        ("top_p{p=0.8};temperature{t=2}", &[(0, 0.598688), (1, 0.401312)][..]),
        ("temperature{t=2};top_p{p=0.8}", &[(0, 0.471776), (1, 0.316241), (2, 0.211983)]),
        ("min_p{p=0.25};temperature{t=2}", &[(0, 0.598688), (1, 0.401312)]),
        (
            "temperature{t=2};min_p{p=0.25}",
            &[(0, 0.418029), (1, 0.280213), (2, 0.187832), (3, 0.113926)],
        ),
    ] {
        assert_distribution(&distribution(list, &FOUR), expected);
    }
}

/// Where a stage does not renormalise, two tokens of raw mass .363973 never
/// reach .8, and an engine masked everything; nor do they exceed .5, where the
/// first alone has .549834 of what is left.
#[test]
fn each_stage_sees_probabilities_that_sum_to_one() {
    let logits = [1.0, 0.8, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1];
    let got = distribution("top_k{k=2};top_p{p=0.8}", &logits);
    assert_distribution(&got, &[(0, 0.549834), (1, 0.450166)]);
    assert_eq!(ids("top_k{k=2};top_p{p=0.5}", &logits), [0]);
    assert_eq!(ids("top_k{k=1};top_p{p=0.8}", &logits), [0]);
    assert_eq!(ids("top_p{p=0.8}", &logits).len(), 6);
    assert_eq!(ids("top_p{p=0.8};top_k{k=2}", &logits), [0, 1]);
}

/// Of .40 .30 .15 .10 .05 the top choices above .12 are the first three: the
/// third stays, and its .15 of .30 is a half. Engines have dropped it too.
#[test]
fn xtc_keeps_the_least_likely_top_choice() {
    let logits = ln(&[0.40, 0.30, 0.15, 0.10, 0.05]);
    let xtc = |t: f64| distribution(&format!("xtc{{probability=1,threshold={t}}}"), &logits);
    assert_distribution(&xtc(0.12), &[(2, 0.5), (3, 0.333333), (4, 0.166667)]);
    assert_distribution(&xtc(0.2), &[(1, 0.5), (2, 0.25), (3, 0.166667), (4, 0.083333)]);
    // A single top choice stays, and so do all where none can be.
    assert_eq!(xtc(0.35).len(), 5);
    assert_eq!(xtc(0.51).len(), 5);
}

/// Without an epsilon: a token exactly at the threshold is a top choice.
#[test]
fn xtc_counts_a_token_at_the_threshold() {
    let logits = ln(&[0.5, 0.25, 0.125, 0.125]);
    assert_eq!(set("xtc{probability=1,threshold=0.25}", &logits), [1, 2, 3]);
}

/// With a threshold of 0 every token is a top choice, and only the least likely
/// one of the vocabulary would be left.
#[test]
fn xtc_refuses_a_threshold_of_zero() {
    assert_eq!(
        refusal("xtc{probability=1,threshold=0}"),
        "stage 1, `xtc`: `threshold` must be a finite number above 0, got 0"
    );
}

/// .5 * .40 = .20 of 2,000 draws: 400, and four standard deviations are 72.
#[test]
fn xtc_acts_as_often_as_it_is_told() {
    let logits = ln(&[0.40, 0.30, 0.15, 0.10, 0.05]);
    let first = (1..=2000).filter(|seed| {
        let mut chain = drawing("xtc{probability=0.5,threshold=0.12}", *seed);
        chain.sample(&mut logits.clone()).expect("a token").0 == 0
    });
    let n = first.count();
    assert!((328..=472).contains(&n), "{n} times");
}

/// Off must mean off: engines returned token 0 for ever, and a test had passed
/// because of it. e^-3 / (1 + e^-1 + e^-2 + e^-3) = .032059.
#[test]
fn top_k_of_zero_or_less_keeps_everything() {
    let logits = [0.0, 1.0, 2.0, 3.0];
    for list in ["top_k{k=0}", "top_k{k=-1}", "top_k{k=4}", "top_k{k=99}"] {
        let expected = [(3, 0.643914), (2, 0.236883), (1, 0.087144), (0, 0.032059)];
        assert_distribution(&distribution(list, &logits), &expected);
    }
    assert_eq!(ids("top_k{k=1}", &logits), [3]);
    // 32 of 1,000, and four standard deviations are 23.
    let zeros = (1..=1000).filter(|seed| {
        let token = drawing("top_k{k=0}", *seed).sample(&mut logits.clone());
        token.expect("a token").0 == 0
    });
    let n = zeros.count();
    assert!((9..=55).contains(&n), "{n} times");
}

/// A fraction read as 0 would silently mean off.
#[test]
fn top_k_takes_whole_numbers_only() {
    for (value, shown) in
        [("0.1", "0.1"), ("1e3", "1000.0"), ("\"40\"", "\"40\""), ("true", "true")]
    {
        let file =
            format!("seed = 1\n[[stage]]\nuse = 'top_k'\nk = {value}\n[[stage]]\nuse = 'dist'\n");
        let expected =
            format!("line 4, stage 1, `top_k`: `k` must be a whole number, got `{shown}`");
        assert_eq!(refusal(&file), expected);
    }
}

#[test]
fn zero_and_minus_zero_are_a_tie() {
    for list in ["top_k{k=1}", "top_p{p=0.1}", "temperature{t=0}", "typical{p=0.1}"] {
        assert_eq!(ids(list, &[-0.0, 0.0]), [0], "{list}");
        assert_eq!(ids(list, &[0.0, -0.0]), [0], "{list}");
    }
}

/// Exactly `k` stay and the lower ids win, however many candidates there are
/// and however they lie in memory: in some engines the choice depended on the
/// batch or on the sort that was picked for the size.
#[test]
fn ties_at_the_edge_of_top_k_go_to_the_lower_ids() {
    for padding in [0, 1, 250, 251, 5_000, 199_994] {
        let mut logits = vec![0.5, 2.0, 2.0, -1.0, 2.0, 3.0];
        logits.extend(vec![-9.0; padding]);
        for before in ["", "shuffle;", "top_k{k=100};", "top_p{p=0.99999};", "min_p{p=1e-9};"] {
            let list = format!("{before}top_k{{k=3}}");
            assert_eq!(ids(&list, &logits), [5, 1, 2], "{list} of {}", logits.len());
        }
    }
}

#[test]
fn one_of_two_equals_is_always_the_first() {
    for seed in 1..=500 {
        let token = drawing("top_k{k=1}", seed).sample(&mut [7.25, 7.25]);
        assert_eq!(token.map(|t| t.0), Ok(0));
    }
}

/// Tokens 1 (.55) and 3 (.30) have at least half of the best: .55 / .85 is
/// .647, and four standard deviations of 1,000 draws are .06. Ids are those of
/// the vocabulary, not places among the survivors.
#[test]
fn min_p_draws_from_its_survivors_by_their_ids() {
    let logits = ln(&[0.05, 0.55, 0.10, 0.30]);
    let draw = |seed| drawing("min_p{p=0.5}", seed).sample(&mut logits.clone()).expect("a token").0;
    let draws: Vec<u32> = (1..=1000).map(draw).collect();
    assert!(draws.iter().all(|id| [1, 3].contains(id)));
    let ones = draws.iter().filter(|id| **id == 1).count();
    assert!((587..=707).contains(&ones), "{ones} times");
    assert_eq!(draws, (1..=1000).map(draw).collect::<Vec<_>>());
}

/// 0 * ln 0 is NaN in floating point, and one such token made the entropy NaN
/// and the survivors arbitrary. The entropy of .5 .2 .15 .1 .05 is 1.333074;
/// the distances of -ln p from it are .640 .276 .564 .970 1.663, so the order
/// is 1 2 0 3 4 with running sums .2 .35 .85 .95 1.
#[test]
fn typical_is_not_disturbed_by_impossible_tokens() {
    let five = ln(&[0.5, 0.2, 0.15, 0.1, 0.05]);
    let mut with_impossible = five.clone();
    with_impossible.extend([f32::NEG_INFINITY; 2]);
    // So far below that its probability is 0 in floating point.
    let mut with_remote = five.clone();
    with_remote.push(-2000.0);
    for (p, kept) in [(0.19, &[1][..]), (0.34, &[1, 2]), (0.84, &[0, 1, 2]), (0.94, &[0, 1, 2, 3])]
    {
        for logits in [&five, &with_impossible, &with_remote] {
            assert_eq!(set(&format!("typical{{p={p}}}"), logits), kept, "at {p} of {logits:?}");
        }
    }
}

/// All distances are 0: the tie rule decides.
#[test]
fn typical_takes_lower_ids_of_equals() {
    assert_eq!(ids("typical{p=0.49}", &[1.0; 4]), [0, 1]);
    assert_eq!(ids("typical{p=0.51}", &[1.0; 4]), [0, 1, 2]);
}

/// Mean 5 and population deviation 2 (sample deviation: 2.138), a textbook
/// example: 9 - 2 = 7, and 9 - 2.138 = 6.862 would be no other set, but of
/// n = 1.9 the floors are 5.2 and 4.94.
#[test]
fn top_n_sigma_takes_the_population_deviation_of_possible_tokens() {
    let logits = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
    assert_eq!(ids("top_n_sigma{n=1.0}", &logits), [7, 6]);
    assert_eq!(ids("top_n_sigma{n=1.9}", &logits), [7, 6]);
    assert_eq!(ids("top_n_sigma{n=2.1}", &logits), [7, 6, 4, 5]);
    let mut masked = logits.to_vec();
    masked.extend([f32::NEG_INFINITY; 100]);
    assert_eq!(ids("top_n_sigma{n=1.9}", &masked), [7, 6]);
    assert_eq!(ids("top_n_sigma{n=2.1}", &masked), [7, 6, 4, 5]);
}

/// Two passes of the same stage are allowed: the second finds nothing to do.
#[test]
fn a_filter_listed_twice_acts_twice() {
    let logits = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0];
    assert_eq!(ids("top_k{k=4};top_k{k=4}", &logits), ids("top_k{k=4}", &logits));
    assert_eq!(ids("top_k{k=4};top_k{k=2}", &logits), [5, 4]);
    assert_eq!(watched("top_k;top_k").to_string(), "logits -> top-k -> top-k -> probe");
}
