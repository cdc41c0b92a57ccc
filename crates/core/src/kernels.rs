//! Passes over logits, each compiled for the vectors that the machine may have.
//!
//! A kernel is one plain function. The compiler makes three of it: for AVX-512,
//! for AVX2 with fused multiply-add, and for whatever the build is for; the best
//! one that the machine can run is called. All give the same bits, since every
//! sum has a fixed order, a fused operation is fused everywhere, and nothing
//! else is. Tests hold them to that.
#![allow(unsafe_code, reason = "code for vectors may only run where they are")]
#![allow(clippy::needless_range_loop, reason = "lanes by number are what becomes a vector")]

use std::f32::consts::LOG2_E;

/// Logits per block.
pub(crate) const BLOCK: usize = 256;

/// Sums are taken in so many parts, by the position in the block.
const LANES: usize = 16;

macro_rules! kernels {
    ($($(#[$doc:meta])* pub(crate) fn $name:ident($($arg:ident: $type:ty),*) $(-> $result:ty)? $body:block)*) => {$(
        $(#[$doc])*
        pub(crate) fn $name($($arg: $type),*) $(-> $result)? {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma")]
                fn avx512($($arg: $type),*) $(-> $result)? {
                    portable::$name($($arg),*)
                }
                #[target_feature(enable = "avx2,fma")]
                fn avx2($($arg: $type),*) $(-> $result)? {
                    portable::$name($($arg),*)
                }
                let has_avx512 = is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl");
                let has_fma = is_x86_feature_detected!("fma");
                if has_avx512 && has_fma {
                    // SAFETY: the machine has just said that it has them all.
                    return unsafe { avx512($($arg),*) };
                }
                if is_x86_feature_detected!("avx2") && has_fma {
                    // SAFETY: the machine has just said that it has both.
                    return unsafe { avx2($($arg),*) };
                }
            }
            portable::$name($($arg),*)
        }
    )*

        /// The kernels for any machine.
        mod portable {
            use super::*;

            $(
                #[inline(always)]
                pub(super) fn $name($($arg: $type),*) $(-> $result)? $body
            )*
        }
    };
}

kernels! {
    /// Writes the greatest logit of every block to `maxima`. False if a logit is
    /// NaN or +inf.
    pub(crate) fn maxima(logits: &[f32], maxima: &mut [f32]) -> bool {
        let mut fine = true;
        for (block, maximum) in logits.chunks(BLOCK).zip(maxima) {
            // As numbers, not flags, so that they lie in vectors like the logits.
            let mut bad = [0_u32; 32];
            let mut greatest = [f32::NEG_INFINITY; 32];
            let chunks = block.chunks_exact(32);
            let rest = chunks.remainder();
            for chunk in chunks {
                for lane in 0..32 {
                    let logit = chunk[lane];
                    greatest[lane] = greater(greatest[lane], logit);
                    bad[lane] |= u32::from(!is_logit(logit));
                }
            }
            for (lane, &logit) in rest.iter().enumerate() {
                greatest[lane] = greater(greatest[lane], logit);
                bad[lane] |= u32::from(!is_logit(logit));
            }
            *maximum = greatest.into_iter().fold(f32::NEG_INFINITY, greater);
            fine &= bad.into_iter().fold(0, |all, bad| all | bad) == 0;
        }
        fine
    }

    /// The greatest of some logits, none of which is NaN.
    pub(crate) fn maximum(logits: &[f32]) -> f32 {
        let mut greatest = [f32::NEG_INFINITY; 64];
        let chunks = logits.chunks_exact(64);
        let rest = chunks.remainder().iter().copied().fold(f32::NEG_INFINITY, greater);
        for chunk in chunks {
            for lane in 0..64 {
                greatest[lane] = greater(greatest[lane], chunk[lane]);
            }
        }
        greatest.into_iter().fold(rest, greater)
    }

    /// Writes every block's sum of `exp(logit - best)` to `masses`.
    pub(crate) fn masses(logits: &[f32], best: f32, masses: &mut [f64]) {
        for (block, mass) in logits.chunks(BLOCK).zip(masses) {
            let mut lanes = [0.0; LANES];
            let chunks = block.chunks_exact(LANES);
            let rest = chunks.remainder();
            for chunk in chunks {
                for lane in 0..LANES {
                    lanes[lane] += f64::from(exp(chunk[lane] - best));
                }
            }
            for (lane, &logit) in rest.iter().enumerate() {
                lanes[lane] += f64::from(exp(logit - best));
            }
            *mass = sum_of_lanes(lanes);
        }
    }

    /// The sums over all unmasked logits of `exp(x)` and of `exp(x) * x`, where
    /// `x` is `logit - best`.
    pub(crate) fn weighted(logits: &[f32], best: f32) -> (f64, f64) {
        let (mut weights, mut products) = (0.0, 0.0);
        for block in logits.chunks(BLOCK) {
            let mut sums = [[0.0; LANES]; 2];
            let chunks = block.chunks_exact(LANES);
            let rest = chunks.remainder();
            let mut add = |lane: usize, logit: f32| {
                let x = logit - best;
                let weight = exp(x);
                // Where a weight is 0 its logit may be -inf, and the product no
                // number.
                let product = if weight > 0.0 { f64::from(weight) * f64::from(x) } else { 0.0 };
                sums[0][lane] += f64::from(weight);
                sums[1][lane] += product;
            };
            for chunk in chunks {
                for lane in 0..LANES {
                    add(lane, chunk[lane]);
                }
            }
            for (lane, &logit) in rest.iter().enumerate() {
                add(lane, logit);
            }
            weights += sum_of_lanes(sums[0]);
            products += sum_of_lanes(sums[1]);
        }
        (weights, products)
    }

    /// How many logits are not masked, and the sum of their distances from
    /// `from`, and of the squares of these.
    pub(crate) fn moments(logits: &[f32], from: f64) -> (usize, f64, f64) {
        let (mut count, mut sum, mut squares) = (0, 0.0, 0.0);
        for block in logits.chunks(BLOCK) {
            let mut sums = [[0.0; LANES]; 2];
            let mut counts = [0_u32; LANES];
            let chunks = block.chunks_exact(LANES);
            let rest = chunks.remainder();
            let mut add = |lane: usize, logit: f32| {
                let masked = logit == f32::NEG_INFINITY;
                let distance = if masked { 0.0 } else { f64::from(logit) - from };
                counts[lane] += u32::from(!masked);
                sums[0][lane] += distance;
                sums[1][lane] += distance * distance;
            };
            for chunk in chunks {
                for lane in 0..LANES {
                    add(lane, chunk[lane]);
                }
            }
            for (lane, &logit) in rest.iter().enumerate() {
                add(lane, logit);
            }
            count += counts.into_iter().sum::<u32>() as usize;
            sum += sum_of_lanes(sums[0]);
            squares += sum_of_lanes(sums[1]);
        }
        (count, sum, squares)
    }

    /// Divides every logit.
    pub(crate) fn divide(logits: &mut [f32], by: f32) {
        for logit in logits {
            *logit /= by;
        }
    }

    /// Appends the positions of the logits that are at least `floor`.
    pub(crate) fn at_least(logits: &[f32], floor: f32, positions: &mut Vec<u32>) {
        for (start, chunk) in (0..).step_by(32).zip(logits.chunks(32)) {
            let any = chunk.iter().fold(0, |any, logit| any | u32::from(*logit >= floor));
            if any != 0 {
                let found = (start..).zip(chunk).filter(|(_, logit)| **logit >= floor);
                positions.extend(found.map(|(at, _)| at));
            }
        }
    }
}

/// The greatest of a few logits, too few for vectors to pay.
pub(crate) fn maximum_of_few(logits: &[f32]) -> f32 {
    logits.iter().copied().fold(f32::NEG_INFINITY, greater)
}

/// Whether a number can stand in the logits: not NaN, and not +inf.
#[inline(always)]
pub(crate) fn is_logit(value: f32) -> bool {
    value < f32::INFINITY
}

#[inline(always)]
fn greater(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

/// The sum over listed candidates of one block, whose positions in it and
/// weights come in ascending order: the same bits as [`masses`] gives where the
/// others are masked.
pub(crate) fn mass_of(weights: impl Iterator<Item = (usize, f32)>) -> f64 {
    let mut lanes = [0.0; LANES];
    for (position, weight) in weights {
        lanes[position % LANES] += f64::from(weight);
    }
    sum_of_lanes(lanes)
}

#[inline(always)]
fn sum_of_lanes(mut lanes: [f64; LANES]) -> f64 {
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            lanes[lane] += lanes[lane + half];
        }
        half /= 2;
    }
    lanes[0]
}

