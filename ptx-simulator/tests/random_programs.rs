//! Random programs: whatever the lanes of a warp do together, each thread gets what it would get alone.
//!
//! A program is a graph of blocks with arbitrary jumps between them, most of them decided per thread. The reference
//! runs it one thread at a time over plain variables; it knows no warps, lanes, masks or reconvergence.

mod support;

use std::fmt::Write;

use support::values::Random;
use support::{Argument, load, module_text, on_any_number_of_cores};

const NARROW: u32 = 12;
const WIDE: u32 = 4;
const PREDICATES: u32 = 4;
const SLOTS: u32 = 5;
const TABLE: u32 = 64;

/// Operations on two 32-bit numbers: name in PTX and meaning.
type Binary = (&'static str, fn(u32, u32) -> u32);
const BINARY: [Binary; 9] = [
    ("add.u32", u32::wrapping_add),
    ("sub.s32", u32::wrapping_sub),
    ("xor.b32", |a, b| a ^ b),
    ("and.b32", |a, b| a & b),
    ("or.b32", |a, b| a | b),
    ("mul.lo.u32", u32::wrapping_mul),
    ("mul.hi.u32", |a, b| ((u64::from(a) * u64::from(b)) >> 32) as u32),
    ("min.s32", |a, b| (a as i32).min(b as i32) as u32),
    ("max.u32", u32::max),
];

/// A comparison: name in PTX and meaning.
type Compare = (&'static str, fn(u32, u32) -> bool);
const COMPARE: [Compare; 4] = [
    ("lt.u32", |a, b| a < b),
    ("ge.s32", |a, b| a as i32 >= b as i32),
    ("eq.u32", |a, b| a == b),
    ("hi.u32", |a, b| a > b),
];

/// An operand: a register or a number.
#[derive(Clone, Copy)]
enum Value {
    Register(u32),
    Number(u32),
}

#[derive(Clone, Copy)]
enum Action {
    Binary(usize, u32, Value, Value),
    /// destination = a * b + c, by way of two temporary registers.
    MultiplyAdd(u32, u32, u32, u32),
    Compare(usize, u32, u32, Value),
    /// The predicate of a comparison and a bit test, combined.
    CompareAnd(usize, u32, u32, Value, u32),
    Select(u32, Value, Value, u32),
    WideMultiply(u32, u32, u32),
    WideAdd(u32, u32, u32),
    Narrow(u32, u32),
    /// Sum of 64-bit halves with a carry between them.
    CarrySum(u32, u32, u32),
    LoadTable(u32, u32),
    /// The table's element at the thread's own place plus a constant.
    LoadOwnPlace(u32, u32),
    LoadPair(u32, u32),
    StoreShared(u32, u32),
    LoadShared(u32, u32),
    StoreLocal(u32, u32),
    LoadLocal(u32, u32),
    Call(u32, u32, u32),
}

#[derive(Clone, Copy)]
struct Step {
    action: Action,
    /// A predicate that must be as the flag says.
    guard: Option<(u32, bool)>,
}

enum Next {
    Jump(usize),
    Branch(u32, bool, usize, usize),
    Table(u32, [usize; 4]),
    Leave(u32, usize),
}

struct Block {
    steps: Vec<Step>,
    next: Next,
}

struct Program {
    blocks: Vec<Block>,
    fuel: u32,
}

impl Program {
    fn random(random: &mut Random) -> Program {
        let count = 3 + random.below(9) as usize;
        let blocks = (0..count).map(|_| Block::random(random, count)).collect();
        Program { blocks, fuel: 5 + random.below(60) }
    }

    fn text(&self) -> String {
        let mut text = String::from(
            ".func (.param .b32 result) mix(.param .b32 a, .param .b32 b)
{
    .reg .u32 %a, %b; .reg .pred %p;
    ld.param.u32 %a, [a]; ld.param.u32 %b, [b];
    setp.lt.u32 %p, %a, %b;
    @%p bra smaller;
    sub.u32 %a, %a, %b; mul.lo.u32 %a, %a, 7; st.param.b32 [result], %a;
    ret;
smaller:
    xor.b32 %a, %a, %b; st.param.b32 [result], %a;
    ret;
}
.visible .entry program(.param .u64 output, .param .u64 table)
{
    .reg .u32 %v<12>; .reg .u64 %w<4>; .reg .pred %q<4>; .reg .u32 %t<8>; .reg .u64 %u<8>; .reg .pred %leave;
    .reg .u32 %thread, %fuel, %local; .reg .u64 %table, %place, %own, %mine;
    .shared .align 4 .b8 cells[20480];
    .local .align 4 .b8 slots[20];
    mov.u32 %t0, %tid.x; mov.u32 %t1, %ctaid.x; mov.u32 %t2, %ntid.x; mad.lo.u32 %thread, %t1, %t2, %t0;
    ld.param.u64 %table, [table];
    and.b32 %t3, %thread, 31; mad.wide.u32 %place, %t3, 4, %table;
    mov.u64 %u0, cells; mad.wide.u32 %own, %t0, 4, %u0; mov.u64 %mine, slots;
",
        );
        for i in 0..NARROW {
            writeln!(text, "    mad.lo.u32 %v{i}, %thread, {}, {};", start_factor(i), i * 1000 + 1).unwrap();
        }
        for i in 0..WIDE {
            writeln!(text, "    mul.wide.u32 %w{i}, %v{i}, %v{};", i + 4).unwrap();
        }
        for i in 0..PREDICATES {
            writeln!(text, "    shr.u32 %t0, %thread, {i}; and.b32 %t0, %t0, 1; setp.eq.u32 %q{i}, %t0, 1;").unwrap();
        }
        for slot in 0..SLOTS {
            writeln!(
                text,
                "    st.shared.u32 [%own+{}], %v{slot}; st.local.u32 [slots+{}], %v{slot};",
                slot * 4096,
                slot * 4
            )
            .unwrap();
        }
        writeln!(text, "    mov.u32 %fuel, {};", self.fuel).unwrap();
        for (index, block) in self.blocks.iter().enumerate() {
            writeln!(text, "block{index}:").unwrap();
            text += "    sub.u32 %fuel, %fuel, 1; setp.eq.u32 %leave, %fuel, 0; @%leave bra end;\n";
            for step in &block.steps {
                step.write(&mut text);
            }
            block.next.write(&mut text, index);
        }
        // Everything is combined into one number per thread, then the threads exchange numbers.
        text += "end:\n    mov.u32 %t7, %fuel;\n";
        for i in 0..NARROW {
            writeln!(text, "    mad.lo.u32 %t7, %t7, 31, %v{i};").unwrap();
        }
        for i in 0..WIDE {
            writeln!(
                text,
                "    mov.b64 {{%t0, %t1}}, %w{i}; mad.lo.u32 %t7, %t7, 31, %t0; mad.lo.u32 %t7, %t7, 31, %t1;"
            )
            .unwrap();
        }
        for i in 0..PREDICATES {
            writeln!(text, "    selp.u32 %t0, 1, 0, %q{i}; mad.lo.u32 %t7, %t7, 31, %t0;").unwrap();
        }
        for slot in 0..SLOTS {
            writeln!(
                text,
                "    ld.shared.u32 %t0, [%own+{}]; mad.lo.u32 %t7, %t7, 31, %t0; ld.local.u32 %t0, [slots+{}]; mad.lo.u32 %t7, %t7, 31, %t0;",
                slot * 4096,
                slot * 4
            )
            .unwrap();
        }
        text += "    st.shared.u32 [%own], %t7;
    bar.sync 0;
    mov.u32 %t0, %tid.x; mov.u32 %t1, %ntid.x; sub.u32 %t1, %t1, 1; sub.u32 %t1, %t1, %t0;
    mov.u64 %u0, cells; mad.wide.u32 %u0, %t1, 4, %u0; ld.shared.u32 %t2, [%u0]; mad.lo.u32 %t7, %t7, 3, %t2;
    ld.param.u64 %u1, [output]; mad.wide.u32 %u1, %thread, 4, %u1; st.global.u32 [%u1], %t7;
    ret;
}
";
        module_text(&text)
    }

    /// One thread alone, up to the exchange.
    fn run(&self, thread: u32, table: &[u32]) -> u32 {
        let mut state = State {
            v: std::array::from_fn(|i| thread.wrapping_mul(start_factor(i as u32)).wrapping_add(i as u32 * 1000 + 1)),
            w: [0; 4],
            q: std::array::from_fn(|i| thread >> i & 1 == 1),
            shared: [0; 5],
            local: [0; 5],
        };
        for i in 0..WIDE as usize {
            state.w[i] = u64::from(state.v[i]) * u64::from(state.v[i + 4]);
        }
        for slot in 0..SLOTS as usize {
            state.shared[slot] = state.v[slot];
            state.local[slot] = state.v[slot];
        }
        let mut fuel = self.fuel;
        let mut at = 0;
        'program: loop {
            fuel -= 1;
            if fuel == 0 {
                break;
            }
            let block = &self.blocks[at];
            for step in &block.steps {
                if step.guard.is_none_or(|(predicate, wanted)| state.q[predicate as usize] == wanted) {
                    state.apply(step.action, thread, table);
                }
            }
            at = match block.next {
                Next::Jump(target) => target,
                Next::Branch(predicate, wanted, target, other) => {
                    if state.q[predicate as usize] == wanted {
                        target
                    } else {
                        other
                    }
                }
                Next::Table(register, targets) => targets[(state.v[register as usize] & 3) as usize],
                Next::Leave(predicate, target) => {
                    if state.q[predicate as usize] {
                        break 'program;
                    }
                    target
                }
            };
        }
        state.digest(fuel)
    }
}

fn start_factor(i: u32) -> u32 {
    0x9e37_79b9u32.wrapping_mul(i + 1) >> (i % 5 * 6)
}

impl Block {
    fn random(random: &mut Random, count: usize) -> Block {
        let steps = (0..random.below(9)).map(|_| Step::random(random)).collect();
        let mut target = || random.below(count as u32) as usize;
        let targets = [target(), target(), target(), target()];
        let predicate = random.below(PREDICATES);
        let next = match random.below(8) {
            0 => Next::Jump(targets[0]),
            1 => Next::Table(random.below(NARROW), targets),
            2 => Next::Leave(predicate, targets[0]),
            _ => Next::Branch(predicate, random.below(2) == 0, targets[0], targets[1]),
        };
        Block { steps, next }
    }
}

impl Step {
    fn random(random: &mut Random) -> Step {
        let guard = (random.below(3) == 0).then(|| (random.below(PREDICATES), random.below(2) == 0));
        let narrow = [(); 4].map(|()| random.below(NARROW));
        let wide = [(); 3].map(|()| random.below(WIDE));
        let predicates = [(); 2].map(|()| random.below(PREDICATES));
        let slot = random.below(SLOTS);
        let number = random.next() as u32 >> random.below(32);
        let mut value = |register: u32| {
            if random.below(3) == 0 { Value::Number(number) } else { Value::Register(register) }
        };
        let (first, second) = (value(narrow[1]), value(narrow[2]));
        let [a, b, c, d] = narrow;
        let action = match random.below(24) {
            0..7 => Action::Binary(random.below(BINARY.len() as u32) as usize, a, first, second),
            7 => Action::MultiplyAdd(a, b, c, d),
            8 | 9 => Action::Compare(random.below(4) as usize, predicates[0], a, first),
            10 => Action::CompareAnd(random.below(4) as usize, predicates[0], a, first, predicates[1]),
            11 => Action::Select(a, first, second, predicates[0]),
            12 => Action::WideMultiply(wide[0], a, b),
            13 => Action::WideAdd(wide[0], wide[1], wide[2]),
            14 => Action::Narrow(a, wide[0]),
            15 => Action::CarrySum(wide[0], wide[1], wide[2]),
            16 | 17 => Action::LoadTable(a, b),
            18 => Action::LoadOwnPlace(a, random.below(32)),
            19 => Action::LoadPair(a, b),
            20 => Action::StoreShared(slot, a),
            21 => Action::LoadShared(a, slot),
            22 if random.below(2) == 0 => Action::StoreLocal(a, b),
            22 => Action::LoadLocal(a, b),
            _ => Action::Call(a, b, c),
        };
        // A guarded call would need its own label.
        let guard = if matches!(action, Action::Call(..) | Action::CarrySum(..)) { None } else { guard };
        Step { action, guard }
    }

    fn write(self, text: &mut String) {
        let guard = match self.guard {
            None => String::new(),
            Some((predicate, true)) => format!("@%q{predicate} "),
            Some((predicate, false)) => format!("@!%q{predicate} "),
        };
        let value = |value: Value| match value {
            Value::Register(register) => format!("%v{register}"),
            Value::Number(number) => number.to_string(),
        };
        let lines: Vec<String> = match self.action {
            Action::Binary(operation, d, a, b) => {
                vec![format!("{} %v{d}, {}, {};", BINARY[operation].0, value(a), value(b))]
            }
            Action::MultiplyAdd(d, a, b, c) => {
                vec![
                    format!("mul.lo.u32 %t5, %v{a}, %v{b};"),
                    format!("add.u32 %t6, %t5, %v{c};"),
                    format!("mov.u32 %v{d}, %t6;"),
                ]
            }
            Action::Compare(operation, p, a, b) => {
                vec![format!("setp.{} %q{p}, %v{a}, {};", COMPARE[operation].0, value(b))]
            }
            Action::CompareAnd(operation, p, a, b, q) => {
                let (name, class) = COMPARE[operation].0.split_once('.').expect("a name and a type");
                vec![format!("setp.{name}.and.{class} %q{p}, %v{a}, {}, !%q{q};", value(b))]
            }
            Action::Select(d, a, b, p) => vec![format!("selp.b32 %v{d}, {}, {}, %q{p};", value(a), value(b))],
            Action::WideMultiply(d, a, b) => vec![format!("mul.wide.u32 %w{d}, %v{a}, %v{b};")],
            Action::WideAdd(d, a, b) => vec![format!("add.s64 %w{d}, %w{a}, %w{b};")],
            Action::Narrow(d, a) => vec![format!("shr.u64 %u5, %w{a}, 17;"), format!("cvt.u32.u64 %v{d}, %u5;")],
            Action::CarrySum(d, a, b) => vec![
                format!("mov.b64 {{%t0, %t1}}, %w{a};"),
                format!("mov.b64 {{%t2, %t3}}, %w{b};"),
                "add.cc.u32 %t0, %t0, %t2;".to_owned(),
                "addc.u32 %t1, %t1, %t3;".to_owned(),
                format!("mov.b64 %w{d}, {{%t0, %t1}};"),
            ],
            Action::LoadTable(d, a) => vec![
                format!("and.b32 %t4, %v{a}, {};", TABLE - 1),
                "mad.wide.u32 %u4, %t4, 4, %table;".to_owned(),
                format!("ld.global.u32 %v{d}, [%u4];"),
            ],
            Action::LoadOwnPlace(d, offset) => vec![format!("ld.global.u32 %v{d}, [%place+{}];", offset * 4)],
            Action::LoadPair(d, e) => vec![
                "and.b64 %u6, %place, -8;".to_owned(),
                "ld.global.v2.u32 {%t4, %t5}, [%u6];".to_owned(),
                format!("xor.b32 %v{d}, %v{e}, %t4;"),
                format!("add.u32 %v{d}, %v{d}, %t5;"),
            ],
            Action::StoreShared(slot, a) => vec![format!("st.shared.u32 [%own+{}], %v{a};", slot * 4096)],
            Action::LoadShared(d, slot) => vec![format!("ld.shared.u32 %v{d}, [%own+{}];", slot * 4096)],
            Action::StoreLocal(index, a) => vec![
                format!("rem.u32 %t4, %v{index}, {SLOTS};"),
                "mad.wide.u32 %u4, %t4, 4, %mine;".to_owned(),
                format!("st.local.u32 [%u4], %v{a};"),
            ],
            Action::LoadLocal(d, index) => vec![
                format!("rem.u32 %t4, %v{index}, {SLOTS};"),
                "mad.wide.u32 %u4, %t4, 4, %mine;".to_owned(),
                format!("ld.local.u32 %v{d}, [%u4];"),
            ],
            Action::Call(d, a, b) => vec![format!(
                "{{ .param .b32 pa; .param .b32 pb; .param .b32 pr; st.param.b32 [pa], %v{a}; st.param.b32 [pb], %v{b};
    call.uni (pr), mix, (pa, pb); ld.param.b32 %v{d}, [pr]; }}"
            )],
        };
        for line in lines {
            writeln!(text, "    {guard}{line}").unwrap();
        }
    }
}

