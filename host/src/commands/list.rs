//! List the kernels.

use host::report::{KernelList, KernelRow};

pub fn run() -> KernelList {
    KernelList { kernels: gpu_kernels::KERNELS.iter().map(KernelRow::new).collect() }
}
