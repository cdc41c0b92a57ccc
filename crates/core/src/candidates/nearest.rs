//! Keeping the candidates whose logits are nearest to a given one, as few as have
//! some share of the mass: a nucleus is what lies nearest to the best.
//!
//! Nothing sorts more than a few candidates. The reach that has the mass is
//! bracketed by passes over the logits, then by buckets of what lies in between.

use std::cmp::Ordering;

use super::{Candidate, Candidates, Order, SLACK, Scratch, blocks, dense, drop::LISTED, weight};
use crate::{
    TokenId,
    kernels::{self, Range},
    trace::Verb,
};

/// So many candidates are few: sorting them costs less than another look.
const FEW: usize = 48;

/// How far to look for a nucleus that is near.
const NEAR: [f64; 5] = [2.0, 4.0, 8.0, 11.0, 14.0];

/// So few candidates between both ends of a bracket are looked at one by one.
const ENOUGH: usize = 2048;

/// How often a bracket is narrowed at most. Where few values are shared by many
/// logits, no bracket gets narrow.
const MAX_ROUNDS: usize = 16;

/// How many logits are a sample.
const SAMPLE: usize = 1024;

/// Buckets into which candidates are put by their distance.
const BUCKETS: usize = 256;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    /// The logit to be near to.
    center: f64,
    /// The greatest logit, of which weights are taken.
    best: f32,
    /// The mass to reach.
    mass: f64,
}

/// The mass to reach, of a whole; some in any case.
fn needed(p: f64, mass: f64) -> f64 {
    ((p - SLACK) * mass).max(f64::MIN_POSITIVE)
}

impl Wanted {
    fn distance(&self, c: &Candidate) -> f64 {
        self.distance_of(c.logit)
    }

    fn distance_of(&self, logit: f32) -> f64 {
        (f64::from(logit) - self.center).abs()
    }

    /// Nearest first; of the equally near the more likely.
    fn compare(&self, a: &Candidate, b: &Candidate) -> Ordering {
        self.distance(a).total_cmp(&self.distance(b)).then_with(|| a.rank(b))
    }

    /// Drops what comes after `last`.
    fn cut(&self, list: &mut Vec<Candidate>, last: &Candidate) {
        let reach = self.distance(last);
        compact(list, |c| {
            let distance = self.distance(c);
            distance < reach || (distance == reach && !last.rank(c).is_lt())
        });
    }

    /// All logits that are no further away than `reach`.
    fn within(&self, reach: f64) -> Range {
        let holds = |logit: f32| self.distance_of(logit) <= reach;
        let center = (self.center as f32).clamp(f32::MIN, f32::MAX);
        if !holds(center) {
            return Range::NONE;
        }
        // Above the best there is nothing to find the end of.
        let high = if holds(self.best) { f32::MAX } else { last_of(center, holds) };
        Range { low: -last_of(-center, |logit| holds(-logit)), high }
    }

    /// The logits of all candidates up to `last`, and of its equals. `None` if they
    /// have others between them, where distances are equal only for the rounding of
    /// an `f64`.
    fn up_to(&self, last: &Candidate) -> Option<Range> {
        let reach = self.distance(last);
        let Range { low, high } = self.within(reach);
        if f64::from(last.logit) <= self.center {
            // What is as far above the center comes before.
            return Some(Range { low: last.logit, high });
        }
        let below = last.logit.next_down();
        if self.distance_of(below) == reach {
            return None;
        }
        // And what is as far below comes after.
        let nearer = self.within(reach.next_down());
        let low = if nearer == Range::NONE { last.logit } else { nearer.low.max(low) };
        Some(Range { low, high })
    }
}

/// The greatest finite logit for which `holds` is true, where it is so for `from`
/// and up to some greater one.
fn last_of(from: f32, holds: impl Fn(f32) -> bool) -> f32 {
    // Numbers in the order of the floats.
    let number = |logit: f32| {
        let bits = logit.to_bits() as i32;
        i64::from(if bits < 0 { i32::MIN.wrapping_sub(bits) } else { bits })
    };
    let logit = |number: i64| {
        let number = number as i32;
        let bits = if number < 0 { i32::MIN.wrapping_sub(number) } else { number };
        f32::from_bits(bits as u32)
    };
    let (mut low, mut high) = (number(from), number(f32::MAX) + 1);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if holds(logit(middle)) {
            low = middle;
        } else {
            high = middle;
        }
    }
    logit(low)
}

