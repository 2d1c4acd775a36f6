//! From what the simulator finds, in addresses and PTX, to problems in the terms of the source: matrices, arrays, lines.

use gpu_kernels::SOURCES;
use ptx_simulator::{
    AccessKind, LaunchErrorKind, MemorySpace, Nearest, SourceLocation,
    observe::hazards::{Finding, FindingKind, Incident, Touched},
};

use super::problem::{Act, Element, Event, Problem, ProblemKind};
use crate::gemm::DeviceMatrix;

/// Where a matrix is in device memory.
struct Placed {
    name: &'static str,
    start: u64,
    rows: u64,
    columns: u64,
    element_bytes: u64,
}

impl Placed {
    fn new(name: &'static str, matrix: &DeviceMatrix<'_>) -> Placed {
        let (rows, columns) = matrix.dim();
        let element_bytes = matrix.element().bytes() as u64;
        Placed { name, start: matrix.address(), rows: rows as u64, columns: columns as u64, element_bytes }
    }

    fn bytes(&self) -> u64 {
        self.rows * self.columns * self.element_bytes
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

    /// What `finding` means in a product of that shape, m x n x k.
    pub fn problem(&self, finding: Finding, shape: [usize; 3]) -> Problem {
        let Finding { kind, first, second, touched, count } = finding;
        let (first_act, second_act) = acts(&kind, touched.as_ref());
        let element = self.element(&kind, touched.as_ref());
        let (kind, detail) = classify(kind);
        Problem {
            kind,
            mbarrier: touched.as_ref().is_some_and(|touched| touched.mbarrier),
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
                    Some(matrix) => {
                        let index = (address - matrix.start) / matrix.element_bytes;
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
        FindingKind::ReadAfterWrite => (Act::Writes, Act::Reads),
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

fn event(act: Act, incident: Incident) -> Event {
    let Incident { block, thread, source, ptx_line, copy } = incident;
    let code = source.as_ref().and_then(source_line).map(str::trim);
    let act = match (act, &copy) {
        (Act::Reads, Some(_)) => Act::CopiesFrom,
        (Act::Writes, Some(_)) => Act::CopiesTo,
        (act, _) => act,
    };
    Event { act, source, code, ptx_line, block, thread, copy }
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
