//! What a program linked against this crate may count on, with a driver, without one, and with a broken one.
//!
//! A process loads the driver once, so each test runs its body in a process of its own, with the library it wants in
//! front of the loader's.

use std::ffi::c_int;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use cust::sys;
use libcuda::LoadError;

const CHILD: &str = "LIBCUDA_TEST_BODY";

/// Runs `body` in a fresh process that finds `library` as its libcuda.so.1, whatever the machine has. `test` is the
/// calling test's name.
fn with_library(test: &str, library: Option<fn() -> PathBuf>, body: fn()) {
    if std::env::var(CHILD).is_ok_and(|child| child == test) {
        return body();
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture"]).env(CHILD, test);
    if let Some(library) = library {
        command.env("LD_LIBRARY_PATH", library().parent().unwrap());
    }
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{test} failed in its own process:\n{text}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{test} is not the name of this test");
}

/// A folder for one of the libraries that the tests make.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Compiles a Rust source to a libcuda.so.1 in a folder of that name.
fn compile(name: &str, source: &Path) -> PathBuf {
    let library = folder(name).join("libcuda.so.1");
    // Moved into place whole: another run of the tests may be using it.
    let unfinished = library.with_extension(std::process::id().to_string());
    let compiler = std::env::var("RUSTC").unwrap_or("rustc".into());
    let arguments = ["--edition=2024", "--crate-type=cdylib", "--crate-name=libcuda", "-o"];
    assert!(Command::new(compiler).args(arguments).args([&unfinished, source]).status().unwrap().success());
    std::fs::rename(unfinished, &library).unwrap();
    library
}

/// The stand-in driver.
fn stand_in() -> PathBuf {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stand_in/driver.rs");
    LIBRARY.get_or_init(|| compile("stand-in", &source)).clone()
}

/// A library of the driver's name that isn't the driver.
fn impostor() -> PathBuf {
    let source = folder("impostor").join("impostor.rs");
    std::fs::write(&source, "#[unsafe(no_mangle)] extern \"C\" fn cuInit() {}").unwrap();
    compile("impostor", &source)
}

/// A file of the driver's name that is no library.
fn broken() -> PathBuf {
    let library = folder("broken").join("libcuda.so.1");
    std::fs::write(&library, "this is not a library, and long enough not to be called too short: ".repeat(64)).unwrap();
    library
}

#[test]
fn every_function_of_cust_raw_is_this_crates() {
    let mut count = 0;
    macro_rules! compare {
        ($($name:ident)*) => {$(
            assert_eq!(sys::$name as *const () as usize, libcuda::symbol::$name as *const () as usize, stringify!($name));
            count += 1;
        )*};
    }
    libcuda::for_driver_functions!(compare);
    assert_eq!(count, 353, "cust_raw 0.11.3 declares 353 functions");
}

#[test]
fn the_program_asks_the_systems_loader_for_no_cuda_library() {
    // The loader lists what it would load, and runs nothing.
    let output = Command::new(std::env::current_exe().unwrap()).env("LD_TRACE_LOADED_OBJECTS", "1").output().unwrap();
    let libraries = String::from_utf8_lossy(&output.stdout);
    assert!(libraries.contains("libc.so"), "{libraries}");
    assert!(!libraries.contains("cuda"), "{libraries}");
}

#[test]
fn without_a_driver_loading_says_so_and_calls_return_stub_library() {
    with_library("without_a_driver_loading_says_so_and_calls_return_stub_library", None, || {
        match libcuda::load() {
            Err(error @ LoadError::NotInstalled) => {
                assert_eq!(error.to_string(), "no NVIDIA driver is installed (libcuda.so.1 was not found)");
            }
            // Machines with a driver are tested for what they have.
            answer => return assert!(answer.is_ok(), "{answer:?}"),
        }
        assert!(!libcuda::is_loaded());
        assert!(libcuda::driver_version().is_err());
        // SAFETY: without a driver none of these looks at its arguments.
        unsafe {
            assert_eq!(sys::cuInit(0) as c_int, libcuda::STUB_LIBRARY);
            assert_eq!(sys::cuCtxSynchronize() as c_int, libcuda::STUB_LIBRARY);
            assert_eq!(sys::cuMemFree_v2(0) as c_int, libcuda::STUB_LIBRARY);
            assert_eq!(sys::cuDriverGetVersion(&mut 0) as c_int, libcuda::STUB_LIBRARY);
        }
        assert!(cust::init(cust::CudaFlags::empty()).is_err());
    });
}

#[test]
fn a_broken_library_is_an_error_that_names_it() {
    with_library("a_broken_library_is_an_error_that_names_it", Some(broken), || {
        let error = libcuda::load().unwrap_err();
        assert!(matches!(error, LoadError::Unusable { .. }), "{error}");
        assert!(error.to_string().contains("libcuda.so.1"), "{error}");
        assert!(error.to_string().contains("invalid ELF header"), "{error}");
        assert_eq!(libcuda::load().unwrap_err(), error, "the answer stays the same");
        // SAFETY: without a driver it looks at nothing.
        assert_eq!(unsafe { sys::cuCtxSynchronize() } as c_int, libcuda::STUB_LIBRARY);
    });
}

#[test]
fn another_library_of_that_name_is_refused() {
    with_library("another_library_of_that_name_is_refused", Some(impostor), || {
        let error = libcuda::load().unwrap_err().to_string();
        assert!(error.contains("it has no function cuDriverGetVersion"), "{error}");
        // SAFETY: without a driver it looks at nothing.
        assert_eq!(unsafe { sys::cuInit(0) } as c_int, libcuda::STUB_LIBRARY);
    });
}

#[test]
fn a_first_call_of_cu_init_loads_the_driver() {
    with_library("a_first_call_of_cu_init_loads_the_driver", Some(stand_in), || {
        assert!(!libcuda::is_loaded());
        assert!(cust::init(cust::CudaFlags::empty()).is_ok());
        assert!(libcuda::is_loaded());
        assert_eq!(cust::device::Device::num_devices(), Ok(1));
    });
}

#[test]
fn the_version_may_be_asked_first() {
    with_library("the_version_may_be_asked_first", Some(stand_in), || {
        let version = cust::CudaApiVersion::get().unwrap();
        assert_eq!((version.major(), version.minor()), (13, 1));
        assert_eq!(libcuda::driver_version().unwrap().to_string(), "13.1");
    });
}

#[test]
fn custs_error_texts_work_once_there_is_a_driver() {
    with_library("custs_error_texts_work_once_there_is_a_driver", Some(stand_in), || {
        assert!(cust::error::CudaError::IllegalAddress.to_string().contains("illegal memory access"));
        let driver = libcuda::load().unwrap();
        assert_eq!(driver.error_name(700), Some("CUDA_ERROR_ILLEGAL_ADDRESS"));
        assert_eq!(driver.error_text(700), Some("an illegal memory access was encountered"));
        assert_eq!(driver.error_name(12345), None);
    });
}

#[test]
fn arguments_in_registers_and_on_the_stack_arrive() {
    with_library("arguments_in_registers_and_on_the_stack_arrive", Some(stand_in), || {
        libcuda::load().unwrap();
        type Sum = unsafe extern "C" fn(i32, f32, i32, f64, i32, i32, i32, i32, i32, i32, f32) -> c_int;
        // SAFETY: the stand-in's function of this name has this signature.
        let sum: Sum = unsafe { std::mem::transmute(sys::cuMemcpy3DPeer as *const ()) };
        // SAFETY: it takes any numbers.
        let answer = unsafe { sum(1, 2.0, 3, 4.0, 5, 6, 7, 8, 9, 10, 11.0) };
        assert_eq!(answer, (1..=11).map(|i| i * i).sum());
    });
}

#[test]
fn a_function_that_the_driver_lacks_returns_not_found() {
    with_library("a_function_that_the_driver_lacks_returns_not_found", Some(stand_in), || {
        let driver = libcuda::load().unwrap();
        assert!(driver.missing().contains(&"cuMipmappedArrayDestroy"));
        assert!(!driver.missing().contains(&"cuInit"));
        // SAFETY: the stand-in has no such function, so nothing looks at the arguments.
        let answer = unsafe { sys::cuMipmappedArrayDestroy(std::ptr::null_mut()) };
        assert_eq!(answer as c_int, libcuda::NOT_FOUND);
    });
}

#[test]
fn functions_newer_than_cust_raw_are_found_by_name() {
    with_library("functions_newer_than_cust_raw_are_found_by_name", Some(stand_in), || {
        let driver = libcuda::load().unwrap();
        // SAFETY: the types are the stand-in's.
        let found = unsafe { driver.function::<extern "C" fn() -> c_int>(c"cuNewerThanBindings") };
        assert_eq!(found.unwrap()(), 1);
        // SAFETY: as above.
        assert!(unsafe { driver.function::<extern "C" fn() -> c_int>(c"cuNoSuchFunction") }.is_none());
    });
}

#[test]
fn threads_that_load_at_once_get_one_driver() {
    with_library("threads_that_load_at_once_get_one_driver", Some(stand_in), || {
        let addresses: Vec<usize> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..16)
                .map(|_| {
                    scope.spawn(|| {
                        cust::init(cust::CudaFlags::empty()).unwrap();
                        std::ptr::from_ref(libcuda::load().unwrap()) as usize
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(addresses.iter().all(|&address| address == addresses[0]));
    });
}
