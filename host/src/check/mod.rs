//! Is a kernel right in what its result doesn't show? Launches it on the simulator, watched by
//! [`ptx_simulator::observe::hazards`], and puts what is found into the terms of the source: matrices, arrays, lines.

mod findings;
mod problem;

use gpu_kernels::{Kernel, Signature, Tile, launch::ElementType};
use ndarray::Array2;
use production_kernels::Copying;
use ptx_simulator::{DevicePointer, observe::hazards::Hazards};
use serde::{Serialize, Serializer};

use crate::{
    gemm::{FactorBuffer, Gemm, GemmError, next_sizes, rounded},
    kernels::{self, Named},
    matrix, plan,
    verify::{self, Verification},
};

use findings::{Launch, Map};

pub use problem::{Act, Element, Event, Problem, ProblemKind};

/// Seed of the matrices that the kernel multiplies while it's checked.
const SEED: u64 = 42;

/// A product that a kernel computes while it's watched: C = A B + beta C. A and B lie as the kernel wants them.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Case {
    /// The kernel.
    #[serde(serialize_with = "name")]
    pub kernel: Kernel,
    /// m, n, k.
    pub shape: [usize; 3],
    /// Parts of K, which a second kernel adds up if there are several.
    pub splits: u32,
    /// The factor of what C holds.
    pub beta: f32,
}

fn name<S: Serializer>(kernel: &Kernel, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(kernel.name)
}

impl Case {
    /// C = A B in one launch.
    pub fn new(kernel: &Kernel, shape: [usize; 3]) -> Case {
        Case { kernel: *kernel, shape, splits: 1, beta: 0.0 }
    }

    /// Blocks of the kernel.
    pub fn blocks(&self) -> u64 {
        let [m, n, k] = self.shape;
        self.kernel.blocks(m, n, k) * u64::from(self.splits)
    }
}

/// What a check of one kernel found.
#[derive(Clone, Debug, Serialize)]
pub struct Checked {
    /// What was computed under watch.
    pub cases: Vec<Case>,
    /// Blocks that were watched in all.
    pub blocks: u64,
    /// Threads that were watched in all.
    pub threads: u64,
    /// The mistakes: those at barriers, which others may follow from, then the others in the order in which they were
    /// found.
    pub problems: Vec<Problem>,
    /// The comparison of the last product that was wrong with the f64 reference, or of the last one if all were right.
    pub verification: Option<Verification>,
}

impl Checked {
    /// Whether a launch didn't come to its end, so that its product can't be whole.
    pub fn was_stopped(&self) -> bool {
        self.problems.iter().any(|problem| problem.kind.ends_the_kernel())
    }

    /// Whether nothing was found and the products are right.
    pub fn passed(&self) -> bool {
        self.problems.is_empty() && self.verification.as_ref().is_none_or(Verification::passed)
    }
}

/// Products that show a kernel at its best and at its edges: one of whole tiles, and one of sizes that no even extent of
/// a tile divides (or the next that the kernel takes), unless the kernel takes whole tiles only. General kernels also read
/// C in the second, and production kernels compute a third one with K in two parts.
pub fn cases(named: Named) -> Vec<Case> {
    let kernel = named.any();
    let Tile { m, n, k } = kernel.tile;
    let [m, n, k] = [m, n, k].map(|extent| extent as usize);
    // For a tile of one column, 2 * n - 3 would be less than nothing.
    let edges = [2 * m + 3, (2 * n).saturating_sub(3).max(1)];
    let Some((_, ways)) = plan::family_of(kernel) else {
        // Of factors in parts, so long that all scales in shared memory have been written more than once.
        let steps = if matches!(kernel.signature, Signature::MappedParts(_)) { 20 } else { 3 };
        let deep = k * steps.max(24usize.div_ceil(k));
        let reads_c = matches!(kernel.signature, Signature::Call | Signature::MappedCall(_));
        let beta = if reads_c { 1.0 } else { 0.0 };
        let of = |shape| Case::new(kernel, next_sizes(kernel, shape));
        let whole = of([2 * m, 2 * n, deep]);
        let with_edges = Case { beta, ..of([edges[0], edges[1], deep + 5]) };
        // Two parts, the second of which is shorter.
        let in_parts =
            matches!(kernel.signature, Signature::MappedCall(_)).then(|| Case { splits: 2, ..of([m, n, 3 * k]) });
        return [whole, with_edges].into_iter().chain(in_parts).filter(|case| case.blocks() > 0).collect();
    };
    let fours = |size: usize| size.next_multiple_of(4);
    // Vectors need rows at multiples of 16 bytes; of a family, odd sizes show the kernel for words.
    let odd = |way: Copying, size: usize| match named {
        Named::Kernel(_) if way == Copying::Vectors => fours(size),
        _ => size,
    };
    let of = |shape: [usize; 3]| {
        let kernel = named.to_look_into(shape).expect("the sizes are multiples of 4 where the kernel needs that");
        Case::new(kernel, shape)
    };
    // Twice as many steps as there are stages and less, fewer than there are stages, and two parts with a short last step.
    vec![
        of([2 * m, 2 * n, 8 * k]),
        Case { beta: 1.0, ..of([odd(ways.0, edges[0]), odd(ways.1, edges[1]), k + 5]) },
        Case { splits: 2, ..of([fours(edges[0]), fours(edges[1]), 5 * k + 3]) },
    ]
}

