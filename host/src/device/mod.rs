//! One `Device` for a GPU and for the simulator: allocate, copy, launch, synchronise, time.
//!
//! Two doors, one hall: `cuda` and `simulator` each implement the crate's private `Backend`, and everything above this
//! module is written once. Launches are asynchronous on a GPU; [`Device::synchronise`] waits for them and reports what
//! went wrong in them.

mod cuda;
mod error;
mod graph;
mod hardware;
mod simulator;

use std::{fmt, marker::PhantomData, str::FromStr, sync::Arc, time::Duration};

use gpu_kernels::LaunchShape;
use ptx_simulator::observe::Observer;
use serde::Serialize;

pub use cuda::device_count;
pub use error::DeviceError;
pub use graph::Graph;
pub use hardware::Hardware;
pub use simulator::available_memory;
pub(crate) use simulator::launch_config;

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

/// A number that can be in device memory: any bit pattern is a value, and there is no padding.
pub trait Element: bytemuck::Pod {}
impl Element for f32 {}
impl Element for f64 {}
impl Element for u32 {}
impl Element for u64 {}

/// One argument of a kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Argument {
    /// A device address.
    Pointer(u64),
    /// `u64` or, on the GPU, `usize`.
    U64(u64),
    /// `u32`.
    U32(u32),
    /// `f32`.
    F32(f32),
}

/// A PTX module loaded on a device, as the device's backend numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModuleId(pub(crate) usize);

/// What a kernel takes of a multiprocessor, as the driver has compiled it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelResources {
    /// Registers of each thread.
    pub registers: u32,
    /// Blocks of the size in question that a multiprocessor holds at once, without dynamic shared memory.
    pub blocks_per_multiprocessor: u32,
}

/// What a GPU and the simulator each do in their own way.
pub(crate) trait Backend: Send + Sync {
    fn info(&self) -> DeviceInfo;
    fn allocate(&self, bytes: u64) -> Result<u64, DeviceError>;
    fn free(&self, address: u64);
    fn copy_to_device(&self, address: u64, bytes: &[u8]) -> Result<(), DeviceError>;
    fn copy_from_device(&self, bytes: &mut [u8], address: u64) -> Result<(), DeviceError>;
    fn load_module(&self, ptx: &str) -> Result<ModuleId, DeviceError>;
    /// Asynchronous on the device's one stream.
    fn launch(
        &self,
        module: ModuleId,
        entry: &str,
        shape: &LaunchShape,
        arguments: &[Argument],
    ) -> Result<(), DeviceError>;
    /// Like `launch`, with an observer that watches it: the simulator can, a GPU can't.
    fn launch_observed(
        &self,
        module: ModuleId,
        entry: &str,
        shape: &LaunchShape,
        arguments: &[Argument],
        observer: &mut dyn Observer,
    ) -> Result<(), DeviceError> {
        let _ = (module, entry, shape, arguments, observer);
        Err(DeviceError::NotObservable)
    }
    /// A loaded module as the simulator has it.
    fn simulated_module(&self, module: ModuleId) -> Option<Arc<ptx_simulator::Module>> {
        let _ = module;
        None
    }
    /// What a kernel takes of a multiprocessor in blocks of `threads` threads, where there are multiprocessors.
    fn resources(&self, module: ModuleId, entry: &str, threads: u32) -> Result<Option<KernelResources>, DeviceError> {
        let _ = (module, entry, threads);
        Ok(None)
    }
    /// The stream that everything happens on, for libraries that launch kernels of their own: a `CUstream` whose
    /// context this call makes current.
    fn raw_stream(&self) -> Result<Option<*mut std::ffi::c_void>, DeviceError> {
        Ok(None)
    }
    /// Blocks of the running launch that have finished, where that can be seen.
    fn finished_blocks(&self) -> Option<u64> {
        None
    }
    fn synchronise(&self) -> Result<(), DeviceError>;
    /// The time that the launches made by `work` take on the device.
    fn time(&self, work: &mut dyn FnMut() -> Result<(), DeviceError>) -> Result<Duration, DeviceError>;
}

/// Instructions of a warp after which a watched launch is best taken for endless: a few seconds' worth, and a thousand
/// times what a product of 1024 x 1024 matrices takes.
pub const WATCHED_INSTRUCTION_LIMIT: u64 = 1 << 24;

