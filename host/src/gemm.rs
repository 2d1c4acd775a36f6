//! The library call: C = A B on a device.

use std::{
    borrow::Cow,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use gpu_kernels::{Kernel, LaunchShape};
use ndarray::{Array2, ArrayView2};
use ptx_simulator::{LaunchConfig, observe::Observer};

use crate::{
    device::{Argument, Device, DeviceBuffer, DeviceError, KernelResources, ModuleId, launch_config},
    plan, ptx,
};

/// Why a product could not be computed.
#[derive(Debug, thiserror::Error)]
pub enum GemmError {
    /// The matrices don't fit together.
    #[error(
        "A is {a_rows} x {a_columns} and B is {b_rows} x {b_columns}: the columns of A ({a_columns}) must equal the rows of B ({b_rows})"
    )]
    InnerSizesDiffer {
        /// Rows of A.
        a_rows: usize,
        /// Columns of A.
        a_columns: usize,
        /// Rows of B.
        b_rows: usize,
        /// Columns of B.
        b_columns: usize,
    },
    /// The output has another shape than the product.
    #[error("the product is {rows} x {columns}, but C is {c_rows} x {c_columns}")]
    OutputShape {
        /// Rows of the product.
        rows: usize,
        /// Columns of the product.
        columns: usize,
        /// Rows of C.
        c_rows: usize,
        /// Columns of C.
        c_columns: usize,
    },
    /// C shares elements with an input.
    #[error("C overlaps {input} in device memory; kernels read their inputs while they write C")]
    Overlap {
        /// "A" or "B".
        input: &'static str,
    },
    /// A matrix that reaches past the end of its buffer.
    #[error("a {rows} x {columns} matrix at element {offset} needs more than the {available} elements of its buffer")]
    OutsideBuffer {
        /// Where the matrix starts.
        offset: usize,
        /// Its rows.
        rows: usize,
        /// Its columns.
        columns: usize,
        /// Elements in the buffer.
        available: usize,
    },
    /// More blocks than a grid can have, or a size that the kernel doesn't take.
    #[error(
        "the kernel '{kernel}' has no launch for a {m} x {n} product with K = {k}: it would need more blocks than a grid can have, or it takes multiples of its tile only (list shows the tile)"
    )]
    NoLaunch {
        /// Rows of C.
        m: usize,
        /// Columns of C.
        n: usize,
        /// The inner dimension.
        k: usize,
        /// The kernel.
        kernel: &'static str,
    },
    /// A result that doesn't fit in this machine's memory.
    #[error("the {rows} x {columns} result needs {bytes} bytes of host memory, which are not to be had")]
    HostMemory {
        /// Rows of C.
        rows: usize,
        /// Columns of C.
        columns: usize,
        /// Bytes needed.
        bytes: u128,
    },
    /// The device.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// A row-major matrix without gaps in device memory: `rows` x `columns` elements from element `offset` of a buffer.
#[derive(Clone, Copy, Debug)]
pub struct DeviceMatrix<'a> {
    buffer: &'a DeviceBuffer<f32>,
    offset: usize,
    rows: usize,
    columns: usize,
}

impl<'a> DeviceMatrix<'a> {
    /// Sees `rows` x `columns` elements of `buffer` from element `offset` on as a matrix.
    ///
    /// # Errors
    ///
    /// [`GemmError::OutsideBuffer`] if the buffer ends before the matrix does.
    pub fn new(
        buffer: &'a DeviceBuffer<f32>,
        offset: usize,
        rows: usize,
        columns: usize,
    ) -> Result<DeviceMatrix<'a>, GemmError> {
        let end = rows.checked_mul(columns).and_then(|elements| elements.checked_add(offset));
        if end.is_some_and(|end| end <= buffer.len()) {
            Ok(DeviceMatrix { buffer, offset, rows, columns })
        } else {
            Err(GemmError::OutsideBuffer { offset, rows, columns, available: buffer.len() })
        }
    }

    fn overlaps(&self, other: &DeviceMatrix<'_>) -> bool {
        let range = |matrix: &DeviceMatrix<'_>| {
            let start = matrix.address();
            start..start + (matrix.rows * matrix.columns * size_of::<f32>()) as u64
        };
        let (this, other) = (range(self), range(other));
        this.start < other.end && other.start < this.end
    }

    /// Its rows and columns.
    pub fn dim(&self) -> (usize, usize) {
        (self.rows, self.columns)
    }

    /// The device address of its first element.
    pub fn address(&self) -> u64 {
        self.buffer.address() + (self.offset * size_of::<f32>()) as u64
    }

    fn argument(&self) -> Argument {
        Argument::Pointer(self.address())
    }
}

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

