//! Weights that are floating-point numbers of their own: F32, F16, BF16.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;
use std::{array, fmt::Debug, marker::PhantomData};

use super::{
    AnyFormat, LINE, Products, Simd,
    batch::{Batch, Encoding},
    instructions::{from_bf16, from_f16},
};
use crate::TensorType;

/// A product has this many partial sums: element `i` goes to sum `i % LANES`,
/// and at the end the upper half is added to the lower until one is left.
const LANES: usize = 16;

/// How many vectors a row is multiplied with at a time: its weights are read
/// once for all of them.
const TILE: usize = 4;

/// A type of number.
pub(super) trait Element: Debug + Sync + 'static {
    const TYPE: TensorType;
    type Bytes: Copy;

    /// The elements that fill the slice.
    fn elements(bytes: &[u8]) -> &[Self::Bytes];

    fn read(bytes: Self::Bytes) -> f32;

    /// The eight elements from `at` on.
    ///
    /// # Safety
    ///
    /// The machine must have AVX2 and F16C.
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code)]
    unsafe fn load_8(elements: &[Self::Bytes; 8]) -> __m256;
}

#[derive(Debug)]
pub(super) struct F32;

impl Element for F32 {
    const TYPE: TensorType = TensorType::F32;
    type Bytes = [u8; 4];

    fn elements(bytes: &[u8]) -> &[[u8; 4]] {
        bytes.as_chunks().0
    }

    fn read(bytes: [u8; 4]) -> f32 {
        f32::from_le_bytes(bytes)
    }

    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code)]
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn load_8(elements: &[[u8; 4]; 8]) -> __m256 {
        let bytes = elements.as_flattened().first_chunk().expect("8 elements have 32 bytes");
        _mm256_castsi256_ps(avx2::load_32(bytes))
    }
}

#[derive(Debug)]
pub(super) struct F16;

impl Element for F16 {
    const TYPE: TensorType = TensorType::F16;
    type Bytes = [u8; 2];

    fn elements(bytes: &[u8]) -> &[[u8; 2]] {
        bytes.as_chunks().0
    }

    fn read(bytes: [u8; 2]) -> f32 {
        from_f16(u16::from_le_bytes(bytes))
    }

    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code)]
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn load_8(elements: &[[u8; 2]; 8]) -> __m256 {
        let bytes = elements.as_flattened().first_chunk().expect("8 elements have 16 bytes");
        _mm256_cvtph_ps(avx2::load_16(bytes))
    }
}

#[derive(Debug)]
pub(super) struct Bf16;

impl Element for Bf16 {
    const TYPE: TensorType = TensorType::BF16;
    type Bytes = [u8; 2];

    fn elements(bytes: &[u8]) -> &[[u8; 2]] {
        bytes.as_chunks().0
    }

    fn read(bytes: [u8; 2]) -> f32 {
        from_bf16(u16::from_le_bytes(bytes))
    }

    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code)]
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn load_8(elements: &[[u8; 2]; 8]) -> __m256 {
        let bytes = elements.as_flattened().first_chunk().expect("8 elements have 16 bytes");
        let wide = _mm256_cvtepu16_epi32(avx2::load_16(bytes));
        _mm256_castsi256_ps(_mm256_slli_epi32::<16>(wide))
    }
}

/// A format whose rows are elements, one after the other.
#[derive(Debug)]
pub(super) struct Floats<E>(PhantomData<E>);

impl<E> Floats<E> {
    pub(super) const NEW: Self = Self(PhantomData);
}

impl<E: Element> AnyFormat for Floats<E> {
    fn tensor_type(&self) -> TensorType {
        E::TYPE
    }

    fn encoding(&self) -> Encoding {
        Encoding::F32
    }

    fn decode_row(&self, row: &[u8], out: &mut [f32]) {
        for (out, &element) in out.iter_mut().zip(E::elements(row)) {
            *out = E::read(element);
        }
    }

    fn multiply_rows(
        &self,
        simd: Simd,
        rows: &[u8],
        row_bytes: usize,
        batch: &Batch,
        out: &mut Products<'_, '_>,
    ) {
        for (line, rows) in rows.chunks(LINE * row_bytes).enumerate() {
            let (tiles, rest) = out.lines[..batch.count()].as_chunks_mut::<TILE>();
            let rest_start = tiles.len() * TILE;
            for (at, row) in rows.chunks_exact(row_bytes).enumerate() {
                let row = E::elements(row);
                for (tile, lines) in tiles.iter_mut().enumerate() {
                    let inputs = array::from_fn(|i| batch.vector(tile * TILE + i));
                    let products = dispatch::<E, TILE>(simd, row, inputs);
                    for (line, product) in lines.iter_mut().zip(products) {
                        line[at] = product;
                    }
                }
                for (i, line) in rest.iter_mut().enumerate() {
                    [line[at]] = dispatch::<E, 1>(simd, row, [batch.vector(rest_start + i)]);
                }
            }
            out.write(line * LINE);
        }
    }
}

