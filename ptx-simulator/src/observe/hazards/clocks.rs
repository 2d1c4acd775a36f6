//! What is ordered before what.
//!
//! Every access of a thread has a *position*: a number that grows with each of the thread's accesses, and that jumps to
//! the largest of all who meet at a barrier. At the end of a loop's round it goes on at the next multiple of
//! [`ROUND`], so that it also says how many rounds a thread has done, whatever it left out in them. An access is named
//! by its thread and its position. It is ordered before what another thread does now if
//!
//! - both are in one block and the position isn't after the block's last barrier of all threads: one number per block,
//!   [`Clocks::base`], decides this, and nothing else is needed for most kernels;
//! - both are in one block and the other thread's *row* says so: after a barrier of some threads only, each of them has
//!   a row with the last position that it knows of every thread of the block. Rows are shared by those who met, and made
//!   only when the first barrier of this kind completes;
//! - they are in different blocks and the other thread's *knowledge* says so, which comes from fences: a fence notes what
//!   the thread knows, the thread's next strong store or atomic publishes it at its address, a strong load or atomic
//!   at that address picks it up, and from the reader's next fence or barrier on it counts.
//!
//! - both are in one block and an mbarrier says so: whoever sees a phase complete has a row of what all knew who arrived
//!   in it.
//!
//! The blocks of a cluster count as one block here, whose threads are numbered through. Barriers of one of them are barriers of
//! some threads; the cluster's own is an mbarrier of all.
//!
//! An asynchronous copy is an access of its thread that is under way from its instruction until the thread waits for it,
//! or until it arrives at an mbarrier by itself. As long as it's under way, nothing comes after it. Then it counts as an
//! access at the time of the wait. (An arrival that waits for copies counts as one of everything that its thread did before
//! it asked for it.)
//!
//! A barrier of the block hands on what its threads have noted and picked up. So a thread that publishes for its block
//! needs a fence of each thread that wrote, before the barrier, or one of its own after it; and a barrier serves as the
//! reader's fence. PTX's memory model asks for a fence of the publishing and of the reading thread itself in these two
//! places, but CUDA's own guide and samples leave them out ("the last block sums up"), and hardware keeps to it.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::quick::QuickMap;
use super::table::BarrierInfo;
use crate::decode::program::Scope;

/// Positions between two rounds of a loop: more than accesses in a round, mostly.
const ROUND: u32 = 1024;
/// Added to the position of an asynchronous copy that its thread hasn't waited for. It's ordered before nothing, not
/// even before what its own thread does.
const IN_FLIGHT: u32 = 1 << 31;

/// Barriers of a block.
pub const BARRIERS: u32 = 16;
/// Stands for the address of the cluster's own barrier, at which threads arrive and wait as at an mbarrier.
pub const CLUSTER_BARRIER: u64 = u64::MAX;

/// One access: which thread (of all of the grid, from 1; 0 is no access) and where in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    pub actor: u32,
    pub position: u32,
}

impl Stamp {
    /// Rounds of loops that the thread has done, as far as they can be compared.
    pub fn round(self) -> u32 {
        self.begun().position / ROUND
    }

    /// The access as an asynchronous copy that isn't done.
    pub fn in_flight(self) -> Stamp {
        Stamp { position: self.position | IN_FLIGHT, ..self }
    }

    pub fn is_in_flight(self) -> bool {
        self.position & IN_FLIGHT != 0
    }

    /// When it began.
    pub fn begun(self) -> Stamp {
        Stamp { position: self.position & !IN_FLIGHT, ..self }
    }
}

/// What is known of one block.
#[derive(Clone, Debug, Default, PartialEq)]
struct KnownBlock {
    /// Accesses of all its threads up to this position.
    base: u32,
    /// Later ones of single threads, sorted by thread.
    more: Vec<(u32, u32)>,
}

impl KnownBlock {
    fn last(&self, thread: u32) -> u32 {
        let place = self.more.binary_search_by_key(&thread, |(thread, _)| *thread);
        place.map_or(0, |place| self.more[place].1).max(self.base)
    }

    /// Whether it says all that `other` does.
    fn includes(&self, other: &KnownBlock) -> bool {
        other.base <= self.base && other.more.iter().all(|(thread, position)| *position <= self.last(*thread))
    }

