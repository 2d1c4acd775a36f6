//! `wgmma`: matrices lie in shared memory as bulk copies put them there, and the product is right.

use crate::support::{Machine, bytes_of, load, on_any_number_of_cores};
use half::{bf16, f16};
use ptx_simulator::{Argument, LaunchError, LaunchErrorKind, MemorySpace, Module};

const M: usize = 64;

/// A type of factors.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Type {
    F16,
    BF16,
    TF32,
}

impl Type {
    fn name(self) -> &'static str {
        match self {
            Type::F16 => "f16",
            Type::BF16 => "bf16",
            Type::TF32 => "tf32",
        }
    }

    fn bytes(self) -> usize {
        if self == Type::TF32 { 4 } else { 2 }
    }

    /// Columns of A in one instruction.
    fn step(self) -> usize {
        32 / self.bytes()
    }

    /// The nearest number of the type, and its bytes. Of tf32 the lowest 13 bits count for nothing, and are set here.
    fn round(self, x: f32) -> (f32, Vec<u8>) {
        match self {
            Type::F16 => (f16::from_f32(x).to_f32(), f16::from_f32(x).to_le_bytes().to_vec()),
            Type::BF16 => (bf16::from_f32(x).to_f32(), bf16::from_f32(x).to_le_bytes().to_vec()),
            Type::TF32 => {
                let bits = x.to_bits() & !0x1fff;
                (f32::from_bits(bits), (bits | 0x1234).to_le_bytes().to_vec())
            }
        }
    }
}

/// How a factor lies in shared memory: along which dimension, and the span of the swizzle or 0.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Layout {
    along_mn: bool,
    span: usize,
}

const K_128: Layout = Layout { along_mn: false, span: 128 };

/// A factor in shared memory: its bytes, and the descriptor of each step along K.
struct Stored {
    bytes: Vec<u8>,
    descriptors: Vec<u64>,
}

/// Where the manual's swizzle puts a byte: among the chunks of its line of 128 bytes, by the line's number.
fn swizzled(offset: usize, span: usize) -> usize {
    let (line, chunk, byte) = (offset / 128, offset / 16 % 8, offset % 16);
    line * 128 + (chunk ^ (line % (span.max(16) / 16))) * 16 + byte
}

impl Layout {
    /// Lays out a factor of `mn` x `k` elements as boxes of a bulk copy lie there, or as core matrices of eight rows of 16
    /// bytes without a swizzle. `base` is where it will be.
    fn store(self, ty: Type, mn: usize, k: usize, element: impl Fn(usize, usize) -> f32, base: usize) -> Stored {
        let (size, span) = (ty.bytes(), self.span);
        let (in_span, in_chunk) = (span / size, 16 / size);
        // Offset of an element before the swizzle.
        let place = |i: usize, k_place: usize| match (self.along_mn, span) {
            (false, 0) => ((k_place / in_chunk) * (mn / 8) + i / 8) * 128 + i % 8 * 16 + k_place % in_chunk * size,
            (true, 0) => ((i / in_chunk) * (k / 8) + k_place / 8) * 128 + k_place % 8 * 16 + i % in_chunk * size,
            (false, _) => k_place / in_span * mn * span + i * span + k_place % in_span * size,
            (true, _) => i / in_span * k * span + k_place * span + i % in_span * size,
        };
        let (leading, stride) = match (self.along_mn, span) {
            (false, 0) => (mn / 8 * 128, 128),
            (true, 0) => (128, k / 8 * 128),
            // Counts for nothing.
            (false, _) => (16, 8 * span),
            (true, _) => (k * span, 8 * span),
        };
        let whole = |number: usize| number.next_multiple_of(in_span.max(8));
        let mut bytes = vec![0xee; (whole(mn) * whole(k) * size).next_multiple_of(1024)];
        for i in 0..mn {
            for k_place in 0..k {
                let at = swizzled(place(i, k_place), span);
                bytes[at..at + size].copy_from_slice(&ty.round(element(i, k_place)).1);
            }
        }
        let kind: u64 = match span {
            0 => 0,
            128 => 1,
            64 => 2,
            _ => 3,
        };
        let descriptor = |step: usize| {
            let start = base + place(0, step * ty.step());
            (start / 16) as u64 | ((leading / 16) as u64) << 16 | ((stride / 16) as u64) << 32 | kind << 62
        };
        Stored { bytes, descriptors: (0..k / ty.step()).map(descriptor).collect() }
    }
}

