//! Tensor cores of Hopper (compute_90a): a *warpgroup*, four neighbouring warps, multiplies a matrix of 64 rows by one of up
//! to 256 columns, both in shared memory, and keeps the sums in its registers.
//!
//! ## What a warpgroup multiplies
//!
//! A step takes 64 x 64 elements of A and 64 x `COLUMNS` of B, both of 16 bits (of tf32, 64 x 32 and 32 x `COLUMNS`): rows of
//! 128 bytes, as a [tensor map](crate::tensor_maps) with a swizzle of 128 bytes puts them into shared memory. Rows may lie
//! along k or across it:
//!
//! - *along k*: row i of A (column j of B) is a row of 128 bytes;
//! - *across k*: for each k, 64 elements of neighbouring rows of A (columns of B) are a row of 128 bytes. Of B with more columns
//!   there is a piece of 64 x 64 after the other.
//!
//! Pieces begin at multiples of 1024 bytes. Tensor cores undo the swizzle.
//!
//! ## What a lane gets
//!
//! Warp w of the warpgroup has rows 16 w to 16 w + 15 of the 64. With g = lane / 4 and t = lane % 4 (PTX ISA, "Register
//! fragments and shared memory matrix layouts", D of m64nNk16), sum 4 j + e of a lane is
//!
//! ```text
//!   e = 0, 1   row g       column 8 j + 2 t + e
//!   e = 2, 3   row g + 8   column 8 j + 2 t + e - 2
//! ```
//!
//! ## Asynchronous
//!
//! [`Product::step`] starts the multiplication and returns. Until [`Product::wait`] says that it's through, neither may the sums
//! be touched nor the shared memory be written.
//!
//! All threads of the warpgroup must come to these functions together.

/// The elements of 16 bits, or 32 of tf32, that a row of 128 bytes has.
pub const ROW_BYTES: u32 = 128;

/// The descriptor of a matrix whose rows lie along k, from the address of its first row.
///
/// Rows of 8 are an atom of 1024 bytes, and an atom follows another (PTX ISA, "Matrix descriptor": stride dimension byte
/// offset; the leading one isn't used here).
#[inline(always)]
pub fn along_k(address: u32) -> u64 {
    descriptor(address, 16)
}

/// The descriptor of a matrix whose rows lie across k, from the address of its first row; `piece` is the number of bytes from one
/// piece of 64 columns to the next.
#[inline(always)]
pub fn across_k(address: u32, piece: u32) -> u64 {
    descriptor(address, piece)
}

/// Start address, leading and stride dimension byte offset and the swizzle of 128 bytes. In a cluster the upper bits of a shared address are
/// the block's, and don't belong here.
#[inline(always)]
fn descriptor(address: u32, leading: u32) -> u64 {
    const ATOM: u64 = 1024;
    const SWIZZLE_128: u64 = 1 << 62;
    ((address & 0x3_FFFF) >> 4) as u64 | ((leading >> 4) as u64) << 16 | (ATOM >> 4) << 32 | SWIZZLE_128
}

/// A width of the product and a type of its factors.
pub trait Product {
    /// Columns of B.
    const COLUMNS: usize;
    /// Bytes of a factor's element.
    const ELEMENT: usize;
    /// A lane's sums: `COLUMNS` / 2.
    type Sums: Copy + AsRef<[f32]> + AsMut<[f32]>;

    /// Sums of zero.
    fn zeros() -> Self::Sums;

    /// Registers for sums, with whatever is in them: the first [`step`](Product::step) mustn't add to it. (Zeros would have to be written, and
    /// the assembler lets no other instruction write to sums while products are at work.)
    fn unset() -> Self::Sums;

    /// Starts sums = A B, or sums += A B if `add` isn't 0, for a step along k, as a group of its own.
    ///
    /// # Safety
    ///
    /// All threads of the warpgroup must come here together; `a` and `b` must describe matrices in shared memory that are there
    /// (of copies, their barrier's phase has been waited for; of stores, a proxy fence came after them) and lie across k where that
    /// is said. Until [`wait`](Product::wait), nobody may touch `sums` or write to the matrices.
    unsafe fn step<const A_ACROSS: bool, const B_ACROSS: bool>(sums: &mut Self::Sums, a: u64, b: u64, add: u32);