    fn join(&mut self, other: &KnownBlock) {
        self.base = self.base.max(other.base);
        for (thread, position) in &other.more {
            match self.more.binary_search_by_key(thread, |(thread, _)| *thread) {
                Ok(place) => self.more[place].1 = self.more[place].1.max(*position),
                Err(place) => self.more.insert(place, (*thread, *position)),
            }
        }
        let base = self.base;
        self.more.retain(|(_, position)| *position > base);
    }

    /// If something is known of every thread, the least of it holds for all.
    fn compact(&mut self, threads: u32) {
        if self.more.len() == threads as usize
            && let Some(least) = self.more.iter().map(|(_, position)| *position).min()
        {
            self.base = least;
            self.more.retain(|(_, position)| *position > least);
        }
    }
}

/// Blocks whose knowledge is shared or copied together.
const CHUNK: usize = 32;

type Chunk = [KnownBlock; CHUNK];

/// What is known of other blocks, by index; when published, of the publisher's own as well. In chunks that many share,
/// as what one thread knows and what another does differ in few blocks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Known(BTreeMap<u64, Rc<Chunk>>);

impl Known {
    fn block(&self, block: u64) -> Option<&KnownBlock> {
        let chunk = self.0.get(&(block / CHUNK as u64))?;
        Some(&chunk[block as usize % CHUNK])
    }

    fn set(&mut self, block: u64, known: KnownBlock) {
        let chunk = self.0.entry(block / CHUNK as u64).or_default();
        Rc::make_mut(chunk)[block as usize % CHUNK] = known;
    }

    fn covers(&self, block: u64, thread: u32, position: u32) -> bool {
        self.block(block).is_some_and(|known| position <= known.last(thread))
    }

    /// Whether it says all that `other` does.
    fn includes(&self, other: &Known) -> bool {
        other.0.iter().all(|(number, chunk)| self.0.get(number).is_some_and(|own| includes(own, chunk)))
    }

    fn join(&mut self, other: &Known, threads: u32) {
        for (number, chunk) in &other.0 {
            let own = self.0.entry(*number).or_insert_with(|| chunk.clone());
            if includes(chunk, own) {
                *own = chunk.clone();
                continue;
            }
            if includes(own, chunk) {
                continue;
            }
            for (own, known) in Rc::make_mut(own).iter_mut().zip(chunk.iter()) {
                own.join(known);
                own.compact(threads);
            }
        }
    }
}

fn includes(own: &Rc<Chunk>, other: &Rc<Chunk>) -> bool {
    Rc::ptr_eq(own, other) || own.iter().zip(other.iter()).all(|(own, other)| own.includes(other))
}

type Shared = Option<Rc<Known>>;

/// Adds `other` to `own`, which is copied only if somebody else has it too.
fn join(own: &mut Shared, other: &Shared, threads: u32) {
    match (own.as_mut(), other) {
        (_, None) => {}
        (None, Some(other)) => *own = Some(other.clone()),
        (Some(known), Some(other)) => {
            if Rc::ptr_eq(known, other) {
                return;
            }
            // Whoever waits picks up the same again and again, and sees at once that it has it.
            if other.includes(known) {
                *known = other.clone();
            } else if !known.includes(other) {
                Rc::make_mut(known).join(other, threads);
            }
        }
    }
}

/// What fences have done for one thread. Pairs are for the block's scope and for the device's.
#[derive(Clone, Debug, Default)]
struct Fenced {
    /// Ordered before everything that the thread does.
    known: Shared,
    /// What the thread's next strong write publishes.
    released: [Shared; 2],
    /// Picked up by strong reads, and not yet ordered by a fence.
    acquired: [Shared; 2],
}

/// What two rows say together.
fn union(one: &Row, other: &Row) -> Row {
    let all = |low: &Row, high: &Row| low.iter().zip(high.iter()).all(|(low, high)| low <= high);
    if Rc::ptr_eq(one, other) || all(other, one) {
        one.clone()
    } else if all(one, other) {
        other.clone()
    } else {
        Rc::new(one.iter().zip(other.iter()).map(|(one, other)| *one.max(other)).collect())
    }
}

/// Where a strong access was: whether in shared memory, and the address.
type Location = (bool, u64);

/// What strong writes have published, by where they wrote.
#[derive(Debug, Default)]
pub struct Published(QuickMap<Location, Rc<Known>>);

type Row = Rc<Vec<u32>>;

