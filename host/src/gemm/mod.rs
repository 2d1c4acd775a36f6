//! The library call: C = alpha op(A) op(B) + beta C on a device.
//!
//! [`Gemm::product`] is the call for matrices in device memory, [`Gemm::multiply`] and [`Gemm::general_mat_mul`] are those
//! for matrices in host memory. Which kernel runs is for [`plan`] to say. [`Gemm::enqueue`] launches a
//! kernel of the book by name, for whoever compares or watches kernels.
//!
//! | file | job |
//! |---|---|
//! | `matrix.rs` | matrices and batches in device memory |
//! | `product.rs` | the call |
//! | `launch.rs` | from a product to launches |
//! | `packing.rs` | matrices written anew for kernels that can't take them as they lie |
//! | `parts.rs` | products of f32 on tensor cores |
//! | `mapped.rs` | matrices for kernels that copy them box by box |
//! | `host.rs` | matrices in host memory |
//! | `factors.rs` | A and B in the elements that a kernel takes |
//! | `blas.rs` | a product as other libraries are told of it |
//! | `given.rs` | launches of a given kernel |
//! | `error.rs` | what can be wrong |

mod blas;
mod error;
mod factors;
mod given;
mod host;
mod launch;
mod mapped;
mod matrix;
mod packing;
mod parts;
mod product;

use std::{
    borrow::Cow,
    sync::{Mutex, OnceLock, PoisonError, RwLock},
};

use gpu_kernels::{Kernel, Precision};

pub(crate) use self::blas::{BlasMatrix, BlasProduct};
pub use self::{
    error::GemmError,
    factors::{FactorBuffer, OtherPrecision, nearest, nearest_factor, precision_of, rounded},
    given::laid_out,
    host::{HostProduct, TimedProduct, Timing},
    mapped::{ensure_sizes, next_sizes},
    matrix::{
        DeviceMatrices, DeviceMatricesMut, DeviceMatrix, DeviceMatrixMut, MatrixList, MatrixListMut, Operand, Output,
        packed_layout,
    },
    product::Product,
};
use launch::Limits;

use crate::{
    device::{Device, LoadedKernel, ModuleId},
    plan::{self, Plan, Problem},
    ptx,
    tune::tuned::Tuned,
};

/// Matrix products on one device. A kernel is loaded when it is first used.
#[derive(Debug)]
pub struct Gemm {
    device: Device,
    /// The module that holds all kernels, if it isn't this build's own.
    ptx: Option<String>,
    loaded: RwLock<Loaded>,
    /// What is known of this GPU, read when the first plan is made.
    tuned: OnceLock<Tuned>,
    /// The last few plans.
    recent: Mutex<Vec<((Problem, Precision), Plan)>>,
    /// What is too large for one launch.
    limits: Limits,
}

/// How many plans are remembered: as many kinds of products as a program alternates between.
const RECENT: usize = 16;

/// What has been loaded so far.
#[derive(Debug, Default)]
struct Loaded {
    /// The caller's module.
    module: Option<ModuleId>,
    /// Kernels by their entries.
    kernels: Vec<(&'static str, LoadedKernel)>,
}

impl Gemm {
    /// Prepares products on `device`.
    pub fn new(device: Device) -> Gemm {
        let (loaded, recent) = (RwLock::default(), Mutex::default());
        Gemm { device, ptx: None, loaded, tuned: OnceLock::new(), recent, limits: Limits::OF_KERNELS }
    }

    /// Prepares products on `device` with kernels from a PTX module of the caller's instead of this build's.
    ///
    /// # Safety
    ///
    /// The kernels that are launched must be in that module, take what those of this build take, and keep to the
    /// matrices, unless the device is the simulator.
    pub unsafe fn from_ptx(device: Device, ptx: String) -> Gemm {
        Gemm { ptx: Some(ptx), ..Gemm::new(device) }
    }

    /// The PTX module that is loaded for a kernel: the caller's, or one with that kernel alone.
    pub fn ptx(&self, kernel: &Kernel) -> Cow<'_, str> {
        let own =
            || ptx::of_entry(kernel.entry).expect("every kernel of the lists is in a module of this build").into();
        self.ptx.as_deref().map_or_else(own, Cow::Borrowed)
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The tuning that products are planned with: the user's own, or one that came with this build for this GPU.
    pub fn tuned(&self) -> &Tuned {
        self.tuned.get_or_init(|| Tuned::for_device(&self.device.info()))
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
        let entry = kernel.entry;
        let (Kernel { name, architecture, .. }, (major, minor)) = (kernel, self.device.machine().compute_capability);
        if !architecture.runs_on((major, minor)) {
            return Err(GemmError::OtherGpu { kernel: name, needs: architecture.capabilities(), major, minor });
        }
        let known = |loaded: &Loaded| loaded.kernels.iter().find(|(known, _)| *known == entry).cloned();
        if let Some((_, kernel)) = known(&self.loaded.read().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(kernel);
        }
        let mut loaded = self.loaded.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have been first.
        if let Some((_, kernel)) = known(&loaded) {
            return Ok(kernel);
        }
        // A module of the caller's is loaded once for all kernels.
        let module = match loaded.module.filter(|_| self.ptx.is_some()) {
            Some(module) => module,
            None => self.device.load_module(&self.ptx(kernel))?,
        };
        loaded.module = Some(module);
        let kernel = self.device.kernel(module, entry)?;
        loaded.kernels.push((entry, kernel.clone()));
        Ok(kernel)
    }

    /// The plan of the caller's, with the kernel of its shape that suits the layout, or that for a product of such factors
    /// whose caller has none.
    fn plan_or(&self, plan: Option<Plan>, problem: &Problem, precision: Precision) -> Plan {
        match plan {
            Some(plan) => Plan { kernel: plan::suitable(plan.kernel, problem.a, problem.b), ..plan },
            None => self.plan(problem, precision),
        }
    }

    /// The plan for a product whose caller has none.
    fn plan(&self, problem: &Problem, precision: Precision) -> Plan {
        let asked = (*problem, precision);
        // Who would have to wait is faster with a new plan.
        let Ok(mut recent) = self.recent.try_lock() else { return self.new_plan(problem, precision) };
        if let Some((_, plan)) = recent.iter().find(|(known, _)| *known == asked) {
            return *plan;
        }
        let plan = self.new_plan(problem, precision);
        if recent.len() == RECENT {
            recent.remove(0);
        }
        recent.push((asked, plan));
        plan
    }

    /// The plan for a product, made anew.
    fn new_plan(&self, problem: &Problem, precision: Precision) -> Plan {
        let machine = self.device.machine();
        // In f32 it's exact enough for all precisions.
        let in_f32 = || self.tuned().plan(problem, machine, plan::plan(problem, machine));
        // Bf16 that is all that the book's kernel can do.
        let of_the_book = || {
            let kernel = &gpu_kernels::tensor_cores::KERNEL;
            let can = precision == kernel.precision && problem.plain;
            (can && kernel.architecture.runs_on(machine.compute_capability)).then(|| Plan::new(kernel))
        };
        let on_tensor_cores = || match precision {
            Precision::F32 => None,
            _ => plan::tensor_cores::plan(problem, machine, precision),
        };
        on_tensor_cores().or_else(of_the_book).unwrap_or_else(in_f32)
    }
}

#[cfg(test)]
mod tests;
