use std::{collections::BTreeMap, fmt};

use crate::{
    BuildContext, Chain, ChainError, Kind, Place, Registry, RngKind, Seed, StageError, Vocab,
    chain::Link,
};

/// The stage that `--samplers` ends with where it names no selecting one.
const IMPLIED_SELECTOR: &str = "dist";

/// A chain as data: an ordered list of stages with their parameters.
///
/// Read from a chain file by [`FromStr`](std::str::FromStr), or from a list by
/// [`from_samplers`](Self::from_samplers). Nothing is looked up before
/// [`build`](Self::build).
///
/// ```
/// # use logitchain_core::{ChainConfig, Seed};
/// let file: ChainConfig = r#"
///     title = "an example"
///     seed = 7
///
///     [[stage]]
///     use = "top_k"
///     k = 40
///
///     [[stage]]
///     use = "dist"
/// "#.parse()?;
/// let mut list = ChainConfig::from_samplers("top_k{k=40};dist")?;
/// list.seed = Seed::Fixed(7);
/// assert_eq!(file.to_string(), list.to_string());
/// # Ok::<(), logitchain_core::ChainError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChainConfig {
    /// A name for people.
    pub title: Option<String>,
    /// Where the settings come from.
    pub source: Option<String>,
    /// What else there is to know.
    pub note: Option<String>,
    /// Decides all random choices.
    pub seed: Seed,
    /// The generator that makes them.
    pub rng: RngKind,
    /// In the order in which they run.
    pub stages: Vec<StageConfig>,
    /// Whether a selecting stage is added where none is listed.
    pub(crate) implied_selector: bool,
}

/// A stage as written in a chain file or list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StageConfig {
    /// Name or alias.
    pub name: String,
    /// The parameters that are given.
    pub params: toml::Table,
    /// The lines of the file on which `use` and the parameters stand.
    pub(crate) lines: BTreeMap<String, usize>,
}

impl StageConfig {
    /// A stage with its default parameters.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// Sets a parameter.
    #[must_use]
    pub fn with(mut self, param: impl Into<String>, value: impl Into<toml::Value>) -> Self {
        self.params.insert(param.into(), value.into());
        self
    }

    pub(crate) fn place(&self, stage: usize, key: &str) -> Place {
        let line = self.lines.get(key).or_else(|| self.lines.get("use"));
        Place { line: line.copied(), stage }
    }
}

impl fmt::Display for StageConfig {
    /// As in a list: `top_k{k=40}`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        for (nth, (param, value)) in self.params.iter().enumerate() {
            write!(f, "{}{param}={value}", if nth == 0 { "{" } else { "," })?;
        }
        f.write_str(if self.params.is_empty() { "" } else { "}" })
    }
}

impl fmt::Display for ChainConfig {
    /// The list that [`ChainConfig::from_samplers`] reads:
    /// `top_k{k=40};temperature;dist`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, stage) in self.stages.iter().enumerate() {
            write!(f, "{}{stage}", if nth == 0 { "" } else { ";" })?;
        }
        Ok(())
    }
}

impl ChainConfig {
    /// Builds the chain for a vocabulary.
    ///
    /// # Errors
    ///
    /// If a stage is unknown, a parameter is wrong or the order makes no sense.
    pub fn build(&self, registry: &Registry, vocab: &dyn Vocab) -> Result<Chain, ChainError> {
        let seed = self.seed.resolve()?;
        self.rng.check(seed)?;
        let mut stages = self.stages.clone();
        let known = stages
            .iter()
            .zip(1..)
            .map(|(stage, nth)| registry.require(&stage.name, stage.place(nth, "use")))
            .collect::<Result<Vec<_>, _>>()?;
        if let Some(nth) = known.iter().position(|stage| stage.kind == Kind::Select) {
            if nth + 1 < stages.len() {
                let at = stages[nth].place(nth + 1, "use");
                return Err(ChainError::SelectorNotLast { at, name: known[nth].name });
            }
        } else if self.implied_selector {
            stages.push(StageConfig::new(IMPLIED_SELECTOR));
        } else {
            let all = registry.iter().filter(|stage| stage.kind == Kind::Select);
            let known = all.map(|stage| stage.name).collect::<Vec<_>>().join(", ");
            return Err(ChainError::NoSelector { known });
        }

        let context = BuildContext::new(vocab, self.rng, seed);
        let mut seen = BTreeMap::<&str, u64>::new();
        let mut links = Vec::with_capacity(stages.len());
        for (stage, position) in stages.iter().zip(1..) {
            let at = stage.place(position, "use");
            let registration = registry.require(&stage.name, at)?;
            let name = registration.name;
            let nth = seen.entry(name).or_default();
            let built = registration.build(&stage.params, &context.for_stage(name, *nth)).map_err(
                |source| {
                    let param = match &source {
                        StageError::UnknownParam { param, .. } | StageError::Type { param, .. } => {
                            param
                        }
                        StageError::Param(error) => error.param(),
                    };
                    ChainError::Stage { at: stage.place(position, param), name, source }
                },
            )?;
            // A stage that is not run is as good as absent, for the streams too.
            *nth += u64::from(!built.neutral);
            links.push(Link::new(registration, built));
        }
        Ok(Chain::new(links, self.rng, seed))
    }
}
