//! Values worth trying: the edges of each type, then pseudo-random ones that are the same in every run.

use half::{bf16, f16};

/// Marsaglia's xorshift: the same sequence on every machine.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, bound: u32) -> u32 {
        (((self.next() >> 32) * u64::from(bound)) >> 32) as u32
    }

    /// Uniform in -1 to 1, with 24 bits.
    pub fn unit(&mut self) -> f32 {
        self.below(1 << 24) as f32 / (1 << 23) as f32 - 1.0
    }
}

pub fn u64s() -> Vec<u64> {
    let mut values = vec![
        0,
        1,
        2,
        3,
        7,
        31,
        32,
        63,
        64,
        65,
        255,
        0x7fff_ffff,
        0x8000_0000,
        0xffff_ffff,
        0x1_0000_0000,
        0x7fff_ffff_ffff_ffff,
        0x8000_0000_0000_0000,
        0x8000_0000_0000_0001,
        0xffff_ffff_ffff_fffe,
        0xffff_ffff_ffff_ffff,
        0x0123_4567_89ab_cdef,
    ];
    let mut random = Random::new(64);
    values.extend((0..8).map(|_| random.next()));
    values.extend((0..4).map(|shift| random.next() >> (13 * shift + 9)));
    values
}

pub fn i64s() -> Vec<i64> {
    u64s().into_iter().map(|value| value as i64).collect()
}

pub fn u32s() -> Vec<u32> {
    let mut values = vec![
        0,
        1,
        2,
        3,
        7,
        8,
        15,
        16,
        31,
        32,
        33,
        63,
        100,
        255,
        256,
        0x7fff,
        0x8000,
        0xffff,
        0x1_0000,
        0x7fff_ffff,
        0x8000_0000,
        0x8000_0001,
        0xffff_fffe,
        0xffff_ffff,
        0x1234_5678,
        0xaaaa_5555,
    ];
    let mut random = Random::new(32);
    values.extend((0..8).map(|_| random.next() as u32));
    values
}

pub fn i32s() -> Vec<i32> {
    u32s().into_iter().map(|value| value as i32).collect()
}

pub fn u16s() -> Vec<u16> {
    let mut values = vec![0, 1, 2, 3, 7, 15, 16, 17, 31, 255, 256, 0x7fff, 0x8000, 0x8001, 0xfffe, 0xffff];
    let mut random = Random::new(16);
    values.extend((0..8).map(|_| random.next() as u16));
    values
}

pub fn i16s() -> Vec<i16> {
    u16s().into_iter().map(|value| value as i16).collect()
}

pub fn f32s() -> Vec<f32> {
    let mut values = vec![
        0.0,
        -0.0,
        1.0,
        -1.0,
        1.0 + f32::EPSILON,
        1.0 - f32::EPSILON / 2.0,
        -2.0,
        0.5,
        1.5,
        -2.5,
        3.5,
        0.1,
        1e-3,
        16_777_215.0,
        16_777_216.0,
        -16_777_217.5,
        2_147_483_648.0,
        -2_147_483_648.0,
        4_294_967_296.0,
        1e20,
        -1e30,
        f32::MAX,
        f32::MIN,
        f32::MIN_POSITIVE,
        -f32::MIN_POSITIVE,
        f32::from_bits(1),
        -f32::from_bits(1),
        f32::from_bits(0x007f_ffff),
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::from_bits(0xff80_0001),
    ];
    let mut random = Random::new(320);
    values.extend((0..8).map(|_| random.unit() * 100.0));
    values.extend((0..8).map(|_| f32::from_bits(random.next() as u32)));
    values
}

pub fn f64s() -> Vec<f64> {
    let mut values: Vec<f64> = f32s().into_iter().map(f64::from).collect();
    values.retain(|value| !value.is_nan());
    values.extend([
        f64::NAN,
        f64::MAX,
        f64::MIN,
        f64::MIN_POSITIVE,
        f64::from_bits(1),
        -f64::from_bits(3),
        1.0 + f64::EPSILON,
        0.1,
        1.0 / 3.0,
        9_007_199_254_740_993.0,
        9_223_372_036_854_775_808.0,
        18_446_744_073_709_551_616.0,
        -1e300,
        1e-300,
        2_147_483_647.5,
        4_294_967_295.5,
    ]);
    let mut random = Random::new(640);
    values.extend((0..6).map(|_| f64::from_bits(random.next())));
    values
}

/// Half-precision values: edges, ties and a spread over the whole range.
pub fn f16s() -> Vec<f16> {
    let mut values: Vec<f16> = [
        0x0000u16, 0x8000, 0x3c00, 0xbc00, 0x3c01, 0x3bff, 0x4000, 0x3800, 0x4248, 0x0001, 0x8001, 0x03ff, 0x0400,
        0x8400, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00, 0xfe01, 0x6400, 0x6801, 0x5640,
    ]
    .map(f16::from_bits)
    .to_vec();
    let mut random = Random::new(160);
    values.extend((0..12).map(|_| f16::from_bits(random.next() as u16)));
    values
}

/// bfloat16 values: edges, ties and a spread over the whole range.
pub fn bf16s() -> Vec<bf16> {
    let mut values: Vec<bf16> = [
        0x0000u16, 0x8000, 0x3f80, 0xbf80, 0x3f81, 0x3f7f, 0x4000, 0x3f00, 0x4049, 0x0001, 0x8001, 0x007f, 0x0080,
        0x7f7f, 0xff7f, 0x7f80, 0xff80, 0x7fc0, 0xffc1, 0x4380, 0x4b01,
    ]
    .map(bf16::from_bits)
    .to_vec();
    let mut random = Random::new(161);
    values.extend((0..8).map(|_| bf16::from_bits(random.next() as u16)));
    values.extend((0..8).map(|_| bf16::from_f32(random.unit() * 10.0)));
    values
}

/// A double as single precision, rounded to odd: a second rounding to a narrower format then can't go wrong.
fn to_odd(value: f64) -> f32 {
    let nearest = value as f32;
    if nearest.is_nan() || f64::from(nearest) == value {
        return nearest;
    }
    let bits = nearest.to_bits();
    let towards_zero = if f64::from(nearest).abs() > value.abs() { bits - 1 } else { bits };
    f32::from_bits(towards_zero | 1)
}

/// The nearest half, ties to even.
pub fn f16_from(value: f64) -> f16 {
    f16::from_f32(to_odd(value))
}

/// The nearest bfloat16, ties to even.
pub fn bf16_from(value: f64) -> bf16 {
    bf16::from_f32(to_odd(value))
}

/// Every pair of an element of `a` and one of `b`.
pub fn pairs<A: Copy, B: Copy>(a: &[A], b: &[B]) -> (Vec<A>, Vec<B>) {
    a.iter().flat_map(|&x| b.iter().map(move |&y| (x, y))).unzip()
}

/// Triples: every pair of `a` and `b`, each with some elements of `c` in turn.
pub fn triples<A: Copy, B: Copy, C: Copy>(a: &[A], b: &[B], c: &[C]) -> (Vec<A>, Vec<B>, Vec<C>) {
    let (mut first, mut second, mut third) = (Vec::new(), Vec::new(), Vec::new());
    let mut turn = 0;
    for &x in a {
        for &y in b {
            for _ in 0..3 {
                first.push(x);
                second.push(y);
                third.push(c[turn % c.len()]);
                turn += 1;
            }
        }
    }
    (first, second, third)
}
