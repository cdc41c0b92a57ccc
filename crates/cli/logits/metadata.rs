use std::collections::HashMap;

use logitchain_core::TokenId;

/// The key of the model's name.
pub(super) const MODEL: &str = "model";

/// Those of its chain's stages, and of the seed.
pub(super) const CHAIN: &str = "chain";
pub(super) const SEED: &str = "seed";

/// What a recording notes about how it came to be.
#[derive(Debug)]
pub(crate) struct Metadata {
    /// The name of the model's file, or [`EMBEDDED`](crate::model_args::EMBEDDED).
    pub(crate) model: String,
    /// The stages, as `--samplers` takes them.
    pub(crate) chain: String,
    pub(crate) seed: u64,
    pub(crate) rng: &'static str,
}

impl Metadata {
    /// Keys and values.
    pub(crate) fn entries(&self) -> HashMap<String, String> {
        let Self { model, chain, seed, rng } = self;
        let seed = seed.to_string();
        let entries = [(MODEL, &**model), (CHAIN, chain), (SEED, &seed), ("rng", rng)];
        entries.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
    }
}

/// What a file says besides its logits.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// Chosen at each step.
    pub(super) tokens: Option<Vec<TokenId>>,
    pub(super) prompt: Vec<TokenId>,
    /// The name of the model, as in [`Metadata`].
    pub(super) model: Option<String>,
    /// The stages and the seed, likewise.
    pub(super) chain: Option<(String, String)>,
}
