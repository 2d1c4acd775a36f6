//! Copies of whole tiles by the tensor memory accelerator of Hopper (compute_90): one thread names a tile of a matrix, and it comes
//! into shared memory, or goes from there, while everybody does something else.
//!
//! The host describes the matrix once, as a [`TensorMap`]: where it lies, its sizes and distances, the tile's size, and how rows of 128 bytes
//! are *swizzled* on the way (chunk c of 16 bytes of row r stands at chunk c xor r % 8), so that tensor cores read columns
//! without bank conflicts. What lies outside the matrix comes as zeros, and isn't written, but for the rest of 16 bytes behind a row that ends inside
//! of them: copies to the matrix write whole chunks (seen on an H200; triton-lang/triton, issue 11583).
//!
//! A copy into shared memory reports to a [barrier](crate::barriers) how many bytes have come. A copy from shared memory belongs to a group of the
//! thread that started it.

/// A matrix as the tensor memory accelerator knows it, made by the driver (`cuTensorMapEncodeTiled`): a parameter of the kernel, which the
/// kernel itself never reads. (A parameter must be aligned to 64 bytes, which rustc can't say of one passed by value; cuda_builder does.)
#[repr(C, align(16))]
#[derive(Clone, Copy)]
pub struct TensorMap([u64; 16]);

/// The address of a kernel's parameter, by the kernel's name and the parameter's number, as in `parameter_address!(tiled, 0)`.
#[macro_export]
macro_rules! parameter_address {
    ($kernel:ident, $number:literal) => {{
        #[allow(unused_mut)]
        let mut address = 0u64;
        // SAFETY: it computes the address of a parameter that the kernel has.
        #[cfg(target_arch = "nvptx64")]
        unsafe {
            core::arch::asm!(
                concat!("mov.b64 {address}, ", stringify!($kernel), "_param_", stringify!($number), "; cvta.param.u64 {address}, {address};"),
                address = out(reg64) address, options(pure, nomem, nostack)
            )
        };
        address
    }};
}

/// Fetches a map, so that the first copy doesn't wait for it.
///
/// # Safety
///
/// `map` must be the address of a [`TensorMap`].
#[cfg_attr(not(feature = "lines-of-callers"), inline(always))]
pub unsafe fn prefetch(map: u64) {
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!("prefetch.tensormap [{}];", in(reg64) map, options(nostack));
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = map;
}

/// Starts a copy of a tile into shared memory: the one that begins at element `x` of row `y` of matrix `z`. Its bytes are reported to `barrier`.
///
/// `cp.async.bulk.tensor.3d` (PTX ISA, "Data movement and conversion instructions: cp.async.bulk.tensor").
///
/// # Safety
///
/// `map` must be the address of a [`TensorMap`] of three dimensions; `destination` a multiple of 1024 in this block's shared memory with room for the tile,
/// which nobody reads or writes until the phase of `barrier` is complete that expects the bytes.
#[cfg_attr(not(feature = "lines-of-callers"), inline(always))]
pub unsafe fn load(destination: u32, map: u64, [x, y, z]: [u32; 3], barrier: u32) {
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [{}], [{}, {{ {}, {}, {} }}], [{}];",
        in(reg32) destination, in(reg64) map, in(reg32) x, in(reg32) y, in(reg32) z, in(reg32) barrier, options(nostack)
    );
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = (destination, map, x, y, z, barrier);
}

/// Starts a copy of a tile into shared memory of several blocks of the cluster: those of the ranks whose bits are set in `blocks`. In each the tile
/// comes to the same place as `destination` in this block, and its bytes are reported to the barrier at the same place as `barrier`. It's
/// read once.
///
/// `cp.async.bulk.tensor.3d` with `.multicast::cluster` (PTX ISA, "Data Movement and Conversion Instructions: cp.async.bulk.tensor").
///
/// # Safety
///
/// As for [`load`], in each of these blocks; this block must [know](crate::barriers::show_to_copies) of the barriers.
#[cfg_attr(not(feature = "lines-of-callers"), inline(always))]
pub unsafe fn load_for_blocks(destination: u32, map: u64, [x, y, z]: [u32; 3], barrier: u32, blocks: u16) {
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [{}], [{}, {{ {}, {}, {} }}], [{}], {};",
        in(reg32) destination, in(reg64) map, in(reg32) x, in(reg32) y, in(reg32) z, in(reg32) barrier, in(reg16) blocks,
        options(nostack)
    );
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = (destination, map, x, y, z, barrier, blocks);
}

/// Starts a copy of a tile from shared memory to the one that begins at element `x` of row `y` of matrix `z`.
///
/// # Safety
///
/// `map` must be the address of a [`TensorMap`] of three dimensions; `source` a multiple of 1024 in this block's shared memory that holds the tile. What
/// threads have written there must be [shown](show_to_copies), and stay until [`wait_for_reads`].
#[cfg_attr(not(feature = "lines-of-callers"), inline(always))]
pub unsafe fn store(map: u64, [x, y, z]: [u32; 3], source: u32) {
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!(
        "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [{}, {{ {}, {}, {} }}], [{}];",
        in(reg64) map, in(reg32) x, in(reg32) y, in(reg32) z, in(reg32) source, options(nostack)
    );
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = (map, x, y, z, source);
}

/// Makes a group of this thread's [stores](store) since the last group.
///
/// # Safety
///
/// None beyond that of the stores.
#[cfg_attr(not(feature = "lines-of-callers"), inline(always))]
pub unsafe fn commit_stores() {
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!("cp.async.bulk.commit_group;", options(nostack));
}

/// Waits until all but the latest `PENDING` groups of this thread have read their shared memory, which may then be written again.
///
/// # Safety
///
/// None; it's the thread that started the stores that has to call it.
#[inline(always)]
pub unsafe fn wait_for_reads<const PENDING: u32>() {
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!("cp.async.bulk.wait_group.read {};", const PENDING, options(nostack));
}

/// Makes what this thread has written to shared memory visible to [`store`] and to tensor cores, which see memory by another way (the asynchronous
/// *proxy*). Then a barrier tells the thread that starts them.
///
/// # Safety
///
/// None.
#[cfg_attr(not(feature = "lines-of-callers"), inline(always))]
pub unsafe fn show_to_copies() {
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!("fence.proxy.async.shared::cta;", options(nostack));
}
