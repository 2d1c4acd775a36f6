//! `mma`: each lane's registers hold the elements that the PTX manual gives it, and the product is right.
//!
//! The manual numbers a lane's elements a0, a1 and so on and says where each lies; elements of 16 bits share registers in
//! pairs, the first one below.

use crate::support::{bytes_of, kernel_with_body, run_body};
use half::{bf16, f16};
use ptx_simulator::Module;

/// An instruction that is tried: its name, K, bits of a factor, and how a factor is rounded to its type.
struct Product {
    name: &'static str,
    k: usize,
    factor_bits: usize,
    /// The bits of a factor, and the number that they stand for.
    round: fn(f32) -> (u32, f32),
}

fn round_f16(x: f32) -> (u32, f32) {
    let rounded = f16::from_f32(x);
    (rounded.to_bits().into(), rounded.to_f32())
}

fn round_bf16(x: f32) -> (u32, f32) {
    let rounded = bf16::from_f32(x);
    (rounded.to_bits().into(), rounded.to_f32())
}

/// Cut to 10 bits behind the point; the bits below are filled with what must be ignored.
fn round_tf32(x: f32) -> (u32, f32) {
    let bits = x.to_bits() & !0x1fff;
    (bits | 0x1abc, f32::from_bits(bits))
}

const PRODUCTS: [Product; 6] = [
    Product { name: "m16n8k8.row.col.f32.f16.f16.f32", k: 8, factor_bits: 16, round: round_f16 },
    Product { name: "m16n8k16.row.col.f32.f16.f16.f32", k: 16, factor_bits: 16, round: round_f16 },
    Product { name: "m16n8k8.row.col.f32.bf16.bf16.f32", k: 8, factor_bits: 16, round: round_bf16 },
    Product { name: "m16n8k16.row.col.f32.bf16.bf16.f32", k: 16, factor_bits: 16, round: round_bf16 },
    Product { name: "m16n8k4.row.col.f32.tf32.tf32.f32", k: 4, factor_bits: 32, round: round_tf32 },
    Product { name: "m16n8k8.row.col.f32.tf32.tf32.f32", k: 8, factor_bits: 32, round: round_tf32 },
];

impl Product {
    /// Row and column of the element `a_i` of a lane.
    fn place_of_a(&self, lane: usize, i: usize) -> (usize, usize) {
        let (group, thread) = (lane >> 2, lane % 4);
        match (self.factor_bits, self.k) {
            // ".bf16 and .f16, m16n8k16": a0 to a7.
            (16, 16) => (
                if i < 2 || (4..6).contains(&i) { group } else { group + 8 },
                if i < 4 { thread * 2 + (i & 1) } else { thread * 2 + (i & 1) + 8 },
            ),
            // "m16n8k8" of 16 bits: a0 to a3.
            (16, _) => (if i < 2 { group } else { group + 8 }, thread * 2 + (i & 1)),
            // ".tf32, m16n8k4": a0 and a1.
            (_, 4) => (if i == 0 { group } else { group + 8 }, thread),
            // ".tf32, m16n8k8": a0 to a3.
            _ => (if i == 0 || i == 2 { group } else { group + 8 }, if i == 0 || i == 1 { thread } else { thread + 4 }),
        }
    }

    /// Row and column of the element `b_i` of a lane.
    fn place_of_b(&self, lane: usize, i: usize) -> (usize, usize) {
        let (group, thread) = (lane >> 2, lane % 4);
        let row = match (self.factor_bits, self.k) {
            (16, 16) => thread * 2 + (i & 1) + if i < 2 { 0 } else { 8 },
            (16, _) => thread * 2 + i,
            (_, 4) => thread,
            _ => thread + if i == 0 { 0 } else { 4 },
        };
        (row, group)
    }

