use std::{num::NonZero, path::PathBuf};

use clap::{Args, CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;

use crate::{
    chain_args::{ChainArgs, GeneralArgs},
    count::count,
    logits::LogitsArgs,
    model_args::ModelArgs,
    prompt::PromptArgs,
};

/// Sampler chains for language models: see them, order them, extend them, trust
/// them.
#[derive(Debug, Parser)]
#[command(name = "logitchain", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The command line without the flags of stages.
pub(crate) fn command() -> clap::Command {
    // The same flag as in `run`, but the model in the program is no use.
    Cli::command().mut_subcommand("chat", |chat| {
        chat.mut_arg("model", |model| {
            model.help(
                "A GGUF file with a chat template; needed, since the small model in the program \
                 has none",
            )
        })
    })
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Continue a text
    ///
    /// Generated text goes to stdout; the seed, the chain and the reason for
    /// stopping go to stderr. Exit codes: 0 fine, 1 the model or the sampling
    /// failed, 2 the command line or the chain is wrong, or a file is not there.
    ///
    /// Every parameter of every stage can be set in braces, as in
    /// `--samplers 'top_k{k=40};min_p{p=0.1};temperature'`. Many have flags as
    /// well, with llama.cpp's names. A flag sets its parameter on every
    /// occurrence of its stage; it is an error if the stage is not in the chain,
    /// or has the parameter in braces already. On top of --chain, a flag
    /// replaces the value of the file.
    Run(RunArgs),

    /// Show what each stage of a chain does to the candidates for one token
    ///
    /// The logits are a model's, for the next token of a text or, with --step, a
    /// later one; or those of --logits or --logits-file. The token is the one
    /// that `run` picks there with the same chain and seed.
    Explain(ExplainArgs),

    /// Show what each token of a generated text was drawn from
    ///
    /// For every token the most likely ones, with their probabilities as the model
    /// gave them and as the chain makes them, whatever its random numbers are.
    Probs(ProbsArgs),

    /// Continue a text, and save the logits of every token
    ///
    /// The text and its tokens are those of `run`. The file is in the format
    /// safetensors: `logits` [steps, vocabulary], as the model gave them, `tokens`
    /// [steps], and `prompt`, with the model, the chain, the seed and the generator
    /// in its metadata. `explain --logits-file` reads it. It is written as a whole
    /// when the text is over, or not at all.
    Record(RecordArgs),

    /// Talk to a model that has a chat template, given with -m
    ///
    /// One line is one turn: typed, or piped in. The conversation ends with the
    /// input (Ctrl-D). The chain sees the whole conversation, template included,
    /// and keeps its state from turn to turn. What you write is plain text: the
    /// printed form of a special token in it stays text.
    Chat(ChatArgs),

    /// Continue many texts at once: requests from a file of JSON lines
    ///
    /// A line is a request, such as `{"prompt": "Once", "n": 2, "top_k": 40,
    /// "stop": ["x"]}`. `prompt` is needed; `id` names the results, and is the
    /// line's number if it is left out; `n` is how many texts there are to be,
    /// each with a seed of its own, of which the first is the request's. Other
    /// keys are the flags below but for those about the program and the model,
    /// and replace the flags given here; one that says what the chain is
    /// (`chain`, `samplers`, `sampling_seq`, `mirostat`, `greedy`) replaces all
    /// of those.
    ///
    /// A result is a line of JSON too, in the order of the requests: `id`,
    /// `sample` where `n` is above 1, `request` (a fingerprint of all that decides
    /// the text but for the seed), `seed`, `text`, `tokens`, and in `stop` why the
    /// text ends: `end_of_generation`, `stop_string`, `token_limit` or
    /// `context_full`. It is what `run` writes with the same flags and seed. Where
    /// a text cannot be continued there is `error` instead.
    ///
    /// All lines are checked before the first text, and with --memory whether there
    /// is room for each. Exit codes: 0 fine, 1 some requests or the model failed, 2
    /// a line or the command line is wrong, or a file is not there.
    Batch(BatchArgs),
    /// Compare two chains: what each would choose from the same logits
    ///
    /// A chain is a list of stages, as for --samplers, or a chain file whose name
    /// ends in .toml. Flags of stages apply to both chains; one of them need not
    /// have the stage. With -n, or a recorded text, the chains are compared at every
    /// step of a text.
    ///
    /// The Kullback-Leibler divergence KL(A, B) is the sum of a log2(a / b), and
    /// infinite where only A can choose some token.
    Compare(CompareArgs),

    /// Compare settings of a chain on one token's logits
    ///
    /// A flag of a stage takes a list (`--min-p 0,0.05,0.1`), a range
    /// (`--temp 0.2..2:0.2`, low..high:step, both ends included), or both; all
    /// combinations are compared. Without a chain and flags, twelve common settings
    /// are.
    ///
    /// Columns: the entropy in bits and the number of tokens of the final
    /// distribution; how much of the model's own probability was removed; the
    /// entropy of the tokens drawn; the probability that draws from the exact
    /// distribution would be off as much (chi-squared); and whether the same seed
    /// gave the same draws again.
    Sweep(SweepArgs),

    /// List the stages or describe one, or list what model files can be run
    ///
    /// One line for each stage: name (and its name in a printed chain, where
    /// that differs), kind, letter, crate, aliases, the values that turn it off,
    /// and its parameters with defaults and ranges.
    List(ListArgs),

    /// Check chain files, and print their chains
    ///
    /// Exit code 2 and a message with file, line and stage for each that is wrong.
    /// Token ids are checked only against a model given with -m.
    Check(CheckArgs),

    /// Print the JSON Schema of chain files
    ///
    /// Editors complete and check chain files with it.
    Schema,

    /// Print the completions for a shell
    Completions {
        /// Which shell
        shell: Shell,
    },
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Write so many texts, one after the other, each with a seed of its own;
    /// the first is the one that is written without this flag
    ///
    /// The prompt is read once. Where a text cannot be continued, the others are
    /// written all the same, and the exit code is 1. `batch` gives the texts as
    /// lines of JSON.
    #[arg(
        long,
        value_name = "N",
        default_value = "1",
        allow_negative_numbers = true,
        value_parser = count
    )]
    pub(crate) n_samples: NonZero<usize>,
    #[command(flatten)]
    pub(crate) one: ContinueArgs,
}

