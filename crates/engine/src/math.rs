//! The functions between the matrix products.
//!
//! Nothing here calls the system's mathematical library: results are the same
//! on every machine.

use crate::weights::{Simd, dot, vectorized};

vectorized! {
    /// Scales `x` to a mean square of 1, then each element by its weight.
    pub(crate) fn rms_norm(simd: Simd, x: &[f32], weights: &[f32], epsilon: f32, out: &mut [f32]) {
        let mean = dot(x, x) / x.len() as f32;
        let scale = 1.0 / (mean + epsilon).sqrt();
        for ((out, x), weight) in out.iter_mut().zip(x).zip(weights) {
            *out = x * scale * weight;
        }
    }
}

vectorized! {
    /// Turns scores into probabilities.
    pub(crate) fn softmax(simd: Simd, scores: &mut [f32]) {
        // Sixteen results side by side: a single one would wait for each step.
        let mut largest = [f32::NEG_INFINITY; 16];
        let (chunks, rest) = scores.as_chunks::<16>();
        for chunk in chunks {
            for (largest, x) in largest.iter_mut().zip(chunk) {
                *largest = if *x > *largest { *x } else { *largest };
            }
        }
        let mut most = f32::NEG_INFINITY;
        for x in largest.iter().chain(rest) {
            most = if *x > most { *x } else { most };
        }
        let mut sums = [0.0; 16];
        let (chunks, rest) = scores.as_chunks_mut::<16>();
        for chunk in chunks {
            for (sum, x) in sums.iter_mut().zip(chunk) {
                *x = exp(*x - most);
                *sum += *x;
            }
        }
        for (sum, x) in sums.iter_mut().zip(rest) {
            *x = exp(*x - most);
            *sum += *x;
        }
        let scale = 1.0 / sums.iter().sum::<f32>();
        for score in scores {
            *score *= scale;
        }
    }
}

vectorized! {
    /// `gate * sigmoid(gate) * up`, into `gate`.
    pub(crate) fn swiglu(simd: Simd, gate: &mut [f32], up: &[f32]) {
        for (gate, up) in gate.iter_mut().zip(up) {
            *gate = *gate / (1.0 + exp(-*gate)) * up;
        }
    }
}

vectorized! {
    /// `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) * up` of each `x` in `gate`,
    /// into it: Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016.
    pub(crate) fn gelu_tanh(simd: Simd, gate: &mut [f32], up: &[f32]) {
        // (1 + tanh(y)) / 2 is 1 / (1 + e^-2y).
        const TWICE_ROOT: f32 = 1.595_769;
        for (gate, up) in gate.iter_mut().zip(up) {
            let x = *gate;
            let y = TWICE_ROOT * x * (1.0 + 0.044_715 * x * x);
            *gate = x / (1.0 + exp(-y)) * up;
        }
    }
}

vectorized! {
    /// Keeps numbers between `-cap` and `cap`, and leaves those near zero alone.
    pub(crate) fn soft_cap(simd: Simd, numbers: &mut [f32], cap: f32) {
        for number in numbers {
            *number = tanh(*number / cap) * cap;
        }
    }
}

#[inline(always)]
fn tanh(x: f32) -> f32 {
    // Near zero the series, the first term of which that is left out is below 1e-8 of
    // the result; elsewhere nothing is lost by taking 1 away.
    let square = x * x;
    let mut series = 62.0 / 2835.0;
    for coefficient in [-17.0 / 315.0, 2.0 / 15.0, -1.0 / 3.0, 1.0] {
        series = series * square + coefficient;
    }
    let far = 1.0 - 2.0 / (exp(2.0 * x) + 1.0);
    if square < 0.0625 { series * x } else { far }
}