/// A GPU or the simulator. Clones are handles to the same device.
#[derive(Clone)]
pub struct Device {
    backend: Arc<dyn Backend>,
    kind: DeviceKind,
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
        let kind = backend.info().kind;
        Ok(Device { backend, kind })
    }

    /// Opens the simulator and lets no warp execute more than `instructions` instructions in a launch: what takes more is
    /// an endless loop.
    pub fn simulator(instructions: u64) -> Device {
        let backend = Arc::new(simulator::SimulatorBackend::new(None, Some(instructions)));
        Device { backend, kind: DeviceKind::Simulator }
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
        let bytes = (length as u64).checked_mul(size_of::<T>() as u64).ok_or_else(|| {
            let info = self.info();
            DeviceError::OutOfMemory { needed: u64::MAX, free: info.free_memory, total: info.total_memory }
        })?;
        let address = if bytes == 0 { 0 } else { self.backend.allocate(bytes)? };
        Ok(DeviceBuffer { backend: Arc::clone(&self.backend), address, length, element: PhantomData })
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

    /// Launches the kernel `entry` of a module. On a GPU this returns before the kernel has run.
    ///
    /// # Safety
    ///
    /// The arguments must be of the number and types that the kernel declares, and the kernel must stay inside the
    /// allocations that they point to: a GPU checks neither. (The simulator checks both.)
    pub unsafe fn launch(
        &self,
        module: ModuleId,
        entry: &str,
        shape: &LaunchShape,
        arguments: &[Argument],
    ) -> Result<(), DeviceError> {
        self.backend.launch(module, entry, shape, arguments)
    }

    /// Launches the kernel `entry` of a module on the simulator and lets `observer` watch it, block after block.
    ///
    /// # Errors
    ///
    /// [`DeviceError::NotObservable`] on a GPU.
    pub fn launch_observed(
        &self,
        module: ModuleId,
        entry: &str,
        shape: &LaunchShape,
        arguments: &[Argument],
        observer: &mut dyn Observer,
    ) -> Result<(), DeviceError> {
        self.backend.launch_observed(module, entry, shape, arguments, observer)
    }

    /// A module as the simulator has it, which knows kernels and source lines; `None` on a GPU.
    pub fn simulated_module(&self, module: ModuleId) -> Option<Arc<ptx_simulator::Module>> {
        self.backend.simulated_module(module)
    }

    /// What the kernel `entry` of a module takes of a multiprocessor when its blocks have `threads` threads; `None` on
    /// the simulator.
    ///
    /// # Errors
    ///
    /// [`DeviceError`] if the module has no such kernel or the driver doesn't answer.
    pub fn resources(
        &self,
        module: ModuleId,
        entry: &str,
        threads: u32,
    ) -> Result<Option<KernelResources>, DeviceError> {
        self.backend.resources(module, entry, threads)
    }

    /// The GPU's `CUstream`, after its context was made the current one of this thread; `None` on the simulator.
    pub(crate) fn raw_stream(&self) -> Result<Option<*mut std::ffi::c_void>, DeviceError> {
        self.backend.raw_stream()
    }

    /// Blocks of the running launch that have finished so far, for showing progress from another thread: known on the
    /// simulator, `None` on a GPU.
    pub fn finished_blocks(&self) -> Option<u64> {
        self.backend.finished_blocks()
    }

    /// Waits until everything launched so far has run, and reports any error in it.
    pub fn synchronise(&self) -> Result<(), DeviceError> {
        self.backend.synchronise()
    }

    /// The time that the launches made by `work` take on the device: between two events on a GPU, by the clock on the
    /// simulator.
    pub fn time(&self, mut work: impl FnMut() -> Result<(), DeviceError>) -> Result<Duration, DeviceError> {
        self.backend.time(&mut work)
    }
}

/// Elements in device memory, freed on drop.
pub struct DeviceBuffer<T: Element> {
    backend: Arc<dyn Backend>,
    address: u64,
    length: usize,
    element: PhantomData<T>,
}

impl<T: Element> fmt::Debug for DeviceBuffer<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "DeviceBuffer {{ address: {:#x}, length: {} }}", self.address, self.length)
    }
}

impl<T: Element> DeviceBuffer<T> {
    /// The number of elements.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The device address of the first element; 0 for an empty buffer.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Overwrites the whole buffer.
    ///
    /// # Errors
    ///
    /// [`DeviceError::LengthMismatch`] if `elements` has another length.
    pub fn copy_from(&mut self, elements: &[T]) -> Result<(), DeviceError> {
        self.check_length(elements.len())?;
        if self.is_empty() {
            return Ok(());
        }
        self.backend.copy_to_device(self.address, bytemuck::cast_slice(elements))
    }

    /// Reads the whole buffer, after everything launched so far has run.
    ///
    /// # Errors
    ///
    /// [`DeviceError::LengthMismatch`] if `elements` has another length; any error of earlier launches.
    pub fn copy_to(&self, elements: &mut [T]) -> Result<(), DeviceError> {
        self.check_length(elements.len())?;
        self.backend.synchronise()?;
        if self.is_empty() {
            return Ok(());
        }
        self.backend.copy_from_device(bytemuck::cast_slice_mut(elements), self.address)
    }

    /// Reads the whole buffer into a new vector, after everything launched so far has run.
    pub fn download(&self) -> Result<Vec<T>, DeviceError> {
        let mut elements = vec![T::zeroed(); self.length];
        self.copy_to(&mut elements)?;
        Ok(elements)
    }

    fn check_length(&self, length: usize) -> Result<(), DeviceError> {
        if length == self.length {
            Ok(())
        } else {
            Err(DeviceError::LengthMismatch { buffer: self.length, host: length })
        }
    }
}

impl<T: Element> Drop for DeviceBuffer<T> {
    fn drop(&mut self) {
        if self.address != 0 {
            self.backend.free(self.address);
        }
    }
}
