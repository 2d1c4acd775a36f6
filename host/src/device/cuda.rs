//! The GPU's door: `cust` for everything that is done, `libcuda` to find the driver and to ask it what `cust` can't.
//!
//! A [`CudaBackend`] holds the device's primary context and one stream on which everything happens in order. The
//! context is made current at the start of every operation, so a backend may be used from any thread and beside
//! others.
//!
//! A kernel runs after its launch has returned; if it faults, the next call that looks notices, and from then on every
//! call in the context fails the same way. The [`History`] turns that into an error which names the kernel.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_int, c_uint, c_void};
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cust::context::{Context, CurrentContext};
use cust::device::{Device, DeviceAttribute};
use cust::error::{CudaError, CudaResult};
use cust::event::{Event, EventFlags};
use cust::function::{BlockSize, Function, FunctionAttribute};
use cust::memory::{self, CopyDestination, DevicePointer, DeviceSlice};
use cust::module::{Module, ModuleJitOption};
use cust::stream::{Stream, StreamFlags};
use cust::sys;
use gpu_kernels::LaunchShape;
use libcuda::Driver;

use super::{Argument, Backend, DeviceError, DeviceInfo, DeviceKind, KernelResources, ModuleId};

/// Shared memory that a block may have without asking for more, in bytes: declared and dynamic together.
const SHARED_WITHOUT_ASKING: u32 = 48 << 10;

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

/// What a kernel did if `error` is one that kernels cause; `None` for other errors.
fn fault(error: CudaError) -> Option<&'static str> {
    Some(match error {
        CudaError::IllegalAddress => "it read or wrote an address outside every allocation",
        CudaError::MisalignedAddress => "it read or wrote an address that isn't a multiple of the access's size",
        CudaError::InvalidAddressSpace => "it used an address of the wrong state space",
        CudaError::InvalidProgramCounter => "it jumped to an address that holds no code",
        CudaError::IllegalInstruction => "it came to an instruction that the GPU can't execute",
        CudaError::HardwareStackError => "its call stack overflowed or was damaged",
        CudaError::LaunchFailed => {
            "it stopped itself (a trap: this is what a Rust panic becomes) or damaged its own memory"
        }
        CudaError::LaunchTimeout => "it ran longer than the driver allows on a GPU that also drives a display",
        CudaError::AssertError => "an assertion in it failed",
        _ => return None,
    })
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
}

struct LoadedModule {
    module: Module,
    entries: HashMap<String, EntryFacts>,
    /// How many parameters each entry of the text declares.
    parameter_counts: HashMap<String, usize>,
}

/// What the driver says of a kernel, asked once.
#[derive(Clone, Debug)]
struct EntryFacts {
    /// Bytes of each parameter. `None` if the driver is older than CUDA 12.4 and can't say.
    parameter_sizes: Option<Vec<usize>>,
    /// Shared memory that it declares, in bytes per block.
    declared_shared_bytes: u32,
    /// The most threads that a block can have, given the registers that each needs.
    max_threads: u32,
    /// The dynamic shared memory that launches may use, in bytes per block.
    dynamic_shared_limit: u32,
}

