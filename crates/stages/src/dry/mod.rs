//! The stage stands here, its sequence breakers and how repetitions are found in
//! a file each.

mod automaton;
mod breakers;
mod repeats;

use logitchain_core::{
    BuildContext, Candidates, Kind, ParamError, Sampler, Stage, TokenId, register_stage,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::{
    automaton::Matches,
    breakers::{Breakers, Breaks},
    repeats::Repeats,
};
use crate::Window;

/// Make tokens less likely that would continue a repetition.
///
/// If the text ends as it did once before, the token that followed then would
/// make the repetition one longer: for a match of `n` tokens its logit loses
/// `multiplier * base^(n - allowed_length)`, if `n` is at least `allowed_length`
/// (don't repeat yourself, p-e-w, 2024). Of several matches the longest counts.
/// A match does not reach back over a sequence breaker, and a token that contains
/// one loses nothing. The text is prompt and answer, the tokens of a chat template
/// included, as far back as the window reaches.
///
/// Breakers are text, matched against the tokens' text: a token that contains
/// one breaks a sequence, and so do tokens that spell one together. At most 40
/// bytes each; llama.cpp cuts longer ones off.
///
/// Place it before stages that drop tokens: it cannot bring a token back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Dry {
    /// Scales the penalty; 0 is off, below 0 it is a reward.
    #[schemars(extend("flags" = ["dry-multiplier"]))]
    pub multiplier: f64,
    /// By how much the penalty grows with every token of the match.
    #[schemars(range(min = 1.0), extend("flags" = ["dry-base"]))]
    pub base: f64,
    /// The shortest match that is penalised.
    #[schemars(extend("flags" = ["dry-allowed-length"]))]
    pub allowed_length: u32,
    /// How many of the last tokens are searched, or "all"; 0 is off.
    #[schemars(extend("flags" = ["dry-penalty-last-n"]))]
    pub last_n: Window,
    /// Texts over which no match reaches; "none" alone for no breakers.
    #[schemars(extend("flags" = ["dry-sequence-breaker"]))]
    pub breakers: Vec<String>,
}

register_stage!(Dry);

impl Default for Dry {
    fn default() -> Self {
        Self {
            multiplier: 0.0,
            base: 1.75,
            allowed_length: 2,
            last_n: Window::Last(64),
            breakers: ["\n", ":", "\"", "*"].map(str::to_owned).to_vec(),
        }
    }
}

impl Stage for Dry {
    const NAME: &'static str = "dry";
    const KIND: Kind = Kind::Penalty;
    const LETTER: Option<char> = Some('d');

    fn neutral() -> Option<Self> {
        Some(Self::default())
    }

    fn is_neutral(&self) -> bool {
        self.multiplier == 0.0 || self.last_n.is_empty()
    }

    fn build(self, cx: &BuildContext<'_>) -> Result<Box<dyn Sampler>, ParamError> {
        ParamError::check_finite("multiplier", self.multiplier)?;
        ParamError::check_finite("base", self.base)?;
        if self.base < 1.0 {
            return Err(ParamError::new("base", format!("must be at least 1, got {}", self.base)));
        }
        let breakers = match self.is_neutral() {
            true => Breakers::unused(&self.breakers)?,
            false => Breakers::new(&self.breakers, cx.vocab())?,
        };
        let base = self.base as f32;
        // Beyond this exponent the penalty overflows an f32, whose logarithm
        // ends here.
        const LN_MAX: f32 = 88.722_84;
        let max_exponent = if base > 1.000_001 {
            (LN_MAX / libm::log(f64::from(base)) as f32) as u32
        } else if base > 1.0 {
            u32::MAX
        } else {
            // All powers of 1 are the same.
            0
        };
        let longest = self.allowed_length.saturating_add(max_exponent);
        Ok(Box::new(Running {
            multiplier: f64::from(self.multiplier as f32),
            base: f64::from(base),
            allowed_length: self.allowed_length,
            max_exponent,
            breaks: Breaks::new(breakers),
            breaks_then: None,
            repeats: Repeats::new(self.allowed_length, longest, self.last_n),
            matches: Matches::default(),
        }))
    }
}

#[derive(Clone, Debug)]
struct Running {
    multiplier: f64,
    base: f64,
    allowed_length: u32,
    max_exponent: u32,
    breaks: Breaks,
    /// As they were at a checkpoint.
    breaks_then: Option<Breaks>,
    repeats: Repeats,
    /// What `apply` has found; its memory is used again.
    matches: Matches,
}

impl Sampler for Running {
    fn apply(&mut self, candidates: &mut Candidates<'_>) {
        let reach = self.breaks.reach(self.repeats.len());
        let allowed = self.allowed_length as usize;
        if self.repeats.len() <= allowed || reach < allowed {
            return;
        }
        self.repeats.find(reach, &mut self.matches);
        candidates.adjust(&self.matches, |logit, found| {
            let exponent = (found.length - self.allowed_length).min(self.max_exponent);
            logit - (self.multiplier * libm::pow(self.base, f64::from(exponent))) as f32
        });
    }

