//! The simulator's door: the very PTX that a GPU would get, run by the crate `ptx-simulator` on this machine's
//! processor.

use std::{
    iter,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use gpu_kernels::LaunchShape;
use ptx_simulator::{DevicePointer, LaunchConfig, Module, Simulator, observe::Observer};

use super::{Argument, Backend, DeviceError, DeviceInfo, DeviceKind, ModuleId};

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

    fn load_module(&self, ptx: &str) -> Result<ModuleId, DeviceError> {
        let module = Module::parse(ptx)?;
        let mut state = self.state();
        state.modules.push(Arc::new(module));
        Ok(ModuleId(state.modules.len() - 1))
    }

    fn launch(
        &self,
        module: ModuleId,
        entry: &str,
        shape: &LaunchShape,
        arguments: &[Argument],
    ) -> Result<(), DeviceError> {
        let arguments: Vec<_> = arguments.iter().map(simulator_argument).collect();
        let State { simulator, modules, .. } = &mut *self.state();
        simulator.launch(&modules[module.0], entry, launch_config(shape), &arguments).map_err(Box::new)?;
        Ok(())
    }

    fn launch_observed(
        &self,
        module: ModuleId,
        entry: &str,
        shape: &LaunchShape,
        arguments: &[Argument],
        observer: &mut dyn Observer,
    ) -> Result<(), DeviceError> {
        let arguments: Vec<_> = arguments.iter().map(simulator_argument).collect();
        let State { simulator, modules, .. } = &mut *self.state();
        simulator
            .launch_observed(&modules[module.0], entry, launch_config(shape), &arguments, observer)
            .map_err(Box::new)?;
        Ok(())
    }

    fn simulated_module(&self, module: ModuleId) -> Option<Arc<Module>> {
        self.state().modules.get(module.0).cloned()
    }

    fn finished_blocks(&self) -> Option<u64> {
        Some(self.finished_blocks.load(Ordering::Relaxed))
    }

    fn synchronise(&self) -> Result<(), DeviceError> {
        // Launches have run when they return.
        Ok(())
    }

    fn time(&self, work: &mut dyn FnMut() -> Result<(), DeviceError>) -> Result<Duration, DeviceError> {
        let start = Instant::now();
        work()?;
        Ok(start.elapsed())
    }
}

/// A launch shape in the simulator's terms.
pub(crate) fn launch_config(shape: &LaunchShape) -> LaunchConfig {
    LaunchConfig { grid: shape.grid, block: shape.block, dynamic_shared_bytes: shape.dynamic_shared_bytes }
}

fn simulator_argument(argument: &Argument) -> ptx_simulator::Argument<'static> {
    match *argument {
        Argument::Pointer(address) => ptx_simulator::Argument::Pointer(DevicePointer(address)),
        Argument::U64(value) => ptx_simulator::Argument::U64(value),
        Argument::U32(value) => ptx_simulator::Argument::U32(value),
        Argument::F32(value) => ptx_simulator::Argument::F32(value),
    }
}
