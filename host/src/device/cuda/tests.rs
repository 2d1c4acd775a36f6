//! What the GPU's door makes of a driver's answers, tried on a stand-in for the driver (see its source in the crate
//! `libcuda`), so that it's tested on machines without a GPU too. The arithmetic of kernels is tested elsewhere, on
//! real devices.
//!
//! A process loads the driver once, so each test runs its body in a process of its own.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use ptx_simulator::{Swizzle, TensorElement, TensorMapError};

use super::*;

const CHILD: &str = "HOST_CUDA_TEST_BODY";

/// Runs `body` in a fresh process whose driver is the stand-in. `test` is the calling test's name.
fn on_stand_in(test: &str, settings: &[(&str, &str)], body: fn()) {
    on_stand_in_from(module_path!(), test, settings, body);
}

/// The same for a test of another module, which is `module_path!()` there.
pub(in crate::device) fn on_stand_in_from(module: &str, test: &str, settings: &[(&str, &str)], body: fn()) {
    if std::env::var(CHILD).is_ok_and(|child| child == test) {
        return body();
    }
    let path = module.split_once("::").unwrap().1;
    let output = Command::new(std::env::current_exe().unwrap())
        .args([&format!("{path}::{test}"), "--exact", "--nocapture"])
        .env(CHILD, test)
        .env("LD_LIBRARY_PATH", stand_in())
        .envs(settings.iter().copied())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{test} failed in its own process:\n{text}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{test} is not the name of this test");
}

/// The folder with the stand-in, compiled once in this run.
fn stand_in() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let executable = std::env::current_exe().unwrap();
        let folder = executable.with_file_name("stand-in-driver");
        std::fs::create_dir_all(&folder).unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../libcuda/tests/stand_in/driver.rs");
        let compiler = std::env::var("RUSTC").unwrap_or("rustc".into());
        let arguments = ["--edition=2024", "--crate-type=cdylib", "--crate-name=libcuda", "-o"];
        // Moved into place whole: another run of the tests may be using it.
        let unfinished = folder.join(std::process::id().to_string());
        assert!(Command::new(compiler).args(arguments).args([&unfinished, &source]).status().unwrap().success());
        std::fs::rename(unfinished, folder.join("libcuda.so.1")).unwrap();
        folder
    })
}

pub(in crate::device) const PTX: &str = ".version 6.0\n.target sm_70\n.visible .entry copy(\n.param .u64 from, .param .u64 .ptr to,\n\
                   .param .u32 bytes,\n.param .f32 add\n)\n.visible .entry fault()\n";

pub(in crate::device) fn shape(threads: u32, dynamic_shared_bytes: u32) -> LaunchShape {
    LaunchShape { grid: [1, 1, 1], block: [threads, 1, 1], dynamic_shared_bytes }
}

fn open() -> CudaBackend {
    CudaBackend::open(None).unwrap()
}

/// Launches a kernel on the device's own stream.
fn launch(
    gpu: &CudaBackend,
    module: ModuleId,
    entry: &str,
    shape: &LaunchShape,
    arguments: &[Argument],
) -> Result<(), DeviceError> {
    gpu.launch(&gpu.kernel(module, entry)?, RawStream::DEFAULT, shape, arguments)
}

/// Launches `copy`, which adds the whole part of `add` to each byte on the way.
fn copy(gpu: &CudaBackend, module: ModuleId, from: u64, to: u64, bytes: u32, add: f32) -> Result<(), DeviceError> {
    let arguments = [Argument::Pointer(from), Argument::U64(to), Argument::U32(bytes), Argument::F32(add)];
    launch(gpu, module, "copy", &shape(32, 0), &arguments)
}

/// The kernel and the reason of an error that must be `LaunchFailed`.
fn launch_failed<T: std::fmt::Debug>(result: Result<T, DeviceError>) -> (String, String) {
    match result {
        Err(DeviceError::LaunchFailed { kernel, reason }) => (kernel, reason),
        other => panic!("expected LaunchFailed, got {other:?}"),
    }
}

#[test]
fn bytes_go_to_the_device_through_a_kernel_and_back() {
    on_stand_in("bytes_go_to_the_device_through_a_kernel_and_back", &[], || {
        let gpu = open();
        let (from, to) = (gpu.allocate(5).unwrap(), gpu.allocate(5).unwrap());
        gpu.copy_to_device(from, &[1, 2, 3, 4, 255]).unwrap();
        let module = gpu.load_module(PTX).unwrap();
        copy(&gpu, module, from, to, 5, 2.5).unwrap();
        gpu.synchronise().unwrap();
        let mut bytes = [0; 5];
        gpu.copy_from_device(&mut bytes, to).unwrap();
        assert_eq!(bytes, [3, 4, 5, 6, 1]);
        gpu.free(from);
        gpu.free(to);
        let info = gpu.info();
        assert_eq!(info.free_memory, info.total_memory);
    });
}

