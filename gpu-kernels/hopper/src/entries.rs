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
