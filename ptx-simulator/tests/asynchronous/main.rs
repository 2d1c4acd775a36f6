//! Asynchronous copies and mbarriers: what PTX promises of them holds, and what it doesn't promise is shown by the
//! result.

#[path = "../support/mod.rs"]
mod support;

mod bulk_copies;
mod clusters;
mod copies;
mod mbarriers;
mod pipeline;
mod warpgroup_products;

use ptx_simulator::{Argument, LaunchError, Simulator};
use support::{Machine, Shape, kernel_with_body, load};

/// 256 words of shared memory, 128-byte aligned, at `%r30` for 32-bit addresses and at `%rd30` for 64-bit ones.
const SHARED: &str =
    ".shared .align 128 .b8 stage[1024]; .shared .align 8 .b8 full[16]; .shared .align 8 .b64 empty[2];";

/// Runs a body as [`support::run_body`] does, with shared memory declared.
fn run(body: &str, block: u32, inputs: [&[u8]; 2], count: usize) -> Vec<u32> {
    let body = format!("mov.u32 %r30, stage; mov.u64 %rd30, stage;\n{body}");
    support::run_body(SHARED, &body, 1, block, inputs, count)
}

/// The error of a body that must fail, run on any number of cores; `%in0` has 64 words.
fn failure(body: &str, block: impl Into<Shape>) -> LaunchError {
    let module = load(&kernel_with_body(SHARED, &format!("mov.u32 %r30, stage; mov.u64 %rd30, stage;\n{body}")));
    let block = block.into();
    let errors = [1, 3].map(|threads| {
        let mut machine = Machine { device: Simulator::builder().threads(threads).instruction_limit(1 << 22).build() };
        let output = machine.upload(&[0u32; 64]);
        let input = machine.upload(&(0..64u32).collect::<Vec<_>>());
        let arguments = [output, input, input].map(Argument::Pointer);
        machine.try_launch(&module, "test", 1, block, 0, &arguments).expect_err("the launch must fail")
    });
    assert_eq!(errors[0], errors[1]);
    errors[0].clone()
}

/// Words 0, 1, 2 and so on.
fn numbers(count: u32) -> Vec<u8> {
    support::bytes_of(&(0..count).collect::<Vec<_>>())
}
