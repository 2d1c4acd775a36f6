//! What follows from the counts of a launch: shares, degrees and bytes that can be compared from launch to launch.

use gpu_kernels::Precision;
use ptx_simulator::observe::costs::{Counts, Traffic};
use serde::Serialize;

use super::requested_bytes;

/// What follows from the counts of a whole launch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratios {
    /// Fused multiply-adds among the issued instructions.
    pub fma_share: f64,
    /// Matrix products on tensor cores among the issued instructions.
    pub mma_share: f64,
    /// Wavefronts of shared memory by the fewest possible; none without shared accesses.
    pub bank_conflict_degree: Option<f64>,
    /// Sectors by the fewest possible; none without global accesses.
    pub sectors_by_ideal: Option<f64>,
    /// Bytes of all sectors that requests to global memory touch.
    pub global_bytes: u64,
    /// The same per element of C.
    pub global_bytes_per_output: f64,
    /// How often an element of A or B is loaded or copied by a thread, on average.
    pub loads_per_input_element: f64,
}

impl Ratios {
    /// The ratios of a launch for an m x k by k x n product of a kernel of that precision.
    pub fn new(counts: &Counts, [m, n, k]: [usize; 3], precision: Precision) -> Ratios {
        let by_ideal = |traffic: Traffic| (traffic.ideal > 0).then(|| traffic.units as f64 / traffic.ideal as f64);
        let global_bytes = requested_bytes(counts);
        let share = |instructions: u64| instructions as f64 / counts.warp_instructions.max(1) as f64;
        let inputs = m as f64 * k as f64 + k as f64 * n as f64;
        Ratios {
            fma_share: share(counts.warp_fma),
            mma_share: share(counts.warp_mma),
            bank_conflict_degree: by_ideal(counts.shared()),
            sectors_by_ideal: by_ideal(counts.global()),
            global_bytes,
            global_bytes_per_output: global_bytes as f64 / (m as f64 * n as f64),
            loads_per_input_element: (counts.global_loads.bytes + counts.global_copies.bytes) as f64
                / precision.factors().bytes() as f64
                / inputs,
        }
    }
}

/// Wavefronts or sectors of a request on average, and the fewest possible.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PerRequest {
    /// Wavefronts (shared memory) or sectors (global memory).
    pub units: f64,
    /// The fewest possible.
    pub ideal: f64,
}

impl PerRequest {
    /// The averages of `traffic`; zeros if there was none.
    pub fn of(traffic: &Traffic) -> PerRequest {
        let average = |units: u64| units as f64 / traffic.requests.max(1) as f64;
        PerRequest { units: average(traffic.units), ideal: average(traffic.ideal) }
    }
}
