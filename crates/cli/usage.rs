//! What clap has to say, in one line.

use std::error::Error as _;

use clap::error::{ContextKind, ContextValue, Error, ErrorKind};

use crate::{
    output::{self, tell_on},
    report::Failure,
};

/// How to end when clap does not take the command line.
pub(crate) fn refuse(error: &Error) -> Result<(), Failure> {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => output::write(&error.to_string()),
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            tell_on(error);
            Err(Failure::Usage("there is no command; the first one to try is `run`".to_owned()))
        }
        _ => Err(Failure::Usage(message(error))),
    }
}

/// The line of an error.
pub(crate) fn message(error: &Error) -> String {
    let text = |kind| error.get(kind).map(plain).filter(|text| !text.is_empty());
    let arg = text(ContextKind::InvalidArg);
    let value = text(ContextKind::InvalidValue);
    let hint = |kind| {
        text(kind)
            .map_or_else(|| "; see --help".to_owned(), |near| format!("; did you mean `{near}`?"))
    };
    match (error.kind(), arg, value) {
        // `--threads <N>`: the name, without what stands for its value.
        (ErrorKind::ValueValidation, Some(arg), value) => {
            let value = value.unwrap_or_else(|| "''".to_owned());
            let problem = error.source().map_or_else(String::new, |source| source.to_string());
            format!("{} {value}: {problem}", name(&arg))
        }
        (ErrorKind::InvalidValue, Some(arg), None) => {
            format!("{} needs a value, as in `{arg}`; see --help", name(&arg))
        }
        (ErrorKind::InvalidValue, Some(arg), Some(value)) => {
            let known = text(ContextKind::ValidValue).unwrap_or_default();
            format!("{arg} cannot be `{value}`; it is one of {known}")
        }
        (ErrorKind::TooManyValues, Some(arg), Some(value)) => {
            format!("{} takes no value, and has `{value}`", name(&arg))
        }
        (ErrorKind::UnknownArgument, Some(arg), _) if arg.starts_with('-') && arg != "-" => {
            format!("no flag is called `{arg}`{}", hint(ContextKind::SuggestedArg))
        }
        (ErrorKind::UnknownArgument, Some(arg), _) => {
            format!("`{arg}` is one argument too many; a text with spaces needs quotes")
        }
        (ErrorKind::ArgumentConflict, Some(arg), _) => match text(ContextKind::PriorArg) {
            Some(prior) if prior != arg => format!("{arg} cannot be used with {prior}"),
            _ => format!("{} is given twice", name(&arg)),
        },
        (ErrorKind::MissingRequiredArgument, Some(arg), _) => {
            format!("{arg} is missing; see --help")
        }
        (ErrorKind::InvalidSubcommand, ..) => {
            let command = text(ContextKind::InvalidSubcommand).unwrap_or_default();
            format!("no command is called `{command}`{}", hint(ContextKind::SuggestedSubcommand))
        }
        // Rare ones: all but the block of usage.
        _ => {
            let text = error.to_string();
            let text = text.split("\n\nUsage:").next().unwrap_or_default();
            let text = text.split("\n\nFor more information").next().unwrap_or_default();
            text.strip_prefix("error: ").unwrap_or(text).to_owned()
        }
    }
}

/// `--threads` of `--threads <N>`.
fn name(arg: &str) -> &str {
    arg.split([' ', '=', '[']).next().unwrap_or(arg)
}

fn plain(value: &ContextValue) -> String {
    match value {
        ContextValue::Strings(texts) => texts.join(", "),
        ContextValue::None => String::new(),
        value => value.to_string(),
    }
}
