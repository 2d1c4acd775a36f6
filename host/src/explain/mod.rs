//! Why is a kernel as fast as it is? One launch on the simulator, counted by [`ptx_simulator::observe::costs`], put
//! beside the kernel's source and under the limits of a GPU.
//!
//! | room | question |
//! |---|---|
//! | `lines` | which source line does each instruction belong to, and what does the line cost? |
//! | `registers` | how many registers does a thread take? |
//! | `occupancy` | how many blocks does a multiprocessor hold? |
//! | `roofline` | what do arithmetic and memory allow? |
//! | `ratios` | what follows from the counts of the whole launch? |
//! | `notes` | what stands out? |
//!
//! The counts depend on the shape of the product and not on the numbers in the matrices, since no kernel here looks at
//! them before it decides where to go.

pub mod lines;
pub mod notes;
pub mod occupancy;
pub mod ratios;
pub mod registers;
pub mod roofline;

use std::time::Duration;

use gpu_kernels::{Kernel, LaunchShape, Precision, launch::ElementType};
use ptx_simulator::{
    SourceLocation,
    observe::costs::{Costs, Counts, InstructionCosts},
};

use crate::{
    device::DeviceError,
    gemm::{FactorBuffer, Gemm, GemmError, Timing},
    gpus::Gpu,
    kernels, matrix,
};

use lines::{Listing, Place, Source};
use notes::Note;
use occupancy::{BlockNeeds, Occupancy};
use ratios::Ratios;
use registers::{DriverCount, RegisterCounts, Registers};
use roofline::{Roofline, SECTOR_BYTES, SharedAndL1};

/// Why a kernel can't be explained.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// Nothing is launched, or nothing is computed.
    #[error("the product {m} x {n} x {k} (m x n x k) is empty: nothing is computed and there is nothing to explain")]
    Empty {
        /// Rows of C.
        m: usize,
        /// Columns of C.
        n: usize,
        /// The inner dimension.
        k: usize,
    },
    /// A GPU that has no such arithmetic, so that there is no roof to put the kernel under.
    #[error("the {gpu} has no tensor cores for {precision}, which '{kernel}' needs: name another GPU with --gpu")]
    NoPeak {
        /// The GPU.
        gpu: &'static str,
        /// The kernel.
        kernel: &'static str,
        /// The kernel's precision.
        precision: &'static str,
    },
    /// The launch.
    #[error(transparent)]
    Gemm(#[from] GemmError),
}

impl From<DeviceError> for ExplainError {
    fn from(error: DeviceError) -> ExplainError {
        ExplainError::Gemm(error.into())
    }
}

/// What one launch costs.
#[derive(Clone, Debug)]
pub struct Counted {
    /// Grid and block.
    pub launch: LaunchShape,
    /// Shared memory of a block in bytes: what the kernel's PTX declares and what the launch adds.
    pub shared_bytes: u32,
    /// All instructions together.
    pub total: Counts,
    /// Each instruction that was executed, in the order of the code.
    pub instructions: Vec<InstructionCosts>,
    /// The source line of every instruction of the kernel, executed or not, as the line directives have it.
    pub locations: Vec<Option<SourceLocation>>,
}

/// What a GPU's driver and its clock say.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The GPU's name, as its driver has it.
    pub device: String,
    /// The time of one launch, the median over batches of back-to-back launches.
    pub time: Duration,
    /// Launches behind it.
    pub launches: usize,
    /// Registers of a thread.
    pub registers: u32,
    /// Blocks that a multiprocessor holds.
    pub blocks_per_multiprocessor: u32,
}

