//! Launches of a given kernel, by whoever compares or watches kernels: C = A B, which every kernel can compute, and what
//! production kernels can besides.

use std::sync::Arc;

use gpu_kernels::{Kernel, LaunchShape};
use ptx_simulator::{LaunchConfig, Module, observe::Observer};

use super::{
    DeviceMatrix, Gemm, GemmError,
    launch::{Launcher, Manner, Multiplication},
};
use crate::{
    device::{Argument, DeviceBuffer, DeviceError, KernelResources, LoadedKernel, MatrixElement, launch_config},
    kernels,
    plan::{self, model::GROUP},
};

/// A `rows` x `columns` matrix without gaps at the beginning of `buffer`: by columns or by rows.
///
/// # Errors
///
/// [`GemmError::OutsideBuffer`] if it isn't inside.
pub fn laid_out<T: MatrixElement>(
    buffer: &DeviceBuffer<T>,
    rows: usize,
    columns: usize,
    by_columns: bool,
) -> Result<DeviceMatrix<'_>, GemmError> {
    if by_columns { Ok(buffer.matrix(columns, rows)?.transposed()) } else { buffer.matrix(rows, columns) }
}

impl Gemm {
    /// What a kernel takes of a multiprocessor, as the GPU's driver says; `None` on the simulator.
    ///
    /// # Errors
    ///
    /// [`DeviceError`] if the kernel can't be loaded.
    pub fn resources(&self, kernel: &Kernel) -> Result<Option<KernelResources>, GemmError> {
        if self.device().is_simulator() {
            return Ok(None);
        }
        let threads = kernel.block.iter().product();
        let dynamic = (kernel.launch_shape)(1, 1, 1).map_or(0, |shape| shape.dynamic_shared_bytes);
        Ok(self.loaded_kernel(kernel)?.resources(threads, dynamic)?)
    }

    /// Launches C = A B with a given kernel on the device's own stream and returns without waiting for it.
    ///
    /// Here C may be seen elsewhere too, as far as it isn't A or B.
    ///
    /// # Errors
    ///
    /// [`GemmError`] if the shapes don't fit together, C overlaps A or B, the kernel takes other matrices only, or the
    /// launch fails.
    pub fn enqueue(
        &self,
        kernel: &Kernel,
        a: DeviceMatrix<'_>,
        b: DeviceMatrix<'_>,
        c: DeviceMatrix<'_>,
    ) -> Result<(), GemmError> {
        let Some(product) = self.given(kernel, 0.0, [a, b, c])? else { return Ok(()) };
        let manner = Manner { kernel, splits: 1, group: GROUP };
        self.launch_in_scratch(&product, &manner, self.device().default_stream())
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
        mut watch: impl FnMut(&Arc<Module>, &LaunchConfig) -> O,
    ) -> Result<Option<O>, GemmError> {
        let mut entries = Vec::new();
        let watch = |entry: &str, module: &Arc<Module>, config: &LaunchConfig| {
            entries.push(entry.to_owned());
            watch(module, config)
        };
        let observers = self.observe_all(kernel, 1, 0.0, [a, b, c], watch)?;
        let launches = entries.into_iter().zip(observers);
        Ok(launches.into_iter().find_map(|(entry, observer)| (entry == kernel.entry).then_some(observer)))
    }

    /// C = A B + `beta` C on the simulator with K in so many parts, and an observer for each launch, which `watch` makes
    /// from the entry that is launched, its module and its grid: one for the kernel and for each that prepares for it or, if there
    /// are several parts, adds them up. None if nothing is launched.
    ///
    /// # Errors
    ///
    /// As [`observe`](Gemm::observe), and [`GemmError::PlainOnly`] if the kernel can't do that.
    pub fn observe_all<O: Observer>(
        &self,
        kernel: &Kernel,
        splits: u32,
        beta: f32,
        matrices: [DeviceMatrix<'_>; 3],
        watch: impl FnMut(&str, &Arc<Module>, &LaunchConfig) -> O,
    ) -> Result<Vec<O>, GemmError> {
        let Some(product) = self.given(kernel, beta, matrices)? else { return Ok(Vec::new()) };
        let mut watcher = Watcher { watch, observers: Vec::new() };
        let manner = Manner { kernel, splits, group: GROUP };
        if splits > 1 && plan::family_of(kernel).is_none() && hopper_kernels::family_of(kernel).is_none() {
            return Err(GemmError::PlainOnly { kernel: kernel.name });
        }
        let bytes = self.workspace_of(&product, &manner);
        // A sum that nobody writes shall show in the product.
        let elements = usize::try_from(bytes.div_ceil(size_of::<f32>() as u128)).unwrap_or(usize::MAX);
        let workspace = self.device().upload(&vec![f32::NAN; elements])?;
        self.launch_in(&product, &manner, workspace.address(), &mut watcher)?;
        Ok(watcher.observers)
    }

    /// C = A B + `beta` C for a given kernel; `None` if there is nothing to do.
    fn given<'a>(
        &self,
        kernel: &Kernel,
        beta: f32,
        [a, b, c]: [DeviceMatrix<'a>; 3],
    ) -> Result<Option<Multiplication<'a>>, GemmError> {
        let product = Multiplication::new(self.device(), (1.0, beta), a.into(), b.into(), c.into())?;
        let Some(product) = product else { return Ok(None) };
        if let Some((input, _)) = [("A", &a), ("B", &b)].into_iter().find(|(_, matrix)| c.overlaps(matrix)) {
            return Err(GemmError::Overlap { input });
        }
        let problem = product.problem();
        kernels::ensure_suits(kernel, problem.a, problem.b)?;
        Ok(Some(product))
    }
}

/// Runs launches while an observer watches each, which it makes for that launch.
struct Watcher<F, O> {
    watch: F,
    observers: Vec<O>,
}

impl<F: FnMut(&str, &Arc<Module>, &LaunchConfig) -> O, O: Observer> Launcher for Watcher<F, O> {
    unsafe fn launch(
        &mut self,
        kernel: &LoadedKernel,
        shape: &LaunchShape,
        arguments: &[Argument<'_>],
    ) -> Result<(), GemmError> {
        let module = kernel.simulated_module().ok_or(DeviceError::NotObservable)?;
        let mut observer = (self.watch)(kernel.entry(), module, &launch_config(shape));
        kernel.launch_observed(shape, arguments, &mut observer)?;
        self.observers.push(observer);
        Ok(())
    }
}
