//! Many texts at once, by the real binary on the embedded model: what is expected of
//! each is what `run` writes alone.

mod program;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use logitchain::engine::EMBEDDED_GGUF;
use serde_json::{Value, json};

use program::{Outcome, command, file, pipe, program, with_stdin};

/// What a run that must go well wrote.
fn fine(args: &[&str]) -> String {
    program(args).text()
}

/// The one line of a run that must fail before it writes anything.
fn refused(args: &[&str]) -> String {
    program(args).error(2)
}

/// A path of a test's own.
fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn requests(name: &str, lines: &[Value]) -> String {
    let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
    file(name, lines.join("\n") + "\n")
}

fn results(lines: &str) -> Vec<Value> {
    assert!(lines.ends_with('\n') || lines.is_empty(), "{lines}");
    lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// A text as `run` prints it.
fn printed(text: &str) -> String {
    if text.is_empty() || text.ends_with('\n') { text.to_owned() } else { format!("{text}\n") }
}

/// What follows on the line of stderr that begins so.
fn told<'a>(output: &'a Outcome, what: &str) -> Vec<&'a str> {
    output.stderr.lines().filter_map(|line| line.strip_prefix(what)).collect()
}

// Samples of one prompt.

#[test]
fn the_first_of_several_texts_is_that_of_a_single_run_and_each_can_be_had_by_its_seed() {
    for rng in ["xoshiro256++", "mt19937"] {
        let run = |args: &[&str]| {
            let fixed = ["run", "In the beginning", "-n", "12", "--rng", rng];
            program(&[&fixed, args].concat())
        };
        let all = run(&["--seed", "7", "--n-samples", "20"]);
        let seeds = told(&all, "text ").into_iter().enumerate().map(|(nth, line)| {
            let seed = line.strip_prefix(&*format!("{} of 20, seed: ", nth + 1));
            seed.unwrap_or_else(|| panic!("{line}"))
        });
        let seeds: Vec<&str> = seeds.collect();
        assert_eq!((seeds.len(), seeds[0]), (20, "7"));
        let alone: Vec<Outcome> = seeds.iter().map(|seed| run(&["--seed", seed])).collect();
        let texts: Vec<&str> = alone.iter().map(|output| output.stdout.as_str()).collect();
        assert_eq!(all.stdout, texts.concat());
        assert_ne!(texts[0], texts[1]);
        let stopped: Vec<&str> =
            alone.iter().flat_map(|output| told(output, "stopped: ")).collect();
        assert_eq!(told(&all, "stopped: "), stopped);
    }
}

#[test]
fn one_text_is_what_it_always_was() {
    let args = ["run", "In the beginning", "-n", "12", "--echo"];
    let (plain, one) = (program(&args), program(&[&args[..], &["--n-samples", "1"]].concat()));
    assert_eq!(plain, one);
    let several = program(&[&args[..], &["--n-samples=2", "--greedy"]].concat());
    let greedy = program(&[&args[..], &["--greedy"]].concat());
    assert_eq!(several.stdout, greedy.stdout.repeat(2));
}

#[test]
fn a_wrong_number_of_texts_is_refused() {
    for wrong in ["0", "-1", "many", "1.5"] {
        let message = format!("--n-samples {wrong}: write a whole number from 1");
        assert_eq!(refused(&["run", "x", "--n-samples", wrong]), message);
    }
    assert_eq!(
        refused(&["run", "x", "--n-samples", "2", "--timing"]),
        "`--timing` is about one text, and `--n-samples` writes several; leave one out"
    );
}

