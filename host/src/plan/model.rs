//! How long a production kernel will take, as far as a small model can tell: what [`plan`](super::plan) chooses by.
//!
//! Blocks run in rounds. A multiprocessor has room for so many blocks of a family at a time, [`Cost::room`], and a round
//! takes what a tile costs, [`Cost::tile`], and [`Cost::step`] for each of its steps along K. The last round may have fewer
//! blocks; a multiprocessor with fewer is through sooner, but not in proportion, since one block alone waits more:
//! [`Cost::alone`]. However few the steps, A, B and C have to come from memory once. And splits have to be added up.
//!
//! The figures were fitted to the times of 2,869 plans for 106 products on an H200, with matrices that come from memory:
//! random sizes of 32 to 8192, aligned and not, some squares, and some skinny, deep and batched ones. There the model is off
//! by 4 % in the median, and the plan that it chooses takes 0.7 % longer in the mean than the best of those timed, 12 % at
//! most. On other GPUs the proportions count, not the microseconds.

use gpu_kernels::Kernel;
use production_kernels::{Copying, FAMILIES, Family};

use super::{Plan, Problem, copying_of_a, copying_of_b, family_of};
use crate::device::Machine;

/// What a family's blocks take, in microseconds.
#[derive(Clone, Copy, Debug)]
struct Cost {
    /// Blocks that a multiprocessor has room for at a time: as many as its registers and shared memory are enough for.
    room: f64,
    /// A round, whatever its steps.
    tile: f64,
    /// A step along K, of all blocks that a multiprocessor has room for.
    step: f64,
    /// The part of `step` that one block takes at least if it has the multiprocessor to itself.
    alone: f64,
}

/// The costs of each family, by its name.
const COSTS: [(&str, Cost); 15] = [
    ("128x256x16", Cost { room: 1.0, tile: 4.40, step: 2.433, alone: 1.0 }),
    ("64x128x16x2", Cost { room: 1.0, tile: 2.96, step: 0.696, alone: 1.0 }),
    ("64x128x16", Cost { room: 3.0, tile: 3.34, step: 2.005, alone: 0.43 }),
    ("128x64x16", Cost { room: 3.0, tile: 3.37, step: 2.071, alone: 0.42 }),
    ("64x64x16", Cost { room: 4.0, tile: 1.80, step: 1.700, alone: 0.38 }),
    ("64x64x32x4", Cost { room: 1.0, tile: 2.30, step: 0.778, alone: 1.0 }),
    ("32x64x64x8", Cost { room: 1.0, tile: 2.27, step: 0.860, alone: 1.0 }),
    ("64x32x64x8", Cost { room: 1.0, tile: 2.45, step: 0.866, alone: 1.0 }),
    ("32x32x32x8", Cost { room: 2.0, tile: 1.25, step: 0.600, alone: 0.60 }),
    ("16x32x32x8", Cost { room: 3.0, tile: 0.94, step: 0.684, alone: 0.40 }),
    ("16x128x32x8", Cost { room: 1.0, tile: 2.21, step: 0.453, alone: 1.0 }),
    ("16x256x32x4", Cost { room: 1.0, tile: 2.90, step: 0.839, alone: 1.0 }),
    ("32x128x32x4", Cost { room: 1.0, tile: 2.41, step: 0.798, alone: 1.0 }),
    ("128x16x32x8", Cost { room: 1.0, tile: 2.05, step: 0.625, alone: 1.0 }),
    ("128x32x32x4", Cost { room: 1.0, tile: 2.85, step: 0.869, alone: 1.0 }),
];

/// A launch, in microseconds.
const LAUNCH: f64 = 1.02;
/// How much more a step takes if A or B is copied word by word where the other dimension is contiguous.
const BY_WORDS: f64 = 1.102;
/// The second launch, which adds up splits.
const ADDING: f64 = 2.29;
/// Bytes of partial sums that are written and read again per microsecond.
const SUMS_SPEED: f64 = 1.366e+06;
/// Bytes of A, B and C that memory gives and takes per microsecond.
const MEMORY_SPEED: f64 = 3.660e+06;

/// Parts that K may be cut into.
const SPLITS: [u32; 17] = [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128];

/// The most elements of partial sums.
pub const MOST_SUMS: usize = 64 << 20;

/// The most rounds that splits may make.
const MOST_SPLIT_ROUNDS: f64 = 6.0;

/// Rows of tiles in a group. With 8 the blocks that run together are about as high as wide.
pub const GROUP: u32 = 8;

/// The plan of the least time, for a GPU that has production kernels.
pub fn best(problem: &Problem, machine: Machine) -> Plan {
    least(all(problem, machine, GROUP)).expect("every family can do without splits").0
}

/// The best plan with a given production kernel, and its seconds. `None` for other kernels.
pub fn best_with(kernel: &'static Kernel, problem: &Problem, machine: Machine, group: u32) -> Option<(Plan, f64)> {
    let (family, ways) = family_of(kernel)?;
    least(with(family, kernel, ways, problem, machine, group))
}

/// Every plan with production kernels that makes sense, and its seconds.
pub fn all(problem: &Problem, machine: Machine, group: u32) -> impl Iterator<Item = (Plan, f64)> {
    let (a, b) = (copying_of_a(problem.a), copying_of_b(problem.b));
    FAMILIES.iter().flat_map(move |family| with(family, family.kernel(a, b), (a, b), problem, machine, group))
}

