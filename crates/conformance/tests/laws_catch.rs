//! A broken stage for every law: each must be caught, and by that law.

use std::{
    panic::catch_unwind,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use logitchain_conformance::{Law, assert_laws_of, assert_stage_laws};
use logitchain_core::{
    BuildContext, Candidates, Kind, ParamError, Sampler, Scratch, Stage, StageRng, TokenId,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A sampler made of functions, so that a twin has to write its fault only.
#[derive(Debug)]
struct Twin {
    state: State,
    apply: fn(&mut State, &mut Candidates<'_>),
    accept: fn(&mut State, TokenId),
    reset: fn(&mut State),
    reseed: fn(&mut State, StageRng),
    checkpoint: fn(&mut State) -> bool,
    copy: fn(&State) -> State,
}

/// What the twins remember; a faultless one forgets it all on reset.
#[derive(Clone, Debug)]
struct State {
    steps: usize,
    accepted: Vec<TokenId>,
    shared: Arc<AtomicUsize>,
    vocabulary: usize,
    rng: StageRng,
}

impl Twin {
    fn new(cx: &BuildContext<'_>, apply: fn(&mut State, &mut Candidates<'_>)) -> Self {
        let state = State {
            steps: 0,
            accepted: Vec::new(),
            shared: Arc::default(),
            vocabulary: cx.vocab().size(),
            rng: cx.rng(),
        };
        Self {
            state,
            apply,
            accept: |state, token| state.accepted.push(token),
            reset: |state| {
                state.steps = 0;
                state.accepted.clear();
                state.rng.reset();
            },
            reseed: |state, rng| state.rng = rng,
            checkpoint: |_| false,
            copy: State::clone,
        }
    }
}

impl Clone for Twin {
    fn clone(&self) -> Self {
        Self { state: (self.copy)(&self.state), ..*self }
    }
}

impl Sampler for Twin {
    fn apply(&mut self, candidates: &mut Candidates<'_>) {
        self.state.steps += 1;
        (self.apply)(&mut self.state, candidates);
    }

    fn accept(&mut self, token: TokenId) {
        (self.accept)(&mut self.state, token);
    }

    fn reset(&mut self) {
        (self.reset)(&mut self.state);
    }

    fn reseed(&mut self, rng: StageRng) {
        (self.reseed)(&mut self.state, rng);
    }

    fn checkpoint(&mut self) -> bool {
        (self.checkpoint)(&mut self.state)
    }
}

/// A stage without parameters.
macro_rules! twin {
    ($name:ident, $kind:ident, $apply:expr $(, $function:ident: $other:expr)?) => {
        /// Do what must be caught.
        #[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
        #[serde(default, deny_unknown_fields)]
        struct $name {}

        impl Stage for $name {
            const NAME: &'static str = "twin";
            const KIND: Kind = Kind::$kind;

            fn build(self, cx: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> {
                #[allow(unused_mut, reason = "most twins change one function")]
                let mut twin = Twin::new(cx, $apply);
                $(twin.$function = $other;)?
                Ok(Box::new(twin))
            }
        }
    };
}

/// The stage of a struct that has its parameters and derives already.
macro_rules! described {
    ($name:ident, $text:literal, $check:expr) => {
        impl Stage for $name {
            const NAME: &'static str = $text;
            const KIND: Kind = Kind::Filter;

            fn build(self, cx: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> {
                let check: fn(&Self) -> Result<(), ParamError> = $check;
                check(&self)?;
                Ok(Box::new(Twin::new(cx, |_, _| {})))
            }
        }
    };
}

// ---- faultless ones, without which the rest would prove nothing --------------

twin!(GoodFilter, Filter, |state, c| {
    if state.rng.coin(0.5) {
        c.keep_top(3);
    }
});
twin!(GoodPenalty, Penalty, |state, c| {
    for &token in &state.accepted {
        c.update(token, |logit| logit - 0.5);
    }
});
twin!(GoodRescale, Rescale, |_, c| c.temper(0.5));
twin!(GoodSelect, Select, |state, c| {
    c.draw(&mut state.rng);
});

#[test]
fn stages_without_fault_pass() {
    assert_stage_laws::<GoodFilter>();
    assert_stage_laws::<GoodPenalty>();
    assert_stage_laws::<GoodRescale>();
    assert_stage_laws::<GoodSelect>();
    assert_laws_of(GoodFilter::default);
}

// ---- twins that describe themselves badly -------------------------------------

#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Undocumented {}

described!(Undocumented, "twin", |_| Ok(()));

/// Say more in the first paragraph than can be shown beside the name of a stage
/// in a list of stages.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct LongWinded {}

described!(LongWinded, "twin", |_| Ok(()));

/// Leave a parameter unexplained.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Unexplained {
    p: bool,
}

described!(Unexplained, "twin", |_| Ok(()));

/// Have a name of another style.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct CamelCase {}

described!(CamelCase, "topTwo", |_| Ok(()));

/// Have a flag that no command line has.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct DashedFlag {
    /// A switch.
    #[schemars(extend("flags" = ["--Twin"]))]
    on: bool,
}

described!(DashedFlag, "twin", |_| Ok(()));

/// Have one flag for two parameters.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct SharedFlag {
    /// A switch.
    #[schemars(extend("flags" = ["twin"]))]
    on: bool,
    /// Another.
    #[schemars(extend("flags" = ["twin"]))]
    off: bool,
}

described!(SharedFlag, "twin", |_| Ok(()));

/// Have a parameter without a value.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Valueless {
    /// Perhaps a switch.
    on: Option<bool>,
}

