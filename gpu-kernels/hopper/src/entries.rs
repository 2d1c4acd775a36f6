//! The kernels.

use cuda_std::*;
use kernel_common::parameter_address;
use kernel_common::tensor_maps::TensorMap;
use kernel_common::warpgroups::*;

use crate::output;
use crate::pipelined::{product, Maps, TensorCall};
use crate::shape::Shape;

/// Declares kernels.
macro_rules! kernels {
    ($($entry:ident: $product:ident $output:ident $a:literal $b:literal $stages:literal;)*) => {$(
        /// See [`product`].
        ///
        /// # Safety
        ///
        /// As for [`product`].
        #[kernel]
        #[allow(unused_variables)]
        pub unsafe fn $entry(a: TensorMap, b: TensorMap, c: TensorMap, call: TensorCall) {
            struct Own;
            impl Shape for Own {
                type Product = $product;
                type Output = output::$output;
                const A_ACROSS: bool = $a;
                const B_ACROSS: bool = $b;
                const STAGES: usize = $stages;
            }
            let maps = Maps {
                a: parameter_address!($entry, 0),
                b: parameter_address!($entry, 1),
                c: parameter_address!($entry, 2),
                a_scales: 0,
                b_scales: 0,
            };
            product::<Own>(maps, &call);
        }
    )*};
}

kernels! {
    wg_bf16_256_nn_f32: Bf16x256 F32 false true 4;
    wg_bf16_256_nn_bf16: Bf16x256 Bf16 false true 4;
    wg_bf16_128_nn_f32: Bf16x128 F32 false true 6;
    wg_bf16_128_nn_bf16: Bf16x128 Bf16 false true 6;
    wg_bf16_64_nn_f32: Bf16x64 F32 false true 7;
    wg_bf16_64_nn_bf16: Bf16x64 Bf16 false true 7;
    wg_bf16_192_nn_f32: Bf16x192 F32 false true 4;
    wg_bf16_192_nn_bf16: Bf16x192 Bf16 false true 4;
    wg_bf16_256_nt_f32: Bf16x256 F32 false false 4;
    wg_bf16_256_tn_f32: Bf16x256 F32 true true 4;
    wg_bf16_256_tt_f32: Bf16x256 F32 true false 4;
}

/// Declares kernels for factors in two parts.
macro_rules! kernels_of_parts {
    ($($entry:ident: $product:ident $a:literal $b:literal $stages:literal $boxes:literal $pairs:literal;)*) => {$(
        /// See [`product`].
        ///
        /// # Safety
        ///
        /// As for [`product`].
        #[kernel]
        #[allow(unused_variables)]
        pub unsafe fn $entry(
            a: TensorMap, b: TensorMap, c: TensorMap, a_scales: TensorMap, b_scales: TensorMap, call: TensorCall,
        ) {
            struct Own;
            impl Shape for Own {
                type Product = $product;
                type Output = output::F32;
                const A_ACROSS: bool = $a;
                const B_ACROSS: bool = $b;
                const STAGES: usize = $stages;
                const PARTS: bool = true;
                const BOXES: usize = $boxes;
                const PAIRS: usize = $pairs;
            }
            let maps = Maps {
                a: parameter_address!($entry, 0),
                b: parameter_address!($entry, 1),
                c: parameter_address!($entry, 2),
                a_scales: parameter_address!($entry, 3),
                b_scales: parameter_address!($entry, 4),
            };
            product::<Own>(maps, &call);
        }
    )*};
}

kernels_of_parts! {
    wg_parts_192_nn: F16x192 false true 5 1 1;
    wg_parts_192_nn_2: F16x192 false true 5 1 2;
    wg_parts_128_nn: F16x128 false true 6 1 1;
    wg_parts_128_nn_2: F16x128 false true 6 1 2;
    wg_parts_64_nn: F16x64 false true 7 2 1;
    wg_parts_128_nt: F16x128 false false 6 1 1;
    wg_parts_128_tn: F16x128 true true 6 1 1;
}
