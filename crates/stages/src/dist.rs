use logitchain_core::{
    BuildContext, Candidates, Kind, ParamError, Sampler, Stage, StageRng, register_stage,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Pick a token at random, each with its probability.
///
/// One random number per token, even for a lone candidate: what earlier stages
/// drop cannot shift the stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Dist {}

register_stage!(Dist);

impl Stage for Dist {
    const NAME: &'static str = "dist";
    const KIND: Kind = Kind::Select;

    fn build(self, cx: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> {
        Ok(Box::new(Running { rng: cx.rng() }))
    }
}

#[derive(Clone, Debug)]
struct Running {
    rng: StageRng,
}

impl Sampler for Running {
    fn apply(&mut self, candidates: &mut Candidates<'_>) {
        candidates.draw(&mut self.rng);
    }

    fn reset(&mut self) {
        self.rng.reset();
    }
}
