//! Operands worth trying, the same on every machine, and a way to run a form on them.

use super::{CARRY, Operands, Row, Selected, Type, UNUSED};

/// How many operand sets there are of each kind.
pub(crate) const COUNT: usize = 8192;

/// What an operand's bits stand for, as far as the choice of values goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Integer,
    F32,
    F64,
    F16,
    BF16,
}

impl Kind {
    pub(crate) const ALL: [Kind; 5] = [Kind::Integer, Kind::F32, Kind::F64, Kind::F16, Kind::BF16];

    pub(crate) fn of(found: Type) -> Kind {
        match found {
            Type::F32 | Type::TF32 => Kind::F32,
            Type::F64 => Kind::F64,
            Type::F16 | Type::F16x2 => Kind::F16,
            Type::BF16 | Type::BF16x2 => Kind::BF16,
            _ => Kind::Integer,
        }
    }
}

/// A small generator with a fixed sequence.
pub(crate) struct Sequence(pub(crate) u64);

impl Sequence {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// Zeros, ones, ends of ranges, halves, infinities, NaNs and neighbours of all of them.
fn edges(kind: Kind) -> Vec<u64> {
    let both_signs = |magnitudes: &[u64], sign: u32| {
        magnitudes.iter().flat_map(|&magnitude| [magnitude, magnitude | 1 << sign]).collect::<Vec<u64>>()
    };
    match kind {
        Kind::Integer => {
            let mut list: Vec<u64> = vec![
                0,
                1,
                2,
                3,
                4,
                5,
                7,
                8,
                9,
                15,
                16,
                17,
                24,
                30,
                31,
                32,
                33,
                40,
                62,
                63,
                64,
                65,
                127,
                128,
                129,
                200,
                254,
                255,
                256,
                257,
                0x7fff,
                0x8000,
                0x8001,
                0xffff,
                0x1_0000,
                0x7f_ffff,
                0x80_0000,
                0xff_ffff,
                0x7fff_ffff,
                0x8000_0000,
                0x8000_0001,
                0xffff_fffe,
                0xffff_ffff,
                0x1_0000_0000,
                0x7fff_ffff_ffff_ffff,
                1 << 63,
            ];
            let negated: Vec<u64> = list.iter().map(|value| value.wrapping_neg()).collect();
            list.extend(negated);
            list.extend([0x7fff_8000_ffff_0001, 0x1234_5678_9abc_def0]);
            list
        }
        Kind::F32 => both_signs(
            &[
                0,
                1,
                2,
                0x007f_ffff,
                0x0080_0000,
                0x0080_0001,
                0x0100_0000,
                0x3380_0000,
                0x3eff_ffff,
                0x3f00_0000,
                0x3f00_0001,
                0x3f7f_ffff,
                0x3f80_0000,
                0x3f80_0001,
                0x3fc0_0000,
                0x4000_0000,
                0x4020_0000,
                0x4060_0000,
                0x42fe_0000,
                0x4300_0000,
                0x437f_8000,
                0x4380_0000,
                0x46ff_fe00,
                0x4700_0000,
                0x477f_ff00,
                0x477f_efff,
                0x477f_f000,
                0x4f00_0000,
                0x4eff_ffff,
                0x4f7f_ffff,
                0x4f80_0000,
                0x5f00_0000,
                0x5f80_0000,
                0x7e80_0000,
                0x7f00_0000,
                0x7f7f_ffff,
                0x7f80_0000,
                0x7f80_0001,
                0x7fc0_0000,
                0x7fff_ffff,
                0x3880_0000,
                0x387f_ffff,
                0x3300_0000,
                0x3300_0001,
                0x3f80_8000,
                0x3f81_8000,
            ],
            31,
        ),
        Kind::F64 => both_signs(
            &[
                0,
                1,
                2,
                0x000f_ffff_ffff_ffff,
                0x0010_0000_0000_0000,
                0x0010_0000_0000_0001,
                0x3fe0_0000_0000_0000,
                0x3fdf_ffff_ffff_ffff,
                0x3fe0_0000_0000_0001,
                0x3ff0_0000_0000_0000,
                0x3ff0_0000_0000_0001,
                0x3fef_ffff_ffff_ffff,
                0x3ff8_0000_0000_0000,
                0x4000_0000_0000_0000,
                0x4004_0000_0000_0000,
                0x41df_ffff_ffc0_0000,
                0x41df_ffff_ffe0_0000,
                0x41e0_0000_0000_0000,
                0x41ef_ffff_ffe0_0000,
                0x41f0_0000_0000_0000,
                0x43e0_0000_0000_0000,
                0x43df_ffff_ffff_ffff,
                0x43f0_0000_0000_0000,
                0x47ef_ffff_e000_0000,
                0x47ef_ffff_f000_0000,
                0x47f0_0000_0000_0000,
                0x3810_0000_0000_0000,
                0x36a0_0000_0000_0000,
                0x3690_0000_0000_0000,
                0x3690_0000_0000_0001,
                0x40ef_ff00_0000_0000,
                0x3f10_0000_0000_0000,
                0x3e60_0000_0000_0000,
                0x3ff0_0200_0000_0001,
                0x3ff0_0200_0000_0000,
                0x7fe0_0000_0000_0000,
                0x7fef_ffff_ffff_ffff,
                0x7ff0_0000_0000_0000,
                0x7ff0_0000_0000_0001,
                0x7ff8_0000_0000_0000,
                0x7fff_ffff_ffff_ffff,
                0x7ff8_0000_0000_1234,
                0x4060_0000_0000_0000,
                0x406f_e000_0000_0000,
                0x40df_ffc0_0000_0000,
            ],
            63,
        ),
        Kind::F16 => both_signs(
            &[
                0, 1, 2, 0x3ff, 0x400, 0x401, 0x37ff, 0x3800, 0x3801, 0x3bff, 0x3c00, 0x3c01, 0x3e00, 0x4000, 0x4100,
                0x5bf8, 0x5c00, 0x7800, 0x7bff, 0x7c00, 0x7c01, 0x7e00, 0x7fff, 0x1400, 0x0c00,
            ],
            15,
        ),
        Kind::BF16 => both_signs(
            &[
                0, 1, 2, 0x7f, 0x80, 0x81, 0x3eff, 0x3f00, 0x3f01, 0x3f7f, 0x3f80, 0x3f81, 0x3fc0, 0x4000, 0x4040,
                0x437f, 0x4380, 0x4f00, 0x4f80, 0x5f00, 0x7f7f, 0x7f80, 0x7f81, 0x7fc0, 0x7fff, 0x0100, 0x0040,
            ],
            15,
        ),
    }
}

/// Triples whose results lie at the border of the subnormal numbers, where `.ftz` decides.
const BORDER_F32: [[u64; 3]; 18] = [
    [0x1980_0000, 0x9980_0000, 0x0080_0000],
    [0x1980_0000, 0x9980_0001, 0x0080_0000],
    [0x1a00_0000, 0x9980_0000, 0x0080_0000],
    [0x1a00_0000, 0x9980_0001, 0x0080_0000],
    [0x19ff_ffff, 0x9a00_0000, 0x0080_0000],
    [0x3f7f_ffff, 0x0080_0000, 0],
    [0x3f7f_ffff, 0x0080_0001, 0],
    [0x3f80_0001, 0x007f_ffff, 0],
    [0x007f_ffff, 0x3f80_0001, 0],
    [0x7e80_0001, 0x3f80_0000, 0],
    [0x7e80_0002, 0x3f80_0000, 0],
    [0x7e7f_ffff, 0x3f80_0000, 0],
    [0x0080_0001, 0x3f7f_ffff, 0],
    [0x1a00_0000, 0x9a00_0000, 0x0080_0001],
    [0x3f80_0000, 0x7e80_0001, 0],
    [0x3f80_0000, 0x7f7f_ffff, 0],
    [0x7f80_0000, 0x7f00_0000, 0],
    [0xbf80_0000, 0x7f00_0000, 0],
];

/// Numbers beside the smallest normal f32 and f16.
const BORDER_F64: [u64; 12] = [
    0x380f_ffff_ffff_ffff,
    0x380f_ffff_e000_0000,
    0x380f_ffff_f000_0000,
    0x380f_ffff_f000_0001,
    0x380f_ffff_efff_ffff,
    0x380f_ffff_f800_0000,
    0x380f_ffff_c000_0000,
    0x380f_ffff_d000_0000,
    0xb80f_ffff_f000_0001,
    0x3f0f_fc00_0000_0000,
    0x3f0f_fe00_0000_0000,
    0x3f0f_fdff_ffff_ffff,
];

/// NaNs with payloads beside a few numbers, to see which of several NaNs wins.
const NANS_F64: [u64; 10] = [
    0x7ff0_0000_0000_0001,
    0xfff0_0000_0000_0002,
    0x7ff8_0000_0000_0003,
    0xfff8_0000_0000_0004,
    0x7fff_ffff_ffff_ffff,
    0xffff_ffff_ffff_ffff,
    0x3ff0_0000_0000_0000,
    0x7ff0_0000_0000_0000,
    0xfff0_0000_0000_0000,
    0,
];

fn random(kind: Kind, sequence: &mut Sequence) -> u64 {
    let bits = sequence.next();
    let choice = sequence.below(8);
    let upper = bits >> 40;
    match kind {
        Kind::Integer => match choice {
            0 => bits & 0xff,
            1 => bits & 0x3f,
            2 => bits & 0xffff,
            3 => bits as i8 as u64,
            4 => bits as i32 as u64,
            _ => bits,
        },
        Kind::F32 => {
            let exponent = match choice {
                0 | 1 => return bits & 0xffff_ffff,
                2 | 3 => 127,
                4 => 120 + upper % 16,
                5 => 100 + upper % 60,
                6 => upper % 12,
                _ => 240 + upper % 15,
            };
            let fraction = if bits >> 60 & 3 == 0 { bits & 0x7f_f000 } else { bits & 0x7f_ffff };
            bits & 0x8000_0000 | exponent << 23 | fraction
        }
        Kind::F64 => {
            let exponent = match choice {
                0 | 1 => return bits,
                2 | 3 => 1023,
                4 => 1010 + upper % 70,
                5 => 870 + upper % 300,
                6 => upper % 60,
                _ => 1980 + upper % 66,
            };
            let fraction = sequence.next() >> 12;
            let fraction = if bits >> 30 & 3 == 0 { fraction & !0x1fff_ffff } else { fraction };
            bits & 1 << 63 | exponent << 52 | fraction
        }
        Kind::F16 => bits & 0xffff_ffff,
        Kind::BF16 if choice < 4 => bits & 0xffff_ffff,
        Kind::BF16 => bits & 0x807f_807f | 0x3f80_3f80 ^ (sequence.next() & 0x0380_0380),
    }
}

/// Four lists of [`COUNT`] operands: first every edge with every edge, then a mixture, then the border cases.
pub(crate) fn operands(kind: Kind) -> [Vec<u64>; 4] {
    let edges = edges(kind);
    let mut sequence = Sequence(42 + kind as u64);
    let mut lists: [Vec<u64>; 4] = std::array::from_fn(|_| Vec::with_capacity(COUNT));
    let packed = matches!(kind, Kind::F16 | Kind::BF16);
    for index in 0..COUNT {
        for (position, list) in lists.iter_mut().enumerate() {
            let any = edges[sequence.below(edges.len() as u64) as usize];
            let systematic = index < edges.len() * edges.len();
            let mut value = match position {
                0 if systematic => edges[index / edges.len()],
                1 if systematic => edges[index % edges.len()],
                _ if systematic || sequence.below(8) == 0 => any,
                _ => random(kind, &mut sequence),
            };
            if packed && value >> 16 == 0 {
                value |= edges[sequence.below(edges.len() as u64) as usize] << 16;
            }
            list.push(value);
        }
    }
    // The last places belong to the border cases.
    for (index, triple) in BORDER_F32.iter().enumerate().filter(|_| kind == Kind::F32) {
        (0..3).for_each(|position| lists[position][COUNT - 1 - index] = triple[position]);
    }
    if kind == Kind::F64 {
        for (index, &value) in BORDER_F64.iter().enumerate() {
            lists[0][COUNT - 1 - index] = value;
        }
        for index in 0..1000 {
            for (position, step) in [1, 10, 100].into_iter().enumerate() {
                lists[position][COUNT - 20 - index] = NANS_F64[index / step % 10];
            }
        }
    }
    lists
}

/// All lists of all kinds.
pub(crate) struct Samples([[Vec<u64>; 4]; 5]);

impl Samples {
    pub(crate) fn new() -> Samples {
        Samples(Kind::ALL.map(operands))
    }

