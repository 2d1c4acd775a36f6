//! What flows from instruction to instruction: which registers start undefined, and which addresses are still the same
//! as at an earlier access.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::ops::Range;

use super::order::turns;
use super::program::*;
use crate::alu::{ALWAYS, CARRY, Type, Types, UNUSED};

/// A register: a row (or the first of two), or a predicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Register {
    Row(u32),
    Predicate(u32),
}

/// What a lane-wise instruction reads and writes; the executor doesn't need it any more.
#[derive(Clone, Copy, Debug)]
pub(super) struct AluTypes {
    pub destinations: Types,
    pub sources: Types,
}

/// Whether an instruction reads or writes an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Read,
    Write,
}

/// Calls `each` for every row operand of an instruction, which may be replaced, and for every predicate.
///
/// An instruction's part of `lists` belongs to it alone.
pub(super) fn visit(
    instruction: &mut Instruction,
    types: Option<&AluTypes>,
    lists: &mut [u32],
    mut each: impl FnMut(Use, Register, Option<&mut u32>),
) {
    use Use::{Read, Write};
    let mut row = |usage: Use, row: &mut u32| {
        if *row != NONE {
            each(usage, Register::Row(*row), Some(row));
        }
    };
    // Rows first, predicates below: the order within an instruction doesn't matter, as reads and writes are told apart.
    match &mut instruction.operation {
        Operation::Alu { operands, .. } => {
            if let Some(types) = types {
                for (index, ty) in operands.sources.iter_mut().zip(types.sources.iter()) {
                    if *ty != Type::Pred {
                        row(Read, index);
                    }
                }
                let destinations = [&mut operands.destination, &mut operands.destination2];
                for (index, ty) in destinations.into_iter().zip(types.destinations.iter()) {
                    if *ty != Type::Pred && *index != UNUSED {
                        row(Write, index);
                    }
                }
            }
        }
        operation @ (Operation::Load(_) | Operation::Store(_)) => {
            let usage = if matches!(operation, Operation::Load(_)) { Write } else { Read };
            if let Operation::Load(access) | Operation::Store(access) = operation {
                row(Read, &mut access.address.base);
                match access.count {
                    1 => row(usage, &mut access.data),
                    count => lists[list_range(access.data, count)].iter_mut().for_each(|data| row(usage, data)),
                }
            }
        }
        Operation::Atomic(atomic) => {
            row(Read, &mut atomic.address.base);
            row(Read, &mut atomic.source);
            row(Read, &mut atomic.source2);
            row(Write, &mut atomic.destination);
        }
        Operation::AsyncCopy(copy) => {
            row(Read, &mut copy.destination.base);
            row(Read, &mut copy.source.base);
            row(Read, &mut copy.size);
        }
        Operation::AsyncStore(store) => {
            row(Read, &mut store.address.base);
            row(Read, &mut store.mbarrier.base);
            match store.count {
                1 => row(Read, &mut store.data),
                count => lists[list_range(store.data, count)].iter_mut().for_each(|data| row(Read, data)),
            }
        }
        Operation::BulkCopy(copy) => {
            row(Read, &mut copy.shared.base);
            row(Read, &mut copy.global.base);
            row(Read, &mut copy.mbarrier.base);
            let rows = copy.extent_rows().start..copy.mask_row().map_or(copy.extent_rows().end, |mask| mask + 1);
            lists[rows].iter_mut().for_each(|place| row(Read, place));
        }
        Operation::Mbarrier(mbarrier) => {
            row(Read, &mut mbarrier.address.base);
            row(Read, &mut mbarrier.operand);
            if matches!(mbarrier.kind, MbarrierKind::Arrive { .. }) {
                row(Write, &mut mbarrier.destination);
            }
        }
        Operation::MapAddress(map) => {
            row(Read, &mut map.source);
            row(Read, &mut map.rank);
            row(Write, &mut map.destination);
        }
        Operation::PendingCount { destination, source } => {
            row(Read, source);
            row(Write, destination);
        }
        Operation::Matrices(access) => {
            row(Read, &mut access.address.base);
            let usage = if access.stores { Read } else { Write };
            lists[list_range(access.registers, access.count)].iter_mut().for_each(|register| row(usage, register));
        }
        Operation::MatrixProduct(product) => {
            let registers = &mut lists[list_range(product.registers, product.of_all())];
            let (sums, sources) = registers.split_at_mut(MatrixProduct::OF_SUMS.into());
            sources.iter_mut().for_each(|register| row(Read, register));
            sums.iter_mut().for_each(|register| row(Write, register));
        }
        Operation::WarpgroupProduct(product) => {
            let [sums, before, of_a] = product.lists();
            lists[before].iter_mut().for_each(|register| row(Read, register));
            lists[of_a].iter_mut().for_each(|register| row(Read, register));
            row(Read, &mut product.a);
            row(Read, &mut product.b);
            lists[sums].iter_mut().for_each(|register| row(Write, register));
        }
        Operation::Pack { destination, list, count, .. } => {
            lists[list_range(*list, *count)].iter_mut().for_each(|part| row(Read, part));
            row(Write, destination);
        }
        Operation::Unpack { source, list, count, .. } => {
            row(Read, source);
            lists[list_range(*list, *count)].iter_mut().for_each(|part| row(Write, part));
        }
        Operation::ReadCounter { destination, .. } | Operation::ActiveMask { destination } => row(Write, destination),
        Operation::IsSpace { source, .. } => row(Read, source),
        Operation::BranchIndexed { index, .. } => row(Read, index),
        Operation::Barrier(barrier) => {
            row(Read, &mut barrier.number);
            row(Read, &mut barrier.count);
            if barrier.kind == BarrierKind::Count {
                row(Write, &mut barrier.destination);
            }
        }
        Operation::WarpBarrier { members } => row(Read, members),
        Operation::Vote { kind, destination, members, .. } => {
            row(Read, members);
            if *kind == VoteKind::Ballot {
                row(Write, destination);
            }
        }
        Operation::Match { destination, source, members, .. }
        | Operation::Reduce { destination, source, members, .. } => {
            row(Read, source);
            row(Read, members);
            row(Write, destination);
        }
        Operation::Shuffle { destination, source, lane, clamp, members, .. } => {
            [source, lane, clamp, members].into_iter().for_each(|index| row(Read, index));
            row(Write, destination);
        }
        Operation::Elect { destination, members, .. } => {
            row(Read, members);
            row(Write, destination);
        }
        Operation::CopyLocal { .. }
        | Operation::Branch { .. }
        | Operation::Call { .. }
        | Operation::Return
        | Operation::Exit
        | Operation::Trap
        | Operation::AssertionFailed { .. }
        | Operation::CommitCopies
        | Operation::WaitForCopies { .. }
        | Operation::CommitStores
        | Operation::WaitForStores { .. }
        | Operation::SetRegisters { .. }
        | Operation::WarpgroupStep(_)
        | Operation::ClusterArrive { .. }
        | Operation::ClusterWait
        | Operation::ProxyFence
        | Operation::MbarrierFence
        | Operation::Nothing => {}
    }
    let mut predicate = |usage: Use, index: u32| {
        if index != NONE {
            each(usage, Register::Predicate(index), None);
        }
    };
    let guard = |guard: Guard| if guard == Guard::NONE { NONE } else { guard.0 >> 1 };
    predicate(Read, guard(instruction.guard));
    match instruction.operation {
        Operation::Alu { operands, .. } => {
            if let Some(types) = types {
                for (index, _) in operands.sources.iter().zip(types.sources.iter()).filter(|(_, ty)| **ty == Type::Pred)
                {
                    predicate(Read, *index);
                }
                let destinations = [operands.destination, operands.destination2];
                for (index, _) in
                    destinations.iter().zip(types.destinations.iter()).filter(|(_, ty)| **ty == Type::Pred)
                {
                    predicate(Write, *index);
                }
            }
        }
        Operation::IsSpace { destination, .. } => predicate(Write, destination),
        Operation::AsyncCopy(copy) => predicate(Read, guard(copy.ignored)),
        Operation::WarpgroupProduct(product) => predicate(Read, guard(product.adds)),
        Operation::Mbarrier(Mbarrier {
            kind: MbarrierKind::TestState | MbarrierKind::TestParity, destination, ..
        }) => {
            predicate(Write, destination);
        }
        Operation::Barrier(barrier) => {
            predicate(Read, guard(barrier.predicate));
            if matches!(barrier.kind, BarrierKind::And | BarrierKind::Or) {
                predicate(Write, barrier.destination);
            }
        }
        Operation::Vote { kind, destination, predicate: source, .. } => {
            predicate(Read, guard(source));
            if kind != VoteKind::Ballot {
                predicate(Write, destination);
            }
        }
        Operation::Match { predicate: written, .. }
        | Operation::Shuffle { predicate: written, .. }
        | Operation::Elect { predicate: written, .. } => predicate(Write, written),
        _ => {}
    }
}