/// `e^x` for `x <= 0`, `-inf` included; relative error below 1e-7, and 0 where
/// the result would be below 1e-38.
///
/// By our own code, since the system's function differs from machine to machine,
/// and with it the token that a seed gives.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    // x = n ln 2 + r with |r| <= ln 2 / 2; ln 2 in two parts, so that n times
    // the first is exact.
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    // 1.5 * 2^23: adding it rounds to a whole number, which then stands in the
    // low bits of the sum.
    const ROUND: f32 = 12_582_912.0;
    // e^r = 1 + r + r^2 * polynomial, fitted to the least relative error on the
    // interval.
    const TERMS: [f32; 5] =
        [1.381_459_9e-3, 8.368_717e-3, 4.166_839e-2, 1.666_652_1e-1, 4.999_999_4e-1];

    let rounded = x.mul_add(LOG2_E, ROUND);
    let n = rounded - ROUND;
    let r = n.mul_add(-LN2_LOW, n.mul_add(-LN2_HIGH, x));
    let mut sum = TERMS[0];
    sum = sum.mul_add(r, TERMS[1]);
    sum = sum.mul_add(r, TERMS[2]);
    sum = sum.mul_add(r, TERMS[3]);
    sum = sum.mul_add(r, TERMS[4]);
    sum = sum.mul_add(r, 1.0);
    sum = sum.mul_add(r, 1.0);
    // Times 2^n: n added to the exponent.
    let power = f32::from_bits(sum.to_bits().wrapping_add(rounded.to_bits() << 23));
    if x >= -87.0 { power } else { 0.0 }
}

/// `e^x` rounded from `f64`: the nearest `f32` in all but a few of a billion
/// cases, as in the C library that llama.cpp links.
pub(crate) fn exp_nearest(x: f32) -> f32 {
    libm::exp(f64::from(x)) as f32
}

#[cfg(test)]
mod tests;
