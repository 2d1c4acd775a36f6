//! The GPU's door: `cust` for everything that is done, `libcuda` to find the driver and to ask it what `cust` can't.
//!
//! A [`CudaBackend`] holds the device's primary context and a stream, on which everything happens in order that isn't
//! given another. The context is made current at the start of every operation, so a backend may be used from any thread
//! and beside others.
//!
//! All streams are of the kind that plain copies wait for (and that wait for plain copies), so that a copy between host
//! and device needs no stream to be in order.
//!
//! A kernel runs after its launch has returned; if it faults, the next call that looks notices, and from then on every
//! call in the context fails the same way. The [`History`] turns that into an error which names the kernel.

mod launch;
mod stream;
mod tensor_map;

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{ptr, slice};

use cust::context::{Context, CurrentContext};
use cust::device::{Device, DeviceAttribute};
use cust::error::{CudaError, CudaResult};
use cust::memory::{self, CopyDestination, DevicePointer, DeviceSlice};
use cust::module::{Module, ModuleJitOption};
use cust::stream::{Stream, StreamFlags};
use cust::sys;
use gpu_kernels::LaunchShape;
use libcuda::Driver;
use ptx_simulator::TENSOR_MAP_BYTES;

pub(crate) use launch::CudaKernel;
use stream::Timer;

use super::{
    Argument, Backend, DeviceError, DeviceInfo, DeviceKind, HostRows, KernelResources, Machine, ModuleId, RawEvent,
    RawKernel, RawStream, TensorMapLayout,
};

/// Room for the messages of the driver's compiler, in bytes.
const LOG_BYTES: usize = 16 << 10;

/// `CUDA_ERROR_NO_DEVICE`.
const NO_DEVICE: c_int = 100;

/// The number of GPUs, which is at least one.
///
/// # Errors
///
/// [`DeviceError::NoDriver`] or [`DeviceError::NoDevice`] if there are none, [`DeviceError::Driver`] if the driver
/// doesn't start.
pub fn device_count() -> Result<usize, DeviceError> {
    start().map(|(_, count)| count)
}

/// Loads and initialises the driver, as often as one likes, and counts the GPUs.
fn start() -> Result<(&'static Driver, usize), DeviceError> {
    let driver = libcuda::load().map_err(|error| DeviceError::NoDriver { reason: error.to_string() })?;
    // The driver's own code: start-up has many ways to fail that `cust` reports as one.
    type Init = unsafe extern "C" fn(c_uint) -> c_int;
    // SAFETY: the type is cuInit's.
    let init = unsafe { driver.function::<Init>(c"cuInit") };
    // SAFETY: 0 is the one value that its argument may have. It may be called again and from any thread.
    match init.map_or(libcuda::NOT_FOUND, |init| unsafe { init(0) }) {
        0 => {}
        NO_DEVICE => return Err(DeviceError::NoDevice),
        libcuda::STUB_LIBRARY => {
            let reason = format!("{} is a stub for linking from a CUDA toolkit, not a driver", driver.library());
            return Err(DeviceError::NoDriver { reason });
        }
        code => return Err(driver_error(driver, "cuInit", code)),
    }
    match Device::num_devices() {
        Ok(0) | Err(CudaError::NoDevice) => Err(DeviceError::NoDevice),
        Ok(count) => Ok((driver, count as usize)),
        Err(error) => Err(driver_error(driver, "cuDeviceGetCount", error as c_int)),
    }
}

/// The error for a code that a driver function returned, in the driver's words.
pub(super) fn driver_error(driver: &Driver, call: &'static str, code: c_int) -> DeviceError {
    let name = match (driver.error_name(code), driver.error_text(code)) {
        (Some(name), Some(text)) => format!("{name}, {text}"),
        (Some(name), None) => name.to_owned(),
        (None, _) => "an error without a name".to_owned(),
    };
    DeviceError::Driver { call, code: code.unsigned_abs(), name }
}

