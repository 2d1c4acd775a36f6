//! Who accessed each word of memory last.
//!
//! Memory is cut into pages of [`PAGE_WORDS`] words. A page knows which instructions accessed it; for each of them (and
//! each set of bytes within a word) it holds a [`Slot`] for every word: the last accesses of two different threads. Two
//! suffice, since only the thread itself is ordered with its own accesses: a third thread that accesses the word
//! races with one of the two or with none. Accesses that are ordered before a new one of the same instruction give
//! way to it, since whatever races with them races with it as well. Where barriers of some threads or fences may order
//! a third thread with one of the two and not with another, all are kept, in [`Class::more`]: as [`Run`]s, since the
//! threads that read one word are mostly evenly spaced and equally far. A block that reads a word all together takes one
//! run of 16 bytes. Of a thread of which a later access is kept, and of what is ordered before a new access, the old
//! ones are dropped from time to time, so that what is kept stays in proportion to the threads that matter.
//!
//! So memory that n different instructions access takes 16 n bytes for each of its words, in pages that are accessed
//! at all; 4 bytes per word more where it's shared memory, and one where what is written is kept track of.

use super::clocks::{Clocks, Stamp};
use super::quick::QuickMap;

/// Words of four bytes in a page: 1 KiB of memory.
pub const PAGE_WORDS: usize = 256;

/// How many accesses of an instruction to a word are kept, apart from two of any kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// No more: only barriers of all threads order anything.
    Two,
    /// All of one block: its threads may be ordered in part.
    OfBlock,
    /// All: threads of different blocks may be ordered, too.
    All,
}

/// The last accesses of two threads.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    first: Stamp,
    second: Stamp,
}

/// Accesses that differ in thread and time only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    pub instruction: u32,
    /// The bytes of a word.
    pub bytes: u8,
    /// How far the access is strong: not, in the block, on the device.
    pub strength: u8,
    pub reads: bool,
    pub writes: bool,
    pub proxy: Proxy,
}

/// The way that an access takes to memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Proxy {
    /// That of ordinary accesses.
    #[default]
    Generic,
    /// That of bulk copies and warpgroups' products.
    Async,
}

/// An access of a thread to bytes of one word.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    pub thread: u32,
    pub stamp: Stamp,
    pub word: u64,
    pub key: Key,
    /// It's outside the array that its address was made from, so that nobody needs to be told that it's unwritten.
    pub outside: bool,
}

/// Where the last lane's access was noted.
#[derive(Clone, Copy, Debug)]
pub struct Cursor {
    number: u64,
    bytes: u8,
    page: u32,
    class: u32,
}

impl Cursor {
    pub const NONE: Cursor = Cursor { number: u64::MAX, bytes: 0, page: 0, class: 0 };
}

#[derive(Debug)]
struct Class {
    key: Key,
    slots: Box<[Slot; PAGE_WORDS]>,
    more: QuickMap<u16, More>,
}

/// Accesses of evenly spaced threads of one block at the same position.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: Stamp,
    stride: u16,
    count: u16,
}

impl Run {
    fn stamps(self) -> impl Iterator<Item = Stamp> {
        let Run { first, stride, count } = self;
        let stamp = move |index| Stamp { actor: first.actor + index * u32::from(stride), ..first };
        (0..u32::from(count)).map(stamp)
    }

    fn is_before(self, clocks: &Clocks, thread: u32) -> bool {
        clocks.knows_all(self.first, thread) || self.stamps().all(|stamp| clocks.is_before(stamp, thread))
    }

    /// Takes in one more access, if it goes on evenly in the same block.
    fn extend(&mut self, stamp: Stamp, threads: u32) -> bool {
        let Run { first, stride, count } = *self;
        let Some(distance) = stamp.actor.checked_sub(first.actor) else { return false };
        let block = |actor: u32| (actor - 1) / threads;
        let even = if count == 1 { distance > 0 } else { distance == u32::from(stride) * u32::from(count) };
        if !even || first.position != stamp.position || block(first.actor) != block(stamp.actor) {
            return false;
        }
        if count == 1 {
            self.stride = distance as u16;
        }
        self.count += 1;
        true
    }
}

