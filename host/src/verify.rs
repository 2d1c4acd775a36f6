//! Is the product right? The f64 reference and the error that f32 arithmetic may have.
//!
//! # The tolerance
//!
//! A kernel that adds up k products with fused multiply-adds rounds k times: step i turns the exact s' + a b into the
//! f32 nearest to it, which moves it by at most u |s_i|, where u = 2^-24 is the unit roundoff and s_i the new partial
//! sum (or by at most 2^-150, half the smallest subnormal, near zero). The errors add up, so
//!
//! ```text
//! |c - exact| <= u (|s_1| + |s_2| + ... + |s_k|) * (1 + u)^k + k 2^-150
//! ```
//!
//! where the s_i may be the exact partial sums: that the kernel's own differ from them by earlier errors is what the
//! factor (1 + u)^k covers. This is the running error bound of Higham, *Accuracy and Stability of Numerical
//! Algorithms*, section 3.3, with one rounding a step instead of two. It holds for any input, not just on average, and
//! for random data it is far below the bound u k sum |a_i b_i| that looks at the sizes of the products only: partial
//! sums of mixed sign stay small.
//!
//! The sums are taken in f64 along k in ascending order, the order of our kernels. Their own error is below the bound
//! by a factor of 2^29 and is allowed for. Kernels that share K out, over warps or over blocks, add up in another order,
//! with other partial sums. Whatever the order, each is at most the sum of all |a_i b_i|, and a product goes through at
//! most d additions, k or fewer: so d times that sum takes the place of the sum of the |s_i| ([`Order::Parts`]).
//!
//! # Tensor cores
//!
//! Products of bf16, f16 and tf32 are exact. A tensor core adds the products of several places of k, 4 to 16 of them, and the sum so
//! far in one go: it shifts all to the largest exponent among them, cuts off what is then below f32's last place, and
//! cuts off the sum to f32. With g products at a time that's at most g + 2 losses of 2 u times the largest magnitude among
//! products, old sum and new. So for every 16 places of k, which hold 16 / g such steps, no more than 2 u (16 + 32 / g)
//! times the largest magnitude among their products and partial sums is lost, which is 48 u or less
//! ([`Order::TensorCores`]). Where exactly the sums begin and end within those 16 doesn't matter.
//!
//! # Numbers that aren't
//!
//! Where a partial sum could pass f32's largest number, infinities and NaNs are
//! accepted as results too. Where an input is infinite or NaN, the reference says what IEEE arithmetic gives, and the
//! result must agree with it, unless f32 may overflow before that input arrives.
//!
//! With alpha and beta there are two more roundings: of alpha times the sum, and of what beta C makes of it. A kernel that
//! adds up in parts may multiply each part with alpha before it adds them: then alpha times a part is rounded, and may
//! overflow or be subnormal, where alpha times the sum isn't. And beta C may be added to the first parts before the last
//! ones are: one more rounding, of what those come to.

use gpu_kernels::{Precision, launch::ElementType};
use half::{bf16, f16};
use ndarray::{Array2, ArrayView2, Axis};
use rayon::prelude::*;
use serde::Serialize;

/// The lesson's bar for the largest difference of its 1024 x 1024 standard normal product.
pub const LESSON_BAR: f64 = 1e-2;

/// The unit roundoff of f32.
const UNIT_ROUNDOFF: f64 = 1.0 / (1u64 << 24) as f64;

/// Places of k after which a tensor core's losses are counted.
const STEP: usize = 16;

/// What a tensor core loses at most in so many places, in units of u times the largest magnitude.
const LOSSES: f64 = 48.0;

/// Half of f32's smallest subnormal number, 2^-150: the most that rounding moves a result near zero.
const UNDERFLOW: f64 = f64::from_bits((1023 - 150) << 52);

/// The exact product, as far as f64 has it, and how far an f32 result may be from it.
#[derive(Debug)]
pub struct Reference {
    /// The product in f64.
    pub product: Array2<f64>,
    /// The largest |difference| that f32 rounding allows, element by element; infinite where f32 may overflow.
    pub tolerance: Array2<f64>,
    /// The additions that each product goes through at most, if they are made in parts.
    parts: Option<f64>,
}

