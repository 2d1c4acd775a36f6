//! The symbols themselves: what a program linked against this crate calls when it calls `cuInit` and its 352
//! neighbours.
//!
//! Each function is one jump through its *slot*, a pointer in writable memory. A jump leaves registers and stack as
//! the caller set them, so one form serves every signature, and the driver's function returns straight to the caller:
//! no cost beyond the jump.
//!
//! Before the driver is there, every slot points to [`no_driver`], except those of the functions that CUDA allows
//! before `cuInit` (and `cuInit` itself): theirs load the driver first. So a program that never heard of this crate's
//! API works too.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::mem::transmute;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering};

/// `CUDA_ERROR_STUB_LIBRARY`: what every driver function answers while there is no driver.
pub const STUB_LIBRARY: c_int = 34;
/// `CUDA_ERROR_NOT_FOUND`: what a function answers that this driver, being older than the function, doesn't have.
pub const NOT_FOUND: c_int = 500;

/// One driver function: its name, and where a call of it goes.
pub(crate) struct Entry {
    pub(crate) name: &'static CStr,
    slot: &'static AtomicPtr<c_void>,
}

impl Entry {
    /// Sends calls of this function to `target` from now on; to [`not_in_this_driver`] if there is none.
    ///
    /// # Safety
    /// `target` must be the driver's function of this entry's name, and stay loaded for the rest of the process.
    pub(crate) unsafe fn bind(&self, target: Option<NonNull<c_void>>) {
        // A thread may be jumping through the slot right now: it takes either the old or the new target, both of which
        // are functions.
        self.slot.store(target.map_or(not_in_this_driver as *mut c_void, NonNull::as_ptr), Ordering::Release);
    }
}

/// Stands in for every driver function while no driver is loaded.
extern "C" fn no_driver() -> c_int {
    STUB_LIBRARY
}

/// Stands in for a function that the loaded driver doesn't have.
extern "C" fn not_in_this_driver() -> c_int {
    NOT_FOUND
}

/// Loads the driver, then answers for a function that may be a program's first call to it.
///
/// The macro gives the same treatment to each such function: load, and if that worked call what its slot holds now.
macro_rules! first_call {
    ($($function:ident as $name:ident($($argument:ident: $type:ty),*);)*) => {$(
        unsafe extern "C" fn $function($($argument: $type),*) -> c_int {
            if $crate::load().is_err() {
                return STUB_LIBRARY;
            }
            let target = slot::$name.load(Ordering::Acquire);
            // SAFETY: loading has replaced the slot's content with the driver's function of this name, whose signature
            // this is, or with `not_in_this_driver`, which looks at no argument. It can't be this function again:
            // `bind` never stores it.
            let target: unsafe extern "C" fn($($type),*) -> c_int = unsafe { transmute(target) };
            // SAFETY: the arguments are passed on as they came; that they are valid was this function's caller's
            // promise.
            unsafe { target($($argument),*) }
        }
    )*};
}

first_call! {
    init_first as cuInit(flags: c_uint);
    version_first as cuDriverGetVersion(version: *mut c_int);
    error_name_first as cuGetErrorName(error: c_int, name: *mut *const c_char);
    error_string_first as cuGetErrorString(error: c_int, text: *mut *const c_char);
    proc_address_first as cuGetProcAddress(name: *const c_char, function: *mut *mut c_void, version: c_int, flags: u64);
}

/// What a slot holds before the driver is loaded.
macro_rules! initially {
    (cuInit) => {
        init_first
    };
    (cuDriverGetVersion) => {
        version_first
    };
    (cuGetErrorName) => {
        error_name_first
    };
    (cuGetErrorString) => {
        error_string_first
    };
    (cuGetProcAddress) => {
        proc_address_first
    };
    ($other:ident) => {
        no_driver
    };
}

/// The jump through a slot, for the processor this is compiled for. It may change nothing but a register that every
/// call may change.
///
/// The symbol is hidden, which is to say that it serves this program and nobody else: were it exported, the driver's
/// library, loaded later, would find it in front of its own functions of the same name.
#[cfg(target_arch = "x86_64")]
macro_rules! jump_through {
    ($name:ident) => {
        std::arch::naked_asm!(
            concat!(".hidden ", stringify!($name)),
            "jmp qword ptr [rip + {slot}]",
            slot = sym super::slot::$name,
        )
    };
}
#[cfg(target_arch = "aarch64")]
macro_rules! jump_through {
    ($name:ident) => {
        // x16 is the register that the procedure call standard gives to code between a caller and its callee, such as
        // this.
        std::arch::naked_asm!(
            concat!(".hidden ", stringify!($name)),
            "adrp x16, {slot}",
            "ldr x16, [x16, :lo12:{slot}]",
            "br x16",
            slot = sym super::slot::$name,
        )
    };
}

macro_rules! define {
    ($($name:ident)*) => {
        /// Where each function's calls go.
        #[allow(non_upper_case_globals)]
        mod slot {
            use super::*;
            $(pub(super) static $name: AtomicPtr<c_void> = AtomicPtr::new(initially!($name) as *mut c_void);)*
        }

        /// The functions. Their real signatures are `cust_raw`'s; nothing here looks at an argument.
        #[allow(non_snake_case)]
        pub mod symbol {
            $(
                /// The driver function of this name.
                ///
                /// # Safety
                /// As NVIDIA's documentation of the function says. To be called only with its own signature, such as
                /// by `cust_raw`.
                #[unsafe(no_mangle)]
                #[unsafe(naked)]
                pub unsafe extern "C" fn $name() {
                    jump_through!($name)
                }
            )*
        }

        /// Every function, in the order of the list.
        pub(crate) static ENTRIES: &[Entry] = &[
            $(Entry {
                name: name_of(concat!(stringify!($name), "\0")),
                slot: &slot::$name,
            },)*
        ];
    };
}

/// A function's name as the loader takes it.
const fn name_of(with_nul: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(with_nul.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("an identifier has no NUL byte"),
    }
}

crate::for_driver_functions!(define);
