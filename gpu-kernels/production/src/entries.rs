//! The production kernels: every shape, with every way of copying A and B.
//!
//! A shape's figures decide its speed, and small changes of them do by several per cent, because the assembler allocates
//! registers as it likes. They were found by timing neighbours on an H200.

use cuda_std::*;
use kernel_common::launch::{Architecture, Kernel, LaunchShape, Precision, Registers, Signature, Tile};
use kernel_common::{entry_facts, Call};

use crate::operand::{AlongK, Copying, Operand, Vectors, Way, Words};
use crate::pipelined::{product, shared_bytes};
use crate::shape::{Barrier, Shape};

/// The kernels of one shape.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// The shape's name: its tile, m x n x k, and the slices if there are several.
    pub name: &'static str,
    /// Its tile.
    pub tile: Tile,
    /// Threads of a block.
    pub threads: u32,
    /// Warps that share a warp tile.
    pub slices: u32,
    /// The most products that a sum takes before it is added to others, of the kernel that has the least.
    pub longest_sum: u32,
    /// Its kernels, one for each pair of [`WAYS`].
    pub kernels: &'static [Kernel; WAYS.len()],
}

/// Ways of copying A and B, in the order of a family's kernels.
pub const WAYS: [(Copying, Copying); 7] = [
    (Copying::AlongK, Copying::Vectors),
    (Copying::AlongK, Copying::Words),
    (Copying::AlongK, Copying::AlongK),
    (Copying::Vectors, Copying::Vectors),
    (Copying::Words, Copying::Words),
    (Copying::Vectors, Copying::AlongK),
    (Copying::Words, Copying::AlongK),
];

impl Family {
    /// The kernel that copies A and B in these ways; where one of them is [`Vectors`](Copying::Vectors) and the other
    /// [`Words`](Copying::Words), both are copied as words.
    pub fn kernel(&self, a: Copying, b: Copying) -> &'static Kernel {
        let ways = match (a, b) {
            (Copying::Vectors, Copying::Words) | (Copying::Words, Copying::Vectors) => (Copying::Words, Copying::Words),
            ways => ways,
        };
        let position = WAYS.iter().position(|&known| known == ways);
        &self.kernels[position.expect("WAYS has every pair but vectors with words")]
    }
}

