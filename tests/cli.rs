//! The program as its users meet it: the real binary, on the embedded model.

use std::{
    fs,
    io::Read as _,
    path::{Path, PathBuf},
    process::Stdio,
};

use logitchain::{Registry, engine::EMBEDDED_GGUF};

mod program;
use program::{Outcome, command, file, outcome, pipe, program, with_stdin};

/// `run` on a fixed prompt, for a few tokens.
fn run(args: &[&str]) -> Outcome {
    program(&[&["run", "Once upon a time", "-n", "12"], args].concat())
}

// The main job.

#[test]
fn run_tells_the_seed_the_chain_and_why_it_stopped_and_repeats_itself() {
    let first = run(&["--samplers", "top_k;temperature"]);
    assert_eq!(first.told("seed: "), "42");
    assert_eq!(first.told("sampler chain: "), "logits -> top-k -> temp-ext -> dist");
    assert_eq!(first.told("stopped: "), "token limit (12)");
    let again = run(&["--samplers", "top_k;temperature", "-t", "2"]);
    assert_eq!(first.stderr, again.stderr);
    let text = first.text();
    assert!(text.trim().len() > 12 && text.ends_with('\n'), "{text:?}");
    assert_eq!(text, again.text());
}

#[test]
fn without_a_choice_the_chain_is_llama_cpps() {
    assert_eq!(
        run(&[]).told("sampler chain: "),
        "logits -> ?penalties -> ?dry -> ?top-n-sigma -> top-k -> ?typical -> top-p -> min-p -> \
         ?xtc -> temp-ext -> dist"
    );
}

#[test]
fn letters_and_names_choose_the_same_chain() {
    let names = run(&["--samplers", "top-k, TOP_P ,temp"]).text();
    assert_eq!(run(&["--sampling-seq", "kpt"]).text(), names);
    assert_eq!(run(&["--sampler-seq", "kpt"]).text(), names);
}

#[test]
fn a_random_seed_is_told_and_can_be_given_again() {
    for random in ["random", "-1"] {
        let first = run(&["--seed", random]);
        let seed = first.told("seed: ").to_owned();
        assert_ne!(seed, random);
        assert_eq!(run(&["-s", &seed]).text(), first.text());
    }
    let seeds = [run(&["--seed", "1"]).text(), run(&["--seed", "2"]).text()];
    assert_ne!(seeds[0], seeds[1]);
}

#[test]
fn the_generator_is_part_of_the_choice() {
    let own = run(&["--rng", "xoshiro256++"]).text();
    assert_eq!(run(&[]).text(), own);
    assert_ne!(run(&["--rng", "mt19937"]).text(), own);
}

// Prompts.

#[test]
fn the_prompt_comes_from_an_argument_a_flag_a_file_or_stdin() {
    let text = run(&[]).text();
    let prompt = file("prompt.txt", "Once upon a time\n");
    assert_eq!(program(&["run", "-n", "12", "-p", "Once upon a time"]).text(), text);
    assert_eq!(program(&["run", "-n", "12", "-f", &prompt]).text(), text);
    assert_eq!(program(&["run", "-n", "12", "--file", &prompt]).text(), text);
    assert_eq!(with_stdin(&["run", "-n", "12"], b"Once upon a time").text(), text);
    assert_eq!(with_stdin(&["run", "-n", "12"], b"Once upon a time\r\n").text(), text);
}

#[test]
fn two_prompts_are_an_error() {
    for other in [["-p", "y"], ["-f", "y"]] {
        let outcome = program(&["run", "x", other[0], other[1]]);
        assert!(outcome.error(2).contains("cannot be used with"));
    }
}

#[test]
fn prompts_that_cannot_be_read_are_errors() {
    let missing = program(&["run", "-f", "no/such.txt"]).error(2);
    assert!(missing.starts_with("cannot read 'no/such.txt': "), "{missing}");
    let folder = program(&["run", "-f", "tests"]).error(2);
    assert_eq!(folder, "cannot read 'tests': it is a folder");
}

#[test]
fn what_is_no_text_is_refused_with_its_byte_and_line() {
    let latin = b"top_k = 1\n# f\xFCnf\n";
    let path = file("latin.txt", latin);
    let place = "byte 13, in line 2, is not UTF-8";
    for args in [["run", "-f"], ["run", "--chain"], ["check", "--"]] {
        let message = program(&[args[0], args[1], &path]).error(2);
        assert_eq!(message, format!("cannot read '{path}': {place}"));
    }
    assert_eq!(with_stdin(&["run"], latin).error(2), format!("cannot read stdin: {place}"));
    let model = chat_model("latin.gguf");
    let chat = ["chat", "-n", "1", "-m", model.to_str().expect("UTF-8")];
    let chat = with_stdin(&chat, latin);
    assert_eq!(chat.code, Some(2));
    assert_eq!(chat.told("error: "), format!("cannot read stdin: {place}"));
}

#[cfg(unix)]
#[test]
fn a_text_without_end_is_refused() {
    let zero = "/dev/zero";
    for args in [["run", "--chain", zero], ["check", "--", zero]] {
        assert_eq!(
            program(&args).error(2),
            "cannot read '/dev/zero': it is longer than 1 MB, the most that a chain file may have"
        );
    }
    let prompt = "it is longer than 64 MB, the most that a prompt may have";
    let message = program(&["run", "-f", zero]).error(2);
    assert_eq!(message, format!("cannot read '{zero}': {prompt}"));
    let endless = || Stdio::from(fs::File::open(zero).expect("a device"));
    let run = outcome(command(&["run"]).stdin(endless()).spawn());
    assert_eq!(run.error(2), format!("cannot read stdin: {prompt}"));
    let model = chat_model("endless.gguf");
    let mut chat = command(&["chat", "-m", model.to_str().expect("UTF-8")]);
    let chat = outcome(chat.stdin(endless()).spawn());
    assert_eq!(chat.told("error: "), format!("cannot read stdin: {prompt}"));
}

#[cfg(unix)]
#[test]
fn a_pipe_with_a_name_is_a_file_like_others() {
    let text = run(&[]).text();
    let args = ["run", "-n", "12", "-f", "/dev/stdin"];
    assert_eq!(with_stdin(&args, b"Once upon a time").text(), text);
    let chain = ["run", "Once upon a time", "-n", "12", "--chain", "/dev/stdin"];
    assert_eq!(
        with_stdin(&chain, b"samplers = 'top_k'").text(),
        run(&["--samplers", "top_k"]).text()
    );
}