/// Why the driver gives this process no context on the device, as its own code: `cust` has none for the likeliest,
/// that another process has the GPU to itself.
fn context_refusal(device: Device) -> Option<c_int> {
    let mut context = ptr::null_mut();
    // SAFETY: the pointer is to a variable that outlives the call, and the device is one that the driver gave.
    let status = unsafe { sys::cuDevicePrimaryCtxRetain(&mut context, device.as_raw()) } as c_int;
    if status == 0 {
        // SAFETY: it was retained just now, and nothing uses it.
        unsafe { sys::cuDevicePrimaryCtxRelease_v2(device.as_raw()) };
        return None;
    }
    Some(status)
}

/// The errors that kernels cause, and what the kernel did.
const FAULTS: [(CudaError, &str); 9] = [
    (CudaError::IllegalAddress, "it read or wrote an address outside every allocation"),
    (CudaError::MisalignedAddress, "it read or wrote an address that isn't a multiple of the access's size"),
    (CudaError::InvalidAddressSpace, "it used an address of the wrong state space"),
    (CudaError::InvalidProgramCounter, "it jumped to an address that holds no code"),
    (CudaError::IllegalInstruction, "it came to an instruction that the GPU can't execute"),
    (CudaError::HardwareStackError, "its call stack overflowed or was damaged"),
    (
        CudaError::LaunchFailed,
        "it stopped itself (a trap: this is what a Rust panic becomes) or damaged its own memory",
    ),
    (CudaError::LaunchTimeout, "it ran longer than the driver allows on a GPU that also drives a display"),
    (CudaError::AssertError, "an assertion in it failed"),
];

/// What a kernel did if `code` is one that kernels cause; `None` for other errors.
fn fault(code: c_int) -> Option<&'static str> {
    FAULTS.into_iter().find(|(error, _)| *error as c_int == code).map(|(_, cause)| cause)
}

/// One GPU, opened.
pub(super) struct CudaBackend {
    // The driver's objects, in the order in which they have to go.
    modules: Mutex<Vec<LoadedModule>>,
    stream: Stream,
    context: Context,

    driver: &'static Driver,
    device: Device,
    ordinal: usize,
    history: Mutex<History>,
    /// Counts how often the history has forgotten kernels that ran well.
    epoch: AtomicU64,
}

struct LoadedModule {
    module: Module,
    kernels: HashMap<String, Arc<CudaKernel>>,
    /// What the text says of its entries.
    entries: HashMap<String, EntryFacts>,
}

/// Which kernels may be to blame for a fault that shows up now.
#[derive(Debug, Default)]
struct History {
    /// Kernels launched since the last time that all on their stream were known to have run well, each once.
    running: Vec<(RawStream, String)>,
    /// The fault that ended this context's life.
    fault: Option<(String, String)>,
}

