//! Two chains side by side, on the real binary.

mod program;

use program::{file, program};
use serde_json::Value;

const ORDERS: [&str; 2] = ["top_p;temperature", "temperature;top_p"];
const FLAGS: [&str; 4] = ["--top-p", "0.9", "--temp", "1.5"];
const PROMPT: &str = "In the beginning God";

fn json(args: &[&str]) -> Value {
    let text = program(&[&["compare", "--json"], args].concat()).text();
    serde_json::from_str(&text).expect("JSON")
}

fn assert_close(value: &Value, expected: f64) {
    let number = value.as_f64().unwrap_or_else(|| panic!("{value} is no number"));
    assert!((number - expected).abs() < 1e-6, "{number}, not {expected}");
}

/// The weights exp(logit / 1.5) are 3.794, 1.948, 1.396, 1.069, 0.717, 0.513, in all
/// 9.436: with the temperature first, five of them reach 0.9. Without it four do.
#[test]
fn the_orders_of_top_p_and_temperature_give_the_probabilities_of_a_hand_calculation() {
    let logits = ["--logits", "2.0,1.0,0.5,0.1,-0.5,-1.0"];
    let diff = json(&[&ORDERS[..], &FLAGS, &logits].concat());
    let probabilities = |chain: &str| -> Vec<(u64, String)> {
        let law = diff["diff"][chain].as_array().expect("a distribution");
        law.iter()
            .map(|pair| {
                let p = pair[1].as_f64().expect("a probability");
                (pair[0].as_u64().expect("an id"), format!("{p:.3}"))
            })
            .collect()
    };
    let expected = |texts: &[&str]| -> Vec<(u64, String)> {
        (0..).zip(texts.iter().map(|text| (*text).to_owned())).collect()
    };
    assert_eq!(probabilities("a"), expected(&["0.462", "0.237", "0.170", "0.130"]));
    assert_eq!(probabilities("b"), expected(&["0.425", "0.218", "0.156", "0.120", "0.080"]));
    assert_eq!(diff["diff"]["only_b"], serde_json::json!([4]));
    assert_eq!(diff["diff"]["kl_ba"], "inf");

    let table = program(&[&["compare"], &ORDERS[..], &FLAGS, &logits].concat()).text();
    assert!(table.contains("46.23 %") && table.contains("42.52 %"), "{table}");
    assert!(table.contains("only by B        1, with 8.03 %: token 4\n"), "{table}");
}

/// Probabilities 1/2, 1/4, 1/4 against 2/3, 1/3: their average is 7/12, 7/24, 1/8.
#[test]
fn distances_are_those_of_a_hand_calculation() {
    let diff = json(&["dist", "top_k{k=2}", "--logits", "0.6931472,0,0"]);
    assert_eq!((&diff["best_a"], &diff["best_b"]), (&0.into(), &0.into()));
    let diff = &diff["diff"];
    assert_close(&diff["total_variation"], 0.25);
    assert_eq!(diff["kl_ab"], "inf");
    assert_close(&diff["kl_ba"], (4.0_f64 / 3.0).log2());
    let shannon = 0.5 * (0.75 * (6.0_f64 / 7.0).log2() + 0.25) + 0.5 * (8.0_f64 / 7.0).log2();
    assert_close(&diff["jensen_shannon"], shannon);
    assert_close(&diff["entropy_a"], 1.5);
    assert_close(&diff["entropy_b"], 3.0_f64.log2() - 2.0 / 3.0);
}

#[test]
fn a_flag_is_for_the_chains_that_have_its_stage() {
    let diff = json(&["dist", "top_k", "--top-k", "1", "--logits", "1,0,0"]);
    assert_eq!(diff["diff"]["only_a"], serde_json::json!([1, 2]));
    // A bias joins every chain, as in `run`.
    let diff = json(&["dist", "top_k", "--logit-bias", "0-inf", "--logits", "1,0,0"]);
    assert_eq!((&diff["best_a"], &diff["best_b"]), (&1.into(), &1.into()));
    for (args, message) in [
        (
            vec!["top_p", "temp", "--top-k", "1"],
            "--top-k belongs to `top_k`, which neither chain has",
        ),
        (
            vec!["mirostat", "top_p", "--xtc-threshold", "0.2", "--mirostat-ent", "3"],
            "--xtc-threshold belongs to `xtc`, which neither chain has",
        ),
        (
            vec!["top_p", "top_p{p=0.2}", "--top-p", "0.9"],
            "`--top-p 0.9` and `top_p{p=0.2}` both set `p` of stage 1; leave one out",
        ),
        (
            vec!["top_p", "temp;top_p", "--top-p", "9"],
            "--top-p 9: stage 1, `top_p`: `p` must be between 0 and 1, got 9",
        ),
    ] {
        assert_eq!(program(&[&["compare"], &args[..], &["x"]].concat()).error(2), message);
    }
}

#[test]
fn what_is_wrong_in_a_chain_names_the_chain() {
    let error = program(&["compare", "top_p", "top_q", "x"]).error(2);
    let start = "chain B: stage 1: no stage is called `top_q`; did you mean `top_";
    assert!(error.starts_with(start), "{error}");
    let error = program(&["compare", "no/such.toml", "top_p", "x"]).error(2);
    assert!(error.starts_with("cannot read 'no/such.toml': "), "{error}");
    assert_eq!(program(&["compare", "top_p"]).error(2), "<B> is missing; see --help");
    let error = program(&["compare", "top_p", "temp", "x", "-n", "0"]).error(2);
    assert_eq!(error, "--predict 0: write a whole number from 1, or -1 for no limit");
    let banned = "logit_bias{bias=[\"0-inf\",\"1-inf\"]}";
    let error = program(&["compare", "dist", banned, "--logits", "1,0"]).error_after_notes(1);
    assert!(error.contains("logits -> logit-bias -> dist"), "{error}");
    assert!(error.contains("no candidates are left"), "{error}");
}

