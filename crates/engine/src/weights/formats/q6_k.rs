use crate::{
    TensorType,
    weights::{
        grouped::{Layout, Quantised},
        half::Instructions,
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
            for i in 0..32 {
                integers[i] = (low[i] & 15) | (high[i] & 3) << 4;
                integers[i + 32] = (low[i + 32] & 15) | (high[i] >> 2 & 3) << 4;
                integers[i + 64] = low[i] >> 4 | (high[i] >> 4 & 3) << 4;
                integers[i + 96] = low[i + 32] >> 4 | high[i] >> 6 << 4;
            }
        }
    }
}
