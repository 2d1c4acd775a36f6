//! # Lesson 22: whole tiles in one request
//!
//! This lesson and the next ones are for Hopper (compute capability 9.0) alone. Its tensor cores are so fast that what
//! surrounds a product has to go: in [`tensor_cores`](crate::tensor_cores) a step of a warp, 64 instructions of `mma`, also has 16 of
//! `ldmatrix` and 6 copies of each thread, with an address, a source size and a place in shared memory for each. Here a step of
//! the whole block has three copies, and a step of a warp four products.
//!
//! ## One thread asks for a tile
//!
//! The host describes a matrix once: where it begins, its sizes, how far its rows are apart, and which *box* of it a copy
//! brings. That is a *tensor map*, a parameter of the kernel that the kernel itself never reads. One thread then says
//! "the box that begins at column x of row y, to that place in shared memory", and the copying unit of the multiprocessor, the
//! *tensor memory accelerator* or TMA, works out every address. Nobody computes the 16,384 bytes' places, and no register
//! holds them.
//!
//! Edges cost nothing either. What lies outside the matrix arrives as zeros, which add nothing to a sum. That's why there is
//! no guard in front of a copy here, only in front of the stores.
//!
//! The price is in the description: rows have to begin at multiples of 16 bytes. So k and n are multiples of 8, unless the
//! matrices have gaps between their rows; others are refused.
//!
//! ## When is it there?
//!
//! A copy reports to a barrier in shared memory, as in [`split_barrier`](crate::split_barrier), that counts *bytes* beside arrivals:
//!
//! ```text
//!   thread 0    arrive, and expect 32,768 bytes    ask for A's box, and for B's two
//!   the TMA                                        16,384 bytes are here .. 8,192 .. 8,192
//!   everybody   wait for the phase                                                         multiply
//! ```
//!
//! The phase is complete when the one arrival has come and no byte is missing. If fewer bytes are expected than come,
//! it's complete too early or never ends; if more, it never ends. There is no guess about it: bytes outside the matrix
//! count, since their zeros are written as well.
//!
//! ## Four warps multiply together
//!
//! A *warpgroup* is four neighbouring warps. One of its instructions, `wgmma`, multiplies 64 x 16 elements of A by 16 x 128 of B:
//! 131,072 multiply-adds, 64 times those of `mma`. Both factors stay in shared memory. The instruction gets two *descriptors*,
//! numbers of 64 bits that say where a matrix begins and how its rows lie, and no fragments: no `ldmatrix`, and no register but the
//! sums.
//!
//! The tile of C is 128 x 128. Two warpgroups take 64 rows each, and both read the same tile of B.
//!
//! ```text
//!                      B: 64 x 128, two boxes
//!                      +--------+--------+
//!                      |        |        |
//!                      +--------+--------+
//!   A: 128 x 64        sums: 64 of each thread
//!   +--------+         +-----------------+
//!   |        |         |   warpgroup 0   |
//!   |        |         +-----------------+
//!   |        |         |   warpgroup 1   |
//!   +--------+         +-----------------+
//! ```
//!
//! ## 128 bytes, and a swizzle
//!
//! A row of a box has 128 bytes, 64 elements: all the banks once. Tensor cores read 8 rows at a time, 16 bytes of each, and those of
//! one column would lie in the same banks. So the TMA exchanges the 16-byte chunks of every row on the way, chunk c of row r to
//! place c XOR (r modulo 8), and tensor cores know it: [`swizzled`](crate::swizzled), done by the hardware. It's said in two
//! places, in the tensor map and in the descriptor, and if they differ the product is wrong.
//!
//! 128 bytes are the most that can be swizzled. So B's tile, whose rows lie across k and have 128 elements, comes as two boxes of 64
//! columns.
//!
//! ## Asynchronous, too
//!
//! `wgmma` starts a product and returns. Between a *fence* in front of it, which says that registers and memory are
//! ready, and `wait_group` nobody may touch the sums, not even to set them to zero: the first product of a tile is told not to add to
//! what is there.
//!
//! ## One step
//!
//! ```text
//!   ask for the tiles | wait | multiply | wait | everybody | ask for the next | ...
//! ```
//!
//! Nothing of this overlaps. What keeps the tensor cores busy meanwhile is another block of the same multiprocessor, of which
//! there are two or three: one multiplies while the other waits.
//!
//! ## What limits it next
//!
//! Waiting. An H200's tensor cores do 2048 multiply-adds a cycle on each multiprocessor, so the 128 x 128 x 64 of a step take 512
//! cycles. A copy from the second-level cache takes about as long as that, and more if everybody asks at once; and then there are two
//! waits and a barrier in a step. [`producer`](crate::producer) takes copying away from those who multiply.
//!
//! ## Measured
//!
//! On an H200 386 TFLOP/s at N = 4096 and 390 at N = 8192, 58 % of cuBLAS with bf16 factors and f32 sums in the same run. At
//! N = 2048 it's 367, 60 %, and at N = 1024 104, 31 %, for 64 blocks leave half of the GPU without work. That's no more than
//! [`tensor_cores`](crate::tensor_cores) has, 58 to 65 %, with the instruction of the generation before, but behind whose products
//! everything else is hidden. Here all threads wait for a tile, multiply, and wait again: nobody copies while the tensor cores are
//! busy.

