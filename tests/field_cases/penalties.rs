//! Repetition, frequency and presence penalties, and the window they see.

use logitchain::TokenId;

use crate::support::{
    assert_logits, distribution, drawing, ids, left, logits_after, refusal, softmax, watched,
};

fn after(parameters: &str, history: &[u32], logits: &[f32]) -> Vec<f32> {
    logits_after(&format!("penalties{{{parameters}}}"), history, logits)
}

/// Dividing a negative logit raises it: the higher the penalty, the more an
/// engine repeated itself. 2 / 1.25 = 1.6, -1 * 1.25 = -1.25.
#[test]
fn a_repeat_penalty_lowers_negative_logits_too() {
    let logits = [2.0, -1.0, 0.0, 0.5];
    assert_logits(&after("repeat=1.25", &[0, 1, 2], &logits), &[1.6, -1.25, 0.0, 0.5]);
    // Below 1 it encourages.
    assert_logits(&after("repeat=0.8", &[0, 1, 2], &logits), &[2.5, -0.8, 0.0, 0.5]);
    assert_eq!(after("repeat=1", &[0, 1, 2], &logits), logits);
    let masked = [2.0, f32::NEG_INFINITY, 0.0];
    assert_logits(&after("repeat=1.25", &[0, 1, 2], &masked), &[1.6, f32::NEG_INFINITY, 0.0]);
}

#[test]
fn no_repeat_penalty_above_one_raises_a_logit() {
    let logits: Vec<f32> = (-40..=40).map(|i| i as f32 * 0.5).collect();
    let history: Vec<u32> = (0..81).collect();
    for repeat in [1.01, 1.3, 2.0, 50.0] {
        let after = after(&format!("repeat={repeat},last_n=\"all\""), &history, &logits);
        assert!(after.iter().zip(&logits).all(|(new, old)| new <= old), "{repeat}: {after:?}");
    }
}

/// A known weakness of the rule, kept because every engine has it: the zero of
/// the logits, which no probability depends on, decides what is divided. By
/// hand: (1.6, 0) against (12, 10) / 1.25 on the first = (9.6, 10).
#[test]
fn a_repeat_penalty_depends_on_the_zero_of_the_logits() {
    let share = |logits: [f32; 2]| {
        let mut chain = watched("penalties{repeat=1.25}");
        chain.accept(TokenId(0));
        softmax(&left(&mut chain, &logits))
    };
    assert_eq!(share([2.0, 0.0])[0].0, 0);
    assert_eq!(share([12.0, 10.0])[0].0, 1);
}

/// Engines multiplied by the penalty for each of the three uses: .592593.
#[test]
fn a_token_is_divided_once_however_often_it_occurred() {
    assert_logits(&after("repeat=1.5", &[0, 0, 0], &[2.0, 1.0]), &[1.333333, 1.0]);
    // 1.333333 - 3 * 0.5
    let both = after("repeat=1.5,frequency=0.5", &[0, 0, 0], &[2.0, 1.0]);
    assert_logits(&both, &[-0.166667, 1.0]);
}

#[test]
fn the_window_holds_the_last_tokens_and_no_others() {
    let halved = |last_n: &str, history: &[u32]| -> Vec<usize> {
        let after = after(&format!("repeat=2,last_n={last_n}"), history, &[1.0; 6]);
        assert!(after.iter().all(|logit| [0.5, 1.0].contains(logit)), "{after:?}");
        (0..6).filter(|id| after[*id] == 0.5).collect()
    };
    let history = [5, 1, 2, 3, 4];
    assert_eq!(halved("3", &history), [2, 3, 4]);
    assert_eq!(halved("5", &history), [1, 2, 3, 4, 5]);
    assert_eq!(halved("50", &history), [1, 2, 3, 4, 5]);
    assert_eq!(halved("\"all\"", &history), [1, 2, 3, 4, 5]);
    assert_eq!(halved("0", &history), [0; 0]);
    // It moves on as the text grows.
    assert_eq!(halved("2", &[0, 1, 2]), [1, 2]);
    assert_eq!(halved("2", &[1, 1, 2, 2]), [2]);
}

