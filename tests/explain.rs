//! `explain` and `probs`, on the real binary.

mod program;

use logitchain::{TokenId, engine::GgufModel};
use program::{Outcome, command, file, program};
use serde_json::Value;

/// The logits of this file's calculations.
const LOGITS: [&str; 2] = ["--logits", "2.0,1.2,0.4,-0.6"];

fn explain(args: &[&str]) -> Outcome {
    program(&[&["explain"], &LOGITS[..], args].concat())
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

/// By hand: e^ the logits is 7.3891 3.3201 1.4918 .5488, in sum 12.7498, so that the
/// probabilities are .5795 .2604 .1170 .0430 and the entropy, the sum of -p log2 p, is
/// .4561 + .5055 + .3622 + .1953. Without the last the sum is 12.2010, and the
/// probabilities .6056 .2721 .1223. ln .3 is -1.2040. The two first alone have .6900
/// and .3100; divided by .8 their logits differ by 1, which makes them 1 / (1 + 1/e)
/// and the rest of 1.
///
/// MT19937 seeded with 42 begins 1608637542, 3421126067; the second divided by 2^32 is
/// .7965, and the first changes nothing in these digits.
///
/// A bar of 8 has 64 eighths, one of 16 has 128.
#[test]
fn the_tables_are_those_of_a_hand_calculation() {
    let chain = "top_k{k=3};min_p{p=0.3};typical;temperature{t=0.8}";
    let args = ["--samplers", chain, "--rng", "mt19937", "--token", "3", "--token", "0"];
    let outcome = explain(&args);
    assert_eq!(
        outcome.told("sampler chain: "),
        "logits -> top-k -> min-p -> ?typical -> temp-ext -> dist"
    );
    assert_eq!(outcome.text(), include_str!("explain/hand.txt"));
}

#[test]
fn a_terminal_is_a_matter_of_escapes_alone() {
    // No terminal, so there are none, whatever the variables say of colours.
    for (name, value) in [("NO_COLOR", "1"), ("TERM", "xterm-256color")] {
        let mut command = command(&["explain", "--logits", "2,1", "--samplers", "top_k{k=1}"]);
        let output = command.env(name, value).output().expect("the program runs");
        assert!(!output.stdout.contains(&0x1B));
    }
    let styled = |no_color: &str| {
        let mut command = command(&["explain", "--logits", "2,1", "--samplers", "top_k{k=1}"]);
        command.env("CLICOLOR_FORCE", "1").env("NO_COLOR", no_color);
        String::from_utf8(command.output().expect("the program runs").stdout).expect("UTF-8")
    };
    // Struck through is what was dropped: token 1.
    assert!(styled("").contains("\x1B[9m1\x1B[0m"), "{}", styled(""));
    let plain = explain_two().text();
    let stripped = anstream_stripped(&styled(""));
    assert_eq!(stripped, plain);
}

fn explain_two() -> Outcome {
    program(&["explain", "--logits", "2,1", "--samplers", "top_k{k=1}"])
}

/// Without `ESC [ ... m`.
fn anstream_stripped(text: &str) -> String {
    let mut parts = text.split("\x1B[");
    let first = parts.next().unwrap_or_default().to_owned();
    first + &parts.map(|part| part.split_once('m').map_or("", |(_, rest)| rest)).collect::<String>()
}

#[test]
fn a_token_has_one_fate_and_its_reason() {
    let last = |args: &[&str]| {
        let text = explain(args).text();
        text.lines().last().expect("lines").to_owned()
    };
    assert_eq!(
        last(&["--samplers", "min_p{p=0.2}", "--token", "3"]),
        "token 3 could not appear: it was dropped by stage 1, `min_p`, which keeps logit ≥ \
         0.3906: p ≥ 0.2 of the best. Its logit was -0.6 there, and its probability 4.30 %."
    );
    // .5795 + .2604 is the first sum that reaches .8.
    assert_eq!(
        last(&["--samplers", "top_p{p=0.8}", "--token", "2"]),
        "token 2 could not appear: it was dropped by stage 1, `top_p`, which keeps the most \
         likely that reach 0.8, in sum 0.8399: logit ≥ 1.2. Its logit was 0.4 there, and its \
         probability 11.70 %."
    );
    assert_eq!(
        last(&["--samplers", "logit_bias{bias=['3-inf']}", "--token", "3"]),
        "token 3 could not appear: it was dropped by stage 1, `logit_bias`. Its logit was -0.6 \
         there, and its probability 4.30 %."
    );
    assert_eq!(
        last(&["--samplers", "top_k{k=2}", "--greedy", "--token", "1"]),
        "token 1 was there to the end, with the logit 1.2 and the probability 31.00 %, but token \
         0 was chosen."
    );
    assert_eq!(
        last(&["--samplers", "", "--rng", "mt19937", "--token", "3"]),
        "token 3 was there to the end, with the logit -0.6 and the probability 4.30 %, which was \
         its chance; token 1 was drawn."
    );
    let masked = program(&["explain", "--logits", "1,-inf", "--samplers", "", "--token", "1"]);
    let masked = masked.text();
    assert!(masked.contains("1 are -inf from the start"), "{masked}");
    assert!(
        masked.ends_with("token 1 could not appear: its logit was -inf from the start.\n"),
        "{masked}"
    );
}

#[test]
fn tokens_are_named_by_id_or_by_text() {
    let fates = |token: &str| {
        let args = ["explain", "Once upon a time", "--json", "--token", token];
        let report = json(&program(&args).text());
        let asked = report["asked"].as_array().expect("fates").clone();
        asked.iter().map(|fate| fate["id"].as_u64().expect("an id")).collect::<Vec<_>>()
    };
    let model = GgufModel::embedded();
    let id = |text: &str| {
        let same = |&id: &u32| model.tokenizer().bytes(TokenId(id)) == text.as_bytes();
        (0..2048).find(same).expect("a token")
    };
    assert_eq!(fates(" king"), [u64::from(id(" king"))]);
    assert_eq!(fates("470"), [470]);
    assert_eq!(fates(r"\n"), fates("\n"));
    assert_eq!(fates("\" king\""), fates(" king"));
    let refused = |args: &[&str]| program(&[&["explain", "x"], args].concat()).error(2);
    assert_eq!(refused(&["--token", "2048"]), "--token 2048: ids go from 0 to 2047");
    assert_eq!(refused(&["--token", "99999999999"]), "--token 99999999999: ids go from 0 to 2047");
    let hint = format!(
        "it is written as token {} \"k\", token {} \"ing\", token {} \"g\"",
        id("k"),
        id("ing"),
        id("g")
    );
    assert_eq!(
        refused(&["--token", "kingg"]),
        format!("--token kingg: no single token has this text; {hint}")
    );
    assert_eq!(
        refused(&["--token", "king"]),
        format!(
            "--token king: no single token has this text; there is token {} \" king\"",
            id(" king")
        )
    );
    let text = explain(&["--token", "a"]).error(2);
    assert_eq!(
        text,
        "--token a: no text is known of these tokens; write an id, or give the model with -m"
    );
}

#[test]
fn json_says_the_same_as_data() {
    let args = ["--samplers", "top_k{k=3};min_p{p=0.3}", "--json", "--token", "3", "--top", "2"];
    let report = json(&explain(&args).text());
    assert_eq!(report["step"], 1);
    assert_eq!(report["vocabulary"], 4);
    let [top_k, min_p, dist] = &report["stages"].as_array().expect("stages")[..] else {
        panic!("{report}")
    };
    assert_eq!(top_k["cut"]["rule"], "top");
    assert_eq!(top_k["before"]["top"].as_array().map(Vec::len), Some(2));
    assert_eq!((&min_p["after"]["count"], &min_p["removed_count"]), (&2.into(), &1.into()));
    assert_eq!(dist["kind"], "select");
    assert_eq!(report["asked"][0]["fate"], "removed");
    assert_eq!(report["asked"][0]["stage"]["name"], "top_k");
    assert_eq!(report["asked"][0]["path"].as_array().map(Vec::len), Some(1));
}

#[test]
fn a_chain_that_fails_is_shown_up_to_there() {
    let args = ["--samplers", "top_k{k=2};logit_bias{bias=['0-inf','1-inf']};min_p"];
    for format in [&[][..], &["--json"]] {
        let outcome = explain(&[&args[..], format].concat());
        assert_eq!(outcome.code, Some(1), "{outcome:#?}");
        assert!(outcome.told("error: ").starts_with("cannot pick token 1 of the text: no candid"));
        assert!(outcome.stdout.contains("logit_bias"), "{outcome:#?}");
        assert!(!outcome.stdout.contains("min_p"), "{outcome:#?}");
    }
    let outcome = program(&["explain", "--logits", "-inf,-inf"]);
    assert_eq!(outcome.code, Some(1), "{outcome:#?}");
}

// Probabilities along a text.

#[test]
fn probs_show_what_the_tokens_of_run_were_drawn_from() {
    let args = ["Once upon a time", "-n", "6"];
    let run = program(&[&["run"], &args[..]].concat()).text();
    let lines = program(&[&["probs", "--json", "--top", "3"], &args[..]].concat()).text();
    let lines: Vec<Value> = lines.lines().map(json).collect();
    assert_eq!(lines.len(), 6);
    let text: String = lines.iter().map(|line| line["text"].as_str().expect("a text")).collect();
    assert_eq!(text.trim_end(), run.trim_end());
    for (nth, line) in lines.iter().enumerate() {
        let step = (nth + 1).to_string();
        let explained = ["explain", args[0], "--json", "--step", &step];
        let explained = json(&program(&explained).text());
        let draw = &explained["draw"];
        let width = draw["high"].as_f64().expect("an end") - draw["low"].as_f64().expect("a start");
        let top = line["top"].as_array().expect("tokens");
        let chosen = top.iter().find(|token| token["id"] == line["id"]).expect("the chosen one");
        let chance = chosen["probability"].as_f64().expect("a probability");
        assert!((chance - width).abs() < 1e-9, "{line} {explained}");
        assert!(top.len() == 3 || (top.len() == 4 && top[3] == *chosen), "{line}");
    }
}

#[test]
fn probs_of_a_coin_are_a_mixture() {
    // Half of the time XTC drops the most likely tokens, and the rest of the chain
    // takes the best: both of the first have half of it.
    let chain = "top_k{k=2};xtc{probability=0.5,threshold=0.001};greedy";
    let text = program(&["probs", "Once", "-n", "1", "--top", "2", "--json", "--samplers", chain]);
    let line = json(&text.text());
    let chances: Vec<_> = line["top"].as_array().expect("tokens").iter().collect();
    assert!(chances.iter().all(|token| token["probability"] == 0.5), "{line}");
}

#[test]
fn probs_as_a_table_have_a_line_for_each_token() {
    let text = program(&["probs", "Once upon a time", "-n", "2", "--top", "2", "--greedy"]).text();
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["step", "token", "text", "logit", "model", "chain"]);
    assert_eq!(rows.len(), 5, "{text}");
    assert_eq!((rows[1][0], rows[1].last()), ("1", Some(&"chosen")));
    assert!(text.lines().nth(1).is_some_and(|line| line.contains("100.00 %")), "{text}");
}

