//! The simulator's door: the very PTX that a GPU would get, run by the crate `ptx-simulator` on this machine's
//! processor.

use std::{
    iter, slice,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use gpu_kernels::LaunchShape;
use ptx_simulator::{DevicePointer, LaunchConfig, Module, Simulator, TENSOR_MAP_BYTES, TensorMap, observe::Observer};

use super::{
    Argument, Backend, DeviceError, DeviceInfo, DeviceKind, HostRows, Machine, ModuleId, RawEvent, RawKernel,
    RawStream, TensorMapLayout,
};

/// What to assume where the system doesn't say how much memory is available.
const FALLBACK_MEMORY: u64 = 4 << 30;

pub(super) struct SimulatorBackend {
    state: Mutex<State>,
    threads: usize,
    total_memory: u64,
    finished_blocks: Arc<AtomicU64>,
    why_no_gpu: Option<String>,
}

struct State {
    simulator: Simulator,
    modules: Vec<Arc<Module>>,
}

impl SimulatorBackend {
    /// A simulator on all cores, with the memory that is available now. `why_no_gpu` is shown to users who didn't ask
    /// for the simulator by name; `instruction_limit` is of each warp, the simulator's own if `None`.
    pub(super) fn new(why_no_gpu: Option<String>, instruction_limit: Option<u64>) -> SimulatorBackend {
        let total_memory = available_memory();
        let finished_blocks = Arc::<AtomicU64>::default();
        let mut builder = Simulator::builder().memory_limit(total_memory).finished_blocks(Arc::clone(&finished_blocks));
        if let Some(limit) = instruction_limit {
            builder = builder.instruction_limit(limit);
        }
        SimulatorBackend {
            state: Mutex::new(State { simulator: builder.build(), modules: Vec::new() }),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            total_memory,
            finished_blocks,
            why_no_gpu,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves the simulator usable: each of its calls is complete or has done nothing.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The memory that programs can still get on this machine, in bytes.
pub fn available_memory() -> u64 {
    ptx_simulator::available_memory().unwrap_or(FALLBACK_MEMORY)
}

impl Backend for SimulatorBackend {
    fn info(&self) -> DeviceInfo {
        let threads = ("threads".to_owned(), self.threads.to_string());
        let reason = self.why_no_gpu.iter().map(|reason| ("no GPU".to_owned(), reason.clone()));
        DeviceInfo {
            name: "PTX simulator".to_owned(),
            kind: DeviceKind::Simulator,
            detail: iter::once(threads).chain(reason).collect(),
            total_memory: self.total_memory,
            free_memory: self.state().simulator.free_memory(),
        }
    }

    fn machine(&self) -> Machine {
        // A GPU to choose for: the H200, so that what runs here is what runs there.
        Machine { multiprocessors: 132, compute_capability: (9, 0) }
    }

    fn allocate(&self, bytes: u64) -> Result<u64, DeviceError> {
        let mut state = self.state();
        let free = state.simulator.free_memory();
        let pointer = state.simulator.allocate(bytes).map_err(|_| {
            if bytes <= free {
                // It was under the limit: a quota of this process or container is smaller than what the system says is
                // there.
                DeviceError::HostMemory { needed: bytes }
            } else {
                DeviceError::OutOfMemory { needed: bytes, free, total: self.total_memory }
            }
        })?;
        Ok(pointer.0)
    }

    fn free(&self, address: u64) {
        // Only an address that `allocate` gave comes here, and only once.
        let _ = self.state().simulator.free(DevicePointer(address));
    }

    fn copy_to_device(&self, address: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        Ok(self.state().simulator.write(DevicePointer(address), bytes)?)
    }

    fn copy_from_device(&self, bytes: &mut [u8], address: u64) -> Result<(), DeviceError> {
        Ok(self.state().simulator.read(DevicePointer(address), bytes)?)
    }

    unsafe fn copy_rows_to_device(&self, address: u64, rows: HostRows<*const u8>) -> Result<(), DeviceError> {
        let mut state = self.state();
        for row in 0..rows.rows {
            // SAFETY: the caller says that every row is readable.
            let bytes = unsafe { slice::from_raw_parts(rows.start.add(row * rows.pitch), rows.bytes) };
            state.simulator.write(DevicePointer(address + (row * rows.bytes) as u64), bytes)?;
        }
        Ok(())
    }

    unsafe fn copy_rows_from_device(&self, rows: HostRows<*mut u8>, address: u64) -> Result<(), DeviceError> {
        let state = self.state();
        for row in 0..rows.rows {
            // SAFETY: the caller says that every row is writable.
            let bytes = unsafe { slice::from_raw_parts_mut(rows.start.add(row * rows.pitch), rows.bytes) };
            state.simulator.read(DevicePointer(address + (row * rows.bytes) as u64), bytes)?;
        }
        Ok(())
    }

    fn load_module(&self, ptx: &str) -> Result<ModuleId, DeviceError> {
        let module = Module::parse(ptx)?;
        let mut state = self.state();
        state.modules.push(Arc::new(module));
        Ok(ModuleId(state.modules.len() - 1))
    }

    fn kernel(&self, module: ModuleId, entry: &str) -> Result<RawKernel, DeviceError> {
        let Some(module) = self.simulated_module(module) else {
            let reason = "its module isn't loaded on this device".to_owned();
            return Err(DeviceError::LaunchFailed { kernel: entry.to_owned(), reason });
        };
        // Whether there is such a kernel is for the launch to say, in the simulator's words.
        Ok(RawKernel::Simulated(Arc::new(SimulatedKernel { module, entry: entry.to_owned() })))
    }

    fn launch(
        &self,
        kernel: &RawKernel,
        _stream: RawStream,
        shape: &LaunchShape,
        arguments: &[Argument<'_>],
    ) -> Result<(), DeviceError> {
        let SimulatedKernel { module, entry } = simulated(kernel)?;
        let arguments: Vec<_> = arguments.iter().map(simulator_argument).collect();
        self.state().simulator.launch(module, entry, launch_config(shape), &arguments).map_err(Box::new)?;
        Ok(())
    }

    fn launch_observed(
        &self,
        kernel: &RawKernel,
        shape: &LaunchShape,
        arguments: &[Argument<'_>],
        observer: &mut dyn Observer,
    ) -> Result<(), DeviceError> {
        let SimulatedKernel { module, entry } = simulated(kernel)?;
        let arguments: Vec<_> = arguments.iter().map(simulator_argument).collect();
        self.state()
            .simulator
            .launch_observed(module, entry, launch_config(shape), &arguments, observer)
            .map_err(Box::new)?;
        Ok(())
    }

    fn tensor_map(&self, layout: &TensorMapLayout) -> Result<[u8; TENSOR_MAP_BYTES], DeviceError> {
        Ok(TensorMap::encode(layout)?.bytes())
    }

    // Launches have run when they return, so all streams are one and every event has been reached.

    fn new_stream(&self) -> Result<RawStream, DeviceError> {
        Ok(RawStream::DEFAULT)
    }

    fn destroy_stream(&self, _stream: RawStream) {}

    fn record_event(&self, _stream: RawStream) -> Result<RawEvent, DeviceError> {
        Ok(RawEvent(0))
    }

    fn wait_for_event(&self, _stream: RawStream, _event: RawEvent) -> Result<(), DeviceError> {
        Ok(())
    }

    fn synchronise_event(&self, _event: RawEvent) -> Result<(), DeviceError> {
        Ok(())
    }

    fn destroy_event(&self, _event: RawEvent) {}

    fn simulated_module(&self, module: ModuleId) -> Option<Arc<Module>> {
        self.state().modules.get(module.0).cloned()
    }

    fn finished_blocks(&self) -> Option<u64> {
        Some(self.finished_blocks.load(Ordering::Relaxed))
    }

    fn synchronise(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn synchronise_stream(&self, _stream: RawStream) -> Result<(), DeviceError> {
        Ok(())
    }

    fn time(
        &self,
        _stream: RawStream,
        work: &mut dyn FnMut() -> Result<(), DeviceError>,
    ) -> Result<Duration, DeviceError> {
        let start = Instant::now();
        work()?;
        Ok(start.elapsed())
    }
}

/// A kernel of a module that the simulator has read.
pub(crate) struct SimulatedKernel {
    module: Arc<Module>,
    entry: String,
}

impl SimulatedKernel {
    pub(super) fn entry(&self) -> &str {
        &self.entry
    }

    pub(super) fn module(&self) -> &Arc<Module> {
        &self.module
    }
}

fn simulated(kernel: &RawKernel) -> Result<&SimulatedKernel, DeviceError> {
    match kernel {
        RawKernel::Simulated(kernel) => Ok(kernel),
        RawKernel::Cuda(_) => Err(DeviceError::OtherDevice { what: "the kernel" }),
    }
}

/// A launch shape in the simulator's terms.
pub(crate) fn launch_config(shape: &LaunchShape) -> LaunchConfig {
    LaunchConfig { grid: shape.grid, block: shape.block, dynamic_shared_bytes: shape.dynamic_shared_bytes }
}

fn simulator_argument<'a>(argument: &Argument<'a>) -> ptx_simulator::Argument<'a> {
    match *argument {
        Argument::Pointer(address) => ptx_simulator::Argument::Pointer(DevicePointer(address)),
        Argument::U64(value) => ptx_simulator::Argument::U64(value),
        Argument::U32(value) => ptx_simulator::Argument::U32(value),
        Argument::F32(value) => ptx_simulator::Argument::F32(value),
        Argument::Bytes(bytes) => ptx_simulator::Argument::Bytes(bytes),
    }
}