/// Against a recount of the last tokens after each of 1,000.
#[test]
fn counts_stay_right_as_tokens_leave_the_window() {
    let mut chain = watched("penalties{frequency=1,last_n=37}");
    let history: Vec<u32> = (0..1000_u32).map(|i| i * i % 7 + i % 3).collect();
    for n in 1..=history.len() {
        chain.accept(TokenId(history[n - 1]));
        let mut expected = [0.0_f32; 10];
        for id in &history[n.saturating_sub(37)..n] {
            expected[*id as usize] -= 1.0;
        }
        let mut got = left(&mut chain, &[0.0; 10]);
        got.sort_by_key(|c| c.0);
        assert_eq!(got.iter().map(|c| c.1).collect::<Vec<_>>(), expected, "after {n}");
    }
}

/// -1 meant the whole text in one engine's help and nothing in its code. Here
/// it is refused, and the message says how to ask for the whole text.
#[test]
fn a_negative_window_is_refused_with_the_word_for_everything() {
    for stage in ["penalties", "dry"] {
        assert_eq!(
            refusal(&format!("{stage}{{last_n=-1}}")),
            format!(
                "stage 1, `{stage}`: `last_n` must be a number of tokens from 0 to 4294967295, or \
                 \"all\" for the whole text, got `-1`"
            )
        );
    }
}

/// 1.333 < 1.9, but where only one token is left it stays the best. Both are
/// right for their chains, and the printed chain shows which it is.
#[test]
fn penalties_after_a_filter_come_too_late() {
    let logits = [2.0, 1.9, 0.0];
    for (list, kept, printed) in [
        ("penalties{repeat=1.5};top_k{k=1}", 1, "logits -> penalties -> top-k -> probe"),
        ("top_k{k=1};penalties{repeat=1.5}", 0, "logits -> top-k -> penalties -> probe"),
    ] {
        let mut chain = watched(list);
        chain.accept(TokenId(0));
        let left = left(&mut chain, &logits);
        assert_eq!(left.iter().map(|c| c.0).collect::<Vec<_>>(), [kept], "{list}");
        assert_eq!(chain.to_string(), printed);
    }
}

/// The documented rule: the window slides over the whole text, so prompt and
/// generated tokens weigh the same. 1 / 2 - .25 - .5 = -.25. (Engines that
/// count only generated tokens would give the prompt's .5 or 1.)
#[test]
fn the_prompt_is_in_the_window() {
    let parameters = "repeat=2,frequency=0.25,presence=0.5,last_n=\"all\"";
    let after = after(parameters, &[1, 2, 3], &[1.0; 4]);
    assert_logits(&after, &[1.0, -0.25, -0.25, -0.25]);
}

/// The first generated token is penalised alike however the chain came to the
/// prompt: new, used and reset, or copied.
#[test]
fn a_chain_that_was_reset_or_copied_sees_the_prompt_as_a_new_one_does() {
    let list = "penalties{repeat=2,frequency=0.25,last_n=3}";
    let logits = [1.0, 2.0, 3.0, -1.0];
    let prompt = [1, 2, 1].map(TokenId);
    let mut new = watched(list);
    prompt.iter().for_each(|token| new.accept(*token));
    let expected = left(&mut new, &logits);

    let mut used = watched(list);
    [0, 3, 3, 2].iter().for_each(|id| used.accept(TokenId(*id)));
    left(&mut used, &logits);
    used.reset();
    prompt.iter().for_each(|token| used.accept(*token));
    let mut copy = used.clone();
    assert_eq!(left(&mut used, &logits), expected);
    assert_eq!(left(&mut copy, &logits), expected);
}

/// 1 - 3 * .5 - .25 = -.75 and 1 - .5 - .25 = .25. Divided first:
/// .5 - 1.75 = -1.25; subtracted first: -.75 * 2 = -1.5.
#[test]
fn frequency_counts_uses_and_presence_does_not() {
    let (history, logits) = ([0, 0, 0, 1], [1.0; 3]);
    let parameters = "frequency=0.5,presence=0.25";
    assert_logits(&after(parameters, &history, &logits), &[-0.75, 0.25, 1.0]);
    let first = format!("repeat=2,{parameters}");
    assert_logits(&after(&first, &history, &logits), &[-1.25, -0.25, 1.0]);
    let last = format!("{first},order=\"subtract_first\"");
    assert_logits(&after(&last, &history, &logits), &[-1.5, 0.125, 1.0]);
    // A negative one encourages: 1 + 3 * .5.
    assert_logits(&after("frequency=-0.5", &history, &logits), &[2.5, 1.5, 1.0]);
    // Only uses in the window: of the last two tokens, one is 0.
    let window = after("frequency=0.5,presence=0.25,last_n=2", &history, &logits);
    assert_logits(&window, &[0.25, 0.25, 1.0]);
}

