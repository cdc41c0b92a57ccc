use logitchain_core::{BuildContext, Candidates, Kind, ParamError, Sampler, Stage, register_stage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Take the most likely token; of equal ones the lowest id.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Greedy {}

register_stage!(Greedy);

impl Stage for Greedy {
    const NAME: &'static str = "greedy";
    const KIND: Kind = Kind::Select;

    fn build(self, _: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> {
        Ok(Box::new(self))
    }
}

impl Sampler for Greedy {
    fn apply(&mut self, candidates: &mut Candidates<'_>) {
        candidates.choose(candidates.best().id);
    }
}
