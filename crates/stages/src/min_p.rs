use logitchain_core::{BuildContext, Candidates, Kind, ParamError, Sampler, Stage, register_stage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Drop tokens much less likely than the most likely one.
///
/// A token stays if its probability is at least `p` times that of the best
/// token, so the cut adapts to how sure the model is (Nguyen et al., 2024).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MinP {
    /// Share of the best token's probability that a token needs to stay; 0 is
    /// off.
    #[schemars(range(min = 0.0, max = 1.0), extend("flags" = ["min-p"]))]
    pub p: f64,
    /// Keep at least so many tokens.
    pub min_keep: u32,
}

register_stage!(MinP);

impl Default for MinP {
    fn default() -> Self {
        Self { p: 0.05, min_keep: 0 }
    }
}

impl Stage for MinP {
    const NAME: &'static str = "min_p";
    const KIND: Kind = Kind::Filter;
    const LETTER: Option<char> = Some('m');

    fn neutral() -> Option<Self> {
        Some(Self { p: 0.0, min_keep: 0 })
    }

    fn is_neutral(&self) -> bool {
        self.p <= 0.0
    }

    fn build(self, _: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> {
        ParamError::check_range("p", self.p, 0.0, 1.0)?;
        // Of the f32 value, as llama.cpp takes it, and by code that gives the
        // same bits on every machine.
        let ln_p = libm::log(f64::from(self.p as f32)) as f32;
        Ok(Box::new(Running { ln_p, min_keep: self.min_keep as usize }))
    }
}

#[derive(Clone, Debug)]
struct Running {
    ln_p: f32,
    min_keep: usize,
}

impl Sampler for Running {
    fn apply(&mut self, candidates: &mut Candidates<'_>) {
        // probability >= p * the best one is logit >= best logit + ln p.
        let floor = candidates.best().logit + self.ln_p;
        candidates.keep_at_least(floor, self.min_keep);
    }
}

#[cfg(test)]
mod tests {
    use logitchain_conformance::{assert_stage_laws, survivors};

    use super::*;

    const PROBABILITIES: [f32; 4] = [0.1, 0.5, 0.26, 0.14];

    #[test]
    fn obeys_the_laws() {
        assert_stage_laws::<MinP>();
    }

    /// Half of the best is .25, a quarter .125.
    #[test]
    fn the_share_is_of_the_best_token() {
        let left = |p| survivors(MinP { p, min_keep: 0 }, &PROBABILITIES);
        assert_eq!(left(0.5), [1, 2]);
        assert_eq!(left(0.25), [1, 2, 3]);
        assert_eq!(left(0.1), [1, 2, 3, 0]);
        assert_eq!(left(1.0), [1]);
    }

    #[test]
    fn so_many_stay_in_any_case() {
        assert_eq!(survivors(MinP { p: 1.0, min_keep: 3 }, &PROBABILITIES), [1, 2, 3]);
        assert_eq!(survivors(MinP { p: 1.0, min_keep: 9 }, &PROBABILITIES), [1, 2, 3, 0]);
    }
}
