use std::fmt::{self, Debug};

use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};

use crate::{ParamError, RngKind, Sampler, StageRng, Vocab};

/// What a stage may do to the candidates; the conformance tests hold it to that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Changes logits of single tokens, from what was accepted before or from
    /// its parameters.
    Penalty,
    /// Drops candidates; those that remain keep their logits.
    Filter,
    /// Changes all logits; their order stays, though far ones may be masked.
    Rescale,
    /// Settles on one token. A chain ends with one.
    Select,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Penalty => "penalty",
            Self::Filter => "filter",
            Self::Rescale => "rescale",
            Self::Select => "select",
        })
    }
}

/// A stage as a user writes it: the parameters, which build a [`Sampler`].
///
/// The implementing struct is the single source of everything known about the
/// stage. Its doc comment is the help text, its fields are the parameters,
/// their doc comments say what they mean, and its `Default` gives the defaults;
/// all of that is read through [`JsonSchema`].
///
/// # For implementors
///
/// Derive `Debug, Serialize, Deserialize, JsonSchema`, and put
/// `#[serde(default, deny_unknown_fields)]` on the struct. On a field,
/// `#[schemars(range(min = 0.0, max = 1.0))]` states a range, which `build`
/// must check, and `#[schemars(extend("flags" = ["top-k"]))]` gives the
/// parameter a flag of its own on the command line; without one it is set in a
/// chain file or in braces, as every parameter can be.
///
/// Use `f64` for real parameters, `f32` defaults print badly. The conformance
/// crate holds a stage to all of this.
pub trait Stage: Serialize + DeserializeOwned + JsonSchema + Default + Debug + 'static {
    /// Name in chain files, `snake_case`, as the literature has it.
    const NAME: &'static str;
    /// What the stage may do.
    const KIND: Kind;
    /// Other names that are accepted. Case, `-` and `_` never matter.
    const ALIASES: &'static [&'static str] = &[];
    /// Name in a printed chain, where it is not `NAME` with `-` for `_`.
    const LABEL: Option<&'static str> = None;
    /// Letter in llama.cpp's `--sampling-seq`. No two stages of a registry may
    /// have the same one, and llama.cpp's are taken: most stages have none.
    const LETTER: Option<char> = None;

    /// Parameters that make the stage do nothing, if there are such.
    fn neutral() -> Option<Self> {
        None
    }

    /// Whether these parameters make the stage do nothing. A chain prints such
    /// a stage with a `?`, and does not run it.
    ///
    /// The provided method compares with [`neutral`](Self::neutral).
    fn is_neutral(&self) -> bool {
        let table = |stage: &Self| toml::Table::try_from(stage).ok();
        Self::neutral().is_some_and(|neutral| table(&neutral) == table(self))
    }

    /// Checks the parameters and makes the sampler.
    ///
    /// # Errors
    ///
    /// If a parameter is out of range.
    fn build(self, cx: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError>;
}

/// What a stage is given while it is built.
#[derive(Clone, Copy, Debug)]
pub struct BuildContext<'a> {
    vocab: &'a dyn Vocab,
    rng: RngKind,
    seed: u64,
    name: &'a str,
    nth: u64,
}

impl<'a> BuildContext<'a> {
    /// For a stage on its own. In a [`Chain`](crate::Chain), the chain makes
    /// the contexts.
    pub fn new(vocab: &'a dyn Vocab, rng: RngKind, seed: u64) -> Self {
        Self { vocab, rng, seed, name: "", nth: 0 }
    }

    /// For the `nth` stage called `name`.
    pub(crate) fn for_stage(self, name: &'a str, nth: u64) -> Self {
        Self { name, nth, ..self }
    }

    /// The vocabulary of the model that the chain is built for.
    pub fn vocab(&self) -> &'a dyn Vocab {
        self.vocab
    }

    /// A random stream of the stage's own. Adding or removing a stage of another
    /// name leaves it as it is; of several stages of one name, each that is not
    /// neutral takes the next stream.
    pub fn rng(&self) -> StageRng {
        StageRng::for_stage(self.rng, self.seed, self.name, self.nth)
    }
}
