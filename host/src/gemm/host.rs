//! Products of matrices in host memory.

use std::time::Duration;

use gpu_kernels::{Kernel, Precision, Signature, launch::ElementType};
use ndarray::{Array, Array2, ArrayRef2, ArrayView2, ArrayView3, Axis, Dimension, Ix2, Ix3};

use super::{
    DeviceMatricesMut, DeviceMatrix, DeviceMatrixMut, FactorBuffer, Gemm, GemmError, Operand, Output, laid_out, launch,
};
use crate::{
    device::{Device, DeviceBuffer, DeviceError},
    kernels::{self, Named},
    plan::Plan,
};

/// How often to launch a kernel in order to time it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// Launch once and take that launch's time.
    Once,
    /// Launch once to warm up, then time batches of back-to-back launches and take the median batch.
    Batches {
        /// Batches to take the median of.
        batches: usize,
        /// Launches in each.
        launches: usize,
    },
}

/// C = alpha A B + beta C for batches of matrices in host memory, one matrix after the other along the first axis. A single
/// product is a batch of one.
#[derive(Clone, Debug)]
pub struct HostProduct<'a> {
    /// The factor of A B.
    pub alpha: f32,
    /// A, as many as products or one for all, each m x k, of any strides: a transposed view is a transposed matrix.
    pub a: ArrayView3<'a, f32>,
    /// B, as many as products or one for all, each k x n, of any strides.
    pub b: ArrayView3<'a, f32>,
    /// What it is computed in, unless a kernel is named, which says that itself. A and B are rounded to its factors.
    pub precision: Precision,
    /// The factor of C; with 0 it isn't looked at.
    pub beta: f32,
    /// What C holds, as many as products, each m x n; it may be missing if `beta` is 0.
    pub c: Option<ArrayView3<'a, f32>>,
}

impl<'a> HostProduct<'a> {
    /// C = A B of one matrix each.
    pub fn new(a: ArrayView2<'a, f32>, b: ArrayView2<'a, f32>) -> HostProduct<'a> {
        let [a, b] = [a, b].map(|matrix| matrix.insert_axis(Axis(0)));
        HostProduct { alpha: 1.0, a, b, precision: Precision::F32, beta: 0.0, c: None }
    }

    /// Products in the batch, and m, n, k.
    pub fn sizes(&self) -> (usize, [usize; 3]) {
        let ((a_count, m, k), (b_count, _, n)) = (self.a.dim(), self.b.dim());
        (if a_count == 1 { b_count } else { a_count }, [m, n, k])
    }
}

/// A product, or a batch of them, and how long the kernel took.
#[derive(Debug)]
pub struct TimedProduct<D: Dimension = Ix2> {
    /// C, row-major; of a batch one matrix after the other.
    pub c: Array<f32, D>,
    /// How it was computed.
    pub plan: Plan,
    /// The time of one launch, as [`Device::time`] has it; zero if there was nothing to launch.
    pub time: Duration,
    /// Timed launches behind `time`.
    pub launches: usize,
}

impl<D: Dimension> TimedProduct<D> {
    /// Multiply-adds per second, the inner dimension being `k`; zero if there was nothing to launch.
    pub fn multiply_adds_per_second(&self, k: usize) -> f64 {
        let seconds = self.time.as_secs_f64();
        if seconds > 0.0 { self.c.len() as f64 * k as f64 / seconds } else { 0.0 }
    }
}

/// How a matrix of the host can be copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HostOrder {
    /// Its rows are contiguous and follow each other, perhaps with gaps.
    Rows,
    /// Its columns are.
    Columns,
    /// Neither: elements are apart in both directions, or run backwards.
    Other,
}

impl HostOrder {
    fn of(matrix: &ArrayRef2<f32>) -> HostOrder {
        let ((rows, columns), &[row_stride, column_stride]) = (matrix.dim(), matrix.strides()) else {
            return HostOrder::Other;
        };
        // Along a dimension of one element there is no step.
        let runs = |inside: usize, step: isize, lines: usize, distance: isize| {
            (inside <= 1 || step == 1) && (lines <= 1 || usize::try_from(distance).is_ok_and(|gap| gap >= inside))
        };
        if runs(columns, column_stride, rows, row_stride) {
            HostOrder::Rows
        } else if runs(rows, row_stride, columns, column_stride) {
            HostOrder::Columns
        } else {
            HostOrder::Other
        }
    }
}

