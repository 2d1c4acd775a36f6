//! Is a kernel right in what its result doesn't show? Launches it on the simulator, watched by
//! [`ptx_simulator::observe::hazards`], and puts what is found into the terms of the source: matrices, arrays, lines.

use gpu_kernels::{Kernel, SOURCES, Tile};
use ptx_simulator::{
    AccessKind, DevicePointer, LaunchErrorKind, MemorySpace, Nearest, SourceLocation,
    observe::hazards::{Finding, FindingKind, Hazards, Incident, Touched},
};
use serde::Serialize;

use crate::{
    gemm::{DeviceMatrix, Gemm, GemmError},
    gpus::WARP,
    matrix, verify,
    verify::Verification,
};

/// Seed of the matrices that the kernel multiplies while it's checked.
const SEED: u64 = 42;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProblemKind {
    /// A thread reads what another writes, and nothing makes the read wait for the write.
    ReadAfterWrite,
    /// A thread overwrites what another reads, and nothing makes the write wait for the read.
    WriteAfterRead,
    /// Two threads write the same place, and nothing says whose value stays.
    WriteAfterWrite,
    /// A read of memory that nobody has written.
    Uninitialised,
    /// An access in shared memory past the ends of the array that it was meant for.
    OutsideArray,
    /// An access outside every allocation.
    OutOfBounds,
    /// An access whose address is no multiple of its size.
    Misaligned,
    /// A barrier that some threads of the block never reach.
    DivergentBarrier,
    /// A barrier of a warp that some of the lanes it names never reach.
    DivergentWarp,
    /// Threads of a block that arrive at different barriers of the source, as if they were one.
    DifferentBarriers,
    /// The kernel stopped itself: a panic or trap.
    Trap,
    /// A thread that comes to no end.
    EndlessLoop,
    /// Anything else that ends a launch.
    Fault,
}

/// What a thread did at a place of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Act {
    /// It reads memory.
    Reads,
    /// It writes memory.
    Writes,
    /// It accesses memory atomically.
    Atomic,
    /// It waits at a barrier.
    Waits,
    /// It executes something else.
    Executes,
}

/// One thread at one place of the source.
#[derive(Clone, Debug, Serialize)]
pub struct Event {
    /// What it does there.
    pub act: Act,
    /// The place, where the PTX has line directives.
    #[serde(serialize_with = "serialise_location")]
    pub source: Option<SourceLocation>,
    /// The source line's text, without indentation.
    pub code: Option<&'static str>,
    /// The line in the PTX text.
    pub ptx_line: u32,
    /// Position of the block in the grid.
    pub block: [u32; 3],
    /// Position of the thread in the block.
    pub thread: [u32; 3],
}

/// An element of a matrix or an array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "in", rename_all = "lowercase")]
pub enum Element {
    /// An element of A, B or C.
    Matrix {
        /// `A`, `B` or `C`.
        name: &'static str,
        /// Its row.
        row: u64,
        /// Its column.
        column: u64,
    },
    /// A place before or after A, B or C.
    BesideMatrix {
        /// `A`, `B` or `C`.
        name: &'static str,
        /// Rows of the matrix.
        rows: u64,
        /// Columns of the matrix.
        columns: u64,
        /// Bytes from its end if positive or zero, from its start if negative.
        distance: i64,
    },
    /// A place in an array in shared memory, or beside it.
    Shared {
        /// The array's name in the source, or in the PTX where the source doesn't tell.
        name: Option<String>,
        /// The index of the element of four bytes, from the start of the array, or of shared memory if there is no name.
        index: i64,
        /// Elements in the array.
        length: Option<u64>,
    },
    /// Anything else: an address.
    Address {
        /// The address within its space.
        address: u64,
    },
}

