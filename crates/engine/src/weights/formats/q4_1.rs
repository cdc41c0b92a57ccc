use crate::{
    TensorType,
    weights::{
        formats::q4_0::nibbles,
        grouped::{Layout, Quantised},
        instructions::Instructions,
    },
};

/// A scale, an offset, then 32 integers of 4 bits.
#[derive(Debug)]
pub(in crate::weights) struct Q4_1;

impl Layout for Q4_1 {
    const GROUP: usize = 32;
    const BIAS: i32 = 0;
    const HAS_OFFSET: bool = true;
}

impl Quantised<20, 32, 1> for Q4_1 {
    const TYPE: TensorType = TensorType::Q4_1;

    #[inline(always)]
    fn unpack(
        instructions: impl Instructions,
        block: &[u8; 20],
        integers: &mut [u8; 32],
        scales: &mut [f32; 1],
        offsets: &mut [f32; 1],
    ) {
        scales[0] = instructions.read_f16([block[0], block[1]]);
        offsets[0] = instructions.read_f16([block[2], block[3]]);
        nibbles(block.last_chunk().expect("a block ends in 16 bytes of integers"), integers);
    }
}
