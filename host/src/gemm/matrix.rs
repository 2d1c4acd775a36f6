//! Matrices in device memory: where they are, not what holds them.
//!
//! A [`DeviceMatrix`] sees a part of a [`DeviceBuffer`] as a matrix, the way BLAS does: by its rows, its columns and its
//! leading dimension, and perhaps transposed. A [`DeviceMatrixMut`] may be written, and is the only one that sees its
//! elements while it lives, so that the output of a product is never one of its inputs. Batches are
//! [`DeviceMatrices`], at equal distances in one buffer, or a [`MatrixList`], anywhere.
//!
//! ```
//! use host::device::{Device, DeviceSelector};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let device = Device::open(DeviceSelector::Simulator)?;
//! let buffer = device.upload(&[0.0f32, 1.0, 2.0, 3.0, 4.0, 5.0])?;
//! let matrix = buffer.matrix(2, 3)?;
//! assert_eq!(matrix.transposed().dim(), (3, 2));
//! // The last two columns: rows of 2 elements, still 3 apart.
//! let columns = matrix.slice(.., 1..)?;
//! assert_eq!((columns.dim(), columns.leading()), ((2, 2), 3));
//! # Ok(())
//! # }
//! ```

use std::ops::{Bound, Range, RangeBounds};

use gpu_kernels::launch::ElementType;

use super::GemmError;
use crate::{
    device::{Device, DeviceBuffer, DeviceError, MatrixElement, Memory},
    plan::Layout,
};

/// A part of a buffer as a matrix: what the views of this module have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Region<'a> {
    memory: Memory<'a>,
    element: ElementType,
    /// Elements of the buffer before the matrix.
    offset: usize,
    /// The matrix in memory: rows of contiguous elements.
    rows: usize,
    columns: usize,
    /// Elements from the start of one row to that of the next.
    leading: usize,
    /// Whether the matrix that is meant is this one's transpose.
    transposed: bool,
}

impl<'a> Region<'a> {
    fn new<T: MatrixElement>(
        buffer: &'a DeviceBuffer<T>,
        offset: usize,
        rows: usize,
        columns: usize,
        leading: usize,
    ) -> Result<Region<'a>, GemmError> {
        Ok(Batch::new(buffer, offset, [1, 0], rows, columns, leading)?.first)
    }

    /// Elements from the first to the last, both included; `None` if they can't be counted.
    fn span(&self) -> Option<usize> {
        match self.rows.checked_sub(1) {
            Some(gaps) if self.columns > 0 => gaps.checked_mul(self.leading)?.checked_add(self.columns),
            _ => Some(0),
        }
    }

    fn dim(&self) -> (usize, usize) {
        if self.transposed { (self.columns, self.rows) } else { (self.rows, self.columns) }
    }

    /// Elements from one row to the next and from one column to the next, of the matrix that is meant.
    fn strides(&self) -> (usize, usize) {
        if self.transposed { (1, self.leading) } else { (self.leading, 1) }
    }

    fn address(&self) -> u64 {
        self.memory.address + (self.offset * self.element.bytes()) as u64
    }

    fn transpose(self) -> Region<'a> {
        Region { transposed: !self.transposed, ..self }
    }

    fn slice(self, rows: impl RangeBounds<usize>, columns: impl RangeBounds<usize>) -> Result<Region<'a>, GemmError> {
        let (inside_rows, inside_columns) = self.dim();
        let (rows, columns) = (range(rows, inside_rows), range(columns, inside_columns));
        let inside = |range: &Range<usize>, length| range.start <= range.end && range.end <= length;
        if !inside(&rows, inside_rows) || !inside(&columns, inside_columns) {
            return Err(GemmError::OutsideMatrix { rows, columns, inside_rows, inside_columns });
        }
        let (row_stride, column_stride) = self.strides();
        let (height, width) = (rows.len(), columns.len());
        // An empty part may begin where the matrix ends, which can be past the end of the buffer.
        let offset = match height * width {
            0 => self.offset,
            _ => self.offset + rows.start * row_stride + columns.start * column_stride,
        };
        let (rows, columns) = if self.transposed { (width, height) } else { (height, width) };
        Ok(Region { offset, rows, columns, ..self })
    }

    /// Whether the elements that lie between the first and last of both include some of each other's.
    fn overlaps(&self, other: &Region<'_>) -> bool {
        let range = |region: &Region<'_>| {
            let bytes = region.span().unwrap_or(usize::MAX).saturating_mul(region.element.bytes());
            region.address()..region.address() + bytes as u64
        };
        let (this, other) = (range(self), range(other));
        this.start < other.end && other.start < this.end
    }
}

