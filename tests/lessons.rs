//! The numbers that the lessons of the kernels state are what the simulator counts.

use gpu_kernels::{
    KERNELS, Kernel, async_copies, block_order, cluster, conflicted, double_buffered, k_slices, multi_stage, naive,
    padded, persistent, producer, register_column, register_tile, split_barrier, swizzled, tensor_cores, tensor_maps,
    tiled, tiled_8, tiled_32, tiled_64, uncoalesced, vector_loads, warp_tiled, wide_tile,
};
use host::{
    device::{Device, DeviceSelector},
    gemm::{FactorBuffer, Gemm},
    matrix,
};
use ndarray::Array2;
use ptx_simulator::observe::costs::{Costs, Counts};

/// Rows and columns of the matrices: whole tiles of every kernel.
const SIZE: usize = 128;

/// What a product of SIZE x SIZE matrices costs.
fn costs(kernel: &Kernel) -> Counts {
    costs_of(kernel, SIZE)
}

/// What a product of SIZE x SIZE by SIZE x `n` matrices costs.
fn costs_of(kernel: &Kernel, n: usize) -> Counts {
    costs_of_sizes(kernel, [SIZE, n, SIZE])
}

/// What a product of `m` x `k` by `k` x `n` matrices costs.
fn costs_of_sizes(kernel: &Kernel, [m, n, k]: [usize; 3]) -> Counts {
    let gemm = Gemm::new(Device::open(DeviceSelector::Simulator).unwrap());
    let device = gemm.device();
    let upload = |matrix: Array2<f32>| {
        FactorBuffer::upload(device, kernel.precision.factors(), matrix.as_slice().unwrap()).unwrap()
    };
    let (a, b) = (upload(matrix::random_normal(m, k, 1)), upload(matrix::random_normal(k, n, 2)));
    let c = device.allocate::<f32>(m * n).unwrap();
    let (a, b, c) = (a.matrix(m, k).unwrap(), b.matrix(k, n).unwrap(), c.matrix(m, n).unwrap());
    let costs = gemm.observe(kernel, a, b, c, |module, _| Costs::new(module, kernel.entry)).unwrap();
    costs.expect("C isn't empty").total()
}

/// Units of traffic that a warp causes in one step along k.
fn per_warp_and_step(kernel: &Kernel, units: u64) -> u64 {
    let shape = (kernel.launch_shape)(SIZE, SIZE, SIZE).unwrap();
    let warps = shape.blocks() * u64::from(shape.threads_per_block()) / 32;
    let steps = (SIZE as u64).div_ceil(u64::from(kernel.tile.k));
    assert_eq!(units % (warps * steps), 0, "{}: {units} units of {warps} warps in {steps} steps", kernel.name);
    units / (warps * steps)
}

#[test]
fn uncoalesced_touches_17_sectors_for_each_multiply_add_where_naive_touches_4() {
    let (naive, uncoalesced) = (costs(&naive::KERNEL), costs(&uncoalesced::KERNEL));
    assert_eq!(per_warp_and_step(&naive::KERNEL, naive.global_loads.units), 2 + 2);
    assert_eq!(per_warp_and_step(&uncoalesced::KERNEL, uncoalesced.global_loads.units), 16 + 1);
    assert_eq!(uncoalesced.global_stores.units, 4 * naive.global_stores.units);
}

#[test]
fn a_transposed_tile_costs_288_turns_a_step_where_32_and_one_would_do_and_both_cures_take_those() {
    let turns = |kernel: &Kernel| {
        let costs = costs(kernel);
        let step = |units| per_warp_and_step(kernel, units);
        (step(costs.shared_stores.units), step(costs.shared_loads.units))
    };
    // Reads of A's tile are the same in all: 8 of 16 bytes, with two turns each.
    let reads_of_a = 8 * 2;
    assert_eq!(turns(&tiled_32::KERNEL), (1 + 1, reads_of_a + 32));
    assert_eq!(turns(&conflicted::KERNEL), (1 + 32, reads_of_a + 8 * 32));
    assert_eq!(turns(&padded::KERNEL), (1 + 1, reads_of_a + 32));
    assert_eq!(turns(&swizzled::KERNEL), (1 + 1, reads_of_a + 32));
}