    /// Starts sums = A B for a quarter of a step along k, as a group of its own: `a` and `b` are those of the step.
    ///
    /// # Safety
    ///
    /// As for [`step`](Product::step), of which `quarter` is one, from 0 to 3.
    unsafe fn quarter<const A_ACROSS: bool, const B_ACROSS: bool>(sums: &mut Self::Sums, a: u64, b: u64, quarter: u32);

    /// Starts sums = A B of factors that are in two parts each, for two steps of 32 along k: of a step's 64 elements the first 32
    /// are the large parts of 32 numbers, the others the small ones. Small by large and large by small of both steps come first, then large
    /// by large: what is cut off of small sums is small. Small by small isn't computed. They are two groups: eight products, then four.
    ///
    /// # Safety
    ///
    /// As for [`step`](Product::step), for both steps.
    unsafe fn two_steps_of_parts<const A_ACROSS: bool, const B_ACROSS: bool>(
        sums: &mut Self::Sums,
        a: [u64; 2],
        b: [u64; 2],
    );

    /// As [`step`](Product::step), of factors of tf32 along k, with A from registers: 64 x 32 elements, of which a lane has four for each quarter of
    /// the step. With g = lane / 4 and t = lane % 4, they are those of row g and of g + 8 of its warp's 16 at place t, then those of both at t + 4 (PTX ISA,
    /// "Register fragments", A of m64nNk8). Others have no such step.
    ///
    /// # Safety
    ///
    /// As for [`step`](Product::step), for B; and until [`wait`](Product::wait), nobody may write to the registers.
    unsafe fn step_from_registers(sums: &mut Self::Sums, a: &[f32; 16], b: u64, add: u32);

    /// Waits until no more than `PENDING` of the latest steps of this warpgroup may still be at work.
    ///
    /// # Safety
    ///
    /// All threads of the warpgroup must come here together.
    unsafe fn wait<const PENDING: u32>(sums: &mut Self::Sums);
}