/// Those who have arrived at a barrier that isn't complete yet.
#[derive(Clone, Debug, Default)]
pub struct Arrivals {
    /// Instructions that they arrived at: index, first thread, number of threads; in order of arrival.
    pub places: Vec<(u32, u32, u32)>,
    /// Threads that wait.
    waiting: Vec<u32>,
    arrived: u32,
    counted: bool,
    /// What all of them know together.
    row: Vec<u32>,
    known: Fenced,
    position: u32,
}

/// The time of one block.
#[derive(Debug)]
pub struct Clocks {
    pub block: u64,
    pub threads: u32,
    /// Actor of the block's first thread.
    pub first_actor: u32,
    pub base: u32,
    pub positions: Vec<u32>,
    rows: Vec<Option<Row>>,
    any_rows: bool,
    fenced: Vec<Fenced>,
    partial: bool,
    /// Published for the block alone.
    published: Published,
    /// Those at the barriers of each block, by rank and number.
    pub arrivals: Vec<Arrivals>,
    mbarriers: Vec<Mbarrier>,
    /// Arrivals that wait for copies, in the order in which threads asked for them.
    promises: Vec<Promise>,
    /// What a row became when it took up another, the last time.
    joined: Option<[Row; 3]>,
    /// The last wait for copies of each thread: instruction and position; none before the first of the block.
    waits: Vec<(u32, u32)>,
    /// What each thread's last fence between proxies came after; none before the first of the block.
    proxy_fences: Vec<Option<ProxyFence>>,
}

/// What a thread's fence between proxies came after.
#[derive(Clone, Debug)]
struct ProxyFence {
    /// Position of the thread.
    own: u32,
    /// What it knew of others.
    base: u32,
    row: Option<Row>,
}

/// Those who have arrived at an mbarrier.
#[derive(Debug)]
struct Mbarrier {
    address: u64,
    /// What those know who arrived in the phase at hand.
    row: Vec<u32>,
    known: Fenced,
    position: u32,
    /// What whoever sees the phase before complete comes to know.
    complete: Option<Complete>,
}

/// What all who arrived in a phase knew.
#[derive(Clone, Debug)]
struct Complete {
    row: Row,
    known: Fenced,
    position: u32,
}

/// An arrival at an mbarrier that waits for copies, and what its thread knew when it asked for it.
#[derive(Debug)]
struct Promise {
    address: u64,
    thread: u32,
    row: Vec<u32>,
    known: Fenced,
    position: u32,
}

impl Clocks {
    /// `threads` of so many `blocks` together; `partial` if barriers of some threads only are to be understood, `fences` if
    /// fences are.
    pub fn new(threads: u32, blocks: u32, partial: bool, fences: bool) -> Clocks {
        let count = threads as usize;
        let partial = partial || fences;
        Clocks {
            block: 0,
            threads,
            first_actor: 1,
            base: 0,
            positions: vec![0; count],
            rows: vec![None; if partial { count } else { 0 }],
            any_rows: false,
            fenced: vec![Fenced::default(); if fences { count } else { 0 }],
            partial,
            published: Published::default(),
            arrivals: vec![Arrivals::default(); (blocks * BARRIERS) as usize],
            mbarriers: Vec::new(),
            promises: Vec::new(),
            joined: None,
            waits: Vec::new(),
            proxy_fences: Vec::new(),
        }
    }

    pub fn restart(&mut self, block: u64) {
        self.block = block;
        // Grids of more than 2^32 threads take longer than anyone waits.
        self.first_actor = (block as u32).wrapping_mul(self.threads).wrapping_add(1);
        self.base = 0;
        self.positions.fill(0);
        self.rows.fill(None);
        self.any_rows = false;
        self.fenced.fill(Fenced::default());
        self.published.0.clear();
        self.arrivals.fill(Arrivals::default());
        self.mbarriers.clear();
        self.promises.clear();
        self.joined = None;
        self.waits.clear();
        self.proxy_fences.clear();
    }

    /// The thread of this block that a stamp is of.
    #[inline(always)]
    pub fn thread_of(&self, stamp: Stamp) -> Option<u32> {
        let thread = stamp.actor.wrapping_sub(self.first_actor);
        (thread < self.threads).then_some(thread)
    }

    /// The threads of a warp begin another round of a loop.
    pub fn next_round(&mut self, warp: u32, lanes: u32) {
        let first = warp as usize * 32;
        for (lane, position) in self.positions[first..].iter_mut().take(32).enumerate() {
            // Rounds may be very many, and positions mustn't wrap.
            if lanes >> lane & 1 != 0 && *position < IN_FLIGHT / 2 {
                *position = (*position | (ROUND - 1)) + 1;
            }
        }
    }

