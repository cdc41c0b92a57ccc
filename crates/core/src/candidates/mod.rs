//! The work item of all stages, and the only folder with invariants: what it is
//! stands here, what it can do in a file for each kind of verb.

mod blocks;
mod change;
mod drop;
mod look;
mod nearest;
mod select;

use std::{cell::Cell, cmp::Ordering};

use crate::{
    RngKind, SampleError, TokenId, kernels,
    trace::{Record, Verb},
};

/// How far below what it should reach a probability, or a sum of them, may stay.
///
/// Tokens of which four fifths are asked for, or words counted in a text, have
/// sums that are exactly the number asked for, on paper. In `f32` weights they
/// come out some 5e-8 above or below it.
const SLACK: f64 = 1e-7;

/// A token that may still come next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Which token.
    pub id: TokenId,
    /// Its unnormalised log-probability; a finite number.
    pub logit: f32,
}

impl Candidate {
    /// Most likely first; equal logits in order of id, so that the order is
    /// total and the same everywhere.
    pub fn rank(&self, other: &Self) -> Ordering {
        // -0.0 and 0.0 are equal: a tie, ranked by id.
        other.logit.partial_cmp(&self.logit).unwrap_or(Ordering::Equal).then(self.id.cmp(&other.id))
    }
}

/// Memory that [`Candidates`] work in, reused from token to token: no more than 16
/// bytes per vocabulary entry.
///
/// All [`Chain`](crate::Chain)s that run on one thread share theirs. Whoever makes
/// candidates by hand brings `&mut Scratch::default()`.
#[derive(Debug, Default)]
pub struct Scratch {
    /// The greatest logit of each block of the dense logits.
    maxima: Vec<f32>,
    /// The survivors, once there are such.
    list: Vec<Candidate>,
    /// A second list, of what a verb has found.
    other: Vec<Candidate>,
    /// Weights of the dense logits; there may be more, of others.
    weights: Vec<f32>,
    /// Weights of listed candidates, or logits to select from.
    spare: Vec<f32>,
    /// The probabilities before logits were rewritten by them.
    before: Vec<f32>,
    /// The mass of each block, while `mass` is known.
    masses: Vec<f64>,
    /// Positions found in a block.
    positions: Vec<u32>,
    /// Scores by which candidates are to be kept, with places in `list`.
    scored: Vec<(f32, u32)>,
}

/// In which order `list` stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// By ascending id.
    Id,
    /// Most likely first, ties by id.
    Rank,
    /// As the last stage that sorted left it.
    Other,
}

/// What went wrong inside a stage; the chain turns it into an error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fault {
    /// The stage left no candidate.
    Exhausted,
    /// The stage gave a token a logit that is NaN or +inf.
    NonFinite(TokenId, f32),
}

/// The tokens that may still come next.
///
/// Starts *dense*: the caller's logits, borrowed and not copied, whose index is
/// the token id. The first method that drops tokens makes it *sparse*: ids and
/// logits of the survivors, in reused memory. Which of the two it is, and in
/// which order the survivors lie, cannot be observed except by the clock.
///
/// What always holds, whatever a stage does:
///
/// * There is at least one candidate. A stage that would drop or mask the last
///   one makes [`Chain::sample`](crate::Chain::sample) fail and name the stage.
/// * Every candidate's logit is finite. A token with `-inf` is masked: it is no
///   candidate, is not counted, and comes back no more than a dropped one.
/// * Of equal logits the lower id ranks first.
/// * Probabilities are those of the current candidates: they sum to 1.
///
/// ```
/// # use logitchain_core::{Candidates, Scratch};
/// let mut logits = [1.0, 3.0, f32::NEG_INFINITY, 2.0];
/// let mut scratch = Scratch::default();
/// let mut candidates = Candidates::new(&mut logits, &mut scratch)?;
/// assert_eq!(candidates.len(), 3);
/// candidates.keep_top(2);
/// let ids: Vec<u32> = candidates.sorted().iter().map(|c| c.id.0).collect();
/// assert_eq!(ids, [1, 3]);
/// # Ok::<(), logitchain_core::SampleError>(())
/// ```
#[derive(Debug)]
pub struct Candidates<'a> {
    logits: &'a mut [f32],
    scratch: &'a mut Scratch,
    /// `None` while dense.
    order: Option<Order>,
    /// By what the dense logits are still to be divided; their maxima already are.
    divisor: f32,
    /// The most likely candidate, while nothing has changed it.
    best: Cell<Option<Candidate>>,
    /// How many candidates there are, while nothing has changed it.
    count: Cell<Option<usize>>,
    /// Sum of the weights `exp(logit - best)`, while nothing has changed it.
    mass: Option<f64>,
    /// Whether the weights of the dense logits stand in `weights`.
    weighed: bool,
    /// Keep `list` in the order that llama.cpp's array would have.
    mirror: bool,
    chosen: Option<TokenId>,
    fault: Option<Fault>,
    /// Where verbs note what they did, while the chain is traced.
    record: Option<&'a mut Record>,
}

impl<'a> Candidates<'a> {
    /// Every token of the vocabulary, with the logits that a model gave it.
    /// One read of the logits.
    ///
    /// # Errors
    ///
    /// If `logits` is empty, holds a NaN or +inf, or is -inf throughout.
    pub fn new(logits: &'a mut [f32], scratch: &'a mut Scratch) -> Result<Self, SampleError> {
        Self::for_draws_by(RngKind::default(), logits, scratch)
    }

