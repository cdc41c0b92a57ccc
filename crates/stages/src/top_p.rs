use logitchain_core::{BuildContext, Candidates, Kind, ParamError, Sampler, Stage, register_stage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Keep the most likely tokens whose probabilities reach a sum of `p`.
///
/// The token with which the sum reaches `p` stays, so the kept mass is never
/// below it (nucleus sampling, Holtzman et al., 2020).
///
/// # Precision
///
/// A sum within a ten-millionth of `p` counts as `p`: probabilities are no more
/// precise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TopP {
    /// The sum to reach; 1 is off.
    #[schemars(range(min = 0.0, max = 1.0), extend("flags" = ["top-p"]))]
    pub p: f64,
    /// Keep at least so many tokens.
    pub min_keep: u32,
}

register_stage!(TopP);

impl Default for TopP {
    fn default() -> Self {
        Self { p: 0.95, min_keep: 0 }
    }
}

impl Stage for TopP {
    const NAME: &'static str = "top_p";
    const KIND: Kind = Kind::Filter;
    const ALIASES: &'static [&'static str] = &["nucleus"];
    const LETTER: Option<char> = Some('p');

    fn neutral() -> Option<Self> {
        Some(Self { p: 1.0, min_keep: 0 })
    }

    fn is_neutral(&self) -> bool {
        self.p >= 1.0
    }

    fn build(self, _: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> {
        ParamError::check_range("p", self.p, 0.0, 1.0)?;
        Ok(Box::new(Running { p: self.p, min_keep: self.min_keep as usize }))
    }
}

#[derive(Clone, Debug)]
struct Running {
    p: f64,
    min_keep: usize,
}

impl Sampler for Running {
    fn apply(&mut self, candidates: &mut Candidates<'_>) {
        // The sum reaches 1 by rounding before tokens that hardly count.
        if self.p < 1.0 {
            candidates.keep_nucleus(self.p, self.min_keep);
        }
    }
}

#[cfg(test)]
mod tests {
    use logitchain_conformance::{assert_stage_laws, survivors};

    use super::*;

    /// Sums of .5, .8, .95 and 1.
    const PROBABILITIES: [f32; 4] = [0.15, 0.5, 0.05, 0.3];

    fn left(p: f64) -> Vec<u32> {
        survivors(TopP { p, min_keep: 0 }, &PROBABILITIES)
    }

    #[test]
    fn obeys_the_laws() {
        assert_stage_laws::<TopP>();
    }

    #[test]
    fn the_token_with_which_the_sum_is_reached_stays() {
        assert_eq!(left(0.49), [1]);
        assert_eq!(left(0.51), [1, 3]);
        assert_eq!(left(0.81), [1, 3, 0]);
        assert_eq!(left(0.96), [1, 3, 0, 2]);
    }

    /// In `f32` the number written .8 is above four fifths.
    #[test]
    fn a_share_of_equal_tokens_is_exactly_that_share() {
        assert_eq!(survivors(TopP { p: 0.8, min_keep: 0 }, &[1.0; 5]).len(), 4);
        for n in 2..50 {
            for k in 1..n {
                let p = k as f64 / n as f64;
                let left = survivors(TopP { p, min_keep: 0 }, &vec![1.0; n]);
                assert_eq!(left.len(), k, "of {n}");
            }
        }
    }

    #[test]
    fn at_zero_the_best_stays_and_at_one_all_do() {
        assert_eq!(left(0.0), [1]);
        assert_eq!(left(1.0), [1, 3, 0, 2]);
    }

    #[test]
    fn so_many_stay_in_any_case() {
        assert_eq!(survivors(TopP { p: 0.1, min_keep: 3 }, &PROBABILITIES), [1, 3, 0]);
    }
}
