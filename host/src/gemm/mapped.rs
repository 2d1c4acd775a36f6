//! Matrices as kernels copy them, box by box: the tensor maps of a product, from what the kernel says of its operands.

use gpu_kernels::{Kernel, Precision, Signature};
use kernel_common::{
    launch::ElementType,
    operands::{CopiedBox, MappedOperand, MappedOperands, MappedOutput, Swizzle},
};
use ptx_simulator::{Swizzle as MapSwizzle, TensorElement};

use super::{GemmError, Operand, launch::Multiplication};
use crate::device::{Device, DeviceError, TENSOR_MAP_BYTES, TensorMap, TensorMapError, TensorMapLayout};

/// Bytes that a line begins at multiples of.
const ALIGNMENT: usize = 16;

/// A tensor map.
pub(super) type Map = [u8; TENSOR_MAP_BYTES];

/// How a kernel sees a product: the matrices, and what it does with them.
#[derive(Clone, Copy)]
pub(super) struct Mapper<'a> {
    pub(super) device: &'a Device,
    pub(super) kernel: &'a Kernel,
    pub(super) operands: &'a MappedOperands,
    pub(super) product: &'a Multiplication<'a>,
    /// How many matrices of a batch a map is of, where maps are of batches.
    pub(super) at_once: usize,
}

impl Mapper<'_> {
    /// The maps of A and of B for product `index` of a batch, or from that on where maps are of batches.
    ///
    /// # Errors
    ///
    /// [`GemmError::Lines`], [`GemmError::Panels`] or [`GemmError::Unmappable`] if it can't copy them.
    pub(super) fn factors(&self, index: usize) -> Result<[Map; 2], GemmError> {
        let Multiplication { a, b, .. } = self.product;
        Ok([self.map("A", a, &self.operands.a, index)?, self.map("B", b, &self.operands.b, index)?])
    }

    /// The map of C; `None` if the kernel doesn't copy it.
    ///
    /// # Errors
    ///
    /// As [`factors`](Mapper::factors).
    pub(super) fn output(&self, index: usize) -> Result<Option<Map>, GemmError> {
        match &self.operands.c {
            MappedOutput::Map(copied) => {
                let c = &self.product.c;
                ensure_whole_chunks(self.kernel.name, c, copied)?;
                self.map("C", c, &as_many_bytes(*copied, c.element), index).map(Some)
            }
            MappedOutput::Pointer => Ok(None),
        }
    }

    /// As [`output`](Mapper::output), and none where C can't have one: kernels that can do without write it element by element.
    ///
    /// # Errors
    ///
    /// As [`output`](Mapper::output), but for [`GemmError::Unmappable`].
    pub(super) fn output_if_mappable(&self, index: usize) -> Result<Option<Map>, GemmError> {
        match self.output(index) {
            Err(GemmError::Unmappable { .. }) => Ok(None),
            output => output,
        }
    }

    fn map(
        &self,
        matrix: &'static str,
        operand: &Operand<'_>,
        copied: &MappedOperand,
        index: usize,
    ) -> Result<Map, GemmError> {
        let kernel = self.kernel.name;
        let mut layout = layout(kernel, matrix, operand, copied, (index, self.at_once))?;
        if self.kernel.precision == Precision::Tf32 && matrix != "C" {
            // The copy rounds.
            layout.element = TensorElement::TF32;
        }
        self.device.tensor_map(&layout).map_err(|error| match error {
            DeviceError::TensorMap(reason) => GemmError::Unmappable { kernel, matrix, reason },
            error => error.into(),
        })
    }
}

