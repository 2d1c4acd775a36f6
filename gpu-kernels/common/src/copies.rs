//! Copies from global to shared memory that pass no register: `cp.async`, for compute capability 8.0 and later.
//!
//! A copy is asked for and goes on by itself. What was asked for since the last [`commit_group`] is a group, and
//! [`wait_group`] waits until only so many of the thread's latest groups are still on their way. Then this thread may
//! read what its copies brought; other threads may only after a barrier besides.
//!
//! Addresses in shared memory are the 32-bit ones of [`vectors`](crate::vectors).

/// Asks for the copy of 4 bytes, unless `wanted` is 0.
///
/// # Safety
///
/// If `wanted` isn't 0, `from` must point to 4 readable bytes and `shared` be the address of 4 bytes of this block's
/// shared memory, both multiples of 4. Until the copy has been waited for, nobody may read or write those.
#[cfg_attr(not(feature = "lines-of-callers"), inline(always))]
pub unsafe fn copy_word(shared: u32, from: u64, wanted: u32) {
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!(
        "{{ .reg .pred wanted; setp.ne.u32 wanted, {wanted}, 0;",
        "@wanted cp.async.ca.shared.global [{shared}], [{from}], 4; }}",
        wanted = in(reg32) wanted, from = in(reg64) from, shared = in(reg32) shared, options(nostack)
    );
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = (shared, from, wanted);
}

/// Asks for the copy of the first `bytes` of 4 bytes and for zeros in the place of the others.
///
/// # Safety
///
/// As for [`copy_word`], with `bytes` readable ones: with 0 nothing is read.
#[cfg_attr(not(feature = "lines-of-callers"), inline(always))]
pub unsafe fn copy_word_or_zeros(shared: u32, from: u64, bytes: u32) {
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!(
        "cp.async.ca.shared.global [{shared}], [{from}], 4, {bytes};",
        bytes = in(reg32) bytes, from = in(reg64) from, shared = in(reg32) shared, options(nostack)
    );
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = (shared, from, bytes);
}

/// Asks for the copy of 16 bytes, unless `wanted` is 0. They go past the first-level cache.
///
/// # Safety
///
/// As for [`copy_word`], with 16 bytes and multiples of 16.
#[cfg_attr(not(feature = "lines-of-callers"), inline(always))]
pub unsafe fn copy_vector(shared: u32, from: u64, wanted: u32) {
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!(
        "{{ .reg .pred wanted; setp.ne.u32 wanted, {wanted}, 0;",
        "@wanted cp.async.cg.shared.global [{shared}], [{from}], 16; }}",
        wanted = in(reg32) wanted, from = in(reg64) from, shared = in(reg32) shared, options(nostack)
    );
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = (shared, from, wanted);
}

/// Asks for the copy of the first `bytes` of 16 bytes and for zeros in the place of the others.
///
/// # Safety
///
/// As for [`copy_vector`], with `bytes` readable ones: with 0 nothing is read.
#[cfg_attr(not(feature = "lines-of-callers"), inline(always))]
pub unsafe fn copy_vector_or_zeros(shared: u32, from: u64, bytes: u32) {
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!(
        "cp.async.cg.shared.global [{shared}], [{from}], 16, {bytes};",
        bytes = in(reg32) bytes, from = in(reg64) from, shared = in(reg32) shared, options(nostack)
    );
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = (shared, from, bytes);
}

/// Makes a group of the copies that this thread has asked for since the last one.
#[cfg_attr(not(feature = "lines-of-callers"), inline(always))]
pub fn commit_group() {
    // SAFETY: it reads and writes no memory by itself.
    #[cfg(target_arch = "nvptx64")]
    unsafe {
        core::arch::asm!("cp.async.commit_group;", options(nostack))
    };
}

/// Waits until at most `PENDING` of this thread's latest groups are still on their way.
#[cfg_attr(not(feature = "lines-of-callers"), inline(always))]
pub fn wait_group<const PENDING: usize>() {
    // SAFETY: it waits for copies whose promises were given where they were asked for.
    #[cfg(target_arch = "nvptx64")]
    unsafe {
        core::arch::asm!("cp.async.wait_group {pending};", pending = const PENDING, options(nostack))
    };
}