#[test]
fn a_device_works_from_threads_that_never_saw_its_context() {
    on_stand_in("a_device_works_from_threads_that_never_saw_its_context", &[], || {
        let gpu = std::thread::spawn(open).join().unwrap();
        let address = std::thread::scope(|scope| scope.spawn(|| gpu.allocate(8).unwrap()).join().unwrap());
        std::thread::scope(|scope| scope.spawn(|| gpu.copy_to_device(address, &[7; 8])).join().unwrap()).unwrap();
        let mut bytes = [0; 8];
        gpu.copy_from_device(&mut bytes, address).unwrap();
        assert_eq!(bytes, [7; 8]);
        std::thread::spawn(move || drop(gpu)).join().unwrap();
    });
}

#[test]
fn work_is_timed_by_the_devices_clock() {
    on_stand_in("work_is_timed_by_the_devices_clock", &[], || {
        let gpu = open();
        let address = gpu.allocate(1).unwrap();
        let module = gpu.load_module(PTX).unwrap();
        let mut work = || {
            copy(&gpu, module, address, address, 1, 0.0)?;
            copy(&gpu, module, address, address, 1, 0.0)
        };
        assert_eq!(gpu.time(RawStream::DEFAULT, &mut work).unwrap(), Duration::from_millis(2));
        assert_eq!(gpu.time(RawStream::DEFAULT, &mut || Ok(())).unwrap(), Duration::ZERO);
        let error = gpu.time(RawStream::DEFAULT, &mut || launch(&gpu, module, "nothing", &shape(1, 0), &[]));
        assert_eq!(launch_failed(error).0, "nothing");
    });
}

#[test]
fn a_fault_names_the_kernel_and_what_it_did_then_and_ever_after() {
    on_stand_in("a_fault_names_the_kernel_and_what_it_did_then_and_ever_after", &[], || {
        let gpu = open();
        let address = gpu.allocate(1).unwrap();
        let module = gpu.load_module(PTX).unwrap();
        copy(&gpu, module, address, address, 1, 0.0).unwrap();
        gpu.synchronise().unwrap();
        launch(&gpu, module, "fault", &shape(1, 0), &[]).unwrap();
        let (kernel, reason) = launch_failed(gpu.synchronise());
        assert_eq!(kernel, "fault", "the kernel before it is known to have run well");
        assert!(reason.contains("outside every allocation"), "{reason}");
        assert!(reason.contains("CUDA_ERROR_ILLEGAL_ADDRESS"), "{reason}");
        let again = (kernel, reason);
        assert_eq!(launch_failed(gpu.synchronise()), again);
        assert_eq!(launch_failed(gpu.allocate(1)), again);
        assert_eq!(launch_failed(gpu.copy_from_device(&mut [0], address)), again);
        assert_eq!(launch_failed(copy(&gpu, module, address, address, 1, 0.0)), again);
        assert_eq!(launch_failed(gpu.load_module(PTX)), again);
        gpu.free(address);
    });
}

#[test]
fn a_fault_among_several_kernels_names_them_all() {
    on_stand_in("a_fault_among_several_kernels_names_them_all", &[], || {
        let gpu = open();
        let address = gpu.allocate(1).unwrap();
        let module = gpu.load_module(PTX).unwrap();
        copy(&gpu, module, address, address, 1, 0.0).unwrap();
        copy(&gpu, module, address, address, 1, 0.0).unwrap();
        launch(&gpu, module, "fault", &shape(1, 0), &[]).unwrap();
        assert_eq!(launch_failed(gpu.copy_from_device(&mut [0], address)).0, "copy or fault");
    });
}

#[test]
fn a_rejected_module_comes_with_the_compilers_words() {
    on_stand_in("a_rejected_module_comes_with_the_compilers_words", &[], || {
        let gpu = open();
        let error = gpu.load_module("nonsense").unwrap_err().to_string();
        assert!(error.contains("ptx input, line 1; fatal   : no entry"), "{error}");
        assert!(error.contains("compute capability 9.0"), "{error}");
        let error = gpu.load_module("zero\0byte").unwrap_err().to_string();
        assert!(error.contains("a zero byte at position 4"), "{error}");
    });
}