/// `range` in a dimension of `length`, unchecked.
fn range(range: impl RangeBounds<usize>, length: usize) -> Range<usize> {
    let start = match range.start_bound() {
        Bound::Included(&start) => start,
        Bound::Excluded(&before) => before.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(&last) => last.saturating_add(1),
        Bound::Excluded(&end) => end,
        Bound::Unbounded => length,
    };
    start..end
}

/// A matrix in device memory, to read.
#[derive(Clone, Copy, Debug)]
pub struct DeviceMatrix<'a>(Region<'a>);

/// A matrix in device memory, to write. Nothing else sees its elements while it lives.
#[derive(Debug)]
pub struct DeviceMatrixMut<'a>(Region<'a>);

impl<T: MatrixElement> DeviceBuffer<T> {
    /// The buffer's first `rows` x `columns` elements as a row-major matrix.
    ///
    /// # Errors
    ///
    /// [`GemmError::OutsideBuffer`] if there aren't as many.
    pub fn matrix(&self, rows: usize, columns: usize) -> Result<DeviceMatrix<'_>, GemmError> {
        DeviceMatrix::new(self, 0, rows, columns)
    }

    /// The buffer's first `rows` x `columns` elements as a row-major matrix to write.
    ///
    /// # Errors
    ///
    /// As [`matrix`](DeviceBuffer::matrix).
    pub fn matrix_mut(&mut self, rows: usize, columns: usize) -> Result<DeviceMatrixMut<'_>, GemmError> {
        DeviceMatrixMut::new(self, 0, rows, columns)
    }
}

/// What reading and writing views have in common.
macro_rules! matrix_methods {
    ($view:ident, $buffer:ty) => {
        /// Sees `rows` x `columns` elements of `buffer` from element `offset` on as a row-major matrix without gaps.
        ///
        /// # Errors
        ///
        /// [`GemmError::OutsideBuffer`] if the buffer ends before the matrix does.
        pub fn new<T: MatrixElement>(
            buffer: $buffer,
            offset: usize,
            rows: usize,
            columns: usize,
        ) -> Result<Self, GemmError> {
            Self::with_leading(buffer, offset, rows, columns, columns)
        }

        /// Like [`new`](Self::new), with rows that start `leading` elements apart.
        ///
        /// # Errors
        ///
        /// [`GemmError::LeadingDimension`] if rows overlap, [`GemmError::OutsideBuffer`].
        pub fn with_leading<T: MatrixElement>(
            buffer: $buffer,
            offset: usize,
            rows: usize,
            columns: usize,
            leading: usize,
        ) -> Result<Self, GemmError> {
            Ok($view(Region::new(buffer, offset, rows, columns, leading)?))
        }

        /// Its rows and columns.
        pub fn dim(&self) -> (usize, usize) {
            self.0.dim()
        }

        /// Elements from the start of one row to that of the next, in memory: of the matrix before its transposition.
        pub fn leading(&self) -> usize {
            self.0.leading
        }

        /// Elements from one row to the next, and from one column to the next. One of them is 1.
        pub fn strides(&self) -> (usize, usize) {
            self.0.strides()
        }

        /// The type of its elements.
        pub fn element(&self) -> ElementType {
            self.0.element
        }

        /// Whether it is the transpose of the matrix whose rows are contiguous in memory.
        pub fn is_transposed(&self) -> bool {
            self.0.transposed
        }

        /// Whether its rows are contiguous and follow each other without gaps.
        pub fn is_packed(&self) -> bool {
            !self.0.transposed && (self.0.leading == self.0.columns || self.0.rows <= 1)
        }

        /// The device address of its first element.
        pub fn address(&self) -> u64 {
            self.0.address()
        }

        /// The same elements as the transposed matrix. Nothing is moved.
        pub fn transposed(self) -> Self {
            $view(self.0.transpose())
        }

        /// A part of it, by ranges of rows and columns such as `2..5` and `..`.
        ///
        /// # Errors
        ///
        /// [`GemmError::OutsideMatrix`] if it isn't all inside.
        pub fn slice(self, rows: impl RangeBounds<usize>, columns: impl RangeBounds<usize>) -> Result<Self, GemmError> {
            Ok($view(self.0.slice(rows, columns)?))
        }
    };
}