/// A reach, and what lies within.
#[derive(Clone, Copy, Debug)]
struct Reach {
    reach: f64,
    range: Range,
    mass: f64,
    count: usize,
}

/// The dense logits with their weights.
#[derive(Clone, Copy, Debug)]
struct Weighed<'a> {
    logits: &'a [f32],
    weights: &'a [f32],
}

impl Weighed<'_> {
    fn within(self, wanted: &Wanted, reach: f64) -> Reach {
        let range = wanted.within(reach);
        let (mass, count) = kernels::mass_within(self.logits, self.weights, range);
        Reach { reach, range, mass, count }
    }

    /// Two reaches, of which the shorter one lacks mass and the longer one does
    /// not, with few candidates in between if that can be had. One is known that
    /// lacks mass.
    fn bracket(self, wanted: &Wanted, total: f64, known: Reach) -> (Reach, Reach) {
        let sample = Sample::new(self, wanted, known);
        let mut inside = known;
        let all = Range { low: f32::MIN, high: f32::MAX };
        let mut outside =
            Reach { reach: f64::INFINITY, range: all, mass: total, count: self.logits.len() };
        let mut next = sample.reach(wanted.mass).max(inside.reach.next_up());
        for round in 0..MAX_ROUNDS {
            let now = self.within(wanted, next);
            if now.range == inside.range || now.range == outside.range {
                break;
            }
            let end = if now.mass < wanted.mass { &mut inside } else { &mut outside };
            *end = now;
            if outside.count - inside.count <= ENOUGH {
                break;
            }
            let (missing, between) = (wanted.mass - inside.mass, outside.mass - inside.mass);
            let width = outside.reach - inside.reach;
            next = if outside.reach.is_infinite() || inside.reach == known.reach {
                // As far on as the sample says, and a little further, so that the
                // other end comes near too.
                let missing = wanted.mass - now.mass;
                sample.reach(sample.mass(now.reach) + missing + missing.signum() * total * 1e-3)
            } else if round % 6 == 5 {
                inside.reach + width / 2.0
            } else {
                // Where a straight line says, but a little to the side where the
                // end is further off, so that it comes near.
                let share = missing / between;
                let margin = 0.25 * ENOUGH as f64 / (outside.count - inside.count) as f64;
                let margin = if share > 0.5 { -margin } else { margin };
                inside.reach + width * (share + margin)
            };
            if !(next > inside.reach && next < outside.reach) {
                next = if outside.reach.is_infinite() {
                    2.0 * inside.reach.max(1.0)
                } else {
                    (inside.reach.max(0.0) + outside.reach) / 2.0
                };
            }
        }
        (inside, outside)
    }
}

/// The masses within some reaches, one as far from the next as all are, as a
/// sample of the logits beyond a known reach has them.
#[derive(Debug)]
struct Sample {
    step: f64,
    masses: [f64; BUCKETS + 1],
}

impl Sample {
    fn new(all: Weighed<'_>, wanted: &Wanted, known: Reach) -> Self {
        let stride = all.logits.len().div_ceil(SAMPLE);
        let logits = || all.logits.iter().step_by(stride).filter(|l| **l > f32::NEG_INFINITY);
        let far = logits().fold(0.0_f64, |far, logit| far.max(wanted.distance_of(*logit)));
        // What has no weight is of no interest.
        let step = far.clamp(f64::MIN_POSITIVE, 100.0) / BUCKETS as f64;
        let mut masses = [0.0; BUCKETS + 1];
        let points = all.logits.iter().zip(all.weights).step_by(stride);
        for (logit, weight) in points.filter(|(_, weight)| **weight > 0.0) {
            let distance = wanted.distance_of(*logit);
            if distance > known.reach {
                let bucket = (distance / step) as usize;
                masses[bucket.min(BUCKETS - 1) + 1] += f64::from(*weight) * stride as f64;
            }
        }
        let mut sum = known.mass;
        for mass in &mut masses {
            sum += *mass;
            *mass = sum;
        }
        Self { step, masses }
    }

