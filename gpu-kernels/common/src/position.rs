//! Where a thread is, asked anew.
//!
//! What is computed from `thread_idx_x` before a loop and used again after it stays in registers all through the loop,
//! also if the source computes it twice: to the compiler the question has one answer. These are asked where they
//! stand, and leave the loop the registers.

/// `thread_idx_x`, asked anew.
#[inline(always)]
pub fn thread_idx_x() -> u32 {
    #[allow(unused_mut)]
    let mut index = 0;
    // SAFETY: reads a special register.
    #[cfg(target_arch = "nvptx64")]
    unsafe {
        core::arch::asm!("mov.u32 {}, %tid.x;", out(reg32) index, options(nostack))
    };
    index
}

/// The same number, of which the compiler no longer knows how it came about: what is computed from it is computed where
/// it stands. The compiler would else compute it once, before a loop, and keep it in a register all through the loop.
#[inline(always)]
pub fn anew(number: u32) -> u32 {
    #[allow(unused_mut)]
    let mut same = number;
    // SAFETY: it copies a number.
    #[cfg(target_arch = "nvptx64")]
    unsafe {
        core::arch::asm!("mov.b32 {}, {};", out(reg32) same, in(reg32) number, options(nomem, nostack))
    };
    same
}
