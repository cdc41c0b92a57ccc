//! One case through both programs, stage by stage.
//!
//! Masked entries are taken out of llama.cpp's array between stages: there they
//! still count towards sizes, here they are no candidates. The `sorted` mark is
//! taken off after a logit bias, which moves logits and leaves it on. Both are
//! known differences, and would hide others.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
};

use logitchain_core::{Candidates, Registry, RngKind, Scratch, TokenId, Vocab};

use crate::{
    llama::{Entry, Model, Sampler},
    random::Case,
    rounding::{self, Change, Memory, Probabilities, Right},
    stages::Stage,
    vocab::Sized,
};

/// How many tokens each case draws.
const STEPS: usize = 3;

/// In what a case ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Outcome {
    /// Same survivors after every stage, same probabilities, same tokens.
    Same,
    /// A stage masked every token: an error here, token 0 or so there.
    NothingLeft,
    /// Equal logits, of which one program kept or drew another one.
    Tie,
    /// A sum of probabilities reaches the limit in one program's arithmetic, and
    /// not in the other's.
    SumAtLimit,
    /// A logit or probability on either side of the threshold by rounding.
    ValueAtThreshold,
    /// Scores of typical whose order rounding decides.
    ScoreAtEdge,
    /// Logits beyond 3.3e8, which llama.cpp's bucket sort takes for the lowest,
    /// and whose squares may leave the range of `f32`.
    HugeLogits,
    /// A dynamic temperature so near 0 that logits divided by it leave the range
    /// of `f32`; here the best candidate stays.
    TinyTemperature,
    /// Probability 0, by which llama.cpp's typical entropy is NaN.
    NanEntropy,
    /// mirostat's estimate overflows an `int` in llama.cpp.
    EstimateOverflows,
    /// mirostat's estimate is on either side of a whole number by rounding.
    EstimateAtWhole,
    /// mirostat's estimate where the exponent is so near 1 that what it exceeds 1
    /// by has few digits in `f32`.
    EstimateInF32,
    /// The number drawn is within rounding of the border of two tokens.
    DrawAtBorder,
    /// infill leaves an end of the turn that had been dropped before: llama.cpp
    /// brings it back.
    EndBroughtBack,
    /// Logits that a dynamic temperature or adaptive-p made of sums, which
    /// llama.cpp takes in `f32`.
    SumInF32,
}

/// A difference that is none of the known kinds.
#[derive(Clone, Debug)]
pub struct Unexplained(pub String);

impl fmt::Display for Unexplained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Candidates with their probabilities, in `f64`.
struct Exact {
    /// Most likely first, ties by id.
    ranked: Vec<(Entry, f64)>,
    /// Where each stands there.
    rank: HashMap<u32, usize>,
}

impl Exact {
    fn of(entries: &[Entry]) -> Self {
        let best = entries.iter().map(|e| e.logit).fold(f32::NEG_INFINITY, f32::max);
        let weight = |e: &Entry| (f64::from(e.logit) - f64::from(best)).exp();
        let sum: f64 = entries.iter().map(weight).sum();
        let mut ranked: Vec<_> = entries.iter().map(|e| (*e, weight(e) / sum)).collect();
        ranked.sort_by(|a, b| b.0.logit.total_cmp(&a.0.logit).then(a.0.id.cmp(&b.0.id)));
        let rank = ranked.iter().zip(0..).map(|((e, _), at)| (e.id, at)).collect();
        Self { ranked, rank }
    }

    fn is_huge(&self) -> bool {
        self.ranked.iter().any(|(e, _)| e.logit.abs() > 3.3e8)
    }

    fn logit(&self, id: u32) -> f32 {
        self.ranked[self.rank[&id]].0.logit
    }

    fn p(&self, id: u32) -> f64 {
        self.ranked[self.rank[&id]].1
    }

    fn best(&self) -> f32 {
        self.ranked[0].0.logit
    }
}

/// Runs a case through both programs.
///
/// # Errors
///
/// If they differ in a way that is not known.
pub fn compare(case: &Case, registry: &Registry) -> Result<Outcome, Unexplained> {
    let size = case.logits.len();
    let mut pair = Pair::new(&case.chain, registry, &Sized(size), None);
    case.history.iter().for_each(|token| pair.accept(*token));
    for step in 0..STEPS {
        let place = |e: Unexplained| Unexplained(format!("case {}, step {step}: {e}", case.number));
        match pair.step(&case.logits).map_err(place)? {
            (Outcome::Same, Some(token)) => pair.accept(token),
            (outcome, _) => return Ok(outcome),
        }
    }
    Ok(Outcome::Same)
}