/// What a mutex guards. A panic while it was held can't have left these half done: each change is one assignment or
/// one push.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CudaBackend {
    /// Opens a GPU by its number, the first if `None`.
    ///
    /// # Errors
    ///
    /// No driver, no GPU, no GPU of that number, or a GPU that the driver doesn't let this process use.
    pub(super) fn open(ordinal: Option<usize>) -> Result<CudaBackend, DeviceError> {
        let (driver, count) = start()?;
        let ordinal = ordinal.unwrap_or(0);
        if ordinal >= count {
            return Err(DeviceError::NoSuchDevice { ordinal, count });
        }
        let failed = |call| move |error: CudaError| driver_error(driver, call, error as c_int);
        let device = Device::get_device(ordinal as u32).map_err(failed("cuDeviceGet"))?;
        // This also makes the context the current one of this thread.
        let context = Context::new(device).map_err(|error| {
            let code = context_refusal(device).unwrap_or(error as c_int);
            driver_error(driver, "cuDevicePrimaryCtxRetain", code)
        })?;
        let stream = Stream::new(StreamFlags::DEFAULT, None).map_err(failed("cuStreamCreateWithPriority"))?;
        let (modules, history, epoch) = Default::default();
        Ok(CudaBackend { modules, stream, context, driver, device, ordinal, history, epoch })
    }

    /// Makes this GPU's context the current one of the calling thread, as every operation needs it.
    fn enter(&self) -> Result<(), DeviceError> {
        let mut current = ptr::null_mut();
        // SAFETY: the pointer is to a variable that outlives the call.
        let status = unsafe { sys::cuCtxGetCurrent(&mut current) };
        if status as c_int == 0 && current == self.context.as_raw() {
            return Ok(());
        }
        self.check("cuCtxSetCurrent", CurrentContext::set_current(&self.context))
    }

    /// Turns an error of `call` into one that says whose fault it is.
    fn check<T>(&self, call: &'static str, result: CudaResult<T>) -> Result<T, DeviceError> {
        result.map_err(|error| self.error(call, error as c_int))
    }

    /// Turns an error code of `call` into an error that says whose fault it is.
    fn check_code(&self, call: &'static str, code: c_int) -> Result<(), DeviceError> {
        if code == 0 { Ok(()) } else { Err(self.error(call, code)) }
    }

    fn error(&self, call: &'static str, code: c_int) -> DeviceError {
        let Some(cause) = fault(code) else {
            return driver_error(self.driver, call, code);
        };
        let mut history = lock(&self.history);
        let History { running, fault } = &mut *history;
        let (kernel, reason) = fault.get_or_insert_with(|| {
            let mut kernels: Vec<_> = running.iter().map(|(_, kernel)| kernel.as_str()).collect();
            kernels.sort_unstable();
            kernels.dedup();
            let kernel = match kernels.as_slice() {
                [] => "(launched elsewhere in this process)".to_owned(),
                kernels => kernels.join(" or "),
            };
            let name = self.driver.error_name(code).unwrap_or("no name");
            let reason = format!(
                "{cause} ({name}). The GPU takes no more work from this process. `--device sim` runs the same kernel \
                 on the simulator, which names block, thread, address and source line"
            );
            (kernel, reason)
        });
        DeviceError::LaunchFailed { kernel: kernel.clone(), reason: reason.clone() }
    }

    /// Notes that everything launched so far on `stream`, or on any if `None`, has run well.
    fn all_is_well(&self, stream: Option<RawStream>) {
        let mut history = lock(&self.history);
        match stream {
            Some(stream) => history.running.retain(|(on, _)| *on != stream),
            None => history.running.clear(),
        }
        self.epoch.fetch_add(1, Ordering::Relaxed);
    }

    /// One of the device's numbers that `cust` has a name for.
    fn attribute(&self, attribute: DeviceAttribute) -> Option<u64> {
        self.device.get_attribute(attribute).ok().and_then(|value| u64::try_from(value).ok())
    }

    /// The most shared memory that a block can have when it asks for it, in bytes.
    fn shared_limit(&self) -> Option<u32> {
        let attribute = sys::CUdevice_attribute_enum::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
        let mut value = 0;
        // SAFETY: the pointer is to a c_int that outlives the call, and the device is one that the driver gave.
        let status = unsafe { sys::cuDeviceGetAttribute(&mut value, attribute, self.device.as_raw()) };
        if status as c_int == 0 { u32::try_from(value).ok() } else { None }
    }

    /// Loads a module that the driver has rejected once more, for the messages of its compiler.
    fn rejection(&self, image: &CStr, error: CudaError) -> String {
        let mut log = vec![0_u8; LOG_BYTES];
        let mut options =
            [sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER, sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
        // The size is passed as a value in a pointer's place: that is how this function takes options which fit.
        let mut values = [log.as_mut_ptr().cast::<c_void>(), ptr::without_provenance_mut(LOG_BYTES - 1)];
        let mut module = ptr::null_mut();
        // SAFETY: the image is NUL-terminated, the two arrays have the two elements announced, and the log has the
        // room announced and one zero after it. All outlive the call.
        let status = unsafe {
            sys::cuModuleLoadDataEx(
                &mut module,
                image.as_ptr().cast(),
                options.len() as c_uint,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        if status as c_int == 0 {
            // SAFETY: it was loaded just now, and nothing uses it.
            unsafe { sys::cuModuleUnload(module) };
        }
        let log = CStr::from_bytes_until_nul(&log).map(CStr::to_string_lossy).unwrap_or_default();
        let name = self.driver.error_name(status as c_int).or(self.driver.error_name(error as c_int));
        let name = name.unwrap_or("an error without a name");
        let (major, minor) = self.compute_capability();
        let mut text = format!("{name} for compute capability {major}.{minor}");
        for line in log.lines().map(str::trim).filter(|line| !line.is_empty()) {
            text.push('\n');
            text.push_str(line);
        }
        text
    }

    /// A copy of rows; the pointers in `copy` are good for it.
    fn copy_rows(&self, copy: &sys::CUDA_MEMCPY2D) -> Result<(), DeviceError> {
        self.enter()?;
        // Ordered among the streams as `copy_to_device` is; unlike its brother without the word, this one takes any
        // distance between rows.
        // SAFETY: the pointer is to a value that outlives the call, and what that names is good by the caller's word.
        let status = unsafe { sys::cuMemcpy2DUnaligned_v2(copy) };
        self.check_code("cuMemcpy2DUnaligned", status as c_int)
    }

    fn compute_capability(&self) -> (u64, u64) {
        let part = |attribute| self.attribute(attribute).unwrap_or(0);
        (part(DeviceAttribute::ComputeCapabilityMajor), part(DeviceAttribute::ComputeCapabilityMinor))
    }
}

/// The largest distance of rows that one copy can have, in bytes: what `CU_DEVICE_ATTRIBUTE_MAX_PITCH` says of all GPUs.
const MOST_PITCH: usize = i32::MAX as usize;

/// A copy of rows at the given distances in bytes, from host to host: where it differs is left to fill in.
fn between<P>(from_pitch: usize, to_pitch: usize, rows: HostRows<P>) -> sys::CUDA_MEMCPY2D {
    sys::CUDA_MEMCPY2D {
        srcXInBytes: 0,
        srcY: 0,
        srcMemoryType: sys::CUmemorytype_enum::CU_MEMORYTYPE_HOST,
        srcHost: ptr::null(),
        srcDevice: 0,
        srcArray: ptr::null_mut(),
        srcPitch: from_pitch,
        dstXInBytes: 0,
        dstY: 0,
        dstMemoryType: sys::CUmemorytype_enum::CU_MEMORYTYPE_HOST,
        dstHost: ptr::null_mut(),
        dstDevice: 0,
        dstArray: ptr::null_mut(),
        dstPitch: to_pitch,
        WidthInBytes: rows.bytes,
        Height: rows.rows,
    }
}

/// What a PTX text says of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct EntryFacts {
    /// How many parameters it declares.
    parameters: usize,
    /// Whether it waits for the grid before it, so that it may begin earlier.
    waits: bool,
}

/// What a PTX text says of its entries, for texts as compilers write them.
fn entry_facts(ptx: &str) -> HashMap<String, EntryFacts> {
    let entries = ptx.split(".entry").skip(1).filter_map(|text| {
        let (name, rest) = text.split_at(text.find(|character: char| "({".contains(character))?);
        let list = if rest.starts_with('(') { rest.split(')').next()? } else { "" };
        let (parameters, waits) = (list.matches(".param").count(), rest.contains("griddepcontrol.wait"));
        Some((name.trim().to_owned(), EntryFacts { parameters, waits }))
    });
    entries.collect()
}

/// The version of the kernel module, such as `580.82.07`, where the system tells.
fn kernel_module_version() -> Option<String> {
    let version = std::fs::read_to_string("/sys/module/nvidia/version").ok()?;
    let version = version.trim();
    (!version.is_empty()).then(|| version.to_owned())
}

impl Backend for CudaBackend {
    fn info(&self) -> DeviceInfo {
        let (free_memory, total_memory) = self
            .enter()
            .and_then(|()| self.check("cuMemGetInfo", memory::mem_get_info()))
            .unwrap_or_else(|_| (0, self.device.total_memory().unwrap_or(0)));
        let megahertz = |attribute| self.attribute(attribute).map(|kilohertz| format!("{} MHz", kilohertz / 1000));
        let (major, minor) = self.compute_capability();
        let driver = self.driver.version().ok().map(|cuda| match kernel_module_version() {
            Some(version) => format!("{version}, for CUDA up to {cuda}"),
            None => format!("for CUDA up to {cuda}"),
        });
        // Whatever the driver doesn't tell has no row.
        let detail = [
            ("compute capability", Some(format!("{major}.{minor}"))),
            ("multiprocessors", self.attribute(DeviceAttribute::MultiprocessorCount).map(|count| count.to_string())),
            ("clock", megahertz(DeviceAttribute::ClockRate)),
            ("memory clock", megahertz(DeviceAttribute::MemoryClockRate)),
            ("memory bus", self.attribute(DeviceAttribute::GlobalMemoryBusWidth).map(|bits| format!("{bits} bits"))),
            ("L2 cache", self.attribute(DeviceAttribute::L2CacheSize).map(|bytes| format!("{bytes} bytes"))),
            ("shared memory per block", self.shared_limit().map(|bytes| format!("{bytes} bytes"))),
            ("driver", driver),
        ];
        DeviceInfo {
            name: self.device.name().unwrap_or_else(|_| "NVIDIA GPU".to_owned()),
            kind: DeviceKind::Cuda { ordinal: self.ordinal },
            detail: detail.into_iter().filter_map(|(label, value)| Some((label.to_owned(), value?))).collect(),
            total_memory: total_memory as u64,
            free_memory: free_memory as u64,
        }
    }

    fn machine(&self) -> Machine {
        let (major, minor) = self.compute_capability();
        Machine {
            multiprocessors: self
                .attribute(DeviceAttribute::MultiprocessorCount)
                .and_then(|count| u32::try_from(count).ok())
                .unwrap_or(1),
            compute_capability: (major as u32, minor as u32),
        }
    }

    fn allocate(&self, bytes: u64) -> Result<u64, DeviceError> {
        self.enter()?;
        // SAFETY: the memory is uninitialised, which bytes may be; the caller frees it.
        match unsafe { memory::cuda_malloc::<u8>(bytes as usize) } {
            Ok(pointer) => Ok(pointer.as_raw()),
            Err(CudaError::OutOfMemory) => {
                let (free, total) = self.check("cuMemGetInfo", memory::mem_get_info())?;
                Err(DeviceError::OutOfMemory { needed: bytes, free: free as u64, total: total as u64 })
            }
            Err(error) => self.check("cuMemAlloc", Err(error)),
        }
    }

    fn free(&self, address: u64) {
        // This can fail only in a context that a kernel's fault has ended, and its memory goes with it.
        if self.enter().is_ok() {
            // SAFETY: the address is one that `allocate` gave, and its owner is being dropped. The driver waits for
            // kernels that may use it.
            let _ = unsafe { memory::cuda_free(DevicePointer::<u8>::from_raw(address)) };
        }
    }

    fn copy_to_device(&self, address: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.enter()?;
        // SAFETY: the caller says that these bytes are inside an allocation. Only the driver follows the pointer.
        let mut slice = unsafe { DeviceSlice::from_raw_parts_mut(DevicePointer::<u8>::from_raw(address), bytes.len()) };
        // Ordered after everything on the stream, and before what comes: the stream is of the kind that waits for
        // plain copies.
        self.check("cuMemcpyHtoD", slice.copy_from(bytes))
    }

    fn copy_from_device(&self, bytes: &mut [u8], address: u64) -> Result<(), DeviceError> {
        self.enter()?;
        // SAFETY: as in `copy_to_device`.
        let slice = unsafe { DeviceSlice::from_raw_parts(DevicePointer::<u8>::from_raw(address), bytes.len()) };
        self.check("cuMemcpyDtoH", slice.copy_to(bytes))
    }

    unsafe fn copy_rows_to_device(&self, address: u64, rows: HostRows<*const u8>) -> Result<(), DeviceError> {
        if rows.pitch > MOST_PITCH {
            return (0..rows.rows).try_for_each(|row| {
                // SAFETY: the caller says that every row is readable.
                let bytes = unsafe { slice::from_raw_parts(rows.start.add(row * rows.pitch), rows.bytes) };
                self.copy_to_device(address + (row * rows.bytes) as u64, bytes)
            });
        }
        let copy = sys::CUDA_MEMCPY2D {
            srcHost: rows.start.cast(),
            dstMemoryType: sys::CUmemorytype_enum::CU_MEMORYTYPE_DEVICE,
            dstDevice: address,
            ..between(rows.pitch, rows.bytes, rows)
        };
        self.copy_rows(&copy)
    }

    unsafe fn copy_rows_from_device(&self, rows: HostRows<*mut u8>, address: u64) -> Result<(), DeviceError> {
        if rows.pitch > MOST_PITCH {
            return (0..rows.rows).try_for_each(|row| {
                // SAFETY: the caller says that every row is writable.
                let bytes = unsafe { slice::from_raw_parts_mut(rows.start.add(row * rows.pitch), rows.bytes) };
                self.copy_from_device(bytes, address + (row * rows.bytes) as u64)
            });
        }
        let copy = sys::CUDA_MEMCPY2D {
            srcMemoryType: sys::CUmemorytype_enum::CU_MEMORYTYPE_DEVICE,
            srcDevice: address,
            dstHost: rows.start.cast(),
            ..between(rows.bytes, rows.pitch, rows)
        };
        self.copy_rows(&copy)
    }

    fn load_module(&self, ptx: &str) -> Result<ModuleId, DeviceError> {
        self.enter()?;
        let image = CString::new(ptx).map_err(|error| {
            let position = error.nul_position();
            DeviceError::ModuleRejected { log: format!("the text has a zero byte at position {position}") }
        })?;
        // Line information changes no code; it is what profilers name source lines by.
        let module = match Module::from_ptx_cstr(&image, &[ModuleJitOption::GenerateLineInfo(true)]) {
            Ok(module) => module,
            Err(error) if fault(error as c_int).is_some() => return self.check("cuModuleLoadDataEx", Err(error)),
            Err(error) => return Err(DeviceError::ModuleRejected { log: self.rejection(&image, error) }),
        };
        let mut modules = lock(&self.modules);
        let (kernels, entries) = (HashMap::new(), entry_facts(ptx));
        modules.push(LoadedModule { module, kernels, entries });
        Ok(ModuleId(modules.len() - 1))
    }

    fn kernel(&self, module: ModuleId, entry: &str) -> Result<RawKernel, DeviceError> {
        let refuse =
            |reason: &str| Err(DeviceError::LaunchFailed { kernel: entry.to_owned(), reason: reason.to_owned() });
        self.enter()?;
        let mut modules = lock(&self.modules);
        let Some(LoadedModule { module, kernels, entries }) = modules.get_mut(module.0) else {
            return refuse("its module isn't loaded on this device");
        };
        if let Some(kernel) = kernels.get(entry) {
            return Ok(RawKernel::Cuda(Arc::clone(kernel)));
        }
        if entry.contains('\0') {
            return refuse("its name has a zero byte in it");
        }
        let function = match module.get_function(entry) {
            Ok(function) => function,
            Err(CudaError::NotFound) => return refuse("the module has no entry point of that name"),
            Err(error) => return self.check("cuModuleGetFunction", Err(error)),
        };
        let kernel = Arc::new(CudaKernel::new(self, &function, entry, entries.get(entry).copied())?);
        kernels.insert(entry.to_owned(), Arc::clone(&kernel));
        Ok(RawKernel::Cuda(kernel))
    }

    fn launch(
        &self,
        kernel: &RawKernel,
        stream: RawStream,
        shape: &LaunchShape,
        arguments: &[Argument<'_>],
    ) -> Result<(), DeviceError> {
        self.enter()?;
        cuda_kernel(kernel)?.launch(self, stream, shape, arguments)
    }

    fn resources(
        &self,
        kernel: &RawKernel,
        threads: u32,
        dynamic_shared_bytes: u32,
    ) -> Result<Option<KernelResources>, DeviceError> {
        self.enter()?;
        cuda_kernel(kernel)?.resources(self, threads, dynamic_shared_bytes).map(Some)
    }

    fn tensor_map(&self, layout: &TensorMapLayout) -> Result<[u8; TENSOR_MAP_BYTES], DeviceError> {
        self.encode_tensor_map(layout)
    }

    fn new_stream(&self) -> Result<RawStream, DeviceError> {
        self.enter()?;
        self.create_stream()
    }

    fn destroy_stream(&self, stream: RawStream) {
        // As for memory: in a context that has ended there is nothing to release.
        if self.enter().is_ok() {
            self.delete_stream(stream);
        }
    }

    fn record_event(&self, stream: RawStream) -> Result<RawEvent, DeviceError> {
        self.enter()?;
        self.create_event(stream)
    }

    fn wait_for_event(&self, stream: RawStream, event: RawEvent) -> Result<(), DeviceError> {
        self.enter()?;
        self.let_wait(stream, event)
    }

    fn synchronise_event(&self, event: RawEvent) -> Result<(), DeviceError> {
        self.enter()?;
        self.await_event(event)
    }

    fn destroy_event(&self, event: RawEvent) {
        if self.enter().is_ok() {
            self.delete_event(event);
        }
    }

    fn cuda_stream(&self, stream: RawStream) -> Result<Option<*mut c_void>, DeviceError> {
        self.enter()?;
        Ok(Some(self.stream(stream).cast()))
    }

    fn synchronise(&self) -> Result<(), DeviceError> {
        self.enter()?;
        self.check("cuCtxSynchronize", CurrentContext::synchronize())?;
        self.all_is_well(None);
        Ok(())
    }

    fn synchronise_stream(&self, stream: RawStream) -> Result<(), DeviceError> {
        self.enter()?;
        self.await_stream(stream)?;
        self.all_is_well(Some(stream));
        Ok(())
    }

    fn time(
        &self,
        stream: RawStream,
        work: &mut dyn FnMut() -> Result<(), DeviceError>,
    ) -> Result<Duration, DeviceError> {
        self.enter()?;
        let (start, end) = (Timer::new(self)?, Timer::new(self)?);
        start.record(stream)?;
        work()?;
        // The work may have been with another device.
        self.enter()?;
        end.record(stream)?;
        end.synchronise()?;
        self.all_is_well(Some(stream));
        end.since(&start)
    }
}

fn cuda_kernel(kernel: &RawKernel) -> Result<&CudaKernel, DeviceError> {
    match kernel {
        RawKernel::Cuda(kernel) => Ok(kernel),
        RawKernel::Simulated(_) => Err(DeviceError::OtherDevice { what: "the kernel" }),
    }
}

impl Drop for CudaBackend {
    fn drop(&mut self) {
        // The modules and the stream can be released in their own context only. In one that a fault has ended nothing
        // can, or need, be released.
        let _ = CurrentContext::set_current(&self.context);
    }
}

#[cfg(test)]
pub(super) mod tests;