/// Implements [`Product`]: a type of factors, the instruction's shape and types, how it says which factors lie across k (none, B, A, both), its step with A from registers, and the numbers
/// of its sums.
macro_rules! product {
    ($(#[$documentation:meta])* $name:ident, $columns:literal, $shape:literal, $bytes:literal, $kk:literal $kv:literal $vk:literal $vv:literal, $registers:ident, [$first:literal $($rest:literal)*]) => {
        $(#[$documentation])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl Product for $name {
            const COLUMNS: usize = $columns;
            const ELEMENT: usize = $bytes;
            type Sums = [f32; $columns / 2];

            #[inline(always)]
            fn zeros() -> Self::Sums {
                [0.0; $columns / 2]
            }

            #[inline(always)]
            fn unset() -> Self::Sums {
                #[allow(unused_mut)]
                let mut sums = [0.0; $columns / 2];
                // SAFETY: it has no instruction: it says that the registers have values, and not which.
                #[cfg(target_arch = "nvptx64")]
                unsafe {
                    core::arch::asm!(
                        concat!("// {", stringify!($first), "}", $(" {", stringify!($rest), "}",)*),
                        out(reg32) sums[$first], $(out(reg32) sums[$rest],)* options(nomem, nostack)
                    )
                };
                sums
            }

            #[inline(always)]
            unsafe fn step<const A_ACROSS: bool, const B_ACROSS: bool>(
                sums: &mut Self::Sums, a: u64, b: u64, add: u32,
            ) {
                // From a quarter of a step to the next, 32 bytes of a row or 16 rows, in units of 16 bytes.
                match (A_ACROSS, B_ACROSS) {
                    (false, false) => step_of_a_warpgroup!(sums, a, b, add, $shape, "2", "2", $kk, $first $($rest)*),
                    (false, true) => step_of_a_warpgroup!(sums, a, b, add, $shape, "2", "128", $kv, $first $($rest)*),
                    (true, false) => step_of_a_warpgroup!(sums, a, b, add, $shape, "128", "2", $vk, $first $($rest)*),
                    (true, true) => step_of_a_warpgroup!(sums, a, b, add, $shape, "128", "128", $vv, $first $($rest)*),
                }
            }

            #[inline(always)]
            unsafe fn quarter<const A_ACROSS: bool, const B_ACROSS: bool>(
                sums: &mut Self::Sums, a: u64, b: u64, quarter: u32,
            ) {
                // From a quarter to the next as in a step.
                let at = |first: u64, is_across: bool| first + (quarter * if is_across { 128 } else { 2 }) as u64;
                let (a, b) = (at(a, A_ACROSS), at(b, B_ACROSS));
                match (A_ACROSS, B_ACROSS) {
                    (false, false) => quarter_of_a_step!(sums, a, b, $shape, $kk, $first $($rest)*),
                    (false, true) => quarter_of_a_step!(sums, a, b, $shape, $kv, $first $($rest)*),
                    (true, false) => quarter_of_a_step!(sums, a, b, $shape, $vk, $first $($rest)*),
                    (true, true) => quarter_of_a_step!(sums, a, b, $shape, $vv, $first $($rest)*),
                }
            }

            #[inline(always)]
            unsafe fn two_steps_of_parts<const A_ACROSS: bool, const B_ACROSS: bool>(
                sums: &mut Self::Sums, a: [u64; 2], b: [u64; 2],
            ) {
                match (A_ACROSS, B_ACROSS) {
                    (false, false) => two_steps_of_parts!(sums, a, b, $shape, ["2" "4" "6"] ["2" "4" "6"] $kk, $first $($rest)*),
                    (false, true) => two_steps_of_parts!(sums, a, b, $shape, ["2" "4" "6"] ["128" "256" "384"] $kv, $first $($rest)*),
                    (true, false) => two_steps_of_parts!(sums, a, b, $shape, ["128" "256" "384"] ["2" "4" "6"] $vk, $first $($rest)*),
                    (true, true) => two_steps_of_parts!(sums, a, b, $shape, ["128" "256" "384"] ["128" "256" "384"] $vv, $first $($rest)*),
                }
            }

            #[inline(always)]
            unsafe fn step_from_registers(sums: &mut Self::Sums, a: &[f32; 16], b: u64, add: u32) {
                $registers!(sums, a, b, add, $shape, $first $($rest)*);
            }

            #[inline(always)]
            unsafe fn wait<const PENDING: u32>(sums: &mut Self::Sums) {
                // That the sums go in and out keeps the compiler from using them before.
                #[cfg(target_arch = "nvptx64")]
                core::arch::asm!(
                    concat!("wgmma.wait_group.sync.aligned {pending}; // {", stringify!($first), "}", $(" {", stringify!($rest), "}",)*),
                    inout(reg32) sums[$first], $(inout(reg32) sums[$rest],)*
                    pending = const PENDING, options(nostack)
                );
                #[cfg(not(target_arch = "nvptx64"))]
                let _ = sums;
            }
        }
    };
}

/// Implements the products of so many columns: of bf16, of f16 and of tf32.
macro_rules! products {
    ($($columns:literal, $bf16:ident $bf16_shape:literal, $f16:ident $f16_shape:literal, $tf32:ident $tf32_shape:literal, $sums:tt;)*) => {$(
        product!(
            #[doc = concat!(stringify!($columns), " columns, factors of bf16.")]
            $bf16, $columns, $bf16_shape, 2, ", 0, 0" ", 0, 1" ", 1, 0" ", 1, 1", no_step_from_registers, $sums
        );
        product!(
            #[doc = concat!(stringify!($columns), " columns, factors of f16.")]
            $f16, $columns, $f16_shape, 2, ", 0, 0" ", 0, 1" ", 1, 0" ", 1, 1", no_step_from_registers, $sums
        );
        product!(
            #[doc = concat!(stringify!($columns), " columns, factors of tf32: f32, of which the 13 lowest bits are ignored. Both lie along k, whatever is said.")]
            $tf32, $columns, $tf32_shape, 4, "" "" "" "", step_from_registers, $sums
        );
    )*};
}

/// Four products behind a fence, as one group. Who writes it has the line.
#[doc(hidden)]
#[macro_export]
#[collapse_debuginfo(yes)]
macro_rules! step_of_a_warpgroup {
    ($sums:ident, $a:ident, $b:ident, $add:ident, $shape:literal, $a_step:literal, $b_step:literal, $across:literal, $first:literal $($rest:literal)*) => {{
        #[cfg(target_arch = "nvptx64")]
        core::arch::asm!(
            concat!(
                "{{ .reg .pred add, always; .reg .b64 a, b;\n",
                "setp.ne.u32 add, {add}, 0; setp.eq.u32 always, 0, 0; mov.b64 a, {a}; mov.b64 b, {b};\n",
                "wgmma.fence.sync.aligned;\n",
                $crate::product_of_a_warpgroup!($shape, "add", $across, $first $($rest)*),
                "add.s64 a, a, ", $a_step, "; add.s64 b, b, ", $b_step, ";\n",
                $crate::product_of_a_warpgroup!($shape, "always", $across, $first $($rest)*),
                "add.s64 a, a, ", $a_step, "; add.s64 b, b, ", $b_step, ";\n",
                $crate::product_of_a_warpgroup!($shape, "always", $across, $first $($rest)*),
                "add.s64 a, a, ", $a_step, "; add.s64 b, b, ", $b_step, ";\n",
                $crate::product_of_a_warpgroup!($shape, "always", $across, $first $($rest)*),
                "wgmma.commit_group.sync.aligned; }}",
            ),
            inout(reg32) $sums[$first], $(inout(reg32) $sums[$rest],)*
            a = in(reg64) $a, b = in(reg64) $b, add = in(reg32) $add, options(nostack)
        );
        #[cfg(not(target_arch = "nvptx64"))]
        let _ = (&$sums, $a, $b, $add);
    }};
}

/// One product behind a fence, as a group.
macro_rules! quarter_of_a_step {
    ($sums:ident, $a:ident, $b:ident, $shape:literal, $across:literal, $first:literal $($rest:literal)*) => {{
        #[cfg(target_arch = "nvptx64")]
        core::arch::asm!(
            concat!(
                "{{ .reg .pred never; .reg .b64 a, b;\n",
                "setp.ne.u32 never, 0, 0; mov.b64 a, {a}; mov.b64 b, {b};\n",
                "wgmma.fence.sync.aligned;\n",
                $crate::product_of_a_warpgroup!($shape, "never", $across, $first $($rest)*),
                "wgmma.commit_group.sync.aligned; }}",
            ),
            inout(reg32) $sums[$first], $(inout(reg32) $sums[$rest],)*
            a = in(reg64) $a, b = in(reg64) $b, options(nostack)
        );
        #[cfg(not(target_arch = "nvptx64"))]
        let _ = (&$sums, $a, $b);
    }};
}

/// Four products behind a fence, as one group, with A from registers.
macro_rules! step_from_registers {
    ($sums:ident, $a:ident, $b:ident, $add:ident, $shape:literal, $first:literal $($rest:literal)*) => {{
        #[cfg(target_arch = "nvptx64")]
        core::arch::asm!(
            concat!(
                "{{ .reg .pred add, always; .reg .b64 b;\n",
                "setp.ne.u32 add, {add}, 0; setp.eq.u32 always, 0, 0; mov.b64 b, {b};\n",
                "wgmma.fence.sync.aligned;\n",
                product_from_registers!($shape, "{a0}, {a1}, {a2}, {a3}", "add", $first $($rest)*),
                "add.s64 b, b, 2;\n",
                product_from_registers!($shape, "{a4}, {a5}, {a6}, {a7}", "always", $first $($rest)*),
                "add.s64 b, b, 2;\n",
                product_from_registers!($shape, "{a8}, {a9}, {a10}, {a11}", "always", $first $($rest)*),
                "add.s64 b, b, 2;\n",
                product_from_registers!($shape, "{a12}, {a13}, {a14}, {a15}", "always", $first $($rest)*),
                "wgmma.commit_group.sync.aligned; }}",
            ),
            inout(reg32) $sums[$first], $(inout(reg32) $sums[$rest],)*
            a0 = in(reg32) $a[0], a1 = in(reg32) $a[1], a2 = in(reg32) $a[2], a3 = in(reg32) $a[3],
            a4 = in(reg32) $a[4], a5 = in(reg32) $a[5], a6 = in(reg32) $a[6], a7 = in(reg32) $a[7],
            a8 = in(reg32) $a[8], a9 = in(reg32) $a[9], a10 = in(reg32) $a[10], a11 = in(reg32) $a[11],
            a12 = in(reg32) $a[12], a13 = in(reg32) $a[13], a14 = in(reg32) $a[14], a15 = in(reg32) $a[15],
            b = in(reg64) $b, add = in(reg32) $add, options(nostack)
        );
        #[cfg(not(target_arch = "nvptx64"))]
        let _ = (&$sums, $a, $b, $add);
    }};
}

/// No step from registers.
macro_rules! no_step_from_registers {
    ($sums:ident, $a:ident, $b:ident, $add:ident, $($rest:tt)*) => {{
        let _ = (&$sums, $a, $b, $add);
    }};
}

/// One product's text, with A from registers.
#[cfg(target_arch = "nvptx64")]
macro_rules! product_from_registers {
    ($shape:literal, $a:literal, $add:literal, $first:literal $($rest:literal)*) => {
        concat!(
            "wgmma.mma_async.sync.aligned.", $shape, " {{ {", stringify!($first), "}", $(", {", stringify!($rest), "}",)* " }}, {{ ", $a, " }}, b, ", $add, ", 1, 1;\n",
        )
    };
}

/// Twelve products behind a fence, as two groups: quarters 0 and 1 of a step are large parts, 2 and 3 small ones.
macro_rules! two_steps_of_parts {
    ($sums:ident, $a:ident, $b:ident, $shape:literal, [$a1:literal $a2:literal $a3:literal] [$b1:literal $b2:literal $b3:literal] $across:literal, $first:literal $($rest:literal)*) => {{
        #[cfg(target_arch = "nvptx64")]
        core::arch::asm!(
            concat!(
                "{{ .reg .pred never, always; .reg .b64 a, b;\n",
                "setp.ne.u32 never, 0, 0; setp.eq.u32 always, 0, 0;\n",
                "wgmma.fence.sync.aligned;\n",
                "add.s64 a, {a}, ", $a2, "; mov.b64 b, {b};\n",
                $crate::product_of_a_warpgroup!($shape, "never", $across, $first $($rest)*),
                "add.s64 a, {a}, ", $a3, "; add.s64 b, {b}, ", $b1, ";\n",
                $crate::product_of_a_warpgroup!($shape, "always", $across, $first $($rest)*),
                "mov.b64 a, {a}; add.s64 b, {b}, ", $b2, ";\n",
                $crate::product_of_a_warpgroup!($shape, "always", $across, $first $($rest)*),
                "add.s64 a, {a}, ", $a1, "; add.s64 b, {b}, ", $b3, ";\n",
                $crate::product_of_a_warpgroup!($shape, "always", $across, $first $($rest)*),
                "add.s64 a, {c}, ", $a2, "; mov.b64 b, {d};\n",
                $crate::product_of_a_warpgroup!($shape, "always", $across, $first $($rest)*),
                "add.s64 a, {c}, ", $a3, "; add.s64 b, {d}, ", $b1, ";\n",
                $crate::product_of_a_warpgroup!($shape, "always", $across, $first $($rest)*),
                "mov.b64 a, {c}; add.s64 b, {d}, ", $b2, ";\n",
                $crate::product_of_a_warpgroup!($shape, "always", $across, $first $($rest)*),
                "add.s64 a, {c}, ", $a1, "; add.s64 b, {d}, ", $b3, ";\n",
                $crate::product_of_a_warpgroup!($shape, "always", $across, $first $($rest)*),
                "wgmma.commit_group.sync.aligned;\n",
                "mov.b64 a, {a}; mov.b64 b, {b};\n",
                $crate::product_of_a_warpgroup!($shape, "always", $across, $first $($rest)*),
                "add.s64 a, {a}, ", $a1, "; add.s64 b, {b}, ", $b1, ";\n",
                $crate::product_of_a_warpgroup!($shape, "always", $across, $first $($rest)*),
                "mov.b64 a, {c}; mov.b64 b, {d};\n",
                $crate::product_of_a_warpgroup!($shape, "always", $across, $first $($rest)*),
                "add.s64 a, {c}, ", $a1, "; add.s64 b, {d}, ", $b1, ";\n",
                $crate::product_of_a_warpgroup!($shape, "always", $across, $first $($rest)*),
                "wgmma.commit_group.sync.aligned; }}",
            ),
            inout(reg32) $sums[$first], $(inout(reg32) $sums[$rest],)*
            a = in(reg64) $a[0], b = in(reg64) $b[0], c = in(reg64) $a[1], d = in(reg64) $b[1], options(nostack)
        );
        #[cfg(not(target_arch = "nvptx64"))]
        let _ = (&$sums, $a, $b);
    }};
}

/// One product's text.
#[doc(hidden)]
#[macro_export]
macro_rules! product_of_a_warpgroup {
    ($shape:literal, $add:literal, $across:literal, $first:literal $($rest:literal)*) => {
        concat!(
            "wgmma.mma_async.sync.aligned.", $shape, " {{ {", stringify!($first), "}", $(", {", stringify!($rest), "}",)* " }}, a, b, ", $add, ", 1, 1", $across, ";\n",
        )
    };
}

products! {
    64, Bf16x64 "m64n64k16.f32.bf16.bf16", F16x64 "m64n64k16.f32.f16.f16", Tf32x64 "m64n64k8.f32.tf32.tf32", [
        0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
    ];
    128, Bf16x128 "m64n128k16.f32.bf16.bf16", F16x128 "m64n128k16.f32.f16.f16", Tf32x128 "m64n128k8.f32.tf32.tf32", [
        0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38
        39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63
    ];
    192, Bf16x192 "m64n192k16.f32.bf16.bf16", F16x192 "m64n192k16.f32.f16.f16", Tf32x192 "m64n192k8.f32.tf32.tf32", [
        0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38
        39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64 65 66 67 68 69 70 71 72 73 74
        75 76 77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92 93 94 95
    ];
    256, Bf16x256 "m64n256k16.f32.bf16.bf16", F16x256 "m64n256k16.f32.f16.f16", Tf32x256 "m64n256k8.f32.tf32.tf32", [
        0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38
        39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64 65 66 67 68 69 70 71 72 73 74
        75 76 77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92 93 94 95 96 97 98 99 100 101 102 103 104 105 106 107
        108 109 110 111 112 113 114 115 116 117 118 119 120 121 122 123 124 125 126 127
    ];
}

/// Gives registers back, so that a thread of this warpgroup has `COUNT` from here on.
///
/// # Safety
///
/// All threads of the warpgroup must come here together; `COUNT` must be a multiple of 8 from 24 to 256, and enough for what follows.
#[inline(always)]
pub unsafe fn release_registers<const COUNT: u32>() {
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!("setmaxnreg.dec.sync.aligned.u32 {};", const COUNT, options(nostack));
}

/// Takes registers that others have given back, so that a thread of this warpgroup has `COUNT` from here on.
///
/// # Safety
///
/// As for [`release_registers`]; and the multiprocessor must come to have so many, or this waits for ever.
#[inline(always)]
pub unsafe fn take_registers<const COUNT: u32>() {
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!("setmaxnreg.inc.sync.aligned.u32 {};", const COUNT, options(nostack));
}

/// A barrier of a part of the block: `threads` threads, whole warps, that come here with the same `number`, from 1 to 15. (0 is the block's
/// own.)
///
/// # Safety
///
/// So many threads must come.
#[cfg_attr(not(feature = "lines-of-callers"), inline(always))]
pub unsafe fn sync_some(number: u32, threads: u32) {
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!("bar.sync {}, {};", in(reg32) number, in(reg32) threads, options(nostack));
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = (number, threads);
}

/// Comes to such a barrier without waiting there, which others do by [`sync_some`]: `bar.arrive`. What this thread did before, they see.
///
/// # Safety
///
/// As for [`sync_some`]; and those who wait must come between one arrival and the next.
#[cfg_attr(not(feature = "lines-of-callers"), inline(always))]
pub unsafe fn arrive_at_some(number: u32, threads: u32) {
    #[cfg(target_arch = "nvptx64")]
    core::arch::asm!("bar.arrive {}, {};", in(reg32) number, in(reg32) threads, options(nostack));
    #[cfg(not(target_arch = "nvptx64"))]
    let _ = (number, threads);
}
