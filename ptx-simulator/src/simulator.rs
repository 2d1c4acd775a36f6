//! The device that a user talks to: memory, launches, limits.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::decode::{Kernel, KernelInfo, Module};
use crate::error::{AllocateError, LaunchError, LaunchErrorKind, MemoryError};
use crate::execute::{Fault, Launch};
use crate::memory::GlobalMemory;
use crate::observe::Observer;

/// Instructions that a warp may execute unless the builder says otherwise: about ten seconds of one core.
pub const DEFAULT_INSTRUCTION_LIMIT: u64 = 1 << 30;
/// Shared memory that a block can have, static and dynamic together, in bytes: 227 KiB, as on compute capability 9.0.
pub const MAX_SHARED_BYTES: u64 = 227 << 10;
/// Threads that a block can have.
pub const MAX_BLOCK_THREADS: u64 = 1024;
/// Blocks that a cluster can have on every GPU with clusters. Some allow 16, to launches that ask for it; here none does.
pub const MAX_CLUSTER_BLOCKS: u64 = 8;
/// Largest extents of a block.
pub const MAX_BLOCK: [u32; 3] = [1024, 1024, 64];
/// Largest extents of a grid.
pub const MAX_GRID: [u32; 3] = [i32::MAX as u32, 65_535, 65_535];

/// More threads than any machine has cores are not made.
const MAX_THREADS: usize = 1024;

/// An address in simulated device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DevicePointer(pub u64);

impl DevicePointer {
    /// The address `bytes` further on.
    #[must_use]
    pub fn offset(self, bytes: u64) -> DevicePointer {
        DevicePointer(self.0.wrapping_add(bytes))
    }
}

/// The shape of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchConfig {
    /// Blocks along x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block along x, y and z.
    pub block: [u32; 3],
    /// Dynamic shared memory per block in bytes, in addition to the kernel's static arrays.
    pub dynamic_shared_bytes: u32,
}

/// A kernel argument.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Argument<'a> {
    /// A pointer into device memory.
    Pointer(DevicePointer),
    /// One byte.
    U8(u8),
    /// Two bytes.
    U16(u16),
    /// Four bytes.
    U32(u32),
    /// Eight bytes.
    U64(u64),
    /// Four bytes.
    I32(i32),
    /// Eight bytes.
    I64(i64),
    /// A 32-bit floating-point number.
    F32(f32),
    /// A 64-bit floating-point number.
    F64(f64),
    /// The bytes of anything else, for instance a struct passed by value.
    Bytes(&'a [u8]),
}

impl Argument<'_> {
    fn with_bytes<T>(&self, take: impl FnOnce(&[u8]) -> T) -> T {
        match self {
            Argument::Pointer(pointer) => take(&pointer.0.to_le_bytes()),
            Argument::U8(value) => take(&[*value]),
            Argument::U16(value) => take(&value.to_le_bytes()),
            Argument::U32(value) => take(&value.to_le_bytes()),
            Argument::U64(value) => take(&value.to_le_bytes()),
            Argument::I32(value) => take(&value.to_le_bytes()),
            Argument::I64(value) => take(&value.to_le_bytes()),
            Argument::F32(value) => take(&value.to_le_bytes()),
            Argument::F64(value) => take(&value.to_le_bytes()),
            Argument::Bytes(bytes) => take(bytes),
        }
    }
}

/// Settings of a [`Simulator`].
#[derive(Clone, Debug, Default)]
pub struct SimulatorBuilder {
    threads: usize,
    memory_limit: Option<u64>,
    instruction_limit: Option<u64>,
    finished_blocks: Arc<AtomicU64>,
}

impl SimulatorBuilder {
    /// Cores to use; 0, the default, means all. Results are the same for any number.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Bytes of device memory; the default is three quarters of the memory that the machine has available, or 4 GiB
    /// where that isn't known.
    #[must_use]
    pub fn memory_limit(mut self, bytes: u64) -> Self {
        self.memory_limit = Some(bytes);
        self
    }

    /// Instructions that each warp may execute in a launch before it's taken for an endless loop;
    /// [`DEFAULT_INSTRUCTION_LIMIT`] unless set.
    #[must_use]
    pub fn instruction_limit(mut self, instructions: u64) -> Self {
        self.instruction_limit = Some(instructions);
        self
    }