/// A matrix of the host in device memory, packed: in the host's order of elements where that is an order of rows or of
/// columns, else by rows.
struct Uploaded {
    buffer: DeviceBuffer<f32>,
    rows: usize,
    columns: usize,
    by_columns: bool,
}

impl Uploaded {
    /// Room for a matrix in the order of elements of `like`.
    fn allocate(device: &Device, like: &ArrayRef2<f32>) -> Result<Uploaded, GemmError> {
        let (rows, columns) = like.dim();
        let elements = rows.saturating_mul(columns);
        let by_columns = HostOrder::of(like) == HostOrder::Columns;
        Ok(Uploaded { buffer: device.allocate(elements)?, rows, columns, by_columns })
    }

    fn upload(device: &Device, matrix: &ArrayRef2<f32>) -> Result<Uploaded, GemmError> {
        let mut uploaded = Uploaded::allocate(device, matrix)?;
        match HostOrder::of(matrix) {
            HostOrder::Rows => uploaded.buffer.copy_from_rows(matrix.view())?,
            HostOrder::Columns => uploaded.buffer.copy_from_rows(matrix.t())?,
            HostOrder::Other => uploaded.buffer.copy_from_rows(matrix.as_standard_layout().view())?,
        }
        Ok(uploaded)
    }

    fn download(&self, matrix: &mut ArrayRef2<f32>) -> Result<(), GemmError> {
        match HostOrder::of(matrix) {
            HostOrder::Rows => self.buffer.copy_to_rows(matrix.view_mut())?,
            HostOrder::Columns => self.buffer.copy_to_rows(matrix.view_mut().reversed_axes())?,
            HostOrder::Other => {
                let mut rows = Array2::zeros(matrix.dim());
                self.buffer.copy_to_rows(rows.view_mut())?;
                matrix.assign(&rows);
            }
        }
        Ok(())
    }

    fn view(&self) -> Result<DeviceMatrix<'_>, GemmError> {
        let Uploaded { buffer, rows, columns, by_columns } = self;
        laid_out(buffer, *rows, *columns, *by_columns)
    }

    fn view_mut(&mut self) -> Result<DeviceMatrixMut<'_>, GemmError> {
        let Uploaded { buffer, rows, columns, by_columns } = self;
        if *by_columns {
            Ok(buffer.matrix_mut(*columns, *rows)?.transposed())
        } else {
            buffer.matrix_mut(*rows, *columns)
        }
    }
}

/// Whether each of the matrices is to lie by columns on the device, as it does in host memory.
fn is_by_columns(matrices: &ArrayView3<'_, f32>) -> bool {
    matrices.axis_iter(Axis(0)).next().is_some_and(|first| HostOrder::of(&first) == HostOrder::Columns)
}

/// A or B, or a batch of them, in device memory in the elements that a kernel takes, one after the other without gaps.
struct Factors {
    buffer: FactorBuffer,
    count: usize,
    rows: usize,
    columns: usize,
    by_columns: bool,
}

impl Factors {
    /// A and B as `kernel` takes them: by rows or by columns as it says, else as in host memory if they needn't be rounded.
    fn upload_both(
        device: &Device,
        kernel: &Kernel,
        matrices: [&ArrayView3<'_, f32>; 2],
    ) -> Result<[Factors; 2], GemmError> {
        let element = kernel.precision.factors();
        let [a, b] = matrices;
        let [a_by_columns, b_by_columns] = match kernel.signature.mapped() {
            Some(_) => kernels::by_columns(kernel),
            None => matrices.map(|it| element == ElementType::F32 && is_by_columns(it)),
        };
        Ok([Factors::upload(device, element, a, a_by_columns)?, Factors::upload(device, element, b, b_by_columns)?])
    }

    fn upload(
        device: &Device,
        element: ElementType,
        matrices: &ArrayView3<'_, f32>,
        by_columns: bool,
    ) -> Result<Factors, GemmError> {
        let (count, rows, columns) = matrices.dim();
        let stored = if by_columns { matrices.view().permuted_axes([0, 2, 1]) } else { matrices.view() };
        let stored = stored.as_standard_layout();
        let numbers = stored.as_slice().expect("the standard layout is contiguous");
        Ok(Factors { buffer: FactorBuffer::upload(device, element, numbers)?, count, rows, columns, by_columns })
    }

    /// The only matrix, or the first.
    fn first(&self) -> Result<DeviceMatrix<'_>, GemmError> {
        self.buffer.laid_out(self.rows, self.columns, self.by_columns)
    }

