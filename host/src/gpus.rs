//! Published figures of GPUs: what a multiprocessor can hold, how fast the chip computes and how fast its memory is.
//!
//! Enough for an occupancy and a roofline without the GPU at hand. Peak and bandwidth are the makers' figures, which a
//! real program comes close to at best.

use gpu_kernels::{Kernel, Precision};

/// What one multiprocessor of a compute capability can hold.
///
/// Source, unless said otherwise: NVIDIA, *CUDA C++ Programming Guide*, the table "Technical Specifications per Compute
/// Capability". The granularities are those of `cuda_occupancy.h` of the CUDA toolkit 13.0, NVIDIA's own calculation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MultiprocessorLimits {
    /// Threads that can be resident.
    pub threads: u32,
    /// Blocks that can be resident.
    pub blocks: u32,
    /// 32-bit registers.
    pub registers: u32,
    /// Shared memory in bytes, all blocks together.
    pub shared_bytes: u32,
    /// The most shared memory that one block can have, in bytes.
    pub shared_bytes_per_block: u32,
    /// Shared memory of a block is rounded up to a multiple of this many bytes.
    pub shared_granularity: u32,
    /// Shared memory that the system takes for itself in every block, in bytes.
    pub shared_reserved_per_block: u32,
}

/// Threads of a warp, on every GPU so far.
pub const WARP: u32 = 32;

/// The most threads of a block, on every GPU so far.
pub const MAX_BLOCK_THREADS: u32 = 1024;

/// Registers are given to warps in pieces of this many (`cuda_occupancy.h`, all capabilities from 3.0).
pub const REGISTER_GRANULARITY: u32 = 256;

/// The most registers of a thread (programming guide, all capabilities from 3.5).
pub const MAX_REGISTERS_PER_THREAD: u32 = 255;

/// A multiprocessor has this many parts, each with its share of the registers (`cuda_occupancy.h`, all capabilities
/// here).
pub const PARTITIONS: u32 = 4;

const KIB: u32 = 1 << 10;

/// Volta, capability 7.0.
const VOLTA: MultiprocessorLimits = MultiprocessorLimits {
    threads: 2048,
    blocks: 32,
    registers: 65_536,
    shared_bytes: 96 * KIB,
    shared_bytes_per_block: 96 * KIB,
    shared_granularity: 256,
    shared_reserved_per_block: 0,
};

/// Turing, capability 7.5.
const TURING: MultiprocessorLimits = MultiprocessorLimits {
    threads: 1024,
    blocks: 16,
    shared_bytes: 64 * KIB,
    shared_bytes_per_block: 64 * KIB,
    ..VOLTA
};

/// Ampere in data centres, capability 8.0. From 8.0 on the system reserves 1 KiB of shared memory per block (NVIDIA,
/// *Ampere Tuning Guide*, "Unified Shared Memory/L1/Texture Cache").
const AMPERE: MultiprocessorLimits = MultiprocessorLimits {
    shared_bytes: 164 * KIB,
    shared_bytes_per_block: 163 * KIB,
    shared_granularity: 128,
    shared_reserved_per_block: KIB,
    ..VOLTA
};

/// Ampere in graphics cards, capability 8.6.
const AMPERE_GRAPHICS: MultiprocessorLimits = MultiprocessorLimits {
    threads: 1536,
    blocks: 16,
    shared_bytes: 100 * KIB,
    shared_bytes_per_block: 99 * KIB,
    ..AMPERE
};

/// Ada, capability 8.9.
const ADA: MultiprocessorLimits = MultiprocessorLimits { blocks: 24, ..AMPERE_GRAPHICS };

/// Hopper, capability 9.0.
const HOPPER: MultiprocessorLimits =
    MultiprocessorLimits { shared_bytes: 228 * KIB, shared_bytes_per_block: 227 * KIB, ..AMPERE };

