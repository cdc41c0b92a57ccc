//! The flags that the stages declare for their parameters.

use std::collections::BTreeMap;

use clap::{Arg, ArgAction, ArgMatches};
use logitchain_core::{Param, ParamKind, Registration, Registry};

use crate::{escape::unescape, report::Failure};

/// A command that builds a chain takes these flags.
const COMMANDS: [&str; 8] =
    ["run", "explain", "probs", "compare", SWEEP, "record", "batch", "chat"];

/// A command for which a flag can have several values.
const SWEEP: &str = "sweep";

/// The flags of all stages.
#[derive(Debug)]
pub(crate) struct StageFlags {
    flags: Vec<StageFlag>,
}

/// A flag, and what it sets: parameters of several stages, if they share it.
#[derive(Clone, Debug)]
struct StageFlag {
    /// Without dashes; the first one names the flag.
    names: Vec<String>,
    targets: Vec<Target>,
}

/// A parameter of a stage.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) stage: &'static str,
    pub(crate) param: Param,
}

/// A flag on the command line, with what was written behind it.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    /// With dashes.
    pub(crate) flag: String,
    texts: Vec<String>,
    pub(crate) targets: Vec<Target>,
}

impl StageFlags {
    /// Collects the flags; `program` is the command line without them.
    pub(crate) fn new(registry: &Registry, program: &clap::Command) -> Result<Self, Failure> {
        let mut flags: Vec<StageFlag> = Vec::new();
        let mut owners = BTreeMap::<String, usize>::new();
        for stage in registry.iter() {
            for param in stage.params() {
                if param.flags.is_empty() {
                    continue;
                }
                check_names(stage, &param, program)?;
                let mut shared = param.flags.iter().filter_map(|name| owners.get(name));
                let nth = shared.next().copied();
                if shared.any(|other| Some(*other) != nth) {
                    return Err(Failure::Usage(format!(
                        "the flags {} of stage `{}` ({}) belong to different flags of other stages",
                        dashed_list(&param.flags),
                        stage.name,
                        stage.origin
                    )));
                }
                let nth = nth.unwrap_or_else(|| {
                    flags.push(StageFlag { names: Vec::new(), targets: Vec::new() });
                    flags.len() - 1
                });
                for name in &param.flags {
                    if owners.insert(name.clone(), nth).is_none() {
                        flags[nth].names.push(name.clone());
                    }
                }
                flags[nth].targets.push(Target { stage: stage.name, param });
            }
        }
        Ok(Self { flags })
    }

    /// The command line with the flags.
    pub(crate) fn add_to(&self, mut program: clap::Command) -> clap::Command {
        for command in COMMANDS {
            program = program.mut_subcommand(command, |own| match command {
                SWEEP => own.args(self.flags.iter().map(grid_arg)),
                _ => self.add(own),
            });
        }
        program
    }

    /// A command with the flags.
    pub(crate) fn add(&self, command: clap::Command) -> clap::Command {
        command.args(self.flags.iter().map(arg))
    }

    /// The flags that were given to a command, in the order of the command line.
    pub(crate) fn given(&self, matches: &ArgMatches) -> Vec<Given> {
        let given = self.flags.iter().filter_map(|flag| {
            // A command without such flags does not know them.
            let texts = matches.try_get_many::<String>(&flag.id()).ok().flatten()?;
            let given = Given {
                flag: dashed(&flag.names[0]),
                texts: texts.cloned().collect(),
                targets: flag.targets.clone(),
            };
            Some((matches.index_of(&flag.id()), given))
        });
        let mut given: Vec<_> = given.collect();
        given.sort_by_key(|(place, _)| *place);
        given.into_iter().map(|(_, given)| given).collect()
    }
}

impl StageFlag {
    /// No argument of the program is called so.
    fn id(&self) -> String {
        format!("stage flag {}", self.names[0])
    }

    fn kind(&self) -> ParamKind {
        self.targets[0].param.kind
    }
}

impl Given {
    /// The text of a flag that stands once and may have several values.
    pub(crate) fn several(&self) -> Option<&str> {
        match (self.targets[0].param.kind, &self.texts[..]) {
            (ParamKind::List | ParamKind::Text, _) => None,
            (_, [text]) => Some(text),
            _ => None,
        }
    }

    /// The flag with another text.
    pub(crate) fn with(&self, text: String) -> Self {
        Self { texts: vec![text], ..self.clone() }
    }

    /// The value for a parameter.
    pub(crate) fn value(&self, param: &Param) -> toml::Value {
        match param.kind {
            ParamKind::List => {
                let values = self.texts.iter().map(|text| param.parse(&unescape(text)));
                let elements = values.flat_map(|value| match value {
                    toml::Value::Array(elements) => elements,
                    element => vec![element],
                });
                toml::Value::Array(elements.collect())
            }
            _ => param.parse(&self.texts.concat()),
        }
    }
}

