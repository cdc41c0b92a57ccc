//! Logits from the command line and from files, on the real binary.

mod program;

use program::{file, program};
use serde_json::Value;

/// An .npy file as numpy writes it, version 1.
fn npy(name: &str, descr: &str, shape: &str, bytes: &[u8]) -> String {
    npy_with(
        name,
        &format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"),
        bytes,
    )
}

fn npy_with(name: &str, header: &str, bytes: &[u8]) -> String {
    let header = format!("{header:<117}\n");
    let mut content = b"\x93NUMPY\x01\x00".to_vec();
    content.extend((header.len() as u16).to_le_bytes());
    content.extend(header.bytes());
    content.extend(bytes);
    file(name, content)
}

/// A .safetensors file: a header in JSON, and the tensors' bytes.
fn safetensors(name: &str, header: &str, bytes: &[u8]) -> String {
    let mut content = (header.len() as u64).to_le_bytes().to_vec();
    content.extend(header.bytes());
    content.extend(bytes);
    file(name, content)
}

fn f32s(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// What `explain --json` says of the logits.
fn explained(args: &[&str]) -> Value {
    let text = program(&[&["explain", "--json", "--samplers", "top_k{k=3}"], args].concat()).text();
    serde_json::from_str(&text).expect("JSON")
}

fn start(args: &[&str]) -> Vec<(u64, f64)> {
    let report = explained(args);
    let top = report["stages"][0]["before"]["top"].as_array().expect("tokens").clone();
    let pair = |token: &Value| {
        (token["id"].as_u64().expect("an id"), token["logit"].as_f64().expect("a logit"))
    };
    top.iter().map(pair).collect()
}

fn refused(args: &[&str]) -> String {
    program(&[&["explain", "--json"], args].concat()).error(2)
}

/// Of a file, without what names it.
fn refused_file(path: &str) -> String {
    let message = refused(&["--logits-file", path]);
    let rest = message.strip_prefix(&format!("the logits of '{path}': "));
    rest.unwrap_or_else(|| panic!("{message}")).to_owned()
}

const RIGHT: [(u64, f64); 3] = [(2, 2.0), (0, 0.5), (1, -1.5)];

#[test]
fn logits_are_typed_or_read_in_every_type() {
    assert_eq!(start(&["--logits", "0.5,-1.5,2"]), RIGHT);
    assert_eq!(start(&["--logits", "-inf, 1"]), [(1, 1.0)]);
    // .5, -1.5 and 2: sign, exponent, fraction by hand.
    let f16 = [0x3800_u16, 0xBE00, 0x4000].map(u16::to_le_bytes).concat();
    let bf16 = [0x3F00_u16, 0xBFC0, 0x4000].map(u16::to_le_bytes).concat();
    let f32 = f32s(&[0.5, -1.5, 2.0]);
    let f64 = [0.5_f64, -1.5, 2.0].map(f64::to_le_bytes).concat();
    for (nth, (descr, bytes)) in [("<f2", &f16), ("<f4", &f32), ("<f8", &f64)].iter().enumerate() {
        let path = npy(&format!("type{nth}.npy"), descr, "(3,)", bytes);
        assert_eq!(start(&["--logits-file", &path]), RIGHT);
    }
    for (dtype, bytes) in [("F16", &f16), ("BF16", &bf16), ("F32", &f32), ("F64", &f64)] {
        let length = bytes.len();
        let header =
            format!(r#"{{"any":{{"dtype":"{dtype}","shape":[1,3],"data_offsets":[0,{length}]}}}}"#);
        let path = safetensors(&format!("{dtype}.safetensors"), &header, bytes);
        assert_eq!(start(&["--logits-file", &path]), RIGHT);
    }
}

/// Two steps of three logits, with the tokens 7 is too large for.
fn steps(name: &str, more: &str, tokens: &[i64]) -> String {
    let header = format!(
        r#"{{"logits":{{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}},
        "tokens":{{"dtype":"I64","shape":[{}],"data_offsets":[24,{}]}}{more}}}"#,
        tokens.len(),
        24 + 8 * tokens.len()
    );
    let mut bytes = f32s(&[0.0, 1.0, 2.0, 0.5, -1.5, 2.0]);
    bytes.extend(tokens.iter().flat_map(|token| token.to_le_bytes()));
    safetensors(name, &header, &bytes)
}

