//! Products of f32 on tensor cores: A and B are split into parts, and the parts are multiplied, or, where parts aren't enough (which only the GPU
//! knows), A and B themselves by f32's own multiply-adds. Two launches.

use gpu_kernels::LaunchShape;
use hopper_kernels::family_of;
use hopper_kernels::split::{BLOCK, LINES_ACROSS, LINES_ALONG, SPLIT, SplitCall, THREADS};
use kernel_common::{
    call::TensorCall,
    operands::{CopiedBox, MappedOperand, MappedOperands},
};
use ptx_simulator::{Swizzle as MapSwizzle, TensorElement};

use super::{
    Gemm, GemmError, Operand,
    launch::{Launcher, Manner, Multiplication, bytes_of, pieces},
    mapped::{Map, Mapper},
    matrix::Place,
    packing::ALIGNMENT,
};
use crate::{
    device::{Argument, TensorMapLayout},
    plan::tensor_cores::LARGEST_OF_PARTS,
};

/// As many products of a batch are computed at a time as have their parts in so many bytes; at least one.
const MOST_BYTES: u64 = 1 << 30;

/// A factor's parts, of all products that are computed at a time, and where they are in the workspace.
struct Parts {
    /// Whether they lie across k.
    is_across: bool,
    lines: u64,
    k: u64,
    /// Bytes from the workspace's beginning to the parts.
    parts: u64,
    /// The same to the scales.
    scales: u64,
}

impl Parts {
    /// The parts of A and of B, of `at_once` products, one after the other in a workspace that begins with the flags; and its bytes.
    fn of([m, n, k]: [usize; 3], a_across: bool, b_across: bool, at_once: usize) -> ([Parts; 2], u64) {
        let both = [(m, a_across), (n, b_across)].map(|(lines, is_across)| Parts {
            is_across,
            lines: lines as u64,
            k: k as u64,
            parts: 0,
            scales: 0,
        });
        let at_once = at_once as u64;
        let flags: u64 = both.iter().map(Parts::blocks_of_threads).sum();
        let mut end = (4 * flags * at_once).next_multiple_of(ALIGNMENT);
        let parts = both.map(|mut parts| {
            parts.parts = end;
            parts.scales = (end + 2 * parts.batch_pitch() * at_once).next_multiple_of(ALIGNMENT);
            end = (parts.scales + 4 * parts.scale_batch() * at_once).next_multiple_of(ALIGNMENT);
            parts
        });
        (parts, end)
    }

    /// Blocks along k.
    fn blocks(&self) -> u64 {
        self.k.div_ceil(u64::from(BLOCK))
    }

    /// Blocks of threads that split it.
    fn blocks_of_threads(&self) -> u64 {
        let lines = u64::from(if self.is_across { LINES_ACROSS } else { LINES_ALONG });
        self.blocks() * self.lines.div_ceil(lines)
    }

    /// Parts along k: two for each number of every block.
    fn along_k(&self) -> u64 {
        2 * u64::from(BLOCK) * self.blocks()
    }

    /// Rows of parts: lines, or places along k.
    fn rows(&self) -> u64 {
        if self.is_across { self.along_k() } else { self.lines }
    }

    /// Elements from a row to the next.
    fn pitch(&self) -> u64 {
        if self.is_across { self.lines.next_multiple_of(8) } else { self.along_k() }
    }

    /// Scales from a block along k to the next.
    fn scale_pitch(&self) -> u64 {
        self.lines.next_multiple_of(4)
    }

    /// Elements from the parts of one product to those of the next.
    fn batch_pitch(&self) -> u64 {
        self.rows() * self.pitch()
    }

    /// Scales of one product.
    fn scale_batch(&self) -> u64 {
        self.blocks() * self.scale_pitch()
    }

    /// How they are made of `operand`, the first product's or all products', whose lines are rows; with the same scale for the blocks of a line,
    /// if possible, or each with its own.
    fn call(&self, operand: &Operand<'_>, workspace: u64, is_sampled: bool) -> SplitCall {
        let Operand { row_stride, column_stride, .. } = *operand;
        SplitCall {
            from: operand.address(0),
            to: workspace + self.parts,
            scales: workspace + self.scales,
            from_pitch: if self.is_across { column_stride } else { row_stride } as u64,
            from_batch: operand.stride() as u64,
            pitch: self.pitch(),
            batch_pitch: self.batch_pitch(),
            scale_pitch: self.scale_pitch(),
            scale_batch: self.scale_batch(),
            lines: self.lines as u32,
            k: self.k as u32,
            is_across: self.is_across.into(),
            is_aligned: operand.layout().aligned.into(),
            blocks: self.blocks_of_threads() as u32,
            is_sampled: is_sampled.into(),
        }
    }

