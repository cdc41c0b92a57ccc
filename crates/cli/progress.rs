use std::io::{self, IsTerminal as _};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A prompt of so many tokens is evaluated before a bar could be read.
const SHORT: usize = 64;

/// How much of a long prompt has been evaluated, shown on a terminal.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// For a prompt of so many tokens.
    pub(crate) fn new(tokens: usize) -> Self {
        let target = if tokens > SHORT && io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(tokens as u64), target);
        let style = ProgressStyle::with_template("prompt {wide_bar} {pos}/{len} tokens {per_sec}");
        Self { bar: bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())) }
    }

    /// So many tokens are done, all in all.
    pub(crate) fn done(&self, tokens: usize) {
        self.bar.set_position(tokens as u64);
    }

    /// Takes the bar away: what follows is the text.
    pub(crate) fn clear(self) {
        self.bar.finish_and_clear();
    }
}
