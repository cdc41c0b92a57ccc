use crate::{
    TensorType,
    weights::{
        grouped::{Layout, Quantised},
        instructions::Instructions,
    },
};

/// A scale, then 32 integers of 4 bits, from which 8 is taken away.
#[derive(Debug)]
pub(in crate::weights) struct Q4_0;

impl Layout for Q4_0 {
    const GROUP: usize = 32;
    const BIAS: i32 = 8;
    const HAS_OFFSET: bool = false;
}

impl Quantised<18, 32, 1> for Q4_0 {
    const TYPE: TensorType = TensorType::Q4_0;

    #[inline(always)]
    fn unpack(
        instructions: impl Instructions,
        block: &[u8; 18],
        integers: &mut [u8; 32],
        scales: &mut [f32; 1],
        _offsets: &mut [f32; 1],
    ) {
        scales[0] = instructions.read_f16([block[0], block[1]]);
        nibbles(block.last_chunk().expect("a block ends in 16 bytes of integers"), integers);
    }
}

/// Splits 16 bytes into 32 numbers of 4 bits: first all lower halves, then all
/// upper ones.
#[inline(always)]
pub(super) fn nibbles(bytes: &[u8; 16], out: &mut [u8; 32]) {
    for (i, byte) in bytes.iter().enumerate() {
        out[i] = byte & 15;
        out[i + 16] = byte >> 4;
    }
}
