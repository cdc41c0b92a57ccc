#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use super::{
    Format,
    batch::{Batch, Encoding, Q8kVector},
    half::from_f16,
};
use crate::TensorType;
#[cfg(target_arch = "x86_64")]
use crate::weights::simd::avx2;

/// Blocks of 256 weights: 128 bytes with the lower 4 bits of the integers, 64
/// with the upper 2, 16 scales of 8 bits, and a scale of all those. 32 is
/// taken away from the integers.
///
/// The product of a block is one sum of integers, exact in any order; a row is
/// summed block by block.
#[derive(Debug)]
pub(super) struct Q6K;

struct Block<'a> {
    /// Two halves for 128 weights each.
    low: &'a [[u8; 64]; 2],
    high: &'a [[u8; 32]; 2],
    /// One for 16 weights.
    scales: &'a [u8; 16],
    scale: u16,
}

fn blocks(row: &[u8]) -> impl Iterator<Item = Block<'_>> {
    let (blocks, _) = row.as_chunks::<210>();
    blocks.iter().map(|block| Block {
        low: block[..128].as_chunks().0.first_chunk().expect("64 bytes twice"),
        high: block[128..192].as_chunks().0.first_chunk().expect("32 bytes twice"),
        scales: block[192..].first_chunk().expect("16 bytes and two more"),
        scale: u16::from_le_bytes([block[208], block[209]]),
    })
}

impl Block<'_> {
    /// The integers, 32 not taken away, in the order of the weights.
    fn unpack(&self) -> [u8; 256] {
        let mut out = [0; 256];
        let (halves, _) = out.as_chunks_mut::<128>();
        for ((out, low), high) in halves.iter_mut().zip(self.low).zip(self.high) {
            // The lower halves of 64 bytes, then the upper halves of the same;
            // the two bits on top come from one byte for each four of them.
            for (i, out) in out.iter_mut().enumerate() {
                let four = if i < 64 { low[i] & 15 } else { low[i - 64] >> 4 };
                let two = high[i % 32] >> (i / 32 * 2) & 3;
                *out = four | two << 4;
            }
        }
        out
    }

    fn group_scale(&self, group: usize) -> i32 {
        i32::from(self.scales[group] as i8)
    }
}

impl Format for Q6K {
    const TYPE: TensorType = TensorType::Q6_K;
    const ENCODING: Encoding = Encoding::Q8k;
    type Input<'a> = Q8kVector<'a>;

    fn input(batch: &Batch, index: usize) -> Q8kVector<'_> {
        batch.q8k_vector(index)
    }

    fn decode(row: &[u8], out: &mut [f32]) {
        let (out, _) = out.as_chunks_mut::<256>();
        for (block, out) in blocks(row).zip(out) {
            let scale = from_f16(block.scale);
            for (i, (out, integer)) in out.iter_mut().zip(block.unpack()).enumerate() {
                let scale = scale * block.group_scale(i / 16) as f32;
                *out = scale * (f32::from(integer) - 32.0);
            }
        }
    }

    fn dot<const N: usize>(row: &[u8], inputs: [Q8kVector<'_>; N]) -> [f32; N] {
        inputs.map(|input| {
            let mut total = 0.0;
            for (i, block) in blocks(row).enumerate() {
                let weights = block.unpack();
                let (groups, _) = weights.as_chunks::<16>();
                let (numbers, _) = input.integers[i].as_flattened().as_chunks::<16>();
                let mut sum = 0;
                for (group, (weights, numbers)) in groups.iter().zip(numbers).enumerate() {
                    let products = weights.iter().zip(numbers);
                    let products = products.map(|(&w, &x)| i32::from(w) * i32::from(x));
                    let excess = 32 * i32::from(input.sums[i][group]);
                    sum += block.group_scale(group) * (products.sum::<i32>() - excess);
                }
                total += from_f16(block.scale) * input.scales[i] * sum as f32;
            }
            total
        })
    }

    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code)]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn dot_avx2<const N: usize>(row: &[u8], inputs: [Q8kVector<'_>; N]) -> [f32; N] {
        let mut totals = [0.0; N];
        let low_bits = _mm256_set1_epi8(15);
        let high_bits = _mm256_set1_epi8(0x30);
        for (i, block) in blocks(row).enumerate() {
            let scales = _mm256_cvtepi8_epi16(avx2::load_16(block.scales));
            let mut sums = [_mm256_setzero_si256(); N];
            for half in 0..2 {
                let (low, _) = block.low[half].as_chunks::<32>();
                let low = [avx2::load_32(&low[0]), avx2::load_32(&low[1])];
                let high = avx2::load_32(&block.high[half]);
                let top = [
                    _mm256_slli_epi16::<4>(high),
                    _mm256_slli_epi16::<2>(high),
                    high,
                    _mm256_srli_epi16::<2>(high),
                ];
                for quarter in 0..4 {
                    let four = low[quarter % 2];
                    let four = if quarter < 2 { four } else { _mm256_srli_epi16::<4>(four) };
                    let weights = _mm256_or_si256(
                        _mm256_and_si256(four, low_bits),
                        _mm256_and_si256(top[quarter], high_bits),
                    );
                    // 32 weights have two scales.
                    let group = half * 8 + quarter * 2;
                    let scale = |group| _mm_set1_epi16(i16::from(block.scales[group] as i8));
                    let scale = _mm256_set_m128i(scale(group + 1), scale(group));
                    for (n, input) in inputs.iter().enumerate() {
                        let numbers = avx2::load_i8(&input.integers[i][group / 2]);
                        // At most 63 * 127 twice: fits into 16 bits.
                        let pairs = _mm256_maddubs_epi16(weights, numbers);
                        let fours = _mm256_madd_epi16(pairs, scale);
                        sums[n] = _mm256_add_epi32(sums[n], fours);
                    }
                }
            }
            for ((total, sum), input) in totals.iter_mut().zip(sums).zip(&inputs) {
                // The 32 that was not taken away from each weight.
                let excess = _mm256_madd_epi16(avx2::load_i16(&input.sums[i]), scales);
                let sum = _mm256_sub_epi32(sum, _mm256_slli_epi32::<5>(excess));
                let scale = avx2::from_f16(block.scale) * input.scales[i];
                *total += scale * avx2::sum_i32(sum) as f32;
            }
        }
        totals
    }
}
