use std::fmt;

use thiserror::Error;

use crate::TokenId;

/// A stage's objection to one of its parameters.
///
/// ```
/// # use logitchain_core::ParamError;
/// let error = ParamError::check_range("p", 1.5, 0.0, 1.0).unwrap_err();
/// assert_eq!(error.to_string(), "`p` must be between 0 and 1, got 1.5");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{param}` {problem}")]
pub struct ParamError {
    param: &'static str,
    problem: String,
}

impl ParamError {
    /// Says what is wrong with `param`; `problem` reads on from its name.
    pub fn new(param: &'static str, problem: impl Into<String>) -> Self {
        Self { param, problem: problem.into() }
    }

    /// The parameter.
    pub fn param(&self) -> &'static str {
        self.param
    }

    /// Checks that `value` lies between `low` and `high`, both included.
    ///
    /// # Errors
    ///
    /// If it does not, or is NaN.
    pub fn check_range(param: &'static str, value: f64, low: f64, high: f64) -> Result<(), Self> {
        if (low..=high).contains(&value) {
            Ok(())
        } else {
            Err(Self::new(param, format!("must be between {low} and {high}, got {value}")))
        }
    }

    /// Checks that `value` is a number, and an `f32` can hold it.
    ///
    /// # Errors
    ///
    /// If it is NaN, infinite or beyond the range of `f32`.
    pub fn check_finite(param: &'static str, value: f64) -> Result<(), Self> {
        if (value as f32).is_finite() {
            Ok(())
        } else if value.is_finite() {
            Err(Self::new(param, format!("must be within ±3.4e38, got {value:e}")))
        } else {
            Err(Self::new(param, format!("must be a finite number, got {value}")))
        }
    }

    /// Checks that `value` is a finite number above 0, as an `f32` too.
    ///
    /// # Errors
    ///
    /// If it is not.
    pub fn check_positive(param: &'static str, value: f64) -> Result<(), Self> {
        let narrow = value as f32;
        if narrow > 0.0 && narrow.is_finite() {
            Ok(())
        } else if value > 0.0 && value.is_finite() {
            Err(Self::new(param, format!("must be between 1e-45 and 3.4e38, got {value:e}")))
        } else {
            Err(Self::new(param, format!("must be a finite number above 0, got {value}")))
        }
    }
}

/// Why a stage could not be built from a table of parameters.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum StageError {
    /// The stage has no such parameter.
    #[error("no parameter is called `{param}`{}", Remedy { nearest, known, what: "it has" })]
    UnknownParam {
        /// As written.
        param: String,
        /// The parameter that was probably meant.
        nearest: Option<String>,
        /// All parameters of the stage.
        known: Vec<String>,
    },
    /// A parameter has a value of the wrong type.
    #[error("`{param}` {problem}")]
    Type {
        /// The parameter.
        param: String,
        /// What is wrong; reads on from the parameter's name.
        problem: String,
    },
    /// A parameter has a value that the stage rejects.
    #[error(transparent)]
    Param(#[from] ParamError),
}

/// Where in a chain file or list something stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// In the file, from 1, where there is a file.
    pub line: Option<usize>,
    /// The stage's place in the chain, from 1.
    pub stage: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}, ")?;
        }
        write!(f, "stage {}", self.stage)
    }
}