/// A kernel, explained.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The kernel.
    pub kernel: Kernel,
    /// The product: m, n, k.
    pub shape: [usize; 3],
    /// What the launch costs.
    pub counted: Counted,
    /// What follows from that.
    pub ratios: Ratios,
    /// The source line of each instruction of the kernel.
    pub places: Vec<Option<Place>>,
    /// The source with what each line costs; empty if the PTX has no line directives for it.
    pub listings: Vec<Listing>,
    /// The GPU whose limits are applied.
    pub gpu: &'static Gpu,
    /// Registers of a thread.
    pub registers: Registers,
    /// How full a multiprocessor gets; an upper bound if the registers are unknown.
    pub occupancy: Occupancy,
    /// What arithmetic and memory allow.
    pub roofline: Roofline,
    /// The same launch on a GPU, where there is one.
    pub measured: Option<Measured>,
    /// What stands out.
    pub notes: Vec<Note>,
}

/// Counts what one launch of `kernel` costs for an m x k by k x n product of zeros that lie as it wants them, `gemm` being on
/// the simulator.
///
/// # Errors
///
/// [`ExplainError::Empty`] if m, n or k is 0; [`GemmError`] if the launch fails or `gemm` isn't on the simulator.
pub fn count(gemm: &Gemm, kernel: &Kernel, shape: [usize; 3]) -> Result<Counted, ExplainError> {
    let [m, n, k] = shape;
    let empty = || ExplainError::Empty { m, n, k };
    if shape.contains(&0) {
        return Err(empty());
    }
    let factors = kernel.precision.factors();
    let (a, b) = (zeros(gemm, factors, m, k)?, zeros(gemm, factors, k, n)?);
    let c = zeros(gemm, ElementType::F32, m, n)?;
    let [a_by_columns, b_by_columns] = kernels::by_columns(kernel);
    let (mut locations, mut declared) = (Vec::new(), 0);
    let observed = gemm.observe(
        kernel,
        a.laid_out(m, k, a_by_columns)?,
        b.laid_out(k, n, b_by_columns)?,
        c.matrix(m, n)?,
        |module, _| {
            let instructions = (0..).take_while(|index| module.ptx_line(kernel.entry, *index).is_some());
            declared = module.kernel(kernel.entry).map_or(0, |info| info.static_shared_bytes);
            locations = instructions.map(|index| module.source_location(kernel.entry, index)).collect();
            Costs::new(module, kernel.entry)
        },
    )?;
    let (Some(costs), Some(launch)) = (observed, (kernel.launch_shape)(m, n, k)) else { return Err(empty()) };
    let shared_bytes = declared.saturating_add(launch.dynamic_shared_bytes);
    Ok(Counted { launch, shared_bytes, total: costs.total(), instructions: costs.instructions(), locations })
}

fn zeros(gemm: &Gemm, element: ElementType, rows: usize, columns: usize) -> Result<FactorBuffer, GemmError> {
    let bytes = rows as u128 * columns as u128 * size_of::<f32>() as u128;
    let host_memory = || GemmError::HostMemory { rows, columns, bytes };
    let elements = rows.checked_mul(columns).ok_or_else(host_memory)?;
    let mut zeros = Vec::new();
    zeros.try_reserve_exact(elements).map_err(|_| host_memory())?;
    zeros.resize(elements, 0.0);
    Ok(FactorBuffer::upload(gemm.device(), element, &zeros)?)
}

/// Times `kernel` on the GPU of `gemm` and asks the driver what it takes there. `None` on the simulator.
///
/// # Errors
///
/// [`GemmError`] if memory doesn't suffice or the GPU fails.
pub fn measure(gemm: &Gemm, kernel: &'static Kernel, shape: [usize; 3]) -> Result<Option<Measured>, GemmError> {
    let Some(resources) = gemm.resources(kernel)? else { return Ok(None) };
    let [m, n, k] = shape;
    let [a_by_columns, b_by_columns] = kernels::by_columns(kernel);
    let random = |rows: usize, columns: usize, by_columns: bool, seed| match by_columns {
        true => matrix::random_normal(columns, rows, seed).reversed_axes(),
        false => matrix::random_normal(rows, columns, seed),
    };
    let (a, b) = (random(m, k, a_by_columns, 42), random(k, n, b_by_columns, 43));
    let timing = Timing::Batches { batches: 9, launches: 20 };
    let product = gemm.multiply_timed(kernel, a.view(), b.view(), timing)?;
    Ok(Some(Measured {
        device: gemm.device().info().name,
        time: product.time,
        launches: product.launches,
        registers: resources.registers,
        blocks_per_multiprocessor: resources.blocks_per_multiprocessor,
    }))
}

