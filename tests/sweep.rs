//! Settings side by side, on the real binary.

mod program;

use std::{fs, process::Command};

use logitchain::engine::{GgufModel, Model as _, Special, prompt_tokens};
use program::{Outcome, file, program};
use serde_json::Value;

const PROMPT: &str = "In the beginning God";

fn sweep(args: &[&str]) -> Outcome {
    program(&[&["sweep"], args].concat())
}

/// The rows of `--json`.
fn rows(args: &[&str]) -> Vec<Value> {
    let text = sweep(&[args, &["--json"]].concat()).text();
    let json: Value = serde_json::from_str(&text).expect("JSON");
    json["settings"].as_array().expect("rows").clone()
}

fn settings(args: &[&str]) -> Vec<String> {
    let rows = rows(&[args, &["--logits", "1,0", "--draws", "1"]].concat());
    rows.iter().map(|row| row["setting"].as_str().expect("a text").to_owned()).collect()
}

fn number(row: &Value, key: &str) -> f64 {
    row[key].as_f64().unwrap_or_else(|| panic!("{key} of {row}"))
}

// The grid.

#[test]
fn ranges_hold_both_ends_and_drift_nowhere() {
    assert_eq!(
        settings(&["--samplers", "temperature", "--temp", "0.1..1.0:0.1"]),
        [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0].map(|t| format!("--temp {t:.1}"))
    );
    assert_eq!(
        settings(&["--samplers", "top_k", "--top-k", "7,1..6:2"]),
        ["--top-k 7", "--top-k 1", "--top-k 3", "--top-k 5"]
    );
    assert_eq!(
        settings(&["--samplers", "top_n_sigma", "--top-nsigma", "-1..1:2"]),
        ["--top-nsigma -1", "--top-nsigma 1"]
    );
}

#[test]
fn flags_are_combined_in_the_order_of_the_command_line() {
    let list = ["--samplers", "temperature;min_p;penalties"];
    let grid = ["--repeat-last-n", "all", "--min-p", "0,0.5", "--temp", "1,2"];
    let expected = ["0 --temp 1", "0 --temp 2", "0.5 --temp 1", "0.5 --temp 2"]
        .map(|s| format!("--min-p {s}"));
    assert_eq!(settings(&[&list[..], &grid].concat()), expected);
}

#[test]
fn what_has_one_value_is_one_setting() {
    let list = "temperature{t=0.7};top_k";
    assert_eq!(settings(&["--samplers", list, "--top-k", "3"]), [list]);
}

#[test]
fn a_file_can_be_swept_too() {
    let path = file("swept.toml", "[[stage]]\nuse = \"top_k\"\nk = 1\n[[stage]]\nuse = \"dist\"\n");
    let args = ["--logits", "0,0,0", "--chain", &path, "--top-k", "2,3"];
    let tokens = rows(&args).iter().map(|row| number(row, "reachable_tokens")).collect::<Vec<_>>();
    assert_eq!(tokens, [2.0, 3.0]);
}

