//! What ends a launch elsewhere is a finding here, and the launch goes on.

use super::*;

#[test]
fn a_lane_outside_memory_is_left_out_and_the_others_go_on() {
    // Lanes 30 and 31 read and write past the end.
    let body = "10| add.u64 %rd10, %rd3, 16264;
        11| ld.global.u32 %r10, [%rd10];
        12| st.global.u32 [%rd10], 7;
        13| st.global.u32 [%rd3], %r10;
        ret;";
    let broken = check(body, 1, 32);
    broken.finds(&[("OutOfBounds", 11, 0), ("OutOfBounds", 12, 0)]);
    assert_eq!(broken.findings[0].count, 2);
    assert_eq!(broken.findings[0].first.thread, [30, 0, 0]);
    assert_eq!(broken.memory[..32].iter().filter(|word| **word == 0).count(), 30);
    assert_eq!(broken.memory[30..32], [u32::MAX; 2]);
    assert_eq!(broken.memory[4066..], [7; 30]);
}

#[test]
fn a_misaligned_lane_is_left_out_and_the_others_go_on() {
    let body = "10| @%p1 add.u64 %rd3, %rd3, 2;
        11| st.global.u32 [%rd3], 7;
        ret;";
    let broken = check(body, 1, 32);
    broken.finds(&[("Misaligned", 11, 0)]);
    assert_eq!(broken.memory[..3], [0, 7, 7]);
}

#[test]
fn a_fault_in_shared_memory_names_the_array() {
    let broken = check("10| @%p1 st.shared.u32 [other+256], 7;\nret;", 2, 32);
    broken.finds(&[("OutOfBounds", 10, 0)]);
    assert_eq!(broken.findings[0].touched.as_ref().unwrap().array.as_deref(), Some("other"));
    assert_eq!(broken.findings[0].count, 2);
}

#[test]
fn the_next_block_runs_after_a_trap() {
    let body = "9| setp.eq.u32 %p3, %r1, 0;
        10| @%p3 trap;
        11| st.global.u32 [%rd3], 7;
        ret;";
    let broken = check(body, 2, 32);
    broken.finds(&[("Trap", 10, 0)]);
    assert_eq!(broken.memory[..32], [0; 32]);
    assert_eq!(broken.memory[32..64], [7; 32]);
}

#[test]
fn an_endless_loop_ends_the_launch() {
    let broken = check("LOOP:\n10| bra LOOP;", 1000, 32);
    broken.finds(&[("InstructionLimit", 10, 0)]);
    assert_eq!(broken.findings[0].count, 1);
}

#[test]
fn a_launch_that_cannot_begin_is_an_error_still() {
    let module = Module::parse(&kernel("ret;")).unwrap();
    let config = LaunchConfig { grid: [1; 3], block: [32, 1, 1], dynamic_shared_bytes: 0 };
    let mut hazards = Hazards::new(&module, "missing", &config);
    let result = Simulator::new().launch_observed(&module, "missing", config, &[], &mut hazards);
    assert!(result.is_err());
    assert!(hazards.findings().is_empty());
}

#[test]
fn reads_of_a_block_that_a_fault_ended_are_not_called_unwritten() {
    // The words would have been written by threads that never come past the barrier.
    let body = "10| ld.shared.u32 %r10, [%r6];
        11| @%p2 bra DONE;
        12| bar.sync 0;
        13| st.shared.u32 [%r4], %r0;
        DONE: ret;";
    check(body, 1, 64).finds(&[("DivergentBarrier", 12, 0)]);
}