    /// The same for a chain that draws from `rng`: for mt19937, draws walk the
    /// candidates in the order that llama.cpp's array would have, where the
    /// default generator walks them by id.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn for_draws_by(
        rng: RngKind,
        logits: &'a mut [f32],
        scratch: &'a mut Scratch,
    ) -> Result<Self, SampleError> {
        if logits.is_empty() {
            return Err(SampleError::Empty);
        }
        if !blocks::maxima(logits, &mut scratch.maxima) {
            let bad = logits.iter().zip(0..).find(|(logit, _)| !kernels::is_logit(**logit));
            if let Some((&value, id)) = bad {
                return Err(SampleError::NonFinite { token: TokenId(id), value, stage: None });
            }
        }
        let new = Self {
            logits,
            scratch,
            order: None,
            divisor: 1.0,
            best: Cell::new(None),
            count: Cell::new(None),
            mass: None,
            weighed: false,
            mirror: rng == RngKind::Mt19937,
            chosen: None,
            fault: None,
            record: None,
        };
        if new.best().logit == f32::NEG_INFINITY {
            return Err(SampleError::Exhausted { stage: None });
        }
        Ok(new)
    }

    /// Has the verbs note what they do.
    pub(crate) fn record_in(&mut self, record: &'a mut Record) {
        self.record = Some(record);
    }

    pub(crate) fn record(&mut self) -> Option<&mut Record> {
        self.record.as_deref_mut()
    }

    /// Whether probabilities are rounded, and candidates lie, as in llama.cpp.
    pub(crate) fn is_mirror(&self) -> bool {
        self.mirror
    }

    fn note(&mut self, verb: Verb) {
        if let Some(record) = &mut self.record {
            record.verb = Some(verb);
        }
    }

    /// What the last stage did wrong, if anything.
    pub(crate) fn fault(&self) -> Option<Fault> {
        self.fault
    }

    fn exp(&self, x: f32) -> f32 {
        weight(self.mirror, x)
    }

    /// Sum of `exp(logit - best)` over the candidates; at least 1.
    fn mass(&mut self) -> f64 {
        if let Some(mass) = self.mass {
            return mass;
        }
        let best = self.best().logit;
        let mass = if self.mirror {
            self.iter().map(|c| f64::from(self.exp(c.logit - best))).sum()
        } else {
            match self.order {
                None => self.scratch.weigh_blocks(self.logits, self.divisor, best),
                Some(_) => {
                    self.rank_ids();
                    self.scratch.weigh_list(best);
                }
            }
            self.scratch.masses.iter().sum()
        };
        self.mass = Some(mass);
        mass
    }

    /// Notes the weights of all dense candidates besides their sum.
    fn weigh_dense(&mut self) {
        self.settle();
        let best = self.best().logit;
        self.scratch.weigh_dense(self.logits, best);
        self.mass = Some(self.scratch.masses.iter().sum());
        self.weighed = true;
    }

    /// Forgets what a change of the candidates or of their logits changes.
    fn touch(&mut self) {
        self.best.set(None);
        self.count.set(None);
        self.mass = None;
        self.weighed = false;
    }

    /// Divides the dense logits as they are to be.
    fn settle(&mut self) {
        if self.divisor != 1.0 {
            kernels::divide(self.logits, self.divisor);
            self.divisor = 1.0;
        }
    }

    fn position(&self, id: TokenId) -> Option<usize> {
        let list = &self.scratch.list;
        match self.order {
            Some(Order::Id) => list.binary_search_by_key(&id, |c| c.id).ok(),
            _ => list.iter().position(|c| c.id == id),
        }
    }

    /// Lists all candidates, if that is not done yet.
    fn make_sparse(&mut self) {
        if self.order.is_none() {
            self.settle();
            self.scratch.list.clear();
            self.scratch.list.extend(dense(self.logits));
            self.order = Some(Order::Id);
            // Blocks that are masked throughout are none of a list's.
            self.mass = None;
            self.weighed = false;
        }
    }

    fn rank_all(&mut self) {
        self.make_sparse();
        if self.order != Some(Order::Rank) {
            self.scratch.list.sort_unstable_by(Candidate::rank);
            self.order = Some(Order::Rank);
        }
    }

    /// Lists the candidates by id, where they are listed at all.
    fn rank_ids(&mut self) {
        if !matches!(self.order, None | Some(Order::Id)) {
            self.scratch.list.sort_unstable_by_key(|c| c.id);
            self.order = Some(Order::Id);
        }
    }
}

/// `exp(x)`, where chains that draw as llama.cpp does also round as it does.
#[inline]
pub(crate) fn weight(mirror: bool, x: f32) -> f32 {
    if mirror { kernels::exp_nearest(x) } else { kernels::exp(x) }
}

fn dense(logits: &[f32]) -> impl Iterator<Item = Candidate> + '_ {
    let all = (0..).map(TokenId).zip(logits).map(|(id, &logit)| Candidate { id, logit });
    all.filter(|c| c.logit > f32::NEG_INFINITY)
}

/// Cuts `list` down to its `n` most likely candidates, which stay in the order in
/// which they lie: by id, or of equals others may stay. `spare` is memory to
/// select in.
///
/// Where the standard library's selection leaves what is its own affair, and may
/// change; the order in which sums are taken may not.
fn select_top(list: &mut Vec<Candidate>, n: usize, spare: &mut Vec<f32>) {
    if n == 0 {
        list.clear();
    } else if n < list.len() {
        spare.clear();
        spare.extend(list.iter().map(|c| c.logit));
        let last = *spare.select_nth_unstable_by(n - 1, |a, b| b.total_cmp(a)).1;
        let mut equals = n - list.iter().filter(|c| c.logit > last).count();
        list.retain(|c| {
            let stays = c.logit > last || (c.logit == last && equals > 0);
            equals -= usize::from(stays && c.logit == last);
            stays
        });
    }
}

#[cfg(test)]
mod tests;