/// How a result compares with its [`Reference`].
#[derive(Clone, Debug, Serialize)]
pub struct Verification {
    /// Elements compared.
    pub elements: usize,
    /// The largest |difference|; NaN where a NaN or an infinity is in the wrong place.
    pub max_difference: f64,
    /// What f32 rounding allows for the element with the largest difference.
    pub tolerance_there: f64,
    /// The largest |difference| relative to what f32 rounding allows for that element: 1 or less is right.
    pub max_ratio: f64,
    /// The element with the largest ratio, as (row, column).
    pub worst: Option<(usize, usize)>,
    /// The product of a batch that this element is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worst_product: Option<usize>,
    /// What f32 rounding allows, averaged over the elements.
    pub mean_tolerance: f64,
    /// The largest tolerance of all elements.
    pub max_tolerance: f64,
    /// Elements outside their tolerance.
    pub wrong: usize,
}

impl Verification {
    /// Whether every element is within what f32 rounding allows.
    pub fn passed(&self) -> bool {
        self.wrong == 0
    }

    /// The comparisons of a batch's products, one after the other, as one.
    pub fn of_batch(products: impl IntoIterator<Item = Verification>) -> Verification {
        let mut all = Verification::of_nothing();
        let mut tolerances = 0.0;
        for (index, product) in products.into_iter().enumerate() {
            if worse(product.max_difference, all.max_difference) {
                (all.max_difference, all.tolerance_there) = (product.max_difference, product.tolerance_there);
            }
            if worse(product.max_ratio, all.max_ratio) || all.worst.is_none() {
                (all.max_ratio, all.worst, all.worst_product) = (product.max_ratio, product.worst, Some(index));
            }
            all.max_tolerance = all.max_tolerance.max(product.max_tolerance);
            tolerances += product.mean_tolerance * product.elements as f64;
            all.elements += product.elements;
            all.wrong += product.wrong;
        }
        all.mean_tolerance = tolerances / all.elements.max(1) as f64;
        all
    }

    fn of_nothing() -> Verification {
        Verification {
            elements: 0,
            max_difference: 0.0,
            tolerance_there: 0.0,
            max_ratio: 0.0,
            worst: None,
            worst_product: None,
            mean_tolerance: 0.0,
            max_tolerance: 0.0,
            wrong: 0,
        }
    }

    /// The worst element in words; nothing where none was compared.
    pub fn worst_element(&self) -> Option<String> {
        let (row, column) = self.worst?;
        Some(match self.worst_product {
            Some(product) => format!("C[{product}, {row}, {column}]"),
            None => format!("C[{row}, {column}]"),
        })
    }

    /// Whether the largest difference is also under a fixed bar, such as [`LESSON_BAR`].
    pub fn under(&self, bar: f64) -> bool {
        self.max_difference < bar
    }
}

/// Bytes that [`reference()`] takes: B, the product and its tolerance in f64.
pub fn reference_bytes(m: usize, n: usize, k: usize) -> u128 {
    let elements = |rows: usize, columns: usize| rows as u128 * columns as u128;
    let all = elements(k, n).saturating_add(elements(m, n).saturating_mul(2));
    all.saturating_mul(size_of::<f64>() as u128)
}

/// The order in which a kernel adds up the products of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Along K, as most kernels do.
    Ascending,
    /// Along K, by tensor cores, in steps that begin at multiples of 16.
    TensorCores,
    /// In parts which are then added up, in whatever order, so that each product goes through this many additions at most.
    Parts(usize),
    /// By tensor cores from factors that are in parts themselves: as [`Parts`](Order::Parts), but that each product is as if it went through eight
    /// additions at least. (What a factor's two parts of 11 bits don't hold is two units of u of each, and the smallest product of parts is left out.)
    OfParts(usize),
    /// Any other.
    Any,
}

/// The order to allow for where one reference serves several kernels of a precision, of unknown orders, and elements are
/// random with mixed signs.
///
/// In f32, up to 512 it's any order. Beyond, that would allow for more than the error of a product left out; but the partial
/// sums of parts of random numbers are then far smaller than those along all of K, so that the bound for those holds too.
/// That of tensor cores has room enough for any order of random numbers.
pub fn order_of_random(precision: Precision, k: usize) -> Order {
    match precision {
        Precision::F32 | Precision::F32Parts if k <= 512 => Order::Any,
        Precision::F32 | Precision::F32Parts => Order::Ascending,
        Precision::Bf16 | Precision::F16 | Precision::Tf32 => Order::TensorCores,
    }
}

