//! Which kernel for products on tensor cores.
//!
//! On Hopper it's a production kernel whose blocks stay, one on each multiprocessor, and compute one tile after the other. So the time is that of the
//! multiprocessor with the most tiles:
//!
//! ```text
//!   seconds = rounds * (tile + steps * step)      rounds = tiles / multiprocessors, rounded up
//! ```
//!
//! with a step of 64 along k (of tf32, 32), of which blocks that share a tile each have a part. Where C has few tiles, K is split, and each split has tiles of its own; then the sums of all splits are added
//! up. The constants of each width are those of an H200, with matrices of random numbers.

use gpu_kernels::Precision;
use hopper_kernels::{FAMILIES, Family};

use super::{Plan, Problem, model};
use crate::device::Machine;

/// What a tile costs, in microseconds.
struct Cost {
    /// Its rows and columns.
    tile_of_c: [u32; 2],
    /// Whether factors are in parts.
    in_parts: bool,
    /// Blocks of a cluster, one below the other.
    cluster: u32,
    /// Blocks of a cluster that share a tile.
    along_k: u32,
    /// Storing it, and the beginning of the next one.
    tile: f64,
    /// A step along k.
    step: f64,
}

const COSTS: [Cost; 12] = [
    Cost { tile_of_c: [128, 256], in_parts: false, cluster: 1, along_k: 1, tile: 2.0, step: 0.80 },
    Cost { tile_of_c: [128, 256], in_parts: false, cluster: 2, along_k: 1, tile: 2.5, step: 0.79 },
    Cost { tile_of_c: [128, 128], in_parts: false, cluster: 1, along_k: 1, tile: 1.2, step: 0.415 },
    Cost { tile_of_c: [128, 64], in_parts: false, cluster: 1, along_k: 1, tile: 0.8, step: 0.25 },
    Cost { tile_of_c: [128, 192], in_parts: true, cluster: 1, along_k: 1, tile: 2.0, step: 1.62 },
    Cost { tile_of_c: [128, 192], in_parts: true, cluster: 2, along_k: 1, tile: 2.5, step: 1.60 },
    Cost { tile_of_c: [128, 128], in_parts: true, cluster: 2, along_k: 1, tile: 1.8, step: 1.16 },
    Cost { tile_of_c: [128, 128], in_parts: true, cluster: 1, along_k: 1, tile: 1.5, step: 1.17 },
    Cost { tile_of_c: [128, 64], in_parts: true, cluster: 1, along_k: 1, tile: 1.0, step: 0.76 },
    Cost { tile_of_c: [64, 128], in_parts: true, cluster: 1, along_k: 1, tile: 3.0, step: 0.54 },
    Cost { tile_of_c: [64, 64], in_parts: true, cluster: 1, along_k: 1, tile: 2.2, step: 0.355 },
    Cost { tile_of_c: [64, 64], in_parts: true, cluster: 1, along_k: 2, tile: 3.4, step: 0.33 },
];

/// The launch of a product in parts besides the multiplication, of splitting.
const LAUNCHES_OF_PARTS: f64 = 2.8;
/// Splitting a number, in microseconds.
const SPLITTING: f64 = 2.1e-6;

/// The least inner dimension for parts: a short sum of them errs more than one of f32. (Of uniform numbers the root mean square is 1.4 times as
/// large at 64, 1.1 times at 96, and 0.7 times at 200.)
const LEAST_K_OF_PARTS: usize = 192;
/// The largest sizes of a product in parts, which are counted twice along k with 32 bits.
pub(crate) const LARGEST_OF_PARTS: usize = 1 << 28;
/// The largest sizes of others.
const LARGEST: usize = 1 << 30;

/// How many neighbours along k tensor cores sum up at a time where factors are packed, with kernels that can keep sums short; 0 is all. There cuBLAS is
/// more exact than otherwise, by other kernels than those for aligned lines, most of all where K is short, and, with packing beside it, what short
/// sums cost is little.
pub(crate) fn longest_sum(k: usize) -> u32 {
    match k {
        0..=32 => 0,
        33..=128 => 16,
        _ => 64,
    }
}

/// The inner dimension up to which wide tiles, which can't keep sums short, are taken all the same: for two steps along k they gain more than short sums do. But where there
/// are many tiles they gain little.
const LONGEST_SUM_OF_WIDE_TILES: usize = 128;
/// Tiles of 128 x 128 for each multiprocessor that are many.
const MANY_TILES: u64 = 8;

/// Parts that K may be cut into.
const SPLITS: [u32; 15] = [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64];

