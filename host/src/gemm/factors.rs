//! A and B in the elements that a kernel takes, from numbers of f32.

use gpu_kernels::{Kernel, Precision, launch::ElementType, tensor_cores};
use half::bf16;
use ndarray::{ArrayRef2, ArrayView2};

use super::{DeviceMatrix, GemmError};
use crate::device::{Device, DeviceBuffer, DeviceError};

/// The kernel for factors of a type when nobody names one; `None` where [`plan`](crate::plan) chooses.
pub(super) fn kernel_for(factors: ElementType) -> Option<&'static Kernel> {
    match factors {
        ElementType::F32 => None,
        // It's the only one so far.
        ElementType::Bf16 => Some(&tensor_cores::KERNEL),
    }
}

/// The precision that was asked for isn't that of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the kernel '{kernel}' computes in {has}, and {wanted} is asked for: leave out one of the two")]
pub struct OtherPrecision {
    /// The kernel.
    pub kernel: &'static str,
    /// Its precision.
    pub has: &'static str,
    /// What was asked for.
    pub wanted: &'static str,
}

/// The kernel to compute with in a precision, if one is asked for: the one that is named, if any, else one of that
/// precision. `None` if [`plan`](crate::plan) is to choose.
///
/// # Errors
///
/// [`OtherPrecision`] if the named one has another.
pub fn kernel_in(
    precision: Option<Precision>,
    named: Option<&'static Kernel>,
) -> Result<Option<&'static Kernel>, OtherPrecision> {
    match (named, precision) {
        (Some(kernel), Some(wanted)) if kernel.precision != wanted => {
            Err(OtherPrecision { kernel: kernel.name, has: kernel.precision.name(), wanted: wanted.name() })
        }
        (Some(kernel), _) => Ok(Some(kernel)),
        (None, precision) => Ok(precision.and_then(|precision| kernel_for(precision.factors()))),
    }
}

/// Rounds numbers to the nearest that elements of a type can hold, halfway to even.
pub fn round(element: ElementType, numbers: &mut [f32]) {
    match element {
        ElementType::F32 => {}
        ElementType::Bf16 => numbers.iter_mut().for_each(|number| *number = bf16::from_f32(*number).to_f32()),
    }
}

/// A matrix of the numbers that a kernel is given in the place of those of `matrix`.
pub fn rounded(element: ElementType, matrix: ArrayView2<'_, f32>) -> ndarray::Array2<f32> {
    let mut matrix = matrix.as_standard_layout().into_owned();
    round(element, matrix.as_slice_mut().expect("a matrix in standard layout is contiguous"));
    matrix
}

/// Elements of A or B in device memory, of the type that a kernel takes.
#[derive(Debug)]
pub enum FactorBuffer {
    /// Numbers as they are.
    F32(DeviceBuffer<f32>),
    /// Rounded to bf16.
    Bf16(DeviceBuffer<bf16>),
}

impl FactorBuffer {
    /// Uploads numbers, rounded as [`round`] does.
    ///
    /// # Errors
    ///
    /// [`DeviceError`], for want of memory for instance.
    pub fn upload(device: &Device, element: ElementType, numbers: &[f32]) -> Result<FactorBuffer, DeviceError> {
        Ok(match element {
            ElementType::F32 => FactorBuffer::F32(device.upload(numbers)?),
            ElementType::Bf16 => {
                let rounded: Vec<bf16> = numbers.iter().map(|number| bf16::from_f32(*number)).collect();
                FactorBuffer::Bf16(device.upload(&rounded)?)
            }
        })
    }

    /// Uploads a matrix of any strides, row by row.
    pub(super) fn upload_matrix(
        device: &Device,
        element: ElementType,
        matrix: &ArrayRef2<f32>,
    ) -> Result<FactorBuffer, DeviceError> {
        let matrix = matrix.as_standard_layout();
        FactorBuffer::upload(device, element, matrix.as_slice().expect("a matrix in standard layout is contiguous"))
    }

    /// The buffer's first `rows` x `columns` elements as a row-major matrix.
    ///
    /// # Errors
    ///
    /// [`GemmError::OutsideBuffer`] if there aren't as many.
    pub fn matrix(&self, rows: usize, columns: usize) -> Result<DeviceMatrix<'_>, GemmError> {
        self.matrix_at(0, rows, columns)
    }

    /// `rows` x `columns` elements from element `offset` on as a row-major matrix.
    ///
    /// # Errors
    ///
    /// As [`matrix`](FactorBuffer::matrix).
    pub fn matrix_at(&self, offset: usize, rows: usize, columns: usize) -> Result<DeviceMatrix<'_>, GemmError> {
        match self {
            FactorBuffer::F32(buffer) => DeviceMatrix::new(buffer, offset, rows, columns),
            FactorBuffer::Bf16(buffer) => DeviceMatrix::new(buffer, offset, rows, columns),
        }
    }

    /// All elements, as numbers.
    ///
    /// # Errors
    ///
    /// Any error of earlier launches.
    pub fn download(&self) -> Result<Vec<f32>, DeviceError> {
        Ok(match self {
            FactorBuffer::F32(buffer) => buffer.download()?,
            FactorBuffer::Bf16(buffer) => buffer.download()?.into_iter().map(bf16::to_f32).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::DeviceSelector;

    #[test]
    fn what_is_uploaded_is_what_rounding_says() {
        let device = Device::open(DeviceSelector::Simulator).unwrap();
        // Halfway between two numbers of bf16, to even; beyond the largest; the smallest; none.
        let numbers = [1.0, 1.00390625, 1.01171875, 3.4e38, -1e-40, 0.1, f32::INFINITY];
        for element in [ElementType::F32, ElementType::Bf16] {
            let mut expected = numbers;
            round(element, &mut expected);
            assert_eq!(FactorBuffer::upload(&device, element, &numbers).unwrap().download().unwrap(), expected);
        }
        let mut halves = numbers;
        round(ElementType::Bf16, &mut halves);
        assert_eq!(halves[..4], [1.0, 1.0, 1.015625, f32::INFINITY]);
    }
}