    /// About how far the given mass reaches.
    fn reach(&self, mass: f64) -> f64 {
        let after = self.masses.partition_point(|m| *m < mass).clamp(1, BUCKETS);
        let (low, high) = (self.masses[after - 1], self.masses[after]);
        let share = if high > low { ((mass - low) / (high - low)).clamp(0.0, 1.0) } else { 1.0 };
        self.step * (after as f64 - 1.0 + share)
    }

    /// About the mass within a reach.
    fn mass(&self, reach: f64) -> f64 {
        let place = (reach / self.step).clamp(0.0, BUCKETS as f64 - 1e-3);
        let (low, high) = (self.masses[place as usize], self.masses[place as usize + 1]);
        low + (high - low) * place.fract()
    }
}

impl Candidates<'_> {
    /// Keeps the fewest most likely candidates whose probabilities sum to at
    /// least `p`, but `min_keep` at least and never none.
    ///
    /// # Precision
    ///
    /// Sums are taken in `f64` over weights in `f32`. One that is within a
    /// ten-millionth of `p` counts as `p`: the weights are no more precise.
    pub fn keep_nucleus(&mut self, p: f64, min_keep: usize) {
        self.note(Verb::Nucleus { p });
        self.guess_flat();
        let needed = needed(p, self.mass());
        let best = self.best().logit;
        if self.mirror || self.order == Some(Order::Rank) {
            self.rank_all();
            self.keep_first(needed, min_keep);
        } else {
            let wanted = Wanted { center: f64::from(best), best, mass: needed };
            self.keep_nearest(wanted, min_keep);
        }
    }

    /// Keeps the candidates whose surprise, -ln p, is closest to `surprise` nats,
    /// as few as have probabilities that sum to at least `p`, but `min_keep` at
    /// least and never none. Of two that are equally close the more likely one
    /// comes first.
    ///
    /// # Precision
    ///
    /// As of [`keep_nucleus`](Self::keep_nucleus).
    pub fn keep_typical(&mut self, surprise: f64, p: f64, min_keep: usize) {
        self.note(Verb::Typical { surprise, p });
        let (best, mass) = (self.best().logit, self.mass());
        let needed = needed(p, mass);
        if self.mirror {
            let distance = |p: f64| (-libm::log(p) - surprise).abs() as f32;
            self.keep_scored(distance, needed, min_keep);
        } else {
            // A surprise is ln(mass) + best - logit.
            let center = f64::from(best) + libm::log(mass) - surprise;
            self.keep_nearest(Wanted { center, best, mass: needed }, min_keep);
        }
    }

    /// Where many candidates are not far from the best, all weights will be needed
    /// besides their sum.
    fn guess_flat(&mut self) {
        let dense = self.order.is_none() && !self.mirror && self.mass.is_none();
        let best = self.best().logit;
        if dense && self.scratch.is_flat(best) {
            self.weigh_dense();
        }
    }

    /// Keeps the first of the ranked candidates, as many as have the mass.
    fn keep_first(&mut self, needed: f64, min_keep: usize) {
        let best = self.best().logit;
        let mut sum = 0.0;
        let reached = self.scratch.list.iter().position(|c| {
            sum += f64::from(weight(self.mirror, c.logit - best));
            sum >= needed
        });
        let n = reached.map_or(usize::MAX, |at| at + 1).max(min_keep);
        self.scratch.list.truncate(n);
        self.drop_done(true);
    }

    /// Keeps the candidates with the lowest scores, in their order, as llama.cpp
    /// leaves its array.
    fn keep_scored(&mut self, score: impl Fn(f64) -> f32, needed: f64, min_keep: usize) {
        let (best, mass) = (self.best().logit, self.mass());
        self.rank_all();
        let Scratch { list, scored, .. } = &mut *self.scratch;
        scored.clear();
        scored.extend(list.iter().zip(0..).map(|(c, at)| {
            let p = f64::from(weight(true, c.logit - best)) / mass;
            (score(p), at)
        }));
        scored.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut sum = 0.0;
        let reached = scored.iter().position(|(_, at)| {
            sum += f64::from(weight(true, list[*at as usize].logit - best));
            sum >= needed
        });
        let n = reached.map_or(usize::MAX, |at| at + 1).max(min_keep).max(1);
        scored.truncate(n);
        // A candidate fits where its score and place were.
        for entry in &mut *scored {
            let Candidate { id, logit } = list[entry.1 as usize];
            *entry = (logit, id.0);
        }
        list.clear();
        list.extend(scored.iter().map(|&(logit, id)| Candidate { id: TokenId(id), logit }));
        self.order = Some(Order::Other);
        self.drop_done(false);
    }

    fn keep_nearest(&mut self, wanted: Wanted, min_keep: usize) {
        self.make_dense();
        if self.order.is_some() {
            self.rank_ids();
            self.keep_listed(&wanted, min_keep, None);
        } else if let Err(known) = self.keep_near(&wanted, min_keep) {
            self.keep_far(&wanted, known, min_keep);
        }
        self.drop_done(false);
    }

    /// Keeps what is wanted of the list, of which all that are nearer than the
    /// second number of `span` are not nearer than the first, if that is known.
    fn keep_listed(&mut self, wanted: &Wanted, min_keep: usize, span: Option<(f64, f64)>) {
        let Scratch { list, other, spare, .. } = &mut *self.scratch;
        other.clear();
        other.extend_from_slice(list);
        let Some((mut last, count)) = last_wanted(other, spare, wanted, (0.0, 0), span) else {
            return;
        };
        if count < min_keep {
            if min_keep >= list.len() {
                return;
            }
            other.clear();
            other.extend_from_slice(list);
            last = nth_wanted(other, wanted, min_keep);
        }
        wanted.cut(list, &last);
    }

    /// Tries to find all that is wanted within a short reach, where few
    /// candidates are. If that fails, gives a reach that is too short.
    fn keep_near(&mut self, wanted: &Wanted, min_keep: usize) -> Result<(), Reach> {
        let mut known = Reach { reach: -1.0, range: Range::NONE, mass: 0.0, count: 0 };
        if self.scratch.is_flat(wanted.best) {
            return Err(known);
        }
        let dense = (&*self.logits, self.divisor);
        for reach in NEAR {
            let range = wanted.within(reach);
            if self.scratch.hot_blocks(range.low) * 4 > self.scratch.maxima.len()
                && self.scratch.about_at_least(dense, range.low) * LISTED > self.logits.len()
            {
                break;
            }
            self.scratch.list_range(dense, range);
            let Scratch { list, spare, .. } = &mut *self.scratch;
            blocks::weigh(list, wanted.best, spare);
            let mass: f64 = spare.iter().map(|w| f64::from(*w)).sum();
            // A thousandth more than needed, so that the order of the sum
            // cannot matter; a narrow miss only costs another round.
            if mass > wanted.mass * 1.001 && list.len() >= min_keep {
                self.list_made();
                self.keep_listed(wanted, min_keep, Some((0.0, reach)));
                return Ok(());
            }
            if mass < wanted.mass * 0.999 {
                known = Reach { reach, range, mass, count: list.len() };
            }
        }
        Err(known)
    }

    /// Brackets the reach by passes over all logits.
    fn keep_far(&mut self, wanted: &Wanted, known: Reach, min_keep: usize) {
        if !self.weighed {
            self.weigh_dense();
        }
        let total = self.mass();
        let weights = &self.scratch.weights[..self.logits.len()];
        let weighed = Weighed { logits: self.logits, weights };
        let (inside, outside) = weighed.bracket(wanted, total, known);
        let Some((mut last, mut count)) = self.last_between(wanted, inside, outside) else {
            // Rounding kept the sum over all below what was asked for.
            return;
        };
        if count < min_keep {
            let other = &mut self.scratch.other;
            other.clear();
            other.extend(dense(self.logits));
            if min_keep >= other.len() {
                return;
            }
            last = nth_wanted(other, wanted, min_keep);
            count = min_keep;
        }
        match wanted.up_to(&last) {
            Some(range) if count * LISTED > self.logits.len() => self.mask_but(range, last),
            range => {
                if let Some(range) = range {
                    self.scratch.list_range((self.logits, 1.0), range);
                    self.list_made();
                } else {
                    self.make_sparse();
                }
                wanted.cut(&mut self.scratch.list, &last);
            }
        }
    }
}

