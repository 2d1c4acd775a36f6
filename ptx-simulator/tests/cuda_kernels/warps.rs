//! Votes, matches, shuffles and warp reductions.

use crate::ptx;
use crate::support::values::Random;
use crate::support::{Argument, load, on_any_number_of_cores};

fn small_numbers(count: usize) -> Vec<i32> {
    let mut random = Random::new(40);
    (0..count).map(|i| if i < 32 { random.below(8) as i32 } else { random.below(20) as i32 }).collect()
}

/// The mask of the lanes of one warp for which `test` holds.
fn ballot(warp: &[i32], test: impl Fn(i32) -> bool) -> u32 {
    warp.iter().enumerate().fold(0, |mask, (lane, &value)| mask | u32::from(test(value)) << lane)
}

#[test]
fn votes_and_matches_see_the_whole_warp() {
    let module = load(ptx!("warps"));
    let input = small_numbers(128);
    let got: Vec<u32> = on_any_number_of_cores(|machine| {
        let (source, output) = (machine.upload(&input), machine.upload(&[0u32; 1280]));
        machine.launch(&module, "votes", 2, 64, 0, &[source, output].map(Argument::Pointer));
        machine.download(output, 1280)
    });
    for (thread, words) in got.chunks(10).enumerate() {
        let (lane, warp) = (thread % 32, &input[thread / 32 * 32..][..32]);
        let value = warp[lane];
        let above = ballot(warp, |x| x > 3);
        let all_same = warp.iter().all(|x| x / 8 == warp[0] / 8);
        let below = (1u32 << lane) - 1;
        let want = [
            above,
            u32::from(warp.contains(&5)),
            u32::from(warp.iter().all(|&x| x < 8)),
            ballot(warp, |x| x == value),
            if all_same { u32::MAX } else { 0 },
            all_same.into(),
            if value % 3 == 0 { ballot(warp, |x| x % 3 == 0) } else { 0 },
            ballot(warp, |x| x % 2 == value % 2),
            below,
            (above & below).count_ones(),
        ];
        assert_eq!(words, want, "thread {thread}");
    }
}

#[test]
fn shuffles_of_every_kind_and_width() {
    let module = load(ptx!("warps"));
    let input: Vec<i32> = (0..64).map(|i| i * 1001 - 7).collect();
    for (source, width_log2) in [(0usize, 5u32), (5, 4), (13, 3), (31, 2), (3, 1)] {
        let got: Vec<i32> = on_any_number_of_cores(|machine| {
            let (values, output) = (machine.upload(&input), machine.upload(&[0i32; 512]));
            let arguments = [
                Argument::Pointer(values),
                Argument::Pointer(output),
                Argument::I32(source as i32),
                Argument::I32(width_log2 as i32),
            ];
            machine.launch(&module, "shuffles", 1, 64, 0, &arguments);
            machine.download(output, 512)
        });
        let width = 1usize << width_log2;
        for (thread, words) in got.chunks(8).enumerate() {
            let (lane, warp) = (thread % 32, &input[thread / 32 * 32..][..32]);
            let (segment, inside) = (lane / width * width, lane % width);
            let pick = |place: Option<usize>| warp[place.map_or(lane, |place| segment + place)];
            let want = [
                warp[source % 32],
                warp[(thread * 7 + source) % 32],
                pick(inside.checked_sub(3)),
                pick(Some(inside + source % 8).filter(|&place| place < width)),
                // Crossing into a later segment isn't allowed, into an earlier one it is.
                warp[if lane ^ (source & 15) < segment + width { lane ^ (source & 15) } else { lane }],
                warp[segment + source % width],
                (f64::from(warp[lane ^ 1]) * 0.5) as i32,
                ((i64::from(warp[lane.saturating_sub(1)]) << 33) >> 32) as i32,
            ];
            assert_eq!(words, want, "thread {thread}, source {source}, width {width}");
        }
    }
}

#[test]
fn a_warp_sorts_its_keys_in_registers() {
    let module = load(ptx!("warps"));
    let mut random = Random::new(41);
    let keys: Vec<i32> = (0..96).map(|_| random.next() as i32 % 100).collect();
    let got: Vec<i32> = on_any_number_of_cores(|machine| {
        let buffer = machine.upload(&keys);
        machine.launch(&module, "sort_warp", 1, 96, 0, &[Argument::Pointer(buffer)]);
        machine.download(buffer, 96)
    });
    let mut want = keys;
    want.chunks_mut(32).for_each(<[i32]>::sort_unstable);
    assert_eq!(got, want);
}

#[test]
fn warp_reductions_take_one_instruction() {
    let module = load(ptx!("warps_sm80"));
    let mut random = Random::new(42);
    let input: Vec<i32> = (0..64).map(|_| random.next() as i32).collect();
    let got: Vec<i32> = on_any_number_of_cores(|machine| {
        let (values, output) = (machine.upload(&input), machine.upload(&[0i32; 512]));
        machine.launch(&module, "warp_reductions", 2, 32, 0, &[values, output].map(Argument::Pointer));
        machine.download(output, 512)
    });
    for (thread, words) in got.chunks(8).enumerate() {
        let warp = input[thread / 32 * 32..][..32].iter().copied();
        let unsigned = warp.clone().map(|value| value as u32);
        let want = [
            warp.clone().fold(0, i32::wrapping_add),
            warp.clone().min().expect("lanes"),
            warp.clone().max().expect("lanes"),
            unsigned.clone().min().expect("lanes") as i32,
            unsigned.max().expect("lanes") as i32,
            warp.clone().fold(-1, |a, b| a & b),
            warp.clone().fold(0, |a, b| a | b),
            warp.fold(0, |a, b| a ^ b),
        ];
        assert_eq!(words, want, "thread {thread}");
    }
}
