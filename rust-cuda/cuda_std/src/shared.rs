//! Memory that the threads of a block share, on the same chip as the processor and about as fast as its registers' next
//! neighbour.
//!
//! rustc has one address space, the GPU has several. So a shared variable is declared in PTX text, its address is made
//! an ordinary one, and LLVM is told that the address lies in shared memory: with the passes that `cuda_builder` runs,
//! plain loads and stores through the pointer become `ld.shared` and `st.shared`.
use crate::gpu_only;

/// Reserves an array in the shared memory of each block and gives a `*mut T` to its first element.
///
/// `shared_array![f32; 256]` is one array per place in the source: every thread of a block gets the same pointer, and
/// so does a loop or a second call of the function. What it holds at first is undefined. Arrays are aligned to 16 bytes
/// or their type's own alignment, whichever is more.
///
/// The type and the length can name what the surrounding *module* can name; a constant inside the function is out of
/// reach.
///
/// ```no_run
/// use cuda_std::{kernel, shared_array, thread};
///
/// const N: usize = 64;
///
/// /// Reverses 64 numbers; one block of 64 threads.
/// #[kernel]
/// pub unsafe fn reverse(data: *mut i32) {
///     let buffer = shared_array![i32; N];
///     let i = thread::thread_idx_x() as usize;
///     unsafe { *buffer.add(i) = *data.add(i) };
///     thread::sync_threads();
///     unsafe { *data.add(i) = *buffer.add(N - 1 - i) };
/// }
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! shared_array {
    ($element:ty; $length:expr) => {
        $crate::macro_support::shared_variable!($crate, $element, $length)
    };
}

/// The alignment of a shared array of `T`, in bytes. 16 lets a thread read four `f32` at once.
#[doc(hidden)]
pub const fn shared_alignment<T>() -> usize {
    if align_of::<T>() > 16 { align_of::<T>() } else { 16 }
}

/// Tells LLVM that `pointer` is the start of a shared array.
///
/// # Safety
/// It has to lie in shared memory and be aligned to [`shared_alignment`].
#[cfg(target_arch = "nvptx64")]
#[doc(hidden)]
#[inline(always)]
pub unsafe fn shared_array<T>(pointer: *mut T) -> *mut T {
    // SAFETY: the caller's promise.
    unsafe { assume_shared(pointer, shared_alignment::<T>()) }
}

/// Tells LLVM that `pointer` lies in shared memory and is aligned to `alignment` bytes.
///
/// # Safety
/// Both have to be true.
#[cfg(target_arch = "nvptx64")]
#[inline(always)]
unsafe fn assume_shared<T>(pointer: *mut T, alignment: usize) -> *mut T {
    // SAFETY: the caller's promise.
    unsafe {
        core::hint::assert_unchecked(pointer.addr().is_multiple_of(alignment));
        core::hint::assert_unchecked(crate::nvvm::is_shared(pointer.cast()));
    }
    pointer
}

#[cfg(target_arch = "nvptx64")]
core::arch::global_asm!(".extern .shared .align 128 .b8 cuda_std_dynamic_shared_memory[];");

/// The shared memory whose size the launch sets, as a pointer to its first byte. It is aligned to 128 bytes and
/// undefined at first. All calls give the same memory, whatever their `T`.
#[gpu_only]
#[inline(always)]
pub fn dynamic_shared_mem<T>() -> *mut T {
    let pointer: *mut T;
    // SAFETY: computes the address of a variable that this module declares.
    unsafe {
        core::arch::asm!(
            "mov.u64 {0}, cuda_std_dynamic_shared_memory; cvta.shared.u64 {0}, {0};",
            out(reg64) pointer,
            options(pure, nomem, nostack)
        );
    }
    // SAFETY: the declaration above says so.
    unsafe { assume_shared(pointer, 128) }
}
