//! The mathematics of floating point numbers, which `core` leaves to `std`.
//!
//! What the GPU has an instruction for is that instruction: `mul_add` is one `fma.rn`, `sqrt` one `sqrt.rn`, both
//! rounded once as IEEE 754 says, and rounding to integers is one `cvt`. The rest is computed by
//! [`libm`](https://docs.rs/libm), with errors of about one unit in the last place and without the GPU's fast
//! approximations. On the CPU it is all `std`.

/// The methods of `f32` and `f64` that aren't in `core`. Each does what the method of that name does in `std`.
pub trait GpuFloat: Copy + PartialOrd + private::Sealed {
    /// The largest integer that isn't above `self`.
    fn floor(self) -> Self;
    /// The smallest integer that isn't below `self`.
    fn ceil(self) -> Self;
    /// The nearest integer, halves away from zero.
    fn round(self) -> Self;
    /// The integer part, towards zero.
    fn trunc(self) -> Self;
    /// `self - self.trunc()`.
    fn fract(self) -> Self;
    /// The value without its sign.
    fn abs(self) -> Self;
    /// 1 or -1 with the sign of `self`; NaN for NaN.
    fn signum(self) -> Self;
    /// The value of `self` with the sign of `sign`.
    fn copysign(self, sign: Self) -> Self;
    /// `self * a + b` with one rounding. Rust never makes this of a product and a sum by itself.
    fn mul_add(self, a: Self, b: Self) -> Self;
    /// The quotient that belongs to [`rem_euclid`](GpuFloat::rem_euclid).
    fn div_euclid(self, rhs: Self) -> Self;
    /// The remainder that isn't negative.
    fn rem_euclid(self, rhs: Self) -> Self;
    /// An integer power, by repeated squaring.
    fn powi(self, n: i32) -> Self;
    /// A power.
    fn powf(self, n: Self) -> Self;
    /// The square root.
    fn sqrt(self) -> Self;
    /// e to the power `self`.
    fn exp(self) -> Self;
    /// 2 to the power `self`.
    fn exp2(self) -> Self;
    /// The natural logarithm.
    fn ln(self) -> Self;
    /// The logarithm to a base.
    fn log(self, base: Self) -> Self;
    /// The logarithm to the base 2.
    fn log2(self) -> Self;
    /// The logarithm to the base 10.
    fn log10(self) -> Self;
    /// The cube root.
    fn cbrt(self) -> Self;
    /// The length of the vector (`self`, `other`), without overflow on the way.
    fn hypot(self, other: Self) -> Self;
    /// The sine of an angle in radians.
    fn sin(self) -> Self;
    /// The cosine of an angle in radians.
    fn cos(self) -> Self;
    /// The tangent of an angle in radians.
    fn tan(self) -> Self;
    /// The angle, in radians, with this sine.
    fn asin(self) -> Self;
    /// The angle, in radians, with this cosine.
    fn acos(self) -> Self;
    /// The angle, in radians, with this tangent.
    fn atan(self) -> Self;
    /// The angle, in radians, of the point with y = `self` and x = `other`.
    fn atan2(self, other: Self) -> Self;
    /// Sine and cosine.
    fn sin_cos(self) -> (Self, Self);
    /// `self.exp() - 1`, exact for small `self` too.
    fn exp_m1(self) -> Self;
    /// `(1 + self).ln()`, exact for small `self` too.
    fn ln_1p(self) -> Self;
    /// The hyperbolic sine.
    fn sinh(self) -> Self;
    /// The hyperbolic cosine.
    fn cosh(self) -> Self;
    /// The hyperbolic tangent.
    fn tanh(self) -> Self;
    /// The inverse of the hyperbolic sine.
    fn asinh(self) -> Self;
    /// The inverse of the hyperbolic cosine.
    fn acosh(self) -> Self;
    /// The inverse of the hyperbolic tangent.
    fn atanh(self) -> Self;
}

