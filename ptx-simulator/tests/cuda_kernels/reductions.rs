//! Sums and scans over blocks and grids.

use crate::ptx;
use crate::support::values::Random;
use crate::support::{Argument, Module, load, on_any_number_of_cores};

fn numbers(count: usize, seed: u64) -> Vec<u32> {
    let mut random = Random::new(seed);
    (0..count).map(|_| random.next() as u32).collect()
}

#[test]
fn a_tree_in_dynamic_shared_memory_sums_each_block() {
    let module = load(ptx!("reduction"));
    for (blocks, threads, count) in [(1u32, 32u32, 1usize), (3, 64, 1000), (5, 256, 777), (2, 1024, 5000), (4, 1, 9)] {
        let input = numbers(count, 10);
        let partial: Vec<u32> = on_any_number_of_cores(|machine| {
            let (source, output) = (machine.upload(&input), machine.upload(&vec![0u32; blocks as usize]));
            let arguments = [Argument::Pointer(source), Argument::Pointer(output), Argument::U32(count as u32)];
            machine.launch(&module, "reduce_shared_tree", blocks, threads, threads * 4, &arguments);
            machine.download(output, blocks as usize)
        });
        let want: Vec<u32> = (0..blocks)
            .map(|block| {
                (0..count as u32)
                    .filter(|i| i / threads % blocks == block)
                    .fold(0u32, |sum, i| sum.wrapping_add(input[i as usize]))
            })
            .collect();
        assert_eq!(partial, want, "{blocks} blocks of {threads}");
    }
}

/// The sum of 32 lanes in the order of five halving shuffles; lane 0's result.
fn shuffle_sum(lanes: &[f32]) -> f32 {
    let mut values: Vec<f32> = lanes.to_vec();
    for offset in [16, 8, 4, 2, 1] {
        values =
            (0..32).map(|lane| values[lane] + values[if lane + offset < 32 { lane + offset } else { lane }]).collect();
    }
    values[0]
}

#[test]
fn shuffles_sum_floats_in_their_own_fixed_order() {
    let module = load(ptx!("reduction"));
    let mut random = Random::new(12);
    let input: Vec<f32> = (0..3000).map(|_| random.unit() * 1000.0).collect();
    for (blocks, threads) in [(1u32, 32u32), (2, 128), (3, 1024)] {
        let partial: Vec<f32> = on_any_number_of_cores(|machine| {
            let (source, output) = (machine.upload(&input), machine.upload(&vec![0f32; blocks as usize]));
            let arguments = [Argument::Pointer(source), Argument::Pointer(output), Argument::U32(3000)];
            machine.launch(&module, "reduce_shuffle", blocks, threads, 0, &arguments);
            machine.download(output, blocks as usize)
        });
        for block in 0..blocks {
            let per_thread: Vec<f32> = (0..threads)
                .map(|thread| {
                    let first = (block * threads + thread) as usize;
                    input.iter().skip(first).step_by((blocks * threads) as usize).fold(0.0, |sum, value| sum + value)
                })
                .collect();
            let mut slots: Vec<f32> = per_thread.chunks(32).map(shuffle_sum).collect();
            slots.resize(32, 0.0);
            assert_eq!(partial[block as usize].to_bits(), shuffle_sum(&slots).to_bits(), "block {block} of {blocks}");
        }
    }
}

#[test]
fn the_last_block_adds_all_partial_sums_and_the_counter_is_ready_again() {
    let module = load(ptx!("reduction"));
    let mut random = Random::new(13);
    let input: Vec<u64> = (0..5000).map(|_| random.next()).collect();
    let want = input.iter().fold(0u64, |sum, &value| sum.wrapping_add(value));
    for blocks in [1u32, 2, 7, 40] {
        let totals: Vec<u64> = on_any_number_of_cores(|machine| {
            let source = machine.upload(&input);
            let (partial, total) = (machine.upload(&vec![0u64; blocks as usize]), machine.upload(&[0u64; 1]));
            let mut totals = Vec::new();
            for _ in 0..2 {
                let arguments = [
                    Argument::Pointer(source),
                    Argument::Pointer(partial),
                    Argument::Pointer(total),
                    Argument::U32(5000),
                ];
                machine.launch(&module, "reduce_last_block", blocks, 256, 0, &arguments);
                totals.extend(machine.download::<u64>(total, 1));
            }
            totals
        });
        assert_eq!(totals, [want; 2], "{blocks} blocks");
    }
}