#[test]
fn a_prompt_beyond_the_context_is_refused() {
    let outcome = program(&["run", &"word ".repeat(300)]);
    assert_eq!(outcome.code, Some(1));
    assert!(outcome.told("error: ").contains("do not fit"), "{outcome:#?}");
}

#[test]
fn an_empty_prompt_is_the_beginning_of_a_text() {
    assert!(!program(&["run", "", "-n", "4"]).text().is_empty());
}

#[test]
fn echo_prints_the_prompt_first() {
    let text = run(&[]).text();
    assert_eq!(run(&["--echo"]).text(), format!("Once upon a time{text}"));
}

#[test]
fn escapes_are_read_in_prompts_only_when_asked_for() {
    let breaks = program(&["run", "a\nb", "-n", "1", "--echo"]).text();
    assert_eq!(program(&["run", r"a\nb", "-n", "1", "--echo", "-e"]).text(), breaks);
    let plain = program(&["run", r"a\nb", "-n", "1", "--echo"]).text();
    assert!(plain.starts_with(r"a\nb"), "{plain:?}");
}

#[test]
fn special_tokens_in_a_prompt_are_plain_text_unless_asked_for() {
    let ends = |args: &[&str]| program(&[&["run", "The end.</s>", "--greedy"], args].concat());
    assert_ne!(ends(&[]).text(), ends(&["--special"]).text());
}

// Stopping.

#[test]
fn a_stop_string_ends_the_text_before_it() {
    let text = run(&[]).text();
    let word = text.split_whitespace().nth(2).expect("some words");
    let stopped = run(&["--stop", "no such text", "--stop", word]);
    assert_eq!(stopped.told("stopped: "), format!("stop string {word:?}"));
    let before = text.split(word).next().expect("a beginning");
    assert_eq!(stopped.text().trim_end(), before.trim_end());
}