impl<'a> DeviceMatrix<'a> {
    matrix_methods!(DeviceMatrix, &'a DeviceBuffer<T>);

    pub(super) fn overlaps(&self, other: &DeviceMatrix<'_>) -> bool {
        self.0.overlaps(&other.0)
    }
}

impl<'a> DeviceMatrixMut<'a> {
    matrix_methods!(DeviceMatrixMut, &'a mut DeviceBuffer<T>);

    /// The same matrix, for a while.
    pub fn reborrow(&mut self) -> DeviceMatrixMut<'_> {
        DeviceMatrixMut(self.0)
    }

    /// The same matrix, to read for a while.
    pub fn as_view(&self) -> DeviceMatrix<'_> {
        DeviceMatrix(self.0)
    }

    /// The first `row` rows and the rest, each to write.
    ///
    /// # Errors
    ///
    /// [`GemmError::OutsideMatrix`] if there are fewer rows.
    pub fn split_at_row(self, row: usize) -> Result<(DeviceMatrixMut<'a>, DeviceMatrixMut<'a>), GemmError> {
        Ok((DeviceMatrixMut(self.0.slice(..row, ..)?), DeviceMatrixMut(self.0.slice(row.., ..)?)))
    }

    /// The first `column` columns and the rest, each to write.
    ///
    /// # Errors
    ///
    /// [`GemmError::OutsideMatrix`] if there are fewer columns.
    pub fn split_at_column(self, column: usize) -> Result<(DeviceMatrixMut<'a>, DeviceMatrixMut<'a>), GemmError> {
        Ok((DeviceMatrixMut(self.0.slice(.., ..column)?), DeviceMatrixMut(self.0.slice(.., column..)?)))
    }
}

/// A batch of matrices of one shape at equal distances in one buffer.
#[derive(Clone, Copy, Debug)]
struct Batch<'a> {
    first: Region<'a>,
    count: usize,
    /// Elements from the first of one matrix to the first of the next.
    stride: usize,
}

impl<'a> Batch<'a> {
    fn new<T: MatrixElement>(
        buffer: &'a DeviceBuffer<T>,
        offset: usize,
        [count, stride]: [usize; 2],
        rows: usize,
        columns: usize,
        leading: usize,
    ) -> Result<Batch<'a>, GemmError> {
        if leading < columns {
            return Err(GemmError::LeadingDimension { columns, leading });
        }
        let (memory, element) = (buffer.memory(), T::TYPE);
        let first = Region { memory, element, offset, rows, columns, leading, transposed: false };
        // No matrices, no elements: it doesn't matter where they would begin, which may be past the end of all memory.
        let Some(others) = count.checked_sub(1) else {
            return Ok(Batch { first: Region { offset: 0, ..first }, count, stride });
        };
        let last = others.checked_mul(stride).and_then(|elements| elements.checked_add(offset));
        let end = last.zip(first.span()).and_then(|(last, span)| last.checked_add(span));
        if end.is_some_and(|end| end <= buffer.len()) {
            Ok(Batch { first, count, stride })
        } else {
            let offset = last.unwrap_or(usize::MAX);
            Err(GemmError::OutsideBuffer { offset, rows, columns, available: buffer.len() })
        }
    }

    /// Whether every element belongs to one matrix only.
    ///
    /// Elements lie at i * leading + j + b * stride. They are all different if, the three steps in ascending order,
    /// each step passes over all that the smaller ones reach.
    fn is_disjoint(&self) -> bool {
        let Region { rows, columns, leading, .. } = self.first;
        // Sizes of what has no elements may be too large to count with.
        if rows == 0 || columns == 0 || self.count == 0 {
            return true;
        }
        let mut steps = [(1, columns), (leading, rows), (self.stride, self.count)];
        steps.sort_unstable();
        let mut reach: usize = 1;
        for (step, times) in steps.into_iter().filter(|(_, times)| *times > 1) {
            if step < reach {
                return false;
            }
            reach += step * (times - 1);
        }
        true
    }

    fn get(&self, index: usize) -> Option<Region<'a>> {
        (index < self.count).then(|| Region { offset: self.first.offset + index * self.stride, ..self.first })
    }
}