#[test]
fn a_wrong_grid_is_told_in_one_line() {
    let temp = |text: &'static str| vec!["--samplers", "temperature", "--temp", text];
    for (args, message) in [
        (temp("2..1:0.5"), "--temp: `2..1:0.5` goes from high to low; write 1..2:0.5"),
        (temp("2..1:-0.5"), "--temp: `2..1:-0.5` goes from high to low; write 1..2:0.5"),
        (temp("1..2:0"), "--temp: a step of 0 gets nowhere; write one above 0, as in 1..2:0.1"),
        (temp("1..2:-1"), "--temp: a step of -1 gets nowhere; write one above 0, as in 1..2:0.1"),
        (temp("1..2"), "--temp: `1..2` lacks its step, as in 1..2:0.1"),
        (
            temp("nan..1:0.1"),
            "--temp: `nan` is no decimal number; a range is low..high:step, as in 0.2..2:0.2",
        ),
        (
            temp(""),
            "--temp: it has no value; write one, a list such as 0.5,1, or a range such as \
             0.2..2:0.2",
        ),
        (temp("1,,2"), "--temp: `1,,2` has a comma too many"),
        (temp("1,2,1.0"), "--temp: `1,2,1.0` has 1.0 twice"),
        (temp("nan"), "--temp nan: stage 1, `temperature`: `t` must be a finite number, got NaN"),
        (
            temp("1,warm"),
            "--temp warm: stage 1, `temperature`: `t` must be a number, got `\"warm\"`",
        ),
        (
            temp("0..5:0.001"),
            "--temp: `0..5:0.001` are 5001 values, and 1000 settings are the most; take a larger \
             step",
        ),
        (
            vec!["--top-p", "0.01..0.5:0.01", "--min-p", "0.01..0.5:0.01"],
            "50 values of --top-p times 50 values of --min-p make 2500 settings; 1000 are the most",
        ),
        (
            vec!["--samplers", "top_k", "--temp", "1,2"],
            "--temp belongs to `temperature`, which is not in the chain `top_k;dist`",
        ),
        (
            vec!["--samplers", "temperature{t=1}", "--temp", "1,2"],
            "`--temp 1` and `temperature{t=1}` both set `t` of stage 1; leave one out",
        ),
        (vec!["--draws", "0"], "--draws 0: write a whole number from 1 to 10000000"),
        (
            vec!["--svg", "x.svg"],
            "--svg needs a flag with several values to draw over, as in --temp 0.2..2:0.2",
        ),
        (
            vec!["--svg", "x.svg", "--repeat-last-n", "64,all"],
            "--svg draws over the first flag with several values, --repeat-last-n, and `all` is \
             no number; put another flag first",
        ),
        (
            vec!["--svg", "x.svg", "--temp", "1,2", "--top-k", "1..15:1"],
            "--svg would draw 15 lines over --temp, one for each combination of --top-k; 14 are \
             the most that can be told apart",
        ),
        (vec!["--csv", "tests"], "--csv: 'tests' is a folder"),
        (
            vec!["--svg", "README.md", "--temp", "1,2"],
            "--svg: 'README.md' is there already; --force replaces it",
        ),
        (
            vec!["--svg", "x", "--csv", "x", "--temp", "1,2"],
            "--csv and --svg name the same file; each needs one of its own",
        ),
    ] {
        assert_eq!(sweep(&[&["x"], &args[..]].concat()).error(2), message);
    }
    let stage = sweep(&["x", "--samplers", "tempr", "--temp", "1,2"]).error(2);
    let hint = "--samplers: stage 1: no stage is called `tempr`; did you mean `temperature`?";
    assert!(stage.starts_with(hint), "{stage}");
    let step = sweep(&["x", "--step", "2"]).error(2);
    assert!(step.starts_with("--step 2 is for --logits-file"), "{step}");
}

// The columns.

/// Of four equal logits `k` stay: log2(k) bits, and the others' quarters are gone.
#[test]
fn the_columns_are_those_of_a_calculation_by_hand() {
    let rows = rows(&["--logits", "3,3,3,3", "--samplers", "top_k", "--top-k", "1..4:1"]);
    for (row, k) in rows.iter().zip([1.0, 2.0, 3.0, 4.0_f64]) {
        assert!((number(row, "entropy_bits") - k.log2()).abs() < 1e-12, "{row}");
        assert_eq!(number(row, "reachable_tokens"), k);
        assert!((number(row, "removed_mass") - (1.0 - k / 4.0)).abs() < 1e-12, "{row}");
        // 50,000 draws: 2 n ln 2 times what is missing is chi-squared with k - 1
        // degrees of freedom, which is above 25 once in 60,000 times.
        let missing = k.log2() - number(row, "drawn_entropy_bits");
        assert!((0.0..25.0 / 69_000.0).contains(&missing), "{row}");
        assert_eq!(row["p_value"].is_null(), k == 1.0, "{row}");
        assert_eq!(row["repeats"], true);
    }
    assert_eq!(rows.len(), 4);
}