fn list_range(start: u32, count: u8) -> Range<usize> {
    start as usize..start as usize + usize::from(count)
}

/// Words of register sets that the analysis of a kernel may look at: a tenth of a second or so, and at most some
/// hundred megabytes of sets.
const MOST_WORK: u64 = 1 << 27;

/// Analyses a finished program: gives its accesses pattern slots, lets registers share rows, and finds what must be
/// cleared.
///
/// A program that would take too long keeps a row for each register, all of them cleared.
///
/// `entries` are the first instructions of the kernel and its functions, in order.
pub(super) fn analyse(program: &mut Program, types: &[Option<AluTypes>], entries: &[u32]) {
    let blocks = Blocks::new(program, entries);
    program.turns = turns(&blocks, entries);
    assign_patterns(program, types, &blocks);
    let Some(liveness) = Liveness::new(program, types, &blocks, MOST_WORK) else {
        program.cleared_rows = program.register_rows.iter().map(|(row, _)| *row).collect();
        program.cleared_rows.sort_unstable();
        program.cleared_predicates.retain(|predicate| *predicate != ALWAYS);
        program.uses = uses(program, types);
        return;
    };
    let undefined = liveness.undefined(&blocks, entries);
    let rows = share_rows(program, types, entries, &blocks, &liveness);
    program.cleared_rows = undefined
        .iter()
        .filter_map(|register| match register {
            Register::Row(row) => rows.get(row),
            Register::Predicate(_) => None,
        })
        .flat_map(|(row, count)| *row..*row + *count)
        .collect();
    program.cleared_rows.sort_unstable();
    program.cleared_predicates.retain(|predicate| {
        *predicate == CARRY || *predicate != ALWAYS && undefined.contains(&Register::Predicate(*predicate))
    });
    program.uses = uses(program, types);
}

