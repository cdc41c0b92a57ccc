//! The functions of a feed-forward network's gate, and the one that keeps
//! numbers below a limit.

use crate::{math::swiglu, weights::Simd};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activation {
    /// `x * sigmoid(x)`
    Silu,
    /// `x` times about the normal distribution's share below `x`.
    GeluTanh,
}

impl Activation {
    /// The activated gate times `up`, into `gate`.
    pub(super) fn apply(self, gate: &mut [f32], up: &[f32]) {
        match self {
            Self::Silu => swiglu(Simd::detect(), gate, up),
            Self::GeluTanh => {
                for (gate, up) in gate.iter_mut().zip(up) {
                    *gate = gelu_tanh(*gate) * up;
                }
            }
        }
    }
}

/// `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))`, from Hendrycks and
/// Gimpel, "Gaussian Error Linear Units", 2016.
fn gelu_tanh(x: f32) -> f32 {
    const ROOT: f32 = 0.797_884_6;
    0.5 * x * (1.0 + libm::tanhf(ROOT * x * (1.0 + 0.044_715 * x * x)))
}

/// Keeps numbers between `-cap` and `cap`, and leaves those near zero alone.
pub(super) fn soft_cap(numbers: &mut [f32], cap: f32) {
    for number in numbers {
        *number = libm::tanhf(*number / cap) * cap;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the formula, in Python.
    #[test]
    fn gelu_is_what_its_formula_gives() {
        for (x, expected) in
            [(-3.0, -0.003_637_4), (-0.5, -0.154_286), (1.0, 0.841_192), (10.0, 10.0)]
        {
            assert!((gelu_tanh(x) - expected).abs() < 1e-6, "{x}: {}", gelu_tanh(x));
        }
    }

    /// By hand: tanh(1/2) is (e - 1) / (e + 1).
    #[test]
    fn a_cap_is_approached_and_never_passed() {
        let mut numbers = [15.0, -15.0, 1e30, 0.001];
        soft_cap(&mut numbers, 30.0);
        let e = std::f32::consts::E;
        let half = 30.0 * (e - 1.0) / (e + 1.0);
        for (found, expected) in numbers.iter().zip([half, -half, 30.0, 0.001]) {
            assert!((found - expected).abs() < 1e-5, "{numbers:?}");
        }
    }
}
