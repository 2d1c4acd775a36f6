//! What a kernel that copies whole tiles says of its operands: enough for whoever launches it to describe a matrix to the
//! copying hardware (a tensor map), whatever the kernel.
//!
//! A matrix is stored as lines: its rows, or its columns where [`by_columns`](MappedOperand::by_columns) says so. The
//! elements of a line are contiguous, and lines are equally far apart. A copy brings a box of such elements to shared
//! memory, and zeros in the place of those outside the matrix.

/// The operands of a kernel of [`Signature::Mapped`](crate::launch::Signature::Mapped) or
/// [`Signature::MappedCall`](crate::launch::Signature::MappedCall).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MappedOperands {
    /// A, m x k.
    pub a: MappedOperand,
    /// B, k x n.
    pub b: MappedOperand,
    /// C, m x n.
    pub c: MappedOutput,
    /// Blocks along x that make a cluster, whose blocks run at the same time and reach each other's shared memory; 1 if
    /// there are no clusters. A grid has a multiple of it along x.
    pub cluster: u32,
    /// Whether blocks take one tile of C after the other, so that a grid needs no more of them than run at a time: one on each
    /// multiprocessor.
    pub blocks_stay: bool,
}

/// How a kernel copies a matrix, box by box.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MappedOperand {
    /// Whether the lines are columns of the matrix, instead of rows.
    pub by_columns: bool,
    /// What one copy brings.
    pub copied: CopiedBox,
    /// How the box's 16-byte chunks lie in shared memory.
    pub swizzle: Swizzle,
}

/// How a kernel writes C, whose rows are contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MappedOutput {
    /// It gets a pointer to the first element, and rows follow each other without gaps. It stores pairs of neighbours, so that there's an even number of
    /// columns.
    Pointer,
    /// It gets a tensor map, and copies boxes of shared memory to C. One of
    /// [`Signature::MappedCall`](crate::launch::Signature::MappedCall) can do without, where C can't have a map. Boxes are said for elements of f32, and
    /// have as many bytes if a C has others.
    Map(MappedOperand),
}

/// The elements that one copy brings, and by which coordinates a kernel names the first of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CopiedBox {
    /// `width` elements of each of `lines` lines, by two coordinates: the place in the line, and the line.
    Lines {
        /// Elements of a line.
        width: u32,
        /// Lines.
        lines: u32,
    },
    /// The same of one matrix of a batch, by three coordinates: the place in the line, the line, and the matrix.
    Batched {
        /// Elements of a line.
        width: u32,
        /// Lines.
        lines: u32,
    },
    /// The matrix is cut into panels of `width` elements of every line, and the box has so many `lines` of so many `panels`,
    /// one panel after the other. Three coordinates: the place in the panel, the line, and the panel. Lines have a multiple of `width`
    /// elements.
    Panels {
        /// Elements of a line in a panel.
        width: u32,
        /// Lines.
        lines: u32,
        /// Panels.
        panels: u32,
    },
}

/// In which order the 16-byte chunks of a row of a box stand in shared memory, so that a column of chunks is spread over all
/// banks. A row of a box has at most as many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Swizzle {
    /// As in the matrix.
    None,
    /// Within 32 bytes.
    Bytes32,
    /// Within 64 bytes.
    Bytes64,
    /// Within 128 bytes: chunk i of row j stands at i xor (j mod 8).
    Bytes128,
}
