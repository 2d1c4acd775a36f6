//! Histograms and atomic operations.

use crate::ptx;
use crate::support::values::Random;
use crate::support::{Argument, load, on_any_number_of_cores};

#[test]
fn histograms_count_every_byte() {
    let module = load(ptx!("atomics"));
    let mut random = Random::new(20);
    let input: Vec<u8> = (0..5000).map(|_| (random.below(16) * random.below(17)) as u8).collect();
    let mut want = vec![0u32; 256];
    for &byte in &input {
        want[usize::from(byte)] += 1;
    }
    for (blocks, threads) in [(1u32, 64u32), (4, 256), (3, 100)] {
        let bins: Vec<u32> = on_any_number_of_cores(|machine| {
            let (source, bins) = (machine.upload(&input), machine.upload(&[0u32; 256]));
            let arguments = [Argument::Pointer(source), Argument::Pointer(bins), Argument::U32(5000)];
            machine.launch(&module, "histogram", blocks, threads, 0, &arguments);
            machine.download(bins, 256)
        });
        assert_eq!(bins, want, "{blocks} blocks of {threads}");
    }
}

#[test]
fn float_histograms_add_whole_numbers_exactly() {
    let module = load(ptx!("atomics"));
    let mut random = Random::new(21);
    let input: Vec<u8> = (0..2000).map(|_| random.next() as u8).collect();
    let weights: Vec<f32> = (0..2000).map(|i| (i % 100) as f32 - 20.0).collect();
    let mut want = vec![0f32; 64];
    for (&byte, weight) in input.iter().zip(&weights) {
        want[usize::from(byte & 63)] += weight;
    }
    let bins: Vec<f32> = on_any_number_of_cores(|machine| {
        let (source, weights) = (machine.upload(&input), machine.upload(&weights));
        let bins = machine.upload(&[0f32; 64]);
        let mut arguments = [source, weights, bins].map(Argument::Pointer).to_vec();
        arguments.push(Argument::U32(2000));
        machine.launch(&module, "weighted_histogram", 3, 128, 0, &arguments);
        machine.download(bins, 64)
    });
    assert_eq!(bins, want);
}

#[test]
fn compare_and_swap_loops_and_double_additions() {
    let module = load(ptx!("atomics"));
    let mut random = Random::new(22);
    let input: Vec<f64> = (0..1000).map(|_| f64::from(random.unit()) * 1e6).collect();
    let highest = input.iter().copied().fold(f64::MIN, f64::max);
    let got: Vec<f64> = on_any_number_of_cores(|machine| {
        let (source, result) = (machine.upload(&input), machine.upload(&[f64::MIN]));
        let arguments = [Argument::Pointer(source), Argument::Pointer(result), Argument::U32(1000)];
        machine.launch(&module, "maximum_by_cas", 5, 64, 0, &arguments);
        machine.download(result, 1)
    });
    assert_eq!(got, [highest]);

    let whole: Vec<f64> = (0..777).map(|i| f64::from(i) * 3.0).collect();
    let got: Vec<f64> = on_any_number_of_cores(|machine| {
        let (source, result) = (machine.upload(&whole), machine.upload(&[0.5f64]));
        let arguments = [Argument::Pointer(source), Argument::Pointer(result), Argument::U32(777)];
        machine.launch(&module, "double_sum", 9, 96, 0, &arguments);
        machine.download(result, 1)
    });
    assert_eq!(got, [0.5 + whole.iter().sum::<f64>()]);
}

/// The eleven results of the integer atomics after `values`, from `start`.
fn integer_results(start: [u32; 11], values: &[i32]) -> [u32; 11] {
    let mut words = start;
    for &value in values {
        let unsigned = value as u32;
        words[0] = words[0].wrapping_add(unsigned);
        words[1] = words[1].wrapping_sub(unsigned);
        words[2] = (words[2] as i32).max(value) as u32;
        words[3] = (words[3] as i32).min(value) as u32;
        words[4] = words[4].max(unsigned);
        words[5] = words[5].min(unsigned);
        words[6] &= unsigned | 0x0ff0;
        words[7] |= unsigned & 0xf0f0_f0f0;
        words[8] ^= unsigned;
        words[9] = if words[9] >= 12 { 0 } else { words[9] + 1 };
        words[10] = if words[10] == 0 || words[10] > 9 { 9 } else { words[10] - 1 };
    }
    words
}

