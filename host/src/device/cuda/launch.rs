//! A kernel of a loaded module: what the driver says of it, asked once, and its launches.
//!
//! The way from a call to the driver's `cuLaunchKernel` is kept short, since small products take a few microseconds:
//! no name is looked up, nothing is allocated, and the one lock is taken when a kernel runs on a stream for the first
//! time after that was waited for.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use cust::error::CudaError;
use cust::function::{Function, FunctionAttribute};
use cust::sys;
use gpu_kernels::LaunchShape;

use super::super::{Argument, DeviceError, KernelResources, RawStream};
use super::{CudaBackend, EntryFacts, History, lock};

/// Shared memory that a block may have without asking for more, in bytes: declared and dynamic together.
const SHARED_WITHOUT_ASKING: u32 = 48 << 10;

/// Arguments for which no memory is allocated.
const FEW_ARGUMENTS: usize = 12;

/// `cuLaunchKernelEx`.
type LaunchKernelEx =
    unsafe extern "C" fn(*const LaunchConfiguration, sys::CUfunction, *mut *mut c_void, *mut *mut c_void) -> c_int;

/// `CUlaunchConfig`.
#[repr(C)]
struct LaunchConfiguration {
    grid: [u32; 3],
    block: [u32; 3],
    dynamic_shared_bytes: u32,
    stream: sys::CUstream,
    attributes: *mut LaunchAttribute,
    attribute_count: u32,
}

/// `CUlaunchAttribute`: its value begins at a multiple of 8 bytes and has 64.
#[repr(C, align(8))]
struct LaunchAttribute {
    id: u32,
    padding: u32,
    value: [u32; 16],
}

impl LaunchAttribute {
    /// `CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION`, allowed.
    const BEGIN_EARLY: LaunchAttribute = {
        let mut value = [0; 16];
        value[0] = 1;
        LaunchAttribute { id: 6, padding: 0, value }
    };
}

/// A kernel of a module that stays loaded as long as the backend is open.
pub(crate) struct CudaKernel {
    function: sys::CUfunction,
    entry: String,
    /// Bytes of each parameter. `None` if the driver is older than CUDA 12.4 and can't say.
    parameter_sizes: Option<Vec<usize>>,
    /// Shared memory that it declares, in bytes per block.
    declared_shared_bytes: u32,
    /// The most threads that a block can have, given the registers that each needs.
    max_threads: u32,
    /// The dynamic shared memory that launches may use, in bytes per block. It only grows.
    dynamic_shared_limit: AtomicU32,
    /// How it is launched if it may begin before the grid before it is through; `None` if it mayn't, or if the driver is older than CUDA 11.8.
    launch_early: Option<LaunchKernelEx>,
    /// The stream and the epoch for which the history knows that it runs.
    noted_stream: AtomicUsize,
    noted_epoch: AtomicU64,
}

// SAFETY: a CUfunction is a handle that the driver takes from any thread in whose context it is used; everything else
// is Send and Sync by itself.
unsafe impl Send for CudaKernel {}
// SAFETY: as above.
unsafe impl Sync for CudaKernel {}

impl CudaKernel {
    /// Asks the driver what a launch has to know besides what the PTX says.
    pub(super) fn new(
        gpu: &CudaBackend,
        function: &Function<'_>,
        entry: &str,
        facts: Option<EntryFacts>,
    ) -> Result<CudaKernel, DeviceError> {
        let attribute = |attribute| -> Result<u32, DeviceError> {
            let value = gpu.check("cuFuncGetAttribute", function.get_attribute(attribute))?;
            Ok(value.unsigned_abs())
        };
        let declared_shared_bytes = attribute(FunctionAttribute::SharedMemorySizeBytes)?;
        Ok(CudaKernel {
            function: function.to_raw(),
            entry: entry.to_owned(),
            parameter_sizes: facts.and_then(|facts| parameter_sizes(gpu, function, facts.parameters)),
            declared_shared_bytes,
            max_threads: attribute(FunctionAttribute::MaxThreadsPerBlock)?,
            dynamic_shared_limit: AtomicU32::new(SHARED_WITHOUT_ASKING.saturating_sub(declared_shared_bytes)),
            // SAFETY: the type is cuLaunchKernelEx's.
            launch_early: facts
                .filter(|facts| facts.waits)
                .and_then(|_| unsafe { gpu.driver.function::<LaunchKernelEx>(c"cuLaunchKernelEx") }),
            noted_stream: AtomicUsize::new(0),
            noted_epoch: AtomicU64::new(u64::MAX),
        })
    }

