//! Where a kernel stands under a GPU's roofline: the lower of what its arithmetic and what its memory allow.
//!
//! Arithmetic intensity is floating-point operations per byte that comes from or goes to memory. How many bytes those
//! are depends on how well the caches do, so there are two answers with the truth between them: if no cache helps,
//! every sector that a request touches is moved for that request; if caches are perfect, each matrix is moved once.
//!
//! Whatever the caches do, every access passes the unit that serves shared memory and the first-level cache, wavefront by
//! wavefront. That is a roof of its own, which doesn't depend on the intensity.

use std::time::Duration;

use ptx_simulator::observe::costs::Counts;
use serde::Serialize;

use crate::gpus::Gpu;

pub use ptx_simulator::observe::costs::sectors::SECTOR_BYTES;

/// A kernel at one arithmetic intensity.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Bytes moved.
    pub bytes: u64,
    /// Operations per byte.
    pub intensity: f64,
    /// The most operations per second that the GPU allows there.
    pub attainable: f64,
    /// Whether it is memory that limits there, not arithmetic.
    pub memory_bound: bool,
}

/// The unit of each multiprocessor that serves shared memory and the first-level cache.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SharedAndL1 {
    /// The fewest wavefronts that the launch takes: those of its accesses to shared memory, and one for each request to
    /// global memory. Asynchronous copies are both, and count as the former only.
    pub wavefronts: u64,
    /// The clock at which the unit is taken to run, that of the peak in f32, in hertz. It serves a wavefront each clock.
    pub clock: f64,
    /// The most operations per second if the unit is never idle, or those of the arithmetic if they are fewer.
    pub attainable: f64,
}

impl SharedAndL1 {
    /// The bound for a launch that does `operations` operations, at most `peak` per second, and costs `counts`. `None` without
    /// accesses and where it isn't known how fast the unit of `gpu` is.
    pub fn new(gpu: &Gpu, peak: f64, operations: f64, counts: &Counts) -> Option<SharedAndL1> {
        let requests = counts.global().requests - counts.global_copies.requests;
        let wavefronts = counts.shared().units + requests;
        let per_second = gpu.wavefronts_per_second().filter(|_| wavefronts > 0)?;
        let attainable = (operations / wavefronts as f64 * per_second).min(peak);
        Some(SharedAndL1 { wavefronts, clock: gpu.clock(), attainable })
    }
}

/// A kernel under a GPU's roofline.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Roofline {
    /// Operations per second that the arithmetic of the kernel's precision allows.
    pub peak: f64,
    /// Bytes per second of the memory.
    pub bandwidth: f64,
    /// The intensity from which on arithmetic limits, in operations per byte.
    pub ridge: f64,
    /// With no cache: every sector that a request touches is moved.
    pub requested: Point,
    /// With perfect caches: each matrix is moved once.
    pub perfect_caches: Point,
    /// What shared memory and the first-level cache allow, where it's known.
    pub shared_and_l1: Option<SharedAndL1>,
    /// Operations per second as measured on this GPU.
    pub measured: Option<f64>,
}

/// Operations of an m x k by k x n product: a multiplication and an addition per multiply-add.
pub fn operations([m, n, k]: [usize; 3]) -> f64 {
    2.0 * m as f64 * n as f64 * k as f64
}

/// Operations per second of such a product that takes `time`.
pub fn operations_per_second(shape: [usize; 3], time: Duration) -> f64 {
    // A clock with a coarse grain may say that no time has passed.
    operations(shape) / time.as_secs_f64().max(1e-12)
}

impl Roofline {
    /// The roofline of `gpu`, whose arithmetic does `peak` operations per second, with a kernel that does `operations`
    /// operations, touches `requested_bytes` bytes of memory in whole sectors, and at least has to move `matrix_bytes`.
    pub fn new(gpu: &Gpu, peak: f64, operations: f64, requested_bytes: u64, matrix_bytes: u64) -> Roofline {
        let point = |bytes: u64| {
            let intensity = operations / bytes.max(1) as f64;
            let by_memory = intensity * gpu.bandwidth;
            Point { bytes, intensity, attainable: by_memory.min(peak), memory_bound: by_memory < peak }
        };
        Roofline {
            peak,
            bandwidth: gpu.bandwidth,
            ridge: peak / gpu.bandwidth,
            requested: point(requested_bytes),
            perfect_caches: point(matrix_bytes),
            shared_and_l1: None,
            measured: None,
        }
    }

    /// The roof at an intensity, in operations per second.
    pub fn roof(&self, intensity: f64) -> f64 {
        (intensity * self.bandwidth).min(self.peak)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpus;

    #[test]
    fn a_kernel_without_reuse_is_held_down_by_memory_and_one_with_all_by_arithmetic() {
        let gpu = gpus::default();
        let operations = operations([1024; 3]);
        // 8 bytes for each of the 2^30 multiply-adds, or the three matrices once.
        let roofline = Roofline::new(gpu, gpu.peak_f32, operations, 8 << 30, 12 << 20);
        assert_eq!(roofline.requested.intensity, 0.25);
        assert_eq!(roofline.requested.attainable, 1.2e12);
        assert!(roofline.requested.memory_bound);
        assert!((roofline.perfect_caches.intensity - 170.67).abs() < 0.01);
        assert_eq!(roofline.perfect_caches.attainable, 67e12);
        assert!(!roofline.perfect_caches.memory_bound);
        assert_eq!(roofline.roof(roofline.ridge), 67e12);
    }

    #[test]
    fn two_reads_of_shared_memory_for_each_multiply_add_hold_a_kernel_down_whatever_the_caches_do() {
        // The tiled kernel at N = 1024: 54.5 million wavefronts of shared memory and 4.2 million requests for the rest.
        let mut counts = Counts::default();
        counts.shared_loads.units = 54_500_000;
        counts.global_loads.requests = 4_200_000;
        let (h200, t4) = (gpus::default(), gpus::by_name("T4").unwrap());
        let found = SharedAndL1::new(h200, h200.peak_f32, operations([1024; 3]), &counts).unwrap();
        assert_eq!(found.wavefronts, 58_700_000);
        assert!((9.4e12..9.7e12).contains(&found.attainable), "{found:?}");
        assert_eq!(SharedAndL1::new(h200, h200.peak_f32, 1.0, &Counts::default()), None);
        assert_eq!(SharedAndL1::new(t4, t4.peak_f32, 1.0, &counts), None);
    }
}
