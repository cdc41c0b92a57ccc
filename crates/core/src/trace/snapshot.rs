use serde::Serialize;

use crate::{Candidate, Candidates, TokenId, candidates::weight};

/// A candidate with its probability, at one point of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TracedToken {
    /// Which token.
    pub id: TokenId,
    /// Its unnormalised log-probability; a finite number.
    pub logit: f32,
    /// Among the candidates of that point, from 0 to 1.
    pub probability: f64,
}

/// The candidates at one point of a chain, with their probabilities.
///
/// # Precision
///
/// Probabilities come of the weights that a draw adds up, which are `f32`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// By id.
    candidates: Vec<Candidate>,
    best: f32,
    mass: f64,
    mirror: bool,
}

impl Snapshot {
    pub(crate) fn of(candidates: &Candidates<'_>) -> Self {
        Self::new(candidates.iter().collect(), candidates.is_mirror())
    }

    pub(crate) fn new(mut candidates: Vec<Candidate>, mirror: bool) -> Self {
        candidates.sort_unstable_by_key(|c| c.id);
        let best = candidates.iter().fold(f32::NEG_INFINITY, |best, c| best.max(c.logit));
        let mass = candidates.iter().map(|c| f64::from(weight(mirror, c.logit - best))).sum();
        Self { candidates, best, mass, mirror }
    }

    fn with_probability(&self, Candidate { id, logit }: Candidate) -> TracedToken {
        let probability = f64::from(weight(self.mirror, logit - self.best)) / self.mass;
        TracedToken { id, logit, probability }
    }

    /// How many candidates there are.
    pub fn len(&self) -> usize {
        self.candidates.len()
    }

    /// Whether none is left, which makes the chain fail.
    pub fn is_empty(&self) -> bool {
        self.candidates.is_empty()
    }

    /// All candidates, in order of id.
    pub fn iter(&self) -> impl Iterator<Item = TracedToken> + '_ {
        self.candidates.iter().map(|c| self.with_probability(*c))
    }

    /// A token, if it is a candidate.
    pub fn get(&self, token: TokenId) -> Option<TracedToken> {
        let at = self.candidates.binary_search_by_key(&token, |c| c.id).ok()?;
        Some(self.with_probability(self.candidates[at]))
    }

    /// The `n` most likely candidates, most likely first; fewer if there are
    /// fewer.
    pub fn top(&self, n: usize) -> Vec<TracedToken> {
        let mut all = self.candidates.clone();
        if 0 < n && n < all.len() {
            all.select_nth_unstable_by(n - 1, Candidate::rank);
        }
        all.truncate(n);
        all.sort_unstable_by(Candidate::rank);
        all.into_iter().map(|c| self.with_probability(c)).collect()
    }

    /// The entropy of the probabilities, in bits; 0 where there is no candidate.
    pub fn entropy(&self) -> f64 {
        // Without one best token, whose 1 would swallow the digits of a small rest.
        let (mut rest, mut products) = (-1.0, 0.0);
        for c in &self.candidates {
            let below = c.logit - self.best;
            let weight = f64::from(weight(self.mirror, below));
            rest += weight;
            products += weight * f64::from(below);
        }
        if self.is_empty() {
            return 0.0;
        }
        ((libm::log1p(rest) - products / (1.0 + rest)) / std::f64::consts::LN_2).max(0.0)
    }

    /// Its tokens that are none of `other`'s, with their probabilities here.
    pub(crate) fn without(&self, other: &Self) -> Vec<TracedToken> {
        self.iter().filter(|token| other.get(token.id).is_none()).collect()
    }
}
