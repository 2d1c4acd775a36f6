//! The CUDA driver's functions, looked up when the program runs instead of when it is linked.
//!
//! The driver, `libcuda.so.1`, comes with NVIDIA's kernel module and is on machines with a GPU only. A program linked
//! against it the usual way doesn't start anywhere else, and linking it takes a CUDA toolkit. This crate defines every
//! function that `cust_raw` declares, so that the linker asks for neither, and forwards each to the driver once that
//! is loaded. `cust`, on top, notices nothing.
//!
//! | file | job |
//! |---|---|
//! | `names.rs` | the list of functions |
//! | `entry.rs` | for each: the symbol, and the slot it jumps through |
//! | `lib.rs` | finds the driver, fills the slots |
//! | `../lib64/libcuda.a` | an empty archive, for the `-lcuda` that `cust_raw` asks of the linker |
//!
//! `CUDA_LIBRARY_PATH` in the workspace's `.cargo/config.toml` is what leads `cust_raw` to that archive.
//!
//! # Without a driver
//! [`load`] says so, and every driver function returns `CUDA_ERROR_STUB_LIBRARY` (34) and does nothing else. Beware of
//! `cust`'s `Display` for its errors, which asks the driver for the text and panics when there is none to ask.
//!
//! # With an old driver
//! A function that the driver doesn't have returns `CUDA_ERROR_NOT_FOUND` (500). [`Driver::missing`] lists them.
//!
//! # With a new one
//! Functions that `cust_raw` doesn't know are there by name and type: [`Driver::function`].
//!
//! # Example
//! ```
//! match libcuda::load() {
//!     Ok(driver) => println!("{}, for CUDA up to {:?}", driver.library(), driver.version()),
//!     Err(error) => println!("no GPU here: {error}"),
//! }
//! ```

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
compile_error!("libcuda forwards to the NVIDIA driver on Linux for x86-64 and AArch64; no other platform is supported");

mod entry;
mod names;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::OnceLock;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

#[doc(hidden)]
pub use entry::symbol;
pub use entry::{NOT_FOUND, STUB_LIBRARY};

/// The driver's library, by the name that its packages register with the system's loader.
const LIBRARY: &str = "libcuda.so.1";

/// Where systems keep the library without telling their loader: the Windows Subsystem for Linux, and NixOS.
const UNREGISTERED: [&str; 2] = ["/usr/lib/wsl/lib/libcuda.so.1", "/run/opengl-driver/lib/libcuda.so.1"];

static DRIVER: OnceLock<Result<Driver, LoadError>> = OnceLock::new();

/// Finds and loads the driver, and connects every driver function of this program to it.
///
/// The first call does the work; later ones, from any thread, get the first one's answer. Loading doesn't touch a GPU:
/// `cuInit` does.
///
/// # Errors
/// [`LoadError`] if the driver isn't installed or its library can't be used. The answer is final for this process.
pub fn load() -> Result<&'static Driver, LoadError> {
    DRIVER.get_or_init(Driver::load).as_ref().map_err(LoadError::clone)
}

/// The driver, if a call of [`load`] has loaded it already. Never loads it.
pub fn loaded() -> Option<&'static Driver> {
    DRIVER.get()?.as_ref().ok()
}

/// Whether a call of [`load`] has loaded the driver already.
pub fn is_loaded() -> bool {
    loaded().is_some()
}

/// Loads the driver and asks it for the newest CUDA version that it supports.
///
/// # Errors
/// [`LoadError`] as for [`load`], or if the driver doesn't answer.
pub fn driver_version() -> Result<CudaVersion, LoadError> {
    let driver = load()?;
    driver.version().map_err(|code| LoadError::Unusable {
        library: driver.library.clone(),
        reason: format!("cuDriverGetVersion failed with error {code}"),
    })
}

/// Why there is no driver.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The system has no such library.
    #[error("no NVIDIA driver is installed ({LIBRARY} was not found)")]
    NotInstalled,
    /// There is a library, but it can't be loaded or isn't the driver's.
    #[error("the NVIDIA driver can't be used: {library}: {reason}")]
    Unusable {
        /// Its name or path.
        library: String,
        /// What the system's loader, or the library itself, had to say.
        reason: String,
    },
}

/// A CUDA version as drivers report it. Displays as `13.0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CudaVersion {
    /// The number before the dot.
    pub major: u32,
    /// The number after the dot.
    pub minor: u32,
}

impl fmt::Display for CudaVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)
    }
}

/// The loaded driver. There is one at most, and it stays for the rest of the process.
#[derive(Debug)]
pub struct Driver {
    handle: Library,
    library: String,
    missing: Vec<&'static str>,
}

impl Driver {
    /// The name or path that the library was found under.
    pub fn library(&self) -> &str {
        &self.library
    }

    /// The functions of `cust_raw` that this driver doesn't have.
    pub fn missing(&self) -> &[&'static str] {
        &self.missing
    }

