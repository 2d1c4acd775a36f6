//! From what the simulator finds, in addresses and PTX, to problems in the terms of the source: matrices, arrays, lines.

use std::collections::HashMap;

use ptx_simulator::{
    AccessKind, LaunchConfig, LaunchErrorKind, MemorySpace, Module, Nearest, SourceLocation,
    observe::hazards::{Agent, Finding, FindingKind, Incident, Touched},
};

use super::problem::{Act, Element, Event, Problem, ProblemKind};
use crate::{
    explain::lines::{self, Place},
    gemm::DeviceMatrix,
    kernels,
};

/// Where a matrix is in device memory.
struct Placed {
    name: &'static str,
    start: u64,
    rows: u64,
    columns: u64,
    /// Whether its columns are contiguous, instead of its rows.
    by_columns: bool,
    element_bytes: u64,
}

impl Placed {
    fn new(name: &'static str, matrix: &DeviceMatrix<'_>) -> Placed {
        let (rows, columns) = matrix.dim();
        let (by_columns, element_bytes) = (matrix.is_transposed(), matrix.element().bytes() as u64);
        Placed { name, start: matrix.address(), rows: rows as u64, columns: columns as u64, by_columns, element_bytes }
    }

    fn bytes(&self) -> u64 {
        self.rows * self.columns * self.element_bytes
    }

    /// The element that so many others are before, in memory.
    fn element(&self, index: u64) -> Element {
        let (row, column) = if self.by_columns {
            (index % self.rows, index / self.rows)
        } else {
            (index / self.columns, index % self.columns)
        };
        Element::Matrix { name: self.name, row, column }
    }
}

/// A launch, as far as its findings need to know it.
pub struct Launch {
    /// Threads of a block along x, y, z.
    pub block: [u32; 3],
    /// Blocks.
    pub blocks: u64,
    /// The kernel's line that each instruction is at or after, by its line in the PTX.
    own_lines: HashMap<u32, SourceLocation>,
}

impl Launch {
    /// The launch of an entry of `module`.
    pub fn new(module: &Module, entry: &str, config: &LaunchConfig) -> Launch {
        let ptx_lines: Vec<u32> = (0..).map_while(|instruction| module.ptx_line(entry, instruction)).collect();
        let locations: Vec<_> = (0..).map(|at| module.source_location(entry, at)).take(ptx_lines.len()).collect();
        let places = lines::attribute(&locations, kernels::sources());
        let own = |place: Place| {
            let (file, _) = kernels::sources()[place.file];
            SourceLocation { file: file.to_owned(), line: place.line, column: place.column.unwrap_or(0) }
        };
        let all = ptx_lines.into_iter().zip(places).filter_map(|(line, place)| Some((line, own(place?))));
        let blocks = config.grid.iter().map(|&blocks| u64::from(blocks)).product();
        Launch { block: config.block, blocks, own_lines: all.collect() }
    }

    fn event(&self, act: Act, incident: Incident) -> Event {
        let Incident { block, thread, source, ptx_line, agent, copy } = incident;
        let act = match (act, agent) {
            (act, Agent::Thread) => act,
            (_, Agent::WarpgroupProduct) => Act::Multiplies,
            (Act::Reads, _) => Act::CopiesFrom,
            (Act::Writes, _) => Act::CopiesTo,
            (act, _) => act,
        };
        let foreign = source.as_ref().filter(|source| source_line(source).is_none());
        let near = foreign.and_then(|_| self.own_lines.get(&ptx_line).cloned());
        let code = source.as_ref().and_then(source_line).map(str::trim);
        Event { act, source, near, code, ptx_line, block, thread, agent, copy }
    }
}

/// The matrices of a launch, to name what is at an address.
pub struct Map {
    matrices: [Placed; 3],
}