/// A product and how long the kernel took.
#[derive(Debug)]
pub struct Product {
    /// C, row-major.
    pub c: Array2<f32>,
    /// The kernel that computed it.
    pub kernel: &'static Kernel,
    /// The time of one launch, as [`Device::time`] has it; zero if there was nothing to launch.
    pub time: Duration,
    /// Timed launches behind `time`.
    pub launches: usize,
}

impl Product {
    /// Multiply-adds per second, the inner dimension being `k`; zero if there was nothing to launch.
    pub fn multiply_adds_per_second(&self, k: usize) -> f64 {
        let (m, n) = self.c.dim();
        let seconds = self.time.as_secs_f64();
        if seconds > 0.0 { m as f64 * n as f64 * k as f64 / seconds } else { 0.0 }
    }
}

/// A launch of a kernel of `gpu-kernels` with everything it needs.
struct Prepared {
    module: ModuleId,
    shape: LaunchShape,
    arguments: [Argument; 6],
}

/// Matrix products on one device. Each kernel's module is loaded when it is first used.
#[derive(Debug)]
pub struct Gemm {
    device: Device,
    /// The module that holds all kernels, if it isn't this build's own.
    ptx: Option<String>,
    modules: Mutex<Vec<(&'static str, ModuleId)>>,
}

impl Gemm {
    /// Prepares products on `device`.
    pub fn new(device: Device) -> Gemm {
        Gemm { device, ptx: None, modules: Mutex::new(Vec::new()) }
    }

    /// Prepares products on `device` with kernels from a PTX module of the caller's instead of this build's.
    ///
    /// # Safety
    ///
    /// The kernels that are launched must be in that module, take (a, b, c, m, n, k) as those of `gpu-kernels` do, and
    /// keep to the matrices, unless the device is the simulator.
    pub unsafe fn from_ptx(device: Device, ptx: String) -> Gemm {
        Gemm { device, ptx: Some(ptx), modules: Mutex::new(Vec::new()) }
    }

    /// The PTX module that is loaded for a kernel: the caller's, or one with that kernel alone.
    pub fn ptx(&self, kernel: &Kernel) -> Cow<'_, str> {
        let own =
            || ptx::of_entry(kernel.entry).expect("every kernel of the lists is in a module of this build").into();
        self.ptx.as_deref().map_or_else(own, Cow::Borrowed)
    }

