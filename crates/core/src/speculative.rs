//! Speculative decoding: a cheap model drafts some tokens, and the model in question
//! looks at all of them in one pass and keeps those that it might have drawn itself.
//!
//! The rule is that of Leviathan et al. (2023): whatever is drafted, the tokens have
//! the distribution that the model's own chain gives them.
//!
//! A chain that has accepted drafted tokens is taken back by
//! [`Chain::checkpoint`](crate::Chain::checkpoint) and
//! [`Chain::rollback`](crate::Chain::rollback).

use thiserror::Error;

use crate::{Distribution, StageRng, TokenId};

/// What becomes of a drafted token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It stays.
    Accepted,
    /// This token takes its place, and what was drafted after it is void.
    Replaced(TokenId),
}

/// What becomes of a draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verified {
    /// How many of the drafted tokens stay.
    pub accepted: usize,
    /// The token after those.
    pub next: TokenId,
}

/// A draft that cannot be one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SpeculativeError {
    /// A drafted token has no probability where it was drafted.
    #[error("token {token} cannot have been drafted: its probability there is 0")]
    NotDrafted {
        /// The token.
        token: TokenId,
    },
    /// There must be a distribution after each drafted token, and one before all.
    #[error("{drafted} drafted tokens need {} distributions of the model, not {given}", drafted + 1)]
    Count {
        /// Drafted tokens.
        drafted: usize,
        /// Distributions of the model.
        given: usize,
    },
}

/// Keeps a drafted token with the probability `target / draft`, or draws another from
/// where the target exceeds the draft. Spends two numbers of `rng` in any case, so that
/// what was drafted cannot shift its stream.
///
/// `draft` is the distribution from which the token was drawn, and `target` what the
/// model gives in its place; see [`Chain::distribution`](crate::Chain::distribution).
///
/// # Errors
///
/// If the token cannot have come of `draft`.
///
/// ```
/// use logitchain_core::{BuildContext, Distribution, NoVocab, RngKind, TokenId};
/// use logitchain_core::speculative::{Verdict, accept};
///
/// let mut rng = BuildContext::new(&NoVocab, RngKind::default(), 42).rng();
/// let law = |p: [f64; 2]| Distribution::from_probabilities(&p).expect("probabilities");
/// let (draft, target) = (law([0.5, 0.5]), law([0.0, 1.0]));
/// assert_eq!(accept(TokenId(1), &draft, &target, &mut rng), Ok(Verdict::Accepted));
/// assert_eq!(accept(TokenId(0), &draft, &target, &mut rng), Ok(Verdict::Replaced(TokenId(1))));
/// ```
pub fn accept(
    drafted: TokenId,
    draft: &Distribution,
    target: &Distribution,
    rng: &mut StageRng,
) -> Result<Verdict, SpeculativeError> {
    let (toss, u) = (rng.uniform(), rng.uniform());
    let probability = draft.probability(drafted);
    if probability <= 0.0 {
        return Err(SpeculativeError::NotDrafted { token: drafted });
    }
    if toss * probability < target.probability(drafted) {
        return Ok(Verdict::Accepted);
    }
    let excess = target.by_id().iter().map(|&(id, p)| (id, (p - draft.probability(id)).max(0.0)));
    // Where rounding left no excess, the two are the same.
    let token = pick(excess, u).or_else(|| pick(target.by_id().iter().copied(), u));
    Ok(Verdict::Replaced(token.unwrap_or_else(|| target.best())))
}

/// Verifies a whole draft: token by token until one is replaced, and where all stay,
/// draws one more.
///
/// `draft` has each drafted token with the distribution that it was drawn from;
/// `target` what the model gives in the place of each, and after the last.
///
/// # Errors
///
/// If the numbers of both do not fit, or a token cannot have been drafted.
pub fn verify(
    draft: &[(TokenId, Distribution)],
    target: &[Distribution],
    rng: &mut StageRng,
) -> Result<Verified, SpeculativeError> {
    let (drafted, given) = (draft.len(), target.len());
    let Some((last, targets)) = target.split_last().filter(|_| given == drafted + 1) else {
        return Err(SpeculativeError::Count { drafted, given });
    };
    for (accepted, ((token, from), target)) in draft.iter().zip(targets).enumerate() {
        if let Verdict::Replaced(next) = accept(*token, from, target, rng)? {
            return Ok(Verified { accepted, next });
        }
    }
    let next = pick(last.by_id().iter().copied(), rng.uniform()).unwrap_or_else(|| last.best());
    Ok(Verified { accepted: drafted, next })
}

/// The token in whose stretch of a line `u` falls; `None` if the line has no length.
fn pick(weights: impl Iterator<Item = (TokenId, f64)> + Clone, u: f64) -> Option<TokenId> {
    let target = u * weights.clone().map(|(_, weight)| weight).sum::<f64>();
    let (mut sum, mut last) = (0.0, None);
    for (id, weight) in weights.filter(|(_, weight)| *weight > 0.0) {
        sum += weight;
        last = Some(id);
        if sum > target {
            break;
        }
    }
    last
}
