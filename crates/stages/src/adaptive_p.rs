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
        Ok(Box::new(Running {
            target,
            decay,
            average,
            drawn: None,
            before: Vec::new(),
            rng: cx.rng(),
        }))
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
}

#[derive(Clone, Debug)]
struct Running {
    target: f32,
    decay: f32,
    average: Average,
    /// The token drawn last, and its probability before the logits changed.
    drawn: Option<(TokenId, f32)>,
    /// What the probabilities were before the logits changed.
    before: Vec<(TokenId, f32)>,
    rng: StageRng,
}

impl Running {
    fn draw(&mut self, candidates: &mut Candidates<'_>) -> TokenId {
        // llama.cpp spends no random number on a lone candidate here.
        if self.rng.is_mt19937() && candidates.len() == 1 {
            candidates.choose(candidates.best().id);
            return candidates.best().id;
        }
        candidates.draw(&mut self.rng)
    }
}

impl Sampler for Running {
    fn apply(&mut self, candidates: &mut Candidates<'_>) {
        if self.target < 0.0 {
            self.draw(candidates);
            return;
        }
        let Average { sum, weight } = self.average;
        let aim = (2.0 * self.target - sum / weight).clamp(0.0, 1.0);
        let before = &mut self.before;
        before.clear();
        candidates.rewrite(|c, p| {
            let p = p as f32;
            before.push((c.id, p));
            let d = ((p - aim) * (1.0 / 0.3_f32)).abs();
            5.0 - 10.0 * d * d / (1.0 + d)
        });
        let token = self.draw(candidates);
        self.drawn = self.before.iter().find(|(id, _)| *id == token).copied();
    }

    fn accept(&mut self, token: TokenId) {
        if let Some((drawn, p)) = self.drawn.take()
            && drawn == token
        {
            self.average.sum = p + self.decay * self.average.sum;
            self.average.weight = 1.0 + self.decay * self.average.weight;
        }
    }

    fn reset(&mut self) {
        self.average = Average::new(self.target, self.decay);
        self.drawn = None;
        self.rng.reset();
    }
}
