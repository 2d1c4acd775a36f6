//! How much shared memory a block has.
use crate::gpu_only;

/// Bytes of dynamic shared memory of each block, as the launch set them.
#[gpu_only]
pub fn dynamic_smem_size() -> u32 {
    let bytes;
    // SAFETY: reads a register that stays the same while the kernel runs.
    unsafe { core::arch::asm!("mov.u32 {}, %dynamic_smem_size;", out(reg32) bytes, options(pure, nomem, nostack)) }
    bytes
}

/// Bytes of shared memory of each block, arrays of the kernel and dynamic memory together, rounded up to the unit in
/// which the GPU hands it out (128 or 256 bytes).
#[gpu_only]
pub fn total_smem_size() -> u32 {
    let bytes;
    // SAFETY: reads a register that stays the same while the kernel runs.
    unsafe { core::arch::asm!("mov.u32 {}, %total_smem_size;", out(reg32) bytes, options(pure, nomem, nostack)) }
    bytes
}
