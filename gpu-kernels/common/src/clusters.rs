//! Clusters of Hopper (compute_90): blocks that run at the same time, on multiprocessors that reach each other's shared
//! memory.
//!
//! How many blocks make a cluster, a kernel says with [`MappedOperands::cluster`](crate::operands::MappedOperands::cluster).
//! Each has a *rank* in it, from 0. In a cluster, addresses of shared memory are those of the whole cluster, other ones for
//! each block; what is at the same place in every block has an address there that [`address_in`] gives.
//!
//! A block's shared memory must stay until the others are through with it: who knows that they are, or is waited for, comes to the
//! cluster's barrier once more before it ends, or knows otherwise that nothing is on its way there.

/// This block's rank in its cluster: `%cluster_ctarank` (PTX ISA, "Special Registers").
#[inline(always)]
pub fn rank() -> u32 {
    #[allow(unused_mut)]
    let mut rank = 0;
    // SAFETY: it reads a register that is the same throughout the kernel.
    #[cfg(target_arch = "nvptx64")]
    unsafe {
        core::arch::asm!("mov.u32 {}, %cluster_ctarank;", out(reg32) rank, options(pure, nomem, nostack))
    };
    rank
}

/// Arrives at the cluster's barrier: what this thread has done so far is done for whoever [waits](wait) there.
/// `barrier.cluster.arrive.release` (PTX ISA, "Parallel Synchronization and Communication Instructions: barrier.cluster").
///
/// # Safety
///
/// The thread waits before it arrives again.
#[cfg_attr(not(feature = "lines-of-callers"), inline(always))]
pub unsafe fn arrive() {
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!("barrier.cluster.arrive.release;", options(nostack));
}

/// Waits until all threads of the cluster that haven't ended have [arrived](arrive): `barrier.cluster.wait.acquire`.
///
/// # Safety
///
/// The thread has arrived.
#[cfg_attr(not(feature = "lines-of-callers"), inline(always))]
pub unsafe fn wait() {
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!("barrier.cluster.wait.acquire;", options(nostack));
}

/// Waits for all threads of the cluster that haven't ended: [`arrive`] and [`wait`].
///
/// # Safety
///
/// All of them must come here, or to an arrival, or end.
#[inline(always)]
pub unsafe fn sync() {
    arrive();
    wait();
}

/// The address that what is at `address` in this block's shared memory, or in that of any block of the cluster, has in the block
/// of that rank: `mapa.shared::cluster` (PTX ISA, "Data Movement and Conversion Instructions: mapa").
///
/// # Safety
///
/// The cluster must have a block of that rank.
#[inline(always)]
pub unsafe fn address_in(rank: u32, address: u32) -> u32 {
    #[allow(unused_mut)]
    let mut mapped = address;
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!(
        "mapa.shared::cluster.u32 {}, {}, {};",
        out(reg32) mapped, in(reg32) address, in(reg32) rank, options(pure, nomem, nostack)
    );
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = rank;
    mapped
}

/// Arrives at a [barrier](crate::barriers) of any block of the cluster, by its [address there](address_in):
/// `mbarrier.arrive.shared::cluster` (PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier.arrive").
///
/// Without a word about order in it this is a release within the thread's own block. That is enough where what the thread has to
/// tell is that products, which read memory by another way, are through. (`.release.cluster` also waits until all of the
/// thread's accesses to memory are known to the whole GPU, which takes long.)
///
/// # Safety
///
/// There must be a barrier that this block [knows of](crate::barriers::show_to_copies), in a block that stays until the arrival
/// has come.
#[cfg_attr(not(feature = "lines-of-callers"), inline(always))]
pub unsafe fn arrive_at(barrier: u32) {
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!("mbarrier.arrive.shared::cluster.b64 _, [{}];", in(reg32) barrier, options(nostack));
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = barrier;
}

/// The same as [`arrive_at`]; and what this thread has done so far, and what others had done that it knows of, is done for
/// whoever [waits](sleep), in any block of the cluster: `mbarrier.arrive.release.cluster.shared::cluster`.
///
/// # Safety
///
/// As for [`arrive_at`].
#[cfg_attr(not(feature = "lines-of-callers"), inline(always))]
pub unsafe fn release_at(barrier: u32) {
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!(
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [{}];",
        in(reg32) barrier, options(nostack)
    );
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = barrier;
}

/// Waits until the phase of that parity of a barrier of this block is complete, as [`sleep`](crate::barriers::sleep) does, for
/// [arrivals](release_at) and [stores](store_and_report) of other blocks too: `mbarrier.try_wait.parity.acquire.cluster`.
///
/// # Safety
///
/// As for [`wait`](crate::barriers::wait).
#[cfg_attr(not(feature = "lines-of-callers"), inline(always))]
#[allow(named_asm_labels)] // The braces make the name local to each copy of the text, which the lint doesn't know.
pub unsafe fn sleep(barrier: u32, parity: u32) {
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!(
        "{{ .reg .pred complete;",
        "again: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 complete, [{}], {};",
        "@!complete bra again; }}",
        in(reg32) barrier, in(reg32) parity, options(nostack)
    );
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = (barrier, parity);
}

/// Stores four numbers in the shared memory of any block of the cluster, by their [address there](address_in). The
/// [barrier](crate::barriers) at an address in the same block's counts the 16 bytes when they have come: `st.async` (PTX ISA, "Data
/// Movement and Conversion Instructions: st.async").
///
/// The thread goes on at once. Whoever waits for the barrier's phase, which must [expect](crate::barriers::arrive_and_expect) the
/// bytes, finds the numbers there. Threads may read them then; products and copies, which read by another way, need a fence after
/// the wait.
///
/// # Safety
///
/// The address is a multiple of 16, and nobody else uses its 16 bytes until the phase is over. There must be a barrier that this
/// block [knows of](crate::barriers::show_to_copies), in a cluster of several blocks, in a block that stays until the bytes have
/// come.
#[cfg_attr(not(feature = "lines-of-callers"), inline(always))]
pub unsafe fn store_and_report(address: u32, [x, y, z, w]: [f32; 4], barrier: u32) {
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!(
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [{}], {{ {}, {}, {}, {} }}, [{}];",
        in(reg32) address, in(reg32) x, in(reg32) y, in(reg32) z, in(reg32) w, in(reg32) barrier, options(nostack)
    );
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = (address, x, y, z, w, barrier);
}
