//! A stand-in for the NVIDIA driver, compiled to a `libcuda.so.1` by the tests: one device whose memory is the host's,
//! whose kernels are a few names known here, and which notes what it is asked.
//!
//! It behaves as the driver's documentation says where the tests look: errors of kernels appear at a later call and
//! stay, rejected modules fill the caller's log, calls without a current context fail. It is there to test what stands
//! above the driver, and shows nothing about GPUs.

#![allow(non_snake_case)]

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

const SUCCESS: c_int = 0;
const INVALID_VALUE: c_int = 1;
const OUT_OF_MEMORY: c_int = 2;
const NOT_INITIALIZED: c_int = 3;
const INVALID_DEVICE: c_int = 101;
const INVALID_CONTEXT: c_int = 201;
const INVALID_PTX: c_int = 218;
const NOT_FOUND: c_int = 500;
const ILLEGAL_ADDRESS: c_int = 700;

const TOTAL_MEMORY: usize = 1 << 30;
const CONTEXT: *mut c_void = 0xc0_usize as *mut c_void;

/// Streams are numbers from 1 on; this is how many there have been.
static STREAMS: AtomicU64 = AtomicU64::new(0);

static INITIALISED: AtomicI32 = AtomicI32::new(0);
/// The error of a kernel that faulted; every call returns it from then on.
static FAULT: AtomicI32 = AtomicI32::new(0);
/// Nanoseconds of the device's own clock: every kernel takes a million.
static CLOCK: AtomicU64 = AtomicU64::new(0);
static ALLOCATIONS: Mutex<Option<HashMap<u64, Vec<u64>>>> = Mutex::new(None);
static DYNAMIC_SHARED_LIMIT: AtomicI32 = AtomicI32::new(0);

thread_local! {
    static CURRENT: Cell<*mut c_void> = const { Cell::new(std::ptr::null_mut()) };
}

/// The state in which a call that needs a context finds the device.
fn ready() -> Result<(), c_int> {
    if INITIALISED.load(Ordering::SeqCst) == 0 {
        return Err(NOT_INITIALIZED);
    }
    if CURRENT.get() != CONTEXT {
        return Err(INVALID_CONTEXT);
    }
    match FAULT.load(Ordering::SeqCst) {
        SUCCESS => Ok(()),
        fault => Err(fault),
    }
}

/// The error that a test asks for in an environment variable.
fn told_to_fail(variable: &str) -> Option<c_int> {
    std::env::var(variable).ok().and_then(|code| code.parse().ok())
}

fn answer(work: impl FnOnce() -> Result<(), c_int>) -> c_int {
    ready().and_then(|()| work()).err().unwrap_or(SUCCESS)
}

fn allocations<R>(work: impl FnOnce(&mut HashMap<u64, Vec<u64>>) -> R) -> R {
    work(ALLOCATIONS.lock().unwrap().get_or_insert_default())
}

