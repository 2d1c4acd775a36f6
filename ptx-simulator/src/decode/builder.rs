//! Puts one kernel's program together: its registers, constants, shared and local memory, and the functions it calls.

use std::collections::HashMap;

use super::asynchronous::tell_sizes;
use super::flow::{AluTypes, analyse};
use super::origin::trace_origins;
use super::program::*;
use super::{Kernel, KernelInfo, KernelParameter, SharedArray, Tables, unsupported};
use crate::alu::{ALWAYS, CARRY, Operands, Selected};
use crate::error::LoadError;
use crate::parse::syntax::{self, Function, Location, RegisterClass, Space, Statement, Variable};

/// Predicates of the program come after the two that are always there.
const FIRST_PREDICATE: u32 = 2;
const _: () = assert!(CARRY < FIRST_PREDICATE && ALWAYS < FIRST_PREDICATE);

pub(super) type Result<T> = std::result::Result<T, LoadError>;

/// Parameters of a kernel and frames of local memory may not be larger than on hardware.
const MAX_PARAMETER_BYTES: u64 = 32_764;
const MAX_LOCAL_BYTES: u64 = 512 << 10;
const MAX_SHARED_BYTES: u64 = 227 << 10;

/// What a name stands for inside a body.
#[derive(Clone, Copy, Debug)]
pub(super) enum Binding {
    /// First row of a register.
    Register {
        row: u32,
        class: RegisterClass,
    },
    Predicate(u32),
    /// A byte offset in shared memory.
    Shared(u32),
    /// A byte offset in dynamic shared memory.
    DynamicShared,
    /// A byte offset in local memory; `parameter` if it's in the parameter space of a function.
    Local {
        offset: u32,
        bytes: u32,
        parameter: bool,
    },
    /// A byte offset in the kernel's parameters.
    KernelParameter {
        offset: u32,
    },
    /// A module variable.
    Variable(u32),
}

/// Where a function takes an argument or leaves a result.
#[derive(Clone, Copy, Debug)]
pub(super) enum Slot {
    Register { row: u32, class: RegisterClass },
    Memory { offset: u32, bytes: u32 },
}

/// A function of the kernel's call graph.
pub(super) struct Callee<'a> {
    pub function: &'a Function<'a>,
    pub parameters: Vec<Slot>,
    pub returns: Vec<Slot>,
    /// Index of its first instruction, once decoded.
    pub start: Option<u32>,
    pub calls: Vec<usize>,
}

/// A scope of names: a function's body or a `{ }` inside it.
#[derive(Default)]
pub(super) struct Scope<'a> {
    bindings: HashMap<&'a str, Binding>,
    ranges: HashMap<&'a str, (u32, RegisterClass)>,
    labels: HashMap<&'a str, usize>,
    tables: HashMap<&'a str, &'a [&'a str]>,
}

pub(super) struct Builder<'a, 't> {
    pub tables: &'t Tables<'a>,
    files: &'t HashMap<u64, u32>,
    pub program: Program,
    constants: HashMap<Constant, u32>,
    specials: HashMap<Special, u32>,
    shared: HashMap<usize, Binding>,
    shared_arrays: Vec<SharedArray>,
    shared_end: u64,
    dynamic_alignment: u64,
    dynamic_name: Option<String>,
    local_end: u64,
    pub scopes: Vec<Scope<'a>>,
    pub place: InstructionPlace,
    /// What each lane-wise instruction of the code reads and writes.
    alu_types: Vec<Option<AluTypes>>,
    /// Instruction index of each label of the function at hand, once it's reached.
    labels: Vec<Option<u32>>,
    /// Instructions of the function at hand whose targets are label numbers still.
    branches: Vec<usize>,
    /// Positions in `lists` that hold label numbers still.
    list_targets: Vec<usize>,
    pub callees: Vec<Callee<'a>>,
    callee_names: HashMap<&'a str, usize>,
    /// Call instructions whose targets are callee indices still.
    pub calls: Vec<usize>,
    /// The callee whose body is being decoded.
    pub current: Option<usize>,
    scratch: HashMap<RegisterClass, Binding>,
    mnemonics: HashMap<String, u32>,
    /// Accesses that name a static shared array themselves: by instruction, where the array starts.
    pub direct: HashMap<u32, u32>,
}

