//! Which kernel for factors of 16 bits.
//!
//! On Hopper it's a production kernel whose blocks stay, one on each multiprocessor, and compute one tile after the other. So the time is that of the
//! multiprocessor with the most tiles:
//!
//! ```text
//!   seconds = LAUNCH + rounds * (tile + steps * step)      rounds = tiles / multiprocessors, rounded up
//! ```
//!
//! with a step of 64 along k. The constants of each width are those of an H200, with matrices of random numbers.

use gpu_kernels::{Kernel, launch::ElementType, tensor_cores};
use hopper_kernels::{FAMILIES, Family};

use super::{Plan, Problem};
use crate::device::Machine;

/// What a tile of so many columns costs, in microseconds.
struct Cost {
    columns: u32,
    /// Storing it, and the beginning of the next one.
    tile: f64,
    /// A step along k.
    step: f64,
}

const COSTS: [Cost; 3] = [
    Cost { columns: 256, tile: 2.0, step: 0.80 },
    Cost { columns: 128, tile: 1.2, step: 0.415 },
    Cost { columns: 64, tile: 0.8, step: 0.25 },
];

/// Rows of tiles in a group: what a group of them reads of A and B fits into the L2 cache.
const GROUP: u32 = 8;

/// The plan for a product with such factors when its caller has none.
pub fn plan(problem: &Problem, machine: Machine, factors: ElementType) -> Plan {
    match hopper(problem, machine, factors) {
        Some(kernel) => Plan { kernel, splits: 1, group: GROUP },
        None => Plan::new(&tensor_cores::KERNEL),
    }
}

/// The production kernel for it, if the GPU is a Hopper and tensor maps can describe A and B.
fn hopper(problem: &Problem, machine: Machine, factors: ElementType) -> Option<&'static Kernel> {
    if machine.compute_capability != (9, 0) || !problem.a.aligned || !problem.b.aligned {
        return None;
    }
    let of_type = FAMILIES.iter().filter(|family| family.precision.factors() == factors);
    let seconds = |family: &&Family| seconds(family, problem, machine);
    let best = of_type.min_by(|one, other| seconds(one).total_cmp(&seconds(other)))?;
    Some(best.kernel(problem.a.by_columns, !problem.b.by_columns))
}

/// The seconds that a product takes with a family's tile, but for the launch.
fn seconds(family: &Family, problem: &Problem, machine: Machine) -> f64 {
    let cost = COSTS.iter().find(|cost| cost.columns == family.tile.n).expect("every width has its cost");
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
        plan(&problem, H200, ElementType::Bf16).kernel.name
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
    fn matrices_that_have_no_tensor_map_and_other_gpus_get_the_kernel_that_copies_element_by_element() {
        let unaligned = Layout { aligned: false, ..ROWS };
        assert_eq!(chosen(Problem { a: unaligned, ..square(8192) }), "tensor_cores");
        let a100 = Machine { multiprocessors: 108, compute_capability: (8, 0) };
        assert_eq!(plan(&square(8192), a100, ElementType::Bf16).kernel.name, "tensor_cores");
    }
}