/// A frequency penalty of -3e38 leaves the two tokens of the prompt, the one that begins
/// texts and "a", as likely as each other. "a" ends the text; the other, drawn once more,
/// has an infinite logit, which is an error at the second token.
#[test]
fn a_text_that_fails_keeps_none_of_the_others_from_being_written() {
    let chain = "penalties{frequency=-3e38};top_k{k=2}";
    let fixed = ["run", "a", "--samplers", chain, "--stop", "a", "-n", "9"];
    let all = program(&[&fixed[..], &["--n-samples", "8"]].concat());
    let (mut texts, mut ends) = (String::new(), Vec::new());
    for (nth, line) in told(&all, "text ").into_iter().enumerate() {
        let seed = line.rsplit(' ').next().expect("a seed");
        let alone = program(&[&fixed[..], &["--seed", seed]].concat());
        texts += &alone.stdout;
        ends.extend(match alone.code {
            Some(0) => told(&alone, "stopped: ").first().map(|why| format!("stopped: {why}")),
            Some(1) => {
                let why = told(&alone, "error: ")[0];
                assert!(why.starts_with("cannot pick token 2 of the text: "), "{why}");
                Some(format!("error: text {} of 8: {why}", nth + 1))
            }
            code => panic!("{code:?}"),
        });
    }
    let failed = ends.iter().filter(|end| end.starts_with("error")).count();
    assert!((1..8).contains(&failed) && ends.len() == 8, "{all:?}");
    assert_eq!((all.code, &all.stdout), (Some(1), &texts));
    ends.push(format!("error: {failed} of 8 texts failed"));
    let found =
        all.stderr.lines().filter(|l| ["stopped", "error: "].iter().any(|w| l.starts_with(w)));
    assert_eq!(found.collect::<Vec<_>>(), ends);
}

// Requests.

/// Requests, and the flags of `run` that are to give the same.
fn varied() -> Vec<(Value, Vec<&'static str>)> {
    let chain = concat!(env!("CARGO_MANIFEST_DIR"), "/chains/llama-cpp.toml");
    vec![
        (json!({"id": "a", "prompt": "In the beginning", "predict": 20}), vec!["-n", "20"]),
        (
            json!({"prompt": "Thou", "seed": 3, "samplers": "top_k;dist", "top_k": 5, "n_predict": 9}),
            vec!["--seed", "3", "--samplers", "top_k;dist", "--top-k", "5", "-n", "9"],
        ),
        (
            json!({"id": 17, "prompt": "And it came to pass", "temp": 0.7, "stop": ["the", ","]}),
            vec!["--temp", "0.7", "--stop", "the", "--stop", ","],
        ),
        (
            json!({"prompt": "The Lord", "greedy": true, "predict": -1, "ignore-eos": true}),
            vec!["--greedy", "-n", "-1", "--ignore-eos"],
        ),
        (json!({"prompt": "Thou", "predict": 0}), vec!["-n", "0"]),
        (
            json!({"prompt": "a\\nb<s>", "escape": true, "special": true, "rng": "mt19937"}),
            vec!["-e", "--special", "--rng", "mt19937"],
        ),
        (
            json!({"prompt": "", "chain": chain, "dry_multiplier": "0.8", "dry_sequence_breaker": [".", "the"]}),
            vec![
                "--chain",
                chain,
                "--dry-multiplier",
                "0.8",
                "--dry-sequence-breaker",
                ".",
                "--dry-sequence-breaker",
                "the",
            ],
        ),
        (
            json!({"prompt": "-x", "mirostat": 2, "logit_bias": ["5-inf", "6+1.5"], "greedy": false}),
            vec!["--mirostat", "2", "-l", "5-inf", "-l", "6+1.5"],
        ),
        (
            json!({"prompt": "Thou", "seed": 3, "samplers": "top_k;dist", "top_k": 5, "n": 3}),
            vec!["--seed", "3", "--samplers", "top_k;dist", "--top-k", "5", "--n-samples", "3"],
        ),
    ]
}