impl<'a, 't> Builder<'a, 't> {
    pub fn new(tables: &'t Tables<'a>, files: &'t HashMap<u64, u32>) -> Self {
        Builder {
            tables,
            files,
            program: Program { predicates: FIRST_PREDICATE, cleared_predicates: vec![CARRY], ..Program::default() },
            constants: HashMap::new(),
            specials: HashMap::new(),
            shared: HashMap::new(),
            shared_arrays: Vec::new(),
            shared_end: 0,
            dynamic_alignment: 16,
            dynamic_name: None,
            local_end: 0,
            scopes: Vec::new(),
            place: InstructionPlace::default(),
            alu_types: Vec::new(),
            labels: Vec::new(),
            branches: Vec::new(),
            list_targets: Vec::new(),
            callees: Vec::new(),
            callee_names: HashMap::new(),
            calls: Vec::new(),
            current: None,
            scratch: HashMap::new(),
            mnemonics: HashMap::new(),
            direct: HashMap::new(),
        }
    }

    pub fn function_names(&self) -> impl Iterator<Item = &'a str> + '_ {
        self.callees.iter().map(|callee| callee.function.name)
    }

    // ---- whole kernels ------------------------------------------------------------------------------------

    pub fn kernel(&mut self, function: &'a Function<'a>) -> Result<Kernel> {
        self.cluster(function)?;
        let mut scope = Scope::default();
        let mut parameters = Vec::new();
        let mut offset = 0u64;
        for parameter in &function.parameters {
            if parameter.register {
                return Err(unsupported(function.line, parameter.name, "a kernel's parameters can't be registers"));
            }
            offset = offset.next_multiple_of(parameter.alignment);
            scope.bindings.insert(parameter.name, Binding::KernelParameter { offset: offset as u32 });
            parameters.push(KernelParameter {
                name: parameter.name.to_owned(),
                bytes: parameter.bytes as usize,
                alignment: parameter.alignment as usize,
                offset: offset as usize,
            });
            offset += parameter.bytes;
            if offset > MAX_PARAMETER_BYTES {
                return Err(unsupported(function.line, function.name, "more than 32764 bytes of parameters"));
            }
        }
        self.program.parameter_bytes = offset as u32;
        self.body(function, scope)?;
        self.functions()?;
        self.finish()?;
        let program = std::mem::take(&mut self.program);
        let info = KernelInfo {
            name: function.name.to_owned(),
            parameters,
            static_shared_bytes: program.shared_bytes,
            shared_arrays: std::mem::take(&mut self.shared_arrays),
            dynamic_shared: self.dynamic_name.take(),
            local_bytes: program.local_words * 4,
            max_threads: function.max_threads,
            exact_threads: function.exact_threads,
            cluster: function.cluster,
        };
        Ok(Kernel { info, program })
    }

    /// Decodes a function that no kernel calls, to see that it's understood.
    pub fn lone_function(&mut self, function: &'a Function<'a>) -> Result<()> {
        self.callee(function.name, function.line, function.name)?;
        self.functions()?;
        self.finish()
    }

    /// Decodes all functions that calls have asked for, which may ask for more.
    fn functions(&mut self) -> Result<()> {
        let mut next = 0;
        while next < self.callees.len() {
            let callee = &mut self.callees[next];
            callee.start = Some(self.program.code.len() as u32);
            let function = callee.function;
            let mut scope = Scope::default();
            let formal = function.parameters.iter().zip(&callee.parameters);
            for (parameter, slot) in formal.chain(function.returns.iter().zip(&callee.returns)) {
                let binding = match *slot {
                    Slot::Register { row, class } => Binding::Register { row, class },
                    Slot::Memory { offset, bytes } => Binding::Local { offset, bytes, parameter: true },
                };
                scope.bindings.insert(parameter.name, binding);
            }
            self.current = Some(next);
            self.body(function, scope)?;
            next += 1;
        }
        self.refuse_recursion()
    }

