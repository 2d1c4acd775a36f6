//! The kernels: every width of tile, with every way in which A and B may lie.

use cuda_std::*;
use kernel_common::call::TensorCall;
use kernel_common::launch::{Architecture, Kernel, LaunchShape, Precision, Registers, Signature, Tile};
use kernel_common::operands::{CopiedBox, MappedOperand, MappedOperands, MappedOutput, Swizzle};
use kernel_common::tensor_maps::TensorMap;
use kernel_common::warpgroups::*;
use kernel_common::{entry_facts, parameter_address, vectors};

use crate::output;
use crate::pipelined::{product, Maps};
use crate::shape::{Shape, ROWS, THREADS};

/// The kernels of one tile and one type of factors.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// Its tile and its factors.
    pub name: &'static str,
    /// Its tile.
    pub tile: Tile,
    /// Its arithmetic.
    pub precision: Precision,
    /// Of factors in parts, how much along k tensor cores sum up before the sums are added to others in f32: so many times 64. Else 0.
    pub pairs: u32,
    /// Its kernels, one for each of [`WAYS`].
    pub kernels: &'static [Kernel; WAYS.len()],
}

/// How A and B may lie, in the order of a family's kernels: whether A's lines are its columns and whether B's are its rows, so that they lie across k.
pub const WAYS: [(bool, bool); 4] = [(false, true), (false, false), (true, true), (true, false)];

impl Family {
    /// What the scales of one factor are multiplied by. Tensor cores cut off what doesn't fit into a sum, so that sums are too small: by 0.75 (of numbers
    /// of both signs) to 1.5 units in the last place (of one sign) for 64 along k, by 3 to 5 for 128, measured on an H200.
    pub fn correction(&self) -> f32 {
        match self.pairs {
            2 => 1.0 + 3.0 * f32::EPSILON,
            _ => 1.0 + f32::EPSILON,
        }
    }

    /// The kernel for matrices that lie across k or along it.
    pub fn kernel(&self, a_across: bool, b_across: bool) -> &'static Kernel {
        let position = WAYS.iter().position(|&ways| ways == (a_across, b_across));
        &self.kernels[position.expect("WAYS has all four")]
    }
}

/// The family that a kernel is of, if it is one of these.
pub fn family_of(kernel: &Kernel) -> Option<&'static Family> {
    FAMILIES.iter().find(|family| family.kernels.iter().any(|known| known.name == kernel.name))
}

/// How a kernel copies a factor of 16 bits: rows of 128 bytes, along k for as many lines as the tile has, or across it for 64 of them.
const fn copied(is_across: bool, lines: usize, across_is_by_columns: bool) -> MappedOperand {
    MappedOperand {
        by_columns: is_across == across_is_by_columns,
        copied: CopiedBox::Batched { width: 64, lines: if is_across { 64 } else { lines as u32 } },
        swizzle: Swizzle::Bytes128,
    }
}

/// Declares an entry.
macro_rules! entry {
    (MappedCall, $entry:ident, $product:ident, $a_across:literal, $b_across:literal, $stages:literal, $boxes:literal, $pairs:literal) => {
        /// C = alpha A B + beta C, tile by tile: see [`product`].
        ///
        /// # Safety
        ///
        /// As for [`product`], with maps as this kernel's description says.
        #[kernel]
        #[allow(unused_variables)] // The kernel knows the maps by their addresses.
        pub unsafe fn $entry(a: TensorMap, b: TensorMap, c: TensorMap, call: TensorCall) {
            own_shape!($product, $a_across, $b_across, $stages, $boxes, $pairs);
            let maps = Maps {
                a: parameter_address!($entry, 0),
                b: parameter_address!($entry, 1),
                c: parameter_address!($entry, 2),
                a_scales: 0,
                b_scales: 0,
            };
            product::<Own>(maps, &call);
        }
    };
    (MappedParts, $entry:ident, $product:ident, $a_across:literal, $b_across:literal, $stages:literal, $boxes:literal, $pairs:literal) => {
        /// C = alpha A B + beta C of factors in parts, tile by tile, unless something is suspect: see [`product`] and [`split`](crate::split).
        ///
        /// # Safety
        ///
        /// As for [`product`], with maps as this kernel's description says; `suspect` must point to 4 bytes.
        #[kernel]
        #[allow(unused_variables)] // The kernel knows the maps by their addresses.
        pub unsafe fn $entry(
            a: TensorMap,
            b: TensorMap,
            c: TensorMap,
            a_scales: TensorMap,
            b_scales: TensorMap,
            call: TensorCall,
            suspect: u64,
        ) {
            own_shape!($product, $a_across, $b_across, $stages, $boxes, $pairs);
            if vectors::load_global_word(suspect).to_bits() != 0 {
                return;
            }
            let maps = Maps {
                a: parameter_address!($entry, 0),
                b: parameter_address!($entry, 1),
                c: parameter_address!($entry, 2),
                a_scales: parameter_address!($entry, 3),
                b_scales: parameter_address!($entry, 4),
            };
            product::<Own>(maps, &call);
        }
    };
}

/// Declares a shape, `Own`.
macro_rules! own_shape {
    ($product:ident, $a_across:literal, $b_across:literal, $stages:literal, $boxes:literal, $pairs:literal) => {
        struct Own;
        impl Shape for Own {
            type Product = $product;
            type Output = output::F32;
            const A_ACROSS: bool = $a_across;
            const B_ACROSS: bool = $b_across;
            const STAGES: usize = $stages;
            const PARTS: bool = $pairs > 0;
            const PAIRS: usize = $pairs;
            const BOXES: usize = $boxes;
        }
    };
}

