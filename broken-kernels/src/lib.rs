//! # Kernels that are each one mistake away from a right one
//!
//! They test what finds mistakes: `host check` and the simulator's analyses, with NVIDIA's compute-sanitizer beside
//! them. Each file holds one mistake as two kernels made from the same code: the broken one, and its right twin with
//! `_right` at the end of its name. A file says what is wrong and why it may look right; [`MISTAKES`] says what is to
//! be found, and at which lines. Lines are named by marks in the source: `// <- read` at the end of a line makes it the
//! line "read".
//!
//! All take the arguments of a GEMM kernel, `(a, b, c, m, n, k)`, so that one launch serves them all, whether they
//! compute a product of matrices or something smaller. A and B are of `f32` but where a mistake says bf16. Those for Hopper
//! alone take tensor maps of A, B and C and then C and the sizes ([`Launch::Boxes`]).
//!
//! - Barriers of the block: [`first_barrier_missing`], [`second_barrier_missing`], [`both_barriers_missing`],
//!   [`prefetch_stored_early`], [`double_buffer_wrong_stage`], [`double_buffer_barrier_late`],
//!   [`double_buffer_barrier_missing`], [`scan_in_place`], [`broadcast_without_barrier`].
//! - Asynchronous copies: [`copy_wait_missing`], [`copy_wait_too_lax`], [`copy_waited_for_after_the_barrier`],
//!   [`copy_into_a_stage_still_read`], [`copy_into_the_wrong_stage`], [`copy_zeros_missing`], [`copy_never_waited_for`],
//!   [`copies_land_on_sums`].
//! - Copies to matrices that tensor cores multiply: [`matrices_read_before_the_barrier`], [`matrices_never_waited_for`],
//!   [`matrices_wait_too_lax`], [`copies_into_matrices_still_read`].
//! - Barriers in two halves: [`mbarrier_wrong_parity`], [`mbarrier_wrong_count`], [`mbarrier_arrival_before_the_reads`],
//!   [`mbarrier_arrival_before_the_copies`], [`mbarrier_arrival_without_the_warp`], [`mbarrier_not_shown`].
//! - Tiles that a warpgroup multiplies, for Hopper alone: [`boxes_wrong_phase`], [`boxes_too_few_bytes`],
//!   [`boxes_too_many_bytes`], [`boxes_into_a_stage_still_read`], [`sums_stored_before_the_wait`],
//!   [`proxy_fence_missing`].
//! - Clusters of blocks, for Hopper alone: [`cluster_barrier_missing`], [`stage_read_by_the_other_block`],
//!   [`block_ends_before_the_other`].
//! - Barriers that not all threads reach: [`barrier_in_branch`], [`barrier_in_uneven_loop`], [`early_return`],
//!   [`different_barriers`].
//! - Threads of a warp: [`warp_exchange`], [`reduction_in_lockstep`].
//! - Places in shared arrays: [`swapped_store`], [`tile_one_too_long`], [`padding_in_one_place`],
//!   [`transposed_wrong_stride`], [`neighbour_past_the_end`], [`edge_zeros_missing`], [`counters_not_zeroed`],
//!   [`counted_without_atomics`].
//! - Global memory: [`unguarded_edge_load`], [`unguarded_edge_store`], [`guard_sizes_exchanged`], [`sum_in_c_unset`],
//!   [`overlapping_outputs`], [`misaligned_vector`].
//! - Blocks of the grid: [`blocks_add_to_one_element`], [`split_k_without_atomics`], [`block_barrier_for_the_grid`],
//!   [`last_block_without_fence`].

#![no_std]
// Nobody calls these kernels but through a launch; what it must keep to is said above and in `MISTAKES`.
#![allow(clippy::missing_safety_doc)]

use cuda_std::*;
use kernel_common::launch::ElementType;

pub mod boxes;
mod tensor_tiles;

/// Rows and columns of a tile; blocks of tiles have TILE x TILE threads.
pub const TILE: usize = 16;

/// Threads of a block whose threads stand in one line.
pub const LINE: usize = 256;

