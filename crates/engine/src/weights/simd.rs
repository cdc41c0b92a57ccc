//! What the machine can do.

/// The instructions to compute with. All give the same bits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Simd {
    /// Those that every machine has.
    Portable,
    /// AVX2, FMA and F16C.
    #[cfg(target_arch = "x86_64")]
    Avx2(Detected),
    /// AVX-VNNI besides.
    #[cfg(target_arch = "x86_64")]
    AvxVnni(Detected),
    /// AVX-512 with byte and word instructions, all vector lengths, and VNNI;
    /// AVX2, FMA and F16C too.
    #[cfg(target_arch = "x86_64")]
    Avx512(Detected),
}

/// Only [`Simd::all`] can make one.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Detected(());

impl Simd {
    /// The best that this machine has.
    #[inline]
    pub(crate) fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c")
        {
            let detected = Detected(());
            if is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512vnni")
            {
                return Self::Avx512(detected);
            }
            if is_x86_feature_detected!("avxvnni") {
                return Self::AvxVnni(detected);
            }
            return Self::Avx2(detected);
        }
        Self::Portable
    }

    /// All that this machine has.
    #[cfg(test)]
    pub(crate) fn all() -> Vec<Self> {
        let mut all = vec![Self::Portable];
        #[cfg(target_arch = "x86_64")]
        if !matches!(Self::detect(), Self::Portable) {
            all.push(Self::Avx2(Detected(())));
            if is_x86_feature_detected!("avxvnni") {
                all.push(Self::AvxVnni(Detected(())));
            }
            if matches!(Self::detect(), Self::Avx512(_)) {
                all.push(Self::detect());
            }
        }
        all
    }
}

/// A function whose body the compiler translates once for each set of
/// instructions; its first argument says which of them runs. The body can call
/// nothing that is not inlined.
macro_rules! vectorized {
    ($(#[$attribute:meta])* $visibility:vis fn $name:ident$(<$($generic:ident: $bound:path),*>)?
     ($simd:ident: Simd, $($argument:ident: $kind:ty),* $(,)?) $(-> $out:ty)? $body:block) => {
        $(#[$attribute])*
        #[allow(unsafe_code)]
        $visibility fn $name$(<$($generic: $bound),*>)?($simd: Simd, $($argument: $kind),*) $(-> $out)? {
            #[inline(always)]
            fn body$(<$($generic: $bound),*>)?($($argument: $kind),*) $(-> $out)? $body
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,f16c")]
            fn avx2$(<$($generic: $bound),*>)?($($argument: $kind),*) $(-> $out)? {
                body$(::<$($generic),*>)?($($argument),*)
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl")]
            fn avx512$(<$($generic: $bound),*>)?($($argument: $kind),*) $(-> $out)? {
                body$(::<$($generic),*>)?($($argument),*)
            }
            match $simd {
                Simd::Portable => body$(::<$($generic),*>)?($($argument),*),
                // SAFETY: the value proves that the machine has AVX2, FMA and F16C.
                #[cfg(target_arch = "x86_64")]
                Simd::Avx2(_) | Simd::AvxVnni(_) => unsafe { avx2$(::<$($generic),*>)?($($argument),*) },
                // SAFETY: the value proves that the machine has all of these.
                #[cfg(target_arch = "x86_64")]
                Simd::Avx512(_) => unsafe { avx512$(::<$($generic),*>)?($($argument),*) },
            }
        }
    };
}
pub(crate) use vectorized;
