//! A device checks what it is given: modules, launches, copies. On the simulator a kernel's own mistakes are named too.

use gpu_kernels::LaunchShape;
use host::device::{Argument, Device, DeviceError, DeviceSelector};

mod common;

/// Adds 1 to element `index` of `data`; traps for index 77.
const INCREMENT: &str = "
.version 7.0
.target sm_70
.address_size 64
.file 1 \"increment.rs\"
.visible .entry increment(.param .u64 data, .param .u32 index)
{
    .reg .pred %p1;
    .reg .b32 %r<3>;
    .reg .b64 %rd<4>;
    .loc 1 3 5
    ld.param.u64 %rd1, [data];
    ld.param.u32 %r1, [index];
    setp.eq.u32 %p1, %r1, 77;
    .loc 1 4 9
    @%p1 trap;
    cvta.to.global.u64 %rd1, %rd1;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    .loc 1 5 9
    ld.global.u32 %r2, [%rd3];
    add.s32 %r2, %r2, 1;
    st.global.u32 [%rd3], %r2;
    ret;
}
";

const ONE_THREAD: LaunchShape = LaunchShape { grid: [1, 1, 1], block: [1, 1, 1], dynamic_shared_bytes: 0 };

fn simulator() -> Device {
    Device::open(DeviceSelector::Simulator).unwrap()
}

fn increment(device: &Device, data: &[u32], index: u32) -> Result<Vec<u32>, DeviceError> {
    let module = device.load_module(INCREMENT)?;
    let buffer = device.upload(data)?;
    let arguments = [Argument::Pointer(buffer.address()), Argument::U32(index)];
    // SAFETY: the arguments are the kernel's, and only the simulator, which checks every access, gets an index outside
    // the buffer.
    unsafe { device.launch(module, "increment", &ONE_THREAD, &arguments)? };
    buffer.download()
}

#[test]
fn a_module_of_ones_own_runs_on_every_device() {
    for device in common::devices() {
        assert_eq!(increment(&device, &[5, 6, 7], 1).unwrap(), [5, 7, 7]);
    }
}

#[test]
fn an_access_outside_the_buffer_is_named_by_kernel_thread_and_source_line() {
    let text = increment(&simulator(), &[5, 6, 7], 3).unwrap_err().to_string();
    for part in ["increment", "block (0, 0, 0)", "thread (0, 0, 0)", "increment.rs:5:9", "read of 4 bytes"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn a_trap_is_named_by_its_source_line() {
    let text = increment(&simulator(), &[5], 77).unwrap_err().to_string();
    assert!(text.contains("trap") && text.contains("increment.rs:4:9"), "{text}");
}

/// A function without line directives that traps, called from line 8.
const CALLER: &str = "
.version 7.0
.target sm_70
.address_size 64
.file 1 \"caller.rs\"
.func fail()
{
    trap;
}
.visible .entry caller()
{
    .loc 1 8 9
    call fail, ();
    ret;
}
";

#[test]
fn a_fault_in_a_function_without_lines_is_named_by_the_line_that_called_it() {
    let device = simulator();
    let module = device.load_module(CALLER).unwrap();
    // SAFETY: the kernel takes no arguments and touches no memory.
    let error = unsafe { device.launch(module, "caller", &ONE_THREAD, &[]) }.unwrap_err().to_string();
    assert!(error.contains("trap") && error.contains("caller.rs:8:9"), "{error}");
}

#[test]
fn a_device_goes_on_after_a_kernel_failed_on_the_simulator() {
    let device = simulator();
    assert!(increment(&device, &[5], 9).is_err());
    assert_eq!(increment(&device, &[5], 0).unwrap(), [6]);
}

#[test]
fn what_is_not_ptx_is_refused_by_every_device() {
    for device in common::devices() {
        assert!(device.load_module("this is no PTX").is_err());
        assert!(device.load_module(&INCREMENT.replace("add.s32", "frobnicate.s32")).is_err());
    }
    let line = INCREMENT.lines().position(|line| line.contains("add.s32")).unwrap() + 1;
    let error = simulator().load_module(&INCREMENT.replace("add.s32", "frobnicate.s32")).unwrap_err().to_string();
    assert!(error.contains("frobnicate.s32") && error.contains(&format!("line {line}")), "{error}");
}

#[test]
fn launches_that_do_not_fit_the_kernel_are_refused_by_every_device() {
    for device in common::devices() {
        let module = device.load_module(INCREMENT).unwrap();
        let buffer = device.upload(&[1u32]).unwrap();
        let arguments = [Argument::Pointer(buffer.address()), Argument::U32(0)];
        // SAFETY: none of these launches gets as far as running.
        let launch = |entry: &str, shape: LaunchShape| unsafe { device.launch(module, entry, &shape, &arguments) };
        assert!(launch("decrement", ONE_THREAD).is_err());
        assert!(launch("increment", LaunchShape { block: [2000, 1, 1], ..ONE_THREAD }).is_err());
        assert!(launch("increment", LaunchShape { grid: [0, 1, 1], ..ONE_THREAD }).is_err());
        assert!(launch("increment", LaunchShape { grid: [1, 70_000, 1], ..ONE_THREAD }).is_err());
        assert!(launch("increment", LaunchShape { dynamic_shared_bytes: 1 << 20, ..ONE_THREAD }).is_err());
        device.synchronise().unwrap();
        assert_eq!(buffer.download().unwrap(), [1]);
    }
}

#[test]
fn copies_of_another_length_are_refused() {
    for device in common::devices() {
        let mut buffer = device.upload(&[1.0f32, 2.0]).unwrap();
        assert!(matches!(buffer.copy_from(&[1.0; 3]), Err(DeviceError::LengthMismatch { buffer: 2, host: 3 })));
        assert!(matches!(buffer.copy_to(&mut [0.0; 1]), Err(DeviceError::LengthMismatch { buffer: 2, host: 1 })));
        assert_eq!(buffer.download().unwrap(), [1.0, 2.0]);
    }
}

#[test]
fn more_memory_than_there_is_is_refused_with_the_figures() {
    for device in common::devices() {
        let total = device.info().total_memory;
        let elements = usize::try_from(total / 4 + 1).unwrap();
        let Err(DeviceError::OutOfMemory { needed, free, .. }) = device.allocate::<f32>(elements) else {
            panic!("an allocation larger than the device must fail");
        };
        assert!(needed > free);
        assert!(device.allocate::<f64>(usize::MAX).is_err());
    }
}

#[test]
fn memory_comes_back_when_a_buffer_is_dropped() {
    let device = simulator();
    let before = device.info().free_memory;
    let buffer = device.upload(&vec![0u64; 1000]).unwrap();
    assert_eq!(device.info().free_memory, before - 8000);
    drop(buffer);
    assert_eq!(device.info().free_memory, before);
}
