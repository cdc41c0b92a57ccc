//! The work item of all stages, and the only file with invariants.

mod blocks;
mod exp;

use std::{cmp::Ordering, collections::HashMap, hash::BuildHasher};

use self::blocks::BLOCK;
use crate::{RngKind, SampleError, StageRng, TokenId};

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
    /// A second list, to select and sort in.
    other: Vec<Candidate>,
    /// Block maxima, to select in.
    floors: Vec<f32>,
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
            let bad = logits.iter().zip(0..).find(|(logit, _)| !is_logit(**logit));
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

    // ---- looking ----------------------------------------------------------

    /// How many candidates remain; at least one. While nothing has been
    /// dropped this counts the unmasked logits, a read of them all.
    #[allow(clippy::len_without_is_empty, reason = "there is always a candidate")]
    pub fn len(&self) -> usize {
        match self.order {
            None => self.logits.iter().filter(|l| **l > f32::NEG_INFINITY).count(),
            Some(_) => self.scratch.list.len(),
        }
    }

    /// The most likely candidate.
    pub fn best(&self) -> Candidate {
        let list = &self.scratch.list;
        match self.order {
            None => {
                let id = blocks::first_maximum(self.logits, &self.scratch.maxima);
                Candidate { id: TokenId(id as u32), logit: self.logits[id] }
            }
            Some(Order::Rank) => list[0],
            Some(_) => list[1..]
                .iter()
                .fold(list[0], |best, c| if c.rank(&best) == Ordering::Less { *c } else { best }),
        }
    }

    /// The logit of a token, if it is still a candidate.
    pub fn logit(&self, id: TokenId) -> Option<f32> {
        match self.order {
            None => self.logits.get(id.index()).copied().filter(|logit| *logit > f32::NEG_INFINITY),
            Some(_) => self.position(id).map(|at| self.scratch.list[at].logit),
        }
    }

    /// The probability of a token among the current candidates; 0 if it is none.
    pub fn probability(&mut self, id: TokenId) -> f64 {
        let mass = self.mass();
        let best = self.best().logit;
        self.logit(id).map_or(0.0, |logit| f64::from(self.exp(logit - best)) / mass)
    }

    /// All candidates, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = Candidate> + '_ {
        let (dense, sparse): (&[f32], &[Candidate]) = match self.order {
            None => (self.logits, &[]),
            Some(_) => (&[], &self.scratch.list),
        };
        let dense = (0..).map(TokenId).zip(dense).map(|(id, &logit)| Candidate { id, logit });
        dense.filter(|c| c.logit > f32::NEG_INFINITY).chain(sparse.iter().copied())
    }

    /// All candidates, most likely first. Sorts them all: where the first few
    /// would do, [`top`](Self::top) is much cheaper.
    pub fn sorted(&mut self) -> &[Candidate] {
        self.rank_all();
        &self.scratch.list
    }

    /// The `n` most likely candidates, most likely first; fewer if there are
    /// fewer. Drops none.
    pub fn top(&mut self, n: usize) -> &[Candidate] {
        if self.mirror {
            self.rank_all();
        }
        let Scratch { maxima, floors, list, other, .. } = &mut *self.scratch;
        match self.order {
            Some(Order::Rank) => &list[..n.min(list.len())],
            order => {
                other.clear();
                match order {
                    None => blocks::collect_top(self.logits, maxima, floors, n, other),
                    Some(_) => other.extend_from_slice(list),
                }
                select_top(other, n);
                other.sort_unstable_by(Candidate::rank);
                other
            }
        }
    }

    /// All candidates with their probabilities, most likely first. Sorts them
    /// all.
    pub fn ranked(&mut self) -> impl Iterator<Item = (Candidate, f64)> + '_ {
        self.rank_all();
        let (best, mass, mirror) = (self.best().logit, self.mass(), self.mirror);
        let probability = move |logit| f64::from(weight(mirror, logit - best)) / mass;
        self.scratch.list.iter().map(move |c| (*c, probability(c.logit)))
    }

    /// How many candidates have at least the probability `p`.
    pub fn count_probable(&mut self, p: f64) -> usize {
        if self.mirror {
            self.rank_all();
        }
        let (best, least) = (self.best().logit, p * self.mass());
        self.iter().filter(|c| f64::from(self.exp(c.logit - best)) >= least).count()
    }

    /// The entropy of the candidates' probabilities, in nats.
    pub fn entropy(&mut self) -> f64 {
        // llama.cpp sorts wherever it measures entropy.
        if self.mirror {
            self.rank_all();
        }
        let best = self.best();
        // Without the best token, whose 1 would swallow the digits of a small
        // rest; the entropy of a near certainty depends on them.
        let (mut rest, mut surplus) = (0.0, 0.0);
        for c in self.iter().filter(|c| c.id != best.id) {
            let below = c.logit - best.logit;
            let weight = f64::from(self.exp(below));
            rest += weight;
            surplus += weight * f64::from(below);
        }
        (libm::log1p(rest) - surplus / (1.0 + rest)).max(0.0)
    }

    /// The population standard deviation of the candidates' logits.
    pub fn deviation(&self) -> f64 {
        let (sum, count) = self
            .iter()
            .fold((0.0, 0_usize), |(sum, count), c| (sum + f64::from(c.logit), count + 1));
        let mean = sum / count as f64;
        let squares: f64 = self
            .iter()
            .map(|c| {
                let d = f64::from(c.logit) - mean;
                d * d
            })
            .sum();
        (squares / count as f64).sqrt()
    }

    // ---- dropping ---------------------------------------------------------

    /// Keeps the `n` most likely candidates, one at least.
    pub fn keep_top(&mut self, n: usize) {
        let n = n.max(1);
        if self.mirror {
            self.rank_all();
        }
        let Scratch { maxima, floors, list, .. } = &mut *self.scratch;
        match self.order {
            None => {
                if n >= self.logits.len() {
                    return;
                }
                list.clear();
                blocks::collect_top(self.logits, maxima, floors, n, list);
                select_top(list, n);
                self.order = Some(Order::Other);
            }
            Some(order) => {
                if n >= list.len() {
                    return;
                }
                if order != Order::Rank {
                    select_top(list, n);
                    self.order = Some(Order::Other);
                }
                list.truncate(n);
            }
        }
        self.mass = None;
    }

    /// Keeps the candidates whose logit is at least `floor` or, if those are
    /// fewer than `min_keep`, the `min_keep` most likely ones; the best always
    /// stays.
    pub fn keep_at_least(&mut self, floor: f32, min_keep: usize) {
        let kept = match self.order {
            None => {
                let Scratch { maxima, other, .. } = &mut *self.scratch;
                other.clear();
                blocks::collect_at_least(self.logits, maxima, floor, other);
                other.len()
            }
            Some(_) => self.scratch.list.iter().filter(|c| c.logit >= floor).count(),
        };
        if kept < min_keep.max(1) {
            self.keep_top(min_keep);
            return;
        }
        if self.order.is_none() {
            let Scratch { list, other, .. } = &mut *self.scratch;
            std::mem::swap(list, other);
            self.order = Some(Order::Id);
        } else {
            self.scratch.list.retain(|c| c.logit >= floor);
        }
        self.mass = None;
    }

    /// Keeps the candidates whose probability is at least `p`; the best always
    /// stays.
    pub fn keep_probable(&mut self, p: f64) {
        if self.mirror {
            self.rank_all();
        }
        let (best, least) = (self.best(), p * self.mass());
        let mirror = self.mirror;
        self.retain(|c| {
            c.id == best.id || f64::from(weight(mirror, c.logit - best.logit)) >= least
        });
    }

    /// Keeps the fewest most likely candidates whose probabilities sum to at
    /// least `p`, but `min_keep` at least and never none.
    ///
    /// # Precision
    ///
    /// Sums are taken in `f64` over weights in `f32`, most likely first. A sum
    /// that would equal `p` in exact arithmetic can come out on either side.
    pub fn keep_nucleus(&mut self, p: f64, min_keep: usize) {
        let needed = p * self.mass();
        let best = self.best().logit;
        if self.mirror {
            self.rank_all();
        } else {
            self.narrow_to_mass(needed, min_keep);
        }
        let exp = |x| weight(self.mirror, x);
        let mut sum = 0.0;
        let reached = self.scratch.list.iter().position(|c| {
            sum += f64::from(exp(c.logit - best));
            sum >= needed
        });
        let n = reached.map_or(usize::MAX, |at| at + 1).max(min_keep);
        self.scratch.list.truncate(n);
        self.mass = None;
    }

    /// Keeps the candidates with the lowest scores, as few as have
    /// probabilities that sum to at least `p`, but `min_keep` at least and
    /// never none. `score` is given a candidate's probability; of equal scores
    /// the more likely candidate comes first.
    pub fn keep_lowest(&mut self, score: impl Fn(f64) -> f64, p: f64, min_keep: usize) {
        self.rank_all();
        let (best, mass) = (self.best().logit, self.mass());
        let mirror = self.mirror;
        let Scratch { list, other, scored, .. } = &mut *self.scratch;
        scored.clear();
        scored.extend(list.iter().zip(0..).map(|(c, at)| {
            let p = f64::from(weight(mirror, c.logit - best)) / mass;
            (score(p) as f32, at)
        }));
        scored.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        other.clear();
        let mut sum = 0.0;
        for (_, at) in &*scored {
            let c = list[*at as usize];
            other.push(c);
            sum += f64::from(weight(mirror, c.logit - best));
            if sum >= p * mass && other.len() >= min_keep {
                break;
            }
        }
        std::mem::swap(list, other);
        self.order = Some(Order::Other);
        self.mass = None;
    }

    /// Drops the `n` most likely candidates; the least likely one always stays.
    pub fn drop_top(&mut self, n: usize) {
        self.rank_all();
        let n = n.min(self.scratch.list.len() - 1);
        self.scratch.list.drain(..n);
        self.mass = None;
    }

    /// Keeps the candidates that `keep` accepts. If it accepts none, the chain
    /// fails and names the stage.
    pub fn retain(&mut self, mut keep: impl FnMut(Candidate) -> bool) {
        let Scratch { list, other, .. } = &mut *self.scratch;
        other.clear();
        match self.order {
            None => other.extend(dense(self.logits).filter(|c| keep(*c))),
            Some(_) => other.extend(list.iter().copied().filter(|c| keep(*c))),
        }
        if other.is_empty() {
            // The candidates stay as they are, so that the stage can go on to
            // its end; the chain stops right after it.
            self.fault = self.fault.or(Some(Fault::Exhausted));
            return;
        }
        std::mem::swap(list, other);
        self.order.get_or_insert(Order::Id);
        self.mass = None;
    }

    // ---- changing ---------------------------------------------------------

    /// Divides every logit by `t`, which must be positive.
    pub fn temper(&mut self, t: f32) {
        debug_assert!(t > 0.0, "a temperature of {t} would turn the order around");
        if t < 1.0 {
            let best = self.best();
            if !(best.logit / t).is_finite() {
                // Only the best can matter where the logits leave the range of
                // f32: all but its equals are infinitely far below.
                self.retain(|c| c.logit == best.logit);
                return;
            }
        }
        self.rescale(|logit| logit / t);
    }

    /// Replaces every logit by a function of it that keeps their order.
    pub fn rescale(&mut self, f: impl Fn(f32) -> f32) {
        self.rewrite_in_place(|c| f(c.logit));
    }

    /// Replaces every logit; `f` is given the candidate and its probability.
    pub fn rewrite(&mut self, mut f: impl FnMut(Candidate, f64) -> f32) {
        let (best, mass, mirror) = (self.best().logit, self.mass(), self.mirror);
        self.rewrite_in_place(|c| f(c, f64::from(weight(mirror, c.logit - best)) / mass));
        self.forget_rank();
    }

    /// Replaces the logit of one token, if it is still a candidate.
    pub fn update(&mut self, id: TokenId, f: impl FnOnce(f32) -> f32) {
        match self.order {
            None => {
                let at = id.index();
                if at < self.logits.len() && self.logits[at] > f32::NEG_INFINITY {
                    let new = f(self.logits[at]);
                    self.set_dense(at, new);
                }
            }
            Some(_) => {
                if let Some(at) = self.position(id) {
                    let new = f(self.scratch.list[at].logit);
                    self.set_sparse(at, new);
                    self.drop_masked();
                }
            }
        }
        self.mass = None;
    }

    /// Replaces the logit of every candidate that `table` names; `f` is given
    /// the logit and the table's value. Takes time in proportion to the table
    /// or to the candidates, whichever is smaller.
    pub fn adjust<T, S: BuildHasher>(
        &mut self,
        table: &HashMap<TokenId, T, S>,
        f: impl Fn(f32, &T) -> f32,
    ) {
        if self.order.is_none() {
            for (&id, value) in table {
                self.update(id, |logit| f(logit, value));
            }
            return;
        }
        for at in 0..self.scratch.list.len() {
            let Candidate { id, logit } = self.scratch.list[at];
            if let Some(value) = table.get(&id) {
                self.set_sparse(at, f(logit, value));
            }
        }
        self.drop_masked();
        self.mass = None;
    }

    // ---- selecting --------------------------------------------------------

    /// Chooses at random, each candidate with its probability, and spends one
    /// number of `rng`.
    ///
    /// The candidates lie side by side on a line, each as long as its
    /// probability: in order of id for the default generator; for mt19937 as in
    /// llama.cpp's array (by id, and most likely first after a stage that
    /// sorts). The one in which the number falls is chosen.
    pub fn draw(&mut self, rng: &mut StageRng) -> TokenId {
        let u = rng.uniform();
        let id = if self.mirror { self.walk_array(u) } else { self.walk_ids(u) };
        self.choose(id);
        id
    }

    /// Settles on one token. Only stages of kind
    /// [`Select`](crate::Kind::Select) do.
    pub fn choose(&mut self, id: TokenId) {
        self.chosen = Some(id);
    }

    /// The token settled on, if any.
    pub fn chosen(&self) -> Option<TokenId> {
        self.chosen
    }

    // ---- inside -----------------------------------------------------------

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
                blocks::masses(self.logits, &self.scratch.maxima, best).map(|(_, m)| m).sum()
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

    /// Ranks as many of the most likely candidates as have `needed` mass (and
    /// number `min_keep`), and drops candidates that cannot be among them.
    fn narrow_to_mass(&mut self, needed: f64, min_keep: usize) {
        if self.order == Some(Order::Rank) {
            return;
        }
        let best = self.best().logit;
        for depth in [4.0, 8.0, 12.0] {
            let floor = best - depth;
            let Scratch { maxima, list, other, .. } = &mut *self.scratch;
            other.clear();
            match self.order {
                None => blocks::collect_at_least(self.logits, maxima, floor, other),
                Some(_) => other.extend(list.iter().filter(|c| c.logit >= floor)),
            }
            let mass: f64 = other.iter().map(|c| f64::from(exp::exp(c.logit - best))).sum();
            // A thousandth more than needed, so that the order of the sum
            // cannot matter; a narrow miss only costs another round.
            if mass > needed * 1.001 && other.len() >= min_keep {
                std::mem::swap(list, other);
                self.order = Some(Order::Other);
                break;
            }
        }
        self.rank_all();
    }

    fn rewrite_in_place(&mut self, mut f: impl FnMut(Candidate) -> f32) {
        let mut bad = None;
        // What is no number is masked, so that the stage can go on to its end.
        let mut check = |id, new: f32| {
            if is_logit(new) {
                return new;
            }
            bad.get_or_insert((id, new));
            f32::NEG_INFINITY
        };
        match self.order {
            None => {
                for (id, logit) in (0..).map(TokenId).zip(self.logits.iter_mut()) {
                    if *logit > f32::NEG_INFINITY {
                        *logit = check(id, f(Candidate { id, logit: *logit }));
                    }
                }
                blocks::maxima(self.logits, &mut self.scratch.maxima);
            }
            Some(_) => {
                for c in &mut self.scratch.list {
                    c.logit = check(c.id, f(*c));
                }
            }
        }
        if let Some((id, value)) = bad {
            self.break_at(id, value);
        }
        self.drop_masked();
        self.mass = None;
    }

    fn set_dense(&mut self, at: usize, new: f32) {
        if is_logit(new) {
            self.logits[at] = new;
            blocks::refresh(self.logits, &mut self.scratch.maxima, at);
            if new == f32::NEG_INFINITY {
                self.drop_masked();
            }
        } else {
            self.break_at(TokenId(at as u32), new);
        }
    }

    fn set_sparse(&mut self, at: usize, new: f32) {
        let c = &mut self.scratch.list[at];
        if is_logit(new) {
            c.logit = new;
        } else {
            c.logit = f32::NEG_INFINITY;
            let id = c.id;
            self.break_at(id, new);
        }
        self.forget_rank();
    }

    /// The list may no longer stand in order of rank.
    fn forget_rank(&mut self) {
        if self.order == Some(Order::Rank) {
            self.order = Some(Order::Other);
        }
    }

    /// Remembers the first logit that is no number, for the chain to report.
    fn break_at(&mut self, id: TokenId, value: f32) {
        if self.fault.is_none() {
            self.fault = Some(Fault::NonFinite(id, value));
        }
    }

    /// Drops listed candidates whose logit has become -inf. Where none would be
    /// left, the chain stops after the stage; until then one stays.
    fn drop_masked(&mut self) {
        let masked = |c: &Candidate| c.logit == f32::NEG_INFINITY;
        let list = &mut self.scratch.list;
        let exhausted = match self.order {
            None => {
                let none = blocks::maximum(&self.scratch.maxima) == f32::NEG_INFINITY;
                if none {
                    self.logits[0] = 0.0;
                    blocks::refresh(self.logits, &mut self.scratch.maxima, 0);
                }
                none
            }
            Some(_) => {
                let first = list[0].id;
                list.retain(|c| !masked(c));
                if list.is_empty() {
                    list.push(Candidate { id: first, logit: 0.0 });
                    true
                } else {
                    false
                }
            }
        };
        if exhausted {
            self.fault = self.fault.or(Some(Fault::Exhausted));
        }
    }

    fn walk_ids(&mut self, u: f64) -> TokenId {
        let best = self.best().logit;
        if self.order.is_none() {
            let target = u * self.mass();
            let mut sum = 0.0;
            for (block, mass) in blocks::masses(self.logits, &self.scratch.maxima, best) {
                if sum + mass > target {
                    let found = (block * BLOCK..).zip(blocks::block(self.logits, block)).find(
                        |(_, logit)| {
                            sum += f64::from(exp::exp(**logit - best));
                            sum > target
                        },
                    );
                    if let Some((id, _)) = found {
                        return TokenId(id as u32);
                    }
                } else {
                    sum += mass;
                }
            }
        } else {
            if self.order != Some(Order::Id) {
                self.scratch.list.sort_unstable_by_key(|c| c.id);
                self.order = Some(Order::Id);
                self.mass = None;
            }
            let target = u * self.mass();
            let mut sum = 0.0;
            for block in blocks::listed(&self.scratch.list) {
                let mass = blocks::mass(block, best);
                if sum + mass > target {
                    let found = block.iter().find(|c| {
                        sum += f64::from(exp::exp(c.logit - best));
                        sum > target
                    });
                    if let Some(c) = found {
                        return c.id;
                    }
                } else {
                    sum += mass;
                }
            }
        }
        // Rounding kept the sum below the target: the last that can be drawn.
        let drawable = |c: &Candidate| exp::exp(c.logit - best) > 0.0;
        self.iter().filter(drawable).last().map_or(self.best().id, |c| c.id)
    }

    fn walk_array(&mut self, u: f64) -> TokenId {
        self.make_sparse();
        let target = u * self.mass();
        let best = self.best().logit;
        let mut sum = 0.0;
        let list = &self.scratch.list;
        let found = list.iter().find(|c| {
            sum += f64::from(exp::exp_nearest(c.logit - best));
            sum >= target
        });
        found.unwrap_or(&list[list.len() - 1]).id
    }
}

/// Whether a number can stand in the logits: not NaN, and not +inf.
fn is_logit(value: f32) -> bool {
    value < f32::INFINITY
}

/// `exp(x)`, where chains that draw as llama.cpp does also round as it does.
#[inline]
fn weight(mirror: bool, x: f32) -> f32 {
    if mirror { exp::exp_nearest(x) } else { exp::exp(x) }
}

fn dense(logits: &[f32]) -> impl Iterator<Item = Candidate> + '_ {
    let all = (0..).map(TokenId).zip(logits).map(|(id, &logit)| Candidate { id, logit });
    all.filter(|c| c.logit > f32::NEG_INFINITY)
}

/// Cuts `list` down to its `n` most likely candidates, in some order.
fn select_top(list: &mut Vec<Candidate>, n: usize) {
    if n < list.len() {
        if n > 0 {
            list.select_nth_unstable_by(n - 1, Candidate::rank);
        }
        list.truncate(n);
    }
}

#[cfg(test)]
mod tests;
