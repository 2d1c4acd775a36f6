//! From the syntax tree to programs: every name is resolved, every instruction understood or refused.

mod asynchronous;
mod body;
mod builder;
mod bulk;
mod clusters;
mod control;
mod flow;
mod matrices;
mod memory;
mod order;
mod origin;
pub mod program;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{LoadError, SourceLocation};
use crate::parse::syntax::{self, Initializer, Space};
use builder::Builder;
use program::{InstructionPlace, Program};

/// Module variables of more than this are refused: the module's text, not the caller, decides about this memory.
const MAX_VARIABLE_BYTES: u64 = 1 << 30;

/// A loaded module: kernels that are ready to run.
#[derive(Debug)]
pub struct Module {
    /// Tells modules apart that were loaded into one simulator.
    id: u64,
    kernels: Vec<Kernel>,
    variables: Vec<ModuleVariable>,
    /// Index 0 stands for "no file".
    files: Vec<String>,
}

/// A kernel as its PTX declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelInfo {
    /// Name of the entry.
    pub name: String,
    /// The parameters in order.
    pub parameters: Vec<KernelParameter>,
    /// Shared memory per block that the kernel's own arrays take, in bytes.
    pub static_shared_bytes: u32,
    /// The kernel's own arrays in shared memory, by offset.
    pub shared_arrays: Vec<SharedArray>,
    /// The name of the array that stands for dynamic shared memory, if the kernel uses it; it begins after the others.
    pub dynamic_shared: Option<String>,
    /// Local memory per thread in bytes.
    pub local_bytes: u32,
    /// The block shape of `.maxntid` or `.reqntid`.
    pub max_threads: Option<[u32; 3]>,
    /// Whether `max_threads` is the only shape allowed (`.reqntid`).
    pub exact_threads: bool,
    /// Blocks of a cluster along x, y and z, where the kernel states them (`.reqnctapercluster`).
    pub cluster: Option<[u32; 3]>,
}

/// A parameter of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelParameter {
    /// Name in the PTX.
    pub name: String,
    /// Size in bytes.
    pub bytes: usize,
    /// Alignment in bytes.
    pub alignment: usize,
    /// Offset in the parameter buffer, in bytes.
    pub offset: usize,
}

/// An array in a block's shared memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedArray {
    /// Name in the PTX.
    pub name: String,
    /// Offset in bytes; this is its address within the shared space.
    pub offset: u32,
    /// Size in bytes.
    pub bytes: u32,
}

#[derive(Debug)]
pub(crate) struct Kernel {
    pub info: KernelInfo,
    pub program: Program,
}

/// A `.global` or `.const` variable of a module.
#[derive(Debug)]
pub(crate) struct ModuleVariable {
    pub name: String,
    pub bytes: u64,
    /// In the `.const` space.
    pub constant: bool,
    /// Initial bytes; shorter than `bytes` where the rest is zero.
    pub initial: Vec<u8>,
    /// Addresses of other variables to be put into the bytes.
    pub relocations: Vec<Relocation>,
}

/// `bytes` bytes at `position` become those of a variable's address, from byte `first` of the address on.
#[derive(Debug)]
pub(crate) struct Relocation {
    pub position: usize,
    pub bytes: usize,
    pub first: u32,
    pub variable: usize,
    pub offset: i64,
}