/// Whether a kernel can copy matrices of the sizes m, n and k without gaps that lie as it wants them. Kernels that don't copy
/// boxes take all sizes.
///
/// # Errors
///
/// [`GemmError::Unmappable`] or [`GemmError::Panels`] if it can't.
pub fn ensure_sizes(kernel: &Kernel, [m, n, k]: [usize; 3]) -> Result<(), GemmError> {
    let Some(operands) = kernel.signature.mapped() else { return Ok(()) };
    // For general kernels matrices are put where they can be copied.
    if !matches!(kernel.signature, Signature::Mapped(_)) || [m, n, k].contains(&0) {
        return Ok(());
    }
    let check = |matrix, rows, columns, element, copied: &MappedOperand| {
        let operand = Operand::stand_in(element, None, rows, columns, copied.by_columns);
        let layout = layout(kernel.name, matrix, &operand, copied, (0, 1))?;
        let unmappable = |reason| GemmError::Unmappable { kernel: kernel.name, matrix, reason };
        TensorMap::encode(&layout).map(|_| ()).map_err(unmappable)
    };
    let factors = kernel.precision.factors();
    check("A", m, k, factors, &operands.a)?;
    check("B", k, n, factors, &operands.b)?;
    match needed_output(&kernel.signature) {
        Some(copied) => {
            let c = Operand::stand_in(ElementType::F32, None, m, n, copied.by_columns);
            ensure_whole_chunks(kernel.name, &c, copied)?;
            check("C", m, n, ElementType::F32, copied)
        }
        None => ensure_pairs(kernel, n),
    }
}

/// Whether a kernel that stores C by its address can, if C has so many columns: it stores pairs.
///
/// # Errors
///
/// [`GemmError::OddColumns`] if not.
pub(super) fn ensure_pairs(kernel: &Kernel, columns: usize) -> Result<(), GemmError> {
    match kernel.signature {
        Signature::Mapped(MappedOperands { c: MappedOutput::Pointer, .. }) if !columns.is_multiple_of(2) => {
            Err(GemmError::OddColumns { kernel: kernel.name, columns })
        }
        _ => Ok(()),
    }
}

/// Whether copies to C write nothing beyond its lines: they write whole chunks of 16 bytes, whatever the map says of the tensor's size.
///
/// # Errors
///
/// [`GemmError::Unmappable`] if they would.
fn ensure_whole_chunks(kernel: &'static str, c: &Operand<'_>, copied: &MappedOperand) -> Result<(), GemmError> {
    let elements = if copied.by_columns { c.rows } else { c.columns };
    let bytes = (elements * c.element.bytes()) as u64;
    if bytes.is_multiple_of(ALIGNMENT as u64) {
        return Ok(());
    }
    Err(GemmError::Unmappable { kernel, matrix: "C", reason: TensorMapError::PartialChunk { bytes } })
}

/// How C is copied by a kernel that can't do without a map of it.
fn needed_output(signature: &Signature) -> Option<&MappedOperand> {
    match signature {
        Signature::Mapped(MappedOperands { c: MappedOutput::Map(copied), .. }) => Some(copied),
        _ => None,
    }
}

/// The least sizes m, n and k from the given ones on that a kernel takes in the sense of [`ensure_sizes`].
pub fn next_sizes(kernel: &Kernel, [m, n, k]: [usize; 3]) -> [usize; 3] {
    let Signature::Mapped(operands) = &kernel.signature else { return [m, n, k] };
    let whole = |element: ElementType, copied: &MappedOperand, length: &mut usize| {
        let panel = match copied.copied {
            CopiedBox::Lines { .. } | CopiedBox::Batched { .. } => 1,
            CopiedBox::Panels { width, .. } => width as usize,
        };
        *length = length.next_multiple_of((ALIGNMENT / element.bytes()).max(panel));
    };
    let (factors, mut sizes) = (kernel.precision.factors(), [m, n, k]);
    let [m, n, k] = &mut sizes;
    whole(factors, &operands.a, if operands.a.by_columns { m } else { k });
    whole(factors, &operands.b, if operands.b.by_columns { k } else { n });
    if let Some(c) = needed_output(&kernel.signature) {
        whole(ElementType::F32, c, n);
    }
    sizes
}

/// Boxes that are said for elements of f32, of others, with as many bytes.
fn as_many_bytes(copied: MappedOperand, element: ElementType) -> MappedOperand {
    let wider = |width: u32| width * (ElementType::F32.bytes() / element.bytes()) as u32;
    let copied_box = match copied.copied {
        CopiedBox::Lines { width, lines } => CopiedBox::Lines { width: wider(width), lines },
        CopiedBox::Batched { width, lines } => CopiedBox::Batched { width: wider(width), lines },
        CopiedBox::Panels { width, lines, panels } => CopiedBox::Panels { width: wider(width), lines, panels },
    };
    MappedOperand { copied: copied_box, ..copied }
}