#[test]
fn a_request_is_what_run_writes_in_any_company_and_number() {
    let varied = varied();
    let lines: Vec<Value> = varied.iter().map(|(line, _)| line.clone()).collect();
    let file = requests("varied.jsonl", &lines);
    let batch = ["batch", &file, "-n", "24"];
    let found = fine(&batch);
    for args in [&["--parallel", "1"][..], &["--parallel", "3", "-t", "2"], &["--memory", "1"]] {
        assert_eq!(fine(&[&batch[..], args].concat()), found, "{args:?}");
    }
    let mut found = results(&found).into_iter();
    for (nth, (line, flags)) in varied.iter().enumerate() {
        let prompt = format!("--prompt={}", line["prompt"].as_str().expect("a text"));
        let limit = if flags.contains(&"-n") { &[][..] } else { &["-n", "24"] };
        let alone = program(&[&["run", &prompt], &flags[..], limit].concat());
        assert_eq!(alone.code, Some(0), "{alone:?}");
        let samples = line["n"].as_u64().unwrap_or(1);
        let stopped = told(&alone, "stopped: ");
        let mut texts = String::new();
        for sample in 0..samples {
            let result = found.next().expect("a result");
            let id = line.get("id").cloned().unwrap_or(json!(nth + 1));
            assert_eq!(result["id"], id);
            assert_eq!(result.get("sample"), (samples > 1).then_some(&json!(sample)));
            let seed = line.get("seed").cloned().unwrap_or(json!(42));
            assert_eq!(result["seed"] == seed, sample == 0, "{result}");
            texts += &printed(result["text"].as_str().expect("a text"));
            let why = match result["stop"].as_str().expect("a word") {
                "end_of_generation" => "the model ended",
                "stop_string" => "stop string",
                "token_limit" => "token limit",
                "context_full" => "the model's context is full",
                other => panic!("{other}"),
            };
            assert!(stopped[sample as usize].starts_with(why), "{result} {stopped:?}");
            let tokens = result["tokens"].as_array().expect("ids").len();
            if let Some(limit) = line["predict"].as_u64() {
                assert!(tokens as u64 <= limit, "{result}");
            }
        }
        assert_eq!(texts, alone.stdout, "{line}");
    }
    assert_eq!(found.next(), None);
}

#[test]
fn flags_hold_for_all_lines_and_keys_replace_them() {
    let lines = [
        json!({"prompt": "Thou"}),
        json!({"prompt": "Thou", "seed": 8}),
        json!({"prompt": "Thou", "samplers": "greedy"}),
        json!({"prompt": "Thou", "stop": []}),
        json!({"prompt": "Thou", "special": false}),
    ];
    let file = requests("defaults.jsonl", &lines);
    let flags = ["--sampling-seq", "kt", "--seed", "5", "-n", "9", "--stop", "e", "--special"];
    let found = results(&fine(&[&["batch", &file], &flags[..]].concat()));
    let kt = ["--samplers", "top_k;temp", "-n", "9"];
    for (found, flags) in found.iter().zip([
        &[&kt[..], &["--seed", "5", "--stop", "e"]].concat(),
        &[&kt[..], &["--seed", "8", "--stop", "e"]].concat(),
        &vec!["--samplers", "greedy", "-n", "9", "--stop", "e"],
        &[&kt[..], &["--seed", "5"]].concat(),
        &[&kt[..], &["--seed", "5", "--stop", "e"]].concat(),
    ]) {
        let alone = fine(&[&["run", "Thou"], &flags[..]].concat());
        assert_eq!(printed(found["text"].as_str().expect("a text")), alone, "{flags:?}");
    }
    assert_eq!(found.len(), 5);
}

#[test]
fn requests_come_through_a_pipe_too_and_empty_lines_are_none() {
    let lines =
        "\r\n{\"prompt\": \"Thou\", \"predict\": 2}\r\n\n  {\"prompt\":\"a\",\"predict\":0}";
    let output = with_stdin(&["batch", "-"], lines.as_bytes());
    let found = results(&output.stdout);
    let ids: Vec<&Value> = found.iter().map(|found| &found["id"]).collect();
    assert_eq!(ids, [&json!(2), &json!(4)]);
    let wrong = with_stdin(&["batch", "-"], b"{\"prompt\": \"x\"}\n{}");
    assert_eq!(wrong.stderr, "error: stdin: line 2: `prompt` is missing: the text to continue\n");
}

