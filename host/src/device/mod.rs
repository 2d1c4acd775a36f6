//! One `Device` for a GPU and for the simulator: allocate, copy, launch, synchronise, time.
//!
//! Two doors, one hall: `cuda` and `simulator` each implement the crate's private `Backend`, and everything above this
//! module is written once. Launches are asynchronous on a GPU; [`Device::synchronise`] waits for them and reports what
//! went wrong in them.
//!
//! A [`DeviceBuffer`] is memory of a device, a [`LoadedKernel`] a kernel ready to launch, a [`Stream`] a queue of work.
//! Who doesn't care for streams uses the device's own, [`Device::default_stream`].

mod buffer;
mod cuda;
mod error;
mod graph;
mod hardware;
mod kernel;
mod simulator;
mod stream;

use std::{fmt, str::FromStr, sync::Arc, time::Duration};

use gpu_kernels::LaunchShape;
use ptx_simulator::observe::Observer;
use serde::Serialize;

pub(crate) use buffer::Memory;
pub use buffer::{DeviceBuffer, Element, MatrixElement};
pub use cuda::device_count;
pub use error::DeviceError;
pub use graph::Graph;
pub use hardware::Hardware;
pub(crate) use kernel::RawKernel;
pub use kernel::{Argument, KernelResources, LoadedKernel};
pub(crate) use ptx_simulator::TensorMap;
pub use ptx_simulator::{TENSOR_MAP_BYTES, TensorMapError, TensorMapLayout};
pub use simulator::available_memory;
pub(crate) use simulator::launch_config;
pub use stream::{Event, Stream};
pub(crate) use stream::{RawEvent, RawStream};

/// Which device to open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceSelector {
    /// The first GPU if a driver and a GPU are there, else the simulator.
    #[default]
    Auto,
    /// A GPU, by its ordinal; `None` is the first.
    Cuda(Option<usize>),
    /// The PTX simulator.
    Simulator,
}

impl FromStr for DeviceSelector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || format!("'{text}' is no device: expected auto, cuda, cuda:N (N = 0, 1, …) or sim");
        match text {
            "auto" => Ok(DeviceSelector::Auto),
            "cuda" => Ok(DeviceSelector::Cuda(None)),
            "sim" => Ok(DeviceSelector::Simulator),
            _ => {
                let ordinal = text.strip_prefix("cuda:").ok_or_else(expected)?;
                ordinal.parse().map(|ordinal| DeviceSelector::Cuda(Some(ordinal))).map_err(|_| expected())
            }
        }
    }
}

/// What kind of device this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase", tag = "kind")]
pub enum DeviceKind {
    /// An NVIDIA GPU.
    Cuda {
        /// Its number among the driver's devices.
        ordinal: usize,
    },
    /// The PTX simulator on this machine's processor. Its times are not GPU times.
    Simulator,
}

/// What a device says of itself.
#[derive(Clone, Debug, Serialize)]
pub struct DeviceInfo {
    /// Its name, such as "NVIDIA H200".
    pub name: String,
    /// What kind of device it is.
    #[serde(flatten)]
    pub kind: DeviceKind,
    /// Further facts as label and value.
    pub detail: Vec<(String, String)>,
    /// Memory in bytes.
    pub total_memory: u64,
    /// Memory not in use, in bytes.
    pub free_memory: u64,
}

/// What of a device decides which kernels suit it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Multiprocessors: as many blocks can run at a time, or a few times as many.
    pub multiprocessors: u32,
    /// Major and minor compute capability.
    pub compute_capability: (u32, u32),
}

/// A PTX module loaded on a device, as the device's backend numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModuleId(pub(crate) usize);

/// Rows of elements in host memory at equal distances, as a copy to or from device memory needs them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostRows<P> {
    /// The first byte of the first row.
    pub(crate) start: P,
    /// Bytes from the start of a row to that of the next, at least `bytes`.
    pub(crate) pitch: usize,
    /// Bytes of a row.
    pub(crate) bytes: usize,
    /// How many rows.
    pub(crate) rows: usize,
}