#[test]
fn cooperative_groups_form_tiles_and_coalesced_groups() {
    let module = load(ptx!("reduction"));
    let input: Vec<i32> = numbers(200, 14).into_iter().map(|value| value as i32 / 1000).collect();
    let sums: Vec<i32> = on_any_number_of_cores(|machine| {
        let (source, output) = (machine.upload(&input), machine.upload(&[0i32; 32]));
        let arguments = [Argument::Pointer(source), Argument::Pointer(output), Argument::U32(200)];
        machine.launch(&module, "reduce_tiles_of_eight", 2, 128, 0, &arguments);
        machine.download(output, 32)
    });
    let want: Vec<i32> = (0..32).map(|tile| input.iter().skip(tile * 8).take(8).sum()).collect();
    assert_eq!(sums, want);

    let counted: Vec<u32> = on_any_number_of_cores(|machine| {
        let (source, output) = (machine.upload(&input), machine.upload(&[0u32]));
        let arguments = [Argument::Pointer(source), Argument::Pointer(output), Argument::U32(200)];
        machine.launch(&module, "count_even_aggregated", 3, 96, 0, &arguments);
        machine.download(output, 1)
    });
    assert_eq!(counted[0] as usize, input.iter().filter(|value| *value % 2 == 0).count());
}

#[test]
fn barriers_count_and_combine_over_a_block() {
    let module = load(ptx!("reduction"));
    let input: Vec<i32> = (0..192).map(|i| (i * 37) % 200 - 99 - i / 96 * 2).collect();
    let got: Vec<i32> = on_any_number_of_cores(|machine| {
        let (source, output) = (machine.upload(&input), machine.upload(&[0i32; 192]));
        machine.launch(&module, "barrier_reductions", 2, 96, 0, &[source, output].map(Argument::Pointer));
        machine.download(output, 192)
    });
    for (block, values) in input.chunks(96).enumerate() {
        let above = values.iter().filter(|&&value| value > 0).count() as i32;
        let all = i32::from(values.iter().all(|&value| value > -100));
        let any = i32::from(values.iter().any(|&value| value > 90));
        assert!(got[block * 96..][..96].iter().all(|&word| word == above * 4 + all * 2 + any), "block {block}");
    }
}

fn prefix_sums(input: &[u32]) -> Vec<u32> {
    input
        .iter()
        .scan(0u32, |sum, &value| {
            *sum = sum.wrapping_add(value);
            Some(*sum)
        })
        .collect()
}

#[test]
fn prefix_sums_of_one_block_and_of_a_chain_of_blocks() {
    let module = load(ptx!("scan"));
    for (threads, count) in [(32u32, 32usize), (128, 100), (1024, 1000), (96, 1)] {
        let input: Vec<i32> = numbers(count, 15).into_iter().map(|value| value as i32 >> 8).collect();
        let got: Vec<i32> = on_any_number_of_cores(|machine| {
            let (source, output) = (machine.upload(&input), machine.upload(&vec![0i32; count]));
            let arguments = [Argument::Pointer(source), Argument::Pointer(output), Argument::I32(count as i32)];
            machine.launch(&module, "scan_block", 1, threads, 0, &arguments);
            machine.download(output, count)
        });
        let unsigned: Vec<u32> = input.iter().map(|&value| value as u32).collect();
        let want: Vec<i32> = prefix_sums(&unsigned).into_iter().map(|value| value as i32).collect();
        assert_eq!(got, want, "{threads} threads");
    }
    for count in [1usize, 128, 129, 3000] {
        assert_eq!(chained(&module, &numbers(count, 16)), prefix_sums(&numbers(count, 16)), "{count} numbers");
    }
}

fn chained(module: &Module, input: &[u32]) -> Vec<u32> {
    let blocks = (input.len() as u32).div_ceil(128);
    on_any_number_of_cores(|machine| {
        let (source, output) = (machine.upload(input), machine.upload(&vec![0u32; input.len()]));
        let state = machine.upload(&vec![0u32; blocks as usize]);
        let totals = machine.upload(&vec![0u32; blocks as usize]);
        let mut arguments = [source, output, state, totals].map(Argument::Pointer).to_vec();
        arguments.push(Argument::U32(input.len() as u32));
        machine.launch(module, "scan_chained", blocks, 128, 0, &arguments);
        machine.download(output, input.len())
    })
}

#[test]
fn blocks_that_wait_for_later_blocks_make_progress_together() {
    let module = load(ptx!("scan"));
    for blocks in [1u32, 2, 8] {
        let order: Vec<u32> = on_any_number_of_cores(|machine| {
            let flags = machine.upload(&vec![0u32; blocks as usize]);
            let order = machine.upload(&vec![0u32; blocks as usize + 1]);
            machine.launch(&module, "chain_backwards", blocks, 32, 0, &[flags, order].map(Argument::Pointer));
            machine.download(order, blocks as usize + 1)
        });
        let want: Vec<u32> = (0..blocks).rev().chain([blocks]).collect();
        assert_eq!(order, want);
    }
}
