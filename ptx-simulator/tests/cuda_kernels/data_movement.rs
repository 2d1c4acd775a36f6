//! Transposes, vector copies, three-dimensional grids.

use crate::ptx;
use crate::support::{Argument, load, on_any_number_of_cores};

#[test]
fn padded_tiles_transpose_any_rectangle() {
    let module = load(ptx!("transpose"));
    for (width, height, rows) in [(32usize, 32usize, 8u32), (45, 70, 8), (1, 100, 16), (64, 33, 32)] {
        let input: Vec<f32> = (0..width * height).map(|i| i as f32).collect();
        let got: Vec<f32> = on_any_number_of_cores(|machine| {
            let (source, output) = (machine.upload(&input), machine.upload(&vec![-1f32; width * height]));
            let arguments = [
                Argument::Pointer(source),
                Argument::Pointer(output),
                Argument::I32(width as i32),
                Argument::I32(height as i32),
            ];
            let grid = ((width as u32).div_ceil(32), (height as u32).div_ceil(32));
            machine.launch(&module, "transpose_padded", grid, (32, rows), 0, &arguments);
            machine.download(output, width * height)
        });
        let want: Vec<f32> = (0..width * height).map(|i| input[i % height * width + i / height]).collect();
        assert_eq!(got, want, "{width} x {height}");
    }
}

#[test]
fn vector_types_copy_swap_and_widen() {
    let module = load(ptx!("transpose"));
    let count = 75usize;
    let floats: Vec<f32> = (0..4 * count).map(|i| i as f32 * 0.75 - 50.0).collect();
    let got: Vec<f32> = on_any_number_of_cores(|machine| {
        let (source, output) = (machine.upload(&floats), machine.upload(&vec![0f32; 4 * count]));
        let arguments =
            [Argument::Pointer(source), Argument::Pointer(output), Argument::F32(1.1), Argument::I32(count as i32)];
        machine.launch(&module, "scale_float4", 3, 32, 0, &arguments);
        machine.download(output, 4 * count)
    });
    assert_eq!(got, floats.iter().map(|value| value * 1.1).collect::<Vec<_>>());

    let doubles: Vec<f64> = (0..2 * count).map(|i| 1.0 / (i as f64 + 1.0)).collect();
    let got: Vec<f64> = on_any_number_of_cores(|machine| {
        let (source, output) = (machine.upload(&doubles), machine.upload(&vec![0f64; 2 * count]));
        let arguments = [Argument::Pointer(source), Argument::Pointer(output), Argument::I32(count as i32)];
        machine.launch(&module, "swap_double2", 1, 96, 0, &arguments);
        machine.download(output, 2 * count)
    });
    assert_eq!(got, (0..2 * count).map(|i| doubles[i ^ 1]).collect::<Vec<_>>());

    let bytes: Vec<i8> = (0..4 * count).map(|i| (i * 7) as i8).collect();
    let got: Vec<i8> = on_any_number_of_cores(|machine| {
        let (source, output) = (machine.upload(&bytes), machine.upload(&vec![0i8; 4 * count]));
        let arguments = [Argument::Pointer(source), Argument::Pointer(output), Argument::I32(count as i32)];
        machine.launch(&module, "reverse_char4", 2, 64, 0, &arguments);
        machine.download(output, 4 * count)
    });
    assert_eq!(got, (0..4 * count).map(|i| bytes[i ^ 3]).collect::<Vec<_>>());

    let shorts: Vec<i16> = (0..2 * count).map(|i| (i as i32 * 1111) as i16).collect();
    let got: Vec<i32> = on_any_number_of_cores(|machine| {
        let (source, output) = (machine.upload(&shorts), machine.upload(&vec![0i32; count]));
        let arguments = [Argument::Pointer(source), Argument::Pointer(output), Argument::I32(count as i32)];
        machine.launch(&module, "sum_short2", 2, 64, 0, &arguments);
        machine.download(output, count)
    });
    assert_eq!(got, shorts.chunks(2).map(|pair| i32::from(pair[0]) + i32::from(pair[1])).collect::<Vec<_>>());

    let unsigned: Vec<u8> = (0..count).map(|i| (i * 13) as u8).collect();
    let got: Vec<i64> = on_any_number_of_cores(|machine| {
        let (narrow, wide) = (machine.upload(&bytes[..count]), machine.upload(&unsigned));
        let output = machine.upload(&vec![0i64; count]);
        let mut arguments = [narrow, wide, output].map(Argument::Pointer).to_vec();
        arguments.push(Argument::I32(count as i32));
        machine.launch(&module, "widen_bytes", 1, 96, 0, &arguments);
        machine.download(output, count)
    });
    assert_eq!(got, (0..count).map(|i| i64::from(bytes[i]) * 1000 + i64::from(unsigned[i])).collect::<Vec<_>>());
}

#[test]
fn every_thread_of_a_three_dimensional_grid_knows_where_it_is() {
    let module = load(ptx!("transpose"));
    for (grid, block) in
        [([2u32, 3, 4], [4u32, 2, 3]), ([1, 1, 1], [1, 1, 1]), ([5, 1, 2], [33, 1, 2]), ([1, 2, 1], [8, 8, 8])]
    {
        let extent = [0, 1, 2].map(|axis| grid[axis] * block[axis]);
        let count = extent.iter().product::<u32>() as usize;
        let got: Vec<u64> = on_any_number_of_cores(|machine| {
            let output = machine.upload(&vec![u64::MAX; count]);
            machine.launch(&module, "where_am_i", grid, block, 0, &[Argument::Pointer(output)]);
            machine.download(output, count)
        });
        for (index, &code) in got.iter().enumerate() {
            let index = index as u32;
            let place = [index % extent[0], index / extent[0] % extent[1], index / extent[0] / extent[1]];
            let pack = |of: [u32; 3]| u64::from(of[0] | of[1] << 8 | of[2] << 16);
            let thread = pack([0, 1, 2].map(|axis| place[axis] % block[axis]));
            let block = pack([0, 1, 2].map(|axis| place[axis] / block[axis]));
            assert_eq!(code, thread | block << 32, "place {place:?}");
        }
    }
}
