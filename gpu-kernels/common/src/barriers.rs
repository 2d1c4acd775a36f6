//! A barrier in two halves: `mbarrier`, an object in shared memory, for compute capability 8.0 and later.
//!
//! A thread arrives, goes on with what doesn't depend on the others, and waits later. A barrier counts arrivals; when
//! all that it was initialised for have come, its phase is complete and the next one begins. Phases are told apart by
//! their parity: the first is 0, the next 1, then 0 again.
//!
//! Addresses are the 32-bit ones of [`vectors`](crate::vectors), multiples of 8.

/// Makes a barrier of 8 bytes of shared memory, for so many arrivals in every phase. The other threads may use it after
/// the block's next [`sync_threads`](https://docs.rs/cuda_std/0.2.2/cuda_std/thread/fn.sync_threads.html).
///
/// # Safety
///
/// The 8 bytes must be this block's, and nobody else may use them.
#[cfg_attr(not(feature = "lines-of-callers"), inline(always))]
pub unsafe fn initialise(barrier: u32, arrivals: u32) {
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!("mbarrier.init.shared.b64 [{}], {};", in(reg32) barrier, in(reg32) arrivals, options(nostack));
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = (barrier, arrivals);
}

/// Arrives: what this thread has done so far is done for whoever waits for the phase.
///
/// # Safety
///
/// There must be an initialised barrier.
#[cfg_attr(not(feature = "lines-of-callers"), inline(always))]
pub unsafe fn arrive(barrier: u32) {
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!(
        "{{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [{}]; }}",
        in(reg32) barrier, options(nostack)
    );
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = barrier;
}

/// Waits until the phase of that parity is complete.
///
/// # Safety
///
/// There must be an initialised barrier, in that phase or the one after it.
#[cfg_attr(not(feature = "lines-of-callers"), inline(always))]
#[allow(named_asm_labels)] // The braces make the name local to each copy of the text, which the lint doesn't know.
pub unsafe fn wait(barrier: u32, parity: u32) {
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!(
        "{{ .reg .pred complete;",
        "again: mbarrier.test_wait.parity.shared.b64 complete, [{}], {};",
        "@!complete bra again; }}",
        in(reg32) barrier, in(reg32) parity, options(nostack)
    );
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = (barrier, parity);
}

/// Makes barriers that this thread has made visible to copies that report to them ([`tensor_maps`](crate::tensor_maps)), and to the other
/// blocks of its [cluster](crate::clusters) once all have been at the cluster's barrier. `fence.mbarrier_init.release.cluster`
/// (PTX ISA, "Parallel Synchronization and Communication Instructions: membar / fence"), for compute capability 9.0 and later.
///
/// # Safety
///
/// None.
#[cfg_attr(not(feature = "lines-of-callers"), inline(always))]
pub unsafe fn show_to_copies() {
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!("fence.mbarrier_init.release.cluster;", options(nostack));
}

/// Arrives, and tells the barrier to expect `bytes` from copies: the phase isn't complete before they have come. For compute capability 9.0 and
/// later.
///
/// # Safety
///
/// There must be an initialised barrier, and copies of so many bytes must report to it in this phase.
#[cfg_attr(not(feature = "lines-of-callers"), inline(always))]
pub unsafe fn arrive_and_expect(barrier: u32, bytes: u32) {
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!(
        "{{ .reg .b64 state; mbarrier.arrive.expect_tx.shared.b64 state, [{}], {}; }}",
        in(reg32) barrier, in(reg32) bytes, options(nostack)
    );
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = (barrier, bytes);
}

/// Waits until the phase of that parity is complete, and may sleep meanwhile. For compute capability 9.0 and later.
///
/// # Safety
///
/// As for [`wait`].
#[cfg_attr(not(feature = "lines-of-callers"), inline(always))]
#[allow(named_asm_labels)] // As in [`wait`].
pub unsafe fn sleep(barrier: u32, parity: u32) {
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!(
        "{{ .reg .pred complete;",
        "again: mbarrier.try_wait.parity.shared.b64 complete, [{}], {};",
        "@!complete bra again; }}",
        in(reg32) barrier, in(reg32) parity, options(nostack)
    );
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = (barrier, parity);
}

/// Waits for all lanes of the warp, and orders their accesses to memory before it and after it.
///
/// # Safety
///
/// All 32 lanes must come here.
#[cfg_attr(not(feature = "lines-of-callers"), inline(always))]
pub unsafe fn sync_warp() {
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!("bar.warp.sync 0xffffffff;", options(nostack));
}
