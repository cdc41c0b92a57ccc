//! The two products of attention: of queries with keys, and of weights with values.
//!
//! Every number is one sum in a fixed order, whatever the instructions and however
//! many queries are taken at a time: over the elements of a key, and over positions,
//! with one rounding for each.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
use crate::transformer::vectors::{Avx2, Avx512};
use crate::{
    transformer::{
        cache::Stored,
        vectors::{LANES, Portable, Vectors},
    },
    weights::Simd,
};

/// The products of `N` queries with keys that lie as [`Head`](super::Head) says, times
/// a scale. Every query gets as many numbers as there are keys.
pub(super) fn scores<T: Stored, const N: usize>(
    simd: Simd,
    queries: [&[f32]; N],
    keys: &[T],
    scale: f32,
    out: [&mut [f32]; N],
) {
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma,f16c")]
    fn avx2<T: Stored, const N: usize>(
        queries: [&[f32]; N],
        keys: &[T],
        scale: f32,
        out: [&mut [f32]; N],
    ) {
        // SAFETY: this function runs only where these instructions are.
        scores_by::<_, T, N, 1>(unsafe { Avx2::new() }, queries, keys, scale, out);
    }
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    fn avx512<T: Stored, const N: usize>(
        queries: [&[f32]; N],
        keys: &[T],
        scale: f32,
        out: [&mut [f32]; N],
    ) {
        // SAFETY: as above.
        scores_by::<_, T, N, 4>(unsafe { Avx512::new() }, queries, keys, scale, out);
    }
    match simd {
        Simd::Portable => scores_by::<_, T, N, 1>(Portable, queries, keys, scale, out),
        // SAFETY: the value proves that the machine has AVX2, FMA and F16C.
        #[cfg(target_arch = "x86_64")]
        Simd::Avx2(_) | Simd::AvxVnni(_) => unsafe { avx2(queries, keys, scale, out) },
        // SAFETY: the value proves that the machine has these.
        #[cfg(target_arch = "x86_64")]
        Simd::Avx512(_) => unsafe { avx512(queries, keys, scale, out) },
    }
}

/// Takes `B` blocks of keys at a time, so that their sums do not wait for each other.
#[inline(always)]
fn scores_by<S: Vectors, T: Stored, const N: usize, const B: usize>(
    simd: S,
    queries: [&[f32]; N],
    keys: &[T],
    scale: f32,
    mut out: [&mut [f32]; N],
) {
    let width = queries[0].len();
    let queries = queries.map(|query| &query[..width]);
    let (blocks, _) = keys.as_chunks::<LANES>();
    let mut at = 0;
    let mut rest = blocks;
    while rest.len() >= B * width {
        let (several, others) = rest.split_at(B * width);
        let first = several.chunks_exact(width);
        let blocks: [_; B] = std::array::from_fn(|b| first.clone().nth(b).expect("B of them"));
        products(simd, queries, blocks, scale, &mut out, at);
        (rest, at) = (others, at + B * LANES);
    }
    for block in rest.chunks_exact(width) {
        products(simd, queries, [block], scale, &mut out, at);
        at += LANES;
    }
}

#[inline(always)]
fn products<S: Vectors, T: Stored, const N: usize, const B: usize>(
    simd: S,
    queries: [&[f32]; N],
    blocks: [&[[T; LANES]]; B],
    scale: f32,
    out: &mut [&mut [f32]; N],
    at: usize,
) {
    let width = queries[0].len();
    let blocks = blocks.map(|block| &block[..width]);
    let mut sums = [[simd.fill(0.0); B]; N];
    for element in 0..width {
        // A closure would not be compiled for the same instructions.
        let mut keys = [simd.fill(0.0); B];
        for (key, block) in keys.iter_mut().zip(blocks) {
            *key = T::load(simd, &block[element]);
        }
        for (sums, query) in sums.iter_mut().zip(queries) {
            let query = simd.fill(query[element]);
            for (sum, key) in sums.iter_mut().zip(keys) {
                *sum = simd.add_product(*sum, query, key);
            }
        }
    }
    for (sums, out) in sums.into_iter().zip(out) {
        let (out, _) = out[at..].as_chunks_mut::<LANES>();
        for (sum, out) in sums.into_iter().zip(out) {
            simd.store(sum, out);
            out.iter_mut().for_each(|x| *x *= scale);
        }
    }
}