described!(Valueless, "twin", |_| Ok(()));

/// Refuse the default.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct BadDefault {
    /// A switch that must be on.
    on: bool,
}

described!(BadDefault, "twin", |stage| if stage.on {
    Ok(())
} else {
    Err(ParamError::new("on", "must be true"))
});

/// Be of no use without a vocabulary.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct NeedsVocabulary {}

impl Stage for NeedsVocabulary {
    const NAME: &'static str = "twin";
    const KIND: Kind = Kind::Filter;

    fn build(self, cx: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> {
        ParamError::check_range("tokens", cx.vocab().size() as f64, 1.0, 1e9)?;
        Ok(Box::new(Twin::new(cx, |_, _| {})))
    }
}

/// Write a parameter that cannot be read.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct WriteOnly {
    /// A switch.
    #[serde(skip_deserializing)]
    on: bool,
}

described!(WriteOnly, "twin", |_| Ok(()));

/// Ask for every parameter.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Demanding {
    /// A switch.
    on: bool,
}

described!(Demanding, "twin", |_| Ok(()));

/// Have two defaults.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TwoDefaults {
    /// A switch.
    #[serde(default)]
    on: bool,
}

impl Default for TwoDefaults {
    fn default() -> Self {
        Self { on: true }
    }
}

described!(TwoDefaults, "twin", |_| Ok(()));

/// Read anything.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
struct Lenient {}

described!(Lenient, "twin", |_| Ok(()));

/// State a range and forget it.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Unbounded {
    /// A share.
    #[schemars(range(min = 0.0, max = 1.0))]
    p: f64,
}

described!(Unbounded, "twin", |stage| ParamError::check_finite("p", stage.p));

/// Accept the end of a range that has none.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct ClosedEnd {
    /// A share.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    p: f64,
}

impl Default for ClosedEnd {
    fn default() -> Self {
        Self { p: 0.5 }
    }
}

described!(ClosedEnd, "twin", |stage| ParamError::check_range("p", stage.p, 0.0, 1.0));

/// State one range and check another.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Narrow {
    /// A share.
    #[schemars(range(min = 0.0, max = 1.0))]
    p: f64,
}

described!(Narrow, "twin", |stage| ParamError::check_range("p", stage.p, 0.0, 0.9));

/// Accept numbers that are none.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct AnyNumber {
    /// A number.
    x: f64,
}

described!(AnyNumber, "twin", |stage| {
    if stage.x.is_nan() { Err(ParamError::new("x", "must be a number")) } else { Ok(()) }
});

/// Blame another parameter.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Misnamed {
    /// A share.
    #[schemars(range(min = 0.0, max = 1.0))]
    p: f64,
}

described!(Misnamed, "twin", |stage| ParamError::check_range("q", stage.p, 0.0, 1.0));

/// Have neutral parameters and not know them.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Stranger {}

impl Stage for Stranger {
    const NAME: &'static str = "twin";
    const KIND: Kind = Kind::Filter;

    fn neutral() -> Option<Self> {
        Some(Self {})
    }

    fn is_neutral(&self) -> bool {
        false
    }

    fn build(self, cx: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> {
        Ok(Box::new(Twin::new(cx, |_, _| {})))
    }
}

/// Do something with neutral parameters.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct NotSoNeutral {
    /// How many to keep.
    k: u32,
}

impl Default for NotSoNeutral {
    fn default() -> Self {
        Self { k: 1 }
    }
}

impl Stage for NotSoNeutral {
    const NAME: &'static str = "twin";
    const KIND: Kind = Kind::Filter;

