//! Sixteen numbers side by side.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use half::f16;

use crate::weights::from_f16;

/// How many numbers stand side by side.
pub(super) const LANES: usize = 16;

/// What instructions do with [`LANES`] numbers at a time. All give the same bits.
pub(super) trait Vectors: Copy {
    type Vector: Copy;

    fn fill(self, number: f32) -> Self::Vector;

    fn load_f32(self, numbers: &[f32; LANES]) -> Self::Vector;

    fn load_f16(self, numbers: &[f16; LANES]) -> Self::Vector;

    /// `sum + a * b`, rounded once.
    fn add_product(self, sum: Self::Vector, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    fn store(self, vector: Self::Vector, out: &mut [f32; LANES]);
}

/// With what every machine has.
#[derive(Clone, Copy)]
pub(super) struct Portable;

impl Vectors for Portable {
    type Vector = [f32; LANES];

    #[inline(always)]
    fn fill(self, number: f32) -> Self::Vector {
        [number; LANES]
    }

    #[inline(always)]
    fn load_f32(self, numbers: &[f32; LANES]) -> Self::Vector {
        *numbers
    }

    #[inline(always)]
    fn load_f16(self, numbers: &[f16; LANES]) -> Self::Vector {
        numbers.map(|number| from_f16(number.to_bits()))
    }

    #[inline(always)]
    fn add_product(self, mut sum: Self::Vector, a: Self::Vector, b: Self::Vector) -> Self::Vector {
        for i in 0..LANES {
            sum[i] = if cfg!(target_arch = "aarch64") {
                a[i].mul_add(b[i], sum[i])
            } else {
                // The system's own need not round once.
                libm::fmaf(a[i], b[i], sum[i])
            };
        }
        sum
    }

    #[inline(always)]
    fn store(self, vector: Self::Vector, out: &mut [f32; LANES]) {
        *out = vector;
    }
}

/// With AVX2, FMA and F16C.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(super) struct Avx2(());

#[cfg(target_arch = "x86_64")]
impl Avx2 {
    /// # Safety
    ///
    /// The machine must have AVX2, FMA and F16C.
    #[inline(always)]
    pub(super) unsafe fn new() -> Self {
        Self(())
    }
}

#[cfg(target_arch = "x86_64")]
impl Vectors for Avx2 {
    type Vector = [__m256; 2];

    #[inline(always)]
    fn fill(self, number: f32) -> Self::Vector {
        // SAFETY: whoever made the value vouched for AVX2, FMA and F16C, and the types of arguments for
        // their lengths; no load or store needs any alignment.
        unsafe { [_mm256_set1_ps(number); 2] }
    }

    #[inline(always)]
    fn load_f32(self, numbers: &[f32; LANES]) -> Self::Vector {
        let at = numbers.as_ptr();
        // SAFETY: as above.
        unsafe { [_mm256_loadu_ps(at), _mm256_loadu_ps(at.add(8))] }
    }

    #[inline(always)]
    fn load_f16(self, numbers: &[f16; LANES]) -> Self::Vector {
        let at = numbers.as_ptr();
        // SAFETY: as above.
        unsafe {
            [
                _mm256_cvtph_ps(_mm_loadu_si128(at.cast())),
                _mm256_cvtph_ps(_mm_loadu_si128(at.add(8).cast())),
            ]
        }
    }

    #[inline(always)]
    fn add_product(self, sum: Self::Vector, a: Self::Vector, b: Self::Vector) -> Self::Vector {
        // SAFETY: as above.
        unsafe { [_mm256_fmadd_ps(a[0], b[0], sum[0]), _mm256_fmadd_ps(a[1], b[1], sum[1])] }
    }

    #[inline(always)]
    fn store(self, vector: Self::Vector, out: &mut [f32; LANES]) {
        let at = out.as_mut_ptr();
        // SAFETY: as above.
        unsafe {
            _mm256_storeu_ps(at, vector[0]);
            _mm256_storeu_ps(at.add(8), vector[1]);
        }
    }
}

/// With AVX-512.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(super) struct Avx512(());

#[cfg(target_arch = "x86_64")]
impl Avx512 {
    /// # Safety
    ///
    /// The machine must have AVX-512 F.
    #[inline(always)]
    pub(super) unsafe fn new() -> Self {
        Self(())
    }
}

#[cfg(target_arch = "x86_64")]
impl Vectors for Avx512 {
    type Vector = __m512;

    #[inline(always)]
    fn fill(self, number: f32) -> Self::Vector {
        // SAFETY: whoever made the value vouched for AVX-512, and the types of arguments for
        // their lengths; no load or store needs any alignment.
        unsafe { _mm512_set1_ps(number) }
    }

    #[inline(always)]
    fn load_f32(self, numbers: &[f32; LANES]) -> Self::Vector {
        // SAFETY: as above.
        unsafe { _mm512_loadu_ps(numbers.as_ptr()) }
    }

    #[inline(always)]
    fn load_f16(self, numbers: &[f16; LANES]) -> Self::Vector {
        // SAFETY: as above.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(numbers.as_ptr().cast())) }
    }

    #[inline(always)]
    fn add_product(self, sum: Self::Vector, a: Self::Vector, b: Self::Vector) -> Self::Vector {
        // SAFETY: as above.
        unsafe { _mm512_fmadd_ps(a, b, sum) }
    }

    #[inline(always)]
    fn store(self, vector: Self::Vector, out: &mut [f32; LANES]) {
        // SAFETY: as above.
        unsafe { _mm512_storeu_ps(out.as_mut_ptr(), vector) }
    }
}
