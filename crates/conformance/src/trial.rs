use logitchain_core::{Candidate, RngKind, Stage, Vocab};

use crate::{
    NumberVocab,
    observe::{Form, Seen, Subject},
};

/// One stage on its own, tried on scores that a reader can follow.
///
/// ```
/// # use logitchain_core::{BuildContext, Candidates, Kind, ParamError, Sampler, Stage};
/// # #[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
/// # struct NoRepeat { #[serde(skip)] last: Option<logitchain_core::TokenId> }
/// # impl Sampler for NoRepeat {
/// #     fn apply(&mut self, c: &mut Candidates<'_>) {
/// #         if let Some(last) = self.last { c.update(last, |_| f32::NEG_INFINITY); }
/// #     }
/// #     fn accept(&mut self, token: logitchain_core::TokenId) { self.last = Some(token); }
/// # }
/// # impl Stage for NoRepeat {
/// #     const NAME: &'static str = "no_repeat";
/// #     const KIND: Kind = Kind::Penalty;
/// #     fn build(self, _: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> { Ok(Box::new(self)) }
/// # }
/// use logitchain_conformance::Trial;
///
/// // A stage that forbids the token that came last.
/// let stage = NoRepeat::default();
/// assert_eq!(Trial::of(stage).after(&[2, 1]).survivors(&[0.2, 0.5, 0.3]), [2, 0]);
/// ```
#[derive(Debug)]
pub struct Trial<S> {
    stage: S,
    vocab: Option<NumberVocab>,
    history: Vec<u32>,
    rng: RngKind,
    seed: u64,
}

impl<S: Stage> Trial<S> {
    /// A trial of a stage: nothing accepted before, default generator, seed 42.
    pub fn of(stage: S) -> Self {
        Self { stage, vocab: None, history: Vec::new(), rng: RngKind::default(), seed: 42 }
    }

    /// Built for this vocabulary; without it, for one as large as the scores.
    #[must_use]
    pub fn in_vocab(mut self, vocab: NumberVocab) -> Self {
        self.vocab = Some(vocab);
        self
    }

    /// With these tokens accepted first.
    #[must_use]
    pub fn after(mut self, history: &[u32]) -> Self {
        self.history.extend_from_slice(history);
        self
    }

    /// With draws from this generator and seed: the numbers that a chain with
    /// one such stage draws.
    #[must_use]
    pub fn seeded(mut self, rng: RngKind, seed: u64) -> Self {
        (self.rng, self.seed) = (rng, seed);
        self
    }

    /// The ids that the stage leaves of tokens with these probabilities (or
    /// weights: they need not sum to 1), most likely first.
    ///
    /// # Panics
    ///
    /// If the stage rejects its parameters, or leaves nothing to sample from.
    pub fn survivors(self, probs: &[f32]) -> Vec<u32> {
        self.left(&ln(probs)).iter().map(|c| c.id.0).collect()
    }

    /// The ids and logits that the stage leaves, most likely first.
    ///
    /// # Panics
    ///
    /// As [`survivors`](Self::survivors).
    pub fn logits(self, logits: &[f32]) -> Vec<(u32, f32)> {
        self.left(logits).iter().map(|c| (c.id.0, c.logit)).collect()
    }

    /// The ids that the stage leaves with their probabilities, most likely
    /// first. The probabilities sum to 1.
    ///
    /// # Panics
    ///
    /// As [`survivors`](Self::survivors).
    pub fn distribution(self, logits: &[f32]) -> Vec<(u32, f64)> {
        let left = self.left(logits);
        let weights: Vec<f64> =
            left.iter().map(|c| (f64::from(c.logit) - f64::from(left[0].logit)).exp()).collect();
        let sum: f64 = weights.iter().sum();
        left.iter().zip(weights).map(|(c, weight)| (c.id.0, weight / sum)).collect()
    }

    /// The ids that a selecting stage chooses in `n` steps over the same
    /// probabilities; each is accepted before the next step.
    ///
    /// # Panics
    ///
    /// As [`survivors`](Self::survivors), and if the stage chooses nothing.
    pub fn choices(self, n: usize, probs: &[f32]) -> Vec<u32> {
        let logits = ln(probs);
        let mut subject = self.build(logits.len());
        (0..n)
            .map(|_| {
                let chosen = run::<S>(&mut subject, &logits).chosen;
                let chosen = chosen.unwrap_or_else(|| panic!("`{}` chose no token", S::NAME)).0;
                subject.accept(chosen);
                chosen
            })
            .collect()
    }

    fn left(self, logits: &[f32]) -> Vec<Candidate> {
        let mut left = run::<S>(&mut self.build(logits.len()), logits).candidates;
        left.sort_by(Candidate::rank);
        left
    }

    fn build(self, size: usize) -> Subject {
        let vocab = self.vocab.unwrap_or_else(|| NumberVocab::new(size));
        assert_eq!(vocab.size(), size, "as many scores as the vocabulary has tokens");
        let params = toml::Table::try_from(&self.stage)
            .unwrap_or_else(|e| panic!("`{}`: its parameters are no table: {e}", S::NAME));
        let mut subject = Subject::build::<S>(&params, &vocab, self.rng, self.seed)
            .unwrap_or_else(|e| panic!("`{}` cannot be built: {}", S::NAME, crate::whole(&e)));
        self.history.into_iter().for_each(|token| subject.accept(token));
        subject
    }
}

fn run<S: Stage>(subject: &mut Subject, logits: &[f32]) -> Seen {
    subject.run(logits, Form::Dense).unwrap_or_else(|e| panic!("`{}`: {e}", S::NAME))
}

fn ln(probs: &[f32]) -> Vec<f32> {
    probs.iter().map(|p| p.ln()).collect()
}

/// The ids that `stage` leaves of tokens with these probabilities, most likely
/// first: [`Trial::survivors`] with nothing accepted before.
///
/// # Panics
///
/// If the stage rejects its parameters, or leaves nothing to sample from.
pub fn survivors<S: Stage>(stage: S, probs: &[f32]) -> Vec<u32> {
    Trial::of(stage).survivors(probs)
}

/// The ids that `stage` leaves with their probabilities, most likely first:
/// [`Trial::distribution`] with nothing accepted before.
///
/// # Panics
///
/// As [`survivors`].
pub fn distribution<S: Stage>(stage: S, logits: &[f32]) -> Vec<(u32, f64)> {
    Trial::of(stage).distribution(logits)
}
