//! Whole configurations of llama.cpp, given to the program as the command lines
//! that a user of llama.cpp would carry over: the chain that it prints is the
//! one that llama.cpp printed (`golden/README.md`).

use std::process::Command;

use serde_json::Value;

/// llama.cpp's parameters and their flags.
const FLAGS: [(&str, &str); 22] = [
    ("seed", "--seed"),
    ("top_k", "--top-k"),
    ("top_p", "--top-p"),
    ("min_p", "--min-p"),
    ("xtc_probability", "--xtc-probability"),
    ("xtc_threshold", "--xtc-threshold"),
    ("typ_p", "--typical"),
    ("temp", "--temp"),
    ("dynatemp_range", "--dynatemp-range"),
    ("dynatemp_exponent", "--dynatemp-exp"),
    ("penalty_last_n", "--repeat-last-n"),
    ("penalty_repeat", "--repeat-penalty"),
    ("penalty_freq", "--frequency-penalty"),
    ("penalty_present", "--presence-penalty"),
    ("dry_multiplier", "--dry-multiplier"),
    ("dry_base", "--dry-base"),
    ("dry_allowed_length", "--dry-allowed-length"),
    ("dry_penalty_last_n", "--dry-penalty-last-n"),
    ("adaptive_target", "--adaptive-target"),
    ("adaptive_decay", "--adaptive-decay"),
    ("mirostat", "--mirostat"),
    ("top_n_sigma", "--top-nsigma"),
];

fn cases() -> Vec<Value> {
    let lines = include_str!("golden/common.jsonl").lines();
    lines.map(|line| serde_json::from_str(line).expect("a case")).collect()
}

/// A value as a user types it.
fn typed(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The flags by which a configuration differs from llama.cpp's defaults.
fn command_line(params: &Value, defaults: &Value) -> Vec<String> {
    let mut args = Vec::new();
    for (param, flag) in FLAGS {
        if params[param] != defaults[param] {
            args.extend([flag.to_owned(), typed(&params[param])]);
        }
    }
    if params["samplers"] != defaults["samplers"] {
        let names = params["samplers"].as_array().expect("names").iter();
        let names: Vec<&str> = names.filter_map(Value::as_str).collect();
        args.extend(["--samplers".to_owned(), names.join(";")]);
    }
    for pair in params["logit_bias"].as_array().expect("biases") {
        let bias = typed(&pair[1]);
        let sign = if bias.starts_with('-') { "" } else { "+" };
        args.extend(["-l".to_owned(), format!("{}{sign}{bias}", pair[0])]);
    }
    args
}

#[test]
fn a_command_line_of_llama_cpp_gives_llama_cpps_chain() {
    let cases = cases();
    let defaults = &cases[0]["params"];
    let (mut printed, mut refused) = (0, Vec::new());
    for case in &cases {
        let name = case["name"].as_str().expect("a name");
        let params = &case["params"];
        // Not to be had on either program's command line.
        if params["min_keep"] != defaults["min_keep"] {
            continue;
        }
        let mut args = command_line(params, defaults);
        let mirostat = params["mirostat"] != 0;
        if mirostat {
            // llama.cpp drops what mirostat leaves no place for; here that is an
            // error, so only what counts is given.
            args = args
                .chunks(2)
                .filter(|flag| ["--mirostat", "--temp", "-l"].contains(&flag[0].as_str()))
                .flatten()
                .cloned()
                .collect();
        }
        let output = Command::new(env!("CARGO_BIN_EXE_logitchain"))
            .args(["run", "x", "-n", "1"])
            .args(&args)
            .output()
            .expect("the program runs");
        let stderr = String::from_utf8(output.stderr).expect("UTF-8");
        if output.status.code() == Some(2) {
            refused.push(name);
            continue;
        }
        let chain = stderr.lines().find_map(|line| line.strip_prefix("sampler chain: "));
        let expected = case["expected"]["chain_print"].as_str().expect("a chain").trim_end();
        // Before mirostat llama.cpp puts the plain one of its two temperatures.
        let expected = expected.replace("-> temp ->", "-> temp-ext ->");
        assert_eq!(chain, Some(&*expected), "{name}: {args:?}\n{stderr}");
        printed += 1;
    }
    // Negative windows, which llama.cpp's own command line refuses as well, and
    // an infinite penalty, for which it throws.
    assert_eq!(
        refused,
        ["common/pen_last_n-1", "common/pen_freq_inf_throws", "common/dry_last_n-1"]
    );
    assert_eq!(printed, 22);
}