/// What a GPU and the simulator each do in their own way.
pub(crate) trait Backend: Send + Sync {
    fn info(&self) -> DeviceInfo;
    /// What plans are made from.
    fn machine(&self) -> Machine;
    fn allocate(&self, bytes: u64) -> Result<u64, DeviceError>;
    fn free(&self, address: u64);
    fn copy_to_device(&self, address: u64, bytes: &[u8]) -> Result<(), DeviceError>;
    fn copy_from_device(&self, bytes: &mut [u8], address: u64) -> Result<(), DeviceError>;
    /// Copies rows of host memory to device memory, where they lie one after the other.
    ///
    /// # Safety
    ///
    /// All rows must be readable.
    unsafe fn copy_rows_to_device(&self, address: u64, rows: HostRows<*const u8>) -> Result<(), DeviceError>;
    /// Copies rows that lie one after the other in device memory to host memory.
    ///
    /// # Safety
    ///
    /// All rows must be writable.
    unsafe fn copy_rows_from_device(&self, rows: HostRows<*mut u8>, address: u64) -> Result<(), DeviceError>;
    fn load_module(&self, ptx: &str) -> Result<ModuleId, DeviceError>;
    fn kernel(&self, module: ModuleId, entry: &str) -> Result<RawKernel, DeviceError>;
    /// Asynchronous on a GPU.
    fn launch(
        &self,
        kernel: &RawKernel,
        stream: RawStream,
        shape: &LaunchShape,
        arguments: &[Argument<'_>],
    ) -> Result<(), DeviceError>;
    /// Like `launch`, with an observer that watches it: the simulator can, a GPU can't.
    fn launch_observed(
        &self,
        kernel: &RawKernel,
        shape: &LaunchShape,
        arguments: &[Argument<'_>],
        observer: &mut dyn Observer,
    ) -> Result<(), DeviceError> {
        let _ = (kernel, shape, arguments, observer);
        Err(DeviceError::NotObservable)
    }
    /// A loaded module as the simulator has it.
    fn simulated_module(&self, module: ModuleId) -> Option<Arc<ptx_simulator::Module>> {
        let _ = module;
        None
    }
    /// What a kernel takes of a multiprocessor in blocks of `threads` threads, where there are multiprocessors.
    fn resources(
        &self,
        kernel: &RawKernel,
        threads: u32,
        dynamic_shared_bytes: u32,
    ) -> Result<Option<KernelResources>, DeviceError> {
        let _ = (kernel, threads, dynamic_shared_bytes);
        Ok(None)
    }
    /// The device's own description of a tensor.
    fn tensor_map(&self, layout: &TensorMapLayout) -> Result<[u8; TENSOR_MAP_BYTES], DeviceError>;
    fn new_stream(&self) -> Result<RawStream, DeviceError>;
    fn destroy_stream(&self, stream: RawStream);
    fn record_event(&self, stream: RawStream) -> Result<RawEvent, DeviceError>;
    fn wait_for_event(&self, stream: RawStream, event: RawEvent) -> Result<(), DeviceError>;
    fn synchronise_event(&self, event: RawEvent) -> Result<(), DeviceError>;
    fn destroy_event(&self, event: RawEvent);
    /// The `CUstream`, for libraries that launch kernels of their own, whose context this call makes current.
    fn cuda_stream(&self, stream: RawStream) -> Result<Option<*mut std::ffi::c_void>, DeviceError> {
        let _ = stream;
        Ok(None)
    }
    /// Blocks of the running launch that have finished, where that can be seen.
    fn finished_blocks(&self) -> Option<u64> {
        None
    }
    /// Waits for all streams.
    fn synchronise(&self) -> Result<(), DeviceError>;
    fn synchronise_stream(&self, stream: RawStream) -> Result<(), DeviceError>;
    /// The time that the launches which `work` makes on `stream` take on the device.
    fn time(
        &self,
        stream: RawStream,
        work: &mut dyn FnMut() -> Result<(), DeviceError>,
    ) -> Result<Duration, DeviceError>;
}

/// Instructions of a warp after which a watched launch is best taken for endless: a few seconds' worth, and a thousand
/// times what a product of 1024 x 1024 matrices takes.
pub const WATCHED_INSTRUCTION_LIMIT: u64 = 1 << 24;

/// A GPU or the simulator. Clones are handles to the same device.
#[derive(Clone)]
pub struct Device {
    backend: Arc<dyn Backend>,
    kind: DeviceKind,
    machine: Machine,
    default_stream: Stream,
}

impl fmt::Debug for Device {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Device").field("name", &self.info().name).finish()
    }
}

impl Device {
    /// Opens the device that `selector` names.
    ///
    /// # Errors
    ///
    /// [`DeviceError`] if a GPU was asked for by name and there is no driver or no such GPU, or if the driver refuses
    /// it. `Auto` falls back to the simulator only where there is no driver or no GPU: a GPU that is there but broken
    /// is an error.
    pub fn open(selector: DeviceSelector) -> Result<Device, DeviceError> {
        let backend: Arc<dyn Backend> = match selector {
            DeviceSelector::Cuda(ordinal) => Arc::new(cuda::CudaBackend::open(ordinal)?),
            DeviceSelector::Simulator => Arc::new(simulator::SimulatorBackend::new(None, None)),
            DeviceSelector::Auto => match cuda::CudaBackend::open(None) {
                Ok(backend) => Arc::new(backend),
                Err(error) => {
                    let why_no_gpu = error.why_no_gpu().ok_or(error)?;
                    Arc::new(simulator::SimulatorBackend::new(Some(why_no_gpu), None))
                }
            },
        };
        Ok(Device::of(backend))
    }

    fn of(backend: Arc<dyn Backend>) -> Device {
        let (kind, machine) = (backend.info().kind, backend.machine());
        let default_stream = Stream::new(Arc::clone(&backend), RawStream::DEFAULT);
        Device { backend, kind, machine, default_stream }
    }

    /// Opens the simulator and lets no warp execute more than `instructions` instructions in a launch: what takes more is
    /// an endless loop.
    pub fn simulator(instructions: u64) -> Device {
        Device::of(Arc::new(simulator::SimulatorBackend::new(None, Some(instructions))))
    }

