use logitchain_core::{
    BuildContext, Candidates, Kind, ParamError, Sampler, Stage, StageRng, register_stage,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Now and then drop all likely tokens but the least likely of them.
///
/// With the given probability, decided anew for each token: of the tokens that
/// have at least the probability `threshold`, all but the least likely go,
/// which takes the text off its beaten track (exclude top choices, p-e-w,
/// 2024). With fewer than two such tokens nothing goes. No token is exempt, the
/// end of the text included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Xtc {
    /// How often the stage acts; 0 is off.
    #[schemars(range(min = 0.0, max = 1.0), extend("flags" = ["xtc-probability"]))]
    pub probability: f64,
    /// From which probability a token is a top choice, above 0; beyond 0.5 no
    /// two tokens can be, which is off.
    #[schemars(extend("exclusiveMinimum" = 0.0), range(max = 1.0), extend("flags" = ["xtc-threshold"]))]
    pub threshold: f64,
    /// Do nothing where fewer tokens would be left.
    pub min_keep: u32,
}

register_stage!(Xtc);

impl Default for Xtc {
    fn default() -> Self {
        Self { probability: 0.0, threshold: 0.1, min_keep: 0 }
    }
}

impl Stage for Xtc {
    const NAME: &'static str = "xtc";
    const KIND: Kind = Kind::Filter;
    const LETTER: Option<char> = Some('x');

    fn neutral() -> Option<Self> {
        Some(Self::default())
    }

    fn is_neutral(&self) -> bool {
        self.probability <= 0.0 || self.threshold > 0.5
    }

    fn build(self, cx: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> {
        ParamError::check_range("probability", self.probability, 0.0, 1.0)?;
        ParamError::check_range("threshold", self.threshold, 0.0, 1.0)?;
        ParamError::check_positive("threshold", self.threshold)?;
        Ok(Box::new(Running {
            probability: self.probability,
            threshold: f64::from(self.threshold as f32),
            min_keep: self.min_keep as usize,
            rng: cx.rng(),
        }))
    }
}

#[derive(Clone, Debug)]
struct Running {
    probability: f64,
    threshold: f64,
    min_keep: usize,
    rng: StageRng,
}

impl Sampler for Running {
    fn apply(&mut self, candidates: &mut Candidates<'_>) {
        // llama.cpp tosses no coin over a lone candidate.
        if self.rng.is_mt19937() && candidates.len() < 2 {
            return;
        }
        if !self.rng.coin(self.probability) {
            return;
        }
        let top_choices = candidates.count_probable(self.threshold);
        let dropped = top_choices.saturating_sub(1);
        if dropped > 0 && candidates.len() - dropped >= self.min_keep {
            candidates.drop_top(dropped);
        }
    }

    fn reset(&mut self) {
        self.rng.reset();
    }
}
