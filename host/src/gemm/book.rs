//! Launches of a given kernel, by whoever compares or watches kernels: C = A B, which every kernel can compute.

use std::sync::Arc;

use gpu_kernels::{Kernel, LaunchShape};
use ptx_simulator::{LaunchConfig, observe::Observer};

use super::{
    DeviceMatrix, Gemm, GemmError,
    launch::{Launcher, Manner, Multiplication},
};
use crate::{
    device::{Argument, DeviceError, KernelResources, LoadedKernel, launch_config},
    plan,
};

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
        let Some(product) = self.plain(kernel, a, b, c)? else { return Ok(()) };
        let manner = Manner { kernel, splits: 1, group: 1 };
        self.launch_without_workspace(&product, &manner, &mut self.device().default_stream())
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
        let Some(product) = self.plain(kernel, a, b, c)? else { return Ok(None) };
        let mut watcher = Watcher { watch: Some(watch), observer: None };
        let manner = Manner { kernel, splits: 1, group: 1 };
        self.launch_without_workspace(&product, &manner, &mut watcher)?;
        Ok(watcher.observer)
    }

    fn plain<'a>(
        &self,
        kernel: &Kernel,
        a: DeviceMatrix<'a>,
        b: DeviceMatrix<'a>,
        c: DeviceMatrix<'a>,
    ) -> Result<Option<Multiplication<'a>>, GemmError> {
        let product = Multiplication::new(self.device(), (1.0, 0.0), a.into(), b.into(), c.into())?;
        if product.is_some()
            && let Some((input, _)) = [("A", &a), ("B", &b)].into_iter().find(|(_, matrix)| c.overlaps(matrix))
        {
            return Err(GemmError::Overlap { input });
        }
        let lie = product.map(|product| product.problem());
        if lie.is_some_and(|problem| !plan::suits(kernel, problem.a, problem.b)) {
            return Err(GemmError::Layout { kernel: kernel.name });
        }
        Ok(product)
    }
}

/// Runs one launch while an observer watches, which it makes for that launch.
struct Watcher<F, O> {
    watch: Option<F>,
    observer: Option<O>,
}

impl<F: FnOnce(&Arc<ptx_simulator::Module>, &LaunchConfig) -> O, O: Observer> Launcher for Watcher<F, O> {
    unsafe fn launch(
        &mut self,
        kernel: &LoadedKernel,
        shape: &LaunchShape,
        arguments: &[Argument<'_>],
    ) -> Result<(), GemmError> {
        let module = kernel.simulated_module().ok_or(DeviceError::NotObservable)?;
        let watch = self.watch.take().expect("a product of single matrices is one launch");
        let observer = self.observer.insert(watch(module, &launch_config(shape)));
        Ok(kernel.launch_observed(shape, arguments, observer)?)
    }
}