    /// Whether an access is ordered before what `thread` does now.
    #[inline(always)]
    pub fn is_before(&self, stamp: Stamp, thread: u32) -> bool {
        match self.thread_of(stamp) {
            Some(other) => {
                stamp.position <= self.base || self.any_rows && self.knows_row(thread, other, stamp.position)
            }
            None => !self.fenced.is_empty() && self.knows_block(thread, stamp),
        }
    }

    #[cold]
    fn knows_row(&self, thread: u32, other: u32, position: u32) -> bool {
        thread == other && position < IN_FLIGHT
            || self.rows[thread as usize].as_ref().is_some_and(|row| position <= row[other as usize])
    }

    #[cold]
    fn knows_block(&self, thread: u32, stamp: Stamp) -> bool {
        let Some(known) = &self.fenced[thread as usize].known else { return false };
        let index = stamp.actor.wrapping_sub(1);
        known.covers(u64::from(index / self.threads), index % self.threads, stamp.position)
    }

    /// Whether it's plain that `thread` knows what any thread of the stamp's block did up to the stamp's position.
    pub fn knows_all(&self, stamp: Stamp, thread: u32) -> bool {
        if self.thread_of(stamp).is_some() {
            return stamp.position <= self.base;
        }
        let known = self.fenced.get(thread as usize).and_then(|fenced| fenced.known.as_ref());
        let block = u64::from((stamp.actor - 1) / self.threads);
        known.and_then(|known| known.block(block)).is_some_and(|known| stamp.position <= known.base)
    }

    /// Whether the thread has executed a fence, or learned of one through a barrier.
    pub fn has_fenced(&self, thread: u32) -> bool {
        self.fenced.get(thread as usize).is_some_and(|fenced| fenced.released[0].is_some())
    }

    // ---- barriers -----------------------------------------------------------------------------------------

    pub fn arrive(&mut self, number: u32, instruction: u32, barrier: BarrierInfo, threads: impl Iterator<Item = u32>) {
        let Some(mut arrivals) = self.arrivals.get_mut(number as usize).map(std::mem::take) else { return };
        arrivals.counted |= barrier.counted;
        for thread in threads {
            match arrivals.places.iter_mut().find(|(place, _, _)| *place == instruction) {
                Some((_, _, count)) => *count += 1,
                None => arrivals.places.push((instruction, thread, 1)),
            }
            arrivals.arrived += 1;
            if barrier.waits {
                arrivals.waiting.push(thread);
            }
            if self.partial {
                self.gather(&mut arrivals.row, thread);
            }
            self.gather_fences(&mut arrivals.known, thread);
            arrivals.position = arrivals.position.max(self.positions[thread as usize]);
        }
        self.arrivals[number as usize] = arrivals;
    }

    /// Orders those who waited after all who arrived. Gives the places that they arrived at, and whether the barrier
    /// was for all threads of the block.
    pub fn complete(&mut self, number: u32) -> (Vec<(u32, u32, u32)>, bool) {
        let Some(arrivals) = self.arrivals.get_mut(number as usize).map(std::mem::take) else {
            return (Vec::new(), false);
        };
        if arrivals.waiting.len() == self.threads as usize {
            self.base = self.positions.iter().copied().max().unwrap_or(0);
            self.positions.fill(self.base);
            if self.any_rows {
                self.rows.fill(None);
                self.any_rows = false;
            }
            if !self.fenced.is_empty() {
                let ordered = self.ordered_fences(arrivals.known);
                self.fenced.fill(ordered);
            }
        } else {
            self.meet(&arrivals.waiting, arrivals.row, arrivals.known, arrivals.position);
        }
        (arrivals.places, !arrivals.counted)
    }

    /// Threads of a warp meet at a barrier of their own.
    pub fn meet_lanes(&mut self, threads: &[u32]) {
        let (mut row, mut known, mut position) = (Vec::new(), Fenced::default(), 0);
        for thread in threads {
            self.gather(&mut row, *thread);
            self.gather_fences(&mut known, *thread);
            position = position.max(self.positions[*thread as usize]);
        }
        self.meet(threads, row, known, position);
    }

