//! What can go wrong with a device, said to the person at the terminal: what happened, what was expected, what to do.

use std::fmt;

use ptx_simulator::TensorMapError;

/// Why a device couldn't be opened, or didn't do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// There is no NVIDIA driver, or none that works.
    #[error(
        "no GPU can be used: {reason}. A GPU needs NVIDIA's driver (not the CUDA toolkit); `--device sim` needs neither"
    )]
    NoDriver {
        /// What was found instead of a driver.
        reason: String,
    },
    /// The driver sees no GPU.
    #[error(
        "NVIDIA's driver is installed but sees no GPU. `nvidia-smi` should list one, and CUDA_VISIBLE_DEVICES must not \
         hide it; `--device sim` needs none"
    )]
    NoDevice,
    /// There are GPUs, but none of that number.
    #[error("there is no GPU {ordinal}: this machine has {}", Ordinals(*.count))]
    NoSuchDevice {
        /// The number asked for.
        ordinal: usize,
        /// How many GPUs there are, numbered from 0.
        count: usize,
    },
    /// An allocation doesn't fit.
    #[error("out of device memory: {} needed, {} free of {}", Bytes(*.needed), Bytes(*.free), Bytes(*.total))]
    OutOfMemory {
        /// Bytes asked for.
        needed: u64,
        /// Bytes free at that time, possibly in pieces.
        free: u64,
        /// Bytes that the device has.
        total: u64,
    },
    /// The simulator's device memory is this machine's own, and the system gives no more of it.
    #[error("the simulator needs {} of this machine's memory, which the system doesn't give; use smaller data", Bytes(*.needed))]
    HostMemory {
        /// Bytes asked for.
        needed: u64,
    },
    /// A copy between host and device of different lengths.
    #[error("a buffer of {buffer} elements on the device can't be copied from or to {host} elements on the host")]
    LengthMismatch {
        /// Elements of the device's buffer.
        buffer: usize,
        /// Elements of the host's slice.
        host: usize,
    },
    /// The driver's compiler didn't accept the PTX.
    #[error("the GPU's driver rejects the PTX module: {log}")]
    ModuleRejected {
        /// What the driver's compiler wrote, which may be several lines.
        log: String,
    },
    /// A kernel couldn't be launched, or failed while it ran.
    #[error("kernel {kernel} failed: {reason}")]
    LaunchFailed {
        /// The kernel's entry name; several if launches made together make it unclear which one failed.
        kernel: String,
        /// What it did or lacked, and what to do about it.
        reason: String,
    },
    /// The simulator doesn't know something in the PTX.
    #[error("the simulator rejects the PTX module: {0}")]
    SimulatorRejectsModule(#[from] ptx_simulator::LoadError),
    /// A kernel can't be launched on the simulator, or did something wrong there.
    #[error("on the simulator, {0}")]
    SimulatedLaunch(#[from] Box<ptx_simulator::LaunchError>),
    /// A copy that reaches outside the simulator's allocations.
    #[error("on the simulator, {0}")]
    SimulatedMemory(#[from] ptx_simulator::MemoryError),
    /// A buffer, stream or event of another device, or of the same GPU opened another time.
    #[error("{what} belongs to another device; clones of one Device share everything, two opened ones nothing")]
    OtherDevice {
        /// What does.
        what: &'static str,
    },
    /// A launch that somebody wants to watch, on a device that shows nothing of what happens inside a launch.
    #[error("only the simulator can be watched while it runs a kernel; use `--device sim`")]
    NotObservable,
    /// Launches to be recorded as a graph, on a device that has none.
    #[error("launches can be recorded as a graph on a GPU only; the simulator runs each when it is launched")]
    NotRecordable,
    /// A tensor that can't be copied box by box.
    #[error("the tensor can't be copied box by box: {0}")]
    TensorMap(#[from] TensorMapError),
    /// A tensor map that the driver doesn't make, though it keeps the rules.
    #[error("the CUDA driver makes no tensor map of {layout}; GPUs have them from compute capability 9.0 on")]
    TensorMapRefused {
        /// The layout.
        layout: String,
    },
    /// A driver without a function.
    #[error(
        "the NVIDIA driver supports CUDA up to {has} and has no {function}: a driver for CUDA {needs} or later is needed"
    )]
    OldDriver {
        /// The function.
        function: &'static str,
        /// The first CUDA version with it.
        needs: &'static str,
        /// The newest version that the driver supports.
        has: String,
    },
    /// Any other failure of a driver function.
    #[error("the CUDA driver's {call} failed: {name} (error {code}). `--device sim` runs without a GPU")]
    Driver {
        /// The function.
        call: &'static str,
        /// Its error code.
        code: u32,
        /// The driver's name and description of the code.
        name: String,
    },
}

impl DeviceError {
    /// What is missing, if this says that there is no GPU at all; `None` for every other error, those of a GPU that is
    /// there but doesn't work among them.
    pub fn why_no_gpu(&self) -> Option<String> {
        match self {
            DeviceError::NoDriver { reason } => Some(reason.clone()),
            DeviceError::NoDevice => Some("NVIDIA's driver is installed but sees no GPU".to_owned()),
            _ => None,
        }
    }
}

/// "1 GPU, number 0", "4 GPUs, numbers 0 to 3".
struct Ordinals(usize);

impl fmt::Display for Ordinals {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => write!(formatter, "none"),
            1 => write!(formatter, "1 GPU, number 0"),
            count => write!(formatter, "{count} GPUs, numbers 0 to {}", count - 1),
        }
    }
}

/// A number of bytes, as people say it: "512 bytes", "1.5 GiB".
struct Bytes(u64);

impl fmt::Display for Bytes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        if self.0 < 1024 {
            return write!(formatter, "{} bytes", self.0);
        }
        let mut number = self.0 as f64 / 1024.0;
        let mut unit = 0;
        // 1023.95 would be written as 1024.0.
        while number >= 1023.95 && unit + 1 < UNITS.len() {
            number /= 1024.0;
            unit += 1;
        }
        write!(formatter, "{number:.1} {}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_said_in_the_largest_fitting_unit() {
        let said = |bytes| Bytes(bytes).to_string();
        assert_eq!(said(0), "0 bytes");
        assert_eq!(said(1023), "1023 bytes");
        assert_eq!(said(1024), "1.0 KiB");
        assert_eq!(said(1536), "1.5 KiB");
        assert_eq!(said((1 << 20) - 1), "1.0 MiB");
        assert_eq!(said(141 << 30), "141.0 GiB");
        assert_eq!(said(u64::MAX), "16.0 EiB");
    }

    #[test]
    fn a_wrong_device_number_comes_with_the_right_ones() {
        let said = |ordinal, count| DeviceError::NoSuchDevice { ordinal, count }.to_string();
        assert_eq!(said(1, 1), "there is no GPU 1: this machine has 1 GPU, number 0");
        assert_eq!(said(8, 4), "there is no GPU 8: this machine has 4 GPUs, numbers 0 to 3");
    }

    #[test]
    fn running_out_of_memory_says_how_much_was_needed_and_free() {
        let error = DeviceError::OutOfMemory { needed: 200 << 30, free: 140 << 30, total: 141 << 30 };
        assert_eq!(error.to_string(), "out of device memory: 200.0 GiB needed, 140.0 GiB free of 141.0 GiB");
    }
}