    fn refuse_recursion(&self) -> Result<()> {
        // Colours of a depth-first search; the stack is explicit, since call chains may be long.
        let mut state = vec![0u8; self.callees.len()];
        for root in 0..self.callees.len() {
            if state[root] != 0 {
                continue;
            }
            let mut stack = vec![(root, 0)];
            state[root] = 1;
            while let Some((index, next)) = stack.last_mut() {
                match self.callees[*index].calls.get(*next) {
                    Some(&callee) => {
                        *next += 1;
                        match state[callee] {
                            0 => {
                                state[callee] = 1;
                                stack.push((callee, 0));
                            }
                            1 => {
                                let function = self.callees[callee].function;
                                return Err(unsupported(
                                    function.line,
                                    function.name,
                                    "recursion: this function calls itself, directly or through others",
                                ));
                            }
                            _ => {}
                        }
                    }
                    None => {
                        state[*index] = 2;
                        stack.pop();
                    }
                }
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        for position in std::mem::take(&mut self.calls) {
            if let Operation::Call { target } = &mut self.program.code[position].operation {
                *target = self.callees[*target as usize].start.unwrap_or(0);
            }
        }
        self.program.local_words = self.local_end.div_ceil(4) as u32;
        // Dynamic shared memory begins after the static arrays.
        let shared = if self.shared.values().any(|binding| matches!(binding, Binding::DynamicShared)) {
            self.shared_end.next_multiple_of(self.dynamic_alignment)
        } else {
            self.shared_end
        };
        self.program.shared_bytes = shared as u32;
        self.program.constants = self.constants.iter().map(|(constant, row)| (*row, *constant)).collect();
        self.program.constants.sort_unstable_by_key(|(row, _)| *row);
        self.program.specials = self.specials.iter().map(|(special, row)| (*row, *special)).collect();
        let functions = self.callees.iter().filter_map(|callee| callee.start);
        let entries: Vec<u32> = std::iter::once(0).chain(functions).collect();
        // While every register has rows of its own.
        tell_sizes(&mut self.program, &self.alu_types);
        trace_origins(&mut self.program, &self.alu_types, &self.shared_arrays, &self.direct);
        analyse(&mut self.program, &self.alu_types, &entries);
        Ok(())
    }

    // ---- rows ---------------------------------------------------------------------------------------------

    fn allocate_rows(&mut self, count: u32) -> u32 {
        let row = self.program.rows;
        self.program.rows += count;
        row
    }

    pub fn constant(&mut self, constant: Constant) -> u32 {
        if let Some(row) = self.constants.get(&constant) {
            return *row;
        }
        let row = self.allocate_rows(constant.rows());
        self.constants.insert(constant, row);
        row
    }

    pub fn special(&mut self, special: Special) -> u32 {
        if let Some(row) = self.specials.get(&special) {
            return *row;
        }
        let row = self.allocate_rows(1);
        self.specials.insert(special, row);
        row
    }

    pub fn new_register(&mut self, class: RegisterClass) -> Binding {
        if class == RegisterClass::Predicate {
            let index = self.program.predicates;
            self.program.predicates += 1;
            self.program.cleared_predicates.push(index);
            return Binding::Predicate(index);
        }
        let count = match class {
            RegisterClass::Bits128 => 4,
            RegisterClass::Bits64 => 2,
            _ => 1,
        };
        let row = self.allocate_rows(count);
        self.program.register_rows.extend((row..row + count).map(|part| (part, row)));
        Binding::Register { row, class }
    }

    /// A register for results that nobody reads (`_`).
    pub fn scratch(&mut self, class: RegisterClass) -> Binding {
        if let Some(binding) = self.scratch.get(&class) {
            return *binding;
        }
        let binding = self.new_register(class);
        self.scratch.insert(class, binding);
        binding
    }

    // ---- names --------------------------------------------------------------------------------------------

    /// What `name` stands for here; registers of a range get their rows at their first use.
    pub fn lookup(&mut self, name: &'a str) -> Option<Binding> {
        for depth in (0..self.scopes.len()).rev() {
            if let Some(binding) = self.scopes[depth].bindings.get(name) {
                return Some(*binding);
            }
            if let Some(class) = self.scopes[depth].range_class(name) {
                let binding = self.new_register(class);
                self.scopes[depth].bindings.insert(name, binding);
                return Some(binding);
            }
        }
        let index = *self.tables.names.get(name)?;
        self.module_variable(index)
    }

    fn module_variable(&mut self, index: usize) -> Option<Binding> {
        let variable = &self.tables.variables[index];
        match variable.space {
            Space::Shared => {
                if let Some(binding) = self.shared.get(&index) {
                    return Some(*binding);
                }
                let binding = self.shared_variable(variable);
                self.shared.insert(index, binding);
                Some(binding)
            }
            _ if variable.external => None,
            _ => Some(Binding::Variable(index as u32)),
        }
    }

    /// An array without a length, which only `.extern .shared` arrays have, is dynamic shared memory.
    fn shared_variable(&mut self, variable: &Variable<'a>) -> Binding {
        match variable.bytes() {
            Some(bytes) if bytes > 0 => {
                let offset = self.shared_end.next_multiple_of(variable.alignment);
                // Sizes are checked against the limit when the body is done; here they only mustn't wrap.
                self.shared_end = (offset + bytes).min(u64::from(u32::MAX));
                let offset = offset.min(u64::from(u32::MAX)) as u32;
                self.shared_arrays.push(SharedArray { name: variable.name.to_owned(), offset, bytes: bytes as u32 });
                Binding::Shared(offset)
            }
            _ => {
                self.dynamic_alignment = self.dynamic_alignment.max(variable.alignment);
                self.dynamic_name.get_or_insert_with(|| variable.name.to_owned());
                Binding::DynamicShared
            }
        }
    }

    pub fn label(&self, name: &str) -> Option<usize> {
        self.scopes.iter().rev().find_map(|scope| scope.labels.get(name).copied())
    }

    pub fn branch_table(&self, name: &str) -> Option<&'a [&'a str]> {
        self.scopes.iter().rev().find_map(|scope| scope.tables.get(name).copied())
    }

    // ---- functions ----------------------------------------------------------------------------------------

    /// The callee of that name, with its frame laid out.
    pub fn callee(&mut self, name: &'a str, line: u32, text: &str) -> Result<usize> {
        if let Some(index) = self.callee_names.get(name) {
            return Ok(*index);
        }
        let function = match self.tables.functions.get(name) {
            Some(function) if function.entry => return Err(unsupported(line, text, "a call of a kernel")),
            Some(function) if function.body.is_none() => {
                return Err(unsupported(line, text, format!("`{name}` is declared but its code isn't in this module")));
            }
            Some(function) => *function,
            None => return Err(unsupported(line, text, format!("there is no function `{name}`"))),
        };
        let mut slots = Vec::new();
        for parameter in function.parameters.iter().chain(&function.returns) {
            let slot = if parameter.register {
                let class = match parameter.bytes {
                    1 | 2 => RegisterClass::Bits16,
                    4 => RegisterClass::Bits32,
                    8 => RegisterClass::Bits64,
                    _ => return Err(unsupported(function.line, name, "a register parameter of this size")),
                };
                match self.new_register(class) {
                    Binding::Register { row, class } => Slot::Register { row, class },
                    _ => unreachable!("only predicate registers have another binding"),
                }
            } else {
                let offset = self.local(parameter.bytes, parameter.alignment, function.line, name)?;
                Slot::Memory { offset, bytes: parameter.bytes as u32 }
            };
            slots.push(slot);
        }
        let returns = slots.split_off(function.parameters.len());
        let index = self.callees.len();
        self.callees.push(Callee { function, parameters: slots, returns, start: None, calls: Vec::new() });
        self.callee_names.insert(name, index);
        Ok(index)
    }

    /// Takes local memory; offsets are static, which is sound because there is no recursion.
    fn local(&mut self, bytes: u64, alignment: u64, line: u32, text: &str) -> Result<u32> {
        let offset = self.local_end.next_multiple_of(alignment.max(4));
        self.local_end = offset.saturating_add(bytes);
        if self.local_end > MAX_LOCAL_BYTES {
            return Err(unsupported(line, text, "more than 512 KiB of local memory per thread"));
        }
        Ok(offset as u32)
    }

    // ---- bodies -------------------------------------------------------------------------------------------

    fn body(&mut self, function: &'a Function<'a>, scope: Scope<'a>) -> Result<()> {
        self.place = InstructionPlace::default();
        self.labels.clear();
        self.scopes.push(scope);
        let statements = function.body.as_deref().unwrap_or_default();
        self.statements(statements)?;
        self.scopes.pop();
        // A body that runs off its end returns.
        self.place.ptx_line = self.place.ptx_line.max(function.line);
        self.place.mnemonic = NONE;
        self.place.continued = true;
        let end = if function.entry { Operation::Exit } else { Operation::Return };
        self.emit(end, Guard::NONE);
        for position in std::mem::take(&mut self.branches) {
            if let Operation::Branch { target } = &mut self.program.code[position].operation {
                *target = self.labels[*target as usize].unwrap_or(0);
            }
        }
        for position in std::mem::take(&mut self.list_targets) {
            let label = self.program.lists[position] as usize;
            self.program.lists[position] = self.labels[label].unwrap_or(0);
        }
        if self.shared_end > MAX_SHARED_BYTES {
            return Err(unsupported(function.line, function.name, "more than 227 KiB of static shared memory"));
        }
        Ok(())
    }

    fn statements(&mut self, statements: &'a [Statement<'a>]) -> Result<()> {
        // Branches may go forward, so a scope's labels are known from its start.
        for statement in statements {
            let scope = self.scopes.last_mut().expect("a body has a scope");
            let (known, line, name) = match statement {
                Statement::Label { name, line } => {
                    let label = self.labels.len();
                    self.labels.push(None);
                    (scope.labels.insert(name, label).is_some(), *line, *name)
                }
                Statement::BranchTargets { label, targets } => {
                    (scope.tables.insert(label, targets).is_some(), self.place.ptx_line, *label)
                }
                _ => continue,
            };
            if known {
                return Err(unsupported(line, name, "a label that is defined twice"));
            }
        }
        for statement in statements {
            match statement {
                Statement::Label { name, .. } => {
                    let label = self.scopes.last().expect("a body has a scope").labels[name];
                    self.labels[label] = Some(self.program.code.len() as u32);
                }
                Statement::Instruction(instruction) => {
                    self.place.ptx_line = instruction.line;
                    self.place.mnemonic = self.mnemonic(instruction);
                    self.place.continued = false;
                    self.instruction(instruction)?;
                }
                Statement::Variable(variable) => self.variable(variable)?,
                Statement::Registers { declarations } => {
                    for declaration in declarations {
                        self.declare(declaration.name, declaration.count, declaration.class, declaration.line)?;
                    }
                }
                Statement::Scope(inner) => {
                    self.scopes.push(Scope::default());
                    self.statements(inner)?;
                    self.scopes.pop();
                }
                Statement::Location(location) => self.locate(*location),
                Statement::BranchTargets { .. } => {}
            }
        }
        Ok(())
    }

