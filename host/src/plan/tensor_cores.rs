//! Which kernel for products on tensor cores.
//!
//! On Hopper it's a production kernel whose blocks stay, one on each multiprocessor, and compute one tile after the other. So the time is that of the
//! multiprocessor with the most tiles:
//!
//! ```text
//!   seconds = LAUNCH + rounds * (tile + steps * step)      rounds = tiles / multiprocessors, rounded up
//! ```
//!
//! with a step of 64 along k. The constants of each width are those of an H200, with matrices of random numbers.

use gpu_kernels::Precision;
use hopper_kernels::{FAMILIES, Family};

use super::{Plan, Problem};
use crate::device::Machine;

/// What a family's tile costs, in microseconds.
struct Cost {
    family: &'static str,
    /// Storing it, and the beginning of the next one.
    tile: f64,
    /// A step along k.
    step: f64,
}

const COSTS: [Cost; 7] = [
    Cost { family: "128x256_bf16", tile: 2.0, step: 0.80 },
    Cost { family: "128x128_bf16", tile: 1.2, step: 0.415 },
    Cost { family: "128x64_bf16", tile: 0.8, step: 0.25 },
    Cost { family: "128x192_fp32-tc", tile: 2.0, step: 1.68 },
    Cost { family: "128x128_fp32-tc_128", tile: 1.5, step: 1.10 },
    Cost { family: "128x128_fp32-tc", tile: 1.5, step: 1.25 },
    Cost { family: "128x64_fp32-tc", tile: 1.0, step: 0.76 },
];

/// The least inner dimension for parts: a short sum of them errs more than one of f32, and isn't faster.
const LEAST_K_OF_PARTS: usize = 64;
/// The largest sizes of a product in parts, which are counted twice along k with 32 bits.
const LARGEST_OF_PARTS: usize = 1 << 28;

/// Rows of tiles in a group: what a group of them reads of A and B fits into the L2 cache.
const GROUP: u32 = 8;

/// The plan for a product in a precision when its caller has none; `None` if there is no production kernel for it on tensor cores, which is so if the GPU
/// is no Hopper, if tensor maps can't describe A and B, or if f32 in parts wouldn't pay.
pub fn plan(problem: &Problem, machine: Machine, precision: Precision) -> Option<Plan> {
    let Problem { m, n, k, a, b, .. } = *problem;
    let in_parts = precision == Precision::F32Parts;
    let can =
        if in_parts { k >= LEAST_K_OF_PARTS && m.max(n).max(k) <= LARGEST_OF_PARTS } else { a.aligned && b.aligned };
    if machine.compute_capability != (9, 0) || !can {
        return None;
    }
    // Sums of twice the length are for products whose sums are long in f32 too, because C has too many tiles for K to be split.
    let tiles = m.div_ceil(128) as u64 * n.div_ceil(128) as u64;
    let are_long = tiles >= u64::from(machine.multiprocessors) && k >= 1024;
    let suits = |family: &&Family| family.precision == precision && (family.pairs < 2 || are_long);
    let seconds = |family: &&Family| seconds(family, problem, machine);
    let best = FAMILIES.iter().filter(suits).min_by(|one, other| seconds(one).total_cmp(&seconds(other)))?;
    Some(Plan { kernel: best.kernel(a.by_columns, !b.by_columns), splits: 1, group: GROUP })
}

/// The seconds that a product takes with a family's tile, but for launches and parts.
fn seconds(family: &Family, problem: &Problem, machine: Machine) -> f64 {
    let cost = COSTS.iter().find(|cost| cost.family == family.name).expect("every family has its cost");
    let tiles = |length: usize, tile: u32| length.div_ceil(tile as usize) as f64;
    let tiles_of_c = tiles(problem.m, family.tile.m) * tiles(problem.n, family.tile.n) * problem.batch as f64;
    let rounds = (tiles_of_c / f64::from(machine.multiprocessors.max(1))).ceil();
    1e-6 * rounds * (cost.tile + tiles(problem.k, family.tile.k) * cost.step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Layout;

    const H200: Machine = Machine { multiprocessors: 132, compute_capability: (9, 0) };
    const ROWS: Layout = Layout { by_columns: false, aligned: true };

    fn chosen(problem: Problem) -> &'static str {
        plan(&problem, H200, Precision::Bf16).unwrap().kernel.name
    }

    fn square(size: usize) -> Problem {
        Problem { m: size, n: size, k: size, a: ROWS, b: ROWS, batch: 1, plain: true }
    }

    #[test]
    fn large_products_get_wide_tiles_and_small_ones_narrow_tiles_that_all_multiprocessors_have_one_of() {
        assert_eq!(chosen(square(8192)), "tensor_128x256_bf16_kv");
        assert_eq!(chosen(square(1024)), "tensor_128x64_bf16_kv");
    }

    #[test]
    fn the_kernel_is_the_one_for_the_way_in_which_the_matrices_lie() {
        let columns = Layout { by_columns: true, ..ROWS };
        for (a, b, ways) in [(ROWS, columns, "kk"), (columns, ROWS, "vv"), (columns, columns, "vk")] {
            assert_eq!(chosen(Problem { a, b, ..square(8192) }), format!("tensor_128x256_bf16_{ways}"));
        }
    }

    #[test]
    fn matrices_that_have_no_tensor_map_and_other_gpus_have_no_plan() {
        let unaligned = Problem { a: Layout { aligned: false, ..ROWS }, ..square(8192) };
        assert!(plan(&unaligned, H200, Precision::Bf16).is_none());
        assert!(plan(&unaligned, H200, Precision::F32Parts).is_some());
        let a100 = Machine { multiprocessors: 108, compute_capability: (8, 0) };
        for precision in [Precision::Bf16, Precision::F32Parts] {
            assert!(plan(&square(8192), a100, precision).is_none());
        }
    }

    #[test]
    fn parts_are_summed_up_for_longer_where_c_has_many_tiles_and_not_at_all_for_short_sums() {
        let of = |problem: Problem| plan(&problem, H200, Precision::F32Parts).map(|plan| plan.kernel.name);
        assert!(of(square(4096)).unwrap().starts_with("tensor_128x128_parts_128"));
        assert!(of(Problem { n: 512, m: 512, ..square(65536) }).unwrap().starts_with("tensor_128x64_parts"));
        assert_eq!(of(Problem { k: 63, ..square(4096) }), None);
        assert_eq!(of(Problem { k: LARGEST_OF_PARTS + 1, ..square(4096) }), None);
    }
}
