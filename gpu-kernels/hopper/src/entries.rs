//! The kernels: every width of tile, with every way in which A and B may lie.

use cuda_std::*;
use kernel_common::call::TensorCall;
use kernel_common::elements::{Bf16, F16, F32};
use kernel_common::launch::{Architecture, Kernel, LaunchShape, Precision, Registers, Signature, Tile, MAX_GRID_X};
use kernel_common::operands::{CopiedBox, MappedOperand, MappedOperands, MappedOutput, Swizzle};
use kernel_common::tensor_maps::TensorMap;
use kernel_common::warpgroups::*;
use kernel_common::{entry_facts, parameter_address, Call};

use crate::pipelined::{product, Maps};
use crate::shape::{Shape, FEW_REGISTERS, MULTIPLIERS, SIDE, THREADS};

/// The kernels of one tile and one type of factors.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// Its tile and its factors.
    pub name: &'static str,
    /// Its tile.
    pub tile: Tile,
    /// Its arithmetic.
    pub precision: Precision,
    /// Of factors in parts, whether sums may be [scaled at the end](Shape::MAY_SCALE_LAST). Else false.
    pub may_scale_last: bool,
    /// Blocks of a cluster whose tiles are one below the other.
    pub cluster: u32,
    /// Blocks of a cluster that [share a tile](Shape::BLOCKS_ALONG_K).
    pub along_k: u32,
    /// Its kernels, one for each way in which tensor cores take A and B.
    pub kernels: &'static [Kernel],
}

impl Family {
    /// The kernel for an A and a B that lie across k (A's lines are its columns, B's its rows) or along it; if there is none, the one for which fewer
    /// have to be put otherwise.
    pub fn kernel(&self, a_across: bool, b_across: bool) -> &'static Kernel {
        let unsuited = |kernel: &&Kernel| {
            let operands = kernel.signature.mapped().expect("kernels of families copy boxes");
            u32::from(operands.a.by_columns != a_across) + u32::from(operands.b.by_columns == b_across)
        };
        self.kernels.iter().min_by_key(unsuited).expect("a family has kernels")
    }
}

/// The family that a kernel is of, if it is one of these.
pub fn family_of(kernel: &Kernel) -> Option<&'static Family> {
    FAMILIES.iter().find(|family| family.kernels.iter().any(|known| known.name == kernel.name))
}

/// How a kernel copies a factor: rows of 128 bytes, of `depth` elements: along k for as many lines as the tile has, or across it for so many steps; each
/// of `blocks` copies its share.
const fn copied(
    is_across: bool,
    depth: usize,
    lines: usize,
    blocks: usize,
    across_is_by_columns: bool,
) -> MappedOperand {
    let rows = if is_across { depth } else { lines } / blocks;
    MappedOperand {
        by_columns: is_across == across_is_by_columns,
        copied: CopiedBox::Batched { width: depth as u32, lines: rows as u32 },
        swizzle: Swizzle::Bytes128,
    }
}

/// A block for each tile of C (or as many as share it), and, with clusters, for those below it that complete the last cluster.
fn launch_shape<S: Shape>(m: usize, n: usize, tile: Tile) -> Option<LaunchShape> {
    let clusters = LaunchShape::flat(m.div_ceil(S::CLUSTER), n, tile, [THREADS as u32, 1, 1], S::SHARED_BYTES as u32)?;
    let [x, y, z] = clusters.grid;
    let x = u32::try_from(u64::from(x) * (S::CLUSTER * S::BLOCKS_ALONG_K) as u64)
        .ok()
        .filter(|x| u64::from(*x) <= MAX_GRID_X)?;
    Some(LaunchShape { grid: [x, y, z], ..clusters })
}