/// Editors and spreadsheets on Windows begin a file so.
#[test]
fn a_byte_order_mark_is_no_part_of_a_file() {
    let line = "{\"prompt\": \"Thou\", \"predict\": 2}\n";
    let (plain, marked) =
        (file("plain.jsonl", line), file("marked.jsonl", format!("\u{FEFF}{line}")));
    assert_eq!(fine(&["batch", &marked]), fine(&["batch", &plain]));
    let out = file("marked.out", "");
    for _ in 0..2 {
        fine(&["batch", &marked, "--out", &out]);
    }
    let second = file("second.jsonl", format!("{line}\u{FEFF}{line}"));
    let start = format!("{second}: line 2: not a request in JSON, at byte 1: ");
    assert!(refused(&["batch", &second]).starts_with(&start));

    let chain = file("marked.toml", "\u{FEFF}seed = 3\n[[stage]]\nuse = 'greedy'\n");
    assert_eq!(fine(&["check", &chain]), "logits -> greedy\n");
}

#[test]
fn every_line_is_checked_before_the_first_text() {
    for (line, problem) in [
        ("{\"prompt\": \"x\"", "not a request in JSON, at byte 14: EOF while parsing an object"),
        (
            "[1]",
            "not a request in JSON, at byte 0: invalid type: sequence, expected an object, such as {\"prompt\": \"Once\"}",
        ),
        ("{\"prompt\": \"x\"} y", "not a request in JSON, at byte 17: trailing characters"),
        ("{\"id\": 1}", "`prompt` is missing: the text to continue"),
        ("{\"prompt\": 1}", "`prompt` is a text, and not `1`"),
        ("{\"prompt\": \"x\", \"prompt\": \"y\"}", "`prompt` is given twice"),
        ("{\"prompt\": \"x\", \"temp\": 1, \"temp\": 1}", "`temp` is given twice"),
        (
            "{\"prompt\": \"x\", \"predict\": 1, \"n-predict\": 1}",
            "`predict` and `n-predict` are the same",
        ),
        (
            "{\"prompt\": \"x\", \"id\": null}",
            "`id` is a text or a whole number of 64 bits, and not null",
        ),
        (
            "{\"prompt\": \"x\", \"id\": 1e99}",
            "`id` is a text or a whole number of 64 bits, and not `1e+99`",
        ),
        ("{\"prompt\": \"x\", \"id\": \"one\"}", "the id `\"one\"` is that of line 1 already"),
        ("{\"prompt\": \"x\", \"n\": 0}", "`n` is a whole number from 1, and not `0`"),
        ("{\"prompt\": \"x\", \"n\": \"2\"}", "`n` is a whole number from 1, and not `\"2\"`"),
        ("{\"prompt\": \"x\", \"topk\": 4}", "no key is called `topk`; did you mean `top_k`?"),
        ("{\"prompt\": \"x\", \"promt\": 4}", "no key is called `promt`; did you mean `prompt`?"),
        (
            "{\"prompt\": \"x\", \"zzzzzz\": 4}",
            "no key is called `zzzzzz`; see `logitchain batch --help`",
        ),
        (
            "{\"prompt\": \"x\", \"top_k=4\": 4}",
            "no key is called `top_k=4`; did you mean `top_k`?",
        ),
        ("{\"prompt\": \"x\", \"top_k\": [4]}", "`top_k` is a text or a number, and not a list"),
        ("{\"prompt\": \"x\", \"top_k\": null}", "`top_k` is a text or a number, and not null"),
        ("{\"prompt\": \"x\", \"stop\": [[]]}", "`stop` is a text or a number, and not a list"),
        (
            "{\"prompt\": \"x\", \"stop\": \"\"}",
            "a stop string is empty; it needs at least one character",
        ),
        ("{\"prompt\": \"x\", \"greedy\": 1}", "`greedy` is true or false, and not `1`"),
        (
            "{\"prompt\": \"x\", \"predict\": 1.5}",
            "--predict 1.5: write a whole number, or -1 for no limit",
        ),
        ("{\"prompt\": \"x\", \"rng\": \"mt\"}", "--rng mt: there are xoshiro256++ and mt19937"),
        ("{\"prompt\": \"x\", \"rng\": \"mt19937\", \"seed\": 4294967296}", ""),
        ("{\"prompt\": \"x\", \"samplers\": \"temprature\"}", ""),
        ("{\"prompt\": \"x\", \"min_p\": 2}", ""),
        (
            "{\"prompt\": \"x\", \"samplers\": \"dist\", \"top_k\": 2}",
            "--top-k belongs to `top_k`, which is not in the chain `dist`",
        ),
        (
            "{\"prompt\": \"x\", \"samplers\": \"dist\", \"greedy\": true}",
            "`--greedy` would replace `dist`; leave one out",
        ),
        ("{\"prompt\": \"x\", \"chain\": \"no/such.toml\"}", ""),
        (
            "{\"prompt\": \"x\", \"model\": \"a.gguf\"}",
            "`model` is not to be had for one line: give --model to `batch`, for all of them",
        ),
        (
            "{\"prompt\": \"x\", \"threads\": 2}",
            "`threads` is not to be had for one line: give --threads to `batch`, for all of them",
        ),
        (
            "{\"prompt\": \"x\", \"cache_type\": \"f32\"}",
            "`cache_type` is not to be had for one line: give --cache-type to `batch`, for all of them",
        ),
        (
            "{\"prompt\": \"x\", \"timing\": true}",
            "`timing` is a flag of `run` that has no meaning in a line",
        ),
        (
            "{\"prompt\": \"x\", \"echo\": true}",
            "`echo` is a flag of `run` that has no meaning in a line",
        ),
        (
            "{\"prompt\": \"x\", \"file\": \"a\"}",
            "`file` is a flag of `run` that has no meaning in a line",
        ),
        (
            "{\"prompt\": \"x\", \"n_samples\": 2}",
            "`n_samples` is a flag of `run`; in a line it is `n`",
        ),
        (
            "{\"prompt\": \"x\", \"ctx_size\": 2}",
            "`ctx_size` is a flag of llama.cpp that logitchain does not have: the context is as long as the model's; -n limits the text",
        ),
        ("{\"prompt\": \"x\", \"logit_bias\": \"5000-inf\"}", ""),
    ] {
        let file = file("wrong.jsonl", format!("{{\"id\":\"one\",\"prompt\":\"x\"}}\n\n{line}\n"));
        // A model is not even looked for, but to know its tokens.
        let model = if line.contains("5000") { &[][..] } else { &["-m", "no/such.gguf"] };
        let message = refused(&[&["batch", &file], model].concat());
        let start = format!("{file}: line 3: ");
        let found = message.strip_prefix(&start);
        let found = found.unwrap_or_else(|| panic!("{message} has not {start}"));
        if problem.is_empty() {
            // What `run` says of the same.
            let fields: Value = serde_json::from_str(line).expect("JSON");
            let mut args = vec!["run".to_owned()];
            for (key, value) in fields.as_object().expect("an object") {
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                args.push(format!("--{}={value}", key.replace('_', "-")));
            }
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            assert_eq!(found, refused(&args), "{line}");
        } else {
            assert_eq!(found, problem, "{line}");
        }
    }
}

