//! GPU generations, and which PTX to write for them.
use std::fmt;

macro_rules! architectures {
    ($($(#[$documentation:meta])* $name:ident = $number:literal $suffix:literal;)*) => {
        /// The GPU generation that a module is compiled for, by its compute capability. PTX for a level runs on every
        /// later GPU too, except that of a level with an `a`, which runs on that very generation alone.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum NvvmArch { $($(#[$documentation])* $name,)* }

        impl NvvmArch {
            /// Every level, lowest first.
            pub const ALL: &[NvvmArch] = &[$(NvvmArch::$name,)*];

            /// The compute capability times ten: 70 for 7.0.
            pub fn capability(self) -> u32 {
                match self { $(NvvmArch::$name => $number,)* }
            }

            /// The name that LLVM and ptxas know the level by: `sm_70`, `sm_90a`.
            pub fn target_cpu(self) -> &'static str {
                match self { $(NvvmArch::$name => concat!("sm_", $number, $suffix),)* }
            }
        }

        impl fmt::Display for NvvmArch {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(NvvmArch::$name => concat!("compute_", $number, $suffix),)* })
            }
        }
    };
}

architectures! {
    /// Kepler.
    Compute35 = 35 "";
    /// Kepler.
    Compute37 = 37 "";
    /// Maxwell.
    Compute50 = 50 "";
    /// Maxwell.
    Compute52 = 52 "";
    /// Maxwell, Jetson.
    Compute53 = 53 "";
    /// Pascal, data centre.
    Compute60 = 60 "";
    /// Pascal.
    Compute61 = 61 "";
    /// Pascal, Jetson.
    Compute62 = 62 "";
    /// Volta.
    Compute70 = 70 "";
    /// Volta, Jetson.
    Compute72 = 72 "";
    /// Turing.
    Compute75 = 75 "";
    /// Ampere, data centre.
    Compute80 = 80 "";
    /// Ampere.
    Compute86 = 86 "";
    /// Ampere, Jetson.
    Compute87 = 87 "";
    /// Ada.
    Compute89 = 89 "";
    /// Hopper.
    Compute90 = 90 "";
    /// Hopper, with what only Hopper has.
    Compute90a = 90 "a";
    /// Blackwell, data centre.
    Compute100 = 100 "";
    /// Blackwell, data centre, with what only that generation has.
    Compute100a = 100 "a";
    /// Blackwell, Jetson.
    Compute101 = 101 "";
    /// Blackwell, Jetson, with what only that generation has.
    Compute101a = 101 "a";
    /// Blackwell Ultra.
    Compute103 = 103 "";
    /// Blackwell Ultra, with what only that generation has.
    Compute103a = 103 "a";
    /// Blackwell.
    Compute120 = 120 "";
    /// Blackwell, with what only that generation has.
    Compute120a = 120 "a";
    /// Blackwell, DGX Spark.
    Compute121 = 121 "";
    /// Blackwell, DGX Spark, with what only that generation has.
    Compute121a = 121 "a";
}

impl Default for NvvmArch {
    /// The level of the published `cuda_builder`.
    fn default() -> Self {
        NvvmArch::Compute61
    }
}

impl NvvmArch {
    /// The value of `CUDA_ARCH` while kernels are compiled: the compute capability times a hundred.
    pub(crate) fn cuda_arch_variable(self) -> String {
        (self.capability() * 10).to_string()
    }

    /// The LLVM feature that sets the PTX version, where LLVM's own choice isn't the right one.
    ///
    /// A driver loads PTX up to its own version only, so the oldest one that will do is the best: LLVM takes the oldest
    /// that knows the GPU. For levels up to 8.0 that is as old as PTX 3.2 to 7.0, in which instructions are missing
    /// that those GPUs have (`activemask` came with 6.2, `nanosleep` with 6.3, and `mbarrier.test_wait.parity`, for 8.0, with
    /// 7.1). So these get 7.0, which every driver since CUDA 11.0 loads, and 8.0 gets 7.1, for which it takes CUDA 11.1. For 9.0 LLVM takes 8.0; `st.async`
    /// came with 8.1, for which it takes CUDA 12.1.
    pub(crate) fn ptx_version_feature(self) -> Option<&'static str> {
        match self.capability() {
            ..80 => Some("+ptx70"),
            80 => Some("+ptx71"),
            90 => Some("+ptx81"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_named_as_llvm_and_nvcc_name_them() {
        assert_eq!(NvvmArch::Compute70.target_cpu(), "sm_70");
        assert_eq!(NvvmArch::Compute90a.target_cpu(), "sm_90a");
        assert_eq!(NvvmArch::Compute120a.to_string(), "compute_120a");
        assert_eq!(NvvmArch::Compute100.cuda_arch_variable(), "1000");
    }

    #[test]
    fn levels_are_in_order() {
        assert!(NvvmArch::ALL.is_sorted());
        assert!(NvvmArch::ALL.is_sorted_by_key(|level| level.capability()));
    }
}