    pub(in super::super) fn entry(&self) -> &str {
        &self.entry
    }

    fn refuse<T>(&self, reason: String) -> Result<T, DeviceError> {
        Err(DeviceError::LaunchFailed { kernel: self.entry.clone(), reason })
    }

    /// Lets launches use that much dynamic shared memory.
    fn allow_shared(&self, gpu: &CudaBackend, bytes: u32) -> Result<(), DeviceError> {
        if bytes <= self.dynamic_shared_limit.load(Ordering::Acquire) {
            return Ok(());
        }
        let attribute = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // One after the other, so that none lowers what another has raised.
        let _order = lock(&gpu.modules);
        if bytes <= self.dynamic_shared_limit.load(Ordering::Acquire) {
            return Ok(());
        }
        // SAFETY: the function's module is loaded and its context current.
        let raised = c_int::try_from(bytes)
            .is_ok_and(|bytes| unsafe { sys::cuFuncSetAttribute(self.function, attribute, bytes) } as c_int == 0);
        if !raised {
            let declared = self.declared_shared_bytes;
            let most = gpu.shared_limit().unwrap_or(SHARED_WITHOUT_ASKING);
            return self.refuse(format!(
                "it declares {declared} bytes of shared memory per block and was launched with {bytes} more; this GPU \
                 has {most}"
            ));
        }
        self.dynamic_shared_limit.store(bytes, Ordering::Release);
        Ok(())
    }

    /// Lets the history know that it is about to run on `stream`.
    fn note(&self, gpu: &CudaBackend, stream: RawStream) {
        let epoch = gpu.epoch.load(Ordering::Relaxed);
        if self.noted_epoch.load(Ordering::Relaxed) == epoch && self.noted_stream.load(Ordering::Relaxed) == stream.0 {
            return;
        }
        let mut history = lock(&gpu.history);
        let History { running, .. } = &mut *history;
        if !running.iter().any(|(on, entry)| *on == stream && *entry == self.entry) {
            running.push((stream, self.entry.clone()));
        }
        self.noted_stream.store(stream.0, Ordering::Relaxed);
        self.noted_epoch.store(epoch, Ordering::Relaxed);
    }

    /// Launches it; the context is current.
    pub(super) fn launch(
        &self,
        gpu: &CudaBackend,
        stream: RawStream,
        shape: &LaunchShape,
        arguments: &[Argument<'_>],
    ) -> Result<(), DeviceError> {
        if let Some(reason) = self.parameter_sizes.as_ref().and_then(|sizes| argument_mismatch(sizes, arguments)) {
            return self.refuse(reason);
        }
        let threads: u64 = shape.block.iter().map(|&threads| u64::from(threads)).product();
        if threads > u64::from(self.max_threads) {
            let most = self.max_threads;
            return self
                .refuse(format!("a block of {threads} threads was asked for; this GPU can run it with up to {most}"));
        }
        self.allow_shared(gpu, shape.dynamic_shared_bytes)?;

        let mut few = [ptr::null_mut(); FEW_ARGUMENTS];
        let mut many = Vec::new();
        let addresses = match few.get_mut(..arguments.len()) {
            Some(few) => few,
            None => {
                many.resize(arguments.len(), ptr::null_mut());
                many.as_mut_slice()
            }
        };
        for (address, argument) in addresses.iter_mut().zip(arguments) {
            *address = argument_address(argument);
        }
        let ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]) = (shape.grid, shape.block);
        // SAFETY, for both: the function's module is loaded and its context current; the stream is one of it. The driver copies
        // the arguments before it returns, and reads of each as many bytes as the kernel's parameter has: as many as
        // there are, by the check above where the driver can tell, else by the caller's word, which also covers what
        // the kernel does with them.
        let status = match self.launch_early {
            // SAFETY: as above; the configuration and its attribute outlive the call, and the kernel waits for the grid before it.
            Some(launch) => unsafe {
                let mut attribute = LaunchAttribute::BEGIN_EARLY;
                let configuration = LaunchConfiguration {
                    grid: shape.grid,
                    block: shape.block,
                    dynamic_shared_bytes: shape.dynamic_shared_bytes,
                    stream: gpu.stream(stream),
                    attributes: &mut attribute,
                    attribute_count: 1,
                };
                launch(&configuration, self.function, addresses.as_mut_ptr(), ptr::null_mut())
            },
            // SAFETY: as above.
            None => unsafe {
                sys::cuLaunchKernel(
                    self.function,
                    grid_x,
                    grid_y,
                    grid_z,
                    block_x,
                    block_y,
                    block_z,
                    shape.dynamic_shared_bytes,
                    gpu.stream(stream),
                    addresses.as_mut_ptr(),
                    ptr::null_mut(),
                ) as c_int
            },
        };
        const INVALID_VALUE: c_int = CudaError::InvalidValue as c_int;
        const OUT_OF_RESOURCES: c_int = CudaError::LaunchOutOfResources as c_int;
        match status {
            0 => {
                self.note(gpu, stream);
                Ok(())
            }
            INVALID_VALUE => {
                let (grid, block) = ((grid_x, grid_y, grid_z), (block_x, block_y, block_z));
                self.refuse(format!("the GPU can't be given a grid of {grid:?} blocks of {block:?} threads"))
            }
            OUT_OF_RESOURCES => self
                .refuse(format!("a block of {threads} threads needs more registers or shared memory than there are")),
            code => gpu.check_code("cuLaunchKernel", code),
        }
    }
    /// What it takes of a multiprocessor; the context is current.
    pub(super) fn resources(
        &self,
        gpu: &CudaBackend,
        threads: u32,
        dynamic_shared_bytes: u32,
    ) -> Result<KernelResources, DeviceError> {
        self.allow_shared(gpu, dynamic_shared_bytes)?;
        let (mut registers, mut blocks) = (0, 0);
        let attribute = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_NUM_REGS;
        // SAFETY: the function's module is loaded and its context current; the pointer is to a variable that outlives
        // the call.
        let status = unsafe { sys::cuFuncGetAttribute(&mut registers, attribute, self.function) };
        gpu.check_code("cuFuncGetAttribute", status as c_int)?;
        let (threads, shared) = (c_int::try_from(threads).unwrap_or(c_int::MAX), dynamic_shared_bytes as usize);
        // SAFETY: as above.
        let status =
            unsafe { sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, self.function, threads, shared) };
        gpu.check_code("cuOccupancyMaxActiveBlocksPerMultiprocessor", status as c_int)?;
        Ok(KernelResources {
            registers: registers.unsigned_abs(),
            blocks_per_multiprocessor: c_int::unsigned_abs(blocks),
        })
    }
}

