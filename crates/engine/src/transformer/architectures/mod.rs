//! What each architecture computes, as data: one file for each family.
//!
//! To add one, write its [`Architecture`] as what it has beyond [`PLAIN`], and
//! name it in [`KNOWN`]. A network with a part that no field describes needs
//! that part in `forward` first.

mod gemma;
mod llama;
mod phi;
mod qwen;

use super::activation::Activation;
use crate::{LoadError, gguf::Shown};

/// Every architecture that can be run.
pub(crate) static KNOWN: [&Architecture; 9] = [
    &llama::LLAMA,
    &llama::MISTRAL3,
    &llama::SMOLLM3,
    &qwen::QWEN2,
    &qwen::QWEN3,
    &gemma::GEMMA,
    &gemma::GEMMA2,
    &gemma::GEMMA3,
    &phi::PHI3,
];

/// What tells an architecture from others. Its numbers are in the file.
#[derive(Debug)]
pub(crate) struct Architecture {
    /// The file's `general.architecture`, with which its keys begin.
    pub(crate) name: &'static str,
    /// Well-known models that have it.
    pub(crate) models: &'static str,
    /// Which elements of queries and keys turn together.
    pub(super) pairs: Pairs,
    pub(super) rope_factors: RopeFactors,
    /// Whether files may temper the magnitude of `YaRN`.
    pub(super) yarn_multiplier: bool,
    /// Whether files may scale queries up with the position.
    pub(super) position_temperature: bool,
    /// Every so many layers, one does not turn queries and keys.
    pub(super) unturned_every: Option<usize>,
    pub(super) activation: Activation,
    /// Whether embeddings are multiplied by the root of their length.
    pub(super) scales_embedding: bool,
    pub(super) biases: Biases,
    /// Whether queries and keys are normalised, head by head.
    pub(super) head_norms: bool,
    /// Whether what attention and the feed-forward network give is normalised.
    pub(super) post_norms: bool,
    /// Whether `ffn_up` holds the rows of the gate, and then its own.
    pub(super) gate_in_up: bool,
    pub(super) windows: Option<Windows>,
    pub(super) attention_cap: Cap,
    pub(super) logit_cap: Cap,
    /// The number of layers of a model that divides queries by the root of
    /// width per head, and not of the head's length.
    pub(super) scaled_by_width: Option<usize>,
    /// Keys without effect, and why they have none.
    pub(super) without_effect: &'static [&'static str],
}

/// What most have in common.
const PLAIN: Architecture = Architecture {
    name: "",
    models: "",
    pairs: Pairs::Halves,
    rope_factors: RopeFactors::None,
    yarn_multiplier: false,
    position_temperature: false,
    unturned_every: None,
    activation: Activation::Silu,
    scales_embedding: false,
    biases: Biases::None,
    head_norms: false,
    post_norms: false,
    gate_in_up: false,
    windows: None,
    attention_cap: Cap::None,
    logit_cap: Cap::None,
    scaled_by_width: None,
    without_effect: &[],
};

/// Which elements rotary positions turn together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pairs {
    /// Elements 0 and 1, 2 and 3...
    Neighbours,
    /// The first of either half, the second of either half...
    Halves,
}

/// Tensors that divide the speed at which pairs turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RopeFactors {
    None,
    /// `rope_freqs`, if it is there; or two lists, if the file says `longrope`.
    Optional,
    /// One list for short contexts and one for long ones, if they are there.
    LongAndShort,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Biases {
    None,
    /// Queries, keys and values have them.
    Attention,
    /// Any product within a layer may have one.
    Optional,
}

/// Layers that look back only so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Windows {
    /// How far, in tokens, where the file does not say.
    pub(super) size: Option<usize>,
    /// Of so many layers the last one looks back all the way.
    pub(super) every: usize,
    /// The base of these layers' rotary positions, which are not scaled;
    /// `None` if they are those of all layers.
    pub(super) rope_base: Option<f32>,
}

/// Whether numbers are kept below a limit.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cap {
    None,
    /// If the file says so.
    Optional,
    /// This one, where the file has no other.
    Default(f32),
}

impl Architecture {
    /// The architecture of that name.
    pub(crate) fn named(name: &str) -> Result<&'static Self, LoadError> {
        KNOWN.into_iter().find(|known| known.name == name).ok_or_else(|| {
            let known = KNOWN.map(|known| known.name).join(", ");
            LoadError::Architecture { found: Shown(name).to_string(), known }
        })
    }
}