    fn meet(&mut self, threads: &[u32], row: Vec<u32>, known: Fenced, position: u32) {
        let row = Rc::new(row);
        let known = if self.fenced.is_empty() { known } else { self.ordered_fences(known) };
        for thread in threads {
            let thread = *thread as usize;
            self.positions[thread] = self.positions[thread].max(position);
            if let Some(own) = self.rows.get_mut(thread) {
                *own = Some(row.clone());
                self.any_rows = true;
            }
            if let Some(own) = self.fenced.get_mut(thread) {
                *own = known.clone();
            }
        }
    }

    /// Adds what a thread knows of the block to a row.
    fn gather(&self, row: &mut Vec<u32>, thread: u32) {
        row.resize(self.threads as usize, 0);
        if let Some(known) = self.rows.get(thread as usize).and_then(Option::as_ref) {
            for (own, known) in row.iter_mut().zip(known.iter()) {
                *own = (*own).max(*known);
            }
        }
        row[thread as usize] = row[thread as usize].max(self.positions[thread as usize]);
    }

    fn gather_fences(&self, all: &mut Fenced, thread: u32) {
        let Some(fenced) = self.fenced.get(thread as usize) else { return };
        join(&mut all.known, &fenced.known, self.threads);
        for scope in 0..2 {
            join(&mut all.released[scope], &fenced.released[scope], self.threads);
            join(&mut all.acquired[scope], &fenced.acquired[scope], self.threads);
        }
    }

    /// What a barrier makes of what its threads brought: it orders what they have picked up.
    fn ordered_fences(&self, mut all: Fenced) -> Fenced {
        for acquired in std::mem::take(&mut all.acquired) {
            join(&mut all.known, &acquired, self.threads);
        }
        all
    }

    // ---- mbarriers ----------------------------------------------------------------------------------------

    /// The mbarrier at an address is a new one, or is none any more.
    pub fn renew_mbarrier(&mut self, address: u64) {
        self.mbarriers.retain(|mbarrier| mbarrier.address != address);
    }

    fn mbarrier(&mut self, address: u64) -> usize {
        if let Some(index) = self.mbarriers.iter().position(|mbarrier| mbarrier.address == address) {
            return index;
        }
        let (row, known, position, complete) = Default::default();
        self.mbarriers.push(Mbarrier { address, row, known, position, complete });
        self.mbarriers.len() - 1
    }

    /// A thread arrives at an mbarrier: whoever sees the phase complete knows what the thread does.
    pub fn arrive_at_mbarrier(&mut self, address: u64, thread: u32) {
        let index = self.mbarrier(address);
        let mut row = std::mem::take(&mut self.mbarriers[index].row);
        let mut known = std::mem::take(&mut self.mbarriers[index].known);
        self.gather(&mut row, thread);
        self.gather_fences(&mut known, thread);
        let position = self.positions[thread as usize];
        let mbarrier = &mut self.mbarriers[index];
        (mbarrier.row, mbarrier.known) = (row, known);
        mbarrier.position = mbarrier.position.max(position);
    }

    /// A thread asks for an arrival after its copies.
    pub fn promise_arrival(&mut self, address: u64, thread: u32) {
        self.positions[thread as usize] += 1;
        let (mut row, mut known) = (Vec::new(), Fenced::default());
        self.gather(&mut row, thread);
        self.gather_fences(&mut known, thread);
        let position = self.positions[thread as usize];
        self.promises.push(Promise { address, thread, row, known, position });
    }

    /// Such an arrival happens.
    pub fn keep_promise(&mut self, address: u64, thread: u32) {
        let of = |promise: &Promise| promise.address == address && promise.thread == thread;
        let Some(index) = self.promises.iter().position(of) else { return };
        let promise = self.promises.remove(index);
        let index = self.mbarrier(address);
        let mut known = std::mem::take(&mut self.mbarriers[index].known);
        let threads = self.threads;
        join(&mut known.known, &promise.known.known, threads);
        for scope in 0..2 {
            join(&mut known.released[scope], &promise.known.released[scope], threads);
            join(&mut known.acquired[scope], &promise.known.acquired[scope], threads);
        }
        let mbarrier = &mut self.mbarriers[index];
        mbarrier.known = known;
        mbarrier.row.resize(threads as usize, 0);
        mbarrier.row.iter_mut().zip(&promise.row).for_each(|(own, other)| *own = (*own).max(*other));
        mbarrier.position = mbarrier.position.max(promise.position);
    }

