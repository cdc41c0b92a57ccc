//! Stages under glass: run by a real chain, with what they leave written down.
//!
//! A chain is the only place where a stage meets all that it will meet in use:
//! its own random stream, and the chain's judgement on what it left.

use std::{
    borrow::Cow,
    cell::{Cell, RefCell},
};

use logitchain_core::{
    BuildContext, Candidate, Candidates, Chain, ChainConfig, ChainError, Kind, ParamError,
    Registry, RngKind, SampleError, Sampler, Seed, Stage, StageConfig, StageRng, TokenId, Vocab,
};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How the candidates lie in memory when they reach the stage. No stage can
/// see it, so none may behave differently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Form {
    /// As the model gave them.
    #[default]
    Dense,
    /// Listed by id.
    Sparse,
    /// Listed, most likely first.
    Sorted,
    /// Listed in an order of another stage's making, least likely first.
    Reversed,
}

impl Form {
    pub(crate) const ALL: [Self; 4] = [Self::Dense, Self::Sparse, Self::Sorted, Self::Reversed];

    pub(crate) fn give(self, candidates: &mut Candidates<'_>) {
        match self {
            Self::Dense => {}
            Self::Sparse => candidates.retain(|_| true),
            Self::Sorted => {
                candidates.sorted();
            }
            Self::Reversed => candidates.keep_typical(1000.0, 1.0, usize::MAX),
        }
    }
}

/// What a stage left.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Seen {
    /// In order of id.
    pub(crate) candidates: Vec<Candidate>,
    /// The token chosen, if the stage chose one.
    pub(crate) chosen: Option<TokenId>,
}

impl Seen {
    pub(crate) fn of(candidates: &Candidates<'_>) -> Self {
        let mut list: Vec<_> = candidates.iter().collect();
        list.sort_by_key(|c| c.id);
        Self { candidates: list, chosen: candidates.chosen() }
    }
}

thread_local! {
    // A chain builds its stages from text and runs them where nothing can be
    // handed in or out; a chain that is observed stays on its thread.
    static FORM: Cell<Form> = const { Cell::new(Form::Dense) };
    static SEEN: RefCell<Option<Seen>> = const { RefCell::new(None) };
    static COUNTING: Cell<bool> = const { Cell::new(false) };
    static DRAWS: RefCell<Vec<Option<usize>>> = const { RefCell::new(Vec::new()) };
}

/// A chain of the stage alone.
#[derive(Clone, Debug)]
pub(crate) struct Subject(Chain);

impl Subject {
    pub(crate) fn build<S: Stage>(
        params: &toml::Table,
        vocab: &dyn Vocab,
        rng: RngKind,
        seed: u64,
    ) -> Result<Self, ChainError> {
        let mut stage = StageConfig::new(S::NAME);
        stage.params = params.clone();
        let mut config = ChainConfig::default();
        config.stages = vec![stage];
        config.rng = rng;
        config.seed = Seed::Fixed(seed);
        let registry = Registry::default().with::<Observed<S>>()?;
        config.build(&registry, vocab).map(Self)
    }

    pub(crate) fn run(&mut self, logits: &[f32], form: Form) -> Result<Seen, SampleError> {
        FORM.set(form);
        SEEN.set(None);
        self.0.sample(&mut logits.to_vec())?;
        Ok(SEEN.take().unwrap_or_default())
    }

    /// The same, and for each random stream that the sampler holds, how many
    /// numbers have been drawn from it since it was built; `None` if more than
    /// anyone would.
    pub(crate) fn run_counting_draws(
        &mut self,
        logits: &[f32],
    ) -> (Result<Seen, SampleError>, Vec<Option<usize>>) {
        COUNTING.set(true);
        DRAWS.take();
        let outcome = self.run(logits, Form::Dense);
        COUNTING.set(false);
        (outcome, DRAWS.take())
    }

    pub(crate) fn accept(&mut self, token: u32) {
        self.0.accept(TokenId(token));
    }