/// A product of 64 x N x K, in steps of one instruction each.
struct Product {
    ty: Type,
    n: usize,
    k: usize,
    a: Layout,
    b: Layout,
    /// A comes from registers.
    registers: bool,
    /// Factors of A and of B: 1 or -1.
    scales: [i32; 2],
    /// Whether the first step adds to what is there.
    adds: bool,
}

const PLAIN: Product =
    Product { ty: Type::BF16, n: 64, k: 64, a: K_128, b: K_128, registers: false, scales: [1, 1], adds: true };

impl Product {
    fn kernel(&self, change: impl Fn(String) -> String) -> String {
        let sums: Vec<String> = (0..self.n / 2).map(|register| format!("%d{register}")).collect();
        let names = sums.join(", ");
        let mut steps = String::new();
        for step in 0..self.k / self.ty.step() {
            let (a, fetch) = if self.registers {
                let fetch = format!("ld.global.v4.u32 {{%r4, %r5, %r6, %r7}}, [%of_a+{}];", step * 128 * 16);
                ("{%r4, %r5, %r6, %r7}".to_owned(), fetch)
            } else {
                ("%rd1".to_owned(), format!("ld.global.u64 %rd1, [%descriptors+{}];", step * 16))
            };
            let ways = match (self.ty, self.registers) {
                (Type::TF32, _) => String::new(),
                (_, true) => format!(", {}", u8::from(self.b.along_mn)),
                (_, false) => format!(", {}, {}", u8::from(self.a.along_mn), u8::from(self.b.along_mn)),
            };
            let ty = self.ty.name();
            let [scale_a, scale_b] = self.scales;
            steps += &format!(
                "{fetch} ld.global.u64 %rd2, [%descriptors+{}]; setp.ne.u32 %p1, {}, 0;
                wgmma.fence.sync.aligned;
                wgmma.mma_async.sync.aligned.m64n{}k{}.f32.{ty}.{ty} {{{names}}}, {a}, %rd2, %p1, {scale_a}, {scale_b}{ways};\n",
                step * 16 + 8,
                u32::from(step > 0 || self.adds),
                self.n,
                self.ty.step()
            );
        }
        let fetch: String =
            sums.iter().enumerate().map(|(i, name)| format!("ld.global.f32 {name}, [%sums+{}];\n", i * 4)).collect();
        let show: String =
            sums.iter().enumerate().map(|(i, name)| format!("st.global.f32 [%sums+{}], {name};\n", i * 4)).collect();
        let text = format!(
            ".version 8.0
            .target sm_90a
            .address_size 64
            .extern .shared .align 1024 .b8 stage[];
            .visible .entry test(.param .u64 sums, .param .u64 bytes, .param .u32 count, .param .u64 descriptors,
                .param .u64 of_a)
            {{
                .reg .pred %p<8>; .reg .b32 %r<32>; .reg .b64 %rd<16>; .reg .f32 %d<128>; .reg .b32 %thread, %count;
                .reg .b64 %sums, %bytes, %descriptors, %of_a;
                ld.param.u64 %sums, [sums]; ld.param.u64 %bytes, [bytes]; ld.param.u32 %count, [count];
                ld.param.u64 %descriptors, [descriptors]; ld.param.u64 %of_a, [of_a];
                mov.u32 %thread, %tid.x; mad.wide.u32 %sums, %thread, {row}, %sums; mad.wide.u32 %of_a, %thread, 16, %of_a;
                mov.u32 %r0, stage; mad.lo.u32 %r0, %thread, 4, %r0; mul.lo.u32 %r1, %thread, 4;
                mad.wide.u32 %bytes, %thread, 4, %bytes;
                fill: ld.global.u32 %r2, [%bytes]; st.shared.u32 [%r0], %r2; add.u32 %r0, %r0, 512;
                add.u64 %bytes, %bytes, 512; add.u32 %r1, %r1, 512; setp.lt.u32 %p0, %r1, %count; @%p0 bra fill;
                fence.proxy.async; bar.sync 0;
                {fetch}
                {steps}
                wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
                {show}
                ret;
            }}",
            row = self.n * 2
        );
        change(text)
    }