/// How fast tensor cores are with factors of bf16 and sums of f32, all elements being there: makers like to give twice as
/// much, for matrices half of which are zeros in certain places.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TensorCores {
    /// Multiply-adds of those of a multiprocessor each clock.
    pub multiply_adds: u32,
    /// Floating-point operations per second of all; a multiply-add counts as two.
    pub peak: f64,
}

/// One model of GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gpu {
    /// What users call it.
    pub name: &'static str,
    /// What the driver calls it.
    pub driver_names: &'static [&'static str],
    /// Compute capability as (major, minor).
    pub compute_capability: (u32, u32),
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Lanes of a multiprocessor that do a multiply-add in f32 each clock.
    pub f32_lanes: u32,
    /// Floating-point operations per second in f32 without tensor cores; a fused multiply-add counts as two.
    pub peak_f32: f64,
    /// Its tensor cores, if they take bf16: from compute capability 8.0 on.
    pub bf16: Option<TensorCores>,
    /// Bytes per second to and from its memory.
    pub bandwidth: f64,
    /// Whether a multiprocessor hands out a wavefront of 128 bytes, from shared memory or from its first-level cache,
    /// each clock.
    ///
    /// Shared memory has 32 banks of 32 bits per clock (NVIDIA, *CUDA C++ Programming Guide*, "Shared Memory" of
    /// compute capability 5.x, to which later ones refer). Not so on Turing: 64 bytes per clock, where GA10x has 128
    /// (NVIDIA, *Ampere GA102 GPU Architecture*).
    pub wavefront_per_clock: bool,
    /// What a multiprocessor can hold.
    pub limits: MultiprocessorLimits,
}

impl Gpu {
    /// The name of its instruction set for NVIDIA's assembler, such as `sm_90`.
    pub fn architecture(&self) -> String {
        let (major, minor) = self.compute_capability;
        format!("sm_{major}{minor}")
    }

    /// The instruction set for which a kernel is assembled to run on it: its own, or that which the kernel needs.
    pub fn architecture_for(&self, kernel: &Kernel) -> String {
        match kernel.architecture.runs_on_later_gpus() {
            true => self.architecture(),
            false => kernel.architecture.name().replace("compute", "sm"),
        }
    }

    /// Whether `name` is its name or the one that its driver gives it, spaces, hyphens and capitals apart.
    pub fn is_called(&self, name: &str) -> bool {
        let plain = |name: &str| name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
        let wanted = plain(name);
        [self.name].iter().chain(self.driver_names).any(|name| plain(name) == wanted)
    }

    /// The most floating-point operations per second in a precision; `None` if the GPU doesn't have it.
    pub fn peak(&self, precision: Precision) -> Option<f64> {
        match precision {
            Precision::F32 => Some(self.peak_f32),
            // Those of f16 are as fast as those of bf16, those of tf32 half as fast.
            Precision::Bf16 | Precision::F16 => self.bf16.map(|cores| cores.peak),
            Precision::Tf32 => self.bf16.map(|cores| cores.peak / 2.0),
            // Three products of parts for each.
            Precision::F32Parts => self.bf16.map(|cores| cores.peak / 3.0),
        }
    }

    /// The clock at which it reaches its peak in f32, in hertz.
    pub fn clock(&self) -> f64 {
        self.peak_f32 / (2.0 * f64::from(self.f32_lanes) * f64::from(self.multiprocessors))
    }

    /// The most wavefronts per second, of all multiprocessors together and at the clock of the peak; `None` where it
    /// isn't known how many clocks one takes.
    pub fn wavefronts_per_second(&self) -> Option<f64> {
        self.wavefront_per_clock.then(|| self.clock() * f64::from(self.multiprocessors))
    }
}