#[test]
fn every_integer_operation_on_global_and_shared_memory() {
    let module = load(ptx!("atomics"));
    let mut random = Random::new(23);
    let values: Vec<i32> = (0..400).map(|_| random.next() as i32).collect();
    let start = [5, 6, 0x8000_0000, 0x7fff_ffff, 0, u32::MAX, u32::MAX, 0, 0x1234, 3, 4];
    for (blocks, threads) in [(1u32, 416u32), (5, 96)] {
        let got: Vec<u32> = on_any_number_of_cores(|machine| {
            let (source, results) = (machine.upload(&values), machine.upload(&[start, start].concat()));
            let arguments = [Argument::Pointer(source), Argument::Pointer(results), Argument::U32(400)];
            machine.launch(&module, "all_integer_atomics", blocks, threads, 0, &arguments);
            machine.download(results, 22)
        });
        assert_eq!(got[..11], integer_results(start, &values), "global, {blocks} blocks");
        // Block 0 alone writes its shared results back; another block may have read those as its start, so compare one
        // block only.
        let of_first_block = &values[..values.len().min(threads as usize)];
        if blocks == 1 {
            assert_eq!(got[11..], integer_results(start, of_first_block), "shared, {blocks} blocks");
        }
    }
}

#[test]
fn every_64_bit_operation() {
    let module = load(ptx!("atomics"));
    let mut random = Random::new(24);
    let values: Vec<i64> = (0..300).map(|_| random.next() as i64).collect();
    let start = [9u64, i64::MIN as u64, i64::MAX as u64, 0, u64::MAX, u64::MAX, 0, 77];
    let got: Vec<u64> = on_any_number_of_cores(|machine| {
        let (source, results) = (machine.upload(&values), machine.upload(&start));
        let arguments = [Argument::Pointer(source), Argument::Pointer(results), Argument::U32(300)];
        machine.launch(&module, "all_long_atomics", 4, 80, 0, &arguments);
        machine.download(results, 8)
    });
    let mut want = start;
    for &value in &values {
        let unsigned = value as u64;
        want[0] = want[0].wrapping_add(unsigned);
        want[1] = (want[1] as i64).max(value) as u64;
        want[2] = (want[2] as i64).min(value) as u64;
        want[3] = want[3].max(unsigned);
        want[4] = want[4].min(unsigned);
        want[5] &= unsigned | 0xffff_0000;
        want[6] |= unsigned & 0xf0f0_f0f0_f0f0_f0f0;
        want[7] ^= unsigned;
    }
    assert_eq!(got, want);
}

#[test]
fn tickets_are_a_permutation_and_exchanges_lose_nothing() {
    let module = load(ptx!("atomics"));
    let threads = 3 * 96usize;
    let got: Vec<u32> = on_any_number_of_cores(|machine| {
        let (counter, slot) = (machine.upload(&[0u32]), machine.upload(&[0u32]));
        let (tickets, received) = (machine.upload(&vec![0u32; threads]), machine.upload(&vec![0u32; threads]));
        let arguments = [counter, tickets, slot, received].map(Argument::Pointer);
        machine.launch(&module, "tickets_and_exchange", 3, 96, 0, &arguments);
        let mut all = machine.download::<u32>(tickets, threads);
        all.extend(machine.download::<u32>(received, threads));
        all.extend(machine.download::<u32>(slot, 1));
        all
    });
    let mut tickets = got[..threads].to_vec();
    tickets.sort_unstable();
    assert_eq!(tickets, (0..threads as u32).collect::<Vec<_>>());
    let mut exchanged = got[threads..].to_vec();
    exchanged.sort_unstable();
    assert_eq!(exchanged, (0..=threads as u32).collect::<Vec<_>>());
}