/// A batch to read: matrices of one shape at equal distances in one buffer.
#[derive(Clone, Copy, Debug)]
pub struct DeviceMatrices<'a>(Batch<'a>);

/// A batch to write: matrices of one shape at equal distances in one buffer.
#[derive(Debug)]
pub struct DeviceMatricesMut<'a>(Batch<'a>);

/// What reading and writing batches have in common.
macro_rules! batch_methods {
    ($view:ident, $buffer:ty) => {
        /// Sees `count` row-major matrices of `rows` x `columns`, one after the other without gaps, in `buffer` from
        /// element `offset` on.
        ///
        /// # Errors
        ///
        /// [`GemmError::OutsideBuffer`] if the buffer ends before the last does.
        pub fn new<T: MatrixElement>(
            buffer: $buffer,
            offset: usize,
            count: usize,
            rows: usize,
            columns: usize,
        ) -> Result<Self, GemmError> {
            let stride = rows.saturating_mul(columns);
            Self::with_strides(buffer, offset, [count, stride], rows, columns, columns)
        }

        /// Rows and columns of each matrix.
        pub fn dim(&self) -> (usize, usize) {
            self.0.first.dim()
        }

        /// How many matrices.
        pub fn len(&self) -> usize {
            self.0.count
        }

        /// Whether there are none.
        pub fn is_empty(&self) -> bool {
            self.0.count == 0
        }

        /// Elements from the first of one matrix to the first of the next.
        pub fn stride(&self) -> usize {
            self.0.stride
        }

        /// Matrix number `index`, to read.
        pub fn get(&self, index: usize) -> Option<DeviceMatrix<'_>> {
            self.0.get(index).map(DeviceMatrix)
        }

        /// The batch of the transposed matrices. Nothing is moved.
        pub fn transposed(self) -> Self {
            $view(Batch { first: self.0.first.transpose(), ..self.0 })
        }
    };
}

impl<'a> DeviceMatrices<'a> {
    batch_methods!(DeviceMatrices, &'a DeviceBuffer<T>);

    /// Like [`new`](DeviceMatrices::new), with `count` matrices that start `stride` elements apart (0: the same one each
    /// time) and rows that start `leading` elements apart.
    ///
    /// # Errors
    ///
    /// [`GemmError::LeadingDimension`] if rows overlap, [`GemmError::OutsideBuffer`].
    pub fn with_strides<T: MatrixElement>(
        buffer: &'a DeviceBuffer<T>,
        offset: usize,
        [count, stride]: [usize; 2],
        rows: usize,
        columns: usize,
        leading: usize,
    ) -> Result<DeviceMatrices<'a>, GemmError> {
        Ok(DeviceMatrices(Batch::new(buffer, offset, [count, stride], rows, columns, leading)?))
    }
}

impl<'a> DeviceMatricesMut<'a> {
    batch_methods!(DeviceMatricesMut, &'a mut DeviceBuffer<T>);

    /// Like [`new`](DeviceMatricesMut::new), with `count` matrices that start `stride` elements apart and rows that start
    /// `leading` elements apart. Matrices may lie between each other's rows, but no element may be in two.
    ///
    /// # Errors
    ///
    /// [`GemmError::LeadingDimension`] if rows overlap, [`GemmError::OverlappingBatch`] if matrices do,
    /// [`GemmError::OutsideBuffer`].
    pub fn with_strides<T: MatrixElement>(
        buffer: &'a mut DeviceBuffer<T>,
        offset: usize,
        [count, stride]: [usize; 2],
        rows: usize,
        columns: usize,
        leading: usize,
    ) -> Result<DeviceMatricesMut<'a>, GemmError> {
        let batch = Batch::new(buffer, offset, [count, stride], rows, columns, leading)?;
        if batch.is_disjoint() {
            Ok(DeviceMatricesMut(batch))
        } else {
            Err(GemmError::OverlappingBatch { count, stride, rows, columns, leading })
        }
    }

    /// The same batch, for a while.
    pub fn reborrow(&mut self) -> DeviceMatricesMut<'_> {
        DeviceMatricesMut(self.0)
    }
}

