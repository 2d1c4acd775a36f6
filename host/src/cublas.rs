//! NVIDIA's own matrix product, to compare with: cuBLAS, loaded when the program runs, where it is installed.
//!
//! cuBLAS is not part of the driver. It comes with the CUDA toolkit or with Python packages, and this program neither
//! links nor needs it: [`Cublas::open`] looks for `libcublas.so` and says so if there is none.
//!
//! # Row-major products
//!
//! cuBLAS stores matrices by columns, we by rows. The same memory read by columns instead of by rows is the transposed
//! matrix, so no data is moved: where C = A B by rows is wanted, cuBLAS is asked for C^T = B^T A^T by columns, which is
//! the product of B's memory and A's memory, in this order, neither marked as transposed. A matrix that stands transposed
//! in memory is marked as such, on either side of this exchange.
//!
//! # The arithmetic
//!
//! `cublasSgemm` in the default math mode multiplies in f32 as our kernels do. Tensor cores with their shorter
//! mantissas (TF32) are used only after `cublasSetMathMode`, which is not called here. From version 12.9 on a user may
//! have f32 emulated on the tensor cores of Blackwell by the variable `CUBLAS_EMULATE_SINGLE_PRECISION`; that is left to
//! the user.
//!
//! Factors of bf16 and f16 are for `cublasGemmEx`, with `CUBLAS_COMPUTE_32F`: sums in f32, on tensor cores, and the algorithm
//! that cuBLAS likes best. So are those of f32 that may be rounded to tf32, with `CUBLAS_COMPUTE_32F_FAST_TF32`.
//!
//! # Graphs
//!
//! Left alone, cuBLAS takes the memory that it works in from the driver, inside a graph by nodes of their own. It is given
//! 32 MiB for good here, as much as NVIDIA recommends for Hopper, so that a graph of its products holds products only.

use std::{
    env,
    error::Error,
    ffi::{OsString, c_float, c_int, c_longlong, c_void},
    path::{Path, PathBuf},
    ptr,
};

use gpu_kernels::{Precision, launch::ElementType};
use libloading::Library;

use crate::{
    device::{Device, DeviceBuffer, DeviceError},
    gemm::{BlasMatrix, BlasProduct, DeviceMatrix, GemmError, Operand, Output},
};

/// The library under the names of its last three major versions, newest first.
const NAMES: [&str; 3] = ["libcublas.so.13", "libcublas.so.12", "libcublas.so.11"];

/// `CUBLAS_OP_N` and `CUBLAS_OP_T`.
const NOT_TRANSPOSED: c_int = 0;
const TRANSPOSED: c_int = 1;

/// `CUBLAS_COMPUTE_32F` and `CUBLAS_COMPUTE_32F_FAST_TF32`, of `cublasComputeType_t`.
const COMPUTE_F32: c_int = 68;
const COMPUTE_TF32: c_int = 77;

/// `CUBLAS_GEMM_DEFAULT`, of `cublasGemmAlgo_t`: cuBLAS chooses.
const ALGORITHM: c_int = -1;

/// Elements of the memory that cuBLAS is given to work in: 32 MiB.
const WORKSPACE: usize = (32 << 20) / size_of::<f32>();

/// `cublasHandle_t`.
type Handle = *mut c_void;
type Create = unsafe extern "C" fn(*mut Handle) -> c_int;
type Destroy = unsafe extern "C" fn(Handle) -> c_int;
type GetVersion = unsafe extern "C" fn(Handle, *mut c_int) -> c_int;
type SetStream = unsafe extern "C" fn(Handle, *mut c_void) -> c_int;
/// handle, memory, bytes.
type SetWorkspace = unsafe extern "C" fn(Handle, *mut c_void, usize) -> c_int;
/// handle, operation on A, on B, m, n, k, alpha, A, its leading dimension, B, its, beta, C, its.
type Sgemm = unsafe extern "C" fn(
    Handle,
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    *const c_float,
    *const c_float,
    c_int,
    *const c_float,
    c_int,
    *const c_float,
    *mut c_float,
    c_int,
) -> c_int;
/// As [`Sgemm`], with the elements from matrix to matrix after each leading dimension, and the number of products.
type SgemmStridedBatched = unsafe extern "C" fn(
    Handle,
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    *const c_float,
    *const c_float,
    c_int,
    c_longlong,
    *const c_float,
    c_int,
    c_longlong,
    *const c_float,
    *mut c_float,
    c_int,
    c_longlong,
    c_int,
) -> c_int;
/// As [`Sgemm`], with the type of the elements behind A, B and C, and the types of sums and algorithm at the end.
type GemmEx = unsafe extern "C" fn(
    Handle,
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    *const c_void,
    *const c_void,
    c_int,
    c_int,
    *const c_void,
    c_int,
    c_int,
    *const c_void,
    *mut c_void,
    c_int,
    c_int,
    c_int,
    c_int,
) -> c_int;
/// As [`GemmEx`], with the elements from matrix to matrix after each leading dimension, and the number of products before
/// the types of sums and algorithm.
type GemmStridedBatchedEx = unsafe extern "C" fn(
    Handle,
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    *const c_void,
    *const c_void,
    c_int,
    c_int,
    c_longlong,
    *const c_void,
    c_int,
    c_int,
    c_longlong,
    *const c_void,
    *mut c_void,
    c_int,
    c_int,
    c_longlong,
    c_int,
    c_int,
    c_int,
) -> c_int;