    /// The tensors of the parts and of their scales, for boxes as a kernel copies them and scales of as many lines as its tile has.
    fn layouts(&self, workspace: u64, copied: &MappedOperand, lines: u32, at_once: usize) -> [TensorMapLayout; 2] {
        let CopiedBox::Batched { width, lines: box_lines } = copied.copied else {
            unreachable!("kernels of parts copy boxes of batches")
        };
        let row = if self.is_across { self.lines } else { self.along_k() };
        let parts = TensorMapLayout {
            element: TensorElement::F16,
            address: workspace + self.parts,
            sizes: vec![row, self.rows(), at_once as u64],
            strides: vec![2 * self.pitch(), 2 * self.batch_pitch()],
            box_sizes: vec![width, box_lines, 1],
            swizzle: MapSwizzle::Bytes128,
        };
        let scales = TensorMapLayout {
            element: TensorElement::F32,
            address: workspace + self.scales,
            sizes: vec![self.lines, self.blocks(), at_once as u64],
            strides: vec![4 * self.scale_pitch(), 4 * self.scale_batch()],
            box_sizes: vec![lines, 1, 1],
            swizzle: MapSwizzle::None,
        };
        [parts, scales]
    }
}

/// Whether a product's parts lie across k, for A and for B: as the factors themselves do.
fn across(a: &Operand<'_>, b: &Operand<'_>) -> (bool, bool) {
    (a.layout().by_columns, !b.layout().by_columns)
}

/// Bytes that `at_once` products of these sizes need, whichever way their matrices lie.
fn bytes_needed(sizes: [usize; 3], at_once: usize) -> u64 {
    let ways = [(false, false), (false, true), (true, false), (true, true)];
    ways.into_iter().map(|(a, b)| Parts::of(sizes, a, b, at_once).1).max().unwrap_or(0)
}