/// A batch to read: matrices of one shape anywhere in device memory. Their addresses are in device memory too, where
/// kernels look them up; making the list allocates and copies, using it doesn't.
#[derive(Debug)]
pub struct MatrixList<'a>(List<'a>);

/// A batch to write: matrices of one shape anywhere in device memory; see [`MatrixList`].
#[derive(Debug)]
pub struct MatrixListMut<'a>(List<'a>);

#[derive(Debug)]
struct List<'a> {
    regions: Vec<Region<'a>>,
    addresses: DeviceBuffer<u64>,
    /// Whether all begin at multiples of 16 bytes.
    aligned: bool,
}

impl<'a> List<'a> {
    fn new(device: &Device, regions: Vec<Region<'a>>) -> Result<List<'a>, GemmError> {
        let kind =
            |region: &Region<'_>| (region.element, region.rows, region.columns, region.leading, region.transposed);
        if let Some(index) = regions.iter().position(|region| kind(region) != kind(&regions[0])) {
            return Err(GemmError::UnequalMatrices { index });
        }
        if regions.iter().any(|region| !region.memory.is_on(device)) {
            return Err(DeviceError::OtherDevice { what: "a matrix of the list" }.into());
        }
        let addresses: Vec<u64> = regions.iter().map(Region::address).collect();
        let aligned = addresses.iter().all(|address| address.is_multiple_of(16));
        Ok(List { addresses: device.upload(&addresses)?, regions, aligned })
    }
}

impl<'a> MatrixList<'a> {
    /// Makes a list of matrices that are alike but for their place.
    ///
    /// # Errors
    ///
    /// [`GemmError::UnequalMatrices`], [`DeviceError::OtherDevice`], or no memory for the addresses.
    pub fn new(device: &Device, matrices: &[DeviceMatrix<'a>]) -> Result<MatrixList<'a>, GemmError> {
        Ok(MatrixList(List::new(device, matrices.iter().map(|matrix| matrix.0).collect())?))
    }

    /// How many matrices.
    pub fn len(&self) -> usize {
        self.0.regions.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.regions.is_empty()
    }
}

impl<'a> MatrixListMut<'a> {
    /// Makes a list of matrices that are alike but for their place.
    ///
    /// # Errors
    ///
    /// As [`MatrixList::new`].
    pub fn new(
        device: &Device,
        matrices: impl IntoIterator<Item = DeviceMatrixMut<'a>>,
    ) -> Result<MatrixListMut<'a>, GemmError> {
        Ok(MatrixListMut(List::new(device, matrices.into_iter().map(|matrix| matrix.0).collect())?))
    }

    /// How many matrices.
    pub fn len(&self) -> usize {
        self.0.regions.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.regions.is_empty()
    }
}

/// Where the matrices of an operand are.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place<'a> {
    /// One matrix, at this address.
    One(u64),
    /// `count` matrices, the first at `address`, each `stride` elements after the one before.
    Strided { address: u64, stride: usize, count: usize },
    /// Matrices at these regions, with a list of their addresses at `addresses` in device memory.
    /// `aligned`: all of them begin at multiples of 16 bytes.
    Listed { regions: &'a [Region<'a>], addresses: u64, aligned: bool },
}

impl Place<'_> {
    /// How many matrices in a batch; `None` for one that isn't a batch.
    pub(super) fn count(&self) -> Option<usize> {
        match self {
            Place::One(_) => None,
            Place::Strided { count, .. } => Some(*count),
            Place::Listed { regions, .. } => Some(regions.len()),
        }
    }
}

/// A matrix or a batch of matrices to read: what [`Gemm::product`](super::Gemm::product) takes. It is made from a
/// [`DeviceMatrix`], from [`DeviceMatrices`] or from a reference to a [`MatrixList`].
#[derive(Clone, Copy, Debug)]
pub struct Operand<'a> {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) row_stride: usize,
    pub(super) column_stride: usize,
    pub(super) place: Place<'a>,
    pub(super) element: ElementType,
    /// Memory that it is in; `None` for a list of no matrices.
    pub(super) memory: Option<Memory<'a>>,
}