/// The GPUs that are known, oldest first.
///
/// Lanes of a multiprocessor are those of the white papers: 64 in Volta, Turing and the A100, 128 in GA10x, Ada and
/// Hopper. So are the multiply-adds of tensor cores, given there as those of one: 256 in the A100, which has 4 in a
/// multiprocessor, 512 in Hopper. Those of graphics cards follow from peak and clock.
pub const GPUS: &[Gpu] = &[
    // NVIDIA V100 data sheet (2020): SXM2, single precision 15.7 TFLOPS, 900 GB/s. 80 multiprocessors: Volta white paper.
    Gpu {
        name: "V100",
        driver_names: &["Tesla V100-SXM2-16GB", "Tesla V100-SXM2-32GB"],
        compute_capability: (7, 0),
        multiprocessors: 80,
        f32_lanes: 64,
        peak_f32: 15.7e12,
        bf16: None,
        bandwidth: 900e9,
        wavefront_per_clock: true,
        limits: VOLTA,
    },
    // NVIDIA T4 data sheet: single precision 8.1 TFLOPS, 320 GB/s (2560 CUDA cores, 64 per multiprocessor).
    Gpu {
        name: "T4",
        driver_names: &["Tesla T4"],
        compute_capability: (7, 5),
        multiprocessors: 40,
        f32_lanes: 64,
        peak_f32: 8.1e12,
        bf16: None,
        bandwidth: 320e9,
        wavefront_per_clock: false,
        limits: TURING,
    },
    // NVIDIA A100 data sheet: FP32 19.5 TFLOPS, BFLOAT16 tensor core 312 TFLOPS; SXM 40 GB 1,555 GB/s, SXM 80 GB 2,039 GB/s.
    // 108 multiprocessors: A100 white paper.
    Gpu {
        name: "A100-40GB",
        driver_names: &["NVIDIA A100-SXM4-40GB"],
        compute_capability: (8, 0),
        multiprocessors: 108,
        f32_lanes: 64,
        peak_f32: 19.5e12,
        bf16: Some(TensorCores { multiply_adds: 1024, peak: 312e12 }),
        bandwidth: 1_555e9,
        wavefront_per_clock: true,
        limits: AMPERE,
    },
    Gpu {
        name: "A100-80GB",
        driver_names: &["NVIDIA A100-SXM4-80GB"],
        compute_capability: (8, 0),
        multiprocessors: 108,
        f32_lanes: 64,
        peak_f32: 19.5e12,
        bf16: Some(TensorCores { multiply_adds: 1024, peak: 312e12 }),
        bandwidth: 2_039e9,
        wavefront_per_clock: true,
        limits: AMPERE,
    },
    // NVIDIA Ampere GA102 white paper, table of GeForce RTX 3090: 82 multiprocessors, peak FP32 35.6 TFLOPS, peak BF16 tensor
    // with FP32 accumulate 71 TFLOPS, 936 GB/s.
    Gpu {
        name: "RTX3090",
        driver_names: &["NVIDIA GeForce RTX 3090"],
        compute_capability: (8, 6),
        multiprocessors: 82,
        f32_lanes: 128,
        peak_f32: 35.6e12,
        bf16: Some(TensorCores { multiply_adds: 256, peak: 71e12 }),
        bandwidth: 936e9,
        wavefront_per_clock: true,
        limits: AMPERE_GRAPHICS,
    },
    // NVIDIA Ada GPU architecture white paper, table of GeForce RTX 4090: 128 multiprocessors, peak FP32 82.6 TFLOPS,
    // peak BF16 tensor with FP32 accumulate 165.2 TFLOPS, 1,008 GB/s.
    Gpu {
        name: "RTX4090",
        driver_names: &["NVIDIA GeForce RTX 4090"],
        compute_capability: (8, 9),
        multiprocessors: 128,
        f32_lanes: 128,
        peak_f32: 82.6e12,
        bf16: Some(TensorCores { multiply_adds: 256, peak: 165.2e12 }),
        bandwidth: 1_008e9,
        wavefront_per_clock: true,
        limits: ADA,
    },
    // NVIDIA L40S data sheet: FP32 91.6 TFLOPS, BFLOAT16 tensor core 362.05 TFLOPS, 864 GB/s (18,176 CUDA cores, 128 per
    // multiprocessor).
    Gpu {
        name: "L40S",
        driver_names: &["NVIDIA L40S"],
        compute_capability: (8, 9),
        multiprocessors: 142,
        f32_lanes: 128,
        peak_f32: 91.6e12,
        bf16: Some(TensorCores { multiply_adds: 512, peak: 362.05e12 }),
        bandwidth: 864e9,
        wavefront_per_clock: true,
        limits: ADA,
    },
    // NVIDIA H100 data sheet: SXM, FP32 67 TFLOPS, BFLOAT16 tensor core 1,979 TFLOPS with sparsity, half of it without,
    // 3.35 TB/s. 132 multiprocessors: H100 white paper.
    Gpu {
        name: "H100",
        driver_names: &["NVIDIA H100 80GB HBM3"],
        compute_capability: (9, 0),
        multiprocessors: 132,
        f32_lanes: 128,
        peak_f32: 67e12,
        bf16: Some(TensorCores { multiply_adds: 2048, peak: 989.5e12 }),
        bandwidth: 3_350e9,
        wavefront_per_clock: true,
        limits: HOPPER,
    },
    // NVIDIA H200 data sheet: SXM, FP32 67 TFLOPS, BFLOAT16 tensor core 1,979 TFLOPS with sparsity, half of it without,
    // 4.8 TB/s. 132 multiprocessors, as the driver says.
    Gpu {
        name: "H200",
        driver_names: &["NVIDIA H200"],
        compute_capability: (9, 0),
        multiprocessors: 132,
        f32_lanes: 128,
        peak_f32: 67e12,
        bf16: Some(TensorCores { multiply_adds: 2048, peak: 989.5e12 }),
        bandwidth: 4_800e9,
        wavefront_per_clock: true,
        limits: HOPPER,
    },
];

