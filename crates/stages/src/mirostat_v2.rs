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
        let observed = -libm::log2(candidates.probability(token)) as f32;
        self.limit -= self.eta * (observed - self.tau);
    }

    pub(crate) fn reset(&mut self) {
        self.limit = 2.0 * self.tau;
    }
}