/// The sizes of a kernel's `count` parameters in bytes, from drivers that can say.
///
/// The count comes from elsewhere, though the driver would tell by refusing one parameter too many: tools that
/// watch for refused calls, compute-sanitizer among them, would report it.
fn parameter_sizes(gpu: &CudaBackend, function: &Function<'_>, count: usize) -> Option<Vec<usize>> {
    type GetParamInfo = unsafe extern "C" fn(sys::CUfunction, usize, *mut usize, *mut usize) -> c_int;
    // SAFETY: the type is cuFuncGetParamInfo's.
    let get_param_info = unsafe { gpu.driver.function::<GetParamInfo>(c"cuFuncGetParamInfo") }?;
    let size = |index| {
        let (mut offset, mut size) = (0, 0);
        // SAFETY: the function's module is loaded, and the pointers are to variables that outlive the call.
        let status = unsafe { get_param_info(function.to_raw(), index, &mut offset, &mut size) };
        (status == 0).then_some(size)
    };
    (0..count).map(size).collect()
}

/// Why `arguments` can't be those of a kernel with parameters of these sizes; `None` if they can.
fn argument_mismatch(parameter_sizes: &[usize], arguments: &[Argument<'_>]) -> Option<String> {
    if parameter_sizes.len() != arguments.len() {
        let (takes, given) = (parameter_sizes.len(), arguments.len());
        return Some(format!("it takes {takes} arguments and was given {given}"));
    }
    let mut pairs = parameter_sizes.iter().zip(arguments).enumerate();
    pairs.find(|(_, (size, argument))| **size != argument.size()).map(|(index, (size, argument))| {
        format!("its argument {index} takes {size} bytes, and {argument:?} has {}", argument.size())
    })
}

/// Where an argument's value stands, which is what the driver takes.
fn argument_address(argument: &Argument<'_>) -> *mut c_void {
    match argument {
        Argument::Pointer(value) | Argument::U64(value) => ptr::from_ref(value).cast_mut().cast(),
        Argument::U32(value) => ptr::from_ref(value).cast_mut().cast(),
        Argument::F32(value) => ptr::from_ref(value).cast_mut().cast(),
        Argument::Bytes(bytes) => bytes.as_ptr().cast_mut().cast(),
    }
}