#[test]
fn only_the_kernels_whose_lessons_speak_of_bank_conflicts_have_any() {
    for kernel in KERNELS {
        let costs = costs(kernel);
        let has_conflicts = costs.shared_loads.units > costs.shared_loads.ideal
            || costs.shared_stores.units > costs.shared_stores.ideal;
        let shown = ["conflicted", "vector_loads", "double_buffered"];
        assert_eq!(has_conflicts, shown.contains(&kernel.name), "{}", kernel.name);
    }
}

#[test]
fn a_tile_of_t_divides_the_bytes_from_global_memory_by_t() {
    let bytes = |kernel: &Kernel| costs(kernel).global_loads.bytes;
    let naive = bytes(&naive::KERNEL);
    assert_eq!(naive, 8 * (SIZE * SIZE * SIZE) as u64);
    for (kernel, tile) in [
        (tiled_8::KERNEL, 8),
        (tiled::KERNEL, 16),
        (tiled_32::KERNEL, 32),
        (conflicted::KERNEL, 32),
        (register_column::KERNEL, 64),
        (tiled_64::KERNEL, 64),
        (register_tile::KERNEL, 128),
        (vector_loads::KERNEL, 128),
        (double_buffered::KERNEL, 128),
        (warp_tiled::KERNEL, 128),
    ] {
        assert_eq!(bytes(&kernel) * tile, naive, "{}", kernel.name);
    }
}

#[test]
fn sixteen_outputs_per_thread_need_4_reads_of_shared_memory_where_one_each_needs_20() {
    let requests = |kernel: &Kernel| {
        let costs = costs(kernel);
        costs.shared_loads.requests as f64 / costs.warp_fma as f64
    };
    assert_eq!(requests(&tiled_64::KERNEL) * 16.0, 4.0);
    assert_eq!(requests(&tiled_32::KERNEL) * 16.0, 20.0);
}

#[test]
fn the_more_outputs_a_thread_has_the_fewer_reads_of_shared_memory_a_multiply_add_needs() {
    // Reads of a warp, and passes over the banks, for the 64 multiply-adds that 8 x 8 outputs take for one place of k.
    let for_64 = |kernel: &Kernel| {
        let costs = costs(kernel);
        let per = |count: u64| 64.0 * count as f64 / costs.warp_fma as f64;
        (per(costs.shared_loads.requests), per(costs.shared_loads.units))
    };
    assert_eq!(for_64(&register_column::KERNEL), (24.0, 40.0));
    assert_eq!(for_64(&tiled_64::KERNEL), (16.0, 24.0));
    assert_eq!(for_64(&register_tile::KERNEL), (10.0, 12.0));
    assert_eq!(for_64(&vector_loads::KERNEL), (4.0, 12.0));
    assert_eq!(for_64(&double_buffered::KERNEL), (4.0, 12.0));
    assert_eq!(for_64(&warp_tiled::KERNEL), (4.0, 8.0));
    assert_eq!(for_64(&async_copies::KERNEL), (4.0, 8.0));
    assert_eq!(for_64(&multi_stage::KERNEL), (4.0, 8.0));
    assert_eq!(for_64(&wide_tile::KERNEL), (3.0, 6.0));
}

#[test]
fn two_stages_need_one_barrier_a_step_and_one_before_the_first() {
    let steps = (SIZE / 8) as u64;
    // One block of 8 warps.
    assert_eq!(costs(&vector_loads::KERNEL).barriers, 8 * 2 * steps);
    assert_eq!(costs(&double_buffered::KERNEL).barriers, 8 * (steps + 1));
    assert_eq!(costs(&warp_tiled::KERNEL).barriers, 8 * (steps + 1));
}