    fn neutral() -> Option<Self> {
        Some(Self { k: 0 })
    }

    fn build(self, cx: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> {
        Ok(Box::new(Twin::new(cx, |_, c| c.keep_top(1))))
    }
}

/// Call parameters neutral that are not.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Boaster {}

impl Stage for Boaster {
    const NAME: &'static str = "twin";
    const KIND: Kind = Kind::Rescale;

    fn is_neutral(&self) -> bool {
        true
    }

    fn build(self, cx: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> {
        Ok(Box::new(Twin::new(cx, |_, c| c.temper(2.0))))
    }
}

// ---- twins that behave badly ---------------------------------------------------

twin!(Panics, Filter, |_, c| {
    let second = c.sorted()[1];
    c.keep_at_least(second.logit, 1);
});
twin!(CountsInAnArray, Penalty, |_, _| {}, accept: |state, token| {
    let counts = vec![0; state.vocabulary];
    state.steps += counts[token.index()];
});
twin!(TakesTheFirstListed, Select, |_, c| {
    let first = c.iter().next().expect("there is always a candidate");
    c.choose(first.id);
});
twin!(KeepsEveryOtherListed, Filter, |_, c| {
    let mut keep = false;
    c.retain(|_| {
        keep = !keep;
        keep
    });
});
twin!(Revives, Filter, |_, c| {
    let logits = Box::leak(vec![0.5; 3].into_boxed_slice());
    let scratch = Box::leak(Box::<Scratch>::default());
    *c = Candidates::new(logits, scratch).expect("fine logits");
});
twin!(DividesByZero, Rescale, |_, c| c.rescale(|logit| logit / 0.0));
twin!(MasksAll, Rescale, |_, c| c.rescale(|_| f32::NEG_INFINITY));
twin!(EditsLogits, Filter, |_, c| c.rescale(|logit| logit - 1.0));
twin!(PenalisesTheBest, Penalty, |_, c| {
    let best = c.best();
    c.update(best.id, |logit| logit - 0.5);
});
twin!(DropsTheUnlikely, Penalty, |_, c| c.keep_top(2));
twin!(TurnsAround, Rescale, |_, c| c.rescale(|logit| -logit));
twin!(MasksTheBest, Rescale, |_, c| {
    if c.len() > 1 {
        c.drop_top(1);
    }
});
twin!(ChoosesNothing, Select, |_, _| {});
twin!(ChoosesTheMasked, Select, |_, c| c.choose(TokenId(0)));
twin!(FilterThatChooses, Filter, |_, c| c.choose(c.best().id));
twin!(CountsAllItsKind, Filter, |state, c| {
    static STEPS: AtomicUsize = AtomicUsize::new(0);
    // Not in the first steps, in which other laws notice it.
    if state.steps > 2 {
        c.keep_top(1 + STEPS.fetch_add(1, Ordering::Relaxed) % 5);
    }
});
twin!(ForgetsInClones, Penalty, |state, c| {
    let penalty = (state.steps % 9) as f32;
    c.update(TokenId(1), |logit| logit - penalty);
}, copy: |state| State { steps: 0, ..state.clone() });
twin!(SharesWithClones, Penalty, |state, c| {
    let penalty = state.shared.fetch_add(1, Ordering::Relaxed) as f32;
    c.update(TokenId(1), |logit| logit - penalty);
}, reset: |state| state.shared.store(0, Ordering::Relaxed));
twin!(RemembersAfterReset, Penalty, |state, c| {
    for &token in &state.accepted {
        c.update(token, |logit| logit - 0.5);
    }
}, reset: |_| {});
twin!(KeepsItsStream, Select, |state, c| {
    c.draw(&mut state.rng);
}, reseed: |_, _| {});
twin!(NotesNothing, Penalty, |state, c| {
    for &token in &state.accepted {
        c.update(token, |logit| logit - 0.5);
    }
}, checkpoint: |_| true);
twin!(DrawsOnAfterReset, Select, |state, c| {
    c.draw(&mut state.rng);
}, reset: |_| {});
twin!(DrawsTwice, Select, |state, c| {
    state.rng.uniform();
    c.draw(&mut state.rng);
});
twin!(DrawsWhenInDoubt, Select, |state, c| {
    if c.len() == 1 {
        c.choose(c.best().id);
    } else {
        c.draw(&mut state.rng);
    }
});
twin!(DrawsForEach, Filter, |state, c| {
    let best = c.best().id;
    let mut ids: Vec<TokenId> = c.iter().map(|c| c.id).collect();
    ids.sort_unstable();
    ids.retain(|id| *id == best || state.rng.coin(0.5));
    c.retain(|c| ids.contains(&c.id));
});

/// Forbid a token of the vocabulary.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Forbid {
    /// Which token.
    token: u32,
}

impl Stage for Forbid {
    const NAME: &'static str = "forbid";
    const KIND: Kind = Kind::Penalty;

