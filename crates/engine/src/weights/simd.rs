//! What the machine can do, and loads from memory, whose sizes the types of
//! their arguments prove.

/// The instructions to compute with.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Simd {
    /// Those that every machine has.
    Portable,
    /// AVX2 and F16C.
    #[cfg(target_arch = "x86_64")]
    Avx2(Detected),
}

/// Only [`Simd::detect`] can make one.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Detected(());

impl Simd {
    /// The best that this machine has.
    pub(crate) fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c") {
            return Self::Avx2(Detected(()));
        }
        Self::Portable
    }
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
pub(super) mod avx2 {
    use std::arch::x86_64::*;

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(in crate::weights) fn load_16(bytes: &[u8; 16]) -> __m128i {
        // SAFETY: the array has 16 bytes; the load needs no alignment.
        unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(in crate::weights) fn load_32(bytes: &[u8; 32]) -> __m256i {
        // SAFETY: the array has 32 bytes; the load needs no alignment.
        unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(in crate::weights) fn load_i8(bytes: &[i8; 32]) -> __m256i {
        // SAFETY: the array has 32 bytes; the load needs no alignment.
        unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(in crate::weights) fn load_i16(numbers: &[i16; 16]) -> __m256i {
        // SAFETY: the array has 32 bytes; the load needs no alignment.
        unsafe { _mm256_loadu_si256(numbers.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(in crate::weights) fn load_f32(numbers: &[f32; 8]) -> __m256 {
        // SAFETY: the array has 32 bytes; the load needs no alignment.
        unsafe { _mm256_loadu_ps(numbers.as_ptr()) }
    }

    /// The number that 16 bits of binary16 stand for.
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    pub(in crate::weights) fn from_f16(bits: u16) -> f32 {
        _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(i32::from(bits))))
    }

    // The next two are there for speed: from a lone number of 16 bits the
    // compiler makes an instruction that waits for whatever was computed last
    // in the register it picks, often the sum from the step before.

    /// The two numbers that 32 bits of binary16 stand for.
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    pub(in crate::weights) fn two_from_f16(bytes: [u8; 4]) -> (f32, f32) {
        let both = _mm_cvtph_ps(_mm_cvtsi32_si128(i32::from_le_bytes(bytes)));
        (_mm_cvtss_f32(both), _mm_cvtss_f32(_mm_movehdup_ps(both)))
    }

    /// The number that 16 bits of binary16 stand for, in all lanes.
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    pub(in crate::weights) fn splat_f16(bytes: [u8; 2]) -> __m256 {
        _mm256_cvtph_ps(_mm_set1_epi16(i16::from_le_bytes(bytes)))
    }

    /// The sum of eight lanes, in the order of [`sum_lanes`](crate::weights::float::sum_lanes).
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(in crate::weights) fn sum_f32(lanes: __m256) -> f32 {
        let four = _mm_add_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps::<1>(lanes));
        let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
        let one = _mm_add_ss(two, _mm_shuffle_ps::<1>(two, two));
        _mm_cvtss_f32(one)
    }

    /// The sum of eight lanes, which must fit.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(in crate::weights) fn sum_i32(lanes: __m256i) -> i32 {
        let four =
            _mm_add_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256::<1>(lanes));
        let two = _mm_add_epi32(four, _mm_shuffle_epi32::<0b01_00_11_10>(four));
        let one = _mm_add_epi32(two, _mm_shuffle_epi32::<0b10_11_00_01>(two));
        _mm_cvtsi128_si32(one)
    }
}