    /// The operand of a form at `position` in set `index`; where PTX limits the range, inside it.
    pub(crate) fn operand(&self, form: &str, selected: &Selected, position: usize, index: usize) -> u64 {
        let found = selected.sources[position];
        let value = self.list(Kind::of(found), position)[index];
        let wide_field = form.starts_with("bfe") && position >= 1 || form.starts_with("bfi") && position >= 2;
        if form.starts_with("lop3") && position == 3 {
            // An immediate: the same for all lanes.
            0xe8
        } else if wide_field {
            value & 0xff
        } else if form.starts_with("fns") && position == 1 {
            value & 31
        } else if form.starts_with("fns") && position == 2 {
            value as i8 as u32 as u64
        } else if found.bits() == 64 {
            value
        } else {
            value & ((1 << found.bits()) - 1)
        }
    }

    pub(crate) fn list(&self, kind: Kind, position: usize) -> &[u64] {
        &self.0[kind as usize][position]
    }

    /// The carry that goes into set `index`.
    pub(crate) fn carry(&self, index: usize) -> u32 {
        self.list(Kind::Integer, 3)[index] as u32 & 1
    }
}

/// Row of the destination of [`run_warp`], mask of the first and of the second predicate.
pub(crate) const DESTINATION: u32 = 10;
const FIRST_MASK: u32 = 8;
const SECOND_MASK: u32 = 9;

/// A register file for one instruction.
pub(crate) struct Registers {
    pub(crate) rows: Vec<Row>,
    pub(crate) masks: Vec<u32>,
}

impl Registers {
    pub(crate) fn new() -> Registers {
        Registers { rows: vec![Row([0xaaaa_aaaa; 32]); 16], masks: vec![0x3333_3333; 16] }
    }