    /// D = A B + C, by one instruction of a warp. `a` is 16 x K, `b` K x 8, `c` 16 x 8, row by row, and the factors are
    /// rounded.
    fn run(&self, a: &[f32], b: &[f32], c: &[f32]) -> Vec<f32> {
        let per_register = 32 / self.factor_bits;
        let (of_a, of_b) = (16 * self.k / 32 / per_register, 8 * self.k / 32 / per_register);
        let register =
            |elements: &[u32]| elements.iter().rev().fold(0, |word, bits| word << (self.factor_bits % 32) | bits);
        let mut words = Vec::new();
        for lane in 0..32 {
            let a: Vec<u32> = (0..of_a * per_register)
                .map(|i| self.place_of_a(lane, i))
                .map(|(row, column)| (self.round)(a[row * self.k + column]).0)
                .collect();
            let b: Vec<u32> = (0..of_b * per_register)
                .map(|i| self.place_of_b(lane, i))
                .map(|(row, column)| (self.round)(b[row * 8 + column]).0)
                .collect();
            let mut lane_words: Vec<u32> = a.chunks(per_register).chain(b.chunks(per_register)).map(register).collect();
            lane_words.extend((0..4).map(|i| place_of_c(lane, i)).map(|(row, column)| c[row * 8 + column].to_bits()));
            lane_words.resize(12, 0);
            words.extend(lane_words);
        }
        let names = |first: usize, count: usize| {
            let names: Vec<String> = (first..first + count).map(|number| format!("%r{number}")).collect();
            format!("{{{}}}", names.join(", "))
        };
        // The sums replace C in its own registers.
        let [a_names, b_names, c_names] = [names(4, of_a), names(4 + of_a, of_b), names(4 + of_a + of_b, 4)];
        let body = format!(
            "mad.wide.u32 %rd1, %thread, 48, %in0; mad.wide.u32 %rd2, %thread, 16, %out;
            ld.global.v4.u32 {{%r4, %r5, %r6, %r7}}, [%rd1]; ld.global.v4.u32 {{%r8, %r9, %r10, %r11}}, [%rd1+16];
            ld.global.v4.u32 {{%r12, %r13, %r14, %r15}}, [%rd1+32];
            mma.sync.aligned.{} {c_names}, {a_names}, {b_names}, {c_names};
            st.global.v4.u32 [%rd2], {c_names};",
            self.name
        );
        let got: Vec<f32> = run_body("", &body, 1, 32, [&bytes_of(&words), &[]], 128);
        let mut d = vec![f32::NAN; 128];
        for (lane, sums) in got.chunks_exact(4).enumerate() {
            for (i, sum) in sums.iter().enumerate() {
                let (row, column) = place_of_c(lane, i);
                d[row * 8 + column] = *sum;
            }
        }
        d
    }

    /// Row `row` of A, column `column` of B, rounded.
    fn factors(&self, a: &[f32], b: &[f32], row: usize, column: usize) -> Vec<(f32, f32)> {
        let round = |x: f32| (self.round)(x).1;
        (0..self.k).map(|i| (round(a[row * self.k + i]), round(b[i * 8 + column]))).collect()
    }
}

/// Row and column of the element `c_i`, or `d_i`, of a lane.
fn place_of_c(lane: usize, i: usize) -> (usize, usize) {
    let (group, thread) = (lane >> 2, lane % 4);
    (if i < 2 { group } else { group + 8 }, thread * 2 + (i & 1))
}

/// Numbers in -1 to 1 that look random, the same every time.
fn noise(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..count)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
        })
        .collect()
}

#[test]
fn whole_numbers_are_multiplied_exactly() {
    for product in &PRODUCTS {
        // No two elements of a matrix are alike, so that every one must be in its place.
        let a: Vec<f32> = (0..16 * product.k).map(|i| i as f32 - 100.0).collect();
        let b: Vec<f32> = (0..product.k * 8).map(|i| (i as f32 - 50.0) * 2.0).collect();
        let c: Vec<f32> = (0..128).map(|i| i as f32 * 1000.0).collect();
        let d = product.run(&a, &b, &c);
        for (at, found) in d.iter().enumerate() {
            let (row, column) = (at / 8, at % 8);
            let sum: f64 =
                (0..product.k).map(|i| f64::from(a[row * product.k + i]) * f64::from(b[i * 8 + column])).sum();
            assert_eq!(f64::from(*found), sum + f64::from(c[at]), "{}, row {row}, column {column}", product.name);
        }
    }
}

#[test]
fn products_are_exact_and_sums_are_those_of_f32() {
    for (seed, product) in PRODUCTS.iter().enumerate() {
        let a = noise(seed as u64 + 1, 16 * product.k);
        let b = noise(seed as u64 + 100, product.k * 8);
        let c = noise(seed as u64 + 200, 128);
        for (at, found) in product.run(&a, &b, &c).into_iter().enumerate() {
            let factors = product.factors(&a, &b, at / 8, at % 8);
            let chain = factors.iter().fold(c[at], |sum, (a, b)| a.mul_add(*b, sum));
            assert_eq!(found, chain, "{}, element {at}", product.name);
            let exact: f64 = factors.iter().map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>() + f64::from(c[at]);
            let size: f64 = factors.iter().map(|(a, b)| f64::from(a * b).abs()).sum::<f64>() + f64::from(c[at]).abs();
            assert!((f64::from(found) - exact).abs() <= size * f64::from(f32::EPSILON) * product.k as f64 / 2.0);
        }
    }
}

