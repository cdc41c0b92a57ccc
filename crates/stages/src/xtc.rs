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
    #[schemars(range(max = 1.0), extend("exclusiveMinimum" = 0.0, "flags" = ["xtc-threshold"]))]
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
        ParamError::check_positive("threshold", self.threshold)?;
        ParamError::check_range("threshold", self.threshold, 0.0, 1.0)?;
        Ok(Box::new(Running {
            probability: self.probability,
            threshold: self.threshold,
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
        // Counting all candidates is a read of all logits.
        let enough = self.min_keep == 0 || candidates.len() - dropped >= self.min_keep;
        if dropped > 0 && enough {
            candidates.drop_top(dropped);
        }
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
    use logitchain_conformance::{Trial, assert_laws_of, assert_stage_laws, survivors};

    use super::*;

    const PROBABILITIES: [f32; 5] = [0.4, 0.3, 0.15, 0.1, 0.05];

    fn always(threshold: f64, min_keep: u32) -> Xtc {
        Xtc { probability: 1.0, threshold, min_keep }
    }

    #[test]
    fn obeys_the_laws() {
        assert_stage_laws::<Xtc>();
        assert_laws_of(|| always(0.1, 0));
        assert_laws_of(|| Xtc { probability: 0.5, ..always(0.01, 3) });
    }

    #[test]
    fn the_least_likely_top_choice_stays() {
        assert_eq!(survivors(always(0.12, 0), &PROBABILITIES), [2, 3, 4]);
        assert_eq!(survivors(always(0.2, 0), &PROBABILITIES), [1, 2, 3, 4]);
    }

    /// In `f32` the number written .1 is above a tenth.
    #[test]
    fn tokens_of_exactly_the_threshold_are_top_choices() {
        for n in 2..20_u8 {
            let threshold = 1.0 / f64::from(n);
            let left = survivors(always(threshold, 0), &vec![1.0; n.into()]);
            assert_eq!(left, [u32::from(n) - 1]);
        }
    }

    #[test]
    fn a_single_top_choice_stays() {
        assert_eq!(survivors(always(0.35, 0), &PROBABILITIES), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn nothing_goes_where_too_few_would_be_left() {
        assert_eq!(survivors(always(0.12, 3), &PROBABILITIES), [2, 3, 4]);
        assert_eq!(survivors(always(0.12, 4), &PROBABILITIES), [0, 1, 2, 3, 4]);
    }

    /// Four standard deviations of 1,000 tosses of one in four are 55.
    #[test]
    fn it_acts_as_often_as_it_is_told() {
        let acts = (0..1000).filter(|seed| {
            let stage = Xtc { probability: 0.25, ..always(0.12, 0) };
            let trial = Trial::of(stage).seeded(logitchain_core::RngKind::default(), *seed);
            trial.survivors(&PROBABILITIES).len() == 3
        });
        let n = acts.count();
        assert!(n.abs_diff(250) <= 55, "{n} times");
    }
}
