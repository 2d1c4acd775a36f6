//! Which plans may be the fastest for a product: those that a rough estimate doesn't rule out.
//!
//! The estimate is the [model](crate::plan::model) that plans without a tuning follow. Here it leaves out what can't win; which
//! of the rest is the fastest is measured.

use gpu_kernels::{KERNELS, Kernel, Precision, Signature};

use crate::{
    device::Machine,
    plan::{self, Plan, Problem, model},
};

/// The most candidates.
const MOST: usize = 14;

/// How much slower than the best estimate a candidate's may be.
const FACTOR: f64 = 1.8;

/// The plans to time for a product, the first of them the one that would be used without a tuning.
pub fn candidates(problem: &Problem, machine: Machine) -> Vec<Plan> {
    let own = plan::plan(problem, machine);
    let others =
        if plan::family_of(own.kernel).is_some() { production(problem, machine, &own) } else { book(problem, machine) };
    let is_other = |plan: &Plan| (plan.kernel.name, plan.splits) != (own.kernel.name, own.splits);
    std::iter::once(own).chain(others.into_iter().filter(is_other)).take(MOST).collect()
}

/// Plans with production kernels.
fn production(problem: &Problem, machine: Machine, own: &Plan) -> Vec<Plan> {
    let mut plans: Vec<_> = model::all(problem, machine, own.group).collect();
    plans.sort_by(|(_, one), (_, other)| one.total_cmp(other));
    let best = plans.first().map_or(0.0, |(_, seconds)| *seconds);
    plans.into_iter().take_while(|(_, seconds)| *seconds <= FACTOR * best).map(|(plan, _)| plan).collect()
}

/// Plans with the book's kernels, for GPUs that have no production kernels.
fn book(problem: &Problem, machine: Machine) -> Vec<Plan> {
    let can = |kernel: &&Kernel| {
        kernel.architecture.runs_on(machine.compute_capability)
            && kernel.precision == Precision::F32
            && (problem.plain || kernel.signature == Signature::Call)
            && (kernel.launch_shape)(problem.m, problem.n, problem.k).is_some()
    };
    KERNELS.iter().filter(can).map(Plan::new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::class::Class;

    const H200: Machine = Machine { multiprocessors: 132, compute_capability: (9, 0) };
    const T4: Machine = Machine { multiprocessors: 40, compute_capability: (7, 5) };

    #[test]
    fn the_first_candidate_is_the_models_choice_and_none_is_there_twice() {
        for class in Class::all() {
            let problem = class.problem();
            let plans = candidates(&problem, H200);
            let own = plan::plan(&problem, H200);
            assert_eq!((plans[0].kernel.name, plans[0].splits), (own.kernel.name, own.splits));
            let mut names: Vec<_> = plans.iter().map(|plan| (plan.kernel.name, plan.splits)).collect();
            assert!(plans.iter().all(|plan| plan::suits(plan.kernel, problem.a, problem.b)));
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), plans.len());
            assert!(plans.len() > 1, "{class:?}");
        }
    }

    #[test]
    fn large_products_have_large_tiles_among_their_candidates_and_deep_ones_splits() {
        let of = |m, n, k| {
            let way = Class::all()[0];
            let problem = Problem { m, n, k, ..way.problem() };
            candidates(&problem, H200)
        };
        assert!(of(8192, 8192, 8192).iter().any(|plan| plan.kernel.tile.m * plan.kernel.tile.n == 128 * 256));
        assert!(of(64, 64, 8192).iter().any(|plan| plan.splits >= 16));
    }

    #[test]
    fn a_gpu_without_production_kernels_has_the_books() {
        for class in Class::all() {
            let plans = candidates(&class.problem(), T4);
            assert!(plans.iter().all(|plan| plan.kernel.architecture.runs_on((7, 5))));
        }
    }
}