#[test]
fn the_ends_of_the_range_and_numbers_that_are_none() {
    let element = |product: &Product, a: f32, b: f32, c: f32| {
        let mut matrix_a = vec![0.0; 16 * product.k];
        let mut matrix_b = vec![0.0; product.k * 8];
        (matrix_a[5 * product.k + 3], matrix_b[3 * 8 + 6]) = (a, b);
        let mut matrix_c = vec![0.0; 128];
        matrix_c[5 * 8 + 6] = c;
        product.run(&matrix_a, &matrix_b, &matrix_c)[5 * 8 + 6]
    };
    for product in &PRODUCTS {
        let name = product.name;
        let tiny = if name.contains(".f16") { 2.0f32.powi(-24) } else { 2.0f32.powi(-130) };
        // Subnormal factors, sums and C count.
        assert_eq!(element(product, tiny, 1.0, 0.0), tiny, "{name}");
        assert_eq!(element(product, 0.0, 1.0, 2.0f32.powi(-149)), 2.0f32.powi(-149), "{name}");
        assert_eq!(element(product, f32::INFINITY, -1.0, 1e30), f32::NEG_INFINITY, "{name}");
        for (a, b, c) in [
            (f32::NAN, 1.0, 0.0),
            (f32::INFINITY, 0.0, 0.0),
            (1.0, f32::INFINITY, f32::NEG_INFINITY),
            (1.0, 1.0, -f32::NAN),
        ] {
            assert_eq!(element(product, a, b, c).to_bits(), 0x7fff_ffff, "{name}: {a} {b} {c}");
        }
        if !name.contains(".f16") {
            // The product alone would be too large.
            assert_eq!(element(product, 2.0f32.powi(100), 2.0f32.powi(100), 0.0), f32::INFINITY, "{name}");
            assert_eq!(element(product, 2.0f32.powi(64), 2.0f32.powi(64), -f32::MAX), 2.0f32.powi(104), "{name}");
        } else {
            assert_eq!(element(product, 65504.0, 65504.0, 0.0), 65504.0 * 65504.0, "{name}");
        }
    }
}

#[test]
fn sums_may_go_anywhere_and_come_from_numbers() {
    // C is zero, by number; D takes the place of A.
    let body = "mov.u32 %r4, 0x3f803f80; mov.u32 %r5, %r4; mov.u32 %r6, %r4; mov.u32 %r7, %r4; mov.u32 %r8, 0x40004000;
        mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%r4, %r5, %r6, %r7}, {%r4, %r5, %r6, %r7}, {%r8, %r8},
            {0f3F800000, 0f00000000, 0f00000000, 0f40000000};
        mad.wide.u32 %rd2, %thread, 16, %out; st.global.v4.u32 [%rd2], {%r4, %r5, %r6, %r7};";
    let got: Vec<f32> = run_body("", body, 1, 32, [&[], &[]], 128);
    assert!(got.chunks_exact(4).all(|sums| sums == [33.0, 32.0, 32.0, 34.0]), "{got:?}");
}

#[test]
fn products_that_are_not_known_are_refused_by_name() {
    for (instruction, reason) in [
        (
            "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%r4, %r5, %r6, %r7}, {%r4, %r5, %r6, %r7}, {%r8, %r9}, {%r4, %r5, %r6, %r7};",
            "sums of `.f32`",
        ),
        (
            "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r4, %r5}, {%r4, %r5, %r6, %r7}, {%r8, %r9}, {%r4, %r5};",
            "sums of `.f32`",
        ),
        (
            "mma.sync.aligned.m16n8k16.row.col.f32.tf32.tf32.f32 {%r4, %r5, %r6, %r7}, {%r4, %r5, %r6, %r7}, {%r8, %r9}, {%r4, %r5, %r6, %r7};",
            ".m16n8k16",
        ),
        (
            "mma.sync.aligned.m16n8k8.row.row.f32.tf32.tf32.f32 {%r4, %r5, %r6, %r7}, {%r4, %r5, %r6, %r7}, {%r8, %r9}, {%r4, %r5, %r6, %r7};",
            ".row.col",
        ),
        (
            "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%r4, %r5, %r6, %r7}, {%r4, %r5, %r6, %r7}, {%r8}, {%r4, %r5, %r6, %r7};",
            "2 registers",
        ),
        (
            "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%r4, %r5, %r6, %r7}, {%r4, %r5}, {%rd8}, {%r4, %r5, %r6, %r7};",
            "Bits32",
        ),
    ] {
        let error = Module::parse(&kernel_with_body("", instruction)).expect_err(instruction);
        assert!(error.to_string().contains(reason), "{instruction}: {error}");
    }
}
