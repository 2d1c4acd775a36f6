//! The call for matrices in device memory.

use gpu_kernels::{Precision, launch::ElementType};

use super::{
    Gemm, GemmError, Operand, Output,
    launch::{self, Manner, Multiplication},
};
use crate::{
    device::{DeviceBuffer, Stream},
    plan::{Plan, Problem},
};

/// A product that isn't computed yet: C = alpha A B + beta C, without C. [`Gemm::product`] makes it.
///
/// A and B are transposed by giving their [`transposed`](super::DeviceMatrix::transposed) views.
#[derive(Debug)]
#[must_use = "nothing is computed before enqueue_into"]
pub struct Product<'a> {
    gemm: &'a Gemm,
    a: Operand<'a>,
    b: Operand<'a>,
    alpha: f32,
    beta: f32,
    stream: Option<&'a Stream>,
    workspace: Option<&'a mut DeviceBuffer<f32>>,
    plan: Option<Plan>,
    precision: Option<Precision>,
}

impl Gemm {
    /// The product of `a` and `b`, each a matrix or a batch of matrices in device memory. One matrix beside a batch goes
    /// with each of the batch.
    ///
    /// ```
    /// use host::{device::{Device, DeviceSelector}, gemm::Gemm};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let gemm = Gemm::new(Device::open(DeviceSelector::Auto)?);
    /// let device = gemm.device();
    /// let a = device.upload(&[1.0f32, 2.0, 3.0, 4.0])?;
    /// let b = device.upload(&[1.0f32, 0.0, 0.0, 1.0])?;
    /// let mut c = device.upload(&[10.0f32; 4])?;
    /// // C = 2 A^T B + C
    /// gemm.product(a.matrix(2, 2)?.transposed(), b.matrix(2, 2)?)
    ///     .alpha(2.0)
    ///     .beta(1.0)
    ///     .enqueue_into(c.matrix_mut(2, 2)?)?;
    /// assert_eq!(c.download()?, [12.0, 16.0, 14.0, 18.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn product<'a>(&'a self, a: impl Into<Operand<'a>>, b: impl Into<Operand<'a>>) -> Product<'a> {
        let (a, b) = (a.into(), b.into());
        Product { gemm: self, a, b, alpha: 1.0, beta: 0.0, stream: None, workspace: None, plan: None, precision: None }
    }
}

