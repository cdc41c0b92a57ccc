use std::collections::{HashMap, VecDeque, hash_map::Entry};
use std::hint::select_unpredictable;

use foldhash::fast::FixedState;
use logitchain_core::{
    BuildContext, Candidates, Kind, ParamError, Sampler, Stage, TokenId, register_stage,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Window;

/// Make tokens that occurred lately less likely.
///
/// For every distinct token in the window: a logit above 0 is divided by
/// `repeat` and any other multiplied by it, once, however often the token
/// occurred (Keskar et al., 2019); then `frequency` times its count and, once,
/// `presence` are subtracted. The window slides over the whole text: it starts
/// with the prompt's last tokens, those of a chat template included.
///
/// The rule depends on where the model's logits have their zero: adding a
/// constant to all of them changes the result. A `repeat` between 0 and 1 and
/// negative `frequency` or `presence` encourage repetition.
///
/// Place it before stages that drop tokens: it cannot bring a token back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Penalties {
    /// How many of the last tokens count, or "all"; 0 is off.
    #[schemars(extend("flags" = ["repeat-last-n"]))]
    pub last_n: Window,
    /// Divides the logits of repeated tokens; above 0, and 1 is off.
    #[schemars(extend("exclusiveMinimum" = 0.0, "flags" = ["repeat-penalty"]))]
    pub repeat: f64,
    /// Subtracted once for every occurrence; 0 is off.
    #[schemars(extend("flags" = ["frequency-penalty"]))]
    pub frequency: f64,
    /// Subtracted once if the token occurred at all; 0 is off.
    #[schemars(extend("flags" = ["presence-penalty"]))]
    pub presence: f64,
    /// Which comes first: `repeat_first` as in llama.cpp and vLLM, or
    /// `subtract_first` as in mistral.rs and MLC.
    pub order: PenaltyOrder,
}

/// Which of the two kinds of penalty is applied first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum PenaltyOrder {
    /// Divide or multiply, then subtract.
    #[default]
    RepeatFirst,
    /// Subtract, then divide or multiply.
    SubtractFirst,
}

register_stage!(Penalties);

impl Default for Penalties {
    fn default() -> Self {
        Self {
            last_n: Window::Last(64),
            repeat: 1.0,
            frequency: 0.0,
            presence: 0.0,
            order: PenaltyOrder::RepeatFirst,
        }
    }
}

impl Stage for Penalties {
    const NAME: &'static str = "penalties";
    const KIND: Kind = Kind::Penalty;
    const LETTER: Option<char> = Some('e');

    fn neutral() -> Option<Self> {
        Some(Self::default())
    }

    fn is_neutral(&self) -> bool {
        let penalties = [self.repeat - 1.0, self.frequency, self.presence];
        self.last_n.is_empty() || penalties == [0.0; 3]
    }

    fn build(self, _: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> {
        ParamError::check_positive("repeat", self.repeat)?;
        if !(1.0 / self.repeat as f32).is_finite() {
            let problem = format!("is too close to 0: dividing by {} overflows", self.repeat);
            return Err(ParamError::new("repeat", problem));
        }
        ParamError::check_finite("frequency", self.frequency)?;
        ParamError::check_finite("presence", self.presence)?;
        Ok(Box::new(Running {
            repeat: self.repeat as f32,
            frequency: self.frequency as f32,
            presence: self.presence as f32,
            order: self.order,
            last_n: self.last_n,
            recent: VecDeque::new(),
            counts: HashMap::default(),
            notes: None,
        }))
    }
}

#[derive(Clone, Debug)]
struct Running {
    repeat: f32,
    frequency: f32,
    presence: f32,
    order: PenaltyOrder,
    last_n: Window,
    /// The tokens in the window, oldest first; empty where none ever leaves it.
    recent: VecDeque<TokenId>,
    /// How often each token is in the window.
    counts: HashMap<TokenId, u32, FixedState>,
    /// Since a checkpoint: each token that came, and the one that left for it.
    notes: Option<Vec<(TokenId, Option<TokenId>)>>,
}

impl Running {
    fn add(&mut self, token: TokenId) {
        let count = self.counts.entry(token).or_default();
        *count = count.saturating_add(1);
    }

