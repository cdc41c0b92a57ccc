use logitchain_core::{BuildContext, Candidates, Kind, ParamError, Sampler, Stage, register_stage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Keep the tokens whose surprise is closest to what is expected.
///
/// Tokens are ranked by how far their surprise, -ln p, lies from the entropy,
/// and the first ones whose probabilities reach a sum of `p` stay (Meister et
/// al., 2022). The most likely token can be dropped.
///
/// llama.cpp gets a NaN for the entropy where a token has probability 0, and
/// then keeps an arbitrary set; here such a token counts nothing. Where the sum
/// equals `p` exactly llama.cpp keeps one token more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Typical {
    /// The sum to reach; 1 is off.
    #[schemars(range(min = 0.0, max = 1.0), extend("flags" = ["typical", "typical-p"]))]
    pub p: f64,
    /// Keep at least so many tokens.
    pub min_keep: u32,
}

register_stage!(Typical);

impl Default for Typical {
    fn default() -> Self {
        Self { p: 1.0, min_keep: 0 }
    }
}

impl Stage for Typical {
    const NAME: &'static str = "typical";
    const KIND: Kind = Kind::Filter;
    const ALIASES: &'static [&'static str] = &["typ_p", "typ", "typical_p"];
    const LETTER: Option<char> = Some('y');

    fn neutral() -> Option<Self> {
        Some(Self::default())
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
        if self.p >= 1.0 {
            return;
        }
        let entropy = candidates.entropy();
        candidates.keep_typical(entropy, self.p, self.min_keep);
    }
}

#[cfg(test)]
mod tests {
    use logitchain_conformance::{assert_stage_laws, survivors};

    use super::*;

    /// Entropy 1.333; the distances of -ln p are .640 .276 .564 .970 1.663, so
    /// the order is 1 2 0 3 4, with sums of .2 .35 .85 .95 1.
    const PROBABILITIES: [f32; 5] = [0.5, 0.2, 0.15, 0.1, 0.05];

    fn left(p: f64, min_keep: u32) -> Vec<u32> {
        survivors(Typical { p, min_keep }, &PROBABILITIES)
    }

    #[test]
    fn obeys_the_laws() {
        assert_stage_laws::<Typical>();
    }

    #[test]
    fn the_best_token_goes_where_others_are_more_typical() {
        assert_eq!(left(0.19, 0), [1]);
        assert_eq!(left(0.34, 0), [1, 2]);
    }

    #[test]
    fn the_token_with_which_the_sum_is_reached_stays() {
        assert_eq!(left(0.36, 0), [0, 1, 2]);
        assert_eq!(left(0.84, 0), [0, 1, 2]);
        assert_eq!(left(0.86, 0), [0, 1, 2, 3]);
        assert_eq!(left(1.0, 0), [0, 1, 2, 3, 4]);
    }

    /// In `f32` the number written .8 is above four fifths.
    #[test]
    fn a_share_of_equal_tokens_is_exactly_that_share() {
        assert_eq!(survivors(Typical { p: 0.8, min_keep: 0 }, &[1.0; 5]).len(), 4);
        for n in 2..50 {
            for k in 1..n {
                let p = k as f64 / n as f64;
                let left = survivors(Typical { p, min_keep: 0 }, &vec![1.0; n]);
                assert_eq!(left.len(), k, "of {n}");
            }
        }
    }

    #[test]
    fn so_many_stay_in_any_case() {
        assert_eq!(left(0.0, 2), [1, 2]);
        assert_eq!(left(0.0, 4), [0, 1, 2, 3]);
    }
}
