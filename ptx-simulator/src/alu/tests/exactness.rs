//! Results against arithmetic that was written by others or is exact by construction: wide integers, the language's own
//! floats, and the `half` crate.

use proptest::prelude::*;

use super::exact::{self, Number, Rounding};
use super::*;

/// Runs a form on one set of operands, in lane 7.
fn compute(form: &str, sources: &[u64]) -> u64 {
    compute_with(&select_form(form), sources)
}

fn compute_with(selected: &Selected, sources: &[u64]) -> u64 {
    let mut registers = samples::Registers::new();
    let mut operands = Operands { destination: 10, destination2: UNUSED, sources: [0; 4], extra: selected.extra };
    for (position, (&value, found)) in sources.iter().zip(&*selected.sources).enumerate() {
        operands.sources[position] = 2 * position as u32;
        for lane in 0..32 {
            // The other lanes have something else to do.
            let value = if lane == 7 { value } else { value.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ lane as u64 };
            match found.bits() {
                64 => registers.set64(2 * position as u32, lane, value),
                _ => registers.rows[2 * position].0[lane] = value as u32,
            }
        }
        // The table of lop3 is an immediate: lane 0 counts.
        if selected.sources.len() == 4 && position == 3 {
            registers.rows[6].0[0] = value as u32;
        }
    }
    let predicate = selected.destinations[0] == Type::Pred;
    operands.destination = if predicate { 8 } else { 10 };
    // SAFETY: all rows and masks named exist.
    unsafe { (selected.function)(registers.rows.as_mut_ptr(), registers.masks.as_mut_ptr(), &operands, u32::MAX) };
    registers.get(selected.destinations[0], operands.destination, 7)
}

fn f32_of(form: &str, sources: &[f32]) -> f32 {
    let bits: Vec<u64> = sources.iter().map(|a| a.to_bits() as u64).collect();
    f32::from_bits(compute(form, &bits) as u32)
}

fn f64_of(form: &str, sources: &[f64]) -> f64 {
    let bits: Vec<u64> = sources.iter().map(|a| a.to_bits()).collect();
    f64::from_bits(compute(form, &bits))
}

fn same32(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
}

fn same64(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
}

/// Whether `down` and `up` are the neighbours around a value that lies `error` beside `nearest`.
fn brackets(down: f64, up: f64, nearest: f64, error_is_zero: bool) -> bool {
    if error_is_zero {
        down == nearest && up == nearest
    } else {
        down.next_up() == up && (nearest == down || nearest == up)
    }
}

#[test]
fn lop3_gives_all_256_functions() {
    for table in 0..256 {
        // The three operands hold the eight combinations of three bits.
        assert_eq!(compute("lop3.b32", &[0xf0, 0xcc, 0xaa, table]) & 0xff, table);
    }
}

#[test]
fn prmt_picks_bytes_and_replicates_signs() {
    let (low, high) = (0x8070_6050, 0xf1e2_d3c4);
    assert_eq!(compute("prmt.b32", &[low, high, 0x3210]), low);
    assert_eq!(compute("prmt.b32", &[low, high, 0x7654]), high);
    assert_eq!(compute("prmt.b32", &[low, high, 0x0123]), 0x5060_7080);
    assert_eq!(compute("prmt.b32", &[low, high, 0xbf8c]), 0xffff_00ff);
}

#[test]
fn division_by_zero_gives_all_ones() {
    assert_eq!(compute("div.u32", &[7, 0]), 0xffff_ffff);
    assert_eq!(compute("rem.s32", &[7, 0]), 0xffff_ffff);
    assert_eq!(compute("div.s64", &[7, 0]), u64::MAX);
    assert_eq!(compute("div.s32", &[0x8000_0000, 0xffff_ffff]), 0x8000_0000);
    assert_eq!(compute("rem.s32", &[0x8000_0000, 0xffff_ffff]), 0);
}

