use super::words::{all, load, store};
use crate::{
    TensorType,
    weights::{
        grouped::{Layout, Quantised},
        instructions::Instructions,
    },
};

/// A scale, then 32 signed integers of 8 bits.
#[derive(Debug)]
pub(in crate::weights) struct Q8_0;

impl Layout for Q8_0 {
    const GROUP: usize = 32;
    const BIAS: i32 = 128;
    const HAS_OFFSET: bool = false;
}

impl Quantised<34, 32, 1> for Q8_0 {
    const TYPE: TensorType = TensorType::Q8_0;

    #[inline(always)]
    fn unpack(
        instructions: impl Instructions,
        block: &[u8; 34],
        integers: &mut [u8; 32],
        scales: &mut [f32; 1],
        _offsets: &mut [f32; 1],
    ) {
        scales[0] = instructions.read_f16([block[0], block[1]]);
        let bytes = load(block.last_chunk().expect("a block ends in 32 integers"));
        store(bytes.map(|word| word ^ all(128)), integers);
    }
}