impl<'a> Operand<'a> {
    fn new(region: &Region<'a>, place: Place<'a>) -> Operand<'a> {
        let ((rows, columns), (row_stride, column_stride)) = (region.dim(), region.strides());
        let (element, memory) = (region.element, Some(region.memory));
        Operand { rows, columns, row_stride, column_stride, place, element, memory }
    }

    fn of_batch(batch: Batch<'a>) -> Operand<'a> {
        let Batch { first, count, stride } = batch;
        Operand::new(&first, Place::Strided { address: first.address(), stride, count })
    }

    fn of_list(list: &'a List<'_>) -> Operand<'a> {
        let List { regions, addresses, aligned } = list;
        let place = Place::Listed { regions, addresses: addresses.address(), aligned: *aligned };
        match list.regions.first() {
            Some(first) => Operand::new(first, place),
            None => {
                let element = ElementType::F32;
                Operand { rows: 0, columns: 0, row_stride: 0, column_stride: 1, place, element, memory: None }
            }
        }
    }

    /// The address of matrix `index` of a batch; of the only one, whatever the index.
    pub(super) fn address(&self, index: usize) -> u64 {
        match self.place {
            Place::One(address) => address,
            Place::Strided { address, stride, .. } => address + (index * stride * self.element.bytes()) as u64,
            Place::Listed { regions, .. } => regions[index].address(),
        }
    }

    /// Elements from one matrix of a batch to the next; 0 where there is no such distance.
    pub(super) fn stride(&self) -> usize {
        match self.place {
            Place::Strided { stride, .. } => stride,
            Place::One(_) | Place::Listed { .. } => 0,
        }
    }

    /// Whether it is a batch of several matrices that are equally far apart, all at multiples of 16 bytes if the first is.
    pub(super) fn is_batch_at_aligned_distances(&self) -> bool {
        let stride = self.stride();
        stride > 0 && stride.is_multiple_of(self.elements_together())
    }

    /// What stands for matrices in host memory before there is a buffer for them: it lies as they will, without gaps, but is
    /// nowhere. A batch of `count`, or a single matrix if there is none.
    pub(super) fn stand_in(
        element: ElementType,
        count: Option<usize>,
        rows: usize,
        columns: usize,
        by_columns: bool,
    ) -> Operand<'static> {
        let (row_stride, column_stride) = if by_columns { (1, rows) } else { (columns, 1) };
        let stride = rows.saturating_mul(columns);
        let place = count.map_or(Place::One(0), |count| Place::Strided { address: 0, stride, count });
        Operand { rows, columns, row_stride, column_stride, place, element, memory: None }
    }

    /// The transposed matrix or matrices.
    pub(super) fn transposed(self) -> Operand<'a> {
        let Operand { rows, columns, row_stride, column_stride, .. } = self;
        Operand { rows: columns, columns: rows, row_stride: column_stride, column_stride: row_stride, ..self }
    }

    /// A batch without its first `products` matrices; the same if it isn't one.
    pub(super) fn without_first(self, products: usize) -> Operand<'a> {
        let place = match self.place {
            Place::One(_) => self.place,
            Place::Strided { address, stride, count } => {
                let address = address + (products * stride * self.element.bytes()) as u64;
                Place::Strided { address, stride, count: count - products }
            }
            Place::Listed { regions, addresses, aligned } => {
                let addresses = addresses + (products * size_of::<u64>()) as u64;
                Place::Listed { regions: &regions[products..], addresses, aligned }
            }
        };
        Operand { place, ..self }
    }

    /// A part of the matrix for product `index` of a batch.
    pub(super) fn part(self, index: usize, rows: Range<usize>, columns: Range<usize>) -> Operand<'a> {
        let offset = rows.start * self.row_stride + columns.start * self.column_stride;
        let place = Place::One(self.address(index) + (offset * self.element.bytes()) as u64);
        Operand { rows: rows.len(), columns: columns.len(), place, ..self }
    }

    /// Whether its rows are contiguous and follow each other without gaps. (Where there's only one, or nothing, there
    /// are no gaps.)
    pub(super) fn is_packed(&self) -> bool {
        let Operand { rows, columns, row_stride, column_stride, .. } = *self;
        rows == 0 || columns == 0 || ((column_stride == 1 || columns == 1) && (row_stride == columns || rows == 1))
    }

    /// The same matrix with a distance from line to line that doesn't matter, for there is one line only, chosen so that
    /// the line counts as contiguous and aligned.
    pub(super) fn with_long_lines(self) -> Operand<'a> {
        let Operand { rows, columns, row_stride, column_stride, .. } = self;
        let together = self.elements_together();
        match (rows, columns) {
            (1, _) if column_stride == 1 => Operand { row_stride: columns.next_multiple_of(together), ..self },
            (_, 1) if row_stride == 1 => Operand { column_stride: rows.next_multiple_of(together), ..self },
            _ => self,
        }
    }

    /// Whether every line (a row, or a column if those are contiguous) begins at a multiple of 16 bytes, in every matrix of a batch.
    pub(super) fn is_mappable(&self) -> bool {
        let together = self.elements_together();
        let leading = if self.column_stride != 1 { self.column_stride } else { self.row_stride };
        leading.is_multiple_of(together)
            && match self.place {
                Place::One(address) => address.is_multiple_of(16),
                Place::Strided { address, stride, .. } => address.is_multiple_of(16) && stride.is_multiple_of(together),
                Place::Listed { aligned, .. } => aligned,
            }
    }

    /// Elements in 16 bytes, which are loaded together where they can be.
    fn elements_together(&self) -> usize {
        16 / self.element.bytes()
    }

    /// How it lies in memory.
    pub(super) fn layout(&self) -> Layout {
        let by_columns = self.column_stride != 1;
        let contiguous = if by_columns { self.rows } else { self.columns };
        let mappable = self.is_mappable();
        let aligned = contiguous.is_multiple_of(self.elements_together()) && mappable;
        Layout { by_columns, mappable, aligned }
    }

    /// Whether it is in memory of `device`.
    pub(super) fn is_on(&self, device: &Device) -> bool {
        self.memory.is_none_or(|memory| memory.is_on(device))
    }
}

