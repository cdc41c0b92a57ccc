use crate::{
    TensorType,
    weights::{
        grouped::{Layout, Quantised},
        instructions::Instructions,
    },
};

/// 256 weights in groups of 32: a scale of all scales and of all offsets, which
/// are taken away, 12 bytes with both of 6 bits, then integers of 4 bits.
#[derive(Debug)]
#[allow(non_camel_case_types, reason = "the name is the file format's")]
pub(in crate::weights) struct Q4_K;

impl Layout for Q4_K {
    const GROUP: usize = 32;
    const BIAS: i32 = 0;
    const HAS_OFFSET: bool = true;
}

impl Quantised<144, 256, 8> for Q4_K {
    const TYPE: TensorType = TensorType::Q4_K;

    #[inline(always)]
    fn unpack(
        instructions: impl Instructions,
        block: &[u8; 144],
        integers: &mut [u8; 256],
        scales: &mut [f32; 8],
        offsets: &mut [f32; 8],
    ) {
        sixes(instructions, block.first_chunk().expect("16 of 144 bytes"), scales, offsets);
        // The lower halves of 32 bytes, then the upper ones.
        let groups = integers.as_chunks_mut::<64>().0;
        for (bytes, integers) in block[16..].as_chunks::<32>().0.iter().zip(groups) {
            for (i, byte) in bytes.iter().enumerate() {
                integers[i] = byte & 15;
                integers[i + 32] = byte >> 4;
            }
        }
    }
}

/// A scale of scales, one of offsets, and 8 of each in 6 bits: the lower 6 bits
/// of 4 bytes are scales and those of 4 more are offsets; the other 4 scales
/// and offsets have their lower bits in the halves of the last 4 bytes, and the
/// upper ones in what was left over.
#[inline(always)]
pub(super) fn sixes(
    instructions: impl Instructions,
    bytes: &[u8; 16],
    scales: &mut [f32; 8],
    offsets: &mut [f32; 8],
) {
    let scale = instructions.read_f16([bytes[0], bytes[1]]);
    let offset = instructions.read_f16([bytes[2], bytes[3]]);
    let four =
        |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let (a, b, c) = (four(4), four(8), four(12));
    let (low_six, low_four, low_two) = (0x3f3f_3f3f, 0x0f0f_0f0f, 0x0303_0303);
    let first = [a & low_six, (c & low_four) | (a >> 6 & low_two) << 4];
    let second = [b & low_six, (c >> 4 & low_four) | (b >> 6 & low_two) << 4];
    for i in 0..8 {
        let of = |words: [u32; 2]| (words[i / 4] >> (i % 4 * 8) & 63) as f32;
        scales[i] = scale * of(first);
        offsets[i] = -(offset * of(second));
    }
}
