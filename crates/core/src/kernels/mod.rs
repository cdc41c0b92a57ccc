//! Passes over logits, each compiled for the vectors that the machine may have.
//!
//! A kernel is one function over some kind of [`Vector`]. The compiler makes three
//! of it: for AVX-512, for AVX2 with fused multiply-add, and for any machine; the
//! best one that the machine can run is called. All give the same bits, since
//! every sum has a fixed order, a fused operation is fused everywhere, and nothing
//! else is. Tests hold them to that.
#![allow(unsafe_code, reason = "code for vectors may only run where they are")]
#![allow(clippy::needless_range_loop, reason = "vectors by number are what becomes registers")]
// Kernels hold no closures: the compiler might not make one a part of its kernel,
// and then would compile it for any machine.

mod vector;

#[cfg(target_arch = "x86_64")]
use vector::{Avx2, Avx512, Vectors};
use vector::{LANES, Plain, Vector};

/// Logits per block.
pub(crate) const BLOCK: usize = 256;

/// Vectors per block.
const PARTS: usize = BLOCK / LANES;

/// The vectors of a block are added up in fours.
const FOUR: usize = 4;

/// Makes a function of the same name for every kind of vector, and one that
/// calls the best of them.
macro_rules! kernels {
    ($($(#[$doc:meta])* pub(crate) fn $name:ident<$vector:ident $(, $f:ident: $bound:path)*>
        ($($arg:ident: $type:ty),* $(,)?) $(-> $result:ty)? $body:block)*) => {$(
        $(#[$doc])*
        pub(crate) fn $name$(<$f: $bound>)*($($arg: $type),*) $(-> $result)? {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512dq,avx2,fma")]
                fn avx512$(<$f: $bound>)*($($arg: $type),*) $(-> $result)? {
                    over::$name::<Avx512 $(, $f)*>($($arg),*)
                }
                #[target_feature(enable = "avx2,fma")]
                fn avx2$(<$f: $bound>)*($($arg: $type),*) $(-> $result)? {
                    over::$name::<Avx2 $(, $f)*>($($arg),*)
                }
                match Vectors::here() {
                    // SAFETY: the machine has just said that it has them all.
                    Vectors::Avx512 => return unsafe { avx512($($arg),*) },
                    // SAFETY: the machine has just said that it has both.
                    Vectors::Avx2 => return unsafe { avx2($($arg),*) },
                    Vectors::Other => {}
                }
            }
            over::$name::<Plain $(, $f)*>($($arg),*)
        }
    )*

        /// The kernels over any kind of vector.
        mod over {
            use super::*;

            $(
                #[inline(always)]
                pub(super) fn $name<$vector: Vector $(, $f: $bound)*>($($arg: $type),*)
                    $(-> $result)? $body
            )*
        }
    };
}

kernels! {
    /// Writes the greatest logit of every block to `maxima`. False if a logit is
    /// NaN or +inf; seldom also where none is, so that it is worth a closer look.
    pub(crate) fn maxima<V>(logits: &[f32], maxima: &mut [f32]) -> bool {
        let mut sums = V::splat(0.0);
        let (blocks, rest) = logits.as_chunks();
        let mut last = [f32::NEG_INFINITY; BLOCK];
        for (index, maximum) in maxima.iter_mut().enumerate() {
            let (max, sum) = greatest_and_sum::<V>(block(blocks, rest, index, &mut last));
            *maximum = max;
            sums = sums.add(sum);
        }
        over::maximum::<V>(maxima) < f32::INFINITY && !sums.sum().is_nan()
    }

    /// The greatest of some logits, none of which is NaN.
    pub(crate) fn maximum<V>(logits: &[f32]) -> f32 {
        let (parts, rest) = logits.as_chunks();
        let mut max = [V::splat(f32::NEG_INFINITY); FOUR];
        let (fours, others) = parts.as_chunks::<FOUR>();
        for four in fours {
            for at in 0..FOUR {
                max[at] = V::load(&four[at]).max(max[at]);
            }
        }
        for part in others {
            max[0] = V::load(part).max(max[0]);
        }
        let mut greatest = max[0].max(max[1]).max(max[2].max(max[3])).greatest();
        for logit in rest {
            greatest = if *logit > greatest { *logit } else { greatest };
        }
        greatest
    }

    /// Writes every block's sum of `exp(logit - base)` to `masses`.
    pub(crate) fn masses<V>(logits: &[f32], base: f32, masses: &mut [f64]) {
        let base = V::splat(base);
        let (blocks, rest) = logits.as_chunks();
        let mut last = [f32::NEG_INFINITY; BLOCK];
        for (index, mass) in masses.iter_mut().enumerate() {
            let parts = parts(block(blocks, rest, index, &mut last));
            let mut sums = [V::splat(0.0); FOUR];
            for four in 0..FOUR {
                let mut weights = [V::splat(0.0); FOUR];
                for at in 0..FOUR {
                    weights[at] = vector::exp(V::load(&parts[four * FOUR + at]).sub(base));
                }
                sums[four] = tree(weights);
            }
            *mass = tree(sums).sum();
        }
    }

    /// The same over logits that are still to be divided by `t`, which is not
    /// extreme.
    pub(crate) fn masses_at<V>(logits: &[f32], t: f32, base: f32, masses: &mut [f64]) {
        let (minus_t, inverse, base) = (V::splat(-t), V::splat(1.0 / t), V::splat(base));
        let (blocks, rest) = logits.as_chunks();
        let mut last = [f32::NEG_INFINITY; BLOCK];
        for (index, mass) in masses.iter_mut().enumerate() {
            let parts = parts(block(blocks, rest, index, &mut last));
            let mut sums = [V::splat(0.0); FOUR];
            for four in 0..FOUR {
                let mut weights = [V::splat(0.0); FOUR];
                for at in 0..FOUR {
                    let part = V::load(&parts[four * FOUR + at]);
                    let logit = vector::quotient(part, minus_t, inverse);
                    weights[at] = vector::exp(logit.sub(base));
                }
                sums[four] = tree(weights);
            }
            *mass = tree(sums).sum();
        }
    }

    /// The sum of a block's weights, with the bits that [`masses`] gives.
    pub(crate) fn block_mass<V>(weights: &[f32; BLOCK]) -> f64 {
        let parts = parts(weights);
        let mut sums = [V::splat(0.0); FOUR];
        for four in 0..FOUR {
            let mut found = [V::splat(0.0); FOUR];
            for at in 0..FOUR {
                found[at] = V::load(&parts[four * FOUR + at]);
            }
            sums[four] = tree(found);
        }
        tree(sums).sum()
    }

    /// Writes every logit's `exp(logit - base)` to `weights`, and every block's sum
    /// of them to `masses`.
    pub(crate) fn weigh<V>(logits: &[f32], base: f32, weights: &mut [f32], masses: &mut [f64]) {
        let base = V::splat(base);
        let (blocks, rest) = logits.as_chunks();
        let (weights, weights_left) = weights.as_chunks_mut::<BLOCK>();
        let (mut last, mut last_weights) = ([f32::NEG_INFINITY; BLOCK], [0.0; BLOCK]);
        for (index, mass) in masses.iter_mut().enumerate() {
            let parts = parts(block(blocks, rest, index, &mut last));
            let to = if index < blocks.len() { &mut weights[index] } else { &mut last_weights };
            let (to, _) = to.as_chunks_mut::<LANES>();
            let mut sums = [V::splat(0.0); FOUR];
            for four in 0..FOUR {
                let mut weights = [V::splat(0.0); FOUR];
                for at in 0..FOUR {
                    weights[at] = vector::exp(V::load(&parts[four * FOUR + at]).sub(base));
                    weights[at].store(&mut to[four * FOUR + at]);
                }
                sums[four] = tree(weights);
            }
            *mass = tree(sums).sum();
        }
        weights_left.copy_from_slice(&last_weights[..rest.len()]);
    }

    /// Writes every logit's `exp(logit - base)` to `weights`.
    pub(crate) fn weights<V>(logits: &[f32], base: f32, weights: &mut [f32]) {
        let base = V::splat(base);
        let (parts, rest) = logits.as_chunks();
        let (to, rest_to) = weights.as_chunks_mut();
        for (part, to) in parts.iter().zip(to) {
            vector::exp(V::load(part).sub(base)).store(to);
        }
        let mut last = [f32::NEG_INFINITY; LANES];
        last[..rest.len()].copy_from_slice(rest);
        let mut found = [0.0; LANES];
        vector::exp(V::load(&last).sub(base)).store(&mut found);
        rest_to.copy_from_slice(&found[..rest.len()]);
    }

    /// The sum of the weights whose logits lie in `range`, and how many do.
    pub(crate) fn mass_within<V>(logits: &[f32], weights: &[f32], range: Range) -> (f64, usize) {
        let (low, high) = (V::splat(range.low), V::splat(range.high));
        let (blocks, rest) = logits.as_chunks();
        let (weights, weights_left) = weights.as_chunks();
        let mut last = [[f32::NEG_INFINITY; BLOCK]; 2];
        let [last_block, last_weights] = &mut last;
        let (one, none) = (V::splat(1.0), V::splat(0.0));
        let (mut mass, mut counts) = (0.0, [none; FOUR]);
        for index in 0..logits.len().div_ceil(BLOCK) {
            let parts = parts(block(blocks, rest, index, last_block));
            let weights = self::parts(block(weights, weights_left, index, last_weights));
            let mut sums = [none; FOUR];
            for four in 0..FOUR {
                let mut found = [none; FOUR];
                for at in 0..FOUR {
                    let part = V::load(&parts[four * FOUR + at]);
                    let holds = V::both(part.at_least(low), high.at_least(part));
                    let weight = V::load(&weights[four * FOUR + at]);
                    found[at] = weight.select(holds, none);
                    counts[at] = counts[at].add(one.select(holds, none));
                }
                sums[four] = tree(found);
            }
            mass += tree(sums).sum();
        }
        (mass, tree(counts).sum() as usize)
    }

    /// Writes every block's sum of `exp(x)` to `masses`, where `x` is `logit -
    /// best`, and each of them to `weights`, if that is not empty. Gives the number
    /// of unmasked logits, and the sum of `exp(x) * x`.
    pub(crate) fn weighted<V>(
        logits: &[f32],
        best: f32,
        masses: &mut [f64],
        weights: &mut [f32],
    ) -> (usize, f64) {
        let best = V::splat(best);
        let noted = !weights.is_empty();
        let (blocks, rest) = logits.as_chunks();
        let (weights, weights_left) = weights.as_chunks_mut::<BLOCK>();
        let (mut last, mut last_weights) = ([f32::NEG_INFINITY; BLOCK], [0.0; BLOCK]);
        let (one, none) = (V::splat(1.0), V::splat(0.0));
        let (mut counts, mut moment) = ([none; FOUR], 0.0);
        for (index, mass) in masses.iter_mut().enumerate() {
            let parts = parts(block(blocks, rest, index, &mut last));
            let to =
                if index < weights.len() { &mut weights[index] } else { &mut last_weights };
            let (to, _) = to.as_chunks_mut::<LANES>();
            let (mut masses, mut moments) = ([none; FOUR], [none; FOUR]);
            for four in 0..FOUR {
                let mut weights = [none; FOUR];
                let mut products = [none; FOUR];
                for at in 0..FOUR {
                    let part = V::load(&parts[four * FOUR + at]);
                    let unmasked = part.at_least(V::splat(f32::MIN));
                    let x = part.sub(best);
                    weights[at] = vector::exp(x);
                    if noted {
                        weights[at].store(&mut to[four * FOUR + at]);
                    }
                    // Where a weight is 0, x may be infinite and the product no number.
                    let weighs = weights[at].at_least(V::splat(f32::MIN_POSITIVE));
                    products[at] = weights[at].mul(x).select(weighs, none);
                    counts[at] = counts[at].add(one.select(unmasked, none));
                }
                masses[four] = tree(weights);
                moments[four] = tree(products);
            }
            *mass = tree(masses).sum();
            moment += tree(moments).sum();
        }
        if noted {
            weights_left.copy_from_slice(&last_weights[..weights_left.len()]);
        }
        (tree(counts).sum() as usize, moment)
    }

    /// Over the unmasked logits how many they are, and the sums of their distances
    /// from `from`, and of the squares of these.
    pub(crate) fn spread<V>(logits: &[f32], from: f32) -> Spread {
        let from = V::splat(from);
        let (blocks, rest) = logits.as_chunks();
        let mut last = [f32::NEG_INFINITY; BLOCK];
        let mut spread = Spread::default();
        for index in 0..logits.len().div_ceil(BLOCK) {
            let parts = parts(block(blocks, rest, index, &mut last));
            let (mut sums, mut squares) = ([V::splat(0.0); FOUR], [V::splat(0.0); FOUR]);
            for four in 0..FOUR {
                let mut distances = [V::splat(0.0); FOUR];
                let mut products = [V::splat(0.0); FOUR];
                for at in 0..FOUR {
                    distances[at] = V::load(&parts[four * FOUR + at]).sub(from);
                    products[at] = distances[at].mul(distances[at]);
                }
                sums[four] = tree(distances);
                squares[four] = tree(products);
            }
            let (mut sum, mut square) = (tree(sums).sum(), tree(squares).sum());
            let mut count = BLOCK;
            if sum == f64::NEG_INFINITY {
                // Some are masked.
                count = 0;
                for four in 0..FOUR {
                    let mut distances = [V::splat(0.0); FOUR];
                    let mut products = [V::splat(0.0); FOUR];
                    for at in 0..FOUR {
                        let part = V::load(&parts[four * FOUR + at]);
                        let unmasked = part.at_least(V::splat(f32::MIN));
                        distances[at] = part.sub(from).select(unmasked, V::splat(0.0));
                        products[at] = distances[at].mul(distances[at]);
                        count += V::bits(unmasked).count_ones() as usize;
                    }
                    sums[four] = tree(distances);
                    squares[four] = tree(products);
                }
                (sum, square) = (tree(sums).sum(), tree(squares).sum());
            }
            spread.count += count;
            spread.sum += sum;
            spread.squares += square;
        }
        spread
    }

    /// How many logits are at least `floor`.
    pub(crate) fn count_at_least<V>(logits: &[f32], floor: f32) -> usize {
        let (parts, rest) = logits.as_chunks();
        let (fours, others) = parts.as_chunks::<FOUR>();
        let (one, none, floor_of_all) = (V::splat(1.0), V::splat(0.0), V::splat(floor));
        let mut counts = [none; FOUR];
        for four in fours {
            for at in 0..FOUR {
                let found = one.select(V::load(&four[at]).at_least(floor_of_all), none);
                counts[at] = counts[at].add(found);
            }
        }
        for part in others {
            let found = one.select(V::load(part).at_least(floor_of_all), none);
            counts[0] = counts[0].add(found);
        }
        let mut count = tree(counts).sum() as usize;
        for logit in rest {
            count += usize::from(*logit >= floor);
        }
        count
    }

    /// Divides every logit.
    pub(crate) fn divide<V>(logits: &mut [f32], by: f32) {
        // Where neither is extreme, there is a quicker way to the same bits.
        const GREAT: f32 = 1e18;
        let squares = Range { low: 1.0 / GREAT / GREAT, high: GREAT * GREAT };
        let (low, high) = (V::splat(squares.low), V::splat(squares.high));
        let moderate = squares.holds(by * by);
        let inverse = V::splat(1.0 / by);
        let (parts, rest) = logits.as_chunks_mut();
        for part in parts {
            let logits = V::load(part);
            let square = logits.mul(logits);
            let holds = V::both(square.at_least(low), high.at_least(square));
            let quotient = if moderate & (V::bits(holds) == u16::MAX) {
                vector::quotient(logits, V::splat(-by), inverse)
            } else {
                logits.div(V::splat(by))
            };
            quotient.store(part);
        }
        for logit in rest {
            *logit /= by;
        }
    }

    /// Masks the logits outside `range`, and those that are `tie`.
    pub(crate) fn mask<V>(logits: &mut [f32], range: Range, tie: Option<f32>) {
        // NaN equals nothing.
        let tie = tie.unwrap_or(f32::NAN);
        let (low, high) = (V::splat(range.low), V::splat(range.high));
        let (parts, rest) = logits.as_chunks_mut();
        for part in parts {
            let logits = V::load(part);
            let holds = V::both(logits.at_least(low), high.at_least(logits));
            let stays = V::both(holds, logits.differs(V::splat(tie)));
            logits.select(stays, V::splat(f32::NEG_INFINITY)).store(part);
        }
        for logit in rest {
            let stays = range.holds(*logit) & (*logit != tie);
            *logit = if stays { *logit } else { f32::NEG_INFINITY };
        }
    }

    /// Masks the logits below `floor`, and writes every block's sum of `exp(logit -
    /// base)` to `masses`: [`mask`] and [`masses`] in one pass.
    pub(crate) fn mask_below<V>(logits: &mut [f32], floor: f32, base: f32, masses: &mut [f64]) {
        let (low, base) = (V::splat(floor), V::splat(base));
        let mut last = [f32::NEG_INFINITY; BLOCK];
        for (logits, mass) in logits.chunks_mut(BLOCK).zip(masses) {
            let whole = logits.len() == BLOCK;
            if !whole {
                last[..logits.len()].copy_from_slice(logits);
            }
            let block = if whole { &mut *logits } else { &mut last };
            let (parts, _) = block.as_chunks_mut::<LANES>();
            let mut sums = [V::splat(0.0); FOUR];
            for four in 0..FOUR {
                let mut weights = [V::splat(0.0); FOUR];
                for at in 0..FOUR {
                    let part = &mut parts[four * FOUR + at];
                    let logits = V::load(part);
                    let masked = logits.select(logits.at_least(low), V::splat(f32::NEG_INFINITY));
                    masked.store(part);
                    weights[at] = vector::exp(masked.sub(base));
                }
                sums[four] = tree(weights);
            }
            *mass = tree(sums).sum();
            if !whole {
                logits.copy_from_slice(&last[..logits.len()]);
            }
        }
    }

    /// Appends the positions of the logits that are at least `floor`.
    pub(crate) fn positions_from<V>(logits: &[f32], floor: f32, found: &mut Vec<u32>) {
        let low = V::splat(floor);
        let (parts, rest) = logits.as_chunks();
        let (fours, others) = parts.as_chunks::<FOUR>();
        for (index, four) in fours.iter().enumerate() {
            let mut wanted = 0_u64;
            for at in 0..FOUR {
                let holds = V::bits(V::load(&four[at]).at_least(low));
                wanted |= u64::from(holds) << (at * LANES);
            }
            while wanted != 0 {
                found.push((index * FOUR * LANES) as u32 + wanted.trailing_zeros());
                wanted &= wanted - 1;
            }
        }
        let start = (fours.len() * FOUR * LANES) as u32;
        let last = others.as_flattened().iter().chain(rest);
        for (logit, at) in last.zip(start..) {
            if *logit >= floor {
                found.push(at);
            }
        }
    }

    /// Appends the positions of the logits that lie in `range` and not in `but`.
    pub(crate) fn positions<V>(logits: &[f32], range: Range, but: Range, found: &mut Vec<u32>) {
        let (low, high) = (V::splat(range.low), V::splat(range.high));
        let (but_low, but_high) = (V::splat(but.low), V::splat(but.high));
        let (parts, rest) = logits.as_chunks();
        for (index, part) in parts.iter().enumerate() {
            let part = V::load(part);
            let holds = V::bits(V::both(part.at_least(low), high.at_least(part)));
            let but = V::bits(V::both(part.at_least(but_low), but_high.at_least(part)));
            let mut wanted = holds & !but;
            while wanted != 0 {
                found.push((index * LANES) as u32 + wanted.trailing_zeros());
                wanted &= wanted - 1;
            }
        }
        for (logit, at) in rest.iter().zip((parts.len() * LANES) as u32..) {
            if range.holds(*logit) & !but.holds(*logit) {
                found.push(at);
            }
        }
    }

    /// Replaces every unmasked logit by `f` of it, and notes maxima as [`maxima`]
    /// does.
    pub(crate) fn map<V, F: Rescale>(logits: &mut [f32], f: F, maxima: &mut [f32]) -> bool {
        for logit in &mut *logits {
            *logit = if *logit > f32::NEG_INFINITY { f.of(*logit) } else { f32::NEG_INFINITY };
        }
        over::maxima::<V>(logits, maxima)
    }

    /// Replaces every unmasked logit by `f` of it and of its probability, which
    /// is `scale` times its weight, over which it is written. Notes maxima as
    /// [`maxima`] does.
    pub(crate) fn map_weighted<V, F: Rewrite>(
        logits: &mut [f32],
        weights: &mut [f32],
        scale: f32,
        f: F,
        maxima: &mut [f32],
    ) -> bool {
        let mut sums = V::splat(0.0);
        let mut last = [f32::NEG_INFINITY; BLOCK];
        let blocks = logits.chunks_mut(BLOCK).zip(weights.chunks_mut(BLOCK));
        for ((logits, weights), maximum) in blocks.zip(&mut *maxima) {
            for (logit, weight) in logits.iter_mut().zip(weights) {
                *weight *= scale;
                let new = f.of(*logit, *weight);
                *logit = if *logit > f32::NEG_INFINITY { new } else { f32::NEG_INFINITY };
            }
            // While the block is at hand.
            let (blocks, rest) = logits.as_chunks();
            let (max, sum) = greatest_and_sum::<V>(block(blocks, rest, 0, &mut last));
            *maximum = max;
            sums = sums.add(sum);
        }
        over::maximum::<V>(maxima) < f32::INFINITY && !sums.sum().is_nan()
    }
}

/// The greatest logit of a block, and sums of all, which are NaN if one is:
/// whatever is added to a NaN, it stays.
#[inline(always)]
fn greatest_and_sum<V: Vector>(block: &[f32; BLOCK]) -> (f32, V) {
    let parts = parts(block);
    let mut max = [V::splat(f32::NEG_INFINITY); FOUR];
    let mut sum = [V::splat(0.0); FOUR];
    for first in (0..PARTS).step_by(FOUR) {
        for at in 0..FOUR {
            let part = V::load(&parts[first + at]);
            max[at] = part.max(max[at]);
            sum[at] = part.add(sum[at]);
        }
    }
    (max[0].max(max[1]).max(max[2].max(max[3])).greatest(), tree(sum))
}

/// One of the blocks, or what is left, with masks for what is missing from it.
#[inline(always)]
fn block<'a>(
    blocks: &'a [[f32; BLOCK]],
    rest: &[f32],
    index: usize,
    last: &'a mut [f32; BLOCK],
) -> &'a [f32; BLOCK] {
    if index < blocks.len() {
        &blocks[index]
    } else {
        last[..rest.len()].copy_from_slice(rest);
        last
    }
}