impl Module {
    /// Parses and decodes PTX text.
    ///
    /// # Errors
    /// [`LoadError`] names line and text of whatever is not PTX or not understood; nothing is left to fail at run time.
    pub fn parse(text: &str) -> Result<Module, LoadError> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let syntax = crate::parse::parse(text)?;
        let tables = Tables::new(&syntax)?;
        let mut files = vec![String::new()];
        let mut file_indices = HashMap::new();
        for (number, name) in &syntax.files {
            file_indices.insert(*number, files.len() as u32);
            files.push(name.clone());
        }
        let mut kernels = Vec::new();
        let mut reached = HashSet::new();
        for function in syntax.functions.iter().filter(|function| function.body.is_some()) {
            if function.entry {
                let mut builder = Builder::new(&tables, &file_indices);
                let kernel = builder.kernel(function)?;
                reached.extend(builder.function_names());
                kernels.push(kernel);
            }
        }
        // Functions that no kernel calls must be understood as well: a module is accepted whole or not at all.
        for function in syntax.functions.iter().filter(|function| function.body.is_some() && !function.entry) {
            if !reached.contains(function.name) {
                let mut builder = Builder::new(&tables, &file_indices);
                builder.lone_function(function)?;
                reached.extend(builder.function_names());
            }
        }
        let variables = tables.module_variables()?;
        Ok(Module { id: NEXT_ID.fetch_add(1, Ordering::Relaxed), kernels, variables, files })
    }

    /// The kernels in the order of the text.
    pub fn kernels(&self) -> impl Iterator<Item = &KernelInfo> {
        self.kernels.iter().map(|kernel| &kernel.info)
    }

    /// The kernel of that name.
    pub fn kernel(&self, name: &str) -> Option<&KernelInfo> {
        self.find_kernel(name).map(|kernel| &kernel.info)
    }

    /// The source line of an instruction that an observer saw, if the PTX has line directives.
    pub fn source_location(&self, kernel: &str, instruction: u32) -> Option<SourceLocation> {
        let place = self.find_kernel(kernel)?.program.places.get(instruction as usize)?;
        self.source(*place)
    }

    /// The source line where a kernel takes the address of one of its [`KernelInfo::shared_arrays`]: in rustc's PTX the
    /// line that declares it. `None` if the array isn't used by name, or the PTX has no line directives.
    pub fn shared_array_source(&self, kernel: &str, array: usize) -> Option<SourceLocation> {
        self.source_location(kernel, *self.find_kernel(kernel)?.program.taken_at.get(array)?)
    }

    /// The line in the PTX text of an instruction that an observer saw.
    pub fn ptx_line(&self, kernel: &str, instruction: u32) -> Option<u32> {
        Some(self.find_kernel(kernel)?.program.places.get(instruction as usize)?.ptx_line)
    }

    /// An instruction that an observer saw, with its modifiers and without its operands: `ld.shared.v4.b32`. `None` for
    /// the return that the end of a body stands for.
    pub fn mnemonic(&self, kernel: &str, instruction: u32) -> Option<&str> {
        let program = &self.find_kernel(kernel)?.program;
        let place = program.places.get(instruction as usize)?;
        program.mnemonics.get(place.mnemonic as usize).map(String::as_str)
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn variables(&self) -> &[ModuleVariable] {
        &self.variables
    }

    pub(crate) fn find_kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.iter().find(|kernel| kernel.info.name == name)
    }

    pub(crate) fn source(&self, place: InstructionPlace) -> Option<SourceLocation> {
        let file = self.files.get(place.file as usize).filter(|_| place.file > 0)?;
        Some(SourceLocation { file: file.clone(), line: place.line, column: place.column })
    }
}

/// What the module's scope declares.
pub(crate) struct Tables<'a> {
    pub functions: HashMap<&'a str, &'a syntax::Function<'a>>,
    /// Variables at module scope by name; indices into `syntax.variables`.
    pub names: HashMap<&'a str, usize>,
    pub variables: &'a [syntax::Variable<'a>],
}