/// Adds to each of `N` sums the values of some positions, `width` numbers each, times
/// the query's weights for them. Sums are as wide as values.
pub(super) fn add_weighted<T: Stored, const N: usize>(
    simd: Simd,
    weights: [&[f32]; N],
    values: &[T],
    sums: [&mut [f32]; N],
) {
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma,f16c")]
    fn avx2<T: Stored, const N: usize>(weights: [&[f32]; N], values: &[T], sums: [&mut [f32]; N]) {
        // SAFETY: this function runs only where these instructions are.
        add_weighted_by::<_, T, N, 1>(unsafe { Avx2::new() }, weights, values, sums);
    }
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    fn avx512<T: Stored, const N: usize>(
        weights: [&[f32]; N],
        values: &[T],
        sums: [&mut [f32]; N],
    ) {
        // SAFETY: as above.
        add_weighted_by::<_, T, N, 4>(unsafe { Avx512::new() }, weights, values, sums);
    }
    match simd {
        Simd::Portable => add_weighted_by::<_, T, N, 1>(Portable, weights, values, sums),
        // SAFETY: the value proves that the machine has AVX2, FMA and F16C.
        #[cfg(target_arch = "x86_64")]
        Simd::Avx2(_) | Simd::AvxVnni(_) => unsafe { avx2(weights, values, sums) },
        // SAFETY: the value proves that the machine has these.
        #[cfg(target_arch = "x86_64")]
        Simd::Avx512(_) => unsafe { avx512(weights, values, sums) },
    }
}

/// Takes `C` vectors of each position at a time, as many as stay in registers.
#[inline(always)]
fn add_weighted_by<S: Vectors, T: Stored, const N: usize, const C: usize>(
    simd: S,
    weights: [&[f32]; N],
    values: &[T],
    mut sums: [&mut [f32]; N],
) {
    let count = weights[0].len();
    let weights = weights.map(|weights| &weights[..count]);
    let vectors = sums[0].len() / LANES;
    let (values, _) = values.as_chunks::<LANES>();
    let mut at = 0;
    while at + C <= vectors {
        add_columns::<S, T, N, C>(simd, weights, values, vectors, &mut sums, at);
        at += C;
    }
    while at < vectors {
        add_columns::<S, T, N, 1>(simd, weights, values, vectors, &mut sums, at);
        at += 1;
    }
}