/// The rows that each instruction uses, if the program has products of warpgroups.
fn uses(program: &mut Program, types: &[Option<AluTypes>]) -> Vec<Uses> {
    let product = |instruction: &Instruction| matches!(instruction.operation, Operation::WarpgroupProduct(_));
    if !program.code.iter().any(product) {
        return Vec::new();
    }
    let Program { code, lists, places, mnemonics, constants, specials, .. } = program;
    let fixed: HashSet<u32> =
        constants.iter().map(|(row, _)| *row).chain(specials.iter().map(|(row, _)| *row)).collect();
    let of = |index: usize| {
        let mut uses = Uses::default();
        let mut instruction = code[index];
        visit(&mut instruction, types[index].as_ref(), lists, |usage, register, _| match (usage, register) {
            (Use::Read, Register::Row(row)) => uses.reads.push(row),
            (Use::Write, Register::Row(row)) => uses.writes.push(row),
            (_, Register::Predicate(_)) => {}
        });
        let mnemonic = mnemonics.get(places[index].mnemonic as usize).map_or("", String::as_str);
        uses.moves = matches!(mnemonic, "mov.b32" | "mov.u32" | "mov.s32" | "mov.f32")
            && (uses.reads.len(), uses.writes.len()) == (1, 1)
            && !fixed.contains(&uses.reads[0]);
        uses
    };
    (0..code.len()).map(of).collect()
}

/// The basic blocks of a program.
pub(super) struct Blocks {
    /// First instruction of each block, and the program's end.
    pub starts: Vec<u32>,
    pub successors: Vec<Vec<usize>>,
}

