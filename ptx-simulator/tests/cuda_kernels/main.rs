//! CUDA C++ kernels as nvcc compiles them, each against an independent computation in Rust.
//!
//! The kernels and their PTX are in `tests/kernels/`; `tests/kernels/build.sh` compiles them anew.

#[path = "../support/mod.rs"]
mod support;

mod atomics;
mod calls;
mod control_flow;
mod data_movement;
mod floats;
mod gemm;
mod halves;
mod integers;
mod locks;
mod module_memory;
mod reductions;
mod refusals;
mod warps;

/// The committed PTX of a kernel file.
macro_rules! ptx {
    ($name:literal) => {
        include_str!(concat!("../kernels/", $name, ".ptx"))
    };
}
use ptx;
