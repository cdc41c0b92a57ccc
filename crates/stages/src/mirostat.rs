use logitchain_core::{
    BuildContext, Candidates, Kind, ParamError, Sampler, Stage, StageRng, register_stage,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::mirostat_v2::Surprise;

/// Pick a token so that the text's surprise stays near a target.
///
/// Estimates from the most likely tokens how steeply probabilities fall (their
/// Zipf exponent), computes from it how many tokens to choose among, draws, and
/// corrects itself by how surprising the token was (Basu et al., 2021).
///
/// llama.cpp keeps one token where the estimate is no number or too large for
/// one; here so flat a distribution is kept whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Mirostat {
    /// The surprise to aim at, in bits per token.
    #[schemars(range(min = 0.0), extend("flags" = ["mirostat-ent"]))]
    pub tau: f64,
    /// The rate at which the stage corrects itself.
    #[schemars(range(min = 0.0), extend("flags" = ["mirostat-lr"]))]
    pub eta: f64,
    /// From how many of the most likely tokens to estimate the exponent.
    #[schemars(range(min = 1))]
    pub m: u32,
}

register_stage!(Mirostat);

impl Default for Mirostat {
    fn default() -> Self {
        Self { tau: 5.0, eta: 0.1, m: 100 }
    }
}

impl Stage for Mirostat {
    const NAME: &'static str = "mirostat";
    const KIND: Kind = Kind::Select;

    fn build(self, cx: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> {
        if self.m == 0 {
            return Err(ParamError::new("m", "must be at least 1, got 0"));
        }
        Ok(Box::new(Running {
            surprise: Surprise::new(self.tau, self.eta)?,
            m: self.m as usize,
            vocabulary: cx.vocab().size(),
            rng: cx.rng(),
        }))
    }
}

#[derive(Clone, Debug)]
struct Running {
    surprise: Surprise,
    m: usize,
    vocabulary: usize,
    rng: StageRng,
}

impl Running {
    /// How many of the most likely candidates to choose among.
    fn reach(&self, candidates: &mut Candidates<'_>) -> usize {
        let top = candidates.top(self.m);
        // Least squares through the origin: ln(p_i / p_i+1) against
        // ln((i + 1) / i), where the logarithm of a ratio of probabilities is
        // the difference of their logits.
        let (mut products, mut squares) = (0.0, 0.0);
        for (pair, i) in top.windows(2).zip(1..) {
            let t = libm::log(f64::from(i + 1) / f64::from(i));
            let b = f64::from(pair[0].logit) - f64::from(pair[1].logit);
            products += t * b;
            squares += t * t;
        }
        let exponent = products / squares;
        let excess = exponent - 1.0;
        let size = if self.vocabulary > 0 { self.vocabulary } else { candidates.len() } as f64;
        let denominator = 1.0 - libm::pow(size, -excess);
        // As the exponent nears 1, both sides of the fraction near 0.
        let fraction =
            if denominator == 0.0 { 1.0 / libm::log(size) } else { excess / denominator };
        let k = libm::pow(fraction * libm::exp2(f64::from(self.surprise.limit())), 1.0 / exponent);
        // A float converts to the nearest number that fits, NaN to 0.
        if k.is_nan() { usize::MAX } else { (k as usize).max(1) }
    }
}

impl Sampler for Running {
    fn apply(&mut self, candidates: &mut Candidates<'_>) {
        let k = self.reach(candidates);
        candidates.keep_top(k);
        self.surprise.draw(candidates, &mut self.rng);
    }

    fn reset(&mut self) {
        self.surprise.reset();
        self.rng.reset();
    }

    fn reseed(&mut self, rng: StageRng) {
        self.rng = rng;
    }
}

#[cfg(test)]
mod tests {
    use logitchain_conformance::{assert_stage_laws, survivors};

    use super::*;

    #[test]
    fn obeys_the_laws() {
        assert_stage_laws::<Mirostat>();
    }

    /// Weights 1 / i^2 have the exponent 2 exactly. Of 4 tokens then k =
    /// sqrt(2^limit / (1 - 1/4)), where the limit starts at twice tau: for .2
    /// bits 1.33, for 1 bit 2.31, for 1.5 bits 3.27, for 2 bits 4.62.
    #[test]
    fn the_reach_follows_from_exponent_and_limit() {
        let weights = [1, 2, 3, 4].map(|i: u16| 1.0 / f32::from(i * i));
        for (tau, k) in [(0.2, 1), (1.0, 2), (1.5, 3), (2.0, 4)] {
            let stage = Mirostat { tau, ..Default::default() };
            assert_eq!(survivors(stage, &weights), Vec::from_iter(0..k), "tau {tau}");
        }
    }

    /// Without any slope the exponent is 0, and its inverse infinite.
    #[test]
    fn a_flat_distribution_is_kept_whole() {
        assert_eq!(survivors(Mirostat::default(), &[0.25; 4]), [0, 1, 2, 3]);
        assert_eq!(survivors(Mirostat::default(), &[1.0]), [0]);
    }
}
