//! `explain --watch` in a real terminal, which tmux gives.

use std::{
    process::{Command, Output},
    thread::sleep,
    time::{Duration, Instant},
};

mod program;
use program::program;

/// A terminal of its own server, so that no other is touched.
struct Terminal {
    socket: String,
}

impl Terminal {
    /// Runs a shell's command; `None` where there is no tmux.
    fn new(name: &str, columns: u16, lines: u16, command: &str) -> Option<Self> {
        let terminal = Self { socket: format!("logitchain-{name}-{}", std::process::id()) };
        let (columns, lines) = (columns.to_string(), lines.to_string());
        let size = ["-x", &columns, "-y", &lines];
        let new = [&["-f", "/dev/null", "new-session", "-d"][..], &size, &[command]].concat();
        let output = terminal.try_tmux(&new)?;
        assert!(output.status.success(), "{output:?}");
        Some(terminal)
    }

    fn try_tmux(&self, args: &[&str]) -> Option<Output> {
        Command::new("tmux").args(["-L", &self.socket]).args(args).output().ok()
    }

    fn tmux(&self, args: &[&str]) -> String {
        let output = self.try_tmux(args).expect("tmux was there before");
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    fn press(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// The screen, as soon as all of these are on it.
    fn shows(&self, parts: &[&str]) -> String {
        let start = Instant::now();
        loop {
            let screen = self.tmux(&["capture-pane", "-p"]);
            if parts.iter().all(|part| screen.contains(part)) {
                return screen;
            }
            assert!(start.elapsed() < Duration::from_secs(60), "no {parts:?} on\n{screen}");
            sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.try_tmux(&["kill-server"]);
    }
}

#[test]
fn a_chain_can_be_watched_and_changed_in_a_terminal() {
    let program = env!("CARGO_BIN_EXE_logitchain");
    let command = format!(
        "echo before; '{program}' explain 'In the beginning God created' --watch \
         --samplers 'top_k;top_p{{p=0.9}};temperature'; echo \"left with $?\"; stty -a; cat"
    );
    let Some(terminal) = Terminal::new("changed", 100, 30, &command) else {
        println!("not tested: there is no tmux");
        return;
    };
    let screen = terminal.shows(&["step 1 ", "▸ top_k", "? help"]);
    assert!(!screen.contains("before\n"), "the screen is the program's:\n{screen}");

    terminal.press(&["Right"]);
    terminal.shows(&["step 2 "]);
    terminal.press(&["Down", "-"]);
    terminal.shows(&["▸ top_p*", "p=0.85", "chain changed"]);
    terminal.press(&["e", "2", "Enter"]);
    terminal.shows(&["`p` must be between 0 and 1, got 2"]);
    terminal.press(&["Escape"]);
    terminal.shows(&["? help"]);
    terminal.tmux(&["resize-window", "-x", "60", "-y", "15"]);
    terminal.shows(&["▸ top_p*", "q quit"]);
    terminal.tmux(&["resize-window", "-x", "120", "-y", "40"]);
    terminal.press(&["?"]);
    terminal.shows(&["any key goes back"]);
    terminal.press(&["q", "q"]);

    // The terminal is as before: its lines, and echo and line editing.
    let flags = "--samplers 'top_k;top_p{p=0.85};temperature;dist'";
    // The last of what stty says.
    let screen = terminal.shows(&["before\n", flags, "left with 0", "extproc"]);
    let words: Vec<&str> = screen.split_whitespace().collect();
    assert!(words.contains(&"icanon") && words.contains(&"echo"), "{screen}");
}

#[test]
fn the_terminal_is_given_back_when_the_program_is_ended_from_outside() {
    let program = env!("CARGO_BIN_EXE_logitchain");
    let id = program::file("watch.pid", "");
    let command = format!(
        "echo before; sh -c 'echo $$ > \"{id}\"; exec \"{program}\" explain Thou --watch'; \
         echo \"left with $?\"; stty -a; cat"
    );
    let Some(terminal) = Terminal::new("ended", 100, 30, &command) else {
        println!("not tested: there is no tmux");
        return;
    };
    let screen = terminal.shows(&["step 1 ", "? help"]);
    assert!(!screen.contains("before\n"), "the screen is the program's:\n{screen}");
    let id = std::fs::read_to_string(id).expect("a number");
    let killed = Command::new("kill").args(["-TERM", id.trim()]).status().expect("kill is there");
    assert!(killed.success());
    // 128, and SIGTERM's 15.
    let screen = terminal.shows(&["before\n", "left with 143", "extproc"]);
    let words: Vec<&str> = screen.split_whitespace().collect();
    assert!(words.contains(&"icanon") && words.contains(&"echo"), "{screen}");
}

#[test]
fn without_a_terminal_it_is_refused_before_anything_else() {
    for args in [
        &["explain", "x", "--watch"][..],
        &["explain", "x", "--watch", "-m", "missing.gguf"],
        &["explain", "--watch", "--logits", "1,2"],
    ] {
        assert_eq!(
            program(args).error(2),
            "--watch needs a terminal, and stdout is a pipe or a file; leave one of both out"
        );
    }
    let error = program(&["explain", "x", "--watch", "--json"]).error(2);
    assert_eq!(error, "--watch cannot be used with --json");
}
