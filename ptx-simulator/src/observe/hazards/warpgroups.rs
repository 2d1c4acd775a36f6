//! What warpgroups' products are under way, and whose registers they use.
//!
//! A product (`wgmma.mma_async`) uses its registers, and reads shared memory, at any time until the warps have waited for
//! its group. Registers that were written otherwise need a `wgmma.fence` of the warp before a product uses them. A move
//! from register to register is neither a use nor a write here: it takes along what is known of the register, as compilers
//! make one register of both.
//!
//! In shared memory a product counts as one access of the first thread of its warpgroup. Each warp that waits for it comes
//! to know that it's done for the whole warpgroup, which works as one.

use super::table::Table;
use crate::decode::program::{NONE, WarpgroupProduct, WarpgroupStep};

/// Warps that work together.
const WARPS: u32 = WarpgroupProduct::WARPS;

/// What is known of a warp's registers.
#[derive(Debug, Default)]
struct Warp {
    /// For each row, the product that may still write it and the group that the product is in.
    written_by: Vec<(u32, u32)>,
    /// Rows of which a product may still write one.
    under_way: usize,
    /// For each row, the instruction that wrote it since the last fence, or [`NONE`].
    unfenced: Vec<u32>,
    /// The warp has executed a fence.
    fenced: bool,
    /// Groups that it has committed.
    committed: u32,
}

/// A product that isn't done for all of its warps.
#[derive(Debug)]
pub struct Product {
    pub instruction: u32,
    /// First warp of the warpgroup.
    pub warp: u32,
    /// Addresses of the chunks that it reads.
    pub chunks: Vec<u64>,
    /// Position of the warpgroup's first thread when the product begins, and for those who have waited for it.
    pub positions: [u32; 2],
    /// Groups that each warp had committed before.
    groups: [u32; WARPS as usize],
    /// The warps that have waited for it, a bit each.
    waited: u32,
}

impl Product {
    /// Whether nobody has waited for it yet.
    pub fn is_under_way(&self) -> bool {
        self.waited == 0
    }
}

/// A mistake with registers: the instruction that makes it, and the other one if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// A product uses registers without a fence after they were written.
    NotFenced { product: u32, writer: Option<u32> },
    /// An instruction uses what a product may still write.
    NotAwaited { product: u32, user: u32 },
}

/// The products of a block.
#[derive(Debug, Default)]
pub struct Warpgroups {
    warps: Vec<Warp>,
    /// In the order of their instructions.
    pub products: Vec<Product>,
}

impl Warpgroups {
    pub fn restart(&mut self) {
        self.warps.clear();
        self.products.clear();
    }

    fn warp(&mut self, index: u32, rows: usize) -> &mut Warp {
        let index = index as usize;
        if self.warps.len() <= index {
            self.warps.resize_with(index + 1, Warp::default);
        }
        let warp = &mut self.warps[index];
        if warp.unfenced.is_empty() {
            warp.unfenced = vec![NONE; rows];
            warp.written_by = vec![(NONE, 0); rows];
        }
        warp
    }

    /// A warp executes an instruction that is no product and nothing that orders products.
    pub fn uses(&mut self, warp: u32, instruction: u32, table: &Table, mut mistake: impl FnMut(Mistake)) {
        let warp = self.warp(warp, table.rows);
        let uses = &table.uses[instruction as usize];
        if uses.moves {
            let (from, to) = (uses.reads[0] as usize, uses.writes[0] as usize);
            let known = |warp: &Warp, row: usize| usize::from(warp.written_by[row].0 != NONE);
            warp.under_way = warp.under_way + known(warp, from) - known(warp, to);
            warp.written_by[to] = warp.written_by[from];
            warp.unfenced[to] = warp.unfenced[from];
            return;
        }
        if warp.under_way > 0 {
            for row in &uses.reads {
                let (product, _) = warp.written_by[*row as usize];
                if product != NONE {
                    mistake(Mistake::NotAwaited { product, user: instruction });
                }
            }
            // Registers that nobody needs any more share rows with others.
            for row in &uses.writes {
                warp.forget(*row as usize);
            }
        }
        for row in &uses.writes {
            warp.unfenced[*row as usize] = instruction;
        }
    }

    /// A warp comes to a product.
    pub fn begins(&mut self, warp: u32, instruction: u32, table: &Table, mut mistake: impl FnMut(Mistake)) {
        let warp = self.warp(warp, table.rows);
        let factors = table.factors.get(&instruction).map_or(&[][..], Vec::as_slice);
        let writer = factors.iter().map(|row| warp.unfenced[*row as usize]).find(|writer| *writer != NONE);
        if writer.is_some() || !warp.fenced {
            mistake(Mistake::NotFenced { product: instruction, writer });
        }
        let group = warp.committed;
        for row in &table.uses[instruction as usize].writes {
            let row = *row as usize;
            warp.forget(row);
            warp.written_by[row] = (instruction, group);
            warp.under_way += 1;
            warp.unfenced[row] = NONE;
        }
    }

    /// A product of the warpgroup whose first warp that is begins to read shared memory.
    pub fn reads(&mut self, warp: u32, instruction: u32, chunks: Vec<u64>, positions: [u32; 2]) {
        let group = |index: u32| self.warps.get((warp + index) as usize).map_or(0, |warp| warp.committed);
        let groups = std::array::from_fn(|index| group(index as u32));
        self.products.push(Product { instruction, warp, chunks, positions, groups, waited: 0 });
    }

    /// A warp executes what orders products. `done` is called for those that it has waited for.
    pub fn step(&mut self, index: u32, step: WarpgroupStep, table: &Table, mut done: impl FnMut(&Product)) {
        let warp = self.warp(index, table.rows);
        let open = match step {
            WarpgroupStep::Fence => {
                warp.unfenced.fill(NONE);
                warp.fenced = true;
                return;
            }
            WarpgroupStep::Commit => {
                warp.committed += 1;
                return;
            }
            WarpgroupStep::Wait(open) => open,
        };
        let committed = warp.committed;
        let is_done = |group: u32| u64::from(group) + u64::from(open) < u64::from(committed);
        if warp.under_way > 0 {
            for row in 0..warp.written_by.len() {
                if warp.written_by[row].0 != NONE && is_done(warp.written_by[row].1) {
                    warp.forget(row);
                }
            }
        }
        for product in &mut self.products {
            let place = index % WARPS;
            let own = product.warp / WARPS == index / WARPS && product.waited >> place & 1 == 0;
            if own && is_done(product.groups[place as usize]) {
                done(product);
                product.waited |= 1 << place;
            }
        }
        self.products.retain(|product| product.waited != (1 << WARPS) - 1);
    }
}

impl Warp {
    fn forget(&mut self, row: usize) {
        if self.written_by[row].0 != NONE {
            self.written_by[row] = (NONE, 0);
            self.under_way -= 1;
        }
    }
}