use crate::launch::{Architecture, Kernel, LaunchShape, Precision, Registers, Signature, Tile};
use crate::register_column::first_element;
use cuda_std::*;
use kernel_common::operands::{CopiedBox, MappedOperand, MappedOperands, MappedOutput, Swizzle};
use kernel_common::parameter_address;
use kernel_common::tensor_maps::{load, prefetch, TensorMap};
use kernel_common::vectors::{dynamic_shared_memory, store_global_pair};
use kernel_common::warpgroups::{across_k, along_k, Bf16x128, Product};
use kernel_common::{barriers, warpgroups};

/// Rows of a block's tile of C: [`WARPGROUP_ROWS`] for each of two warpgroups.
pub const ROWS: usize = 128;
/// Columns of a block's tile of C.
pub const COLUMNS: usize = Bf16x128::COLUMNS;
/// Places of k in a step: rows of 128 bytes.
pub const DEPTH: usize = 64;
/// Threads of a warpgroup.
pub const WARPGROUP: usize = 128;
/// Rows of a warpgroup's part of the tile.
pub const WARPGROUP_ROWS: usize = 64;
/// Threads of a block.
pub const THREADS: usize = ROWS / WARPGROUP_ROWS * WARPGROUP;

/// Columns of a box of B: 128 bytes.
pub(crate) const BOX_COLUMNS: usize = 64;
/// Bytes of [`DEPTH`] rows of such a box, and of [`WARPGROUP_ROWS`] rows of A's.
pub(crate) const BOX: u32 = 64 * warpgroups::ROW_BYTES;
/// Bytes of A's tile.
pub(crate) const BYTES_A: u32 = ROWS as u32 * warpgroups::ROW_BYTES;
/// Bytes of both tiles.
const STEP: u32 = BYTES_A + (COLUMNS / BOX_COLUMNS) as u32 * BOX;
/// Tiles begin at multiples of so many bytes: that is where the swizzle begins again.
pub(crate) const ALIGNMENT: u32 = 1024;

/// Boxes of `lines` rows of 64 elements of bf16, with chunks exchanged.
const fn boxes(lines: u32) -> MappedOperand {
    MappedOperand {
        by_columns: false,
        copied: CopiedBox::Batched { width: BOX_COLUMNS as u32, lines },
        swizzle: Swizzle::Bytes128,
    }
}

/// How A and B are copied: A's tile is one box, B's has one for every 64 columns.
pub const OPERANDS: MappedOperands = MappedOperands {
    a: boxes(ROWS as u32),
    b: boxes(DEPTH as u32),
    c: MappedOutput::Pointer,
    cluster: 1,
    blocks_stay: false,
};

/// What the host needs to know to launch [`tensor_maps`].
pub const KERNEL: Kernel = Kernel {
    name: "tensor_maps",
    title: "one thread asks for whole tiles, and four warps multiply together",
    entry: "tensor_maps",
    architecture: Architecture::Compute90a,
    precision: Precision::Bf16,
    signature: Signature::Mapped(OPERANDS),
    tile: Tile { m: ROWS as u32, n: COLUMNS as u32, k: DEPTH as u32 },
    block: [THREADS as u32, 1, 1],
    registers: Registers::ForBlocks(2),
    shared_bytes: 0,
    launch_shape,
};