/// Runs before the old ones of a word are looked through for the first time.
const FEW_RUNS: usize = 16;

/// Accesses to one word beyond two.
#[derive(Debug, Default)]
struct More {
    runs: Vec<Run>,
    /// Runs that were left when they were last looked through.
    left: usize,
}

impl More {
    fn note(&mut self, clocks: &Clocks, thread: u32, stamp: Stamp) {
        if self.runs.last_mut().is_some_and(|run| run.extend(stamp, clocks.threads)) {
            return;
        }
        if self.runs.len() >= FEW_RUNS.max(2 * self.left) {
            // Latest first. What is kept though it needn't be does no harm: it's ordered before whoever is ordered after
            // what took its place.
            let mut seen = QuickMap::<u32, ()>::default();
            let mut kept: Vec<Run> = Vec::with_capacity(self.runs.len());
            for run in self.runs.iter().rev() {
                let fresh = run.stamps().filter(|stamp| seen.insert(stamp.actor, ()).is_none()).count() > 0;
                if fresh && !run.is_before(clocks, thread) {
                    kept.push(*run);
                }
            }
            kept.reverse();
            self.left = kept.len();
            self.runs = kept;
        }
        self.runs.push(Run { first: stamp, stride: 0, count: 1 });
    }

    /// One of the accesses that isn't ordered before what the thread of `now` does.
    fn racing(&self, clocks: &Clocks, thread: u32, now: Stamp, needed: impl Fn(Stamp) -> bool) -> Option<Stamp> {
        let open = |run: &&Run| needed(run.first) && !clocks.knows_all(run.first, thread);
        let races = |stamp: &Stamp| stamp.actor != now.actor && !clocks.is_before(*stamp, thread);
        self.runs.iter().filter(open).find_map(|run| run.stamps().find(races))
    }
}

#[derive(Debug)]
pub struct Page {
    classes: Vec<Class>,
    writers: bool,
    /// Bytes of each word that nobody has written; nothing if all count as written.
    unwritten: Option<Box<[u8; PAGE_WORDS]>>,
    /// Position of the last write to each word; kept for shared memory alone, where positions can be compared.
    written_at: Option<Box<[u32; PAGE_WORDS]>>,
}

/// An earlier access that races with one now.
#[derive(Clone, Copy, Debug)]
pub struct Racing {
    pub key: Key,
    pub stamp: Stamp,
}

/// A read of bytes that nobody has written, unless a racing write turns up.
#[derive(Clone, Copy, Debug)]
pub struct Unwritten {
    pub instruction: u32,
    pub stamp: Stamp,
    /// Address of the word.
    pub address: u64,
    pub bytes: u8,
    pub count: u64,
}

/// The memory of a block, or the device's.
#[derive(Debug)]
pub struct Shadow {
    shared: bool,
    pages: Vec<Page>,
    /// Pages by number, for global memory.
    numbers: QuickMap<u64, u32>,
    /// Reads of unwritten bytes by page, word and instruction: indices into `reads`.
    unwritten: QuickMap<(u32, u16, u32), u32>,
    reads: Vec<Option<Unwritten>>,
    /// Page and class that each instruction found last.
    recent: Vec<(u64, u32, u32)>,
}

impl Page {
    fn new(shared: bool) -> Page {
        Page {
            classes: Vec::new(),
            writers: false,
            unwritten: shared.then(|| Box::new([0xf; PAGE_WORDS])),
            written_at: shared.then(|| Box::new([0; PAGE_WORDS])),
        }
    }

    fn class(&mut self, key: Key, guess: u32) -> u32 {
        if self.classes.get(guess as usize).is_some_and(|class| class.key == key) {
            return guess;
        }
        if let Some(known) = self.classes.iter().position(|class| class.key == key) {
            return known as u32;
        }
        self.writers |= key.writes;
        self.classes.push(Class { key, slots: Box::new([Slot::default(); PAGE_WORDS]), more: QuickMap::default() });
        self.classes.len() as u32 - 1
    }
}

