use logitchain_core::{BuildContext, Candidates, Kind, ParamError, Sampler, Stage, register_stage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Keep tokens within `n` standard deviations of the best logit.
///
/// The deviation is that of all candidates' logits, so the cut does not move
/// with the temperature (Tang et al., 2024).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TopNSigma {
    /// How many standard deviations below the best logit a token may lie; 0 or
    /// less is off.
    #[schemars(extend("flags" = ["top-nsigma", "top-n-sigma"]))]
    pub n: f64,
}

register_stage!(TopNSigma);

impl Default for TopNSigma {
    fn default() -> Self {
        Self { n: -1.0 }
    }
}

impl Stage for TopNSigma {
    const NAME: &'static str = "top_n_sigma";
    const KIND: Kind = Kind::Filter;
    const LETTER: Option<char> = Some('s');

    fn neutral() -> Option<Self> {
        Some(Self::default())
    }

    fn is_neutral(&self) -> bool {
        self.n <= 0.0
    }

    fn build(self, _: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> {
        ParamError::check_finite("n", self.n)?;
        Ok(Box::new(self))
    }
}

impl Sampler for TopNSigma {
    fn apply(&mut self, candidates: &mut Candidates<'_>) {
        if !self.is_neutral() {
            let reach = self.n as f32 * candidates.deviation() as f32;
            candidates.keep_at_least(candidates.best().logit - reach, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use logitchain_conformance::{Trial, assert_stage_laws};

    use super::*;

    /// Mean 5, population deviation 2.
    const LOGITS: [f32; 8] = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];

    fn left(n: f64, logits: &[f32]) -> Vec<u32> {
        Trial::of(TopNSigma { n }).logits(logits).iter().map(|c| c.0).collect()
    }

    #[test]
    fn obeys_the_laws() {
        assert_stage_laws::<TopNSigma>();
    }

    /// 9 - 2 = 7 stays, and 9 - 2 * 2.1 = 4.8 lets the fives stay.
    #[test]
    fn tokens_within_so_many_deviations_stay() {
        assert_eq!(left(0.5, &LOGITS), [7]);
        assert_eq!(left(1.0, &LOGITS), [7, 6]);
        assert_eq!(left(2.1, &LOGITS), [7, 6, 4, 5]);
        assert_eq!(left(0.0, &LOGITS).len(), 8);
    }

    /// The deviation doubles with the logits.
    #[test]
    fn the_cut_does_not_move_with_the_temperature() {
        assert_eq!(left(2.1, &LOGITS.map(|logit| logit * 2.0)), [7, 6, 4, 5]);
    }
}
