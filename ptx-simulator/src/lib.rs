//! Runs PTX without a GPU.
mod alu;
mod decode;
mod error;
mod execute;
mod memory;
pub mod observe;
mod parse;
mod simulator;

pub use decode::{KernelInfo, KernelParameter, Module};
pub use error::{
    AccessKind, AllocateError, LaunchError, LaunchErrorKind, LoadError, MemoryError, MemorySpace, Nearest,
    SourceLocation,
};
pub use parse::ParseError;
pub use simulator::{
    Argument, DEFAULT_INSTRUCTION_LIMIT, DevicePointer, LaunchConfig, MAX_BLOCK, MAX_BLOCK_THREADS, MAX_GRID,
    MAX_SHARED_BYTES, Simulator, SimulatorBuilder,
};
