//! Watches what a kernel puts into its two tiles: which thread writes what where.

use std::{collections::BTreeMap, sync::Arc};

use ptx_simulator::{
    AccessKind, LaunchError, MemorySpace, Module, SharedArray,
    observe::{Access, Observer, Place},
};

/// The names of the tiles in the page.
pub const TILES: [&str; 2] = ["tile_a", "tile_b"];

/// Everything that the judge wants to know of one launch.
#[derive(Debug)]
pub struct Trace {
    /// Writes to the tiles, those of one thread in its order.
    pub stores: Vec<Store>,
    /// Reads of shared memory over the whole launch, counted by thread.
    pub shared_reads: u64,
    /// Arrivals of threads at each barrier over the whole launch, by the source line of the barrier.
    pub barriers: BTreeMap<u32, u64>,
    module: Arc<Module>,
    entry: &'static str,
    /// First byte, byte after the last, and the name in the source of each tile.
    tiles: Vec<(u64, u64, &'static str)>,
}

/// A word that a thread writes to a tile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Store {
    /// Index of the block.
    pub block: u64,
    /// Index of the thread in its block.
    pub thread: u32,
    /// `tile_a` or `tile_b`.
    pub array: &'static str,
    /// Index of the element in the tile.
    pub index: usize,
    /// What is written.
    pub value: f32,
    instruction: u32,
}

impl Trace {
    /// Ready to watch a launch of the kernel `entry`, which was compiled from `source`.
    pub fn new(module: &Arc<Module>, entry: &'static str, source: &str) -> Trace {
        let module = Arc::clone(module);
        let tiles = tiles(&module, entry, source);
        Trace { stores: Vec::new(), shared_reads: 0, barriers: BTreeMap::new(), module, entry, tiles }
    }

    /// The source line of a store.
    pub fn line(&self, store: &Store) -> Option<u32> {
        Some(self.module.source_location(self.entry, store.instruction)?.line)
    }
}

/// Where the tiles are in shared memory, told by the line of `source` that declares each.
fn tiles(module: &Module, entry: &str, source: &str) -> Vec<(u64, u64, &'static str)> {
    let arrays = module.kernel(entry).map(|kernel| kernel.shared_arrays.as_slice()).unwrap_or_default();
    let tile = |(index, array): (usize, &SharedArray)| {
        let line = module.shared_array_source(entry, index)?.line as usize;
        let text = source.lines().nth(line.checked_sub(1)?)?;
        let name = TILES.into_iter().find(|name| text.contains(name))?;
        Some((u64::from(array.offset), u64::from(array.offset + array.bytes), name))
    };
    arrays.iter().enumerate().filter_map(tile).collect()
}

impl Observer for Trace {
    fn access(&mut self, place: Place, access: Access<'_>) {
        match (access.space, access.kind) {
            (MemorySpace::Shared, AccessKind::Read) => self.shared_reads += u64::from(access.lanes.count_ones()),
            (MemorySpace::Shared, AccessKind::Write) => {
                let Some(stored) = access.stored else { return };
                for lane in (0..32u32).filter(|lane| access.lanes >> lane & 1 != 0) {
                    let address = access.addresses[lane as usize];
                    for (word, bits) in stored.lane(lane as usize).chunks_exact(4).enumerate() {
                        let address = address + 4 * word as u64;
                        let tile = self.tiles.iter().find(|(first, end, _)| (*first..*end).contains(&address));
                        let Some((first, _, array)) = tile else { continue };
                        self.stores.push(Store {
                            block: place.block,
                            thread: place.warp * 32 + lane,
                            array,
                            index: (address - first) as usize / 4,
                            value: f32::from_le_bytes(bits.try_into().expect("chunks of four bytes")),
                            instruction: place.instruction,
                        });
                    }
                }
            }
            _ => {}
        }
    }

    fn fault(&mut self, _place: Place, _error: &LaunchError) -> bool {
        // `check` tells them; here the launch goes on as far as it can.
        true
    }

    fn barrier_arrives(&mut self, place: Place, _barrier: u32, lanes: u32) {
        let line = self.module.source_location(self.entry, place.instruction).map_or(0, |source| source.line);
        *self.barriers.entry(line).or_default() += u64::from(lanes.count_ones());
    }
}