#[test]
fn too_large_an_allocation_says_what_was_needed_and_free() {
    on_stand_in("too_large_an_allocation_says_what_was_needed_and_free", &[], || {
        let gpu = open();
        let _address = gpu.allocate(1 << 29).unwrap();
        let error = gpu.allocate(1 << 31).unwrap_err();
        assert_eq!(error.to_string(), "out of device memory: 2.0 GiB needed, 512.0 MiB free of 1.0 GiB");
        assert!(gpu.allocate(8).is_ok(), "the device goes on working");
    });
}

#[test]
fn more_than_48_kib_of_shared_memory_is_asked_for_and_too_much_is_refused() {
    on_stand_in("more_than_48_kib_of_shared_memory_is_asked_for_and_too_much_is_refused", &[], || {
        let gpu = open();
        let address = gpu.allocate(1).unwrap();
        let module = gpu.load_module(PTX).unwrap();
        let launch_with = |bytes| {
            let pointer = Argument::Pointer(address);
            launch(&gpu, module, "copy", &shape(32, bytes), &[pointer, pointer, Argument::U32(1), Argument::F32(0.0)])
        };
        // The stand-in's kernels declare 2 KiB themselves.
        for kibibytes in [0, 46, 47, 100, 64, 227] {
            launch_with(kibibytes << 10).unwrap_or_else(|error| panic!("{kibibytes} KiB: {error}"));
        }
        let (_, reason) = launch_failed(launch_with(228 << 10));
        assert!(reason.contains("declares 2048 bytes"), "{reason}");
        assert!(reason.contains("233472 more; this GPU has 232448"), "{reason}");
    });
}

#[test]
fn arguments_that_the_kernel_does_not_take_are_refused_before_it_runs() {
    on_stand_in("arguments_that_the_kernel_does_not_take_are_refused_before_it_runs", &[], || {
        let gpu = open();
        let module = gpu.load_module(PTX).unwrap();
        let reason = |arguments: &[Argument]| launch_failed(launch(&gpu, module, "copy", &shape(1, 0), arguments)).1;
        assert_eq!(reason(&[]), "it takes 4 arguments and was given 0");
        let pointer = Argument::Pointer(0);
        assert_eq!(
            reason(&[pointer, pointer, Argument::U64(1), Argument::F32(0.0)]),
            "its argument 2 takes 4 bytes, and U64(1) has 8"
        );
        gpu.synchronise().unwrap();
    });
}

#[test]
fn impossible_launches_are_refused_with_the_reason() {
    on_stand_in("impossible_launches_are_refused_with_the_reason", &[], || {
        let gpu = open();
        let module = gpu.load_module(PTX).unwrap();
        let reason = |module, entry, shape| launch_failed(launch(&gpu, module, entry, &shape, &[])).1;
        assert!(reason(module, "absent", shape(1, 0)).contains("no entry point of that name"));
        assert!(reason(module, "zero\0byte", shape(1, 0)).contains("zero byte"));
        assert!(reason(ModuleId(9), "fault", shape(1, 0)).contains("isn't loaded"));
        assert!(
            reason(module, "fault", shape(2048, 0))
                .contains("2048 threads was asked for; this GPU can run it with up to 1024")
        );
        assert!(reason(module, "fault", shape(0, 0)).contains("(0, 1, 1) threads"));
        gpu.synchronise().unwrap();
    });
}

#[test]
fn a_device_tells_what_it_is() {
    on_stand_in("a_device_tells_what_it_is", &[], || {
        assert_eq!(device_count().unwrap(), 1);
        let info = open().info();
        assert_eq!(info.name, "Stand-in");
        assert_eq!(info.kind, DeviceKind::Cuda { ordinal: 0 });
        assert_eq!((info.free_memory, info.total_memory), (1 << 30, 1 << 30));
        let row = |label: &str| info.detail.iter().find(|row| row.0 == label).map(|row| row.1.as_str());
        assert_eq!(row("compute capability"), Some("9.0"));
        assert_eq!(row("multiprocessors"), Some("132"));
        assert_eq!(row("clock"), Some("1980 MHz"));
        assert_eq!(row("L2 cache"), Some("52428800 bytes"));
        assert_eq!(row("shared memory per block"), Some("232448 bytes"));
        assert!(row("driver").unwrap().ends_with("for CUDA up to 13.1"));
    });
}

#[test]
fn a_device_number_that_does_not_exist_is_refused() {
    on_stand_in("a_device_number_that_does_not_exist_is_refused", &[], || {
        let error = CudaBackend::open(Some(3)).err().unwrap();
        assert!(matches!(error, DeviceError::NoSuchDevice { ordinal: 3, count: 1 }), "{error}");
    });
}

