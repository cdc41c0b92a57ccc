use super::words::{all, load, store};
use crate::{
    TensorType,
    weights::{
        grouped::{Layout, Quantised},
        instructions::Instructions,
    },
};

/// 256 weights in groups of 16: 16 bytes with the lower 4 bits for a scale and
/// the upper for an offset, 64 bytes of integers of 2 bits, then the scale of
/// all scales, and of all offsets, which are taken away.
#[derive(Debug)]
#[allow(non_camel_case_types, reason = "the name is the file format's")]
pub(in crate::weights) struct Q2_K;

impl Layout for Q2_K {
    const GROUP: usize = 16;
    const BIAS: i32 = 0;
    const HAS_OFFSET: bool = true;
}

impl Quantised<84, 256, 16> for Q2_K {
    const TYPE: TensorType = TensorType::Q2_K;

    #[inline(always)]
    fn unpack(
        instructions: impl Instructions,
        block: &[u8; 84],
        integers: &mut [u8; 256],
        scales: &mut [f32; 16],
        offsets: &mut [f32; 16],
    ) {
        let scale = instructions.read_f16([block[80], block[81]]);
        let offset = instructions.read_f16([block[82], block[83]]);
        for (i, byte) in block[..16].iter().enumerate() {
            scales[i] = scale * f32::from(byte & 15);
            offsets[i] = -(offset * f32::from(byte >> 4));
        }
        // The lowest bits of 32 bytes, then the next ones of the same.
        let halves = integers.as_chunks_mut::<128>().0;
        for (bytes, integers) in block[16..80].as_chunks::<32>().0.iter().zip(halves) {
            let words = load(bytes);
            for (i, integers) in integers.as_chunks_mut::<32>().0.iter_mut().enumerate() {
                store(words.map(|word| word >> (2 * i) & all(3)), integers);
            }
        }
    }
}