/// As on the command line: `--top-k 40`.
impl std::fmt::Display for Given {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.flag)?;
        self.texts.iter().try_for_each(|text| write!(f, " {text}"))
    }
}

/// A stage cannot take a flag from the program, nor one that is none.
fn check_names(
    stage: &Registration,
    param: &Param,
    program: &clap::Command,
) -> Result<(), Failure> {
    let problem = |flag: &str, problem: &str| {
        Failure::Usage(format!(
            "stage `{}` ({}) declares the flag `{}` for `{}`, {problem}",
            stage.name,
            stage.origin,
            dashed(flag),
            param.name
        ))
    };
    for flag in &param.flags {
        let well_formed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if !flag.starts_with(|c: char| c.is_ascii_alphabetic()) || !flag.chars().all(well_formed) {
            return Err(problem(flag, "which cannot be a flag"));
        }
        let commands = program.get_subcommands().filter(|c| COMMANDS.contains(&c.get_name()));
        let reserved = |arg: &Arg| {
            let long = arg.get_long_and_visible_aliases().unwrap_or_default();
            let hidden = arg.get_all_aliases().unwrap_or_default();
            let short = arg.get_short_and_visible_aliases().unwrap_or_default();
            let mut letters = flag.chars();
            match (letters.next(), letters.next()) {
                (Some(letter), None) => short.contains(&letter),
                _ => long.contains(&flag.as_str()) || hidden.contains(&flag.as_str()),
            }
        };
        // clap adds these only when it parses.
        let own = ["help", "h", "version", "V"].contains(&flag.as_str());
        if own || commands.flat_map(clap::Command::get_arguments).any(reserved) {
            return Err(problem(flag, "which is the program's own"));
        }
    }
    Ok(())
}

fn arg(flag: &StageFlag) -> Arg {
    let mut arg = Arg::new(flag.id()).help_heading("Parameters of stages").help(help(flag));
    for (nth, name) in flag.names.iter().enumerate() {
        let mut letters = name.chars();
        arg = match (letters.next(), letters.next()) {
            (Some(letter), None) if arg.get_short().is_none() => arg.short(letter),
            (Some(letter), None) => arg.visible_short_alias(letter),
            _ if nth == 0 || arg.get_long().is_none() => arg.long(name.clone()),
            _ => arg.visible_alias(name.clone()),
        };
    }
    match flag.kind() {
        ParamKind::Integer => arg.value_name("N").allow_negative_numbers(true),
        ParamKind::Number => arg.value_name("X").allow_negative_numbers(true),
        ParamKind::Mixed => arg.value_name("VALUE").allow_negative_numbers(true),
        ParamKind::Text => arg.value_name("TEXT").allow_hyphen_values(true),
        ParamKind::List => {
            arg.value_name("ITEM").action(ArgAction::Append).allow_hyphen_values(true)
        }
        ParamKind::Bool => arg
            .value_name("true|false")
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true"),
    }
}

/// The same where the flag can have several values.
fn grid_arg(flag: &StageFlag) -> Arg {
    match flag.kind() {
        ParamKind::Integer | ParamKind::Number | ParamKind::Mixed => {
            // A range may begin with a negative number.
            arg(flag).value_name("VALUES").allow_negative_numbers(false).allow_hyphen_values(true)
        }
        ParamKind::Bool => arg(flag).value_name("VALUES"),
        ParamKind::Text | ParamKind::List => arg(flag),
    }
}

fn help(flag: &StageFlag) -> String {
    let Target { param, .. } = &flag.targets[0];
    let description = param.description.split("\n\n").next().unwrap_or_default();
    let description = description.split_whitespace().collect::<Vec<_>>().join(" ");
    let stages: Vec<&str> = flag.targets.iter().map(|target| target.stage).collect();
    let repeat = match param.kind {
        ParamKind::List => "can be repeated; ",
        _ => "",
    };
    format!(
        "{description} [{repeat}stage: {}; default: {}]",
        stages.join(", "),
        crate::value::value(&param.default)
    )
}

/// As it is written: one dash before a letter, two before a word.
pub(crate) fn dashed(flag: &str) -> String {
    format!("{}{flag}", if flag.chars().nth(1).is_none() { "-" } else { "--" })
}

