#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use super::blocks32::{Block, nibbles};
use crate::TensorType;
#[cfg(target_arch = "x86_64")]
use crate::weights::blocks32::nibbles_avx2;

/// A scale, then 32 integers of 4 bits, from which 8 is taken away.
#[derive(Debug)]
pub(super) struct Q4_0;

fn packed(block: &[u8; 18]) -> &[u8; 16] {
    block.last_chunk().expect("a block ends in 16 bytes of integers")
}

impl Block for Q4_0 {
    const TYPE: TensorType = TensorType::Q4_0;
    const HAS_OFFSET: bool = false;
    const SIGNED: bool = true;
    type Bytes = [u8; 18];

    fn blocks(row: &[u8]) -> &[[u8; 18]] {
        row.as_chunks().0
    }

    fn scale_and_offset(block: &[u8; 18]) -> [u8; 4] {
        *block.first_chunk().expect("a block has 18 bytes")
    }

    fn unpack(block: &[u8; 18]) -> [i8; 32] {
        nibbles(packed(block)).map(|nibble| nibble - 8)
    }

    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code)]
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn unpack_avx2(block: &[u8; 18]) -> __m256i {
        _mm256_sub_epi8(nibbles_avx2(packed(block)), _mm256_set1_epi8(8))
    }
}
