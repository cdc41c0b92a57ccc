use logitchain_core::{
    BuildContext, Candidates, Kind, ParamError, Sampler, Stage, StageRng, TokenId, register_stage,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Pick tokens whose probabilities stay near a target on average.
///
/// Every candidate gets a new logit that falls with the distance of its
/// probability from an aim, and one is drawn. The aim makes up for what the
/// last tokens missed: it is twice the target less their weighted mean, each
/// older token counting `decay` times as much as the next (llama.cpp, 2025).
///
/// A clone goes on with the random numbers of the original, where llama.cpp's
/// starts them over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AdaptiveP {
    /// The probability to aim at; below 0, tokens are drawn as they are.
    #[schemars(range(min = -1.0, max = 1.0), extend("flags" = ["adaptive-target"]))]
    pub target: f64,
    /// How much an older token counts against the next newer one.
    #[schemars(range(min = 0.0, max = 0.99), extend("flags" = ["adaptive-decay"]))]
    pub decay: f64,
}

register_stage!(AdaptiveP);

impl Default for AdaptiveP {
    fn default() -> Self {
        Self { target: -1.0, decay: 0.9 }
    }
}

impl Stage for AdaptiveP {
    const NAME: &'static str = "adaptive_p";
    const KIND: Kind = Kind::Select;
    const LETTER: Option<char> = Some('a');

    fn build(self, cx: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> {
        ParamError::check_range("target", self.target, -1.0, 1.0)?;
        ParamError::check_range("decay", self.decay, 0.0, 0.99)?;
        let (target, decay) = (self.target as f32, self.decay as f32);
        let average = Average::new(target, decay);
        Ok(Box::new(Running { target, decay, average, drawn: None, rng: cx.rng() }))
    }
}

/// A weighted mean of the probabilities of the last tokens.
#[derive(Clone, Copy, Debug)]
struct Average {
    sum: f32,
    weight: f32,
}

impl Average {
    /// As if the target had been met for ever.
    fn new(target: f32, decay: f32) -> Self {
        Self { sum: target / (1.0 - decay), weight: 1.0 / (1.0 - decay) }
    }

    fn add(&mut self, p: f32, decay: f32) {
        self.sum = p + decay * self.sum;
        self.weight = 1.0 + decay * self.weight;
    }
}

#[derive(Clone, Debug)]
struct Running {
    target: f32,
    decay: f32,
    average: Average,
    /// The token drawn last, and its probability before the logits changed.
    drawn: Option<(TokenId, f32)>,
    rng: StageRng,
}

impl Sampler for Running {
    fn apply(&mut self, candidates: &mut Candidates<'_>) {
        // llama.cpp spends no random number on a lone candidate here.
        let lone = self.rng.is_mt19937() && candidates.len() == 1;
        let choose_lone = |candidates: &mut Candidates<'_>| {
            let token = candidates.best().id;
            candidates.choose(token);
            token
        };
        if self.target < 0.0 {
            if lone {
                choose_lone(candidates);
            } else {
                candidates.draw(&mut self.rng);
            }
            return;
        }
        let Average { sum, weight } = self.average;
        let aim = (2.0 * self.target - sum / weight).clamp(0.0, 1.0);
        let reshaped = |p: f32| {
            let d = ((p - aim) * (1.0 / 0.3_f32)).abs();
            5.0 - 10.0 * d * d / (1.0 + d)
        };
        self.drawn = Some(if lone {
            candidates.rescale(|_| reshaped(1.0));
            (choose_lone(candidates), 1.0)
        } else {
            candidates.draw_reshaped(&mut self.rng, reshaped)
        });
    }

    fn accept(&mut self, token: TokenId) {
        if let Some((drawn, p)) = self.drawn.take()
            && drawn == token
        {
            self.average.add(p, self.decay);
        }
    }

    fn reset(&mut self) {
        self.average = Average::new(self.target, self.decay);
        self.drawn = None;
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
        assert_stage_laws::<AdaptiveP>();
    }

    /// The aim is the target at first. By hand, with d = |p - .5| / .3: d is 0,
    /// 2/3 and 1, and 5 - 10 d^2 / (1 + d) is 5, 2.3333 and 0.
    #[test]
    fn logits_fall_with_the_distance_from_the_target() {
        let stage = AdaptiveP { target: 0.5, ..Default::default() };
        let logits = [0.5_f32, 0.3, 0.2].map(f32::ln);
        let left = Trial::of(stage).logits(&logits);
        assert_eq!(left.iter().map(|c| c.0).collect::<Vec<_>>(), [0, 1, 2]);
        for ((_, got), expected) in left.iter().zip([5.0, 2.333_333, 0.0]) {
            assert!((got - expected).abs() < 1e-4, "{left:?}");
        }
    }

    #[test]
    fn a_token_nearer_to_the_target_can_overtake_the_most_likely_one() {
        let stage = AdaptiveP { target: 0.2, ..Default::default() };
        assert_eq!(Trial::of(stage).survivors(&[0.7, 0.21, 0.09]), [1, 2, 0]);
    }

    #[test]
    fn below_zero_the_logits_stay() {
        assert_eq!(Trial::of(AdaptiveP::default()).logits(&[1.0, 0.5]), [(0, 1.0), (1, 0.5)]);
    }

    /// A draw of .2 against a target of .5 lowers the mean to (.2 + .9 * 5) /
    /// (1 + .9 * 10) = .47, so that the next aim is 2 * .5 - .47 = .53.
    #[test]
    fn the_aim_makes_up_for_the_last_token() {
        let mut average = Average::new(0.5, 0.9);
        assert!((average.sum / average.weight - 0.5).abs() < 1e-6);
        average.add(0.2, 0.9);
        assert!((average.sum / average.weight - 0.47).abs() < 1e-6);
    }
}