/// `CUDA_R_32F`, `CUDA_R_16F` and `CUDA_R_16BF`, of `cudaDataType`.
fn data_type(element: ElementType) -> c_int {
    match element {
        ElementType::F32 => 0,
        ElementType::F16 => 2,
        ElementType::Bf16 => 14,
    }
}

/// Why cuBLAS can't be used.
#[derive(Debug, thiserror::Error)]
pub enum CublasError {
    /// It isn't installed, or not where libraries are looked for.
    #[error(
        "cuBLAS is not installed: none of {} was found; put the folder that holds it into LD_LIBRARY_PATH",
        NAMES.join(", ")
    )]
    Missing,
    /// It is there, but can't be loaded: a library that it needs is missing, for instance `libcublasLt.so`, or the file
    /// is broken.
    #[error(
        "cuBLAS is installed but cannot be loaded: {reason} (the libraries that it needs are looked for in LD_LIBRARY_PATH too)"
    )]
    Unloadable {
        /// What the system's loader says.
        reason: String,
    },
    /// The simulator has no cuBLAS.
    #[error("cuBLAS needs a GPU")]
    NoGpu,
    /// The library lacks a function.
    #[error("{library} has no function {function}")]
    NoFunction {
        /// The library's name.
        library: String,
        /// The function's.
        function: &'static str,
    },
    /// One of its functions failed.
    #[error("{call} failed with cublasStatus_t {status}")]
    Failed {
        /// The function.
        call: &'static str,
        /// What it returned; the cuBLAS documentation lists the values under `cublasStatus_t`.
        status: c_int,
    },
    /// A size that cuBLAS's 32 bits can't express.
    #[error(
        "cuBLAS can't multiply {m} x {k} by {k} x {n}: sizes, leading dimensions and batches must be less than 2^31"
    )]
    Shape {
        /// Rows of A.
        m: usize,
        /// Columns of B.
        n: usize,
        /// Columns of A.
        k: usize,
    },
    /// Matrices that don't fit together or aren't this device's.
    #[error(transparent)]
    Gemm(#[from] GemmError),
    /// The device.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// cuBLAS on the stream of a device.
#[derive(Debug)]
pub struct Cublas {
    handle: Handle,
    destroy: Destroy,
    sgemm: Sgemm,
    strided_batched: Option<SgemmStridedBatched>,
    gemm_ex: Option<GemmEx>,
    strided_batched_ex: Option<GemmStridedBatchedEx>,
    /// The memory that it works in, if there was so much; freed after the handle.
    _workspace: Option<DeviceBuffer<f32>>,
    version: Option<c_int>,
    name: String,
    device: Device,
    // The functions are part of it: it goes last.
    _library: Library,
}

impl Cublas {
    /// Loads cuBLAS and prepares it for `device`.
    ///
    /// It is looked for as the system's loader does, then in `lib64` of `CUDA_HOME`, `CUDA_PATH` and
    /// `/usr/local/cuda`.
    ///
    /// # Errors
    ///
    /// [`CublasError::Missing`] if there is none, [`CublasError::Unloadable`] if there is but the system refuses it,
    /// [`CublasError::NoGpu`] on the simulator, [`CublasError::Failed`] if it doesn't start.
    pub fn open(device: &Device) -> Result<Cublas, CublasError> {
        // This also makes the device's context the current one, which cuBLAS then uses.
        let stream = device.raw_stream()?.ok_or(CublasError::NoGpu)?;
        let (library, name) = find()?;
        let missing = |function| CublasError::NoFunction { library: name.clone(), function };
        // SAFETY: the types are those that cuBLAS documents for these functions, unchanged from version 11 to 13. The
        // pointers are used only while the library is loaded: `Cublas` holds both.
        let (
            create,
            destroy,
            set_stream,
            sgemm,
            set_workspace,
            strided_batched,
            gemm_ex,
            strided_batched_ex,
            get_version,
        ) = unsafe {
            (
                *library.get::<Create>(c"cublasCreate_v2").map_err(|_| missing("cublasCreate_v2"))?,
                *library.get::<Destroy>(c"cublasDestroy_v2").map_err(|_| missing("cublasDestroy_v2"))?,
                *library.get::<SetStream>(c"cublasSetStream_v2").map_err(|_| missing("cublasSetStream_v2"))?,
                *library.get::<Sgemm>(c"cublasSgemm_v2").map_err(|_| missing("cublasSgemm_v2"))?,
                library.get::<SetWorkspace>(c"cublasSetWorkspace_v2").ok().map(|function| *function),
                library.get::<SgemmStridedBatched>(c"cublasSgemmStridedBatched").ok().map(|function| *function),
                library.get::<GemmEx>(c"cublasGemmEx").ok().map(|function| *function),
                library.get::<GemmStridedBatchedEx>(c"cublasGemmStridedBatchedEx").ok().map(|function| *function),
                library.get::<GetVersion>(c"cublasGetVersion_v2").ok().map(|function| *function),
            )
        };
        let mut handle = ptr::null_mut();
        // SAFETY: the pointer is to a variable that outlives the call, and a context is current.
        check("cublasCreate_v2", unsafe { create(&mut handle) })?;
        let mut cublas = Cublas {
            handle,
            destroy,
            sgemm,
            strided_batched,
            gemm_ex,
            strided_batched_ex,
            _workspace: None,
            version: None,
            name,
            device: device.clone(),
            _library: library,
        };
        // SAFETY: the handle was created just now, and the stream is one of the context that is current.
        check("cublasSetStream_v2", unsafe { set_stream(handle, stream) })?;
        // After the stream, which brings cuBLAS back to memory of its own. Where there isn't as much, that will do.
        if let (Some(set_workspace), Ok(workspace)) = (set_workspace, device.allocate::<f32>(WORKSPACE)) {
            let memory = ptr::without_provenance_mut(workspace.address() as usize);
            // SAFETY: the handle is alive, and the memory is kept until it isn't.
            check("cublasSetWorkspace_v2", unsafe { set_workspace(handle, memory, WORKSPACE * size_of::<f32>()) })?;
            cublas._workspace = Some(workspace);
        }
        let mut version = 0;
        // SAFETY: the handle is alive, and the pointer is to a variable that outlives the call.
        let told = get_version.is_some_and(|function| unsafe { function(handle, &mut version) } == 0);
        cublas.version = told.then_some(version);
        Ok(cublas)
    }

    /// The library and its version, such as "libcublas.so.13 (13.0.2)".
    pub fn description(&self) -> String {
        match self.version {
            Some(version) => format!("{} ({})", self.name, dotted(version)),
            None => self.name.clone(),
        }
    }

    /// Starts C = A B and returns without waiting for it: of f32 in f32, of other factors with sums of f32. C may be seen elsewhere too.
    ///
    /// # Errors
    ///
    /// As [`enqueue_product`](Cublas::enqueue_product).
    pub fn enqueue(&self, a: DeviceMatrix<'_>, b: DeviceMatrix<'_>, c: DeviceMatrix<'_>) -> Result<(), CublasError> {
        self.call(BlasProduct::new(&self.device, (1.0, 0.0), a.into(), b.into(), c.into())?, COMPUTE_F32)
    }

    /// Starts C = alpha A B + beta C for matrices, or batches of them at equal distances, in the memory of its device, and
    /// returns without waiting for it. Of factors of f32 the precision says whether they may be rounded to tf32, which they are in no other; the
    /// arithmetic of others follows from their elements.
    ///
    /// # Errors
    ///
    /// [`CublasError::Gemm`] if the matrices don't fit together or a batch is a list, [`CublasError::Shape`] if a size
    /// doesn't fit into 32 bits, [`CublasError::NoFunction`] if this cuBLAS has no batches or no `cublasGemmEx`,
    /// [`CublasError::Failed`] if it refuses.
    pub fn enqueue_product<'a>(
        &self,
        precision: Precision,
        (alpha, beta): (f32, f32),
        a: impl Into<Operand<'a>>,
        b: impl Into<Operand<'a>>,
        c: impl Into<Output<'a>>,
    ) -> Result<(), CublasError> {
        let Output(c) = c.into();
        let compute = if precision == Precision::Tf32 { COMPUTE_TF32 } else { COMPUTE_F32 };
        self.call(BlasProduct::new(&self.device, (alpha, beta), a.into(), b.into(), c)?, compute)
    }

    /// The call of cuBLAS: what is A B by rows is B A by columns, each matrix as it stands in memory.
    fn call(&self, product: Option<BlasProduct>, compute: c_int) -> Result<(), CublasError> {
        let Some(BlasProduct { m, n, k, count, alpha, beta, a, b, c, factors, output }) = product else {
            return Ok(());
        };
        let refuse = || CublasError::Shape { m, n, k };
        let size = |size: usize| c_int::try_from(size).map_err(|_| refuse());
        let (rows, columns, inner) = (size(m)?, size(n)?, size(k)?);
        let leading = |matrix: BlasMatrix| size(matrix.leading.max(1));
        let (lda, ldb, ldc) = (leading(a)?, leading(b)?, leading(c)?);
        let stride = |matrix: BlasMatrix| c_longlong::try_from(matrix.stride).map_err(|_| refuse());
        let (stride_a, stride_b, stride_c, count) = (stride(a)?, stride(b)?, stride(c)?, size(count)?);
        let operation = |matrix: BlasMatrix| if matrix.transposed { TRANSPOSED } else { NOT_TRANSPOSED };
        let (op_a, op_b) = (operation(a), operation(b));
        let element = |matrix: BlasMatrix| ptr::without_provenance_mut::<c_void>(matrix.address as usize);
        let (a, b, c) = (element(a), element(b), element(c));
        let missing = |function| CublasError::NoFunction { library: self.name.clone(), function };
        let handle = self.handle;
        self.device.raw_stream()?;
        // SAFETY, for all four: the handle is alive and its context current; alpha and beta are read before the call returns,
        // as cuBLAS does with those in host memory. The views of the matrices were checked to be inside their buffers and to
        // have elements of the type that is said; only the GPU follows the pointers to them, in the order of the stream on
        // which the buffers are freed too.
        let (ab_type, c_type) = (data_type(factors), data_type(output));
        match (factors == ElementType::F32 && compute == COMPUTE_F32, count) {
            (true, 1) => {
                let [a, b, c] = [a, b, c].map(|matrix| matrix.cast::<c_float>());
                // SAFETY: as above.
                let status = unsafe {
                    (self.sgemm)(handle, op_b, op_a, columns, rows, inner, &alpha, b, ldb, a, lda, &beta, c, ldc)
                };
                check("cublasSgemm_v2", status)
            }
            (true, _) => {
                let function = "cublasSgemmStridedBatched";
                let batched = self.strided_batched.ok_or_else(|| missing(function))?;
                let [a, b, c] = [a, b, c].map(|matrix| matrix.cast::<c_float>());
                // SAFETY: as above.
                let status = unsafe {
                    batched(
                        handle, op_b, op_a, columns, rows, inner, &alpha, b, ldb, stride_b, a, lda, stride_a, &beta, c,
                        ldc, stride_c, count,
                    )
                };
                check(function, status)
            }
            (false, 1) => {
                let function = "cublasGemmEx";
                let gemm_ex = self.gemm_ex.ok_or_else(|| missing(function))?;
                let (alpha, beta) = ((&raw const alpha).cast(), (&raw const beta).cast());
                // SAFETY: as above.
                let status = unsafe {
                    gemm_ex(
                        handle, op_b, op_a, columns, rows, inner, alpha, b, ab_type, ldb, a, ab_type, lda, beta, c,
                        c_type, ldc, compute, ALGORITHM,
                    )
                };
                check(function, status)
            }
            (false, _) => {
                let function = "cublasGemmStridedBatchedEx";
                let batched = self.strided_batched_ex.ok_or_else(|| missing(function))?;
                let (alpha, beta) = ((&raw const alpha).cast(), (&raw const beta).cast());
                // SAFETY: as above.
                let status = unsafe {
                    batched(
                        handle, op_b, op_a, columns, rows, inner, alpha, b, ab_type, ldb, stride_b, a, ab_type, lda,
                        stride_a, beta, c, c_type, ldc, stride_c, count, compute, ALGORITHM,
                    )
                };
                check(function, status)
            }
        }
    }
}

