//! The exponential function, by our own code: the system's differs from
//! machine to machine, and with it the token that a seed gives.
//!
//! Only multiplications and additions in a fixed order, never fused, so that
//! every compiler and every vector width computes the same bits.

/// Below this `exp` is 0 in `f32`, subnormal numbers included.
const UNDERFLOW: f32 = -104.0;

/// `e^x` for `x <= 0`, `-inf` included; relative error below 2e-7.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    // x = n ln 2 + r with |r| <= ln 2 / 2; ln 2 in two parts, so that n times
    // the first is exact.
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    // 1.5 * 2^23: adding it rounds to a whole number, which then stands in the
    // low bits of the sum.
    const ROUND: f32 = 12_582_912.0;

    let x = if x > UNDERFLOW { x } else { UNDERFLOW };
    let rounded = x * std::f32::consts::LOG2_E + ROUND;
    let n = rounded - ROUND;
    let r = (x - n * LN2_HIGH) - n * LN2_LOW;
    // The Taylor series to degree 7: its rest is below 6e-9 for |r| <= 0.35.
    let mut sum = 1.0 / 5040.0;
    sum = sum * r + 1.0 / 720.0;
    sum = sum * r + 1.0 / 120.0;
    sum = sum * r + 1.0 / 24.0;
    sum = sum * r + 1.0 / 6.0;
    sum = sum * r + 0.5;
    sum = sum * r + 1.0;
    sum = sum * r + 1.0;
    // 2^n in two factors, since n reaches below the exponents of normal numbers.
    let n = rounded.to_bits() as i32 - ROUND.to_bits() as i32;
    let half = n >> 1;
    sum * power_of_two(half) * power_of_two(n - half)
}

#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits(((n + 127) << 23) as u32)
}

/// `e^x` rounded from `f64`: the nearest `f32` in all but a few of a billion
/// cases, as in the C library that llama.cpp links.
#[inline]
pub(super) fn exp_nearest(x: f32) -> f32 {
    libm::exp(f64::from(x)) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values: `libm::exp` in `f64`, an independent implementation.
    #[test]
    fn exp_is_accurate_to_two_in_ten_million() {
        for i in 0..1_040_000_u32 {
            let x = -(i as f32) * 1e-4;
            let right = libm::exp(f64::from(x));
            let error = (f64::from(exp(x)) - right).abs();
            // Subnormal results cannot be more precise than their spacing.
            assert!(error <= right * 2e-7 + 1e-45, "exp({x}) is {}, not {right}", exp(x));
        }
    }

    #[test]
    fn exp_of_zero_is_one_and_of_minus_infinity_is_zero() {
        assert_eq!(exp(0.0).to_bits(), 1.0_f32.to_bits());
        assert_eq!(exp(-0.0).to_bits(), 1.0_f32.to_bits());
        assert_eq!(exp(f32::NEG_INFINITY).to_bits(), 0);
        assert_eq!(exp_nearest(f32::NEG_INFINITY).to_bits(), 0);
    }

    /// The bits are part of the promise that a seed gives the same text on
    /// every machine: these were written down once and may never change.
    #[test]
    fn value_stability() {
        let bits = [-0.1_f32, -1.0, -7.25, -50.0, -100.0].map(|x| exp(x).to_bits());
        assert_eq!(bits, [0x3f67_a36d, 0x3ebc_5ab2, 0x3a3a_2aff, 0x1b69_2beb, 0x0000_001b]);
    }
}