#[test]
fn stop_strings_can_be_line_breaks_and_not_empty() {
    let broken = program(&["run", "Once upon a time", "--stop", r"\n"]);
    assert_eq!(broken.told("stopped: "), r#"stop string "\n""#);
    assert_eq!(broken.text().matches('\n').count(), 1);
    let message = "a stop string is empty; it needs at least one character";
    assert_eq!(run(&["--stop", ""]).error(2), message);
    assert_eq!(run(&["--stop", "x", "--stop", ""]).error(2), message);
}

#[test]
fn without_a_limit_the_context_is_the_limit() {
    let outcome = program(&["run", "Once", "-n", "-1", "--ignore-eos", "--samplers", "top_k"]);
    assert_eq!(outcome.told("sampler chain: "), "logits -> logit-bias -> top-k -> dist");
    assert_eq!(outcome.told("stopped: "), "the model's context is full");
    assert_eq!(program(&["run", "Once", "-n", "0"]).text(), "");
    for wrong in ["-2", "-0", "1.5", "many"] {
        assert_eq!(
            program(&["run", "Once", "-n", wrong]).error(2),
            format!("--predict {wrong}: write a whole number, or -1 for no limit")
        );
    }
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let mut child = command(&["run", "Once", "-n", "200", "--ignore-eos"])
        .stdin(Stdio::null())
        .spawn()
        .expect("the program starts");
    let mut stdout = child.stdout.take().expect("a pipe");
    stdout.read_exact(&mut [0]).expect("a byte");
    drop(stdout);
    let output = child.wait_with_output().expect("the program ends");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(!stderr.contains("error") && !stderr.contains("panic"), "{stderr}");
}

#[cfg(unix)]
#[test]
fn without_a_place_for_reports_the_text_and_the_code_stay_as_they_are() {
    let full = || Stdio::from(fs::File::create("/dev/full").expect("a device"));
    let gone = || {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        Stdio::from(writer)
    };
    let args = ["run", "Once upon a time", "-n", "12", "--timing"];
    let late = [&args[..], &["--samplers", "top_k;penalties{repeat=1.1}"]].concat();
    for args in [&args[..], &late] {
        let text = program(args).text();
        for stderr in [full(), gone()] {
            let mut command = command(args);
            let got = outcome(command.stdin(Stdio::null()).stderr(stderr).spawn());
            assert_eq!(got.text(), text);
        }
    }
    for (args, code) in [
        (&["run", "x", "--top-k", "y"][..], 2),
        (&["check", "no/such.toml", "nor/this.toml"], 2),
        (&["run", "x", "-m", "no/such.gguf"], 2),
        (&["run", "--topk"], 2),
        (&[], 2),
    ] {
        let mut command = command(args);
        let got = outcome(command.stdin(Stdio::null()).stderr(full()).spawn());
        assert_eq!(got.code, Some(code), "{args:?}");
    }
}

#[cfg(unix)]
#[test]
fn output_that_cannot_be_written_is_a_failure() {
    for args in [&["--help"][..], &["--version"], &["list"], &["run", "x", "-n", "2", "--echo"]] {
        let full = fs::File::create("/dev/full").expect("a device");
        let got = outcome(command(args).stdin(Stdio::null()).stdout(full).spawn());
        assert_eq!(got.code, Some(1), "{got:#?}");
        assert!(got.told("error: ").starts_with("cannot write the output: "));
    }
}

#[test]
fn timing_shows_speed_and_shares() {
    let outcome = run(&["--timing"]);
    for line in ["prompt", "generated", "forward pass", "sampling", "decoding", "model load"] {
        assert!(outcome.told(line).contains(char::is_numeric));
    }
    assert!(outcome.told("generated").contains("12 tokens"));
}

// Flags of stages.

#[test]
fn llama_cpps_sampling_flags_are_there() {
    let default: &[[&str; 2]] = &[
        ["--temp", "0.7"],
        ["--temperature", "0.7"],
        ["--dynatemp-range", "0.1"],
        ["--dynatemp-exp", "1.1"],
        ["--top-k", "20"],
        ["--top-k", "-1"],
        ["--top-p", "0.9"],
        ["--min-p", "0.1"],
        ["--typical", "0.9"],
        ["--typical-p", "0.9"],
        ["--top-nsigma", "1.5"],
        ["--top-n-sigma", "-1"],
        ["--xtc-probability", "0.5"],
        ["--xtc-threshold", "0.2"],
        ["--repeat-last-n", "32"],
        ["--repeat-penalty", "1.1"],
        ["--presence-penalty", "0.1"],
        ["--frequency-penalty", "-0.1"],
        ["--dry-multiplier", "0.8"],
        ["--dry-base", "1.8"],
        ["--dry-allowed-length", "3"],
        ["--dry-penalty-last-n", "32"],
        ["--dry-sequence-breaker", r"\n"],
        ["--dry-sequence-breaker", "none"],
        ["--logit-bias", "5+1.5"],
        ["-l", "5-inf"],
    ];
    for flag in default {
        program(&["run", "x", "-n", "1", flag[0], flag[1]]).text();
    }
    let others: &[(&str, &[&str])] = &[
        ("logits -> adaptive-p", &["--samplers", "adaptive_p", "--adaptive-target", "0.4"]),
        ("logits -> adaptive-p", &["--samplers", "adaptive_p", "--adaptive-decay", "0.5"]),
        ("logits -> temp-ext -> mirostat", &["--mirostat", "1", "--mirostat-lr", "0.2"]),
        ("logits -> temp-ext -> mirostat-v2", &["--mirostat", "2", "--mirostat-ent", "4"]),
        ("logits -> top-k -> dist", &["--mirostat", "0", "--samplers", "top_k"]),
        (
            "logits -> logit-bias -> temp-ext -> mirostat-v2",
            &["--mirostat", "2", "--logit-bias", "5-1"],
        ),
    ];
    for (chain, flags) in others {
        let outcome = program(&[&["run", "x", "-n", "1"], *flags].concat());
        assert_eq!(outcome.told("sampler chain: "), *chain);
        outcome.text();
    }
}

#[test]
fn a_flag_is_the_same_as_a_parameter_in_braces() {
    for (list, flags, braces) in [
        ("top_k", &["--top-k", "3"][..], "top_k{k=3}"),
        ("temperature", &["--temp", "1.7"], "temperature{t=1.7}"),
        ("penalties", &["--repeat-penalty", "1.5"], "penalties{repeat=1.5}"),
        ("top_k;temp;top_k", &["--top-k", "2"], "top_k{k=2};temp;top_k{k=2}"),
        ("logit_bias", &["-l", "265+9", "-l", "270+9"], "logit_bias{bias=['265+9','270+9']}"),
    ] {
        let flagged = run(&[&["--samplers", list], flags].concat()).text();
        assert_eq!(flagged, run(&["--samplers", braces]).text());
        assert_ne!(flagged, run(&["--samplers", list]).text());
    }
}

#[test]
fn the_best_token_is_chosen_by_greedy_and_at_temperature_0() {
    let greedy = run(&["--greedy"]);
    assert!(greedy.told("sampler chain: ").ends_with("temp-ext -> greedy"));
    let greedy = greedy.text();
    for same in [
        &["--greedy", "--seed", "7"][..],
        &["--temp", "0", "--seed", "7"],
        &["--temp", "-0.5"],
        &["--temp", "1e-40"],
        &["--samplers", "", "--greedy"],
        &["--samplers", "top_k;greedy", "--greedy"],
        &["--top-k", "1"],
    ] {
        assert_eq!(run(same).text(), greedy, "{same:?}");
    }
}

#[test]
fn what_is_wrong_in_a_chain_is_told_before_the_model_is_loaded() {
    let default = "penalties;dry;top_n_sigma;top_k;typical;top_p;min_p;xtc;temperature;dist";
    for (args, message) in [
        (
            &["--samplers", "top_k", "--dry-multiplier", "0.8"][..],
            "--dry-multiplier belongs to `dry`, which is not in the chain `top_k;dist`".to_owned(),
        ),
        (
            &["--mirostat-lr", "0.2"],
            format!(
                "--mirostat-lr belongs to `mirostat` and `mirostat_v2`, which are not in the \
                 chain `{default}`"
            ),
        ),
        (
            &["--mirostat", "1", "--top-k", "5"],
            "--top-k belongs to `top_k`, which is not in the chain `temperature;mirostat`"
                .to_owned(),
        ),
        (
            &["--samplers", "top_k{k=5}", "--top-k", "4"],
            "`--top-k 4` and `top_k{k=5}` both set `k` of stage 1; leave one out".to_owned(),
        ),
        (
            &["--samplers", "adaptive_p{target=0.3}", "--greedy"],
            "`--greedy` would replace `adaptive_p{target=0.3}`; leave one out".to_owned(),
        ),
        (
            &["--samplers", "mirostat", "--greedy"],
            "`--greedy` would replace `mirostat`; leave one out".to_owned(),
        ),
        (
            &["--samplers", "top_k;dist", "--greedy"],
            "`--greedy` would replace `dist`; leave one out".to_owned(),
        ),
        (
            &["--mirostat", "2", "--samplers", "top_k"],
            "`--mirostat 2` and `--samplers` both say what the chain is; leave one out".to_owned(),
        ),
        (
            &["--samplers", "top_k;;temperature"],
            "--samplers: stage 2 of `top_k;;temperature` is empty; write a stage's name between the separators"
                .to_owned(),
        ),
        (
            &["--samplers", "top_k{kk=5}"],
            "--samplers: stage 1, `top_k`: no parameter is called `kk`; did you mean `k`? (it has k)"
                .to_owned(),
        ),
        (
            &["--min-p", "1.5"],
            "--min-p 1.5: stage 7, `min_p`: `p` must be between 0 and 1, got 1.5".to_owned(),
        ),
        (
            &["--samplers", "", "--rng", "mt19937", "--seed", "4294967296"],
            "seed 4294967296 is too large for mt19937, whose seeds end at 4294967295".to_owned(),
        ),
    ] {
        // A model that is not there would be told of first, if it came first.
        let message_got = run(&[args, &["-m", "no/such.gguf"]].concat()).error(2);
        assert_eq!(message_got, message);
    }
    for (args, part) in [
        (&["--samplers", "min_p{p=2}", "-l", "5-inf"][..], "--samplers: stage 1, `min_p`: `p`"),
        (&["--samplers", "top_k;temprature"], "`temprature`; did you mean `temperature`?"),
        (&["--samplers", "temprature", "--temp", "1"], "did you mean `temperature`?"),
        (&["--samplers", "dist;top_k"], "stage 1: `dist` selects a token"),
        (&["--sampling-seq", "kq"], "--sampling-seq: stage 2: no stage has the letter `q`"),
        (
            &["--top-k", "0.1"],
            "--top-k 0.1: stage 4, `top_k`: `k` must be a whole number, got `0.1`",
        ),
        (&["--top-k", "1e3"], "`k` must be a whole number"),
        (&["--top-k", "many"], r#"`k` must be a whole number, got `"many"`"#),
        (&["--temp", "nan"], "`t` must be a finite number"),
        (&["--temp", "inf"], "`t` must be a finite number"),
        (&["--repeat-penalty", "0"], "`repeat` must be"),
        (&["--repeat-last-n", "-1"], "`last_n` must be a number of tokens"),
        (&["-l", "15043"], "`15043` is not a bias"),
        (&["-l", "x-1"], "`x-1` is not a bias"),
        (&["-l", "15043--1"], "`15043--1` is not a bias"),
        (&["--chain", "no/such.toml"], "cannot read 'no/such.toml': "),
    ] {
        let message = run(&[args, &["-m", "no/such.gguf"]].concat()).error(2);
        assert!(message.contains(part), "{message:?} should contain {part:?}");
    }
}

#[test]
fn a_stage_that_a_flag_puts_in_front_moves_no_number_in_messages() {
    let list = &["--samplers", "top_k;temperature{t=1}"];
    for (flags, start) in [
        (&["-l", "5+1", "--top-k", "x"][..], "--top-k x: stage 1, `top_k`: "),
        (
            &["-l", "5+1", "--temp", "2"],
            "`--temp 2` and `temperature{t=1}` both set `t` of stage 2;",
        ),
        (&["-l", "x+1"], "--logit-bias x+1: `"),
        (
            &["-l", "5+1", "--min-p", "0"],
            "--min-p belongs to `min_p`, which is not in the chain `top_k;",
        ),
    ] {
        let message = run(&[list, flags].concat()).error(2);
        assert!(message.starts_with(start), "{message:?} should begin with {start:?}");
    }
    let chain = file("front.toml", "samplers = 'top_k;temp'");
    let message = run(&["--chain", &chain, "-l", "5+1", "--temp", "nan"]).error(2);
    assert!(message.contains("stage 2, `temperature`"), "{message}");
    let message = run(&["--samplers", "top_k", "-l", "5000-inf"]).error(2);
    assert!(message.starts_with("--logit-bias 5000-inf: `bias`"), "{message}");
}

#[test]
fn messages_repeat_only_the_beginning_of_a_long_text() {
    let long = "x".repeat(100_000);
    for args in [
        &["--samplers", &long][..],
        &["--samplers", &format!("top_k{{{long}}}")],
        &["--samplers", &format!("top_k;;{long}")],
        &["--top-k", &long],
        &["--seed", &long],
        &["--chain", &long],
        &["-l", &long],
        &[&format!("--{long}")],
        &[&long],
    ] {
        let message = run(args).error(2);
        assert!(message.len() < 1500, "{} bytes: {message}", message.len());
        assert!(message.contains('…'), "{message}");
    }
}

#[test]
fn flags_of_llama_cpp_that_are_missing_are_told_so_in_any_place_and_form() {
    for flags in [
        &["-ngl", "99"][..],
        &["-no-cnv"],
        &["-cnv"],
        &["-c", "4096"],
        &["--ctx-size", "4096"],
        &["--ctx-size=4096"],
        &["-b", "512"],
        &["-r", "User:"],
        &["-i"],
        &["--color"],
        &["--color=on"],
        &["--keep", "-1"],
        &["--no-display-prompt"],
        &["--grammar", "root ::= x"],
        &["--jinja"],
        &["-fa"],
        &["-fa", "on"],
        &["--no-warmup"],
        &["-hf", "someone/model"],
        &["--mlock"],
        &["-sys", "Speak."],
        &["-tb", "4"],
    ] {
        let name = flags[0].split('=').next().expect("a name");
        let start = format!("{name} is a flag of llama.cpp that logitchain does not have: ");
        for args in [
            [&["run", "x"], flags].concat(),
            [&["run"], flags, &["-p", "x"]].concat(),
            [&["chat", "-t", "2"], flags].concat(),
            [flags, &["-p", "x"]].concat(),
        ] {
            let message = program(&args).error(2);
            assert!(message.starts_with(&start), "{args:?}: {message}");
            assert!(message.len() > start.len() + 10, "{message}");
        }
    }
    // What follows a flag of the program's own is its value.
    assert!(program(&["run", "-p", "--color", "-n", "1", "--echo"]).text().starts_with("--color"));
    assert!(program(&["run", "-n", "1", "--echo", "--", "-fa"]).text().starts_with("-fa"));
}

#[test]
fn token_ids_are_checked_against_the_model() {
    let message = run(&["-l", "5000-inf"]).error(2);
    assert!(message.contains("token 5000") && message.contains("2047"), "{message}");
}

#[test]
fn a_wrong_command_line_ends_with_2_and_one_line_that_names_the_flag() {
    for (args, message) in [
        (&["run", "x", "--topk", "4"][..], "no flag is called `--topk`; did you mean `--top-k`?"),
        (&["run", "x", "--zzz"], "no flag is called `--zzz`; see --help"),
        (&["run", "x", "--rng", "mt"], "--rng mt: there are xoshiro256++ and mt19937"),
        (&["run", "x", "--mirostat", "3"], "--mirostat 3: write 0, 1 or 2"),
        (&["run", "x", "--mirostat", "-1"], "--mirostat -1: write 0, 1 or 2"),
        (&["run", "x", "-t", "0"], "--threads 0: write a whole number from 1"),
        (&["run", "x", "-t", "1.5"], "--threads 1.5: write a whole number from 1"),
        (&["run", "x", "-t", "-1"], "--threads -1: write a whole number from 1"),
        (&["run", "x", "-t"], "--threads needs a value, as in `--threads <N>`; see --help"),
        (&["run", "x", "-s", "1", "-s", "2"], "--seed is given twice"),
        (&["run", "x", "y"], "`y` is one argument too many; a text with spaces needs quotes"),
        (&["run", "x", "--greedy=yes"], "--greedy takes no value, and has `yes`"),
        (&["check"], "<FILE>... is missing; see --help"),
        (&["-m", "x.gguf", "-p", "x"], "-m needs a command before it: logitchain run -m ..."),
        (&["--temp=1", "run", "x"], "--temp needs a command before it: logitchain run --temp ..."),
        (&["ruun"], "no command is called `ruun`; did you mean `run`?"),
        (
            &["completions", "zz"],
            "<SHELL> cannot be `zz`; it is one of bash, elvish, fish, powershell, zsh",
        ),
        (
            &["run", "x", "--samplers", "top_k", "--sampling-seq", "k"],
            "--samplers <LIST> cannot be used with --sampling-seq <LETTERS>",
        ),
        (
            &["run", "x", "--chain", "a.toml", "--greedy"],
            "--chain <FILE.toml> cannot be used with --greedy",
        ),
    ] {
        assert_eq!(program(args).error(2), message);
    }
    let seed = program(&["run", "x", "--seed", "4.2"]).error(2);
    assert!(seed.starts_with("--seed 4.2: `4.2` is not a seed"), "{seed}");
    let none = program(&[]);
    assert_eq!(none.code, Some(2));
    assert!(none.stderr.contains("Continue a text") && none.stdout.is_empty(), "{none:#?}");
}

// Chain files.

#[test]
fn a_chain_file_is_run_and_flags_replace_its_values() {
    let chain = file(
        "run.toml",
        "seed = 7\n[[stage]]\nuse = 'top_k'\nk = 3\n[[stage]]\nuse = 'temperature'\nt = 1.5\n\
         [[stage]]\nuse = 'dist'\n",
    );
    let outcome = run(&["--chain", &chain]);
    assert_eq!(outcome.told("seed: "), "7");
    assert_eq!(
        outcome.text(),
        run(&["--samplers", "top_k{k=3};temp{t=1.5}", "--seed", "7"]).text()
    );
    let replaced = run(&["--chain", &chain, "--top-k", "0", "--seed", "8", "-l", "5-inf"]);
    assert_eq!(replaced.told("seed: "), "8");
    let printed = "logits -> logit-bias -> ?top-k -> temp-ext -> dist";
    assert_eq!(replaced.told("sampler chain: "), printed);
    let absent = run(&["--chain", &chain, "--min-p", "0.1"]).error(2);
    assert!(absent.starts_with("--min-p belongs to `min_p`, which is not in"), "{absent}");
}

#[test]
fn ignore_eos_joins_the_biases_that_are_there() {
    let chain = "samplers = \"temperature;logit_bias{bias=['5-inf']}\"";
    let chain = file("bias.toml", chain);
    let outcome = run(&["--chain", &chain, "--ignore-eos"]);
    assert_eq!(outcome.told("sampler chain: "), "logits -> temp-ext -> logit-bias -> dist");
    // Its own end token is the most likely one after the prompt, if it is
    // allowed to be.
    let ended = |args: &[&str]| run(&[&["--samplers", "", "-l", "2+1000"], args].concat());
    assert!(ended(&[]).told("stopped: ").contains("ended the text"));
    assert_eq!(ended(&["--ignore-eos"]).told("stopped: "), "token limit (12)");
}

#[test]
fn check_prints_the_chain_of_a_file() {
    let tables = "[[stage]]\nuse = 'top_k'\n[[stage]]\nuse = 'top_p'\np = 1\n[[stage]]\n\
                  use = 'temperature'\n[[stage]]\nuse = 'dist'\n";
    for (name, text) in [
        ("list.toml", "samplers = 'top_k;top_p{p=1};temperature'"),
        ("array.toml", "samplers = ['top_k', 'top-p{p=1}', 'temperature']"),
        ("tables.toml", tables),
    ] {
        let printed = program(&["check", &file(name, text)]).text();
        assert_eq!(printed, "logits -> top-k -> ?top-p -> temp-ext -> dist\n");
    }
}

#[test]
fn check_says_where_a_file_is_wrong() {
    let start = "[[stage]]\nuse = 'top_k'\n[[stage]]\n";
    for (name, text, message) in [
        (
            "range.toml",
            format!("{start}use = 'min_p'\np = 1.5\n[[stage]]\nuse = 'dist'\n"),
            "line 5, stage 2, `min_p`: `p` must be between 0 and 1, got 1.5",
        ),
        (
            "type.toml",
            format!("{start}use = 'top_k'\nk = '40'\n[[stage]]\nuse = 'dist'\n"),
            "line 5, stage 2, `top_k`: `k` must be a whole number, got `\"40\"`",
        ),
        (
            "name.toml",
            format!("{start}use = 'temprature'\n"),
            "line 4, stage 2: no stage is called `temprature`; did you mean `temperature`?",
        ),
        (
            "key.toml",
            "sede = 1\n".to_owned(),
            "line 1: no key is called `sede`; did you mean `seed`?",
        ),
        ("toml.toml", "seed = 1\nx x\n".to_owned(), "line 2: not TOML: "),
        ("end.toml", format!("{start}use = 'top_p'\n"), "no stage selects a token"),
    ] {
        let path = file(name, text);
        let message_got = program(&["check", &path]).error(2);
        let place = format!("{path}: {message}");
        assert!(message_got.starts_with(&place), "{message_got:?} should begin with {place:?}");
    }
}

#[test]
fn check_takes_several_files_and_a_model() {
    let good = file("good.toml", "samplers = 'top_k'");
    let bad = file("bad.toml", "samplers = 'topp_k'");
    let outcome = program(&["check", &good, &bad, &good]);
    assert_eq!(outcome.code, Some(2));
    let line = format!("{good}: logits -> top-k -> dist\n");
    assert_eq!(outcome.stdout, line.repeat(2));
    assert_eq!(outcome.stderr.lines().count(), 2, "{outcome:#?}");
    assert!(outcome.told("error: ").starts_with(&bad));

    let biased = file("biased.toml", "samplers = \"logit_bias{bias=['5000-inf']}\"");
    let model = file("check.gguf", EMBEDDED_GGUF);
    program(&["check", &biased]).text();
    let message = program(&["check", &biased, "-m", &model]).error(2);
    assert!(message.contains("token 5000"), "{message}");
}

#[test]
fn check_takes_folders_and_tells_of_every_wrong_file() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("chains");
    fs::create_dir_all(folder.join("more")).expect("a folder");
    let path = folder.to_str().expect("UTF-8");
    for (name, text) in [
        ("a.toml", "samplers = 'top'"),
        ("b.toml", "samplers = 'top_k'"),
        ("c.toml", "sampler = 'top_k'"),
        ("more/d.toml", "samplers = 'top_p'"),
        ("notes.txt", "not a chain"),
    ] {
        file(&format!("chains/{name}"), text);
    }
    let outcome = program(&["check", path]);
    assert_eq!(outcome.code, Some(2));
    let right = ["b.toml: logits -> top-k -> dist", "more/d.toml: logits -> top-p -> dist"];
    assert_eq!(outcome.stdout, right.map(|line| format!("{path}/{line}\n")).concat());
    let told: Vec<&str> = outcome.stderr.lines().collect();
    assert!(told[0].starts_with(&format!("error: {path}/a.toml: ")), "{outcome:#?}");
    assert!(told[1].starts_with(&format!("error: {path}/c.toml: ")), "{outcome:#?}");
    assert_eq!(told[2..], ["error: 2 of 4 chain files are wrong"]);

    let empty = folder.with_file_name("no chains");
    fs::create_dir_all(&empty).expect("a folder");
    let message = program(&["check", empty.to_str().expect("UTF-8")]).error(2);
    assert!(message.ends_with("/no chains' has no .toml files"), "{message}");
    let all = program(&["check", "chains"]).text();
    assert!(all.contains("chains/llama-cpp.toml: logits -> "), "{all}");
}

#[test]
fn a_flag_on_top_of_a_file_is_blamed_for_its_own_value() {
    let chain = file("blame.toml", "[[stage]]\nuse = 'min_p'\np = 0.1\n[[stage]]\nuse = 'dist'\n");
    assert_eq!(
        run(&["--chain", &chain, "--min-p", "2"]).error(2),
        format!("--min-p 2: {chain}: line 3, stage 1, `min_p`: `p` must be between 0 and 1, got 2")
    );
}

#[test]
fn a_chain_that_bans_every_token_fails_when_it_picks_one() {
    let bans: Vec<String> = (0..2048).map(|token| format!("'{token}-inf'")).collect();
    let bans = format!("samplers = \"logit_bias{{bias=[{}]}};top_k\"", bans.join(","));
    let outcome = run(&["--chain", &file("bans.toml", bans)]);
    assert_eq!(outcome.code, Some(1));
    assert_eq!(outcome.stdout, "");
    let message = outcome.told("error: ");
    assert!(
        message.starts_with("cannot pick token 1 of the text: no candidates are left"),
        "{message}"
    );
    assert!(message.contains("stage 1, `logit_bias`"), "{message}");
}

#[test]
fn a_text_that_cannot_begin_leaves_no_trace() {
    let trace = file("begin.jsonl", "");
    fs::remove_file(&trace).expect("a file");
    let long = "word ".repeat(300);
    assert_eq!(program(&["run", &long, "--trace", &trace]).code, Some(1));
    let folder = env!("CARGO_TARGET_TMPDIR");
    let nowhere = format!("{folder}/no/such.safetensors");
    assert_eq!(program(&["record", "x", "-o", &nowhere, "--trace", &trace]).code, Some(1));
    assert!(!Path::new(&trace).exists());
    // A pipe or a device is not the program's own.
    assert_eq!(program(&["run", &long, "--trace", "/dev/null"]).code, Some(1));
    assert!(Path::new("/dev/null").exists());
    // A text of no tokens has a trace of no lines.
    program(&["run", "x", "-n", "0", "--trace", &trace]).text();
    assert_eq!(fs::read(&trace).expect("a trace"), b"");
}

// Models.

#[test]
fn a_model_file_is_the_same_as_the_model_in_the_program() {
    let model = file("same.gguf", EMBEDDED_GGUF);
    let text = run(&[]).text();
    assert_eq!(run(&["-m", &model]).text(), text);
    assert_eq!(run(&["-m", &model, "-t", "2"]).text(), text);
    assert_eq!(run(&["-t", "2"]).text(), text);
}

#[test]
fn broken_models_end_with_1_and_one_line_that_names_the_file() {
    let mut lying = EMBEDDED_GGUF.to_vec();
    lying[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
    let cases: [(&str, &[u8]); 5] = [
        ("empty.gguf", b""),
        ("text.gguf", b"this is not a model"),
        ("head.gguf", &EMBEDDED_GGUF[..100]),
        ("half.gguf", &EMBEDDED_GGUF[..EMBEDDED_GGUF.len() / 2]),
        ("lying.gguf", &lying),
    ];
    for (name, content) in cases {
        let path = file(name, content);
        let message = run(&["-m", &path]).error(1);
        assert!(message.contains(&path), "{message}");
    }
}

/// As other files that are not there: the command line is wrong.
#[test]
fn models_that_cannot_be_opened_end_with_2() {
    let folder = env!("CARGO_TARGET_TMPDIR");
    for (path, why) in [
        ("no/such.gguf", "No such file"),
        (folder, "it is a folder"),
        ("/dev/null", "it is a pipe or a device"),
        (&pipe("model.pipe"), "it is a pipe or a device"),
    ] {
        for args in [&["run", "x", "-m", path][..], &["check", "chains", "-m", path]] {
            let message = program(args).error(2);
            let start = format!("cannot open the model '{path}': {why}");
            assert!(message.starts_with(&start), "{message}");
        }
    }
}

/// A model whose second file is missing.
#[test]
fn a_missing_part_of_a_model_ends_with_2() {
    let keys = [
        ("split.no", 4, 0_u32.to_le_bytes().to_vec()),
        ("split.count", 4, 2_u32.to_le_bytes().to_vec()),
        ("split.tensors.count", 5, 100_i32.to_le_bytes().to_vec()),
    ];
    let path = model_with("parts-00001-of-00002.gguf", &keys);
    let message = run(&["-m", &path]).error(2);
    assert!(message.contains("parts-00002-of-00002.gguf"), "{message}");
}

/// A pipe without a writer: whoever opens it to read waits.
#[test]
fn what_is_read_at_any_place_is_no_pipe_and_what_is_read_once_may_be_one() {
    let message = program(&["explain", "--logits-file", &pipe("logits.pipe")]).error(2);
    assert!(
        message.ends_with(
            "it is a pipe or a device, and is read here and there; save it to a file first"
        ),
        "{message}"
    );

    let through = |name: &str, content: &[u8], args: &[&str]| {
        let path = pipe(name);
        let content = content.to_vec();
        let to = path.clone();
        let writer = std::thread::spawn(move || std::fs::write(to, content));
        let outcome = program(&[args, &[&path]].concat());
        writer.join().expect("no panic").expect("a reader");
        outcome.text()
    };
    let expected = program(&["run", "Thou", "-n", "3", "--greedy"]).text();
    let chain = b"[[stage]]\nuse = 'greedy'";
    assert_eq!(through("chain.pipe", chain, &["run", "Thou", "-n", "3", "--chain"]), expected);
    assert_eq!(through("prompt.pipe", b"Thou\n", &["run", "-n", "3", "--greedy", "-f"]), expected);
    let batch = through("batch.pipe", b"{\"prompt\":\"Thou\"}", &["batch", "-n", "3", "--greedy"]);
    assert!(batch.contains(&format!("\"text\":\"{}\"", expected.trim_end())), "{batch}");
}

#[test]
fn more_threads_than_make_sense_are_refused() {
    for model in [&[][..], &["-m", &file("threads.gguf", EMBEDDED_GGUF)]] {
        let message = run(&[&["-t", "100000"], model].concat()).error(2);
        assert!(message.starts_with("100000 threads are too many"), "{message}");
    }
}

// Chat.

/// The embedded model with more keys, each with its type's number and its value.
fn model_with(name: &str, keys: &[(&str, u32, Vec<u8>)]) -> String {
    const ALIGNMENT: usize = 32;
    let text = |text: &str| [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat();
    let entry = |(key, kind, value): &(&str, u32, Vec<u8>)| {
        [text(key), kind.to_le_bytes().to_vec(), value.clone()].concat()
    };
    let mut entries: Vec<u8> = keys.iter().flat_map(entry).collect();
    // A text fills it up, so that the tensors behind it stay aligned.
    let filled = |length| entry(&("padding", 8, text(&" ".repeat(length))));
    let missing = (entries.len() + filled(0).len()).next_multiple_of(ALIGNMENT);
    entries.extend(filled(missing - entries.len() - filled(0).len()));
    assert_eq!(entries.len() % ALIGNMENT, 0);
    let mut model = EMBEDDED_GGUF.to_vec();
    let count = u64::from_le_bytes(model[16..24].try_into().expect("eight bytes"));
    model[16..24].copy_from_slice(&(count + keys.len() as u64 + 1).to_le_bytes());
    model.splice(24..24, entries);
    file(name, model)
}

fn text_value(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}

/// The embedded model with a chat template.
fn chat_model(name: &str) -> PathBuf {
    let template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}\
                    {% if add_generation_prompt %}assistant:{% endif %}";
    model_with(name, &[("tokenizer.chat_template", 8, text_value(template))]).into()
}

#[test]
fn chat_answers_a_line_with_what_the_rendered_conversation_continues_to() {
    let model = chat_model("chat.gguf");
    let model = model.to_str().expect("UTF-8");
    // The penalty tells how often the chain has heard a token.
    let options = ["-m", model, "--greedy", "-n", "10", "--stop", r"\n", "--timing"];
    let penalty = ["--frequency-penalty", "0.5", "--repeat-last-n", "all"];
    let options = [&options[..], &penalty].concat();
    let chat = with_stdin(
        &[&["chat", "--system", "Speak."], &options[..]].concat(),
        b"Who is there?\n\nAnd who are you?\r\n",
    );
    let read = chat.prompt_tokens();
    let chat = chat.text();
    let answers: Vec<&str> = chat.split_inclusive('\n').collect();
    assert_eq!(answers.len(), 2, "{chat:?}");

    let mut conversation = "system: Speak.\nuser: Who is there?\nassistant:".to_owned();
    let first = program(&[&["run", &conversation], &options[..]].concat()).text();
    assert_eq!(answers[0], first);
    let said = first.strip_suffix('\n').expect("a line");
    conversation += &format!(" {said}\nuser: And who are you?\nassistant:");
    let second = program(&[&["run", &conversation], &options[..]].concat());
    // What the model had read already was not read again.
    assert!(read <= second.prompt_tokens(), "{read}");
    assert_eq!(answers[1], second.text());
}

#[test]
fn a_chat_can_be_traced_over_all_turns() {
    let model = chat_model("traced.gguf");
    let trace = file("chat.jsonl", "");
    fs::remove_file(&trace).expect("a file");
    let args = ["chat", "-n", "4", "--ignore-eos", "-m", model.to_str().expect("UTF-8")];
    let plain = with_stdin(&args, b"Who?\nWhy?\n").text();
    let traced = with_stdin(&[&args[..], &["--trace", &trace]].concat(), b"Who?\nWhy?\n").text();
    assert_eq!(traced, plain);
    let lines = fs::read_to_string(&trace).expect("a trace");
    let steps = lines.lines().map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
        line["step"].as_u64().expect("a number")
    });
    assert!(steps.eq(1..=8), "{lines}");
}