impl Candidates<'_> {
    /// The last candidate that must stay, of those between two reaches, and how
    /// many stay with it and the nearer ones.
    fn last_between(
        &mut self,
        wanted: &Wanted,
        inside: Reach,
        outside: Reach,
    ) -> Option<(Candidate, usize)> {
        let Scratch { maxima, positions, spare, other, .. } = &mut *self.scratch;
        let low = outside.range.low;
        if low == outside.range.high.min(wanted.best) && inside.count == 0 {
            // All are equal.
            let weight = f64::from(kernels::exp(low - wanted.best));
            let n = ((wanted.mass / weight).ceil() as usize).clamp(1, outside.count);
            return self.scratch.nth_equal(self.logits, low, n).map(|last| (last, n));
        }
        other.clear();
        let ranges = (outside.range, inside.range);
        Scratch::find(maxima, positions, (self.logits, 1.0), ranges, other, usize::MAX);
        let span = Some((inside.reach, outside.reach)).filter(|_| outside.reach.is_finite());
        last_wanted(other, spare, wanted, (inside.mass, inside.count), span)
    }
}

/// The `n`-th candidate, counted from 1, in order of what is wanted.
fn nth_wanted(list: &mut [Candidate], wanted: &Wanted, n: usize) -> Candidate {
    *list.select_nth_unstable_by(n - 1, |a, b| wanted.compare(a, b)).1
}

