use std::ops::Range;

use super::{
    activation::soft_cap,
    cache::{Head, Numbers, Stored},
};
use crate::{
    math::{scores, softmax, weighted_sum},
    weights::Simd,
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
        let range = tokens.start * query.len()..tokens.end * query.len();
        let mut weights = vec![0.0; tokens.len()];
        let mut spare = T::spare(range.len());
        let keys = T::read(&keys[range.clone()], &mut spare);
        scores(simd, query, keys, self.scale, &mut weights);
        if let Some(cap) = self.cap {
            soft_cap(&mut weights, cap);
        }
        softmax(simd, &mut weights);
        weighted_sum(simd, &weights, T::read(&values[range], &mut spare), out);
    }
}
