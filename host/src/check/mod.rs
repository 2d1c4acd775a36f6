//! Is a kernel right in what its result doesn't show? Launches it on the simulator, watched by
//! [`ptx_simulator::observe::hazards`], and puts what is found into the terms of the source: matrices, arrays, lines.

mod findings;
mod problem;

use gpu_kernels::{Kernel, Tile};
use ptx_simulator::{DevicePointer, observe::hazards::Hazards};
use serde::Serialize;

use crate::{
    gemm::{self, DeviceMatrix, FactorBuffer, Gemm, GemmError},
    matrix, plan, verify,
    verify::Verification,
};

use findings::Map;

pub use findings::source_line;
pub use problem::{Act, Element, Event, Problem, ProblemKind};

/// Seed of the matrices that the kernel multiplies while it's checked.
const SEED: u64 = 42;

/// What a check of one kernel found.
#[derive(Clone, Debug, Serialize)]
pub struct Checked {
    /// The products, m x n x k, that the kernel computed while it was watched.
    pub shapes: Vec<[usize; 3]>,
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
/// a tile divides, unless the kernel takes whole tiles only.
pub fn shapes(kernel: &Kernel) -> Vec<[usize; 3]> {
    let Tile { m, n, k } = kernel.tile;
    let [m, n, k] = [m, n, k].map(|extent| extent as usize);
    let deep = k * 3.max(24usize.div_ceil(k));
    // For a tile of one column, 2 * n - 3 would be less than nothing.
    let narrow = (2 * n).saturating_sub(3).max(1);
    let shapes = [[2 * m, 2 * n, deep], [2 * m + 3, narrow, deep + 5]];
    shapes.into_iter().filter(|[m, n, k]| (kernel.launch_shape)(*m, *n, *k).is_some()).collect()
}

/// Launches `kernel` on the simulator for each of `shapes` (m x n x k) and gathers what is wrong. Mistakes at the same
/// lines are one problem, whatever the shape.
///
/// # Errors
///
/// [`GemmError`] if a product can't be computed at all, for instance for want of memory.
pub fn check(gemm: &Gemm, kernel: &Kernel, shapes: &[[usize; 3]]) -> Result<Checked, GemmError> {
    let mut checked =
        Checked { shapes: shapes.to_vec(), blocks: 0, threads: 0, problems: Vec::new(), verification: None };
    for &shape in shapes {
        check_shape(gemm, kernel, shape, &mut checked)?;
    }
    // What a barrier in the wrong place leads to comes after it.
    checked.problems.sort_by_key(|problem| !problem.kind.is_about_barriers());
    Ok(checked)
}

fn check_shape(gemm: &Gemm, kernel: &Kernel, shape: [usize; 3], checked: &mut Checked) -> Result<(), GemmError> {
    let [m, n, k] = shape;
    let [a, b] = <[_; 2]>::try_from(matrix::random_normals(&[(m, k), (k, n)], SEED)).expect("two shapes");
    gemm.check(&a.view(), &b.view())?;
    let device = gemm.device();
    let element = kernel.precision.factors();
    let [a, b] = [a, b].map(|matrix| gemm::rounded(element, matrix.view()));
    let upload = |matrix: &ndarray::Array2<f32>| {
        FactorBuffer::upload(device, element, matrix.as_slice().expect("new matrices are contiguous"))
    };
    let (a_buffer, b_buffer) = (upload(&a)?, upload(&b)?);
    let c_buffer = device.allocate::<f32>(m * n)?;
    let (a_matrix, b_matrix) = (a_buffer.matrix(m, k)?, b_buffer.matrix(k, n)?);
    let c_matrix = DeviceMatrix::new(&c_buffer, 0, m, n)?;
    let hazards = gemm.observe(kernel, a_matrix, b_matrix, c_matrix, |module, config| {
        let mut hazards = Hazards::new(module, kernel.entry, config);
        hazards.unwritten(DevicePointer(c_matrix.address()), (m * n * size_of::<f32>()) as u64);
        hazards
    })?;
    let Some(hazards) = hazards else { return Ok(()) };
    checked.blocks += kernel.blocks(m, n, k);
    checked.threads += kernel.blocks(m, n, k) * u64::from(kernel.block.iter().product::<u32>());
    let map = Map::new([&a_matrix, &b_matrix, &c_matrix]);
    for finding in hazards.findings() {
        let problem = map.problem(finding, shape);
        match checked.problems.iter_mut().find(|known| known.same_mistake(&problem)) {
            Some(known) => known.count += problem.count,
            None => checked.problems.push(problem),
        }
    }
    // A product that is wrong already stays in the report.
    if checked.verification.as_ref().is_none_or(Verification::passed) {
        let c = ndarray::Array2::from_shape_vec((m, n), c_buffer.download()?).expect("m * n elements were downloaded");
        checked.verification = Some(verify::check_in(plan::order(kernel, 1, k), &c, &a, &b));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan;

    #[test]
    fn even_a_tile_of_one_element_has_products_that_are_not_empty() {
        let naive = plan::by_name("naive").unwrap();
        for extent in 1..5 {
            let kernel = Kernel { tile: Tile { m: extent, n: extent, k: extent }, ..*naive };
            let shapes = shapes(&kernel);
            assert_eq!(shapes.len(), 2);
            assert!(shapes.iter().all(|shape| !shape.contains(&0)), "{shapes:?}");
        }
    }
}
