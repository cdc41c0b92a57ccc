//! The program on a real model, SmolLM2-135M-Instruct in `Q4_1`, end to end.
//!
//! Ignored by default, since the model's 98 MB are not part of the repository:
//! `.ci/run` fetches it and runs these with `--ignored`. By hand, name the file
//! in `LOGITCHAIN_SMOLLM2`.

use std::{
    io::Write as _,
    process::{Command, Output, Stdio},
};

fn program(command: &str, args: &[&str], input: &str) -> Output {
    let model = std::env::var("LOGITCHAIN_SMOLLM2").expect("LOGITCHAIN_SMOLLM2 names the model");
    let mut child = Command::new(env!("CARGO_BIN_EXE_logitchain"))
        .args([command, "-m", &model])
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(input.as_bytes()).expect("the program reads its input");
    drop(stdin);
    child.wait_with_output().expect("the program ends")
}

fn text(output: &Output) -> (String, String) {
    let read = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
    let (stdout, stderr) = (read(&output.stdout), read(&output.stderr));
    assert!(output.status.success(), "{stderr}");
    (stdout, stderr)
}

/// What must follow each prompt: facts and forms that a reader can judge, none
/// of which hangs on the rounding of a product.
#[test]
#[ignore = "needs the model"]
fn greedy_continuations_are_sensible_and_repeat() {
    for (prompt, expected) in [
        ("The capital of France is", "Paris"),
        ("The chemical formula of water is", "H2O"),
        ("def factorial(n):\n    if n == 0:\n        return 1\n    return n *", "factorial(n - 1)"),
        ("1, 2, 3, 4, 5, 6,", "7, 8, 9, 10"),
        ("Größe, naïveté, 東京, 😀. Größe, naïveté, 東京, 😀. Größe, naïveté,", "東京, 😀"),
    ] {
        let run = || text(&program("run", &["--greedy", "-n", "24"], prompt));
        let (first, stderr) = run();
        assert!(first.contains(expected), "{prompt:?} is continued by {first:?}");
        assert!(stderr.contains("stopped: "), "{stderr}");
        assert_eq!(run().0, first, "{prompt:?} does not repeat");
    }
}

#[test]
#[ignore = "needs the model"]
fn the_thread_count_changes_no_byte() {
    let run = |threads| {
        let args = ["-n", "40", "-t", threads, "--temp", "1.2", "--seed", "7"];
        text(&program("run", &args, "Once upon a time")).0
    };
    assert_eq!(run("1"), run("2"));
}

#[test]
#[ignore = "needs the model"]
fn a_conversation_answers_each_line_and_ends_at_the_end_token() {
    let turns = "What is 2+2?\nAnd what is the next whole number after that?\n";
    let run = || text(&program("chat", &["--greedy", "-n", "80"], turns));
    let (first, stderr) = run();
    let answers: Vec<&str> = first.trim_end().lines().collect();
    assert!(answers.len() == 2 && answers[0].contains('4'), "{first:?}");
    // Only what ends a turn otherwise is reported.
    assert!(!stderr.contains("stopped"), "{stderr}");
    assert!(!first.contains("<|im_end|>"), "{first:?}");
    assert_eq!(run().0, first);
}

#[test]
#[ignore = "needs the model"]
fn a_stop_string_ends_the_text_before_it() {
    let args = ["--greedy", "-n", "40", "--stop", "9"];
    let (out, stderr) = text(&program("run", &args, "1, 2, 3, 4, 5, 6,"));
    assert_eq!(out.trim_end(), " 7, 8,");
    assert!(stderr.contains("stopped: stop string"), "{stderr}");
}
