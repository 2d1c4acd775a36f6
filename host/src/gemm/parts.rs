//! Products of f32 on tensor cores: A and B are split into parts, and the parts are multiplied, or, where parts aren't enough (which only the GPU
//! knows), A and B themselves by f32's own multiply-adds. Two launches.

use gpu_kernels::Kernel;
use hopper_kernels::{
    split::{BLOCK, LINES_ACROSS, LINES_ALONG, SPLIT, SplitCall, THREADS},
};
use kernel_common::{
    call::TensorCall,
    operands::{CopiedBox, MappedOperand, MappedOperands},
};
use ptx_simulator::{Swizzle as MapSwizzle, TensorElement};

use super::{
    Gemm, GemmError, Operand,
    launch::{Launcher, Manner, Multiplication, bytes_of},
    mapped::{Map, Mapper},
    packing::ALIGNMENT,
};
use crate::device::{Argument, TensorMapLayout};

/// A factor's parts, and where they are in the workspace.
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
    /// The parts of A and of B, one after the other in a workspace that begins with the flags; and its bytes.
    fn of([m, n, k]: [usize; 3], a_across: bool, b_across: bool) -> ([Parts; 2], u64) {
        let both = [(m, a_across), (n, b_across)].map(|(lines, is_across)| Parts {
            is_across,
            lines: lines as u64,
            k: k as u64,
            parts: 0,
            scales: 0,
        });
        let flags: u64 = both.iter().map(Parts::blocks_of_threads).sum();
        let mut end = (4 * flags).next_multiple_of(ALIGNMENT);
        let parts = both.map(|mut parts| {
            parts.parts = end;
            parts.scales = (end + 2 * parts.rows() * parts.pitch()).next_multiple_of(ALIGNMENT);
            end = (parts.scales + 4 * parts.blocks() * parts.scale_pitch()).next_multiple_of(ALIGNMENT);
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

    /// How they are made of `operand`, whose lines are rows.
    fn call(&self, operand: &Operand<'_>, index: usize, workspace: u64, correction: f32) -> SplitCall {
        let Operand { row_stride, column_stride, .. } = *operand;
        SplitCall {
            from: operand.address(index),
            to: workspace + self.parts,
            scales: workspace + self.scales,
            from_pitch: if self.is_across { column_stride } else { row_stride } as u64,
            from_batch: 0,
            pitch: self.pitch(),
            batch_pitch: 0,
            scale_pitch: self.scale_pitch(),
            scale_batch: 0,
            lines: self.lines as u32,
            k: self.k as u32,
            is_across: self.is_across.into(),
            is_aligned: operand.layout().aligned.into(),
            blocks: self.blocks_of_threads() as u32,
            correction,
        }
    }

    /// The tensors of the parts and of their scales, for boxes as a kernel copies them and scales of as many lines as its tile has.
    fn layouts(&self, workspace: u64, copied: &MappedOperand, lines: u32) -> [TensorMapLayout; 2] {
        let CopiedBox::Batched { width, lines: box_lines } = copied.copied else {
            unreachable!("kernels of parts copy boxes of batches")
        };
        let row = if self.is_across { self.lines } else { self.along_k() };
        let parts = TensorMapLayout {
            element: TensorElement::F16,
            address: workspace + self.parts,
            sizes: vec![row, self.rows(), 1],
            strides: vec![2 * self.pitch(), ALIGNMENT],
            box_sizes: vec![width, box_lines, 1],
            swizzle: MapSwizzle::Bytes128,
        };
        let scales = TensorMapLayout {
            element: TensorElement::F32,
            address: workspace + self.scales,
            sizes: vec![self.lines, self.blocks(), 1],
            strides: vec![4 * self.scale_pitch(), ALIGNMENT],
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

/// Bytes of workspace that a product of these sizes needs, whichever way its matrices lie. A batch is computed one by one.
pub(super) fn workspace_bytes(sizes: [usize; 3]) -> u64 {
    let ways = [(false, false), (false, true), (true, false), (true, true)];
    ways.into_iter().map(|(a, b)| Parts::of(sizes, a, b).1).max().unwrap_or(0)
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
        let no_launch = |kernel: &Kernel| GemmError::NoLaunch { m, n, k, kernel: kernel.name };
        let shape = (kernel.launch_shape)(m, n, k).ok_or_else(|| no_launch(kernel))?;
        let blocks = self.blocks(operands, shape.grid[0].into());
        let shape = gpu_kernels::LaunchShape { grid: [blocks as u32, 1, 1], ..shape };
        let (a_across, b_across) = across(&a, &b);
        let ([a_parts, b_parts], _) = Parts::of([m, n, k], a_across, b_across);
        let correction = hopper_kernels::family_of(kernel).map_or(1.0, |family| family.correction());
        let map = |layout: &TensorMapLayout| -> Result<Map, GemmError> { Ok(self.device().tensor_map(layout)?) };
        let [a_layout, a_scales] = a_parts.layouts(workspace, &operands.a, kernel.tile.m);
        let [b_layout, b_scales] = b_parts.layouts(workspace, &operands.b, kernel.tile.n);
        let [a_map, b_map, a_scales, b_scales] = [map(&a_layout)?, map(&b_layout)?, map(&a_scales)?, map(&b_scales)?];
        let [split, multiply] = [self.loaded_kernel(&SPLIT)?, self.loaded_kernel(kernel)?];
        let flags = Argument::U64(workspace);
        for index in 0..count {
            // B's lines are its columns.
            let calls =
                [a_parts.call(&a, index, workspace, correction), b_parts.call(&b.transposed(), index, workspace, 1.0)];
            let of_splitting = launch_shape(calls[0].blocks + calls[1].blocks, THREADS);
            let mapper = Mapper { device: self.device(), kernel, operands, product, at_once: 1 };
            let output = mapper.output_if_mappable(index)?;
            let call = TensorCall {
                k: a_parts.along_k() as u32,
                flags: calls[0].blocks + calls[1].blocks,
                ..product.tensor_call(manner, index, output.is_some())
            };
            let c_map = output.unwrap_or(a_map);
            let maps = [&a_map, &b_map, &c_map, &a_scales, &b_scales].map(|map| Argument::Bytes(map));
            let one = Multiplication {
                a: a.part(index, 0..m, 0..k),
                b: b.part(index, 0..k, 0..n),
                c: c.part(index, 0..m, 0..n),
                count: 1,
                ..*product
            };
            let whole = one.call();
            let calls_of_both = [Argument::Bytes(bytes_of(&call)), Argument::Bytes(bytes_of(&whole)), flags];
            let arguments: Vec<_> = maps.into_iter().chain(calls_of_both).collect();
            // SAFETY: the kernels take these arguments. The calls and the maps describe A, B and C, which were checked to be inside their
            // buffers, C's apart from the others, and parts and scales, which are apart from each other in a workspace with room for
            // them. All outlive this call and, freed after what is enqueued, the launches.
            unsafe {
                let [a_call, b_call] = [&calls[0], &calls[1]].map(|call| Argument::Bytes(bytes_of(call)));
                launcher.launch(&split, &of_splitting, &[a_call, b_call, flags])?;
                launcher.launch(&multiply, &shape, &arguments)?;
            }
        }
        Ok(())
    }
}

/// So many blocks of so many threads.
fn launch_shape(blocks: u32, threads: u32) -> gpu_kernels::LaunchShape {
    gpu_kernels::LaunchShape { grid: [blocks, 1, 1], block: [threads, 1, 1], dynamic_shared_bytes: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_scales_follow_each_other_without_meeting_and_begin_where_tensor_maps_can() {
        for sizes in [[1, 1, 1], [130, 77, 129], [512, 512, 64], [3, 5000, 1000]] {
            for (a_across, b_across) in [(false, false), (false, true), (true, false), (true, true)] {
                let ([a, b], bytes) = Parts::of(sizes, a_across, b_across);
                let mut end = 4 * (a.blocks_of_threads() + b.blocks_of_threads());
                for parts in [&a, &b] {
                    assert!(parts.parts >= end && parts.parts.is_multiple_of(16));
                    assert!(parts.scales >= parts.parts + 2 * parts.rows() * parts.pitch());
                    assert!(parts.scales.is_multiple_of(16) && parts.pitch().is_multiple_of(8));
                    end = parts.scales + 4 * parts.blocks() * parts.scale_pitch();
                }
                assert!(end <= bytes && bytes <= workspace_bytes(sizes));
            }
        }
    }
}
