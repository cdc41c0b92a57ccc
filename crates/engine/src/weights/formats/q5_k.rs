use super::words::{all, join, load, store};
use crate::{
    TensorType,
    weights::{
        formats::q4_k::sixes,
        grouped::{Layout, Quantised},
        instructions::Instructions,
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
        let high = load(block[16..].first_chunk().expect("32 of 160 bytes"));
        // The lower halves of 32 bytes, then the upper ones; the bits above are the
        // lowest of 32 others, then the next ones of the same.
        let groups = integers.as_chunks_mut::<32>().0;
        for (n, integers) in groups.iter_mut().enumerate() {
            let low = block[48 + n / 2 * 32..].first_chunk().expect("32 bytes for two groups");
            let five =
                |low: u64, high: u64| (low >> (n % 2 * 4) & all(15)) | (high >> n & all(1)) << 4;
            store(join(load(low), high, five), integers);
        }
    }
}
