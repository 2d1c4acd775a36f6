//! What can be wrong with a product, said to whoever asked for it.

use gpu_kernels::Precision;

use crate::{
    device::{DeviceError, TensorMapError},
    kernels,
};

/// The precision to ask for in place of a kernel of that name.
fn precision_to_ask_for(kernel: &str) -> &'static str {
    kernels::by_name_or_exercise(kernel).map_or(Precision::F32, |named| named.any().precision).name()
}

/// Why a product could not be computed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GemmError {
    /// The matrices don't fit together.
    #[error(
        "A is {a_rows} x {a_columns} and B is {b_rows} x {b_columns}: the columns of A ({a_columns}) must equal the rows of B ({b_rows})"
    )]
    InnerSizesDiffer {
        /// Rows of A, after its transposition if it has one.
        a_rows: usize,
        /// Columns of A.
        a_columns: usize,
        /// Rows of B.
        b_rows: usize,
        /// Columns of B.
        b_columns: usize,
    },
    /// The output has another shape than the product.
    #[error("the product is {rows} x {columns}, but C is {c_rows} x {c_columns}")]
    OutputShape {
        /// Rows of the product.
        rows: usize,
        /// Columns of the product.
        columns: usize,
        /// Rows of C.
        c_rows: usize,
        /// Columns of C.
        c_columns: usize,
    },
    /// Batches of different lengths.
    #[error(
        "C is a batch of {c} matrices and {input} one of {count}: a batch has as many as C; one matrix for all is no batch but a DeviceMatrix"
    )]
    BatchLength {
        /// "A" or "B".
        input: &'static str,
        /// Its matrices.
        count: usize,
        /// Matrices of C.
        c: usize,
    },
    /// Factors that are batches of different lengths.
    #[error(
        "A is a batch of {a} matrices and B one of {b}: they have to be as many, or one of the two a single matrix for all"
    )]
    FactorBatches {
        /// Matrices of A.
        a: usize,
        /// Matrices of B.
        b: usize,
    },
    /// What C holds, as many as there are products.
    #[error("there are {count} products, but C holds {c} matrices: one is needed for each product")]
    OutputBatch {
        /// Products.
        count: usize,
        /// Matrices of C.
        c: usize,
    },
    /// Matrices in a list that aren't alike.
    #[error(
        "matrix {index} of the list differs from the first in shape, leading dimension or transposition; a list holds matrices that differ in their place only"
    )]
    UnequalMatrices {
        /// The first that differs.
        index: usize,
    },
    /// C shares elements with an input.
    #[error("C overlaps {input} in device memory; kernels read their inputs while they write C")]
    Overlap {
        /// "A" or "B".
        input: &'static str,
    },
    /// The matrices of a batch share elements.
    #[error(
        "the {count} matrices of C overlap: {rows} x {columns} elements with rows {leading} apart, one matrix every {stride} elements"
    )]
    OverlappingBatch {
        /// Matrices in the batch.
        count: usize,
        /// Elements from the start of one to that of the next.
        stride: usize,
        /// Rows of each.
        rows: usize,
        /// Columns of each.
        columns: usize,
        /// Elements from row to row.
        leading: usize,
    },
    /// Rows that overlap.
    #[error(
        "rows of {columns} elements can't be {leading} elements apart: the leading dimension must be {columns} or more"
    )]
    LeadingDimension {
        /// Elements of a row.
        columns: usize,
        /// Elements from the start of one row to that of the next.
        leading: usize,
    },
    /// A matrix that reaches past the end of its buffer.
    #[error("a {rows} x {columns} matrix at element {offset} needs more than the {available} elements of its buffer")]
    OutsideBuffer {
        /// Where the matrix starts.
        offset: usize,
        /// Its rows.
        rows: usize,
        /// Its columns.
        columns: usize,
        /// Elements in the buffer.
        available: usize,
    },
    /// A part of a matrix that isn't all inside it.
    #[error("rows {rows:?}, columns {columns:?} are not inside a matrix of {inside_rows} x {inside_columns}")]
    OutsideMatrix {
        /// Rows of the part.
        rows: std::ops::Range<usize>,
        /// Columns of the part.
        columns: std::ops::Range<usize>,
        /// Rows of the matrix.
        inside_rows: usize,
        /// Columns of the matrix.
        inside_columns: usize,
    },
    /// A workspace that is too small.
    #[error("the workspace has {given} bytes and this product needs {needed}; Product::workspace_bytes tells")]
    WorkspaceTooSmall {
        /// Bytes needed.
        needed: u64,
        /// Bytes given.
        given: u64,
    },
    /// A kernel of the book, which takes matrices without gaps only.
    #[error("the kernel '{kernel}' takes row-major matrices without gaps, and {matrix} is transposed or has gaps")]
    NotPacked {
        /// "A", "B" or "C".
        matrix: &'static str,
        /// The kernel.
        kernel: &'static str,
    },
    /// A production kernel for matrices that lie otherwise.
    #[error(
        "the kernel '{kernel}' copies A and B in ways that these don't lie for (k: contiguous along K; v: across K, rows at multiples of 16 bytes; w: across K); '{fitting}' does, and by the name of the family, '{family}', the one that does is found"
    )]
    Layout {
        /// The kernel.
        kernel: &'static str,
        /// The one of the same family that can copy them.
        fitting: &'static str,
        /// The family.
        family: &'static str,
    },
    /// A kernel of the book, which computes plain products only.
    #[error(
        "the kernel '{kernel}' computes C = A B, without alpha, beta or batches; leave these out, or name no kernel: then the library chooses one that takes them (`gemm --precision {}`, without --kernel)",
        precision_to_ask_for(kernel)
    )]
    PlainOnly {
        /// The kernel.
        kernel: &'static str,
    },
    /// A kernel that doesn't take K in parts.
    #[error(
        "the kernel '{kernel}' takes K as a whole: leave out the number of parts, or take a production kernel for f32"
    )]
    WholeOnly {
        /// The kernel.
        kernel: &'static str,
    },
    /// Elements of types that don't go together.
    #[error(
        "A has elements of {a}, B of {b} and C of {c}: A and B must have elements of the same type, and C those of f32 or the same"
    )]
    ElementTypes {
        /// The type of A's elements.
        a: &'static str,
        /// The type of B's elements.
        b: &'static str,
        /// The type of C's elements.
        c: &'static str,
    },
    /// Elements of a type that the kernel doesn't take.
    #[error(
        "the kernel '{kernel}' takes matrices A and B of {takes}, and their elements are of {given}; leave the kernel to be chosen, or take one of that precision (list shows it)"
    )]
    Factors {
        /// The kernel.
        kernel: &'static str,
        /// The type that it takes.
        takes: &'static str,
        /// The type of A's and B's elements.
        given: &'static str,
    },
    /// More blocks than a grid can have, or a size that the kernel doesn't take.
    #[error(
        "the kernel '{kernel}' has no launch for a {m} x {n} product with K = {k}: it would need more blocks than a grid can have, or it takes multiples of its tile only (list shows the tile)"
    )]
    NoLaunch {
        /// Rows of C.
        m: usize,
        /// Columns of C.
        n: usize,
        /// The inner dimension.
        k: usize,
        /// The kernel.
        kernel: &'static str,
    },
    /// A matrix whose lines lie in the other direction.
    #[error("the kernel '{kernel}' copies lines of matrix {matrix}: it takes one with contiguous {contiguous}")]
    Lines {
        /// The kernel.
        kernel: &'static str,
        /// "A", "B" or "C".
        matrix: &'static str,
        /// "rows" or "columns".
        contiguous: &'static str,
    },
    /// A C with an odd number of columns, for a kernel that stores pairs.
    #[error(
        "the kernel '{kernel}' stores two neighbouring elements of C at a time and takes an even number of columns, and C has {columns}; \
         take other sizes, or another kernel"
    )]
    OddColumns {
        /// The kernel.
        kernel: &'static str,
        /// Columns of C.
        columns: usize,
    },
    /// A matrix whose lines aren't made of whole panels.
    #[error(
        "the kernel '{kernel}' copies matrix {matrix} in panels: it takes lines of a multiple of {width} elements, and these have \
         {elements}"
    )]
    Panels {
        /// The kernel.
        kernel: &'static str,
        /// "A", "B" or "C".
        matrix: &'static str,
        /// Elements of a line in a panel.
        width: u32,
        /// Elements of a line.
        elements: u64,
    },
    /// A matrix that can't be copied box by box.
    #[error(
        "the kernel '{kernel}' needs matrix {matrix} to begin, with every row (or column, if these are contiguous), at multiples of 16 \
         bytes: {reason}; take sizes that are multiples of 16 bytes, or another kernel"
    )]
    Unmappable {
        /// The kernel.
        kernel: &'static str,
        /// "A", "B" or "C".
        matrix: &'static str,
        /// The rule that it breaks.
        reason: TensorMapError,
    },
    /// A kernel for other GPUs.
    #[error(
        "the kernel '{kernel}' needs a GPU of compute capability {needs}, and this one has {major}.{minor}: take another kernel (list \
         shows what each needs), or `--device sim`"
    )]
    OtherGpu {
        /// The kernel.
        kernel: &'static str,
        /// The compute capabilities that run it.
        needs: &'static str,
        /// The GPU's compute capability, the number before the dot.
        major: u32,
        /// The number after the dot.
        minor: u32,
    },
    /// A result that doesn't fit in this machine's memory.
    #[error("the {rows} x {columns} result needs {bytes} bytes of host memory, which are not to be had")]
    HostMemory {
        /// Rows of C.
        rows: usize,
        /// Columns of C.
        columns: usize,
        /// Bytes needed.
        bytes: u128,
    },
    /// A batch that is a list of matrices, where only one at equal distances will do.
    #[error("a batch that is a list of matrices can't be given to another library; take matrices at equal distances")]
    ListedBatch,
    /// The device.
    #[error(transparent)]
    Device(#[from] DeviceError),
}