/// The vectors of a block.
#[inline(always)]
fn parts(block: &[f32; BLOCK]) -> &[[f32; LANES]] {
    block.as_chunks().0
}

/// The sum of four, pairwise: no weight in it takes more than two roundings, each
/// no more than its own.
#[inline(always)]
fn tree<V: Vector>([a, b, c, d]: [V; FOUR]) -> V {
    a.add(b).add(c.add(d))
}

/// All logits from the lowest to the highest, both included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Range {
    pub(crate) low: f32,
    pub(crate) high: f32,
}

impl Range {
    /// No logit at all.
    pub(crate) const NONE: Self = Self { low: f32::INFINITY, high: f32::NEG_INFINITY };

    /// All unmasked logits from `low` on.
    pub(crate) fn from(low: f32) -> Self {
        Self { low: low.max(f32::MIN), high: f32::MAX }
    }

    /// A range that holds all logits whose quotients by `t` this one holds, and few
    /// others.
    pub(crate) fn before_division(self, t: f32) -> Self {
        let t = f64::from(t);
        let (low, high) = (f64::from(self.low) * t, f64::from(self.high) * t);
        // Quotients of the least size are a rounding apart in all their digits.
        let slack = |end: f64| end.abs() * 1e-6 + t * f64::from(f32::MIN_POSITIVE);
        let (low, high) = ((low - slack(low)) as f32, (high + slack(high)) as f32);
        Self { low: low.max(f32::MIN), high: high.min(f32::MAX) }
    }

