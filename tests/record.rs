//! `record`, on the real binary; what it writes is read here by hand, and compared
//! with what the engine computes.

mod program;

use std::{fs, path::Path, process::Command};

use half::f16;
use logitchain::{
    TokenId,
    engine::{EMBEDDED_GGUF, GgufModel, Model as _, Special, prompt_tokens},
};
use program::{file, program};
use serde_json::Value;

const RUN: [&str; 3] = ["Once upon a time", "-n", "6"];

/// A name at which there is no file.
fn free(name: &str) -> String {
    let path = file(name, "");
    fs::remove_file(&path).expect("a file");
    path
}

fn record(args: &[&str]) -> program::Outcome {
    program(&[&["record"], &RUN[..], args].concat())
}

/// The header, and what follows.
fn read(path: &str) -> (Value, Vec<u8>) {
    let content = fs::read(path).expect("a recording");
    let length = u64::from_le_bytes(content[..8].try_into().expect("eight bytes")) as usize;
    assert_eq!(length % 8, 0);
    let header = serde_json::from_slice(&content[8..8 + length]).expect("JSON");
    (header, content[8 + length..].to_vec())
}

fn tensor<'a>((header, data): &'a (Value, Vec<u8>), name: &str) -> (&'a Value, &'a [u8]) {
    let info = &header[name];
    let offset = |nth: usize| info["data_offsets"][nth].as_u64().expect("an offset") as usize;
    (info, &data[offset(0)..offset(1)])
}

fn ids(bytes: &[u8]) -> Vec<TokenId> {
    let words = bytes.as_chunks().0.iter();
    words.map(|word| TokenId(u32::from_le_bytes(*word))).collect()
}

#[test]
fn a_recording_holds_the_logits_that_the_engine_computes() {
    let path = free("logits.safetensors");
    // A chain that works in the logits themselves.
    let chain = ["--samplers", "logit_bias{bias=['14-1']};temperature{t=0.7}"];
    let outcome = record(&[&["-o", &path], &chain[..]].concat());
    let run = program(&[&["run"], &RUN[..], &chain].concat());
    assert_eq!(outcome.stderr, run.stderr);
    let text = run.text();
    assert_eq!(outcome.text(), text);

    let file = read(&path);
    let (info, logits) = tensor(&file, "logits");
    assert_eq!((&info["dtype"], &info["shape"]), (&"F32".into(), &serde_json::json!([6, 2048])));
    let tokens = ids(tensor(&file, "tokens").1);
    let prompt = ids(tensor(&file, "prompt").1);
    let model = GgufModel::embedded();
    let right = prompt_tokens(model.tokenizer(), RUN[0], Special::Plain).expect("tokens");
    assert_eq!(prompt, right);
    let mut session = model.session();
    let mut next = prompt;
    for (row, token) in logits.chunks(4 * 2048).zip(&tokens) {
        let computed = session.forward(&next).expect("logits");
        let computed: Vec<u8> = computed.iter().flat_map(|logit| logit.to_le_bytes()).collect();
        assert!(row == computed);
        next = vec![*token];
    }

    let notes = &file.0["__metadata__"];
    assert_eq!(notes["model"], "logitchain-tiny, in the program");
    assert_eq!((&notes["seed"], &notes["rng"]), (&"42".into(), &"xoshiro256++".into()));
    // The chain that is noted is the chain.
    let chain = notes["chain"].as_str().expect("a list");
    assert_eq!(program(&[&["run"], &RUN[..], &["--samplers", chain]].concat()).text(), text);
}

#[test]
fn a_recording_explains_every_token_as_the_model_would() {
    let path = free("explained.safetensors");
    record(&["-o", &path]).text();
    for step in ["1", "2", "6"] {
        let step = ["--step", step, "--token", " the"];
        let recorded = program(&[&["explain", "--logits-file", &path], &step[..]].concat());
        let computed = program(&[&["explain", RUN[0]], &step[..]].concat());
        assert_eq!(recorded.text(), computed.text());
    }
    // By another chain it still is the text that was recorded.
    let other = ["--samplers", "penalties{presence=9};greedy", "--step", "6"];
    program(&[&["explain", "--logits-file", &path], &other[..]].concat()).text();
    let missing = program(&["explain", "--logits-file", &path, "--step", "7"]).error(2);
    assert_eq!(missing, format!("--step 7: '{path}' has steps 1 to 6"));
}

#[test]
fn another_chain_than_the_recorded_one_is_told() {
    let path = free("chain.safetensors");
    let chain = ["--samplers", "temperature{t=1.5}", "--seed", "7"];
    record(&[&["-o", &path], &chain[..]].concat()).text();
    let explain = ["explain", "--logits-file", &path];
    let note = "note: the tokens were recorded with --samplers 'temperature{t=1.5,";
    let other = program(&explain);
    let told = other.stderr.lines().find(|line| line.starts_with(note));
    let told = told.unwrap_or_else(|| panic!("{other:?}"));
    assert!(told.ends_with("dist' --seed 7, which is not this chain"), "{told}");
    let same = program(&[&explain[..], &chain].concat());
    assert!(!same.stderr.contains("note: "), "{same:?}");
}

