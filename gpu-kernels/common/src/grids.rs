//! One grid after the other, on Hopper (compute_90) and later: *programmatic dependent launch*.
//!
//! Otherwise a grid begins when the one before it on the stream is through and its results are in memory. A kernel that
//! [waits](wait_for_the_grid_before) itself can be launched so that its blocks begin earlier, wherever there is room: what they do before they
//! wait (barriers, descriptors of matrices) then takes no time of its own. The host launches those so that have the wait in their PTX.

/// Lets the next grid's blocks begin as soon as every block of this grid has come here or is through, and there is room for them.
#[inline(always)]
pub fn let_the_next_grid_begin() {
    // SAFETY: the next grid, if it begins early, waits before it touches memory.
    #[cfg(target_arch = "nvptx64")]
    unsafe {
        core::arch::asm!("griddepcontrol.launch_dependents;", options(nostack))
    };
}

/// Waits until the grid before this one is through and all threads can see what it wrote. Nothing that another grid writes may be read before,
/// and nothing be written that another grid reads.
#[inline(always)]
pub fn wait_for_the_grid_before() {
    // SAFETY: it only waits.
    #[cfg(target_arch = "nvptx64")]
    unsafe {
        core::arch::asm!("griddepcontrol.wait;", options(nostack))
    };
}
