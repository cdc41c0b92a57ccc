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
        let shown = tokens > SHORT && io::stderr().is_terminal();
        Self::with(tokens, shown, "prompt {wide_bar} {pos}/{len} tokens {per_sec}")
    }

    /// For so many settings.
    pub(crate) fn of_settings(count: usize) -> Self {
        let shown = count > 1 && io::stderr().is_terminal();
        Self::with(count, shown, "{wide_bar} {pos}/{len} settings")
    }

    /// For so many texts, of which some are written already. Stdout and the bar
    /// would write over each other on one terminal.
    pub(crate) fn of_texts(texts: usize, done: usize, to_stdout: bool) -> Self {
        let shared = to_stdout && io::stdout().is_terminal();
        let template = "texts {wide_bar} {pos}/{len} {elapsed} of {duration}";
        let bar = Self::with(texts, io::stderr().is_terminal() && !shared, template);
        bar.bar.set_position(done as u64);
        // The rate and the time to come are of this run alone.
        bar.bar.reset_eta();
        bar
    }

    fn with(length: usize, shown: bool, template: &str) -> Self {
        let target =
            if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
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
