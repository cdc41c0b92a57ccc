//! How tokens look at those before them.

mod kernels;
mod tasks;

use std::ops::Range;

use self::kernels::{add_weighted, scores};
pub(super) use self::tasks::Sharing;
use super::{
    cache::{Head, Heads, Stored},
    vectors::LANES,
};
use crate::{
    math::{soft_cap, softmax},
    weights::Simd,
};

/// How many queries look at a time: each key and value is read once for all of them.
const TOGETHER: usize = 4;

/// How a head looks at tokens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) scale: f32,
    pub(super) cap: Option<f32>,
}

/// A query, and where its answer goes.
#[derive(Debug)]
pub(super) struct Query<'a> {
    pub(super) numbers: &'a [f32],
    /// The positions that it looks at, at least one.
    pub(super) tokens: Range<usize>,
    pub(super) out: &'a mut [f32],
}

impl Look {
    /// Answers queries of a head: with the mean of the tokens' values, weighted by how
    /// well their keys fit the query.
    pub(super) fn back(self, heads: &Heads, head: usize, queries: &mut [Query<'_>]) {
        match heads {
            Heads::F16(heads) => self.answer(&heads[head], queries),
            Heads::F32(heads) => self.answer(&heads[head], queries),
        }
    }

    fn answer<T: Stored>(self, head: &Head<T>, queries: &mut [Query<'_>]) {
        let mut work = Work::default();
        let (fours, rest) = queries.as_chunks_mut::<TOGETHER>();
        for four in fours {
            self.look(head, four, &mut work);
        }
        if let Some(three) = rest.first_chunk_mut::<3>() {
            self.look(head, three, &mut work);
        } else if let Some(two) = rest.first_chunk_mut::<2>() {
            self.look(head, two, &mut work);
        } else if let Some(one) = rest.first_chunk_mut::<1>() {
            self.look(head, one, &mut work);
        }
    }

    fn look<T: Stored, const N: usize>(
        self,
        head: &Head<T>,
        queries: &mut [Query<'_>; N],
        work: &mut Work,
    ) {
        let simd = Simd::detect();
        let (mut all, mut common) = (queries[0].tokens.clone(), queries[0].tokens.clone());
        for Query { tokens, .. } in &queries[1..] {
            all = all.start.min(tokens.start)..all.end.max(tokens.end);
            common = common.start.max(tokens.start)..common.end.min(tokens.end);
        }
        // Keys lie in blocks.
        let first = all.start / LANES * LANES;
        let room = all.end.next_multiple_of(LANES) - first;
        let mut weights: [_; N] = several(&mut work.weights, room);
        let numbers = std::array::from_fn(|n| queries[n].numbers);
        scores(
            simd,
            numbers,
            head.keys(first, room),
            self.scale,
            weights.each_mut().map(|w| &mut **w),
        );
        for (weights, query) in weights.iter_mut().zip(&*queries) {
            let own = &mut weights[query.tokens.start - first..query.tokens.end - first];
            if let Some(cap) = self.cap {
                soft_cap(simd, own, cap);
            }
            softmax(simd, own);
        }

        let mut sums: [_; N] = several(&mut work.sums, head.value_width());
        let weights = weights.map(|weights| &*weights);
        let weights_of = |n: usize, tokens: &Range<usize>| {
            let weights: &[f32] = weights[n];
            &weights[tokens.start - first..tokens.end - first]
        };
        // In the order of positions: what only some look at, what all do, and again what
        // only some do.
        if common.is_empty() {
            common = all.end..all.end;
        }
        for (n, query) in queries.iter().enumerate() {
            let before = query.tokens.start..common.start.min(query.tokens.end);
            add_weighted(simd, [weights_of(n, &before)], head.values(&before), [&mut *sums[n]]);
        }
        let shared = std::array::from_fn(|n| weights_of(n, &common));
        add_weighted(simd, shared, head.values(&common), sums.each_mut().map(|sums| &mut **sums));
        for (n, query) in queries.iter().enumerate() {
            let after = common.end.min(query.tokens.end)..query.tokens.end;
            add_weighted(simd, [weights_of(n, &after)], head.values(&after), [&mut *sums[n]]);
        }
        for (query, sums) in queries.iter_mut().zip(sums) {
            query.out.copy_from_slice(&sums[..query.out.len()]);
        }
    }
}

/// Memory for weights and sums.
#[derive(Default)]
struct Work {
    weights: Vec<f32>,
    sums: Vec<f32>,
}

/// `N` runs of zeros.
fn several<const N: usize>(memory: &mut Vec<f32>, length: usize) -> [&mut [f32]; N] {
    memory.clear();
    memory.resize(N * length, 0.0);
    let mut runs = memory.chunks_exact_mut(length);
    std::array::from_fn(|_| runs.next().expect("room for N of them"))
}
