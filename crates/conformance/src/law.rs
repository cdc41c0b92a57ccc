use std::fmt;

/// A promise of every stage, checked by [`assert_stage_laws`](crate::assert_stage_laws).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Law {
    /// The struct has a doc comment, whose first paragraph is one line of at
    /// most 80 characters in `list`; so has every parameter.
    Documented,
    /// `NAME` is `snake_case`: lower-case ASCII words, joined by `_`.
    SnakeCaseName,
    /// Flags are lower-case ASCII words joined by `-`, without leading dashes,
    /// and no two parameters of the stage share one.
    UsableFlags,
    /// Every parameter has a value by default, so that a chain can set it.
    DefaultsComplete,
    /// The default parameters build, for both generators, and without a
    /// vocabulary; parameters that a test gives build as well.
    DefaultsBuild,
    /// Parameters survive being written as TOML and read again.
    RoundTrips,
    /// A parameter that is not given takes its default: `#[serde(default)]`.
    MissingKeysAreDefaults,
    /// A parameter that the stage does not have is refused:
    /// `#[serde(deny_unknown_fields)]`.
    UnknownKeysRefused,
    /// What lies outside a stated range is refused.
    RangesEnforced,
    /// Both ends of a stated range are accepted.
    RangeEndsAccepted,
    /// NaN and the infinities are refused as numbers.
    NonFiniteRefused,
    /// An objection to a parameter names that parameter.
    ObjectionsNameTheParameter,
    /// What `neutral()` gives, `is_neutral()` recognises, and a chain prints it
    /// with a `?`.
    NeutralRecognised,
    /// Neutral parameters do nothing, should the stage be run all the same:
    /// the candidates stay as they are, bit for bit.
    NeutralDoesNothing,
    /// Nothing panics, whatever the logits.
    NeverPanics,
    /// Tokens outside the vocabulary can be accepted.
    AnyTokenAccepted,
    /// How the candidates lie in memory makes no difference.
    FormUnseen,
    /// A token that was masked or dropped before does not come back.
    NothingComesBack,
    /// No logit becomes NaN or +inf.
    LogitsStayFinite,
    /// A stage that rescales or selects leaves a candidate.
    LeavesACandidate,
    /// A filter leaves the logits of those that remain as they are.
    FilterKeepsLogits,
    /// A penalty looks at each token alone: what it does to one does not depend
    /// on which others are candidates.
    PenaltyTakesTokensSingly,
    /// Rescaling keeps the order; equal logits may come of it, and the least
    /// likely candidates may become masked.
    RescaleKeepsOrder,
    /// A selecting stage chooses a token, and one that was a candidate.
    SelectChooses,
    /// No other stage chooses one.
    OthersDoNotChoose,
    /// Two samplers that are built alike behave alike.
    Deterministic,
    /// A clone continues as the original does, and leaves it alone.
    CloneContinues,
    /// After a reset, a sampler is as it was built.
    ResetStartsOver,
    /// With another random stream, a sampler is as if built with it.
    ReseedChangesTheStream,
    /// Back at a checkpoint, a sampler is as it was there.
    RollbackRestores,
    /// A sampler that draws does so once per `apply`, whatever the candidates.
    /// Watched through the sampler's `Debug`, in which a derived one shows its
    /// streams.
    OneDrawPerApply,
}

impl Law {
    /// All laws.
    pub const ALL: [Self; 31] = [
        Self::Documented,
        Self::SnakeCaseName,
        Self::UsableFlags,
        Self::DefaultsComplete,
        Self::DefaultsBuild,
        Self::RoundTrips,
        Self::MissingKeysAreDefaults,
        Self::UnknownKeysRefused,
        Self::RangesEnforced,
        Self::RangeEndsAccepted,
        Self::NonFiniteRefused,
        Self::ObjectionsNameTheParameter,
        Self::NeutralRecognised,
        Self::NeutralDoesNothing,
        Self::NeverPanics,
        Self::AnyTokenAccepted,
        Self::FormUnseen,
        Self::NothingComesBack,
        Self::LogitsStayFinite,
        Self::LeavesACandidate,
        Self::FilterKeepsLogits,
        Self::PenaltyTakesTokensSingly,
        Self::RescaleKeepsOrder,
        Self::SelectChooses,
        Self::OthersDoNotChoose,
        Self::Deterministic,
        Self::CloneContinues,
        Self::ResetStartsOver,
        Self::ReseedChangesTheStream,
        Self::RollbackRestores,
        Self::OneDrawPerApply,
    ];
}

impl fmt::Display for Law {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A law broken.
#[derive(Clone, Debug)]
pub(crate) struct Violation {
    pub(crate) law: Law,
    /// What happened, where.
    pub(crate) what: String,
}

impl Violation {
    pub(crate) fn new(law: Law, what: impl Into<String>) -> Self {
        Self { law, what: what.into() }
    }
}

/// Whether the laws hold.
pub(crate) type Verdict = Result<(), Violation>;

/// Breaks `law` unless `holds`.
pub(crate) fn demand(law: Law, holds: bool, what: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(Violation::new(law, what())) }
}