    /// A counter that others may watch while a launch runs: blocks that have finished, from 0 in every launch.
    #[must_use]
    pub fn finished_blocks(mut self, counter: Arc<AtomicU64>) -> Self {
        self.finished_blocks = counter;
        self
    }

    /// Makes the simulator.
    pub fn build(self) -> Simulator {
        Simulator {
            memory: GlobalMemory::new(self.memory_limit.unwrap_or_else(default_memory_limit)),
            modules: HashMap::new(),
            threads: self.threads,
            pool: None,
            instruction_limit: self.instruction_limit.unwrap_or(DEFAULT_INSTRUCTION_LIMIT),
            finished_blocks: self.finished_blocks,
        }
    }
}

/// The memory that programs can still get on this machine, in bytes; `None` where the system doesn't say.
pub fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("MemAvailable:"))?;
    let kibibytes = line.split_whitespace().nth(1)?.parse::<u64>().ok()?;
    Some(kibibytes * 1024)
}

/// Three quarters of what the system says is available.
fn default_memory_limit() -> u64 {
    available_memory().map_or(4 << 30, |bytes| bytes / 4 * 3)
}

/// A simulated device: memory of its own, and kernels run on the processor's cores.
pub struct Simulator {
    memory: GlobalMemory,
    /// Addresses of the variables of each module that was used, by the module's id.
    modules: HashMap<u64, Vec<u64>>,
    threads: usize,
    /// Made at the first launch; `None` inside if one core does all.
    pool: Option<Option<rayon::ThreadPool>>,
    instruction_limit: u64,
    finished_blocks: Arc<AtomicU64>,
}

impl std::fmt::Debug for Simulator {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Simulator")
            .field("threads", &self.threads)
            .field("total_memory", &self.total_memory())
            .field("free_memory", &self.free_memory())
            .finish_non_exhaustive()
    }
}

impl Default for Simulator {
    fn default() -> Self {
        Self::new()
    }
}

impl Simulator {
    /// A simulator with default settings.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Settings other than the defaults.
    pub fn builder() -> SimulatorBuilder {
        SimulatorBuilder::default()
    }

    /// Bytes of device memory in all.
    pub fn total_memory(&self) -> u64 {
        self.memory.limit()
    }

    /// Bytes of device memory that aren't allocated.
    pub fn free_memory(&self) -> u64 {
        self.memory.free_bytes()
    }

    /// Allocates device memory, aligned to 256 bytes. It's filled with bytes of `0xff`, so that what a kernel reads
    /// before anyone wrote it is the same in every run, and a NaN as a floating-point number. Addresses are never used
    /// twice.
    ///
    /// # Errors
    /// [`AllocateError::OutOfMemory`] past the memory limit, or if the machine doesn't give the memory.
    pub fn allocate(&mut self, bytes: u64) -> Result<DevicePointer, AllocateError> {
        self.memory.allocate(bytes, None).map(DevicePointer)
    }

    /// Frees what [`Simulator::allocate`] gave.
    ///
    /// # Errors
    /// [`MemoryError::NotAllocated`] for anything else.
    pub fn free(&mut self, pointer: DevicePointer) -> Result<(), MemoryError> {
        self.memory.free(pointer.0)
    }

    /// Copies `data` to device memory.
    ///
    /// # Errors
    /// [`MemoryError::OutOfBounds`] unless all of it lies inside one allocation; nothing is written then.
    pub fn write(&mut self, pointer: DevicePointer, data: &[u8]) -> Result<(), MemoryError> {
        self.memory.write(pointer.0, data)
    }

    /// Fills `bytes` bytes of device memory with `value`.
    ///
    /// # Errors
    /// As [`Simulator::write`].
    pub fn fill(&mut self, pointer: DevicePointer, value: u8, bytes: u64) -> Result<(), MemoryError> {
        self.memory.fill(pointer.0, value, bytes)
    }

    /// Copies device memory to `data`.
    ///
    /// # Errors
    /// As [`Simulator::write`].
    pub fn read(&self, pointer: DevicePointer, data: &mut [u8]) -> Result<(), MemoryError> {
        self.memory.read(pointer.0, data)
    }

