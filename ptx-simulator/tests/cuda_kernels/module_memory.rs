//! Constants, module variables, local arrays, generic pointers.

use crate::ptx;
use crate::support::values::Random;
use crate::support::{Argument, load, on_any_number_of_cores};

#[test]
fn constants_with_initialisers() {
    let module = load(ptx!("memory"));
    let input: Vec<f32> = (0..70).map(|i| i as f32 * 0.37 - 9.0).collect();
    let got: Vec<f32> = on_any_number_of_cores(|machine| {
        let (source, output) = (machine.upload(&input), machine.upload(&[0f32; 70]));
        let arguments = [Argument::Pointer(source), Argument::Pointer(output), Argument::I32(70)];
        machine.launch(&module, "polynomial", 3, 32, 0, &arguments);
        machine.download(output, 70)
    });
    for (i, &x) in input.iter().enumerate() {
        let value = [2.0f32, 0.25, -0.5, 1.0].into_iter().fold(0.0f32, |value, c| value.mul_add(x, c));
        assert_eq!(got[i].to_bits(), (value + [10.0, 20.0, 30.0][i % 3]).to_bits(), "element {i}");
    }
}

#[test]
fn module_variables_start_initialised_and_keep_what_kernels_write() {
    let module = load(ptx!("memory"));
    let got: Vec<i32> = on_any_number_of_cores(|machine| {
        let output = machine.upload(&[0i32; 33]);
        let mut all = Vec::new();
        machine.launch(&module, "read_globals", 1, 32, 0, &[Argument::Pointer(output)]);
        all.extend(machine.download::<i32>(output, 32));
        machine.launch(&module, "write_globals", 1, 32, 0, &[Argument::I32(500)]);
        machine.launch(&module, "read_globals", 1, 32, 0, &[Argument::Pointer(output)]);
        all.extend(machine.download::<i32>(output, 32));
        all
    });
    let text = b"PTX runs here";
    let read = |table: [i32; 8]| {
        (0..32usize).map(move |i| table[i % 8] + 3 + i32::from(text[i % 13]) + table[2 + i % 4]).collect::<Vec<_>>()
    };
    assert_eq!(got[..32], read([3, 1, 4, 1, 5, 9, 2, 6]));
    assert_eq!(got[32..], read([500, 501, 502, 503, 504, 505, 506, 507]));
}

#[test]
fn arrays_in_local_memory_sort_with_run_time_indices() {
    let module = load(ptx!("memory"));
    let mut random = Random::new(80);
    for length in [1usize, 7, 24] {
        let input: Vec<i32> = (0..96 * length).map(|_| random.next() as i32 % 50).collect();
        let got: Vec<i32> = on_any_number_of_cores(|machine| {
            let (source, output) = (machine.upload(&input), machine.upload(&vec![0i32; 96 * length]));
            let arguments = [Argument::Pointer(source), Argument::Pointer(output), Argument::I32(length as i32)];
            machine.launch(&module, "sort_local", 3, 32, 0, &arguments);
            machine.download(output, 96 * length)
        });
        let mut want = input;
        want.chunks_mut(length).for_each(<[i32]>::sort_unstable);
        assert_eq!(got, want, "length {length}");
    }
}

#[test]
fn one_function_reads_global_shared_and_local_memory() {
    let module = load(ptx!("memory"));
    let input: Vec<i32> = (0..32).map(|i| i * i + 1).collect();
    let got: Vec<i32> = on_any_number_of_cores(|machine| {
        let (source, output) = (machine.upload(&input), machine.upload(&[0i32; 32]));
        machine.launch(&module, "generic_pointers", 1, 32, 0, &[source, output].map(Argument::Pointer));
        machine.download(output, 32)
    });
    let want: Vec<i32> = (0..32usize)
        .map(|i| match i % 3 {
            0 => input[..1 + i % 7].iter().sum::<i32>() + 3000,
            1 => input[..1 + i % 7].iter().map(|value| value * 2).sum::<i32>() + 1000,
            _ => 5 * input[i] + 10 + 2000,
        })
        .collect();
    assert_eq!(got, want);
}
