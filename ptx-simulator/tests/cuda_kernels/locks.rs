//! Spin locks and waits between lanes, warps and blocks: all of them end.

use crate::ptx;
use crate::support::{Argument, load, on_any_number_of_cores};

#[test]
fn one_lock_serialises_all_lanes_warps_and_blocks() {
    let module = load(ptx!("locks"));
    for kernel in ["lock_counter", "lock_counter_naive"] {
        for (blocks, threads) in [(1u32, 32u32), (3, 64), (4, 40)] {
            let counted: Vec<i32> = on_any_number_of_cores(|machine| {
                let (lock, counter) = (machine.upload(&[0i32]), machine.upload(&[100i32]));
                machine.launch(&module, kernel, blocks, threads, 0, &[lock, counter].map(Argument::Pointer));
                machine.download(counter, 1)
            });
            assert_eq!(counted, [100 + (blocks * threads) as i32], "{kernel}, {blocks} blocks of {threads}");
        }
    }
}

#[test]
fn a_lock_in_shared_memory_serialises_a_block() {
    let module = load(ptx!("locks"));
    let sums: Vec<i32> = on_any_number_of_cores(|machine| {
        let result = machine.upload(&[0i32; 3]);
        machine.launch(&module, "lock_shared", 3, 96, 0, &[Argument::Pointer(result)]);
        machine.download(result, 3)
    });
    assert_eq!(sums, [95 * 96 / 2; 3]);
}

#[test]
fn half_a_warp_waits_for_the_other_half() {
    let module = load(ptx!("locks"));
    let got: Vec<i32> = on_any_number_of_cores(|machine| {
        let output = machine.upload(&[0i32; 32]);
        machine.launch(&module, "message_within_a_warp", 1, 32, 0, &[Argument::Pointer(output)]);
        machine.download(output, 32)
    });
    assert_eq!(got, [[42; 16], [-1; 16]].concat());
}

#[test]
fn a_barrier_over_the_grid_shows_every_block_all_values() {
    let module = load(ptx!("locks"));
    for blocks in [1u32, 2, 13] {
        let sums: Vec<u32> = on_any_number_of_cores(|machine| {
            let arrived = machine.upload(&[0u32]);
            let values = machine.upload(&vec![0u32; blocks as usize]);
            let sums = machine.upload(&vec![0u32; blocks as usize]);
            machine.launch(&module, "grid_barrier", blocks, 32, 0, &[arrived, values, sums].map(Argument::Pointer));
            machine.download(sums, blocks as usize)
        });
        let want: u32 = (0..blocks).map(|block| block * block + 1).sum();
        assert_eq!(sums, vec![want; blocks as usize]);
    }
}
