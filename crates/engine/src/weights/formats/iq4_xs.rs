use crate::{
    TensorType,
    weights::{
        formats::iq4_nl::TABLE,
        grouped::{Layout, Quantised},
        instructions::Instructions,
    },
};

/// 256 weights in groups of 32: a scale, the upper 2 and the lower 4 bits of 8
/// scales, from which 32 is taken away, then places as in `IQ4_NL`.
#[derive(Debug)]
#[allow(non_camel_case_types, reason = "the name is the file format's")]
pub(in crate::weights) struct IQ4_XS;

impl Layout for IQ4_XS {
    const GROUP: usize = 32;
    const BIAS: i32 = 128;
    const HAS_OFFSET: bool = false;
}

impl Quantised<136, 256, 8> for IQ4_XS {
    const TYPE: TensorType = TensorType::IQ4_XS;

    #[inline(always)]
    fn unpack(
        instructions: impl Instructions,
        block: &[u8; 136],
        integers: &mut [u8; 256],
        scales: &mut [f32; 8],
        _offsets: &mut [f32; 8],
    ) {
        let scale = instructions.read_f16([block[0], block[1]]);
        let high = u16::from_le_bytes([block[2], block[3]]);
        for (i, to) in scales.iter_mut().enumerate() {
            let low = block[4 + i / 2] >> (i % 2 * 4) & 15;
            let six = i32::from(low) | i32::from(high >> (2 * i) & 3) << 4;
            *to = scale * (six - 32) as f32;
        }
        let groups = integers.as_chunks_mut::<32>().0;
        for (places, integers) in block[8..].as_chunks::<16>().0.iter().zip(groups) {
            instructions.look_up(&TABLE, places, integers);
        }
    }
}
