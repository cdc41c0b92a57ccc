/// What some machines do in one instruction.
pub(super) trait Instructions: Copy {
    /// The number that two bytes of IEEE 754 binary16 stand for; a NaN is made
    /// quiet.
    fn read_f16(self, bytes: [u8; 2]) -> f32;

    /// The entries of a table at 32 places: first the lower halves of all bytes,
    /// then the upper ones.
    fn look_up(self, table: &[u8; 16], places: &[u8; 16], out: &mut [u8; 32]);

    /// Says that the memory at `distance` behind some bytes is needed soon.
    fn prefetch(self, bytes: &[u8], distance: usize);
}

/// Those that every machine has.
#[derive(Clone, Copy)]
pub(super) struct Portable;

impl Instructions for Portable {
    #[inline(always)]
    fn read_f16(self, bytes: [u8; 2]) -> f32 {
        from_f16(u16::from_le_bytes(bytes))
    }

    #[inline(always)]
    fn look_up(self, table: &[u8; 16], places: &[u8; 16], out: &mut [u8; 32]) {
        for (i, byte) in places.iter().enumerate() {
            out[i] = table[usize::from(byte & 15)];
            out[i + 16] = table[usize::from(byte >> 4)];
        }
    }

    #[inline(always)]
    fn prefetch(self, _: &[u8], _: usize) {}
}

/// Those of machines with AVX2 and F16C.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(super) struct Avx2(());

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
impl Avx2 {
    /// # Safety
    ///
    /// The machine must have AVX2 and F16C.
    #[inline(always)]
    pub(super) unsafe fn new() -> Self {
        Self(())
    }
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
impl Instructions for Avx2 {
    #[inline(always)]
    fn read_f16(self, bytes: [u8; 2]) -> f32 {
        use std::arch::x86_64::*;
        // SAFETY: whoever made the value vouched for AVX2 and F16C.
        unsafe {
            let bits = _mm_cvtsi32_si128(i32::from(u16::from_le_bytes(bytes)));
            _mm_cvtss_f32(_mm_cvtph_ps(bits))
        }
    }

    #[inline(always)]
    fn look_up(self, table: &[u8; 16], places: &[u8; 16], out: &mut [u8; 32]) {
        use std::arch::x86_64::*;
        // SAFETY: whoever made the value vouched for AVX2 and F16C; the arrays have
        // 16 and 32 bytes, and neither loads nor the store need any alignment.
        unsafe {
            let table = _mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast()));
            let places = _mm_loadu_si128(places.as_ptr().cast());
            let places = _mm256_set_m128i(_mm_srli_epi16::<4>(places), places);
            let places = _mm256_and_si256(places, _mm256_set1_epi8(15));
            _mm256_storeu_si256(out.as_mut_ptr().cast(), _mm256_shuffle_epi8(table, places));
        }
    }

    #[inline(always)]
    fn prefetch(self, bytes: &[u8], distance: usize) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        for line in (0..bytes.len()).step_by(64) {
            let address = bytes.as_ptr().wrapping_add(distance + line);
            // SAFETY: this reads nothing, whatever the address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
        }
    }
}

/// The number that 16 bits of IEEE 754 binary16 stand for; a NaN is made
/// quiet, as the processor's own conversion does.
pub(crate) fn from_f16(bits: u16) -> f32 {
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