impl<'a> Product<'a> {
    /// What A B is multiplied with; 1 if not said. With 0, A and B aren't read.
    pub fn alpha(self, alpha: f32) -> Product<'a> {
        Product { alpha, ..self }
    }

    /// What C is multiplied with before A B is added to it; 0 if not said, and then C isn't read: a NaN that was in it
    /// doesn't stay.
    pub fn beta(self, beta: f32) -> Product<'a> {
        Product { beta, ..self }
    }

    /// The stream to enqueue it on; the device's own if not said.
    pub fn on(self, stream: &'a Stream) -> Product<'a> {
        Product { stream: Some(stream), ..self }
    }

    /// Memory for partial sums, at least [`workspace_bytes`](Product::workspace_bytes) of it.
    ///
    /// Without it the stream's own is used, which grows when a product needs more than any before it on that stream: that
    /// call allocates. The buffer may be used for the next product on the same stream at once, and on another when that
    /// has waited for this one.
    pub fn workspace(self, workspace: &'a mut DeviceBuffer<f32>) -> Product<'a> {
        Product { workspace: Some(workspace), ..self }
    }

    /// What it's computed in, if A and B have the elements for it: for f32, [`F32`](Precision::F32) if not said, or
    /// [`F32Parts`](Precision::F32Parts), which is as exact and several times as fast where there are tensor cores for it, or
    /// [`Tf32`](Precision::Tf32), which rounds A and B to 11 bits. (Where there are no tensor cores for it, or they don't pay, it's computed in f32.)
    pub fn precision(self, precision: Precision) -> Product<'a> {
        Product { precision: Some(precision), ..self }
    }

    /// How to compute it, instead of as [`plan`](crate::plan) would. Of a production kernel that doesn't suit the matrices'
    /// layout, the one of the same shape that does is taken.
    pub fn with_plan(self, plan: Plan) -> Product<'a> {
        Product { plan: Some(plan), ..self }
    }

    /// How it will be computed if C is an m x n matrix with contiguous rows, or a batch of them.
    ///
    /// # Errors
    ///
    /// [`GemmError::InnerSizesDiffer`], [`GemmError::FactorBatches`].
    pub fn plan(&self) -> Result<Plan, GemmError> {
        let problem = launch::problem(&self.a, &self.b, None, self.k()?, self.count()?, (self.alpha, self.beta));
        Ok(self.gemm.plan_or(self.plan, &problem, self.computed_in()))
    }

    /// The bytes of workspace that it needs, whether C's rows are contiguous or its columns, and whatever its elements; often none. If neither A nor B is
    /// a batch, it's what one product needs: a C of several needs as many times as much.
    ///
    /// # Errors
    ///
    /// [`GemmError::InnerSizesDiffer`], [`GemmError::FactorBatches`].
    pub fn workspace_bytes(&self) -> Result<u64, GemmError> {
        let (k, count) = (self.k()?, self.count()?);
        let bytes = |a: &Operand<'_>, b: &Operand<'_>| {
            let problem = launch::problem(a, b, None, k, count, (self.alpha, self.beta));
            // C may turn out to be none that kernels of the book could write.
            let problems = [problem, Problem { plain: false, ..problem }];
            let bytes = problems.map(|problem| {
                let plan = self.gemm.plan_or(self.plan, &problem, self.computed_in());
                let c_may_be_half = a.element != ElementType::F32;
                self.gemm.workspace_bytes(&Manner::from(&plan), a, b, count, c_may_be_half)
            });
            bytes[0].max(bytes[1])
        };
        let most = bytes(&self.a, &self.b).max(bytes(&self.b.transposed(), &self.a.transposed()));
        Ok(u64::try_from(most.next_multiple_of(size_of::<f32>() as u128)).unwrap_or(u64::MAX))
    }

    /// The precision that A and B are computed in: the caller's, if it has such factors.
    fn computed_in(&self) -> Precision {
        let of_factors = |precision: &Precision| precision.factors() == self.a.element;
        let own = || Precision::ALL.iter().copied().find(of_factors).unwrap_or(Precision::F32);
        self.precision.filter(of_factors).unwrap_or_else(own)
    }

    fn k(&self) -> Result<usize, GemmError> {
        let (a, b) = (&self.a, &self.b);
        if a.columns == b.rows {
            return Ok(a.columns);
        }
        Err(GemmError::InnerSizesDiffer { a_rows: a.rows, a_columns: a.columns, b_rows: b.rows, b_columns: b.columns })
    }

    /// The length of the batch, as far as A and B tell.
    fn count(&self) -> Result<usize, GemmError> {
        match (self.a.place.count(), self.b.place.count()) {
            (Some(a), Some(b)) if a != b => Err(GemmError::FactorBatches { a, b }),
            (a, b) => Ok(a.or(b).unwrap_or(1)),
        }
    }

    /// Enqueues it to write `c` and returns without waiting for it.
    ///
    /// Nothing is allocated (but see [`workspace`](Product::workspace), and the first use of a kernel, which loads it)
    /// and the device isn't waited for.
    ///
    /// # Errors
    ///
    /// [`GemmError`] if the shapes don't fit together, something is another device's, or the launch fails. What goes wrong
    /// on the device later is reported by the next call that looks, such as [`Stream::synchronise`].
    pub fn enqueue_into<'c>(self, c: impl Into<Output<'c>>) -> Result<(), GemmError> {
        let precision = self.computed_in();
        let Product { gemm, a, b, alpha, beta, stream, workspace, plan, .. } = self;
        let Some(product) = Multiplication::new(gemm.device(), (alpha, beta), a, b, c.into().0)? else {
            return Ok(());
        };
        let problem = product.problem();
        let plan = gemm.plan_or(plan, &problem, precision);
        let stream = stream.unwrap_or(gemm.device().default_stream());
        gemm.launch(&product, &plan, workspace.map(|buffer| &*buffer), stream)
    }
}
