//! What holds for every form alike: it exists, all code levels agree, hardware agrees, and lanes and registers that are
//! not the instruction's business stay as they were.

use std::collections::HashMap;

use super::samples::{COUNT, Registers, Samples, fingerprint, load, run};
use super::*;

/// What an H200 gave for the same samples.
fn hopper() -> HashMap<&'static str, u64> {
    include_str!("hopper.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let (form, hash) = line.split_once(' ').expect("a form and a fingerprint");
            (form, u64::from_str_radix(hash, 16).expect("a hexadecimal number"))
        })
        .collect()
}

#[test]
fn every_promised_form_gives_the_bits_of_an_h200() {
    let samples = Samples::new();
    let hopper = hopper();
    let mut compared = 0;
    let mut wrong = Vec::new();
    for form in forms::all() {
        let results = run(&form, &select_form(&form), &samples);
        if let Some(&expected) = hopper.get(form.as_str()) {
            compared += 1;
            if fingerprint(&results) != expected {
                wrong.push(form);
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {compared} forms differ from hardware: {wrong:?}", wrong.len());
    assert!(compared > 1700, "only {compared} forms were compared");
}

#[test]
fn all_code_levels_give_the_same_bits() {
    let samples = Samples::new();
    for form in forms::all() {
        let expected = run(&form, &select_form_for(Level::Portable, &form), &samples);
        for level in Level::available() {
            let results = run(&form, &select_form_for(level, &form), &samples);
            let difference = (0..COUNT).find(|&index| results[index] != expected[index]);
            assert_eq!(difference, None, "{form} at {level:?}: set {difference:?} differs");
        }
    }
}

#[test]
fn lanes_that_are_not_active_keep_what_they_held() {
    let samples = Samples::new();
    for form in forms::all() {
        for level in Level::available() {
            let selected = select_form_for(level, &form);
            for (first, active) in [(0, 0), (64, 1), (256, 0x8000_0000), (1024, 0xa5a5_0ff0), (4096, 0x7fff_ffff)] {
                let mut whole = Registers::new();
                let operands = load(&form, &selected, &samples, first, &mut whole);
                let mut partial = Registers { rows: whole.rows.clone(), masks: whole.masks.clone() };
                let before = Registers { rows: whole.rows.clone(), masks: whole.masks.clone() };
                // SAFETY: the registers have all rows and masks that `load` names.
                unsafe {
                    (selected.function)(whole.rows.as_mut_ptr(), whole.masks.as_mut_ptr(), &operands, u32::MAX);
                    (selected.function)(partial.rows.as_mut_ptr(), partial.masks.as_mut_ptr(), &operands, active);
                }
                let wide = selected.destinations[0].bits() == 64;
                for lane in 0..32 {
                    let expected = if active >> lane & 1 != 0 { &whole } else { &before };
                    for row in (0..16).step_by(2) {
                        if wide {
                            assert_eq!(partial.get64(row, lane), expected.get64(row, lane), "{form}, lane {lane}");
                        } else {
                            let [low, high] = [0, 1].map(|part| (row + part) as usize);
                            assert_eq!(partial.rows[low].0[lane], expected.rows[low].0[lane], "{form}, lane {lane}");
                            assert_eq!(partial.rows[high].0[lane], expected.rows[high].0[lane], "{form}, lane {lane}");
                        }
                    }
                    for mask in 0..16 {
                        let bit = |registers: &Registers| registers.masks[mask] >> lane & 1;
                        assert_eq!(bit(&partial), bit(expected), "{form}, mask {mask}, lane {lane}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_destination_may_be_any_of_the_sources() {
    let samples = Samples::new();
    for form in forms::all() {
        let selected = select_form(&form);
        for position in 0..selected.sources.len() {
            let destination = selected.destinations[0];
            if selected.sources[position].rows() != destination.rows() {
                continue;
            }
            let mut apart = Registers::new();
            let operands = load(&form, &selected, &samples, 4096, &mut apart);
            let mut shared = Registers { rows: apart.rows.clone(), masks: apart.masks.clone() };
            let onto_source = Operands { destination: operands.sources[position], ..operands };
            // SAFETY: the registers have all rows and masks that `load` names.
            unsafe {
                (selected.function)(apart.rows.as_mut_ptr(), apart.masks.as_mut_ptr(), &operands, u32::MAX);
                (selected.function)(shared.rows.as_mut_ptr(), shared.masks.as_mut_ptr(), &onto_source, u32::MAX);
            }
            for lane in 0..32 {
                assert_eq!(
                    shared.get(destination, onto_source.destination, lane),
                    apart.get(destination, operands.destination, lane),
                    "{form} onto source {position}, lane {lane}"
                );
            }
        }
    }
}

#[test]
fn a_predicate_destination_may_be_the_predicate_source() {
    let mut masks = [0, u32::MAX, 0x0f0f_0f0f, 0];
    let mut rows = [Row([1; 32]), Row([2; 32])];
    let selected = select_form("setp.lt.and.u32");
    let operands = Operands { destination: 2, destination2: 3, sources: [0, 1, 2, 0], extra: selected.extra };
    // SAFETY: rows 0 and 1 and masks up to 3 exist.
    unsafe { (selected.function)(rows.as_mut_ptr(), masks.as_mut_ptr(), &operands, u32::MAX) };
    assert_eq!(masks, [0, u32::MAX, 0x0f0f_0f0f, 0]);
}

#[test]
fn negated_predicate_sources_read_as_their_opposite() {
    for (form, positions) in [("selp.b32", [2].as_slice()), ("setp.lt.xor.s32", &[2]), ("and.pred", &[0, 1])] {
        let selected = select_form(form);
        for &position in positions {
            let run = |mask: u32, extra: u32| {
                let mut rows = [Row(std::array::from_fn(|lane| lane as u32)), Row([16; 32]), Row([0; 32])];
                let mut masks = [0, u32::MAX, 0x1234_5678, 0x1234_5678, 0];
                masks[2 + (position & 1)] = mask;
                let predicate = selected.destinations[0] == Type::Pred;
                let operands = Operands {
                    destination: if predicate { 4 } else { 2 },
                    destination2: UNUSED,
                    sources: if form == "and.pred" { [2, 3, 0, 0] } else { [0, 1, 2 + (position as u32 & 1), 0] },
                    extra,
                };
                // SAFETY: all rows and masks named exist.
                unsafe { (selected.function)(rows.as_mut_ptr(), masks.as_mut_ptr(), &operands, u32::MAX) };
                (rows[2], masks[4])
            };
            let negated = run(0x00ff_a5a5, selected.extra ^ negate_source(position));
            assert_eq!(negated, run(!0x00ff_a5a5, selected.extra), "{form}, source {position}");
        }
    }
}

#[test]
fn types_are_those_of_the_text() {
    use Type::{B16, B32, F32, F64, Pred, S32, S64, U16, U32};
    for (form, destinations, sources) in [
        ("selp.f32", [F32].as_slice(), [F32, F32, Pred].as_slice()),
        ("mov.f64", &[F64], &[F64]),
        ("mul.wide.s32", &[S64], &[S32, S32]),
        ("mad.wide.u16", &[U32], &[U16, U16, U32]),
        ("shl.b16", &[B16], &[B16, U32]),
        ("slct.f32.s32", &[F32], &[F32, F32, S32]),
        ("setp.lt.and.f64", &[Pred, Pred], &[F64, F64, Pred]),
        ("lop3.b32", &[B32], &[B32, B32, B32, U32]),
        ("cvt.rzi.s64.f64", &[S64], &[F64]),
        ("add.s32", &[S32], &[S32, S32]),
    ] {
        let selected = select_form(form);
        assert_eq!(&*selected.destinations, destinations, "{form}");
        assert_eq!(&*selected.sources, sources, "{form}");
    }
}
