//! Where logits come from: a model that reads a prompt, the command line, or a
//! file that holds a row of them for every token of a text.

mod element;
mod metadata;
mod npy;
mod recording;
mod rows;
mod safetensors;
mod steps;
mod typed;

use std::{
    num::NonZero,
    path::{Path, PathBuf},
};

use clap::Args;
use logitchain_core::{Chain, Link, NoVocab, Registry, TokenId, Vocab};
use logitchain_engine::{EngineError, GgufModel, Model as _, Special, prompt_tokens};

use self::typed::TypedLogits;
pub(crate) use self::{
    metadata::Metadata,
    recording::Recording,
    safetensors::{LOGITS, PROMPT, TOKENS},
};
use crate::{
    chain_args::ChainPlan, count::count, model_args::ModelArgs, output::tell, prompt::PromptArgs,
    report::Failure,
};

/// What these ask of a vocabulary cannot be left out.
const NEEDS_TEXTS: [&str; 2] = ["dry", "infill"];

/// The logits of one step of a text.
#[derive(Debug, Args)]
pub(crate) struct LogitsArgs {
    #[command(flatten)]
    prompt: PromptArgs,
    /// Read \n, \t, \xHH and the like in prompts too, as llama.cpp does by
    /// default
    #[arg(short, long)]
    escape: bool,
    /// Let printed forms of special tokens in the prompt, such as `</s>`,
    /// stand for these tokens
    #[arg(long)]
    special: bool,
    /// Take these logits, one for each token from id 0 on, instead of a model's
    #[arg(
        long,
        value_name = "X,X,...",
        allow_hyphen_values = true,
        conflicts_with_all = ["text", "flag", "file", "escape", "special", "step", "logits_file"]
    )]
    logits: Option<TypedLogits>,
    /// Take the logits of a file: .npy or .safetensors, as `record` writes it
    ///
    /// An .npy file holds f16, f32 or f64 in the shape [vocabulary] or [steps,
    /// vocabulary]. A .safetensors file holds such a tensor, called `logits` if
    /// there are others, in f16, bf16, f32 or f64; the tensor `tokens` says what
    /// was chosen at each step, and `prompt` what stood before. The chain then
    /// hears these. Without `tokens` every row stands for itself.
    ///
    /// Tokens are shown with their texts if -m names their model, or if `record`
    /// has noted that it was the one in the program.
    ///
    /// Of a text, all rows up to the one that is shown must be right; of rows without
    /// `tokens`, only this one.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["text", "flag", "file", "escape", "special"]
    )]
    logits_file: Option<PathBuf>,
    /// Take the logits before the N-th token of the text, counted from 1: as the
    /// chain would generate it, or row N of the file [default: 1]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = count)]
    step: Option<NonZero<usize>>,
    #[command(flatten)]
    model: ModelArgs,
}

/// Where the logits are.
#[derive(Debug)]
pub(crate) enum Logits {
    /// To be computed after these tokens.
    Prompt {
        /// By this model.
        model: GgufModel,
        /// Beginning of text included.
        tokens: Vec<TokenId>,
    },
    /// Known already.
    Recorded {
        /// What was recorded.
        recording: Recording,
        /// Has the texts of the tokens, if they are known.
        model: Option<GgufModel>,
    },
}

impl LogitsArgs {
    /// Opens the file, or reads the prompt, and loads the model that belongs to
    /// it.
    pub(crate) fn open(&self) -> Result<Logits, Failure> {
        let recording = match (&self.logits, &self.logits_file) {
            (Some(logits), _) => Recording::typed(logits.0.clone()),
            (_, Some(path)) => Recording::open(path)?,
            (None, None) => {
                let prompt = self.prompt.read(self.escape)?;
                let (model, _) = self.model.load()?;
                let special = if self.special { Special::Parse } else { Special::Plain };
                let tokens = prompt_tokens(model.tokenizer(), &prompt, special)?;
                if tokens.is_empty() {
                    return Err(EngineError::EmptyPrompt.into());
                }
                return Ok(Logits::Prompt { model, tokens });
            }
        };
        let model = match &self.model.model {
            Some(path) => {
                let (model, _) = self.model.load()?;
                let (tokens, logits) = (model.tokenizer().size(), recording.vocabulary());
                if tokens != logits {
                    return Err(Failure::Usage(format!(
                        "the model '{}' has {tokens} tokens, and {} has {logits} logits",
                        path.display(),
                        recording.place()
                    )));
                }
                Some(model)
            }
            None if self.model.threads.is_some() => {
                let problem = "--threads is for a model; without -m there is none to compute";
                return Err(Failure::Usage(problem.to_owned()));
            }
            None if recording.is_of_embedded() => {
                let model = GgufModel::embedded();
                (model.tokenizer().size() == recording.vocabulary()).then_some(model)
            }
            None => None,
        };
        Ok(Logits::Recorded { recording, model })
    }

    /// The step that was asked for, if one was.
    pub(crate) fn asked_step(&self) -> Option<usize> {
        self.step.map(NonZero::get)
    }