impl Drop for Cublas {
    fn drop(&mut self) {
        if self.device.raw_stream().is_ok() {
            // SAFETY: the handle was created by this library and is used no more; its context is current.
            let _ = unsafe { (self.destroy)(self.handle) };
        }
    }
}

/// The version that `cublasGetVersion` gives as one number: `CUBLAS_VERSION` of `cublas_api.h`. Its major version counts
/// 10,000s, and in the first releases of version 11 (11.6.5 for one) 1,000s.
fn dotted(version: c_int) -> String {
    let (major, rest) =
        if version < 100_000 { (version / 1_000, version % 1_000) } else { (version / 10_000, version % 10_000) };
    format!("{major}.{}.{}", rest / 100, rest % 100)
}

fn check(call: &'static str, status: c_int) -> Result<(), CublasError> {
    if status == 0 { Ok(()) } else { Err(CublasError::Failed { call, status }) }
}

/// Loads the first of the names that can be loaded, and says which.
fn find() -> Result<(Library, String), CublasError> {
    let homes = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(env::var_os).filter(|home| !home.is_empty());
    let folders = homes.chain([OsString::from("/usr/local/cuda")]).map(|home| PathBuf::from(home).join("lib64"));
    let folders: Vec<PathBuf> = [PathBuf::new()].into_iter().chain(folders).collect();
    // The system's own choice in every version before any folder.
    load(folders.iter().flat_map(|folder| NAMES.map(|name| (folder.join(name), name))))
}

