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

#[cfg(test)]
mod tests {
    use logitchain_conformance::{Trial, assert_stage_laws};

    use super::*;

    #[test]
    fn obeys_the_laws() {
        assert_stage_laws::<Greedy>();
    }

    #[test]
    fn the_most_likely_token_is_taken_every_time() {
        assert_eq!(Trial::of(Greedy {}).choices(3, &[0.2, 0.5, 0.3]), [1, 1, 1]);
    }

    #[test]
    fn of_equals_the_lowest_id_is_taken() {
        assert_eq!(Trial::of(Greedy {}).choices(1, &[0.1, 0.3, 0.3, 0.3]), [1]);
    }
}
