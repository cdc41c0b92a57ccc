use super::words::{all, join, load, store};
use crate::{
    TensorType,
    weights::{
        grouped::{Layout, Quantised},
        instructions::Instructions,
    },
};

/// 256 weights in groups of 16: 32 bytes with the upper bits of the integers, 64
/// with the lower 2, 12 with scales of 6 bits, from which 32 is taken away, and
/// a scale of all those. 4 is taken away from the integers.
#[derive(Debug)]
#[allow(non_camel_case_types, reason = "the name is the file format's")]
pub(in crate::weights) struct Q3_K;

impl Layout for Q3_K {
    const GROUP: usize = 16;
    const BIAS: i32 = 4;
    const HAS_OFFSET: bool = false;
}

impl Quantised<110, 256, 16> for Q3_K {
    const TYPE: TensorType = TensorType::Q3_K;

    #[inline(always)]
    fn unpack(
        instructions: impl Instructions,
        block: &[u8; 110],
        integers: &mut [u8; 256],
        scales: &mut [f32; 16],
        _offsets: &mut [f32; 16],
    ) {
        let scale = instructions.read_f16([block[108], block[109]]);
        let packed = &block[96..108];
        for (i, to) in scales.iter_mut().enumerate() {
            let low = packed[i % 8] >> (i / 8 * 4) & 15;
            let high = packed[8 + i % 4] >> (i / 4 * 2) & 3;
            *to = scale * (i32::from(low | high << 4) - 32) as f32;
        }
        let high = load(block.first_chunk().expect("32 of 110 bytes"));
        // The lowest bits of 32 bytes, then the next ones of the same; the bits above
        // are the lowest of 32 others, and so on to the eighth.
        let halves = integers.as_chunks_mut::<128>().0;
        for (n, (low, integers)) in block[32..96].as_chunks::<32>().0.iter().zip(halves).enumerate()
        {
            let low = load(low);
            for (i, integers) in integers.as_chunks_mut::<32>().0.iter_mut().enumerate() {
                let three =
                    |low, high| (low >> (2 * i) & all(3)) | (high >> (4 * n + i) & all(1)) << 2;
                store(join(low, high, three), integers);
            }
        }
    }
}
