//! What a kernel tells whoever launches it.

/// The lowest GPU generation whose instructions a kernel uses; the kernel is built into that level's PTX module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Architecture {
    /// Compute capability 7.0 (Volta) and everything after it.
    Compute70,
}

/// The arithmetic of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// f32 in and out, IEEE fused multiply-adds in f32.
    F32,
}

/// The part of the product that one block computes: an `m` x `n` piece of C, `k` steps of the inner dimension at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    pub m: u32,
    pub n: u32,
    pub k: u32,
}

/// Grid and block of one launch, in blocks and threads along x, y, z.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchShape {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    /// Dynamic shared memory of a block, in bytes; shared arrays declared by the kernel come on top.
    pub dynamic_shared_bytes: u32,
}

/// A GEMM kernel: C = A B, all row-major without gaps.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    pub name: &'static str,
    pub title: &'static str,
    /// Its entry point in the PTX module.
    pub entry: &'static str,
    pub architecture: Architecture,
    pub precision: Precision,
    pub tile: Tile,
    /// Threads of a block along x, y, z.
    pub block: [u32; 3],
    /// Bytes of shared memory that the kernel declares.
    pub shared_bytes: u32,
}