    /// Line 0 marks code that belongs to no line; it's counted to the line before.
    fn locate(&mut self, location: Location) {
        if location.line > 0 {
            self.place.file = self.files.get(&location.file).copied().unwrap_or(0);
            self.place.line = location.line;
            self.place.column = location.column;
        }
    }

    fn declare(&mut self, name: &'a str, count: Option<u32>, class: RegisterClass, line: u32) -> Result<()> {
        if class == RegisterClass::Bits128 {
            return Err(unsupported(line, name, "128-bit registers"));
        }
        let known = match count {
            Some(count) => {
                let scope = self.scopes.last_mut().expect("a body has a scope");
                scope.ranges.insert(name, (count, class)).is_some()
            }
            None => {
                let binding = self.new_register(class);
                let scope = self.scopes.last_mut().expect("a body has a scope");
                scope.bindings.insert(name, binding).is_some()
            }
        };
        if known { Err(unsupported(line, name, "a register that is declared twice")) } else { Ok(()) }
    }

    fn variable(&mut self, variable: &'a Variable<'a>) -> Result<()> {
        let refuse = |message: &str| Err(unsupported(variable.line, variable.name, message));
        if !variable.initial.is_empty() {
            return refuse("an initial value of a variable inside a function");
        }
        let binding = match variable.space {
            Space::Shared => self.shared_variable(variable),
            Space::Local | Space::Parameter => {
                let Some(bytes) = variable.bytes() else { return refuse("a variable of unknown size") };
                let parameter = variable.space == Space::Parameter;
                let offset = self.local(bytes, variable.alignment, variable.line, variable.name)?;
                Binding::Local { offset, bytes: bytes as u32, parameter }
            }
            _ => return refuse("a global or constant variable inside a function"),
        };
        if matches!(binding, Binding::DynamicShared) {
            // Recorded so that the dynamic part is aligned; the key can't be a module variable's.
            self.shared.insert(usize::MAX, binding);
        }
        let scope = self.scopes.last_mut().expect("a body has a scope");
        if scope.bindings.insert(variable.name, binding).is_some() {
            return refuse("a name that is declared twice");
        }
        Ok(())
    }

