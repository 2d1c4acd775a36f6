//! What a kernel tells whoever launches it: its name, what it needs, and the grid and block for a given product.

use crate::operands::MappedOperands;

/// The GPU generation whose instructions a kernel uses; the kernel is built into that level's PTX module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Architecture {
    /// Compute capability 7.0 (Volta, 2017) and everything after it.
    Compute70,
    /// Compute capability 8.0 (Ampere, 2020) and everything after it: asynchronous copies to shared memory, barriers that
    /// live there, and tensor cores for bf16.
    Compute80,
    /// Compute capability 9.0 (Hopper, 2022) and nothing else: tensor cores that a group of four warps asks for products of
    /// matrices in shared memory, and copies of whole tiles. Later generations have other instructions for these.
    Compute90a,
}

impl Architecture {
    /// Every level, lowest first.
    pub const ALL: &'static [Architecture] =
        &[Architecture::Compute70, Architecture::Compute80, Architecture::Compute90a];

    /// The lowest compute capability as (major, minor), the way drivers report it.
    pub const fn compute_capability(self) -> (u32, u32) {
        match self {
            Architecture::Compute70 => (7, 0),
            Architecture::Compute80 => (8, 0),
            Architecture::Compute90a => (9, 0),
        }
    }

    /// Whether later GPUs than those of the lowest compute capability run it too.
    pub const fn runs_on_later_gpus(self) -> bool {
        !matches!(self, Architecture::Compute90a)
    }

    /// Whether a GPU of that compute capability runs it.
    pub fn runs_on(self, capability: (u32, u32)) -> bool {
        let lowest = self.compute_capability();
        capability == lowest || self.runs_on_later_gpus() && capability > lowest
    }

    /// The compute capabilities that run it, in words.
    pub const fn capabilities(self) -> &'static str {
        match self {
            Architecture::Compute70 => "7.0 or later",
            Architecture::Compute80 => "8.0 or later",
            Architecture::Compute90a => "9.0 and no other",
        }
    }

    /// The name of the PTX level, such as `compute_70`.
    pub const fn name(self) -> &'static str {
        match self {
            Architecture::Compute70 => "compute_70",
            Architecture::Compute80 => "compute_80",
            Architecture::Compute90a => "compute_90a",
        }
    }

    /// The name as cuda_builder reads it, with zeros behind it.
    pub const fn level_name(self) -> LevelName {
        let (name, mut padded) = (self.name().as_bytes(), [0; 16]);
        let mut at = 0;
        while at < name.len() {
            padded[at] = name[at];
            at += 1;
        }
        padded
    }
}

/// The name of a PTX level, such as `compute_70`, as cuda_builder reads it from a variable by the name of `level_of_` and
/// an entry: the entry is left out of the modules of all other levels.
pub type LevelName = [u8; 16];

/// The type of a matrix's elements in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ElementType {
    /// IEEE's 32 bits.
    F32,
    /// The upper half of an f32: 8 bits of exponent, 8 of significand.
    Bf16,
    /// IEEE's 16 bits: 5 bits of exponent, 11 of significand.
    F16,
}

impl ElementType {
    /// The name used in tables and messages.
    pub const fn name(self) -> &'static str {
        match self {
            ElementType::F32 => "f32",
            ElementType::Bf16 => "bf16",
            ElementType::F16 => "f16",
        }
    }

    /// Bytes of an element.
    pub const fn bytes(self) -> usize {
        match self {
            ElementType::F32 => 4,
            ElementType::Bf16 | ElementType::F16 => 2,
        }
    }
}

/// The arithmetic of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Precision {
    /// Factors of f32, products and sums by IEEE fused multiply-adds in f32.
    F32,
    /// Factors of bf16, products exact, sums in f32 as tensor cores form them.
    Bf16,
    /// Factors of f16, the same.
    F16,
    /// Factors of f32, rounded to the 11 bits of significand that tensor cores take of them, and then the same.
    Tf32,
    /// Factors of f32 in two parts of f16 each, multiplied by tensor cores: errors as small as those of [`F32`](Precision::F32).
    F32Parts,
}

impl Precision {
    /// Every precision.
    pub const ALL: &'static [Precision] =
        &[Precision::F32, Precision::Bf16, Precision::F16, Precision::Tf32, Precision::F32Parts];

