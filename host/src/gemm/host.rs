//! Products of matrices in host memory.

use std::time::Duration;

use gpu_kernels::{Kernel, launch::ElementType};
use ndarray::{Array2, ArrayRef2, ArrayView2};

use super::{DeviceMatrix, DeviceMatrixMut, FactorBuffer, Gemm, GemmError};
use crate::{
    device::{Device, DeviceBuffer, DeviceError},
    plan::{Layout, Plan, Problem},
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

/// C = alpha A B + beta C for matrices in host memory.
#[derive(Clone, Debug)]
pub struct HostProduct<'a> {
    /// The factor of A B.
    pub alpha: f32,
    /// A, m x k, of any strides: a transposed view is a transposed matrix.
    pub a: ArrayView2<'a, f32>,
    /// B, k x n, of any strides.
    pub b: ArrayView2<'a, f32>,
    /// The factor of C; with 0 it isn't looked at.
    pub beta: f32,
    /// What C holds, m x n; it may be missing if `beta` is 0.
    pub c: Option<ArrayView2<'a, f32>>,
}

impl<'a> HostProduct<'a> {
    /// C = A B.
    pub fn new(a: ArrayView2<'a, f32>, b: ArrayView2<'a, f32>) -> HostProduct<'a> {
        HostProduct { alpha: 1.0, a, b, beta: 0.0, c: None }
    }
}

/// A product and how long the kernel took.
#[derive(Debug)]
pub struct TimedProduct {
    /// C, row-major.
    pub c: Array2<f32>,
    /// How it was computed.
    pub plan: Plan,
    /// The time of one launch, as [`Device::time`] has it; zero if there was nothing to launch.
    pub time: Duration,
    /// Timed launches behind `time`.
    pub launches: usize,
}

impl TimedProduct {
    /// Multiply-adds per second, the inner dimension being `k`; zero if there was nothing to launch.
    pub fn multiply_adds_per_second(&self, k: usize) -> f64 {
        let (m, n) = self.c.dim();
        let seconds = self.time.as_secs_f64();
        if seconds > 0.0 { m as f64 * n as f64 * k as f64 / seconds } else { 0.0 }
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
        if *by_columns { Ok(buffer.matrix(*columns, *rows)?.transposed()) } else { buffer.matrix(*rows, *columns) }
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

/// A or B in device memory: of f32 in the host's order of elements, else rounded and by rows.
enum Factor {
    Plain(Uploaded),
    Rounded { buffer: FactorBuffer, rows: usize, columns: usize },
}

impl Factor {
    fn upload(device: &Device, element: ElementType, matrix: &ArrayRef2<f32>) -> Result<Factor, GemmError> {
        let (rows, columns) = matrix.dim();
        Ok(match element {
            ElementType::F32 => Factor::Plain(Uploaded::upload(device, matrix)?),
            _ => Factor::Rounded { buffer: FactorBuffer::upload_matrix(device, element, matrix)?, rows, columns },
        })
    }

    fn view(&self) -> Result<DeviceMatrix<'_>, GemmError> {
        match self {
            Factor::Plain(uploaded) => uploaded.view(),
            Factor::Rounded { buffer, rows, columns } => buffer.matrix(*rows, *columns),
        }
    }
}

impl Gemm {
    /// Whether A B can be computed here: the inner sizes agree and the device has room for all three matrices.
    ///
    /// # Errors
    ///
    /// [`GemmError::InnerSizesDiffer`], or [`DeviceError::OutOfMemory`] with the bytes needed and free.
    pub fn check(&self, a: &ArrayView2<f32>, b: &ArrayView2<f32>) -> Result<(), GemmError> {
        let ((m, k), n) = (a.dim(), b.ncols());
        if b.nrows() != k {
            return Err(GemmError::InnerSizesDiffer { a_rows: m, a_columns: k, b_rows: b.nrows(), b_columns: n });
        }
        let elements = |rows: usize, columns: usize| rows as u128 * columns as u128;
        let needed = (elements(m, k) + elements(k, n) + elements(m, n)) * size_of::<f32>() as u128;
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
        let mut c = zeros(a.nrows(), b.ncols())?;
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
    /// As [`check`](Gemm::check), and [`GemmError::OutputShape`].
    pub fn check_product(&self, product: &HostProduct<'_>) -> Result<(), GemmError> {
        let HostProduct { a, b, c, .. } = product;
        self.check(a, b)?;
        let (rows, columns) = (a.nrows(), b.ncols());
        match c.as_ref().map(|c| c.dim()) {
            Some((c_rows, c_columns)) if (c_rows, c_columns) != (rows, columns) => {
                Err(GemmError::OutputShape { rows, columns, c_rows, c_columns })
            }
            _ => Ok(()),
        }
    }

    /// How a product of matrices in host memory is computed: with the kernel given or, if none is, as
    /// [`plan`](crate::plan) says.
    pub fn plan_for(&self, product: &HostProduct<'_>, kernel: Option<&'static Kernel>) -> Plan {
        let HostProduct { alpha, a, b, beta, .. } = product;
        let layout = |matrix: &ArrayView2<'_, f32>| {
            let by_columns = HostOrder::of(matrix) == HostOrder::Columns;
            let contiguous = if by_columns { matrix.nrows() } else { matrix.ncols() };
            Layout { by_columns, aligned: contiguous.is_multiple_of(4) }
        };
        let ((m, k), n) = (a.dim(), b.ncols());
        let problem = Problem {
            m,
            n,
            k,
            a: layout(a),
            b: layout(b),
            batch: 1,
            plain: *alpha == 1.0 && *beta == 0.0 && !layout(a).by_columns && !layout(b).by_columns,
        };
        kernel.map_or_else(|| self.plan(&problem), Plan::new)
    }