    /// D, and the error if there is one; `change` may change the kernel.
    fn try_run(
        &self,
        machine: &mut Machine,
        a: &dyn Fn(usize, usize) -> f32,
        b: &dyn Fn(usize, usize) -> f32,
        c: &dyn Fn(usize, usize) -> f32,
        change: impl Fn(String) -> String,
    ) -> Result<Vec<f32>, LaunchError> {
        let module = load(&self.kernel(change));
        let of_a = self.a.store(self.ty, M, self.k, a, 0);
        let of_b = self.b.store(self.ty, self.n, self.k, |n, k| b(k, n), of_a.bytes.len());
        let descriptors: Vec<u64> =
            of_a.descriptors.iter().zip(&of_b.descriptors).flat_map(|(a, b)| [*a, *b]).collect();
        let bytes = [of_a.bytes, of_b.bytes].concat();
        // A in registers: those of each thread, step by step.
        let mut in_registers = Vec::new();
        for step in 0..self.k / self.ty.step() {
            for thread in 0..128 {
                for register in 0..4 {
                    let (warp, g, t) = (thread / 32, thread % 32 / 4, thread % 4);
                    let row = 16 * warp + g + if register % 2 == 1 { 8 } else { 0 };
                    let mut put = |column: usize| {
                        in_registers.extend(self.ty.round(a(row, step * self.ty.step() + column)).1);
                    };
                    match self.ty {
                        Type::TF32 => put(t + if register >= 2 { 4 } else { 0 }),
                        _ => (0..2).for_each(|half| put(2 * t + half + if register >= 2 { 8 } else { 0 })),
                    }
                }
            }
        }
        let mut sums = Vec::new();
        for thread in 0..128 {
            sums.extend((0..self.n / 2).map(|register| place(thread, register)).map(|(row, column)| c(row, column)));
        }
        let sums = machine.upload(&sums);
        let count = bytes.len() as u32;
        let arguments = [
            Argument::Pointer(sums),
            Argument::Pointer(machine.upload(&bytes)),
            Argument::U32(count),
            Argument::Pointer(machine.upload(&bytes_of(
                &descriptors.iter().flat_map(|d| [*d as u32, (d >> 32) as u32]).collect::<Vec<u32>>(),
            ))),
            Argument::Pointer(machine.upload(&in_registers)),
        ];
        machine.try_launch(&module, "test", 1, 128, count, &arguments)?;
        let got: Vec<f32> = machine.download(sums, 64 * self.n);
        let mut d = vec![f32::NAN; M * self.n];
        for thread in 0..128 {
            for register in 0..self.n / 2 {
                let (row, column) = place(thread, register);
                d[row * self.n + column] = got[thread * self.n / 2 + register];
            }
        }
        Ok(d)
    }

    fn run(
        &self,
        a: impl Fn(usize, usize) -> f32,
        b: impl Fn(usize, usize) -> f32,
        c: impl Fn(usize, usize) -> f32,
    ) -> Vec<f32> {
        on_any_number_of_cores(|machine| {
            self.try_run(machine, &a, &b, &c, |text| text).unwrap_or_else(|error| panic!("{error}"))
        })
    }

    #[track_caller]
    fn is_right(&self) {
        // Small whole numbers, no two rows or columns alike.
        let a = |m: usize, k: usize| ((m * 5 + k * 3 + m * k % 7) % 13) as f32 - 6.0;
        let b = |k: usize, n: usize| ((n * 3 + k * 7 + n * k % 5) % 11) as f32 - 5.0;
        let c = |m: usize, n: usize| (m * 300 + n) as f32;
        let got = self.run(a, b, c);
        let sign = (self.scales[0] * self.scales[1]) as f32;
        for m in 0..M {
            for n in 0..self.n {
                let sum: f32 = (0..self.k).map(|k| a(m, k) * b(k, n)).sum();
                let want = sign * sum + if self.adds { c(m, n) } else { 0.0 };
                let Product { ty, n: width, a, b, registers, .. } = self;
                assert_eq!(got[m * self.n + n], want, "{ty:?} n{width} {a:?} {b:?} {registers}: ({m}, {n})");
            }
        }
    }
}