/// Declares families, their entries and their descriptions, and lists them.
macro_rules! families {
    ($(
        $(#[$documentation:meta])*
        $family:ident $name:literal: $kind:ident, $precision:ident, $product:ident,
            stages $stages:literal, boxes $boxes:literal, pairs $pairs:literal;
            $($entry:ident: $a_across:literal $b_across:literal,)+;
    )+) => {
        $(
            $(#[$documentation])*
            pub struct $family;

            impl $family {
                /// Its kernels, and what they have in common.
                pub const FAMILY: Family = Family {
                    name: $name,
                    tile: Self::TILE,
                    precision: Precision::$precision,
                    pairs: $pairs,
                    kernels: &[$(Self::kernel(stringify!($entry), $a_across, $b_across)),+],
                };
                const TILE: Tile = Tile {
                    m: ROWS as u32,
                    n: <$product as Product>::COLUMNS as u32,
                    k: (128 / <$product as Product>::ELEMENT) as u32,
                };

                const fn kernel(name: &'static str, a_across: bool, b_across: bool) -> Kernel {
                    Kernel {
                        name,
                        title: concat!("production, tensor cores of Hopper: a tile of ", $name),
                        entry: name,
                        architecture: Architecture::Compute90a,
                        precision: Precision::$precision,
                        signature: Signature::$kind(MappedOperands {
                            a: copied(a_across, ROWS, true),
                            b: copied(b_across, <$product as Product>::COLUMNS, false),
                            c: MappedOutput::Map(MappedOperand {
                                by_columns: false,
                                copied: CopiedBox::Batched { width: 32, lines: 64 },
                                swizzle: Swizzle::Bytes128,
                            }),
                            cluster: 1,
                            blocks_stay: true,
                        }),
                        tile: Self::TILE,
                        block: [THREADS as u32, 1, 1],
                        registers: Registers::ForBlocks(1),
                        shared_bytes: 0,
                        launch_shape: |m, n, _| {
                            LaunchShape::flat(m, n, Self::TILE, [THREADS as u32, 1, 1], Self::SHARED_BYTES)
                        },
                    }
                }

                /// Bytes of dynamic shared memory: the ways of copying don't change them.
                const SHARED_BYTES: u32 = {
                    own_shape!($product, false, false, $stages, $boxes, $pairs);
                    <Own as Shape>::SHARED_BYTES as u32
                };
            }

            $(
                entry!($kind, $entry, $product, $a_across, $b_across, $stages, $boxes, $pairs);
                entry_facts!($entry, $family::kernel(stringify!($entry), $a_across, $b_across));
            )+
        )+

        /// Every family, from the largest tile to the smallest.
        pub const FAMILIES: &[Family] = &[$($family::FAMILY),+];
    };
}

families! {
    /// The widest tile: it reads the least for each product.
    Bf16Of128x256 "128x256_bf16": MappedCall, Bf16, Bf16x256, stages 4, boxes 2, pairs 0;
        tensor_128x256_bf16_kv: false true,
        tensor_128x256_bf16_kk: false false,
        tensor_128x256_bf16_vv: true true,
        tensor_128x256_bf16_vk: true false,;

    /// For fewer tiles than there are multiprocessors with the widest.
    Bf16Of128x128 "128x128_bf16": MappedCall, Bf16, Bf16x128, stages 6, boxes 2, pairs 0;
        tensor_128x128_bf16_kv: false true,
        tensor_128x128_bf16_kk: false false,
        tensor_128x128_bf16_vv: true true,
        tensor_128x128_bf16_vk: true false,;

    /// For the smallest products, and those with few columns.
    Bf16Of128x64 "128x64_bf16": MappedCall, Bf16, Bf16x64, stages 7, boxes 2, pairs 0;
        tensor_128x64_bf16_kv: false true,
        tensor_128x64_bf16_kk: false false,
        tensor_128x64_bf16_vv: true true,
        tensor_128x64_bf16_vk: true false,;

    /// As wide as two sets of sums allow.
    PartsOf128x192 "128x192_fp32-tc": MappedParts, F32Parts, F16x192, stages 5, boxes 1, pairs 1;
        tensor_128x192_parts_kv: false true,
        tensor_128x192_parts_kk: false false,
        tensor_128x192_parts_vv: true true,
        tensor_128x192_parts_vk: true false,;

    /// Where C has many tiles: fewer additions in f32, and an error that is still below that of f32's own long sums.
    LongPartsOf128x128 "128x128_fp32-tc_128": MappedParts, F32Parts, F16x128, stages 6, boxes 1, pairs 2;
        tensor_128x128_parts_128_kv: false true,
        tensor_128x128_parts_128_kk: false false,
        tensor_128x128_parts_128_vv: true true,
        tensor_128x128_parts_128_vk: true false,;

    /// For fewer tiles.
    PartsOf128x128 "128x128_fp32-tc": MappedParts, F32Parts, F16x128, stages 6, boxes 1, pairs 1;
        tensor_128x128_parts_kv: false true,
        tensor_128x128_parts_kk: false false,
        tensor_128x128_parts_vv: true true,
        tensor_128x128_parts_vk: true false,;

    /// For the smallest products.
    PartsOf128x64 "128x64_fp32-tc": MappedParts, F32Parts, F16x64, stages 7, boxes 2, pairs 1;
        tensor_128x64_parts_kv: false true,
        tensor_128x64_parts_kk: false false,
        tensor_128x64_parts_vv: true true,
        tensor_128x64_parts_vk: true false,;
}
