//! Sixteen numbers at a time, by the instructions that a machine has. Every
//! operation gives the same bits on all of them.

use std::f32::consts::{LN_2, LOG2_E};

/// Numbers in a vector.
pub(super) const LANES: usize = 16;

/// What the exponential needs of a number, or of a vector of them.
pub(super) trait Real: Copy {
    fn splat(value: f32) -> Self;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn div(self, other: Self) -> Self;
    /// `self * factor + summand`, rounded once.
    fn mul_add(self, factor: Self, summand: Self) -> Self;
    /// The number times 2 to the power of a whole number, or 0 where `x` is below
    /// `limit` or no number. `shifted` is that whole number in the low bits of a
    /// float.
    fn scale(self, whole: Self, shifted: Self, x: Self, limit: Self) -> Self;
}

/// `e^x` for `x <= 0`; relative error below 1.5e-7 down to -20, which grows to
/// 3.5e-7 at -87. Below, where the result would soon be no normal number, and for NaN
/// it is 0.
///
/// By our own code, since the system's function differs from machine to machine,
/// and with it the token that a seed gives.
#[inline(always)]
pub(super) fn exp<R: Real>(x: R) -> R {
    // 1.5 * 2^23: adding it rounds to a whole number, which then stands in the
    // low bits of the sum.
    const ROUND: f32 = 12_582_912.0;
    // e^r = 1 + r + r^2 * polynomial, fitted to the least relative error on the
    // interval.
    const TERMS: [f32; 6] =
        [1.381_459_9e-3, 8.368_717e-3, 4.166_839e-2, 1.666_652_1e-1, 4.999_999_4e-1, 1.0];

    // x = n ln 2 + r with |r| <= ln 2 / 2.
    let shifted = x.mul_add(R::splat(LOG2_E), R::splat(ROUND));
    let n = shifted.sub(R::splat(ROUND));
    let r = n.mul_add(R::splat(-LN_2), x);
    let mut sum = R::splat(TERMS[0]);
    for term in &TERMS[1..] {
        sum = sum.mul_add(r, R::splat(*term));
    }
    sum = sum.mul_add(r, R::splat(1.0));
    sum.scale(n, shifted, x, R::splat(-87.0))
}

/// `a / t`, where `inverse` is `1 / t`, rounded once, neither being extreme: by
/// the remainder, which an FMA gives exactly (Markstein, 1990). NaN where `a` is
/// masked.
#[inline(always)]
pub(super) fn quotient<R: Real>(a: R, minus_t: R, inverse: R) -> R {
    let near = a.mul(inverse);
    let remainder = near.mul_add(minus_t, a);
    remainder.mul_add(inverse, near)
}

/// Sixteen numbers.
pub(super) trait Vector: Real {
    type Mask: Copy;

    fn load(from: &[f32; LANES]) -> Self;
    fn store(self, to: &mut [f32; LANES]);
    /// The greater of each two; the other's where one of them is NaN.
    fn max(self, other: Self) -> Self;
    /// Where a number is at least the other.
    fn at_least(self, other: Self) -> Self::Mask;
    /// Where it is not the other.
    fn differs(self, other: Self) -> Self::Mask;
    fn both(a: Self::Mask, b: Self::Mask) -> Self::Mask;
    /// The number where the mask is set, and the other elsewhere.
    fn select(self, mask: Self::Mask, other: Self) -> Self;
    /// A bit for each lane, the first lane's lowest.
    fn bits(mask: Self::Mask) -> u16;
    /// The greatest of all, none of which is NaN.
    fn greatest(self) -> f32;
    /// Halves are added, until one number is left.
    fn sum(self) -> f64;
}

impl Real for f32 {
    #[inline(always)]
    fn splat(value: f32) -> Self {
        value
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self + other
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        self - other
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        self * other
    }

    #[inline(always)]
    fn div(self, other: Self) -> Self {
        self / other
    }

    #[inline(always)]
    fn mul_add(self, factor: Self, summand: Self) -> Self {
        self.mul_add(factor, summand)
    }

    #[inline(always)]
    fn scale(self, _: Self, shifted: Self, x: Self, limit: Self) -> Self {
        let power = Self::from_bits(self.to_bits().wrapping_add(shifted.to_bits() << 23));
        if x >= limit { power } else { 0.0 }
    }
}

/// For any machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plain([f32; LANES]);

impl Plain {
    #[inline(always)]
    fn zip(self, other: Self, f: impl Fn(f32, f32) -> f32) -> Self {
        Self(std::array::from_fn(|lane| f(self.0[lane], other.0[lane])))
    }
}

impl Real for Plain {
    #[inline(always)]
    fn splat(value: f32) -> Self {
        Self([value; LANES])
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.zip(other, |a, b| a + b)
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        self.zip(other, |a, b| a - b)
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        self.zip(other, |a, b| a * b)
    }

