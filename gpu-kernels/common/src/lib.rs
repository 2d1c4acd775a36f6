//! What the kernel crates of this repository share: how a kernel describes itself to whoever launches it ([`launch`])
//! and how it tells cuda_builder what it needs to know of an entry ([`entry_facts!`]), what a general product is
//! ([`call`]), and instructions for which cuda_std has no function: asynchronous [`copies`], [`barriers`] in two
//! halves, [`tensor_cores`], [`vectors`] at addresses that are plain numbers, the types of [`elements`], the order of
//! [`grids`], and a thread's [`position`]; for Hopper alone whole tiles ([`tensor_maps`]), [`warpgroups`] and [`clusters`]. What a kernel
//! that copies whole tiles says of its matrices is in [`operands`]; [`pack`] is for matrices that it can't copy, and
//! [`reduce`] adds up what splits of K have left.
//!
//! The book (`gpu-kernels`) and the production kernels (`gpu-kernels/production`) are built apart from each other, so
//! that an edited lesson doesn't compile the production kernels again. What both need is here.

//! ## Which line an instruction is said to be on
//!
//! With the feature `lines-of-callers` an instruction of a function of this crate has the line of the call in the PTX,
//! otherwise its own line here. A kernel's reader wants the call. It's done by not asking for the functions to be
//! inlined early: cuda_builder gives lines to the crate that it builds and to what is compiled within it, and this
//! crate is then compiled by itself, without lines, and inlined when everything is linked. Functions with parameters
//! for types or numbers are compiled with their callers in any case.

#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(asm_experimental_arch))]
// Arrays live in registers only if every loop over them is unrolled, and LLVM does that for loops over numbers.
#![allow(clippy::needless_range_loop)]

pub mod barriers;
pub mod call;
pub mod clusters;
pub mod copies;
pub mod elements;
pub mod grids;
pub mod launch;
pub mod operands;
pub mod pack;
pub mod position;
pub mod reduce;
pub mod tensor_cores;
pub mod tensor_maps;
pub mod vectors;
pub mod warpgroups;

pub use call::Call;

/// States in the PTX what cuda_builder has to know of an entry: its launch bounds ([`launch::LaunchBounds`]) and the
/// level of PTX it is for, as in `entry_facts!(tiled, tiled::KERNEL);`.
///
/// Both are variables that cuda_builder reads and takes away: bounds become directives of the entry, and a module has
/// the entries of its own level only. To any other builder they are variables that nobody uses.
#[macro_export]
macro_rules! entry_facts {
    ($entry:ident, $kernel:expr) => {
        const _: () = {
            #[cfg(target_arch = "nvptx64")]
            #[export_name = concat!("launch_bounds_of_", stringify!($entry))]
            pub static LAUNCH_BOUNDS: $crate::launch::LaunchBounds = $kernel.launch_bounds();

            #[cfg(target_arch = "nvptx64")]
            #[export_name = concat!("level_of_", stringify!($entry))]
            pub static LEVEL: $crate::launch::LevelName = $kernel.architecture.level_name();
        };
    };
}
