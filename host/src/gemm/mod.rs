//! The library call: C = alpha op(A) op(B) + beta C on a device.
//!
//! [`Gemm::product`] is the call for matrices in device memory, [`Gemm::multiply`] and [`Gemm::general_mat_mul`] are those
//! for matrices in host memory. Which kernel runs is for [`plan`](crate::plan) to say. [`Gemm::enqueue`] launches a
//! kernel of the book by name, for whoever compares or watches kernels.
//!
//! | file | job |
//! |---|---|
//! | `matrix.rs` | matrices and batches in device memory |
//! | `product.rs` | the call |
//! | `launch.rs` | from a product to launches |
//! | `host.rs` | matrices in host memory |
//! | `book.rs` | launches of the book's kernels |
//! | `error.rs` | what can be wrong |

mod book;
mod error;
mod host;
mod launch;
mod matrix;
mod product;

use std::sync::{Mutex, PoisonError};

use gpu_kernels::{Architecture, Kernel};

pub use self::{
    error::GemmError,
    host::{TimedProduct, Timing},
    matrix::{
        DeviceMatrices, DeviceMatricesMut, DeviceMatrix, DeviceMatrixMut, MatrixList, MatrixListMut, Operand, Output,
    },
    product::Product,
};
use crate::{
    device::{Device, LoadedKernel, ModuleId},
    ptx,
};

/// Matrix products on one device. A kernel is loaded when it is first used.
#[derive(Debug)]
pub struct Gemm {
    device: Device,
    /// The module that holds all kernels, if it isn't this build's own.
    ptx: Option<String>,
    loaded: Mutex<Loaded>,
}

/// What has been loaded so far.
#[derive(Debug, Default)]
struct Loaded {
    modules: Vec<(Architecture, ModuleId)>,
    kernels: Vec<(Architecture, &'static str, LoadedKernel)>,
}

impl Gemm {
    /// Prepares products on `device`.
    pub fn new(device: Device) -> Gemm {
        Gemm { device, ptx: None, loaded: Mutex::default() }
    }

    /// Prepares products on `device` with kernels from a PTX module of the caller's instead of this build's.
    ///
    /// # Safety
    ///
    /// The kernels that are launched must be in that module, take what those of this build take, and keep to the
    /// matrices, unless the device is the simulator.
    pub unsafe fn from_ptx(device: Device, ptx: String) -> Gemm {
        Gemm { device, ptx: Some(ptx), loaded: Mutex::default() }
    }

    /// The PTX module with the kernels of an architecture.
    pub fn ptx(&self, architecture: Architecture) -> &str {
        let own =
            || ptx::module_for(architecture).expect("build.rs builds a module for every level of gpu-kernels").text;
        self.ptx.as_deref().unwrap_or_else(own)
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Loads `kernel` ahead of its first product, which would otherwise do it.
    ///
    /// # Errors
    ///
    /// [`GemmError`] if the device rejects it.
    pub fn load(&self, kernel: &Kernel) -> Result<(), GemmError> {
        self.loaded_kernel(kernel).map(|_| ())
    }

    fn loaded_kernel(&self, kernel: &Kernel) -> Result<LoadedKernel, GemmError> {
        let Kernel { architecture, entry, .. } = *kernel;
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let Loaded { modules, kernels } = &mut *loaded;
        if let Some((.., kernel)) = kernels.iter().find(|known| (known.0, known.1) == (architecture, entry)) {
            return Ok(kernel.clone());
        }
        let module = match modules.iter().find(|(level, _)| *level == architecture) {
            Some((_, module)) => *module,
            None => {
                let module = self.device.load_module(self.ptx(architecture))?;
                modules.push((architecture, module));
                module
            }
        };
        let kernel = self.device.kernel(module, entry)?;
        kernels.push((architecture, entry, kernel.clone()));
        Ok(kernel)
    }
}
