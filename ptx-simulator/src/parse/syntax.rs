//! What a PTX module looks like once it's parsed: names are still names, nothing is checked for sense yet.

use std::collections::BTreeMap;

/// A parsed module. Everything borrows from the PTX text.
#[derive(Debug, Default)]
pub struct Module<'a> {
    /// The names in `.target`, for instance `sm_70` or `sm_90a` and `debug`.
    pub target: Vec<&'a str>,
    /// Variables at module scope, in order.
    pub variables: Vec<Variable<'a>>,
    /// Kernels and functions, in order; declarations have no body.
    pub functions: Vec<Function<'a>>,
    /// The source files that `.loc` refers to by number.
    pub files: BTreeMap<u64, String>,
}

/// State spaces of variables and memory instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    Global,
    Constant,
    Shared,
    Local,
    Parameter,
}

/// A variable declaration outside the register space.
#[derive(Clone, Debug)]
pub struct Variable<'a> {
    pub name: &'a str,
    pub space: Space,
    /// Bytes of one element.
    pub element_bytes: u64,
    /// `None` for an array whose length isn't given (`name[]`).
    pub elements: Option<u64>,
    /// Alignment in bytes; the element's own where none was given.
    pub alignment: u64,
    pub initial: Vec<Initializer<'a>>,
    pub external: bool,
    pub line: u32,
}

impl Variable<'_> {
    /// Size in bytes, `None` where the array's length isn't given or too large to count.
    pub fn bytes(&self) -> Option<u64> {
        self.elements.and_then(|elements| elements.checked_mul(self.element_bytes))
    }
}

/// One element of a variable's initial value.
#[derive(Clone, Debug, PartialEq)]
pub enum Initializer<'a> {
    Integer(u64),
    Float32(u32),
    Float64(u64),
    /// The address of a variable plus an offset; `mask` picks one byte of it (`0xFF00(name)`).
    Address {
        name: &'a str,
        offset: i64,
        mask: Option<u64>,
    },
}

/// A kernel (`.entry`) or function (`.func`).
#[derive(Debug)]
pub struct Function<'a> {
    pub name: &'a str,
    pub entry: bool,
    pub line: u32,
    pub returns: Vec<Parameter<'a>>,
    pub parameters: Vec<Parameter<'a>>,
    /// `.maxntid` or `.reqntid`.
    pub max_threads: Option<[u32; 3]>,
    /// Whether the shape in `max_threads` is the only one allowed (`.reqntid`).
    pub exact_threads: bool,
    /// Blocks of a cluster along x, y and z (`.reqnctapercluster`).
    pub cluster: Option<[u32; 3]>,
    /// `None` for a declaration.
    pub body: Option<Vec<Statement<'a>>>,
}

/// A formal parameter or return value.
#[derive(Clone, Debug)]
pub struct Parameter<'a> {
    pub name: &'a str,
    /// A register (`.reg`) instead of parameter space, as old PTX allows for functions.
    pub register: bool,
    pub bytes: u64,
    pub alignment: u64,
}

/// A statement in a body.
#[derive(Debug)]
pub enum Statement<'a> {
    Label { name: &'a str, line: u32 },
    Instruction(Instruction<'a>),
    Variable(Variable<'a>),
    Registers { declarations: Vec<RegisterDeclaration<'a>> },
    Scope(Vec<Statement<'a>>),
    Location(Location),
    BranchTargets { label: &'a str, targets: Vec<&'a str> },
}

/// A register, or a range of them (`%r<10>` declares `%r0` to `%r9`).
#[derive(Clone, Debug)]
pub struct RegisterDeclaration<'a> {
    pub name: &'a str,
    pub count: Option<u32>,
    pub class: RegisterClass,
    pub line: u32,
}

/// What a register holds, as far as storage is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RegisterClass {
    Predicate,
    Bits16,
    Bits32,
    Bits64,
    Bits128,
}

/// A `.loc` directive: the source line of the instructions after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    pub file: u64,
    pub line: u32,
    pub column: u32,
}

/// `@predicate` or `@!predicate`.
#[derive(Clone, Copy, Debug)]
pub struct Guard<'a> {
    pub name: &'a str,
    pub negated: bool,
}

/// One instruction.
#[derive(Debug)]
pub struct Instruction<'a> {
    pub guard: Option<Guard<'a>>,
    pub opcode: &'a str,
    pub modifiers: Vec<&'a str>,
    pub operands: Vec<Operand<'a>>,
    pub line: u32,
    /// The instruction as it stands in the text, for messages.
    pub text: &'a str,
}

/// An operand of an instruction.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand<'a> {
    /// A register, variable, label or function.
    Name(&'a str),
    /// A name with a suffix, such as the special register `%tid.x`.
    Component(&'a str, &'a str),
    /// A variable's address plus an offset, outside brackets.
    Offset(&'a str, i64),
    /// An integer; negative ones in two's complement.
    Integer(u64),
    Float32(u32),
    Float64(u64),
    /// `{a, b}`.
    Vector(Vec<Operand<'a>>),
    /// `[base + offset]`.
    Address {
        base: Option<&'a str>,
        offset: i64,
    },
    /// `[base + offset, {x, y}]`: a tensor map, and coordinates in its tensor, the innermost first.
    TensorAddress {
        base: Option<&'a str>,
        offset: i64,
        coordinates: Vec<Operand<'a>>,
    },
    /// `a|b`, for instance two predicate destinations.
    Pair(Box<Operand<'a>>, Box<Operand<'a>>),
    /// `!p` or `-x`-like logical negation of a predicate.
    Not(&'a str),
    /// `_`.
    Discard,
    /// A parenthesised list of a call.
    List(Vec<Operand<'a>>),
}
