//! Which kernel for which product.

pub mod model;
pub mod tensor_cores;

use gpu_kernels::{Kernel, Precision};
use production_kernels::{Copying, FAMILIES, Family, entries::WAYS};

use crate::{device::Machine, verify::Order};

/// What of a product decides which kernel suits it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Problem {
    /// Rows of C.
    pub m: usize,
    /// Columns of C, whose rows are contiguous.
    pub n: usize,
    /// The inner dimension.
    pub k: usize,
    /// How A lies in memory.
    pub a: Layout,
    /// How B lies in memory.
    pub b: Layout,
    /// Products at a time.
    pub batch: usize,
    /// Whether it is C = A B with matrices without gaps: all that kernels of the book can do.
    pub plain: bool,
}

/// How a matrix lies in memory, as far as it matters to whoever loads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Whether the elements of a column are contiguous, instead of those of a row.
    pub by_columns: bool,
    /// Whether every row (or column, if those are contiguous) begins at a multiple of 16 bytes, in every matrix of the
    /// batch, as tensor maps want it.
    pub mappable: bool,
    /// The same, and that they end at one, so that 16 bytes can be loaded at a time.
    pub aligned: bool,
}

/// How to compute a product.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The kernel.
    pub kernel: &'static Kernel,
    /// Parts of the inner dimension that are summed up apart from each other, and then together; 1 for the most part.
    pub splits: u32,
    /// Rows of tiles that run side by side, so that they share what they read of B in the cache.
    pub group: u32,
}

impl Plan {
    /// A plan with nothing but a kernel.
    pub fn new(kernel: &'static Kernel) -> Plan {
        Plan { kernel, splits: 1, group: 1 }
    }

    /// Blocks in the launch for an `m` x `k` by `k` x `n` product; 0 if there is no launch.
    pub fn blocks(&self, m: usize, n: usize, k: usize) -> u64 {
        self.kernel.blocks(m, n, k) * u64::from(self.splits)
    }

    /// The order in which the products of an element are added up, `k` of them.
    pub fn order(&self, k: usize) -> Order {
        order(self.kernel, self.splits, k)
    }
}

/// The order in which `kernel` adds up the `k` products of an element if K is split so often.
pub fn order(kernel: &Kernel, splits: u32, k: usize) -> Order {
    let along_k = kernel.entry != gpu_kernels::k_slices::KERNEL.entry;
    match family_of(kernel) {
        None if matches!(kernel.precision, Precision::Bf16 | Precision::F16 | Precision::Tf32) => Order::TensorCores,
        // Sums of up to 128 by tensor cores, which cut off what counts as two roundings, and then of those; or, where parts aren't
        // enough, of up to 512 by multiply-adds.
        None if kernel.precision == Precision::F32Parts => Order::OfParts(64 + k.min(512) + k.div_ceil(64)),
        None if along_k => Order::Ascending,
        None => Order::Any,
        Some((family, _)) if family.slices == 1 && splits <= 1 && k <= family.longest_sum as usize => Order::Ascending,
        Some((family, _)) => {
            // Each slice has its share of every tile; then the slices are added up, then the splits. That long sums are made
            // in parts takes additions away.
            let (step, slices, splits) = (family.tile.k as usize, family.slices as usize, splits.max(1) as usize);
            let tiles = k.div_ceil(splits).div_ceil(step) + 1;
            Order::Parts(tiles * step.div_ceil(slices) + slices + splits)
        }
    }
}

/// The plan for a product when its caller has none.
pub fn plan(problem: &Problem, machine: Machine) -> Plan {
    if machine.compute_capability < (8, 0) {
        let general = &gpu_kernels::general_tiled::KERNEL;
        return Plan::new(if problem.plain { choose(problem.m, problem.n, problem.k) } else { general });
    }
    model::best(problem, machine)
}

/// How A is copied, whose rows lie along K.
pub(crate) fn copying_of_a(a: Layout) -> Copying {
    match a {
        Layout { by_columns: false, .. } => Copying::AlongK,
        Layout { aligned: true, .. } => Copying::Vectors,
        Layout { .. } => Copying::Words,
    }
}

/// How B is copied, whose columns lie along K.
pub(crate) fn copying_of_b(b: Layout) -> Copying {
    copying_of_a(Layout { by_columns: !b.by_columns, ..b })
}

/// The family of a production kernel, and how that kernel copies A and B; `None` for other kernels.
pub(crate) fn family_of(kernel: &Kernel) -> Option<(&'static Family, (Copying, Copying))> {
    FAMILIES.iter().find_map(|family| {
        let at = family.kernels.iter().position(|known| known.entry == kernel.entry)?;
        Some((family, WAYS[at]))
    })
}

/// Whether matrices that lie so can be multiplied by `kernel`, as far as it's a production kernel.
pub fn suits(kernel: &Kernel, a: Layout, b: Layout) -> bool {
    let suits = |way: Copying, best: Copying| way == best || (way, best) == (Copying::Words, Copying::Vectors);
    family_of(kernel).is_none_or(|(_, (way_a, way_b))| suits(way_a, copying_of_a(a)) && suits(way_b, copying_of_b(b)))
}

/// `kernel` if it can multiply matrices that lie so, else the one of its family that can.
pub fn suitable(kernel: &'static Kernel, a: Layout, b: Layout) -> &'static Kernel {
    if let Some(family) = hopper_kernels::family_of(kernel) {
        return family.kernel(a.by_columns, !b.by_columns);
    }
    match family_of(kernel) {
        Some((family, _)) if !suits(kernel, a, b) => family.kernel(copying_of_a(a), copying_of_b(b)),
        _ => kernel,
    }
}

/// The kernel to use for an `m` x `k` by `k` x `n` product when the caller names none.
///
/// The larger a block's tile, the less it loads for each multiply-add, as long as there are blocks enough for the
/// multiprocessors of a GPU. So it's the kernel of the largest tile that still makes about one block for each of them;
/// tiles of 64 x 64 win over smaller ones with a quarter of that. Measured on an H200 (132 multiprocessors) with `sweep`.
pub fn choose(m: usize, n: usize, k: usize) -> &'static Kernel {
    /// Kernels by the size of their tiles, with the fewest blocks for which each is worth it.
    const LADDER: [(&Kernel, u64); 2] =
        [(&gpu_kernels::double_buffered::KERNEL, 128), (&gpu_kernels::tiled_64::KERNEL, 32)];
    let enough = LADDER.into_iter().find(|(kernel, fewest)| kernel.blocks(m, n, k) >= *fewest);
    enough.map_or(&gpu_kernels::tiled::KERNEL, |(kernel, _)| kernel)
}
