//! What a launch costs, counted on the simulator: what there is to say of speed without a GPU.

use ptx_simulator::observe::costs::{Costs, Counts};

use super::{
    BenchError,
    check::{Check, Samples},
    contender::{Contender, Hands},
    data::{Buffers, Inputs, Numbers},
    problem::Problem,
};
use crate::{explain::ratios::Ratios, plan::Plan};

/// A contender's counts for a problem.
#[derive(Clone, Debug)]
pub struct Counted {
    /// The problem.
    pub problem: Problem,
    /// Who.
    pub contender: Contender,
    /// The kernel that ran.
    pub kernel: &'static str,
    /// Blocks that were launched.
    pub blocks: u64,
    /// What they cost.
    pub counts: Counts,
    /// What follows from that.
    pub ratios: Ratios,
    /// Whether the product is right.
    pub check: Check,
}

/// Has a contender do a problem on the simulator, counts what it costs and checks the product. `None` if the contender
/// doesn't take the problem, or it's a batch. One launch is counted: K isn't split.
///
/// # Errors
///
/// [`BenchError`] if memory doesn't suffice, the launch fails or `hands` aren't on the simulator.
pub fn count(
    hands: Hands<'_>,
    contender: &Contender,
    problem: &Problem,
    numbers: Numbers,
    seed: u64,
) -> Result<Option<Counted>, BenchError> {
    let Problem { m, n, k, batch, .. } = *problem;
    if batch != 1 || !hands.takes(contender, problem) {
        return Ok(None);
    }
    let inputs = Inputs::random(problem, numbers, seed)?;
    let mut buffers = Buffers::new(hands.gemm.device(), problem, &inputs, 1)?;
    buffers.poison()?;
    let Some(Plan { kernel, .. }) = hands.plan(contender, problem, buffers.copy(0))? else { return Ok(None) };
    let copy = buffers.copy(0);
    let [a, b, c] = copy.single()?;
    let observed = hands.gemm.observe(kernel, a, b, c, |module, _| Costs::new(module, kernel.entry))?;
    let counts = observed.map(|costs| costs.total()).unwrap_or_default();
    let check = Samples::new(problem, &inputs, seed).check(problem, buffers.results()?.first());
    let ratios = Ratios::new(&counts, [m, n, k], kernel.precision);
    let blocks = kernel.blocks(m, n, k);
    let contender = contender.clone();
    Ok(Some(Counted { problem: *problem, contender, kernel: kernel.name, blocks, counts, ratios, check }))
}

#[cfg(test)]
mod tests {
    use gpu_kernels::Precision;

    use super::*;
    use crate::{
        bench::contender,
        device::{Device, DeviceSelector},
        gemm::Gemm,
    };

    #[test]
    fn counts_are_of_the_very_launch_whose_product_is_checked() {
        let gemm = Gemm::new(Device::open(DeviceSelector::Simulator).unwrap());
        let hands = Hands { gemm: &gemm, cublas: None };
        let problem = Problem::new(40, 24, 33);
        let naive = contender::by_name("naive", Precision::F32).unwrap().remove(0);
        let counted = count(hands, &naive, &problem, Numbers::Normal, 1).unwrap().unwrap();
        assert_eq!((counted.counts.thread_fma, counted.counts.barriers), (40 * 24 * 33, 0));
        assert!(counted.check.passed() && counted.check.elements == 960);
        let batch = Problem { batch: 2, ..problem };
        assert!(count(hands, &naive, &batch, Numbers::Normal, 1).unwrap().is_none());
        assert!(count(hands, &Contender::Cublas, &problem, Numbers::Normal, 1).unwrap().is_none());
    }
}