/// Computes the reference for an `m` x `k` by `k` x `n` product of a kernel that goes along K, on all cores.
///
/// # Panics
///
/// If the columns of `a` are not as many as the rows of `b`.
pub fn reference(a: ArrayView2<f32>, b: ArrayView2<f32>) -> Reference {
    reference_in(Order::Ascending, a, b)
}

/// Computes the reference for an `m` x `k` by `k` x `n` product, on all cores.
///
/// # Panics
///
/// If the columns of `a` are not as many as the rows of `b`.
pub fn reference_in(order: Order, a: ArrayView2<f32>, b: ArrayView2<f32>) -> Reference {
    assert_eq!(a.ncols(), b.nrows(), "the columns of A must equal the rows of B");
    let (m, n, k) = (a.nrows(), b.ncols(), a.ncols());
    let b = b.as_standard_layout().mapv(f64::from);
    let mut product = Array2::<f64>::zeros((m, n));
    let mut tolerance = Array2::<f64>::zeros((m, n));
    // Losses for each place of k, in units of u.
    let losses = if order == Order::TensorCores { LOSSES / STEP as f64 } else { 1.0 };
    let growth = (losses * k as f64 * UNIT_ROUNDOFF).exp();
    let additions = match order {
        Order::Parts(additions) => additions.min(k) as f64,
        Order::OfParts(additions) => additions.min(k).max(8) as f64,
        Order::Ascending | Order::TensorCores | Order::Any => k as f64,
    };

    // Strips of columns, so that the sums of a strip stay in the first-level cache while k goes by.
    const STRIP: usize = 512;
    let rows = product.axis_iter_mut(Axis(0)).into_par_iter().zip(tolerance.axis_iter_mut(Axis(0)));
    rows.zip(a.axis_iter(Axis(0))).for_each(|((mut sums, mut magnitudes), a_row)| {
        let sums = sums.as_slice_mut().expect("rows of a new array are contiguous");
        let magnitudes = magnitudes.as_slice_mut().expect("rows of a new array are contiguous");
        for first in (0..n).step_by(STRIP) {
            let columns = first..n.min(first + STRIP);
            let (sums, magnitudes) = (&mut sums[columns.clone()], &mut magnitudes[columns.clone()]);
            // Of the step of a tensor core at hand.
            let mut largest = if order == Order::TensorCores { vec![0.0; sums.len()] } else { Vec::new() };
            for (place, (&a_element, b_row)) in a_row.iter().zip(b.axis_iter(Axis(0))).enumerate() {
                let a_element = f64::from(a_element);
                let b_row = &b_row.to_slice().expect("rows of a new array are contiguous")[columns.clone()];
                let elements = sums.iter_mut().zip(magnitudes.iter_mut()).zip(b_row);
                match order {
                    Order::Ascending => elements.for_each(|((sum, magnitude), b_element)| {
                        *sum += a_element * b_element;
                        *magnitude += sum.abs();
                    }),
                    Order::TensorCores => {
                        elements.zip(&mut largest).for_each(|(((sum, _), b_element), largest)| {
                            let product = a_element * b_element;
                            *sum += product;
                            *largest = f64::max(*largest, product.abs().max(sum.abs()));
                        });
                        if (place + 1).is_multiple_of(STEP) || place + 1 == k {
                            for ((sum, magnitude), largest) in sums.iter().zip(magnitudes.iter_mut()).zip(&mut largest)
                            {
                                *magnitude += LOSSES * *largest;
                                *largest = sum.abs();
                            }
                        }
                    }
                    Order::Parts(_) | Order::OfParts(_) | Order::Any => {
                        elements.for_each(|((sum, magnitude), b_element)| {
                            *sum += a_element * b_element;
                            *magnitude += additions * (a_element * b_element).abs();
                        })
                    }
                }
            }
        }
        for (column, (sum, magnitude)) in sums.iter().zip(magnitudes).enumerate() {
            *magnitude = if !sum.is_finite() {
                let products = a_row.iter().zip(b.column(column)).map(|(&a, &b)| f64::from(a) * b);
                if can_overflow(order, products, additions, growth) { f64::INFINITY } else { 0.0 }
            } else if *magnitude * growth >= f64::from(f32::MAX) {
                f64::INFINITY
            } else {
                // f64's own error is of the same form with 2^-53 for u; twice that is allowed, for the sum of
                // magnitudes is rounded too.
                *magnitude * growth * (UNIT_ROUNDOFF + 2.0 * f64::EPSILON) + losses * k as f64 * UNDERFLOW
            };
        }
    });
    let parts = matches!(order, Order::Parts(_) | Order::OfParts(_) | Order::Any).then_some(additions.max(1.0));
    Reference { product, tolerance, parts }
}