    #[inline(always)]
    fn div(self, other: Self) -> Self {
        self.zip(other, |a, b| a / b)
    }

    #[inline(always)]
    fn mul_add(self, factor: Self, summand: Self) -> Self {
        let lane = |at: usize| self.0[at].mul_add(factor.0[at], summand.0[at]);
        Self(std::array::from_fn(lane))
    }

    #[inline(always)]
    fn scale(self, n: Self, shifted: Self, x: Self, limit: Self) -> Self {
        let lane = |at: usize| self.0[at].scale(n.0[at], shifted.0[at], x.0[at], limit.0[at]);
        Self(std::array::from_fn(lane))
    }
}

impl Vector for Plain {
    type Mask = [bool; LANES];

    #[inline(always)]
    fn load(from: &[f32; LANES]) -> Self {
        Self(*from)
    }

    #[inline(always)]
    fn store(self, to: &mut [f32; LANES]) {
        *to = self.0;
    }

    #[inline(always)]
    fn max(self, other: Self) -> Self {
        self.zip(other, |a, b| if a > b { a } else { b })
    }

    #[inline(always)]
    fn at_least(self, other: Self) -> Self::Mask {
        std::array::from_fn(|lane| self.0[lane] >= other.0[lane])
    }

    #[inline(always)]
    #[allow(clippy::float_cmp, reason = "exactly the same is what is meant")]
    fn differs(self, other: Self) -> Self::Mask {
        std::array::from_fn(|lane| self.0[lane] != other.0[lane])
    }

    #[inline(always)]
    fn both(a: Self::Mask, b: Self::Mask) -> Self::Mask {
        std::array::from_fn(|lane| a[lane] & b[lane])
    }

    #[inline(always)]
    fn select(self, mask: Self::Mask, other: Self) -> Self {
        Self(std::array::from_fn(|at| if mask[at] { self.0[at] } else { other.0[at] }))
    }

    #[inline(always)]
    fn bits(mask: Self::Mask) -> u16 {
        mask.iter().rev().fold(0, |bits, set| bits << 1 | u16::from(*set))
    }

    #[inline(always)]
    fn greatest(self) -> f32 {
        let mut lanes = self.0;
        let mut half = LANES / 2;
        while half > 0 {
            for lane in 0..half {
                let (a, b) = (lanes[lane], lanes[lane + half]);
                lanes[lane] = if a > b { a } else { b };
            }
            half /= 2;
        }
        lanes[0]
    }