/// Loads the first library that can be loaded. If there is none, the first that is there says why.
fn load(candidates: impl IntoIterator<Item = (PathBuf, &'static str)>) -> Result<(Library, String), CublasError> {
    let mut reason = None;
    for (path, name) in candidates {
        // SAFETY: loading it runs its start-up code, which is NVIDIA's and asks nothing of this program.
        match unsafe { Library::new(&path) } {
            Ok(library) => return Ok((library, name.to_owned())),
            Err(error) => {
                // The loader's own text is in the source.
                let said = error.source().map_or_else(|| error.to_string(), ToString::to_string);
                if reason.is_none() && !is_absence(&path, &said) {
                    reason = Some(said);
                }
            }
        }
    }
    Err(reason.map_or(CublasError::Missing, |reason| CublasError::Unloadable { reason }))
}

/// Whether the loader says that there is no file at `path`, and not that one is missing which `path` needs: glibc's text
/// begins with the file that it's about.
fn is_absence(path: &Path, said: &str) -> bool {
    said.strip_prefix(&*path.to_string_lossy())
        .is_some_and(|rest| rest.starts_with(": cannot open shared object file: No such file"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        device::DeviceSelector,
        gemm::{DeviceMatrices, DeviceMatricesMut, FactorBuffer},
    };

    #[test]
    fn versions_are_read_in_both_ways_of_writing_them_as_a_number() {
        assert_eq!([130_100, 120_304, 110_902, 11_605].map(dotted), ["13.1.0", "12.3.4", "11.9.2", "11.6.5"]);
    }

    #[test]
    fn a_library_that_is_there_but_cannot_be_loaded_is_not_called_missing() {
        let folder = tempfile::tempdir().unwrap();
        let (absent, broken) = (folder.path().join("libcublas.so.13"), folder.path().join("libcublas.so.12"));
        std::fs::write(&broken, "no library").unwrap();
        let both = [(absent.clone(), NAMES[0]), (broken.clone(), NAMES[1])];
        assert!(matches!(load([(absent, NAMES[0])]), Err(CublasError::Missing)));
        let said = load(both).unwrap_err().to_string();
        assert!(said.contains("cannot be loaded") && said.contains(broken.to_str().unwrap()), "{said}");
    }

    #[test]
    fn a_missing_library_that_cublas_needs_is_not_the_absence_of_cublas() {
        let absent = |file: &str| format!("{file}: cannot open shared object file: No such file or directory");
        assert!(is_absence(Path::new("libcublas.so.13"), &absent("libcublas.so.13")));
        assert!(!is_absence(Path::new("libcublas.so.13"), &absent("libcublasLt.so.13")));
    }

    #[test]
    fn the_simulator_has_no_cublas() {
        let device = Device::open(DeviceSelector::Simulator).unwrap();
        assert!(matches!(Cublas::open(&device), Err(CublasError::NoGpu)));
    }

    /// A device and its cuBLAS, where there are both.
    fn found() -> Option<(Device, Cublas)> {
        let device = Device::open(DeviceSelector::Cuda(None)).ok()?;
        match Cublas::open(&device) {
            Ok(cublas) => Some((device, cublas)),
            Err(CublasError::Missing) => None,
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn where_there_is_a_gpu_and_cublas_its_product_is_right_for_oblong_matrices() {
        let Some((device, cublas)) = found() else { return };
        // A 2 x 3, B 3 x 1.
        let a = device.upload(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
        let b = device.upload(&[1.0f32, 10.0, 100.0]).unwrap();
        let c = device.allocate::<f32>(2).unwrap();
        let matrix = |buffer, rows, columns| DeviceMatrix::new(buffer, 0, rows, columns).unwrap();
        cublas.enqueue(matrix(&a, 2, 3), matrix(&b, 3, 1), matrix(&c, 2, 1)).unwrap();
        assert_eq!(c.download().unwrap(), [321.0, 654.0]);
        assert!(matches!(
            cublas.enqueue(matrix(&a, 3, 2), matrix(&b, 3, 1), matrix(&c, 2, 1)),
            Err(CublasError::Gemm(GemmError::InnerSizesDiffer { .. }))
        ));

        // Two products of transposed matrices with gaps, twice as large and added to what is there: A is 2 x 3, of which
        // memory holds the transpose with rows of 3, B 3 x 1 with its transpose.
        let a = [1.0f32, 4.0, -1.0, 2.0, 5.0, -1.0, 3.0, 6.0, -1.0, 1.0, 0.0, -1.0, 0.0, 1.0, -1.0, 0.0, 0.0];
        let (a, b) = (device.upload(&a).unwrap(), device.upload(&[1.0f32, 10.0, 100.0, -1.0, 7.0, 8.0, 9.0]).unwrap());
        let mut c = device.upload(&[1.0f32, 2.0, 3.0, 4.0]).unwrap();
        let a = DeviceMatrices::with_strides(&a, 0, [2, 9], 3, 2, 3).unwrap().transposed();
        let b = DeviceMatrices::with_strides(&b, 0, [2, 4], 1, 3, 3).unwrap().transposed();
        cublas
            .enqueue_product(Precision::F32, (2.0, 1.0), a, b, DeviceMatricesMut::new(&mut c, 0, 2, 2, 1).unwrap())
            .unwrap();
        assert_eq!(c.download().unwrap(), [643.0, 1310.0, 17.0, 20.0]);
    }

    #[test]
    fn where_there_is_a_gpu_and_cublas_its_product_of_bf16_is_right_by_rows_and_by_columns_one_and_many() {
        let Some((device, cublas)) = found() else { return };
        let upload = |numbers: &[f32]| FactorBuffer::upload(&device, ElementType::Bf16, numbers).unwrap();
        // A 2 x 3, B 3 x 1; none of the sums fits into bf16.
        let (a, b) = (upload(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), upload(&[1.0, 10.0, 100.0]));
        let c = device.allocate::<f32>(2).unwrap();
        let c_matrix = || DeviceMatrix::new(&c, 0, 2, 1).unwrap();
        cublas.enqueue(a.matrix(2, 3).unwrap(), b.matrix(3, 1).unwrap(), c_matrix()).unwrap();
        assert_eq!(c.download().unwrap(), [321.0, 654.0]);
        // The same memory by columns: rows 1 3 5 and 2 4 6.
        cublas.enqueue(a.matrix(3, 2).unwrap().transposed(), b.matrix(3, 1).unwrap(), c_matrix()).unwrap();
        assert_eq!(c.download().unwrap(), [531.0, 642.0]);
        // Two products of 1 x 3 and 3 x 1, twice as large and added to what is there.
        let b = upload(&[1.0, 10.0, 100.0, 100.0, 10.0, 1.0]);
        let mut c = device.upload(&[1.0f32, 2.0]).unwrap();
        let (a, b) = (a.batch_at(0, 2, 1, 3).unwrap(), b.batch_at(0, 2, 3, 1).unwrap());
        cublas
            .enqueue_product(Precision::Bf16, (2.0, 1.0), a, b, DeviceMatricesMut::new(&mut c, 0, 2, 1, 1).unwrap())
            .unwrap();
        assert_eq!(c.download().unwrap(), [643.0, 914.0]);
    }
}
