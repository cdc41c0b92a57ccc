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

    fn reseed(&mut self, rng: StageRng) {
        self.rng = rng;
    }
}

#[cfg(test)]
mod tests {
    use logitchain_conformance::{Trial, assert_stage_laws};

    use super::*;

    #[test]
    fn obeys_the_laws() {
        assert_stage_laws::<Dist>();
    }

    /// Four standard deviations of 10,000 draws: 196, 184 and 120.
    #[test]
    fn tokens_come_as_often_as_they_are_probable() {
        let choices = Trial::of(Dist {}).choices(10_000, &[0.6, 0.3, 0.1]);
        let count = |id| choices.iter().filter(|c| **c == id).count();
        assert!(count(0).abs_diff(6000) <= 196, "{}", count(0));
        assert!(count(1).abs_diff(3000) <= 184, "{}", count(1));
        assert!(count(2).abs_diff(1000) <= 120, "{}", count(2));
    }

    #[test]
    fn a_token_without_probability_never_comes() {
        let choices = Trial::of(Dist {}).choices(1000, &[0.0, 0.5, 0.0, 0.5, 0.0]);
        assert!(choices.iter().all(|id| [1, 3].contains(id)));
        assert_eq!(Trial::of(Dist {}).choices(3, &[0.0, 1.0]), [1, 1, 1]);
    }
}
