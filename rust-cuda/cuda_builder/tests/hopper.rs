//! A crate with a kernel for Hopper alone becomes a module as the driver and ptxas want it.
use std::fs;
use std::path::Path;

use cuda_builder::{CudaBuilder, NvvmArch};

const MANIFEST: &str = r#"
[package]
name = "hopper-kernels"
version = "0.1.0"
edition = "2021"

[lib]
path = "lib.rs"
crate-type = ["cdylib"]

[workspace]
"#;

/// What `kernel-common`, and cuda_std's `#[kernel]`, make of a kernel that takes a tensor map; by hand, so that the crate needs
/// no other.
const SOURCE: &str = r#"
#![no_std]

use core::arch::asm;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {}
}

#[repr(C, align(16))]
pub struct TensorMap([u8; 128]);

#[no_mangle]
pub static launch_bounds_of_prefetch: [u32; 6] = [384, 1, 1, 1, 0, 2];

#[no_mangle]
pub static level_of_prefetch: [u8; 16] = *b"compute_90a\0\0\0\0\0";

#[no_mangle]
pub unsafe extern "ptx-kernel" fn prefetch(_count: usize, _map: TensorMap) {
    let map: u64;
    asm!("mov.b64 {0}, prefetch_param_1; cvta.param.u64 {0}, {0};", out(reg64) map);
    asm!("prefetch.tensormap [{}];", in(reg64) map);
    asm!("setmaxnreg.dec.sync.aligned.u32 40;");
}
"#;

fn built(level: NvvmArch) -> String {
    // A folder that stays: in another one Rust's library would be built again each time.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("hopper-kernels-{level}"));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("Cargo.toml"), MANIFEST).unwrap();
    fs::write(folder.join("lib.rs"), SOURCE).unwrap();
    let path = CudaBuilder::new(&folder).arch(level).build().unwrap();
    fs::read_to_string(path).unwrap()
}

#[test]
fn a_kernel_for_hopper_has_its_target_its_bounds_and_an_aligned_tensor_map() {
    let text = built(NvvmArch::Compute90a);
    assert!(text.contains(".target sm_90a\n"), "{text}");
    let (_, entry) = text.split_once(".entry prefetch(").expect("the entry is there");
    let (head, body) = entry.split_once("\n{").expect("the entry has a body");
    assert!(head.contains("\t.param .align 64 .b8 prefetch_param_1[128]\n"), "{head}");
    assert!(head.ends_with("\n.maxntid 384, 1, 1\n.minnctapersm 1\n.reqnctapercluster 2, 1, 1"), "{head}");
    assert!(body.contains("prefetch.tensormap"), "{body}");
    assert!(
        !body.contains(".local") && !body.contains("ld.param"),
        "the map isn't read, only its address is taken: {body}"
    );
}

#[test]
fn in_the_module_of_another_level_there_is_no_such_kernel_and_that_is_no_mistake() {
    let text = built(NvvmArch::Compute80);
    assert!(text.contains(".target sm_80\n") && !text.contains("prefetch"), "{text}");
}
