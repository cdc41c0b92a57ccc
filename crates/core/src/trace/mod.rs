//! What each stage of a chain did to the candidates.

mod compare;
mod distribution;
mod record;
mod report;
mod snapshot;
pub(crate) mod watch;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde::Serialize;

pub(crate) use self::record::{Record, Verb};
pub use self::{
    compare::{CompareError, OrderDiff, Parting, RunDiff, Spread, compare, compare_run},
    distribution::{Distribution, DistributionError},
    record::{Cut, Draw},
    report::{CandidatesReport, ChangeReport, StageReport, TokenReport, TraceReport},
    snapshot::{Snapshot, TracedToken},
    watch::Coin,
};
use crate::{
    Candidates, Chain, Kind, Link, SampleError, Scratch, StagePlace, TokenId, candidates::Fault,
    chain::Observer,
};

/// What a chain did for one token: see [`Chain::trace`].
#[derive(Clone, Debug)]
pub struct Trace {
    vocabulary: usize,
    start: Arc<Snapshot>,
    stages: Vec<StageTrace>,
    draw: Option<Draw>,
    outcome: Result<TokenId, SampleError>,
}

/// What one stage did for one token.
#[derive(Clone, Debug)]
pub struct StageTrace {
    place: StagePlace,
    label: String,
    kind: Kind,
    params: toml::Table,
    neutral: bool,
    before: Arc<Snapshot>,
    after: Arc<Snapshot>,
    cut: Option<Cut>,
    temperature: Option<f32>,
    coins: Vec<Coin>,
    time: Duration,
}

/// A token whose logit a stage rewrote.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Change {
    /// Which token.
    pub id: TokenId,
    /// The logit that it had.
    pub before: f32,
    /// The logit that it got.
    pub after: f32,
}

/// Where a token stood after a stage.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// The stage that had run; `None` for what the model gave.
    pub stage: Option<StagePlace>,
    /// The token's logit.
    pub logit: f32,
    /// Its probability among the candidates of that point.
    pub probability: f64,
}

/// What became of a token, and so why it could not be chosen, or could.
///
/// In JSON `fate` says which it is.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "fate", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Fate {
    /// The model gave no such token a logit.
    Unknown {
        /// How many tokens it gave one, ids being below.
        vocabulary: usize,
    },
    /// Its logit was -inf from the start.
    Masked,
    /// A stage dropped it.
    Removed {
        /// Which.
        stage: StagePlace,
        /// The rule by which that stage dropped tokens, if it had one.
        cut: Option<Cut>,
        /// The token's logit before that stage.
        logit: f32,
        /// Its probability before that stage.
        probability: f64,
    },
    /// It was there to the end, and another one was chosen (or none, where the
    /// chain failed).
    Left {
        /// Its logit at the end.
        logit: f32,
        /// Its probability at the end. Where the last stage drew, the token would
        /// have been drawn with it.
        probability: f64,
    },
    /// It was chosen.
    Chosen {
        /// Its logit at the end.
        logit: f32,
        /// Its probability at the end.
        probability: f64,
    },
}

