use std::{
    fs,
    io::{self, IsTerminal as _, Read as _},
};

use crate::{args::PromptArgs, escape::unescape, report::Failure};

impl PromptArgs {
    /// The text to continue. A line break at the end of a file or of stdin ends
    /// its last line, as text files have it, and is left out.
    pub(crate) fn read(&self, escape: bool) -> Result<String, Failure> {
        let text = match (&self.text, &self.flag, &self.file) {
            (Some(text), ..) | (_, Some(text), _) => text.clone(),
            (_, _, Some(path)) => {
                let text = fs::read_to_string(path);
                let text = text.map_err(|source| Failure::Read { path: path.clone(), source })?;
                without_last_break(text)
            }
            (None, None, None) if io::stdin().is_terminal() => {
                return Err(Failure::Usage(
                    "there is no text to continue: give it as an argument, as in \
                     logitchain run \"Once upon a time\", with --file, or through a pipe"
                        .to_owned(),
                ));
            }
            (None, None, None) => {
                let mut text = String::new();
                io::stdin().read_to_string(&mut text).map_err(Failure::Stdin)?;
                without_last_break(text)
            }
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