#[test]
fn a_step_with_asynchronous_copies_has_one_barrier_and_a_barrier_in_halves_leaves_none() {
    let steps = |kernel: &Kernel| SIZE as u64 / u64::from(kernel.tile.k);
    for kernel in [async_copies::KERNEL, multi_stage::KERNEL, wide_tile::KERNEL] {
        assert_eq!(costs(&kernel).barriers, 8 * steps(&kernel), "{}", kernel.name);
    }
    // One shows the barrier in halves to all, before the first step.
    assert_eq!(costs(&split_barrier::KERNEL).barriers, 8);
    // 4 x 2 blocks, each with four barriers for adding up.
    assert_eq!(costs(&k_slices::KERNEL).barriers, 8 * 8 * (steps(&k_slices::KERNEL) + 4));
}

#[test]
fn copies_take_the_place_of_loads_and_stores() {
    let (through_registers, copied) = (costs(&warp_tiled::KERNEL), costs(&async_copies::KERNEL));
    let per_step = |kernel: &Kernel, units| per_warp_and_step(kernel, units);
    assert_eq!(per_step(&warp_tiled::KERNEL, through_registers.global_loads.requests), 2);
    // The first tiles are stored before the first step, and zeros after the last.
    assert_eq!(through_registers.shared_stores.requests, 8 * 5 * (SIZE as u64 / 8 + 1));

    assert_eq!((copied.global_loads.requests, copied.shared_stores.requests), (0, 0));
    assert_eq!(per_step(&async_copies::KERNEL, copied.global_copies.requests), 4 + 1);
    // What lies past the end of k is written to shared memory, as zeros, but not read.
    assert_eq!(copied.shared_copies.requests, 8 * 5 * (SIZE as u64 / 8 + 1));
    assert_eq!(copied.global_copies.bytes, through_registers.global_loads.bytes);
    // Four for A of 4 passes, whose four rows begin in one bank of the first-level cache, and one for B of 4. Zeros have no
    // source: a pass for each word of A, and 4 for B.
    assert_eq!(copied.shared_copies.units, 8 * (SIZE as u64 / 8 * (4 * 4 + 4) + (4 + 4)));
    assert_eq!(per_step(&async_copies::KERNEL, copied.shared_loads.units), 64);
    assert_eq!(costs(&multi_stage::KERNEL).shared_copies.requests, 8 * 5 * (SIZE as u64 / 8 + 3));
}

#[test]
fn a_tile_of_128_x_256_loads_three_quarters_of_what_128_x_128_loads_and_32_x_64_four_times_as_much() {
    let bytes = |kernel: &Kernel| costs_of(kernel, 2 * SIZE).global_copies.bytes;
    let wide = bytes(&wide_tile::KERNEL);
    assert_eq!(wide * 4, bytes(&multi_stage::KERNEL) * 3);
    assert_eq!(wide * 4, bytes(&k_slices::KERNEL));
    for kernel in [split_barrier::KERNEL, block_order::KERNEL] {
        assert_eq!(bytes(&kernel), wide, "{}", kernel.name);
    }
}

#[test]
fn three_stages_of_the_wide_tile_take_74_496_bytes_and_four_of_the_other_33_280() {
    assert_eq!(wide_tile::KERNEL.shared_bytes_per_block(), 74_496);
    assert_eq!(multi_stage::KERNEL.shared_bytes_per_block(), 33_280);
    assert_eq!(2 * multi_stage::KERNEL.shared_bytes_per_block(), 66_560);
}

#[test]
fn tiles_are_stored_without_conflicts_transposed_or_not() {
    for kernel in [register_column::KERNEL, register_tile::KERNEL, vector_loads::KERNEL, warp_tiled::KERNEL] {
        let stores = costs(&kernel).shared_stores;
        assert_eq!(stores.units, stores.ideal, "{}", kernel.name);
    }
}

#[test]
fn tensor_cores_do_2048_multiply_adds_an_instruction_with_8_loads_for_32_and_no_pass_in_vain() {
    // A tile, in two steps.
    let [m, n, k] = [tensor_cores::TILE_M, tensor_cores::TILE_N, 2 * tensor_cores::DEPTH];
    let costs = costs_of_sizes(&tensor_cores::KERNEL, [m, n, k]);
    assert_eq!(costs.mma_multiply_adds, (m * n * k) as u64);
    assert_eq!((costs.warp_mma, costs.warp_fma), ((m * n * k / 2048) as u64, 0));
    // Each warp loads a part ahead, and once more behind the end.
    let ahead = 8 * tensor_cores::THREADS as u64 / 32;
    assert_eq!((costs.shared_loads.requests - ahead) * 32, costs.warp_mma * 8);
    assert_eq!(costs.shared_loads.units, costs.shared_loads.ideal);
}

