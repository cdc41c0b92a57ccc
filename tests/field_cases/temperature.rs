//! Temperatures at and around their limits.

use logitchain::{ChainConfig, NoVocab, Seed, TokenId};

use crate::support::{
    assert_distribution, build, distribution, drawing, ids, left, logits_after, refusal, watched,
};

const LOGITS: [f32; 4] = [1.0, 3.0, 2.999, -2.0];

/// Dividing by a tiny number overflows, and by 0 gives NaN: engines drew at
/// random, crashed or took token 0.
#[test]
fn temperatures_down_to_zero_take_the_best_token() {
    let mut masked = LOGITS.to_vec();
    masked.extend([f32::NEG_INFINITY; 3]);
    for t in ["0", "0.0", "-0.0", "1e-45", "1e-40", "1e-30", "1e-6"] {
        for list in [
            format!("temperature{{t={t}}}"),
            format!("top_k;top_p;temperature{{t={t}}};dist"),
            format!("temperature{{t={t}}};top_k;top_p;dist"),
        ] {
            let mut config = ChainConfig::from_samplers(&list).expect("a list");
            for seed in 0..40 {
                config.seed = Seed::Fixed(seed);
                let mut chain = build(&config, &NoVocab);
                for logits in [&LOGITS[..], &masked].repeat(25) {
                    let token = chain.sample(&mut logits.to_vec());
                    assert_eq!(token, Ok(TokenId(1)), "{list} with seed {seed}");
                }
            }
        }
    }
}

/// The smallest number above 0: the quotients overflow, so only the best can
/// have any weight. With two best tokens, both have half.
#[test]
fn a_temperature_too_small_to_divide_by_leaves_the_best_ones() {
    assert_eq!(ids("temperature{t=1e-45}", &[3.0, 1.0, 3.0]), [0, 2]);
    assert_eq!(ids("temperature{t=1e-45}", &[-3.0, -1.0, -3.0]), [1]);
    assert_eq!(ids("temperature{t=0}", &[3.0, 1.0, 3.0]), [0]);
}

/// 3 / 1.5 = 2, so the token that has been used falls behind 2.999.
#[test]
fn at_temperature_zero_penalties_still_count() {
    let list = "penalties{repeat=1.5,last_n=\"all\"};temperature{t=0}";
    let after = logits_after(list, &[1], &LOGITS);
    assert_eq!(after, [f32::NEG_INFINITY, f32::NEG_INFINITY, 2.999, f32::NEG_INFINITY]);
}

/// Dividing by it would turn the ranking around, and -inf into +inf.
#[test]
fn a_negative_temperature_is_greedy() {
    assert_eq!(ids("temperature{t=-0.5}", &LOGITS), [1]);
    assert_eq!(ids("temperature{t=-0.5}", &[f32::NEG_INFINITY, 1.0, 2.0]), [2]);
}

#[test]
fn a_temperature_that_is_no_number_is_refused() {
    for (t, problem) in [
        ("nan", "must be a finite number, got NaN"),
        ("inf", "must be a finite number, got inf"),
        ("-inf", "must be a finite number, got -inf"),
        ("1e39", "must be within ±3.4e38, got 1e39"),
    ] {
        let error = refusal(&format!("temperature{{t={t}}}"));
        assert_eq!(error, format!("stage 1, `temperature`: `t` {problem}"));
    }
    let error = refusal("temperature{t=2e38,range=2e38}");
    assert_eq!(
        error,
        "stage 1, `temperature`: `range` must leave `t` + `range` within f32, got 2e38"
    );
}

/// An engine took 1.0 for "greedy". Four standard deviations of 200 tosses are
/// 28.
#[test]
fn a_temperature_of_one_still_draws() {
    let ones = (1..=200).filter(|seed| {
        drawing("temperature{t=1}", *seed).sample(&mut [0.0, 0.0]) == Ok(TokenId(1))
    });
    let n = ones.count();
    assert!((72..=128).contains(&n), "{n} times");
}

/// Two stages divide twice: 4 / 2 / 2 = 1.
#[test]
fn two_temperatures_multiply() {
    let list = "temperature{t=2};temperature{t=2}";
    assert_eq!(left(&mut watched(list), &[4.0, 0.0]), [(0, 1.0), (1, 0.0)]);
    assert_distribution(&distribution(list, &[4.0, 0.0]), &[(0, 0.731059), (1, 0.268941)]);
}

/// All of these name the same token: the first of the greatest.
#[test]
fn ties_of_the_best_go_to_the_lowest_id_on_every_way() {
    let logits = [3.5, 7.25, 7.25, 1.0];
    for list in [
        "greedy",
        "temperature{t=0}",
        "temperature{t=-1};dist",
        "top_k{k=1}",
        "shuffle;greedy",
        "shuffle;temperature{t=0}",
        "shuffle;top_k{k=1}",
        "top_p{p=0}",
    ] {
        for seed in 0..40 {
            let mut chain = drawing(list, seed);
            for _ in 0..25 {
                assert_eq!(chain.sample(&mut logits.clone()), Ok(TokenId(1)), "{list}");
            }
        }
    }
}

/// 4 / 2 = 2 is a tie that no model gave.
#[test]
fn a_tie_that_a_penalty_makes_goes_to_the_lowest_id() {
    let mut chain = drawing("penalties{repeat=2};greedy", 1);
    chain.accept(TokenId(1));
    assert_eq!(chain.sample(&mut [2.0, 4.0]), Ok(TokenId(0)));
}