/// What is wrong, by the names of the simulator's `FindingKind` and of its faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A thread reads what another wrote, and nothing makes the read come after the write.
    ReadAfterWrite,
    /// A thread overwrites what another reads, and nothing makes the write come after the read.
    WriteAfterRead,
    /// Two threads write the same place.
    WriteAfterWrite,
    /// Memory is read that nobody has written.
    Uninitialised,
    /// An access past the end of a shared array.
    OutsideArray,
    /// Threads of a block arrive at different barriers.
    DifferentBarriers,
    /// An access outside every allocation.
    OutOfBounds,
    /// An access at an address that isn't a multiple of its size.
    Misaligned,
    /// A barrier that some threads of the block never reach.
    DivergentBarrier,
    /// An asynchronous copy on its way when its thread ends.
    CopyNeverAwaited,
    /// Threads wait at an mbarrier for arrivals that never come.
    MbarrierDeadlock,
    /// An mbarrier is used where nobody has made one yet.
    NoMbarrier,
    /// A thread arrives at an mbarrier whose phase has all its arrivals.
    TooManyArrivals,
    /// A copy of a box reads what threads wrote, without a fence between the proxies.
    MissingProxyFence,
    /// Sums of a product of a warpgroup are used before it has been waited for.
    ProductNotAwaited,
    /// An mbarrier of another block of the cluster is used that isn't known to be one.
    MbarrierNotShown,
    /// The shared memory of another block of the cluster is used, which may have ended.
    BlockExitsEarly,
}

/// One thing to be found, at lines named by their marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// What is wrong.
    pub kind: Kind,
    /// The mark of the line that comes first, or of the only one.
    pub first: &'static str,
    /// The mark of the other line, if there are two accesses or barriers.
    pub second: Option<&'static str>,
}

impl Found {
    const fn between(kind: Kind, first: &'static str, second: &'static str) -> Found {
        Found { kind, first, second: Some(second) }
    }

    const fn at(kind: Kind, line: &'static str) -> Found {
        Found { kind, first: line, second: None }
    }
}

/// How a kernel is launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launch {
    /// A block of TILE x TILE threads for each tile of C.
    Tiles,
    /// Two such blocks for each tile, one after the other along z.
    TilesTwice,
    /// Blocks of LINE threads along x, one thread for each element of C.
    Lines,
    /// One block of LINE threads.
    OneLine,
    /// A block of [`boxes::THREADS`] threads for each tile of C of [`boxes::SIDE`] rows and columns, on Hopper alone. Kernels
    /// take tensor maps of A, B and C as [`boxes::Maps`] says, a pointer to C, m, n and k.
    Boxes,
    /// The same in clusters of two blocks that stand side by side, the last of which may be beside C.
    Pairs,
}

impl Launch {
    /// Blocks of the grid along x, y and z for a C of `m` x `n`.
    pub fn grid(self, m: usize, n: usize) -> [u32; 3] {
        let tiles = |size: usize| size.div_ceil(TILE) as u32;
        match self {
            Launch::Tiles => [tiles(n), tiles(m), 1],
            Launch::TilesTwice => [tiles(n), tiles(m), 2],
            Launch::Lines => [(m * n).div_ceil(LINE) as u32, 1, 1],
            Launch::OneLine => [1, 1, 1],
            Launch::Boxes => [n.div_ceil(boxes::SIDE) as u32, m.div_ceil(boxes::SIDE) as u32, 1],
            Launch::Pairs => {
                let [x, y, z] = Launch::Boxes.grid(m, n);
                [x.next_multiple_of(2), y, z]
            }
        }
    }

    /// Threads of a block along x, y and z.
    pub const fn block(self) -> [u32; 3] {
        match self {
            Launch::Tiles | Launch::TilesTwice => [TILE as u32, TILE as u32, 1],
            Launch::Lines | Launch::OneLine => [LINE as u32, 1, 1],
            Launch::Boxes | Launch::Pairs => [boxes::THREADS as u32, 1, 1],
        }
    }

    /// Shared memory that the launch adds to what the kernel declares, in bytes per block.
    pub const fn dynamic_shared_bytes(self) -> u32 {
        if self.takes_maps() {
            boxes::SHARED_BYTES
        } else {
            0
        }
    }