/// A chain in both programs.
#[derive(Debug)]
pub struct Pair<'a> {
    chain: &'a [Stage],
    theirs: Vec<Sampler>,
    /// `None` for what does nothing.
    ours: Vec<Option<Box<dyn logitchain_core::Sampler>>>,
    scratch: Scratch,
    /// What llama.cpp's last stage remembers, and what ours does.
    memories: [Memory; 2],
    vocabulary: Vocabulary,
}

/// What of a vocabulary results hang on.
#[derive(Debug)]
struct Vocabulary {
    size: usize,
    end_of_turn: Option<u32>,
    endings: BTreeSet<u32>,
}

impl Vocabulary {
    fn of(vocab: &dyn Vocab) -> Self {
        let ends = |id: &u32| vocab.is_end_of_generation(TokenId(*id));
        Self {
            size: vocab.size(),
            end_of_turn: vocab.end_of_turn().map(|token| token.0),
            endings: (0..vocab.size() as u32).filter(ends).collect(),
        }
    }
}

impl<'a> Pair<'a> {
    /// Builds the chain in both; with the model, if a stage asks for its text.
    pub fn new(
        chain: &'a [Stage],
        registry: &Registry,
        vocab: &dyn Vocab,
        model: Option<&Model>,
    ) -> Self {
        let theirs = chain.iter().map(|stage| Sampler::new(stage, vocab.size(), model)).collect();
        let ours = chain.iter().map(|stage| stage.sampler(registry, vocab)).collect();
        let memories = [Memory::new(chain.last()); 2];
        Self {
            chain,
            theirs,
            ours,
            scratch: Scratch::default(),
            memories,
            vocabulary: Vocabulary::of(vocab),
        }
    }

    /// Tells both that a token was appended to the text.
    pub fn accept(&mut self, token: u32) {
        self.theirs.iter_mut().for_each(|s| s.accept(token));
        self.ours.iter_mut().flatten().for_each(|s| s.accept(TokenId(token)));
        self.memories.iter_mut().for_each(|memory| memory.accept(self.chain.last(), token));
    }

    /// Draws a token in both: the first difference, and llama.cpp's token. All
    /// stages run on both sides, whatever came before.
    ///
    /// # Errors
    ///
    /// If they differ in a way that is not known.
    pub fn step(&mut self, logits: &[f32]) -> Result<(Outcome, Option<u32>), Unexplained> {
        let mut own_logits = logits.to_vec();
        let mut mine =
            Candidates::for_draws_by(RngKind::Mt19937, &mut own_logits, &mut self.scratch)
                .map_err(|e| Unexplained(e.to_string()))?;
        let mut entries: Vec<Entry> =
            (0..).zip(logits).map(|(id, &logit)| Entry { id, logit }).collect();
        entries.retain(|e| e.logit > f32::NEG_INFINITY);
        let (mut sorted, mut selected) = (false, None);
        let mut outcome = Outcome::Same;
        // Why the two arrays lie in different orders, once they do.
        let mut reordered = None;
        // How far their logits are apart, once a sum has been taken.
        let mut apart = None;
        let memories = self.memories;
        for ((stage, sampler), own) in self.chain.iter().zip(&mut self.theirs).zip(&mut self.ours) {
            let (before, own_before) = (entries.clone(), listed(&mine));
            selected = sampler.apply(&mut entries, &mut sorted).or(selected);
            entries.retain(|e| e.logit > f32::NEG_INFINITY);
            if matches!(stage, Stage::LogitBias { .. }) {
                sorted = false;
            }
            if let Some(own) = own {
                own.apply(&mut mine);
            }
            if entries.is_empty() {
                return Ok((Outcome::NothingLeft, None));
            }
            let own_after = listed(&mine);
            let changes = [
                Change { before: &before, after: &entries },
                Change { before: &own_before, after: &own_after },
            ];
            if let (Some(token), Some(own)) = (selected, mine.chosen()) {
                let [theirs, ours] = &mut self.memories;
                theirs.draw(stage, changes[0], token, Probabilities::Single);
                ours.draw(stage, changes[1], own.0, Probabilities::Double);
            }
            if outcome != Outcome::Same {
                continue;
            }
            let given = Given { stage, changes, memories: &memories, vocabulary: &self.vocabulary };
            if ids(&entries) != ids(&own_after) {
                outcome = given.explain(apart).map_err(|e| {
                    let (theirs, ours) = (entries.len(), own_after.len());
                    Unexplained(format!(
                        "after {stage:?} llama.cpp keeps {theirs} and we {ours}: {e}"
                    ))
                })?;
                continue;
            }
            apart = given.apart(apart).map_err(Unexplained)?;
            if reordered.is_none()
                && entries.iter().map(|e| e.id).ne(own_after.iter().map(|e| e.id))
            {
                reordered = Some(
                    given
                        .explain_order()
                        .map_err(|e| Unexplained(format!("another order after {stage:?}: {e}")))?,
                );
            }
        }
        if outcome == Outcome::Same {
            outcome = probabilities(self.chain, &entries, &listed(&mine), apart.is_some())?;
        }
        let (Some(token), Some(own)) = (selected, mine.chosen()) else {
            return Err(Unexplained("nothing selected".to_owned()));
        };
        let draws = [(&*entries, token), (&*listed(&mine), own.0)];
        let fails = |how: &str| {
            let chain = self.chain;
            Unexplained(format!("llama.cpp draws {token} and we {own} {how} after {chain:?}"))
        };
        if matches!(self.chain.last(), Some(Stage::Greedy)) {
            if !draws.iter().all(|(array, id)| is_best(array, *id)) {
                return Err(fails("which is not the best"));
            }
            if outcome == Outcome::Same && token != own.0 {
                outcome = reordered.unwrap_or(Outcome::Tie);
            }
        } else if outcome != Outcome::Same || token != own.0 {
            if !meet(draws) {
                return Err(fails("from another point of the line"));
            }
            if outcome == Outcome::Same {
                outcome = reordered.unwrap_or(Outcome::DrawAtBorder);
            }
        }
        Ok((outcome, Some(token)))
    }
}

