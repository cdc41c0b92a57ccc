use logitchain_core::{
    BuildContext, Candidates, Kind, ParamError, Sampler, Stage, StageRng, register_stage,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Pick a token no more surprising than a limit that steers itself.
///
/// Tokens whose surprise, -log2 p, is above the limit are dropped, one is drawn
/// from the rest, and the limit moves by how far the token's surprise was off
/// the target (Basu et al., 2021). The limit starts at twice the target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MirostatV2 {
    /// The surprise to aim at, in bits per token.
    #[schemars(range(min = 0.0), extend("flags" = ["mirostat-ent"]))]
    pub tau: f64,
    /// The rate at which the stage corrects itself.
    #[schemars(range(min = 0.0), extend("flags" = ["mirostat-lr"]))]
    pub eta: f64,
}

register_stage!(MirostatV2);

impl Default for MirostatV2 {
    fn default() -> Self {
        Self { tau: 5.0, eta: 0.1 }
    }
}

impl Stage for MirostatV2 {
    const NAME: &'static str = "mirostat_v2";
    const KIND: Kind = Kind::Select;

    fn build(self, cx: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> {
        let surprise = Surprise::new(self.tau, self.eta)?;
        Ok(Box::new(Running { surprise, rng: cx.rng() }))
    }
}

#[derive(Clone, Debug)]
struct Running {
    surprise: Surprise,
    rng: StageRng,
}

impl Sampler for Running {
    fn apply(&mut self, candidates: &mut Candidates<'_>) {
        candidates.keep_probable(libm::exp2(-f64::from(self.surprise.limit())));
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

/// The feedback that both versions of mirostat share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surprise {
    tau: f32,
    eta: f32,
    /// `mu` in the paper, in bits.
    limit: f32,
}

impl Surprise {
    pub(crate) fn new(tau: f64, eta: f64) -> Result<Self, ParamError> {
        for (param, value) in [("tau", tau), ("eta", eta)] {
            ParamError::check_finite(param, value)?;
            if value < 0.0 {
                return Err(ParamError::new(param, format!("must be at least 0, got {value}")));
            }
        }
        let (tau, eta) = (tau as f32, eta as f32);
        Ok(Self { tau, eta, limit: 2.0 * tau })
    }

    /// The greatest surprise that is allowed now, in bits.
    pub(crate) fn limit(&self) -> f32 {
        self.limit
    }

    /// Draws from the candidates, and learns from what was drawn.
    pub(crate) fn draw(&mut self, candidates: &mut Candidates<'_>, rng: &mut StageRng) {
        // llama.cpp spends no random number on a lone candidate here.
        let token = if rng.is_mt19937() && candidates.len() == 1 {
            let token = candidates.best().id;
            candidates.choose(token);
            token
        } else {
            candidates.draw(rng)
        };
        self.observe(candidates.probability(token));
    }

    /// Learns from a token that had the probability `p`.
    fn observe(&mut self, p: f64) {
        let observed = -libm::log2(p) as f32;
        // A rate beyond reason must not make it infinite, and then no number.
        let limit = self.limit - self.eta * (observed - self.tau);
        self.limit = limit.clamp(-1e30, 1e30);
    }

    pub(crate) fn reset(&mut self) {
        self.limit = 2.0 * self.tau;
    }
}

#[cfg(test)]
mod tests {
    use logitchain_conformance::{assert_stage_laws, survivors};

    use super::*;

    #[test]
    fn obeys_the_laws() {
        assert_stage_laws::<MirostatV2>();
    }

    /// Shares 4 : 2 : 1 have surprises of .807, 1.807 and 2.807 bits.
    #[test]
    fn tokens_above_twice_the_target_go_at_first() {
        let left = |tau| survivors(MirostatV2 { tau, ..Default::default() }, &[4.0, 2.0, 1.0]);
        assert_eq!(left(1.5), [0, 1, 2]);
        assert_eq!(left(1.0), [0, 1]);
        assert_eq!(left(0.9), [0]);
        // The best stays even where it is too surprising.
        assert_eq!(left(0.1), [0]);
    }

    /// From 6 bits, at a rate of .5 and for a surprise of 1 bit against a target
    /// of 3: 6 - .5 * (1 - 3) = 7.
    #[test]
    fn the_limit_moves_by_the_rate_and_starts_over_on_reset() {
        let mut surprise = Surprise::new(3.0, 0.5).expect("fine parameters");
        assert_eq!(surprise.limit(), 6.0);
        surprise.observe(0.5);
        assert_eq!(surprise.limit(), 7.0);
        surprise.reset();
        assert_eq!(surprise.limit(), 6.0);
    }
}
