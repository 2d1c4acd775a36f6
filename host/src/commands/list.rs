//! List the kernels: the book's, and the families of production kernels.

use production_kernels::FAMILIES;

use host::report::{FamilyRow, KernelList, KernelRow};

pub fn run() -> KernelList {
    KernelList {
        kernels: gpu_kernels::KERNELS.iter().map(KernelRow::new).collect(),
        families: FAMILIES
            .iter()
            .map(FamilyRow::new)
            .chain(hopper_kernels::FAMILIES.iter().map(FamilyRow::on_tensor_cores))
            .collect(),
    }
}
