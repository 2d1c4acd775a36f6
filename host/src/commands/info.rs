//! Show what this build and this machine have.

use host::{
    device::{self, Device, DeviceError, DeviceSelector},
    kernel_compiler, ptx,
    report::{InfoReport, PtxLevel},
};

use crate::cli::Common;

pub fn run(common: Common) -> anyhow::Result<InfoReport> {
    let (selectors, no_gpu) = match common.device {
        // One that was asked for by name must be there.
        Some(selector) => (vec![selector], None),
        None => {
            // A driver that is there but broken is a finding, not a reason to show nothing.
            let (gpus, no_gpu) = match device::device_count() {
                Ok(count) => (count, None),
                Err(error) => (0, Some(error.why_no_gpu().unwrap_or_else(|| error.to_string()))),
            };
            let gpus = (0..gpus).map(|ordinal| DeviceSelector::Cuda(Some(ordinal)));
            (gpus.chain([DeviceSelector::Simulator]).collect(), no_gpu)
        }
    };
    let open = |selector| Ok(Device::open(selector)?.info());
    Ok(InfoReport {
        devices: selectors.into_iter().map(open).collect::<Result<_, DeviceError>>()?,
        no_gpu,
        kernel_compiler: kernel_compiler::DESCRIPTION,
        ptx: ptx::MODULES.iter().map(|module| PtxLevel::new(module.name, module.text)).collect(),
    })
}
