//! Who accessed each word of memory last.
//!
//! Memory is cut into pages of [`PAGE_WORDS`] words. A page knows which instructions accessed it; for each of them (and
//! each set of bytes within a word) it holds a [`Slot`] for every word: the last accesses of two different threads. Two
//! suffice, since only the thread itself is ordered with its own accesses: a third thread that accesses the word
//! races with one of the two or with none. Accesses that are ordered before a new one of the same instruction give
//! way to it, since whatever races with them races with it as well. Where barriers of some threads or fences may order
//! a third thread with one of the two and not with another, all are kept, in [`Class::more`].
//!
//! So memory that n different instructions access takes 16 n bytes for each of its words, in pages that are accessed
//! at all; 4 bytes per word more where it's shared memory, and one where what is written is kept track of.

use std::collections::HashMap;

use super::clocks::{Clocks, Stamp};

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
}

#[derive(Debug)]
struct Class {
    key: Key,
    slots: Box<[Slot; PAGE_WORDS]>,
    more: HashMap<u16, Vec<Stamp>>,
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
    numbers: HashMap<u64, u32>,
    /// Reads of unwritten bytes by page, word and instruction: indices into `reads`.
    unwritten: HashMap<(u32, u16, u32), u32>,
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
        self.classes.push(Class { key, slots: Box::new([Slot::default(); PAGE_WORDS]), more: HashMap::new() });
        self.classes.len() as u32 - 1
    }
}

impl Shadow {
    pub fn new(shared: bool, instructions: usize) -> Shadow {
        Shadow {
            shared,
            pages: Vec::new(),
            numbers: HashMap::new(),
            unwritten: HashMap::new(),
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
    #[inline(always)]
    fn find(&mut self, number: u64, key: Key) -> (usize, usize) {
        let recent = self.recent[key.instruction as usize];
        let page = if recent.0 == number { recent.1 } else { self.page(number) };
        let class = self.pages[page as usize].class(key, recent.2);
        self.recent[key.instruction as usize] = (number, page, class);
        (page as usize, class as usize)
    }

    /// Takes note of an access to a word, and gives what it races with to `racing`.
    #[inline(always)]
    pub fn access(
        &mut self,
        clocks: &Clocks,
        thread: u32,
        stamp: Stamp,
        word: u64,
        key: Key,
        keep: Keep,
        mut racing: impl FnMut(Racing),
    ) {
        let (page_index, class_index) = self.find(word / PAGE_WORDS as u64, key);
        let index = word as usize % PAGE_WORDS;
        let page = &mut self.pages[page_index];
        let suspicious = key.writes
            || page.writers && page.written_at.as_ref().is_none_or(|written_at| written_at[index] > clocks.base);
        if suspicious {
            let found = page.racing(clocks, thread, stamp, index, key);
            for found in found {
                // What it read unwritten has been a race all along.
                if key.writes && found.key.reads && !self.reads.is_empty() {
                    let read = self.unwritten.remove(&(page_index as u32, index as u16, found.key.instruction));
                    if let Some(read) = read {
                        self.reads[read as usize] = None;
                    }
                }
                racing(found);
            }
        }
        if let Some(unwritten) = &mut page.unwritten {
            let missing = unwritten[index] & key.bytes;
            if missing != 0 {
                if key.reads {
                    let place = (page_index as u32, index as u16, key.instruction);
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
        page.classes[class_index].note(clocks, thread, stamp, index, keep);
    }

    /// Bytes that were written by an access which isn't looked at.
    pub fn count_as_written(&mut self, word: u64, bytes: u8) {
        let page = self.page(word / PAGE_WORDS as u64) as usize;
        if let Some(unwritten) = &mut self.pages[page].unwritten {
            unwritten[word as usize % PAGE_WORDS] &= !bytes;
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
    #[inline(never)]
    fn racing(&self, clocks: &Clocks, thread: u32, stamp: Stamp, index: usize, key: Key) -> Vec<Racing> {
        let mut found = Vec::new();
        for class in &self.classes {
            if !(class.key.writes || key.writes) || class.key.bytes & key.bytes == 0 {
                continue;
            }
            let strength = class.key.strength.min(key.strength);
            let races = |other: &&Stamp| {
                let needed = if clocks.thread_of(**other).is_some() { 1 } else { 2 };
                other.actor != 0
                    && other.actor != stamp.actor
                    && strength < needed
                    && !clocks.is_before(**other, thread)
            };
            let slot = &class.slots[index];
            let more = class.more.get(&(index as u16)).map_or(&[][..], Vec::as_slice);
            if let Some(other) = [slot.first, slot.second].iter().chain(more).find(races) {
                found.push(Racing { key: class.key, stamp: *other });
            }
        }
        found
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
        let more = self.more.entry(index as u16).or_default();
        more.retain(|other| other.actor != stamp.actor && !clocks.is_before(*other, thread));
        more.push(stamp);
    }
}