impl Shadow {
    pub fn new(shared: bool, instructions: usize) -> Shadow {
        Shadow {
            shared,
            pages: Vec::new(),
            numbers: QuickMap::default(),
            unwritten: QuickMap::default(),
            reads: Vec::new(),
            recent: vec![(u64::MAX, 0, 0); instructions],
        }
    }

    /// Forgets all: a new block's shared memory.
    pub fn restart(&mut self) {
        for page in &mut self.pages {
            for class in &mut page.classes {
                class.slots.fill(Slot::default());
                class.more.clear();
            }
            if let Some(unwritten) = &mut page.unwritten {
                unwritten.fill(0xf);
            }
            if let Some(written_at) = &mut page.written_at {
                written_at.fill(0);
            }
        }
        self.forget_reads();
    }

    /// Says that nobody has written these bytes.
    pub fn mark_unwritten(&mut self, start: u64, bytes: u64) {
        let end = start.saturating_add(bytes);
        let mut word = start / 4;
        while word * 4 < end {
            let (from, to) = (start.max(word * 4) - word * 4, end.min(word * 4 + 4) - word * 4);
            let mask = ((1u32 << to) - (1 << from)) as u8;
            let page = self.page(word / PAGE_WORDS as u64) as usize;
            let unwritten = self.pages[page].unwritten.get_or_insert_with(|| Box::new([0; PAGE_WORDS]));
            // Whole pages at a time.
            let index = word as usize % PAGE_WORDS;
            if index == 0 && (word + PAGE_WORDS as u64) * 4 <= end && mask == 0xf {
                unwritten.fill(0xf);
                word += PAGE_WORDS as u64;
            } else {
                unwritten[index] |= mask;
                word += 1;
            }
        }
    }

    fn page(&mut self, number: u64) -> u32 {
        if self.shared {
            while self.pages.len() as u64 <= number {
                self.pages.push(Page::new(true));
            }
            return number as u32;
        }
        *self.numbers.entry(number).or_insert_with(|| {
            self.pages.push(Page::new(false));
            self.pages.len() as u32 - 1
        })
    }

    /// Page and class of an access, remembered from the last time.
    #[inline(never)]
    fn find(&mut self, number: u64, key: Key) -> Cursor {
        let recent = self.recent[key.instruction as usize];
        let page = if recent.0 == number { recent.1 } else { self.page(number) };
        let class = self.pages[page as usize].class(key, recent.2);
        self.recent[key.instruction as usize] = (number, page, class);
        Cursor { number, bytes: key.bytes, page, class }
    }

    /// Takes note of an access to a word, and gives what it races with to `racing`. The cursor is kept from lane to lane
    /// of one access.
    #[inline(always)]
    pub fn access(
        &mut self,
        clocks: &Clocks,
        cursor: &mut Cursor,
        access: &Access,
        keep: Keep,
        racing: &mut dyn FnMut(Racing),
    ) {
        let key = access.key;
        let number = access.word / PAGE_WORDS as u64;
        if cursor.number != number || cursor.bytes != key.bytes {
            *cursor = self.find(number, key);
        }
        let index = access.word as usize % PAGE_WORDS;
        let page = &mut self.pages[cursor.page as usize];
        let written = page.unwritten.as_ref().is_none_or(|unwritten| unwritten[index] & key.bytes == 0);
        let calm = !page.writers || page.written_at.as_ref().is_some_and(|at| at[index] <= clocks.base);
        if key.writes || !calm || !written {
            self.look(clocks, *cursor, access, racing);
        }
        let page = &mut self.pages[cursor.page as usize];
        page.classes[cursor.class as usize].note(clocks, access.thread, access.stamp, index, keep);
    }