#[test]
fn minimum_and_maximum_order_zeros_and_pass_numbers_over_nans() {
    assert_eq!(f32_of("min.f32", &[0.0, -0.0]).to_bits(), (-0.0_f32).to_bits());
    assert_eq!(f32_of("max.f32", &[-0.0, 0.0]).to_bits(), 0);
    assert_eq!(f32_of("min.f32", &[f32::NAN, 3.0]), 3.0);
    assert_eq!(f32_of("max.f32", &[3.0, f32::NAN]), 3.0);
    assert_eq!(f32_of("min.NaN.f32", &[3.0, -f32::NAN]).to_bits(), 0x7fff_ffff);
    assert_eq!(f32_of("min.xorsign.abs.f32", &[-3.0, 2.0]), -2.0);
}

#[test]
fn f32_nans_are_canonical_and_saturation_takes_them_to_zero() {
    assert_eq!(f32_of("add.f32", &[f32::INFINITY, f32::NEG_INFINITY]).to_bits(), 0x7fff_ffff);
    assert_eq!(f32_of("mul.sat.f32", &[f32::INFINITY, 0.0]).to_bits(), 0);
    assert_eq!(f32_of("add.sat.f32", &[1.5, 2.0]), 1.0);
    assert_eq!(f32_of("add.sat.f32", &[-0.0, -0.0]).to_bits(), 0);
}

#[test]
fn out_of_range_floats_stop_at_the_ends_and_nans_follow_the_rule() {
    assert_eq!(compute("cvt.rzi.s32.f32", &[3e9_f32.to_bits() as u64]), 0x7fff_ffff);
    assert_eq!(compute("cvt.rzi.u32.f32", &[(-1.0_f32).to_bits() as u64]), 0);
    assert_eq!(compute("cvt.rzi.s32.f32", &[f32::NAN.to_bits() as u64]), 0);
    assert_eq!(compute("cvt.rzi.s64.f32", &[f32::NAN.to_bits() as u64]), 1 << 63);
    assert_eq!(compute("cvt.rzi.u32.f64", &[f64::NAN.to_bits()]), 1 << 31);
    assert_eq!(compute("cvt.rni.s32.f32", &[2.5_f32.to_bits() as u64]), 2);
    assert_eq!(compute("cvt.rpi.s32.f32", &[(-2.5_f32).to_bits() as u64]), (-2_i32) as u32 as u64);
}

#[test]
fn narrow_types_inside_64_bit_registers_convert() {
    let source = Widths { source_is_64: true, ..Widths::default() };
    let selected = select_with_widths("cvt", &["s64", "s8"], source).unwrap();
    assert_eq!(compute_with(&Selected { sources: Types::new(&[Type::B64]), ..selected }, &[0x1ff]), u64::MAX);
    let both = Widths { source_is_64: true, destination_is_64: true };
    let selected = select_with_widths("cvt", &["u16", "u16"], both).unwrap();
    let wide = Selected { sources: Types::new(&[Type::B64]), destinations: Types::new(&[Type::B64]), ..selected };
    assert_eq!(compute_with(&wide, &[0xabcd_1234_5678]), 0x5678);
    let selected = select_with_widths("cvt", &["s16", "s32"], Widths { destination_is_64: true, ..Widths::default() });
    let wide = Selected { destinations: Types::new(&[Type::B64]), ..selected.unwrap() };
    assert_eq!(compute_with(&wide, &[0x8000]), 0xffff_ffff_ffff_8000);
}

#[test]
fn carries_chain_to_wide_sums() {
    let mut registers = samples::Registers::new();
    let (a, b) = (0xffff_ffff_ffff_fff0_u64, 0x0000_0001_0000_0020_u64);
    for (row, value) in [(0, a as u32), (1, (a >> 32) as u32), (2, b as u32), (3, (b >> 32) as u32)] {
        registers.rows[row] = Row([value; 32]);
    }
    for (form, destination, sources) in [("add.cc.u32", 4, [0, 2, 0, 0]), ("addc.u32", 5, [1, 3, 0, 0])] {
        let selected = select_form(form);
        let operands = Operands { destination, destination2: UNUSED, sources, extra: selected.extra };
        // SAFETY: all rows and masks named exist.
        unsafe { (selected.function)(registers.rows.as_mut_ptr(), registers.masks.as_mut_ptr(), &operands, u32::MAX) };
    }
    let sum = registers.rows[4].0[31] as u64 | (registers.rows[5].0[31] as u64) << 32;
    assert_eq!(sum, a.wrapping_add(b));
    assert_eq!(registers.masks[CARRY as usize], u32::MAX);
}

