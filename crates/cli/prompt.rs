use std::{
    io::{self, IsTerminal as _},
    path::PathBuf,
};

use clap::Args;

use crate::{escape::unescape, input, report::Failure};

/// The text to continue: at most one of these; without any, stdin is read.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct PromptArgs {
    /// The text to continue [default: what is piped to stdin]
    #[arg(value_name = "PROMPT")]
    pub(crate) text: Option<String>,
    /// The same as PROMPT
    #[arg(short = 'p', long = "prompt", value_name = "PROMPT", allow_hyphen_values = true)]
    pub(crate) flag: Option<String>,
    /// Read the text from a file
    ///
    /// A line break at the end of a file, or of stdin, is not part of the text.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

impl PromptArgs {
    /// The text to continue. A line break at the end of a file or of stdin ends
    /// its last line, as text files have it, and is left out.
    pub(crate) fn read(&self, escape: bool) -> Result<String, Failure> {
        let text = match (&self.text, &self.flag, &self.file) {
            (Some(text), ..) | (_, Some(text), _) => text.clone(),
            (_, _, Some(path)) => without_last_break(input::prompt_file(path)?),
            (None, None, None) if io::stdin().is_terminal() => {
                return Err(Failure::Usage(
                    "there is no text to continue: give it as an argument, as in \
                     logitchain run \"Once upon a time\", with --file, or through a pipe"
                        .to_owned(),
                ));
            }
            (None, None, None) => without_last_break(input::stdin()?),
        };
        Ok(if escape { unescape(&text) } else { text })
    }
}

fn without_last_break(mut text: String) -> String {
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    text
}