impl Blocks {
    fn new(program: &Program, entries: &[u32]) -> Blocks {
        let code = &program.code;
        let mut leader = vec![false; code.len() + 1];
        for entry in entries {
            leader[*entry as usize] = true;
        }
        for (index, instruction) in code.iter().enumerate() {
            match instruction.operation {
                Operation::Branch { target } => {
                    leader[target as usize] = true;
                    leader[index + 1] = true;
                }
                Operation::BranchIndexed { list, count, .. } => {
                    for target in &program.lists[list as usize..(list + count) as usize] {
                        leader[*target as usize] = true;
                    }
                    leader[index + 1] = true;
                }
                // Other lanes or warps may run before the next instruction.
                Operation::Call { .. }
                | Operation::Return
                | Operation::Exit
                | Operation::Trap
                | Operation::AssertionFailed { .. }
                | Operation::Barrier(_)
                | Operation::ClusterArrive { .. }
                | Operation::ClusterWait
                | Operation::WarpBarrier { .. }
                | Operation::Mbarrier(_) => leader[index + 1] = true,
                // Lanes may wait before these and go on without each other after them.
                Operation::Vote { .. }
                | Operation::Match { .. }
                | Operation::Shuffle { .. }
                | Operation::Reduce { .. }
                | Operation::Elect { .. }
                | Operation::Matrices(_)
                | Operation::MatrixProduct(_)
                | Operation::WarpgroupProduct(_)
                | Operation::WarpgroupStep(_) => {
                    leader[index] = true;
                    leader[index + 1] = true;
                }
                _ => {}
            }
        }
        leader[0] = true;
        leader[code.len()] = true;
        let starts: Vec<u32> = (0..=code.len()).filter(|index| leader[*index]).map(|index| index as u32).collect();
        let block_at = |instruction: u32| starts.binary_search(&instruction).unwrap_or(0);
        let successors = starts
            .windows(2)
            .map(|pair| {
                let last = &code[pair[1] as usize - 1];
                let always = last.guard == Guard::NONE;
                let (mut next, falls) = match last.operation {
                    Operation::Branch { target } => (vec![block_at(target)], !always),
                    Operation::BranchIndexed { list, count, .. } => {
                        let targets = &program.lists[list as usize..(list + count) as usize];
                        (targets.iter().map(|target| block_at(*target)).collect(), !always)
                    }
                    Operation::Return | Operation::Exit | Operation::Trap | Operation::AssertionFailed { .. } => {
                        (Vec::new(), !always)
                    }
                    _ => (Vec::new(), true),
                };
                if falls && (pair[1] as usize) < code.len() {
                    next.push(block_at(pair[1]));
                }
                next
            })
            .collect();
        Blocks { starts, successors }
    }

    fn ranges(&self) -> impl DoubleEndedIterator<Item = (usize, Range<usize>)> + '_ {
        (0..self.successors.len()).map(|block| (block, self.starts[block] as usize..self.starts[block + 1] as usize))
    }
}

/// A set of registers by dense number.
#[derive(Clone, PartialEq)]
struct Set(Vec<u64>);

impl Set {
    fn new(size: usize) -> Set {
        Set(vec![0; size.div_ceil(64)])
    }

    fn insert(&mut self, item: usize) {
        self.0[item / 64] |= 1 << (item % 64);
    }

    fn contains(&self, item: usize) -> bool {
        self.0[item / 64] >> (item % 64) & 1 != 0
    }

    /// Adds another set, and calls `each` for what is new.
    fn add(&mut self, other: &Set, mut each: impl FnMut(usize)) {
        for (index, (word, other)) in self.0.iter_mut().zip(&other.0).enumerate() {
            let mut new = other & !*word;
            *word |= other;
            while new != 0 {
                each(index * 64 + new.trailing_zeros() as usize);
                new &= new - 1;
            }
        }
    }
}

/// Which registers hold a value that is still needed, at the start of each block.
struct Liveness {
    registers: Vec<Register>,
    live_in: Vec<Set>,
}