    /// Looks for what a read of several warps races with, and for unfenced writes, of which the last one is given to
    /// `unfenced`; takes no note of it.
    pub fn peek(
        &mut self,
        clocks: &Clocks,
        cursor: &mut Cursor,
        access: &Access,
        racing: &mut dyn FnMut(Racing),
        unfenced: &mut dyn FnMut(Racing),
    ) {
        let key = access.key;
        let number = access.word / PAGE_WORDS as u64;
        if cursor.number != number || cursor.bytes != key.bytes {
            *cursor = self.find(number, key);
        }
        self.look(clocks, *cursor, access, racing);
        let page = &self.pages[cursor.page as usize];
        for class in page.classes.iter().filter(|class| class.key.writes && class.key.bytes & key.bytes != 0) {
            if class.key.proxy == Proxy::Async {
                continue;
            }
            let slot = &class.slots[access.word as usize % PAGE_WORDS];
            for stamp in [slot.first, slot.second] {
                if stamp.actor != 0 && !clocks.is_proxy_fenced(stamp, access.thread) {
                    unfenced(Racing { key: class.key, stamp });
                }
            }
        }
    }

    /// Takes note of an access that was looked at.
    pub fn note(&mut self, clocks: &Clocks, cursor: &mut Cursor, access: &Access, keep: Keep) {
        let number = access.word / PAGE_WORDS as u64;
        if cursor.number != number || cursor.bytes != access.key.bytes {
            *cursor = self.find(number, access.key);
        }
        let class = &mut self.pages[cursor.page as usize].classes[cursor.class as usize];
        class.note(clocks, access.thread, access.stamp, access.word as usize % PAGE_WORDS, keep);
    }

    /// Takes note that an asynchronous copy of a thread is done: what it did to a word counts as done now.
    #[inline(always)]
    pub fn land(&mut self, clocks: &Clocks, cursor: &mut Cursor, actor: u32, word: u64, key: Key) {
        self.land_as(cursor, actor, word, key, |stamp| clocks.done(stamp));
    }

    /// The same, with the stamp that it has when it's done.
    #[inline(always)]
    pub fn land_as(&mut self, cursor: &mut Cursor, actor: u32, word: u64, key: Key, done: impl FnOnce(Stamp) -> Stamp) {
        let number = word / PAGE_WORDS as u64;
        if cursor.number != number || cursor.bytes != key.bytes {
            *cursor = self.find(number, key);
        }
        let index = word as usize % PAGE_WORDS;
        let page = &mut self.pages[cursor.page as usize];
        let class = &mut page.classes[cursor.class as usize];
        let slot = &mut class.slots[index];
        let this = |stamp: &&mut Stamp| stamp.actor == actor && stamp.is_in_flight();
        if let Some(stamp) = [&mut slot.first, &mut slot.second].into_iter().find(this) {
            *stamp = done(*stamp);
            let position = stamp.position;
            if key.writes
                && let Some(written_at) = &mut page.written_at
            {
                written_at[index] = position;
            }
        } else if let Some(more) = class.more.get_mut(&(index as u16)) {
            // It raced already. What isn't known exactly any more is left out.
            more.runs.retain(|run| !(run.first.is_in_flight() && run.stamps().any(|stamp| stamp.actor == actor)));
        }
    }