#[test]
fn the_help_of_chat_says_that_it_needs_a_model() {
    let help = program(&["chat", "--help"]).text();
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(help.contains("A GGUF file with a chat template; needed"), "{help}");
    assert!(!help.contains("default: the small model"), "{help}");
}

#[test]
fn chat_needs_a_template() {
    assert_eq!(
        program(&["chat"]).error(1),
        "the model has no chat template, so it cannot chat: continue texts with `run`, or give a \
         model that has one with -m"
    );
}

// What there is to know.

#[test]
fn list_has_a_line_for_every_stage() {
    let list = program(&["list"]).text();
    let registry = Registry::linked().expect("stages");
    assert_eq!(list.lines().count(), 1 + registry.iter().count());
    for stage in registry.iter() {
        let line = list.lines().find(|line| line.split(' ').next() == Some(stage.name));
        let line = line.unwrap_or_else(|| panic!("{} is not listed:\n{list}", stage.name));
        assert!(line.contains(stage.origin));
        for param in stage.params() {
            assert!(line.contains(&format!("{}=", param.name)), "{line}");
        }
    }
}

#[test]
fn list_describes_a_stage_by_any_of_its_names() {
    let text = program(&["list", "min-p"]).text();
    for part in ["Drop tokens", "letter    m", "p=0.05 [0, 1]", "--min-p", "off       p=0"] {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
    assert_eq!(program(&["list", "nucleus"]).text(), program(&["list", "top_p"]).text());
    let message = program(&["list", "minp2"]).error(2);
    assert!(message.starts_with("no stage is called `minp2`; did you mean `min_p`?"), "{message}");
}

#[test]
fn list_prints_a_table_for_the_readme() {
    let table = program(&["list", "--markdown"]).text();
    let registry = Registry::linked().expect("stages");
    assert_eq!(table.lines().count(), 2 + registry.iter().count());
    let columns = |line: &str| line.replace("\\|", "").matches('|').count();
    assert!(table.lines().all(|line| columns(line) == 7), "{table}");
}

#[test]
fn schema_is_that_of_the_linked_stages() {
    let schema = program(&["schema"]).text();
    let schema: serde_json::Value = serde_json::from_str(&schema).expect("JSON");
    assert_eq!(schema, Registry::linked().expect("stages").chain_file_schema());
}

#[test]
fn help_and_completions_know_the_flags_of_stages() {
    let help = program(&["run", "--help"]).text();
    let completions = program(&["completions", "bash"]).text();
    let registry = Registry::linked().expect("stages");
    let batch = program(&["batch", "--help"]).text();
    for flag in ["--out", "--parallel", "--memory", "--top-k"] {
        assert!(batch.contains(flag) && completions.contains(flag), "{flag}");
    }
    assert!(help.contains("--n-samples") && !batch.contains("--n-samples"));
    for flag in registry.iter().flat_map(|stage| stage.params()).flat_map(|param| param.flags) {
        let flag = if flag.len() == 1 { format!("-{flag}") } else { format!("--{flag}") };
        assert!(help.contains(&flag), "{flag} is not in the help");
        assert!(completions.contains(&flag), "{flag} is not completed");
    }
    assert!(help.contains("[stage: top_k; default: 40]"));
}

#[test]
fn a_penalty_after_a_filter_is_noted_and_one_before_is_not() {
    let late = run(&["--samplers", "top_k;penalties{repeat=1.1};temperature"]);
    assert_eq!(
        late.told("note: "),
        "`penalties` stands after `top_k`, and cannot bring back what that drops"
    );
    for list in ["penalties{repeat=1.1};top_k", "top_k;penalties", "top_k{k=0};penalties{repeat=2}"]
    {
        let fine = run(&["--samplers", list]);
        assert!(!fine.stderr.contains("note"), "{fine:#?}");
    }
}

// What a model's maker recommends.

fn float(x: f32) -> Vec<u8> {
    x.to_le_bytes().to_vec()
}

#[test]
fn what_a_model_recommends_holds_below_flags_lists_and_chain_files() {
    let keys = [
        ("general.sampling.top_k", 5, 1_i32.to_le_bytes().to_vec()),
        ("general.sampling.temp", 6, float(0.7)),
        ("general.sampling.top_q", 6, float(0.5)),
    ];
    let model = model_with("recommends.gguf", &keys);
    let run = |args: &[&str]| run(&[&["-m", &model], args].concat());
    // One token is kept: the same as the most likely ones.
    let likely = program(&["run", "Once upon a time", "-n", "12", "--greedy"]).text();

    let followed = run(&[]);
    assert_eq!(followed.told("recommended by the model: "), "top_k=1, temp=0.7");
    assert_eq!(
        followed.told("note: "),
        "the model's key `general.sampling.top_q` is unknown here, and not followed"
    );
    assert_eq!(followed.text(), likely);

    let flag = run(&["--top-k", "40"]);
    assert_eq!(flag.told("recommended by the model: "), "temp=0.7");
    assert_ne!(flag.text(), likely);

    let braces = run(&["--samplers", "top_k{k=40};temperature"]);
    assert_eq!(braces.told("recommended by the model: "), "temp=0.7");
    assert_ne!(braces.text(), likely);

    let without = run(&["--samplers", "temperature"]);
    assert!(
        without
            .stderr
            .contains("note: the model recommends top_k=1, whose stage is not in the chain"),
        "{without:?}"
    );

    let chain = file("below.toml", "[[stage]]\nuse = \"top_k\"\n[[stage]]\nuse = \"dist\"\n");
    let chain = run(&["--chain", &chain]);
    assert!(!chain.stderr.contains("recommended by the model"), "{chain:?}");
    let note = "note: the model recommends top_k=1, temp=0.7; the chain file says otherwise";
    assert!(chain.stderr.contains(note), "{chain:?}");
    assert_ne!(chain.text(), likely);
}

#[test]
fn a_recommended_sequence_is_the_chain_where_none_is_given() {
    let keys = [
        ("general.sampling.sequence", 8, text_value("min_p;temperature")),
        ("general.sampling.min_p", 6, float(0.25)),
    ];
    let model = model_with("sequence.gguf", &keys);
    let run = |args: &[&str]| run(&[&["-m", &model], args].concat());
    let followed = run(&[]);
    assert_eq!(
        followed.told("recommended by the model: "),
        "sequence=min_p;temperature, min_p=0.25"
    );
    assert_eq!(followed.told("sampler chain: "), "logits -> min-p -> temp-ext -> dist");
    let list = run(&["--samplers", "top_k;min_p"]);
    assert_eq!(list.told("recommended by the model: "), "min_p=0.25");
    let message = run(&["--top-k", "5"]).error(2);
    let whose = "which is not in the chain `min_p;temperature;dist` that the model recommends";
    assert!(message.contains(&format!("belongs to `top_k`, {whose}")), "{message}");

    let keys = [
        ("general.sampling.sequence", 8, text_value("min_p;temperature")),
        ("general.sampling.mirostat", 5, 2_i32.to_le_bytes().to_vec()),
    ];
    let model = model_with("mirostat.gguf", &keys);
    let followed = program(&["run", "x", "-n", "3", "-m", &model]);
    assert_eq!(
        followed.told("note: "),
        "the model's sequence=min_p;temperature gives way to its mirostat=2"
    );
    assert_eq!(followed.told("sampler chain: "), "logits -> temp-ext -> mirostat-v2");
}

#[test]
fn a_recommendation_that_cannot_be_followed_is_an_error_that_names_its_source() {
    let model = model_with("wrong.gguf", &[("general.sampling.top_p", 6, float(7.0))]);
    let message = run(&["-m", &model]).error(2);
    assert!(
        message.starts_with("general.sampling in the model's file (--samplers or --chain")
            && message.contains("top_p"),
        "{message}"
    );
    let model = model_with("typed.gguf", &[("general.sampling.top_p", 8, text_value("0.9"))]);
    let message = run(&["-m", &model]).error(1);
    assert!(message.contains("'general.sampling.top_p' is the string '0.9'"), "{message}");
}

#[test]
fn keys_and_values_are_remembered_in_16_bits_or_32() {
    for kind in ["f16", "f32"] {
        run(&["--cache-type", kind]).text();
    }
    let message = run(&["--cache-type", "q8_0"]).error(2);
    assert!(message.contains("write f16 or f32"), "{message}");
}