    fn accept(&mut self, token: TokenId) {
        let single = self.breaks.accept(token);
        self.repeats.push(token, single);
    }

    fn reset(&mut self) {
        self.breaks.clear();
        self.repeats.clear();
        self.breaks_then = None;
    }

    fn checkpoint(&mut self) -> bool {
        self.breaks_then = Some(self.breaks.clone());
        self.repeats.checkpoint();
        true
    }

    fn rollback(&mut self) {
        if let Some(breaks) = self.breaks_then.take() {
            self.breaks = breaks;
        }
        self.repeats.rollback();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use logitchain_conformance::{NumberVocab, Trial, assert_laws_of, assert_stage_laws};
    use logitchain_core::{RngKind, Scratch, Vocab};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn obeys_the_laws() {
        assert_stage_laws::<Dry>();
        assert_laws_of(|| Dry { multiplier: 0.8, ..Default::default() });
        assert_laws_of(|| Dry {
            multiplier: 2.0,
            base: 1.1,
            allowed_length: 1,
            last_n: Window::All,
            breakers: vec!["1".to_owned()],
        });
    }

    /// What token 3 of ten equals loses, and that no other does.
    fn loss(stage: Dry, history: &[u32]) -> f32 {
        let left = Trial::of(stage).after(history).logits(&[0.0; 10]);
        assert!(left.iter().all(|(id, logit)| *id == 3 || *logit == 0.0), "{left:?}");
        -left.iter().find(|c| c.0 == 3).expect("token 3").1
    }

    fn doubling() -> Dry {
        Dry { multiplier: 1.0, base: 2.0, ..Default::default() }
    }

    /// "1 2" is a match of two tokens, 2^0; with the 7 before it of three, 2^1.
    #[test]
    fn the_penalty_grows_with_the_match() {
        assert_eq!(loss(doubling(), &[1, 2, 3, 9, 1, 2]), 1.0);
        assert_eq!(loss(doubling(), &[7, 1, 2, 3, 9, 7, 1, 2]), 2.0);
        assert_eq!(loss(doubling(), &[2, 3, 9, 2]), 0.0);
    }

    /// 1 is a breaker here: "7 1 2" matches no further back than 2.
    #[test]
    fn no_match_reaches_over_a_breaker() {
        let stage = |breaker: &str| Dry {
            breakers: vec![breaker.to_owned()],
            allowed_length: 1,
            ..doubling()
        };
        assert_eq!(loss(stage("none"), &[7, 1, 2, 3, 9, 7, 1, 2]), 4.0);
        assert_eq!(loss(stage("1"), &[7, 1, 2, 3, 9, 7, 1, 2]), 1.0);
        // 3 would continue the match, but contains the breaker.
        assert_eq!(loss(stage("3"), &[7, 1, 2, 3, 9, 7, 1, 2]), 0.0);
    }

    /// The same again from the whole text, by comparing all of it.
    struct Naive {
        stage: Dry,
        /// Each breaker as its tokens.
        breakers: Vec<Vec<TokenId>>,
        text: Vec<TokenId>,
    }

    impl Naive {
        fn losses(&self) -> BTreeMap<TokenId, f32> {
            let allowed = self.stage.allowed_length as usize;
            let text = match self.stage.last_n {
                Window::Last(n) => &self.text[self.text.len().saturating_sub(n as usize)..],
                Window::All => &self.text[..],
            };
            // From the text's end to the end of its newest breaker; of those that
            // begin at one token, the longest.
            let broken = (0..text.len()).rev().find_map(|at| {
                let here = self.breakers.iter().filter(|b| text[at..].starts_with(b));
                here.map(|breaker| at + breaker.len()).max()
            });
            let reach = text.len() - broken.unwrap_or_default();
            let mut longest = BTreeMap::<TokenId, usize>::new();
            for at in 1..text.len() {
                let pairs = text[..at].iter().rev().zip(text.iter().rev());
                let length = pairs.take(reach).take_while(|(a, b)| a == b).count();
                if length >= allowed && reach >= allowed && !self.breakers.contains(&vec![text[at]])
                {
                    let best = longest.entry(text[at]).or_default();
                    *best = length.max(*best);
                }
            }
            let base = self.stage.base as f32;
            // ln(f32::MAX) / ln(base), rounded down.
            let most = match base {
                1.0..=1.000_001 => u32::MAX,
                _ => (88.722_84 / libm::log(f64::from(base)) as f32) as u32,
            };
            let loss = |length: usize| {
                let exponent = f64::from(((length - allowed) as u32).min(most));
                let multiplier = f64::from(self.stage.multiplier as f32);
                (multiplier * libm::pow(f64::from(base), exponent)) as f32
            };
            longest.into_iter().map(|(token, length)| (token, loss(length))).collect()
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Accept(u32),
        /// Accept again what was accepted so long ago, so often.
        Copy(usize, usize),
        /// Accept the first two tokens and this: many tokens come to follow the
        /// second, which seldom stands alone.
        Phrase(u32),
        Reset,
        /// Go on with a clone, after the original has gone another way.
        Clone,
    }

    fn steps() -> impl Strategy<Value = (usize, Vec<Step>)> {
        (prop_oneof![1..4_usize, Just(10), Just(130)]).prop_flat_map(|vocab| {
            let step = prop_oneof![
                40 => (0..vocab as u32).prop_map(Step::Accept),
                6 => (1..30_usize, 1..30_usize).prop_map(|(back, n)| Step::Copy(back, n)),
                10 => (0..vocab as u32).prop_map(Step::Phrase),
                1 => Just(Step::Reset),
                2 => Just(Step::Clone),
            ];
            (Just(vocab), prop::collection::vec(step, 0..120))
        })
    }

    fn stages() -> impl Strategy<Value = Dry> {
        let last_n = prop_oneof![1 => Just(Window::All), 2 => (1..40_u32).prop_map(Window::Last)];
        let base = prop::sample::select(vec![1.0, 1.000_000_2, 1.75, 1e9, 1e15, 1e25, 3e38]);
        // As tokens: 0; 2; 0 1; 0 1 0; 0 1 1; and so on.
        let breakers = ["0", "2", "01", "010", "011", "00", "210", "11", "1101"].map(str::to_owned);
        let breakers = prop::sample::subsequence(breakers.to_vec(), 0..4);
        (last_n, base, 0..5_u32, breakers).prop_map(
            |(last_n, base, allowed_length, mut breakers)| {
                if breakers.is_empty() {
                    breakers.push("none".to_owned());
                }
                Dry { multiplier: 0.8, base, allowed_length, last_n, breakers }
            },
        )
    }

    fn losses(sampler: &mut dyn Sampler, size: usize) -> BTreeMap<TokenId, f32> {
        let mut logits = vec![0.0; size];
        let mut scratch = Scratch::default();
        let mut candidates = Candidates::new(&mut logits, &mut scratch).expect("valid logits");
        sampler.apply(&mut candidates);
        let changed = candidates.iter().filter(|c| c.logit != 0.0);
        changed.map(|c| (c.id, -c.logit)).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        #[test]
        fn penalties_are_those_of_comparing_the_whole_text(
            stage in stages(),
            (vocab, steps) in steps(),
        ) {
            // One token more, so that not all that there is can repeat.
            let size = vocab + 1;
            // In this vocabulary 01 is spelled 0 1 only, but 11 is a token too.
            let numbers = NumberVocab::new(size.max(10));
            let spelled = |text: &String| -> Vec<Vec<TokenId>> {
                let one = |head: u32| {
                    let bytes = numbers.bytes(TokenId(head));
                    let whole = bytes.windows(text.len()).any(|part| part == text.as_bytes());
                    let ends = (1..=bytes.len().min(text.len() - 1))
                        .filter(|&n| bytes.ends_with(&text.as_bytes()[..n]))
                        .map(|n| numbers.tokenize(&text.as_bytes()[n..]));
                    let ends: Vec<_> = if whole { vec![vec![]] } else { ends.collect() };
                    ends.into_iter().map(|tail| [vec![TokenId(head)], tail].concat()).collect()
                };
                (0..numbers.size() as u32).flat_map(|head| -> Vec<Vec<TokenId>> { one(head) }).collect()
            };
            let texts = stage.breakers.iter().filter(|text| *text != "none");
            let breakers = texts.flat_map(spelled).collect();
            let mut naive = Naive { stage: stage.clone(), breakers, text: Vec::new() };
            let cx = BuildContext::new(&numbers, RngKind::default(), 0);
            let mut sampler = stage.build(&cx).expect("valid parameters");
            for step in steps {
                let accepted = match step {
                    Step::Accept(token) => vec![TokenId(token)],
                    Step::Copy(back, n) if back <= naive.text.len() => {
                        let start = naive.text.len() - back;
                        let piece = naive.text[start..].iter().copied().cycle();
                        piece.take(n).collect()
                    }
                    Step::Copy(..) => vec![],
                    Step::Phrase(token) => [0, 1, token].map(TokenId).to_vec(),
                    Step::Reset => {
                        naive.text.clear();
                        sampler.reset();
                        vec![]
                    }
                    Step::Clone => {
                        let copy = sampler.clone();
                        for token in 0..5 {
                            sampler.accept(TokenId(token % vocab as u32));
                        }
                        sampler = copy;
                        vec![]
                    }
                };
                for token in accepted {
                    sampler.accept(token);
                    naive.text.push(token);
                    prop_assert_eq!(
                        losses(&mut *sampler, size.max(10)), naive.losses(), "{:?}", &naive.text
                    );
                }
            }
        }
    }
}