/// The products of one shape (m x n x k): one, and with production kernels another with K in two parts if it has as many.
///
/// # Errors
///
/// [`GemmError::Layout`] if the kernel needs rows at multiples of 16 bytes, and with that shape they aren't.
pub fn cases_of(named: Named, shape: [usize; 3]) -> Result<Vec<Case>, GemmError> {
    let case = Case::new(named.to_look_into(shape)?, shape);
    let two_parts = plan::family_of(&case.kernel).is_some() && shape[2] > case.kernel.tile.k as usize;
    Ok([case].into_iter().chain(two_parts.then_some(Case { splits: 2, ..case })).collect())
}

/// Computes each of `cases` on the simulator and gathers what is wrong. Mistakes at the same lines are one problem, whatever
/// the case.
///
/// # Errors
///
/// [`GemmError`] if a product can't be computed at all, for instance for want of memory.
pub fn check(gemm: &Gemm, cases: &[Case]) -> Result<Checked, GemmError> {
    let mut checked =
        Checked { cases: cases.to_vec(), blocks: 0, threads: 0, problems: Vec::new(), verification: None };
    for case in cases {
        check_case(gemm, case, &mut checked)?;
    }
    // What a barrier in the wrong place leads to comes after it.
    checked.problems.sort_by_key(|problem| !problem.kind.is_about_barriers());
    Ok(checked)
}

fn check_case(gemm: &Gemm, case: &Case, checked: &mut Checked) -> Result<(), GemmError> {
    let Case { kernel, shape: [m, n, k], splits, beta } = case;
    let (kernel, m, n, k) = (kernel, *m, *n, *k);
    let [a, b, c] = <[_; 3]>::try_from(matrix::random_normals(&[(m, k), (k, n), (m, n)], SEED)).expect("three shapes");
    gemm.check(&a.view(), &b.view())?;
    let device = gemm.device();
    let factors = kernel.precision.factors();
    let [a, b] = [a, b].map(|matrix| rounded(kernel.precision, matrix));
    let [a_by_columns, b_by_columns] = kernels::by_columns(kernel);
    let upload = |matrix: &Array2<f32>, element: ElementType, by_columns: bool| {
        let stored = if by_columns { matrix.t() } else { matrix.view() };
        let stored = stored.as_standard_layout();
        FactorBuffer::upload(device, element, stored.as_slice().expect("the standard layout is contiguous"))
    };
    let (a_buffer, b_buffer) = (upload(&a, factors, a_by_columns)?, upload(&b, factors, b_by_columns)?);
    let c_buffer = match *beta {
        0.0 => FactorBuffer::F32(device.allocate(m * n)?),
        _ => upload(&c, ElementType::F32, false)?,
    };
    let a_matrix = a_buffer.laid_out(m, k, a_by_columns)?;
    let b_matrix = b_buffer.laid_out(k, n, b_by_columns)?;
    let c_matrix = c_buffer.matrix(m, n)?;
    let mut launches = Vec::new();
    let watched =
        gemm.observe_all(kernel, *splits, *beta, [a_matrix, b_matrix, c_matrix], |entry, module, config| {
            let mut hazards = Hazards::new(module, entry, config);
            if *beta == 0.0 {
                hazards.unwritten(DevicePointer(c_matrix.address()), (m * n * size_of::<f32>()) as u64);
            }
            launches.push(Launch::new(module, entry, config));
            hazards
        })?;
    let map = Map::new([&a_matrix, &b_matrix, &c_matrix]);
    for (hazards, launch) in watched.into_iter().zip(&launches) {
        checked.blocks += launch.blocks;
        checked.threads += launch.blocks * u64::from(launch.block.iter().product::<u32>());
        for finding in hazards.findings() {
            let problem = map.problem(finding, launch, case.shape);
            match checked.problems.iter_mut().find(|known| known.same_mistake(&problem)) {
                Some(known) => known.count += problem.count,
                None => checked.problems.push(problem),
            }
        }
    }
    // A product that is wrong already stays in the report.
    if !launches.is_empty() && checked.verification.as_ref().is_none_or(Verification::passed) {
        let result = Array2::from_shape_vec((m, n), c_buffer.download()?).expect("m * n elements were downloaded");
        let reference = verify::reference_in(plan::order(kernel, *splits, k), a.view(), b.view());
        checked.verification = Some(verify::compare(result.view(), &reference.scaled(1.0, *beta, Some(c.view()))));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_a_tile_of_one_element_has_products_that_are_not_empty() {
        let naive = kernels::by_name("naive").unwrap().any();
        for extent in 1..5 {
            let kernel = Kernel { tile: Tile { m: extent, n: extent, k: extent }, ..*naive };
            let cases = cases(Named::Kernel(Box::leak(Box::new(kernel))));
            assert_eq!(cases.len(), 2);
            assert!(cases.iter().all(|case| !case.shape.contains(&0)), "{cases:?}");
        }
    }

    #[test]
    fn kernels_that_cannot_split_k_are_not_launched_with_several_parts() {
        let gemm = Gemm::new(crate::device::Device::open(crate::device::DeviceSelector::Simulator).unwrap());
        let case = Case { splits: 2, ..Case::new(&gpu_kernels::tiled::KERNEL, [8, 8, 64]) };
        let error = check(&gemm, &[case]).unwrap_err();
        assert!(matches!(error, GemmError::PlainOnly { kernel: "tiled" }), "{error}");
    }

    #[test]
    fn every_production_kernel_has_its_products_and_of_a_family_two_kernels_are_seen() {
        for family in production_kernels::FAMILIES {
            for kernel in family.kernels {
                assert!(cases(Named::Kernel(kernel)).iter().all(|case| case.kernel.entry == kernel.entry));
            }
            let seen: Vec<_> = cases(Named::Family(family)).iter().map(|case| case.kernel.entry).collect();
            assert!(seen[0].ends_with("_kv") && seen[1].ends_with("_kw") && seen[2] == seen[0], "{seen:?}");
        }
    }
}