/// Which kernels may be to blame for a fault that shows up now.
#[derive(Debug, Default)]
struct History {
    /// Kernels launched since the last time that all were known to have run well, each once.
    running: Vec<String>,
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
        let (modules, history) = Default::default();
        Ok(CudaBackend { modules, stream, context, driver, device, ordinal, history })
    }

    /// Makes this GPU's context the current one of the calling thread, as every operation needs it.
    fn enter(&self) -> Result<(), DeviceError> {
        self.check("cuCtxSetCurrent", CurrentContext::set_current(&self.context))
    }

    /// Turns an error of `call` into one that says whose fault it is.
    fn check<T>(&self, call: &'static str, result: CudaResult<T>) -> Result<T, DeviceError> {
        let error = match result {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        let Some(cause) = fault(error) else {
            return Err(driver_error(self.driver, call, error as c_int));
        };
        let mut history = lock(&self.history);
        let History { running, fault } = &mut *history;
        let (kernel, reason) = fault.get_or_insert_with(|| {
            let kernel = match running.as_slice() {
                [] => "(launched elsewhere in this process)".to_owned(),
                kernels => kernels.join(" or "),
            };
            let name = self.driver.error_name(error as c_int).unwrap_or("no name");
            let reason = format!(
                "{cause} ({name}). The GPU takes no more work from this process. `--device sim` runs the same kernel \
                 on the simulator, which names block, thread, address and source line"
            );
            (kernel, reason)
        });
        Err(DeviceError::LaunchFailed { kernel: kernel.clone(), reason: reason.clone() })
    }

    /// Notes that everything launched so far has run well.
    fn all_is_well(&self) {
        lock(&self.history).running.clear();
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

    fn compute_capability(&self) -> (u64, u64) {
        let part = |attribute| self.attribute(attribute).unwrap_or(0);
        (part(DeviceAttribute::ComputeCapabilityMajor), part(DeviceAttribute::ComputeCapabilityMinor))
    }

    /// What a launch has to know of a kernel.
    fn facts(&self, function: &Function<'_>, parameters: Option<usize>) -> Result<EntryFacts, DeviceError> {
        let attribute = |attribute| -> Result<u32, DeviceError> {
            let value = self.check("cuFuncGetAttribute", function.get_attribute(attribute))?;
            Ok(value.unsigned_abs())
        };
        let declared_shared_bytes = attribute(FunctionAttribute::SharedMemorySizeBytes)?;
        Ok(EntryFacts {
            parameter_sizes: parameters.and_then(|count| self.parameter_sizes(function, count)),
            declared_shared_bytes,
            max_threads: attribute(FunctionAttribute::MaxThreadsPerBlock)?,
            dynamic_shared_limit: SHARED_WITHOUT_ASKING.saturating_sub(declared_shared_bytes),
        })
    }

    /// The sizes of a kernel's `count` parameters in bytes, from drivers that can say.
    ///
    /// The count comes from elsewhere, though the driver would tell by refusing one parameter too many: tools that
    /// watch for refused calls, compute-sanitizer among them, would report it.
    fn parameter_sizes(&self, function: &Function<'_>, count: usize) -> Option<Vec<usize>> {
        type GetParamInfo = unsafe extern "C" fn(sys::CUfunction, usize, *mut usize, *mut usize) -> c_int;
        // SAFETY: the type is cuFuncGetParamInfo's.
        let get_param_info = unsafe { self.driver.function::<GetParamInfo>(c"cuFuncGetParamInfo") }?;
        let size = |index| {
            let (mut offset, mut size) = (0, 0);
            // SAFETY: the function's module is loaded, and the pointers are to variables that outlive the call.
            let status = unsafe { get_param_info(function.to_raw(), index, &mut offset, &mut size) };
            (status == 0).then_some(size)
        };
        (0..count).map(size).collect()
    }

    /// Lets launches of a kernel use that much dynamic shared memory.
    fn raise_shared_limit(&self, function: &Function<'_>, bytes: u32) -> bool {
        let attribute = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        let Ok(bytes) = c_int::try_from(bytes) else { return false };
        // SAFETY: the function's module is loaded and its context current.
        let status = unsafe { sys::cuFuncSetAttribute(function.to_raw(), attribute, bytes) };
        status as c_int == 0
    }
}

/// How many parameters each entry of a PTX text declares, for texts as compilers write them.
fn parameter_counts(ptx: &str) -> HashMap<String, usize> {
    let entries = ptx.split(".entry").skip(1).filter_map(|text| {
        let (name, rest) = text.split_at(text.find(|character: char| "({".contains(character))?);
        let list = if rest.starts_with('(') { rest.split(')').next()? } else { "" };
        Some((name.trim().to_owned(), list.matches(".param").count()))
    });
    entries.collect()
}

/// Why `arguments` can't be those of a kernel with parameters of these sizes; `None` if they can.
fn argument_mismatch(parameter_sizes: &[usize], arguments: &[Argument]) -> Option<String> {
    if parameter_sizes.len() != arguments.len() {
        let (takes, given) = (parameter_sizes.len(), arguments.len());
        return Some(format!("it takes {takes} arguments and was given {given}"));
    }
    let mut pairs = parameter_sizes.iter().zip(arguments).enumerate();
    pairs.find(|(_, (size, argument))| **size != argument_size(argument)).map(|(index, (size, argument))| {
        format!("its argument {index} takes {size} bytes, and {argument:?} has {}", argument_size(argument))
    })
}

fn argument_size(argument: &Argument) -> usize {
    match argument {
        Argument::Pointer(_) | Argument::U64(_) => 8,
        Argument::U32(_) | Argument::F32(_) => 4,
    }
}

/// Where an argument's value stands, which is what the driver takes.
fn argument_address(argument: &Argument) -> *mut c_void {
    match argument {
        Argument::Pointer(value) | Argument::U64(value) => ptr::from_ref(value).cast_mut().cast(),
        Argument::U32(value) => ptr::from_ref(value).cast_mut().cast(),
        Argument::F32(value) => ptr::from_ref(value).cast_mut().cast(),
    }
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

    fn load_module(&self, ptx: &str) -> Result<ModuleId, DeviceError> {
        self.enter()?;
        let image = CString::new(ptx).map_err(|error| {
            let position = error.nul_position();
            DeviceError::ModuleRejected { log: format!("the text has a zero byte at position {position}") }
        })?;
        // Line information changes no code; it is what profilers name source lines by.
        let module = match Module::from_ptx_cstr(&image, &[ModuleJitOption::GenerateLineInfo(true)]) {
            Ok(module) => module,
            Err(error) if fault(error).is_some() => return self.check("cuModuleLoadDataEx", Err(error)),
            Err(error) => return Err(DeviceError::ModuleRejected { log: self.rejection(&image, error) }),
        };
        let mut modules = lock(&self.modules);
        let (entries, parameter_counts) = (HashMap::new(), parameter_counts(ptx));
        modules.push(LoadedModule { module, entries, parameter_counts });
        Ok(ModuleId(modules.len() - 1))
    }

    fn launch(
        &self,
        module: ModuleId,
        entry: &str,
        shape: &LaunchShape,
        arguments: &[Argument],
    ) -> Result<(), DeviceError> {
        let refuse = |reason| Err(DeviceError::LaunchFailed { kernel: entry.to_owned(), reason });
        self.enter()?;
        let mut modules = lock(&self.modules);
        let Some(LoadedModule { module, entries, parameter_counts }) = modules.get_mut(module.0) else {
            return refuse("its module isn't loaded on this device".to_owned());
        };
        if entry.contains('\0') {
            return refuse("its name has a zero byte in it".to_owned());
        }
        let function = match module.get_function(entry) {
            Ok(function) => function,
            Err(CudaError::NotFound) => return refuse("the module has no entry point of that name".to_owned()),
            Err(error) => return self.check("cuModuleGetFunction", Err(error)),
        };
        let facts = match entries.get_mut(entry) {
            Some(facts) => facts,
            None => {
                entries.entry(entry.to_owned()).or_insert(self.facts(&function, parameter_counts.get(entry).copied())?)
            }
        };

        if let Some(reason) = facts.parameter_sizes.as_ref().and_then(|sizes| argument_mismatch(sizes, arguments)) {
            return refuse(reason);
        }
        let threads: u64 = shape.block.iter().map(|&threads| u64::from(threads)).product();
        if threads > u64::from(facts.max_threads) {
            let most = facts.max_threads;
            return refuse(format!(
                "a block of {threads} threads was asked for; this GPU can run it with up to {most}"
            ));
        }
        let dynamic = shape.dynamic_shared_bytes;
        if dynamic > facts.dynamic_shared_limit {
            if !self.raise_shared_limit(&function, dynamic) {
                let (declared, most) =
                    (facts.declared_shared_bytes, self.shared_limit().unwrap_or(SHARED_WITHOUT_ASKING));
                return refuse(format!(
                    "it declares {declared} bytes of shared memory per block and was launched with {dynamic} more; \
                     this GPU has {most}"
                ));
            }
            facts.dynamic_shared_limit = dynamic;
        }

        let arguments: Vec<*mut c_void> = arguments.iter().map(argument_address).collect();
        let (grid, block) = (<(u32, u32, u32)>::from(shape.grid), <(u32, u32, u32)>::from(shape.block));
        // SAFETY: the driver copies the arguments before it returns, and reads of each as many bytes as the kernel's
        // parameter has: as many as there are, by the check above where the driver can tell, else by the caller's
        // word, which also covers what the kernel does with them.
        match unsafe { self.stream.launch(&function, grid, block, dynamic, &arguments) } {
            Ok(()) => {}
            Err(CudaError::InvalidValue) => {
                return refuse(format!("the GPU can't be given a grid of {grid:?} blocks of {block:?} threads"));
            }
            Err(CudaError::LaunchOutOfResources) => {
                return refuse(format!(
                    "a block of {threads} threads needs more registers or shared memory than there are"
                ));
            }
            Err(error) => return self.check("cuLaunchKernel", Err(error)),
        }
        let mut history = lock(&self.history);
        if !history.running.iter().any(|kernel| kernel == entry) {
            history.running.push(entry.to_owned());
        }
        Ok(())
    }

    fn resources(&self, module: ModuleId, entry: &str, threads: u32) -> Result<Option<KernelResources>, DeviceError> {
        self.enter()?;
        let modules = lock(&self.modules);
        let Some(LoadedModule { module, .. }) = modules.get(module.0).filter(|_| !entry.contains('\0')) else {
            let reason = "its module isn't loaded on this device".to_owned();
            return Err(DeviceError::LaunchFailed { kernel: entry.to_owned(), reason });
        };
        let function = self.check("cuModuleGetFunction", module.get_function(entry))?;
        let registers = function.get_attribute(FunctionAttribute::NumRegisters);
        let registers = self.check("cuFuncGetAttribute", registers)?.unsigned_abs();
        let blocks = function.max_active_blocks_per_multiprocessor(BlockSize::x(threads), 0);
        let blocks_per_multiprocessor = self.check("cuOccupancyMaxActiveBlocksPerMultiprocessor", blocks)?;
        Ok(Some(KernelResources { registers, blocks_per_multiprocessor }))
    }

    fn raw_stream(&self) -> Result<Option<*mut c_void>, DeviceError> {
        self.enter()?;
        Ok(Some(self.stream.as_inner().cast()))
    }

    fn synchronise(&self) -> Result<(), DeviceError> {
        self.enter()?;
        self.check("cuStreamSynchronize", self.stream.synchronize())?;
        self.all_is_well();
        Ok(())
    }

    fn time(&self, work: &mut dyn FnMut() -> Result<(), DeviceError>) -> Result<Duration, DeviceError> {
        self.enter()?;
        let event = || self.check("cuEventCreate", Event::new(EventFlags::DEFAULT));
        let (start, end) = (event()?, event()?);
        self.check("cuEventRecord", start.record(&self.stream))?;
        work()?;
        // The work may have been with another device.
        self.enter()?;
        self.check("cuEventRecord", end.record(&self.stream))?;
        self.check("cuEventSynchronize", end.synchronize())?;
        self.all_is_well();
        let milliseconds = self.check("cuEventElapsedTime", end.elapsed_time_f32(&start))?;
        Ok(Duration::try_from_secs_f64(f64::from(milliseconds) / 1e3).unwrap_or_default())
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