/// Rows of C in a group of rows of tiles. What blocks that run together, as many as there are multiprocessors, compute is about as high as wide then, and
/// they read the least; of products of 8192 and more that saves up to 5 % of the time, under load.
const ROWS_OF_GROUP: u32 = 2048;

/// The plan for a product in a precision when its caller has none; `None` if there is no production kernel for it on tensor cores, which is so if the GPU
/// is no Hopper, or if f32 in parts wouldn't pay.
pub fn plan(problem: &Problem, machine: Machine, precision: Precision) -> Option<Plan> {
    let Problem { m, n, k, a, b, .. } = *problem;
    let in_parts = precision == Precision::F32Parts;
    let largest = if in_parts { LARGEST_OF_PARTS } else { LARGEST };
    if machine.compute_capability != (9, 0) || m.max(n).max(k) > largest || (in_parts && k < LEAST_K_OF_PARTS) {
        return None;
    }
    let tiles = m.div_ceil(128) as u64 * n.div_ceil(128) as u64;
    // Tiles of 64 rows read more for each product, which costs power where all multiprocessors have work.
    let are_many = tiles >= u64::from(machine.multiprocessors);
    // What is packed is multiplied with short sums if K is long enough, for which wide tiles have no registers.
    let has_halves = matches!(precision, Precision::Bf16 | Precision::F16);
    let is_sum_too_long = if tiles >= MANY_TILES * u64::from(machine.multiprocessors) {
        longest_sum(k) != 0
    } else {
        k > LONGEST_SUM_OF_WIDE_TILES
    };
    let is_narrow = has_halves && is_sum_too_long && !(a.mappable && b.mappable);
    let families = FAMILIES.iter().filter(|family| {
        let is_for = (family.tile.m >= 128 || !are_many) && !(is_narrow && family.tile.n > 128);
        family.precision == precision && is_for
    });
    let plans = families.flat_map(|family| {
        let kernel = family.kernel(a.by_columns, !b.by_columns);
        // Of lower tiles there are few.
        let group = ROWS_OF_GROUP / kernel.tile.m.max(128);
        SPLITS.into_iter().filter_map(move |splits| {
            Some((Plan { kernel, splits, group }, seconds(family, splits, problem, machine)?))
        })
    });
    let (plan, seconds) = plans.min_by(|(_, one), (_, other)| one.total_cmp(other))?;
    let in_f32 =
        || model::all(problem, machine, model::GROUP).map(|(_, seconds)| seconds).fold(f64::INFINITY, f64::min);
    (!in_parts || seconds < in_f32()).then_some(plan)
}

