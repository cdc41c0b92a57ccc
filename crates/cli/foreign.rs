//! Flags of llama.cpp that the program does not have.
//!
//! Most command lines that people bring are llama.cpp's. Its sampling flags are
//! here; of the others some would be read as something else (`-fa` as the file
//! `a`, `-hf` as a call for help), so they are looked for before clap parses.

use std::ffi::OsString;

use clap::{Arg, Command};

use crate::report::Failure;

/// Flags as they are written, and what to do without them.
const FLAGS: &[(&str, &str)] = &[
    ("-c --ctx-size", "the context is as long as the model's; -n limits the text"),
    (
        "--keep --context-shift --no-context-shift -gan --grp-attn-n -gaw --grp-attn-w",
        "a text ends where the context is full, and nothing is shifted; leave it out",
    ),
    (
        "-b --batch-size -ub --ubatch-size --swa-full",
        "how a prompt is cut does not change the text; leave it out",
    ),
    (
        "-ngl --gpu-layers --n-gpu-layers -sm --split-mode -ts --tensor-split -mg --main-gpu -dev \
         --device --list-devices -ot --override-tensor -nkvo --no-kv-offload -kvo --kv-offload \
         -cmoe --cpu-moe -ncmoe --n-cpu-moe --no-op-offload --op-offload --rpc -fit --fit \
         -bs --backend-sampling",
        "everything is computed on the CPU; leave it out",
    ),
    ("-fa --flash-attn", "there is one kind of attention; leave it out"),
    (
        "-ctk --cache-type-k -ctv --cache-type-v",
        "keys and values have one type: write --cache-type",
    ),
    ("-tb --threads-batch", "-t is for the prompt too"),
    (
        "--mlock --mmap --no-mmap -dio --direct-io --numa -C --cpu-mask -Cr --cpu-range \
         --cpu-strict --prio --poll --no-repack --no-host",
        "memory and processors are left to the operating system; leave it out",
    ),
    ("-cnv --conversation", "`logitchain chat` holds a conversation"),
    (
        "-no-cnv --no-conversation",
        "`logitchain run` continues a text without a conversation; leave it out",
    ),
    (
        "-i --interactive -if --interactive-first -mli --multiline-input -st --single-turn",
        "`logitchain chat` reads turns, one per line, from a terminal or a pipe",
    ),
    ("-r --reverse-prompt", "--stop TEXT ends the text before TEXT"),
    ("-sys", "write --system"),
    ("-sysf --system-prompt-file", "write --system \"$(cat FILE)\""),
    (
        "--jinja --no-jinja --chat-template --chat-template-file --chat-template-kwargs \
         --skip-chat-parsing --reasoning-format --reasoning-budget",
        "`logitchain chat` uses the template in the model's file",
    ),
    (
        "-co --color",
        "a terminal gets colours where there are any, unless NO_COLOR is set; leave it out",
    ),
    ("--no-display-prompt --display-prompt", "the prompt is printed only with --echo"),
    ("--no-warmup --warmup", "there is no warm-up; leave it out"),
    (
        "-hf -hfr --hf-repo -hff --hf-file -hfv --hf-repo-v -hft --hf-token -mu --model-url -dr \
         --docker-repo --offline",
        "nothing is downloaded; -m MODEL.gguf takes a file that you have",
    ),
    (
        "--grammar --grammar-file -j --json-schema -jf --json-schema-file",
        "there is no grammar stage yet",
    ),
    (
        "--rope-scaling --rope-scale --rope-freq-base --rope-freq-scale --yarn-orig-ctx \
         --yarn-ext-factor --yarn-attn-factor --yarn-beta-slow --yarn-beta-fast --override-kv",
        "the model's file says how it is computed; leave it out",
    ),
    (
        "--lora --lora-scaled --lora-init-without-apply --control-vector --control-vector-scaled \
         --control-vector-layer-range -mm --mmproj --image --audio",
        "a model is one file, without adapters, and reads text",
    ),
    (
        "-md --model-draft -hfd --hf-repo-draft --draft --draft-max --draft-min --draft-n \
         --draft-n-min --draft-p-min -lcs --lookup-cache-static -lcd --lookup-cache-dynamic",
        "there is no speculative decoding; leave it out",
    ),
    (
        "-np --parallel -ns --sequences -cb --cont-batching",
        "`logitchain batch` continues many texts at once, and `run --n-samples` writes several of \
         one prompt",
    ),
    (
        "--prompt-cache --prompt-cache-all --prompt-cache-ro",
        "a prompt is read anew every time; leave it out",
    ),
    ("--in-prefix --in-suffix --in-prefix-bos", "write it into the prompt"),
    ("-sp", "special tokens are never printed; --special is about those in the prompt"),
    ("-bf --binary-file", "a prompt is text, in UTF-8; -f FILE reads one"),
    ("--no-escape", "backslashes in prompts are plain text unless -e is given; leave it out"),
    (
        "--perf --no-perf --show-timings --no-show-timings -ptc --print-token-count",
        "--timing prints a table",
    ),
    (
        "-v --verbose --log-verbose -lv --verbosity --log-verbosity --verbose-prompt \
         --log-disable --log-file --log-colors --log-prefix --log-timestamps --simple-io",
        "stderr has the seed, the chain and why the text stopped; --trace FILE has a line per token",
    ),
    ("--host --port --server", "there is no server"),
];

