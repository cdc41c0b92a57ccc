#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::{Layout, Line, ROWS, Unpacked, check};
use crate::weights::batch::{FOUR, Rounded};

/// The products of four rows with one vector.
///
/// In the 16 lanes are four groups, and in these the four rows.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn single<K: Layout>(rows: Unpacked<'_>, vector: Rounded<'_>) -> [f32; ROWS] {
    check::<K>(rows, vector, 1, 4);
    let stride = rows.fours * FOUR * K::GROUP;
    let zero = _mm512_setzero_si512();
    let mut sums = _mm512_setzero_ps();
    let mut offsets = _mm512_setzero_ps();
    for i in 0..rows.fours {
        // SAFETY: `check` measured the slices: `i` is one of the fours, each of
        // four groups of K::GROUP integers, and of 16 numbers.
        unsafe {
            let numbers = vector.integers.as_ptr().add(i * FOUR * K::GROUP);
            let weights = rows.integers.as_ptr().add(i * FOUR * K::GROUP);
            // In each four lanes, the sums of a group.
            let product = |row: usize| {
                let weights = weights.add(row * stride);
                let first = _mm512_loadu_si512(weights.cast());
                let first = _mm512_dpbusd_epi32(zero, first, _mm512_loadu_si512(numbers.cast()));
                if K::GROUP == 16 {
                    return first;
                }
                let second = _mm512_loadu_si512(weights.add(64).cast());
                let numbers = _mm512_loadu_si512(numbers.add(64).cast());
                let second = _mm512_dpbusd_epi32(zero, second, numbers);
                _mm512_add_epi32(
                    _mm512_shuffle_i32x4::<0b10_00_10_00>(first, second),
                    _mm512_shuffle_i32x4::<0b11_01_11_01>(first, second),
                )
            };
            let products = [product(0), product(1), product(2), product(3)];
            let fold =
                |a, b| _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
            let (a, b) = (fold(products[0], products[1]), fold(products[2], products[3]));
            let mut sum =
                _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
            if K::BIAS != 0 {
                let integer_sums =
                    _mm512_loadu_si512(vector.integer_sums.as_ptr().add(i * 16).cast());
                let shift = _mm_cvtsi32_si128(K::BIAS.trailing_zeros() as i32);
                sum = _mm512_sub_epi32(sum, _mm512_sll_epi32(integer_sums, shift));
            }
            let scale = _mm512_mul_ps(
                _mm512_loadu_ps(rows.scales.as_ptr().add(i * 16)),
                _mm512_loadu_ps(vector.scales.as_ptr().add(i * 16)),
            );
            sums = _mm512_add_ps(sums, _mm512_mul_ps(scale, _mm512_cvtepi32_ps(sum)));
            if K::HAS_OFFSET {
                let offset = _mm512_mul_ps(
                    _mm512_loadu_ps(rows.offsets.as_ptr().add(i * 16)),
                    _mm512_loadu_ps(vector.sums.as_ptr().add(i * 16)),
                );
                offsets = _mm512_add_ps(offsets, offset);
            }
        }
    }
    let total = |sums| {
        let even = _mm_add_ps(_mm512_extractf32x4_ps::<0>(sums), _mm512_extractf32x4_ps::<2>(sums));
        let odd = _mm_add_ps(_mm512_extractf32x4_ps::<1>(sums), _mm512_extractf32x4_ps::<3>(sums));
        _mm_add_ps(even, odd)
    };
    let mut sum = total(sums);
    if K::HAS_OFFSET {
        sum = _mm_add_ps(sum, total(offsets));
    }
    let mut out = [0.0; ROWS];
    // SAFETY: the array has 16 bytes; the store needs no alignment.
    unsafe { _mm_storeu_ps(out.as_mut_ptr(), sum) };
    out
}

