//! What the launches of a product cost, counted on the simulator: what there is to say of speed without a GPU.

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
    /// How it was computed.
    pub plan: Plan,
    /// Launches: that of the plan's kernel, and of those that prepare for it or add up the sums of its splits.
    pub launches: usize,
    /// Blocks of all launches.
    pub blocks: u64,
    /// What they cost.
    pub counts: Counts,
    /// What follows from that.
    pub ratios: Ratios,
    /// Whether the product is right.
    pub check: Check,
}

/// Has a contender do a problem on the simulator, counts what it costs and checks the product. `None` if the contender
/// doesn't take the problem, or it's a batch. All launches of the product are counted together.
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
    let Some(plan) = hands.plan(contender, problem, buffers.copy(0))? else { return Ok(None) };
    let Plan { kernel, splits, .. } = plan;
    let copy = buffers.copy(0);
    let mut blocks = 0;
    let watched = hands.gemm.observe_all(kernel, splits, 0.0, copy.single()?, |entry, module, config| {
        blocks += config.grid.into_iter().map(u64::from).product::<u64>();
        Costs::new(module, entry)
    })?;
    let mut counts = Counts::default();
    watched.iter().for_each(|costs| counts += costs.total());
    let check = Samples::new(problem, &inputs, seed).check(problem, buffers.results()?.first());
    let ratios = Ratios::new(&counts, [m, n, k], kernel.precision);
    let (contender, launches) = (contender.clone(), watched.len());
    Ok(Some(Counted { problem: *problem, contender, plan, launches, blocks, counts, ratios, check }))
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
        assert_eq!((counted.launches, counted.blocks), (1, counted.plan.kernel.blocks(40, 24, 33)));
        let batch = Problem { batch: 2, ..problem };
        assert!(count(hands, &naive, &batch, Numbers::Normal, 1).unwrap().is_none());
        assert!(count(hands, &Contender::Cublas, &problem, Numbers::Normal, 1).unwrap().is_none());
    }

    #[test]
    fn adding_up_splits_and_splitting_numbers_into_parts_are_launches_that_count() {
        let gemm = Gemm::new(Device::open(DeviceSelector::Simulator).unwrap());
        let hands = Hands { gemm: &gemm, cublas: None };
        let count = |name: &str, precision: Precision, k| {
            let contender = contender::by_name(name, precision).unwrap().remove(0);
            let problem = Problem::new(64, 64, k).of(precision);
            let counted = count(hands, &contender, &problem, Numbers::Normal, 1).unwrap().unwrap();
            assert!(counted.check.passed(), "{name}: {:?}", counted.check);
            counted
        };
        let [whole, split] = ["64x64x16", "64x64x16/4"].map(|name| count(name, Precision::F32, 256));
        assert_eq!((whole.launches, split.launches, whole.blocks), (1, 2, 1));
        // Four blocks multiply, and others add up what they wrote: four matrices are written and read that weren't before.
        assert!(split.blocks > 4 && split.counts.thread_fma >= whole.counts.thread_fma);
        let sums = 4 * 64 * 64 * 4 / 32;
        assert!(split.counts.global_stores.units >= whole.counts.global_stores.units + sums);
        let loaded = |counted: &Counted| counted.counts.global_loads.units + counted.counts.global_copies.units;
        assert!(loaded(&split) >= loaded(&whole) + sums);
        let halves = ["128x64_bf16", "128x64_bf16/2"].map(|name| count(name, Precision::Bf16, 512).launches);
        assert_eq!(halves, [1, 2]);
        // Splitting and multiplying.
        let parts = count("128x64_fp32-tc", Precision::F32Parts, 256);
        assert_eq!(parts.launches, 2);
        assert!(parts.counts.global_stores.bytes > 2 * 4 * 64 * 256, "the parts are written");
    }
}