#[test]
fn what_is_wrong_with_batch_itself_names_no_line() {
    let file = requests("sound.jsonl", &[json!({"prompt": "x"})]);
    for (args, message) in [
        (&["batch", &file, "--parallel", "0"][..], "--parallel 0: write a whole number from 1"),
        (&["batch", &file, "--memory", "x"], "--memory x: write a whole number from 1"),
        (
            &["batch", &file, "--min-p", "2"],
            "--min-p 2: stage 7, `min_p`: `p` must be between 0 and 1, got 2",
        ),
        (
            &["batch", &file, "--n-samples", "2"],
            "no flag is called `--n-samples`; did you mean `--samplers`?",
        ),
        (&["batch"], "<FILE.jsonl> is missing; see --help"),
    ] {
        assert_eq!(refused(args), message);
    }
    assert!(refused(&["batch", "no/such"]).starts_with("cannot read 'no/such': "));
    let empty = self::file("empty.jsonl", "\n \n");
    let message = format!("{empty} holds no requests; one is a line of JSON");
    assert_eq!(refused(&["batch", &empty]), message);
    let latin = self::file("latin.jsonl", b"{\"prompt\": \"x\"}\n{\"prompt\": \"\xF6\"}");
    let message = format!("cannot read '{latin}': byte 28, in line 2, is not UTF-8");
    assert_eq!(refused(&["batch", &latin]), message);
}