    /// The newest CUDA version that the driver supports.
    ///
    /// # Errors
    /// The driver's error code.
    pub fn version(&self) -> Result<CudaVersion, i32> {
        type GetVersion = unsafe extern "C" fn(*mut c_int) -> c_int;
        // SAFETY: the type is cuDriverGetVersion's.
        let get_version = unsafe { self.function::<GetVersion>(c"cuDriverGetVersion") }.ok_or(NOT_FOUND)?;
        let mut version = 0;
        // SAFETY: the pointer is to a c_int that outlives the call; the function may be called before cuInit.
        match unsafe { get_version(&mut version) } {
            0 => {
                Ok(CudaVersion { major: (version / 1000).unsigned_abs(), minor: (version % 1000 / 10).unsigned_abs() })
            }
            code => Err(code),
        }
    }

    /// The driver's name for an error code, such as `CUDA_ERROR_ILLEGAL_ADDRESS`. `None` if it has none for it.
    pub fn error_name(&self, code: i32) -> Option<&'static str> {
        self.describe(c"cuGetErrorName", code)
    }

    /// The driver's description of an error code, such as `an illegal memory access was encountered`. `None` if it has
    /// none for it.
    pub fn error_text(&self, code: i32) -> Option<&'static str> {
        self.describe(c"cuGetErrorString", code)
    }

    fn describe(&self, function: &CStr, code: c_int) -> Option<&'static str> {
        type GetText = unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int;
        // SAFETY: the type is that of cuGetErrorName and cuGetErrorString, which are the two names this is called with.
        let get_text = unsafe { self.function::<GetText>(function) }?;
        let mut text = std::ptr::null();
        // SAFETY: the pointer is to a pointer that outlives the call; any code may be asked for, before cuInit too.
        let status = unsafe { get_text(code, &mut text) };
        if status != 0 || text.is_null() {
            return None;
        }
        // SAFETY: on success it points to a NUL-terminated string in the driver's constant data, and the driver is
        // never unloaded.
        unsafe { CStr::from_ptr(text) }.to_str().ok()
    }

    /// The driver's function of that name as an `F`, an `extern "C"` function pointer type; `None` if this driver has
    /// no such function.
    ///
    /// For functions that `cust_raw` doesn't declare. The name is the symbol's, suffix included
    /// (`c"cuTensorMapEncodeTiled"`).
    ///
    /// # Safety
    /// `F` must be the type of that function, as the header `cuda.h` of its version declares it. It may be called from
    /// any thread and for the rest of the process.
    pub unsafe fn function<F: Copy>(&self, name: &CStr) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>(), "F must be a function pointer") };
        let address = self.address(name)?.as_ptr();
        // SAFETY: the sizes are equal, and that a function of type `F` stands at the address is the caller's promise.
        Some(unsafe { std::mem::transmute_copy(&address) })
    }

    /// Where the library has that name, if it has it.
    fn address(&self, name: &CStr) -> Option<NonNull<c_void>> {
        // SAFETY: the address is handed out as such and used as nothing else here.
        let symbol = unsafe { self.handle.get::<*mut c_void>(name) }.ok()?;
        NonNull::new(symbol.as_raw_ptr())
    }

    fn load() -> Result<Driver, LoadError> {
        let (handle, library) = open()?;
        let mut driver = Driver { handle, library, missing: Vec::new() };
        // Any library may carry the name. One that lacks these isn't the driver; better to say so now than at some
        // later call.
        for name in [c"cuInit", c"cuDriverGetVersion"] {
            if driver.address(name).is_none() {
                let reason = format!("it has no function {}, so it isn't the CUDA driver", name.to_string_lossy());
                return Err(LoadError::Unusable { library: driver.library, reason });
            }
        }
        for entry in entry::ENTRIES {
            let target = driver.address(entry.name);
            // SAFETY: it is the driver's function of this name, and it stays loaded: from here on nothing fails, and
            // the only place that gets this value is a static.
            unsafe { entry.bind(target) };
            if target.is_none() {
                driver.missing.push(entry.name.to_str().unwrap_or_default());
            }
        }
        Ok(driver)
    }
}

/// Opens the driver's library: where the system's loader finds it, else where some systems keep it.
fn open() -> Result<(Library, String), LoadError> {
    let mut failure = LoadError::NotInstalled;
    let unregistered = UNREGISTERED.into_iter().filter(|path| Path::new(path).exists());
    for library in std::iter::once(LIBRARY).chain(unregistered) {
        // SAFETY: the driver's library is made to be loaded at run time, from any thread; its start-up code needs
        // nothing of this program. RTLD_LOCAL keeps its names out of everybody's way.
        match unsafe { Library::open(Some(library), RTLD_NOW | RTLD_LOCAL) } {
            Ok(handle) => return Ok((handle, library.to_owned())),
            Err(error) => {
                let reason = std::error::Error::source(&error).unwrap_or(&error).to_string();
                // A library that isn't there is the loader's business as much as one that it found broken; only the
                // text tells.
                let absent = reason.starts_with(LIBRARY) && reason.contains("No such file");
                if !absent {
                    failure = LoadError::Unusable { library: library.to_owned(), reason };
                }
            }
        }
    }
    Err(failure)
}
