use logitchain_core::{BuildContext, Candidates, Kind, ParamError, Sampler, Stage, register_stage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Sharpen or flatten the distribution.
///
/// Logits are divided by `t`. At 0 or below, only the most likely token is
/// left: greedy, after whatever the stages before it did. Where a tiny `t` makes
/// the quotients overflow, the best token is left with its equals. Two such
/// stages in a chain multiply.
///
/// With a `range` the temperature follows the entropy between `t - range` and
/// `t + range`: low where the model is sure, high where it is not. It is
/// `low + (high - low) * (H / H_max)^exponent`, where `H_max` is the entropy of
/// as many equally likely candidates (dynamic temperature, kalomaze, 2023). A
/// lone candidate is left as it is.
///
/// llama.cpp counts masked tokens into `H_max`; here they are no candidates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Temperature {
    /// Logits are divided by this; 1 is off, 0 or less is greedy.
    #[schemars(extend("flags" = ["temp", "temperature"]))]
    pub t: f64,
    /// How far the temperature may follow the entropy, up and down; 0 is off.
    #[schemars(range(min = 0.0), extend("flags" = ["dynatemp-range"]))]
    pub range: f64,
    /// How the temperature follows the entropy; 1 is in proportion.
    #[schemars(extend("flags" = ["dynatemp-exp"]))]
    pub exponent: f64,
}

register_stage!(Temperature);

impl Default for Temperature {
    fn default() -> Self {
        Self { t: 0.8, range: 0.0, exponent: 1.0 }
    }
}

impl Stage for Temperature {
    const NAME: &'static str = "temperature";
    const KIND: Kind = Kind::Rescale;
    const ALIASES: &'static [&'static str] = &["temp"];
    const LABEL: Option<&'static str> = Some("temp-ext");
    const LETTER: Option<char> = Some('t');

    fn neutral() -> Option<Self> {
        Some(Self { t: 1.0, ..Self::default() })
    }

    fn is_neutral(&self) -> bool {
        self.t == 1.0 && self.range == 0.0
    }

    fn build(self, _: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> {
        ParamError::check_finite("t", self.t)?;
        ParamError::check_finite("exponent", self.exponent)?;
        ParamError::check_finite("range", self.range)?;
        if self.range < 0.0 {
            let problem = format!("must be at least 0, got {}", self.range);
            return Err(ParamError::new("range", problem));
        }
        if !(self.t as f32 + self.range as f32).is_finite() {
            let problem = format!("must leave `t` + `range` within f32, got {:?}", self.range);
            return Err(ParamError::new("range", problem));
        }
        Ok(Box::new(Running {
            t: self.t as f32,
            range: self.range as f32,
            exponent: self.exponent as f32,
        }))
    }
}

#[derive(Clone, Debug)]
struct Running {
    t: f32,
    range: f32,
    exponent: f32,
}

impl Running {
    /// The temperature for these candidates; `None` if they are to stay.
    fn temperature(&self, candidates: &mut Candidates<'_>) -> Option<f32> {
        if self.range <= 0.0 {
            return Some(self.t);
        }
        let (entropy, count) = (candidates.entropy(), candidates.len());
        if count < 2 {
            return None;
        }
        let (low, high) = ((self.t - self.range).max(0.0), self.t + self.range);
        let share = entropy / libm::log(count as f64);
        let t = low + (high - low) * libm::pow(share, f64::from(self.exponent)) as f32;
        // A negative exponent of no entropy at all is an infinite temperature.
        Some(t.min(f32::MAX))
    }
}

impl Sampler for Running {
    fn apply(&mut self, candidates: &mut Candidates<'_>) {
        match self.temperature(candidates) {
            None => {}
            Some(t) if t > 0.0 => candidates.temper(t),
            Some(_) => candidates.keep_top(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use logitchain_conformance::{Trial, assert_stage_laws, distribution, survivors};

    use super::*;

    #[test]
    fn obeys_the_laws() {
        assert_stage_laws::<Temperature>();
    }

    #[test]
    fn logits_are_divided() {
        let stage = Temperature { t: 0.5, ..Default::default() };
        assert_eq!(Trial::of(stage).logits(&[1.0, -2.0]), [(0, 2.0), (1, -4.0)]);
    }

    #[test]
    fn at_zero_or_below_the_best_token_is_left() {
        for t in [0.0, -1.0] {
            let stage = Temperature { t, ..Default::default() };
            assert_eq!(survivors(stage, &[0.2, 0.4, 0.4]), [1]);
        }
    }

    /// Two equals have all the entropy that two can have, so the temperature is
    /// the highest, 1.5. A certainty has none: the lowest, .5. Probabilities of
    /// (2, 0) at 1.5: 1 / (1 + e^-1.333) = .791.
    #[test]
    fn with_a_range_the_temperature_follows_the_entropy() {
        let stage = |exponent| Temperature { t: 1.0, range: 0.5, exponent };
        let flat = Trial::of(stage(1.0)).logits(&[3.0, 3.0]);
        assert_eq!(flat, [(0, 2.0), (1, 2.0)]);
        let peaked = Trial::of(stage(1.0)).logits(&[0.0, -1000.0]);
        assert_eq!(peaked, [(0, 0.0), (1, -2000.0)]);
        // To the power of 0 any share of the entropy is 1.
        let high = distribution(stage(0.0), &[2.0, 0.0]);
        assert!((high[0].1 - 0.791_391).abs() < 1e-5, "{high:?}");
    }

    /// The rest has e^-30 = 9.3576e-14, so the entropy is 31 times that (each of
    /// it has a surprise of 30, and ln(1 + x) is x), 2.9009e-12. Twice its share
    /// of ln 2 is 8.3701e-12, and -30 divided by it is -3.5842e12.
    #[test]
    fn the_entropy_of_a_near_certainty_has_all_its_digits() {
        let stage = Temperature { t: 1.0, range: 1.0, exponent: 1.0 };
        let left = Trial::of(stage).logits(&[0.0, -30.0]);
        assert!((left[1].1 / -3.584_17e12 - 1.0).abs() < 1e-5, "{left:?}");
    }

    #[test]
    fn a_lone_candidate_has_no_entropy_to_follow() {
        let stage = Temperature { t: 2.0, range: 1.0, exponent: 1.0 };
        assert_eq!(Trial::of(stage).logits(&[3.0, f32::NEG_INFINITY]), [(0, 3.0)]);
    }
}