#[test]
fn a_driver_that_sees_no_gpu_is_no_device() {
    on_stand_in("a_driver_that_sees_no_gpu_is_no_device", &[("STAND_IN_INIT_FAILS_WITH", "100")], || {
        assert!(matches!(device_count(), Err(DeviceError::NoDevice)));
        assert!(matches!(CudaBackend::open(None).err(), Some(DeviceError::NoDevice)));
    });
}

#[test]
fn a_toolkits_stub_is_no_driver() {
    on_stand_in("a_toolkits_stub_is_no_driver", &[("STAND_IN_INIT_FAILS_WITH", "34")], || {
        let error = device_count().unwrap_err();
        assert!(matches!(error, DeviceError::NoDriver { .. }), "{error}");
        assert!(error.to_string().contains("stub"), "{error}");
    });
}

#[test]
fn a_driver_that_fails_to_start_says_why() {
    on_stand_in("a_driver_that_fails_to_start_says_why", &[("STAND_IN_INIT_FAILS_WITH", "803")], || {
        assert_eq!(
            device_count().unwrap_err().to_string(),
            "the CUDA driver's cuInit failed: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, \
             system has unsupported display driver / cuda driver combination (error 803). `--device sim` runs without a GPU"
        );
    });
}

#[test]
fn a_gpu_that_another_process_has_to_itself_says_so() {
    on_stand_in("a_gpu_that_another_process_has_to_itself_says_so", &[("STAND_IN_CONTEXT_FAILS_WITH", "46")], || {
        let error = CudaBackend::open(None).err().unwrap().to_string();
        assert!(error.contains("CUDA_ERROR_DEVICE_UNAVAILABLE"), "{error}");
        assert!(error.contains("busy or unavailable"), "{error}");
    });
}

#[test]
fn without_a_driver_opening_a_gpu_says_so_in_words() {
    if libcuda::load().is_ok() {
        // This machine has one.
        return;
    }
    let error = CudaBackend::open(None).err().unwrap();
    assert!(matches!(error, DeviceError::NoDriver { .. }), "{error}");
    assert!(error.to_string().contains("--device sim"), "{error}");
    assert!(matches!(device_count(), Err(DeviceError::NoDriver { .. })));
}

#[test]
fn work_on_a_stream_of_its_own_is_waited_for_alone_or_with_all_other() {
    on_stand_in("work_on_a_stream_of_its_own_is_waited_for_alone_or_with_all_other", &[], || {
        let gpu = open();
        let address = gpu.allocate(1).unwrap();
        let module = gpu.load_module(PTX).unwrap();
        let (copy, fault) = (gpu.kernel(module, "copy").unwrap(), gpu.kernel(module, "fault").unwrap());
        let stream = gpu.new_stream().unwrap();
        assert_ne!(gpu.cuda_stream(stream).unwrap(), gpu.cuda_stream(RawStream::DEFAULT).unwrap());
        let arguments = [Argument::Pointer(address), Argument::Pointer(address), Argument::U32(1), Argument::F32(0.0)];
        gpu.launch(&copy, RawStream::DEFAULT, &shape(32, 0), &arguments).unwrap();
        let event = gpu.record_event(RawStream::DEFAULT).unwrap();
        gpu.wait_for_event(stream, event).unwrap();
        gpu.synchronise_event(event).unwrap();
        gpu.destroy_event(event);
        gpu.launch(&copy, stream, &shape(32, 0), &arguments).unwrap();
        // That waits for the new stream's kernel, not for the other's.
        gpu.synchronise_stream(stream).unwrap();
        gpu.launch(&fault, stream, &shape(1, 0), &[]).unwrap();
        assert_eq!(launch_failed(gpu.synchronise_stream(stream)).0, "copy or fault");
        gpu.destroy_stream(stream);
    });
}

#[test]
fn a_kernel_that_is_known_to_have_run_well_can_be_launched_and_blamed_again() {
    on_stand_in("a_kernel_that_is_known_to_have_run_well_can_be_launched_and_blamed_again", &[], || {
        let gpu = open();
        let address = gpu.allocate(1).unwrap();
        let module = gpu.load_module(PTX).unwrap();
        for _ in 0..2 {
            copy(&gpu, module, address, address, 1, 0.0).unwrap();
            copy(&gpu, module, address, address, 1, 0.0).unwrap();
            assert_eq!(lock(&gpu.history).running.len(), 1);
            gpu.synchronise().unwrap();
            assert!(lock(&gpu.history).running.is_empty());
        }
    });
}

