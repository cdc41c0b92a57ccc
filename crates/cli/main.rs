//! The program: sampler chains over the engine, on the command line.

#![cfg_attr(not(test), warn(unused_crate_dependencies))]
#![forbid(unsafe_code)]

mod args;
mod batch;
mod chain_args;
mod chat;
mod check;
mod compare;
mod count;
mod escape;
mod explain;
mod foreign;
mod generate;
mod input;
mod input_error;
mod list;
mod logits;
mod logits_error;
mod many;
mod model_args;
mod output;
mod probs;
mod progress;
mod prompt;
mod recommended;
mod record;
mod report;
mod run;
mod schema;
mod signals;
mod stage_flags;
mod sweep;
mod table;
mod timing;
mod token_text;
mod trace_log;
mod usage;
mod value;
mod watch;
mod watched;

use std::{env, ffi::OsString, process::ExitCode};

// The program needs the package's own library for nothing: it names the crates.
use logitchain as _;
// A crate that no code names is not linked, and its stages are not registered.
// A third party's stages join by a line like this one, and a dependency.
use logitchain_stages as _;

use clap::FromArgMatches as _;
use logitchain_core::Registry;

use crate::{
    args::{Cli, Command},
    report::Failure,
    stage_flags::StageFlags,
};

fn main() -> ExitCode {
    match program() {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read the output has closed it: there is nobody to tell.
        Err(failure) if failure.is_broken_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            output::tell(format_args!("error: {}", report::line(&failure)));
            failure.exit_code()
        }
    }
}

fn program() -> Result<(), Failure> {
    let registry = Registry::linked()?;
    let flags = StageFlags::new(&registry, &args::command())?;
    let mut command = flags.add_to(args::command());
    let given: Vec<OsString> = env::args_os().collect();
    foreign::check(&given[given.len().min(1)..], &command)?;
    let parsed = command.try_get_matches_from_mut(given);
    let parsed = parsed.and_then(|matches| Ok((Cli::from_arg_matches(&matches)?, matches)));
    let (cli, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return usage::refuse(&error),
    };
    let (_, own) = matches.subcommand().expect("clap asks for a command");
    match cli.command {
        Command::Run(args) => run::run(&args, flags.given(own), &registry),
        Command::Batch(args) => batch::batch(&args, own, &flags, &command, &registry),
        Command::Explain(args) => explain::explain(&args, flags.given(own), &registry),
        Command::Probs(args) => probs::probs(&args, flags.given(own), &registry),
        Command::Record(args) => record::record(&args, flags.given(own), &registry),
        Command::Chat(args) => chat::chat(&args, flags.given(own), &registry),
        Command::Compare(args) => compare::compare_chains(&args, &flags.given(own), &registry),
        Command::Sweep(args) => sweep::sweep(&args, flags.given(own), &registry),
        Command::List(args) => list::list(&args, &registry),
        Command::Check(args) => check::check(&args, &registry),
        Command::Schema => schema::schema(&registry),
        Command::Completions { shell } => schema::completions(shell, command),
    }
}