#[test]
fn a_step_is_a_row_of_the_file() {
    let path = npy("steps.npy", "<f4", "(2, 3)", &f32s(&[0.0, 1.0, 2.0, 0.5, -1.5, 2.0]));
    assert_eq!(start(&["--logits-file", &path]), [(2, 2.0), (1, 1.0), (0, 0.0)]);
    assert_eq!(start(&["--logits-file", &path, "--step", "2"]), RIGHT);
    assert_eq!(
        refused(&["--logits-file", &path, "--step", "3"]),
        format!("--step 3: '{path}' has steps 1 to 2")
    );
    assert_eq!(
        refused(&["--logits-file", &path, "--step", "0"]),
        "--step 0: write a whole number from 1"
    );
}

#[test]
fn the_chain_hears_the_prompt_and_the_tokens_before_a_step() {
    let heard = |path: &str, step: &str| {
        let chain = ["--samplers", "penalties{presence=1,last_n=\"all\"};greedy"];
        let args = ["explain", "--json", "--logits-file", path, "--step", step];
        let text = program(&[&args[..], &chain].concat()).text();
        let report: Value = serde_json::from_str(&text).expect("JSON");
        let changed = report["stages"][0]["changed"].as_array().expect("changes").clone();
        let mut ids: Vec<_> = changed.iter().map(|change| change["id"].as_u64()).collect();
        ids.sort();
        ids.into_iter().flatten().collect::<Vec<_>>()
    };
    let path = steps("heard.safetensors", "", &[1, 2]);
    assert_eq!(heard(&path, "1"), [0_u64; 0]);
    assert_eq!(heard(&path, "2"), [1]);
    let prompt = r#","prompt":{"dtype":"U32","shape":[1],"data_offsets":[40,44]}"#;
    let path = steps("prompt.safetensors", prompt, &[1, 2]);
    let mut content = std::fs::read(&path).expect("the file");
    content.extend(0_u32.to_le_bytes());
    let path = file("prompt.safetensors", content);
    assert_eq!(heard(&path, "1"), [0]);
    assert_eq!(heard(&path, "2"), [0, 1]);
    let path = npy("alone.npy", "<f4", "(2, 3)", &[0; 24]);
    assert_eq!(heard(&path, "2"), [0_u64; 0]);
}

#[test]
fn a_later_step_of_a_prompt_is_that_of_run() {
    let run = program(&["run", "Once upon a time", "-n", "6"]).text();
    let picked: Vec<String> = (1..=6)
        .map(|step| {
            let step = step.to_string();
            let args = ["explain", "Once upon a time", "--json", "--step", &step];
            let report: Value = serde_json::from_str(&program(&args).text()).expect("JSON");
            report["token"]["text"].as_str().expect("a text").to_owned()
        })
        .collect();
    assert_eq!(picked.concat().trim_end(), run.trim_end());
    let ends = ["explain", "x", "--samplers", "", "-l", "2+1000", "--step", "2"];
    assert_eq!(
        program(&ends).error_after_notes(2),
        "--step 2: token 1 is the text's last; the model ends it there"
    );
}