/// How to continue one text.
#[derive(Debug, Args)]
pub(crate) struct ContinueArgs {
    #[command(flatten)]
    pub(crate) prompt: PromptArgs,
    /// Print the prompt before the generated text
    #[arg(long)]
    pub(crate) echo: bool,
    /// Write a line of JSON for every token to a new file: its probabilities, and
    /// how many candidates each stage left in how many microseconds
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) timing: TimingArgs,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) text: TextArgs,
}

#[derive(Debug, Args)]
pub(crate) struct BatchArgs {
    /// The requests, one a line; - for stdin
    #[arg(value_name = "FILE.jsonl")]
    pub(crate) file: PathBuf,
    /// Write the results to this file; what is there already of the same
    /// requests is kept, and only the rest is computed
    ///
    /// A result that is an error is kept as well: it comes of the request, the model
    /// and the chain alone, and would be the same again. A change of these makes
    /// another request, which needs another file.
    #[arg(short, long, value_name = "FILE.jsonl")]
    pub(crate) out: Option<PathBuf>,
    /// Continue so many texts at once; no text depends on it
    #[arg(
        long,
        value_name = "N",
        default_value = "16",
        allow_negative_numbers = true,
        value_parser = count
    )]
    pub(crate) parallel: NonZero<usize>,
    /// Let the keys and values of these texts take so many million bytes; texts
    /// wait for room [default: no limit]
    #[arg(
        long,
        value_name = "MB",
        allow_negative_numbers = true,
        value_parser = count
    )]
    pub(crate) memory: Option<NonZero<usize>>,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) text: TextArgs,
}

/// What holds for one text: for that of `run`, and for each line of a batch.
#[derive(Debug, Args)]
pub(crate) struct TextArgs {
    /// Let printed forms of special tokens in the prompt, such as `</s>`,
    /// stand for these tokens, as llama.cpp does; otherwise they are plain text
    #[arg(long)]
    pub(crate) special: bool,
    #[command(flatten)]
    pub(crate) generate: GenerateArgs,
    #[command(flatten)]
    pub(crate) chain: ChainArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// Show so many tokens
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) top: usize,
    /// Say what became of this token, an id or a text (can be repeated)
    ///
    /// Which stage dropped it by which threshold, or how likely it was at the end.
    /// \n, \t, \xHH and the like are read; quotes around a text are not part of it,
    /// so that '"7"' is the text 7, and 7 an id.
    #[arg(long, value_name = "TOKEN", allow_hyphen_values = true)]
    pub(crate) token: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Watch the chain in the terminal, token by token, and try changes of it
    ///
    /// It begins at --step, and the key ? shows the others. A changed chain is run
    /// again over all steps before, so their logits are kept, up to 256 MiB.
    #[arg(long, conflicts_with_all = ["top", "token", "json"])]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) logits: LogitsArgs,
    #[command(flatten)]
    pub(crate) chain: ChainArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ProbsArgs {
    #[command(flatten)]
    pub(crate) prompt: PromptArgs,
    /// Show so many tokens at each step
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) top: usize,
    /// Print a line of JSON for each step
    #[arg(long)]
    pub(crate) json: bool,
    /// Let printed forms of special tokens in the prompt, such as `</s>`,
    /// stand for these tokens
    #[arg(long)]
    pub(crate) special: bool,
    #[command(flatten)]
    pub(crate) timing: TimingArgs,
    #[command(flatten)]
    pub(crate) generate: GenerateArgs,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) chain: ChainArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RecordArgs {
    /// The file to write
    #[arg(short, long, value_name = "FILE.safetensors")]
    pub(crate) output: PathBuf,
    /// Replace the file if it is there
    #[arg(long)]
    pub(crate) force: bool,
    /// Store logits as f16, in half of the space, rounded to three or four digits
    #[arg(long)]
    pub(crate) f16: bool,
    #[command(flatten)]
    pub(crate) run: ContinueArgs,
}

