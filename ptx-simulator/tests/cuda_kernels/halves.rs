//! f16 and bf16 through CUDA's own headers.

use crate::ptx;
use crate::support::values::{Random, bf16_from, bf16s, f16_from, f16s, f32s, pairs, triples};
use crate::support::{Argument, Plain, elements_of, load, on_any_number_of_cores};
use half::{bf16, f16};

/// Same bits, or both NaN: the headers' emulation for old targets has NaNs of its own.
fn same(got: u16, want: u16, is_nan: fn(u16) -> bool) -> bool {
    got == want || is_nan(got) && is_nan(want)
}

fn f16_is_nan(bits: u16) -> bool {
    f16::from_bits(bits).is_nan()
}

fn bf16_is_nan(bits: u16) -> bool {
    bf16::from_bits(bits).is_nan()
}

#[test]
fn half_arithmetic_rounds_once_per_operation() {
    let module = load(ptx!("halves"));
    let (a, b, c) = triples(&f16s(), &f16s(), &f16s());
    let count = a.len();
    let got: Vec<f16> = on_any_number_of_cores(|machine| {
        let (x, y, z) = (machine.upload(&a), machine.upload(&b), machine.upload(&c));
        let output = machine.upload(&vec![f16::ZERO; 8 * count]);
        let mut arguments = [x, y, z, output].map(Argument::Pointer).to_vec();
        arguments.push(Argument::I32(count as i32));
        machine.launch(&module, "half_arithmetic", (count as u32).div_ceil(128), 128, 0, &arguments);
        machine.download(output, 8 * count)
    });
    for (i, values) in got.chunks(8).enumerate() {
        let (x, y, z) = (a[i].to_f64(), b[i].to_f64(), c[i].to_f64());
        // A product of halves and one more half fit a double but for a rest far below the half's last bit.
        let fused = x * y + z;
        let whole = if y.is_nan() { 0 } else { y.round_ties_even() as i32 };
        let want = [
            f16_from(x + y),
            f16_from(x - y),
            f16_from(x * y),
            f16_from(fused),
            f16::from_bits(a[i].to_bits() ^ 0x8000),
            f16::from_bits(b[i].to_bits() & 0x7fff),
            if x < y { a[i] } else { b[i] },
            f16::from_f32((x as f32).mul_add(3.0, whole as f32)),
        ];
        for (k, (got, want)) in values.iter().zip(want).enumerate() {
            assert!(
                same(got.to_bits(), want.to_bits(), f16_is_nan),
                "result {k} of {x}, {y}, {z}: {got} instead of {want}"
            );
        }
    }
}

#[test]
fn pairs_of_halves_scale_and_sum() {
    let module = load(ptx!("halves"));
    let mut random = Random::new(70);
    let count = 150usize;
    let draw = |random: &mut Random, count: usize| -> Vec<f16> {
        (0..count).map(|_| f16::from_f32(random.unit() * 4.0)).collect()
    };
    let (x, y) = (draw(&mut random, 2 * count), draw(&mut random, 2 * count));
    let factor = [f16::from_f32(1.3), f16::from_f32(-0.7)];
    let factor_bytes: Vec<u8> = factor.iter().flat_map(|half| half.to_le_bytes()).collect();
    let got: Vec<f16> = on_any_number_of_cores(|machine| {
        let (source, target) = (machine.upload(&x), machine.upload(&y));
        let arguments = [
            Argument::Bytes(&factor_bytes),
            Argument::Pointer(source),
            Argument::Pointer(target),
            Argument::I32(count as i32),
        ];
        machine.launch(&module, "half2_axpy", 3, 64, 0, &arguments);
        machine.download(target, 2 * count)
    });
    for i in 0..2 * count {
        let want = f16_from(factor[i % 2].to_f64() * x[i].to_f64() + y[i].to_f64());
        assert_eq!(got[i].to_bits(), want.to_bits(), "element {i}");
    }

    let (rows, length) = (5usize, 60usize);
    let got: Vec<f32> = on_any_number_of_cores(|machine| {
        let (a, b) = (machine.upload(&x[..rows * length]), machine.upload(&y[..rows * length]));
        let output = machine.upload(&vec![0f32; rows]);
        let mut arguments = [a, b, output].map(Argument::Pointer).to_vec();
        arguments.push(Argument::I32(length as i32 / 2));
        machine.launch(&module, "half_dot", rows as u32, 32, 0, &arguments);
        machine.download(output, rows)
    });
    for (row, got) in got.iter().enumerate() {
        let range = row * length..(row + 1) * length;
        let want: f64 = x[range.clone()].iter().zip(&y[range]).map(|(a, b)| a.to_f64() * b.to_f64()).sum();
        assert!((f64::from(*got) - want).abs() < 1e-3, "row {row}: {got} instead of {want}");
    }
}