impl Chain {
    /// Picks the next token as [`sample`](Self::sample) does, and says how it came
    /// to that: what every stage kept, dropped and rewrote, and what was drawn.
    ///
    /// The token and the chain's state afterwards are those of `sample`. A chain
    /// that fails gives what it did until then; [`Trace::outcome`] has the error.
    ///
    /// All candidates are copied after each stage, so this is for looking, and not
    /// for speed.
    ///
    /// ```
    /// # use logitchain_core::*;
    /// # #[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
    /// # struct TopTwo {}
    /// # impl Sampler for TopTwo { fn apply(&mut self, c: &mut Candidates<'_>) { c.keep_top(2); } }
    /// # impl Stage for TopTwo {
    /// #     const NAME: &'static str = "top_two";
    /// #     const KIND: Kind = Kind::Filter;
    /// #     fn build(self, _: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> { Ok(Box::new(self)) }
    /// # }
    /// # #[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
    /// # struct First {}
    /// # impl Sampler for First { fn apply(&mut self, c: &mut Candidates<'_>) { c.choose(c.best().id); } }
    /// # impl Stage for First {
    /// #     const NAME: &'static str = "first";
    /// #     const KIND: Kind = Kind::Select;
    /// #     fn build(self, _: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> { Ok(Box::new(self)) }
    /// # }
    /// # let registry = Registry::default().with::<First>()?.with::<TopTwo>()?;
    /// let mut chain = ChainConfig::from_samplers("top_two;first")?.build(&registry, &NoVocab)?;
    /// let trace = chain.trace(&mut [0.5, 2.0, 1.0]);
    /// assert_eq!(trace.outcome(), &Ok(TokenId(1)));
    /// let top_two = &trace.stages()[0];
    /// assert_eq!(top_two.removed()[0].id, TokenId(0));
    /// assert_eq!(top_two.cut(), Some(Cut::Top { n: 2, logit: 1.0 }));
    /// assert!(matches!(trace.fate(TokenId(0)), Fate::Removed { stage, .. } if stage.position == 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn trace(&mut self, logits: &mut [f32]) -> Trace {
        let (mut record, mut scratch) = (Record::default(), Scratch::default());
        let vocabulary = logits.len();
        let mut candidates = match Candidates::for_draws_by(self.rng(), logits, &mut scratch) {
            Ok(candidates) => candidates,
            Err(error) => {
                let start = Arc::default();
                return Trace {
                    vocabulary,
                    start,
                    stages: Vec::new(),
                    draw: None,
                    outcome: Err(error),
                };
            }
        };
        candidates.record_in(&mut record);
        let start = Arc::new(Snapshot::of(&candidates));
        let (stages, last) = (Vec::new(), Arc::clone(&start));
        let mut tracer = Tracer { stages, last, coins: 0, since: Instant::now() };
        let (outcome, _) = watch::watching(None, || self.run(&mut candidates, &mut tracer));
        // What was chosen is what was drawn last, unless a stage thought otherwise.
        let draw = record.draws.pop().filter(|draw| outcome == Ok(draw.token));
        Trace { vocabulary, start, stages: tracer.stages, draw, outcome }
    }
}

/// Writes down what each stage leaves.
struct Tracer {
    stages: Vec<StageTrace>,
    last: Arc<Snapshot>,
    /// How many were tossed before.
    coins: usize,
    /// When the next stage began.
    since: Instant,
}

impl Tracer {
    fn stage(&self, position: usize, link: &Link, after: Arc<Snapshot>) -> StageTrace {
        StageTrace {
            place: StagePlace { position, name: link.name() },
            label: link.label().to_owned(),
            kind: link.kind(),
            params: link.params().clone(),
            neutral: link.is_neutral(),
            before: Arc::clone(&self.last),
            after,
            cut: None,
            temperature: None,
            coins: Vec::new(),
            time: Duration::ZERO,
        }
    }
}

impl Observer for Tracer {
    fn skipped(&mut self, position: usize, link: &Link) {
        self.stages.push(self.stage(position, link, Arc::clone(&self.last)));
    }

    fn ran(&mut self, position: usize, link: &Link, candidates: &mut Candidates<'_>) {
        let time = self.since.elapsed();
        // A stage that leaves none meets a stand-in until it ends.
        let none = candidates.fault() == Some(Fault::Exhausted);
        let after = if none { Snapshot::default() } else { Snapshot::of(candidates) };
        let mut stage = self.stage(position, link, Arc::new(after));
        stage.time = time;
        if let Some(record) = candidates.record() {
            let verb = record.verb.take();
            stage.cut = verb.map(|verb| verb.cut(&stage.before, &stage.after));
            stage.temperature = record.temperature.take();
        }
        let coins = watch::seen().coins;
        stage.coins = coins[self.coins..].to_vec();
        self.coins = coins.len();
        self.last = Arc::clone(&stage.after);
        self.stages.push(stage);
        self.since = Instant::now();
    }
}

impl Trace {
    /// How many logits the model gave.
    pub fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    /// The candidates before the first stage: all tokens that are not masked. Empty
    /// where the logits themselves were refused.
    pub fn start(&self) -> &Snapshot {
        &self.start
    }

    /// The candidates after the last stage that ran.
    pub fn end(&self) -> &Snapshot {
        self.stages.last().map_or(&self.start, |stage| &stage.after)
    }

    /// The stages in order, up to the one with which the chain failed, if it did.
    pub fn stages(&self) -> &[StageTrace] {
        &self.stages
    }

    /// The draw by which the token was chosen, if it was by
    /// [`Candidates::draw`].
    pub fn draw(&self) -> Option<&Draw> {
        self.draw.as_ref()
    }