    /// A phase is complete.
    pub fn complete_mbarrier(&mut self, address: u64) {
        let index = self.mbarrier(address);
        let known = std::mem::take(&mut self.mbarriers[index].known);
        let known = if self.fenced.is_empty() { known } else { self.ordered_fences(known) };
        let mbarrier = &mut self.mbarriers[index];
        // Arrivals that release nothing add nothing to it.
        mbarrier.row.resize(self.threads as usize, 0);
        let row = Rc::new(std::mem::take(&mut mbarrier.row));
        mbarrier.complete = Some(Complete { row, known, position: std::mem::take(&mut mbarrier.position) });
    }

    /// A thread has seen that the phase before the one at hand is complete.
    pub fn pass_mbarrier(&mut self, address: u64, thread: u32) {
        let index = self.mbarrier(address);
        let Some(Complete { row, known, position }) = self.mbarriers[index].complete.clone() else { return };
        let thread = thread as usize;
        self.positions[thread] = self.positions[thread].max(position);
        self.learn_row(thread, row);
        if !self.fenced.is_empty() {
            let mut all = known;
            self.gather_fences(&mut all, thread as u32);
            // What the thread itself has picked up still waits for its fence.
            let acquired = self.fenced[thread].acquired.clone();
            all.acquired = acquired;
            self.fenced[thread] = all;
        }
    }

    /// A thread comes to know what a row says.
    fn learn_row(&mut self, thread: usize, row: Row) {
        let Some(own) = self.rows.get(thread) else { return };
        let joined = match own {
            None => row,
            Some(own) => match &self.joined {
                // The lanes of a warp mostly knew the same.
                Some([one, other, both]) if Rc::ptr_eq(one, own) && Rc::ptr_eq(other, &row) => both.clone(),
                _ => {
                    let both = union(own, &row);
                    self.joined = Some([own.clone(), row, both.clone()]);
                    both
                }
            },
        };
        self.rows[thread] = Some(joined);
        self.any_rows = true;
    }

    /// Some threads come to know what another one did up to a position.
    pub fn learn_position(&mut self, threads: std::ops::Range<u32>, other: u32, position: u32) {
        let mut row = vec![0; self.threads as usize];
        row[other as usize] = position;
        let row = Rc::new(row);
        threads.for_each(|thread| self.learn_row(thread as usize, row.clone()));
    }

    // ---- proxies ------------------------------------------------------------------------------------------

    /// A thread executes a fence between its own accesses and those of the async proxy.
    pub fn proxy_fence(&mut self, thread: u32) {
        self.proxy_fences.resize(self.threads as usize, None);
        let thread = thread as usize;
        let row = self.rows.get(thread).cloned().flatten();
        self.proxy_fences[thread] = Some(ProxyFence { own: self.positions[thread], base: self.base, row });
    }

    /// Whether there's a fence between proxies between an access of a thread of this block and what the async proxy does
    /// for `thread` now: one of the accessing thread after its access, or one of `thread` after it knew of the access.
    pub fn is_proxy_fenced(&self, stamp: Stamp, thread: u32) -> bool {
        let fence = |thread: u32| self.proxy_fences.get(thread as usize).and_then(Option::as_ref);
        let Some(other) = self.thread_of(stamp) else { return true };
        if fence(other).is_some_and(|fence| stamp.position <= fence.own) {
            return true;
        }
        fence(thread).is_some_and(|ProxyFence { base, row, .. }| {
            stamp.position <= *base || row.as_ref().is_some_and(|row| stamp.position <= row[other as usize])
        })
    }

    // ---- copies -------------------------------------------------------------------------------------------

    /// A thread waits for copies at an instruction.
    pub fn wait_for_copies(&mut self, thread: u32, instruction: u32) {
        // What waited before, an arrival for one, comes before the copies are done.
        self.positions[thread as usize] += 1;
        self.waits.resize(self.threads as usize, (0, 0));
        self.waits[thread as usize] = (instruction, self.positions[thread as usize]);
    }

    /// The copy of a thread of this block as one that is done.
    pub fn done(&self, copy: Stamp) -> Stamp {
        let Some(thread) = self.thread_of(copy) else { return copy.begun() };
        let begun = copy.begun().position;
        // Done for those who see the arrival that comes after it, if the thread asked for one; else for itself.
        let promised = |promise: &&Promise| promise.thread == thread && promise.position > begun;
        let position = match self.promises.iter().filter(promised).map(|promise| promise.position).min() {
            Some(position) => position,
            None => self.positions[thread as usize],
        };
        Stamp { position, ..copy }
    }