    /// Whether kernels take tensor maps, and run on Hopper alone.
    pub const fn takes_maps(self) -> bool {
        matches!(self, Launch::Boxes | Launch::Pairs)
    }
}

/// What C has to hold before the launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// Nothing: it's memory that nobody has written.
    Unwritten,
    /// Zeros, since the kernel adds to it.
    Zeros,
}

/// When a mistake shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shows {
    /// In every launch of at least three steps along k.
    Always,
    /// Only if m, n and k aren't all multiples of the tile, and m isn't n. Otherwise the broken kernel does no wrong.
    AtEdges,
}

/// A mistake, as a broken kernel and its right twin.
#[derive(Clone, Copy, Debug)]
pub struct Mistake {
    /// The broken kernel's entry point, and the name of its file.
    pub name: &'static str,
    /// The right twin's entry point.
    pub right: &'static str,
    /// What is wrong, in one line.
    pub title: &'static str,
    /// How both are launched.
    pub launch: Launch,
    /// What C holds before.
    pub before: Before,
    /// What A and B consist of. For bf16 n and k have to be multiples of 8.
    pub factors: ElementType,
    /// Whether the right twin computes C = A B.
    pub is_product: bool,
    /// When the mistake shows.
    pub shows: Shows,
    /// All that is to be found.
    pub found: &'static [Found],
}

impl Mistake {
    /// The mistake's file as line directives in the PTX name it, and its text.
    pub fn source(&self) -> (&'static str, &'static str) {
        let at = MISTAKES.iter().position(|mistake| mistake.name == self.name);
        at.map_or(("", ""), |at| SOURCES[at])
    }

    /// The number of the line with that mark, counted from 1.
    pub fn line(&self, mark: &str) -> Option<u32> {
        let is_marked = |line: &str| line.split_once("// <- ").is_some_and(|(_, found)| found == mark);
        self.source().1.lines().position(is_marked).map(|at| at as u32 + 1)
    }
}

/// Adds a number to one in memory, as one operation that no other thread's can come into, as in
/// `atomic_add!("f32", sum, 1.0)`.
///
/// Rust's library has no atomic `f32`, and its atomic integers have their lines in the library's own source.
#[collapse_debuginfo(yes)]
macro_rules! atomic_add {
    ($type:literal, $sum:expr, $value:expr) => {{
        let (sum, value) = ($sum, $value);
        #[cfg(target_arch = "nvptx64")]
        core::arch::asm!(
            concat!("red.add.", $type, " [{}], {};"), in(reg64) sum, in(reg32) value, options(nostack)
        );
        // Anywhere else kernels are only type-checked.
        #[cfg(not(target_arch = "nvptx64"))]
        let _: (*mut _, _) = (sum, value);
    }};
}

/// Declares a broken kernel and its right twin from `work` beside it.
macro_rules! entries {
    ($broken:ident, $right:ident) => {
        /// The broken kernel.
        #[cuda_std::kernel]
        pub unsafe fn $broken(a: *const f32, b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
            work::<true>(a, b, c, m, n, k);
        }

        /// Its right twin.
        #[cuda_std::kernel]
        pub unsafe fn $right(a: *const f32, b: *const f32, c: *mut f32, m: usize, n: usize, k: usize) {
            work::<false>(a, b, c, m, n, k);
        }
    };
}

/// The same of kernels that are launched as [`Launch::Boxes`].
macro_rules! entries_of_boxes {
    ($broken:ident, $right:ident) => {
        entry_of_boxes!($broken, true, "The broken kernel.");
        entry_of_boxes!($right, false, "Its right twin.");
    };
}

/// The same of kernels that are launched as [`Launch::Pairs`].
macro_rules! entries_of_pairs {
    ($broken:ident, $right:ident) => {
        entries_of_boxes!($broken, $right);
        clusters_of_two!($broken);
        clusters_of_two!($right);
    };
}

/// States in the PTX that two blocks along x make a cluster.
macro_rules! clusters_of_two {
    ($entry:ident) => {
        const _: () = {
            #[cfg(target_arch = "nvptx64")]
            #[export_name = concat!("launch_bounds_of_", stringify!($entry))]
            pub static LAUNCH_BOUNDS: kernel_common::launch::LaunchBounds = [0, 0, 0, 0, 0, 2];
        };
    };
}