    /// The token, or why there is none: what [`Chain::sample`] would have given.
    ///
    /// # Errors
    ///
    /// As `sample`.
    pub fn outcome(&self) -> &Result<TokenId, SampleError> {
        &self.outcome
    }

    /// What became of a token.
    pub fn fate(&self, token: TokenId) -> Fate {
        if token.index() >= self.vocabulary {
            return Fate::Unknown { vocabulary: self.vocabulary };
        }
        if self.start.get(token).is_none() {
            return Fate::Masked;
        }
        for stage in &self.stages {
            let (before, after) = (stage.before.get(token), stage.after.get(token));
            if let (Some(TracedToken { logit, probability, .. }), None) = (before, after) {
                let (stage, cut) = (stage.place.clone(), stage.cut);
                return Fate::Removed { stage, cut, logit, probability };
            }
        }
        let end = self.draw.as_ref().map_or(self.end(), Draw::candidates);
        // A stage may still drop what it has drawn.
        let Some(TracedToken { logit, probability, .. }) = end.get(token).or(self.end().get(token))
        else {
            return Fate::Masked;
        };
        if self.outcome == Ok(token) {
            Fate::Chosen { logit, probability }
        } else {
            Fate::Left { logit, probability }
        }
    }

    /// A token's logit and probability as the model gave it, and after every stage
    /// that left it, neutral ones excepted.
    pub fn path(&self, token: TokenId) -> Vec<Step> {
        let step = |stage: Option<&StagePlace>, snapshot: &Snapshot| {
            let TracedToken { logit, probability, .. } = snapshot.get(token)?;
            Some(Step { stage: stage.cloned(), logit, probability })
        };
        let first = step(None, &self.start);
        let run = self.stages.iter().filter(|stage| !stage.neutral);
        first.into_iter().chain(run.map_while(|s| step(Some(&s.place), &s.after))).collect()
    }
}

impl StageTrace {
    /// Where in the chain, and the name in chain files.
    pub fn place(&self) -> &StagePlace {
        &self.place
    }

    /// The name in a printed chain, without the `?` of a neutral stage.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// What the stage may do.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// All parameters, the defaulted ones included.
    pub fn params(&self) -> &toml::Table {
        &self.params
    }

    /// Whether the parameters make the stage do nothing: it was not run.
    pub fn is_neutral(&self) -> bool {
        self.neutral
    }

    /// The candidates before the stage.
    pub fn before(&self) -> &Snapshot {
        &self.before
    }

    /// The candidates after the stage; none where it left none, with which the
    /// chain fails.
    pub fn after(&self) -> &Snapshot {
        &self.after
    }

    /// The tokens that the stage dropped or masked, with what they were before it;
    /// most likely first.
    pub fn removed(&self) -> Vec<TracedToken> {
        if Arc::ptr_eq(&self.before, &self.after) {
            return Vec::new();
        }
        let mut removed = self.before.without(&self.after);
        removed.sort_by(|a, b| b.logit.total_cmp(&a.logit).then(a.id.cmp(&b.id)));
        removed
    }

    /// How probable the removed tokens were together, before the stage.
    pub fn removed_mass(&self) -> f64 {
        self.removed().iter().map(|token| token.probability).sum()
    }

    /// The tokens that stayed and whose logits the stage rewrote, in order of id.
    /// Most of a penalty or a bias, which change few; a temperature changes all.
    pub fn changed(&self) -> Vec<Change> {
        if Arc::ptr_eq(&self.before, &self.after) {
            return Vec::new();
        }
        let pairs = self.before.iter().filter_map(|before| {
            let (id, before, after) = (before.id, before.logit, self.after.get(before.id)?.logit);
            (before != after).then_some(Change { id, before, after })
        });
        pairs.collect()
    }

    /// The rule by which it dropped tokens, with its threshold, if it dropped any by
    /// one of the rules that [`Candidates`] has.
    pub fn cut(&self) -> Option<Cut> {
        self.cut
    }

    /// By what it divided all logits, where it did so by [`Candidates::temper`].
    pub fn temperature(&self) -> Option<f32> {
        self.temperature
    }

    /// The coins that it tossed.
    pub fn coins(&self) -> &[Coin] {
        &self.coins
    }

    /// How long it ran; noting what it did, such as the line of a draw, is part of
    /// that.
    pub fn time(&self) -> Duration {
        self.time
    }
}
