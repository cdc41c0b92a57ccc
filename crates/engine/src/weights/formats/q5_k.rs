use crate::{
    TensorType,
    weights::{
        formats::q4_k::sixes,
        grouped::{Layout, Quantised},
        half::Instructions,
    },
};

/// 256 weights in groups of 32: scales and offsets as in `Q4_K`, 32 bytes with
/// the upper bits of the integers, then their lower 4 bits.
#[derive(Debug)]
#[allow(non_camel_case_types, reason = "the name is the file format's")]
pub(in crate::weights) struct Q5_K;

impl Layout for Q5_K {
    const GROUP: usize = 32;
    const BIAS: i32 = 0;
    const HAS_OFFSET: bool = true;
}

impl Quantised<176, 256, 8> for Q5_K {
    const TYPE: TensorType = TensorType::Q5_K;

    #[inline(always)]
    fn unpack(
        instructions: impl Instructions,
        block: &[u8; 176],
        integers: &mut [u8; 256],
        scales: &mut [f32; 8],
        offsets: &mut [f32; 8],
    ) {
        sixes(instructions, block.first_chunk().expect("16 of 176 bytes"), scales, offsets);
        let high: &[u8; 32] = block[16..].first_chunk().expect("32 of 160 bytes");
        // The lower halves of 32 bytes, then the upper ones; the bits above are the
        // lowest of 32 others, then the next ones of the same.
        let groups = integers.as_chunks_mut::<64>().0;
        for (n, (low, integers)) in block[48..].as_chunks::<32>().0.iter().zip(groups).enumerate() {
            for (i, (low, high)) in low.iter().zip(high).enumerate() {
                integers[i] = (low & 15) | (high >> (2 * n) & 1) << 4;
                integers[i + 32] = low >> 4 | (high >> (2 * n + 1) & 1) << 4;
            }
        }
    }
}