#[test]
fn files_that_hold_no_logits_are_refused_with_the_reason() {
    let row = f32s(&[0.0, 1.0, 2.0]);
    let cases = [
        (file("text.npy", "no logits"), "it is neither an .npy file nor a .safetensors file"),
        (file("empty.npy", ""), "it is neither an .npy file nor a .safetensors file"),
        (npy("deep.npy", "<f4", "(1, 1, 3)", &row), "the array has the shape [1, 1, 3]; right are"),
        (npy("none.npy", "<f4", "(0,)", &[]), "the array has the shape [0]; right are"),
        (npy("scalar.npy", "<f4", "()", &row[..4]), "the array has the shape []; right are"),
        (npy("short.npy", "<f4", "(4,)", &row), "it has 140 bytes, and its header asks for 144"),
        (npy("long.npy", "<f4", "(2,)", &row), "it has 140 bytes, and its header asks for 136"),
        (
            npy("huge.npy", "<f4", "(9999999999, 9999999999)", &row),
            "it has 140 bytes, and its header asks for 18446744073709551615",
        ),
        (npy("int.npy", "<i4", "(3,)", &row), "the array is of type `<i4`; right are <f2, <f4"),
        (npy_with("head.npy", "{'descr'}", &row), "its header is broken: `:` should stand"),
        (
            npy("nan.npy", "<f4", "(3,)", &f32s(&[0.0, f32::NAN, 1.0])),
            "the logit of token 1 in step 1 is NaN; finite numbers and -inf are logits",
        ),
        (
            npy("inf.npy", "<f4", "(3,)", &f32s(&[0.0, 1.0, f32::INFINITY])),
            "the logit of token 2 in step 1 is inf; finite",
        ),
        (
            npy("wide.npy", "<f8", "(1,)", &(-1e39_f64).to_le_bytes()),
            "the logit of token 0 in step 1 is -1000000000000000000000000000000000000000; logits",
        ),
        (safetensors("json.safetensors", "{\"logits\":1}   ", &row), "its header is broken: "),
        (safetensors("void.safetensors", "{}", &[]), "it holds no tensor"),
        (
            safetensors(
                "two.safetensors",
                r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},
                "b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}"#,
                &row,
            ),
            "no tensor is called `logits`; there are `a`, `b`",
        ),
        (
            safetensors(
                "cut.safetensors",
                r#"{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}"#,
                &row,
            ),
            "it has 75 bytes, and its header asks for 79",
        ),
        (
            safetensors(
                "int.safetensors",
                r#"{"a":{"dtype":"I32","shape":[3],"data_offsets":[0,12]}}"#,
                &row,
            ),
            "`a` is of type I32; right are F16, BF16, F32 and F64",
        ),
        (steps("one.safetensors", "", &[1]), "`tokens` has 1 elements, and `logits` 2 steps"),
        (
            steps("big.safetensors", "", &[1, 3]),
            "element 1 of `tokens` is 3, and tokens go from 0 to 2",
        ),
        (steps("minus.safetensors", "", &[-1, 0]), "element 0 of `tokens` is -1, and tokens"),
    ];
    for (path, start) in cases {
        let message = refused_file(&path);
        assert!(message.starts_with(start), "{path}: {message}");
    }
    let path = npy_with("end.npy", "", &row);
    let cut = file("end.npy", &std::fs::read(path).expect("the file")[..50]);
    assert!(!refused_file(&cut).is_empty());
    assert!(refused_file("no/such.npy").contains("No such file"));
    assert_eq!(refused_file("tests"), "it is a folder");
    assert!(refused_file("/dev/zero").starts_with("it is a pipe or a device"));
}

/// The first row of three holds what is no logit, and is asked for by nobody.
#[test]
fn a_row_that_stands_for_itself_needs_no_other_to_be_right() {
    let rows = [f32::NAN, 1.0, 0.0, 0.5, -1.5, 2.0, 3.0, 2.0, f32::INFINITY];
    let path = npy("rows.npy", "<f4", "(3, 3)", &f32s(&rows));
    let file = ["--logits-file", &path, "--step"];
    assert_eq!(start(&[&file[..], &["2"]].concat()), RIGHT);
    let compare = [&["compare", "top_k{k=1}", "greedy"], &file[..]].concat();
    program(&[&compare[..], &["2"]].concat()).text();
    for (step, token) in [("1", 0), ("3", 2)] {
        let why = format!("the logits of '{path}': the logit of token {token} in step {step} is ");
        assert!(refused(&[&file[..], &[step]].concat()).starts_with(&why));
        let message = program(&[&compare[..], &[step]].concat()).error_after_notes(2);
        assert!(message.starts_with(&why), "{message}");
    }
    let beyond = format!("--step 4: '{path}' has steps 1 to 3");
    assert_eq!(program(&[&compare[..], &["4"]].concat()).error_after_notes(2), beyond);
    // Over all rows, all must be right.
    let all = program(&["compare", "top_k{k=1}", "greedy", "--logits-file", &path]);
    assert!(all.error_after_notes(2).contains("in step 1 is NaN"));
}

#[test]
fn typed_logits_that_are_none_are_refused() {
    for (args, start) in [
        (&["--logits", "1,x"][..], "--logits 1,x: `x`, of token 1, is not a number; write numbers"),
        (&["--logits", "1,nan"], "--logits 1,nan: `nan`, of token 1, is no logit"),
        (&["--logits", ""], "--logits '': ``, of token 0, is not a number"),
        (&["--logits", "1", "x"], "--logits <X,X,...> cannot be used with [PROMPT]"),
        (&["--logits", "1", "--step", "1"], "--logits <X,X,...> cannot be used with --step <N>"),
        (&["--logits", "1", "-t", "2"], "--threads is for a model"),
        (&["--logits", "1", "--ignore-eos"], "--ignore-eos needs a model's vocabulary"),
        (&["--logits", "1", "--dry-multiplier", "1"], "the stage `dry` needs a model's"),
    ] {
        let message = refused(args);
        assert!(message.starts_with(start), "{message}");
    }
    let model = file("logits.gguf", logitchain::engine::EMBEDDED_GGUF);
    assert_eq!(
        refused(&["--logits", "1,2", "-m", &model]),
        format!("the model '{model}' has 2048 tokens, and --logits has 2 logits")
    );
}