    /// The last wait for copies of a copy's thread, if it came after the copy began.
    pub fn last_wait(&self, copy: Stamp) -> Option<u32> {
        let (instruction, position) = *self.waits.get(self.thread_of(copy)? as usize)?;
        let after = match copy.is_in_flight() {
            true => position > copy.begun().position,
            // It's known only of the last one what it waited for.
            false => position == copy.position,
        };
        after.then_some(instruction)
    }

    // ---- fences -------------------------------------------------------------------------------------------

    /// Everything that is ordered before the thread now, what it did itself included.
    fn snapshot(&self, thread: u32) -> Rc<Known> {
        let mut known = match &self.fenced[thread as usize].known {
            Some(known) => Known::clone(known),
            None => Known::default(),
        };
        let mut own = KnownBlock { base: self.base, more: Vec::new() };
        if let Some(row) = self.rows.get(thread as usize).and_then(Option::as_ref) {
            let later = row.iter().zip(0..).filter(|(position, _)| **position > self.base);
            own.more.extend(later.map(|(position, other)| (other, *position)));
        }
        own.join(&KnownBlock { base: 0, more: vec![(thread, self.positions[thread as usize])] });
        own.compact(self.threads);
        known.set(self.block, own);
        Rc::new(known)
    }

    pub fn fence(&mut self, thread: u32, scope: Scope, acquire: bool, release: bool) {
        let levels = if scope == Scope::Device { 2 } else { 1 };
        if acquire {
            for level in 0..levels {
                let acquired = self.fenced[thread as usize].acquired[level].take();
                self.learn(thread, &acquired);
            }
        }
        if release {
            let snapshot = Some(self.snapshot(thread));
            for level in 0..levels {
                self.fenced[thread as usize].released[level] = snapshot.clone();
            }
        }
    }

    /// A thread comes to know something of its own block and of others.
    fn learn(&mut self, thread: u32, what: &Shared) {
        let Some(what) = what else { return };
        if let Some(own) = what.block(self.block).filter(|own| **own != KnownBlock::default())
            && self.partial
        {
            let mut row = Vec::new();
            self.gather(&mut row, thread);
            for (other, position) in row.iter_mut().zip(0..).map(|(position, other)| (other, position)) {
                *position = (*position).max(own.last(other));
            }
            self.rows[thread as usize] = Some(Rc::new(row));
            self.any_rows = true;
        }
        join(&mut self.fenced[thread as usize].known, &Some(what.clone()), self.threads);
    }

    /// A strong access: publishes if it writes, picks up if it reads.
    #[allow(clippy::too_many_arguments)]
    pub fn strong_access(
        &mut self,
        published: &mut Published,
        thread: u32,
        shared: bool,
        address: u64,
        (reads, writes): (bool, bool),
        (acquire, release): (bool, bool),
        scope: Scope,
    ) {
        let device = !shared && scope == Scope::Device;
        let levels = if device { 2 } else { 1 };
        let place = (shared, address);
        // Taken out so that what is the block's can be changed together with the rest of this.
        let mut own = std::mem::take(&mut self.published);
        let mut maps = [&mut own, published];
        if reads && acquire {
            for map in &maps[..levels] {
                self.learn(thread, &map.0.get(&place).cloned());
            }
        }
        if writes {
            let now = release.then(|| self.snapshot(thread));
            for (level, map) in maps[..levels].iter_mut().enumerate() {
                let what = now.clone().or_else(|| self.fenced[thread as usize].released[level].clone());
                match what {
                    Some(what) if reads => {
                        let mut all = map.0.remove(&place);
                        join(&mut all, &Some(what), self.threads);
                        map.0.extend(all.map(|all| (place, all)));
                    }
                    Some(what) => drop(map.0.insert(place, what)),
                    // An atomic hands on what was published; a plain store takes its place.
                    None if reads => {}
                    None => drop(map.0.remove(&place)),
                }
            }
        }
        if reads && !acquire {
            for (level, map) in maps[..levels].iter().enumerate() {
                let found = map.0.get(&place).cloned();
                join(&mut self.fenced[thread as usize].acquired[level], &found, self.threads);
            }
        }
        self.published = own;
    }
}
