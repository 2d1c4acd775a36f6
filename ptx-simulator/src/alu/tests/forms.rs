//! Every form of every instruction that the module promises, written with braces for the alternatives.

/// The promised forms; `{a,b}` stands for either, `{,x}` for with and without.
pub(crate) const FORMS: &[&str] = &[
    // Integers
    "{add,sub}.{u16,s16,u32,s32,u64,s64}",
    "{add,sub}.sat.s32",
    "add.{u16x2,s16x2}",
    "mul.{lo,hi}.{u16,s16,u32,s32,u64,s64}",
    "mul.wide.{u16,s16,u32,s32}",
    "mad.{lo,hi}.{u16,s16,u32,s32,u64,s64}",
    "mad.wide.{u16,s16,u32,s32}",
    "mad.hi.sat.s32",
    "{mul24,mad24}.{lo,hi}.{u32,s32}",
    "mad24.hi.sat.s32",
    "sad.{u16,s16,u32,s32,u64,s64}",
    "{div,rem}.{u16,s16,u32,s32,u64,s64}",
    "{abs,neg}.{s16,s32,s64}",
    "{min,max}.{u16,s16,u32,s32,u64,s64,u16x2,s16x2}",
    "{min,max}.relu.{s32,s16x2}",
    "dp4a.{u32,s32}.{u32,s32}",
    "dp2a.{lo,hi}.{u32,s32}.{u32,s32}",
    "{add,sub}.cc.{u32,s32,u64,s64}",
    "{addc,subc}{,.cc}.{u32,s32,u64,s64}",
    "mad.{lo,hi}.cc.{u32,s32,u64,s64}",
    "madc.{lo,hi}{,.cc}.{u32,s32,u64,s64}",
    // Bits
    "{and,or,xor}.{b16,b32,b64,pred}",
    "not.{b16,b32,b64,pred}",
    "cnot.{b16,b32,b64}",
    "lop3.b32",
    "shl.{b16,b32,b64}",
    "shr.{b16,b32,b64,u16,s16,u32,s32,u64,s64}",
    "shf.{l,r}.{clamp,wrap}.b32",
    "{popc,clz,brev}.{b32,b64}",
    "bfind{,.shiftamt}.{u32,s32,u64,s64}",
    "fns.b32",
    "bfe.{u32,s32,u64,s64}",
    "bfi.{b32,b64}",
    "bmsk.{clamp,wrap}.b32",
    "szext.{clamp,wrap}.{u32,s32}",
    "prmt.b32{,.f4e,.b4e,.rc8,.ecl,.ecr,.rc16}",
    "mov.{b16,u16,s16,b32,u32,s32,f32,b64,u64,s64,f64,pred}",
    // Comparisons
    "setp.{eq,ne}.{b16,b32,b64}",
    "setp.{eq,ne,lt,le,gt,ge}{,.and,.or,.xor}.{s16,s32,s64}",
    "setp.{eq,ne,lt,le,gt,ge,lo,ls,hi,hs}{,.and}.{u16,u32,u64}",
    "setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}{,.xor}.{f32,f64}",
    "setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}{,.or}{.f16,.f16x2,.bf16,.bf16x2,.ftz.f32,.ftz.f16,.ftz.f16x2}",
    "set.{eq,ne}{,.and}.{u32,s32,f32}.{b16,b32,b64}",
    "set.{eq,lt,ge}{,.and}.{u32,s32,f32}.{u16,s16,u32,s32,u64,s64,f32,f64}",
    "set.{ltu,nan,neu}{,.xor}.{u32,s32,f32}.{f32,f64}",
    "set.{lt,neu}{,.ftz}.{u32,s32,f32}.f32",
    "set.{lt,neu}{,.or}.{u16,s16,u32,s32,f16}.f16",
    "set.{lt,neu}.{u16,s16,u32,s32,bf16}.bf16",
    "set.{lt,neu}{,.or}{,.ftz}.{u32,s32,f16x2}.f16x2",
    "set.{lt,neu}.{u32,s32,bf16x2}.bf16x2",
    "selp.{b16,u16,s16,b32,u32,s32,f32,b64,u64,s64,f64}",
    "slct.{b16,u16,s16,b32,u32,s32,f32,b64,u64,s64,f64}.{s32,f32}",
    "slct.ftz.{b32,f32,u64}.f32",
    "testp.{finite,infinite,number,notanumber,normal,subnormal}.{f32,f64}",
    // Floats
    "{add,sub,mul}{,.rn,.rz,.rm,.rp}{,.ftz}{,.sat}.f32",
    "{fma,mad}.{rn,rz,rm,rp}{,.ftz}{,.sat}.f32",
    "{add,sub,mul}{,.rn,.rz,.rm,.rp}.f64",
    "{fma,mad}.{rn,rz,rm,rp}.f64",
    "{div,rcp,sqrt}.{rn,rz,rm,rp}{,.ftz}.f32",
    "{div,rcp,sqrt}.{rn,rz,rm,rp}.f64",
    "div.{full,approx}{,.ftz}.f32",
    "{rcp,sqrt,rsqrt,sin,cos,lg2,ex2}.approx{,.ftz}.f32",
    "tanh.approx.f32",
    "{rcp,rsqrt}.approx.ftz.f64",
    "rsqrt.approx.f64",
    "{abs,neg}{,.ftz}.f32",
    "{abs,neg,copysign}.f64",
    "copysign.f32",
    "{min,max}{,.ftz}{,.NaN}{,.xorsign.abs}.f32",
    "{min,max}.f64",
    // Halves
    "{add,sub,mul}{,.rn}{,.ftz}{,.sat}.{f16,f16x2}",
    "{add,sub,mul}{,.rn}.{bf16,bf16x2}",
    "fma.rn{,.ftz}{,.sat,.relu}.{f16,f16x2}",
    "fma.rn{,.relu}.{bf16,bf16x2}",
    "{abs,neg}{,.ftz}.{f16,f16x2}",
    "{abs,neg}.{bf16,bf16x2}",
    "{min,max}{,.ftz}{,.NaN}{,.xorsign.abs}.{f16,f16x2}",
    "{min,max}{,.NaN}{,.xorsign.abs}.{bf16,bf16x2}",
    "ex2.approx.{f16,f16x2}",
    "ex2.approx.ftz.{bf16,bf16x2}",
    "tanh.approx.{f16,f16x2,bf16,bf16x2}",
    // Conversions
    "cvt.{u8,s8,u16,s16,u32,s32,u64,s64}.{u8,s8,u16,s16,u32,s32,u64,s64}",
    "cvt.sat.{u8.s8,u8.u16,u8.s16,u8.u32,u8.s32,u8.u64,u8.s64,s8.u8,s8.u16,s8.s16,s8.u32,s8.s32,s8.u64,s8.s64}",
    "cvt.sat.{u16.s8,u16.s16,u16.u32,u16.s32,u16.u64,u16.s64,s16.u16,s16.u32,s16.s32,s16.u64,s16.s64}",
    "cvt.sat.{u32.s8,u32.s16,u32.s32,u32.u64,u32.s64,s32.u32,s32.u64,s32.s64,u64.s8,u64.s16,u64.s32,u64.s64,s64.u64}",
    "cvt.{rni,rzi,rmi,rpi}.{u8,s8,u16,s16,u32,s32,u64,s64}.{f16,f32,f64}",
    "cvt.{rni,rzi,rmi,rpi}.{u16,s16,u32,s32,u64,s64}.bf16",
    "cvt.{rni,rzi,rmi,rpi}.ftz.{u8,s16,u32,s32,s64}.f32",
    "cvt.{rn,rz,rm,rp}.{f16,f32,f64}.{u8,s8,u16,s16,u32,s32,u64,s64}",
    "cvt.{rn,rz,rm,rp}.bf16.{u16,s16,u32,s32,u64,s64}",
    "cvt.{rn,rz}.sat.{f16,f32,f64}.{u32,s32,s64}",
    "cvt.{rn,rz,rm,rp}{,.ftz}{,.sat}.f32.f64",
    "cvt{,.sat}.f64.f32",
    "cvt.ftz{,.sat}.f64.f32",
    "cvt{,.sat}.{f32,f64}.f16",
    "cvt.ftz{,.sat}.f32.f16",
    "cvt{,.ftz}.f32.bf16",
    "cvt.f64.bf16",
    "cvt.{rn,rz,rm,rp}{,.sat}.f16.{f32,f64}",
    "cvt.{rn,rz}.ftz{,.sat}.f16.f32",
    "cvt.{rn,rz,rm,rp}.bf16.{f32,f64}",
    "cvt.{rn,rz}{,.relu}{,.satfinite}.{f16,bf16}.f32",
    "cvt.{rn,rz,rm,rp}.{f16.bf16,bf16.f16}",
    "cvt{,.ftz}{,.sat}.f32.f32",
    "cvt{,.sat}.f64.f64",
    "cvt.{rni,rzi,rmi,rpi}{,.ftz}{,.sat}.f32.f32",
    "cvt.{rni,rzi,rmi,rpi}{,.sat}.f64.f64",
    "cvt.{rni,rzi,rmi,rpi}.{f16.f16,bf16.bf16}",
    "cvt.{rn,rz}{,.relu}{,.satfinite}.{f16x2,bf16x2}.f32",
    "cvt.rna.tf32.f32",
    "cvt.{rn,rz}{,.relu}.tf32.f32",
    "cvt.rn.satfinite{,.relu}.{e4m3x2,e5m2x2}.{f32,f16x2}",
    "cvt.rn{,.relu}.f16x2.{e4m3x2,e5m2x2}",
    "cvt.pack.sat.{u16,s16}.s32",
    "cvt.pack.sat.{u8,s8}.s32.b32",
];

/// All texts that a pattern with braces stands for.
pub(crate) fn expand(pattern: &str) -> Vec<String> {
    let Some(open) = pattern.find('{') else { return vec![pattern.to_owned()] };
    let close = open + pattern[open..].find('}').expect("a closing brace");
    let rest = expand(&pattern[close + 1..]);
    pattern[open + 1..close]
        .split(',')
        .flat_map(|choice| rest.iter().map(move |rest| format!("{}{choice}{rest}", &pattern[..open])))
        .collect()
}

/// All promised forms, each once.
pub(crate) fn all() -> Vec<String> {
    let mut forms: Vec<String> = FORMS.iter().flat_map(|pattern| expand(pattern)).collect();
    forms.sort();
    forms.dedup();
    forms
}
