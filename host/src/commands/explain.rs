//! Show what each line of a kernel costs, and where its launch stands under the limits of a GPU.

use std::io::Write;

use anyhow::anyhow;
use host::{
    device::{Device, DeviceSelector},
    explain::{self, ExplainError},
    gemm::Gemm,
    gpus,
    matrix::OutputFile,
    plan,
    report::ExplainReport,
};

use super::{ensure_memory, progress};
use crate::cli::{Common, ExplainArguments};

/// The product that is explained unless another is asked for: large enough that edges don't matter.
const DEFAULT_SHAPE: [usize; 3] = [256; 3];

pub fn run(arguments: &ExplainArguments, common: Common) -> anyhow::Result<ExplainReport> {
    let kernel = plan::by_name(&arguments.kernel)?;
    let shape @ [m, n, k] = arguments.shape.get().unwrap_or(DEFAULT_SHAPE);
    if shape.contains(&0) {
        return Err(ExplainError::Empty { m, n, k }.into());
    }
    // On the host and on the simulator.
    ensure_memory(explain::matrix_bytes(shape).saturating_mul(2), format_args!("the product {m} x {n} x {k}"))?;
    let named = arguments.gpu.as_deref().map(gpus::by_name).transpose()?;
    let output = arguments.svg.as_deref().map(OutputFile::create).transpose()?;
    let device = Device::open(common.device())?;
    let own = gpus::by_name(&device.info().name).ok();
    let gpu = named.or(own).unwrap_or_else(gpus::default);

    let measured = if device.is_simulator() {
        None
    } else {
        let gemm = Gemm::new(device);
        progress::spinning("timing the kernel", || explain::measure(&gemm, kernel, shape))?
    };
    let gemm = Gemm::new(Device::open(DeviceSelector::Simulator)?);
    let explanation = progress::launching(gemm.device(), kernel.blocks(m, n, k), || {
        explain::explain(&gemm, kernel, gpu_kernels::SOURCES, shape, gpu, measured)
    })?;
    let mut report = ExplainReport::new(explanation, arguments.language.get());
    if let (Some(output), Some(path)) = (output, &arguments.svg) {
        let picture = report.picture().map_err(|error| anyhow!("cannot draw the roofline: {error}"))?;
        output.write(|file| file.write_all(picture.as_bytes()))?;
        report.svg = Some(path.display().to_string());
    }
    Ok(report)
}