    /// The matrices as they are meant; of one matrix no batch, so that it goes with each of another batch.
    fn operand(&self) -> Result<Operand<'_>, GemmError> {
        let Factors { buffer, count, rows, columns, by_columns } = self;
        if *count == 1 {
            return Ok(self.first()?.into());
        }
        Ok(match by_columns {
            true => buffer.batch_at(0, *count, *columns, *rows)?.transposed().into(),
            false => buffer.batch_at(0, *count, *rows, *columns)?.into(),
        })
    }
}

impl Gemm {
    /// Whether A B can be computed here: the inner sizes agree and the device has room for all three matrices.
    ///
    /// # Errors
    ///
    /// [`GemmError::InnerSizesDiffer`], or [`DeviceError::OutOfMemory`] with the bytes needed and free.
    pub fn check(&self, a: &ArrayView2<f32>, b: &ArrayView2<f32>) -> Result<(), GemmError> {
        let ((m, k), (b_rows, n)) = (a.dim(), b.dim());
        self.check_sizes([(1, m, k), (1, b_rows, n), (1, m, n)])
    }

    /// The same for batches: how many of A, B and C, and the rows and columns of each.
    fn check_sizes(&self, sizes: [(usize, usize, usize); 3]) -> Result<(), GemmError> {
        let [(_, a_rows, a_columns), (_, b_rows, b_columns), _] = sizes;
        if a_columns != b_rows {
            return Err(GemmError::InnerSizesDiffer { a_rows, a_columns, b_rows, b_columns });
        }
        let elements = sizes
            .map(|(count, rows, columns)| (count as u128).saturating_mul(rows as u128).saturating_mul(columns as u128));
        let needed = elements.into_iter().fold(0_u128, u128::saturating_add).saturating_mul(size_of::<f32>() as u128);
        let needed = u64::try_from(needed).unwrap_or(u64::MAX);
        let info = self.device().info();
        if needed > info.free_memory {
            let error = DeviceError::OutOfMemory { needed, free: info.free_memory, total: info.total_memory };
            return Err(error.into());
        }
        Ok(())
    }

    /// C = A B for matrices in host memory, of any strides: those whose rows or columns are contiguous are copied to the
    /// device as they are. C is row-major.
    ///
    /// # Errors
    ///
    /// [`GemmError`] if the inner sizes differ, memory doesn't suffice, or the device fails.
    pub fn multiply(&self, a: &ArrayRef2<f32>, b: &ArrayRef2<f32>) -> Result<Array2<f32>, GemmError> {
        self.check(&a.view(), &b.view())?;
        let mut c = zeros(Ix2(a.nrows(), b.ncols()))?;
        self.general_mat_mul(1.0, a, b, 0.0, &mut c)?;
        Ok(c)
    }

    /// C = alpha A B + beta C for matrices in host memory, of any strides, as ndarray's function of that name.
    ///
    /// # Errors
    ///
    /// [`GemmError`] if the shapes don't fit together, memory doesn't suffice, or the device fails.
    pub fn general_mat_mul(
        &self,
        alpha: f32,
        a: &ArrayRef2<f32>,
        b: &ArrayRef2<f32>,
        beta: f32,
        c: &mut ArrayRef2<f32>,
    ) -> Result<(), GemmError> {
        self.check(&a.view(), &b.view())?;
        let ((rows, columns), (c_rows, c_columns)) = ((a.nrows(), b.ncols()), c.dim());
        if (c_rows, c_columns) != (rows, columns) {
            return Err(GemmError::OutputShape { rows, columns, c_rows, c_columns });
        }
        let device = self.device();
        let (on_device_a, on_device_b) = (Uploaded::upload(device, a)?, Uploaded::upload(device, b)?);
        let mut on_device_c = if beta == 0.0 { Uploaded::allocate(device, c)? } else { Uploaded::upload(device, c)? };
        self.product(on_device_a.view()?, on_device_b.view()?)
            .alpha(alpha)
            .beta(beta)
            .enqueue_into(on_device_c.view_mut()?)?;
        on_device_c.download(c)
    }

