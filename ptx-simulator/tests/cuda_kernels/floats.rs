//! Floating point: bit for bit where IEEE 754 says so, within the documented error elsewhere.

use crate::ptx;
use crate::support::values::{Random, f32s, f64s, pairs, triples};
use crate::support::{Argument, load, on_any_number_of_cores};

fn same_single(got: f32, want: f32) -> bool {
    got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan()
}

fn same_double(got: f64, want: f64) -> bool {
    got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan()
}

/// fminf and fmaxf: a NaN loses; which zero is less is fixed, too.
fn lesser(x: f32, y: f32) -> f32 {
    if x == y { f32::from_bits(x.to_bits() | y.to_bits()) } else { x.min(y) }
}

fn greater(x: f32, y: f32) -> f32 {
    if x == y { f32::from_bits(x.to_bits() & y.to_bits()) } else { x.max(y) }
}

#[test]
fn single_precision_is_exact_where_ieee_754_says_so() {
    let module = load(ptx!("floats"));
    let (a, b, c) = triples(&f32s(), &f32s(), &f32s());
    let count = a.len();
    let got: Vec<f32> = on_any_number_of_cores(|machine| {
        let (x, y, z) = (machine.upload(&a), machine.upload(&b), machine.upload(&c));
        let output = machine.upload(&vec![0f32; 10 * count]);
        let mut arguments = [x, y, z, output].map(Argument::Pointer).to_vec();
        arguments.push(Argument::I32(count as i32));
        machine.launch(&module, "exact_floats", (count as u32).div_ceil(256), 256, 0, &arguments);
        machine.download(output, 10 * count)
    });
    for (i, values) in got.chunks(10).enumerate() {
        let (x, y, z) = (a[i], b[i], c[i]);
        let want = [
            x + y,
            x * y,
            x.mul_add(y, z),
            x / y,
            x.sqrt(),
            1.0 / y,
            lesser(x, y),
            greater(y, z),
            x.round_ties_even() + y.trunc() + z.floor() + x.ceil(),
            x.copysign(y) * z.abs(),
        ];
        for (k, (&got, want)) in values.iter().zip(want).enumerate() {
            assert!(same_single(got, want), "result {k} of {x:e}, {y:e}, {z:e}: {got:e} instead of {want:e}");
        }
    }
}

/// The result in a directed mode, from bounds that a double gives: `exact` is the true value rounded to double,
/// `rest` has the sign of what that rounding lost.
fn directed(mode: char, exact: f64, rest: f64) -> f32 {
    let nearest = exact as f32;
    if exact.is_infinite() || nearest.is_nan() {
        return nearest;
    }
    let beside = exact - f64::from(nearest);
    let side = if beside == 0.0 { rest } else { beside };
    match mode {
        'd' if side < 0.0 => nearest.next_down(),
        'u' if side > 0.0 => nearest.next_up(),
        'z' if side < 0.0 && exact > 0.0 => nearest.next_down(),
        'z' if side > 0.0 && exact < 0.0 => nearest.next_up(),
        _ => nearest,
    }
}

#[test]
fn directed_rounding_modes() {
    let module = load(ptx!("floats"));
    let mut random = Random::new(60);
    // Of like magnitude, so that a double holds every sum of two.
    let a: Vec<f32> = (0..500).map(|_| random.unit() * 100.0).collect();
    let b: Vec<f32> = (0..500).map(|_| random.unit() * 7.0 + 0.001).collect();
    let got: Vec<f32> = on_any_number_of_cores(|machine| {
        let (x, y) = (machine.upload(&a), machine.upload(&b));
        let output = machine.upload(&[0f32; 4500]);
        let mut arguments = [x, y, output].map(Argument::Pointer).to_vec();
        arguments.push(Argument::I32(500));
        machine.launch(&module, "directed_rounding", 4, 128, 0, &arguments);
        machine.download(output, 4500)
    });
    for (i, values) in got.chunks(9).enumerate() {
        let (x, y) = (f64::from(a[i]), f64::from(b[i]));
        let (sum, product) = (x + y, x * y);
        let fused = product + x;
        let lost = (product - (fused - x)) + (x - (fused - (fused - x)));
        let (quotient, root) = (x / y, x.sqrt());
        let want = [
            directed('z', sum, 0.0),
            directed('u', sum, 0.0),
            directed('d', sum, 0.0),
            directed('z', product, 0.0),
            directed('u', product, 0.0),
            directed('d', product, 0.0),
            directed('z', fused, lost),
            directed('u', quotient, (-quotient).mul_add(y, x) * y.signum()),
            directed('d', root, (-root).mul_add(root, x)),
        ];
        for (k, (&got, want)) in values.iter().zip(want).enumerate() {
            assert!(same_single(got, want), "result {k} of {x:e}, {y:e}: {got:e} instead of {want:e}");
        }
    }
}