    /// Computes a product of matrices in host memory once and takes the time, with the kernel given or, if none is, as
    /// [`plan`](crate::plan) says. A and B are rounded to what the kernel takes.
    ///
    /// # Errors
    ///
    /// As [`general_mat_mul`](Gemm::general_mat_mul), and [`GemmError::PlainOnly`] or [`GemmError::NotPacked`] if the
    /// kernel can't do it.
    pub fn compute(
        &self,
        product: &HostProduct<'_>,
        kernel: Option<&'static Kernel>,
    ) -> Result<TimedProduct, GemmError> {
        let HostProduct { alpha, a, b, beta, c } = product;
        self.check_product(product)?;
        let device = self.device();
        let (m, n) = (a.nrows(), b.ncols());
        let mut result = zeros(m, n)?;
        let mut c_on_device = match c {
            Some(c) if *beta != 0.0 => Uploaded::upload(device, &c.as_standard_layout())?,
            _ => Uploaded::allocate(device, &result)?,
        };
        let element = kernel.map_or(ElementType::F32, |kernel| kernel.precision.factors());
        let (a, b) = (Factor::upload(device, element, a)?, Factor::upload(device, element, b)?);
        let mut product = self.product(a.view()?, b.view()?).alpha(*alpha).beta(*beta);
        if let Some(kernel) = kernel {
            product = product.with_plan(Plan::new(kernel));
        }
        let plan = product.plan()?;
        let (time, launches) = if result.is_empty() {
            (Duration::ZERO, 0)
        } else {
            self.load(plan.kernel)?;
            let (mut outcome, mut launch) = (Ok(()), Some((product, c_on_device.view_mut()?)));
            let time = device.time(|| {
                if let Some((product, c)) = launch.take() {
                    outcome = product.enqueue_into(c);
                }
                Ok(())
            })?;
            (outcome.map(|()| time)?, 1)
        };
        c_on_device.download(&mut result)?;
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
        let ((m, k), n) = (a.dim(), b.ncols());
        let mut c = zeros(m, n)?;
        let element = kernel.precision.factors();
        let [a, b] = [a, b].map(|matrix| FactorBuffer::upload_matrix(self.device(), element, &matrix));
        let (a, b) = (a?, b?);
        let c_buffer = self.device().allocate::<f32>(m * n)?;
        let (a_matrix, b_matrix, c_matrix) = (a.matrix(m, k)?, b.matrix(k, n)?, c_buffer.matrix(m, n)?);
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

/// A `rows` x `columns` matrix of zeros, if this machine has room for it.
fn zeros(rows: usize, columns: usize) -> Result<Array2<f32>, GemmError> {
    let bytes = rows as u128 * columns as u128 * size_of::<f32>() as u128;
    let host_memory = || GemmError::HostMemory { rows, columns, bytes };
    let elements = rows.checked_mul(columns).ok_or_else(host_memory)?;
    let mut c = Vec::new();
    c.try_reserve_exact(elements).map_err(|_| host_memory())?;
    c.resize(elements, 0.0);
    Ok(Array2::from_shape_vec((rows, columns), c).expect("there are rows * columns elements"))
}