/// The first token has half of the mass; the first stage takes it, by a coin, half
/// of the time.
#[test]
fn a_stage_that_tosses_a_coin_is_in_the_table_as_a_mixture() {
    let logits = "0.6931472,0,0";
    let args =
        ["--logits", logits, "--samplers", "xtc{threshold=0.2}", "--xtc-probability", "0.5,1"];
    let rows = rows(&args);
    // By id: 1/4, 1/8 + 0, 1/8 + 1/2; of tokens above 0.2 the least likely stays,
    // and of equals that is the one with the highest id.
    let mixed = 2.0 * 0.25 + 0.125 * 3.0 + 0.625 * -(0.625_f64.log2());
    assert!((number(&rows[0], "entropy_bits") - mixed).abs() < 1e-6, "{}", rows[0]);
    assert_eq!(number(&rows[0], "reachable_tokens"), 3.0);
    assert_eq!(number(&rows[1], "entropy_bits"), 0.0);
    assert!((number(&rows[1], "removed_mass") - 0.75).abs() < 1e-6);
    assert!(number(&rows[0], "p_value") > 0.001);
}

#[test]
fn a_chain_that_its_own_draws_change_has_no_p_value() {
    let args = ["x", "--samplers", "mirostat_v2", "--mirostat-ent", "3", "--draws", "500"];
    let outcome = sweep(&args);
    assert_eq!(
        outcome.told("note: "),
        "`mirostat_v2` changes with every draw, so that its draws have no one distribution"
    );
    let row = rows(&args).remove(0);
    assert_eq!(
        (&row["p_value"], &row["moves"], &row["repeats"]),
        (&Value::Null, &true.into(), &true.into())
    );
}

#[test]
fn without_a_grid_twelve_settings_are_compared() {
    let rows = rows(&[PROMPT, "--draws", "5000"]);
    assert_eq!(rows.len(), 12);
    assert_eq!(rows[0]["setting"], "dist");
    for row in &rows {
        assert_eq!(row["repeats"], true, "{row}");
        // Seeds are fixed, so this holds in every run or in none.
        assert!(number(row, "p_value") > 0.001, "{row}");
    }
    let same = rows.iter().filter(|row| row["chain"] == rows[0]["chain"]).count();
    assert_eq!(same, 1);
}

#[test]
fn one_step_of_a_recorded_text_can_be_swept() {
    let args = |step| {
        let file = ["--logits-file", "tests/golden/recorded.safetensors", "--step", step];
        rows(&[&file[..], &["--samplers", "top_p", "--top-p", "0.9", "--draws", "10"]].concat())
    };
    let tokens: Vec<f64> =
        ["1", "2", "3"].iter().map(|step| number(&args(step)[0], "reachable_tokens")).collect();
    assert!(tokens[0] != tokens[1] || tokens[1] != tokens[2], "{tokens:?}");
}

// top_p and min_p at rising temperatures.

/// How many tokens `top_p` and `min_p` keep, counted from all probabilities in `f64`.
fn kept(logits: &[f32], t: f64, top_p: f64, min_p: f64) -> [f64; 2] {
    let best = logits.iter().fold(f32::NEG_INFINITY, |best, logit| best.max(*logit));
    let weights = logits.iter().map(|logit| (f64::from(logit - best) / t).exp());
    let mut weights: Vec<f64> = weights.collect();
    weights.sort_by(|a, b| b.total_cmp(a));
    let all: f64 = weights.iter().sum();
    let (mut sum, mut nucleus) = (0.0, 0);
    while sum < top_p * all {
        sum += weights[nucleus];
        nucleus += 1;
    }
    [nucleus as f64, weights.iter().filter(|weight| **weight >= min_p).count() as f64]
}