/// A mistake, with the first of its occurrences.
#[derive(Clone, Debug, Serialize)]
pub struct Problem {
    /// What is wrong.
    pub kind: ProblemKind,
    /// Whether it's about memory that all blocks reach; `false` for memory of a block and for barriers.
    pub global: bool,
    /// The access that comes first in the program, the only one, or a thread at the barrier.
    pub first: Event,
    /// The other access or barrier.
    pub second: Option<Event>,
    /// What was accessed.
    pub element: Option<Element>,
    /// Bytes of the access.
    pub bytes: Option<u32>,
    /// How often: words of memory, or threads at a barrier.
    pub count: u64,
    /// The simulator's own words, for faults.
    pub detail: Option<String>,
    /// The product, m x n x k, in which it was found first.
    pub shape: [usize; 3],
}

impl Problem {
    /// Whether both accesses are by threads of one warp, given the shape of a block.
    pub fn within_a_warp(&self, block: [u32; 3]) -> bool {
        let warp = |event: &Event| {
            let [x, y, z] = event.thread;
            ((z * block[1] + y) * block[0] + x) / WARP
        };
        self.second.as_ref().is_some_and(|second| second.block == self.first.block && warp(second) == warp(&self.first))
    }

    /// Whether the two accesses are by different blocks.
    pub fn between_blocks(&self) -> bool {
        self.second.as_ref().is_some_and(|second| second.block != self.first.block)
    }

    fn same_mistake(&self, other: &Problem) -> bool {
        let lines = |problem: &Problem| {
            let line = |event: &Event| (event.source.clone(), event.source.is_none().then_some(event.ptx_line));
            (line(&problem.first), problem.second.as_ref().map(line))
        };
        self.kind == other.kind && lines(self) == lines(other)
    }
}

/// What a check of one kernel found.
#[derive(Clone, Debug, Serialize)]
pub struct Checked {
    /// The products, m x n x k, that the kernel computed while it was watched.
    pub shapes: Vec<[usize; 3]>,
    /// Blocks and threads that were watched in all.
    pub blocks: u64,
    /// Threads that were watched in all.
    pub threads: u64,
    /// The mistakes, in the order in which they were found.
    pub problems: Vec<Problem>,
    /// The comparison of the last product that was wrong with the f64 reference, or of the last one if all were right.
    pub verification: Option<Verification>,
}

impl Checked {
    /// Whether nothing was found and the products are right.
    pub fn passed(&self) -> bool {
        self.problems.is_empty() && self.verification.as_ref().is_none_or(Verification::passed)
    }
}

/// Products that show a kernel at its best and at its edges: one of whole tiles, and one that no extent of the tile
/// divides, unless the kernel takes whole tiles only.
pub fn shapes(kernel: &Kernel) -> Vec<[usize; 3]> {
    let Tile { m, n, k } = kernel.tile;
    let [m, n, k] = [m, n, k].map(|extent| extent as usize);
    let deep = k * 3.max(24usize.div_ceil(k));
    let shapes = [[2 * m, 2 * n, deep], [2 * m + 3, 2 * n - 3, deep + 5]];
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
    Ok(checked)
}

fn check_shape(gemm: &Gemm, kernel: &Kernel, shape: [usize; 3], checked: &mut Checked) -> Result<(), GemmError> {
    let [m, n, k] = shape;
    let [a, b] = <[_; 2]>::try_from(matrix::random_normals(&[(m, k), (k, n)], SEED)).expect("two shapes");
    gemm.check(&a.view(), &b.view())?;
    let device = gemm.device();
    let a_buffer = device.upload(a.as_slice().expect("new matrices are contiguous"))?;
    let b_buffer = device.upload(b.as_slice().expect("new matrices are contiguous"))?;
    let c_buffer = device.allocate::<f32>(m * n)?;
    let matrices = [
        DeviceMatrix::new(&a_buffer, 0, m, k)?,
        DeviceMatrix::new(&b_buffer, 0, k, n)?,
        DeviceMatrix::new(&c_buffer, 0, m, n)?,
    ];
    let [a_matrix, b_matrix, c_matrix] = matrices;
    let hazards = gemm.observe(kernel, a_matrix, b_matrix, c_matrix, |module, config| {
        let mut hazards = Hazards::new(module, kernel.entry, config);
        hazards.unwritten(DevicePointer(c_matrix.address()), (m * n * size_of::<f32>()) as u64);
        hazards
    })?;
    let Some(hazards) = hazards else { return Ok(()) };
    checked.blocks += kernel.blocks(m, n, k);
    checked.threads += kernel.blocks(m, n, k) * u64::from(kernel.block.iter().product::<u32>());
    let map = Map { a: placed("A", &a_matrix), b: placed("B", &b_matrix), c: placed("C", &c_matrix) };
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
        checked.verification = Some(verify::check(&c, &a, &b));
    }
    Ok(())
}