/// Lanes of a multiprocessor of this compute capability that do a multiply-add in f32 each clock.
///
/// Source: NVIDIA, *CUDA C++ Programming Guide*, "Throughput of Native Arithmetic Instructions", the row of 32-bit
/// floating-point add, multiply, multiply-add. `None` for capabilities that it doesn't list.
pub fn f32_lanes((major, minor): (u32, u32)) -> Option<u32> {
    match (major, minor) {
        (7, _) | (8, 0) => Some(64),
        (8 | 9 | 10 | 12, _) => Some(128),
        _ => None,
    }
}

/// Multiply-adds in a precision that a multiprocessor does each clock, of a GPU that its driver calls `name`. `None` if it
/// isn't known: [`f32_lanes`] doesn't list the capability, or [`GPUS`] not the GPU, whose tensor cores may be as fast as half
/// or twice those of another one of the same capability.
pub fn multiply_adds(precision: Precision, name: &str, compute_capability: (u32, u32)) -> Option<u32> {
    match precision {
        Precision::F32 => f32_lanes(compute_capability),
        Precision::Bf16 | Precision::F16 => by_name(name).ok()?.bf16.map(|cores| cores.multiply_adds),
        Precision::Tf32 => by_name(name).ok()?.bf16.map(|cores| cores.multiply_adds / 2),
        Precision::F32Parts => by_name(name).ok()?.bf16.map(|cores| cores.multiply_adds / 3),
    }
}

/// A GPU that is in no list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no GPU named '{}' in the table; known GPUs: {}", .name.escape_debug(), names().join(", "))]
pub struct UnknownGpu {
    /// The name that was asked for.
    pub name: String,
}

/// The names of all known GPUs, oldest first.
pub fn names() -> Vec<&'static str> {
    GPUS.iter().map(|gpu| gpu.name).collect()
}

/// The GPU that is assumed when nobody says which.
pub fn default() -> &'static Gpu {
    GPUS.iter().find(|gpu| gpu.name == "H200").expect("the H200 is in the table")
}

