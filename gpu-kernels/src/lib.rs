//! # The book: GEMM on NVIDIA GPUs, kernel by kernel
//!
//! Every kernel here computes the same thing, C = A B, and each file changes one idea of the file before it. A file
//! holds its lesson, its launch shape and its code, in that order, and can be read alone. Read them in this order:
//!
//! 1. [`naive`]: one thread per element of C, straight from global memory. What is slow about it is the reason for the
//!    rest.
//! 2. [`uncoalesced`]: the same with neighbouring threads in neighbouring rows. Nothing about the product changes, and
//!    every load of A and store to C touches as many sectors as a block has rows.
//! 3. [`tiled`]: a block of threads carries tiles of A and B into shared memory together, and two barriers keep it
//!    right.
//! 4. [`tiled_8`]: a smaller tile, and what a tile's size decides.
//! 5. [`tiled_32`]: the largest tile that one thread per element allows.
//! 6. [`conflicted`]: B's tile transposed, and a bank of shared memory asked 32 times at once.
//! 7. [`padded`]: one cure, a word more in every row.
//! 8. [`swizzled`]: another, the words of every row exchanged.
//! 9. [`register_column`]: eight outputs for each thread, in registers, and flat tiles.
//! 10. [`tiled_64`]: sixteen, in two columns: elements of A and of B are used more than once.
//! 11. [`register_tile`]: 8 x 8 outputs for each thread. Registers are the innermost tile.
//! 12. [`vector_loads`]: A's tile transposed, so that everything is read 16 bytes at a time.
//! 13. [`double_buffered`]: the next tiles are loaded during the products; two stages, one barrier a step.
//! 14. [`warp_tiled`]: which lanes of a warp share what they read.
//!
//! From here on GPUs of compute capability 8.0 and later are needed:
//!
//! 15. [`async_copies`]: from global to shared memory without passing a register; when is it there?
//! 16. [`multi_stage`]: copies several steps ahead, and what `wait_group` counts.
//! 17. [`wide_tile`]: 16 x 8 outputs for each thread, as much as the registers hold, and one block that must never wait.
//! 18. [`split_barrier`]: arrive early, wait late.
//! 19. [`block_order`]: which tiles are computed at the same time.
//! 20. [`k_slices`]: small products, with k shared out over the warps of a block.
//! 21. [`tensor_cores`]: factors of bf16, and 2,048 multiply-adds in one instruction of a warp.
//!
//! The last ones are for Hopper (compute capability 9.0) alone:
//!
//! 22. [`tensor_maps`]: one thread asks for whole tiles, and four warps multiply together.
//! 23. [`producer`]: a warp that only copies, a ring of stages, and registers that change hands.
//! 24. [`persistent`]: blocks that stay for one tile after the other, and sums that leave as tiles came.
//! 25. [`cluster`]: two blocks share a tile of B, and each fetches half of it for both.
//!
//! The crates `production-kernels` and `hopper-kernels` are where they lead: these ideas in one generic body each, for any shape of
//! tile.
//!
//! Beside the ladder stands [`general_tiled`]: what a library's product has to take, and that it takes no other algorithm.
//!
//! ## Conventions
//!
//! All matrices are row-major without gaps: A is `m` x `k`, B is `k` x `n`, C is `m` x `n`, and element (row, column)
//! of a matrix with `w` columns stands at `row * w + column`. Sizes and indices are `usize`, which has 64 bits on the
//! GPU: matrices of more than 2^31 elements are addressed rightly. Any `m`, `n` and `k` are allowed; a kernel never
//! reads or writes outside the three matrices. With `k` = 0 the product is all zeros.
//!
//! ## Where a block stands
//!
//! A grid has at most 65,535 blocks along y and along z, but 2^31 - 1 along x. Block columns of C lie along x; block
//! rows lie along y and go on along z, so that a tall C has enough of them: block row = z * (blocks along y) + y. The
//! last z layer may hang over the bottom of C; the guards that every kernel needs for its edges anyway take care of
//! that.
//!
//! ## For whoever launches the kernels
//!
//! [`KERNELS`] lists them all, each with its entry name and launch shape. This crate knows nothing of the host: it also
//! compiles for the CPU, where only these descriptions are of use.

#![no_std]

pub mod exercise;

pub use kernel_common::launch;
pub use kernel_common::launch::{Architecture, Kernel, LaunchShape, Precision, Registers, Signature, Tile};

/// Declares the kernels' modules and lists what each says of itself.
macro_rules! kernels {
    ($($name:ident)*) => {
        $(pub mod $name;)*
        $(kernel_common::entry_facts!($name, $name::KERNEL);)*

        /// Every kernel of this crate, in reading order.
        pub const KERNELS: &[Kernel] = &[$($name::KERNEL),*];

        /// The source of every kernel's file: its name as line directives in the PTX have it, and its text.
        pub const SOURCES: &[(&str, &str)] = &[
            ("gpu-kernels/src/exercise.rs", include_str!("exercise.rs")),
            $((concat!("gpu-kernels/src/", stringify!($name), ".rs"), include_str!(concat!(stringify!($name), ".rs")))),*
        ];
    };
}

kernel_common::entry_facts!(exercise, exercise::KERNEL);

// A new kernel is a file beside this one and a line here. The level that its descriptor states decides which module its
// entry is in.
kernels! {
    naive
    uncoalesced
    tiled
    tiled_8
    tiled_32
    conflicted
    padded
    swizzled
    register_column
    tiled_64
    register_tile
    vector_loads
    double_buffered
    warp_tiled
    async_copies
    multi_stage
    wide_tile
    split_barrier
    block_order
    k_slices
    tensor_cores
    tensor_maps
    producer
    persistent
    cluster
    general_tiled
}