#[test]
fn four_stages_of_tensor_cores_take_98_304_bytes_which_every_gpu_from_8_0_on_has() {
    assert_eq!(tensor_cores::KERNEL.shared_bytes_per_block(), 98_304);
    // Those of 8.6, 8.9 and 12.0 have the least.
    assert!(tensor_cores::KERNEL.shared_bytes_per_block() <= 99 * 1024);
}

#[test]
fn a_product_of_a_warpgroup_is_64_of_a_warp_and_a_step_has_three_copies() {
    let costs = costs(&tensor_maps::KERNEL);
    let steps = (SIZE / tensor_maps::DEPTH) as u64;
    assert_eq!(costs.mma_multiply_adds, (SIZE * SIZE * SIZE) as u64);
    // Each of its four warps counts as a quarter.
    assert_eq!(costs.warp_mma, 8 * 4 * steps);
    assert_eq!(costs.mma_multiply_adds / costs.warp_mma * 4, 64 * 2048);
    assert_eq!(costs.global_copies.requests, 3 * steps);
    assert_eq!(costs.global_copies.bytes, 32_768 * steps);
    assert_eq!((costs.shared_loads.requests, costs.shared_stores.requests, costs.global_loads.requests), (0, 0, 0));
}

#[test]
fn with_a_producer_a_block_has_one_barrier_for_all_and_a_box_of_sums_has_two_of_its_warpgroup() {
    let steps = (SIZE / tensor_maps::DEPTH) as u64;
    assert_eq!(costs(&tensor_maps::KERNEL).barriers, 8 * steps);
    assert_eq!(costs(&producer::KERNEL).barriers, 12);
    assert_eq!(costs(&persistent::KERNEL).barriers, 12 + 8 * 8 * 2);
}

#[test]
fn four_stages_of_128_x_256_take_196_608_bytes_and_leave_room_for_four_boxes_of_sums() {
    let bytes = |kernel: &Kernel| kernel.shared_bytes_per_block();
    let alignment_and_barriers = 1024 + 4 * 16;
    assert_eq!(bytes(&producer::KERNEL), 196_608 + alignment_and_barriers);
    assert_eq!(bytes(&persistent::KERNEL), 196_608 + 4 * 8192 + alignment_and_barriers);
    assert!(bytes(&persistent::KERNEL) <= 232_448);
}

#[test]
fn whole_boxes_leave_without_a_pass_in_vain_and_touch_the_sectors_that_pairs_of_sums_touch() {
    let costs_of = |kernel: &Kernel| costs_of(kernel, 2 * SIZE);
    let (pairs, boxes) = (costs_of(&producer::KERNEL), costs_of(&persistent::KERNEL));
    assert_eq!(boxes.shared_stores.units, boxes.shared_stores.ideal);
    assert_eq!(boxes.global_stores.bytes, pairs.global_stores.bytes);
    // 16 boxes of a tile, and for each of 8 warps 64 pairs of each lane.
    assert_eq!((boxes.global_stores.requests, pairs.global_stores.requests), (16, 8 * 64));
}

#[test]
fn two_blocks_that_share_a_tile_of_b_fetch_a_third_less_and_their_shared_memory_gets_as_much() {
    // Two tiles one below the other, and eight steps of each.
    let costs = |kernel: &Kernel| costs_of_sizes(kernel, [256, 256, 512]);
    let (alone, together) = (costs(&persistent::KERNEL), costs(&cluster::KERNEL));
    assert_eq!((alone.global_copies.bytes, together.global_copies.bytes), (16 * 49_152, 16 * 32_768));
    assert_eq!(together.shared_copies.bytes, alone.shared_copies.bytes);
    assert_eq!(together.mma_multiply_adds, alone.mma_multiply_adds);
}