#[test]
fn double_precision_is_exact() {
    let module = load(ptx!("floats"));
    let (a, b) = pairs(&f64s(), &f64s());
    let count = a.len();
    let got: Vec<f64> = on_any_number_of_cores(|machine| {
        let (x, y) = (machine.upload(&a), machine.upload(&b));
        let output = machine.upload(&vec![0f64; 8 * count]);
        let mut arguments = [x, y, output].map(Argument::Pointer).to_vec();
        arguments.push(Argument::I32(count as i32));
        machine.launch(&module, "exact_doubles", (count as u32).div_ceil(64), 64, 0, &arguments);
        machine.download(output, 8 * count)
    });
    for (i, values) in got.chunks(8).enumerate() {
        let (x, y) = (a[i], b[i]);
        let lesser = if x == y { f64::from_bits(x.to_bits() | y.to_bits()) } else { x.min(y) };
        let greater = if x == y { f64::from_bits(x.to_bits() & y.to_bits()) } else { x.max(y) };
        let want =
            [x + y, x * y, x.mul_add(y, x), x / y, x.sqrt(), x as i64 as f64, f64::from(y as f32), lesser - greater];
        for (k, (&got, want)) in values.iter().zip(want).enumerate() {
            // A NaN turned into a whole number is another thing on each kind of hardware.
            if k == 5 && x.is_nan() {
                continue;
            }
            assert!(same_double(got, want), "result {k} of {x:e}, {y:e}: {got:e} instead of {want:e}");
        }
    }
}

#[test]
fn conversions_to_whole_numbers_clamp() {
    let module = load(ptx!("floats"));
    let input: Vec<f32> = f32s().into_iter().filter(|value| !value.is_nan()).collect();
    let count = input.len();
    let got: Vec<i64> = on_any_number_of_cores(|machine| {
        let (source, output) = (machine.upload(&input), machine.upload(&vec![0i64; 8 * count]));
        let arguments = [Argument::Pointer(source), Argument::Pointer(output), Argument::I32(count as i32)];
        machine.launch(&module, "conversions", 2, 64, 0, &arguments);
        machine.download(output, 8 * count)
    });
    for (i, values) in got.chunks(8).enumerate() {
        let x = input[i];
        let want = [
            i64::from(x.round_ties_even() as i32),
            i64::from(x as i32),
            i64::from(x.ceil() as i32),
            i64::from(x.floor() as i32),
            i64::from(x as u32),
            x.round_ties_even() as i64,
            x as u64 as i64,
            i64::from((x.to_bits() as i32 as f32).to_bits() as i32),
        ];
        assert_eq!(values, want, "{x:e}");
    }
}

/// Relative to the size of the result, or absolute near zero.
fn is_near(got: f64, want: f64, relative: f64, absolute: f64) -> bool {
    got == want || got.is_nan() && want.is_nan() || (got - want).abs() <= absolute.max(relative * want.abs())
}

#[test]
fn the_math_library_stays_within_its_error() {
    let module = load(ptx!("floats"));
    let mut random = Random::new(61);
    let mut a: Vec<f32> = (0..300).map(|_| random.unit() * 50.0).collect();
    // Big arguments take the slow, exact reduction of sinf, which lives in local memory.
    a.extend([1e6f32, -3.3e7, 1e10, 1.5e22, -2.7e30, 3e38, 105_615.0, 0.0]);
    let b: Vec<f32> = (0..a.len()).map(|_| random.unit() * 5.0).collect();
    let count = a.len();
    let got: Vec<f32> = on_any_number_of_cores(|machine| {
        let (x, y) = (machine.upload(&a), machine.upload(&b));
        let output = machine.upload(&vec![0f32; 10 * count]);
        let mut arguments = [x, y, output].map(Argument::Pointer).to_vec();
        arguments.push(Argument::I32(count as i32));
        machine.launch(&module, "math_library", 3, 128, 0, &arguments);
        machine.download(output, 10 * count)
    });
    let ulp = f64::from(f32::EPSILON);
    for (i, values) in got.chunks(10).enumerate() {
        let (x, y) = (f64::from(a[i]), f64::from(b[i]));
        let want = [
            (1.0 / x.abs().sqrt(), 4.0 * ulp),
            (y.exp(), 4.0 * ulp),
            (x.abs().ln(), 4.0 * ulp),
            (x.sin(), 4.0 * ulp),
            (x.cos(), 4.0 * ulp),
            (x.abs().powf(y), 10.0 * ulp),
            (y.tanh(), 4.0 * ulp),
            (error_function(y), 4.0 * ulp),
            (x.cbrt(), 4.0 * ulp),
            (x.atan2(y), 6.0 * ulp),
        ];
        for (k, (&got, (want, relative))) in values.iter().zip(want).enumerate() {
            let single = want as f32;
            let want = if single.is_infinite() { f64::from(single) } else { want };
            assert!(
                is_near(got.into(), want, relative, 3e-7 * ulp),
                "result {k} of {x:e}, {y:e}: {got:e}, not {want:e}"
            );
        }
    }
}