#[test]
fn probs_that_are_not_known_are_no_guess() {
    // Twelve coins can be looked at.
    let chain = format!("{}greedy", "xtc{probability=0.5};".repeat(13));
    for format in [&[][..], &["--json"]] {
        let outcome = program(&[&["probs", "x", "--samplers", &chain], format].concat());
        assert_eq!(outcome.code, Some(1), "{outcome:#?}");
        let error = outcome.told("error: ");
        assert!(
            error.starts_with("no probabilities are known of token 1 of the text: stage 13, `xtc`"),
            "{error}"
        );
    }
}

// A line per token.

#[test]
fn a_trace_changes_no_text_and_has_a_line_for_each_token() {
    let path = file("trace.jsonl", "");
    std::fs::remove_file(&path).expect("a file");
    let args = ["run", "Once upon a time", "-n", "7"];
    let plain = program(&args);
    let traced = program(&[&args[..], &["--trace", &path]].concat());
    assert_eq!(plain.stderr, traced.stderr);
    assert_eq!(plain.text(), traced.text());
    let lines = std::fs::read_to_string(&path).expect("a trace");
    let lines: Vec<Value> = lines.lines().map(json).collect();
    assert_eq!(lines.len(), 7);
    for (nth, line) in lines.iter().enumerate() {
        assert_eq!(line["step"], nth + 1);
        // Of the default chain these are not off.
        let stages = line["stages"].as_array().expect("stages");
        let names: Vec<_> = stages.iter().map(|stage| stage["name"].as_str()).collect();
        let active = ["top_k", "top_p", "min_p", "temperature", "dist"];
        assert_eq!(names, active.map(Some));
        assert_eq!((&stages[0]["before"], &stages[0]["after"]), (&2048.into(), &40.into()));
        let share = |key: &str| line[key].as_f64().expect("a number");
        assert!(share("probability") >= share("model_probability"), "{line}");
        let times = stages.iter().map(|stage| stage["us"].as_f64().expect("a time"));
        assert!((times.sum::<f64>() - share("us")).abs() < 1e-6 && share("us") > 0.0, "{line}");
    }
    let again = program(&[&args[..], &["--trace", &path]].concat()).error(2);
    assert_eq!(
        again,
        format!("--trace: '{path}' is there already; remove it, or name another file")
    );
    let nowhere = program(&[&args[..], &["--trace", "no/such/file"]].concat()).error(1);
    assert!(nowhere.starts_with("cannot write 'no/such/file': "), "{nowhere}");
}

#[test]
fn a_trace_ends_with_the_step_that_failed() {
    let path = file("failed.jsonl", "");
    std::fs::remove_file(&path).expect("a file");
    let bans: Vec<String> = (0..2048).map(|token| format!("'{token}-inf'")).collect();
    let chain = format!("samplers = \"logit_bias{{bias=[{}]}};top_k\"", bans.join(","));
    let chain = file("trace_bans.toml", chain);
    let outcome = program(&["run", "x", "--chain", &chain, "--trace", &path]);
    assert_eq!(outcome.code, Some(1));
    let line = json(&std::fs::read_to_string(&path).expect("a trace"));
    assert!(line["error"].as_str().is_some_and(|error| error.contains("`logit_bias`")), "{line}");
    assert_eq!(line["id"], Value::Null);
}