/// The products of four rows with a block of 8 vectors: tile `at` of each vector's line.
///
/// In two lanes each are two rows of a vector.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn eight<K: Layout>(
    rows: Unpacked<'_>,
    vectors: Rounded<'_>,
    lines: &mut [Line],
    at: usize,
) {
    check::<K>(rows, vectors, 8, 8);
    let fours = rows.fours;
    let stride = fours * FOUR * K::GROUP;
    let shift = _mm_cvtsi32_si128(K::BIAS.trailing_zeros() as i32);
    let twice = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    let zero = _mm512_setzero_ps();
    let mut totals = [[zero; 2]; FOUR];
    let mut offset_totals = [[zero; 2]; FOUR];
    for (part, (totals, offset_totals)) in totals.iter_mut().zip(&mut offset_totals).enumerate() {
        let (mut sums, mut offset_sums) = ([zero; 2], [zero; 2]);
        for i in 0..fours {
            let place = part * fours + i;
            let group = i * FOUR + part;
            // SAFETY: `check` measured the slices: there are four groups for each of
            // the fours, with K::GROUP integers in each row of weights and in each of
            // 8 vectors, and 8 numbers, or 4 of weights.
            unsafe {
                let mut products = [_mm512_setzero_si512(); ROWS];
                let weights = rows.integers.as_ptr().add(group * K::GROUP);
                for j in 0..K::GROUP / 8 {
                    let numbers = vectors.integers.as_ptr().add(place * K::GROUP * 8 + j * 64);
                    let numbers = _mm512_loadu_si512(numbers.cast());
                    for (row, product) in products.iter_mut().enumerate() {
                        let eight = weights.add(row * stride + 8 * j).cast::<i64>();
                        let eight = _mm512_set1_epi64(eight.read_unaligned());
                        *product = _mm512_dpbusd_epi32(*product, eight, numbers);
                    }
                }
                let both = |numbers: *const f32| {
                    let numbers = _mm512_castps256_ps512(_mm256_loadu_ps(numbers));
                    _mm512_permutexvar_ps(twice, numbers)
                };
                let pair = |numbers: *const f32| {
                    _mm512_castpd_ps(_mm512_set1_pd(numbers.cast::<f64>().read_unaligned()))
                };
                let vector_scales = both(vectors.scales.as_ptr().add(place * 8));
                let mut excess = _mm512_setzero_si512();
                if K::BIAS != 0 {
                    let sums = both(vectors.integer_sums.as_ptr().add(place * 8).cast());
                    excess = _mm512_sll_epi32(_mm512_castps_si512(sums), shift);
                }
                for (two, sums) in sums.iter_mut().enumerate() {
                    // A row's sum is that of two lanes.
                    let [a, b] = [products[2 * two], products[2 * two + 1]];
                    let own = _mm512_mask_blend_epi32(0xaaaa, a, b);
                    let others = _mm512_mask_blend_epi32(0xaaaa, b, a);
                    let mut sum = _mm512_add_epi32(own, _mm512_ror_epi64::<32>(others));
                    if K::BIAS != 0 {
                        sum = _mm512_sub_epi32(sum, excess);
                    }
                    let scales = pair(rows.scales.as_ptr().add(group * ROWS + 2 * two));
                    let scale = _mm512_mul_ps(scales, vector_scales);
                    *sums = _mm512_add_ps(*sums, _mm512_mul_ps(scale, _mm512_cvtepi32_ps(sum)));
                }
                if K::HAS_OFFSET {
                    let numbers = both(vectors.sums.as_ptr().add(place * 8));
                    for (two, sums) in offset_sums.iter_mut().enumerate() {
                        let offsets = pair(rows.offsets.as_ptr().add(group * ROWS + 2 * two));
                        *sums = _mm512_add_ps(*sums, _mm512_mul_ps(offsets, numbers));
                    }
                }
            }
        }
        (*totals, *offset_totals) = (sums, offset_sums);
    }
    let mut rows = [zero; 2];
    for (two, sum) in rows.iter_mut().enumerate() {
        let total = |t: &[[__m512; 2]; FOUR]| {
            let even = _mm512_add_ps(t[0][two], t[2][two]);
            _mm512_add_ps(even, _mm512_add_ps(t[1][two], t[3][two]))
        };
        *sum = total(&totals);
        if K::HAS_OFFSET {
            *sum = _mm512_add_ps(*sum, total(&offset_totals));
        }
    }
    let [a, b] = rows.map(|rows| _mm512_castps_pd(rows));
    // In each four lanes, the rows of a vector: 0, 2, 4 and 6, then the others.
    let all = [_mm512_unpacklo_pd(a, b), _mm512_unpackhi_pd(a, b)];
    for (first, vectors) in all.into_iter().enumerate() {
        let vectors = _mm512_castpd_ps(vectors);
        store(lines, first, at, _mm512_extractf32x4_ps::<0>(vectors));
        store(lines, first + 2, at, _mm512_extractf32x4_ps::<1>(vectors));
        store(lines, first + 4, at, _mm512_extractf32x4_ps::<2>(vectors));
        store(lines, first + 6, at, _mm512_extractf32x4_ps::<3>(vectors));
    }
}

/// Writes a tile of a vector's line.
#[inline]
#[target_feature(enable = "avx512f")]
fn store(lines: &mut [Line], vector: usize, at: usize, products: __m128) {
    let out: &mut [f32; ROWS] = &mut lines[vector].as_chunks_mut().0[at];
    // SAFETY: the array has 16 bytes; the store needs no alignment.
    unsafe { _mm_storeu_ps(out.as_mut_ptr(), products) };
}