/// The tensor that a kernel sees in matrix `index` of a batch, or in as many from that on as a map is of, and its boxes.
fn layout(
    kernel: &'static str,
    matrix: &'static str,
    operand: &Operand<'_>,
    copied: &MappedOperand,
    (index, at_once): (usize, usize),
) -> Result<TensorMapLayout, GemmError> {
    let MappedOperand { by_columns, copied, swizzle } = *copied;
    // Its lines are the rows of this one.
    let lines = if by_columns { operand.transposed() } else { *operand };
    if lines.column_stride != 1 && lines.columns > 1 {
        return Err(GemmError::Lines { kernel, matrix, contiguous: if by_columns { "columns" } else { "rows" } });
    }
    let element_bytes = operand.element.bytes();
    // To a line that is the only one there is no distance.
    let apart = match lines.rows {
        1 => (lines.columns * element_bytes).next_multiple_of(ALIGNMENT),
        _ => lines.row_stride * element_bytes,
    };
    let (elements, count, apart) = (lines.columns as u64, lines.rows as u64, apart as u64);
    let (sizes, strides, box_sizes) = match copied {
        CopiedBox::Lines { width, lines } => (vec![elements, count], vec![apart], vec![width, lines]),
        CopiedBox::Batched { width, lines } => {
            // Of a single matrix any distance will do.
            let distance = if at_once == 1 { ALIGNMENT } else { operand.stride() * element_bytes };
            (vec![elements, count, at_once as u64], vec![apart, distance as u64], vec![width, lines, 1])
        }
        CopiedBox::Panels { width, lines, panels } => {
            let panel = u64::from(width);
            if !elements.is_multiple_of(panel) {
                return Err(GemmError::Panels { kernel, matrix, width, elements });
            }
            let strides = vec![apart, panel * element_bytes as u64];
            (vec![panel, count, elements / panel], strides, vec![width, lines, panels])
        }
    };
    Ok(TensorMapLayout {
        element: tensor_element(operand.element),
        address: operand.address(index),
        sizes,
        strides,
        box_sizes,
        swizzle: map_swizzle(swizzle),
    })
}

fn tensor_element(element: ElementType) -> TensorElement {
    match element {
        ElementType::F32 => TensorElement::F32,
        ElementType::Bf16 => TensorElement::BF16,
        ElementType::F16 => TensorElement::F16,
    }
}