    /// What a kernel takes of a multiprocessor, as the GPU's driver says; `None` on the simulator.
    ///
    /// # Errors
    ///
    /// [`DeviceError`] if the kernel can't be loaded.
    pub fn resources(&self, kernel: &Kernel) -> Result<Option<KernelResources>, GemmError> {
        if self.device.is_simulator() {
            return Ok(None);
        }
        let threads = kernel.block.iter().product();
        Ok(self.device.resources(self.module(kernel)?, kernel.entry, threads)?)
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Whether A B can be computed here: the inner sizes agree and the device has room for all three matrices.
    ///
    /// # Errors
    ///
    /// [`GemmError::InnerSizesDiffer`], or [`DeviceError::OutOfMemory`] with the bytes needed and free.
    pub fn check(&self, a: &ArrayView2<f32>, b: &ArrayView2<f32>) -> Result<(), GemmError> {
        check_inner_sizes(a.nrows(), a.ncols(), b.nrows(), b.ncols())?;
        let elements = |rows: usize, columns: usize| rows as u128 * columns as u128;
        let (m, n, k) = (a.nrows(), b.ncols(), a.ncols());
        let needed = (elements(m, k) + elements(k, n) + elements(m, n)) * size_of::<f32>() as u128;
        let needed = u64::try_from(needed).unwrap_or(u64::MAX);
        let info = self.device.info();
        if needed > info.free_memory {
            let error = DeviceError::OutOfMemory { needed, free: info.free_memory, total: info.total_memory };
            return Err(error.into());
        }
        Ok(())
    }

    /// C = A B for matrices in host memory, with the kernel that [`plan::choose`] picks.
    ///
    /// # Errors
    ///
    /// [`GemmError`] if the inner sizes differ, memory doesn't suffice, or the device fails.
    pub fn multiply(&self, a: &Array2<f32>, b: &Array2<f32>) -> Result<Array2<f32>, GemmError> {
        let kernel = plan::choose(a.nrows(), b.ncols(), a.ncols());
        Ok(self.multiply_timed(kernel, a.view(), b.view(), Timing::Once)?.c)
    }

    /// C = A B for matrices in host memory with a given kernel, timed as `timing` says.
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
    ) -> Result<Product, GemmError> {
        self.check(&a, &b)?;
        let ((m, k), n) = (a.dim(), b.ncols());
        let host_bytes = m as u128 * n as u128 * size_of::<f32>() as u128;
        let host_memory = || GemmError::HostMemory { rows: m, columns: n, bytes: host_bytes };
        let elements = m.checked_mul(n).ok_or_else(host_memory)?;
        let mut c = Vec::new();
        c.try_reserve_exact(elements).map_err(|_| host_memory())?;
        c.resize(elements, 0.0);

        let a_buffer = self.device.upload(a.as_standard_layout().as_slice().expect("standard layout is contiguous"))?;
        let b_buffer = self.device.upload(b.as_standard_layout().as_slice().expect("standard layout is contiguous"))?;
        let c_buffer = self.device.allocate::<f32>(elements)?;
        let a_matrix = DeviceMatrix::new(&a_buffer, 0, m, k)?;
        let b_matrix = DeviceMatrix::new(&b_buffer, 0, k, n)?;
        let c_matrix = DeviceMatrix::new(&c_buffer, 0, m, n)?;

        let (time, launches) = if elements > 0 {
            self.module(kernel)?;
            self.time(timing, || self.enqueue(kernel, a_matrix, b_matrix, c_matrix))?
        } else {
            (Duration::ZERO, 0)
        };
        c_buffer.copy_to(&mut c)?;
        let c = Array2::from_shape_vec((m, n), c).expect("c has m * n elements");
        Ok(Product { c, kernel, time, launches })
    }