/// Declares an entry.
macro_rules! entry {
    (MappedCall, $entry:ident, $product:ident, $output:ident, $a_across:literal, $b_across:literal, $stages:literal, $boxes:literal, $parts:literal, $by_turns:literal, $cluster:literal, $along_k:literal) => {
        /// C = alpha A B + beta C, tile by tile: see [`product`].
        ///
        /// # Safety
        ///
        /// As for [`product`], with maps as this kernel's description says.
        #[kernel]
        #[allow(unused_variables)] // The kernel knows the maps by their addresses.
        pub unsafe fn $entry(a: TensorMap, b: TensorMap, c: TensorMap, call: TensorCall) {
            own_shape!($product, $output, $a_across, $b_across, $stages, $boxes, $parts, $by_turns, $cluster, $along_k);
            let maps = Maps {
                a: parameter_address!($entry, 0),
                b: parameter_address!($entry, 1),
                c: parameter_address!($entry, 2),
                a_scales: 0,
                b_scales: 0,
            };
            product::<Own>(maps, &call, None, 0);
        }
    };
    (MappedParts, $entry:ident, $product:ident, $output:ident, $a_across:literal, $b_across:literal, $stages:literal, $boxes:literal, $parts:literal, $by_turns:literal, $cluster:literal, $along_k:literal) => {
        /// C = alpha A B + beta C of factors in parts, tile by tile, or, if something is suspect, of the factors themselves: see [`product`] and
        /// [`split`](crate::split).
        ///
        /// # Safety
        ///
        /// As for [`product`], with maps as this kernel's description says.
        #[kernel]
        #[allow(unused_variables)] // The kernel knows the maps by their addresses.
        pub unsafe fn $entry(
            a: TensorMap,
            b: TensorMap,
            c: TensorMap,
            a_scales: TensorMap,
            b_scales: TensorMap,
            call: TensorCall,
            whole: Call,
            flags: u64,
        ) {
            own_shape!($product, $output, $a_across, $b_across, $stages, $boxes, $parts, $by_turns, $cluster, $along_k);
            let maps = Maps {
                a: parameter_address!($entry, 0),
                b: parameter_address!($entry, 1),
                c: parameter_address!($entry, 2),
                a_scales: parameter_address!($entry, 3),
                b_scales: parameter_address!($entry, 4),
            };
            product::<Own>(maps, &call, Some(&whole), flags);
        }
    };
}

/// Declares a shape, `Own`.
macro_rules! own_shape {
    ($product:ident, $output:ident, $a_across:literal, $b_across:literal, $stages:literal, $boxes:literal, $parts:literal, $by_turns:literal, $cluster:literal, $along_k:literal) => {
        struct Own;
        impl Shape for Own {
            type Product = $product;
            type Output = $output;
            const A_ACROSS: bool = $a_across;
            const B_ACROSS: bool = $b_across;
            const STAGES: usize = $stages;
            const PARTS: bool = $parts;
            const BOXES: usize = $boxes;
            const BY_TURNS: bool = $by_turns;
            const CLUSTER: usize = $cluster;
            const BLOCKS_ALONG_K: usize = $along_k;
        }
    };
}

/// Declares families, their entries and their descriptions, and lists them.
macro_rules! families {
    ($(
        $(#[$documentation:meta])*
        $family:ident $name:literal: $kind:ident, $precision:ident, $product:ident, or $output:ident,
            stages $stages:literal, boxes $boxes:literal, parts $parts:literal, by_turns $by_turns:literal, cluster $cluster:literal, along_k $along_k:literal;
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
                    cluster: $cluster,
                    along_k: $along_k,
                    // The same for all.
                    may_scale_last: [$($entry::MAY_SCALE_LAST),+][0],
                    kernels: &[$($entry::KERNEL),+],
                };
                const TILE: Tile = Self::tile(false);

                /// The tile of the kernel for such a B.
                const fn tile(b_across: bool) -> Tile {
                    let (is_turned, columns) = (b_across && <$product as Product>::ELEMENT == 4, <$product as Product>::COLUMNS as u32);
                    let side = SIDE as u32;
                    Tile {
                        m: match (is_turned, $by_turns) {
                            (true, _) => columns,
                            (_, true) => side / MULTIPLIERS as u32,
                            _ => side,
                        },
                        n: if is_turned { side } else { columns },
                        k: (128 / <$product as Product>::ELEMENT) as u32,
                    }
                }

                const fn kernel(name: &'static str, a_across: bool, b_across: bool, launch_shape: fn(usize, usize, usize) -> Option<LaunchShape>) -> Kernel {
                    let tile = Self::tile(b_across);
                    Kernel {
                        name,
                        title: concat!("production, tensor cores of Hopper: a tile of ", $name),
                        entry: name,
                        architecture: Architecture::Compute90a,
                        precision: Precision::$precision,
                        signature: Signature::$kind(MappedOperands {
                            a: copied(a_across, tile.k as usize, tile.m as usize, 1, true),
                            b: copied(b_across, tile.k as usize, tile.n as usize, $cluster, false),
                            c: MappedOutput::Map(MappedOperand {
                                by_columns: false,
                                copied: CopiedBox::Batched { width: 32, lines: 64 },
                                swizzle: Swizzle::Bytes128,
                            }),
                            cluster: $cluster * $along_k,
                            blocks_stay: true,
                        }),
                        tile,
                        block: [THREADS as u32, 1, 1],
                        registers: if $by_turns && <$product as Product>::COLUMNS <= 64 {
                            Registers::AtMost(FEW_REGISTERS)
                        } else {
                            Registers::ForBlocks(1)
                        },
                        shared_bytes: 0,
                        launch_shape,
                    }
                }
            }

            $(
                entry!($kind, $entry, $product, $output, $a_across, $b_across, $stages, $boxes, $parts, $by_turns, $cluster, $along_k);

                mod $entry {
                    use super::*;

                    own_shape!($product, $output, $a_across, $b_across, $stages, $boxes, $parts, $by_turns, $cluster, $along_k);

                    pub(super) const MAY_SCALE_LAST: bool = Own::MAY_SCALE_LAST;

                    /// What the host needs to know to launch it.
                    pub const KERNEL: Kernel = $family::kernel(stringify!($entry), $a_across, $b_across, |m, n, _| {
                        launch_shape::<Own>(m, n, $family::tile($b_across))
                    });
                }
                entry_facts!($entry, $entry::KERNEL);
            )+
        )+

        /// Every family, from the largest tile to the smallest.
        pub const FAMILIES: &[Family] = &[$($family::FAMILY),+];
    };
}