#[test]
fn every_f16_survives_the_way_to_f32_and_back() {
    for bits in 0..=u16::MAX {
        let wide = compute("cvt.f32.f16", &[bits as u64]) as u32;
        let reference = ::half::f16::from_bits(bits);
        if reference.is_nan() {
            assert_eq!(wide, 0x7fff_ffff);
        } else {
            assert_eq!(wide, reference.to_f32().to_bits());
            assert_eq!(compute("cvt.rn.f16.f32", &[wide as u64]), bits as u64);
        }
    }
}

/// Bits that make interesting floats often: edges and small exponents beside anything.
fn f32_bits() -> impl Strategy<Value = f32> {
    prop_oneof![
        4 => any::<u32>(),
        2 => (any::<u32>(), 0_u32..40).prop_map(|(bits, exponent)| bits & 0x807f_ffff | (107 + exponent) << 23),
        1 => (any::<u32>(), 0_u32..30).prop_map(|(bits, exponent)| bits & 0x807f_ffff | exponent << 23),
    ]
    .prop_map(f32::from_bits)
}

fn f64_bits() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => any::<u64>(),
        2 => (any::<u64>(), 0_u64..90).prop_map(|(bits, exponent)| bits & !(0x7ff << 52) | (980 + exponent) << 52),
        1 => (any::<u64>(), 0_u64..60).prop_map(|(bits, exponent)| bits & !(0x7ff << 52) | exponent << 52),
    ]
    .prop_map(f64::from_bits)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn integers_agree_with_wide_arithmetic(a: u64, b: u64, c: u64, shift in 0_u64..80) {
        let (x, y, z) = (a as i32 as i128, b as i32 as i128, c as i32 as i128);
        prop_assert_eq!(compute("add.s32", &[a, b]), (x + y) as u32 as u64);
        prop_assert_eq!(compute("mad.lo.s32", &[a, b, c]), (x * y + z) as u32 as u64);
        prop_assert_eq!(compute("mul.hi.s32", &[a, b]), ((x * y) >> 32) as u32 as u64);
        prop_assert_eq!(compute("mad.wide.s32", &[a, b, c]), (x * y + c as i128) as u64);
        prop_assert_eq!(compute("mul.hi.u64", &[a, b]), ((a as u128 * b as u128) >> 64) as u64);
        prop_assert_eq!(compute("mul.hi.s64", &[a, b]), ((a as i64 as i128 * b as i64 as i128) >> 64) as u64);
        prop_assert_eq!(compute("sub.sat.s32", &[a, b]), (x - y).clamp(i32::MIN as i128, i32::MAX as i128) as u32 as u64);
        prop_assert_eq!(compute("sad.s32", &[a, b, c]), (z + (x - y).abs()) as u32 as u64);
        prop_assert_eq!(compute("shl.b64", &[a, shift]), a.checked_shl(shift as u32).unwrap_or(0));
        prop_assert_eq!(compute("shr.s32", &[a, shift]), (x >> shift.min(31)) as u32 as u64);
        prop_assert_eq!(compute("shf.l.wrap.b32", &[a, b, shift]), {
            let pair = (b as u32 as u64) << 32 | a as u32 as u64;
            (pair << (shift % 32)) >> 32
        });
        let quotient = (a as u32).checked_div(b as u32).unwrap_or(u32::MAX);
        prop_assert_eq!(compute("div.u32", &[a, b]), quotient as u64);
        prop_assert_eq!(compute("div.u32", &[a, shift + 1]), (a as u32 / (shift as u32 + 1)) as u64);
        prop_assert_eq!(compute("rem.s32", &[a, b]), x.checked_rem(y).unwrap_or(-1) as u32 as u64);
        prop_assert_eq!(compute("popc.b64", &[a]), a.count_ones() as u64);
        prop_assert_eq!(compute("clz.b32", &[a]), (a as u32).leading_zeros() as u64);
        prop_assert_eq!(compute("setp.lt.s64", &[a, b]), ((a as i64) < b as i64) as u64);
        prop_assert_eq!(compute("setp.hs.u32", &[a, b]), (a as u32 >= b as u32) as u64);
    }

    #[test]
    fn nearest_rounding_is_that_of_the_language(a in f32_bits(), b in f32_bits(), c in f32_bits()) {
        prop_assert!(same32(f32_of("add.f32", &[a, b]), a + b));
        prop_assert!(same32(f32_of("mul.f32", &[a, b]), a * b));
        prop_assert!(same32(f32_of("fma.rn.f32", &[a, b, c]), a.mul_add(b, c)));
        prop_assert!(same32(f32_of("div.rn.f32", &[a, b]), a / b));
        prop_assert!(same32(f32_of("sqrt.rn.f32", &[a]), a.sqrt()));
    }

    #[test]
    fn the_integer_engine_agrees_with_the_processor(a in f64_bits(), b in f64_bits(), c in f64_bits()) {
        let numbers = [a, b, c].map(|a| Number::from_bits(a.to_bits(), exact::F64));
        let mode = Rounding::NearestEven;
        let result = |number: Number| f64::from_bits(number.into_bits(exact::F64, mode));
        prop_assert!(same64(result(exact::sum(numbers, mode)), a + b));
        prop_assert!(same64(result(exact::product(numbers, mode)), a * b));
        prop_assert!(same64(result(exact::quotient(numbers, mode)), a / b));
        prop_assert!(same64(result(exact::fused_product_sum(numbers, mode)), a.mul_add(b, c)));
        prop_assert!(same64(result(exact::root(numbers, mode)), a.sqrt()));
        let narrow = Number::from_bits(a.to_bits(), exact::F64).into_bits(exact::F32, mode) as u32;
        prop_assert!(same32(f32::from_bits(narrow), a as f32));
    }

    #[test]
    fn directed_roundings_are_the_neighbours_of_the_exact_result(a in f64_bits(), b in f64_bits(), c in f64_bits()) {
        // The errors of these are exact as long as nothing comes near the ends of the range.
        let [a, b, c] = [a, b, c].map(|a| {
            let exponent = 900 + (a.to_bits() >> 52) % 200;
            f64::from_bits(a.to_bits() & !(0x7ff << 52) | exponent << 52)
        });
        let product = a * b;
        prop_assert!(brackets(
            f64_of("mul.rm.f64", &[a, b]), f64_of("mul.rp.f64", &[a, b]), product, a.mul_add(b, -product) == 0.0
        ));
        let quotient = a / b;
        prop_assert!(brackets(
            f64_of("div.rm.f64", &[a, b]), f64_of("div.rp.f64", &[a, b]), quotient, quotient.mul_add(-b, a) == 0.0
        ));
        let root = a.abs().sqrt();
        prop_assert!(brackets(
            f64_of("sqrt.rm.f64", &[a.abs()]), f64_of("sqrt.rp.f64", &[a.abs()]), root, root.mul_add(-root, a.abs()) == 0.0
        ));
        let sum = a + b;
        let other = sum - a;
        let error = (a - (sum - other)) + (b - other);
        prop_assert!(brackets(f64_of("add.rm.f64", &[a, b]), f64_of("add.rp.f64", &[a, b]), sum, error == 0.0));
        let (down, up) = (f64_of("fma.rm.f64", &[a, b, c]), f64_of("fma.rp.f64", &[a, b, c]));
        let nearest = a.mul_add(b, c);
        prop_assert!(down <= nearest && nearest <= up && (down == up || down.next_up() == up));
        let zero = f64_of("fma.rz.f64", &[a, b, c]);
        prop_assert_eq!(zero, if nearest > 0.0 { down } else { up });
    }

    #[test]
    fn f32_products_round_down_and_up_around_the_exact_one(a in f32_bits(), b in f32_bits()) {
        prop_assume!(a.is_finite() && b.is_finite());
        let exact = a as f64 * b as f64;
        let (down, up) = (f32_of("mul.rm.f32", &[a, b]), f32_of("mul.rp.f32", &[a, b]));
        prop_assert!(down as f64 <= exact && exact <= up as f64);
        prop_assert!(down == up || down.next_up() == up || (down, up) == (0.0, 0.0));
        let toward_zero = f32_of("mul.rz.f32", &[a, b]);
        prop_assert_eq!(toward_zero, if exact > 0.0 { down } else { up });
    }

    #[test]
    fn halves_agree_with_the_half_crate(a: u16, b: u16, wide in f32_bits(), double in f64_bits()) {
        use ::half::{bf16, f16};
        let bits = |a: f16| if a.is_nan() { 0x7fff } else { a.to_bits() as u64 };
        let brain_bits = |a: bf16| if a.is_nan() { 0x7fff } else { a.to_bits() as u64 };
        let sources = [a as u64, b as u64];
        let (x, y) = (f16::from_bits(a), f16::from_bits(b));
        prop_assert_eq!(compute("add.f16", &sources), bits(x + y));
        prop_assert_eq!(compute("mul.f16", &sources), bits(x * y));
        prop_assert_eq!(compute("cvt.rn.f16.f32", &[wide.to_bits() as u64]), bits(f16::from_f32(wide)));
        prop_assert_eq!(compute("cvt.rn.bf16.f32", &[wide.to_bits() as u64]), brain_bits(bf16::from_f32(wide)));
        let exact = Number::from_bits(double.to_bits(), exact::F64).into_bits(exact::F16, Rounding::NearestEven);
        if !double.is_nan() {
            prop_assert_eq!(compute("cvt.rn.f16.f64", &[double.to_bits()]), exact);
        }
        let (x, y) = (bf16::from_bits(a), bf16::from_bits(b));
        prop_assert_eq!(compute("add.bf16", &sources), brain_bits(x + y));
        prop_assert_eq!(compute("mul.bf16", &sources), brain_bits(x * y));
    }

    #[test]
    fn half_fma_rounds_once(a: u16, b: u16, c: u16) {
        for (form, format) in [("fma.rn.f16", exact::F16), ("fma.rn.bf16", exact::BF16)] {
            let numbers = [a, b, c].map(|a| Number::from_bits(a as u64, format));
            let mode = Rounding::NearestEven;
            let expected = exact::fused_product_sum(numbers, mode).into_bits(format, mode);
            prop_assert_eq!(compute(form, &[a as u64, b as u64, c as u64]), expected, "{}", form);
        }
    }

    #[test]
    fn integers_become_the_right_floats(a: u64) {
        prop_assert_eq!(compute("cvt.rn.f32.s64", &[a]), (a as i64 as f32).to_bits() as u64);
        prop_assert_eq!(compute("cvt.rn.f64.u64", &[a]), (a as f64).to_bits());
        let down = f32::from_bits(compute("cvt.rm.f32.u64", &[a]) as u32) as f64;
        let up = f32::from_bits(compute("cvt.rp.f32.u64", &[a]) as u32) as f64;
        prop_assert!(down as u128 <= a as u128 && a as u128 <= up as u128);
        prop_assert!(down == up || (down as f32).next_up() as f64 == up);
    }

    #[test]
    fn bit_fields_agree_with_a_bit_by_bit_walk(a: u64, b: u64, position in 0_u64..80, length in 0_u64..80) {
        let bit = |value: u64, index: u64| value >> index & 1;
        let sign = |index: u64| bit(a, index.min(63));
        let extracted = (0..64).fold(0, |result, index| {
            let inside = index < length && position + index <= 63;
            let fill = if length == 0 { 0 } else { sign(position + length - 1) };
            result | if inside { bit(a, position + index) } else { fill } << index
        });
        prop_assert_eq!(compute("bfe.s64", &[a, position, length]), extracted);
        let inserted = (0..64).fold(0, |result, index| {
            let inside = index >= position && index < position + length;
            result | if inside { bit(a, index - position) } else { bit(b, index) } << index
        });
        prop_assert_eq!(compute("bfi.b64", &[a, b, position, length]), inserted);
    }
}