/// The seconds that a product takes with a family's tile; `None` for splits that make no sense.
fn seconds(family: &Family, splits: u32, problem: &Problem, machine: Machine) -> Option<f64> {
    let Problem { m, n, k, batch, .. } = *problem;
    let at_once = batch as f64;
    let in_parts = family.precision == Precision::F32Parts;
    let of_family = |cost: &&Cost| {
        (cost.tile_of_c, cost.in_parts) == ([family.tile.m, family.tile.n], in_parts)
            && (cost.cluster, cost.along_k) == (family.cluster, family.along_k)
    };
    let cost = COSTS.iter().find(of_family).expect("every family has its cost");
    let multiprocessors = f64::from(machine.multiprocessors.max(1));
    let tiles = |length: usize, tile: u32| length.div_ceil(tile as usize) as f64;
    let (all_steps, parts) = (tiles(k, family.tile.k).max(1.0), f64::from(splits));
    let along_k = f64::from(family.along_k);
    // Blocks that share a tile have whole blocks of numbers, two steps each.
    let steps = if along_k > 1.0 { 2.0 * (all_steps / 2.0 / along_k).ceil() } else { (all_steps / parts).ceil() };
    // Clusters take as many rows of tiles as they have blocks.
    let blocks = family.cluster;
    let tiles_of_c = f64::from(blocks) * tiles(m, blocks * family.tile.m) * tiles(n, family.tile.n) * at_once;
    let sums = parts * m as f64 * n as f64 * at_once;
    if splits > 1
        && (in_parts
            || (all_steps / steps).ceil() != parts
            || steps < 4.0
            || tiles_of_c * parts > 2.0 * multiprocessors
            || sums > model::MOST_SUMS as f64)
    {
        return None;
    }
    let rounds = (tiles_of_c * parts * along_k / multiprocessors).ceil();
    let mut time = rounds * (cost.tile + steps * cost.step);
    if splits > 1 {
        time += model::adding(sums);
    }
    if in_parts {
        time += LAUNCHES_OF_PARTS + SPLITTING * k as f64 * (m as f64 + n as f64) * at_once;
    }
    Some(1e-6 * time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Layout;

    const H200: Machine = Machine { multiprocessors: 132, compute_capability: (9, 0) };
    const ROWS: Layout = Layout { by_columns: false, mappable: true, aligned: true };

    fn chosen(problem: Problem) -> &'static str {
        plan(&problem, H200, Precision::Bf16).unwrap().kernel.name
    }

    #[test]
    fn every_family_has_its_cost() {
        for family in FAMILIES {
            assert!(seconds(family, 1, &square(512), H200).is_some_and(|seconds| seconds > 0.0), "{}", family.name);
        }
    }

    #[test]
    fn a_small_c_with_a_long_k_is_split_and_one_that_fills_the_gpu_is_not() {
        let splits = |problem: Problem| plan(&problem, H200, Precision::F16).unwrap().splits;
        assert!(splits(Problem { m: 128, n: 256, ..square(16384) }) >= 16);
        assert_eq!(splits(square(4096)), 1);
        assert_eq!(splits(Problem { m: 128, n: 128, ..square(64) }), 1);
    }

    fn square(size: usize) -> Problem {
        Problem { m: size, n: size, k: size, a: ROWS, b: ROWS, batch: 1, plain: true }
    }

    #[test]
    fn large_products_get_wide_tiles_and_small_ones_narrow_tiles_that_all_multiprocessors_have_one_of() {
        assert_eq!(chosen(square(2048)), "tensor_128x256_bf16_kv");
        assert_eq!(chosen(square(4096)), "tensor_2x128x256_bf16_kv");
        assert_eq!(chosen(square(8192)), "tensor_2x128x256_bf16_kv");
        assert_eq!(chosen(square(1024)), "tensor_128x64_bf16_kv");
    }

    #[test]
    fn the_kernel_is_the_one_for_the_way_in_which_the_matrices_lie() {
        let columns = Layout { by_columns: true, ..ROWS };
        for (a, b, ways) in [(ROWS, columns, "kk"), (columns, ROWS, "vv"), (columns, columns, "vk")] {
            assert_eq!(chosen(Problem { a, b, ..square(8192) }), format!("tensor_2x128x256_bf16_{ways}"));
        }
    }

    #[test]
    fn unaligned_factors_of_16_bits_get_tiles_with_room_for_short_sums_unless_they_are_short_anyway() {
        let unaligned = Layout { mappable: false, aligned: false, ..ROWS };
        let of = |size: usize, k: usize| chosen(Problem { a: unaligned, k, ..square(size) });
        assert!(of(4095, 129).starts_with("tensor_128x128_bf16") && of(4095, 128).starts_with("tensor_128x256_bf16"));
        // Of many tiles all sums are short that can be.
        assert!(of(8191, 33).starts_with("tensor_128x128_bf16") && of(8191, 32).starts_with("tensor_128x256_bf16"));
    }

    #[test]
    fn every_layout_has_a_plan_and_other_gpus_have_none() {
        let unaligned = Problem { a: Layout { mappable: false, aligned: false, ..ROWS }, ..square(8192) };
        let a100 = Machine { multiprocessors: 108, compute_capability: (8, 0) };
        for precision in [Precision::Bf16, Precision::F16, Precision::Tf32, Precision::F32Parts] {
            assert!(plan(&unaligned, H200, precision).is_some_and(|plan| plan.kernel.precision == precision));
            assert!(plan(&square(8192), a100, precision).is_none());
        }
    }

    #[test]
    fn parts_have_narrow_tiles_where_c_has_few_and_none_for_short_sums() {
        let of = |problem: Problem| plan(&problem, H200, Precision::F32Parts).map(|plan| plan.kernel.name);
        assert!(of(square(4096)).unwrap().starts_with("tensor_2x128x128_parts"));
        assert!(of(square(16384)).unwrap().starts_with("tensor_2x128x192_parts"));
        assert!(of(Problem { n: 1024, m: 1024, ..square(65536) }).unwrap().starts_with("tensor_64x128_parts"));
        assert!(of(square(640)).unwrap().starts_with("tensor_64x64_parts"));
        // Two blocks share a tile where that gives all multiprocessors work.
        assert!(of(square(512)).unwrap().starts_with("tensor_64x64x2_parts"));
        assert!(of(Problem { k: 4096, ..square(512) }).unwrap().starts_with("tensor_64x64x2_parts"));
        // A product that is small is faster in f32.
        assert_eq!(of(Problem { m: 64, n: 64, ..square(256) }), None);
        assert_eq!(of(Problem { k: 191, ..square(4096) }), None);
        assert_eq!(of(Problem { k: LARGEST_OF_PARTS + 1, ..square(4096) }), None);
    }
}