/// As [`Vec::retain`], but without a branch that depends on the answer.
fn compact(list: &mut Vec<Candidate>, keep: impl Fn(&Candidate) -> bool) {
    let mut kept = 0;
    for at in 0..list.len() {
        let c = list[at];
        list[kept] = c;
        kept += usize::from(keep(&c));
    }
    list.truncate(kept);
}

/// The last candidate that must stay so that the mass is reached, and how many
/// stay with it. `found` are the mass and the number of nearer ones, not listed;
/// `span` is about how near and how far those that are listed lie, if known.
/// `None` if nothing is listed.
fn last_wanted(
    list: &mut Vec<Candidate>,
    weights: &mut Vec<f32>,
    wanted: &Wanted,
    found: (f64, usize),
    mut span: Option<(f64, f64)>,
) -> Option<(Candidate, usize)> {
    let (mut sum, mut count) = found;
    while list.len() > FEW {
        let (near, far) = span.take().unwrap_or_else(|| {
            list.iter().fold((f64::INFINITY, 0.0_f64), |(near, far), c| {
                let distance = wanted.distance(c);
                (near.min(distance), far.max(distance))
            })
        });
        let scale = BUCKETS as f64 / (far - near);
        if !scale.is_finite() {
            break;
        }
        let bucket =
            |c: &Candidate| (((wanted.distance(c) - near) * scale) as usize).min(BUCKETS - 1);
        let mut buckets = [(0.0, 0); BUCKETS];
        blocks::weigh(list, wanted.best, weights);
        for (c, weight) in list.iter().zip(&*weights) {
            let (sum, count) = &mut buckets[bucket(c)];
            *sum += f64::from(*weight);
            *count += 1;
        }
        let mut reached = BUCKETS - 1;
        for (at, (mass, candidates)) in buckets.iter().enumerate().take(BUCKETS - 1) {
            if sum + mass >= wanted.mass && *candidates > 0 {
                reached = at;
                break;
            }
            sum += mass;
            count += candidates;
        }
        compact(list, |c| bucket(c) == reached);
    }
    list.sort_unstable_by(|a, b| wanted.compare(a, b));
    blocks::weigh(list, wanted.best, weights);
    for (c, weight) in list.iter().zip(&*weights) {
        sum += f64::from(*weight);
        count += 1;
        if sum >= wanted.mass {
            return Some((*c, count));
        }
    }
    list.last().map(|last| (*last, count))
}