impl<'a> Tables<'a> {
    fn new(syntax: &'a syntax::Module<'a>) -> Result<Self, LoadError> {
        let mut functions: HashMap<&'a str, &'a syntax::Function<'a>> = HashMap::new();
        for function in &syntax.functions {
            // A definition replaces its declarations, whatever the order.
            let known = functions.get(function.name);
            if known.is_some_and(|known| known.body.is_some() && function.body.is_some()) {
                return Err(unsupported(function.line, function.name, "a function that is defined twice"));
            }
            if known.is_none_or(|known| known.body.is_none()) {
                functions.insert(function.name, function);
            }
        }
        let mut names = HashMap::new();
        for (index, variable) in syntax.variables.iter().enumerate() {
            if matches!(variable.space, Space::Local | Space::Parameter) {
                return Err(unsupported(variable.line, variable.name, "local and parameter variables at module scope"));
            }
            let known = names.get(variable.name).map(|known: &usize| &syntax.variables[*known]);
            if known.is_none_or(|known| known.external && !variable.external) {
                names.insert(variable.name, index);
            } else if known.is_some_and(|known| !known.external && !variable.external) {
                return Err(unsupported(variable.line, variable.name, "a variable that is declared twice"));
            }
        }
        Ok(Tables { functions, names, variables: &syntax.variables })
    }

    fn module_variables(&self) -> Result<Vec<ModuleVariable>, LoadError> {
        let mut total = 0u64;
        self.variables
            .iter()
            .map(|variable| {
                let placed = matches!(variable.space, Space::Global | Space::Constant) && !variable.external;
                let bytes = if placed { variable.bytes().unwrap_or(0) } else { 0 };
                total += bytes;
                if total > MAX_VARIABLE_BYTES {
                    return Err(unsupported(variable.line, variable.name, "module variables of more than 1 GiB"));
                }
                if !variable.initial.is_empty() && !placed {
                    return Err(unsupported(variable.line, variable.name, "an initial value in this state space"));
                }
                self.module_variable(variable, bytes)
            })
            .collect()
    }

    fn module_variable(&self, variable: &syntax::Variable<'a>, bytes: u64) -> Result<ModuleVariable, LoadError> {
        let width = variable.element_bytes as usize;
        let mut initial = Vec::with_capacity(variable.initial.len() * width);
        let mut relocations = Vec::new();
        for item in &variable.initial {
            let position = initial.len();
            let value = match *item {
                Initializer::Integer(value) => value,
                Initializer::Float32(bits) if width == 8 => f64::from(f32::from_bits(bits)).to_bits(),
                Initializer::Float32(bits) => u64::from(bits),
                Initializer::Float64(bits) if width == 4 => u64::from((f64::from_bits(bits) as f32).to_bits()),
                Initializer::Float64(bits) => bits,
                Initializer::Address { name, offset, mask } => {
                    let target = self.names.get(name).copied().filter(|index| {
                        matches!(self.variables[*index].space, Space::Global | Space::Constant)
                            && !self.variables[*index].external
                    });
                    let Some(target) = target else {
                        return Err(unsupported(variable.line, name, "an initial value that is no variable's address"));
                    };
                    let first = match mask {
                        None => 0,
                        Some(mask) if width == 1 && mask != 0 && mask >> (mask.trailing_zeros() & !7) == 0xff => {
                            mask.trailing_zeros() / 8
                        }
                        Some(_) => {
                            return Err(unsupported(variable.line, name, "an address mask that isn't one byte"));
                        }
                    };
                    if mask.is_none() && width != 8 {
                        return Err(unsupported(variable.line, name, "an address in fewer than 64 bits"));
                    }
                    relocations.push(Relocation { position, bytes: width, first, variable: target, offset });
                    0
                }
            };
            let mut wide = [0; 16];
            wide[..8].copy_from_slice(&value.to_le_bytes());
            initial.extend_from_slice(&wide[..width]);
        }
        let constant = variable.space == Space::Constant;
        Ok(ModuleVariable { name: variable.name.to_owned(), bytes, constant, initial, relocations })
    }
}

pub(crate) fn unsupported(line: u32, text: &str, message: impl Into<String>) -> LoadError {
    LoadError::Unsupported {
        line,
        text: text.split_whitespace().collect::<Vec<_>>().join(" "),
        message: message.into(),
    }
}
