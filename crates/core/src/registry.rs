use std::collections::BTreeMap;

use crate::{BuildContext, ChainError, Kind, Param, Place, Sampler, Stage, StageError};

/// Everything known about a stage, without its type.
#[derive(Clone, Copy, Debug)]
pub struct Registration {
    /// [`Stage::NAME`].
    pub name: &'static str,
    /// [`Stage::ALIASES`].
    pub aliases: &'static [&'static str],
    /// [`Stage::LETTER`].
    pub letter: Option<char>,
    /// [`Stage::KIND`].
    pub kind: Kind,
    /// The crate that registers it.
    pub origin: &'static str,
    label: Option<&'static str>,
    schema: fn() -> schemars::Schema,
    defaults: fn() -> toml::Table,
    neutral: fn() -> Option<toml::Table>,
    is_neutral: fn(&toml::Table) -> bool,
    build: BuildFn,
}

/// A stage that has been checked and built.
#[derive(Clone, Debug)]
pub struct Built {
    /// All parameters, the defaulted ones included.
    pub params: toml::Table,
    /// Whether the parameters make the stage do nothing.
    pub neutral: bool,
    /// The stage at run time.
    pub sampler: Box<dyn Sampler>,
}

type BuildFn = fn(&toml::Table, &BuildContext<'_>) -> Result<Built, StageError>;

inventory::collect!(Registration);

impl Registration {
    /// Describes `S`, as registered by the crate `origin`.
    pub const fn of<S: Stage>(origin: &'static str) -> Self {
        Self {
            name: S::NAME,
            aliases: S::ALIASES,
            letter: S::LETTER,
            kind: S::KIND,
            origin,
            label: S::LABEL,
            schema: || schemars::schema_for!(S),
            defaults: || to_table(&S::default()),
            neutral: || S::neutral().map(|s| to_table(&s)),
            is_neutral: |params| params.clone().try_into::<S>().is_ok_and(|s| s.is_neutral()),
            build: |params, cx| build::<S>(params, cx),
        }
    }

    /// The name in a printed chain: `top-k`.
    pub fn label(&self) -> String {
        self.label.map_or_else(|| self.name.replace('_', "-"), str::to_owned)
    }

    /// JSON Schema of the parameters, descriptions included.
    pub fn schema(&self) -> schemars::Schema {
        (self.schema)()
    }

    /// What the stage does, in one line.
    pub fn summary(&self) -> String {
        crate::param::summary(self.schema().as_value())
    }

    /// What the stage does, in full.
    pub fn description(&self) -> String {
        crate::param::description(self.schema().as_value())
    }

    /// The parameters, in the order in which the stage declares them.
    pub fn params(&self) -> Vec<Param> {
        crate::param::params(&self.schema(), &self.defaults())
    }

    /// The parameters that hold where a chain gives none.
    pub fn defaults(&self) -> toml::Table {
        (self.defaults)()
    }

    /// Parameters that make the stage do nothing, if there are such.
    pub fn neutral(&self) -> Option<toml::Table> {
        (self.neutral)()
    }

    /// The parameters on which it hangs that the stage does nothing, with the
    /// values at which it does: of the neutral parameters those whose change
    /// alone would make it do something. `None` if it always does something.
    ///
    /// ```
    /// # use logitchain_core::*;
    /// # #[derive(Debug, Clone, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
    /// # #[serde(default)]
    /// # struct Cut { p: f64, min_keep: u32 }
    /// # impl Default for Cut { fn default() -> Self { Self { p: 1.0, min_keep: 0 } } }
    /// # impl Sampler for Cut { fn apply(&mut self, _: &mut Candidates<'_>) {} }
    /// # impl Stage for Cut {
    /// #     const NAME: &'static str = "cut";
    /// #     const KIND: Kind = Kind::Filter;
    /// #     fn neutral() -> Option<Self> { Some(Self::default()) }
    /// #     fn is_neutral(&self) -> bool { self.p == 1.0 }
    /// #     fn build(self, _: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> { Ok(Box::new(self)) }
    /// # }
    /// // A stage with parameters `p` and `min_keep` that is off where `p` is 1.
    /// let off = Registration::of::<Cut>("this crate").off();
    /// assert_eq!(off, Some(toml::toml! { p = 1.0 }));
    /// ```
    pub fn off(&self) -> Option<toml::Table> {
        let neutral = self.neutral()?;
        let hangs_on = |param: &Param| {
            let near = neutral.get(&param.name).map(|value| param.neighbours(value));
            near.into_iter().flatten().any(|value| {
                let mut changed = neutral.clone();
                changed.insert(param.name.clone(), value);
                !(self.is_neutral)(&changed)
            })
        };
        let params = self.params();
        let switches: toml::Table = params
            .iter()
            .filter(|param| hangs_on(param))
            .filter_map(|param| Some((param.name.clone(), neutral.get(&param.name)?.clone())))
            .collect();
        // Where there is no telling, such as for a list, all that there are.
        Some(if switches.is_empty() { neutral } else { switches })
    }

    /// Makes the sampler from parameters as written in a chain file.
    ///
    /// # Errors
    ///
    /// If a parameter is unknown, of the wrong type or out of range.
    pub fn build(&self, params: &toml::Table, cx: &BuildContext<'_>) -> Result<Built, StageError> {
        (self.build)(params, cx)
    }
}

fn build<S: Stage>(params: &toml::Table, cx: &BuildContext<'_>) -> Result<Built, StageError> {
    let known = to_table(&S::default());
    for (param, value) in params {
        if !known.contains_key(param) {
            return Err(StageError::UnknownParam {
                param: param.clone(),
                nearest: nearest(param, known.keys().map(String::as_str)).map(str::to_owned),
                known: known.keys().cloned().collect(),
            });
        }
        // One by one, since serde's messages do not say which field is wrong.
        let alone = toml::Table::from_iter([(param.clone(), value.clone())]);
        if let Err(error) = alone.try_into::<S>() {
            let all = crate::param::params(&schemars::schema_for!(S), &known);
            let described = all.iter().find(|p| p.name == *param);
            let problem = crate::param::problem(described, value, error.message());
            return Err(StageError::Type { param: param.clone(), problem });
        }
    }
    let stage: S = params.clone().try_into().map_err(|error: toml::de::Error| {
        // Only a stage whose fields depend on each other comes here.
        let problem = format!("do not fit together: {}", error.message().trim());
        StageError::Type { param: "parameters".to_owned(), problem }
    })?;
    let params = to_table(&stage);
    let neutral = stage.is_neutral();
    Ok(Built { params, neutral, sampler: stage.build(cx)? })
}

fn to_table<S: Stage>(stage: &S) -> toml::Table {
    toml::Table::try_from(stage).expect("a stage's parameters are a table")
}

/// The stages that a chain can name.
///
/// Names are looked up without regard to case, `-` and `_`.
///
/// [`linked`](Self::linked) collects what the linked crates have registered.
/// A crate that no code names is not linked: write `use its_name as _;` in the
/// root of the program (or of the test).
#[derive(Clone, Debug, Default)]
pub struct Registry {
    stages: BTreeMap<&'static str, Registration>,
    names: BTreeMap<String, &'static str>,
}

impl Registry {
    /// All stages of all crates linked into this program.
    ///
    /// # Errors
    ///
    /// If two of them claim the same name or letter.
    pub fn linked() -> Result<Self, ChainError> {
        let mut registry = Self::default();
        // In an order of our own: inventory's is the linker's.
        let mut all: Vec<_> = inventory::iter::<Registration>.into_iter().collect();
        all.sort_by_key(|r| (r.name, r.origin));
        for registration in all {
            registry.insert(*registration)?;
        }
        Ok(registry)
    }

    /// Adds a stage by hand: in tests, and where nothing runs before `main`.
    ///
    /// # Errors
    ///
    /// If its name or letter is taken.
    pub fn with<S: Stage>(mut self) -> Result<Self, ChainError> {
        self.insert(Registration::of::<S>("this program"))?;
        Ok(self)
    }

    fn insert(&mut self, new: Registration) -> Result<(), ChainError> {
        for &name in [new.name].iter().chain(new.aliases) {
            if let Some(old) = self.get(name) {
                return Err(ChainError::Duplicate { name, first: old.origin, second: new.origin });
            }
        }
        if let Some(letter) = new.letter
            && let Some(old) = self.by_letter(letter)
        {
            let (first, second) = ((old.name, old.origin), (new.name, new.origin));
            return Err(ChainError::DuplicateLetter { letter, first, second });
        }
        for &name in [new.name].iter().chain(new.aliases) {
            self.names.insert(key(name), new.name);
        }
        self.stages.insert(new.name, new);
        Ok(())
    }

    /// Finds a stage by name or alias.
    pub fn get(&self, name: &str) -> Option<&Registration> {
        self.stages.get(self.names.get(&key(name))?)
    }

    /// Finds a stage by its letter in llama.cpp's `--sampling-seq`.
    pub fn by_letter(&self, letter: char) -> Option<&Registration> {
        self.iter().find(|stage| stage.letter == Some(letter))
    }

    /// All stages, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Registration> {
        self.stages.values()
    }

    /// Finds a stage that a chain names.
    pub(crate) fn require(&self, name: &str, at: Place) -> Result<&Registration, ChainError> {
        self.get(name).ok_or_else(|| ChainError::UnknownStage {
            at,
            name: name.to_owned(),
            nearest: self.nearest(name).map(str::to_owned),
            known: self.stages.keys().map(|&name| name.to_owned()).collect(),
        })
    }

    /// The stage whose name or alias looks most like `name`.
    fn nearest(&self, name: &str) -> Option<&'static str> {
        let all = self.names.values().chain(self.iter().flat_map(|stage| stage.aliases));
        self.get(nearest(name, all.copied())?).map(|stage| stage.name)
    }
}