    /// Name, kind, memory and further facts.
    pub fn info(&self) -> DeviceInfo {
        self.backend.info()
    }

    /// Whether this is the simulator.
    pub fn is_simulator(&self) -> bool {
        self.kind == DeviceKind::Simulator
    }

    /// Allocates room for `length` elements with unspecified contents.
    ///
    /// # Errors
    ///
    /// [`DeviceError::OutOfMemory`] with the bytes needed and free.
    pub fn allocate<T: Element>(&self, length: usize) -> Result<DeviceBuffer<T>, DeviceError> {
        DeviceBuffer::allocate(&self.backend, length)
    }

    /// Allocates a buffer and copies `elements` into it.
    pub fn upload<T: Element>(&self, elements: &[T]) -> Result<DeviceBuffer<T>, DeviceError> {
        let mut buffer = self.allocate(elements.len())?;
        buffer.copy_from(elements)?;
        Ok(buffer)
    }

    /// Loads a PTX module. A GPU's driver compiles it here; the simulator refuses here what it doesn't know.
    pub fn load_module(&self, ptx: &str) -> Result<ModuleId, DeviceError> {
        self.backend.load_module(ptx)
    }

    /// Looks up the kernel `entry` of a module, to launch it.
    ///
    /// # Errors
    ///
    /// [`DeviceError::LaunchFailed`] if the module has no such kernel.
    pub fn kernel(&self, module: ModuleId, entry: &str) -> Result<LoadedKernel, DeviceError> {
        let raw = self.backend.kernel(module, entry)?;
        Ok(LoadedKernel { backend: Arc::clone(&self.backend), raw })
    }

    /// Looks up the kernel `entry` of a module and launches it on the device's own stream. On a GPU this returns before
    /// the kernel has run.
    ///
    /// # Errors
    ///
    /// As [`kernel`](Device::kernel) and [`LoadedKernel::launch`].
    ///
    /// # Safety
    ///
    /// As for [`LoadedKernel::launch`].
    pub unsafe fn launch(
        &self,
        module: ModuleId,
        entry: &str,
        shape: &LaunchShape,
        arguments: &[Argument<'_>],
    ) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.kernel(module, entry)?.launch(&self.default_stream, shape, arguments) }
    }

    /// The tensor map of a tensor in this device's memory: what a kernel takes to copy boxes of it, whose meaning is the
    /// device's own. It doesn't keep the memory; whoever launches a kernel with it has to.
    ///
    /// # Errors
    ///
    /// [`DeviceError::TensorMap`] if there can be none of that layout, [`DeviceError::OldDriver`] if the driver is older than
    /// tensor maps, [`DeviceError::TensorMapRefused`] if the GPU is.
    pub fn tensor_map(&self, layout: &TensorMapLayout) -> Result<[u8; TENSOR_MAP_BYTES], DeviceError> {
        self.backend.tensor_map(layout)
    }

    /// A module as the simulator has it, which knows kernels and source lines; `None` on a GPU.
    pub fn simulated_module(&self, module: ModuleId) -> Option<Arc<ptx_simulator::Module>> {
        self.backend.simulated_module(module)
    }

    /// The stream on which work is enqueued that is given no other.
    pub fn default_stream(&self) -> &Stream {
        &self.default_stream
    }

    /// A new stream, beside the device's own and all others.
    ///
    /// # Errors
    ///
    /// [`DeviceError`] if the driver doesn't give one.
    pub fn new_stream(&self) -> Result<Stream, DeviceError> {
        Ok(Stream::new(Arc::clone(&self.backend), self.backend.new_stream()?))
    }

    /// What of the device decides which kernels suit it.
    pub fn machine(&self) -> Machine {
        self.machine
    }

    /// Whether `other` is a handle to the same device.
    pub fn is(&self, other: &Device) -> bool {
        Arc::ptr_eq(&self.backend, &other.backend)
    }

    pub(crate) fn backend(&self) -> &Arc<dyn Backend> {
        &self.backend
    }

    /// The GPU's `CUstream`, after its context was made the current one of this thread; `None` on the simulator.
    pub(crate) fn raw_stream(&self) -> Result<Option<*mut std::ffi::c_void>, DeviceError> {
        self.default_stream.cuda_stream()
    }

    /// Blocks of the running launch that have finished so far, for showing progress from another thread: known on the
    /// simulator, `None` on a GPU.
    pub fn finished_blocks(&self) -> Option<u64> {
        self.backend.finished_blocks()
    }

    /// Waits until everything launched so far has run, on all streams, and reports any error in it.
    pub fn synchronise(&self) -> Result<(), DeviceError> {
        self.backend.synchronise()
    }

    /// The time that the launches made by `work` on the device's own stream take: between two events on a GPU, by the
    /// clock on the simulator.
    pub fn time(&self, work: impl FnMut() -> Result<(), DeviceError>) -> Result<Duration, DeviceError> {
        self.default_stream.time(work)
    }
}