#[test]
fn texts_are_shown_only_for_the_model_that_is_known() {
    let model = file("known.gguf", EMBEDDED_GGUF);
    let path = free("known.safetensors");
    record(&["-o", &path, "-m", &model]).text();
    assert_eq!(read(&path).0["__metadata__"]["model"], "known.gguf");
    let explain = ["explain", "--logits-file", &path, "--samplers", ""];
    let alone = program(&explain).text();
    assert!(!alone.contains('"'), "{alone}");
    let known = program(&[&explain[..], &["-m", &model]].concat()).text();
    assert!(known.contains("\",\""), "{known}");
}

#[test]
fn f16_rounds_to_the_nearest() {
    let (full, half) = (free("full.safetensors"), free("half.safetensors"));
    record(&["-o", &full]).text();
    record(&["--output", &half, "--f16"]).text();
    let (full, half) = (read(&full), read(&half));
    assert_eq!(half.0["logits"]["dtype"], "F16");
    let exact = tensor(&full, "logits").1.as_chunks().0.iter();
    let exact: Vec<_> = exact.map(|&bytes| f16::from_f32(f32::from_le_bytes(bytes))).collect();
    let got = tensor(&half, "logits").1.as_chunks().0.iter();
    assert!(got.map(|&bytes| f16::from_le_bytes(bytes)).eq(exact));
}

#[test]
fn a_file_is_whole_and_never_replaced_unasked() {
    let path = file("there.safetensors", "precious");
    let message = record(&["-o", &path]).error(2);
    assert_eq!(message, format!("--output: '{path}' is there already; --force replaces it"));
    let message = record(&["-o", "/dev/null", "--force"]).error(2);
    assert_eq!(message, "--output: '/dev/null' is no plain file");
    let message = record(&["-o", "both", "--trace", "both"]).error(2);
    assert_eq!(message, "--output and --trace are both 'both'");
    assert_eq!(fs::read(&path).expect("the file"), b"precious");
    record(&["-o", &path, "--force"]).text();
    let first = fs::read(&path).expect("the file");
    record(&["-o", &path, "--force"]).text();
    // The same text is the same file.
    assert!(fs::read(&path).expect("the file") == first);

    // A chain that fails leaves no file, and not a part of one.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("recordings");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).expect("a folder");
    let path = folder.join("failed.safetensors");
    let path = path.to_str().expect("UTF-8");
    let bans: Vec<String> = (0..2048).map(|token| format!("'{token}-inf'")).collect();
    let chain = format!("samplers = \"logit_bias{{bias=[{}]}}\"", bans.join(","));
    let chain = file("record_bans.toml", chain);
    let failed = record(&["-o", path, "--chain", &chain]);
    assert_eq!(failed.code, Some(1), "{failed:#?}");
    assert_eq!(fs::read_dir(&folder).expect("the folder").count(), 0);

    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        record(&["-o", path]).text();
        let mode = |path: &str| fs::metadata(path).expect("a file").permissions().mode();
        assert_eq!(mode(path), mode(&chain));
    }
}

/// A pipe that is read no further holds the program up, in the middle of its text.
#[cfg(unix)]
#[test]
fn a_recording_that_is_interrupted_leaves_nothing() {
    use std::{io::Read as _, os::unix::process::ExitStatusExt as _};

    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("interrupted");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).expect("a folder");
    let files = || fs::read_dir(&folder).expect("the folder").count();
    let output = folder.join("text.safetensors").to_str().expect("UTF-8").to_owned();
    for (signal, number) in [("-INT", 2), ("-TERM", 15)] {
        let trace = program::pipe("interrupted.pipe");
        let args = ["record", "Once", "-n", "-1", "--ignore-eos", "-o", &output, "--trace", &trace];
        let mut child = program::command(&args).spawn().expect("the program starts");
        let mut reader = fs::File::open(&trace).expect("a pipe");
        reader.read_exact(&mut [0]).expect("a byte");
        assert_eq!(files(), 1);
        let killed = Command::new("kill").args([signal, &child.id().to_string()]).status();
        assert!(killed.expect("kill is there").success());
        let status = child.wait().expect("the program ends");
        assert_eq!(status.signal(), Some(number), "{status}");
        assert_eq!(files(), 0);
    }
}

#[test]
fn recordings_that_cannot_be_are_refused() {
    let folder = record(&["-o", "tests"]).error(2);
    assert_eq!(folder, "--output: 'tests' is a folder");
    let missing = record(&[]).error(2);
    assert_eq!(missing, "--output <FILE.safetensors> is missing; see --help");
    let nowhere = record(&["-o", "no/such/file.safetensors"]).error(1);
    assert!(nowhere.starts_with("cannot write 'no/such/file.safetensors': "), "{nowhere}");
    let nothing = program(&["record", "x", "-n", "0", "-o", "none.safetensors"]).error(2);
    assert_eq!(nothing, "--predict 0 leaves nothing to record; write a number from 1, or -1");
}
