//! The functions of a feed-forward network's gate.

use crate::{
    math::{gelu_tanh, swiglu},
    weights::Simd,
};

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
            Self::GeluTanh => gelu_tanh(Simd::detect(), gate, up),
        }
    }
}