    /// The name used in tables and options.
    pub const fn name(self) -> &'static str {
        match self {
            Precision::F32 => "f32",
            Precision::Bf16 => "bf16",
            Precision::F16 => "f16",
            Precision::Tf32 => "tf32",
            Precision::F32Parts => "fp32-tc",
        }
    }

    /// The elements of A and B in memory.
    pub const fn factors(self) -> ElementType {
        match self {
            Precision::F32 | Precision::Tf32 | Precision::F32Parts => ElementType::F32,
            Precision::Bf16 => ElementType::Bf16,
            Precision::F16 => ElementType::F16,
        }
    }

    /// Whether results are as exact as those of f32.
    pub const fn is_f32(self) -> bool {
        matches!(self, Precision::F32 | Precision::F32Parts)
    }

    /// Whether tensor cores multiply.
    pub const fn on_tensor_cores(self) -> bool {
        !matches!(self, Precision::F32)
    }
}

/// What a kernel's entry takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Signature {
    /// `(a: *const T, b: *const T, c: *mut f32, m: usize, n: usize, k: usize)` with the precision's factors for T:
    /// C = A B, row-major without gaps.
    Plain,
    /// `(call: Call)`: everything that a [`Call`](crate::call::Call) can ask for.
    Call,
    /// `(a: TensorMap, b: TensorMap, c: C, m: usize, n: usize, k: usize)` with tensor maps as the operands say, C being a
    /// tensor map too or a `*mut f32`: C = A B. Lines of the matrices may be apart, as far as multiples of 16 bytes go.
    Mapped(MappedOperands),
    /// `(a: TensorMap, b: TensorMap, c: TensorMap, call: TensorCall)` with tensor maps as the operands say, which are all
    /// [batched](crate::operands::CopiedBox::Batched), and what a [`TensorCall`](crate::call::TensorCall) can ask for besides.
    MappedCall(MappedOperands),
    /// `(a: TensorMap, b: TensorMap, c: TensorMap, a_scales: TensorMap, b_scales: TensorMap, call: TensorCall, whole: Call, flags: *const u32)`
    /// with maps of the parts of A and B, as the operands say, and of their scales: as [`MappedCall`](Signature::MappedCall), or, if a flag
    /// says that something is suspect, of the factors as they are in `whole`.
    MappedParts(MappedOperands),
}

impl Signature {
    /// Whether the kernel can't be told to cut K into parts.
    pub const fn takes_k_whole(&self) -> bool {
        match self {
            Signature::Plain | Signature::Mapped(_) | Signature::MappedParts(_) => true,
            Signature::Call | Signature::MappedCall(_) => false,
        }
    }

    /// How the kernel copies its operands, if it does that box by box.
    pub const fn mapped(&self) -> Option<&MappedOperands> {
        match self {
            Signature::Plain | Signature::Call => None,
            Signature::Mapped(operands) | Signature::MappedCall(operands) | Signature::MappedParts(operands) => {
                Some(operands)
            }
        }
    }
}

/// The part of the product that one block works on: it computes an `m` x `n` tile of C, taking `k` steps of the inner
/// dimension at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// Rows of C per block.
    pub m: u32,
    /// Columns of C per block.
    pub n: u32,
    /// Steps along the inner dimension between two loads.
    pub k: u32,
}

/// Grid and block of one launch, in blocks and threads along x, y and z.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchShape {
    /// Blocks along x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block along x, y, z.
    pub block: [u32; 3],
    /// Shared memory that the launch adds to what the kernel declares, in bytes per block.
    pub dynamic_shared_bytes: u32,
}

/// The most blocks that a grid may have along x.
pub const MAX_GRID_X: u64 = (1 << 31) - 1;
/// The most blocks that a grid may have along y, and along z.
pub const MAX_GRID_YZ: u64 = 65_535;

impl LaunchShape {
    /// One block of `block` threads for every `tile.m` x `tile.n` tile of an `m` x `n` matrix C, without dynamic shared
    /// memory.
    ///
    /// Block columns lie along x, block rows along y and then z (the crate documentation says why). `None` if C is
    /// empty, when there is nothing to launch, or has more tiles than a grid can have blocks.
    pub fn over_tiles(m: usize, n: usize, tile: Tile, block: [u32; 3]) -> Option<LaunchShape> {
        let block_columns = (n as u64).div_ceil(tile.n as u64);
        let block_rows = (m as u64).div_ceil(tile.m as u64);
        if block_columns == 0 || block_rows == 0 || block_columns > MAX_GRID_X {
            return None;
        }
        let layers = block_rows.div_ceil(MAX_GRID_YZ);
        if layers > MAX_GRID_YZ {
            return None;
        }
        let rows_per_layer = block_rows.div_ceil(layers);
        Some(LaunchShape {
            grid: [block_columns as u32, rows_per_layer as u32, layers as u32],
            block,
            dynamic_shared_bytes: 0,
        })
    }