impl Map {
    /// The map of a launch for A, B and C.
    pub fn new([a, b, c]: [&DeviceMatrix<'_>; 3]) -> Map {
        Map { matrices: [Placed::new("A", a), Placed::new("B", b), Placed::new("C", c)] }
    }

    /// What `finding` in a launch means, in a product of that shape, m x n x k.
    pub fn problem(&self, finding: Finding, launch: &Launch, shape: [usize; 3]) -> Problem {
        let Finding { kind, first, second, touched, count } = finding;
        let (first_act, second_act) = acts(&kind, touched.as_ref());
        let element = self.element(&kind, touched.as_ref());
        let (kind, detail) = classify(kind);
        Problem {
            kind,
            mbarrier: touched.as_ref().is_some_and(|touched| touched.mbarrier),
            global: touched.as_ref().is_some_and(|touched| touched.space == MemorySpace::Global),
            first: launch.event(first_act, first),
            second: second.map(|incident| launch.event(second_act, incident)),
            element,
            bytes: touched.map(|touched| touched.bytes),
            count,
            detail,
            shape,
            block: launch.block,
        }
    }

    fn element(&self, kind: &FindingKind, touched: Option<&Touched>) -> Option<Element> {
        let word = size_of::<f32>() as u64;
        if let FindingKind::Fault(LaunchErrorKind::OutOfBounds {
            space: MemorySpace::Global,
            nearest: Nearest::Allocation { start, distance, .. },
            ..
        }) = kind
            && let Some(matrix) = self.matrices.iter().find(|matrix| matrix.start == *start)
        {
            let Placed { name, rows, columns, .. } = *matrix;
            return Some(Element::BesideMatrix { name, rows, columns, distance: *distance });
        }
        let touched = touched?;
        let address = touched.address;
        match touched.space {
            MemorySpace::Global => {
                let matrix = self
                    .matrices
                    .iter()
                    .find(|matrix| address >= matrix.start && address - matrix.start < matrix.bytes());
                Some(match matrix {
                    Some(matrix) => matrix.element((address - matrix.start) / matrix.element_bytes),
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
}

/// What the threads of a finding do at their two places.
fn acts(kind: &FindingKind, touched: Option<&Touched>) -> (Act, Act) {
    let access = || match touched.map(|touched| touched.access) {
        Some(AccessKind::Read) => Act::Reads,
        Some(AccessKind::Write) => Act::Writes,
        Some(AccessKind::Atomic) => Act::Atomic,
        None => Act::Executes,
    };
    match kind {
        FindingKind::ReadAfterWrite | FindingKind::MissingProxyFence => (Act::Writes, Act::Reads),
        FindingKind::MissingWarpgroupFence | FindingKind::ProductNotAwaited => (Act::Executes, Act::Executes),
        FindingKind::MbarrierNotShown => (Act::Writes, Act::Atomic),
        FindingKind::WriteAfterRead => (Act::Reads, Act::Writes),
        FindingKind::WriteAfterWrite => (Act::Writes, Act::Writes),
        FindingKind::Uninitialised => (Act::Reads, Act::Reads),
        FindingKind::CopyNeverAwaited => (Act::Writes, Act::Writes),
        FindingKind::DifferentBarriers
        | FindingKind::Fault(
            LaunchErrorKind::DivergentBarrier { .. }
            | LaunchErrorKind::DivergentWarp { .. }
            | LaunchErrorKind::MbarrierDeadlock(_),
        ) => (Act::Waits, Act::Waits),
        _ => (access(), Act::Executes),
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
        FindingKind::CopyNeverAwaited => (ProblemKind::CopyNeverAwaited, None),
        FindingKind::MissingProxyFence => (ProblemKind::MissingProxyFence, None),
        FindingKind::MbarrierNotShown => (ProblemKind::MbarrierNotShown, None),
        FindingKind::BlockExitsEarly => (ProblemKind::BlockExitsEarly, None),
        FindingKind::MissingWarpgroupFence => (ProblemKind::MissingWarpgroupFence, None),
        FindingKind::ProductNotAwaited => (ProblemKind::ProductNotAwaited, None),
        FindingKind::Fault(fault) => {
            let kind = match fault {
                LaunchErrorKind::OutOfBounds { .. } => ProblemKind::OutOfBounds,
                LaunchErrorKind::Misaligned { .. } => ProblemKind::Misaligned,
                LaunchErrorKind::DivergentBarrier { .. } => ProblemKind::DivergentBarrier,
                LaunchErrorKind::DivergentWarp { .. } => ProblemKind::DivergentWarp,
                LaunchErrorKind::Trap | LaunchErrorKind::Assertion { .. } => ProblemKind::Trap,
                LaunchErrorKind::InstructionLimit { .. } => ProblemKind::EndlessLoop,
                LaunchErrorKind::MbarrierDeadlock(_) => ProblemKind::MbarrierDeadlock,
                LaunchErrorKind::Mbarrier { .. } => ProblemKind::MbarrierMisuse,
                _ => ProblemKind::Fault,
            };
            (kind, Some(fault.to_string()))
        }
        _ => (ProblemKind::Fault, None),
    }
}

/// The text of a line of a kernel's file.
fn source_line(location: &SourceLocation) -> Option<&'static str> {
    kernels::source_line(&location.file, location.line)
}

/// The name that a `let` gives to what is declared on a line.
fn declared_name(location: &SourceLocation) -> Option<String> {
    let after = source_line(location)?.trim().strip_prefix("let ")?;
    let name: String =
        after.trim_start_matches("mut ").chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_is_named_by_its_row_and_column_whichever_of_them_is_contiguous() {
        for (by_columns, row, column) in [(false, 1, 2), (true, 2, 1)] {
            let matrix = Placed { name: "A", start: 0, rows: 5, columns: 5, by_columns, element_bytes: 4 };
            assert_eq!(matrix.element(7), Element::Matrix { name: "A", row, column });
        }
    }

    #[test]
    fn lanes_that_wait_forever_for_others_of_their_warp_are_a_kind_of_their_own() {
        let fault = LaunchErrorKind::DivergentWarp { members: u32::MAX, others: "16 lanes have exited".to_owned() };
        let (kind, detail) = classify(FindingKind::Fault(fault));
        assert_eq!(kind, ProblemKind::DivergentWarp);
        assert!(detail.unwrap().contains("16 lanes have exited"));
    }
}