    fn build(self, cx: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> {
        let last = cx.vocab().size().saturating_sub(1);
        ParamError::check_range("token", self.token.into(), 0.0, last as f64)?;
        Ok(Box::new(Forbidding(TokenId(self.token))))
    }
}

#[derive(Clone, Debug)]
struct Forbidding(TokenId);

impl Sampler for Forbidding {
    fn apply(&mut self, candidates: &mut Candidates<'_>) {
        candidates.update(self.0, |_| f32::NEG_INFINITY);
    }
}

#[test]
fn parameters_may_name_tokens_that_small_vocabularies_lack() {
    assert_stage_laws::<Forbid>();
    assert_laws_of(|| Forbid { token: 299 });
}

#[test]
#[should_panic(expected = "stage `forbid` with {token = 3000} breaks the law DefaultsBuild")]
fn parameters_that_no_vocabulary_fits_are_not_passed_over() {
    assert_laws_of(|| Forbid { token: 3000 });
}

// ---- the table -------------------------------------------------------------------

type Twins = Vec<(Law, &'static str, fn())>;

fn twins() -> Twins {
    macro_rules! table {
        ($($law:ident: $($stage:ident),+;)+) => {
            vec![$($((Law::$law, stringify!($stage), assert_stage_laws::<$stage> as fn())),+),+]
        };
    }
    table! {
        Documented: Undocumented, LongWinded, Unexplained;
        SnakeCaseName: CamelCase;
        UsableFlags: DashedFlag, SharedFlag;
        DefaultsComplete: Valueless;
        DefaultsBuild: BadDefault, NeedsVocabulary;
        RoundTrips: WriteOnly;
        MissingKeysAreDefaults: Demanding, TwoDefaults;
        UnknownKeysRefused: Lenient;
        RangesEnforced: Unbounded, ClosedEnd;
        RangeEndsAccepted: Narrow;
        NonFiniteRefused: AnyNumber;
        ObjectionsNameTheParameter: Misnamed;
        NeutralRecognised: Stranger;
        NeutralDoesNothing: NotSoNeutral, Boaster;
        NeverPanics: Panics;
        AnyTokenAccepted: CountsInAnArray;
        FormUnseen: TakesTheFirstListed, KeepsEveryOtherListed;
        NothingComesBack: Revives;
        LogitsStayFinite: DividesByZero;
        LeavesACandidate: MasksAll;
        FilterKeepsLogits: EditsLogits;
        PenaltyTakesTokensSingly: PenalisesTheBest, DropsTheUnlikely;
        RescaleKeepsOrder: TurnsAround, MasksTheBest;
        SelectChooses: ChoosesNothing, ChoosesTheMasked;
        OthersDoNotChoose: FilterThatChooses;
        Deterministic: CountsAllItsKind;
        CloneContinues: ForgetsInClones, SharesWithClones;
        ResetStartsOver: RemembersAfterReset, DrawsOnAfterReset;
        ReseedChangesTheStream: KeepsItsStream;
        RollbackRestores: NotesNothing;
        OneDrawPerApply: DrawsTwice, DrawsWhenInDoubt, DrawsForEach;
    }
}

#[test]
fn every_broken_twin_is_caught_by_its_law() {
    for (law, twin, check) in twins() {
        let panic = catch_unwind(check).expect_err(twin);
        let message = panic.downcast_ref::<String>().expect("a message");
        let named = message.contains(&format!("breaks the law {law}: "));
        assert!(named, "{twin} should break {law}, but: {message}");
        assert!(message.starts_with("stage `t"), "{twin}: the stage is not named: {message}");
    }
}

#[test]
fn every_law_has_a_broken_twin() {
    let twins = twins();
    for law in Law::ALL {
        assert!(twins.iter().any(|(broken, ..)| *broken == law), "{law} has no broken twin");
    }
}

#[test]
fn a_message_names_stage_law_input_and_difference() {
    let panic = catch_unwind(assert_stage_laws::<EditsLogits>).expect_err("a broken stage");
    assert_eq!(
        panic.downcast_ref::<String>().map(String::as_str),
        Some(
            "stage `twin` with {} breaks the law FilterKeepsLogits: the logit of token 0 was 0.7, \
             is -0.3\n  logits: one token [0.7]\n  accepted before: []\n  generator: xoshiro256++"
        )
    );
}
