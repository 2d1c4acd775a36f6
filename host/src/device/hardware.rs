//! What a measurement has to know of a GPU, as its driver says.

use std::ffi::{CStr, c_char, c_int};

use cust::sys::{self, CUdevice_attribute_enum as Attribute};

use super::{Device, DeviceError};

/// Facts of a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hardware {
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Compute capability as (major, minor).
    pub compute_capability: (u32, u32),
    /// The most that its clock goes up to, in MHz, if the driver says.
    pub clock: Option<u32>,
    /// Its second-level cache in bytes.
    pub l2_bytes: u64,
    /// Where it sits, as other libraries of NVIDIA's name it: `00000000:1B:00.0` or so.
    pub bus: Option<String>,
}

impl Device {
    /// The facts of a GPU; `None` on the simulator.
    ///
    /// # Errors
    ///
    /// [`DeviceError`] if its context is broken.
    pub fn hardware(&self) -> Result<Option<Hardware>, DeviceError> {
        // This makes the device's context the current one.
        if self.raw_stream()?.is_none() {
            return Ok(None);
        }
        let mut device = 0;
        // SAFETY: the pointer is to a variable that outlives the call, and a context is current.
        if unsafe { sys::cuCtxGetDevice(&mut device) } as c_int != 0 {
            return Ok(None);
        }
        let attribute = |attribute| {
            let mut value = 0;
            // SAFETY: the pointer is to a variable that outlives the call, and the device is one that the driver gave.
            let status = unsafe { sys::cuDeviceGetAttribute(&mut value, attribute, device) };
            if status as c_int == 0 { u32::try_from(value).ok() } else { None }
        };
        let number = |which| attribute(which).unwrap_or(0);
        let mut name = [0 as c_char; 32];
        // SAFETY: the buffer has the length said, and the device is one that the driver gave.
        let status = unsafe { sys::cuDeviceGetPCIBusId(name.as_mut_ptr(), name.len() as c_int, device) };
        let bytes = name.map(|character| character as u8);
        let name = CStr::from_bytes_until_nul(&bytes).ok().filter(|_| status as c_int == 0);
        Ok(Some(Hardware {
            multiprocessors: number(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
            compute_capability: (
                number(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
                number(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
            ),
            clock: attribute(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE).map(|kilohertz| kilohertz / 1000),
            l2_bytes: u64::from(number(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)),
            bus: name.map(|name| name.to_string_lossy().into_owned()),
        }))
    }
}