    /// Looks for what an access races with, and for bytes that nobody has written.
    #[inline(never)]
    fn look(&mut self, clocks: &Clocks, cursor: Cursor, access: &Access, racing: &mut dyn FnMut(Racing)) {
        let Access { thread, stamp, word, key, outside } = *access;
        let index = word as usize % PAGE_WORDS;
        let page = &mut self.pages[cursor.page as usize];
        page.racing(clocks, thread, stamp, index, key, &mut |found| {
            // What it read unwritten has been a race all along.
            if key.writes && found.key.reads && !self.reads.is_empty() {
                let read = self.unwritten.remove(&(cursor.page, index as u16, found.key.instruction));
                if let Some(read) = read {
                    self.reads[read as usize] = None;
                }
            }
            racing(found);
        });
        if let Some(unwritten) = &mut page.unwritten {
            let missing = unwritten[index] & key.bytes;
            if missing != 0 {
                if key.reads && !outside {
                    let place = (cursor.page, index as u16, key.instruction);
                    let reads = &mut self.reads;
                    let read = *self.unwritten.entry(place).or_insert_with(|| {
                        let Key { instruction, .. } = key;
                        reads.push(Some(Unwritten { instruction, stamp, address: word * 4, bytes: missing, count: 0 }));
                        reads.len() as u32 - 1
                    });
                    if let Some(read) = &mut reads[read as usize] {
                        read.count += 1;
                    }
                }
                if key.writes {
                    unwritten[index] &= !key.bytes;
                }
            }
        }
        if key.writes
            && let Some(written_at) = &mut page.written_at
        {
            written_at[index] = written_at[index].max(stamp.position);
        }
    }

    /// The reads of unwritten bytes that no write raced with, in order.
    pub fn take_reads(&mut self) -> Vec<Unwritten> {
        if self.reads.is_empty() {
            return Vec::new();
        }
        self.unwritten.clear();
        std::mem::take(&mut self.reads).into_iter().flatten().collect()
    }

    /// Forgets reads of unwritten bytes, as what would have raced with them may not have come to run.
    pub fn forget_reads(&mut self) {
        self.unwritten.clear();
        self.reads.clear();
    }
}

impl Page {
    /// Earlier accesses that race with one now: one of each instruction.
    fn racing(
        &self,
        clocks: &Clocks,
        thread: u32,
        stamp: Stamp,
        index: usize,
        key: Key,
        found: &mut dyn FnMut(Racing),
    ) {
        for class in &self.classes {
            if !(class.key.writes || key.writes) || class.key.bytes & key.bytes == 0 {
                continue;
            }
            let slot = &class.slots[index];
            if slot.first.actor == 0 {
                continue;
            }
            let strength = class.key.strength.min(key.strength);
            if strength >= 2 {
                continue;
            }
            // Strong in the block is weak for other blocks.
            let weak = |other: Stamp| strength == 0 || clocks.thread_of(other).is_none();
            let races = |other: &Stamp| {
                other.actor != 0
                    && (other.actor != stamp.actor || other.is_in_flight())
                    && weak(*other)
                    && !clocks.is_before(*other, thread)
            };
            let more = || class.more.get(&(index as u16)).and_then(|more| more.racing(clocks, thread, stamp, weak));
            if let Some(other) = [slot.first, slot.second].into_iter().find(races).or_else(more) {
                found(Racing { key: class.key, stamp: other });
            }
        }
    }
}

impl Class {
    #[inline(always)]
    fn note(&mut self, clocks: &Clocks, thread: u32, stamp: Stamp, index: usize, keep: Keep) {
        let slot = &mut self.slots[index];
        if slot.first.actor == stamp.actor {
            slot.first = stamp;
        } else if slot.second.actor == stamp.actor {
            slot.second = stamp;
        } else if slot.first.actor == 0 || clocks.is_before(slot.first, thread) {
            slot.first = stamp;
        } else if slot.second.actor == 0 || clocks.is_before(slot.second, thread) {
            slot.second = stamp;
        } else {
            let block = |stamp: Stamp| (stamp.actor - 1) / clocks.threads;
            let blocks = [block(slot.first), block(slot.second)];
            if keep != Keep::All && blocks[0] != block(stamp) {
                // Threads of two blocks suffice for whoever comes, since nothing orders different blocks.
                if blocks[0] == blocks[1] {
                    slot.second = stamp;
                }
            } else if keep != Keep::Two && blocks[0] == blocks[1] || keep == Keep::All {
                self.note_more(clocks, thread, stamp, index);
            }
        }
    }

    #[cold]
    fn note_more(&mut self, clocks: &Clocks, thread: u32, stamp: Stamp, index: usize) {
        self.more.entry(index as u16).or_default().note(clocks, thread, stamp);
    }
}