impl Liveness {
    /// `None` if it takes more than `budget` words of work.
    fn new(program: &mut Program, types: &[Option<AluTypes>], blocks: &Blocks, budget: u64) -> Option<Liveness> {
        let mut numbers: HashMap<Register, usize> = HashMap::new();
        let mut registers = Vec::new();
        let mut number = |register: Register| {
            *numbers.entry(register).or_insert_with(|| {
                registers.push(register);
                registers.len() - 1
            })
        };
        // Reads that no write of the same block comes before, and writes that certainly happen.
        let mut local: Vec<(Vec<usize>, Vec<usize>)> = Vec::new();
        for (_, range) in blocks.ranges() {
            let (mut exposed, mut written): (Vec<usize>, Vec<usize>) = Default::default();
            let mut certain = HashSet::new();
            for index in range {
                let mut instruction = program.code[index];
                let mut writes = Vec::new();
                visit(&mut instruction, types[index].as_ref(), &mut program.lists, |usage, register, _| match usage {
                    Use::Read if !certain.contains(&register) => exposed.push(number(register)),
                    Use::Read => {}
                    Use::Write => writes.push(register),
                });
                for register in writes {
                    let item = number(register);
                    // A guarded instruction may leave its destination as it was.
                    if instruction.guard == Guard::NONE {
                        certain.insert(register);
                        written.push(item);
                    }
                }
            }
            local.push((exposed, written));
        }
        // Each sweep looks at every block and at all that may follow it. One at least is needed, one to see that
        // nothing changed, and as much before and after.
        let edges: usize = blocks.successors.iter().map(Vec::len).sum();
        let sweep = registers.len().div_ceil(64) as u64 * (blocks.successors.len() + edges) as u64;
        let mut budget = budget.checked_sub(sweep.saturating_mul(4))?;
        let as_set = |items: &[usize]| {
            let mut set = Set::new(registers.len());
            items.iter().for_each(|item| set.insert(*item));
            set
        };
        let written: Vec<Set> = local.iter().map(|(_, written)| as_set(written)).collect();
        let mut live_in: Vec<Set> = local.iter().map(|(exposed, _)| as_set(exposed)).collect();
        let mut changed = true;
        while changed {
            changed = false;
            for block in (0..live_in.len()).rev() {
                let mut next = live_in[block].clone();
                for successor in &blocks.successors[block] {
                    let beyond = live_in[*successor].0.iter().zip(&written[block].0);
                    for (word, (beyond, written)) in next.0.iter_mut().zip(beyond) {
                        *word |= beyond & !written;
                    }
                }
                if next != live_in[block] {
                    live_in[block] = next;
                    changed = true;
                }
            }
            budget = budget.checked_sub(sweep)?;
        }
        Some(Liveness { registers, live_in })
    }

    /// Registers that some path reads before it writes them. They start as zero; all others needn't be touched between
    /// blocks.
    fn undefined(&self, blocks: &Blocks, entries: &[u32]) -> HashSet<Register> {
        let mut undefined = Set::new(self.registers.len());
        entries
            .iter()
            .filter_map(|entry| blocks.starts.binary_search(entry).ok())
            .filter_map(|block| self.live_in.get(block))
            .for_each(|live| undefined.add(live, |_| {}));
        let undefined = |item: usize| undefined.contains(item);
        self.registers.iter().enumerate().filter(|(item, _)| undefined(*item)).map(|(_, register)| *register).collect()
    }
}

