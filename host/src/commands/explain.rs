//! Show what each line of a kernel costs, and where its launch stands under the limits of a GPU.

use std::io::Write;

use anyhow::anyhow;
use gpu_kernels::Kernel;
use host::{
    device::Device,
    explain::{self, ExplainError, Explanation},
    gemm::Gemm,
    gpus::{self, Gpu},
    kernels,
    matrix::OutputFile,
    report::ExplainReport,
};

use super::{memory::ensure_product_fits, progress};
use crate::cli::{Common, ExplainArguments};

/// The product that is explained unless another is asked for: large enough that edges don't matter.
pub const DEFAULT_SHAPE: [usize; 3] = [256; 3];

pub fn run(arguments: &ExplainArguments, common: Common) -> anyhow::Result<ExplainReport> {
    let named = kernels::by_name_or_exercise(&arguments.kernel)?;
    let shape @ [m, n, k] = arguments.shape.get().unwrap_or(DEFAULT_SHAPE);
    if shape.contains(&0) {
        return Err(ExplainError::Empty { m, n, k }.into());
    }
    ensure_product_fits(shape, 0)?;
    let kernel = named.to_look_into(shape)?;
    let gpu = super::gpu_for(arguments.gpu.as_deref(), &[kernel])?;
    let output = arguments.svg.as_deref().map(OutputFile::create).transpose()?;
    let explanation = explanation(kernel, shape, gpu, common)?;
    let mut report = ExplainReport::new(explanation, arguments.language.get());
    report.width = super::terminal_width();
    if let (Some(output), Some(path)) = (output, &arguments.svg) {
        let picture = report.picture().map_err(|error| anyhow!("cannot draw the roofline: {error}"))?;
        output.write(|file| file.write_all(picture.as_bytes()))?;
        report.svg = Some(path.display().to_string());
    }
    Ok(report)
}

/// Counts on the simulator and, where there is a GPU, times there. [`gpus::choose`] says whose limits apply.
pub fn explanation(
    kernel: &'static Kernel,
    shape: [usize; 3],
    named: Option<&'static Gpu>,
    common: Common,
) -> anyhow::Result<Explanation> {
    let [m, n, k] = shape;
    let device = Device::open(common.device())?;
    let gpu = gpus::choose(named, &device.info().name);
    let measured = if device.is_simulator() {
        None
    } else {
        let gemm = Gemm::new(device);
        progress::spinning("timing the kernel", || explain::measure(&gemm, kernel, shape))?
    };
    let gemm = Gemm::new(super::watched_simulator(k));
    Ok(progress::launching(gemm.device(), kernel.blocks(m, n, k), || {
        explain::explain(&gemm, kernel, kernels::sources(), shape, gpu, measured)
    })?)
}