/// The error function by its Taylor series, and by its continued fraction far out.
fn error_function(x: f64) -> f64 {
    if x.abs() > 3.0 {
        let square = x * x;
        let tail = (1..60).rev().fold(0.0, |tail, k| f64::from(k) / 2.0 / (x.abs() + tail));
        let complement = (-square).exp() / ((x.abs() + tail) * std::f64::consts::PI.sqrt());
        return (1.0 - complement).copysign(x);
    }
    let mut term = x;
    let mut sum = x;
    for n in 1..80 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * std::f64::consts::FRAC_2_SQRT_PI
}

#[test]
fn fast_math_intrinsics_are_close() {
    let module = load(ptx!("floats"));
    let mut random = Random::new(62);
    let input: Vec<f32> = (0..200).map(|_| random.unit() * 3.0).collect();
    let got: Vec<f32> = on_any_number_of_cores(|machine| {
        let (source, output) = (machine.upload(&input), machine.upload(&[0f32; 1400]));
        let arguments = [Argument::Pointer(source), Argument::Pointer(output), Argument::I32(200)];
        machine.launch(&module, "fast_math", 2, 128, 0, &arguments);
        machine.download(output, 1400)
    });
    for (i, values) in got.chunks(7).enumerate() {
        let x = f64::from(input[i]);
        let want = [
            x.exp(),
            (x.abs() + 1.0).ln(),
            x.sin(),
            x.cos(),
            x / f64::from(3.7f32),
            (x.abs() + 0.5).powf(1.5),
            x.clamp(0.0, 1.0),
        ];
        for (k, (&got, want)) in values.iter().zip(want).enumerate() {
            assert!(is_near(got.into(), want, 2e-6, 2e-6), "result {k} of {x:e}: {got:e}, not {want:e}");
        }
    }
}

#[test]
fn the_double_precision_library_is_close_to_the_last_bit() {
    let module = load(ptx!("floats"));
    let mut random = Random::new(63);
    let input: Vec<f64> = (0..100)
        .map(|_| f64::from(random.unit()) * 20.0 + f64::from(random.unit()) * 1e-8)
        .chain([1e5, -1e8, 0.5])
        .collect();
    let count = input.len();
    let got: Vec<f64> = on_any_number_of_cores(|machine| {
        let (source, output) = (machine.upload(&input), machine.upload(&vec![0f64; 6 * count]));
        let arguments = [Argument::Pointer(source), Argument::Pointer(output), Argument::I32(count as i32)];
        machine.launch(&module, "math_double", 2, 64, 0, &arguments);
        machine.download(output, 6 * count)
    });
    for (i, values) in got.chunks(6).enumerate() {
        let x = input[i];
        let want = [x.exp(), x.abs().ln(), x.sin(), x.abs().powf(1.25), 1.0 / x, 1.0 / x.abs().sqrt()];
        for (k, (&got, want)) in values.iter().zip(want).enumerate() {
            assert!(is_near(got, want, 4.0 * f64::EPSILON, 0.0), "result {k} of {x:e}: {got:e}, not {want:e}");
        }
    }
}

#[test]
fn bodies_attract_each_other() {
    let module = load(ptx!("floats"));
    let mut random = Random::new(64);
    let count = 150usize;
    let bodies: Vec<f32> = (0..4 * count).map(|_| random.unit()).collect();
    let got: Vec<f32> = on_any_number_of_cores(|machine| {
        let (source, output) = (machine.upload(&bodies), machine.upload(&vec![0f32; 4 * count]));
        let arguments = [Argument::Pointer(source), Argument::Pointer(output), Argument::I32(count as i32)];
        machine.launch(&module, "gravity", 3, 64, 0, &arguments);
        machine.download(output, 4 * count)
    });
    for i in 0..count {
        let place = |body: usize, axis: usize| f64::from(bodies[4 * body + axis]);
        for axis in 0..3 {
            let want: f64 = (0..count)
                .map(|other| {
                    let square: f64 = (0..3).map(|k| (place(other, k) - place(i, k)).powi(2)).sum::<f64>() + 0.01;
                    place(other, 3) * square.powf(-1.5) * (place(other, axis) - place(i, axis))
                })
                .sum();
            let got = f64::from(got[4 * i + axis]);
            assert!((got - want).abs() < 0.01, "body {i}, axis {axis}: {got} instead of {want}");
        }
    }
}