fn dashed_list(flags: &[String]) -> String {
    flags.iter().map(|flag| dashed(flag)).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use logitchain_core::{BuildContext, Candidates, Kind, ParamError, Sampler, Stage};
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    use super::*;
    use crate::args::Cli;

    /// A third party's stage that does nothing.
    macro_rules! stage {
        ($stage:ident, $name:literal, $($flags:expr => $param:ident: $type:ty),*) => {
            /// A stage.
            #[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
            #[serde(default, deny_unknown_fields)]
            struct $stage {
                $(
                    /// A parameter.
                    #[schemars(extend("flags" = $flags))]
                    $param: $type,
                )*
            }

            impl Stage for $stage {
                const NAME: &'static str = $name;
                const KIND: Kind = Kind::Filter;

                fn build(self, _: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> {
                    Ok(Box::new(self))
                }
            }

            impl Sampler for $stage {
                fn apply(&mut self, _: &mut Candidates<'_>) {}
            }
        };
    }

    stage!(First, "first", ["rate", "r"] => rate: f64, ["on"] => on: bool, ["word"] => words: Vec<String>);
    stage!(Second, "second", ["rate", "the-rate"] => r: i64, ["text"] => text: String);
    stage!(Takes, "takes", ["seed"] => s: f64);
    stage!(TakesAlias, "takes_alias", ["n-predict"] => s: f64);
    stage!(TakesLetter, "takes_letter", ["m"] => s: f64);
    stage!(TakesHelp, "takes_help", ["help"] => s: f64);
    stage!(Broken, "broken", ["-x"] => s: f64);
    stage!(Both, "zz_both", ["r", "text"] => s: f64);

    fn flags(registry: &Registry) -> Result<StageFlags, Failure> {
        StageFlags::new(registry, &Cli::command())
    }

    fn two() -> Registry {
        let registry = Registry::default().with::<First>();
        registry.and_then(Registry::with::<Second>).expect("two names")
    }

    fn given(args: &[&str]) -> Vec<Given> {
        let flags = flags(&two()).expect("sound flags");
        let args = ["logitchain", "run", "x"].iter().chain(args);
        let matches = flags.add_to(Cli::command()).try_get_matches_from(args).expect("flags");
        flags.given(matches.subcommand().expect("run").1)
    }

    fn values(args: &[&str]) -> Vec<String> {
        let given = given(args);
        let set = given.iter().flat_map(|given| {
            given.targets.iter().map(move |Target { stage, param }| {
                format!("{stage}.{}={}", param.name, crate::value::value(&given.value(param)))
            })
        });
        set.collect()
    }

    #[test]
    fn the_command_line_with_all_flags_is_sound() {
        let linked = Registry::linked().expect("the built-in stages");
        let flags = flags(&linked).expect("sound flags");
        flags.add_to(Cli::command()).debug_assert();
        super::tests::flags(&two()).expect("sound flags").add_to(Cli::command()).debug_assert();
    }

    #[test]
    fn stages_may_share_a_flag_and_each_reads_its_own_kind() {
        for flag in ["--rate", "-r", "--the-rate"] {
            assert_eq!(values(&[flag, "-2"]), ["first.rate=-2", "second.r=-2"]);
        }
    }

    #[test]
    fn lists_grow_by_every_flag_and_read_escapes() {
        assert_eq!(
            values(&["--word", r"\n", "--word", "--", "--word", "-1"]),
            [r#"first.words=["\n", "--", "-1"]"#]
        );
    }

    #[test]
    fn a_switch_needs_no_value_and_text_is_taken_as_it_is() {
        assert_eq!(values(&["--on"]), ["first.on=true"]);
        assert_eq!(values(&["--on=false"]), ["first.on=false"]);
        assert_eq!(values(&["--text", r"-\d7"]), [r#"second.text="-\\d7""#]);
    }

    #[test]
    fn a_stage_cannot_take_a_flag_of_the_program() {
        let taken = [
            (Registry::default().with::<Takes>(), "takes", "--seed"),
            (Registry::default().with::<TakesAlias>(), "takes_alias", "--n-predict"),
            (Registry::default().with::<TakesLetter>(), "takes_letter", "-m"),
            (Registry::default().with::<TakesHelp>(), "takes_help", "--help"),
        ];
        for (registry, stage, flag) in taken {
            let error = flags(&registry.expect("one stage")).expect_err("taken").to_string();
            assert_eq!(
                error,
                format!(
                    "stage `{stage}` (this program) declares the flag `{flag}` for `s`, which is \
                     the program's own"
                )
            );
        }
    }

    #[test]
    fn flags_that_are_none_or_join_others_are_errors() {
        let registry = Registry::default().with::<Broken>().expect("one stage");
        let error = flags(&registry).expect_err("no flag").to_string();
        assert!(
            error.ends_with("declares the flag `---x` for `s`, which cannot be a flag"),
            "{error}"
        );
        let registry = two().with::<Both>().expect("three stages");
        let error = flags(&registry).expect_err("two flags in one").to_string();
        assert!(error.starts_with("the flags -r, --text of stage `zz_both`"), "{error}");
    }
}
