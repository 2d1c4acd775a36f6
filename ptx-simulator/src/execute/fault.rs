//! Why execution stopped, in the executor's own terms.

use crate::error::LaunchErrorKind;

/// A failed instruction of one lane.
#[derive(Debug)]
pub(crate) struct Fault {
    pub kind: LaunchErrorKind,
    /// Index of the block in the grid.
    pub block: u64,
    pub warp: u32,
    pub lane: u32,
    /// Index of the instruction; `u32::MAX` if there is none.
    pub instruction: u32,
    /// The calls that led there, innermost first.
    pub callers: Vec<u32>,
}