    /// Whether a product can be computed here: the sizes agree and the device has room for all matrices.
    ///
    /// # Errors
    ///
    /// As [`check`](Gemm::check), [`GemmError::FactorBatches`], [`GemmError::OutputShape`] and [`GemmError::OutputBatch`].
    pub fn check_product(&self, product: &HostProduct<'_>) -> Result<(), GemmError> {
        let HostProduct { a, b, c, .. } = product;
        let ((a_count, m, k), (b_count, b_rows, n)) = (a.dim(), b.dim());
        if a_count != b_count && a_count != 1 && b_count != 1 {
            return Err(GemmError::FactorBatches { a: a_count, b: b_count });
        }
        let (count, _) = product.sizes();
        self.check_sizes([(a_count, m, k), (b_count, b_rows, n), (count, m, n)])?;
        match c.as_ref().map(|c| c.dim()) {
            Some((_, c_rows, c_columns)) if (c_rows, c_columns) != (m, n) => {
                Err(GemmError::OutputShape { rows: m, columns: n, c_rows, c_columns })
            }
            Some((c, ..)) if c != count => Err(GemmError::OutputBatch { count, c }),
            _ => Ok(()),
        }
    }

    /// How a product of matrices in host memory is computed: with the kernel of that name or, if there is none, as
    /// [`plan`](crate::plan) says.
    ///
    /// # Errors
    ///
    /// [`GemmError::Layout`] if the name is that of one kernel, which can't copy the matrices.
    pub fn plan_for(&self, product: &HostProduct<'_>, named: Option<Named>) -> Result<Plan, GemmError> {
        let (count, [.., k]) = product.sizes();
        let [a, b] = [&product.a, &product.b].map(|matrices| {
            let (count, rows, columns) = matrices.dim();
            Operand::stand_in(
                product.precision.factors(),
                (count != 1).then_some(count),
                rows,
                columns,
                is_by_columns(matrices),
            )
        });
        let problem = launch::problem(&a, &b, None, k, count, (product.alpha, product.beta));
        match named {
            Some(named) => Ok(Plan::new(named.for_layouts(problem.a, problem.b)?)),
            None => Ok(self.plan_or(None, &problem, product.precision)),
        }
    }

