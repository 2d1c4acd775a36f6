//! Matrices that are written anew, in the workspace, where a kernel can't take them as they lie.
//!
//! Kernels with tensor maps want lines in one direction, each from a multiple of 16 bytes on. Kernels of f32 take any lines, and f32 only: products of
//! 16-bit matrices come to them on GPUs without a kernel for these.

use gpu_kernels::{Kernel, Signature, launch::ElementType};
use production_kernels::pack::{self, PackCall};

use super::{
    GemmError, Operand,
    launch::{Launcher, Multiplication, bytes_of},
    matrix::Place,
};
use crate::{
    device::Argument,
    gemm::Gemm,
    plan::{Layout, Problem},
};

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

    fn call(&self, operand: &Operand<'_>, to: u64) -> PackCall {
        let (from, list) = match operand.place {
            Place::One(address) | Place::Strided { address, .. } => (address, 0),
            Place::Listed { addresses, .. } => (0, addresses),
        };
        let from_pitch = if operand.layout().by_columns { operand.column_stride } else { operand.row_stride };
        PackCall {
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
            count: self.count as u32,
        }
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
            (ElementType::Bf16, ElementType::F32) => &pack::BF16_AS_F32,
            (ElementType::F16, ElementType::F32) => &pack::F16_AS_F32,
            (ElementType::F32, _) => &pack::WORDS,
            (ElementType::Bf16 | ElementType::F16, _) => &pack::HALVES,
        }
    }
}

/// How A and B are packed for a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Packing {
    factors: [Option<Packed>; 2],
}

impl Packing {
    /// What of a product of such elements is packed for `kernel`.
    pub(super) fn of(kernel: &Kernel, problem: &Problem, element: ElementType) -> Packing {
        let Problem { m, n, k, a, b, batch, .. } = *problem;
        if k == 0 {
            return Packing::default();
        }
        let to = kernel.precision.factors();
        let packed = |layout: Layout, rows: usize, columns: usize, by_columns: Option<bool>| {
            let suits = match by_columns {
                Some(by_columns) => layout.aligned && layout.by_columns == by_columns,
                None => true,
            };
            let by_columns = by_columns.unwrap_or(layout.by_columns);
            let (lines, length) = if by_columns { (columns, rows) } else { (rows, columns) };
            let is_transposed = by_columns != layout.by_columns;
            let packed = Packed { from: element, to, lines, length, by_columns, is_transposed, count: batch };
            (!suits || element != to).then_some(packed)
        };
        let wanted = match kernel.signature {
            Signature::MappedCall(operands) => [operands.a, operands.b].map(|operand| Some(operand.by_columns)),
            Signature::Call if element != to => [None, None],
            _ => return Packing::default(),
        };
        Packing { factors: [packed(a, m, k, wanted[0]), packed(b, k, n, wanted[1])] }
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
        let mut calls = Vec::new();
        for (packed, operand) in packing.factors.iter().zip([&mut product.a, &mut product.b]) {
            let Some(mut packed) = *packed else { continue };
            // One matrix for all products is packed once.
            packed.count = operand.place.count().unwrap_or(1);
            calls.push((packed, packed.call(operand, end)));
            *operand = packed.operand(*operand, end);
            end += u64::try_from(packed.bytes()).unwrap_or(u64::MAX).next_multiple_of(ALIGNMENT);
        }
        if let Some((first, call)) = calls.first() {
            let (_, second) = calls.last().expect("there is a first");
            let most = |of: fn(&PackCall) -> u32| of(call).max(of(second));
            let factors = calls.len() as u32;
            let shape =
                pack::launch_shape(most(|call| call.lines), most(|call| call.length), factors, most(|call| call.count));
            let arguments =
                [Argument::Bytes(bytes_of(call)), Argument::Bytes(bytes_of(second)), Argument::U32(factors)];
            let kernel = self.loaded_kernel(first.kernel())?;
            // SAFETY: the kernel takes two PackCalls and a number. The calls describe A and B, which were checked to be inside their buffers, and what
            // is packed, each apart from everything else in a workspace that has room for it. All outlive this call and, freed after what is
            // enqueued, the launch.
            unsafe { launcher.launch(&kernel, &shape, &arguments)? };
        }
        Ok((product, end))
    }
}

#[cfg(test)]
mod tests {
    use gpu_kernels::Precision;
    use hopper_kernels::FAMILIES;

    use super::*;
    use crate::plan::Plan;

    const ROWS: Layout = Layout { by_columns: false, aligned: true };

    fn kernel(precision: Precision, a_across: bool, b_across: bool) -> &'static Kernel {
        let family = FAMILIES.iter().find(|family| family.precision == precision).unwrap();
        family.kernel(a_across, b_across)
    }

    fn problem(a: Layout, b: Layout) -> Problem {
        Problem { m: 30, n: 20, k: 50, a, b, batch: 1, plain: true }
    }

    #[test]
    fn what_lies_as_the_kernel_wants_it_is_not_packed() {
        let of = |kernel, problem: &Problem, element| Packing::of(kernel, problem, element).bytes();
        assert_eq!(of(kernel(Precision::Bf16, false, true), &problem(ROWS, ROWS), ElementType::Bf16), 0);
        let plan = Plan::new(&production_kernels::FAMILIES[0].kernels[0]);
        assert_eq!(of(plan.kernel, &problem(ROWS, ROWS), ElementType::F32), 0);
        let unaligned = Layout { aligned: false, ..ROWS };
        assert_eq!(of(plan.kernel, &problem(unaligned, ROWS), ElementType::F32), 0);
    }

    #[test]
    fn unaligned_lines_are_packed_as_they_lie_and_tf32_along_k() {
        let unaligned = Layout { aligned: false, ..ROWS };
        let packing = Packing::of(kernel(Precision::F16, false, true), &problem(unaligned, ROWS), ElementType::F16);
        let [Some(a), None] = packing.factors else { panic!("{packing:?}") };
        assert_eq!((a.lines, a.length, a.pitch(), a.is_transposed), (30, 50, 56, false));
        assert_eq!(packing.bytes(), (30 * 56 * 2_u128).next_multiple_of(256));
        let packing = Packing::of(kernel(Precision::Tf32, false, false), &problem(ROWS, ROWS), ElementType::F32);
        let [None, Some(b)] = packing.factors else { panic!("{packing:?}") };
        assert_eq!((b.lines, b.length, b.pitch(), b.is_transposed, b.by_columns), (20, 50, 52, true, true));
    }

    #[test]
    fn numbers_of_16_bits_become_f32_for_kernels_of_f32() {
        let kernel = &production_kernels::FAMILIES[0].kernels[0];
        let packing = Packing::of(kernel, &problem(ROWS, Layout { by_columns: true, ..ROWS }), ElementType::Bf16);
        let [Some(a), Some(b)] = packing.factors else { panic!("{packing:?}") };
        assert_eq!((a.to, a.by_columns, b.by_columns), (ElementType::F32, false, true));
        assert_eq!(a.kernel().entry, "pack_bf16_as_f32");
    }
}
