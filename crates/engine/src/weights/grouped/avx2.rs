//! Kernels for registers of 256 bits, once for each way to add up products of
//! bytes.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::{Layout, Line, ROWS, Unpacked, check};
use crate::weights::batch::{FOUR, Rounded};

macro_rules! kernels {
    ($name:ident, $features:literal, $signed:literal, $add_products:expr) => {
        pub(super) mod $name {
            use super::*;

            /// What the products of integers have too much of.
            const fn excess<K: Layout>() -> i32 {
                // The products of signed integers have no excess.
                if $signed && K::BIAS == 128 { 0 } else { K::BIAS }
            }

            /// Adds to each sum the products of four weights and four numbers.
            #[inline]
            #[target_feature(enable = $features)]
            fn add_products<K: Layout>(
                sums: __m256i,
                weights: __m256i,
                numbers: __m256i,
            ) -> __m256i {
                $add_products(K::BIAS, sums, weights, numbers)
            }

            /// The products of four rows with one vector.
            ///
            /// In the 8 lanes are two groups, and in these the four rows.
            #[target_feature(enable = $features)]
            pub(in super::super) fn single<K: Layout>(
                rows: Unpacked<'_>,
                vector: Rounded<'_>,
            ) -> [f32; ROWS] {
                check::<K>(rows, vector, 1, 4);
                let stride = rows.fours * FOUR * K::GROUP;
                let zero = _mm256_setzero_si256();
                let shift = _mm_cvtsi32_si128(excess::<K>().trailing_zeros() as i32);
                let mut sums = [_mm256_setzero_ps(); 2];
                let mut offsets = [_mm256_setzero_ps(); 2];
                for i in 0..rows.fours {
                    for half in 0..2 {
                        let group = i * FOUR + half * 2;
                        // SAFETY: `check` measured the slices: each of the fours
                        // has four groups of K::GROUP integers, and 16 numbers.
                        unsafe {
                            let numbers = vector.integers.as_ptr().add(group * K::GROUP);
                            let weights = rows.integers.as_ptr().add(group * K::GROUP);
                            // In each four lanes, the sums of a group.
                            let product = |row: usize| {
                                let weights = weights.add(row * stride);
                                let first = add_products::<K>(
                                    zero,
                                    _mm256_loadu_si256(weights.cast()),
                                    _mm256_loadu_si256(numbers.cast()),
                                );
                                if K::GROUP == 16 {
                                    return first;
                                }
                                let second = add_products::<K>(
                                    zero,
                                    _mm256_loadu_si256(weights.add(32).cast()),
                                    _mm256_loadu_si256(numbers.add(32).cast()),
                                );
                                _mm256_add_epi32(
                                    _mm256_permute2x128_si256::<0x20>(first, second),
                                    _mm256_permute2x128_si256::<0x31>(first, second),
                                )
                            };
                            let products = [product(0), product(1), product(2), product(3)];
                            let fold = |a, b| {
                                let low = _mm256_unpacklo_epi32(a, b);
                                _mm256_add_epi32(low, _mm256_unpackhi_epi32(a, b))
                            };
                            let a = fold(products[0], products[1]);
                            let b = fold(products[2], products[3]);
                            let low = _mm256_unpacklo_epi64(a, b);
                            let mut sum = _mm256_add_epi32(low, _mm256_unpackhi_epi64(a, b));
                            if excess::<K>() != 0 {
                                let sums = vector.integer_sums.as_ptr().add(group * FOUR);
                                let excess = _mm256_loadu_si256(sums.cast());
                                sum = _mm256_sub_epi32(sum, _mm256_sll_epi32(excess, shift));
                            }
                            let scale = _mm256_mul_ps(
                                _mm256_loadu_ps(rows.scales.as_ptr().add(group * ROWS)),
                                _mm256_loadu_ps(vector.scales.as_ptr().add(group * FOUR)),
                            );
                            let product = _mm256_mul_ps(scale, _mm256_cvtepi32_ps(sum));
                            sums[half] = _mm256_add_ps(sums[half], product);
                            if K::HAS_OFFSET {
                                let offset = _mm256_mul_ps(
                                    _mm256_loadu_ps(rows.offsets.as_ptr().add(group * ROWS)),
                                    _mm256_loadu_ps(vector.sums.as_ptr().add(group * FOUR)),
                                );
                                offsets[half] = _mm256_add_ps(offsets[half], offset);
                            }
                        }
                    }
                }
                let total = |sums: [__m256; 2]| {
                    let sum = _mm256_add_ps(sums[0], sums[1]);
                    _mm_add_ps(_mm256_castps256_ps128(sum), _mm256_extractf128_ps::<1>(sum))
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

            /// The products of four rows with a block of 8 or 16 vectors, one in
            /// each lane: tile `at` of each vector's line.
            #[target_feature(enable = $features)]
            pub(in super::super) fn several<K: Layout>(
                rows: Unpacked<'_>,
                vectors: Rounded<'_>,
                lines: &mut [Line],
                at: usize,
            ) {
                let lanes = vectors.lanes;
                assert!((lanes == 8 || lanes == 16) && lines.len() == lanes);
                check::<K>(rows, vectors, lanes, 4);
                for (i, lines) in lines.as_chunks_mut().0.iter_mut().enumerate() {
                    eight::<K>(rows, vectors, i * 8, lines, at);
                }
            }

            /// The eight vectors of a checked block from `first` on.
            #[target_feature(enable = $features)]
            fn eight<K: Layout>(
                rows: Unpacked<'_>,
                vectors: Rounded<'_>,
                first: usize,
                lines: &mut [Line; 8],
                at: usize,
            ) {
                let (fours, lanes) = (rows.fours, vectors.lanes);
                let stride = fours * FOUR * K::GROUP;
                let shift = _mm_cvtsi32_si128(excess::<K>().trailing_zeros() as i32);
                let zero = _mm256_setzero_ps();
                let mut totals = [[zero; ROWS]; FOUR];
                let mut offset_totals = [[zero; ROWS]; FOUR];
                for part in 0..FOUR {
                    let mut sums = [zero; ROWS];
                    for i in 0..fours {
                        let place = part * fours + i;
                        let group = i * FOUR + part;
                        let number = place * lanes + first;
                        // SAFETY: `check` measured the slices: there are four
                        // groups for each of the fours, with K::GROUP integers in
                        // each row and in each of `lanes` vectors, and `lanes`
                        // numbers, of which `first` is 0 or 8 from the end.
                        unsafe {
                            let mut products = [_mm256_setzero_si256(); ROWS];
                            let weights = rows.integers.as_ptr().add(group * K::GROUP);
                            for j in 0..K::GROUP / 4 {
                                let at = (place * K::GROUP + j * 4) * lanes + first * 4;
                                let numbers =
                                    _mm256_loadu_si256(vectors.integers.as_ptr().add(at).cast());
                                for (row, product) in products.iter_mut().enumerate() {
                                    let four = weights.add(row * stride + 4 * j).cast::<i32>();
                                    let four = _mm256_set1_epi32(four.read_unaligned());
                                    *product = add_products::<K>(*product, four, numbers);
                                }
                            }
                            if excess::<K>() != 0 {
                                let sums = vectors.integer_sums.as_ptr().add(number);
                                let excess =
                                    _mm256_sll_epi32(_mm256_loadu_si256(sums.cast()), shift);
                                for product in &mut products {
                                    *product = _mm256_sub_epi32(*product, excess);
                                }
                            }
                            let vector_scales =
                                _mm256_loadu_ps(vectors.scales.as_ptr().add(number));
                            for row in 0..ROWS {
                                let scale = *rows.scales.as_ptr().add(group * ROWS + row);
                                let scale = _mm256_mul_ps(_mm256_set1_ps(scale), vector_scales);
                                let product =
                                    _mm256_mul_ps(scale, _mm256_cvtepi32_ps(products[row]));
                                sums[row] = _mm256_add_ps(sums[row], product);
                            }
                        }
                    }
                    totals[part] = sums;
                    if K::HAS_OFFSET {
                        let mut sums = [zero; ROWS];
                        for i in 0..fours {
                            let number = (part * fours + i) * lanes + first;
                            let group = i * FOUR + part;
                            // SAFETY: as above.
                            unsafe {
                                let numbers = _mm256_loadu_ps(vectors.sums.as_ptr().add(number));
                                for (row, sum) in sums.iter_mut().enumerate() {
                                    let offset = *rows.offsets.as_ptr().add(group * ROWS + row);
                                    let offset = _mm256_mul_ps(_mm256_set1_ps(offset), numbers);
                                    *sum = _mm256_add_ps(*sum, offset);
                                }
                            }
                        }
                        offset_totals[part] = sums;
                    }
                }
                let mut rows = [zero; ROWS];
                for (row, sum) in rows.iter_mut().enumerate() {
                    let total = |t: &[[__m256; ROWS]; FOUR]| {
                        let even = _mm256_add_ps(t[0][row], t[2][row]);
                        _mm256_add_ps(even, _mm256_add_ps(t[1][row], t[3][row]))
                    };
                    *sum = total(&totals);
                    if K::HAS_OFFSET {
                        *sum = _mm256_add_ps(*sum, total(&offset_totals));
                    }
                }
                let pair = |a, b| (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
                let double = |a, b| {
                    let (a, b) = (_mm256_castps_pd(a), _mm256_castps_pd(b));
                    let (low, high) = (_mm256_unpacklo_pd(a, b), _mm256_unpackhi_pd(a, b));
                    (_mm256_castpd_ps(low), _mm256_castpd_ps(high))
                };
                let (low, high) = (pair(rows[0], rows[1]), pair(rows[2], rows[3]));
                // In each four lanes, the rows of a vector: 0 and 4, 1 and 5, and so on.
                let ((a, b), (c, d)) = (double(low.0, high.0), double(low.1, high.1));
                for (first, vectors) in [a, b, c, d].into_iter().enumerate() {
                    let mut store = |vector: usize, products: __m128| {
                        let out: &mut [f32; ROWS] = &mut lines[vector].as_chunks_mut().0[at];
                        // SAFETY: the array has 16 bytes; the store needs no alignment.
                        unsafe { _mm_storeu_ps(out.as_mut_ptr(), products) };
                    };
                    store(first, _mm256_castps256_ps128(vectors));
                    store(first + 4, _mm256_extractf128_ps::<1>(vectors));
                }
            }
        }
    };
}

kernels!(plain, "avx2", true, |bias, sums, weights, numbers| {
    // The instruction multiplies unsigned by signed, and adds up pairs in 16
    // bits. Of weights below 128, 127 * 127 * 2 fit; others are made signed
    // again, and their signs move over to the numbers. Then 128 * 127 * 2 fit,
    // and no moved sign can overflow, because numbers are never -128.
    let pairs = if bias == 128 {
        let weights = _mm256_xor_si256(weights, _mm256_set1_epi8(-128));
        _mm256_maddubs_epi16(_mm256_abs_epi8(weights), _mm256_sign_epi8(numbers, weights))
    } else {
        _mm256_maddubs_epi16(weights, numbers)
    };
    _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
});

kernels!(vnni, "avx2,avxvnni", false, |_, sums, weights, numbers| {
    _mm256_dpbusd_avx_epi32(sums, weights, numbers)
});
