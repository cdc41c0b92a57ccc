use super::words::{all, join, load, store};
use crate::{
    TensorType,
    weights::{
        grouped::{Layout, Quantised},
        instructions::Instructions,
    },
};

/// 256 weights in groups of 16: 128 bytes with the lower 4 bits of the integers,
/// 64 with the upper 2, 16 signed scales of 8 bits, and a scale of all those. 32
/// is taken away from the integers.
#[derive(Debug)]
#[allow(non_camel_case_types, reason = "the name is the file format's")]
pub(in crate::weights) struct Q6_K;

impl Layout for Q6_K {
    const GROUP: usize = 16;
    const BIAS: i32 = 32;
    const HAS_OFFSET: bool = false;
}

impl Quantised<210, 256, 16> for Q6_K {
    const TYPE: TensorType = TensorType::Q6_K;

    #[inline(always)]
    fn unpack(
        instructions: impl Instructions,
        block: &[u8; 210],
        integers: &mut [u8; 256],
        scales: &mut [f32; 16],
        _offsets: &mut [f32; 16],
    ) {
        let scale = instructions.read_f16([block[208], block[209]]);
        for (to, byte) in scales.iter_mut().zip(&block[192..208]) {
            *to = scale * f32::from(*byte as i8);
        }
        // The lower halves of 64 bytes, then the upper halves of the same; the two bits
        // above come from one byte for each four of them.
        let halves = integers.as_chunks_mut::<128>().0;
        let low = block[..128].as_chunks::<64>().0;
        let high = block[128..192].as_chunks::<32>().0;
        for ((low, high), integers) in low.iter().zip(high).zip(halves) {
            let low = low.as_chunks::<32>().0;
            let (low, high) = ([load(&low[0]), load(&low[1])], load(high));
            for (i, integers) in integers.as_chunks_mut::<32>().0.iter_mut().enumerate() {
                let six = |low: u64, high: u64| {
                    (low >> (i / 2 * 4) & all(15)) | (high >> (2 * i) & all(3)) << 4
                };
                store(join(low[i % 2], high, six), integers);
            }
        }
    }
}
