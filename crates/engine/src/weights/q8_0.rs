#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use super::blocks32::Block;
use crate::TensorType;
#[cfg(target_arch = "x86_64")]
use crate::weights::simd::avx2;

/// A scale, then 32 integers of 8 bits.
#[derive(Debug)]
pub(super) struct Q8_0;

impl Block for Q8_0 {
    const TYPE: TensorType = TensorType::Q8_0;
    const HAS_OFFSET: bool = false;
    const SIGNED: bool = true;
    type Bytes = [u8; 34];

    fn blocks(row: &[u8]) -> &[[u8; 34]] {
        row.as_chunks().0
    }

    fn scale_and_offset(block: &[u8; 34]) -> [u8; 4] {
        *block.first_chunk().expect("a block has 34 bytes")
    }

    fn unpack(block: &[u8; 34]) -> [i8; 32] {
        std::array::from_fn(|i| block[2 + i] as i8)
    }

    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code)]
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn unpack_avx2(block: &[u8; 34]) -> __m256i {
        avx2::load_32(block.last_chunk().expect("a block ends in 32 integers"))
    }
}
