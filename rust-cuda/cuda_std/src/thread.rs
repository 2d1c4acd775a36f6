//! Who is this thread, and how does it wait for others?
//!
//! A launch runs a kernel on a *grid* of *blocks* of *threads*, each numbered along x, y and z. The threads of one
//! block share memory and can wait for each other; blocks can't rely on each other at all.
//!
//! The numbers are special registers of the GPU, and reading one costs nothing worth saving.
use crate::gpu_only;
#[cfg(target_arch = "nvptx64")]
use crate::nvvm;
use crate::vek::{Vec2, Vec3};

/// One reader of a special register each. Below the bound, which the hardware keeps, LLVM may widen an index without a
/// sign check.
macro_rules! special_registers {
    ($($(#[$documentation:meta])* $name:ident = $intrinsic:ident in $range:expr;)*) => { $(
        $(#[$documentation])*
        #[gpu_only]
        pub fn $name() -> u32 {
            // SAFETY: reads a register that every thread has.
            let value = unsafe { core::arch::nvptx::$intrinsic() };
            // SAFETY: no GPU launches a grid or a block beyond these bounds.
            unsafe { core::hint::assert_unchecked(($range).contains(&value)) };
            value
        }
    )* };
}

special_registers! {
    /// This thread's place in its block along x, 0 to 1023.
    thread_idx_x = _thread_idx_x in 0..1024;
    /// This thread's place in its block along y, 0 to 1023.
    thread_idx_y = _thread_idx_y in 0..1024;
    /// This thread's place in its block along z, 0 to 63.
    thread_idx_z = _thread_idx_z in 0..64;

    /// This block's place in the grid along x, 0 to 2^31 - 2.
    block_idx_x = _block_idx_x in 0..0x7fff_ffff;
    /// This block's place in the grid along y, 0 to 65534.
    block_idx_y = _block_idx_y in 0..0xffff;
    /// This block's place in the grid along z, 0 to 65534.
    block_idx_z = _block_idx_z in 0..0xffff;

    /// Threads of a block along x, 1 to 1024.
    block_dim_x = _block_dim_x in 1..=1024;
    /// Threads of a block along y, 1 to 1024.
    block_dim_y = _block_dim_y in 1..=1024;
    /// Threads of a block along z, 1 to 64.
    block_dim_z = _block_dim_z in 1..=64;

    /// Blocks of the grid along x, 1 to 2^31 - 1.
    grid_dim_x = _grid_dim_x in 1..=0x7fff_ffff;
    /// Blocks of the grid along y, 1 to 65535.
    grid_dim_y = _grid_dim_y in 1..=0xffff;
    /// Blocks of the grid along z, 1 to 65535.
    grid_dim_z = _grid_dim_z in 1..=0xffff;
}

/// This thread's place in its block.
pub fn thread_idx() -> Vec3<u32> {
    Vec3::new(thread_idx_x(), thread_idx_y(), thread_idx_z())
}

/// This block's place in the grid.
pub fn block_idx() -> Vec3<u32> {
    Vec3::new(block_idx_x(), block_idx_y(), block_idx_z())
}

/// Threads of a block.
pub fn block_dim() -> Vec3<u32> {
    Vec3::new(block_dim_x(), block_dim_y(), block_dim_z())
}

/// Blocks of the grid.
pub fn grid_dim() -> Vec3<u32> {
    Vec3::new(grid_dim_x(), grid_dim_y(), grid_dim_z())
}

/// This thread's number in the whole grid, whatever its shape: block after block, in each block x fastest, then y, then
/// z.
///
/// Different for all threads of a launch of up to 2^32 threads; larger ones wrap around.
pub fn index() -> u32 {
    let (grid, block) = (grid_dim(), block_dim());
    let (block_at, thread_at) = (block_idx(), thread_idx());
    let blocks_before =
        block_at.x.wrapping_add(grid.x.wrapping_mul(block_at.y.wrapping_add(grid.y.wrapping_mul(block_at.z))));
    let threads_before = thread_at.x + block.x * (thread_at.y + block.y * thread_at.z);
    blocks_before.wrapping_mul(block.product()).wrapping_add(threads_before)
}

/// This thread's place in a grid used along x alone.
pub fn index_1d() -> u32 {
    along(thread_idx_x(), block_idx_x(), block_dim_x())
}

/// This thread's place in a grid used along x and y.
pub fn index_2d() -> Vec2<u32> {
    Vec2::new(index_1d(), along(thread_idx_y(), block_idx_y(), block_dim_y()))
}

/// This thread's place in the grid along x, y and z.
pub fn index_3d() -> Vec3<u32> {
    let Vec2 { x, y } = index_2d();
    Vec3::new(x, y, along(thread_idx_z(), block_idx_z(), block_dim_z()))
}

fn along(thread: u32, block: u32, threads_per_block: u32) -> u32 {
    thread.wrapping_add(block.wrapping_mul(threads_per_block))
}

/// True in one thread of the grid: the one at the origin of the block at the origin.
pub fn first() -> bool {
    block_idx() == Vec3::zero() && thread_idx() == Vec3::zero()
}

/// Threads of a warp: 32 on every GPU so far.
#[gpu_only]
pub fn warp_size() -> u32 {
    32
}

/// Waits until every thread of the block is here. What each wrote to shared or global memory before, all see after.
///
/// Every thread of the block has to come to the same barrier: one that returned early or sits in another branch leaves
/// the others waiting, or worse.
#[gpu_only]
pub fn sync_threads() {
    // SAFETY: orders memory, and touches none.
    unsafe { core::arch::nvptx::_syncthreads() }
}

/// [`sync_threads`], and how many threads of the block came with a `predicate` other than 0.
#[gpu_only]
pub fn sync_threads_count(predicate: u32) -> u32 {
    // SAFETY: orders memory, and touches none.
    unsafe { nvvm::barrier_count(0, predicate != 0) }
}

/// [`sync_threads`], and 1 if every thread of the block came with a `predicate` other than 0, else 0.
#[gpu_only]
pub fn sync_threads_and(predicate: u32) -> u32 {
    // SAFETY: orders memory, and touches none.
    unsafe { nvvm::barrier_and(0, predicate != 0) as u32 }
}

/// [`sync_threads`], and 1 if any thread of the block came with a `predicate` other than 0, else 0.
#[gpu_only]
pub fn sync_threads_or(predicate: u32) -> u32 {
    // SAFETY: orders memory, and touches none.
    unsafe { nvvm::barrier_or(0, predicate != 0) as u32 }
}

/// Makes this thread's earlier writes visible to every thread of the grid before its later ones. Waits for nobody.
#[gpu_only]
pub fn grid_fence() {
    // A grid's blocks run all over the device, so no narrower fence would do.
    // SAFETY: orders memory, and touches none.
    unsafe { nvvm::fence_device() }
}

/// Makes this thread's earlier writes visible to the whole device before its later ones. Waits for nobody.
#[gpu_only]
pub fn device_fence() {
    // SAFETY: orders memory, and touches none.
    unsafe { nvvm::fence_device() }
}

/// Makes this thread's earlier writes visible to all devices and the host before its later ones. Waits for nobody.
#[gpu_only]
pub fn system_fence() {
    // SAFETY: orders memory, and touches none.
    unsafe { nvvm::fence_system() }
}

/// Sleeps for about `nanos` nanoseconds, between none and twice as many. Needs compute capability 7.0.
#[gpu_only]
pub fn nanosleep(nanos: u32) {
    // SAFETY: delays this thread, and nothing else.
    unsafe { core::arch::asm!("nanosleep.u32 {};", in(reg32) nanos, options(nomem, nostack)) }
}
