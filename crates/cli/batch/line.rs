//! A line of a batch: a request as JSON, whose keys are flags.

use std::{ffi::OsString, fmt};

use clap::{
    Arg, ArgAction, ArgMatches, Args as _, Command, FromArgMatches as _, parser::ValueSource,
};
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::Value;

use crate::{
    args::TextArgs,
    chain_args::ChainArgs,
    foreign::{self, named},
    report::Failure,
    stage_flags::{Given, StageFlags, dashed},
    usage,
};

/// A request of a line.
#[derive(Debug)]
pub(crate) struct Line {
    /// As JSON; `None` where the line does not say one.
    pub(crate) id: Option<String>,
    pub(crate) prompt: String,
    pub(crate) samples: usize,
    pub(crate) args: TextArgs,
    pub(crate) given: Vec<Given>,
    /// What says which chain it is, but for the seed: requests with the same have
    /// the same chain.
    pub(crate) chain: Vec<OsString>,
}

/// Reads lines.
#[derive(Debug)]
pub(crate) struct LineReader<'a> {
    stage_flags: &'a StageFlags,
    /// The flags of a line.
    parser: Command,
    /// All commands, for the names of other flags.
    program: &'a Command,
    defaults: Vec<Flag>,
    chain_ids: Vec<String>,
}

/// A flag, and how it is written: once, several times, or not at all.
#[derive(Clone, Debug)]
struct Flag {
    id: String,
    args: Vec<OsString>,
}

/// The keys of a line that are no flags.
const KEYS: [&str; 3] = ["id", "prompt", "n"];

/// The flags that say what the chain is.
const CHAIN_CHOICE: [&str; 5] = ["chain", "samplers", "sampling_seq", "mirostat", "greedy"];

/// A flag of `run` whose place in a line has another key.
const SAMPLES: (&str, &str) = ("n-samples", "n");

impl<'a> LineReader<'a> {
    /// `given` are the flags of `batch`, which hold for all lines.
    pub(crate) fn new(
        stage_flags: &'a StageFlags,
        program: &'a Command,
        given: &ArgMatches,
    ) -> Self {
        let ids = |command: &Command| -> Vec<String> {
            command.get_arguments().map(|arg| arg.get_id().to_string()).collect()
        };
        let parser = Command::new("line").no_binary_name(true).disable_help_flag(true);
        let parser = stage_flags.add(TextArgs::augment_args(parser));
        let chain = stage_flags.add(ChainArgs::augment_args(Command::new("chain")));
        let chain_ids = ids(&chain).into_iter().filter(|id| id != "seed").collect();
        let typed = |arg: &&Arg| {
            given.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine)
        };
        let defaults = parser.get_arguments().filter(typed).map(|arg| {
            let id = arg.get_id().to_string();
            let args = match arg.get_action() {
                ArgAction::SetTrue => vec![switch(arg)],
                _ => {
                    let values = given.get_raw(&id).into_iter().flatten();
                    values.map(|value| written(arg, value)).collect()
                }
            };
            Flag { id, args }
        });
        let defaults = defaults.collect();
        Self { stage_flags, parser, program, defaults, chain_ids }
    }

    /// What says which chain it is where lines say nothing.
    pub(crate) fn default_chain(&self) -> Vec<OsString> {
        self.chain_of(&self.defaults)
    }

    fn chain_of(&self, flags: &[Flag]) -> Vec<OsString> {
        let of_chain = flags.iter().filter(|flag| self.chain_ids.contains(&flag.id));
        let mut of_chain: Vec<&Flag> = of_chain.collect();
        of_chain.sort_by(|a, b| a.id.cmp(&b.id));
        of_chain.into_iter().flat_map(|flag| flag.args.clone()).collect()
    }

    /// Reads a line.
    pub(crate) fn read(&mut self, text: &str) -> Result<Line, Failure> {
        let Fields(fields) =
            serde_json::from_str(text.trim_end()).map_err(|error| not_json(&error))?;
        let (mut id, mut prompt, mut samples) = (None, None, None);
        let mut flags: Vec<(String, Flag)> = Vec::new();
        for (key, value) in fields {
            let twice = match key.as_str() {
                "id" => id.replace(id_of(&value)?).is_some(),
                "prompt" => match value {
                    Value::String(text) => prompt.replace(text).is_some(),
                    other => {
                        return Err(usage(format!("`prompt` is a text, and not {}", what(&other))));
                    }
                },
                "n" => samples.replace(count_of(&value)?).is_some(),
                _ => {
                    let flag = self.flag(&key, &value)?;
                    let same = flags.iter().find(|(_, other)| other.id == flag.id);
                    if let Some((other, _)) = same.filter(|(other, _)| *other != key) {
                        return Err(usage(format!("`{other}` and `{key}` are the same")));
                    }
                    let twice = same.is_some();
                    flags.push((key.clone(), flag));
                    twice
                }
            };
            if twice {
                return Err(usage(format!("`{key}` is given twice")));
            }
        }
        let prompt = prompt.ok_or_else(|| usage("`prompt` is missing: the text to continue"))?;
        let flags = self.with_defaults(flags.into_iter().map(|(_, flag)| flag).collect());
        let chain = self.chain_of(&flags);
        let args = flags.into_iter().flat_map(|flag| flag.args);
        let parsed = self.parser.try_get_matches_from_mut(args);
        let parsed = parsed.and_then(|matches| {
            let args = TextArgs::from_arg_matches(&matches)?;
            Ok((args, self.stage_flags.given(&matches)))
        });
        let (args, given) = parsed.map_err(|error| usage(usage::message(&error)))?;
        Ok(Line { id, prompt, samples: samples.unwrap_or(1), args, given, chain })
    }

    /// The flags of a line, and of `batch` what they do not replace.
    fn with_defaults(&self, mut flags: Vec<Flag>) -> Vec<Flag> {
        let chooses = |flag: &Flag| CHAIN_CHOICE.contains(&flag.id.as_str());
        let chosen = flags.iter().any(|flag| chooses(flag) && !flag.args.is_empty());
        let stays = |flag: &&Flag| {
            !(chosen && chooses(flag)) && flags.iter().all(|other| other.id != flag.id)
        };
        let mut all: Vec<Flag> = self.defaults.iter().filter(stays).cloned().collect();
        all.append(&mut flags);
        all
    }

    fn flag(&self, key: &str, value: &Value) -> Result<Flag, Failure> {
        let arg = named(&self.parser, &key.replace('_', "-")).ok_or_else(|| self.unknown(key))?;
        let id = arg.get_id().to_string();
        let args = match (arg.get_action(), value) {
            (ArgAction::SetTrue, Value::Bool(true)) => vec![switch(arg)],
            (ArgAction::SetTrue, Value::Bool(false)) => vec![],
            (ArgAction::SetTrue, other) => {
                let problem = format!("`{key}` is true or false, and not {}", what(other));
                return Err(usage(problem));
            }
            (ArgAction::Append, Value::Array(values)) => {
                let values = values.iter().map(|value| Ok(written(arg, &scalar(key, value)?)));
                values.collect::<Result<_, Failure>>()?
            }
            (_, value) => vec![written(arg, &scalar(key, value)?)],
        };
        Ok(Flag { id, args })
    }

    /// What to say of a key that is no flag of a line.
    fn unknown(&self, key: &str) -> Failure {
        let name = key.replace('_', "-");
        let flag_of = |command: &str| {
            self.program.find_subcommand(command).and_then(|command| named(command, &name))
        };
        if name == SAMPLES.0 {
            return usage(format!("`{key}` is a flag of `run`; in a line it is `{}`", SAMPLES.1));
        }
        if flag_of("batch").is_some() {
            return usage(format!(
                "`{key}` is not to be had for one line: give --{name} to `batch`, for all of them"
            ));
        }
        if flag_of("run").is_some() {
            return usage(format!("`{key}` is a flag of `run` that has no meaning in a line"));
        }
        if let Some(hint) = foreign::hint(&format!("--{name}")) {
            return usage(format!(
                "`{key}` is a flag of llama.cpp that logitchain does not have: {hint}"
            ));
        }
        let flags = self.parser.get_arguments().filter_map(Arg::get_long_and_visible_aliases);
        let known = flags.flatten().map(|name| name.replace('-', "_"));
        let known: Vec<String> = KEYS.map(str::to_owned).into_iter().chain(known).collect();
        let wanted = name.replace('-', "_").to_lowercase();
        let likeness = |known: &str| strsim::normalized_damerau_levenshtein(&wanted, known);
        let near = known.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
        match near.filter(|near| key.len() <= 100 && likeness(near) > 0.5) {
            Some(near) => usage(format!("no key is called `{key}`; did you mean `{near}`?")),
            None => usage(format!("no key is called `{key}`; see `logitchain batch --help`")),
        }
    }
}