/// How many of `count` products are computed at a time: addresses in a list can't be followed by those who split.
fn at_once(sizes: [usize; 3], count: usize, operands: &[&Operand<'_>], most: usize) -> usize {
    if operands.iter().any(|operand| matches!(operand.place, Place::Listed { .. })) {
        return 1;
    }
    let in_memory = usize::try_from(MOST_BYTES / bytes_needed(sizes, 1).max(1)).unwrap_or(usize::MAX);
    count.min(in_memory).min(most).max(1)
}

/// Bytes of workspace that `count` products of `a` and `b` need, whichever way their matrices lie, if a launch takes no more than `most`.
pub(super) fn workspace_bytes(a: &Operand<'_>, b: &Operand<'_>, count: usize, most: usize) -> u64 {
    let sizes = [a.rows, b.columns, a.columns];
    bytes_needed(sizes, at_once(sizes, count, &[a, b], most))
}

impl Gemm {
    /// Launches `product` with a kernel that multiplies parts, in `workspace`.
    pub(super) fn launch_parts(
        &self,
        product: &Multiplication<'_>,
        manner: &Manner<'_>,
        operands: &MappedOperands,
        workspace: u64,
        launcher: &mut impl Launcher,
    ) -> Result<(), GemmError> {
        let kernel = manner.kernel;
        product.suits(kernel)?;
        let Multiplication { m, n, k, a, b, c, count, .. } = *product;
        let no_launch = || GemmError::NoLaunch { m, n, k, kernel: kernel.name };
        if m.max(n).max(k) > LARGEST_OF_PARTS {
            return Err(no_launch());
        }
        let shape = (kernel.launch_shape)(m, n, k).ok_or_else(no_launch)?;
        let (a_across, b_across) = across(&a, &b);
        let map = |layout: &TensorMapLayout| -> Result<Map, GemmError> { Ok(self.device().tensor_map(layout)?) };
        let [split, multiply] = [self.loaded_kernel(&SPLIT)?, self.loaded_kernel(kernel)?];
        let flags = Argument::U64(workspace);
        let is_sampled = family_of(kernel).is_some_and(|family| family.may_scale_last);
        let at_once = at_once([m, n, k], count, &[&a, &b, &c], self.limits.batch);
        for batch in pieces(count, at_once) {
            let length = batch.len();
            // Of listed matrices each is a product of its own.
            let first = batch.start;
            let piece = match at_once {
                1 => Multiplication {
                    a: a.part(first, 0..m, 0..k),
                    b: b.part(first, 0..k, 0..n),
                    c: c.part(first, 0..m, 0..n),
                    count: 1,
                    ..*product
                },
                _ => {
                    let [a, b, c] = [a, b, c].map(|operand| operand.without_first(first));
                    Multiplication { a, b, c, count: length, ..*product }
                }
            };
            let ([a_parts, b_parts], _) = Parts::of([m, n, k], a_across, b_across, length);
            let [a_layout, a_scales] = a_parts.layouts(workspace, &operands.a, kernel.tile.m, length);
            let [b_layout, b_scales] = b_parts.layouts(workspace, &operands.b, kernel.tile.n, length);
            let [a_map, b_map, a_scales, b_scales] =
                [map(&a_layout)?, map(&b_layout)?, map(&a_scales)?, map(&b_scales)?];
            // B's lines are its columns.
            let calls = [(&a_parts, piece.a), (&b_parts, piece.b.transposed())]
                .map(|(parts, operand)| parts.call(&operand, workspace, is_sampled));
            let blocks = calls[0].blocks + calls[1].blocks;
            let of_splitting =
                LaunchShape { grid: [blocks, length as u32, 1], block: [THREADS, 1, 1], dynamic_shared_bytes: 0 };
            let tiles = u64::from(shape.grid[0]) * length as u64;
            let of_multiplying = self.stay(operands, shape, tiles).ok_or_else(no_launch)?;
            let mapper = Mapper { device: self.device(), kernel, operands, product: &piece, at_once: length };
            let output = mapper.output_if_mappable(0)?;
            let call = TensorCall {
                k: a_parts.along_k() as u32,
                batch: length as u32,
                flags: blocks * length as u32,
                ..piece.tensor_call(manner, 0, output.is_some())
            };
            let whole = piece.call();
            let c_map = output.unwrap_or(a_map);
            let maps = [&a_map, &b_map, &c_map, &a_scales, &b_scales].map(|map| Argument::Bytes(map));
            let calls_of_both = [Argument::Bytes(bytes_of(&call)), Argument::Bytes(bytes_of(&whole)), flags];
            let arguments: Vec<_> = maps.into_iter().chain(calls_of_both).collect();
            let [a_call, b_call] = [&calls[0], &calls[1]].map(|call| Argument::Bytes(bytes_of(call)));
            // SAFETY: the kernels take these arguments. The calls and the maps describe A, B and C, which were checked to be inside their
            // buffers, C's apart from each other and from the others, and parts, scales and flags, which are apart from each other in a
            // workspace with room for them. All outlive this call and, freed after what is enqueued, the launches.
            unsafe {
                launcher.launch(&split, &of_splitting, &[a_call, b_call, flags])?;
                launcher.launch(&multiply, &of_multiplying, &arguments)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_scales_follow_each_other_without_meeting_and_begin_where_tensor_maps_can() {
        for sizes in [[1, 1, 1], [130, 77, 129], [512, 512, 64], [3, 5000, 1000]] {
            for (a_across, b_across) in [(false, false), (false, true), (true, false), (true, true)] {
                for at_once in [1, 3] {
                    let ([a, b], bytes) = Parts::of(sizes, a_across, b_across, at_once);
                    let count = at_once as u64;
                    let mut end = 4 * count * (a.blocks_of_threads() + b.blocks_of_threads());
                    for parts in [&a, &b] {
                        assert!(parts.parts >= end && parts.parts.is_multiple_of(16));
                        assert!(parts.scales >= parts.parts + 2 * count * parts.rows() * parts.pitch());
                        assert!(parts.scales.is_multiple_of(16) && parts.pitch().is_multiple_of(8));
                        end = parts.scales + 4 * count * parts.blocks() * parts.scale_pitch();
                    }
                    assert!(end <= bytes && bytes <= bytes_needed(sizes, at_once));
                }
            }
        }
    }
}
