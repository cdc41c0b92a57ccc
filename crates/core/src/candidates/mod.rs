//! The work item of all stages, and the only folder with invariants: what it is
//! stands here, what it can do in a file for each kind of verb.

mod blocks;
mod change;
mod drop;
mod look;
mod select;

use std::cmp::Ordering;

use crate::{RngKind, SampleError, TokenId, kernels};

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

/// Memory that [`Candidates`] work in, reused from token to token.
///
/// A [`Chain`](crate::Chain) owns one. Whoever makes candidates by hand brings
/// `&mut Scratch::default()`.
#[derive(Debug, Default)]
pub struct Scratch {
    /// The greatest logit of each block of the dense logits.
    maxima: Vec<f32>,
    /// The survivors, once there are such.
    list: Vec<Candidate>,
    /// A second list, of what a verb has found.
    other: Vec<Candidate>,
    /// Memory to select in.
    spare: Vec<Candidate>,
    /// Block maxima, to select in.
    floors: Vec<f32>,
    /// The mass of each block of the dense logits, while `mass` is known.
    masses: Vec<f64>,
    /// Positions found in a block.
    positions: Vec<u32>,
    /// Scores by which a stage wants candidates kept, with places in `list`.
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
    /// Sum of the weights `exp(logit - best)`, while nothing has changed it.
    mass: Option<f64>,
    /// Keep `list` in the order that llama.cpp's array would have.
    mirror: bool,
    chosen: Option<TokenId>,
    fault: Option<Fault>,
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
            mass: None,
            mirror: rng == RngKind::Mt19937,
            chosen: None,
            fault: None,
        };
        if new.best().logit == f32::NEG_INFINITY {
            return Err(SampleError::Exhausted { stage: None });
        }
        Ok(new)
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
        let mass = match self.order {
            None if !self.mirror => {
                blocks::masses(self.logits, best, &mut self.scratch.masses);
                self.scratch.masses.iter().sum()
            }
            // Block by block as above, so that the sum has the same bits.
            Some(Order::Id) if !self.mirror => {
                blocks::listed(&self.scratch.list).map(|block| blocks::mass(block, best)).sum()
            }
            _ => self.iter().map(|c| f64::from(self.exp(c.logit - best))).sum(),
        };
        self.mass = Some(mass);
        mass
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
            self.scratch.list.clear();
            self.scratch.list.extend(dense(self.logits));
            self.order = Some(Order::Id);
        }
    }

    fn rank_all(&mut self) {
        self.make_sparse();
        if self.order != Some(Order::Rank) {
            self.scratch.list.sort_unstable_by(Candidate::rank);
            self.order = Some(Order::Rank);
        }
    }
}

/// `exp(x)`, where chains that draw as llama.cpp does also round as it does.
#[inline]
fn weight(mirror: bool, x: f32) -> f32 {
    if mirror { kernels::exp_nearest(x) } else { kernels::exp(x) }
}

/// A logit below which no weight reaches `least`.
fn floor_of(best: f32, least: f64) -> f32 {
    // A thousandth lower, which the rounding of no logarithm reaches; the exact
    // comparison is for the caller.
    (f64::from(best) + libm::log(least) - 1e-3) as f32
}

fn dense(logits: &[f32]) -> impl Iterator<Item = Candidate> + '_ {
    let all = (0..).map(TokenId).zip(logits).map(|(id, &logit)| Candidate { id, logit });
    all.filter(|c| c.logit > f32::NEG_INFINITY)
}

/// Cuts `list` down to its `n` most likely candidates, which stay in the order in
/// which they lie. `spare` is memory to select in.
///
/// Where the standard library's selection leaves what is its own affair, and may
/// change; the order in which sums are taken may not.
fn select_top(list: &mut Vec<Candidate>, n: usize, spare: &mut Vec<Candidate>) {
    if n == 0 {
        list.clear();
    } else if n < list.len() {
        spare.clear();
        spare.extend_from_slice(list);
        let last = *spare.select_nth_unstable_by(n - 1, Candidate::rank).1;
        list.retain(|c| c.rank(&last).is_le());
    }
}

#[cfg(test)]
mod tests;
