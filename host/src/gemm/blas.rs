//! A product as BLAS is told of it, for libraries that take it so.

use gpu_kernels::launch::ElementType;

use super::{GemmError, Operand, launch::Multiplication, matrix::Place};
use crate::device::Device;

/// One matrix, or the first of a batch at equal distances: `leading` elements from row to row in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlasMatrix {
    /// Its address.
    pub(crate) address: u64,
    /// Elements from the start of a row in memory to that of the next.
    pub(crate) leading: usize,
    /// Elements from matrix to matrix; 0 if it's the same for all.
    pub(crate) stride: usize,
    /// Whether memory holds the transpose of what is meant.
    pub(crate) transposed: bool,
}

/// C = alpha op(A) op(B) + beta C of row-major matrices, `count` at a time. C isn't transposed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct BlasProduct {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) count: usize,
    pub(crate) alpha: f32,
    pub(crate) beta: f32,
    pub(crate) a: BlasMatrix,
    pub(crate) b: BlasMatrix,
    pub(crate) c: BlasMatrix,
    /// The elements of A and B.
    pub(crate) factors: ElementType,
    /// The elements of C.
    pub(crate) output: ElementType,
}

impl BlasProduct {
    /// The product of `a` and `b` into `c`; `None` if there is nothing to do.
    ///
    /// # Errors
    ///
    /// [`GemmError`] if sizes or batches don't fit together or something is another device's;
    /// [`GemmError::ListedBatch`] for a batch that is a list.
    pub(crate) fn new(
        device: &Device,
        factors: (f32, f32),
        a: Operand<'_>,
        b: Operand<'_>,
        c: Operand<'_>,
    ) -> Result<Option<BlasProduct>, GemmError> {
        let Some(product) = Multiplication::new(device, factors, a, b, c)? else { return Ok(None) };
        let Multiplication { m, n, k, alpha, beta, a, b, c, count } = product;
        let (factors, output) = (a.element, c.element);
        let (a, b, c) = (matrix(a)?, matrix(b)?, matrix(c)?);
        Ok(Some(BlasProduct { m, n, k, count, alpha, beta, a, b, c, factors, output }))
    }
}

fn matrix(operand: Operand<'_>) -> Result<BlasMatrix, GemmError> {
    let transposed = operand.column_stride != 1;
    let leading = if transposed { operand.column_stride } else { operand.row_stride };
    let (address, stride) = match operand.place {
        Place::One(address) => (address, 0),
        Place::Strided { address, stride, .. } => (address, stride),
        Place::Listed { .. } => return Err(GemmError::ListedBatch),
    };
    Ok(BlasMatrix { address, leading, stride, transposed })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        device::DeviceSelector,
        gemm::{DeviceMatrices, DeviceMatrix, MatrixList, Output},
    };

    #[test]
    fn a_product_into_a_transposed_matrix_is_the_transposed_product() {
        let device = Device::open(DeviceSelector::Simulator).unwrap();
        let (a, b) = (device.allocate::<f32>(2 * 30).unwrap(), device.allocate::<f32>(40).unwrap());
        let mut c = device.allocate::<f32>(64).unwrap();
        // A: two of 2 x 3 with rows 5 apart; B: one of 3 x 4, transposed in memory.
        let a_batch = DeviceMatrices::with_strides(&a, 1, [2, 20], 2, 3, 5).unwrap();
        let b_matrix = DeviceMatrix::new(&b, 0, 4, 3).unwrap().transposed();
        let out = crate::gemm::DeviceMatricesMut::new(&mut c, 0, 2, 4, 2).unwrap().transposed();
        let Output(out) = out.into();
        let product = BlasProduct::new(&device, (2.0, 1.0), a_batch.into(), b_matrix.into(), out).unwrap().unwrap();
        assert_eq!((product.m, product.n, product.k, product.count), (4, 2, 3, 2));
        let matrix = |address, leading, stride, transposed| BlasMatrix { address, leading, stride, transposed };
        assert_eq!(product.a, matrix(b.address(), 3, 0, false));
        assert_eq!(product.b, matrix(a.address() + 4, 5, 20, true));
        assert_eq!((product.c.leading, product.c.stride, product.c.transposed), (2, 8, false));
        assert_eq!((product.alpha, product.beta), (2.0, 1.0));
    }

    #[test]
    fn a_list_of_matrices_is_refused() {
        let device = Device::open(DeviceSelector::Simulator).unwrap();
        let [a, b] = [0, 1].map(|_| device.allocate::<f32>(4).unwrap());
        let mut c = device.allocate::<f32>(4).unwrap();
        let list = MatrixList::new(&device, &[a.matrix(2, 2).unwrap()]).unwrap();
        let Output(out) = crate::gemm::DeviceMatricesMut::new(&mut c, 0, 1, 2, 2).unwrap().into();
        let b = b.matrix(2, 2).unwrap();
        let error = BlasProduct::new(&device, (1.0, 0.0), (&list).into(), b.into(), out).unwrap_err();
        assert!(matches!(error, GemmError::ListedBatch), "{error}");
    }
}