/// The context of the model in the program has 256 tokens.
#[test]
fn a_request_that_fails_has_its_error_in_its_place_and_leaves_the_others_alone() {
    let bans: Vec<String> = (0..2048).map(|token| format!("{token}-inf")).collect();
    let lines = [
        json!({"id": "a", "prompt": "Thou", "predict": 3}),
        json!({"id": "long", "prompt": "word ".repeat(300), "n": 2}),
        json!({"id": "none", "prompt": "Thou", "logit_bias": bans}),
        json!({"id": "b", "prompt": "Thou", "predict": 3}),
    ];
    let file = requests("failing.jsonl", &lines);
    let out = path("failing.out");
    let _ = fs::remove_file(&out);
    let args = ["batch", &file, "--out", out.to_str().expect("UTF-8")];
    for _ in 0..2 {
        let output = program(&args);
        assert_eq!(output.code, Some(1), "{output:?}");
        let told = told(&output, "error: ");
        assert_eq!(told, ["3 of 5 texts failed; their results say why"]);
        let found = results(&fs::read_to_string(&out).expect("results"));
        let errors = [1, 2, 3].map(|nth| found[nth]["error"].as_str().expect("an error"));
        assert!(errors[0].contains("of the model's 256 positions are left"), "{}", errors[0]);
        assert_eq!((errors[0], &found[2]["sample"]), (errors[1], &json!(1)));
        assert!(errors[2].starts_with("cannot pick token 1 of the text: no candidates"));
        let keys: Vec<&String> = found[3].as_object().expect("an object").keys().collect();
        assert_eq!(keys.len(), 4, "id, request, seed and error: {keys:?}");
        assert_eq!(found[0]["text"], found[4]["text"]);
        assert_eq!(found.len(), 5);
    }
}

// Results in a file.

#[test]
fn an_error_is_a_result_and_is_not_computed_again() {
    let line = json!({"id": "long", "prompt": "word ".repeat(300)});
    let fits = json!({"prompt": "Thou", "predict": 2});
    let input = requests("kept.jsonl", &[line, fits]);
    let out = file("kept.out", "");
    let args = ["batch", &input, "--out", &out];
    assert_eq!(program(&args).code, Some(1));
    let whole = fs::read_to_string(&out).expect("results");
    let again = program(&args);
    assert_eq!(again.code, Some(1));
    assert!(!again.stderr.contains("sampler chain"), "{again:?}");
    assert!(again.stderr.contains("2 of 2 results are in"), "{again:?}");
    assert_eq!(fs::read_to_string(&out).expect("results"), whole);
}

/// The model in the program, with a context of 4,096 tokens: its own takes less than a
/// million bytes for any text.
fn patient_model() -> String {
    let mut model = EMBEDDED_GGUF.to_vec();
    let key = b"llama.context_length";
    let at = model.windows(key.len()).position(|part| part == key).expect("the key");
    // Behind the key stand its type, in four bytes, and the number.
    model[at + key.len() + 4..][..4].copy_from_slice(&4096_u32.to_le_bytes());
    file("patient.gguf", model)
}

#[test]
fn what_more_memory_would_change_is_no_result() {
    let model = patient_model();
    let lines = [
        json!({"prompt": "Thou", "predict": 1}),
        json!({"prompt": "Thou", "predict": 4000, "stop": "e"}),
    ];
    let input = requests("room.jsonl", &lines);
    let out = file("room.out", "");
    let args = ["batch", &input, "-m", &model, "--out", &out, "--memory"];
    let message = program(&[&args[..], &["1"]].concat()).error_after_notes(2);
    let start = format!("{input}: line 2: a text of this length needs ");
    assert!(message.starts_with(&start) && message.ends_with("or allow more memory"), "{message}");
    assert_eq!(fs::read_to_string(&out).expect("results"), "");
    fine(&[&args[..], &["10"]].concat());
    assert_eq!(results(&fs::read_to_string(&out).expect("results")).len(), 2);
}