/// The seconds that a plan will take; `None` for kernels that aren't production kernels, and for splits that make no sense.
pub fn seconds(plan: &Plan, problem: &Problem, machine: Machine) -> Option<f64> {
    let (family, ways) = family_of(plan.kernel)?;
    seconds_of(family, cost_of(family), ways, plan.splits, problem, machine)
}

/// The plans with one kernel of a family.
fn with(
    family: &Family,
    kernel: &'static Kernel,
    ways: (Copying, Copying),
    problem: &Problem,
    machine: Machine,
    group: u32,
) -> impl Iterator<Item = (Plan, f64)> {
    let cost = cost_of(family);
    SPLITS.into_iter().filter_map(move |splits| {
        Some((Plan { kernel, splits, group }, seconds_of(family, cost, ways, splits, problem, machine)?))
    })
}

fn least(plans: impl Iterator<Item = (Plan, f64)>) -> Option<(Plan, f64)> {
    plans.min_by(|(_, one), (_, other)| one.total_cmp(other))
}

fn cost_of(family: &Family) -> Cost {
    COSTS.iter().find(|(name, _)| *name == family.name).expect("every family has its costs").1
}

fn seconds_of(
    family: &Family,
    cost: Cost,
    (a, b): (Copying, Copying),
    splits: u32,
    problem: &Problem,
    machine: Machine,
) -> Option<f64> {
    let Problem { m, n, k, batch, .. } = *problem;
    let (m, n, k, batch) = (m as f64, n as f64, k as f64, batch as f64);
    let tiles = (m / f64::from(family.tile.m)).ceil() * (n / f64::from(family.tile.n)).ceil() * batch;
    let all_steps = (k / f64::from(family.tile.k)).ceil().max(1.0);
    let parts = f64::from(splits);
    let steps = (all_steps / parts).ceil();
    let sums = parts * m * n * batch;
    let multiprocessors = f64::from(machine.multiprocessors.max(1));
    if splits > 1
        && ((all_steps / steps).ceil() != parts
            || steps < 2.0
            || tiles * parts > MOST_SPLIT_ROUNDS * multiprocessors
            || sums > MOST_SUMS as f64)
    {
        return None;
    }
    let room = cost.room;
    let rounds = (tiles * parts / (multiprocessors * room)).floor();
    let rest = ((tiles * parts - rounds * multiprocessors * room) / multiprocessors).ceil();
    let slowly = if a == Copying::Words || b != Copying::Vectors { BY_WORDS } else { 1.0 };
    let step = cost.step * slowly;
    let mut time = rounds * (cost.tile + steps * step);
    if rest > 0.0 {
        time += cost.tile + steps * step * (rest / room).max(cost.alone);
    }
    let memory = 4.0 * (m * k + k * n + m * n) * batch / MEMORY_SPEED;
    let adding = if splits > 1 { adding(sums) } else { 0.0 };
    Some((LAUNCH + time.max(memory) + adding) * 1e-6)
}

/// The microseconds that it takes to add up the sums of splits, so many in all.
pub(super) fn adding(sums: f64) -> f64 {
    ADDING + 4.0 * sums / SUMS_SPEED
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Layout;

    const H200: Machine = Machine { multiprocessors: 132, compute_capability: (9, 0) };

    fn problem(m: usize, n: usize, k: usize) -> Problem {
        let rows = Layout { by_columns: false, mappable: true, aligned: true };
        Problem { m, n, k, a: rows, b: rows, batch: 1, plain: true }
    }

    #[test]
    fn every_family_has_its_costs_and_no_other_has() {
        let mut families: Vec<_> = FAMILIES.iter().map(|family| family.name).collect();
        let mut costs: Vec<_> = COSTS.iter().map(|(name, _)| *name).collect();
        families.sort_unstable();
        costs.sort_unstable();
        assert_eq!(families, costs);
    }

    #[test]
    fn large_products_get_the_large_tile_and_small_ones_more_blocks() {
        let tile = |m, n, k| best(&problem(m, n, k), H200).kernel.tile;
        assert_eq!((tile(4096, 4096, 4096).m, tile(4096, 4096, 4096).n), (128, 256));
        assert!(tile(256, 256, 256).m <= 32);
        assert!(tile(16, 8192, 8192).m == 16 && tile(8192, 16, 8192).n == 16);
    }

    #[test]
    fn a_small_c_with_a_long_k_is_split() {
        assert!(best(&problem(64, 64, 65536), H200).splits >= 16);
        assert_eq!(best(&problem(4096, 4096, 4096), H200).splits, 1);
    }

    #[test]
    fn products_of_any_size_have_a_plan() {
        for size in [1, 2, 31, 1 << 20, 1 << 30, 1 << 40] {
            for (m, n, k) in [(size, 1, 1), (1, size, 1), (1, 1, size), (size, size, 7)] {
                let plan = best(&problem(m, n, k), H200);
                assert!(plan.splits >= 1 && seconds(&plan, &problem(m, n, k), H200).is_some(), "{m} {n} {k}");
            }
        }
    }
}