/// How names are compared: without case, `-` and `_`.
pub(crate) fn key(name: &str) -> String {
    name.chars().filter(|c| !"-_".contains(*c)).flat_map(char::to_lowercase).collect()
}

/// The one of `known` that looks most like `name`, if any looks like it at all.
pub(crate) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // What is longer than any name looks like none.
    let name = key(name);
    if name.len() > 100 {
        return None;
    }
    known
        .map(|k| (strsim::damerau_levenshtein(&name, &key(k)), k))
        .min()
        .filter(|(distance, k)| *distance <= 1 + k.len().min(name.len()) / 4)
        .map(|(_, k)| k)
}

/// Registers a [`Stage`] in every program that links the calling crate.
///
/// ```
/// use logitchain_core::*;
///
/// /// Take the most likely token.
/// #[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
/// struct First {}
///
/// register_stage!(First);
///
/// impl Stage for First {
///     const NAME: &'static str = "first";
///     const KIND: Kind = Kind::Select;
///
///     fn build(self, _: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> {
///         Ok(Box::new(self))
///     }
/// }
///
/// impl Sampler for First {
///     fn apply(&mut self, candidates: &mut Candidates<'_>) {
///         candidates.choose(candidates.best().id);
///     }
/// }
///
/// assert!(Registry::linked()?.get("first").is_some());
/// # Ok::<(), ChainError>(())
/// ```
#[macro_export]
macro_rules! register_stage {
    ($stage:ty) => {
        $crate::__private::inventory::submit! {
            $crate::Registration::of::<$stage>(env!("CARGO_PKG_NAME"))
        }
    };
}
