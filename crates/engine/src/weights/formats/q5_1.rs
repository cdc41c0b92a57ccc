use crate::{
    TensorType,
    weights::{
        formats::q5_0::fives,
        grouped::{Layout, Quantised},
        instructions::Instructions,
    },
};

/// A scale, an offset, the upper bits of 32 integers of 5 bits, then their lower
/// 4 bits.
#[derive(Debug)]
pub(in crate::weights) struct Q5_1;

impl Layout for Q5_1 {
    const GROUP: usize = 32;
    const BIAS: i32 = 0;
    const HAS_OFFSET: bool = true;
}

impl Quantised<24, 32, 1> for Q5_1 {
    const TYPE: TensorType = TensorType::Q5_1;

    #[inline(always)]
    fn unpack(
        instructions: impl Instructions,
        block: &[u8; 24],
        integers: &mut [u8; 32],
        scales: &mut [f32; 1],
        offsets: &mut [f32; 1],
    ) {
        scales[0] = instructions.read_f16([block[0], block[1]]);
        offsets[0] = instructions.read_f16([block[2], block[3]]);
        let (high, low) = block[4..].split_first_chunk().expect("20 bytes");
        fives(high, low.first_chunk().expect("16 bytes"), integers);
    }
}