/// A client that sends a presence penalty alone had no window, and so no
/// penalty.
#[test]
fn a_presence_penalty_alone_acts_in_the_default_window() {
    assert_logits(&after("presence=2", &[1], &[1.0, 1.0]), &[1.0, -1.0]);
}

/// An engine's default of 1.1 surprised its users: code and JSON repeat.
#[test]
fn by_default_no_penalty_acts() {
    let chain = drawing("penalties;dry;temperature{t=1}", 1);
    assert_eq!(chain.to_string(), "logits -> ?penalties -> ?dry -> ?temp-ext -> dist");
    let logits = [2.0, -1.0, 0.1, 0.5];
    let history = [0, 0, 1, 0, 0, 1, 0, 0];
    let bits = |list: &str| {
        let after = logits_after(list, &history, &logits);
        after.into_iter().map(f32::to_bits).collect::<Vec<_>>()
    };
    assert_eq!(bits("penalties;dry"), bits(""));
}

/// A loop longer than the window cannot be seen: -2 * 1.5 = -3 up to a distance
/// of exactly the window's length.
#[test]
fn a_use_as_far_back_as_the_window_is_long_still_counts() {
    for (window, distance, expected) in [(20, 20, -3.0), (20, 21, -2.0), (128, 45, -3.0)] {
        let mut history = vec![7];
        history.extend(vec![1; distance - 1]);
        let mut logits = [0.0; 8];
        logits[7] = -2.0;
        let after = after(&format!("repeat=1.5,last_n={window}"), &history, &logits);
        assert_eq!(after[7], expected, "{distance} back in {window}");
    }
}

/// Divided by 0, or multiplied by what is no number, nothing is left to rank.
#[test]
fn penalties_that_are_no_penalties_are_refused() {
    for (parameter, problem) in [
        ("repeat=0", "`repeat` must be a finite number above 0, got 0"),
        ("repeat=-1.1", "`repeat` must be a finite number above 0, got -1.1"),
        ("repeat=nan", "`repeat` must be a finite number above 0, got NaN"),
        ("repeat=inf", "`repeat` must be a finite number above 0, got inf"),
        ("frequency=nan", "`frequency` must be a finite number, got NaN"),
        ("presence=-inf", "`presence` must be a finite number, got -inf"),
    ] {
        let expected = format!("stage 1, `penalties`: {problem}");
        assert_eq!(refusal(&format!("penalties{{{parameter}}}")), expected);
    }
}

/// 1e38 / 1e-38 is beyond the numbers there are. The message says who did it.
#[test]
fn a_penalty_that_overflows_names_stage_and_token() {
    let mut chain = watched("top_k;penalties{repeat=1e-38}");
    chain.accept(TokenId(2));
    let error = chain.sample(&mut [1.0, 2.0, 3e38]).expect_err("an overflow");
    assert_eq!(error.to_string(), "the logit of token 2 is inf after stage 2, `penalties`");
}

/// A penalty of any size leaves a token a candidate, with a probability of
/// practically 0, as long as its logit is a number.
#[test]
fn a_huge_penalty_is_not_a_ban() {
    assert_eq!(ids("penalties{presence=1e30}", &[1.0, 0.0]), [0, 1]);
    let mut chain = watched("penalties{presence=1e30}");
    chain.accept(TokenId(0));
    assert_eq!(left(&mut chain, &[1.0, 0.0]), [(1, 0.0), (0, -1e30)]);
    assert_eq!(distribution("penalties{presence=1e30}", &[0.0])[0], (0, 1.0));
}

/// Ids that no vocabulary entry has, as from a broken caller: they count in the
/// window and change nothing else.
#[test]
fn accepted_ids_outside_the_vocabulary_do_no_harm() {
    let list = "penalties{repeat=2,last_n=2};dry{multiplier=1}";
    for stray in [8, u32::MAX] {
        let after = logits_after(list, &[1, stray, 2, stray], &[1.0; 3]);
        assert_logits(&after, &[1.0, 1.0, 0.5]);
    }
}
