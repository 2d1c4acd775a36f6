//! Whole-number arithmetic, intrinsics and hashes.

use crate::ptx;
use crate::support::values::{Random, i32s, i64s, pairs, triples, u32s, u64s};
use crate::support::{Argument, load, on_any_number_of_cores};

#[test]
fn divisions_by_variables() {
    let module = load(ptx!("integers"));
    let nonzero: Vec<i32> = i32s().into_iter().filter(|&b| b != 0).collect();
    let (a, b) = pairs(&i32s(), &nonzero);
    let count = a.len();
    let got: Vec<i32> = on_any_number_of_cores(|machine| {
        let (x, y) = (machine.upload(&a), machine.upload(&b));
        let output = machine.upload(&vec![0i32; 4 * count]);
        let mut arguments = [x, y, output].map(Argument::Pointer).to_vec();
        arguments.push(Argument::I32(count as i32));
        machine.launch(&module, "divide_32", (count as u32).div_ceil(128), 128, 0, &arguments);
        machine.download(output, 4 * count)
    });
    for (i, words) in got.chunks(4).enumerate() {
        let (x, y) = (a[i], b[i]);
        let want = [x.wrapping_div(y), x.wrapping_rem(y), (x as u32 / y as u32) as i32, (x as u32 % y as u32) as i32];
        assert_eq!(words, want, "{x} by {y}");
    }

    let nonzero: Vec<i64> = i64s().into_iter().filter(|&b| b != 0).collect();
    let (a, b) = pairs(&i64s(), &nonzero);
    let count = a.len();
    let got: Vec<i64> = on_any_number_of_cores(|machine| {
        let (x, y) = (machine.upload(&a), machine.upload(&b));
        let output = machine.upload(&vec![0i64; 6 * count]);
        let mut arguments = [x, y, output].map(Argument::Pointer).to_vec();
        arguments.push(Argument::I32(count as i32));
        machine.launch(&module, "divide_64", (count as u32).div_ceil(96), 96, 0, &arguments);
        machine.download(output, 6 * count)
    });
    for (i, words) in got.chunks(6).enumerate() {
        let (x, y) = (a[i], b[i]);
        let want = [
            x.wrapping_div(y),
            x.wrapping_rem(y),
            (x as u64 / y as u64) as i64,
            (x as u64 % y as u64) as i64,
            ((i128::from(x) * i128::from(y)) >> 64) as i64,
            ((u128::from(x as u64) * u128::from(y as u64)) >> 64) as i64,
        ];
        assert_eq!(words, want, "{x} by {y}");
    }
}

#[test]
fn products_and_sums_of_128_bits() {
    let module = load(ptx!("integers"));
    let (a, b) = pairs(&u64s(), &u64s());
    let count = a.len();
    let got: Vec<u64> = on_any_number_of_cores(|machine| {
        let (x, y) = (machine.upload(&a), machine.upload(&b));
        let output = machine.upload(&vec![0u64; 2 * count]);
        let mut arguments = [x, y, output].map(Argument::Pointer).to_vec();
        arguments.push(Argument::I32(count as i32));
        machine.launch(&module, "multiply_128", (count as u32).div_ceil(256), 256, 0, &arguments);
        machine.download(output, 2 * count)
    });
    for (i, words) in got.chunks(2).enumerate() {
        let (x, y) = (u128::from(a[i]), u128::from(b[i]));
        let want = (x * y).wrapping_add(y << 64 | x).wrapping_sub(x << 17);
        assert_eq!(words, [want as u64, (want >> 64) as u64], "{x} and {y}");
    }
}

/// The results of `intrinsics` in integers.cu.
fn intrinsics(x: u32, y: u32, z: u32) -> [u32; 24] {
    let bytes = |word: u32| word.to_le_bytes();
    let signed = |word: u32| word.to_le_bytes().map(|byte| i32::from(byte as i8));
    let both = u64::from(y) << 32 | u64::from(x);
    let funnel = u64::from(y) << 32 | u64::from(x);
    let wide = u64::from(x) << 32 | u64::from(y);
    let (sx, sy, sz) = (x as i32, y as i32, z as i32);
    let low24 = |word: u32| word & 0xff_ffff;
    let signed24 = |word: u32| ((word << 8) as i32 >> 8) as i64;
    let first_set = |word: u64| if word == 0 { 0 } else { word.trailing_zeros() + 1 };
    [
        x.count_ones(),
        x.leading_zeros(),
        x.reverse_bits(),
        first_set(x.into()),
        // __byte_perm takes three bits of each selector: there's no sign mode.
        u32::from_le_bytes([0, 4, 8, 12].map(|shift| both.to_le_bytes()[(z >> shift & 7) as usize])),
        (0..4).fold(sz, |sum, i| sum.wrapping_add(signed(x)[i] * signed(y)[i])) as u32,
        (0..4).fold(z, |sum, i| sum.wrapping_add(u32::from(bytes(x)[i]) * u32::from(bytes(y)[i]))),
        (funnel << (z & 31) >> 32) as u32,
        (funnel >> (z & 31)) as u32,
        (funnel << z.min(32) >> 32) as u32,
        (funnel >> z.min(32)) as u32,
        ((u64::from(x) * u64::from(y)) >> 32) as u32,
        ((i64::from(sx) * i64::from(sy)) >> 32) as u32,
        (signed24(x) * signed24(y)) as u32,
        low24(x).wrapping_mul(low24(y)),
        sx.abs_diff(sy).wrapping_add(z),
        x.abs_diff(y).wrapping_add(z),
        ((i64::from(sx) + i64::from(sy)) >> 1) as u32,
        ((u64::from(x) + u64::from(y) + 1) >> 1) as u32,
        wide.count_ones() * 65536 + wide.leading_zeros() * 256 + first_set(wide),
        (wide.reverse_bits() >> 16) as u32,
        {
            let words = [x as i16, (x >> 16) as i16].map(i32::from);
            let [b0, b1, ..] = signed(y);
            sz.wrapping_add(words[0] * b0).wrapping_add(words[1] * b1) as u32
        },
        {
            let words = [x & 0xffff, x >> 16];
            let [.., b2, b3] = bytes(y).map(u32::from);
            z.wrapping_add(words[0] * b2).wrapping_add(words[1] * b3)
        },
        sx.min(sy.max(sz)) as u32 ^ x << (z & 31) ^ (sy >> (z & 31)) as u32,
    ]
}