/// The GPU whose limits to apply: the one that was named, else the one here, which its driver calls `device`, if it's
/// known, else [`default`].
pub fn choose(named: Option<&'static Gpu>, device: &str) -> &'static Gpu {
    named.or_else(|| by_name(device).ok()).unwrap_or_else(default)
}

/// Finds a GPU by its name, spaces, hyphens and capitals apart, or by the name that its driver gives it.
///
/// # Errors
///
/// [`UnknownGpu`], which lists the known ones.
pub fn by_name(name: &str) -> Result<&'static Gpu, UnknownGpu> {
    GPUS.iter().find(|gpu| gpu.is_called(name)).ok_or_else(|| UnknownGpu { name: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_found_by_the_names_that_people_and_drivers_give_them() {
        for (name, gpu) in [("h200", "H200"), ("RTX 4090", "RTX4090"), ("NVIDIA A100-SXM4-80GB", "A100-80GB")] {
            assert_eq!(by_name(name).unwrap().name, gpu);
        }
        assert_eq!(default().architecture(), "sm_90");
    }

    #[test]
    fn the_lanes_of_a_capability_are_those_of_its_gpus() {
        assert!(GPUS.iter().all(|gpu| f32_lanes(gpu.compute_capability) == Some(gpu.f32_lanes)));
        assert_eq!(f32_lanes((99, 0)), None);
        assert_eq!(multiply_adds(Precision::F32, "some card", (8, 9)), Some(128));
        assert_eq!(multiply_adds(Precision::Bf16, "some card", (8, 9)), None);
        assert_eq!(multiply_adds(Precision::Bf16, "NVIDIA L40S", (8, 9)), Some(512));
    }

    #[test]
    fn the_gpu_that_was_named_comes_before_the_one_here_and_that_before_the_default() {
        let t4 = by_name("T4").ok();
        assert_eq!(choose(t4, "NVIDIA L40S").name, "T4");
        assert_eq!(choose(None, "NVIDIA L40S").name, "L40S");
        assert_eq!(choose(None, "PTX simulator"), default());
    }

    #[test]
    fn tensor_cores_take_bf16_from_compute_capability_8_on_and_reach_their_peak_near_the_clock_of_f32() {
        for gpu in GPUS {
            assert_eq!(gpu.bf16.is_some(), gpu.compute_capability >= (8, 0), "{}", gpu.name);
            if let Some(TensorCores { multiply_adds, peak }) = gpu.bf16 {
                // Hopper's is given at 1,830 MHz, a clock below that of f32's.
                let clock = peak / (2.0 * f64::from(multiply_adds) * f64::from(gpu.multiprocessors));
                assert!((0.9..1.01).contains(&(clock / gpu.clock())), "{}: {clock}", gpu.name);
            }
        }
        let h200 = default();
        assert_eq!((h200.peak(Precision::F32), h200.peak(Precision::Bf16)), (Some(67e12), Some(989.5e12)));
    }

    #[test]
    fn the_clock_follows_from_the_peak() {
        // Boost clocks as their makers have them, in MHz.
        for (name, clock) in
            [("V100", 1530.0), ("T4", 1590.0), ("A100-40GB", 1410.0), ("RTX3090", 1695.0), ("RTX4090", 2520.0)]
        {
            let found = by_name(name).unwrap().clock() / 1e6;
            assert!((found / clock - 1.0).abs() < 0.01, "{name}: {found}");
        }
        assert_eq!(by_name("T4").unwrap().wavefronts_per_second(), None);
    }

    #[test]
    fn names_that_would_move_the_cursor_are_escaped() {
        let error = by_name("\n\u{1b}[31m").unwrap_err().to_string();
        assert!(error.contains(r"'\n\u{1b}[31m'") && !error.contains(char::is_control), "{error}");
    }

    #[test]
    fn an_unknown_gpu_is_refused_with_the_known_ones() {
        let error = by_name("RTX 3090 Ti").unwrap_err().to_string();
        assert!(error.contains("'RTX 3090 Ti'") && error.contains("V100, T4, A100-40GB"), "{error}");
    }
}
