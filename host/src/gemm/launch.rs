//! From a product to launches.
//!
//! A [`Multiplication`] is a product whose sizes have been checked, with C's rows contiguous: where C is the transpose
//! of such a matrix, the transposed product is computed. What needs no kernel, or only C, is settled here:
//!
//! * an empty C: nothing is launched;
//! * alpha = 0 or K = 0: C = beta C, and A and B aren't read;
//! * beta = 0: C isn't read.

use gpu_kernels::{Kernel, LaunchShape};

use super::{Gemm, GemmError, Operand};
use crate::{
    device::{Argument, Device, DeviceBuffer, DeviceError, LoadedKernel, Stream},
    plan::{Plan, Problem},
};

/// A product that is ready to launch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Multiplication<'a> {
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
    pub(super) alpha: f32,
    pub(super) beta: f32,
    pub(super) a: Operand<'a>,
    pub(super) b: Operand<'a>,
    pub(super) c: Operand<'a>,
    /// How many products: 1 if none of the three is a batch.
    pub(super) count: usize,
}

impl<'a> Multiplication<'a> {
    /// The product `alpha` `a` `b` + `beta` `c`; `None` if there is nothing to do.
    ///
    /// # Errors
    ///
    /// [`GemmError`] if sizes or batches don't fit together, or something is another device's.
    pub(super) fn new(
        device: &Device,
        (alpha, beta): (f32, f32),
        a: Operand<'a>,
        b: Operand<'a>,
        c: Operand<'a>,
    ) -> Result<Option<Multiplication<'a>>, GemmError> {
        let (m, n, k) = (a.rows, b.columns, a.columns);
        if b.rows != k {
            return Err(GemmError::InnerSizesDiffer { a_rows: m, a_columns: k, b_rows: b.rows, b_columns: n });
        }
        if (c.rows, c.columns) != (m, n) {
            return Err(GemmError::OutputShape { rows: m, columns: n, c_rows: c.rows, c_columns: c.columns });
        }
        let count = c.place.count().unwrap_or(1);
        for (input, operand) in [("A", &a), ("B", &b)] {
            if let Some(length) = operand.place.count()
                && length != count
            {
                return Err(GemmError::BatchLength { input, count: length, c: count });
            }
        }
        for (what, operand) in [("A", &a), ("B", &b), ("C", &c)] {
            if !operand.is_on(device) {
                return Err(DeviceError::OtherDevice { what }.into());
            }
        }
        // Without products of A and B they aren't looked at.
        let (alpha, k) = if alpha == 0.0 || k == 0 { (0.0, 0) } else { (alpha, k) };
        if m == 0 || n == 0 || count == 0 || (k == 0 && beta == 1.0) {
            return Ok(None);
        }
        let product = Multiplication { m, n, k, alpha, beta, a, b, c, count };
        Ok(Some(if c.column_stride == 1 { product } else { product.transposed() }))
    }

    /// The same product as C^T = B^T A^T.
    fn transposed(self) -> Multiplication<'a> {
        let Multiplication { m, n, a, b, c, .. } = self;
        Multiplication { m: n, n: m, a: b.transposed(), b: a.transposed(), c: c.transposed(), ..self }
    }

    /// What decides which kernel suits it.
    pub(super) fn problem(&self) -> Problem {
        problem(&self.a, &self.b, Some(&self.c), self.k, self.count, (self.alpha, self.beta))
    }
}

/// What decides which kernel suits a product with inner dimension `k`, `count` at a time. As long as C isn't known it's
/// taken for one without gaps.
pub(super) fn problem(
    a: &Operand<'_>,
    b: &Operand<'_>,
    c: Option<&Operand<'_>>,
    k: usize,
    count: usize,
    (alpha, beta): (f32, f32),
) -> Problem {
    Problem {
        m: a.rows,
        n: b.columns,
        k,
        a: a.layout(),
        b: b.layout(),
        c_aligned: c.map_or(b.columns.is_multiple_of(4), |c| c.layout().aligned),
        batch: count,
        plain: (alpha == 1.0 || k == 0)
            && beta == 0.0
            && a.is_packed()
            && b.is_packed()
            && c.is_none_or(Operand::is_packed),
    }
}

/// Takes the launches that a product comes to.
pub(super) trait Launcher {
    /// Launches `kernel`.
    ///
    /// # Safety
    ///
    /// As for [`LoadedKernel::launch`].
    unsafe fn launch(
        &mut self,
        kernel: &LoadedKernel,
        shape: &LaunchShape,
        arguments: &[Argument<'_>],
    ) -> Result<(), GemmError>;
}

/// Enqueues them.
impl Launcher for &Stream {
    unsafe fn launch(
        &mut self,
        kernel: &LoadedKernel,
        shape: &LaunchShape,
        arguments: &[Argument<'_>],
    ) -> Result<(), GemmError> {
        // SAFETY: the caller's promise.
        Ok(unsafe { kernel.launch(self, shape, arguments)? })
    }
}

impl Gemm {
    /// Launches `product` as planned, with partial sums in `workspace` or, if there is none, in the stream's own.
    pub(super) fn launch(
        &self,
        product: &Multiplication<'_>,
        plan: &Plan,
        workspace: Option<&DeviceBuffer<f32>>,
        stream: &Stream,
    ) -> Result<(), GemmError> {
        let _ = workspace;
        self.launch_plain(product, plan.kernel, stream)
    }

    /// Launches `product` with a kernel of the book, once for every matrix of a batch.
    pub(super) fn launch_plain(
        &self,
        product: &Multiplication<'_>,
        kernel: &Kernel,
        mut launcher: impl Launcher,
    ) -> Result<(), GemmError> {
        let Multiplication { m, n, k, a, b, c, .. } = *product;
        if let Some((matrix, _)) = [("A", &a), ("B", &b), ("C", &c)].into_iter().find(|(_, matrix)| !matrix.is_packed())
        {
            return Err(GemmError::NotPacked { matrix, kernel: kernel.name });
        }
        if product.beta != 0.0 || (product.alpha != 1.0 && k > 0) {
            return Err(GemmError::PlainOnly { kernel: kernel.name });
        }
        let shape = (kernel.launch_shape)(m, n, k).ok_or(GemmError::NoLaunch { m, n, k, kernel: kernel.name })?;
        let loaded = self.loaded_kernel(kernel)?;
        for index in 0..product.count {
            let [a, b, c] = [&a, &b, &c].map(|operand| Argument::Pointer(operand.place.address(index)));
            let [m, n, k] = [m, n, k].map(|size| Argument::U64(size as u64));
            // SAFETY: every kernel of the book takes (a, b, c, m, n, k) and, launched with its own shape, stays inside
            // the m x k, k x n and m x n elements at a, b and c; they have no gaps, and the views were checked to lie
            // inside their buffers, which outlive this call and, freed after what is enqueued, the launch.
            unsafe { launcher.launch(&loaded, &shape, &[a, b, c, m, n, k])? };
        }
        Ok(())
    }
}

/// Elements of workspace that a plan needs for `count` products of m x n.
pub(super) fn workspace_elements(plan: &Plan, m: usize, n: usize, count: usize) -> u128 {
    plan.workspace_elements(m, n, count)
}