/// Whether f32 may overflow in a sum that comes to an infinity or NaN from its inputs: before the first of those
/// arrives.
fn can_overflow(order: Order, products: impl Iterator<Item = f64>, additions: f64, growth: f64) -> bool {
    let (mut sum, mut magnitude) = (0.0, 0.0);
    if order != Order::Ascending {
        let finite: f64 = products.filter(|product| product.is_finite()).map(f64::abs).sum();
        return finite * additions * growth >= f64::from(f32::MAX);
    }
    for product in products {
        sum += product;
        if !f64::is_finite(sum) {
            return false;
        }
        magnitude += f64::abs(sum);
        if magnitude * growth >= f64::from(f32::MAX) {
            return true;
        }
    }
    false
}

impl Reference {
    /// The reference for `alpha` times the product plus `beta` times what `c` holds, which isn't looked at if `beta` is 0.
    ///
    /// # Panics
    ///
    /// If `c` is missing though `beta` isn't 0, or has another shape.
    pub fn scaled(mut self, alpha: f32, beta: f32, c: Option<ArrayView2<f32>>) -> Reference {
        let (alpha, beta) = (f64::from(alpha), f64::from(beta));
        let c = (beta != 0.0).then(|| c.expect("beta is not 0, so that C counts"));
        if let Some(c) = c {
            assert_eq!(c.dim(), self.product.dim(), "C must have the product's shape");
        }
        for ((position, product), tolerance) in self.product.indexed_iter_mut().zip(&mut self.tolerance) {
            // Without A B it doesn't matter what would have come of it.
            let (scaled, mut allowed) =
                if alpha == 0.0 { (0.0, 0.0) } else { (*product * alpha, *tolerance * alpha.abs()) };
            if alpha.abs() != 1.0 && alpha != 0.0 && scaled.is_finite() {
                allowed += scaled.abs() * UNIT_ROUNDOFF + UNDERFLOW;
            }
            let mut largest = if scaled.is_finite() { scaled.abs() + allowed } else { 0.0 };
            // The tolerance has the sum of all |a_i b_i| in it, once for each addition; no part is larger.
            let parts = self.parts.filter(|_| alpha != 0.0 && scaled.is_finite());
            let part = parts.map_or(0.0, |parts| *tolerance / (parts * UNIT_ROUNDOFF) * alpha.abs());
            if let Some(parts) = parts
                && alpha.abs() != 1.0
            {
                allowed += part * UNIT_ROUNDOFF + parts * UNDERFLOW;
                largest = largest.max(part);
            }
            *product = scaled;
            if let Some(c) = c {
                *product += beta * f64::from(c[position]);
                if product.is_finite() {
                    allowed += (product.abs() + allowed) * UNIT_ROUNDOFF + UNDERFLOW;
                    largest = largest.max(product.abs() + allowed);
                    if parts.is_some() {
                        let between = (beta * f64::from(c[position])).abs() + part + allowed;
                        allowed += between * UNIT_ROUNDOFF + UNDERFLOW;
                        largest = largest.max(between);
                    }
                }
            }
            // What f64 itself rounds here, generously, as above.
            allowed *= 1.0 + UNIT_ROUNDOFF;
            *tolerance = if largest >= f64::from(f32::MAX) { f64::INFINITY } else { allowed };
        }
        self
    }
}