/// One block of THREADS threads per tile of C, with shared memory for the tiles, the barrier and what the beginning lacks of a
/// multiple of [`ALIGNMENT`].
pub fn launch_shape(m: usize, n: usize, _k: usize) -> Option<LaunchShape> {
    let shape = LaunchShape::over_tiles(m, n, KERNEL.tile, KERNEL.block)?;
    Some(LaunchShape { dynamic_shared_bytes: STEP + 8 + ALIGNMENT, ..shape })
}

/// C = A B, a ROWS x COLUMNS tile of C per block and WARPGROUP_ROWS rows of it per warpgroup.
///
/// # Safety
///
/// `a` and `b` must map `m` x `k` and `k` x `n` elements as [`OPERANDS`] says, `c` must point to `m * n` elements in memory that the GPU can
/// reach, apart from the other two, `k` mustn't be 0, and the launch must have the shape that [`launch_shape`] gives.
#[kernel]
#[allow(unused_variables)] // Maps are used by their addresses.
pub unsafe fn tensor_maps(a: TensorMap, b: TensorMap, c: *mut f32, m: usize, n: usize, k: usize) {
    let (a, b) = (parameter_address!(tensor_maps, 0), parameter_address!(tensor_maps, 1));
    let tile_a = aligned_shared_memory();
    let tile_b = tile_a + BYTES_A;
    let barrier = tile_a + STEP;
    let thread = thread::thread_idx_x() as usize;
    if thread == 0 {
        prefetch(a);
        prefetch(b);
        // One thread arrives, and the bytes come.
        barriers::initialise(barrier, 1);
        barriers::show_to_copies();
    }
    thread::sync_threads();

    let (row, column) = first_element(ROWS, COLUMNS);
    let warpgroup = thread / WARPGROUP;
    let mut sums = Bf16x128::unset();
    let (mut place, mut parity) = (0, 0);
    // There is a first step, since k isn't 0. (The assembler wants to see it: sums have no value before.)
    loop {
        if thread == 0 {
            barriers::arrive_and_expect(barrier, STEP);
            load(tile_a, a, [place, row as u32, 0], barrier);
            load(tile_b, b, [column as u32, place, 0], barrier);
            load(tile_b + BOX, b, [(column + BOX_COLUMNS) as u32, place, 0], barrier);
        }
        barriers::sleep(barrier, parity);

        let own_rows = along_k(tile_a + warpgroup as u32 * BOX);
        // The first product of a tile is told not to add.
        Bf16x128::step::<false, true>(&mut sums, own_rows, across_k(tile_b, BOX), place);
        Bf16x128::wait::<0>(&mut sums);

        parity ^= 1;
        place += DEPTH as u32;
        if place as usize >= k {
            break;
        }
        // Everybody is through with the tiles: others may come in their place.
        thread::sync_threads();
    }
    store(&sums, c, (row + warpgroup * WARPGROUP_ROWS, column), (m, n));
}

/// The first address of the launch's shared memory at which a tile may begin.
#[inline(always)]
pub(crate) fn aligned_shared_memory() -> u32 {
    dynamic_shared_memory().next_multiple_of(ALIGNMENT)
}

/// Stores a thread's sums to C, those that are inside: of WARPGROUP_ROWS rows from (`first_row`, `first_column`) on.
///
/// # Safety
///
/// `c` must point to `m * n` elements, `n` be even, and nobody else write to these.
#[inline(always)]
pub(crate) unsafe fn store(
    sums: &[f32],
    c: *mut f32,
    (first_row, first_column): (usize, usize),
    (m, n): (usize, usize),
) {
    let thread = thread::thread_idx_x() as usize % WARPGROUP;
    let (warp, lane) = (thread / 32, thread % 32);
    let column = first_column + lane % 4 * 2;
    for half in 0..2 {
        let row = first_row + warp * 16 + lane / 4 + half * 8;
        if row >= m {
            continue;
        }
        let c = c.add(row * n);
        let is_aligned = (c as usize).is_multiple_of(size_of::<[f32; 2]>());
        for group in 0..sums.len() / 4 {
            // Columns are even, and so is n: where the first of two is inside, both are.
            let column = column + group * 8;
            let pair = [sums[4 * group + 2 * half], sums[4 * group + 2 * half + 1]];
            if column < n {
                if is_aligned {
                    store_global_pair(c.add(column) as u64, pair);
                } else {
                    c.add(column).write(pair[0]);
                    c.add(column + 1).write(pair[1]);
                }
            }
        }
    }
}
