//! A and B in the elements that a kernel takes, from numbers of f32.

use gpu_kernels::{Precision, launch::ElementType};
use half::{bf16, f16};
use ndarray::{Array, Dimension};
use rayon::prelude::*;

use super::{DeviceMatrices, DeviceMatricesMut, DeviceMatrix, DeviceMatrixMut, GemmError, laid_out};
use crate::{
    device::{Device, DeviceBuffer, DeviceError},
    kernels::Named,
};

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

/// The precision to compute in: the one that is asked for, that of the kernel that is named, or f32.
///
/// # Errors
///
/// [`OtherPrecision`] if the kernel has another.
pub fn precision_of(precision: Option<Precision>, named: Option<Named>) -> Result<Precision, OtherPrecision> {
    let has = named.map(|named| named.any().precision);
    match (named, has, precision) {
        (Some(named), Some(has), Some(wanted)) if has != wanted => {
            Err(OtherPrecision { kernel: named.name(), has: has.name(), wanted: wanted.name() })
        }
        (_, has, wanted) => Ok(has.or(wanted).unwrap_or(Precision::F32)),
    }
}

/// The nearest number that elements of a type can hold, halfway to even.
pub fn nearest(element: ElementType, number: f32) -> f32 {
    match element {
        ElementType::F32 => number,
        ElementType::Bf16 => bf16::from_f32(number).to_f32(),
        ElementType::F16 => f16::from_f32(number).to_f32(),
    }
}

/// The number that a product in a precision is computed with in the place of another: the nearest that its factors can hold, halfway to even. Parts hold
/// what f32 does.
pub fn nearest_factor(precision: Precision, number: f32) -> f32 {
    match precision {
        Precision::Tf32 => nearest_tf32(number),
        Precision::F32 | Precision::Bf16 | Precision::F16 | Precision::F32Parts => nearest(precision.factors(), number),
    }
}

/// The nearest number with 11 bits of significand and f32's exponents, halfway to even.
fn nearest_tf32(number: f32) -> f32 {
    const CUT: u32 = 13;
    if !number.is_finite() {
        return number;
    }
    let bits = number.to_bits();
    let half = (1 << (CUT - 1)) - 1 + (bits >> CUT & 1);
    f32::from_bits((bits + half) >> CUT << CUT)
}

/// The numbers that a product in a precision is computed with in the place of those of `numbers`: the [`nearest`](nearest_factor) ones.
pub fn rounded<D: Dimension>(precision: Precision, mut numbers: Array<f32, D>) -> Array<f32, D> {
    if !precision.is_f32() {
        numbers.mapv_inplace(|number| nearest_factor(precision, number));
    }
    numbers
}

/// Elements of matrices in device memory, of the type that a kernel takes.
#[derive(Debug)]
pub enum FactorBuffer {
    /// Numbers as they are.
    F32(DeviceBuffer<f32>),
    /// Rounded to bf16.
    Bf16(DeviceBuffer<bf16>),
    /// Rounded to f16.
    F16(DeviceBuffer<f16>),
}