/// Declares shapes, their entries and their descriptions, and lists them.
macro_rules! shapes {
    ($(
        $(#[$documentation:meta])*
        $shape:ident $name:literal:
            tile $tile_m:literal x $tile_n:literal x $tile_k:literal,
            warps $warps_m:literal x $warps_n:literal, slices $slices:literal, lanes $lanes_m:literal,
            stages $stages:literal, barrier $barrier:expr, row_order $row_order:literal,
            copies $first:literal $steps:literal $between:literal, sums $longest:literal, blocks $blocks:literal;
            $($entry:ident: $a:ident $b:ident $({ $($what:ident: $value:literal),+ })?,)+;
    )+) => {
        $(
            $(#[$documentation])*
            pub struct $shape;

            impl Shape for $shape {
                type Base = Self;
                const TILE_M: usize = $tile_m;
                const TILE_N: usize = $tile_n;
                const TILE_K: usize = $tile_k;
                const WARPS_M: usize = $warps_m;
                const WARPS_N: usize = $warps_n;
                const SLICES: usize = $slices;
                const LANES_M: usize = $lanes_m;
                const STAGES: usize = $stages;
                const BARRIER: Barrier = $barrier;
                const ROW_ORDER: usize = $row_order;
                const FIRST_COPIES: usize = $first;
                const COPYING_STEPS: usize = $steps;
                const BETWEEN_COPIES: usize = $between;
                const LONGEST_SUM: usize = $longest;
            }

            impl $shape {
                /// Its kernels, and what they have in common.
                pub const FAMILY: Family = Family {
                    name: $name,
                    tile: Tile { m: $tile_m, n: $tile_n, k: $tile_k },
                    threads: Self::THREADS as u32,
                    slices: $slices,
                    longest_sum: $longest,
                    kernels: &[$(Self::kernel(stringify!($entry), |m, n, _| Self::grid::<$a, $b>(m, n))),+],
                };

                const fn kernel(
                    name: &'static str,
                    launch_shape: fn(usize, usize, usize) -> Option<LaunchShape>,
                ) -> Kernel {
                    Kernel {
                        name,
                        title: concat!("production: a tile of ", $name),
                        entry: name,
                        architecture: Architecture::Compute80,
                        precision: Precision::F32,
                        signature: Signature::Call,
                        tile: Tile { m: $tile_m, n: $tile_n, k: $tile_k },
                        block: [Self::THREADS as u32, 1, 1],
                        registers: Registers::ForBlocks($blocks),
                        shared_bytes: 0,
                        launch_shape,
                    }
                }

                /// One split, one product: tiles along x.
                fn grid<A: Way, B: Way>(m: usize, n: usize) -> Option<LaunchShape> {
                    let row_a = Operand::<A, $tile_m, $tile_k, { Self::THREADS }>::ROW;
                    let row_b = Operand::<B, $tile_n, $tile_k, { Self::THREADS }>::ROW;
                    LaunchShape::flat(
                        m,
                        n,
                        Self::FAMILY.tile,
                        [Self::THREADS as u32, 1, 1],
                        shared_bytes::<Self>(row_a, row_b) as u32,
                    )
                }
            }

            $(
                /// A tile of C per block: see [`product`].
                ///
                /// # Safety
                ///
                /// As for [`product`], with the shape and the ways of copying of this kernel.
                #[kernel]
                pub unsafe fn $entry(call: Call) {
                    struct Own;
                    impl Shape for Own {
                        type Base = $shape;
                        $($(const $what: usize = $value;)+)?
                    }
                    product::<
                        Own,
                        $a,
                        $b,
                        { $tile_m / $warps_m / $lanes_m },
                        { $tile_n / $warps_n / (32 / $lanes_m) },
                        $tile_m,
                        $tile_n,
                        $tile_k,
                        { 32 * $warps_m * $warps_n * $slices },
                    >(&call);
                }

                entry_facts!($entry, $shape::kernel("", |_, _, _| None));
            )+
        )+

        /// Every shape, from the largest tile to the smallest.
        pub const FAMILIES: &[Family] = &[$($shape::FAMILY),+];
    };
}

shapes! {
    /// For large products: 16 x 8 outputs for each of 256 threads, one block in a multiprocessor.
    Tile128x256x16 "128x256x16":
        tile 128 x 256 x 16, warps 2 x 4, slices 1, lanes 4,
        stages 3, barrier Barrier::Halves { arrive: 10, wait: 13 }, row_order 9,
        copies 0 2 4, sums 2048, blocks 1;
        pipelined_128x256x16_kv: AlongK Vectors
            { ROW_ORDER: 11, FIRST_COPIES: 1, BETWEEN_COPIES: 2, LONGEST_SUM: 8192 },
        pipelined_128x256x16_kw: AlongK Words,
        pipelined_128x256x16_kk: AlongK AlongK { LONGEST_SUM: 8192 },
        pipelined_128x256x16_vv: Vectors Vectors,
        pipelined_128x256x16_ww: Words Words,
        pipelined_128x256x16_vk: Vectors AlongK,
        pipelined_128x256x16_wk: Words AlongK,;

    /// For products of about 1024: two slices of K make eight warps of a tile for four.
    Tile64x128x16x2 "64x128x16x2":
        tile 64 x 128 x 16, warps 2 x 2, slices 2, lanes 4,
        stages 3, barrier Barrier::Whole { step: 6 }, row_order 4,
        copies 0 1 1, sums 256, blocks 1;
        pipelined_64x128x16x2_kv: AlongK Vectors,
        pipelined_64x128x16x2_kw: AlongK Words,
        pipelined_64x128x16x2_kk: AlongK AlongK,
        pipelined_64x128x16x2_vv: Vectors Vectors,
        pipelined_64x128x16x2_ww: Words Words,
        pipelined_64x128x16x2_vk: Vectors AlongK { ROW_ORDER: 1, FIRST_COPIES: 1 },
        pipelined_64x128x16x2_wk: Words AlongK,;

    /// For a short K and for batches: three small blocks in a multiprocessor hide each other's beginnings and ends.
    Tile64x128x16 "64x128x16":
        tile 64 x 128 x 16, warps 2 x 2, slices 1, lanes 4,
        stages 2, barrier Barrier::Whole { step: 14 }, row_order 0,
        copies 1 2 2, sums 832, blocks 3;
        pipelined_64x128x16_kv: AlongK Vectors,
        pipelined_64x128x16_kw: AlongK Words,
        pipelined_64x128x16_kk: AlongK AlongK,
        pipelined_64x128x16_vv: Vectors Vectors,
        pipelined_64x128x16_ww: Words Words,
        pipelined_64x128x16_vk: Vectors AlongK,
        pipelined_64x128x16_wk: Words AlongK,;

    /// The same on end, for a C with a few more than 64, 192, ... columns.
    Tile128x64x16 "128x64x16":
        tile 128 x 64 x 16, warps 2 x 2, slices 1, lanes 8,
        stages 2, barrier Barrier::Whole { step: 14 }, row_order 0,
        copies 1 2 2, sums 832, blocks 3;
        pipelined_128x64x16_kv: AlongK Vectors,
        pipelined_128x64x16_kw: AlongK Words,
        pipelined_128x64x16_kk: AlongK AlongK,
        pipelined_128x64x16_vv: Vectors Vectors,
        pipelined_128x64x16_ww: Words Words,
        pipelined_128x64x16_vk: Vectors AlongK,
        pipelined_128x64x16_wk: Words AlongK,;

    /// For batches of small products.
    Tile64x64x16 "64x64x16":
        tile 64 x 64 x 16, warps 2 x 2, slices 1, lanes 4,
        stages 2, barrier Barrier::Whole { step: 14 }, row_order 0,
        copies 0 2 2, sums 832, blocks 4;
        pipelined_64x64x16_kv: AlongK Vectors,
        pipelined_64x64x16_kw: AlongK Words,
        pipelined_64x64x16_kk: AlongK AlongK,
        pipelined_64x64x16_vv: Vectors Vectors,
        pipelined_64x64x16_ww: Words Words,
        pipelined_64x64x16_vk: Vectors AlongK,
        pipelined_64x64x16_wk: Words AlongK,;

    /// For a small C with a long K.
    Tile64x64x32x4 "64x64x32x4":
        tile 64 x 64 x 32, warps 2 x 1, slices 4, lanes 4,
        stages 3, barrier Barrier::Whole { step: 6 }, row_order 0,
        copies 1 1 1, sums 256, blocks 1;
        pipelined_64x64x32x4_kv: AlongK Vectors,
        pipelined_64x64x32x4_kw: AlongK Words,
        pipelined_64x64x32x4_kk: AlongK AlongK,
        pipelined_64x64x32x4_vv: Vectors Vectors,
        pipelined_64x64x32x4_ww: Words Words,
        pipelined_64x64x32x4_vk: Vectors AlongK,
        pipelined_64x64x32x4_wk: Words AlongK,;

    /// For products of about 512: eight warps, each with the whole tile and an eighth of K.
    Tile32x64x64x8 "32x64x64x8":
        tile 32 x 64 x 64, warps 1 x 1, slices 8, lanes 4,
        stages 3, barrier Barrier::Whole { step: 6 }, row_order 0,
        copies 0 4 1, sums 256, blocks 1;
        pipelined_32x64x64x8_kv: AlongK Vectors,
        pipelined_32x64x64x8_kw: AlongK Words,
        pipelined_32x64x64x8_kk: AlongK AlongK,
        pipelined_32x64x64x8_vv: Vectors Vectors,
        pipelined_32x64x64x8_ww: Words Words,
        pipelined_32x64x64x8_vk: Vectors AlongK,
        pipelined_32x64x64x8_wk: Words AlongK,;

    /// The same on its side.
    Tile64x32x64x8 "64x32x64x8":
        tile 64 x 32 x 64, warps 1 x 1, slices 8, lanes 8,
        stages 3, barrier Barrier::Whole { step: 6 }, row_order 0,
        copies 0 4 1, sums 256, blocks 1;
        pipelined_64x32x64x8_kv: AlongK Vectors,
        pipelined_64x32x64x8_kw: AlongK Words,
        pipelined_64x32x64x8_kk: AlongK AlongK,
        pipelined_64x32x64x8_vv: Vectors Vectors,
        pipelined_64x32x64x8_ww: Words Words,
        pipelined_64x32x64x8_vk: Vectors AlongK,
        pipelined_64x32x64x8_wk: Words AlongK,;

    /// For products of about 256.
    Tile32x32x32x8 "32x32x32x8":
        tile 32 x 32 x 32, warps 1 x 1, slices 8, lanes 4,
        stages 3, barrier Barrier::Whole { step: 2 }, row_order 0,
        copies 0 1 1, sums 256, blocks 1;
        pipelined_32x32x32x8_kv: AlongK Vectors,
        pipelined_32x32x32x8_kw: AlongK Words,
        pipelined_32x32x32x8_kk: AlongK AlongK,
        pipelined_32x32x32x8_vv: Vectors Vectors,
        pipelined_32x32x32x8_ww: Words Words,
        pipelined_32x32x32x8_vk: Vectors AlongK,
        pipelined_32x32x32x8_wk: Words AlongK,;

    /// For still smaller ones.
    Tile16x32x32x8 "16x32x32x8":
        tile 16 x 32 x 32, warps 1 x 1, slices 8, lanes 4,
        stages 3, barrier Barrier::Whole { step: 2 }, row_order 0,
        copies 0 1 1, sums 256, blocks 1;
        pipelined_16x32x32x8_kv: AlongK Vectors,
        pipelined_16x32x32x8_kw: AlongK Words,
        pipelined_16x32x32x8_kk: AlongK AlongK,
        pipelined_16x32x32x8_vv: Vectors Vectors,
        pipelined_16x32x32x8_ww: Words Words,
        pipelined_16x32x32x8_vk: Vectors AlongK,
        pipelined_16x32x32x8_wk: Words AlongK,;

    /// For few rows: memory sets the pace, and four stages keep it busy.
    Tile16x128x32x8 "16x128x32x8":
        tile 16 x 128 x 32, warps 1 x 1, slices 8, lanes 2,
        stages 4, barrier Barrier::Whole { step: 2 }, row_order 1,
        copies 0 2 1, sums 256, blocks 1;
        pipelined_16x128x32x8_kv: AlongK Vectors,
        pipelined_16x128x32x8_kw: AlongK Words,
        pipelined_16x128x32x8_kk: AlongK AlongK,
        pipelined_16x128x32x8_vv: Vectors Vectors,
        pipelined_16x128x32x8_ww: Words Words,
        pipelined_16x128x32x8_vk: Vectors AlongK,
        pipelined_16x128x32x8_wk: Words AlongK,;

    /// For few rows and many columns.
    Tile16x256x32x4 "16x256x32x4":
        tile 16 x 256 x 32, warps 1 x 2, slices 4, lanes 2,
        stages 3, barrier Barrier::Whole { step: 6 }, row_order 1,
        copies 0 2 1, sums 256, blocks 1;
        pipelined_16x256x32x4_kv: AlongK Vectors,
        pipelined_16x256x32x4_kw: AlongK Words,
        pipelined_16x256x32x4_kk: AlongK AlongK,
        pipelined_16x256x32x4_vv: Vectors Vectors,
        pipelined_16x256x32x4_ww: Words Words,
        pipelined_16x256x32x4_vk: Vectors AlongK,
        pipelined_16x256x32x4_wk: Words AlongK,;

    /// For up to 32 rows.
    Tile32x128x32x4 "32x128x32x4":
        tile 32 x 128 x 32, warps 1 x 2, slices 4, lanes 4,
        stages 4, barrier Barrier::Whole { step: 6 }, row_order 1,
        copies 0 2 1, sums 256, blocks 1;
        pipelined_32x128x32x4_kv: AlongK Vectors,
        pipelined_32x128x32x4_kw: AlongK Words,
        pipelined_32x128x32x4_kk: AlongK AlongK,
        pipelined_32x128x32x4_vv: Vectors Vectors,
        pipelined_32x128x32x4_ww: Words Words,
        pipelined_32x128x32x4_vk: Vectors AlongK,
        pipelined_32x128x32x4_wk: Words AlongK,;

    /// For few columns.
    Tile128x16x32x8 "128x16x32x8":
        tile 128 x 16 x 32, warps 1 x 1, slices 8, lanes 16,
        stages 4, barrier Barrier::Whole { step: 2 }, row_order 1,
        copies 0 2 1, sums 256, blocks 1;
        pipelined_128x16x32x8_kv: AlongK Vectors,
        pipelined_128x16x32x8_kw: AlongK Words,
        pipelined_128x16x32x8_kk: AlongK AlongK,
        pipelined_128x16x32x8_vv: Vectors Vectors,
        pipelined_128x16x32x8_ww: Words Words,
        pipelined_128x16x32x8_vk: Vectors AlongK,
        pipelined_128x16x32x8_wk: Words AlongK,;

    /// For up to 32 columns.
    Tile128x32x32x4 "128x32x32x4":
        tile 128 x 32 x 32, warps 2 x 1, slices 4, lanes 8,
        stages 4, barrier Barrier::Whole { step: 6 }, row_order 1,
        copies 0 2 1, sums 256, blocks 1;
        pipelined_128x32x32x4_kv: AlongK Vectors,
        pipelined_128x32x32x4_kw: AlongK Words,
        pipelined_128x32x32x4_kk: AlongK AlongK,
        pipelined_128x32x32x4_vv: Vectors Vectors,
        pipelined_128x32x32x4_ww: Words Words,
        pipelined_128x32x32x4_vk: Vectors AlongK,
        pipelined_128x32x32x4_wk: Words AlongK,;
}