/// What holds for a generated text, in `run`, `batch` and `chat`.
#[derive(Debug, Args)]
pub(crate) struct GenerateArgs {
    /// Generate at most so many tokens; -1: until the model ends the text or
    /// the context is full [default: 128, in a chat 512 per
    /// turn, for `probs` 8]
    #[arg(
        short = 'n',
        long,
        visible_alias = "n-predict",
        value_name = "N",
        allow_negative_numbers = true,
        value_parser = token_limit
    )]
    pub(crate) predict: Option<TokenLimit>,
    /// End the text before this one (can be repeated); \n, \t, \xHH and the
    /// like are read as in llama.cpp
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) stop: Vec<String>,
    /// Read \n, \t, \xHH and the like in prompts too, as llama.cpp does by
    /// default
    #[arg(short, long)]
    pub(crate) escape: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TimingArgs {
    /// Print a table of tokens, speed and where the time went
    #[arg(long)]
    pub(crate) timing: bool,
}

/// How many tokens to generate; `None` without limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenLimit(pub(crate) Option<usize>);

fn token_limit(text: &str) -> Result<TokenLimit, &'static str> {
    match text.parse() {
        Ok(limit) => Ok(TokenLimit(Some(limit))),
        Err(_) if text == "-1" => Ok(TokenLimit(None)),
        Err(_) => Err("write a whole number, or -1 for no limit"),
    }
}

#[derive(Debug, Args)]
pub(crate) struct ChatArgs {
    /// Tell the model at the start what it is to be
    #[arg(long, visible_alias = "system-prompt", value_name = "TEXT")]
    pub(crate) system: Option<String>,
    /// Write a line of JSON for every token to a new file: its probabilities, and
    /// how many candidates each stage left in how many microseconds
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) timing: TimingArgs,
    #[command(flatten)]
    pub(crate) generate: GenerateArgs,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) chain: ChainArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// A list of stages, or a chain file
    #[arg(value_name = "A")]
    pub(crate) a: String,
    /// Another one
    #[arg(value_name = "B")]
    pub(crate) b: String,
    /// Compare at each of up to N tokens of a text, the one that A writes after the
    /// prompt or the one of --logits-file; -1: until it ends [default: one token; of
    /// a file without --step all]
    #[arg(
        short = 'n',
        long,
        visible_alias = "n-predict",
        value_name = "N",
        allow_negative_numbers = true,
        value_parser = compared_tokens,
        conflicts_with_all = ["step", "top"]
    )]
    pub(crate) predict: Option<TokenLimit>,
    /// Show so many of either chain's most likely tokens [default: 10]
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) logits: LogitsArgs,
    #[command(flatten)]
    pub(crate) general: GeneralArgs,
}

fn compared_tokens(text: &str) -> Result<TokenLimit, &'static str> {
    match token_limit(text) {
        Ok(TokenLimit(Some(0))) | Err(_) => Err("write a whole number from 1, or -1 for no limit"),
        limit => limit,
    }
}

#[derive(Debug, Args)]
pub(crate) struct SweepArgs {
    /// Draw so many tokens with every setting
    #[arg(
        long,
        value_name = "N",
        default_value = "50000",
        allow_negative_numbers = true,
        value_parser = draw_count
    )]
    pub(crate) draws: u32,
    /// Write the table to a file, as comma-separated values
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Draw entropy and number of tokens over the first flag that has several
    /// values, a line for each combination of the others
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Replace these files if they are there
    #[arg(long)]
    pub(crate) force: bool,
    /// Print JSON instead of the table
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) logits: LogitsArgs,
    #[command(flatten)]
    pub(crate) chain: ChainArgs,
}

fn draw_count(text: &str) -> Result<u32, &'static str> {
    let count = text.parse().ok().filter(|count| (1..=10_000_000).contains(count));
    count.ok_or("write a whole number from 1 to 10000000")
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Describe this stage in full (a name or an alias)
    pub(crate) stage: Option<String>,
    /// List what model files can be run, instead of stages
    #[arg(long, conflicts_with = "stage")]
    pub(crate) engine: bool,
    /// Print the table of the README
    #[arg(long, conflicts_with = "stage")]
    pub(crate) markdown: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Chain files, or folders: all .toml files in them
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Check token ids and texts against this model as well
    #[arg(short, long, value_name = "MODEL.gguf")]
    pub(crate) model: Option<PathBuf>,
}