/// Complains of the first such flag, or, as llama.cpp has no commands, of flags
/// without one. `program` is the command line with all
/// flags: its own come first, should a stage bring one that llama.cpp has.
pub(crate) fn check(args: &[OsString], program: &Command) -> Result<(), Failure> {
    let mut args = args.iter().map(|arg| arg.to_string_lossy());
    let mut command = "run".to_owned();
    let (mut chosen, mut early) = (false, None);
    while let Some(arg) = args.next() {
        if !arg.starts_with('-') {
            if !chosen {
                command = arg.into_owned();
                chosen = true;
            }
            continue;
        }
        if arg == "--" {
            break;
        }
        let own = program.find_subcommand(&command).and_then(|command| own(command, &arg));
        if let Some(own) = own {
            if !chosen {
                early = early.or_else(|| Some(arg.clone()));
            }
            // What follows is its value, whatever it looks like.
            let glued = arg.contains('=') || own.is_require_equals_set();
            if own.get_action().takes_values() && !glued {
                args.next();
            }
            continue;
        }
        let flag = arg.split('=').next().unwrap_or_default();
        if let Some(hint) = hint(flag) {
            return Err(Failure::Usage(format!(
                "{flag} is a flag of llama.cpp that logitchain does not have: {hint}"
            )));
        }
    }
    match early {
        Some(flag) => {
            let flag = flag.split('=').next().unwrap_or_default();
            let problem = format!("{flag} needs a command before it: logitchain run {flag} ...");
            Err(Failure::Usage(problem))
        }
        None => Ok(()),
    }
}

/// What to do without a flag of llama.cpp.
pub(crate) fn hint(flag: &str) -> Option<&'static str> {
    let mut known = FLAGS.iter().filter(|(flags, _)| flags.split_whitespace().any(|f| f == flag));
    known.next().map(|(_, hint)| *hint)
}

/// The flag of a command with this long name.
pub(crate) fn named<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    command.get_arguments().find(|arg| {
        arg.get_long() == Some(name)
            || arg.get_all_aliases().is_some_and(|names| names.contains(&name))
    })
}

/// The flag of a command that is written so, but for a value.
fn own<'a>(command: &'a Command, written: &str) -> Option<&'a Arg> {
    if let Some(long) = written.strip_prefix("--") {
        let name = long.split('=').next().unwrap_or_default();
        return named(command, name);
    }
    let mut letters = written.chars().skip(1);
    let (Some(letter), None) = (letters.next(), letters.next()) else { return None };
    command.get_arguments().find(|arg| {
        arg.get_short() == Some(letter)
            || arg.get_all_short_aliases().is_some_and(|letters| letters.contains(&letter))
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::args::Cli;

    fn flagged(args: &[&str]) -> Option<String> {
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        check(&args, &Cli::command()).err().map(|error| error.to_string())
    }

    #[test]
    fn no_flag_is_listed_twice_and_none_is_the_programs_own() {
        let mut flags: Vec<&str> =
            FLAGS.iter().flat_map(|(flags, _)| flags.split_whitespace()).collect();
        let program = Cli::command();
        let run = program.find_subcommand("run").expect("run");
        for flag in &flags {
            assert!(own(run, flag).is_none(), "{flag}");
        }
        let all = flags.len();
        flags.sort_unstable();
        flags.dedup();
        assert_eq!(flags.len(), all);
    }

    #[test]
    fn what_follows_a_flag_of_the_programs_own_is_its_value() {
        for fine in [
            &["run", "-p", "--color"][..],
            &["run", "--stop", "-r", "--echo"],
            &["run", "--", "-fa"],
            &["run", "-n5", "x"],
            &["run", "--prompt=-c"],
        ] {
            assert_eq!(flagged(fine), None, "{fine:?}");
        }
        for foreign in
            [&["run", "--echo", "-i"][..], &["chat", "-t", "4", "-i"], &["-m", "x", "-i"]]
        {
            let message = flagged(foreign).expect("a flag of llama.cpp");
            assert!(message.starts_with("-i is a flag of llama.cpp that "), "{message}");
        }
    }
}