impl Reference {
    /// The reference for a result that is rounded once more, to elements of this type.
    pub fn rounded_to(mut self, element: ElementType) -> Reference {
        // The unit roundoff, half the smallest subnormal number and the largest number.
        let (unit, underflow, largest) = match element {
            ElementType::F32 => return self,
            ElementType::Bf16 => (f64::powi(2.0, -8), UNDERFLOW * 65536.0, f64::from(bf16::MAX)),
            ElementType::F16 => (f64::powi(2.0, -11), f64::powi(2.0, -25), f64::from(f16::MAX)),
        };
        for (product, tolerance) in self.product.iter().zip(&mut self.tolerance) {
            if product.is_finite() {
                let most = product.abs() + *tolerance;
                // What is less than half a step above the largest number is rounded to it.
                *tolerance = if most > largest { f64::INFINITY } else { *tolerance + most * unit + underflow };
            }
        }
        self
    }
}

/// Compares `c` with the reference for `a` times `b`, of a kernel that adds up in that order.
///
/// # Panics
///
/// If the shapes don't fit together.
pub fn check_in(order: Order, c: &Array2<f32>, a: &Array2<f32>, b: &Array2<f32>) -> Verification {
    compare(c.view(), &reference_in(order, a.view(), b.view()))
}

/// Compares `c` with the reference for `a` times `b`, of a kernel that goes along K.
///
/// # Panics
///
/// If the shapes don't fit together.
pub fn check(c: &Array2<f32>, a: &Array2<f32>, b: &Array2<f32>) -> Verification {
    check_in(Order::Ascending, c, a, b)
}

/// Compares a result with its reference, element by element.
///
/// # Panics
///
/// If the shapes differ.
pub fn compare(result: ArrayView2<f32>, reference: &Reference) -> Verification {
    assert_eq!(result.dim(), reference.product.dim(), "the result must have the reference's shape");
    let mut verification = Verification {
        elements: result.len(),
        mean_tolerance: mean_of_numbers(&reference.tolerance),
        ..Verification::of_nothing()
    };
    for (position, &element) in result.indexed_iter() {
        let (exact, tolerance) = (reference.product[position], reference.tolerance[position]);
        let (difference, tolerance) = difference_and_tolerance(element, exact, tolerance);
        let ratio = if difference == 0.0 { 0.0 } else { difference / tolerance };
        // NaN marks a NaN or an infinity in the wrong place; it must not be lost among comparisons that are false for
        // NaN.
        if ratio > 1.0 || ratio.is_nan() {
            verification.wrong += 1;
        }
        if worse(difference, verification.max_difference) {
            verification.max_difference = difference;
            verification.tolerance_there = tolerance;
        }
        if worse(ratio, verification.max_ratio) || verification.worst.is_none() {
            verification.max_ratio = ratio;
            verification.worst = Some(position);
        }
        if tolerance > verification.max_tolerance {
            verification.max_tolerance = tolerance;
        }
    }
    verification
}

/// The mean over the elements that have a finite tolerance: where the product isn't finite there is nothing to allow.
fn mean_of_numbers(tolerance: &Array2<f64>) -> f64 {
    let finite = || tolerance.iter().filter(|tolerance| tolerance.is_finite());
    // The sum of nothing would be -0.
    finite().fold(0.0, |sum, tolerance| sum + tolerance) / finite().count().max(1) as f64
}

fn worse(new: f64, old: f64) -> bool {
    !old.is_nan() && (new.is_nan() || new > old)
}

/// The difference to report (NaN if a special value is in the wrong place) and the tolerance to hold it against.
fn difference_and_tolerance(element: f32, exact: f64, tolerance: f64) -> (f64, f64) {
    let element = f64::from(element);
    let agrees = (exact.is_nan() && element.is_nan()) || (exact.is_infinite() && element == exact);
    match (exact.is_finite(), element.is_finite()) {
        (true, true) => ((element - exact).abs(), tolerance),
        // f32 may have overflowed on the way, to an infinity or on to a NaN.
        (_, false) if tolerance.is_infinite() => (0.0, tolerance),
        (false, _) if agrees => (0.0, 0.0),
        _ => (f64::NAN, tolerance),
    }
}