#[test]
fn integer_intrinsics() {
    let module = load(ptx!("integers"));
    let (a, b, c) = triples(&u32s(), &u32s(), &u32s());
    let count = a.len();
    let got: Vec<u32> = on_any_number_of_cores(|machine| {
        let (x, y, z) = (machine.upload(&a), machine.upload(&b), machine.upload(&c));
        let output = machine.upload(&vec![0u32; 24 * count]);
        let mut arguments = [x, y, z, output].map(Argument::Pointer).to_vec();
        arguments.push(Argument::I32(count as i32));
        machine.launch(&module, "intrinsics", (count as u32).div_ceil(192), 192, 0, &arguments);
        machine.download(output, 24 * count)
    });
    for (i, words) in got.chunks(24).enumerate() {
        assert_eq!(words, intrinsics(a[i], b[i], c[i]), "{:#x}, {:#x}, {:#x}", a[i], b[i], c[i]);
    }
}

const ROUND_KEYS: [u32; 16] = [
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98,
    0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
];

/// The compression loop of `mix` in integers.cu.
fn mix(message: &[u32]) -> [u32; 8] {
    let mut w: [u32; 16] = message.try_into().expect("sixteen words");
    let mut s = [0x6a09e667u32, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19];
    for round in 0..64 {
        let k = round % 16;
        if round >= 16 {
            let (w15, w2) = (w[(k + 1) % 16], w[(k + 14) % 16]);
            let s0 = w15.rotate_right(7) ^ w15.rotate_right(18) ^ (w15 >> 3);
            let s1 = w2.rotate_right(17) ^ w2.rotate_right(19) ^ (w2 >> 10);
            w[k] = w[k].wrapping_add(s0).wrapping_add(w[(k + 9) % 16]).wrapping_add(s1);
        }
        let [a, b, c, d, e, f, g, h] = s;
        let s1 = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
        let t1 = [s1, (e & f) ^ (!e & g), ROUND_KEYS[k], w[k]].iter().fold(h, |sum, &x| sum.wrapping_add(x));
        let s0 = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
        let t2 = s0.wrapping_add((a & b) ^ (a & c) ^ (b & c));
        s = [t1.wrapping_add(t2), a, b, c, d.wrapping_add(t1), e, f, g];
    }
    s
}

#[test]
fn a_hash_of_sixty_four_rounds_loses_no_bit() {
    let module = load(ptx!("integers"));
    let mut random = Random::new(50);
    let count = 200usize;
    let messages: Vec<u32> = (0..16 * count).map(|_| random.next() as u32).collect();
    for (blocks, threads) in [(1u32, 64u32), (3, 50), (2, 128)] {
        let got: Vec<u32> = on_any_number_of_cores(|machine| {
            let (source, output) = (machine.upload(&messages), machine.upload(&vec![0u32; 8 * count]));
            let arguments = [Argument::Pointer(source), Argument::Pointer(output), Argument::U32(count as u32)];
            machine.launch(&module, "mix", blocks, threads, 0, &arguments);
            machine.download(output, 8 * count)
        });
        let want: Vec<u32> = messages.chunks(16).flat_map(mix).collect();
        assert_eq!(got, want, "{blocks} blocks of {threads}");
    }
}

#[test]
fn a_64_bit_hash_over_bytes() {
    let module = load(ptx!("integers"));
    let bytes: Vec<u8> = (0..101).map(|i| (i * i) as u8).collect();
    let got: Vec<u64> = on_any_number_of_cores(|machine| {
        let (source, output) = (machine.upload(&bytes), machine.upload(&[0u64; 160]));
        let arguments = [Argument::Pointer(source), Argument::U32(101), Argument::Pointer(output)];
        machine.launch(&module, "hash_bytes", 2, 80, 0, &arguments);
        machine.download(output, 160)
    });
    let want: Vec<u64> = (0..160usize)
        .map(|i| {
            (0..101).fold(0xcbf2_9ce4_8422_2325 ^ i as u64, |hash, k| {
                let hash = (hash ^ u64::from(bytes[(k + i) % 101])).wrapping_mul(0x100_0000_01b3);
                hash ^ (hash >> 29)
            })
        })
        .collect();
    assert_eq!(got, want);
}