/// Whether the bytes lie in one allocation.
fn inside(address: u64, bytes: usize) -> bool {
    allocations(|all| {
        all.iter().any(|(&start, words)| start <= address && address + bytes as u64 <= start + words.len() as u64 * 8)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuInit(flags: c_uint) -> c_int {
    if flags != 0 {
        return INVALID_VALUE;
    }
    if let Some(code) = told_to_fail("STAND_IN_INIT_FAILS_WITH") {
        return code;
    }
    INITIALISED.store(1, Ordering::SeqCst);
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> c_int {
    unsafe { *version = 13_010 };
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorName(error: c_int, name: *mut *const c_char) -> c_int {
    let text = match error {
        SUCCESS => c"CUDA_SUCCESS",
        OUT_OF_MEMORY => c"CUDA_ERROR_OUT_OF_MEMORY",
        ILLEGAL_ADDRESS => c"CUDA_ERROR_ILLEGAL_ADDRESS",
        46 => c"CUDA_ERROR_DEVICE_UNAVAILABLE",
        803 => c"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
        _ => return INVALID_VALUE,
    };
    unsafe { *name = text.as_ptr() };
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorString(error: c_int, text: *mut *const c_char) -> c_int {
    let answer = match error {
        SUCCESS => c"no error",
        ILLEGAL_ADDRESS => c"an illegal memory access was encountered",
        46 => c"CUDA-capable device(s) is/are busy or unavailable",
        803 => c"system has unsupported display driver / cuda driver combination",
        _ => return INVALID_VALUE,
    };
    unsafe { *text = answer.as_ptr() };
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> c_int {
    if INITIALISED.load(Ordering::SeqCst) == 0 {
        return NOT_INITIALIZED;
    }
    unsafe { *count = 1 };
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGet(device: *mut c_int, ordinal: c_int) -> c_int {
    if ordinal != 0 {
        return INVALID_DEVICE;
    }
    unsafe { *device = 0 };
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, length: c_int, _device: c_int) -> c_int {
    let text = c"Stand-in".to_bytes_with_nul();
    assert!(text.len() <= length as usize);
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr().cast(), name, text.len()) };
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceTotalMem_v2(bytes: *mut usize, _device: c_int) -> c_int {
    unsafe { *bytes = TOTAL_MEMORY };
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, _device: c_int) -> c_int {
    let answer = match attribute {
        13 => 1_980_000, // clock, kHz
        16 => 132,       // multiprocessors
        36 => 3_201_000, // memory clock, kHz
        37 => 6144,      // memory bus, bits
        38 => 50 << 20,  // L2, bytes
        75 => 9,         // compute capability
        76 => 0,
        97 => 227 << 10, // shared memory per block, opt-in, bytes
        _ => return INVALID_VALUE,
    };
    unsafe { *value = answer };
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetPCIBusId(name: *mut c_char, length: c_int, _device: c_int) -> c_int {
    let bus = c"0000:1B:00.0".to_bytes_with_nul();
    if (length as usize) < bus.len() {
        return INVALID_VALUE;
    }
    unsafe { std::ptr::copy_nonoverlapping(bus.as_ptr().cast(), name, bus.len()) };
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxGetDevice(device: *mut c_int) -> c_int {
    answer(|| {
        unsafe { *device = 0 };
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDevicePrimaryCtxRetain(context: *mut *mut c_void, _device: c_int) -> c_int {
    if let Some(code) = told_to_fail("STAND_IN_CONTEXT_FAILS_WITH") {
        return code;
    }
    unsafe { *context = CONTEXT };
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRelease_v2(_device: c_int) -> c_int {
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSetCurrent(context: *mut c_void) -> c_int {
    CURRENT.set(context);
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxGetCurrent(context: *mut *mut c_void) -> c_int {
    unsafe { *context = CURRENT.get() };
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSynchronize() -> c_int {
    answer(|| Ok(()))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> c_int {
    answer(|| {
        let used: usize = allocations(|all| all.values().map(|words| words.len() * 8).sum());
        unsafe { (*free, *total) = (TOTAL_MEMORY - used, TOTAL_MEMORY) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAlloc_v2(address: *mut u64, bytes: usize) -> c_int {
    answer(|| {
        if bytes > TOTAL_MEMORY {
            return Err(OUT_OF_MEMORY);
        }
        let words = vec![0xdead_beef_dead_beef_u64; bytes.div_ceil(8)];
        let start = words.as_ptr() as u64;
        allocations(|all| all.insert(start, words));
        unsafe { *address = start };
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFree_v2(address: u64) -> c_int {
    answer(|| allocations(|all| all.remove(&address)).map(drop).ok_or(INVALID_VALUE))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, bytes: usize) -> c_int {
    answer(|| {
        if !inside(to, bytes) {
            return Err(INVALID_VALUE);
        }
        unsafe { std::ptr::copy_nonoverlapping(from.cast::<u8>(), to as *mut u8, bytes) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize) -> c_int {
    answer(|| {
        if !inside(from, bytes) {
            return Err(INVALID_VALUE);
        }
        unsafe { std::ptr::copy_nonoverlapping(from as *const u8, to.cast::<u8>(), bytes) };
        Ok(())
    })
}

/// `CUDA_MEMCPY2D`, for copies between host and device of rows without a position.
#[repr(C)]
struct Copy2d {
    from_x: usize,
    from_y: usize,
    from_type: c_uint,
    from_host: *const c_void,
    from_device: u64,
    from_array: *mut c_void,
    from_pitch: usize,
    to_x: usize,
    to_y: usize,
    to_type: c_uint,
    to_host: *mut c_void,
    to_device: u64,
    to_array: *mut c_void,
    to_pitch: usize,
    width: usize,
    height: usize,
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpy2DUnaligned_v2(copy: *const Copy2d) -> c_int {
    let copy = unsafe { &*copy };
    for row in 0..copy.height {
        let status = match (copy.from_type, copy.to_type) {
            (1, 2) => {
                let from = unsafe { copy.from_host.cast::<u8>().add(row * copy.from_pitch) };
                unsafe { cuMemcpyHtoD_v2(copy.to_device + (row * copy.to_pitch) as u64, from.cast(), copy.width) }
            }
            (2, 1) => {
                let to = unsafe { copy.to_host.cast::<u8>().add(row * copy.to_pitch) };
                unsafe { cuMemcpyDtoH_v2(to.cast(), copy.from_device + (row * copy.from_pitch) as u64, copy.width) }
            }
            _ => INVALID_VALUE,
        };
        if status != SUCCESS {
            return status;
        }
    }
    ready().err().unwrap_or(SUCCESS)
}

/// Takes any text that has an entry point; rejects the rest into the log that option 5 gives, of the size that option
/// 6 gives.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleLoadDataEx(
    module: *mut *mut c_void,
    image: *const c_void,
    options: c_uint,
    option: *const c_uint,
    value: *mut *mut c_void,
) -> c_int {
    answer(|| {
        let image = unsafe { CStr::from_ptr(image.cast()) };
        if image.to_str().is_ok_and(|text| text.contains(".entry")) {
            unsafe { *module = Box::into_raw(Box::new(0u8)).cast() };
            return Ok(());
        }
        let options: HashMap<c_uint, *mut c_void> =
            (0..options as usize).map(|i| unsafe { (*option.add(i), *value.add(i)) }).collect();
        if let (Some(&buffer), Some(&size)) = (options.get(&5), options.get(&6)) {
            let log = c"ptxas application ptx input, line 1; fatal   : no entry".to_bytes_with_nul();
            assert!(log.len() <= size as usize);
            unsafe { std::ptr::copy_nonoverlapping(log.as_ptr(), buffer.cast::<u8>(), log.len()) };
        }
        Err(INVALID_PTX)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleUnload(module: *mut c_void) -> c_int {
    answer(|| {
        drop(unsafe { Box::from_raw(module.cast::<u8>()) });
        Ok(())
    })
}

const KERNELS: [&CStr; 3] = [c"no kernel", c"copy", c"fault"];

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleGetFunction(
    function: *mut *mut c_void,
    _module: *mut c_void,
    name: *const c_char,
) -> c_int {
    answer(|| {
        let name = unsafe { CStr::from_ptr(name) };
        let index = KERNELS.iter().skip(1).position(|&kernel| kernel == name).ok_or(NOT_FOUND)? + 1;
        unsafe { *function = index as *mut c_void };
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuFuncGetAttribute(value: *mut c_int, attribute: c_int, _function: *mut c_void) -> c_int {
    answer(|| {
        unsafe {
            *value = match attribute {
                0 => 1024, // threads per block
                1 => 2048, // shared memory that it declares, bytes
                8 => DYNAMIC_SHARED_LIMIT.load(Ordering::SeqCst),
                _ => return Err(INVALID_VALUE),
            }
        };
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuFuncSetAttribute(_function: *mut c_void, attribute: c_int, value: c_int) -> c_int {
    answer(|| {
        if attribute != 8 || value > (227 << 10) {
            return Err(INVALID_VALUE);
        }
        DYNAMIC_SHARED_LIMIT.store(value, Ordering::SeqCst);
        Ok(())
    })
}

/// `copy` takes (from: pointer, to: pointer, bytes: u32, add: f32) and adds the whole part of `add` to each byte;
/// `fault` takes nothing.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuFuncGetParamInfo(
    function: *mut c_void,
    index: usize,
    offset: *mut usize,
    size: *mut usize,
) -> c_int {
    answer(|| {
        let sizes: &[usize] = if function as usize == 1 { &[8, 8, 4, 4] } else { &[] };
        unsafe {
            *size = *sizes.get(index).ok_or(INVALID_VALUE)?;
            *offset = sizes[..index].iter().sum();
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuLaunchKernel(
    function: *mut c_void,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    shared_bytes: c_uint,
    stream: *mut c_void,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> c_int {
    answer(|| {
        let dimensions = [grid_x, grid_y, grid_z, block_x, block_y, block_z];
        // Unless it was raised, the limit is what is left of 48 KiB.
        let shared_limit = DYNAMIC_SHARED_LIMIT.load(Ordering::SeqCst).max((48 << 10) - 2048);
        if dimensions.contains(&0) || block_x * block_y * block_z > 1024 || shared_bytes > shared_limit as c_uint {
            return Err(INVALID_VALUE);
        }
        if !is_stream(stream) || !extra.is_null() {
            return Err(INVALID_VALUE);
        }
        let launch = if function as usize == 2 {
            Launch::Fault
        } else {
            unsafe {
                Launch::Copy {
                    from: *(*parameters).cast::<u64>(),
                    to: *(*parameters.add(1)).cast::<u64>(),
                    bytes: *(*parameters.add(2)).cast::<u32>() as usize,
                    add: *(*parameters.add(3)).cast::<f32>() as u8,
                }
            }
        };
        match CAPTURED.lock().unwrap().as_mut() {
            Some(launches) => launches.push(launch),
            None => launch.run(),
        }
        Ok(())
    })
}

/// A kernel with its arguments.
#[derive(Clone, Copy)]
enum Launch {
    Copy { from: u64, to: u64, bytes: usize, add: u8 },
    Fault,
}

impl Launch {
    fn run(self) {
        CLOCK.fetch_add(1_000_000, Ordering::SeqCst);
        match self {
            Launch::Fault => FAULT.store(ILLEGAL_ADDRESS, Ordering::SeqCst),
            Launch::Copy { from, to, bytes, add } => {
                let (from, to) = (from as *const u8, to as *mut u8);
                (0..bytes).for_each(|i| unsafe { *to.add(i) = (*from.add(i)).wrapping_add(add) });
            }
        }
    }
}

/// What is launched while the stream is captured.
static CAPTURED: Mutex<Option<Vec<Launch>>> = Mutex::new(None);
/// Graphs and what was made of them, that are there.
static GRAPHS: AtomicI32 = AtomicI32::new(0);

#[unsafe(no_mangle)]
extern "C" fn cuStreamBeginCapture_v2(stream: *mut c_void, mode: c_uint) -> c_int {
    answer(|| {
        let mut captured = CAPTURED.lock().unwrap();
        if !is_stream(stream) || mode > 2 || captured.is_some() {
            return Err(INVALID_VALUE);
        }
        *captured = Some(Vec::new());
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamEndCapture(_stream: *mut c_void, graph: *mut *mut c_void) -> c_int {
    answer(|| {
        let launches = CAPTURED.lock().unwrap().take().ok_or(INVALID_VALUE)?;
        GRAPHS.fetch_add(1, Ordering::SeqCst);
        unsafe { *graph = Box::into_raw(Box::new(launches)).cast() };
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGraphInstantiateWithFlags(executable: *mut *mut c_void, graph: *mut c_void, flags: u64) -> c_int {
    answer(|| {
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        GRAPHS.fetch_add(1, Ordering::SeqCst);
        unsafe { *executable = Box::into_raw(Box::new((*graph.cast::<Vec<Launch>>()).clone())).cast() };
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGraphLaunch(executable: *mut c_void, stream: *mut c_void) -> c_int {
    answer(|| {
        if !is_stream(stream) {
            return Err(INVALID_VALUE);
        }
        unsafe { &*executable.cast::<Vec<Launch>>() }.iter().for_each(|launch| launch.run());
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGraphDestroy(graph: *mut c_void) -> c_int {
    GRAPHS.fetch_sub(1, Ordering::SeqCst);
    drop(unsafe { Box::from_raw(graph.cast::<Vec<Launch>>()) });
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGraphExecDestroy(executable: *mut c_void) -> c_int {
    unsafe { cuGraphDestroy(executable) }
}

/// No driver's: graphs that nobody has destroyed. Under the name of a function that nothing else here uses.
#[unsafe(no_mangle)]
extern "C" fn cuGraphReleaseUserObject() -> c_int {
    GRAPHS.load(Ordering::SeqCst)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamCreateWithPriority(stream: *mut *mut c_void, _flags: c_uint, _priority: c_int) -> c_int {
    answer(|| {
        unsafe { *stream = (STREAMS.fetch_add(1, Ordering::SeqCst) as usize + 1) as *mut c_void };
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamCreate(stream: *mut *mut c_void, flags: c_uint) -> c_int {
    unsafe { cuStreamCreateWithPriority(stream, flags, 0) }
}

fn is_stream(stream: *mut c_void) -> bool {
    (1..=STREAMS.load(Ordering::SeqCst)).contains(&(stream as u64))
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamSynchronize(stream: *mut c_void) -> c_int {
    answer(|| if is_stream(stream) { Ok(()) } else { Err(INVALID_VALUE) })
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamWaitEvent(stream: *mut c_void, event: *mut c_void, flags: c_uint) -> c_int {
    answer(|| if is_stream(stream) && !event.is_null() && flags == 0 { Ok(()) } else { Err(INVALID_VALUE) })
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamDestroy_v2(_stream: *mut c_void) -> c_int {
    answer(|| Ok(()))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventCreate(event: *mut *mut c_void, _flags: c_uint) -> c_int {
    answer(|| {
        unsafe { *event = Box::into_raw(Box::new(0u64)).cast() };
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventRecord(event: *mut c_void, stream: *mut c_void) -> c_int {
    answer(|| {
        if !is_stream(stream) {
            return Err(INVALID_VALUE);
        }
        unsafe { *event.cast::<u64>() = CLOCK.load(Ordering::SeqCst) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuEventSynchronize(_event: *mut c_void) -> c_int {
    answer(|| Ok(()))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventElapsedTime(milliseconds: *mut f32, start: *mut c_void, end: *mut c_void) -> c_int {
    answer(|| {
        unsafe { *milliseconds = (*end.cast::<u64>() - *start.cast::<u64>()) as f32 / 1e6 };
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventDestroy_v2(event: *mut c_void) -> c_int {
    drop(unsafe { Box::from_raw(event.cast::<u64>()) });
    SUCCESS
}

/// Eleven arguments, integers and floats mixed, so that some travel on the stack: returns their weighted sum. No real
/// driver has it under this name; it takes that of a function of `cust_raw` so that a call goes through the program's
/// own symbol.
#[unsafe(no_mangle)]
extern "C" fn cuMemcpy3DPeer(
    a: i32,
    b: f32,
    c: i32,
    d: f64,
    e: i32,
    f: i32,
    g: i32,
    h: i32,
    i: i32,
    j: i32,
    k: f32,
) -> c_int {
    a + 2 * b as i32 + 3 * c + 4 * d as i32 + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i + 10 * j + 11 * k as i32
}

/// Newer than `cust_raw`. Of a matrix, the map says what it was made of, as 64-bit numbers.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuTensorMapEncodeTiled(
    map: *mut u64,
    data_type: u32,
    rank: u32,
    address: *mut c_void,
    sizes: *const u64,
    strides: *const u64,
    box_sizes: *const u32,
    steps: *const u32,
    interleave: u32,
    swizzle: u32,
    promotion: u32,
    fill: u32,
) -> c_int {
    if let Some(code) = told_to_fail("STAND_IN_TENSOR_MAP_FAILS_WITH") {
        return code;
    }
    if !(map as usize).is_multiple_of(64) || rank != 2 {
        return INVALID_VALUE;
    }
    let said = unsafe {
        [
            data_type.into(),
            rank.into(),
            address as u64,
            *sizes,
            *sizes.add(1),
            *strides,
            (*box_sizes).into(),
            (*box_sizes.add(1)).into(),
            (*steps).into(),
            (*steps.add(1)).into(),
            interleave.into(),
            swizzle.into(),
            promotion.into(),
            fill.into(),
            0,
            0,
        ]
    };
    unsafe { map.cast::<[u64; 16]>().write(said) };
    SUCCESS
}

/// Newer than any binding.
#[unsafe(no_mangle)]
extern "C" fn cuNewerThanBindings() -> c_int {
    INVALID_VALUE
}