    /// Whether a path leads to the file with the logits.
    pub(crate) fn reads(&self, path: &Path) -> bool {
        let whole = |path: &Path| path.canonicalize().ok();
        let own = self.logits_file.as_deref().and_then(whole);
        own.is_some() && own == whole(path)
    }

    /// The step that was asked for, from 1.
    pub(crate) fn step(&self) -> usize {
        self.asked_step().unwrap_or(1)
    }
}

impl Logits {
    /// The stages that chose recorded tokens, as `--samplers` takes them, and their seed.
    pub(crate) fn recorded_chain(&self) -> Option<(&str, &str)> {
        match self {
            Self::Prompt { .. } => None,
            Self::Recorded { recording, .. } => recording.chain(),
        }
    }

    /// The texts of the tokens; none if they are not known.
    pub(crate) fn vocab(&self) -> &dyn Vocab {
        match self {
            Self::Prompt { model, .. } | Self::Recorded { model: Some(model), .. } => {
                model.tokenizer()
            }
            Self::Recorded { model: None, .. } => &NoVocab,
        }
    }

    /// What stands before the first step, for the chain to hear; nothing if it is not
    /// known.
    pub(crate) fn prompt(&self) -> &[TokenId] {
        match self {
            Self::Prompt { tokens, .. } => tokens,
            Self::Recorded { recording, .. } if recording.token(0).is_some() => recording.prompt(),
            Self::Recorded { .. } => &[],
        }
    }

    /// The chain for these logits.
    pub(crate) fn chain(&self, plan: ChainPlan, registry: &Registry) -> Result<Chain, Failure> {
        if let Self::Prompt { model, .. } | Self::Recorded { model: Some(model), .. } = self {
            return plan.for_model(registry, model, &mut |line| tell(line));
        }
        if plan.ignores_eos() {
            let problem = "--ignore-eos needs a model's vocabulary: give the model with -m";
            return Err(Failure::Usage(problem.to_owned()));
        }
        let chain = plan.for_vocab(registry, &NoVocab)?;
        check_texts(&chain, &NoVocab)?;
        Ok(chain)
    }

    /// The logits of a step, counted from 1. The chain, new at first, has then
    /// done all that came before: it has heard the text, and has drawn for every
    /// token of it that is not the prompt's.
    pub(crate) fn at(&mut self, step: usize, chain: &mut Chain) -> Result<Vec<f32>, Failure> {
        match self {
            Self::Prompt { model, tokens } => generated(model, tokens, step, chain),
            Self::Recorded { recording, .. } => replayed(recording, step, chain),
        }
    }
}

/// Whether all stages have the texts of the tokens that they need.
pub(crate) fn check_texts(chain: &Chain, vocab: &dyn Vocab) -> Result<(), Failure> {
    let blind = |link: &&Link| !link.is_neutral() && NEEDS_TEXTS.contains(&link.name());
    match chain.stages().iter().find(blind) {
        Some(link) if vocab.size() == 0 => Err(Failure::Usage(format!(
            "the stage `{}` needs a model's vocabulary: give the model with -m",
            link.name()
        ))),
        _ => Ok(()),
    }
}

fn generated(
    model: &GgufModel,
    prompt: &[TokenId],
    step: usize,
    chain: &mut Chain,
) -> Result<Vec<f32>, Failure> {
    let mut session = model.session();
    let mut logits = session.forward(prompt)?.to_vec();
    prompt.iter().for_each(|&token| chain.accept(token));
    for nth in 1..step {
        let token = chain.sample(&mut logits);
        let token = token.map_err(|source| Failure::Sample { nth, source })?;
        chain.accept(token);
        let ended = model.tokenizer().is_end_of_generation(token);
        let full = session.context_length().is_some_and(|length| session.position() >= length);
        if ended || full {
            let why = if ended { "the model ends it there" } else { "the context is full" };
            return Err(Failure::Usage(format!(
                "--step {step}: token {nth} is the text's last; {why}"
            )));
        }
        logits = session.forward(&[token])?.to_vec();
    }
    Ok(logits)
}

fn replayed(
    recording: &mut Recording,
    step: usize,
    chain: &mut Chain,
) -> Result<Vec<f32>, Failure> {
    let steps = recording.len();
    if step > steps {
        let rows = if steps == 1 { "1 step".to_owned() } else { format!("steps 1 to {steps}") };
        let place = recording.place();
        return Err(Failure::Usage(format!("--step {step}: {place} has {rows}")));
    }
    if recording.token(0).is_some() {
        recording.prompt().iter().for_each(|&token| chain.accept(token));
    }
    for nth in 1..step {
        let Some(token) = recording.token(nth - 1) else { break };
        // Another chain may have chosen another token; the text has this one.
        let mut logits = recording.logits(nth - 1)?;
        chain.sample(&mut logits).map_err(|source| Failure::Sample { nth, source })?;
        chain.accept(token);
    }
    recording.logits(step - 1)
}