    #[inline(always)]
    fn sum(self) -> f64 {
        let mut lanes = self.0.map(f64::from);
        let mut half = LANES / 2;
        while half > 0 {
            for lane in 0..half {
                lanes[lane] += lanes[lane + half];
            }
            half /= 2;
        }
        lanes[0]
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) use x86::{Avx2, Avx512, Vectors};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m256, __m512, __mmask16, _CMP_GE_OQ, _CMP_NEQ_UQ, _mm_add_pd, _mm_add_sd, _mm_cvtsd_f64,
        _mm_cvtss_f32, _mm_max_ps, _mm_max_ss, _mm_movehl_ps, _mm_shuffle_ps, _mm_unpackhi_pd,
        _mm256_add_epi32, _mm256_add_pd, _mm256_add_ps, _mm256_and_ps, _mm256_blendv_ps,
        _mm256_castpd256_pd128, _mm256_castps_si256, _mm256_castps256_ps128, _mm256_castsi256_ps,
        _mm256_cmp_ps, _mm256_cvtps_pd, _mm256_div_ps, _mm256_extractf128_pd,
        _mm256_extractf128_ps, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_max_ps, _mm256_movemask_ps,
        _mm256_mul_ps, _mm256_set1_ps, _mm256_slli_epi32, _mm256_storeu_ps, _mm256_sub_ps,
        _mm512_add_pd, _mm512_add_ps, _mm512_castpd512_pd256, _mm512_castps512_ps256,
        _mm512_cmp_ps_mask, _mm512_cvtps_pd, _mm512_div_ps, _mm512_extractf32x8_ps,
        _mm512_extractf64x4_pd, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_mask_blend_ps,
        _mm512_maskz_scalef_ps, _mm512_max_ps, _mm512_mul_ps, _mm512_set1_ps, _mm512_storeu_ps,
        _mm512_sub_ps,
    };

    use super::{LANES, Real, Vector};

    /// The vectors that a machine has.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(in super::super) enum Vectors {
        Avx512,
        Avx2,
        Other,
    }

    impl Vectors {
        #[inline]
        pub(in super::super) fn here() -> Self {
            let has_fma = is_x86_feature_detected!("fma") && is_x86_feature_detected!("avx2");
            let has_avx512 =
                is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq");
            match (has_fma, has_avx512) {
                (true, true) => Self::Avx512,
                (true, false) => Self::Avx2,
                (false, _) => Self::Other,
            }
        }
    }

    // SAFETY, of every block below: values of these types are made only in
    // kernels for the vectors in question, which are called only where the
    // machine has them.

    /// For AVX2 with FMA.
    #[derive(Clone, Copy, Debug)]
    pub(in super::super) struct Avx2(__m256, __m256);

    /// For AVX-512.
    #[derive(Clone, Copy, Debug)]
    pub(in super::super) struct Avx512(__m512);

    macro_rules! each_half {
        ($($name:ident = $instruction:ident;)*) => {$(
            #[inline(always)]
            fn $name(self, other: Self) -> Self {
                // SAFETY: as above.
                unsafe { Self($instruction(self.0, other.0), $instruction(self.1, other.1)) }
            }
        )*};
    }

    impl Real for Avx2 {
        each_half! {
            add = _mm256_add_ps;
            sub = _mm256_sub_ps;
            mul = _mm256_mul_ps;
            div = _mm256_div_ps;
        }

        #[inline(always)]
        fn splat(value: f32) -> Self {
            // SAFETY: as above.
            unsafe { Self(_mm256_set1_ps(value), _mm256_set1_ps(value)) }
        }

        #[inline(always)]
        fn mul_add(self, factor: Self, summand: Self) -> Self {
            // SAFETY: as above.
            unsafe {
                Self(
                    _mm256_fmadd_ps(self.0, factor.0, summand.0),
                    _mm256_fmadd_ps(self.1, factor.1, summand.1),
                )
            }
        }

        #[inline(always)]
        fn scale(self, _: Self, shifted: Self, x: Self, limit: Self) -> Self {
            let (first, second) = x.at_least(limit);
            // SAFETY: as above.
            unsafe { Self(scale(self.0, shifted.0, first), scale(self.1, shifted.1, second)) }
        }
    }

    impl Vector for Avx2 {
        type Mask = (__m256, __m256);

        each_half! { max = _mm256_max_ps; }

        #[inline(always)]
        fn load(from: &[f32; LANES]) -> Self {
            // SAFETY: as above, and both halves lie in the array.
            unsafe { Self(_mm256_loadu_ps(from.as_ptr()), _mm256_loadu_ps(from[8..].as_ptr())) }
        }

        #[inline(always)]
        fn store(self, to: &mut [f32; LANES]) {
            // SAFETY: as above, and both halves lie in the array.
            unsafe {
                _mm256_storeu_ps(to.as_mut_ptr(), self.0);
                _mm256_storeu_ps(to[8..].as_mut_ptr(), self.1);
            }
        }

        #[inline(always)]
        fn at_least(self, other: Self) -> Self::Mask {
            // SAFETY: as above.
            unsafe {
                (
                    _mm256_cmp_ps::<_CMP_GE_OQ>(self.0, other.0),
                    _mm256_cmp_ps::<_CMP_GE_OQ>(self.1, other.1),
                )
            }
        }

        #[inline(always)]
        fn differs(self, other: Self) -> Self::Mask {
            // SAFETY: as above.
            unsafe {
                (
                    _mm256_cmp_ps::<_CMP_NEQ_UQ>(self.0, other.0),
                    _mm256_cmp_ps::<_CMP_NEQ_UQ>(self.1, other.1),
                )
            }
        }

        #[inline(always)]
        fn both(a: Self::Mask, b: Self::Mask) -> Self::Mask {
            // SAFETY: as above.
            unsafe { (_mm256_and_ps(a.0, b.0), _mm256_and_ps(a.1, b.1)) }
        }

        #[inline(always)]
        fn select(self, mask: Self::Mask, other: Self) -> Self {
            // SAFETY: as above.
            unsafe {
                Self(
                    _mm256_blendv_ps(other.0, self.0, mask.0),
                    _mm256_blendv_ps(other.1, self.1, mask.1),
                )
            }
        }

        #[inline(always)]
        fn bits(mask: Self::Mask) -> u16 {
            // SAFETY: as above.
            let half = |mask| unsafe { _mm256_movemask_ps(mask) as u16 };
            half(mask.0) | half(mask.1) << 8
        }

        #[inline(always)]
        fn greatest(self) -> f32 {
            // SAFETY: as above.
            unsafe { greatest(_mm256_max_ps(self.0, self.1)) }
        }

        #[inline(always)]
        fn sum(self) -> f64 {
            // SAFETY: as above.
            unsafe {
                let low = |half| _mm256_cvtps_pd(_mm256_castps256_ps128(half));
                let high = |half| _mm256_cvtps_pd(_mm256_extractf128_ps::<1>(half));
                let first = _mm256_add_pd(low(self.0), low(self.1));
                let second = _mm256_add_pd(high(self.0), high(self.1));
                sum(_mm256_add_pd(first, second))
            }
        }
    }

    macro_rules! whole {
        ($($name:ident = $instruction:ident;)*) => {$(
            #[inline(always)]
            fn $name(self, other: Self) -> Self {
                // SAFETY: as above.
                unsafe { Self($instruction(self.0, other.0)) }
            }
        )*};
    }

    impl Real for Avx512 {
        whole! {
            add = _mm512_add_ps;
            sub = _mm512_sub_ps;
            mul = _mm512_mul_ps;
            div = _mm512_div_ps;
        }

        #[inline(always)]
        fn splat(value: f32) -> Self {
            // SAFETY: as above.
            unsafe { Self(_mm512_set1_ps(value)) }
        }

        #[inline(always)]
        fn mul_add(self, factor: Self, summand: Self) -> Self {
            // SAFETY: as above.
            unsafe { Self(_mm512_fmadd_ps(self.0, factor.0, summand.0)) }
        }

        #[inline(always)]
        fn scale(self, whole: Self, _: Self, x: Self, limit: Self) -> Self {
            // SAFETY: as above.
            unsafe { Self(_mm512_maskz_scalef_ps(x.at_least(limit), self.0, whole.0)) }
        }
    }

    impl Vector for Avx512 {
        type Mask = __mmask16;

        whole! { max = _mm512_max_ps; }

        #[inline(always)]
        fn load(from: &[f32; LANES]) -> Self {
            // SAFETY: as above.
            unsafe { Self(_mm512_loadu_ps(from.as_ptr())) }
        }

        #[inline(always)]
        fn store(self, to: &mut [f32; LANES]) {
            // SAFETY: as above.
            unsafe { _mm512_storeu_ps(to.as_mut_ptr(), self.0) }
        }

        #[inline(always)]
        fn at_least(self, other: Self) -> Self::Mask {
            // SAFETY: as above.
            unsafe { _mm512_cmp_ps_mask::<_CMP_GE_OQ>(self.0, other.0) }
        }

        #[inline(always)]
        fn differs(self, other: Self) -> Self::Mask {
            // SAFETY: as above.
            unsafe { _mm512_cmp_ps_mask::<_CMP_NEQ_UQ>(self.0, other.0) }
        }

        #[inline(always)]
        fn both(a: Self::Mask, b: Self::Mask) -> Self::Mask {
            a & b
        }

        #[inline(always)]
        fn select(self, mask: Self::Mask, other: Self) -> Self {
            // SAFETY: as above.
            unsafe { Self(_mm512_mask_blend_ps(mask, other.0, self.0)) }
        }

        #[inline(always)]
        fn bits(mask: Self::Mask) -> u16 {
            mask
        }

        #[inline(always)]
        fn greatest(self) -> f32 {
            // SAFETY: as above.
            unsafe {
                let high = _mm512_extractf32x8_ps::<1>(self.0);
                greatest(_mm256_max_ps(_mm512_castps512_ps256(self.0), high))
            }
        }

        #[inline(always)]
        fn sum(self) -> f64 {
            // SAFETY: as above.
            unsafe {
                let low = _mm512_cvtps_pd(_mm512_castps512_ps256(self.0));
                let high = _mm512_cvtps_pd(_mm512_extractf32x8_ps::<1>(self.0));
                let eight = _mm512_add_pd(low, high);
                let high = _mm512_extractf64x4_pd::<1>(eight);
                sum(_mm256_add_pd(_mm512_castpd512_pd256(eight), high))
            }
        }
    }

    /// Numbers with the low bits of `shifted` added to their exponents, or 0.
    ///
    /// # Safety
    ///
    /// The machine must have AVX2.
    #[inline(always)]
    unsafe fn scale(numbers: __m256, shifted: __m256, kept: __m256) -> __m256 {
        // SAFETY: as the caller has promised.
        unsafe {
            let power = _mm256_slli_epi32::<23>(_mm256_castps_si256(shifted));
            let scaled = _mm256_add_epi32(_mm256_castps_si256(numbers), power);
            _mm256_and_ps(_mm256_castsi256_ps(scaled), kept)
        }
    }

    /// The greatest of eight numbers.
    ///
    /// # Safety
    ///
    /// The machine must have AVX.
    #[inline(always)]
    unsafe fn greatest(eight: __m256) -> f32 {
        // SAFETY: as the caller has promised.
        unsafe {
            let four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
            let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps::<1>(two, two)))
        }
    }

    /// The sum of four numbers: of the first and third, and of the others.
    ///
    /// # Safety
    ///
    /// The machine must have AVX.
    #[inline(always)]
    unsafe fn sum(four: std::arch::x86_64::__m256d) -> f64 {
        // SAFETY: as the caller has promised.
        unsafe {
            let two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd::<1>(four));
            _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)))
        }
    }
}