/// How a matrix without gaps lies that begins where a buffer does.
pub fn packed_layout(element: ElementType, rows: usize, columns: usize, by_columns: bool) -> Layout {
    Operand::stand_in(element, None, rows, columns, by_columns).with_long_lines().layout()
}

impl<'a> From<DeviceMatrix<'a>> for Operand<'a> {
    fn from(matrix: DeviceMatrix<'a>) -> Operand<'a> {
        Operand::new(&matrix.0, Place::One(matrix.address()))
    }
}

impl<'a> From<DeviceMatrices<'a>> for Operand<'a> {
    fn from(matrices: DeviceMatrices<'a>) -> Operand<'a> {
        Operand::of_batch(matrices.0)
    }
}

impl<'a> From<&'a MatrixList<'_>> for Operand<'a> {
    fn from(list: &'a MatrixList<'_>) -> Operand<'a> {
        Operand::of_list(&list.0)
    }
}

/// A matrix or a batch of matrices to write: where [`Product::enqueue_into`](super::Product::enqueue_into) puts C. It is
/// made from a [`DeviceMatrixMut`], from [`DeviceMatricesMut`] or from a [`MatrixListMut`], or, to use those again, from
/// a `&mut` reference to one.
#[derive(Debug)]
pub struct Output<'a>(pub(crate) Operand<'a>);

impl<'a> From<DeviceMatrixMut<'a>> for Output<'a> {
    fn from(matrix: DeviceMatrixMut<'a>) -> Output<'a> {
        Output(DeviceMatrix(matrix.0).into())
    }
}

impl<'a> From<&'a mut DeviceMatrixMut<'_>> for Output<'a> {
    fn from(matrix: &'a mut DeviceMatrixMut<'_>) -> Output<'a> {
        matrix.reborrow().into()
    }
}

impl<'a> From<DeviceMatricesMut<'a>> for Output<'a> {
    fn from(matrices: DeviceMatricesMut<'a>) -> Output<'a> {
        Output(Operand::of_batch(matrices.0))
    }
}

impl<'a> From<&'a mut DeviceMatricesMut<'_>> for Output<'a> {
    fn from(matrices: &'a mut DeviceMatricesMut<'_>) -> Output<'a> {
        matrices.reborrow().into()
    }
}

impl<'a> From<&'a mut MatrixListMut<'_>> for Output<'a> {
    fn from(list: &'a mut MatrixListMut<'_>) -> Output<'a> {
        Output(Operand::of_list(&list.0))
    }
}