/// Where a matrix is in device memory.
struct Placed {
    name: &'static str,
    start: u64,
    rows: u64,
    columns: u64,
}

impl Placed {
    fn bytes(&self) -> u64 {
        self.rows * self.columns * size_of::<f32>() as u64
    }
}

fn placed(name: &'static str, matrix: &DeviceMatrix<'_>) -> Placed {
    let (rows, columns) = matrix.dim();
    Placed { name, start: matrix.address(), rows: rows as u64, columns: columns as u64 }
}

/// The matrices of a launch, to name what is at an address.
struct Map {
    a: Placed,
    b: Placed,
    c: Placed,
}

impl Map {
    fn problem(&self, finding: Finding, shape: [usize; 3]) -> Problem {
        let Finding { kind, first, second, touched, count } = finding;
        let (first_act, second_act) = acts(&kind);
        let element = self.element(&kind, touched.as_ref());
        let (kind, detail) = classify(kind);
        Problem {
            kind,
            global: touched.as_ref().is_some_and(|touched| touched.space == MemorySpace::Global),
            first: event(first_act, first),
            second: second.map(|incident| event(second_act, incident)),
            element,
            bytes: touched.map(|touched| touched.bytes),
            count,
            detail,
            shape,
        }
    }

    fn element(&self, kind: &FindingKind, touched: Option<&Touched>) -> Option<Element> {
        let word = size_of::<f32>() as u64;
        if let FindingKind::Fault(LaunchErrorKind::OutOfBounds {
            space: MemorySpace::Global,
            nearest: Nearest::Allocation { start, distance, .. },
            ..
        }) = kind
            && let Some(matrix) = self.matrices().into_iter().find(|matrix| matrix.start == *start)
        {
            let Placed { name, rows, columns, .. } = *matrix;
            return Some(Element::BesideMatrix { name, rows, columns, distance: *distance });
        }
        let touched = touched?;
        let address = touched.address;
        match touched.space {
            MemorySpace::Global => {
                let matrix = self
                    .matrices()
                    .into_iter()
                    .find(|matrix| address >= matrix.start && address - matrix.start < matrix.bytes());
                Some(match matrix {
                    Some(matrix) => {
                        let index = (address - matrix.start) / word;
                        let (row, column) = (index / matrix.columns, index % matrix.columns);
                        Element::Matrix { name: matrix.name, row, column }
                    }
                    None => Element::Address { address },
                })
            }
            MemorySpace::Shared => {
                let named = touched.declared.as_ref().and_then(declared_name);
                let start = touched.start.unwrap_or(0);
                Some(Element::Shared {
                    name: named.or_else(|| touched.array.clone()),
                    index: (address as i64 - start as i64).div_euclid(word as i64),
                    length: touched.length.map(|bytes| bytes / word),
                })
            }
            _ => Some(Element::Address { address }),
        }
    }

    fn matrices(&self) -> [&Placed; 3] {
        [&self.a, &self.b, &self.c]
    }
}