/// Row and column of a thread's element d_i, as the manual's figure of the accumulators has them.
fn place(thread: usize, register: usize) -> (usize, usize) {
    let (warp, lane) = (thread / 32, thread % 32);
    let row = 16 * warp + lane / 4 + if register % 4 >= 2 { 8 } else { 0 };
    (row, 8 * (register / 4) + lane % 4 * 2 + (register & 1))
}

#[test]
fn all_layouts_of_both_factors_are_understood() {
    for ty in [Type::BF16, Type::F16] {
        for span in [0, 32, 64, 128] {
            for along_mn in [false, true] {
                Product { ty, a: Layout { along_mn, span }, ..PLAIN }.is_right();
                Product { ty, n: 128, b: Layout { along_mn, span }, ..PLAIN }.is_right();
            }
        }
    }
    for span in [0, 32, 64, 128] {
        let layout = Layout { along_mn: false, span };
        Product { ty: Type::TF32, k: 32, a: layout, b: layout, ..PLAIN }.is_right();
    }
}

#[test]
fn all_widths_are_multiplied() {
    for n in (8..=256).step_by(8) {
        Product { n, k: 16, ..PLAIN }.is_right();
    }
    // Rows of B: a part of the last 64 columns.
    for n in [24, 96, 192, 256] {
        Product { n, b: Layout { along_mn: true, span: 128 }, ..PLAIN }.is_right();
    }
    Product { ty: Type::TF32, n: 256, k: 64, ..PLAIN }.is_right();
}

#[test]
fn a_may_come_from_registers_be_negated_and_start_from_zero() {
    for ty in [Type::BF16, Type::F16, Type::TF32] {
        Product { ty, registers: true, ..PLAIN }.is_right();
        Product { ty, scales: [-1, 1], ..PLAIN }.is_right();
        Product { ty, scales: [1, -1], adds: false, ..PLAIN }.is_right();
        Product { ty, scales: [-1, -1], registers: true, ..PLAIN }.is_right();
    }
    Product { registers: true, n: 128, b: Layout { along_mn: true, span: 128 }, ..PLAIN }.is_right();
}