/// Our candidates, as they lie.
fn listed(mine: &Candidates<'_>) -> Vec<Entry> {
    mine.iter().map(|c| Entry { id: c.id.0, logit: c.logit }).collect()
}

fn ids(entries: &[Entry]) -> BTreeSet<u32> {
    entries.iter().map(|e| e.id).collect()
}

/// Compares the probabilities of the same survivors.
fn probabilities(
    chain: &[Stage],
    theirs: &[Entry],
    ours: &[Entry],
    summed: bool,
) -> Result<Outcome, Unexplained> {
    let softmax = |list: &[Entry]| -> Vec<f64> {
        let mut list = list.to_vec();
        list.sort_by_key(|e| e.id);
        let best = list.iter().map(|e| e.logit).fold(f32::NEG_INFINITY, f32::max);
        let weights: Vec<f64> =
            list.iter().map(|e| (f64::from(e.logit) - f64::from(best)).exp()).collect();
        let sum: f64 = weights.iter().sum();
        weights.into_iter().map(|w| w / sum).collect()
    };
    let difference =
        softmax(theirs).iter().zip(softmax(ours)).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    if difference <= 1e-5 {
        Ok(Outcome::Same)
    } else if summed {
        // Then every stage's logits were checked.
        Ok(Outcome::SumInF32)
    } else {
        let text = format!("probabilities differ by {difference} after {chain:?}");
        Err(Unexplained(text))
    }
}

/// What a stage did in the two programs: first llama.cpp's, then ours.
struct Given<'a> {
    stage: &'a Stage,
    changes: [Change<'a>; 2],
    memories: &'a [Memory; 2],
    vocabulary: &'a Vocabulary,
}

