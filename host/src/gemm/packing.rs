//! Matrices that are written anew, in the workspace, where a kernel can't take them as they lie.
//!
//! Kernels with tensor maps want lines in one direction, each from a multiple of 16 bytes on. Kernels of f32 take any lines, and f32 only: products of
//! 16-bit matrices come to them on GPUs without a kernel for these.

use gpu_kernels::{
    Kernel, Signature,
    launch::{ElementType, MAX_GRID_YZ},
};
use hopper_kernels::pack::{HALVES, WORDS};
use kernel_common::pack::{self, PackCall};
use production_kernels::pack::{BF16_AS_F32, F16_AS_F32};

use super::{
    GemmError, Operand,
    launch::{Launcher, Multiplication, bytes_of},
    matrix::Place,
};
use crate::{device::Argument, gemm::Gemm};

/// What anything in a workspace begins at multiples of, in bytes.
pub(super) const ALIGNMENT: u64 = 256;

/// How a factor is packed: `count` matrices, each as so many lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Packed {
    /// The elements that are packed.
    from: ElementType,
    /// What they become.
    to: ElementType,
    lines: usize,
    /// Elements of a line.
    length: usize,
    /// Whether the lines are columns.
    by_columns: bool,
    /// Whether lines in memory lie across these.
    is_transposed: bool,
    count: usize,
}

impl Packed {
    /// Elements from a line to the next.
    fn pitch(&self) -> usize {
        self.length.next_multiple_of(16 / self.to.bytes())
    }

    fn bytes(&self) -> u128 {
        (self.count * self.to.bytes()) as u128 * self.lines as u128 * self.pitch() as u128
    }

    /// The call that packs `operand`; `None` if that's too large.
    fn call(&self, operand: &Operand<'_>, to: u64) -> Option<PackCall> {
        let (from, list) = match operand.place {
            Place::One(address) | Place::Strided { address, .. } => (address, 0),
            Place::Listed { addresses, .. } => (0, addresses),
        };
        let from_pitch = if operand.layout().by_columns { operand.column_stride } else { operand.row_stride };
        let call = PackCall {
            from,
            list,
            to,
            from_pitch: from_pitch as u64,
            from_batch: operand.stride() as u64,
            pitch: self.pitch() as u64,
            batch: (self.lines * self.pitch()) as u64,
            lines: self.lines as u32,
            length: self.length as u32,
            is_transposed: self.is_transposed.into(),
            width: 0,
            across: 0,
            blocks: 0,
        };
        call.laid_out(self.to.bytes() as u32)
    }

    /// The packed matrices of `operand` at an address.
    fn operand<'a>(&self, operand: Operand<'a>, address: u64) -> Operand<'a> {
        let (row_stride, column_stride) = if self.by_columns { (1, self.pitch()) } else { (self.pitch(), 1) };
        let place = match operand.place {
            Place::One(_) => Place::One(address),
            _ => Place::Strided { address, stride: self.lines * self.pitch(), count: self.count },
        };
        Operand { row_stride, column_stride, place, element: self.to, ..operand }
    }

    fn kernel(&self) -> &'static Kernel {
        match (self.from, self.to) {
            (ElementType::Bf16, ElementType::F32) => &BF16_AS_F32,
            (ElementType::F16, ElementType::F32) => &F16_AS_F32,
            (ElementType::F32, _) => &WORDS,
            (ElementType::Bf16 | ElementType::F16, _) => &HALVES,
        }
    }
}

/// How A and B are packed for a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Packing {
    factors: [Option<Packed>; 2],
}

impl Packing {
    /// What of the product of `a` and `b` is packed for `kernel`, of batches of `count`.
    pub(super) fn of(kernel: &Kernel, a: &Operand<'_>, b: &Operand<'_>, count: usize) -> Packing {
        if a.columns == 0 {
            return Packing::default();
        }
        let to = kernel.precision.factors();
        let packed = |operand: &Operand<'_>, by_columns: Option<bool>| {
            let operand = operand.with_long_lines();
            let (from, lies_by_columns) = (operand.element, operand.layout().by_columns);
            let suits = by_columns.is_none_or(|wanted| lies_by_columns == wanted && operand.is_mappable());
            let by_columns = by_columns.unwrap_or(lies_by_columns);
            let (lines, length) =
                if by_columns { (operand.columns, operand.rows) } else { (operand.rows, operand.columns) };
            let is_transposed = by_columns != lies_by_columns;
            (!suits || from != to).then_some(Packed { from, to, lines, length, by_columns, is_transposed, count })
        };
        let wanted = match kernel.signature {
            Signature::MappedCall(operands) => [operands.a, operands.b].map(|operand| Some(operand.by_columns)),
            Signature::Call if a.element != to => [None, None],
            _ => return Packing::default(),
        };
        Packing { factors: [packed(a, wanted[0]), packed(b, wanted[1])] }
    }

    /// Bytes of workspace for what is packed.
    pub(super) fn bytes(&self) -> u128 {
        let all = self.factors.iter().flatten();
        all.map(|packed| packed.bytes().next_multiple_of(ALIGNMENT.into())).sum()
    }
}

