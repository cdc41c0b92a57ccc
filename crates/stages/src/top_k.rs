use logitchain_core::{BuildContext, Candidates, Kind, ParamError, Sampler, Stage, register_stage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Keep the `k` most likely tokens.
///
/// Exactly `k` stay: of equal logits at the edge the lower ids do (Fan et al.,
/// 2018). llama.cpp leaves that choice to the layout of a heap.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TopK {
    /// How many tokens to keep; 0 or less is off.
    #[schemars(extend("flags" = ["top-k"]))]
    pub k: i64,
}

register_stage!(TopK);

impl Default for TopK {
    fn default() -> Self {
        Self { k: 40 }
    }
}

impl Stage for TopK {
    const NAME: &'static str = "top_k";
    const KIND: Kind = Kind::Filter;
    const LETTER: Option<char> = Some('k');

    fn neutral() -> Option<Self> {
        Some(Self { k: 0 })
    }

    fn is_neutral(&self) -> bool {
        self.k <= 0
    }

    fn build(self, _: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> {
        Ok(Box::new(self))
    }
}

impl Sampler for TopK {
    fn apply(&mut self, candidates: &mut Candidates<'_>) {
        if let Some(k) = usize::try_from(self.k).ok().filter(|k| *k > 0) {
            candidates.keep_top(k);
        }
    }
}

#[cfg(test)]
mod tests {
    use logitchain_conformance::{assert_stage_laws, survivors};

    use super::*;

    const PROBABILITIES: [f32; 4] = [0.1, 0.4, 0.3, 0.2];

    #[test]
    fn obeys_the_laws() {
        assert_stage_laws::<TopK>();
    }

    #[test]
    fn the_most_likely_stay() {
        assert_eq!(survivors(TopK { k: 1 }, &PROBABILITIES), [1]);
        assert_eq!(survivors(TopK { k: 3 }, &PROBABILITIES), [1, 2, 3]);
        assert_eq!(survivors(TopK { k: 99 }, &PROBABILITIES), [1, 2, 3, 0]);
    }

    #[test]
    fn zero_or_less_is_off() {
        assert_eq!(survivors(TopK { k: 0 }, &PROBABILITIES), [1, 2, 3, 0]);
        assert_eq!(survivors(TopK { k: -1 }, &PROBABILITIES), [1, 2, 3, 0]);
    }

    #[test]
    fn of_equals_at_the_edge_the_lower_ids_stay() {
        assert_eq!(survivors(TopK { k: 2 }, &[0.2, 0.4, 0.2, 0.2]), [1, 0]);
    }
}
