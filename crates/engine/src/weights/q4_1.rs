#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::__m256i;

use super::blocks32::{Block, nibbles};
use crate::TensorType;
#[cfg(target_arch = "x86_64")]
use crate::weights::blocks32::nibbles_avx2;

/// A scale, an offset, then 32 integers of 4 bits.
#[derive(Debug)]
pub(super) struct Q4_1;

fn packed(block: &[u8; 20]) -> &[u8; 16] {
    block.last_chunk().expect("a block ends in 16 bytes of integers")
}

impl Block for Q4_1 {
    const TYPE: TensorType = TensorType::Q4_1;
    const HAS_OFFSET: bool = true;
    const SIGNED: bool = false;
    type Bytes = [u8; 20];

    fn blocks(row: &[u8]) -> &[[u8; 20]] {
        row.as_chunks().0
    }

    fn scale_and_offset(block: &[u8; 20]) -> [u8; 4] {
        *block.first_chunk().expect("a block has 20 bytes")
    }

    fn unpack(block: &[u8; 20]) -> [i8; 32] {
        nibbles(packed(block))
    }

    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code)]
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn unpack_avx2(block: &[u8; 20]) -> __m256i {
        nibbles_avx2(packed(block))
    }
}