/// Explains `kernel` for an m x k by k x n product: counts on the simulator of `gemm`, limits of `gpu`.
///
/// `sources` are the files that the kernel was built from, as [`kernels::sources`]. `measured` is what [`measure`]
/// says; the driver's register count is used if the GPU is of the kind of `gpu`, the assembler's otherwise.
///
/// # Errors
///
/// As [`count`], and [`ExplainError::NoPeak`] if `gpu` can't run the kernel.
pub fn explain(
    gemm: &Gemm,
    kernel: &Kernel,
    sources: &[Source<'_>],
    shape: [usize; 3],
    gpu: &'static Gpu,
    measured: Option<Measured>,
) -> Result<Explanation, ExplainError> {
    let no_peak = || ExplainError::NoPeak { gpu: gpu.name, kernel: kernel.name, precision: kernel.precision.name() };
    let peak = gpu.peak(kernel.precision).ok_or_else(no_peak)?;
    let counted = count(gemm, kernel, shape)?;
    let places = lines::attribute(&counted.locations, sources);
    let listings = lines::listings(&counted.instructions, &places, sources);
    let driver = measured.as_ref().map(|measured| DriverCount { device: &measured.device, count: measured.registers });
    let registers = RegisterCounts::new(gpu).of(kernel, &gemm.ptx(kernel), driver);
    let needs = block_needs(&counted, &registers);
    let operations = roofline::operations(shape);
    let (requested, least) = (requested_bytes(&counted.total), matrix_bytes(shape, kernel.precision));
    let mut roofline = Roofline::new(gpu, peak, operations, requested, least);
    roofline.shared_and_l1 = SharedAndL1::new(gpu, peak, operations, &counted.total);
    let mut notes = notes::notes(&counted.instructions, &places, sources);
    notes.extend(notes::fewer_multiply_adds(&counted.total, shape));
    match &measured {
        Some(measured) if gpu.is_called(&measured.device) => {
            roofline.measured = Some(roofline::operations_per_second(shape, measured.time));
        }
        Some(Measured { device, .. }) => notes.push(Note::OtherGpu { device: device.clone() }),
        None => {}
    }
    Ok(Explanation {
        kernel: *kernel,
        shape,
        ratios: Ratios::new(&counted.total, shape, kernel.precision),
        counted,
        places,
        listings,
        gpu,
        registers,
        occupancy: occupancy::occupancy(&gpu.limits, needs),
        roofline,
        measured,
        notes,
    })
}

/// What a block of a launch takes of a multiprocessor.
pub fn block_needs(counted: &Counted, registers: &Registers) -> BlockNeeds {
    BlockNeeds {
        threads: counted.launch.threads_per_block(),
        registers: registers.count(),
        shared_bytes: counted.shared_bytes,
    }
}

/// Bytes of the sectors of global memory that requests touch, in all directions.
pub fn requested_bytes(counts: &Counts) -> u64 {
    SECTOR_BYTES * counts.global().units
}

/// Bytes of A, B and C as a kernel of that precision takes them, or the largest number if that's too small.
pub fn matrix_bytes([m, n, k]: [usize; 3], precision: Precision) -> u64 {
    let factors = precision.factors();
    let matrices = [(m, k, factors), (k, n, factors), (m, n, ElementType::F32)];
    let bytes = |(rows, columns, element): (usize, usize, ElementType)| {
        (rows as u128 * columns as u128).saturating_mul(element.bytes() as u128)
    };
    u64::try_from(matrices.map(bytes).into_iter().fold(0_u128, u128::saturating_add)).unwrap_or(u64::MAX)
}