/// The keys and values of an object, in their order, those that are there twice too.
#[derive(Debug)]
struct Fields(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct All;

        impl<'de> Visitor<'de> for All {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object, such as {\"prompt\": \"Once\"}")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }

        deserializer.deserialize_map(All)
    }
}

fn usage(problem: impl Into<String>) -> Failure {
    Failure::Usage(problem.into())
}

/// The line in the parser's message is always the first.
fn not_json(error: &serde_json::Error) -> Failure {
    let message = error.to_string();
    let message = message.split(" at line ").next().unwrap_or_default();
    usage(format!("not a request in JSON, at byte {}: {message}", error.column()))
}

/// An id as JSON.
fn id_of(value: &Value) -> Result<String, Failure> {
    match value {
        Value::String(_) => Ok(value.to_string()),
        // Others may not be read back as they were written.
        Value::Number(number) if number.is_u64() || number.is_i64() => Ok(value.to_string()),
        other => Err(usage(format!(
            "`id` is a text or a whole number of 64 bits, and not {}",
            what(other)
        ))),
    }
}

fn count_of(value: &Value) -> Result<usize, Failure> {
    let count = value.as_u64().and_then(|count| usize::try_from(count).ok());
    count
        .filter(|count| *count > 0)
        .ok_or_else(|| usage(format!("`n` is a whole number from 1, and not {}", what(value))))
}

/// What would be written behind a flag.
fn scalar(key: &str, value: &Value) -> Result<OsString, Failure> {
    match value {
        Value::String(text) => Ok(text.into()),
        Value::Number(_) | Value::Bool(_) => Ok(value.to_string().into()),
        other => Err(usage(format!("`{key}` is a text or a number, and not {}", what(other)))),
    }
}

/// A value in a message.
fn what(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        value => format!("`{value}`"),
    }
}

/// `--name`, or `-x` where it has no long name.
fn name(arg: &Arg) -> String {
    match (arg.get_long(), arg.get_short()) {
        (Some(long), _) => dashed(long),
        (None, short) => dashed(&short.map(String::from).unwrap_or_default()),
    }
}

fn switch(arg: &Arg) -> OsString {
    name(arg).into()
}

/// `--name=value`: a value that begins with a dash is one too.
fn written(arg: &Arg, value: impl AsRef<std::ffi::OsStr>) -> OsString {
    let mut written = OsString::from(name(arg) + "=");
    written.push(value);
    written
}