impl Next {
    fn write(&self, text: &mut String, index: usize) {
        match self {
            Next::Jump(target) => writeln!(text, "    bra.uni block{target};"),
            Next::Branch(predicate, wanted, target, other) => {
                let not = if *wanted { "" } else { "!" };
                writeln!(text, "    @{not}%q{predicate} bra block{target};\n    bra block{other};")
            }
            Next::Table(register, targets) => {
                let names = targets.map(|target| format!("block{target}")).join(", ");
                writeln!(
                    text,
                    "    and.b32 %t0, %v{register}, 3;\n    table{index}: .branchtargets {names};\n    brx.idx %t0, table{index};"
                )
            }
            Next::Leave(predicate, target) => writeln!(text, "    @%q{predicate} bra end;\n    bra block{target};"),
        }
        .unwrap();
    }
}

struct State {
    v: [u32; 12],
    w: [u64; 4],
    q: [bool; 4],
    shared: [u32; 5],
    local: [u32; 5],
}

impl State {
    fn value(&self, value: Value) -> u32 {
        match value {
            Value::Register(register) => self.v[register as usize],
            Value::Number(number) => number,
        }
    }

    fn apply(&mut self, action: Action, thread: u32, table: &[u32]) {
        let v = |register: u32| self.v[register as usize];
        let place = (thread & 31) as usize;
        match action {
            Action::Binary(operation, d, a, b) => {
                self.v[d as usize] = BINARY[operation].1(self.value(a), self.value(b));
            }
            Action::MultiplyAdd(d, a, b, c) => self.v[d as usize] = v(a).wrapping_mul(v(b)).wrapping_add(v(c)),
            Action::Compare(operation, p, a, b) => self.q[p as usize] = COMPARE[operation].1(v(a), self.value(b)),
            Action::CompareAnd(operation, p, a, b, q) => {
                self.q[p as usize] = COMPARE[operation].1(v(a), self.value(b)) && !self.q[q as usize];
            }
            Action::Select(d, a, b, p) => self.v[d as usize] = self.value(if self.q[p as usize] { a } else { b }),
            Action::WideMultiply(d, a, b) => self.w[d as usize] = u64::from(v(a)) * u64::from(v(b)),
            Action::WideAdd(d, a, b) | Action::CarrySum(d, a, b) => {
                self.w[d as usize] = self.w[a as usize].wrapping_add(self.w[b as usize]);
            }
            Action::Narrow(d, a) => self.v[d as usize] = (self.w[a as usize] >> 17) as u32,
            Action::LoadTable(d, a) => self.v[d as usize] = table[(v(a) % TABLE) as usize],
            Action::LoadOwnPlace(d, offset) => self.v[d as usize] = table[place + offset as usize],
            Action::LoadPair(d, e) => {
                self.v[d as usize] = (v(e) ^ table[place & !1]).wrapping_add(table[place | 1]);
            }
            Action::StoreShared(slot, a) => self.shared[slot as usize] = v(a),
            Action::LoadShared(d, slot) => self.v[d as usize] = self.shared[slot as usize],
            Action::StoreLocal(index, a) => self.local[(v(index) % SLOTS) as usize] = v(a),
            Action::LoadLocal(d, index) => self.v[d as usize] = self.local[(v(index) % SLOTS) as usize],
            Action::Call(d, a, b) => {
                let (a, b) = (v(a), v(b));
                self.v[d as usize] = if a < b { a ^ b } else { (a - b).wrapping_mul(7) };
            }
        }
    }