    pub(crate) fn reset(&mut self) {
        self.0.reset();
    }

    pub(crate) fn reseed(&mut self, seed: u64) {
        self.0.reseed(seed).expect("a seed for every generator");
    }

    pub(crate) fn checkpoint(&mut self) {
        self.0.checkpoint();
    }

    /// Back to the checkpoint.
    pub(crate) fn rollback(&mut self) {
        assert!(self.0.rollback(), "there is a checkpoint");
    }
}

/// The stage `S` in the eyes of a chain, but never neutral, so that it is
/// always run, and always selecting, so that it can stand alone.
#[derive(Debug, Default)]
struct Observed<S>(S);

impl<S: Stage> Serialize for Observed<S> {
    fn serialize<Z: Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, S: Stage> Deserialize<'de> for Observed<S> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        S::deserialize(deserializer).map(Self)
    }
}

impl<S: Stage> JsonSchema for Observed<S> {
    fn schema_name() -> Cow<'static, str> {
        S::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        S::json_schema(generator)
    }
}

impl<S: Stage> Stage for Observed<S> {
    const NAME: &'static str = S::NAME;
    const KIND: Kind = Kind::Select;

    fn is_neutral(&self) -> bool {
        false
    }

    fn build(self, cx: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> {
        Ok(Box::new(Observer { inner: self.0.build(cx)?, stream: cx.rng() }))
    }
}

#[derive(Clone, Debug)]
struct Observer {
    inner: Box<dyn Sampler>,
    /// The stage's stream before its first draw.
    stream: StageRng,
}

impl Observer {
    /// How far each stream in the sampler has come. Nothing shows that but the
    /// sampler's `Debug`, where a derived one prints the streams' state.
    fn draws(&self) -> Vec<Option<usize>> {
        const FAR: usize = 1000;
        let text = format!("{:?}", self.inner);
        let mut states = Vec::new();
        let mut stream = self.stream.clone();
        text.match_indices("StageRng {")
            .map(|(start, _)| {
                let shown = braced(&text[start..]);
                (0..FAR).find(|&drawn| {
                    if drawn == states.len() {
                        states.push(format!("{stream:?}"));
                        stream.word();
                    }
                    states[drawn] == shown
                })
            })
            .collect()
    }
}

/// The beginning of `text` up to where its first brace closes.
fn braced(text: &str) -> &str {
    let mut depth = 0;
    let end = text.char_indices().find(|(_, c)| {
        depth += match c {
            '{' => 1,
            '}' => -1,
            _ => return false,
        };
        depth == 0
    });
    end.map_or(text, |(end, brace)| &text[..end + brace.len_utf8()])
}

impl Sampler for Observer {
    fn apply(&mut self, candidates: &mut Candidates<'_>) {
        FORM.get().give(candidates);
        self.inner.apply(candidates);
        SEEN.set(Some(Seen::of(candidates)));
        if COUNTING.get() {
            DRAWS.set(self.draws());
        }
        if candidates.chosen().is_none() {
            candidates.choose(candidates.best().id);
        }
    }

    fn accept(&mut self, token: TokenId) {
        self.inner.accept(token);
    }

    fn reset(&mut self) {
        self.inner.reset();
    }

    fn reseed(&mut self, rng: StageRng) {
        self.stream = rng.clone();
        self.inner.reseed(rng);
    }

    fn checkpoint(&mut self) -> bool {
        self.inner.checkpoint()
    }

    fn rollback(&mut self) {
        self.inner.rollback();
    }
}

/// Takes the most likely token: the end of chains whose stages do not select.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Last {}

impl Stage for Last {
    const NAME: &'static str = "end_of_a_test_chain";
    const KIND: Kind = Kind::Select;

    fn build(self, _: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> {
        Ok(Box::new(self))
    }
}

impl Sampler for Last {
    fn apply(&mut self, candidates: &mut Candidates<'_>) {
        candidates.choose(candidates.best().id);
    }
}