    // ---- code ---------------------------------------------------------------------------------------------

    pub fn emit(&mut self, operation: Operation, guard: Guard) {
        self.program.code.push(Instruction { operation, guard });
        self.program.places.push(self.place);
        self.place.continued = true;
        self.alu_types.push(None);
    }

    /// The number of an instruction's mnemonic.
    fn mnemonic(&mut self, instruction: &syntax::Instruction<'_>) -> u32 {
        let mut text = instruction.opcode.to_owned();
        for modifier in &instruction.modifiers {
            text.push('.');
            text.push_str(modifier);
        }
        let mnemonics = &mut self.program.mnemonics;
        *self.mnemonics.entry(text).or_insert_with_key(|text| {
            mnemonics.push(text.clone());
            mnemonics.len() as u32 - 1
        })
    }

    pub fn emit_alu(&mut self, selected: &Selected, operands: Operands, guard: Guard) {
        self.emit(Operation::Alu { function: selected.function, operands }, guard);
        let types = AluTypes { destinations: selected.destinations, sources: selected.sources };
        *self.alu_types.last_mut().expect("an instruction was just added") = Some(types);
    }

    pub fn emit_branch(&mut self, label: usize, guard: Guard) {
        self.branches.push(self.program.code.len());
        self.emit(Operation::Branch { target: label as u32 }, guard);
    }

    /// Adds label numbers to the lists, to become instruction indices at the end of the body.
    pub fn label_list(&mut self, labels: Vec<usize>) -> u32 {
        let start = self.program.lists.len();
        self.list_targets.extend(start..start + labels.len());
        self.program.lists.extend(labels.into_iter().map(|label| label as u32));
        start as u32
    }

    pub fn list(&mut self, rows: impl IntoIterator<Item = u32>) -> u32 {
        let start = self.program.lists.len() as u32;
        self.program.lists.extend(rows);
        start
    }
}

impl Scope<'_> {
    /// The class of a register that belongs to a declared range, `%r7` to `%r<10>`.
    fn range_class(&self, name: &str) -> Option<RegisterClass> {
        let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
        (1..=digits.min(9)).find_map(|count| {
            let (prefix, number) = name.split_at(name.len() - count);
            if count > 1 && number.starts_with('0') {
                return None;
            }
            let (length, class) = *self.ranges.get(prefix)?;
            (number.parse::<u32>().ok()? < length).then_some(class)
        })
    }
}