    /// Address and size in bytes of a module's `.global` or `.const` variable, which exists from its first use on.
    ///
    /// # Errors
    /// [`AllocateError::OutOfMemory`] if the module's variables don't fit. `Ok(None)` if it has no such variable.
    pub fn global(&mut self, module: &Module, name: &str) -> Result<Option<(DevicePointer, u64)>, AllocateError> {
        let index = module.variables().iter().position(|variable| variable.name == name);
        let Some(index) = index else { return Ok(None) };
        self.load(module)?;
        let address = self.modules[&module.id()][index];
        Ok((address != 0).then_some((DevicePointer(address), module.variables()[index].bytes)))
    }

    /// Runs a kernel to its end.
    ///
    /// # Errors
    /// [`LaunchError`] if the launch isn't possible or the kernel does something that it mustn't. Memory that the
    /// kernel didn't write rightfully is as it was.
    pub fn launch(
        &mut self,
        module: &Module,
        kernel: &str,
        config: LaunchConfig,
        arguments: &[Argument<'_>],
    ) -> Result<(), LaunchError> {
        self.launch_with(module, kernel, config, arguments, |launch, pool| launch.run(pool))
    }

    /// Like [`Simulator::launch`], with an observer. The blocks run one after the other in index order. For an observer
    /// that asks for [`Observer::both_orders`] they run a second time, in reverse and on memory as it was before; the
    /// first run's results are what stays.
    ///
    /// # Errors
    /// As [`Simulator::launch`].
    pub fn launch_observed(
        &mut self,
        module: &Module,
        kernel: &str,
        config: LaunchConfig,
        arguments: &[Argument<'_>],
        observer: &mut dyn Observer,
    ) -> Result<(), LaunchError> {
        self.launch_with(module, kernel, config, arguments, |launch, _| launch.run_observed(observer))
    }

    fn launch_with(
        &mut self,
        module: &Module,
        name: &str,
        config: LaunchConfig,
        arguments: &[Argument<'_>],
        run: impl FnOnce(&Launch<'_>, Option<&rayon::ThreadPool>) -> Result<(), Fault>,
    ) -> Result<(), LaunchError> {
        let refuse = |kind| LaunchError {
            kind,
            kernel: name.to_owned(),
            block: [0; 3],
            thread: [0; 3],
            source: None,
            ptx_line: 0,
        };
        let Some(kernel) = module.find_kernel(name) else {
            let known = module.kernels().map(|kernel| kernel.name.clone()).collect();
            return Err(refuse(LaunchErrorKind::UnknownKernel { known }));
        };
        check_shape(&kernel.info, &config).map_err(refuse)?;
        let parameters = pack_arguments(kernel, arguments).map_err(refuse)?;
        self.load(module).map_err(|error| refuse(error.into()))?;
        let threads = config.block.iter().product::<u32>();
        let pool = self.pool.get_or_insert_with(|| thread_pool(self.threads)).as_ref();
        let launch = Launch {
            module,
            kernel: name,
            program: &kernel.program,
            memory: &self.memory,
            parameters: &parameters,
            parameter_bytes: kernel.program.parameter_bytes,
            grid: config.grid,
            block: config.block,
            cluster: kernel.info.cluster.unwrap_or([1; 3]),
            threads,
            warps: threads.div_ceil(32),
            dynamic_shared_bytes: config.dynamic_shared_bytes,
            shared_bytes: kernel.program.shared_bytes + config.dynamic_shared_bytes,
            variables: &self.modules[&module.id()],
            instruction_limit: self.instruction_limit,
            reversed: false,
            finished_blocks: &self.finished_blocks,
        };
        self.finished_blocks.store(0, Ordering::Relaxed);
        run(&launch, pool).map_err(|fault| launch.describe(fault))
    }

    /// Gives the module's variables their memory, once.
    fn load(&mut self, module: &Module) -> Result<(), AllocateError> {
        if self.modules.contains_key(&module.id()) {
            return Ok(());
        }
        let needed: u64 = module.variables().iter().map(|variable| variable.bytes).sum();
        if needed > self.memory.free_bytes() {
            return Err(AllocateError::OutOfMemory { needed, free: self.memory.free_bytes() });
        }
        let mut addresses = Vec::new();
        for variable in module.variables() {
            let address = match variable.bytes {
                0 => 0,
                bytes if variable.constant => self.memory.allocate_constant(bytes, &variable.name)?,
                bytes => self.memory.allocate(bytes, Some(&variable.name))?,
            };
            addresses.push(address);
        }
        for (variable, address) in module.variables().iter().zip(&addresses).filter(|(_, address)| **address != 0) {
            let mut image = variable.initial.clone();
            image.resize(variable.bytes as usize, 0);
            for relocation in &variable.relocations {
                let target = addresses[relocation.variable].wrapping_add(relocation.offset as u64);
                let bytes = (target >> (8 * relocation.first)).to_le_bytes();
                image[relocation.position..relocation.position + relocation.bytes]
                    .copy_from_slice(&bytes[..relocation.bytes]);
            }
            self.memory.write(*address, &image).expect("the variable was just allocated");
        }
        self.modules.insert(module.id(), addresses);
        Ok(())
    }
}

/// Threads for a launch, or `None` if the caller's own is enough or the only one to be had.
fn thread_pool(threads: usize) -> Option<rayon::ThreadPool> {
    if threads == 1 {
        return None;
    }
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads.min(MAX_THREADS))
        .thread_name(|index| format!("ptx-simulator-{index}"))
        .build()
        .ok()
}

fn check_shape(kernel: &KernelInfo, config: &LaunchConfig) -> Result<(), LaunchErrorKind> {
    let bad = |what, shape: [u32; 3], limit: String| Err(LaunchErrorKind::BadShape { what, shape, limit });
    for (what, shape, most) in [("grid", config.grid, MAX_GRID), ("block", config.block, MAX_BLOCK)] {
        if shape.contains(&0) {
            return bad(what, shape, "every extent must be at least 1".to_owned());
        }
        if shape.iter().zip(most).any(|(extent, most)| *extent > most) {
            return bad(what, shape, format!("the largest is {most:?}"));
        }
    }
    let threads: u64 = config.block.iter().map(|extent| u64::from(*extent)).product();
    if threads > MAX_BLOCK_THREADS {
        return bad("block", config.block, format!("{threads} threads are more than {MAX_BLOCK_THREADS}"));
    }
    if let Some(most) = kernel.max_threads {
        // A module may declare anything.
        let limit = most.iter().fold(1u64, |product, extent| product.saturating_mul(u64::from(*extent)));
        if kernel.exact_threads && config.block != most {
            return bad("block", config.block, format!("the kernel was compiled for exactly {most:?}"));
        }
        if threads > limit {
            return bad("block", config.block, format!("the kernel was compiled for at most {limit} threads"));
        }
    }
    let cluster = kernel.cluster.unwrap_or([1; 3]);
    if config.grid.iter().zip(cluster).any(|(blocks, of_cluster)| !blocks.is_multiple_of(of_cluster)) {
        let limit =
            format!("the kernel runs in clusters of {cluster:?} blocks, and a grid must have multiples of these");
        return bad("grid", config.grid, limit);
    }
    let needed = u64::from(kernel.static_shared_bytes) + u64::from(config.dynamic_shared_bytes);
    if needed > MAX_SHARED_BYTES {
        return Err(LaunchErrorKind::SharedMemoryTooLarge { needed, limit: MAX_SHARED_BYTES });
    }
    Ok(())
}

fn pack_arguments(kernel: &Kernel, arguments: &[Argument<'_>]) -> Result<Vec<u128>, LaunchErrorKind> {
    let expected: Vec<usize> = kernel.info.parameters.iter().map(|parameter| parameter.bytes).collect();
    let got: Vec<usize> = arguments.iter().map(|argument| argument.with_bytes(<[u8]>::len)).collect();
    if expected != got {
        return Err(LaunchErrorKind::BadArguments { expected, got });
    }
    let mut bytes = vec![0u8; (kernel.program.parameter_bytes as usize).next_multiple_of(16)];
    for (parameter, argument) in kernel.info.parameters.iter().zip(arguments) {
        argument.with_bytes(|data| bytes[parameter.offset..parameter.offset + parameter.bytes].copy_from_slice(data));
    }
    let unit = |chunk: &[u8]| u128::from_le_bytes(chunk.try_into().expect("chunks of sixteen bytes"));
    Ok(bytes.chunks_exact(16).map(unit).collect())
}