#[allow(unsafe_code)]
fn dispatch<E: Element, const N: usize>(
    simd: Simd,
    row: &[E::Bytes],
    inputs: [&[f32]; N],
) -> [f32; N] {
    match simd {
        Simd::Portable => dot_portable::<E, N>(row, inputs),
        // SAFETY: the value proves that the machine has AVX2 and F16C.
        #[cfg(target_arch = "x86_64")]
        Simd::Avx2(_) | Simd::AvxVnni(_) | Simd::Avx512(_) => unsafe {
            dot_avx2::<E, N>(row, inputs)
        },
    }
}

/// The product of two vectors of equal length, to be inlined where the compiler
/// may use more instructions than every machine has.
#[inline(always)]
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let (a, a_rest) = a.as_chunks::<LANES>();
    let (b, b_rest) = b.as_chunks::<LANES>();
    let mut lanes = [0.0; LANES];
    for (a, b) in a.iter().zip(b) {
        for i in 0..LANES {
            lanes[i] += a[i] * b[i];
        }
    }
    for (lane, (a, b)) in lanes.iter_mut().zip(a_rest.iter().zip(b_rest)) {
        *lane += a * b;
    }
    sum_lanes(lanes)
}

fn dot_portable<E: Element, const N: usize>(row: &[E::Bytes], inputs: [&[f32]; N]) -> [f32; N] {
    let (steps, rest) = row.as_chunks::<LANES>();
    inputs.map(|input| {
        let (input_steps, input_rest) = input.as_chunks::<LANES>();
        let mut lanes = [0.0; LANES];
        for (weights, numbers) in steps.iter().zip(input_steps) {
            for ((lane, &weight), number) in lanes.iter_mut().zip(weights).zip(numbers) {
                *lane += E::read(weight) * number;
            }
        }
        sum_lanes(add_rest::<E>(lanes, rest, input_rest))
    })
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,f16c")]
#[allow(unsafe_code)]
fn dot_avx2<E: Element, const N: usize>(row: &[E::Bytes], inputs: [&[f32]; N]) -> [f32; N] {
    let (steps, rest) = row.as_chunks::<LANES>();
    let inputs = inputs.map(|input| {
        let (steps, rest) = input.as_chunks::<LANES>();
        (steps, rest)
    });
    let mut sums = [[_mm256_setzero_ps(); 2]; N];
    for (i, weights) in steps.iter().enumerate() {
        let (halves, _) = weights.as_chunks::<8>();
        // SAFETY: this function, too, runs only where AVX2 and F16C are.
        let weights = unsafe { [E::load_8(&halves[0]), E::load_8(&halves[1])] };
        for (sums, (input, _)) in sums.iter_mut().zip(inputs) {
            let (numbers, _) = input[i].as_chunks::<8>();
            for half in 0..2 {
                let product = _mm256_mul_ps(weights[half], avx2::load_f32(&numbers[half]));
                sums[half] = _mm256_add_ps(sums[half], product);
            }
        }
    }
    let mut out = [0.0; N];
    for ((out, sums), (_, input_rest)) in out.iter_mut().zip(sums).zip(inputs) {
        if rest.is_empty() {
            *out = avx2::sum_f32(_mm256_add_ps(sums[0], sums[1]));
        } else {
            let lanes = sums.map(|half| {
                let mut lanes = [0.0; 8];
                // SAFETY: the array has 32 bytes; the store needs no alignment.
                unsafe { _mm256_storeu_ps(lanes.as_mut_ptr(), half) };
                lanes
            });
            let lanes = lanes.as_flattened().first_chunk().expect("both halves are there");
            *out = sum_lanes(add_rest::<E>(*lanes, rest, input_rest));
        }
    }
    out
}

/// Adds the products of what did not fill all lanes.
fn add_rest<E: Element>(
    mut lanes: [f32; LANES],
    weights: &[E::Bytes],
    numbers: &[f32],
) -> [f32; LANES] {
    for ((lane, &weight), number) in lanes.iter_mut().zip(weights).zip(numbers) {
        *lane += E::read(weight) * number;
    }
    lanes
}

/// The sum of all lanes; their number is a power of two.
#[inline(always)]
fn sum_lanes<const L: usize>(mut lanes: [f32; L]) -> f32 {
    let mut half = L / 2;
    while half > 0 {
        for i in 0..half {
            lanes[i] += lanes[i + half];
        }
        half /= 2;
    }
    lanes[0]
}

/// Loads, whose sizes the types of their arguments prove.
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod avx2 {
    use std::arch::x86_64::*;

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn load_16(bytes: &[u8; 16]) -> __m128i {
        // SAFETY: the array has 16 bytes; the load needs no alignment.
        unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn load_32(bytes: &[u8; 32]) -> __m256i {
        // SAFETY: the array has 32 bytes; the load needs no alignment.
        unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn load_f32(numbers: &[f32; 8]) -> __m256 {
        // SAFETY: the array has 32 bytes; the load needs no alignment.
        unsafe { _mm256_loadu_ps(numbers.as_ptr()) }
    }

    /// The sum of eight lanes, in the order of [`sum_lanes`](super::sum_lanes).
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn sum_f32(lanes: __m256) -> f32 {
        let four = _mm_add_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps::<1>(lanes));
        let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
        let one = _mm_add_ss(two, _mm_shuffle_ps::<1>(two, two));
        _mm_cvtss_f32(one)
    }
}
