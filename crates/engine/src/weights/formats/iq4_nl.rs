use crate::{
    TensorType,
    weights::{
        grouped::{Layout, Quantised},
        instructions::Instructions,
    },
};

/// A scale, then 32 places of 4 bits in a table of integers.
#[derive(Debug)]
#[allow(non_camel_case_types, reason = "the name is the file format's")]
pub(in crate::weights) struct IQ4_NL;

impl Layout for IQ4_NL {
    const GROUP: usize = 32;
    const BIAS: i32 = 128;
    const HAS_OFFSET: bool = false;
}

impl Quantised<18, 32, 1> for IQ4_NL {
    const TYPE: TensorType = TensorType::IQ4_NL;

    #[inline(always)]
    fn unpack(
        instructions: impl Instructions,
        block: &[u8; 18],
        integers: &mut [u8; 32],
        scales: &mut [f32; 1],
        _offsets: &mut [f32; 1],
    ) {
        scales[0] = instructions.read_f16([block[0], block[1]]);
        let places = block.last_chunk().expect("a block ends in 16 bytes of places");
        instructions.look_up(&TABLE, places, integers);
    }
}

/// The integers that places stand for, from -127 to 113, with 128 added.
pub(super) const TABLE: [u8; 16] = {
    let integers = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113_i32];
    let mut table = [0; 16];
    let mut i = 0;
    while i < 16 {
        table[i] = (integers[i] + 128) as u8;
        i += 1;
    }
    table
};