impl Gemm {
    /// Launches what packs a product's factors into `workspace`, if they need it; gives the product of what is packed, and where the workspace goes
    /// on.
    pub(super) fn launch_packing<'a>(
        &self,
        product: &Multiplication<'a>,
        packing: &Packing,
        workspace: u64,
        launcher: &mut impl Launcher,
    ) -> Result<(Multiplication<'a>, u64), GemmError> {
        let (mut product, mut end) = (*product, workspace);
        let Multiplication { m, n, k, .. } = product;
        let mut launches: Vec<(Packed, [PackCall; 2])> = Vec::new();
        for (packed, operand) in packing.factors.iter().zip([&mut product.a, &mut product.b]) {
            let Some(mut packed) = *packed else { continue };
            // One matrix for all products is packed once.
            packed.count = operand.place.count().unwrap_or(1);
            let call = packed.call(operand, end);
            let call = call.ok_or(GemmError::NoLaunch { m, n, k, kernel: packed.kernel().name })?;
            *operand = packed.operand(*operand, end);
            end += u64::try_from(packed.bytes()).unwrap_or(u64::MAX).next_multiple_of(ALIGNMENT);
            match launches.last_mut() {
                // Both at once, if they are as many.
                Some((first, calls)) if first.count == packed.count => calls[1] = call,
                _ => launches.push((packed, [call, PackCall { blocks: 0, ..call }])),
            }
        }
        for (packed, [a, b]) in &launches {
            let kernel = self.loaded_kernel(packed.kernel())?;
            let most = MAX_GRID_YZ as usize;
            for first in (0..packed.count).step_by(most) {
                let from = |call: &PackCall| PackCall {
                    from: call.from + (first * packed.from.bytes()) as u64 * call.from_batch,
                    list: if call.list == 0 { 0 } else { call.list + (first * size_of::<u64>()) as u64 },
                    to: call.to + (first * packed.to.bytes()) as u64 * call.batch,
                    ..*call
                };
                let (a, b) = (from(a), from(b));
                let shape = pack::launch_shape(&a, &b, (packed.count - first).min(most) as u32);
                let arguments = [Argument::Bytes(bytes_of(&a)), Argument::Bytes(bytes_of(&b))];
                // SAFETY: the kernel takes two PackCalls. They describe A and B, which were checked to be inside their buffers, and what is packed, each
                // apart from everything else in a workspace that has room for it. All outlive this call and, freed after what is enqueued, the
                // launch.
                unsafe { launcher.launch(&kernel, &shape, &arguments)? };
            }
        }
        Ok((product, end))
    }
}

#[cfg(test)]
mod tests {
    use gpu_kernels::Precision;
    use hopper_kernels::FAMILIES;

    use super::*;

    fn kernel(precision: Precision, a_across: bool, b_across: bool) -> &'static Kernel {
        let family = FAMILIES.iter().find(|family| family.precision == precision).unwrap();
        family.kernel(a_across, b_across)
    }

    fn operand(element: ElementType, rows: usize, columns: usize, by_columns: bool) -> Operand<'static> {
        Operand::stand_in(element, None, rows, columns, by_columns)
    }

    /// How a 30 x `k` by `k` x 24 product is packed for a kernel, A by rows.
    fn packing(kernel: &Kernel, element: ElementType, k: usize, b_by_columns: bool) -> Packing {
        Packing::of(kernel, &operand(element, 30, k, false), &operand(element, k, 24, b_by_columns), 1)
    }

    #[test]
    fn what_lies_as_the_kernel_wants_it_is_not_packed() {
        assert_eq!(packing(kernel(Precision::Bf16, false, true), ElementType::Bf16, 48, false), Packing::default());
        let f32s = &production_kernels::FAMILIES[0].kernels[0];
        assert_eq!(packing(f32s, ElementType::F32, 49, false), Packing::default());
        // Lines of any length from multiples of 16 bytes on.
        let a = Operand { row_stride: 56, ..operand(ElementType::F16, 30, 50, false) };
        let b = operand(ElementType::F16, 50, 24, false);
        assert_eq!(Packing::of(kernel(Precision::F16, false, true), &a, &b, 1), Packing::default());
    }

    #[test]
    fn unaligned_lines_are_packed_as_they_lie_and_tf32_along_k() {
        let packing_of_a = packing(kernel(Precision::F16, false, true), ElementType::F16, 50, false);
        let [Some(a), None] = packing_of_a.factors else { panic!("{packing_of_a:?}") };
        assert_eq!((a.lines, a.length, a.pitch(), a.is_transposed), (30, 50, 56, false));
        assert_eq!(packing_of_a.bytes(), (30 * 56 * 2_u128).next_multiple_of(256));
        // Where a kernel takes B by columns only.
        let along_k = kernel(Precision::Tf32, false, false);
        let packing_of_b = packing(along_k, ElementType::F32, 52, false);
        let [None, Some(b)] = packing_of_b.factors else { panic!("{packing_of_b:?}") };
        assert_eq!((b.lines, b.length, b.pitch(), b.is_transposed, b.by_columns), (24, 52, 52, true, true));
    }

    #[test]
    fn numbers_of_16_bits_become_f32_for_kernels_of_f32() {
        let packing = packing(&production_kernels::FAMILIES[0].kernels[0], ElementType::Bf16, 48, true);
        let [Some(a), Some(b)] = packing.factors else { panic!("{packing:?}") };
        assert_eq!((a.to, a.by_columns, b.by_columns), (ElementType::F32, false, true));
        assert_eq!(a.kernel().entry, "pack_bf16_as_f32");
    }
}
