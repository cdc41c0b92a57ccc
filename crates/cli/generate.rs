//! What `run` and `chat` have in common.

use logitchain_core::{Chain, Kind, Link, TokenId};
use logitchain_engine::{
    EngineError, GenerateOptions, Generation, Model, StopReason, StopStrings, Timings, TokenPicker,
};

use crate::{
    args::{GenerateArgs, TokenLimit},
    escape::unescape,
    output::{Stream, tell},
    progress::Progress,
    report::Failure,
};

/// A text that has been generated.
#[derive(Debug)]
pub(crate) struct Generated {
    pub(crate) text: String,
    pub(crate) tokens: Vec<TokenId>,
    pub(crate) stopped: StopReason,
    pub(crate) timings: Timings,
}

impl GenerateArgs {
    /// When to stop; without a limit of its own, at so many tokens.
    pub(crate) fn options(&self, default_limit: usize) -> Result<GenerateOptions, Failure> {
        let TokenLimit(max_tokens) = self.predict.unwrap_or(TokenLimit(Some(default_limit)));
        let stops = StopStrings::new(self.stop.iter().map(|text| unescape(text)))?;
        Ok(GenerateOptions { max_tokens, stops, ..GenerateOptions::default() })
    }

    /// Whether no token is asked for.
    pub(crate) fn generates_nothing(&self) -> bool {
        matches!(self.predict, Some(TokenLimit(Some(0))))
    }
}

/// Tells on stderr what is about to draw.
pub(crate) fn announce(chain: &Chain) {
    tell(format_args!("seed: {}", chain.seed()));
    describe(chain);
}

/// Tells on stderr what a chain is.
pub(crate) fn describe(chain: &Chain) {
    tell(format_args!("sampler chain: {chain}"));
    for (penalty, filter) in late_penalties(chain) {
        let (penalty, filter) = (penalty.name(), filter.name());
        tell(format_args!(
            "note: `{penalty}` stands after `{filter}`, and cannot bring back what that drops"
        ));
    }
}

/// The penalties that stand after a filter, each with the first such filter.
/// Both orders are right, but they are not the same, and most people want the
/// other one.
fn late_penalties(chain: &Chain) -> impl Iterator<Item = (&Link, &Link)> {
    let active = || chain.stages().iter().filter(|stage| !stage.is_neutral());
    let first = active().position(|stage| stage.kind() == Kind::Filter).unwrap_or(usize::MAX);
    let filter = active().nth(first);
    active()
        .skip(first)
        .filter(|stage| stage.kind() == Kind::Penalty)
        .filter_map(move |penalty| Some((penalty, filter?)))
}

/// Continues a prompt, writes the text as it comes, and calls `on_step` after each
/// token.
pub(crate) fn generate(
    model: &mut dyn Model,
    picker: &mut dyn TokenPicker,
    prompt: &[TokenId],
    options: &GenerateOptions,
    stream: &mut Stream,
    on_step: &mut dyn FnMut(TokenId) -> Result<(), Failure>,
) -> Result<Generated, Failure> {
    let progress = Progress::new(prompt.len());
    let done = |tokens| progress.done(tokens);
    let generation = Generation::with_progress(model, picker, prompt, options.clone(), done);
    progress.clear();
    let mut generation = generation?;

    let (mut text, mut tokens) = (String::new(), Vec::new());
    for step in &mut generation {
        let step = step.map_err(|error| match error {
            EngineError::Sample(source) => Failure::Sample { nth: tokens.len() + 1, source },
            error => error.into(),
        })?;
        stream.write(&step.text)?;
        text += &step.text;
        tokens.push(step.token);
        on_step(step.token)?;
    }
    let stopped = generation.stop_reason().expect("a generation ends for a reason").clone();
    Ok(Generated { text, tokens, stopped, timings: generation.timings() })
}

/// Why a text ends.
pub(crate) fn why(stopped: &StopReason, options: &GenerateOptions) -> String {
    match (stopped, options.max_tokens) {
        (StopReason::TokenLimit, Some(limit)) => format!("stopped: {stopped} ({limit})"),
        _ => format!("stopped: {stopped}"),
    }
}
