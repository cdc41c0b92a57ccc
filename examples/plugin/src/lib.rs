//! The top-a filter, as a stage of logitchain's chains: `top_a`.
//!
//! A program has the stage when it writes `use logitchain_top_a as _;`.
//!
//! ```
//! # use logitchain_core::Registry;
//! use logitchain_top_a as _;
//!
//! assert!(Registry::linked()?.get("top-a").is_some());
//! # Ok::<(), logitchain_core::ChainError>(())
//! ```

#![deny(missing_docs)]
#![forbid(unsafe_code)]

use logitchain_core::{BuildContext, Candidates, Kind, ParamError, Sampler, Stage, register_stage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Drop tokens below a threshold that grows with the square of the best one.
///
/// A token stays if its probability is at least `a` times the square of the
/// most likely token's: a sure model loses almost all alternatives, an unsure
/// one almost none. Proposed by the author of RWKV.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TopA {
    /// Share of the best token's squared probability that a token needs to stay.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub a: f64,
}

register_stage!(TopA);

impl Default for TopA {
    fn default() -> Self {
        Self { a: 0.2 }
    }
}

impl Stage for TopA {
    const NAME: &'static str = "top_a";
    const KIND: Kind = Kind::Filter;

    fn neutral() -> Option<Self> {
        Some(Self { a: 0.0 })
    }

    fn build(self, _: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> {
        ParamError::check_range("a", self.a, 0.0, 1.0)?;
        // Without state, the parameters themselves can be what runs.
        Ok(Box::new(self))
    }
}

impl Sampler for TopA {
    fn apply(&mut self, candidates: &mut Candidates<'_>) {
        let best = candidates.best().id;
        let p = candidates.probability(best);
        candidates.keep_probable(self.a * p * p);
    }
}

#[cfg(test)]
mod tests {
    use logitchain_conformance::{assert_stage_laws, survivors};

    use super::TopA;

    #[test]
    fn keeps_the_laws() {
        assert_stage_laws::<TopA>();
    }

    #[test]
    fn a_sure_model_loses_its_alternatives() {
        // The threshold is 0.5 * 0.8 * 0.8 = 0.32.
        assert_eq!(survivors(TopA { a: 0.5 }, &[0.05, 0.8, 0.15]), [1]);
    }

    #[test]
    fn an_unsure_model_keeps_them() {
        // The threshold is 0.5 * 0.4 * 0.4 = 0.08.
        assert_eq!(survivors(TopA { a: 0.5 }, &[0.3, 0.4, 0.25, 0.05]), [1, 0, 2]);
    }

    #[test]
    fn the_best_token_stays_even_alone() {
        assert_eq!(survivors(TopA { a: 1.0 }, &[1.0, 0.0]), [0]);
    }
}
