use super::words::{all, join, load, store};
use crate::{
    TensorType,
    weights::{
        formats::q4_0::nibbles,
        grouped::{Layout, Quantised},
        instructions::Instructions,
    },
};

/// A scale, the upper bits of 32 integers of 5 bits, then their lower 4 bits.
/// 16 is taken away from the integers.
#[derive(Debug)]
pub(in crate::weights) struct Q5_0;

impl Layout for Q5_0 {
    const GROUP: usize = 32;
    const BIAS: i32 = 16;
    const HAS_OFFSET: bool = false;
}

impl Quantised<22, 32, 1> for Q5_0 {
    const TYPE: TensorType = TensorType::Q5_0;

    #[inline(always)]
    fn unpack(
        instructions: impl Instructions,
        block: &[u8; 22],
        integers: &mut [u8; 32],
        scales: &mut [f32; 1],
        _offsets: &mut [f32; 1],
    ) {
        scales[0] = instructions.read_f16([block[0], block[1]]);
        let (high, low) = block[2..].split_first_chunk().expect("20 bytes");
        fives(high, low.first_chunk().expect("16 bytes"), integers);
    }
}

/// Joins 32 bits with 32 numbers of 4 bits, of which they are the bits above.
#[inline(always)]
pub(super) fn fives(high: &[u8; 4], low: &[u8; 16], out: &mut [u8; 32]) {
    nibbles(low, out);
    let mut above = [0; 4];
    for (word, byte) in above.iter_mut().zip(high) {
        // The byte in all places, of which each keeps one bit; adding 127 carries
        // that to the top, and it moves on to where it counts 16.
        let bits = (u64::from(*byte) * all(1)) & 0x8040_2010_0804_0201;
        *word = (bits + all(127)) >> 3 & all(16);
    }
    store(join(load(out), above, |low, above| low | above), out);
}
