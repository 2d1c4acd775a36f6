//! Runs PTX without a GPU: parse, decode once, execute a warp at a time on the cores of this machine.
//!
//! A [`Module`] is PTX text made ready to run. A [`Simulator`] is a device with memory of its own that launches a
//! module's kernels. What comes out is what a GPU computes, bit for bit where PTX leaves no choice, and the same for
//! any number of cores; how long it takes says nothing about a GPU.
//!
//! ```
//! use ptx_simulator::{Argument, LaunchConfig, Module, Simulator};
//!
//! let module = Module::parse(
//!     ".version 7.0
//!     .target sm_70
//!     .address_size 64
//!     .visible .entry double(.param .u64 values, .param .u32 count)
//!     {
//!         .reg .pred %p<2>;
//!         .reg .b32 %r<4>;
//!         .reg .f32 %f<2>;
//!         .reg .b64 %rd<3>;
//!         mov.u32 %r1, %ctaid.x;
//!         mov.u32 %r2, %ntid.x;
//!         mov.u32 %r3, %tid.x;
//!         mad.lo.s32 %r1, %r1, %r2, %r3;
//!         ld.param.u32 %r2, [count];
//!         setp.ge.u32 %p1, %r1, %r2;
//!         @%p1 ret;
//!         ld.param.u64 %rd1, [values];
//!         mul.wide.u32 %rd2, %r1, 4;
//!         add.u64 %rd1, %rd1, %rd2;
//!         ld.global.f32 %f1, [%rd1];
//!         add.f32 %f1, %f1, %f1;
//!         st.global.f32 [%rd1], %f1;
//!         ret;
//!     }",
//! )?;
//!
//! let mut simulator = Simulator::new();
//! let values: Vec<u8> = [1.5f32, -2.0, 0.25].iter().flat_map(|value| value.to_le_bytes()).collect();
//! let pointer = simulator.allocate(values.len() as u64)?;
//! simulator.write(pointer, &values)?;
//! let config = LaunchConfig { grid: [1, 1, 1], block: [64, 1, 1], dynamic_shared_bytes: 0 };
//! simulator.launch(&module, "double", config, &[Argument::Pointer(pointer), Argument::U32(3)])?;
//!
//! let mut doubled = [0; 12];
//! simulator.read(pointer, &mut doubled)?;
//! assert_eq!(doubled[..4], 3.0f32.to_le_bytes());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is understood
//! PTX as rustc's and nvcc's back ends write it, for 64-bit addresses: arithmetic on integers, `f32`, `f64`, `f16` and
//! `bf16`; loads, stores and atomics in all state spaces; control flow with divergence, calls, barriers, votes,
//! shuffles and reductions of a warp; asynchronous copies from global to shared memory (`cp.async`) and mbarriers;
//! tensor cores, with factors of `f16`, `bf16` and `tf32` and sums of `f32` (`mma.sync`, and `wgmma` of warpgroups), and
//! their matrices (`ldmatrix`, `stmatrix`); bulk copies of bytes and of tensors' boxes (`cp.async.bulk`,
//! `cp.async.bulk.tensor`), for which [`TensorMap`] takes the driver's place; clusters of up to 8 blocks whose shape the kernel
//! states (`.reqnctapercluster`), with their barrier, accesses to each other's shared memory, arrivals at each other's
//! mbarriers, asynchronous stores whose bytes those count (`st.async`) and multicast copies. What isn't understood is
//! refused by [`Module::parse`] with its line: textures, recursion and indirect calls, `printf`, matrix products of other
//! types, reductions of bulk copies, asynchronous reductions (`red.async`).
//!
//! A matrix product is a chain of fused multiply-adds of `f32` for each element, in ascending order of k: every product
//! is exact, every sum rounded to nearest. Hardware adds several products at once and cuts off what doesn't fit, so that
//! its last bits are others.
//!
//! An asynchronous copy happens, all of it, at the last moment at which it may: when its thread waits for it, or when
//! somebody waits at the mbarrier that it arrives at, or that counts its bytes. So does an asynchronous store. (A product of
//! a warpgroup is computed at once.) So a wait that is missing, or that lets one group too many go on, shows in the result,
//! which on hardware it mostly doesn't.
//!
//! # What is checked
//! Every access must lie inside an allocation (there are gaps between them) and be aligned; barriers must be reached by
//! all threads of the block that they wait for, those that have exited included; matrix instructions by all lanes of the
//! warp, and by all four warps of a warpgroup; an mbarrier must be initialised once
//! and get as many arrivals in each phase as it was initialised for, and as many bytes as it expects; the shared memory of another
//! block of the cluster must be there, that is, that block mustn't have exited; a warp may execute so many instructions and no more. A violation ends the launch with a [`LaunchError`] that names kernel, block, thread,
//! address and source line. A store that fails in one lane writes nothing in any.
//!
//! [`observe::hazards`] finds more: races, reads of memory that nobody wrote, accesses that leave their array, and it goes
//! on after what would end the launch here.
//!
//! # Order
//! Blocks run in parallel. A kernel with atomics, or with volatile or ordered accesses, to global memory runs its
//! blocks in index order on one core instead, so that sums of floating-point atomics, too, are the same in every run;
//! blocks that wait for later ones get their turn again, up to as many resident blocks as a large GPU has. `%clock` and
//! `%globaltimer` count the instructions of the warp.
//!
//! The blocks of a cluster run at the same time, warp by warp in turn. In shared memory the one of rank r begins at address
//! r times 2^24, as on hardware, for the instructions of all of them.
//!
//! A warp that asks an mbarrier in vain, or completes its phase, gives its turn to the cluster's other warps.
//!
//! Lanes of a warp have program counters of their own. Those that take different branches run one after the other and
//! merge where they meet; lanes that wait for each other through memory all make progress.
//!
//! # Features
//! With `serde` (off by default) [`SourceLocation`] and what [`observe::costs`] counts implement serde's `Serialize`.
//!
//! # The rooms
//! `parse` knows PTX's grammar, `decode` gives names and instructions their meaning, `execute` runs the result; `alu`
//! holds the arithmetic of lanes. [`observe`] is the seam for analyses that watch a launch.

mod alu;
mod decode;
mod error;
mod execute;
mod memory;
pub mod observe;
mod parse;
mod processor;
mod simulator;
mod tensor_map;

pub use decode::{KernelInfo, KernelParameter, Module, SharedArray};
pub use error::{
    AccessKind, AllocateError, BulkCopyProblem, ClusterBarrierProblem, LaunchError, LaunchErrorKind, LoadError,
    MbarrierProblem, MbarrierWait, MemoryError, MemorySpace, Nearest, SourceLocation, VariableName,
};
pub use parse::ParseError;
pub use simulator::{
    Argument, DEFAULT_INSTRUCTION_LIMIT, DevicePointer, LaunchConfig, MAX_BLOCK, MAX_BLOCK_THREADS, MAX_CLUSTER_BLOCKS,
    MAX_GRID, MAX_SHARED_BYTES, Simulator, SimulatorBuilder, available_memory,
};
pub use tensor_map::{Swizzle, TENSOR_MAP_BYTES, TensorElement, TensorMap, TensorMapError, TensorMapLayout};