impl FactorBuffer {
    /// Uploads numbers, rounded to the [`nearest`].
    ///
    /// # Errors
    ///
    /// [`DeviceError`], for want of memory for instance.
    pub fn upload(device: &Device, element: ElementType, numbers: &[f32]) -> Result<FactorBuffer, DeviceError> {
        Ok(match element {
            ElementType::F32 => FactorBuffer::F32(device.upload(numbers)?),
            ElementType::Bf16 => FactorBuffer::Bf16(device.upload(&to_bf16(numbers))?),
            ElementType::F16 => FactorBuffer::F16(device.upload(&to_f16(numbers))?),
        })
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
            FactorBuffer::F16(buffer) => DeviceMatrix::new(buffer, offset, rows, columns),
        }
    }

    /// A `rows` x `columns` matrix without gaps at the beginning of the buffer: by columns or by rows.
    ///
    /// # Errors
    ///
    /// As [`matrix`](FactorBuffer::matrix).
    pub fn laid_out(&self, rows: usize, columns: usize, by_columns: bool) -> Result<DeviceMatrix<'_>, GemmError> {
        match self {
            FactorBuffer::F32(buffer) => laid_out(buffer, rows, columns, by_columns),
            FactorBuffer::Bf16(buffer) => laid_out(buffer, rows, columns, by_columns),
            FactorBuffer::F16(buffer) => laid_out(buffer, rows, columns, by_columns),
        }
    }

    /// A batch of `count` row-major matrices without gaps from element `offset` on.
    ///
    /// # Errors
    ///
    /// As [`matrix`](FactorBuffer::matrix).
    pub fn batch_at(
        &self,
        offset: usize,
        count: usize,
        rows: usize,
        columns: usize,
    ) -> Result<DeviceMatrices<'_>, GemmError> {
        match self {
            FactorBuffer::F32(buffer) => DeviceMatrices::new(buffer, offset, count, rows, columns),
            FactorBuffer::Bf16(buffer) => DeviceMatrices::new(buffer, offset, count, rows, columns),
            FactorBuffer::F16(buffer) => DeviceMatrices::new(buffer, offset, count, rows, columns),
        }
    }

    /// `rows` x `columns` elements from element `offset` on as a row-major matrix to write.
    ///
    /// # Errors
    ///
    /// As [`matrix`](FactorBuffer::matrix).
    pub fn matrix_mut_at(
        &mut self,
        offset: usize,
        rows: usize,
        columns: usize,
    ) -> Result<DeviceMatrixMut<'_>, GemmError> {
        match self {
            FactorBuffer::F32(buffer) => DeviceMatrixMut::new(buffer, offset, rows, columns),
            FactorBuffer::Bf16(buffer) => DeviceMatrixMut::new(buffer, offset, rows, columns),
            FactorBuffer::F16(buffer) => DeviceMatrixMut::new(buffer, offset, rows, columns),
        }
    }

    /// A batch of `count` row-major matrices without gaps from element `offset` on, to write.
    ///
    /// # Errors
    ///
    /// As [`matrix`](FactorBuffer::matrix).
    pub fn batch_mut_at(
        &mut self,
        offset: usize,
        count: usize,
        rows: usize,
        columns: usize,
    ) -> Result<DeviceMatricesMut<'_>, GemmError> {
        match self {
            FactorBuffer::F32(buffer) => DeviceMatricesMut::new(buffer, offset, count, rows, columns),
            FactorBuffer::Bf16(buffer) => DeviceMatricesMut::new(buffer, offset, count, rows, columns),
            FactorBuffer::F16(buffer) => DeviceMatricesMut::new(buffer, offset, count, rows, columns),
        }
    }

    /// Overwrites all elements with numbers, as many, rounded to the [`nearest`].
    ///
    /// # Errors
    ///
    /// Any error of earlier launches.
    pub fn copy_from(&mut self, numbers: &[f32]) -> Result<(), DeviceError> {
        match self {
            FactorBuffer::F32(buffer) => buffer.copy_from(numbers),
            FactorBuffer::Bf16(buffer) => buffer.copy_from(&to_bf16(numbers)),
            FactorBuffer::F16(buffer) => buffer.copy_from(&to_f16(numbers)),
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
            FactorBuffer::Bf16(buffer) => buffer.download()?.into_par_iter().map(bf16::to_f32).collect(),
            FactorBuffer::F16(buffer) => buffer.download()?.into_par_iter().map(f16::to_f32).collect(),
        })
    }
}

fn to_bf16(numbers: &[f32]) -> Vec<bf16> {
    numbers.par_iter().map(|number| bf16::from_f32(*number)).collect()
}

fn to_f16(numbers: &[f32]) -> Vec<f16> {
    numbers.par_iter().map(|number| f16::from_f32(*number)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::DeviceSelector;

    #[test]
    fn what_is_uploaded_is_what_rounding_says() {
        let device = Device::open(DeviceSelector::Simulator).unwrap();
        // Halfway between two numbers of bf16, to even; beyond the largest; smaller than the smallest; none.
        let numbers = [1.0, 1.0 + 1.0 / 256.0, 1.0 + 3.0 / 256.0, 3.4e38, -1e-42, 0.1, f32::INFINITY];
        for element in [ElementType::F32, ElementType::Bf16, ElementType::F16] {
            let expected = numbers.map(|number| nearest(element, number));
            assert_eq!(FactorBuffer::upload(&device, element, &numbers).unwrap().download().unwrap(), expected);
        }
        let halves = numbers.map(|number| nearest(ElementType::Bf16, number));
        assert_eq!(halves[..5], [1.0, 1.0, 1.015625, f32::INFINITY, -0.0]);
        let ulp = f32::powi(2.0, -10);
        let tf32 = [1.0 + ulp / 2.0, 1.0 + 1.5 * ulp, -1.0 - 0.6 * ulp, 1e-42, f32::INFINITY, f32::MAX];
        assert_eq!(
            tf32.map(|number| nearest_factor(Precision::Tf32, number)),
            [1.0, 1.0 + 2.0 * ulp, -1.0 - ulp, 0.0, f32::INFINITY, f32::INFINITY]
        );
    }
}
