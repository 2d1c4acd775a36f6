//! How fast are the kernels beside NVIDIA's own library? Every contender on the same products, on one GPU, in one run.
//!
//! | room | question |
//! |---|---|
//! | `problem` | what is multiplied? |
//! | `contender` | who multiplies? |
//! | `data` | where do the matrices stand? |
//! | `check` | are the products right? |
//! | `measure` | how long do they take? |
//! | `rounds` | who is timed when? |
//! | `statistics` | what do many times say? |
//! | `counts` | what do the launches of a product cost, without a GPU? |
//!
//! # What is compared
//!
//! Time on the device alone: launches are recorded in a CUDA graph and follow each other there without the host, ours and
//! cuBLAS's alike, on one stream, with the same matrices. The matrices are random, of one kind of [`Numbers`], and small ones stand in memory in so
//! many copies that together they take twice the second-level cache; each launch uses the next copy. A graph holds enough
//! launches to take five milliseconds. Contenders take turns in rounds of changing order, and the median round counts. Under
//! load ([`Schedule::Sustained`]) they run one after the other for longer, and the median graph counts.
//! cuBLAS computes in f32 without TF32; see [`crate::cublas`].
//!
//! All contenders of a comparison compute in one precision, cuBLAS too: a product of bf16 takes tensor cores a fraction of
//! the time and isn't the same product.
//!
//! Before that, every product is checked: C is filled with NaN, computed twice in every copy, compared with an f64
//! reference, and all results must have the same bits.

pub mod check;
pub mod contender;
pub mod counts;
pub mod data;
pub mod measure;
pub mod problem;
pub mod rounds;
pub mod statistics;

use crate::{cublas::CublasError, device::DeviceError, gemm::GemmError};

pub use contender::{Contender, Hands};
pub use data::Numbers;
pub use measure::{Measurement, Settings, measure};
pub use problem::{Operation, Problem, Set};
pub use rounds::Schedule;

use statistics::geometric_mean;

/// Why a measurement came to no end.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A contender that can't do a problem.
    #[error(
        "'{contender}' doesn't take {problem} (kernels of the book take neither transposes nor batches, and some take multiples of their tile only); leave it or the shape out"
    )]
    NotTaken {
        /// Who.
        contender: String,
        /// What.
        problem: Problem,
    },
    /// Matrices that don't fit in this machine's memory.
    #[error(
        "the matrices of {problem} need {bytes} bytes of host memory, which are not to be had; choose smaller shapes"
    )]
    HostMemory {
        /// The problem.
        problem: Problem,
        /// Bytes needed.
        bytes: u128,
    },
    /// A contender that failed.
    #[error("{contender} with {problem}: {source}")]
    Failed {
        /// Who.
        contender: String,
        /// With what.
        problem: Problem,
        /// How.
        source: Box<BenchError>,
    },
    /// A product, or its launch.
    #[error(transparent)]
    Gemm(#[from] GemmError),
    /// cuBLAS.
    #[error(transparent)]
    Cublas(#[from] CublasError),
    /// The device.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// How a contender did against cuBLAS over all problems that both did.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// The contender.
    pub contender: Contender,
    /// How many problems.
    pub problems: usize,
    /// The geometric mean of the ratios, cuBLAS's time by the contender's.
    pub mean: f64,
    /// The smallest ratio.
    pub least: f64,
    /// Where that was.
    pub least_at: Problem,
    /// How often the contender was at least as fast.
    pub ahead: usize,
    /// The largest ratio of errors, the contender's largest error by cuBLAS's, and where that was.
    pub worst_error: Option<(f64, Problem)>,
}

/// How each contender did against cuBLAS; empty without cuBLAS.
pub fn summaries(measurements: &[Measurement]) -> Vec<Summary> {
    let mut contenders: Vec<Contender> = Vec::new();
    for entry in measurements.iter().flat_map(|measurement| &measurement.entries) {
        if entry.contender.is_ours() && !contenders.contains(&entry.contender) {
            contenders.push(entry.contender.clone());
        }
    }
    let summary = |contender: &Contender| {
        let ratios: Vec<(f64, Problem)> = measurements
            .iter()
            .filter_map(|measurement| Some((measurement.ratio(contender)?, measurement.problem)))
            .collect();
        let (least, least_at) = ratios.iter().copied().min_by(|one, other| one.0.total_cmp(&other.0))?;
        let numbers: Vec<f64> = ratios.iter().map(|(ratio, _)| *ratio).collect();
        Some(Summary {
            contender: contender.clone(),
            problems: ratios.len(),
            mean: geometric_mean(&numbers)?,
            least,
            least_at,
            ahead: numbers.iter().filter(|ratio| **ratio >= 1.0).count(),
            worst_error: measurements
                .iter()
                .filter_map(|measurement| Some((measurement.error_ratio(contender)?[0], measurement.problem)))
                .max_by(|one, other| one.0.total_cmp(&other.0)),
        })
    };
    contenders.iter().filter_map(summary).collect()
}

/// Whether every product of this project was right.
pub fn passed(measurements: &[Measurement]) -> bool {
    let ours = measurements.iter().flat_map(|measurement| &measurement.entries);
    ours.filter(|entry| entry.contender.is_ours()).all(measure::Entry::passed)
}