/// With the temperature first in the chain.
#[test]
fn as_the_temperature_rises_top_p_lets_many_tokens_in_and_min_p_few() {
    let model = GgufModel::embedded();
    let prompt = prompt_tokens(model.tokenizer(), PROMPT, Special::Plain).expect("a prompt");
    let logits = model.session().forward(&prompt).expect("logits").to_vec();
    let swept = |list: &str, flag: [&str; 2]| -> Vec<f64> {
        let grid = ["--samplers", list, "--temp", "0.5..2.5:0.5", "--draws", "10"];
        let rows = rows(&[&[PROMPT], &grid[..], &flag].concat());
        rows.iter().map(|row| number(row, "reachable_tokens")).collect()
    };
    let top_p = swept("temperature;top_p", ["--top-p", "0.9"]);
    let min_p = swept("temperature;min_p", ["--min-p", "0.1"]);
    for (nth, t) in [0.5, 1.0, 1.5, 2.0, 2.5].into_iter().enumerate() {
        assert_eq!([top_p[nth], min_p[nth]], kept(&logits, t, 0.9, 0.1), "t = {t}");
    }
    assert!(top_p[4] > 0.4 * logits.len() as f64, "{top_p:?}");
    assert!(min_p[4] < 0.05 * logits.len() as f64, "{min_p:?}");
    let apart: Vec<f64> = top_p.iter().zip(&min_p).map(|(p, m)| p - m).collect();
    assert!(apart.is_sorted_by(|a, b| a < b), "{apart:?}");
}

// The files.

#[test]
fn the_table_can_be_written_as_csv() {
    let path = file("sweep.csv", "");
    let args = ["--logits", "2,1,0", "--temp", "1,2", "--top-k", "1,3", "--samplers", "top_k;temp"];
    let args = [&args[..], &["--force", "--csv", &path]].concat();
    let rows = rows(&args);
    let mut reader = csv::Reader::from_path(&path).expect("a file");
    let head: Vec<String> = reader.headers().expect("heads").iter().map(str::to_owned).collect();
    assert_eq!(
        head.join(" "),
        "setting temp top-k entropy_bits reachable_tokens removed_mass drawn_entropy_bits p_value \
         repeats"
    );
    let records: Vec<csv::StringRecord> = reader.records().collect::<Result<_, _>>().expect("CSV");
    assert_eq!(records.len(), 4);
    for (record, row) in records.iter().zip(rows) {
        assert_eq!(&record[0], row["setting"].as_str().expect("a text"));
        assert_eq!(row["setting"], format!("--temp {} --top-k {}", &record[1], &record[2]));
        assert_eq!(record[3].parse::<f64>().expect("a number"), number(&row, "entropy_bits"));
        assert_eq!(record[7].parse::<f64>().ok(), row["p_value"].as_f64());
        assert_eq!(&record[8], "yes");
    }
}

#[test]
fn a_file_that_cannot_be_written_is_named() {
    let args = ["--logits", "1,0", "--draws", "1", "--csv", "no/such/folder.csv"];
    let error = sweep(&args).error_after_notes(1);
    assert!(error.starts_with("cannot write 'no/such/folder.csv': "), "{error}");
}

/// The picture in the README is the one that its command draws. `BLESS=1` rewrites it.
#[test]
fn the_picture_has_a_line_for_each_combination_of_the_other_flags() {
    let path = file("sweep.svg", "");
    let args = [PROMPT, "--samplers", "temperature;top_p;min_p", "--temp", "0.25..2.5:0.25"];
    let flags = ["--top-p", "0.9,1", "--min-p", "0,0.1", "--draws", "1", "--force", "--svg", &path];
    sweep(&[&args[..], &flags].concat()).text();
    let svg = fs::read_to_string(&path).expect("a picture");
    for name in ["--top-p 0.9 --min-p 0", "--top-p 1 --min-p 0.1", "--temp", "entropy (bits)"] {
        let line = svg.lines().filter(|line| line.trim() == name).count();
        assert!(line > 0, "{name} is not written in the picture");
    }
    // Ten temperatures, four lines, two panels.
    assert_eq!(svg.matches("<circle").count(), 10 * 4 * 2);

    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/temperature.svg");
    if std::env::var_os("BLESS").is_some() {
        fs::write(readme, &svg).expect("a writable file");
    }
    let shown = fs::read_to_string(readme).expect("the README's picture");
    assert!(svg == shown, "examples/temperature.svg is another picture; run with BLESS=1");
}

#[test]
fn sweeping_has_help_that_names_the_flags_of_stages() {
    let output = Command::new(env!("CARGO_BIN_EXE_logitchain")).args(["sweep", "--help"]).output();
    let help = String::from_utf8(output.expect("the program runs").stdout).expect("UTF-8");
    assert!(help.contains("--temp <VALUES>"), "{help}");
}
