use std::collections::HashMap;

use logitchain_core::{
    BuildContext, Candidates, Kind, ParamError, Sampler, Stage, TokenId, register_stage,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Decide between filling a gap and ending it, for fill-in-the-middle models.
///
/// If tokens that end the generation weigh more than a third of what the others
/// do per candidate, only they stay. Otherwise a token whose text begins
/// another's is merged into the more likely of the two, unlikely tokens go
/// (below 0.2, then below an even share of the rest), and the ending ones stay.
/// Survivors keep their own logits. This is llama.cpp's rule.
///
/// Where it leaves nothing but endings, the end of the turn alone stays. If
/// that token has been dropped before, the other endings stay, or else the most
/// likely token: llama.cpp brings the dropped one back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Infill {}

register_stage!(Infill);

impl Stage for Infill {
    const NAME: &'static str = "infill";
    const KIND: Kind = Kind::Filter;
    const LETTER: Option<char> = Some('i');

    fn build(self, cx: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> {
        let vocab = cx.vocab();
        let tokens = (0..vocab.size() as u32).map(TokenId);
        let texts = tokens
            .map(|token| {
                let shown = if vocab.is_special(token) { &[][..] } else { vocab.bytes(token) };
                (shown.into(), vocab.is_end_of_generation(token))
            })
            .collect();
        Ok(Box::new(Running { texts, end_of_turn: vocab.end_of_turn() }))
    }
}

#[derive(Clone, Debug)]
struct Running {
    /// Each token's text, empty for special ones, and whether it is an ending.
    texts: std::sync::Arc<[(Box<[u8]>, bool)]>,
    end_of_turn: Option<TokenId>,
}

/// A candidate while the rule is worked out.
#[derive(Clone, Copy, Debug)]
struct Entry {
    id: TokenId,
    p: f64,
    merged: bool,
}

impl Running {
    fn text(&self, id: TokenId) -> &[u8] {
        self.texts.get(id.index()).map_or(&[], |(text, _)| text)
    }

    fn is_ending(&self, id: TokenId) -> bool {
        self.texts.get(id.index()).is_some_and(|(_, ending)| *ending)
    }

    /// Adds up the probabilities of tokens of which one begins the other.
    fn merge(&self, entries: &mut [Entry]) {
        let mut places = HashMap::<&[u8], Vec<usize>>::new();
        for (at, entry) in entries.iter().enumerate() {
            places.entry(self.text(entry.id)).or_default().push(at);
        }
        // The pairs of a shorter and a longer text, in order of the shorter's
        // rank and then the longer's, as two nested loops would meet them.
        let mut pairs = Vec::new();
        for (longer, entry) in entries.iter().enumerate() {
            let text = self.text(entry.id);
            for length in 1..=text.len() {
                let beginnings = places.get(&text[..length]).into_iter().flatten();
                pairs.extend(beginnings.filter(|at| **at != longer).map(|at| (*at, longer)));
            }
        }
        pairs.sort_unstable();
        for (a, b) in pairs {
            if entries[a].merged || entries[b].merged {
                continue;
            }
            let (winner, loser) = if entries[a].p > entries[b].p { (a, b) } else { (b, a) };
            entries[winner].p += entries[loser].p;
            entries[loser].p = 0.0;
            entries[loser].merged = true;
        }
    }

    /// The tokens that stay.
    fn survivors(&self, mut entries: Vec<Entry>) -> Vec<TokenId> {
        let ending = |entry: &Entry| self.is_ending(entry.id);
        let sum = |keep: bool, entries: &[Entry]| -> f64 {
            entries.iter().filter(|e| ending(e) == keep).map(|e| e.p).sum()
        };
        let (endings, others) = (sum(true, &entries), sum(false, &entries));
        if 3.0 * endings * entries.len() as f64 > others {
            entries.retain(ending);
            return entries.iter().map(|e| e.id).collect();
        }
        let first = entries[0].id;
        let end_of_turn = self.end_of_turn.filter(|id| entries.iter().any(|e| e.id == *id));
        self.merge(&mut entries);
        entries.retain(|e| e.p >= 0.2 || ending(e));
        let count = entries.iter().filter(|e| !ending(e)).count();
        if count == 0 {
            return match end_of_turn {
                Some(id) => vec![id],
                None if entries.is_empty() => vec![first],
                None => entries.iter().map(|e| e.id).collect(),
            };
        }
        let total: f64 = entries.iter().map(|e| e.p).sum();
        let share = total / (count as f64 + 1.0);
        entries.retain(|e| e.p >= share || ending(e));
        entries.iter().map(|e| e.id).collect()
    }
}

impl Sampler for Running {
    fn apply(&mut self, candidates: &mut Candidates<'_>) {
        let ranked = candidates.ranked();
        let entries = ranked.map(|(c, p)| Entry { id: c.id, p, merged: false }).collect();
        let mut kept = self.survivors(entries);
        kept.sort_unstable();
        candidates.retain(|c| kept.binary_search(&c.id).is_ok());
    }
}

#[cfg(test)]
mod tests {
    use logitchain_conformance::{NumberVocab, Trial, assert_stage_laws};

    use super::*;

    /// Tokens are their numbers; 0 ends the generation, and 1 begins 12.
    fn left(weights: &[(usize, f32)]) -> Vec<u32> {
        let mut all = [0.0; 13];
        weights.iter().for_each(|(id, weight)| all[*id] = *weight);
        let vocab = NumberVocab::new(13).ending_generation(&[0]);
        Trial::of(Infill {}).in_vocab(vocab).survivors(&all)
    }

    #[test]
    fn obeys_the_laws() {
        assert_stage_laws::<Infill>();
    }

    /// 3 * .2 * 3 candidates = 1.8, more than the others' .8.
    #[test]
    fn endings_that_weigh_enough_stay_alone() {
        assert_eq!(left(&[(0, 0.2), (2, 0.5), (3, 0.3)]), [0]);
    }

    /// 3 * .01 * 4 = .12 is less than .99, and .19 less than .2. The others'
    /// even share is (.5 + .3 + .01) / 3 = .27.
    #[test]
    fn unlikely_tokens_go_and_endings_stay() {
        assert_eq!(left(&[(0, 0.01), (2, 0.5), (3, 0.3), (4, 0.19)]), [2, 3, 0]);
    }

    /// 12 takes over the .3 of 1. Of 1.0 in all, an even share is a third.
    #[test]
    fn a_token_that_begins_another_is_merged_into_the_likelier_one() {
        assert_eq!(left(&[(0, 0.01), (1, 0.3), (12, 0.35), (2, 0.34)]), [12, 2, 0]);
        // Not merged, they would both have stayed.
        assert_eq!(left(&[(0, 0.01), (3, 0.3), (12, 0.35), (2, 0.34)]), [12, 2, 3, 0]);
    }

    /// No token reaches .2, and the end of the turn is what is left.
    #[test]
    fn where_all_are_unlikely_the_turn_ends() {
        let flat: Vec<(usize, f32)> = (2..10).map(|id| (id, 0.124)).collect();
        assert_eq!(left(&[&flat[..], &[(0, 0.008)]].concat()), [0]);
    }
}