    #[inline(always)]
    pub(crate) fn holds(self, logit: f32) -> bool {
        (logit >= self.low) & (logit <= self.high)
    }
}

/// How many numbers there are, and the sums of their distances from some number,
/// and of the squares of these.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Spread {
    pub(crate) count: usize,
    pub(crate) sum: f64,
    pub(crate) squares: f64,
}

/// A function of a logit. Closures are; a trait of its own lets a kernel compile
/// it for vectors.
pub(crate) trait Rescale {
    fn of(&self, logit: f32) -> f32;
}

impl<F: Fn(f32) -> f32> Rescale for F {
    #[inline(always)]
    fn of(&self, logit: f32) -> f32 {
        self(logit)
    }
}

/// A function of a logit and a probability.
pub(crate) trait Rewrite {
    fn of(&self, logit: f32, p: f32) -> f32;
}

impl<F: Fn(f32, f32) -> f32> Rewrite for F {
    #[inline(always)]
    fn of(&self, logit: f32, p: f32) -> f32 {
        self(logit, p)
    }
}

/// The greatest of a few logits, too few for vectors to pay.
pub(crate) fn maximum_of_few(logits: &[f32]) -> f32 {
    logits.iter().fold(f32::NEG_INFINITY, |best, logit| if *logit > best { *logit } else { best })
}

/// Whether a number can stand in the logits: not NaN, and not +inf.
#[inline(always)]
pub(crate) fn is_logit(value: f32) -> bool {
    value < f32::INFINITY
}

/// The mass that a block has in which two logits alone are not masked, or one:
/// their positions and weights.
pub(crate) fn mass_of_few(first: (usize, f32), second: Option<(usize, f32)>) -> f64 {
    match second {
        Some((at, weight)) if at % LANES == first.0 % LANES => f64::from(first.1 + weight),
        Some((_, weight)) => f64::from(first.1) + f64::from(weight),
        None => f64::from(first.1),
    }
}

/// `e^x` for `x <= 0`, with the bits that the kernels give.
pub(crate) fn exp(x: f32) -> f32 {
    vector::exp(x)
}

/// `e^x` rounded from `f64`: the nearest `f32` in all but a few of a billion
/// cases, as in the C library that llama.cpp links.
pub(crate) fn exp_nearest(x: f32) -> f32 {
    libm::exp(f64::from(x)) as f32
}

#[cfg(test)]
mod tests;