/// e^x for x from -87 to 88, beyond which it stays as it is there. NaN is NaN.
///
/// Without branches or calls, so that the compiler computes several at once.
#[inline(always)]
fn exp(x: f32) -> f32 {
    // x = n * ln 2 + r with a whole n: e^x = 2^n * e^r, |r| < 0.35.
    // Adding 1.5 * 2^23 rounds, and leaves n in the lowest bits.
    const SHIFT: f32 = 12_582_912.0;
    // ln 2 in two parts, the upper with so few bits that n times it is exact.
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    let x = x.clamp(-87.0, 88.0);
    let shifted = x * std::f32::consts::LOG2_E + SHIFT;
    let n = shifted - SHIFT;
    let r = x - n * LN_2_HIGH - n * LN_2_LOW;
    // The series of e^r; the first term left out is below 6e-9.
    let mut sum = 1.0 / 5040.0;
    for coefficient in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        sum = sum * r + coefficient;
    }
    let exponent = (shifted.to_bits() as i32).wrapping_sub(SHIFT.to_bits() as i32);
    let power = f32::from_bits((exponent.wrapping_add(127) as u32) << 23);
    sum * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_close_to_the_systems_own_in_double_precision() {
        for i in -87_000..=88_000 {
            let x = i as f32 / 1000.0;
            let expected = f64::from(x).exp();
            let error = (f64::from(exp(x)) - expected).abs() / expected;
            assert!(error < 2e-7, "e^{x} is {expected}, not {}", exp(x));
        }
        assert!(exp(f32::NAN).is_nan());
        assert!(exp(f32::NEG_INFINITY) < 1e-37);
        assert!(exp(f32::INFINITY).is_finite());
    }

    /// Against the system's own in double precision.
    #[test]
    fn tanh_is_close_everywhere_and_near_zero_too() {
        for i in -200_000..=200_000 {
            let x = i as f32 / 10_000.0;
            let expected = f64::from(x).tanh();
            let error = (f64::from(tanh(x)) - expected).abs() / expected.abs().max(1e-30);
            // What exp may be off, and what taking 1 away makes of it.
            assert!(error < 5e-7, "tanh {x} is {expected}, not {}", tanh(x));
        }
        assert_eq!((tanh(1e30), tanh(-1e30)), (1.0, -1.0));
        assert!(tanh(f32::NAN).is_nan());
    }

    /// From the formula, in Python.
    #[test]
    fn gelu_is_what_its_formula_gives() {
        for (x, expected) in
            [(-3.0, -0.003_637_4), (-0.5, -0.154_286), (1.0, 0.841_192), (10.0, 10.0)]
        {
            let mut gate = [x];
            gelu_tanh(Simd::detect(), &mut gate, &[2.0]);
            assert!((gate[0] - 2.0 * expected).abs() < 2e-6, "{x}: {gate:?}");
        }
    }

    /// By hand: tanh(1/2) is (e - 1) / (e + 1).
    #[test]
    fn a_cap_is_approached_and_never_passed() {
        let mut numbers = [15.0, -15.0, 1e30, 0.001];
        soft_cap(Simd::detect(), &mut numbers, 30.0);
        let e = std::f32::consts::E;
        let half = 30.0 * (e - 1.0) / (e + 1.0);
        for (found, expected) in numbers.iter().zip([half, -half, 30.0, 0.001]) {
            assert!((found - expected).abs() < 1e-5, "{numbers:?}");
        }
    }

    #[test]
    fn softmax_of_logarithms_is_their_share() {
        // By hand: 1, 2 and 5 of 8.
        let mut scores = [1.0_f32.ln(), 2.0_f32.ln(), 5.0_f32.ln()];
        softmax(Simd::detect(), &mut scores);
        for (found, expected) in scores.iter().zip([0.125, 0.25, 0.625]) {
            assert!((found - expected).abs() < 1e-6, "{scores:?}");
        }
    }

    #[test]
    fn rms_norm_makes_the_mean_square_one() {
        // By hand: the mean square of 3 and 4 is 12.5.
        let mut out = [0.0; 2];
        rms_norm(Simd::detect(), &[3.0, 4.0], &[1.0, 10.0], 0.0, &mut out);
        let scale = 12.5_f32.sqrt();
        for (found, expected) in out.iter().zip([3.0 / scale, 40.0 / scale]) {
            assert!((found - expected).abs() < 1e-6, "{out:?}");
        }
    }
}