#[test]
fn sums_are_rounded_once_for_each_product() {
    let noise = |seed: usize| {
        move |row: usize, column: usize| {
            let mixed = (row * 1009 + column * 9176 + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            mixed as f32 / (1u64 << 23) as f32 - 1.0
        }
    };
    for ty in [Type::BF16, Type::F16, Type::TF32] {
        let product = Product { ty, ..PLAIN };
        let (a, b, c) = (noise(1), noise(2), noise(3));
        let got = product.run(a, b, c);
        for m in 0..M {
            for n in 0..product.n {
                let factors = (0..product.k).map(|k| (ty.round(a(m, k)).0, ty.round(b(k, n)).0));
                let want = factors.fold(c(m, n), |sum, (a, b)| a.mul_add(b, sum));
                assert_eq!(got[m * product.n + n].to_bits(), want.to_bits(), "{ty:?} ({m}, {n})");
            }
        }
    }
}

/// The error of a kernel that was changed.
fn error_of(product: &Product, change: impl Fn(String) -> String) -> LaunchError {
    let ones = |_: usize, _: usize| 1.0;
    product.try_run(&mut Machine::with_threads(1), &ones, &ones, &ones, change).expect_err("the launch must fail")
}

#[test]
fn warps_that_do_not_come_are_named() {
    let some = Product { k: 16, ..PLAIN };
    let error = error_of(&some, |text| {
        text.replace("wgmma.fence.sync.aligned;", "setp.ge.u32 %p5, %thread, 96; @%p5 bra over;")
            .replace("ret;", "over: ret;")
    });
    let LaunchErrorKind::DivergentWarpgroup { arrived: 3, others } = &error.kind else { panic!("{error}") };
    assert_eq!(others, "32 have exited");
    // Two warps come to one product, two to another.
    let two = Product { k: 32, ..PLAIN };
    let error = error_of(&two, |text| {
        let second = text.rfind("ld.global.u64 %rd1").unwrap();
        let mut text = text;
        text.insert_str(second, "second: ");
        text.replacen("wgmma.fence.sync.aligned;", "setp.ge.u32 %p5, %thread, 64; @%p5 bra second;", 1)
    });
    let LaunchErrorKind::DivergentWarpgroup { arrived: 2, others } = &error.kind else { panic!("{error}") };
    assert!(others.starts_with("warp 2 is at PTX line"), "{others}");
}

#[test]
fn bad_descriptors_are_named() {
    let product = Product { k: 16, ..PLAIN };
    let with = |change: &str| {
        error_of(&product, |text| {
            text.replace("wgmma.fence.sync.aligned;", &format!("{change} wgmma.fence.sync.aligned;"))
        })
    };
    let problem = |change: &str| match with(change).kind {
        LaunchErrorKind::MatrixDescriptor { matrix, problem, .. } => (matrix, problem),
        other => panic!("{other}"),
    };
    assert!(matches!(problem("or.b64 %rd1, %rd1, 0x2000000000000;"), ('A', text) if text.contains("base offset")));
    assert!(matches!(problem("or.b64 %rd2, %rd2, 0x4000;"), ('B', text) if text.contains("must be zero")));
    let uneven = "cvt.u64.u32 %rd3, %thread; shr.u64 %rd3, %rd3, 6; add.u64 %rd2, %rd2, %rd3;";
    assert!(matches!(problem(uneven), ('B', text) if text.contains("not the same")));
    let error = with("or.b64 %rd2, %rd2, 0x3f00;");
    assert!(
        matches!(error.kind, LaunchErrorKind::OutOfBounds { space: MemorySpace::Shared, bytes: 16, .. }),
        "{error}"
    );
}

#[test]
fn forms_that_do_not_exist_are_refused() {
    let right = Product { k: 16, n: 8, ..PLAIN }.kernel(|text| text);
    load(&right);
    for (from, to) in [
        ("m64n8k16", "m64n12k16"),
        ("m64n8k16", "m64n264k16"),
        ("m64n8k16", "m64n8k8"),
        ("m64n8k16", "m128n8k16"),
        ("{%d0, %d1, %d2, %d3}", "{%d0, %d1, %d2}"),
        ("f32.bf16.bf16", "f16.bf16.bf16"),
        ("f32.bf16.bf16", "f32.bf16.f16"),
        ("f32.bf16.bf16", "f32.e4m3.e4m3"),
        ("%p1, 1, 1, 0, 0;", "%p1, 1, 2, 0, 0;"),
        ("%p1, 1, 1, 0, 0;", "%p1, 1, 1, 0, 2;"),
        ("%p1, 1, 1, 0, 0;", "%p1, 1, 1, 0;"),
        ("wait_group.sync.aligned 0", "wait_group.sync.aligned %r1"),
        ("commit_group.sync.aligned", "commit_group"),
    ] {
        assert!(right.contains(from), "{from}");
        assert!(Module::parse(&right.replace(from, to)).is_err(), "{to}");
    }
}

/// A kernel of three warpgroups: the first gives registers back, the others take some.
fn shared_out(given_back: u32, taken: u32) -> Result<(), LaunchError> {
    let ptx = format!(
        ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{{ .reg .pred %p; .reg .b32 %r;\n\
         mov.u32 %r, %tid.x; setp.ge.u32 %p, %r, 128; @%p bra taking;\n\
         setmaxnreg.dec.sync.aligned.u32 {given_back}; ret;\n\
         taking: setmaxnreg.inc.sync.aligned.u32 {taken}; ret; }}\n"
    );
    Machine::with_threads(1).try_launch(&load(&ptx), "k", 1, 384, 0, &[])
}

#[test]
fn a_block_has_no_more_registers_than_it_began_with() {
    // 65,536 for 384 threads are 168 each.
    shared_out(40, 232).unwrap();
    shared_out(24, 240).unwrap();
    let error = shared_out(32, 240).unwrap_err();
    let LaunchErrorKind::TooManyRegisters { asked, present } = error.kind else { panic!("{error}") };
    assert_eq!((asked, present), (128 * (32 + 2 * 240), 384 * 168));
}