/// Declares one of them.
macro_rules! entry_of_boxes {
    ($entry:ident, $broken:literal, $documentation:literal) => {
        #[doc = $documentation]
        #[cuda_std::kernel]
        #[allow(unused_variables)] // Maps are used by their addresses.
        pub unsafe fn $entry(
            a: kernel_common::tensor_maps::TensorMap,
            b: kernel_common::tensor_maps::TensorMap,
            c_map: kernel_common::tensor_maps::TensorMap,
            c: *mut f32,
            m: usize,
            n: usize,
            k: usize,
        ) {
            let maps = $crate::boxes::Maps {
                a: kernel_common::parameter_address!($entry, 0),
                b: kernel_common::parameter_address!($entry, 1),
                c: kernel_common::parameter_address!($entry, 2),
            };
            work::<$broken>(maps, c, m, n, k);
        }

        const _: () = {
            #[cfg(target_arch = "nvptx64")]
            #[export_name = concat!("level_of_", stringify!($entry))]
            pub static LEVEL: kernel_common::launch::LevelName =
                kernel_common::launch::Architecture::Compute90a.level_name();
        };
    };
}

/// Declares the files and lists what each says of itself.
macro_rules! mistakes {
    ($($name:ident)*) => {
        $(pub mod $name;)*

        /// Every mistake.
        pub const MISTAKES: &[Mistake] = &[$($name::MISTAKE),*];

        const SOURCES: &[(&str, &str)] = &[$((
            concat!("broken-kernels/src/", stringify!($name), ".rs"),
            include_str!(concat!(stringify!($name), ".rs")),
        )),*];
    };
}

// A new mistake is a file beside this one and a line here.
mistakes! {
    first_barrier_missing
    second_barrier_missing
    both_barriers_missing
    prefetch_stored_early
    double_buffer_wrong_stage
    double_buffer_barrier_late
    double_buffer_barrier_missing
    scan_in_place
    broadcast_without_barrier
    copy_wait_missing
    copy_wait_too_lax
    copy_waited_for_after_the_barrier
    copy_into_a_stage_still_read
    copy_into_the_wrong_stage
    copy_zeros_missing
    copy_never_waited_for
    copies_land_on_sums
    matrices_read_before_the_barrier
    matrices_never_waited_for
    matrices_wait_too_lax
    copies_into_matrices_still_read
    mbarrier_wrong_parity
    mbarrier_wrong_count
    mbarrier_arrival_before_the_reads
    mbarrier_arrival_before_the_copies
    mbarrier_arrival_without_the_warp
    mbarrier_not_shown
    boxes_wrong_phase
    boxes_too_few_bytes
    boxes_too_many_bytes
    boxes_into_a_stage_still_read
    sums_stored_before_the_wait
    proxy_fence_missing
    cluster_barrier_missing
    stage_read_by_the_other_block
    block_ends_before_the_other
    barrier_in_branch
    barrier_in_uneven_loop
    early_return
    different_barriers
    warp_exchange
    reduction_in_lockstep
    swapped_store
    tile_one_too_long
    padding_in_one_place
    transposed_wrong_stride
    neighbour_past_the_end
    edge_zeros_missing
    counters_not_zeroed
    counted_without_atomics
    unguarded_edge_load
    unguarded_edge_store
    guard_sizes_exchanged
    sum_in_c_unset
    overlapping_outputs
    misaligned_vector
    blocks_add_to_one_element
    split_k_without_atomics
    block_barrier_for_the_grid
    last_block_without_fence
}

/// Where a thread stands in its block and in C.
pub(crate) struct Here {
    pub x: usize,
    pub y: usize,
    pub row: usize,
    pub column: usize,
}

/// This thread's place where every block has a tile of C.
#[inline(always)]
pub(crate) fn here() -> Here {
    let (x, y) = (thread::thread_idx_x() as usize, thread::thread_idx_y() as usize);
    let (block_x, block_y) = (thread::block_idx_x() as usize, thread::block_idx_y() as usize);
    Here { x, y, row: block_y * TILE + y, column: block_x * TILE + x }
}
