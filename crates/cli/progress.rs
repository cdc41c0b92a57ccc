use std::io::{self, IsTerminal as _};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A prompt of so many tokens is evaluated before a bar could be read.
const SHORT: usize = 64;

/// How much of a long prompt, or of other long work, is done, shown on a terminal.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// For a prompt of so many tokens.
    pub(crate) fn new(tokens: usize) -> Self {
        Self::bar(tokens, tokens > SHORT, "prompt {wide_bar} {pos}/{len} tokens {per_sec}")
    }

    /// For so many settings.
    pub(crate) fn of_settings(count: usize) -> Self {
        Self::bar(count, count > 1, "{wide_bar} {pos}/{len} settings")
    }

    fn bar(length: usize, worth_it: bool, template: &str) -> Self {
        let target = if worth_it && io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(length as u64), target);
        let style = ProgressStyle::with_template(template);
        Self { bar: bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())) }
    }

    /// So many are done, all in all.
    pub(crate) fn done(&self, count: usize) {
        self.bar.set_position(count as u64);
    }

    /// Takes the bar away: what follows is the text.
    pub(crate) fn clear(self) {
        self.bar.finish_and_clear();
    }
}