families! {
    /// The widest tile: it reads the least for each product.
    Bf16Of128x256 "128x256_bf16": MappedCall, Bf16, Bf16x256, or Bf16, stages 4, boxes 2, parts false, by_turns false, cluster 1, along_k 1;
        tensor_128x256_bf16_kv: false true,
        tensor_128x256_bf16_kk: false false,
        tensor_128x256_bf16_vv: true true,
        tensor_128x256_bf16_vk: true false,;

    /// The same in clusters of two blocks: where K is long, what they save of the second-level cache is more than what they wait for each other.
    Bf16OfTwo128x256 "2x128x256_bf16": MappedCall, Bf16, Bf16x256, or Bf16, stages 4, boxes 2, parts false, by_turns false, cluster 2, along_k 1;
        tensor_2x128x256_bf16_kv: false true,
        tensor_2x128x256_bf16_kk: false false,
        tensor_2x128x256_bf16_vv: true true,
        tensor_2x128x256_bf16_vk: true false,;

    /// For fewer tiles than there are multiprocessors with the widest.
    Bf16Of128x128 "128x128_bf16": MappedCall, Bf16, Bf16x128, or Bf16, stages 6, boxes 2, parts false, by_turns false, cluster 1, along_k 1;
        tensor_128x128_bf16_kv: false true,
        tensor_128x128_bf16_kk: false false,
        tensor_128x128_bf16_vv: true true,
        tensor_128x128_bf16_vk: true false,;

    /// For the smallest products, and those with few columns.
    Bf16Of128x64 "128x64_bf16": MappedCall, Bf16, Bf16x64, or Bf16, stages 7, boxes 2, parts false, by_turns false, cluster 1, along_k 1;
        tensor_128x64_bf16_kv: false true,
        tensor_128x64_bf16_kk: false false,
        tensor_128x64_bf16_vv: true true,
        tensor_128x64_bf16_vk: true false,;

    /// The same of f16.
    F16Of128x256 "128x256_f16": MappedCall, F16, F16x256, or F16, stages 4, boxes 2, parts false, by_turns false, cluster 1, along_k 1;
        tensor_128x256_f16_kv: false true,
        tensor_128x256_f16_kk: false false,
        tensor_128x256_f16_vv: true true,
        tensor_128x256_f16_vk: true false,;

    /// The same in clusters of two blocks: where K is long, what they save of the second-level cache is more than what they wait for each other.
    F16OfTwo128x256 "2x128x256_f16": MappedCall, F16, F16x256, or F16, stages 4, boxes 2, parts false, by_turns false, cluster 2, along_k 1;
        tensor_2x128x256_f16_kv: false true,
        tensor_2x128x256_f16_kk: false false,
        tensor_2x128x256_f16_vv: true true,
        tensor_2x128x256_f16_vk: true false,;

    /// The same of f16.
    F16Of128x128 "128x128_f16": MappedCall, F16, F16x128, or F16, stages 6, boxes 2, parts false, by_turns false, cluster 1, along_k 1;
        tensor_128x128_f16_kv: false true,
        tensor_128x128_f16_kk: false false,
        tensor_128x128_f16_vv: true true,
        tensor_128x128_f16_vk: true false,;

    /// The same of f16.
    F16Of128x64 "128x64_f16": MappedCall, F16, F16x64, or F16, stages 7, boxes 2, parts false, by_turns false, cluster 1, along_k 1;
        tensor_128x64_f16_kv: false true,
        tensor_128x64_f16_kk: false false,
        tensor_128x64_f16_vv: true true,
        tensor_128x64_f16_vk: true false,;

    /// Of tf32, which tensor cores take along k only; a B that lies across it goes through registers, and the tile is turned.
    Tf32Of128x256 "128x256_tf32": MappedCall, Tf32, Tf32x256, or F32, stages 4, boxes 2, parts false, by_turns false, cluster 1, along_k 1;
        tensor_128x256_tf32_kk: false false,
        tensor_128x256_tf32_kv: false true,;

    /// For fewer tiles.
    Tf32Of128x128 "128x128_tf32": MappedCall, Tf32, Tf32x128, or F32, stages 6, boxes 2, parts false, by_turns false, cluster 1, along_k 1;
        tensor_128x128_tf32_kk: false false,
        tensor_128x128_tf32_kv: false true,;

    /// For the smallest products.
    Tf32Of128x64 "128x64_tf32": MappedCall, Tf32, Tf32x64, or F32, stages 7, boxes 2, parts false, by_turns false, cluster 1, along_k 1;
        tensor_128x64_tf32_kk: false false,
        tensor_128x64_tf32_kv: false true,;

    /// As wide as two sets of sums allow: it reads the least for each product.
    PartsOf128x192 "128x192_fp32-tc": MappedParts, F32Parts, F16x192, or F32, stages 5, boxes 1, parts true, by_turns false, cluster 1, along_k 1;
        tensor_128x192_parts_kv: false true,
        tensor_128x192_parts_kk: false false,
        tensor_128x192_parts_vv: true true,
        tensor_128x192_parts_vk: true false,;

    /// The same in clusters of two blocks.
    PartsOfTwo128x192 "2x128x192_fp32-tc": MappedParts, F32Parts, F16x192, or F32, stages 5, boxes 1, parts true, by_turns false, cluster 2, along_k 1;
        tensor_2x128x192_parts_kv: false true,
        tensor_2x128x192_parts_kk: false false,
        tensor_2x128x192_parts_vv: true true,
        tensor_2x128x192_parts_vk: true false,;

    /// For fewer tiles.
    PartsOf128x128 "128x128_fp32-tc": MappedParts, F32Parts, F16x128, or F32, stages 6, boxes 1, parts true, by_turns false, cluster 1, along_k 1;
        tensor_128x128_parts_kv: false true,
        tensor_128x128_parts_kk: false false,
        tensor_128x128_parts_vv: true true,
        tensor_128x128_parts_vk: true false,;

    /// The same in clusters of two blocks.
    PartsOfTwo128x128 "2x128x128_fp32-tc": MappedParts, F32Parts, F16x128, or F32, stages 6, boxes 1, parts true, by_turns false, cluster 2, along_k 1;
        tensor_2x128x128_parts_kv: false true,
        tensor_2x128x128_parts_kk: false false,
        tensor_2x128x128_parts_vv: true true,
        tensor_2x128x128_parts_vk: true false,;

    /// For few columns.
    PartsOf128x64 "128x64_fp32-tc": MappedParts, F32Parts, F16x64, or F32, stages 7, boxes 2, parts true, by_turns false, cluster 1, along_k 1;
        tensor_128x64_parts_kv: false true,
        tensor_128x64_parts_kk: false false,
        tensor_128x64_parts_vv: true true,
        tensor_128x64_parts_vk: true false,;

    /// For C with so few tiles of the others that not every multiprocessor has one: tensor cores read less of such a tile in shared memory than of one
    /// of 128 x 64.
    PartsOf64x128 "64x128_fp32-tc": MappedParts, F32Parts, F16x128, or F32, stages 6, boxes 1, parts true, by_turns true, cluster 1, along_k 1;
        tensor_64x128_parts_kv: false true,
        tensor_64x128_parts_kk: false false,
        tensor_64x128_parts_vv: true true,
        tensor_64x128_parts_vk: true false,;

    /// For the smallest products.
    PartsOf64x64 "64x64_fp32-tc": MappedParts, F32Parts, F16x64, or F32, stages 8, boxes 1, parts true, by_turns true, cluster 1, along_k 1;
        tensor_64x64_parts_kv: false true,
        tensor_64x64_parts_kk: false false,
        tensor_64x64_parts_vv: true true,
        tensor_64x64_parts_vk: true false,;

    /// The same, with two blocks for a tile.
    PartsOf64x64By2 "64x64x2_fp32-tc": MappedParts, F32Parts, F16x64, or F32, stages 8, boxes 1, parts true, by_turns true, cluster 1, along_k 2;
        tensor_64x64x2_parts_kv: false true,
        tensor_64x64x2_parts_kk: false false,
        tensor_64x64x2_parts_vv: true true,
        tensor_64x64x2_parts_vk: true false,;
}