#[test]
fn pairs_of_halves_compare_and_swap() {
    let module = load(ptx!("halves"));
    let (a, b) = pairs(&f16s(), &f16s());
    let count = a.len() / 2;
    let got: Vec<u32> = on_any_number_of_cores(|machine| {
        let (x, y) = (machine.upload(&a), machine.upload(&b));
        let output = machine.upload(&vec![0u32; 3 * count]);
        let mut arguments = [x, y, output].map(Argument::Pointer).to_vec();
        arguments.push(Argument::I32(count as i32));
        machine.launch(&module, "half2_compare", (count as u32).div_ceil(96), 96, 0, &arguments);
        machine.download(output, 3 * count)
    });
    for (i, words) in got.chunks(3).enumerate() {
        let (a, b) = (&a[2 * i..][..2], &b[2 * i..][..2]);
        let mask = |k: usize| if a[k] > b[k] { 0xffffu32 } else { 0 };
        let swapped = u32::from(a[0].to_bits()) << 16 | u32::from(a[1].to_bits());
        assert_eq!(words, [mask(1) << 16 | mask(0), u32::from(a[0] == b[0] && a[1] == b[1]), swapped], "pair {i}");
    }
}

#[test]
fn bfloat16_rounds_to_nearest_even_also_where_it_is_emulated() {
    let module = load(ptx!("halves"));
    let mut random = Random::new(71);
    let mut input = f32s();
    input.extend((0..200).map(|_| f32::from_bits(random.next() as u32)));
    input.extend([1.0 + 1.0 / 256.0, 1.0 + 3.0 / 256.0, 3.3895314e38, 3.4e38, 1e-40]);
    let count = input.len();
    let got: Vec<u8> = on_any_number_of_cores(|machine| {
        let source = machine.upload(&input);
        let rounded = machine.upload(&vec![bf16::ZERO; count]);
        let widened = machine.upload(&vec![0f32; count]);
        let mut arguments = [source, rounded, widened].map(Argument::Pointer).to_vec();
        arguments.push(Argument::I32(count as i32));
        machine.launch(&module, "bfloat_round_trip", (count as u32).div_ceil(64), 64, 0, &arguments);
        let mut bytes = machine.download::<u8>(rounded, 2 * count);
        bytes.extend(machine.download::<u8>(widened, 4 * count));
        bytes
    });
    let rounded: Vec<bf16> = elements_of(&got[..2 * count]);
    let widened: Vec<f32> = elements_of(&got[2 * count..]);
    for i in 0..count {
        let want = bf16::from_f32(input[i]);
        assert!(same(rounded[i].to_bits(), want.to_bits(), bf16_is_nan), "{:e} gives {}", input[i], rounded[i]);
        assert_eq!(widened[i].to_bits(), u32::from(rounded[i].to_bits()) << 16);
    }
}

/// Runs a kernel over pairs `a`, `b` with `results` elements each.
fn over_pairs<T: Plain>(ptx: &str, kernel: &str, a: &[T], b: &[T], per_element: usize, results: usize) -> Vec<T> {
    let module = load(ptx);
    let count = a.len() / per_element;
    on_any_number_of_cores(|machine| {
        let (x, y) = (machine.upload(a), machine.upload(b));
        let output = machine.upload(&a.iter().copied().cycle().take(results * a.len()).collect::<Vec<T>>());
        let mut arguments = [x, y, output].map(Argument::Pointer).to_vec();
        arguments.push(Argument::I32(count as i32));
        machine.launch(&module, kernel, (count as u32).div_ceil(96), 96, 0, &arguments);
        machine.download(output, results * a.len())
    })
}

#[test]
fn bfloat16_arithmetic_where_it_is_emulated() {
    let (a, b) = pairs(&bf16s(), &bf16s());
    let got = over_pairs(ptx!("halves"), "bfloat_arithmetic", &a, &b, 1, 3);
    for (i, values) in got.chunks(3).enumerate() {
        let (x, y) = (a[i].to_f64(), b[i].to_f64());
        let greater = match (a[i].is_nan(), b[i].is_nan()) {
            (true, _) => b[i],
            (_, true) => a[i],
            _ if x == y => bf16::from_bits(a[i].to_bits() & b[i].to_bits()),
            _ => bf16::max(a[i], b[i]),
        };
        // The emulation is a single-precision operation that is rounded once more: exact for these sums and products.
        let want = [bf16::from_f32((x + y) as f32), bf16::from_f32((x * y) as f32), greater];
        for (k, (got, want)) in values.iter().zip(want).enumerate() {
            assert!(same(got.to_bits(), want.to_bits(), bf16_is_nan), "result {k} of {x:e}, {y:e}: {got} not {want}");
        }
    }
}

