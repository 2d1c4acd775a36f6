//! What isn't understood is refused, with a sentence that says what.

use super::*;

fn refusal(form: &str) -> String {
    let mut parts = form.split('.');
    let opcode = parts.next().expect("an opcode");
    match select(opcode, &parts.collect::<Vec<&str>>()) {
        Ok(_) => panic!("{form} was accepted"),
        Err(refusal) => refusal.to_string(),
    }
}

#[test]
fn unknown_opcodes_modifiers_and_types_are_named() {
    assert!(refusal("frobnicate.b32").contains("`frobnicate.b32` is not supported"));
    assert!(refusal("add.rn.s32").contains("`.rn`"));
    assert!(refusal("add.b32").contains("B32"));
    assert!(refusal("add").contains("type"));
    assert!(refusal("setp.s32").contains("comparison"));
    assert!(refusal("setp.lo.s32").contains("`.lo`"));
    assert!(refusal("cvt.f32.s32").contains("rounding"));
    assert!(refusal("cvt.rn.f64.f32").contains("exact"));
}

#[test]
fn forms_that_are_not_done_are_refused() {
    for form in [
        "",
        "add.f32x2",
        "fma.f32",
        "fma.rn.f32x2",
        "fma.rn.oob.f16",
        "fma.rn.ftz.bf16",
        "fma.rn.sat.relu.f64",
        "add.sat.u32",
        "add.sat.f64",
        "add.ftz.f64",
        "mul.s32",
        "mul.wide.s64",
        "lop3.and.b32",
        "shf.l.b32",
        "prmt.b64",
        "abs.u32",
        "neg.u32",
        "min.NaN.f64",
        "min.xorsign.f32",
        "sin.f32",
        "tanh.approx.ftz.f32",
        "div.f32",
        "rcp.approx.f64",
        "cvt.rn.e4m3x2.f32",
        "cvt.rn.satfinite.e2m1x2.f32",
        "cvt.rn.f16x2.f16x2",
        "cvt.s32.f32",
        "cvt.pack.s16.s32",
        "set.lt.s32",
        "setp.lt.ftz.f64",
        "testp.f32",
        "add.s32.s32",
        "vadd.u32.u32.u32",
        "ld.global.u32",
    ] {
        refusal(form);
    }
}

#[test]
fn a_64_bit_register_for_a_narrow_float_conversion_is_refused() {
    let widths = Widths { source_is_64: true, ..Widths::default() };
    assert!(select_with_widths("cvt", &["rn", "f32", "s32"], widths).is_err());
    assert!(select_with_widths("cvt", &["rn", "f32", "s64"], widths).is_ok());
}