/// Why no chain could be built.
///
/// As everywhere in this crate, `Display` leaves the cause to `source`.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum ChainError {
    /// The text is not TOML.
    #[error("line {line}: not TOML: {}", .problem.message().trim())]
    Toml {
        /// From 1.
        line: usize,
        /// What the parser says.
        problem: Box<toml::de::Error>,
    },
    /// A chain file has a key that means nothing.
    #[error("line {line}: no key is called `{key}`{}", Remedy { nearest, known, what: "a chain file has" })]
    UnknownKey {
        /// From 1.
        line: usize,
        /// As written.
        key: String,
        /// The key that was probably meant.
        nearest: Option<String>,
        /// All keys.
        known: Vec<String>,
    },
    /// A key of a chain file has a value of the wrong type.
    #[error("line {line}: `{key}` must be {expected}, got {found}")]
    Value {
        /// From 1.
        line: usize,
        /// The key.
        key: &'static str,
        /// What would be right.
        expected: &'static str,
        /// As written.
        found: String,
    },
    /// A chain file lists its stages twice.
    #[error("line {line}: `samplers` and `[[stage]]` both list the stages; keep one of them")]
    TwoLists {
        /// From 1.
        line: usize,
    },
    /// A chain file lists no stages.
    #[error("no stages: a chain file lists them as `[[stage]]` tables or as `samplers = \"...\"`")]
    NoStages,
    /// A stage table does not say which stage.
    #[error("{at}: `use` is missing; it names the stage, as in `use = \"top_k\"`")]
    NoName {
        /// Where.
        at: Place,
    },
    /// A list of stages has an empty place.
    #[error("{at} of `{list}` is empty; write a stage's name between the separators")]
    EmptyName {
        /// Where.
        at: Place,
        /// As written.
        list: String,
    },
    /// The braces after a stage's name in a list do not hold parameters.
    #[error(
        "{at}: `{text}` is not a stage with parameters, such as `top_k{{k=40}}` or, for words, \
         `penalties{{last_n=\"all\"}}`: {problem}"
    )]
    Braces {
        /// Where.
        at: Place,
        /// As written.
        text: String,
        /// What the parser says.
        problem: String,
    },
    /// No linked crate registers the name.
    #[error("{at}: no stage is called `{name}`{}", Remedy { nearest, known, what: "there are" })]
    UnknownStage {
        /// Where.
        at: Place,
        /// As written.
        name: String,
        /// The stage that was probably meant.
        nearest: Option<String>,
        /// All stages.
        known: Vec<String>,
    },
    /// No stage has the letter.
    #[error("{at}: no stage has the letter `{letter}`; there are {known}")]
    UnknownLetter {
        /// Where.
        at: Place,
        /// As written.
        letter: char,
        /// All letters, with their stages.
        known: String,
    },
    /// Two crates register the same name.
    #[error("stage `{name}` is registered by both {first} and {second}")]
    Duplicate {
        /// The name or alias.
        name: &'static str,
        /// A crate.
        first: &'static str,
        /// The other crate.
        second: &'static str,
    },
    /// Two stages claim the same letter.
    #[error(
        "the letter `{letter}` stands for both `{}` of {} and `{}` of {}",
        .first.0, .first.1, .second.0, .second.1
    )]
    DuplicateLetter {
        /// The letter.
        letter: char,
        /// A stage and its crate.
        first: (&'static str, &'static str),
        /// The other stage and its crate.
        second: (&'static str, &'static str),
    },
    /// A stage could not be built.
    #[error("{at}, `{name}`")]
    Stage {
        /// Where.
        at: Place,
        /// Of the stage.
        name: &'static str,
        /// What is wrong.
        source: StageError,
    },
    /// No stage selects a token.
    #[error("no stage selects a token; end the chain with one of {known}")]
    NoSelector {
        /// All selecting stages.
        known: String,
    },
    /// A selecting stage stands before the end.
    #[error("{at}: `{name}` selects a token, so it must be the last stage")]
    SelectorNotLast {
        /// Where.
        at: Place,
        /// Of the stage.
        name: &'static str,
    },
    /// The seed has more bits than the generator takes.
    #[error("seed {seed} is too large for mt19937, whose seeds end at {}", u32::MAX)]
    Seed {
        /// As written.
        seed: u64,
    },
    /// A random seed was asked for, and there is none.
    #[error("the operating system gave no random seed; write a number")]
    Entropy,
}

/// The end of a message about a wrong name.
struct Remedy<'a> {
    nearest: &'a Option<String>,
    known: &'a [String],
    what: &'static str,
}

impl fmt::Display for Remedy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(nearest) = self.nearest {
            write!(f, "; did you mean `{nearest}`?")?;
        }
        match self.known {
            [] => write!(f, " ({} none)", self.what),
            known => write!(f, " ({} {})", self.what, known.join(", ")),
        }
    }
}

/// Why no token could be sampled.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum SampleError {
    /// The model gave no logits.
    #[error("the model gave no logits")]
    Empty,
    /// A logit is NaN or +inf.
    #[error("the logit of token {token} is {value}{}", After(.stage.as_ref(), "as the model gave it"))]
    NonFinite {
        /// The first such token.
        token: TokenId,
        /// NaN or +inf.
        value: f32,
        /// The stage that made it so; `None` if the model did.
        stage: Option<StagePlace>,
    },
    /// Every token is masked or dropped.
    #[error("no candidates are left{}", After(.stage.as_ref(), "the model masked every token"))]
    Exhausted {
        /// The stage that left none; `None` if the model did.
        stage: Option<StagePlace>,
    },
    /// The selecting stage selected a token that is no candidate, which is a
    /// fault of that stage.
    #[error("token {token}, which is no candidate, was selected{}", After(Some(.stage), ""))]
    NotACandidate {
        /// The token.
        token: TokenId,
        /// The selecting stage.
        stage: StagePlace,
    },
    /// The selecting stage selected nothing, which is a fault of that stage.
    #[error("nothing was selected{}", After(Some(.stage), ""))]
    NothingSelected {
        /// The selecting stage.
        stage: StagePlace,
    },
}

/// A stage of a built chain.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct StagePlace {
    /// In the chain, from 1.
    pub position: usize,
    /// Of the stage.
    pub name: &'static str,
}

/// The end of a message that says which stage it was.
struct After<'a>(Option<&'a StagePlace>, &'static str);

impl fmt::Display for After<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(StagePlace { position, name }) => write!(f, " after stage {position}, `{name}`"),
            None => write!(f, ": {}", self.1),
        }
    }
}