#[inline(always)]
fn add_columns<S: Vectors, T: Stored, const N: usize, const C: usize>(
    simd: S,
    weights: [&[f32]; N],
    values: &[[T; LANES]],
    vectors: usize,
    out: &mut [&mut [f32]; N],
    at: usize,
) {
    let mut sums = [[simd.fill(0.0); C]; N];
    for (sums, out) in sums.iter_mut().zip(&*out) {
        let (out, _) = out[at * LANES..].as_chunks::<LANES>();
        for (sum, out) in sums.iter_mut().zip(out) {
            *sum = simd.load_f32(out);
        }
    }
    for (position, values) in values.chunks_exact(vectors).enumerate() {
        let Some(values) = values[at..].first_chunk::<C>() else { break };
        let mut loaded = [simd.fill(0.0); C];
        for (to, value) in loaded.iter_mut().zip(values) {
            *to = T::load(simd, value);
        }
        for (sums, weights) in sums.iter_mut().zip(weights) {
            let weight = simd.fill(weights[position]);
            for (sum, value) in sums.iter_mut().zip(loaded) {
                *sum = simd.add_product(*sum, weight, value);
            }
        }
    }
    for (sums, out) in sums.into_iter().zip(out) {
        let (out, _) = out[at * LANES..].as_chunks_mut::<LANES>();
        for (sum, out) in sums.into_iter().zip(out) {
            simd.store(sum, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use half::f16;
    use proptest::prelude::*;

    use super::*;

    /// As the formulas say, one number after the other.
    fn naive_scores(query: &[f32], key: impl Fn(usize) -> f32, scale: f32) -> f32 {
        let mut sum = 0.0;
        for (element, number) in query.iter().enumerate() {
            sum = libm::fmaf(*number, key(element), sum);
        }
        sum * scale
    }

    fn numbers(count: usize) -> impl Strategy<Value = Vec<f32>> {
        prop::collection::vec(-3.0_f32..3.0, count)
    }

    proptest! {
        /// Bit for bit, on everything that this machine has, and for any number of
        /// queries at a time.
        #[test]
        fn scores_are_products_summed_up_in_order(
            (width, blocks) in (1_usize..40, 1_usize..7),
            seed in numbers(40 * 4 + 40 * 7 * LANES),
        ) {
            let queries: [&[f32]; 4] = std::array::from_fn(|n| &seed[n * 40..][..width]);
            let keys = &seed[160..][..width * blocks * LANES];
            let halves: Vec<f16> = keys.iter().map(|x| f16::from_f32(*x)).collect();
            for simd in Simd::all() {
                let mut all = vec![[0.0; 7 * LANES]; 4];
                let [a, b, c, d] = all.get_disjoint_mut([0, 1, 2, 3]).unwrap();
                scores(simd, queries, &halves, 0.3, [a, b, c, d]);
                let mut one = [0.0; 7 * LANES];
                scores(simd, [queries[1]], keys, 0.3, [&mut one]);
                for position in 0..blocks * LANES {
                    let (block, lane) = (position / LANES, position % LANES);
                    let at = |element: usize| (block * width + element) * LANES + lane;
                    for (query, found) in queries.iter().zip(&all) {
                        let key = |element| halves[at(element)].to_f32();
                        prop_assert_eq!(found[position], naive_scores(query, key, 0.3));
                    }
                    let expected = naive_scores(queries[1], |element| keys[at(element)], 0.3);
                    prop_assert_eq!(one[position], expected);
                }
            }
        }

        /// Likewise; the sums may be divided anywhere.
        #[test]
        fn weighted_values_are_summed_up_in_order(
            (vectors, count, cut) in (1_usize..7, 1_usize..20, 0_usize..20),
            seed in numbers(20 * 3 + 20 * 7 * LANES),
        ) {
            let width = vectors * LANES;
            let weights: [&[f32]; 3] = std::array::from_fn(|n| &seed[n * 20..][..count]);
            let values: Vec<f16> =
                seed[60..][..count * width].iter().map(|x| f16::from_f32(*x)).collect();
            let cut = cut.min(count);
            for simd in Simd::all() {
                let mut all = vec![vec![0.0; width]; 3];
                for part in [0..cut, cut..count] {
                    let [a, b, c] = all.get_disjoint_mut([0, 1, 2]).unwrap();
                    let values = &values[part.start * width..part.end * width];
                    let weights = weights.map(|weights| &weights[part.clone()]);
                    add_weighted(simd, weights, values, [a, b, c]);
                }
                for (weights, found) in weights.iter().zip(&all) {
                    for (column, found) in found.iter().enumerate() {
                        let mut sum = 0.0;
                        for (position, weight) in weights.iter().enumerate() {
                            let value = values[position * width + column].to_f32();
                            sum = libm::fmaf(*weight, value, sum);
                        }
                        prop_assert_eq!(*found, sum);
                    }
                }
            }
        }
    }
}