/// The products of four rows with `C` blocks of 16 vectors, one in each lane: tile `at`
/// of each vector's line.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn several<K: Layout, const C: usize>(
    rows: Unpacked<'_>,
    vectors: [Rounded<'_>; C],
    lines: &mut [Line],
    at: usize,
) {
    for vectors in vectors {
        check::<K>(rows, vectors, 16, 4);
    }
    let fours = rows.fours;
    let stride = fours * FOUR * K::GROUP;
    let shift = _mm_cvtsi32_si128(K::BIAS.trailing_zeros() as i32);
    let zero = _mm512_setzero_ps();
    let mut totals = [[[zero; C]; ROWS]; FOUR];
    let mut offset_totals = [[[zero; C]; ROWS]; FOUR];
    for (part, (totals, offset_totals)) in totals.iter_mut().zip(&mut offset_totals).enumerate() {
        let mut sums = [[zero; C]; ROWS];
        for i in 0..fours {
            let place = part * fours + i;
            let group = i * FOUR + part;
            // SAFETY: `check` measured the slices: there are four groups for
            // each of the fours, with K::GROUP integers in each row of weights
            // and in each of 16 vectors, and 16 numbers.
            unsafe {
                let mut products = [[_mm512_setzero_si512(); C]; ROWS];
                if K::BIAS != 0 {
                    for c in 0..C {
                        let integer_sums = vectors[c].integer_sums.as_ptr().add(place * 16);
                        let integer_sums = _mm512_loadu_si512(integer_sums.cast());
                        let excess = _mm512_sll_epi32(integer_sums, shift);
                        let excess = _mm512_sub_epi32(_mm512_setzero_si512(), excess);
                        for products in &mut products {
                            products[c] = excess;
                        }
                    }
                }
                let weights = rows.integers.as_ptr().add(group * K::GROUP);
                for j in 0..K::GROUP / 4 {
                    let at = place * K::GROUP * 16 + j * 64;
                    let numbers: [__m512i; C] = std::array::from_fn(|c| {
                        _mm512_loadu_si512(vectors[c].integers.as_ptr().add(at).cast())
                    });
                    for (row, products) in products.iter_mut().enumerate() {
                        let four = weights.add(row * stride + 4 * j).cast::<i32>();
                        let four = _mm512_set1_epi32(four.read_unaligned());
                        for c in 0..C {
                            products[c] = _mm512_dpbusd_epi32(products[c], four, numbers[c]);
                        }
                    }
                }
                let scales = rows.scales.as_ptr().add(group * ROWS);
                for c in 0..C {
                    let vector_scales = _mm512_loadu_ps(vectors[c].scales.as_ptr().add(place * 16));
                    for row in 0..ROWS {
                        let scale = _mm512_mul_ps(_mm512_set1_ps(*scales.add(row)), vector_scales);
                        let product = _mm512_mul_ps(scale, _mm512_cvtepi32_ps(products[row][c]));
                        sums[row][c] = _mm512_add_ps(sums[row][c], product);
                    }
                }
            }
        }
        *totals = sums;
        if K::HAS_OFFSET {
            let mut sums = [[zero; C]; ROWS];
            for i in 0..fours {
                let place = part * fours + i;
                let group = i * FOUR + part;
                for c in 0..C {
                    // SAFETY: as above.
                    unsafe {
                        let offsets = rows.offsets.as_ptr().add(group * ROWS);
                        let numbers = _mm512_loadu_ps(vectors[c].sums.as_ptr().add(place * 16));
                        for (row, sums) in sums.iter_mut().enumerate() {
                            let offset = _mm512_set1_ps(*offsets.add(row));
                            sums[c] = _mm512_add_ps(sums[c], _mm512_mul_ps(offset, numbers));
                        }
                    }
                }
            }
            *offset_totals = sums;
        }
    }
    for (c, lines) in lines.as_chunks_mut::<16>().0.iter_mut().take(C).enumerate() {
        let mut rows = [zero; ROWS];
        for (row, sum) in rows.iter_mut().enumerate() {
            let total = |t: &[[[__m512; C]; ROWS]; FOUR]| {
                let even = _mm512_add_ps(t[0][row][c], t[2][row][c]);
                _mm512_add_ps(even, _mm512_add_ps(t[1][row][c], t[3][row][c]))
            };
            *sum = total(&totals);
            if K::HAS_OFFSET {
                *sum = _mm512_add_ps(*sum, total(&offset_totals));
            }
        }
        let pair = |a, b| (_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
        let double = |a, b| {
            let (a, b) = (_mm512_castps_pd(a), _mm512_castps_pd(b));
            let (low, high) = (_mm512_unpacklo_pd(a, b), _mm512_unpackhi_pd(a, b));
            (_mm512_castpd_ps(low), _mm512_castpd_ps(high))
        };
        let (low, high) = (pair(rows[0], rows[1]), pair(rows[2], rows[3]));
        // In each four lanes, the rows of a vector: of every fourth one from 0, 1, 2
        // and 3 on.
        let ((zeroth, first), (second, third)) = (double(low.0, high.0), double(low.1, high.1));
        for (first, vectors) in [zeroth, first, second, third].into_iter().enumerate() {
            store(lines, first, at, _mm512_extractf32x4_ps::<0>(vectors));
            store(lines, first + 4, at, _mm512_extractf32x4_ps::<1>(vectors));
            store(lines, first + 8, at, _mm512_extractf32x4_ps::<2>(vectors));
            store(lines, first + 12, at, _mm512_extractf32x4_ps::<3>(vectors));
        }
    }
}