/// Requests whose results are short.
fn short(name: &str) -> String {
    requests(
        name,
        &[
            json!({"id": "ä", "prompt": "Thou", "predict": 1}),
            json!({"id": 2, "prompt": "In", "predict": 1, "n": 2}),
        ],
    )
}

#[test]
fn a_file_of_results_that_was_cut_off_anywhere_is_completed() {
    let request = json!({"id": "ä", "prompt": "Thou", "predict": 1, "n": 2});
    let input = requests("cut.jsonl", &[request]);
    let out = path("cut.out");
    let out_arg = out.to_str().expect("UTF-8").to_owned();
    let whole = fine(&["batch", &input]).into_bytes();
    for cut in 0..=whole.len() {
        fs::write(&out, &whole[..cut]).expect("a file");
        let output = program(&["batch", &input, "--out", &out_arg]);
        assert_eq!(output.code, Some(0), "{cut}: {output:?}");
        assert_eq!(fs::read(&out).expect("results"), whole, "{cut}");
        // What is there is not computed again.
        let done = whole[..cut].iter().filter(|byte| **byte == b'\n').count();
        let told = output.stderr.contains(&format!("{done} of 2 results are in"));
        assert_eq!(told, done > 0, "{cut}: {output:?}");
        assert_eq!(output.stderr.contains("sampler chain"), done < 2, "{cut}");
    }
}

/// Its reader comes late, as a shell's may.
#[test]
fn results_go_through_a_pipe_and_none_is_lost() {
    let input = short("piped.jsonl");
    let whole = fine(&["batch", &input]);
    let out = pipe("results.pipe");
    let child = command(&["batch", &input, "--out", &out]).stdin(Stdio::null()).spawn();
    std::thread::sleep(Duration::from_millis(500));
    let mut child = child.expect("the program starts");
    assert!(child.try_wait().expect("a process").is_none(), "it waits for a reader");
    assert_eq!(fs::read_to_string(&out).expect("results"), whole);
    assert!(child.wait().expect("a process").success());
}

#[test]
fn a_file_that_holds_something_else_is_refused_and_left_alone() {
    let input = short("other.jsonl");
    let whole = fine(&["batch", &input]);
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    let more = whole.clone() + lines[0];
    let half = whole.clone() + "{";
    let swapped = [lines[0], lines[2], lines[1]].concat();
    let seeded = whole.replacen("\"seed\":42", "\"seed\":43", 1);
    let broken = whole.replacen("\"text\"", "text", 1);
    for (other, problem) in [
        (
            "to do: buy milk",
            "line 1 is not the result of line 1 as it is now (id \"ä\", seed 42); give another file",
        ),
        ("to do: buy milk\n", "line 1 is not the result of line 1"),
        ("\n", "line 1 is not the result of line 1"),
        (lines[1], "line 1 is not the result of line 1"),
        (&swapped, "line 2 is not the result of line 2 as it is now (id 2, sample 0, seed 42)"),
        (&seeded, "line 1 is not the result of line 1"),
        (&broken, "line 1 is not the result of line 1"),
        (&more, "line 4 is one more than there are results"),
        (&half, "line 4 is one more than there are results"),
    ] {
        let out = file("other.out", other);
        let message = refused(&["batch", &input, "--out", &out]);
        let start = format!("'{out}' cannot go on with these requests: {problem}");
        assert!(message.starts_with(&start), "{message}");
        assert_eq!(fs::read_to_string(&out).expect("a file"), other);
    }
    // Its own input is one of these.
    let before = fs::read(&input).expect("requests");
    assert!(refused(&["batch", &input, "--out", &input]).contains("cannot go on"));
    assert_eq!(fs::read(&input).expect("requests"), before);

    let out = file("locked.out", "");
    let held = fs::File::open(&out).expect("a file");
    held.lock().expect("a lock");
    assert!(refused(&["batch", &input, "--out", &out]).ends_with("another program is writing it"));
}

