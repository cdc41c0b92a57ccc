use logitchain_core::{Chain, Distribution};
use serde::Serialize;

use super::draws::{counts, draw, entropy, p_value};
use crate::report::Failure;

/// What a chain makes of some logits.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Measures {
    /// Of the final distribution.
    pub(crate) entropy_bits: f64,
    /// How many tokens can come.
    pub(crate) reachable_tokens: usize,
    /// How probable the others were before the chain, from 0 to 1.
    pub(crate) removed_mass: f64,
    /// Of the frequencies of the tokens drawn.
    pub(crate) drawn_entropy_bits: f64,
    /// Of the draws, given the final distribution; none where all draws are the
    /// same by necessity, or where draws change the distribution.
    pub(crate) p_value: Option<f64>,
    /// Whether the chain draws otherwise after it has drawn.
    pub(crate) moves: bool,
    /// Whether the same seed gave the same draws again.
    pub(crate) repeats: bool,
}

impl Measures {
    /// At a step of a text, counted from 1. `again` is the same chain, built once more.
    pub(crate) fn of(
        mut chain: Chain,
        mut again: Chain,
        step: usize,
        logits: &[f32],
        draws: u32,
    ) -> Result<Self, Failure> {
        let unknown = |source| Failure::Law { nth: step, source };
        let failed = |source| Failure::Sample { nth: step, source };
        let law = chain.distribution(logits).map_err(unknown)?;
        let drawn = draw(&mut chain, logits, draws).map_err(failed)?;
        let repeats = draw(&mut again, logits, draws).map_err(failed)? == drawn;
        let counts = counts(&drawn);
        let moves = chain.distribution(logits).map_err(unknown)? != law;
        Ok(Self {
            entropy_bits: law.entropy(),
            reachable_tokens: law.tokens().len(),
            removed_mass: removed_mass(logits, &law),
            drawn_entropy_bits: entropy(&counts),
            p_value: if moves { None } else { p_value(&counts, &law) },
            moves,
            repeats,
        })
    }
}

/// How probable the tokens are together that cannot come.
fn removed_mass(logits: &[f32], law: &Distribution) -> f64 {
    let best = logits.iter().fold(f32::NEG_INFINITY, |best, logit| best.max(*logit));
    let (mut all, mut kept) = (0.0, law.by_id().iter().peekable());
    let mut removed = 0.0;
    for (nth, logit) in logits.iter().enumerate() {
        let weight = (f64::from(*logit) - f64::from(best)).exp();
        all += weight;
        if kept.next_if(|(token, _)| token.index() == nth).is_none() {
            removed += weight;
        }
    }
    removed / all
}