mod private {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// Each method: what computes it on the GPU. On the CPU the method of `std` under the same name does.
macro_rules! gpu_float {
    ($float:ident { $(fn $method:ident($self:ident $(, $argument:ident: $type:ty)*) -> $result:ty { $gpu:expr })* }) => {
        impl GpuFloat for $float { $(
            fn $method($self $(, $argument: $type)*) -> $result {
                #[cfg(target_arch = "nvptx64")]
                return $gpu;
                #[cfg(not(target_arch = "nvptx64"))]
                return $float::$method($self $(, $argument)*);
            }
        )* }
    };
}

macro_rules! gpu_float_by {
    (
        $float:ident, $fmod:ident, $pow:ident, $exp:ident, $exp2:ident, $log:ident, $log2:ident, $log10:ident, $cbrt:ident,
        $hypot:ident, $sin:ident, $cos:ident, $tan:ident, $asin:ident, $acos:ident, $atan:ident, $atan2:ident, $sincos:ident,
        $expm1:ident, $log1p:ident, $sinh:ident, $cosh:ident, $tanh:ident, $asinh:ident, $acosh:ident, $atanh:ident
    ) => {
        gpu_float!($float {
            fn floor(self) -> Self { core::$float::math::floor(self) }
            fn ceil(self) -> Self { core::$float::math::ceil(self) }
            fn round(self) -> Self { core::$float::math::round(self) }
            fn trunc(self) -> Self { core::$float::math::trunc(self) }
            fn fract(self) -> Self { self - core::$float::math::trunc(self) }
            fn abs(self) -> Self { $float::abs(self) }
            fn signum(self) -> Self { $float::signum(self) }
            fn copysign(self, sign: Self) -> Self { $float::copysign(self, sign) }
            fn mul_add(self, a: Self, b: Self) -> Self { core::$float::math::mul_add(self, a, b) }
            fn div_euclid(self, rhs: Self) -> Self {{
                let quotient = core::$float::math::trunc(self / rhs);
                // LLVM's remainder for this target loses bits when the quotient is large; libm's is exact.
                if libm::$fmod(self, rhs) >= 0.0 {
                    quotient
                } else if rhs > 0.0 {
                    quotient - 1.0
                } else {
                    quotient + 1.0
                }
            }}
            fn rem_euclid(self, rhs: Self) -> Self {{
                let remainder = libm::$fmod(self, rhs);
                if remainder < 0.0 { remainder + $float::abs(rhs) } else { remainder }
            }}
            fn powi(self, n: i32) -> Self {{
                let (mut power, mut square, mut exponent) = (1.0, self, n.unsigned_abs());
                while exponent != 0 {
                    if exponent % 2 == 1 {
                        power *= square;
                    }
                    square *= square;
                    exponent /= 2;
                }
                if n < 0 { 1.0 / power } else { power }
            }}
            fn powf(self, n: Self) -> Self { libm::$pow(self, n) }
            fn sqrt(self) -> Self { core::$float::math::sqrt(self) }
            fn exp(self) -> Self { libm::$exp(self) }
            fn exp2(self) -> Self { libm::$exp2(self) }
            fn ln(self) -> Self { libm::$log(self) }
            fn log(self, base: Self) -> Self { libm::$log(self) / libm::$log(base) }
            fn log2(self) -> Self { libm::$log2(self) }
            fn log10(self) -> Self { libm::$log10(self) }
            fn cbrt(self) -> Self { libm::$cbrt(self) }
            fn hypot(self, other: Self) -> Self { libm::$hypot(self, other) }
            fn sin(self) -> Self { libm::$sin(self) }
            fn cos(self) -> Self { libm::$cos(self) }
            fn tan(self) -> Self { libm::$tan(self) }
            fn asin(self) -> Self { libm::$asin(self) }
            fn acos(self) -> Self { libm::$acos(self) }
            fn atan(self) -> Self { libm::$atan(self) }
            fn atan2(self, other: Self) -> Self { libm::$atan2(self, other) }
            fn sin_cos(self) -> (Self, Self) { libm::$sincos(self) }
            fn exp_m1(self) -> Self { libm::$expm1(self) }
            fn ln_1p(self) -> Self { libm::$log1p(self) }
            fn sinh(self) -> Self { libm::$sinh(self) }
            fn cosh(self) -> Self { libm::$cosh(self) }
            fn tanh(self) -> Self { libm::$tanh(self) }
            fn asinh(self) -> Self { libm::$asinh(self) }
            fn acosh(self) -> Self { libm::$acosh(self) }
            fn atanh(self) -> Self { libm::$atanh(self) }
        });
    };
}

gpu_float_by!(
    f32, fmodf, powf, expf, exp2f, logf, log2f, log10f, cbrtf, hypotf, sinf, cosf, tanf, asinf, acosf, atanf, atan2f,
    sincosf, expm1f, log1pf, sinhf, coshf, tanhf, asinhf, acoshf, atanhf
);
gpu_float_by!(
    f64, fmod, pow, exp, exp2, log, log2, log10, cbrt, hypot, sin, cos, tan, asin, acos, atan, atan2, sincos, expm1,
    log1p, sinh, cosh, tanh, asinh, acosh, atanh
);