fn map_swizzle(swizzle: Swizzle) -> MapSwizzle {
    match swizzle {
        Swizzle::None => MapSwizzle::None,
        Swizzle::Bytes32 => MapSwizzle::Bytes32,
        Swizzle::Bytes64 => MapSwizzle::Bytes64,
        Swizzle::Bytes128 => MapSwizzle::Bytes128,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A by rows, in boxes of 64 x 128; B by rows, in two panels; C by rows.
    const OPERANDS: MappedOperands = MappedOperands {
        a: MappedOperand {
            by_columns: false,
            copied: CopiedBox::Lines { width: 64, lines: 128 },
            swizzle: Swizzle::Bytes128,
        },
        b: MappedOperand {
            by_columns: false,
            copied: CopiedBox::Panels { width: 64, lines: 64, panels: 2 },
            swizzle: Swizzle::Bytes128,
        },
        c: MappedOutput::Map(MappedOperand {
            by_columns: false,
            copied: CopiedBox::Lines { width: 32, lines: 64 },
            swizzle: Swizzle::Bytes128,
        }),
        cluster: 1,
        blocks_stay: false,
    };

    fn halves(rows: usize, columns: usize, by_columns: bool) -> Operand<'static> {
        Operand::stand_in(ElementType::Bf16, None, rows, columns, by_columns)
    }

    fn kernel(operands: MappedOperands) -> Kernel {
        Kernel { name: "it", signature: Signature::Mapped(operands), ..gpu_kernels::tensor_cores::KERNEL }
    }

    fn layout_of(operand: &Operand<'_>, copied: &MappedOperand) -> Result<TensorMapLayout, String> {
        layout("it", "A", operand, copied, (0, 1)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_matrix_has_two_dimensions_the_innermost_along_its_lines() {
        let expected = TensorMapLayout {
            element: TensorElement::BF16,
            address: 0,
            sizes: vec![72, 200],
            strides: vec![144],
            box_sizes: vec![64, 128],
            swizzle: MapSwizzle::Bytes128,
        };
        assert_eq!(layout_of(&halves(200, 72, false), &OPERANDS.a).unwrap(), expected);
        let by_columns = MappedOperand { by_columns: true, ..OPERANDS.a };
        assert_eq!(layout_of(&halves(72, 200, true), &by_columns).unwrap(), expected);
        // With gaps.
        let mut gaps = halves(200, 72, false);
        gaps.row_stride = 80;
        assert_eq!(layout_of(&gaps, &OPERANDS.a).unwrap().strides, [160]);
    }

    #[test]
    fn panels_are_a_third_dimension() {
        let layout = layout_of(&halves(70, 192, false), &OPERANDS.b).unwrap();
        assert_eq!(
            (layout.sizes, layout.strides, layout.box_sizes),
            (vec![64, 70, 3], vec![384, 128], vec![64, 64, 2])
        );
        let error = layout_of(&halves(70, 200, false), &OPERANDS.b).unwrap_err();
        assert!(error.contains("multiple of 64") && error.contains("200"), "{error}");
    }

    #[test]
    fn the_matrices_of_a_batch_are_a_third_dimension_from_the_product_on_that_is_launched() {
        let copied = MappedOperand { copied: CopiedBox::Batched { width: 64, lines: 128 }, ..OPERANDS.a };
        let batch = Operand::stand_in(ElementType::Bf16, Some(5), 200, 72, false);
        let layout = layout("it", "A", &batch, &copied, (2, 3)).unwrap();
        assert_eq!((layout.sizes, layout.strides), (vec![72, 200, 3], vec![144, 28800]));
        assert_eq!((layout.address, layout.box_sizes), (2 * 28800, vec![64, 128, 1]));
        assert_eq!(layout_of(&halves(200, 72, false), &copied).unwrap().sizes, [72, 200, 1]);
    }

    #[test]
    fn a_single_line_may_have_any_length() {
        let layout = layout_of(&halves(1, 71, false), &OPERANDS.a).unwrap();
        assert_eq!((layout.sizes, layout.strides), (vec![71, 1], vec![144]));
    }

    #[test]
    fn lines_in_the_other_direction_are_refused_by_name() {
        let error = layout_of(&halves(64, 72, true), &OPERANDS.a).unwrap_err();
        assert!(error.contains("'it'") && error.contains("contiguous rows"), "{error}");
    }

    #[test]
    fn sizes_whose_lines_do_not_begin_at_multiples_of_16_bytes_are_refused_with_the_matrix() {
        let refused = |operands, sizes| ensure_sizes(&kernel(operands), sizes).map_err(|error| error.to_string());
        assert_eq!(refused(OPERANDS, [3, 128, 72]), Ok(()));
        assert_eq!(refused(OPERANDS, [3, 128, 0]), Ok(()));
        let error = refused(OPERANDS, [3, 128, 71]).unwrap_err();
        assert!(error.contains("'it'") && error.contains("matrix A") && error.contains("multiples of 16"), "{error}");
        let b = MappedOperand { copied: CopiedBox::Lines { width: 64, lines: 64 }, ..OPERANDS.b };
        let error = refused(MappedOperands { b, ..OPERANDS }, [3, 100, 72]).unwrap_err();
        assert!(error.contains("matrix B"), "{error}");
        // A row of C has 4 bytes an element.
        let b = MappedOperand { by_columns: true, ..b };
        assert_eq!(refused(MappedOperands { b, ..OPERANDS }, [3, 100, 72]), Ok(()));
        assert!(refused(MappedOperands { b, ..OPERANDS }, [3, 98, 72]).unwrap_err().contains("matrix C"));
    }

    #[test]
    fn the_next_sizes_are_taken_and_those_that_are_taken_stay() {
        let by_columns = |operand| MappedOperand { by_columns: true, copied: OPERANDS.a.copied, ..operand };
        let transposed = MappedOperands { a: by_columns(OPERANDS.a), b: by_columns(OPERANDS.b), ..OPERANDS };
        for (operands, expected) in [(OPERANDS, [3, 128, 8]), (transposed, [8, 72, 8])] {
            let (kernel, sizes) = (kernel(operands), [3, 69, 5]);
            let next = next_sizes(&kernel, sizes);
            assert_eq!(next, expected);
            assert!(ensure_sizes(&kernel, next).is_ok() && ensure_sizes(&kernel, sizes).is_err());
            assert_eq!(next_sizes(&kernel, next), next);
        }
    }
}
