//! Tensor maps, which the driver encodes.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr;

use cust::error::CudaError;
use ptx_simulator::{Swizzle, TENSOR_MAP_BYTES, TensorElement, TensorMap, TensorMapLayout};

use super::{CudaBackend, DeviceError, driver_error};

/// The driver's function, of CUDA 12.0 and later.
///
/// Its arguments: the map; type and rank; the address; sizes; strides; box; steps between elements; interleaving, swizzle,
/// promotion to the second-level cache, and what is filled in.
type Encode = unsafe extern "C" fn(
    *mut c_void,
    c_uint,
    u32,
    *mut c_void,
    *const u64,
    *const u64,
    *const u32,
    *const u32,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
) -> c_int;

/// `CU_TENSOR_MAP_INTERLEAVE_NONE`.
const NOT_INTERLEAVED: c_uint = 0;
/// `CU_TENSOR_MAP_L2_PROMOTION_L2_128B`: a miss brings as many bytes into the second-level cache.
const PROMOTED_TO_128_BYTES: c_uint = 2;
/// `CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE`: zeros, and not NaN.
const FILLED_WITH_ZEROS: c_uint = 0;
/// From an element to the next, along each dimension.
const STEPS: [u32; 5] = [1; 5];

/// Room for a map, as the driver wants it aligned.
#[repr(C, align(64))]
struct Aligned([u8; TENSOR_MAP_BYTES]);

impl CudaBackend {
    /// The driver's tensor map of `layout`.
    pub(super) fn encode_tensor_map(&self, layout: &TensorMapLayout) -> Result<[u8; TENSOR_MAP_BYTES], DeviceError> {
        const NAME: &str = "cuTensorMapEncodeTiled";
        // The simulator has the driver's rules and says which one is broken; the driver only says that one is.
        TensorMap::encode(layout)?;
        let TensorMapLayout { element, address, sizes, strides, box_sizes, swizzle } = layout;
        let refused = || DeviceError::TensorMapRefused { layout: format!("{layout:?}") };
        let element = data_type(*element).ok_or_else(refused)?;
        // SAFETY: the type is cuTensorMapEncodeTiled's.
        let encode = unsafe { self.driver.function::<Encode>(c"cuTensorMapEncodeTiled") };
        let encode = encode.ok_or_else(|| DeviceError::OldDriver {
            function: NAME,
            needs: "12.0",
            has: self.driver.version().map_or_else(|_| "an unknown version".to_owned(), |version| version.to_string()),
        })?;
        let mut map = Aligned([0; 128]);
        // SAFETY: the map is 128 bytes at a multiple of 64, and each list has as many elements as the rank says, which the layout's
        // check has seen to; all outlive the call. The driver only writes the address down.
        let status = unsafe {
            encode(
                ptr::from_mut(&mut map).cast(),
                element,
                sizes.len() as u32,
                ptr::without_provenance_mut(*address as usize),
                sizes.as_ptr(),
                strides.as_ptr(),
                box_sizes.as_ptr(),
                STEPS.as_ptr(),
                NOT_INTERLEAVED,
                swizzle_mode(*swizzle),
                PROMOTED_TO_128_BYTES,
                FILLED_WITH_ZEROS,
            )
        };
        const INVALID_VALUE: c_int = CudaError::InvalidValue as c_int;
        match status {
            0 => Ok(map.0),
            INVALID_VALUE => Err(refused()),
            code => Err(driver_error(self.driver, NAME, code)),
        }
    }
}

/// `CUtensorMapDataType`; `None` for what this program has no matrices of.
fn data_type(element: TensorElement) -> Option<c_uint> {
    match element {
        TensorElement::F16 => Some(6),
        TensorElement::F32 => Some(7),
        TensorElement::BF16 => Some(9),
        TensorElement::TF32 => Some(11),
        _ => None,
    }
}

/// `CUtensorMapSwizzle`.
fn swizzle_mode(swizzle: Swizzle) -> c_uint {
    match swizzle {
        Swizzle::None => 0,
        Swizzle::Bytes32 => 1,
        Swizzle::Bytes64 => 2,
        Swizzle::Bytes128 => 3,
    }
}