    fn take_off(&mut self, token: TokenId) {
        if let Entry::Occupied(mut count) = self.counts.entry(token) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

impl Sampler for Running {
    fn apply(&mut self, candidates: &mut Candidates<'_>) {
        let repeat = |logit: f32| {
            // As good as random: a wrong guess would cost more than both.
            select_unpredictable(logit <= 0.0, logit * self.repeat, logit / self.repeat)
        };
        let subtract =
            |logit: f32, count: u32| logit - (count as f32 * self.frequency + self.presence);
        candidates.adjust(&self.counts, |logit, &count| match self.order {
            PenaltyOrder::RepeatFirst => subtract(repeat(logit), count),
            PenaltyOrder::SubtractFirst => repeat(subtract(logit, count)),
        });
    }

    fn accept(&mut self, token: TokenId) {
        if self.last_n.is_empty() {
            return;
        }
        let full = self.last_n.is_full(self.recent.len());
        let oldest = if full { self.recent.pop_front() } else { None };
        if let Some(oldest) = oldest {
            self.take_off(oldest);
        }
        if self.last_n != Window::All {
            self.recent.push_back(token);
        }
        self.add(token);
        if let Some(notes) = &mut self.notes {
            notes.push((token, oldest));
        }
    }

    fn reset(&mut self) {
        self.recent.clear();
        self.counts.clear();
        self.notes = None;
    }

    fn checkpoint(&mut self) -> bool {
        self.notes.get_or_insert_default().clear();
        true
    }

    fn rollback(&mut self) {
        for (token, oldest) in self.notes.take().unwrap_or_default().into_iter().rev() {
            self.take_off(token);
            self.recent.pop_back();
            if let Some(oldest) = oldest {
                self.recent.push_front(oldest);
                self.add(oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use logitchain_conformance::{Trial, assert_laws_of, assert_stage_laws};

    use super::*;

    fn after(stage: Penalties, history: &[u32], logits: &[f32]) -> Vec<(u32, f32)> {
        Trial::of(stage).after(history).logits(logits)
    }

    #[test]
    fn obeys_the_laws() {
        assert_stage_laws::<Penalties>();
        let order = PenaltyOrder::SubtractFirst;
        assert_laws_of(|| Penalties { repeat: 1.3, frequency: 0.2, order, ..Default::default() });
        assert_laws_of(|| Penalties { presence: 0.5, last_n: Window::All, ..Default::default() });
    }

    #[test]
    fn positive_logits_are_divided_and_negative_ones_multiplied_once() {
        let stage = Penalties { repeat: 2.0, ..Default::default() };
        let left = after(stage, &[0, 1, 0], &[3.0, -1.0, 0.5]);
        assert_eq!(left, [(0, 1.5), (2, 0.5), (1, -2.0)]);
    }

    /// Token 0 occurs twice: 1 - 2 * .5 - .25 = -.25; token 1: 1 - .5 - .25.
    #[test]
    fn frequency_counts_and_presence_does_not() {
        let stage = Penalties { frequency: 0.5, presence: 0.25, ..Default::default() };
        let left = after(stage, &[0, 1, 0], &[1.0, 1.0, 1.0]);
        assert_eq!(left, [(2, 1.0), (1, 0.25), (0, -0.25)]);
    }

    /// 4 / 2 - 1 = 1 and (4 - 1) / 2 = 1.5.
    #[test]
    fn the_order_of_both_kinds_can_be_chosen() {
        let stage = |order| Penalties { repeat: 2.0, presence: 1.0, order, ..Default::default() };
        assert_eq!(after(stage(PenaltyOrder::RepeatFirst), &[0], &[4.0])[0].1, 1.0);
        assert_eq!(after(stage(PenaltyOrder::SubtractFirst), &[0], &[4.0])[0].1, 1.5);
    }

    #[test]
    fn tokens_leave_the_window() {
        let stage = |last_n| Penalties { presence: 1.0, last_n, ..Default::default() };
        let history = [0, 1, 2];
        let all = after(stage(Window::All), &history, &[0.0; 4]);
        assert_eq!(all, [(3, 0.0), (0, -1.0), (1, -1.0), (2, -1.0)]);
        let two = after(stage(Window::Last(2)), &history, &[0.0; 4]);
        assert_eq!(two, [(0, 0.0), (3, 0.0), (1, -1.0), (2, -1.0)]);
    }
}
