//! Device functions with structures, results through pointers, and divergent calls.

use crate::ptx;
use crate::support::values::Random;
use crate::support::{Argument, load, on_any_number_of_cores};

#[test]
fn structures_are_passed_and_returned() {
    let module = load(ptx!("calls"));
    let input: Vec<f64> = (0..140).map(|i| f64::from(i - 70) * 0.03125).collect();
    let got: Vec<f64> = on_any_number_of_cores(|machine| {
        let (source, output) = (machine.upload(&input), machine.upload(&[0f64; 140]));
        let arguments = [Argument::Pointer(source), Argument::Pointer(output), Argument::I32(70)];
        machine.launch(&module, "complex_power", 3, 32, 0, &arguments);
        machine.download(output, 140)
    });
    for i in 0..70 {
        let mut want = (1.0f64, 0.0f64);
        for _ in 0..i % 9 {
            let (re, im) = (input[2 * i], input[2 * i + 1]);
            want = (want.0 * re - want.1 * im, want.0 * im + want.1 * re);
        }
        let scale = 1e-12 * (1.0 + want.0.abs() + want.1.abs());
        assert!((got[2 * i] - want.0).abs() < scale && (got[2 * i + 1] - want.1).abs() < scale, "element {i}");
    }
}

#[test]
fn a_structure_of_mixed_types_is_a_kernel_parameter() {
    let module = load(ptx!("calls"));
    // struct Mixed: char, short, int, three floats, padding, long long.
    let mut bytes = vec![0u8; 32];
    bytes[0] = 100;
    bytes[2..4].copy_from_slice(&(-5i16).to_le_bytes());
    bytes[4..8].copy_from_slice(&1_000_000i32.to_le_bytes());
    for (k, weight) in [1.5f32, -2.0, 64.0].into_iter().enumerate() {
        bytes[8 + 4 * k..][..4].copy_from_slice(&weight.to_le_bytes());
    }
    bytes[24..].copy_from_slice(&(-77_777_777_777i64).to_le_bytes());
    let got: Vec<i64> = on_any_number_of_cores(|machine| {
        let output = machine.upload(&[0i64; 80]);
        machine.launch(&module, "structs_by_value", 2, 40, 0, &[Argument::Bytes(&bytes), Argument::Pointer(output)]);
        machine.download(output, 80)
    });
    let want: Vec<i64> = (0..80i64)
        .map(|i| {
            let by = i % 5;
            let mut weights = [1.5f32, -2.0, 64.0];
            weights[(by % 3) as usize] += 8.0;
            let sum = (weights[0] + weights[1] * 2.0 + weights[2] * 4.0) as i64;
            101 * 3 + (-5 - by) * 5 + (1_000_000 + i) * 7 + sum + 77_777_777_777
        })
        .collect();
    assert_eq!(got, want);
}

#[test]
fn results_come_back_through_pointers_to_local_variables() {
    let module = load(ptx!("calls"));
    let mut random = Random::new(90);
    let input: Vec<i32> = (0..64 * 9).map(|_| random.next() as i32 / 4).collect();
    let got: Vec<i32> = on_any_number_of_cores(|machine| {
        let (source, output) = (machine.upload(&input), machine.upload(&[0i32; 64]));
        let arguments = [Argument::Pointer(source), Argument::Pointer(output), Argument::I32(9)];
        machine.launch(&module, "out_parameters", 2, 32, 0, &arguments);
        machine.download(output, 64)
    });
    let want: Vec<i32> =
        input.chunks(9).map(|row| row.iter().max().expect("nine") - row.iter().min().expect("nine")).collect();
    assert_eq!(got, want);
}

#[test]
fn lanes_call_one_function_from_different_places() {
    let module = load(ptx!("calls"));
    let got: Vec<u32> = on_any_number_of_cores(|machine| {
        let output = machine.upload(&[0u32; 150]);
        machine.launch(&module, "divergent_calls", 3, 50, 0, &[Argument::Pointer(output)]);
        machine.download(output, 150)
    });
    let is_prime = |n: u32| n >= 2 && (2..).take_while(|d| d * d <= n).all(|d: u32| !n.is_multiple_of(d));
    let want: Vec<u32> = (0..150)
        .map(|i| match i % 3 {
            0 => (i..i + 20).filter(|&n| is_prime(n)).count() as u32,
            1 if is_prime(i * i + 1) => 100,
            1 => 200,
            _ => u32::from(is_prime(i)) + 2 * u32::from(is_prime(i + 2)),
        })
        .collect();
    assert_eq!(got, want);
}