/// What the threads of a finding do at their two places.
fn acts(kind: &FindingKind) -> (Act, Act) {
    let access = |access: &AccessKind| match access {
        AccessKind::Read => Act::Reads,
        AccessKind::Write => Act::Writes,
        AccessKind::Atomic => Act::Atomic,
    };
    match kind {
        FindingKind::ReadAfterWrite => (Act::Writes, Act::Reads),
        FindingKind::WriteAfterRead => (Act::Reads, Act::Writes),
        FindingKind::WriteAfterWrite => (Act::Writes, Act::Writes),
        FindingKind::Uninitialised => (Act::Reads, Act::Reads),
        FindingKind::DifferentBarriers => (Act::Waits, Act::Waits),
        FindingKind::Fault(
            LaunchErrorKind::OutOfBounds { access: kind, .. } | LaunchErrorKind::Misaligned { access: kind, .. },
        ) => (access(kind), Act::Executes),
        FindingKind::Fault(LaunchErrorKind::DivergentBarrier { .. } | LaunchErrorKind::DivergentWarp { .. }) => {
            (Act::Waits, Act::Waits)
        }
        _ => (Act::Executes, Act::Executes),
    }
}

fn classify(kind: FindingKind) -> (ProblemKind, Option<String>) {
    match kind {
        FindingKind::ReadAfterWrite => (ProblemKind::ReadAfterWrite, None),
        FindingKind::WriteAfterRead => (ProblemKind::WriteAfterRead, None),
        FindingKind::WriteAfterWrite => (ProblemKind::WriteAfterWrite, None),
        FindingKind::Uninitialised => (ProblemKind::Uninitialised, None),
        FindingKind::OutsideArray => (ProblemKind::OutsideArray, None),
        FindingKind::DifferentBarriers => (ProblemKind::DifferentBarriers, None),
        FindingKind::Fault(fault) => {
            let kind = match fault {
                LaunchErrorKind::OutOfBounds { .. } => ProblemKind::OutOfBounds,
                LaunchErrorKind::Misaligned { .. } => ProblemKind::Misaligned,
                LaunchErrorKind::DivergentBarrier { .. } => ProblemKind::DivergentBarrier,
                LaunchErrorKind::DivergentWarp { .. } => ProblemKind::DivergentWarp,
                LaunchErrorKind::Trap | LaunchErrorKind::Assertion { .. } => ProblemKind::Trap,
                LaunchErrorKind::InstructionLimit { .. } => ProblemKind::EndlessLoop,
                _ => ProblemKind::Fault,
            };
            (kind, Some(fault.to_string()))
        }
        _ => (ProblemKind::Fault, None),
    }
}

fn event(act: Act, incident: Incident) -> Event {
    let Incident { block, thread, source, ptx_line } = incident;
    let code = source.as_ref().and_then(source_line).map(str::trim);
    Event { act, source, code, ptx_line, block, thread }
}

/// The text of a line of `gpu-kernels`.
pub fn source_line(location: &SourceLocation) -> Option<&'static str> {
    let (_, text) = SOURCES.iter().find(|(file, _)| location.file.ends_with(file))?;
    text.lines().nth(location.line.checked_sub(1)? as usize)
}

/// The name that a `let` gives to what is declared on a line.
fn declared_name(location: &SourceLocation) -> Option<String> {
    let after = source_line(location)?.trim().strip_prefix("let ")?;
    let name: String =
        after.trim_start_matches("mut ").chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    (!name.is_empty()).then_some(name)
}

fn serialise_location<S: serde::Serializer>(
    location: &Option<SourceLocation>,
    serialiser: S,
) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Location<'a> {
        file: &'a str,
        line: u32,
        column: u32,
    }
    let plain = location.as_ref().map(|location| {
        let SourceLocation { file, line, column } = location;
        Location { file, line: *line, column: *column }
    });
    plain.serialize(serialiser)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_that_wait_forever_for_others_of_their_warp_are_a_kind_of_their_own() {
        let fault = LaunchErrorKind::DivergentWarp { members: u32::MAX, others: "16 lanes have exited".to_owned() };
        let (kind, detail) = classify(FindingKind::Fault(fault));
        assert_eq!(kind, ProblemKind::DivergentWarp);
        assert!(detail.unwrap().contains("16 lanes have exited"));
    }
}