    /// One block of `block` threads for every `tile.m` x `tile.n` tile of an `m` x `n` matrix C, all along x: the kernel
    /// itself says which block works on which tile. `None` if C is empty or has 2^31 tiles or more.
    pub fn flat(m: usize, n: usize, tile: Tile, block: [u32; 3], dynamic_shared_bytes: u32) -> Option<LaunchShape> {
        let tiles = (m as u64).div_ceil(tile.m as u64).checked_mul((n as u64).div_ceil(tile.n as u64))?;
        let grid = u32::try_from(tiles).ok().filter(|&tiles| tiles > 0 && tiles as u64 <= MAX_GRID_X)?;
        Some(LaunchShape { grid: [grid, 1, 1], block, dynamic_shared_bytes })
    }

    /// Threads in one block.
    pub fn threads_per_block(&self) -> u32 {
        self.block.iter().product()
    }

    /// Blocks in the grid.
    pub fn blocks(&self) -> u64 {
        self.grid.iter().map(|&blocks| blocks as u64).product()
    }
}

/// A GEMM kernel.
///
/// All kernels of one [`Signature`] take the same, so that one piece of host code launches them all.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    /// What users call it.
    pub name: &'static str,
    /// What it does, in one line.
    pub title: &'static str,
    /// Its entry point in the PTX module.
    pub entry: &'static str,
    /// The level of PTX it is built for.
    pub architecture: Architecture,
    /// Its arithmetic.
    pub precision: Precision,
    /// What its entry takes.
    pub signature: Signature,
    /// The piece of the product that a block works on.
    pub tile: Tile,
    /// Threads of a block along x, y, z.
    pub block: [u32; 3],
    /// How many registers a thread may take.
    pub registers: Registers,
    /// Shared memory that the kernel declares, in bytes per block.
    pub shared_bytes: u32,
    /// The launch shape for an `m` x `k` by `k` x `n` product, from `(m, n, k)`; `None` as in
    /// [`LaunchShape::over_tiles`].
    pub launch_shape: fn(m: usize, n: usize, k: usize) -> Option<LaunchShape>,
}

/// How many registers a thread of a kernel may take. What doesn't fit goes to local memory, which is slow: a bound is
/// for kernels that all but keep to it by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registers {
    /// As many as the assembler likes. It isn't told the size of a block either: that alone makes ptxas spend registers
    /// up to what such a block may have (for an H200 `tiled_64` got 127 instead of 96).
    Any,
    /// So few that a multiprocessor has enough for this many blocks at a time.
    ForBlocks(u32),
    /// At most this many.
    AtMost(u32),
}

/// A kernel's launch bounds as cuda_builder reads them: threads of a block along x, y and z, blocks that a
/// multiprocessor must have registers for, the most registers of a thread, and the blocks of a cluster along x; 0 says
/// nothing. Where the PTX has a variable of this type by the name of `launch_bounds_of_` and an entry, cuda_builder makes
/// directives of that entry of it. To any other builder it is a variable that nobody uses.
pub type LaunchBounds = [u32; 6];

impl Kernel {
    /// The kernel's bounds, as the compiler is told.
    pub const fn launch_bounds(&self) -> LaunchBounds {
        let [x, y, z] = self.block;
        let cluster = match self.signature.mapped() {
            Some(operands) if operands.cluster > 1 => operands.cluster,
            _ => 0,
        };
        match self.registers {
            Registers::Any => [0, 0, 0, 0, 0, cluster],
            Registers::ForBlocks(blocks) => [x, y, z, blocks, 0, cluster],
            Registers::AtMost(registers) => [x, y, z, 0, registers, cluster],
        }
    }

    /// Shared memory of a block in bytes: what the kernel declares and what a launch adds.
    pub fn shared_bytes_per_block(&self) -> u32 {
        self.shared_bytes + (self.launch_shape)(1, 1, 1).map_or(0, |shape| shape.dynamic_shared_bytes)
    }

    /// Blocks in the launch for an `m` x `k` by `k` x `n` product; 0 if there is no launch.
    pub fn blocks(&self, m: usize, n: usize, k: usize) -> u64 {
        (self.launch_shape)(m, n, k).map_or(0, |shape| shape.blocks())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_level_says_of_gpus_is_what_runs_it() {
        let runs = |architecture: Architecture| {
            [(7, 0), (7, 5), (8, 0), (8, 9), (9, 0), (10, 0), (12, 1)].map(|has| architecture.runs_on(has))
        };
        assert_eq!(runs(Architecture::Compute70), [true; 7]);
        assert_eq!(runs(Architecture::Compute80), [false, false, true, true, true, true, true]);
        assert_eq!(runs(Architecture::Compute90a), [false, false, false, false, true, false, false]);
    }

    #[test]
    fn the_name_of_a_level_ends_in_zeros() {
        assert_eq!(Architecture::Compute90a.level_name(), *b"compute_90a\0\0\0\0\0");
    }
}