#[test]
fn rows_are_copied_without_what_is_between_them() {
    on_stand_in("rows_are_copied_without_what_is_between_them", &[], || {
        let gpu = open();
        let address = gpu.allocate(6).unwrap();
        let from = [1u8, 2, 99, 3, 4, 99, 5, 6];
        // SAFETY: three rows of two bytes, three apart, are inside the eight.
        unsafe {
            let rows = HostRows { start: from.as_ptr(), pitch: 3, bytes: 2, rows: 3 };
            gpu.copy_rows_to_device(address, rows).unwrap();
        }
        let mut packed = [0; 6];
        gpu.copy_from_device(&mut packed, address).unwrap();
        assert_eq!(packed, [1, 2, 3, 4, 5, 6]);
        let mut to = [0u8; 10];
        // SAFETY: three rows of two bytes, four apart, are inside the ten.
        unsafe {
            let rows = HostRows { start: to.as_mut_ptr(), pitch: 4, bytes: 2, rows: 3 };
            gpu.copy_rows_from_device(rows, address).unwrap();
        }
        assert_eq!(to, [1, 2, 0, 0, 3, 4, 0, 0, 5, 6]);
    });
}

#[test]
fn a_struct_is_passed_by_value_with_its_size_checked() {
    on_stand_in("a_struct_is_passed_by_value_with_its_size_checked", &[], || {
        let gpu = open();
        let (from, to) = (gpu.allocate(1).unwrap(), gpu.allocate(1).unwrap());
        gpu.copy_to_device(from, &[7]).unwrap();
        let module = gpu.load_module(PTX).unwrap();
        let [from, to] = [from, to].map(u64::to_le_bytes);
        let rest = [Argument::U32(1), Argument::F32(1.0)];
        let arguments = [Argument::Bytes(&from), Argument::Bytes(&to), rest[0], rest[1]];
        launch(&gpu, module, "copy", &shape(1, 0), &arguments).unwrap();
        let mut byte = [0];
        gpu.copy_from_device(&mut byte, u64::from_le_bytes(to)).unwrap();
        assert_eq!(byte, [8]);
        let wrong = [Argument::Bytes(&from), Argument::Bytes(&to[..7]), rest[0], rest[1]];
        let (_, reason) = launch_failed(launch(&gpu, module, "copy", &shape(1, 0), &wrong));
        assert!(reason.starts_with("its argument 1 takes 8 bytes"), "{reason}");
    });
}

/// A row-major matrix of 100 columns of bf16 and 70 rows, with a gap after each, in boxes of 64 columns and 128 rows.
fn tensor() -> TensorMapLayout {
    TensorMapLayout {
        element: TensorElement::BF16,
        address: 0x1000,
        sizes: vec![100, 70],
        strides: vec![208],
        box_sizes: vec![64, 128],
        swizzle: Swizzle::Bytes128,
    }
}

#[test]
fn tensor_maps_are_made_by_the_driver() {
    on_stand_in("tensor_maps_are_made_by_the_driver", &[], || {
        let map = open().tensor_map(&tensor()).unwrap();
        let said: Vec<_> = map.chunks(8).map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap())).collect();
        // CU_TENSOR_MAP_DATA_TYPE_BFLOAT16; steps of 1; no interleaving, CU_TENSOR_MAP_SWIZZLE_128B,
        // CU_TENSOR_MAP_L2_PROMOTION_L2_128B, and zeros outside.
        assert_eq!(said, [9, 2, 0x1000, 100, 70, 208, 64, 128, 1, 1, 0, 3, 2, 0, 0, 0]);
    });
}

#[test]
fn a_tensor_map_that_breaks_a_rule_is_refused_before_the_driver_sees_it() {
    on_stand_in("a_tensor_map_that_breaks_a_rule_is_refused_before_the_driver_sees_it", &[], || {
        let error = open().tensor_map(&TensorMapLayout { strides: vec![200], ..tensor() }).unwrap_err();
        assert!(matches!(error, DeviceError::TensorMap(TensorMapError::Stride { stride: 200, .. })), "{error}");
    });
}

#[test]
fn a_tensor_map_that_the_driver_refuses_is_shown() {
    const SETTING: (&str, &str) = ("STAND_IN_TENSOR_MAP_FAILS_WITH", "1");
    on_stand_in("a_tensor_map_that_the_driver_refuses_is_shown", &[SETTING], || {
        let error = open().tensor_map(&tensor()).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("BF16") && text.contains("9.0"), "{text}");
    });
}