#[test]
fn a_chain_file_is_the_chain_that_it_lists() {
    let stages = "[[stage]]\nuse = \"top_p\"\np = 0.9\n[[stage]]\nuse = \"temperature\"\nt = 1.5\n";
    let path = file("compared.toml", format!("{stages}[[stage]]\nuse = \"dist\"\n"));
    let logits = ["--logits", "2,1,0.5"];
    let list = json(&[&["top_p{p=0.9};temp{t=1.5}", "dist"], &logits[..]].concat());
    assert_eq!(json(&[&[&*path, "dist"], &logits[..]].concat()), list);
}

/// The texts that `run` writes with the two chains say where their draws part.
#[test]
fn the_draws_part_where_the_texts_of_run_do() {
    for (orders, seed) in [(ORDERS, "42"), (["top_k", "top_k;min_p{p=0.02}"], "2")] {
        let has = |flag: &str| orders.iter().all(|list| list.contains(flag));
        let mut flags = vec!["--seed", seed];
        if has("top_p") {
            flags.extend(FLAGS);
        }
        let args = [&orders[..], &flags, &[PROMPT, "-n", "40"]].concat();
        let parting = json(&args)["parting"].clone();
        let before = parting["before"].as_str().expect("a text");
        for (list, text) in orders.iter().zip(["text_a", "text_b"]) {
            let args = [&["run", PROMPT, "--echo", "-n", "40", "--samplers", list], &flags[..]];
            let written = program(&args.concat()).text();
            let next = parting[text].as_str().expect("a text");
            assert!(written.starts_with(&format!("{before}{next}")), "{parting} {written}");
        }
        assert_ne!(parting["token_a"], parting["token_b"]);
        let table = program(&[&["compare"], &args[..]].concat()).text();
        assert!(
            table.contains(&format!("the draws part at step {}: ", parting["step"])),
            "{table}"
        );
    }
}

#[test]
fn the_same_chain_twice_differs_in_nothing() {
    let args = ["top_k", "top_k", PROMPT, "-n", "5", "--seed", "random"];
    let run = json(&args);
    assert_eq!(run["diff"]["steps"], 5);
    assert_eq!(run["diff"]["total_variation"]["max"], 0.0);
    assert_eq!(run["diff"]["kept_differs"], 0.0);
    assert_eq!(run["parting"], Value::Null);
    let table = program(&[&["compare"], &args[..]].concat()).text();
    assert!(table.ends_with("both draw the same tokens\n"), "{table}");
}

/// The mean over a file is that of its steps one by one.
#[test]
fn all_steps_of_a_recorded_file_are_compared() {
    let file = ["--logits-file", "tests/golden/recorded.safetensors"];
    let all = json(&[&ORDERS[..], &FLAGS, &file].concat());
    assert_eq!(all["diff"]["steps"], 3);
    let first = json(&[&ORDERS[..], &FLAGS, &file, &["-n", "2"]].concat());
    assert_eq!(first["diff"]["steps"], 2);
    let variation = |diff: &Value| diff["diff"]["total_variation"].clone();
    let step = |args: &[&str], step| {
        let one = json(&[args, &file, &["--step", step]].concat());
        variation(&one).as_f64().expect("a number")
    };
    let orders = [&ORDERS[..], &FLAGS].concat();
    // What the chains have heard before counts as well.
    for args in [orders, vec!["dist", "penalties{presence=9}"]] {
        let steps = ["1", "2", "3"].map(|nth| step(&args, nth));
        let all = json(&[&args[..], &file].concat());
        let first = json(&[&args[..], &file, &["-n", "2"]].concat());
        assert_close(&variation(&all)["mean"], steps.iter().sum::<f64>() / 3.0);
        assert_close(&variation(&first)["mean"], (steps[0] + steps[1]) / 2.0);
        assert!(steps.iter().any(|variation| *variation > 1e-4), "{args:?}: {steps:?}");
    }
    let top = [&["compare"], &ORDERS[..], &FLAGS, &file, &["--top", "4"]].concat();
    let problem = "--top is for one step of the file; choose it with --step";
    assert_eq!(program(&top).error_after_notes(2), problem);
    let beyond = [&["compare"], &ORDERS[..], &FLAGS, &file, &["--step", "4"]].concat();
    assert_eq!(program(&beyond).error_after_notes(2), "--step 4: the text ends after 3");
}

/// Two rows of an .npy file, [2, 1] and [1, 2], without tokens: no chain hears
/// anything, so that a penalty has nothing to do.
#[test]
fn rows_without_tokens_stand_for_themselves() {
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }";
    let mut content = b"\x93NUMPY\x01\x00".to_vec();
    let header = format!("{header:<117}\n");
    content.extend((header.len() as u16).to_le_bytes());
    content.extend(header.bytes());
    content.extend([2.0_f32, 1.0, 1.0, 2.0].iter().flat_map(|x| x.to_le_bytes()));
    let path = file("rows.npy", content);
    let penalty = "penalties{presence=5}";
    let run = json(&["dist", penalty, "--logits-file", &path]);
    assert_eq!(
        (&run["diff"]["steps"], &run["diff"]["total_variation"]["max"]),
        (&2.into(), &0.0.into())
    );
}
