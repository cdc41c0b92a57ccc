use std::ops::Range;

use super::{
    activation::soft_cap,
    cache::{Head, Numbers, Stored},
};
use crate::{
    math::softmax,
    weights::{Simd, dot},
};

/// How a head looks at tokens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) scale: f32,
    pub(super) cap: Option<f32>,
}

impl Look {
    /// The mean of the tokens' values, weighted by how well their keys fit the
    /// query.
    pub(super) fn back(self, query: &[f32], head: &Head, tokens: Range<usize>, out: &mut [f32]) {
        match (&head.keys, &head.values) {
            (Numbers::F32(keys), Numbers::F32(values)) => {
                self.look(query, keys, values, tokens, out);
            }
            (Numbers::F16(keys), Numbers::F16(values)) => {
                self.look(query, keys, values, tokens, out);
            }
            _ => unreachable!("keys and values are remembered in the same way"),
        }
    }

    fn look<T: Stored>(
        self,
        query: &[f32],
        keys: &[T],
        values: &[T],
        tokens: Range<usize>,
        out: &mut [f32],
    ) {
        let simd = Simd::detect();
        let width = query.len();
        let mut spare = vec![0.0; width];
        let range = tokens.start * width..tokens.end * width;
        let keys = keys[range.clone()].chunks_exact(width);
        let mut weights: Vec<f32> =
            keys.map(|key| dot(simd, query, T::read(key, &mut spare)) * self.scale).collect();
        if let Some(cap) = self.cap {
            soft_cap(&mut weights, cap);
        }
        softmax(&mut weights);
        out.fill(0.0);
        for (weight, value) in weights.iter().zip(values[range].chunks_exact(width)) {
            for (out, x) in out.iter_mut().zip(T::read(value, &mut spare)) {
                *out += weight * x;
            }
        }
    }
}
