use serde::Serialize;

use super::Snapshot;
use crate::{Candidate, TokenId, candidates::weight};

/// What the verbs of [`Candidates`](crate::Candidates) note while a chain is traced.
#[derive(Debug, Default)]
pub(crate) struct Record {
    /// The last that dropped candidates by a rule.
    pub(crate) verb: Option<Verb>,
    /// By what all logits were divided.
    pub(crate) temperature: Option<f32>,
    /// All draws.
    pub(crate) draws: Vec<Draw>,
}

/// A verb that drops candidates, with what it was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Verb {
    Top { n: usize },
    DropTop { n: usize },
    Logit { floor: f32 },
    Probability { floor: f64 },
    Nucleus { p: f64 },
    Typical { surprise: f64, p: f64 },
}

/// The rule by which a stage dropped candidates, with its threshold: what the stage
/// asked of the candidates, and what came of it.
///
/// In JSON `rule` says which it is. Where a stage uses several, this is the last.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "rule", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Cut {
    /// The `n` most likely stay.
    Top {
        /// How many at most.
        n: usize,
        /// The lowest logit that stayed.
        logit: f32,
    },
    /// The `n` most likely go.
    DropTop {
        /// How many.
        n: usize,
        /// The lowest logit that went.
        logit: f32,
    },
    /// Logits of at least `floor` stay.
    Logit {
        /// Included.
        floor: f32,
    },
    /// Probabilities of at least `floor` stay.
    Probability {
        /// Included.
        floor: f64,
    },
    /// The fewest most likely stay that have at least the probability `p` in sum.
    Nucleus {
        /// The sum asked for.
        p: f64,
        /// The sum of those that stayed.
        mass: f64,
        /// The lowest logit that stayed.
        logit: f32,
    },
    /// Those stay whose surprise is nearest to a wanted one, the fewest that have
    /// at least the probability `p` in sum.
    Typical {
        /// The wanted surprise, in bits.
        surprise: f64,
        /// How far from it the surprise of those that stayed lies at most, in bits.
        reach: f64,
        /// The sum asked for.
        p: f64,
        /// The sum of those that stayed.
        mass: f64,
    },
}

impl Verb {
    /// What it did to the candidates between two points.
    pub(crate) fn cut(self, before: &Snapshot, after: &Snapshot) -> Cut {
        use std::f64::consts::LN_2;
        let lowest = |logits: &mut dyn Iterator<Item = f32>| logits.fold(f32::MAX, f32::min);
        let kept = || before.iter().filter(|token| after.get(token.id).is_some());
        let mass = || kept().map(|token| token.probability).sum();
        match self {
            Self::Top { n } => Cut::Top { n, logit: lowest(&mut kept().map(|t| t.logit)) },
            Self::DropTop { n } => {
                let gone = before.without(after);
                Cut::DropTop { n, logit: lowest(&mut gone.iter().map(|t| t.logit)) }
            }
            Self::Logit { floor } => Cut::Logit { floor },
            Self::Probability { floor } => Cut::Probability { floor },
            Self::Nucleus { p } => {
                Cut::Nucleus { p, mass: mass(), logit: lowest(&mut kept().map(|t| t.logit)) }
            }
            Self::Typical { surprise, p } => {
                let surprise = surprise / LN_2;
                let reach = kept().fold(0.0_f64, |reach, token| {
                    reach.max((-libm::log2(token.probability) - surprise).abs())
                });
                Cut::Typical { surprise, reach, p, mass: mass() }
            }
        }
    }
}

/// A draw by [`Candidates::draw`](crate::Candidates::draw).
///
/// The candidates lie side by side on a line of length 1, each as long as its
/// probability, and `u` falls on one of them.
///
/// # Precision
///
/// `low` and `high` are right to the rounding of an `f64` sum.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Draw {
    /// The random number, in `0.0..1.0`.
    pub u: f64,
    /// Where the token's stretch of the line begins.
    pub low: f64,
    /// Where it ends.
    pub high: f64,
    /// The token on whose stretch `u` fell.
    pub token: TokenId,
    #[serde(skip)]
    candidates: Snapshot,
    /// The candidates in the order in which they lie, each with its end.
    #[serde(skip)]
    line: Vec<(TokenId, f64)>,
}

impl Draw {
    /// `line` lists the candidates in the order in which they lie.
    pub(crate) fn new(u: f64, token: TokenId, line: Vec<Candidate>, mirror: bool) -> Self {
        let mut ends = Vec::with_capacity(line.len());
        let best = line.iter().fold(f32::NEG_INFINITY, |best, c| best.max(c.logit));
        let (mut sum, mut low, mut high) = (0.0, 0.0, 0.0);
        for c in &line {
            let start = sum;
            sum += f64::from(weight(mirror, c.logit - best));
            if c.id == token {
                (low, high) = (start, sum);
            }
            ends.push((c.id, sum));
        }
        ends.iter_mut().for_each(|(_, end)| *end /= sum);
        let candidates = Snapshot::new(line, mirror);
        Self { u, low: low / sum, high: high / sum, token, candidates, line: ends }
    }

    /// The candidates from which it was drawn.
    pub fn candidates(&self) -> &Snapshot {
        &self.candidates
    }

    /// The candidates in the order in which they lie on the line, each with where
    /// its stretch begins and ends.
    pub fn line(&self) -> impl Iterator<Item = (TokenId, f64, f64)> + '_ {
        let starts = std::iter::once(0.0).chain(self.line.iter().map(|(_, end)| *end));
        self.line.iter().zip(starts).map(|(&(id, end), start)| (id, start, end))
    }
}