impl Given<'_> {
    fn theirs(&self) -> Result<Right, String> {
        rounding::theirs(self.stage, &self.memories[0], self.changes[0], self.vocabulary.size)
    }

    fn ours(&self) -> Result<(), String> {
        rounding::ours(self.stage, &self.memories[1], self.changes[1], self.vocabulary.size)
    }

    /// How far the logits of the same candidates are apart now, where a sum was
    /// taken, `apart` being how far they were.
    fn apart(&self, apart: Option<f64>) -> Result<Option<f64>, String> {
        let [theirs, ours] = self.changes;
        if rounding::is_summed(self.stage) {
            if !Exact::of(theirs.before).is_huge() {
                self.theirs()?;
            }
            self.ours()?;
            return Ok(rounding::distance(theirs.after, ours.after));
        }
        let Some(apart) = apart else { return Ok(None) };
        rounding::spread(self.stage, apart, theirs.before, theirs.after, ours.after).map(Some)
    }

    /// The known reason for which a stage kept other candidates, if it is one,
    /// where the logits may have been `apart` before.
    fn explain(&self, apart: Option<f64>) -> Result<Outcome, String> {
        let before = Exact::of(self.changes[0].before);
        let [theirs, ours] = self.changes.map(|change| ids(change.after));
        let differing: Vec<u32> = theirs.symmetric_difference(&ours).copied().collect();
        if matches!(self.stage, Stage::Infill) {
            return self.infill(&before);
        }
        // Whatever llama.cpp does, we are to be right.
        self.ours()?;
        let first = before.logit(differing[0]);
        // As many, and all that differ have one logit: a choice among equals.
        if theirs.len() == ours.len() && differing.iter().all(|id| before.logit(*id) == first) {
            return Ok(Outcome::Tie);
        }
        if before.is_huge() {
            return Ok(Outcome::HugeLogits);
        }
        let right = self.theirs()?;
        // Where the formula gives llama.cpp's result for llama.cpp's logits too, it
        // is the logits that make the difference.
        let [Change { before: logits, after }, _] = self.changes;
        let mut after = after.to_vec();
        if matches!(self.stage, Stage::Typical { .. }) {
            rounding::sort_by_score(logits, &mut after);
        }
        let change = Change { before: logits, after: &after };
        let size = self.vocabulary.size;
        let same = || rounding::ours(self.stage, &self.memories[0], change, size).is_ok();
        let finite = right == Right::Finite;
        if apart.is_some() && finite && rounding::is_cut(self.stage) && same() {
            return Ok(Outcome::SumInF32);
        }
        match self.stage {
            Stage::Temperature { range, .. } if *range > 0.0 => Ok(Outcome::TinyTemperature),
            Stage::TopP { .. } => Ok(Outcome::SumAtLimit),
            Stage::MinP { .. }
            | Stage::TopNSigma { .. }
            | Stage::Xtc { .. }
            | Stage::MirostatV2 { .. } => Ok(Outcome::ValueAtThreshold),
            Stage::Typical { .. } => Ok(self.typical(right)),
            Stage::Mirostat { .. } => Ok(match theirs.len().abs_diff(ours.len()) {
                _ if right == Right::Undefined => Outcome::EstimateOverflows,
                1 => Outcome::EstimateAtWhole,
                _ => Outcome::EstimateInF32,
            }),
            _ => Err("not a stage that rounds".to_owned()),
        }
    }

    /// infill, where llama.cpp leaves an end of the turn that was no candidate: we
    /// are to leave the other endings or, without any, the most likely token.
    fn infill(&self, before: &Exact) -> Result<Outcome, String> {
        let [theirs, ours] = self.changes.map(|change| ids(change.after));
        let brought = theirs.len() == 1
            && theirs.first().copied() == self.vocabulary.end_of_turn
            && theirs.iter().all(|id| !before.rank.contains_key(id));
        let mut due: BTreeSet<u32> = self.vocabulary.endings.clone();
        due.retain(|id| before.rank.contains_key(id));
        if due.is_empty() {
            due.extend(before.ranked.first().map(|(e, _)| e.id));
        }
        if brought && ours == due {
            Ok(Outcome::EndBroughtBack)
        } else {
            Err(format!("{theirs:?} by llama.cpp, {ours:?} here, where {due:?} were due"))
        }
    }

    /// Why typical's results differ, where each is right by its arithmetic.
    fn typical(&self, right: Right) -> Outcome {
        if right == Right::Undefined {
            Outcome::NanEntropy
        } else if rounding::is_typical_by_score(self.changes[0]) {
            Outcome::SumAtLimit
        } else {
            Outcome::ScoreAtEdge
        }
    }

    /// The known reason for which a stage left the same candidates in another
    /// order, if it is one.
    fn explain_order(&self) -> Result<Outcome, String> {
        let [theirs, ours] = self.changes;
        let before = Exact::of(theirs.before);
        let misplaced = || theirs.after.iter().zip(ours.after).filter(|(a, b)| a.id != b.id);
        if misplaced().all(|(a, b)| before.logit(a.id) == before.logit(b.id)) {
            return Ok(Outcome::Tie);
        }
        self.ours()?;
        if before.is_huge() {
            return Ok(Outcome::HugeLogits);
        }
        if matches!(self.stage, Stage::Typical { .. }) {
            return Ok(match self.theirs()? {
                Right::Undefined => Outcome::NanEntropy,
                Right::Finite => Outcome::ScoreAtEdge,
            });
        }
        // Each in the order of its own logits, which a sum has set apart.
        if rounding::is_ranked(theirs) && rounding::is_ranked(ours) {
            return Ok(Outcome::SumInF32);
        }
        Err("neither equals nor ranked".to_owned())
    }
}

fn is_best(array: &[Entry], id: u32) -> bool {
    let exact = Exact::of(array);
    exact.logit(id) == exact.best()
}

/// Whether two tokens can come of one random number. Each program lays its
/// candidates out on a line, each as long as it is likely, and takes the one at
/// the number: whatever the arrays are, there is a point that lies on both tokens.
/// `f32` rounds each length by less than a ten-millionth of itself.
fn meet(draws: [(&[Entry], u32); 2]) -> bool {
    let [a, b] = draws.map(|(array, id)| {
        let at = array.iter().position(|e| e.id == id).expect("a candidate");
        let exact = Exact::of(array);
        let start: f64 = array[..at].iter().map(|e| exact.p(e.id)).sum();
        (start, start + exact.p(id))
    });
    a.0.max(b.0) - a.1.min(b.1) <= 1e-6
}
