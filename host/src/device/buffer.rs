//! Numbers in device memory.

use std::{fmt, marker::PhantomData, sync::Arc};

use gpu_kernels::launch::ElementType;
use half::{bf16, f16};
use ndarray::{ArrayRef2, ArrayView2, ArrayViewMut2};

use super::{Backend, Device, DeviceError, HostRows};

/// A number that can be in device memory: any bit pattern is a value, and there is no padding.
pub trait Element: bytemuck::Pod {}
impl Element for f32 {}
impl Element for f64 {}
impl Element for u32 {}
impl Element for u64 {}
impl Element for bf16 {}
impl Element for f16 {}

/// A number that the matrices of a product can hold.
pub trait MatrixElement: Element {
    /// Its type, as kernels name it.
    const TYPE: ElementType;
}
impl MatrixElement for f32 {
    const TYPE: ElementType = ElementType::F32;
}
impl MatrixElement for bf16 {
    const TYPE: ElementType = ElementType::Bf16;
}
impl MatrixElement for f16 {
    const TYPE: ElementType = ElementType::F16;
}

/// The memory of a buffer, whatever its elements are.
#[derive(Clone, Copy)]
pub(crate) struct Memory<'a> {
    backend: &'a Arc<dyn Backend>,
    /// The device address of the first element; 0 for none.
    pub(crate) address: u64,
    /// Elements.
    pub(crate) length: usize,
}

impl Memory<'_> {
    /// Whether this is memory of `device`.
    pub(crate) fn is_on(&self, device: &Device) -> bool {
        Arc::ptr_eq(self.backend, device.backend())
    }
}

impl fmt::Debug for Memory<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Memory {{ address: {:#x}, length: {} }}", self.address, self.length)
    }
}

/// Elements in device memory, freed on drop.
///
/// Copies between host and device wait for whatever has been enqueued so far, on every stream; so does freeing. Neither
/// can therefore overtake a kernel that still uses the buffer.
pub struct DeviceBuffer<T: Element> {
    backend: Arc<dyn Backend>,
    address: u64,
    length: usize,
    element: PhantomData<T>,
}

impl<T: Element> fmt::Debug for DeviceBuffer<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "DeviceBuffer {{ address: {:#x}, length: {} }}", self.address, self.length)
    }
}

impl<T: Element> DeviceBuffer<T> {
    /// Room for `length` elements with unspecified contents.
    pub(super) fn allocate(backend: &Arc<dyn Backend>, length: usize) -> Result<DeviceBuffer<T>, DeviceError> {
        let bytes = (length as u64).checked_mul(size_of::<T>() as u64).ok_or_else(|| {
            let info = backend.info();
            DeviceError::OutOfMemory { needed: u64::MAX, free: info.free_memory, total: info.total_memory }
        })?;
        let address = if bytes == 0 { 0 } else { backend.allocate(bytes)? };
        Ok(DeviceBuffer { backend: Arc::clone(backend), address, length, element: PhantomData })
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The device address of the first element; 0 for an empty buffer.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Whether this is memory of `device`.
    pub fn is_on(&self, device: &Device) -> bool {
        self.memory().is_on(device)
    }

    /// Its memory, for those who look at the type of its elements later.
    pub(crate) fn memory(&self) -> Memory<'_> {
        Memory { backend: &self.backend, address: self.address, length: self.length }
    }

    /// Overwrites the whole buffer.
    ///
    /// # Errors
    ///
    /// [`DeviceError::LengthMismatch`] if `elements` has another length.
    pub fn copy_from(&mut self, elements: &[T]) -> Result<(), DeviceError> {
        self.check_length(elements.len())?;
        if self.is_empty() {
            return Ok(());
        }
        self.backend.copy_to_device(self.address, bytemuck::cast_slice(elements))
    }

    /// Reads the whole buffer, after everything launched so far has run.
    ///
    /// # Errors
    ///
    /// [`DeviceError::LengthMismatch`] if `elements` has another length; any error of earlier launches.
    pub fn copy_to(&self, elements: &mut [T]) -> Result<(), DeviceError> {
        self.check_length(elements.len())?;
        self.backend.synchronise()?;
        if self.is_empty() {
            return Ok(());
        }
        self.backend.copy_from_device(bytemuck::cast_slice_mut(elements), self.address)
    }

    /// Reads the whole buffer into a new vector, after everything launched so far has run.
    pub fn download(&self) -> Result<Vec<T>, DeviceError> {
        let mut elements = vec![T::zeroed(); self.length];
        self.copy_to(&mut elements)?;
        Ok(elements)
    }

    /// Overwrites the whole buffer with a matrix whose rows are contiguous and follow each other, perhaps with gaps, which
    /// aren't read.
    pub(crate) fn copy_from_rows(&mut self, matrix: ArrayView2<'_, T>) -> Result<(), DeviceError> {
        if let Some(elements) = matrix.as_slice() {
            return self.copy_from(elements);
        }
        self.check_length(matrix.len())?;
        let rows = host_rows(&matrix, matrix.as_ptr().cast());
        // SAFETY: the rows are those of a view, and `host_rows` made sure that they are contiguous.
        unsafe { self.backend.copy_rows_to_device(self.address, rows) }
    }

    /// Reads the whole buffer into a matrix whose rows are contiguous and follow each other, perhaps with gaps, which
    /// stay as they are; after everything launched so far has run.
    pub(crate) fn copy_to_rows(&self, mut matrix: ArrayViewMut2<'_, T>) -> Result<(), DeviceError> {
        if let Some(elements) = matrix.as_slice_mut() {
            return self.copy_to(elements);
        }
        self.check_length(matrix.len())?;
        self.backend.synchronise()?;
        let start = matrix.as_mut_ptr().cast();
        let rows = host_rows(&matrix, start);
        // SAFETY: the rows are those of a view to write, and `host_rows` made sure that they are contiguous.
        unsafe { self.backend.copy_rows_from_device(rows, self.address) }
    }

    fn check_length(&self, length: usize) -> Result<(), DeviceError> {
        if length == self.length {
            Ok(())
        } else {
            Err(DeviceError::LengthMismatch { buffer: self.length, host: length })
        }
    }
}

impl<T: Element> Drop for DeviceBuffer<T> {
    fn drop(&mut self) {
        if self.address != 0 {
            self.backend.free(self.address);
        }
    }
}

/// The rows of a matrix that isn't empty, of which `start` is the first element.
///
/// # Panics
///
/// If its rows aren't contiguous, or don't follow each other.
fn host_rows<T, P>(matrix: &ArrayRef2<T>, start: P) -> HostRows<P> {
    let ((rows, columns), strides) = (matrix.dim(), matrix.strides());
    assert!(columns == 1 || strides[1] == 1, "rows must be contiguous");
    let pitch = if rows == 1 { columns } else { usize::try_from(strides[0]).expect("rows must follow each other") };
    assert!(pitch >= columns, "rows must not overlap");
    HostRows { start, pitch: pitch * size_of::<T>(), bytes: columns * size_of::<T>(), rows }
}