    /// Computes a product of matrices in host memory once and takes the time, with the kernel of that name or, if there is
    /// none, as [`plan`](crate::plan) says. A and B are rounded to what the kernel takes.
    ///
    /// # Errors
    ///
    /// As [`check_product`](Gemm::check_product) and [`plan_for`](Gemm::plan_for), [`GemmError::PlainOnly`] or
    /// [`GemmError::NotPacked`] if the kernel can't do it, or if the device fails.
    pub fn compute(&self, product: &HostProduct<'_>, named: Option<Named>) -> Result<TimedProduct<Ix3>, GemmError> {
        let HostProduct { alpha, a, b, beta, c, .. } = product;
        self.check_product(product)?;
        let plan = self.plan_for(product, named)?;
        let device = self.device();
        let (count, [m, n, _]) = product.sizes();
        let mut result = zeros(Ix3(count, m, n))?;
        let mut c_on_device = device.allocate(result.len())?;
        if let Some(c) = c
            && *beta != 0.0
        {
            c_on_device.copy_from(c.as_standard_layout().as_slice().expect("the standard layout is contiguous"))?;
        }
        let [a, b] = Factors::upload_both(device, plan.kernel, [a, b])?;
        let product = self.product(a.operand()?, b.operand()?).alpha(*alpha).beta(*beta).with_plan(plan);
        let (time, launches) = if result.is_empty() {
            (Duration::ZERO, 0)
        } else {
            self.load(plan.kernel)?;
            let output: Output<'_> = match count {
                1 => c_on_device.matrix_mut(m, n)?.into(),
                _ => DeviceMatricesMut::new(&mut c_on_device, 0, count, m, n)?.into(),
            };
            let (mut outcome, mut launch) = (Ok(()), Some((product, output)));
            let time = device.time(|| {
                if let Some((product, c)) = launch.take() {
                    outcome = product.enqueue_into(c);
                }
                Ok(())
            })?;
            (outcome.map(|()| time)?, 1)
        };
        c_on_device.copy_to(result.as_slice_mut().expect("a new array is contiguous"))?;
        Ok(TimedProduct { c: result, plan, time, launches })
    }

    /// C = A B for matrices in host memory with a given kernel, timed as `timing` says. A and B are rounded to what the
    /// kernel takes.
    ///
    /// # Errors
    ///
    /// As [`multiply`](Gemm::multiply).
    pub fn multiply_timed(
        &self,
        kernel: &'static Kernel,
        a: ArrayView2<f32>,
        b: ArrayView2<f32>,
        timing: Timing,
    ) -> Result<TimedProduct, GemmError> {
        self.check(&a, &b)?;
        let (m, n) = (a.nrows(), b.ncols());
        let mut c = zeros(Ix2(m, n))?;
        // Plain kernels take rows only.
        let rows = [&a, &b].map(|matrix| (kernel.signature == Signature::Plain).then(|| matrix.as_standard_layout()));
        let [a, b] = [(&rows[0], a), (&rows[1], b)]
            .map(|(rows, matrix)| rows.as_ref().map_or(matrix, |rows| rows.view()).insert_axis(Axis(0)));
        let [a, b] = Factors::upload_both(self.device(), kernel, [&a, &b])?;
        let c_buffer = self.device().allocate::<f32>(m * n)?;
        let (a_matrix, b_matrix, c_matrix) = (a.first()?, b.first()?, c_buffer.matrix(m, n)?);
        let (time, launches) = if c.is_empty() {
            (Duration::ZERO, 0)
        } else {
            self.load(kernel)?;
            self.time(timing, || self.enqueue(kernel, a_matrix, b_matrix, c_matrix))?
        };
        c_buffer.copy_to(c.as_slice_mut().expect("a new array is contiguous"))?;
        Ok(TimedProduct { c, plan: Plan::new(kernel), time, launches })
    }

    /// The time of one call of `enqueue` on the device, and the number of calls behind it.
    fn time(
        &self,
        timing: Timing,
        enqueue: impl Fn() -> Result<(), GemmError>,
    ) -> Result<(Duration, usize), GemmError> {
        let batch = |launches: usize| -> Result<Duration, GemmError> {
            let mut outcome = Ok(());
            let time = self.device().time(|| {
                outcome = (0..launches).try_for_each(|_| enqueue());
                Ok(())
            })?;
            outcome.map(|()| time)
        };
        match timing {
            Timing::Once => Ok((batch(1)?, 1)),
            Timing::Batches { batches, launches } => {
                let (batches, launches) = (batches.max(1), launches.max(1));
                batch(1)?;
                let mut times = (0..batches).map(|_| batch(launches)).collect::<Result<Vec<_>, _>>()?;
                times.sort();
                Ok((times[batches / 2] / launches as u32, batches * launches))
            }
        }
    }
}

/// Zeros, row-major, if this machine has room for them.
fn zeros<D: Dimension>(shape: D) -> Result<Array<f32, D>, GemmError> {
    let sizes = shape.slice();
    let bytes = sizes.iter().fold(size_of::<f32>() as u128, |bytes, &size| bytes.saturating_mul(size as u128));
    let (rows, columns) = (sizes[sizes.len() - 2], sizes[sizes.len() - 1]);
    let host_memory = || GemmError::HostMemory { rows, columns, bytes };
    let elements = sizes.iter().try_fold(1_usize, |elements, &size| elements.checked_mul(size));
    let elements = elements.ok_or_else(host_memory)?;
    let mut zeros = Vec::new();
    zeros.try_reserve_exact(elements).map_err(|_| host_memory())?;
    zeros.resize(elements, 0.0);
    Ok(Array::from_shape_vec(shape, zeros).expect("there are as many elements as the shape has"))
}
