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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use logitchain_core::{
        BuildContext, Candidates, ChainConfig, Kind, NoVocab, ParamError, Registry, Sampler, Stage,
        TokenId,
    };
    use schemars::JsonSchema;
    use serde::Deserialize;

    use super::*;

    /// Chooses by a number that no seed decides, against the contract.
    #[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    struct Elsewhere {}

    impl Stage for Elsewhere {
        const NAME: &'static str = "elsewhere";
        const KIND: Kind = Kind::Select;

        fn build(self, _: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> {
            Ok(Box::new(self))
        }
    }

    impl Sampler for Elsewhere {
        fn apply(&mut self, candidates: &mut Candidates<'_>) {
            static CALLS: AtomicU32 = AtomicU32::new(0);
            // Every third one.
            candidates.choose(TokenId(CALLS.fetch_add(1, Ordering::Relaxed) % 3 / 2));
        }
    }

    #[test]
    fn a_chain_that_a_seed_does_not_decide_is_found_out() {
        let registry = Registry::default().with::<Elsewhere>().expect("one stage");
        let config = ChainConfig::from_samplers("elsewhere").expect("a list");
        let build = || config.build(&registry, &NoVocab).expect("a chain");
        let measures = Measures::of(build(), build(), 1, &[0.0, 0.0], 100).expect("tokens");
        assert!(!measures.repeats);
    }
}
