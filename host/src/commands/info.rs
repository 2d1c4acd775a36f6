//! Show what this build and this machine have.

use host::{
    device::{self, Device, DeviceError, DeviceSelector},
    kernel_compiler, ptx,
    report::{InfoReport, PtxLevel},
};

pub fn run() -> anyhow::Result<InfoReport> {
    let (gpus, no_gpu) = match device::device_count() {
        Ok(count) => (count, None),
        Err(error) => (0, Some(error.why_no_gpu().ok_or(error)?)),
    };
    let selectors = (0..gpus).map(|ordinal| DeviceSelector::Cuda(Some(ordinal))).chain([DeviceSelector::Simulator]);
    let devices = selectors.map(|selector| Ok(Device::open(selector)?.info())).collect::<Result<_, DeviceError>>()?;
    Ok(InfoReport {
        devices,
        no_gpu,
        kernel_compiler: kernel_compiler::DESCRIPTION,
        ptx: ptx::MODULES.iter().map(|module| PtxLevel::new(module.architecture, module.text)).collect(),
    })
}