/// Results are of the requests that stand there now, the chain and the model included.
#[test]
fn results_of_a_request_that_has_changed_are_not_taken_for_its_own() {
    let before = json!({"prompt": "The king", "predict": 4});
    let out = file("changed.out", "");
    let _ = fine(&["batch", &requests("changed.jsonl", &[before]), "--out", &out]);
    let kept = fs::read_to_string(&out).expect("results");
    for (line, flag) in [
        (json!({"prompt": "A dog", "predict": 4}), None),
        (json!({"prompt": "The king", "predict": 5}), None),
        (json!({"prompt": "The king", "predict": 4, "stop": "x"}), None),
        (json!({"prompt": "The king", "predict": 4}), Some("--temp=2")),
        (json!({"prompt": "The king", "predict": 4}), Some("--model=/nonexistent.gguf")),
        (json!({"prompt": "The king", "predict": 4}), Some("--cache-type=f32")),
    ] {
        let input = requests("changed.jsonl", &[line]);
        let args = ["batch", &input, "--out", &out].into_iter().chain(flag).collect::<Vec<_>>();
        let message = refused(&args);
        assert!(message.contains("line 1 is not the result of line 1 as it is now"), "{message}");
        assert_eq!(fs::read_to_string(&out).expect("results"), kept);
    }
    // Its own it still is.
    let same = json!({"predict": 4, "prompt": "The king"});
    let _ = fine(&["batch", &requests("changed.jsonl", &[same]), "--out", &out]);
    assert_eq!(fs::read_to_string(&out).expect("results"), kept);
}

#[test]
fn random_seeds_are_told_and_their_results_are_kept() {
    let input = requests(
        "random.jsonl",
        &[
            json!({"prompt": "Thou", "seed": "random", "predict": 5}),
            json!({"prompt": "Thou", "seed": -1, "predict": 5}),
        ],
    );
    let whole = fine(&["batch", &input]);
    for result in results(&whole) {
        let seed = result["seed"].to_string();
        let alone = fine(&["run", "Thou", "-n", "5", "--seed", &seed]);
        assert_eq!(printed(result["text"].as_str().expect("a text")), alone);
    }
    let first = whole.split_inclusive('\n').next().expect("a line");
    let out = file("random.out", first);
    fine(&["batch", &input, "--out", &out]);
    let found = fs::read_to_string(&out).expect("results");
    assert!(found.starts_with(first) && found.lines().count() == 2, "{found}");
}

/// Killed again and again, at other moments every time.
#[test]
fn nothing_is_lost_or_done_twice_when_the_program_is_killed() {
    let lines: Vec<Value> = (0..30)
        .map(|nth| json!({"prompt": "And it came to pass", "seed": nth, "predict": 5 + 37 * nth % 40}))
        .collect();
    let input = requests("killed.jsonl", &lines);
    let whole = fine(&["batch", &input]);
    let out = path("killed.out");
    let _ = fs::remove_file(&out);
    let length = || fs::metadata(&out).map_or(0, |file| file.len());
    let mut killed = 0;
    while length() < whole.len() as u64 && killed < 5 {
        let before = length();
        let mut child = Command::new(env!("CARGO_BIN_EXE_logitchain"))
            .args(["batch", &input, "--parallel", "4", "--out"])
            .arg(&out)
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let start = Instant::now();
        while length() == before && start.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(1));
        }
        child.kill().expect("a process");
        child.wait().expect("a process");
        let found = fs::read_to_string(&out).expect("results");
        assert!(whole.starts_with(&found), "{found}");
        assert!(length() > before);
        killed += 1;
    }
    assert!(killed > 1);
    fine(&["batch", &input, "--out", out.to_str().expect("UTF-8")]);
    assert_eq!(fs::read_to_string(&out).expect("results"), whole);
}
