//! Which of the GPU's memories a pointer points to.
//!
//! Rust's pointers are *generic*: one address range in which each memory has a window. PTX also knows addresses that
//! count within one memory.
use crate::gpu_only;
#[cfg(target_arch = "nvptx64")]
use crate::nvvm;

/// The memories of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AddressSpace {
    /// The device's memory, for all threads to read and write.
    Global,
    /// A block's memory, for its threads to read and write.
    Shared,
    /// The device's memory, for all threads to read.
    Constant,
    /// A thread's own memory: what of its variables is in no register.
    Local,
}

/// Whether a generic pointer points into `address_space`.
///
/// # Safety
/// `ptr` must be valid for a `T`.
#[gpu_only]
#[inline(always)]
pub unsafe fn is_in_address_space<T>(ptr: *const T, address_space: AddressSpace) -> bool {
    let ptr = ptr.cast();
    // SAFETY: looks at the address only.
    unsafe {
        match address_space {
            AddressSpace::Global => nvvm::is_global(ptr),
            AddressSpace::Shared => nvvm::is_shared(ptr),
            AddressSpace::Constant => nvvm::is_constant(ptr),
            AddressSpace::Local => nvvm::is_local(ptr),
        }
    }
}

#[cfg(target_arch = "nvptx64")]
macro_rules! convert {
    ($instruction:literal, $pointer:ident) => {{
        let converted;
        core::arch::asm!(
            concat!($instruction, " {}, {};"),
            out(reg64) converted,
            in(reg64) $pointer,
            options(pure, nomem, nostack)
        );
        converted
    }};
}

/// The address within `address_space` of what a generic pointer points to, as inline PTX wants it. Rust can't
/// dereference it.
///
/// # Safety
/// `ptr` must be valid for a `T` in that memory.
#[gpu_only]
#[inline(always)]
pub unsafe fn convert_generic_to_specific_address_space<T>(ptr: *const T, address_space: AddressSpace) -> *const T {
    // SAFETY: computes an address; the caller promises that the pointer lies in that memory.
    unsafe {
        match address_space {
            AddressSpace::Global => convert!("cvta.to.global.u64", ptr),
            AddressSpace::Shared => convert!("cvta.to.shared.u64", ptr),
            AddressSpace::Constant => convert!("cvta.to.const.u64", ptr),
            AddressSpace::Local => convert!("cvta.to.local.u64", ptr),
        }
    }
}

/// The generic pointer to what lies at an address within `address_space`.
///
/// # Safety
/// `ptr` must be the address of a `T` in that memory.
#[gpu_only]
#[inline(always)]
pub unsafe fn convert_specific_address_space_to_generic<T>(ptr: *const T, address_space: AddressSpace) -> *const T {
    // SAFETY: computes an address; the caller promises that it is one of that memory.
    unsafe {
        match address_space {
            AddressSpace::Global => convert!("cvta.global.u64", ptr),
            AddressSpace::Shared => convert!("cvta.shared.u64", ptr),
            AddressSpace::Constant => convert!("cvta.const.u64", ptr),
            AddressSpace::Local => convert!("cvta.local.u64", ptr),
        }
    }
}