/// Lets registers that aren't needed at the same time share rows, so that a warp's rows stay in the nearest cache.
/// Gives the new first row and the number of rows of each register.
///
/// Lanes are at different places at times, but each has a column of its own in every row, and writes touch only the
/// columns of active lanes: what holds for one thread's registers holds for the rows.
fn share_rows(
    program: &mut Program,
    types: &[Option<AluTypes>],
    entries: &[u32],
    blocks: &Blocks,
    liveness: &Liveness,
) -> HashMap<u32, (u32, u32)> {
    let mut counts: HashMap<u32, u32> = HashMap::new();
    for (_, first) in &program.register_rows {
        *counts.entry(*first).or_default() += 1;
    }
    // From where to where each register is needed; instructions between count, whatever path they're on.
    let mut spans: HashMap<u32, (usize, usize)> = HashMap::new();
    let mut extend = |register: Register, at: usize| {
        if let Register::Row(row) = register
            && counts.contains_key(&row)
        {
            let span = spans.entry(row).or_insert((at, at));
            *span = (span.0.min(at), span.1.max(at));
        }
    };
    // The first and the last block with a register at its start or its end tell all that those between could.
    let registers = &liveness.registers;
    let mut sweep = |ranges: &mut dyn Iterator<Item = (usize, Range<usize>)>| {
        let mut at_starts = Set::new(registers.len());
        let mut at_ends = at_starts.clone();
        for (block, range) in ranges {
            at_starts.add(&liveness.live_in[block], |item| extend(registers[item], range.start));
            for next in &blocks.successors[block] {
                at_ends.add(&liveness.live_in[*next], |item| extend(registers[item], range.end - 1));
            }
        }
    };
    sweep(&mut blocks.ranges());
    sweep(&mut blocks.ranges().rev());
    for (_, range) in blocks.ranges() {
        for index in range {
            let mut instruction = program.code[index];
            visit(&mut instruction, types[index].as_ref(), &mut program.lists, |_, register, _| {
                extend(register, index)
            });
        }
    }
    let mut spans: Vec<(u32, (usize, usize))> = spans.into_iter().collect();
    spans.sort_unstable_by_key(|(row, (start, _))| (*start, *row));

    // Constants and special registers keep rows of their own, in front.
    let mut rows: HashMap<u32, (u32, u32)> = HashMap::new();
    let mut next = 0;
    let fixed: HashMap<u32, u32> = (0..program.rows)
        .zip(membership(program))
        .filter(|(_, register)| !register)
        .map(|(row, _)| {
            next += 1;
            (row, next - 1)
        })
        .collect();
    let function_of = |at: usize| entries.partition_point(|entry| *entry as usize <= at);
    let mut function = 0;
    let mut free: [Vec<u32>; 2] = Default::default();
    // Those that end first, and when they began.
    let mut active: BinaryHeap<Reverse<(usize, usize, u32, u32)>> = BinaryHeap::new();
    let mut ended = Vec::new();
    for (order, (register, (start, end))) in spans.into_iter().enumerate() {
        let count = counts[&register];
        let shared = function_of(start) == function_of(end);
        // Functions don't share rows with their callers.
        if function_of(start) != function {
            function = function_of(start);
            free = Default::default();
            active.clear();
        }
        // An instruction's destination never takes the row of one of its sources.
        while let Some(Reverse((last, order, row, count))) = active.peek().copied()
            && last < start
        {
            active.pop();
            ended.push((order, row, count));
        }
        ended.sort_unstable();
        for (_, row, count) in ended.drain(..) {
            free[count as usize - 1].push(row);
        }
        // Lanes that wait still have what others of their warp, elsewhere in the code, have no use for any more. So a register
        // takes rows from one of the same width only: in those of another width, a lane's place is that of other lanes.
        let reused = if !shared || count > 2 { None } else { free[count as usize - 1].pop() };
        let row = reused.unwrap_or_else(|| {
            next += count;
            next - count
        });
        if shared && count <= 2 {
            active.push(Reverse((end, order, row, count)));
        }
        rows.insert(register, (row, count));
    }
    program.rows = next;
    for (index, instruction) in program.code.iter_mut().enumerate() {
        visit(instruction, types[index].as_ref(), &mut program.lists, |_, _, row| {
            if let Some(row) = row {
                *row = rows.get(row).map_or_else(|| fixed[row], |(row, _)| *row);
            }
        });
    }
    for (row, _) in &mut program.constants {
        *row = fixed[row];
    }
    for (row, _) in &mut program.specials {
        *row = fixed[row];
    }
    rows
}

/// For each row, whether it belongs to a register.
fn membership(program: &Program) -> Vec<bool> {
    let mut register = vec![false; program.rows as usize];
    for (row, _) in &program.register_rows {
        register[*row as usize] = true;
    }
    register
}

/// Accesses of a basic block that share an unchanged base register share the analysis of its 32 addresses.
fn assign_patterns(program: &mut Program, types: &[Option<AluTypes>], blocks: &Blocks) {
    let Program { code, lists, .. } = program;
    for (_, range) in blocks.ranges() {
        let mut slots: HashMap<u32, u8> = HashMap::new();
        let mut next = 0;
        for index in range {
            let guarded = code[index].guard != Guard::NONE;
            // A store of vectors goes lane by lane and fills no slot.
            let by_lane = matches!(&code[index].operation, Operation::Store(access) if access.count > 1);
            if let Operation::Load(access) | Operation::Store(access) = &mut code[index].operation {
                let simple = access.bytes == 4 && !access.wide && access.address.base != NONE && !guarded && !by_lane;
                if simple && matches!(access.target, Target::Shared | Target::Global) {
                    let known = slots.get(&access.address.base).copied();
                    if known.is_some() || next < PATTERN_SLOTS {
                        let slot = known.unwrap_or(next);
                        access.pattern = if known.is_some() { Pattern::Known(slot) } else { Pattern::New(slot) };
                        if known.is_none() {
                            slots.insert(access.address.base, slot);
                            next += 1;
                        }
                    }
                }
            }
            let mut instruction = code[index];
            visit(&mut instruction, types[index].as_ref(), lists, |usage, register, _| {
                if let (Use::Write, Register::Row(row)) = (usage, register) {
                    slots.remove(&row);
                }
            });
        }
    }
}