#[test]
fn native_pairs_of_halves() {
    let (a, b) = pairs(&f16s(), &f16s());
    let even = a.len() / 2 * 2;
    let (a, b) = (&a[..even], &b[..even]);
    let got = over_pairs(ptx!("halves_sm90"), "half2_all", a, b, 2, 6);
    for (i, values) in got.chunks(12).enumerate() {
        for k in 0..2 {
            let (x, y) = (a[2 * i + k], b[2 * i + k]);
            let (wide_x, wide_y) = (x.to_f64(), y.to_f64());
            let equal = x == y;
            let lesser = if equal { f16::from_bits(x.to_bits() | y.to_bits()) } else { pick(x, y, f16::min(x, y)) };
            let greater = if equal { f16::from_bits(x.to_bits() & y.to_bits()) } else { pick(x, y, f16::max(x, y)) };
            let fused = f16_from(wide_x * wide_y + wide_x);
            let want = [
                f16_from(wide_x + wide_y),
                f16_from(wide_x * wide_y),
                greater,
                lesser,
                f16::from_bits(x.to_bits() ^ 0x8000),
                if fused.is_nan() || fused > f16::ZERO { fused } else { f16::ZERO },
            ];
            for (result, want) in want.into_iter().enumerate() {
                let got = values[2 * result + k];
                assert!(
                    same(got.to_bits(), want.to_bits(), f16_is_nan),
                    "result {result} of {x}, {y}: {got} instead of {want}"
                );
            }
        }
    }
}

/// A NaN loses against a number.
fn pick(x: f16, y: f16, otherwise: f16) -> f16 {
    match (x.is_nan(), y.is_nan()) {
        (true, _) => y,
        (_, true) => x,
        _ => otherwise,
    }
}

#[test]
fn native_pairs_of_bfloats() {
    let values: Vec<bf16> = bf16s().into_iter().filter(|value| !value.is_nan()).collect();
    let (a, b) = pairs(&values, &values);
    let even = a.len() / 2 * 2;
    let (a, b) = (&a[..even], &b[..even]);
    let got = over_pairs(ptx!("halves_sm90"), "bfloat2_all", a, b, 2, 6);
    for (i, results) in got.chunks(12).enumerate() {
        for k in 0..2 {
            let (x, y) = (a[2 * i + k], b[2 * i + k]);
            let equal = x == y;
            let factor = if k == 0 { 1.5f32 } else { 0.3 };
            let scaled = if k == 0 { a[2 * i].to_f32() } else { b[2 * i + 1].to_f32() } * factor;
            let want = [
                bf16::from_f32((x.to_f64() + y.to_f64()) as f32),
                bf16::from_f32((x.to_f64() * y.to_f64()) as f32),
                if equal { bf16::from_bits(x.to_bits() & y.to_bits()) } else { bf16::max(x, y) },
                if equal { bf16::from_bits(x.to_bits() | y.to_bits()) } else { bf16::min(x, y) },
                bf16::from_bits(x.to_bits() & 0x7fff),
                bf16::from_f32(scaled),
            ];
            for (result, want) in want.into_iter().enumerate() {
                let got = results[2 * result + k];
                assert!(
                    same(got.to_bits(), want.to_bits(), bf16_is_nan),
                    "result {result} of {x}, {y}: {got} instead of {want}"
                );
            }
        }
    }
}

#[test]
fn native_bfloat16_multiply_add() {
    let module = load(ptx!("warps_sm80"));
    let mut random = Random::new(72);
    let count = 200usize;
    let draw =
        |random: &mut Random| -> Vec<bf16> { (0..2 * count).map(|_| bf16::from_f32(random.unit() * 10.0)).collect() };
    let (a, b, c) = (draw(&mut random), draw(&mut random), draw(&mut random));
    for (kernel, elements, relu) in [("bfloat_fma", 2 * count, false), ("bfloat2_fma_relu", count, true)] {
        let got: Vec<bf16> = on_any_number_of_cores(|machine| {
            let (x, y, z) = (machine.upload(&a), machine.upload(&b), machine.upload(&c));
            let mut arguments = [x, y, z].map(Argument::Pointer).to_vec();
            arguments.push(Argument::I32(elements as i32));
            machine.launch(&module, kernel, 4, 128, 0, &arguments);
            machine.download(z, 2 * count)
        });
        for i in 0..2 * count {
            // Eight-bit significands of like size: the double holds the exact result.
            let exact = a[i].to_f64() * b[i].to_f64() + c[i].to_f64();
            let want = bf16_from(if relu { exact.max(0.0) } else { exact });
            assert_eq!(got[i].to_bits(), want.to_bits(), "{kernel}, element {i}");
        }
    }
}