    /// The time of one call of `enqueue` on the device, and the number of calls behind it.
    fn time(
        &self,
        timing: Timing,
        enqueue: impl Fn() -> Result<(), GemmError>,
    ) -> Result<(Duration, usize), GemmError> {
        let batch = |launches: usize| -> Result<Duration, GemmError> {
            let mut outcome = Ok(());
            let time = self.device.time(|| {
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

    /// Launches C = A B for matrices in device memory and returns without waiting for it.
    ///
    /// # Errors
    ///
    /// [`GemmError`] if the shapes don't fit together, C overlaps A or B, or the launch fails.
    pub fn enqueue(
        &self,
        kernel: &Kernel,
        a: DeviceMatrix<'_>,
        b: DeviceMatrix<'_>,
        c: DeviceMatrix<'_>,
    ) -> Result<(), GemmError> {
        let Some(launch) = self.prepare(kernel, a, b, c)? else { return Ok(()) };
        // SAFETY: every kernel of gpu-kernels takes (a, b, c, m, n, k) as `prepare` passes them and, launched with its
        // own shape, stays inside the m x k, k x n and m x n elements at a, b and c; DeviceMatrix::new checked that
        // those lie inside their buffers, which outlive this call and, freed on the same stream, the launch.
        unsafe { self.device.launch(launch.module, kernel.entry, &launch.shape, &launch.arguments)? };
        Ok(())
    }

    /// Like [`enqueue`](Gemm::enqueue) on the simulator, with an observer that `watch` makes for the launch. `None` if
    /// the product is empty and nothing is launched.
    ///
    /// # Errors
    ///
    /// As [`enqueue`](Gemm::enqueue), and [`DeviceError::NotObservable`] on a GPU.
    pub fn observe<O: Observer>(
        &self,
        kernel: &Kernel,
        a: DeviceMatrix<'_>,
        b: DeviceMatrix<'_>,
        c: DeviceMatrix<'_>,
        watch: impl FnOnce(&Arc<ptx_simulator::Module>, &LaunchConfig) -> O,
    ) -> Result<Option<O>, GemmError> {
        let Some(launch) = self.prepare(kernel, a, b, c)? else { return Ok(None) };
        let module = self.device.simulated_module(launch.module).ok_or(DeviceError::NotObservable)?;
        let mut observer = watch(&module, &launch_config(&launch.shape));
        self.device.launch_observed(launch.module, kernel.entry, &launch.shape, &launch.arguments, &mut observer)?;
        Ok(Some(observer))
    }

    /// What is launched for C = A B; `None` if C is empty.
    fn prepare(
        &self,
        kernel: &Kernel,
        a: DeviceMatrix<'_>,
        b: DeviceMatrix<'_>,
        c: DeviceMatrix<'_>,
    ) -> Result<Option<Prepared>, GemmError> {
        let (m, n, k) = (a.rows, b.columns, a.columns);
        check_inner_sizes(m, k, b.rows, n)?;
        if (c.rows, c.columns) != (m, n) {
            return Err(GemmError::OutputShape { rows: m, columns: n, c_rows: c.rows, c_columns: c.columns });
        }
        if m == 0 || n == 0 {
            return Ok(None);
        }
        if let Some((input, _)) = [("A", &a), ("B", &b)].into_iter().find(|(_, matrix)| c.overlaps(matrix)) {
            return Err(GemmError::Overlap { input });
        }
        let shape = (kernel.launch_shape)(m, n, k).ok_or(GemmError::NoLaunch { m, n, k, kernel: kernel.name })?;
        let module = self.module(kernel)?;
        let [a, b, c] = [a, b, c].map(|matrix| matrix.argument());
        let [m, n, k] = [m, n, k].map(|size| Argument::U64(size as u64));
        Ok(Some(Prepared { module, shape, arguments: [a, b, c, m, n, k] }))
    }

    /// Loads the module of `kernel` ahead of its first product, which would otherwise do it.
    ///
    /// # Errors
    ///
    /// [`GemmError`] if the device rejects the module.
    pub fn load(&self, kernel: &Kernel) -> Result<(), GemmError> {
        self.module(kernel).map(|_| ())
    }

    fn module(&self, kernel: &Kernel) -> Result<ModuleId, GemmError> {
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        // A module of the caller's is loaded once for all kernels.
        let name = if self.ptx.is_some() { "" } else { kernel.entry };
        if let Some((_, module)) = modules.iter().find(|(loaded, _)| *loaded == name) {
            return Ok(*module);
        }
        let module = self.device.load_module(&self.ptx(kernel))?;
        modules.push((name, module));
        Ok(module)
    }
}

fn check_inner_sizes(a_rows: usize, a_columns: usize, b_rows: usize, b_columns: usize) -> Result<(), GemmError> {
    if a_columns == b_rows { Ok(()) } else { Err(GemmError::InnerSizesDiffer { a_rows, a_columns, b_rows, b_columns }) }
}
