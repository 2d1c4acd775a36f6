//! A kernel ready to launch, and what it is launched with.

use std::{fmt, sync::Arc};

use gpu_kernels::LaunchShape;
use ptx_simulator::observe::Observer;

use super::{Backend, DeviceError, Stream, cuda::CudaKernel, simulator::SimulatedKernel};

/// One argument of a kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Argument<'a> {
    /// A device address.
    Pointer(u64),
    /// `u64` or, on the GPU, `usize`.
    U64(u64),
    /// `u32`.
    U32(u32),
    /// `f32`.
    F32(f32),
    /// Anything else that is passed by value, such as a `#[repr(C)]` struct, as its bytes.
    Bytes(&'a [u8]),
}

impl Argument<'_> {
    /// Bytes of the value.
    pub(super) fn size(&self) -> usize {
        match self {
            Argument::Pointer(_) | Argument::U64(_) => 8,
            Argument::U32(_) | Argument::F32(_) => 4,
            Argument::Bytes(bytes) => bytes.len(),
        }
    }
}

/// What a kernel takes of a multiprocessor, as the driver has compiled it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelResources {
    /// Registers of each thread.
    pub registers: u32,
    /// Blocks of the size in question that a multiprocessor holds at once.
    pub blocks_per_multiprocessor: u32,
}

/// A kernel as its device's backend has it.
#[derive(Clone)]
pub(crate) enum RawKernel {
    Cuda(Arc<CudaKernel>),
    Simulated(Arc<SimulatedKernel>),
}

/// A kernel of a loaded module, looked up once and then launched as often as one likes: a launch through it looks up
/// no name, allocates nothing and takes no lock that another launch holds.
///
/// Clones are handles to the same kernel. It keeps its device open.
#[derive(Clone)]
pub struct LoadedKernel {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) raw: RawKernel,
}

impl fmt::Debug for LoadedKernel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LoadedKernel").field("entry", &self.entry()).finish()
    }
}

impl LoadedKernel {
    /// Its entry point's name.
    pub fn entry(&self) -> &str {
        match &self.raw {
            RawKernel::Cuda(kernel) => kernel.entry(),
            RawKernel::Simulated(kernel) => kernel.entry(),
        }
    }

    /// Launches it on a stream of its device. On a GPU this returns before the kernel has run.
    ///
    /// # Errors
    ///
    /// [`DeviceError::LaunchFailed`] if the device can't give it that launch, or the stream is another device's. A
    /// kernel that fails while it runs is reported by the next call that looks, on a GPU.
    ///
    /// # Safety
    ///
    /// The arguments must be of the number and types that the kernel declares, and the kernel must stay inside the
    /// allocations that they point to: a GPU checks neither. (The simulator checks both.)
    pub unsafe fn launch(
        &self,
        stream: &Stream,
        shape: &LaunchShape,
        arguments: &[Argument<'_>],
    ) -> Result<(), DeviceError> {
        if !Arc::ptr_eq(&self.backend, stream.backend()) {
            let reason = "the stream it was given is another device's".to_owned();
            return Err(DeviceError::LaunchFailed { kernel: self.entry().to_owned(), reason });
        }
        self.backend.launch(&self.raw, stream.raw(), shape, arguments)
    }

    /// Launches it on the simulator and lets `observer` watch it, block after block.
    ///
    /// # Errors
    ///
    /// [`DeviceError::NotObservable`] on a GPU.
    pub fn launch_observed(
        &self,
        shape: &LaunchShape,
        arguments: &[Argument<'_>],
        observer: &mut dyn Observer,
    ) -> Result<(), DeviceError> {
        self.backend.launch_observed(&self.raw, shape, arguments, observer)
    }

    /// Its module as the simulator has it, which knows kernels and source lines; `None` on a GPU.
    pub fn simulated_module(&self) -> Option<&Arc<ptx_simulator::Module>> {
        match &self.raw {
            RawKernel::Cuda(_) => None,
            RawKernel::Simulated(kernel) => Some(kernel.module()),
        }
    }

    /// What it takes of a multiprocessor when its blocks have `threads` threads and as much dynamic shared memory;
    /// `None` on the simulator.
    ///
    /// # Errors
    ///
    /// [`DeviceError`] if the driver doesn't answer.
    pub fn resources(&self, threads: u32, dynamic_shared_bytes: u32) -> Result<Option<KernelResources>, DeviceError> {
        self.backend.resources(&self.raw, threads, dynamic_shared_bytes)
    }
}
