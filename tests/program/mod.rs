//! The program as its users meet it: the real binary.

// Each test program uses some of this.
#![allow(dead_code, reason = "shared by test programs that use different parts")]

use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Child, Command, Stdio},
};

/// What a run of the program left behind.
#[derive(Debug, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Outcome {
    /// Of a run that must go well.
    pub(crate) fn text(self) -> String {
        assert_eq!(self.code, Some(0), "{self:#?}");
        self.stdout
    }

    /// The line on stderr that begins so, without its beginning.
    pub(crate) fn told(&self, what: &str) -> &str {
        let line = self.stderr.lines().find_map(|line| line.strip_prefix(what));
        line.unwrap_or_else(|| panic!("no line begins with {what:?}: {self:#?}"))
    }

    /// The message of a run that fails after it has told what it does.
    pub(crate) fn error_after_notes(self, code: i32) -> String {
        assert_eq!((self.code, &*self.stdout), (Some(code), ""), "{self:#?}");
        self.told("error: ").to_owned()
    }

    /// As the table of `--timing` has it.
    pub(crate) fn prompt_tokens(&self) -> usize {
        let count = self.told("prompt").split_whitespace().next().expect("a column");
        count.parse().expect("a number")
    }

    /// The message of a run that must fail: one line, and nothing else anywhere.
    pub(crate) fn error(self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "{self:#?}");
        assert_eq!(self.stdout, "", "{self:#?}");
        let line = self.stderr.strip_suffix('\n').unwrap_or(&self.stderr);
        assert!(!line.contains('\n'), "{self:#?}");
        let message = line.strip_prefix("error: ");
        message.unwrap_or_else(|| panic!("no error: {line}")).to_owned()
    }
}

pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_logitchain"));
    command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub(crate) fn with_stdin(args: &[&str], stdin: &[u8]) -> Outcome {
    let mut child = command(args).stdin(Stdio::piped()).spawn().expect("the program starts");
    // A program that fails before it reads closes the pipe.
    let _ = child.stdin.take().expect("a pipe").write_all(stdin);
    outcome(Ok(child))
}

pub(crate) fn outcome(child: std::io::Result<Child>) -> Outcome {
    let output = child.expect("the program starts").wait_with_output().expect("the program ends");
    Outcome {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

pub(crate) fn program(args: &[&str]) -> Outcome {
    with_stdin(args, b"")
}

/// A pipe with a name.
pub(crate) fn pipe(name: &str) -> String {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_file(&path);
    let made = Command::new("mkfifo").arg(&path).status().expect("mkfifo is there");
    assert!(made.success());
    path.to_str().expect("UTF-8").to_owned()
}

/// A file of this test's own.
pub(crate) fn file(name: &str, content: impl AsRef<[u8]>) -> String {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, content).expect("the folder can be written to");
    path.to_str().expect("UTF-8").to_owned()
}
