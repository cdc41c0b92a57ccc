//! Formats that store 32 weights as small integers with a common scale.
//!
//! The vectors are rounded to 8 bits in blocks of 32 likewise. A product of
//! two blocks is a sum of integers, which is exact in any order; a row has
//! eight partial sums of such products.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;
use std::{fmt::Debug, marker::PhantomData};

use super::{
    Format,
    batch::{Batch, Encoding, Q8Vector},
    float::sum_lanes,
    half::from_f16,
};
use crate::TensorType;
#[cfg(target_arch = "x86_64")]
use crate::weights::simd::avx2;

/// A block of 32 weights: weight `i` is `scale * unpack()[i]`, plus `offset`
/// if the format has one.
pub(super) trait Block: Debug + Sync + 'static {
    const TYPE: TensorType;
    /// Whether weights have an offset.
    const HAS_OFFSET: bool;
    /// Whether integers can be negative.
    const SIGNED: bool;
    type Bytes: Copy;

    fn blocks(row: &[u8]) -> &[Self::Bytes];

    /// Scale and offset in binary16. Whatever the format has in place of the
    /// offset is not looked at.
    fn scale_and_offset(block: &Self::Bytes) -> [u8; 4];

    /// The integers in the order of the weights.
    fn unpack(block: &Self::Bytes) -> [i8; 32];

    /// The same.
    ///
    /// # Safety
    ///
    /// The machine must have AVX2.
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code)]
    unsafe fn unpack_avx2(block: &Self::Bytes) -> __m256i;
}

/// A format of such blocks.
#[derive(Debug)]
pub(super) struct Blocks32<B>(PhantomData<B>);

impl<B> Blocks32<B> {
    pub(super) const NEW: Self = Self(PhantomData);
}

impl<B: Block> Format for Blocks32<B> {
    const TYPE: TensorType = B::TYPE;
    const ENCODING: Encoding = Encoding::Q8;
    type Input<'a> = Q8Vector<'a>;

    fn input(batch: &Batch, index: usize) -> Q8Vector<'_> {
        batch.q8_vector(index)
    }

    fn decode(row: &[u8], out: &mut [f32]) {
        let (out, _) = out.as_chunks_mut::<32>();
        for (block, out) in B::blocks(row).iter().zip(out) {
            let (scale, offset) = scale_and_offset::<B>(block);
            let offset = if B::HAS_OFFSET { offset } else { 0.0 };
            for (out, integer) in out.iter_mut().zip(B::unpack(block)) {
                *out = scale * f32::from(integer) + offset;
            }
        }
    }

    fn dot<const N: usize>(row: &[u8], inputs: [Q8Vector<'_>; N]) -> [f32; N] {
        inputs.map(|input| {
            let mut lanes = [0.0; 8];
            let mut offsets = 0.0;
            for (i, block) in B::blocks(row).iter().enumerate() {
                let (scale, offset) = scale_and_offset::<B>(block);
                let scale = scale * input.scales[i];
                let weights = B::unpack(block);
                debug_assert!(B::SIGNED || weights.iter().all(|&integer| integer >= 0));
                let (weights, _) = weights.as_chunks::<4>();
                let (numbers, _) = input.integers[i].as_chunks::<4>();
                for ((lane, weights), numbers) in lanes.iter_mut().zip(weights).zip(numbers) {
                    let products = weights.iter().zip(numbers);
                    let sum: i32 = products.map(|(&w, &x)| i32::from(w) * i32::from(x)).sum();
                    *lane += scale * sum as f32;
                }
                if B::HAS_OFFSET {
                    offsets += offset * input.sums[i];
                }
            }
            if B::HAS_OFFSET { sum_lanes(lanes) + offsets } else { sum_lanes(lanes) }
        })
    }

    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code)]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn dot_avx2<const N: usize>(row: &[u8], inputs: [Q8Vector<'_>; N]) -> [f32; N] {
        let blocks = B::blocks(row);
        // One check of the lengths here instead of one per block.
        let inputs = inputs.map(|input| Q8Vector {
            integers: &input.integers[..blocks.len()],
            scales: &input.scales[..blocks.len()],
            sums: &input.sums[..blocks.len()],
        });
        let ones = _mm256_set1_epi16(1);
        let mut lanes = [_mm256_setzero_ps(); N];
        let mut offsets = [0.0; N];
        for (i, block) in blocks.iter().enumerate() {
            let front = B::scale_and_offset(block);
            let (scale, offset) = if B::HAS_OFFSET {
                let (scale, offset) = avx2::two_from_f16(front);
                (_mm256_set1_ps(scale), offset)
            } else {
                (avx2::splat_f16([front[0], front[1]]), 0.0)
            };
            // SAFETY: this function, too, runs only where AVX2 is.
            let weights = unsafe { B::unpack_avx2(block) };
            // The instruction multiplies unsigned by signed: signs move over
            // to the vector. Neither 128 * 127 twice nor a moved sign can
            // overflow, because vectors hold no -128.
            let magnitudes = if B::SIGNED { _mm256_abs_epi8(weights) } else { weights };
            for (n, input) in inputs.iter().enumerate() {
                let numbers = avx2::load_i8(&input.integers[i]);
                let numbers = if B::SIGNED { _mm256_sign_epi8(numbers, weights) } else { numbers };
                let pairs = _mm256_maddubs_epi16(magnitudes, numbers);
                let fours = _mm256_cvtepi32_ps(_mm256_madd_epi16(pairs, ones));
                let scale = _mm256_mul_ps(scale, _mm256_set1_ps(input.scales[i]));
                lanes[n] = _mm256_add_ps(lanes[n], _mm256_mul_ps(scale, fours));
                if B::HAS_OFFSET {
                    offsets[n] += offset * input.sums[i];
                }
            }
        }
        let mut out = [0.0; N];
        for ((out, lanes), offset) in out.iter_mut().zip(lanes).zip(offsets) {
            let sum = avx2::sum_f32(lanes);
            *out = if B::HAS_OFFSET { sum + offset } else { sum };
        }
        out
    }
}

fn scale_and_offset<B: Block>(block: &B::Bytes) -> (f32, f32) {
    let [a, b, c, d] = B::scale_and_offset(block);
    (from_f16(u16::from_le_bytes([a, b])), from_f16(u16::from_le_bytes([c, d])))
}

/// Splits 16 bytes into 32 numbers of 4 bits: first all lower halves, then all
/// upper ones.
pub(super) fn nibbles(bytes: &[u8; 16]) -> [i8; 32] {
    std::array::from_fn(|i| {
        let byte = bytes[i % 16];
        (if i < 16 { byte & 15 } else { byte >> 4 }) as i8
    })
}

/// The same.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn nibbles_avx2(bytes: &[u8; 16]) -> __m256i {
    let bytes = avx2::load_16(bytes);
    let both = _mm256_set_m128i(_mm_srli_epi16::<4>(bytes), bytes);
    _mm256_and_si256(both, _mm256_set1_epi8(15))
}