    pub(crate) fn set64(&mut self, row: u32, lane: usize, value: u64) {
        let word = &mut self.rows[row as usize + lane / 16].0;
        word[lane % 16 * 2] = value as u32;
        word[lane % 16 * 2 + 1] = (value >> 32) as u32;
    }

    pub(crate) fn get64(&self, row: u32, lane: usize) -> u64 {
        let word = &self.rows[row as usize + lane / 16].0;
        word[lane % 16 * 2] as u64 | (word[lane % 16 * 2 + 1] as u64) << 32
    }

    /// A lane of a register of the type.
    pub(crate) fn get(&self, found: Type, index: u32, lane: usize) -> u64 {
        match found.bits() {
            1 => (self.masks[index as usize] >> lane) as u64 & 1,
            64 => self.get64(index, lane),
            bits => self.rows[index as usize].0[lane] as u64 & ((1 << bits) - 1),
        }
    }
}

/// Puts the operands of 32 sets from `first` on into registers.
pub(crate) fn load(
    form: &str,
    selected: &Selected,
    samples: &Samples,
    first: usize,
    registers: &mut Registers,
) -> Operands {
    let predicate = selected.destinations[0] == Type::Pred;
    let mut operands = Operands {
        destination: if predicate { FIRST_MASK } else { DESTINATION },
        destination2: if selected.destinations.len() > 1 { SECOND_MASK } else { UNUSED },
        sources: [0; 4],
        extra: selected.extra,
    };
    registers.masks[CARRY as usize] = (0..32).fold(0, |mask, lane| mask | samples.carry(first + lane) << lane);
    for (position, found) in selected.sources.iter().enumerate() {
        let row = 2 * position as u32;
        operands.sources[position] = if *found == Type::Pred { 2 + position as u32 } else { row };
        if *found == Type::Pred {
            registers.masks[2 + position] = 0;
        }
        for lane in 0..32 {
            let value = samples.operand(form, selected, position, first + lane);
            match found.bits() {
                1 => registers.masks[2 + position] |= (value as u32) << lane,
                64 => registers.set64(row, lane, value),
                // Bits above the type must not matter.
                8 | 16 => registers.rows[row as usize].0[lane] = value as u32 | 0x5a5a_0000,
                _ => registers.rows[row as usize].0[lane] = value as u32,
            }
        }
    }
    operands
}

/// Runs a form on every set: the destination's bits, and the second predicate or the carry.
pub(crate) fn run(form: &str, selected: &Selected, samples: &Samples) -> Vec<[u64; 2]> {
    let mut registers = Registers::new();
    let mut results = Vec::with_capacity(COUNT);
    for first in (0..COUNT).step_by(32) {
        let operands = load(form, selected, samples, first, &mut registers);
        // SAFETY: the registers have all rows and masks that `load` names.
        unsafe {
            (selected.function)(registers.rows.as_mut_ptr(), registers.masks.as_mut_ptr(), &operands, u32::MAX);
        }
        for lane in 0..32 {
            let second = if operands.destination2 != UNUSED {
                registers.get(Type::Pred, operands.destination2, lane)
            } else if form.contains(".cc") {
                registers.get(Type::Pred, CARRY, lane)
            } else {
                0
            };
            results.push([registers.get(selected.destinations[0], operands.destination, lane), second]);
        }
    }
    results
}

/// A number that tells results apart.
pub(crate) fn fingerprint(results: &[[u64; 2]]) -> u64 {
    results.iter().flatten().fold(0, |hash, &value| Sequence(hash ^ value).next())
}
