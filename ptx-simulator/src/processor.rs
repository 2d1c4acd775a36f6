//! What this machine's processor has beyond the baseline that the crate is compiled for.
//!
//! Hot loops are compiled once for each [`Level`] and the one to run is picked when the program runs. All give the same
//! bits.

/// Which processor features a function may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// The baseline of the compilation target.
    Portable,
    /// AVX2, FMA, F16C and the bit manipulation instructions.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// In addition AVX-512 with the byte, doubleword and vector-length extensions.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Level {
    /// The best level that this processor has.
    pub(crate) fn detected() -> Level {
        #[cfg(target_arch = "x86_64")]
        {
            // The standard library caches these answers.
            let avx2 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("f16c")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2")
                && is_x86_feature_detected!("lzcnt")
                && is_x86_feature_detected!("popcnt");
            let avx512 = avx2
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512cd");
            if avx512 {
                return Level::Avx512;
            }
            if avx2 {
                return Level::Avx2;
            }
        }
        Level::Portable
    }

    /// All levels that this processor can run.
    #[cfg(test)]
    pub(crate) fn available() -> Vec<Level> {
        #[cfg(target_arch = "x86_64")]
        match Level::detected() {
            Level::Avx512 => return vec![Level::Portable, Level::Avx2, Level::Avx512],
            Level::Avx2 => return vec![Level::Portable, Level::Avx2],
            Level::Portable => {}
        }
        vec![Level::Portable]
    }
}
