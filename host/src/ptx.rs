//! The PTX of the kernel crates, built by `build.rs` and carried inside the binary: one module per crate and architecture
//! level.

pub mod entries;

use std::sync::OnceLock;

use gpu_kernels::Architecture;

use entries::Index;

/// The crate that a module was built from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The lessons, `gpu-kernels`.
    Book,
    /// `gpu-kernels/production`.
    Production,
    /// `gpu-kernels/hopper`.
    Hopper,
}

/// One PTX module.
#[derive(Clone, Copy, Debug)]
pub struct PtxModule {
    /// What users call it: the level, behind the crate's name where that isn't the book.
    pub name: &'static str,
    /// The crate it was built from.
    pub source: Source,
    /// The level it was built for, which says what GPUs can run it. It has the kernels of that level only.
    pub architecture: Architecture,
    /// Its text.
    pub text: &'static str,
}

/// Every module of this build: the book's, lowest level first, then the production kernels'.
pub static MODULES: &[PtxModule] = &[
    PtxModule {
        name: "compute_70",
        source: Source::Book,
        architecture: Architecture::Compute70,
        text: include_str!(concat!(env!("OUT_DIR"), "/gpu_kernels_compute_70.ptx")),
    },
    PtxModule {
        name: "compute_80",
        source: Source::Book,
        architecture: Architecture::Compute80,
        text: include_str!(concat!(env!("OUT_DIR"), "/gpu_kernels_compute_80.ptx")),
    },
    PtxModule {
        name: "compute_90a",
        source: Source::Book,
        architecture: Architecture::Compute90a,
        text: include_str!(concat!(env!("OUT_DIR"), "/gpu_kernels_compute_90a.ptx")),
    },
    PtxModule {
        name: "production_compute_80",
        source: Source::Production,
        architecture: Architecture::Compute80,
        text: include_str!(concat!(env!("OUT_DIR"), "/production_kernels_compute_80.ptx")),
    },
    PtxModule {
        name: "hopper_compute_90a",
        source: Source::Hopper,
        architecture: Architecture::Compute90a,
        text: include_str!(concat!(env!("OUT_DIR"), "/hopper_kernels_compute_90a.ptx")),
    },
];

/// The module that holds the book's kernels of one level.
///
/// Returns `None` for a level that this build doesn't have.
pub fn module_for(architecture: Architecture) -> Option<&'static PtxModule> {
    module(Source::Book, architecture)
}

/// The module that holds a crate's kernels of one level.
///
/// Returns `None` for a level that the crate isn't built for.
pub fn module(source: Source, architecture: Architecture) -> Option<&'static PtxModule> {
    MODULES.iter().find(|module| module.source == source && module.architecture == architecture)
}

/// The module that holds an entry.
///
/// Returns `None` if no kernel of this build has that entry.
pub fn module_with(entry: &str) -> Option<&'static PtxModule> {
    MODULES.iter().find(|module| module.entries().any(|name| name == entry))
}

/// What a kernel's device loads: a module with its entry and what that needs, and nothing else. The driver compiles it for
/// its GPU when it is loaded and keeps the result on disk (in `~/.nv/ComputeCache`, or where `CUDA_CACHE_PATH` says;
/// `CUDA_CACHE_DISABLE=1` turns that off) until the text or the driver changes. So each kernel is compiled once per machine,
/// whichever others were changed since.
///
/// Returns `None` if no kernel of this build has that entry.
pub fn of_entry(entry: &str) -> Option<String> {
    MODULES.iter().find_map(|module| module.cut(entry))
}

impl PtxModule {
    /// The names of its entries.
    pub fn entries(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.index().entries(self.text)
    }

    /// A module with one of its entries and what that needs, and nothing else.
    ///
    /// Returns `None` if it has no such entry.
    pub fn cut(&self, entry: &str) -> Option<String> {
        self.index().cut(self.text, entry)
    }

    fn index(&self) -> &'static Index {
        static INDEXES: [OnceLock<Index>; MODULES.len()] = [const { OnceLock::new() }; MODULES.len()];
        let place = MODULES.iter().position(|module| module.name == self.name).expect("modules are in the list only");
        INDEXES[place].get_or_init(|| Index::new(self.text))
    }
}