    fn digest(&self, fuel: u32) -> u32 {
        let words = self.v.iter().copied();
        let wide = self.w.iter().flat_map(|&word| [word as u32, (word >> 32) as u32]);
        let truths = self.q.iter().map(|&truth| u32::from(truth));
        let memory = self.shared.iter().zip(&self.local).flat_map(|(&shared, &local)| [shared, local]);
        words.chain(wide).chain(truths).chain(memory).fold(fuel, |sum, word| sum.wrapping_mul(31).wrapping_add(word))
    }
}

/// Runs the programs made from `seeds` in several shapes.
fn check(seeds: std::ops::Range<u64>) {
    let mut random = Random::new(7);
    let table: Vec<u32> = (0..TABLE).map(|_| random.next() as u32 >> random.below(30)).collect();
    for seed in seeds {
        let program = Program::random(&mut Random::new(seed));
        let text = program.text();
        let module = load(&text);
        let (blocks, threads) = [(1u32, 32u32), (2, 33), (3, 128), (1, 7), (2, 256)][seed as usize % 5];
        let got: Vec<u32> = on_any_number_of_cores(|machine| {
            let output = machine.upload(&vec![0u32; (blocks * threads) as usize]);
            let table = machine.upload(&table);
            machine.launch(&module, "program", blocks, threads, 0, &[output, table].map(Argument::Pointer));
            machine.download(output, (blocks * threads) as usize)
        });
        for block in 0..blocks {
            let alone: Vec<u32> = (0..threads).map(|thread| program.run(block * threads + thread, &table)).collect();
            for thread in 0..threads as usize {
                let want = alone[thread].wrapping_mul(3).wrapping_add(alone[threads as usize - 1 - thread]);
                let found = got[block as usize * threads as usize + thread];
                assert_eq!(found, want, "seed {seed}, block {block}, thread {thread}\n{text}");
            }
        }
    }
}

#[test]
fn each_thread_gets_what_it_would_get_alone() {
    check(0..150);
}

/// More of the same; `cargo test -- --ignored` runs it.
#[test]
#[ignore = "takes minutes"]
fn each_thread_gets_what_it_would_get_alone_over_many_programs() {
    check(1000..20_000);
}
