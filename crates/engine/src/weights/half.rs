/// The number that 16 bits of IEEE 754 binary16 stand for; a NaN is made
/// quiet, as the processor's own conversion does.
pub(super) fn from_f16(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let exponent = u32::from(bits >> 10 & 0x1f);
    let fraction = u32::from(bits & 0x3ff);
    match exponent {
        // Zero and subnormals: multiples of 2^-24, which f32 holds exactly.
        0 => f32::from_bits(sign | (fraction as f32 * f32::from_bits((127 - 24) << 23)).to_bits()),
        31 if fraction == 0 => f32::from_bits(sign | 0x7f80_0000),
        31 => f32::from_bits(sign | 0x7fc0_0000 | fraction << 13),
        _ => f32::from_bits(sign | (exponent + 127 - 15) << 23 | fraction << 13),
    }
}

/// The number that 16 bits of bfloat16 stand for.
pub(super) fn from_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}
