//! Matrix products of a warpgroup: `wgmma` (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions").
//!
//! The four warps of a warpgroup come to a product together. Here it's computed when the last of them is there: D has its
//! new values at once, and A and B are read at once. On hardware both happen at any time until the warps wait for it
//! (`wgmma.wait_group`); [`crate::observe::hazards`] finds what touches D, A or B before that.
//!
//! # Which lane has what
//! Warp w of the warpgroup has rows 16 w to 16 w + 15. With g = lane / 4 and t = lane % 4:
//!
//! ```text
//!   C, D, 64 x N         register r has row 16 w + g + 8 (r / 2 % 2), column 8 (r / 4) + 2 t + r % 2
//!   A in registers       16 bits: register r has row 16 w + g + 8 (r % 2), columns 2 t + 8 (r / 2) and the next, that one above
//!                        tf32:    register r has row 16 w + g + 8 (r % 2), column t + 4 (r / 2)
//! ```
//!
//! # Matrices in shared memory
//! A descriptor of 64 bits says where a matrix begins and how it lies there ("Matrix Descriptor Format"):
//!
//! ```text
//!   bits  0 to 13   address of the first element / 16
//!   bits 16 to 29   leading byte offset (LBO) / 16
//!   bits 32 to 45   stride byte offset (SBO) / 16
//!   bits 49 to 51   base offset: only 0 is supported, for matrices at a multiple of eight lines of 128 bytes
//!   bits 62 and 63  swizzle: 0 none, 1 of 128 bytes, 2 of 64, 3 of 32
//! ```
//!
//! With chunks of 16 bytes, i for the place along M (of A) or N (of B), k for the place along K, T elements in a chunk,
//! and S chunks in the span of the swizzle, the byte of an element's chunk is, before the swizzle of
//! [`crate::tensor_map`]:
//!
//! ```text
//!   along K         swizzled   16 S (i % 8) + SBO (i / 8) + 16 (k / T)
//!                   not        16 (i % 8)   + SBO (i / 8) + LBO (k / T)
//!   along M and N   swizzled   16 (i / T % S) + LBO (i / T / S) + 16 S (k % 8) + SBO (k / 8)
//!                   not        SBO (i / T)    + 16 (k % 8)      + LBO (k / 8)
//! ```
//!
//! # What comes out
//! As for `mma` (see [`super::products`]): a chain of fused multiply-adds of `f32` for each element in ascending order
//! of k, from C or from zero. Hardware adds the exact products of several places of k at once, aligned to the largest of
//! them, and cuts off the rest, so that its last bits are others and err towards zero.

use super::cluster::BARRIERS;
use super::coordination::Coordination;
use super::products::{NAN, TF32};
use super::run::{Executor, Result, guard_mask, read_row, read_wide_row};
use super::warp::{ALL, State, Warp};
use crate::alu::{Row, f16_to_f32};
use crate::decode::program::*;
use crate::error::{AccessKind, LaunchErrorKind, MemorySpace, Nearest};
use crate::memory::load;
use crate::observe::{self, Watch};
use crate::processor::Level;
use crate::tensor_map::Swizzle;

/// Bytes of a chunk.
const CHUNK: u64 = 16;
/// Rows of D that a warp has.
const ROWS: usize = 16;
/// The most columns of A.
const MOST_K: usize = 16;
/// The most columns of D.
const MOST_N: usize = 256;
/// Threads of a warpgroup.
const THREADS: u32 = 32 * WarpgroupProduct::WARPS;

/// A factor in shared memory.
#[derive(Clone, Copy)]
struct Matrix {
    start: u64,
    leading: u64,
    stride: u64,
    swizzle: Swizzle,
    along_mn: bool,
    /// Elements of a chunk.
    per_chunk: usize,
}

/// Elements of a factor that are neighbours in shared memory.
#[derive(Clone, Copy)]
struct Chunk {
    address: u64,
    /// Place of the first one along M or N, and along K.
    mn: usize,
    k: usize,
}

/// The factors of a product.
struct FactorMatrices {
    a: [[f32; MOST_K]; WarpgroupProduct::M as usize],
    b: [[f32; MOST_N]; MOST_K],
}

impl Matrix {
    /// What a descriptor says, or what is wrong with it.
    fn decode(
        descriptor: u64,
        product: &WarpgroupProduct,
        along_mn: bool,
    ) -> std::result::Result<Matrix, &'static str> {
        let field = |first: u32| (descriptor >> first & 0x3fff) * CHUNK;
        if descriptor >> 49 & 7 != 0 {
            return Err(
                "has a base offset (bits 49 to 51), which is not supported: let the matrix begin at a multiple of 1024",
            );
        }
        if descriptor & 0x3ff1_c000_c000_c000 != 0 {
            return Err("has bits set that must be zero: each field is (bytes & 0x3ffff) >> 4");
        }
        let swizzle =
            [Swizzle::None, Swizzle::Bytes128, Swizzle::Bytes64, Swizzle::Bytes32][(descriptor >> 62) as usize];
        let per_chunk = 4 * usize::from(product.factors.per_register());
        Ok(Matrix { start: field(0), leading: field(16), stride: field(32), swizzle, along_mn, per_chunk })
    }

    /// Where a chunk lies.
    fn address(&self, mn: usize, k: usize) -> u64 {
        let Matrix { start, leading, stride, swizzle, per_chunk, .. } = *self;
        let [mn, k, per_chunk] = [mn, k, per_chunk].map(|number| number as u64);
        let offset = match (self.along_mn, swizzle.span().map(u64::from)) {
            (false, Some(span)) => span * (mn % 8) + stride * (mn / 8) + CHUNK * (k / per_chunk),
            (false, None) => CHUNK * (mn % 8) + stride * (mn / 8) + leading * (k / per_chunk),
            (true, Some(span)) => {
                let (chunk, chunks) = (mn / per_chunk, span / CHUNK);
                CHUNK * (chunk % chunks) + leading * (chunk / chunks) + span * (k % 8) + stride * (k / 8)
            }
            (true, None) => stride * (mn / per_chunk) + CHUNK * (k % 8) + leading * (k / 8),
        };
        swizzle.apply(start + offset)
    }

    /// The chunks of some places along M or N, and of all `k` along K.
    fn chunks(&self, mn: std::ops::Range<usize>, k: usize) -> impl Iterator<Item = Chunk> + use<> {
        let matrix = *self;
        let (mn_step, k_step) = if self.along_mn { (self.per_chunk, 1) } else { (1, self.per_chunk) };
        mn.step_by(mn_step)
            .flat_map(move |mn| (0..k).step_by(k_step).map(move |k| Chunk { address: matrix.address(mn, k), mn, k }))
    }
}

impl<W: Watch> Executor<'_, W> {
    /// A warp comes to a product; gives the number of its warpgroup's barrier if it's the last.
    pub fn arrive_at_warpgroup(
        &mut self,
        warp: &mut Warp,
        index: usize,
        pc: u32,
        coordination: &mut Coordination,
    ) -> Result<Option<u32>> {
        let number = BARRIERS + warp.index / WarpgroupProduct::WARPS;
        let barrier = coordination.barrier(warp.rank, number);
        barrier.expected = THREADS;
        barrier.arrived += 32;
        let complete = barrier.arrived == THREADS;
        coordination.events += 1;
        warp.groups[index].pc = pc + 1;
        warp.groups[index].state = State::AtBarrier { number, kind: BarrierKind::Synchronize, destination: NONE };
        Ok(complete.then_some(number))
    }

    /// Takes down the registers of a warp, and whether a block can ever have as many as its warps have asked for.
    ///
    /// A thread begins with what a multiprocessor has for the block's threads, in eights (PTX ISA, `setmaxnreg`): more than that the block
    /// never gets, and who asks for it waits for ever. Warps that haven't asked yet may still give back all but the least.
    pub fn set_registers(&self, warp: &Warp, pc: u32, count: u32, coordination: &mut Coordination) -> Result<()> {
        const OF_A_MULTIPROCESSOR: u32 = 65_536;
        const LEAST: u32 = 24;
        let warps = self.launch.warps;
        coordination.registers.resize(coordination.copies.len(), 0);
        coordination.registers[warp.number as usize] = count;
        let own = (warp.rank * warps) as usize..((warp.rank + 1) * warps) as usize;
        let at_first = (OF_A_MULTIPROCESSOR / (32 * warps) / 8 * 8).min(255);
        let asked: u32 = coordination.registers[own].iter().map(|&own| if own == 0 { LEAST } else { own }).sum();
        if asked > warps * at_first {
            let kind = LaunchErrorKind::TooManyRegisters { asked: 32 * asked, present: 32 * warps * at_first };
            return self.fault(warp, ALL, pc, kind);
        }
        Ok(())
    }

    /// Computes the product that the four warps of a warpgroup have come to.
    pub fn warpgroup_product(&mut self, warps: &[Warp]) -> Result<()> {
        let at = |warp: &Warp| warp.groups.first().map_or(0, |group| group.pc - 1);
        let (first, pc) = (&warps[0], at(&warps[0]));
        if let Some(other) = warps.iter().find(|warp| at(warp) != pc) {
            let arrived = warps.iter().filter(|warp| at(warp) == pc).count() as u32;
            let others = format!("warp {} is at {}", other.index, self.describe(at(other)));
            return self.fault(first, ALL, pc, LaunchErrorKind::DivergentWarpgroup { arrived, others });
        }
        let Operation::WarpgroupProduct(product) = self.launch.program.code[pc as usize].operation else {
            unreachable!("warpgroups meet at products alone");
        };
        let a = match product.a {
            NONE => None,
            row => Some(self.matrix(warps, pc, &product, 'A', row)?),
        };
        let b = self.matrix(warps, pc, &product, 'B', product.b)?;
        let mut adds = [false; WarpgroupProduct::WARPS as usize];
        for (adds, warp) in adds.iter_mut().zip(warps) {
            // SAFETY: the decoder allocated the mask.
            let mask = unsafe { guard_mask(warp.predicates, product.adds) };
            if mask != 0 && mask != ALL {
                let others = "the lanes of a warp disagree whether D is added to".to_owned();
                return self.fault(warp, mask, pc, LaunchErrorKind::DivergentWarpgroup { arrived: 4, others });
            }
            *adds = mask != 0;
        }
        let k = usize::from(product.k());
        let a_chunks: Vec<Chunk> = a.iter().flat_map(|a| a.chunks(0..WarpgroupProduct::M.into(), k)).collect();
        let b_chunks: Vec<Chunk> = b.chunks(0..product.n.into(), k).collect();
        let size = u64::from(self.launch.shared_bytes);
        if let Some(outside) = a_chunks.iter().chain(&b_chunks).find(|chunk| chunk.address + CHUNK > size) {
            let (space, access, nearest) = (MemorySpace::Shared, AccessKind::Read, Nearest::Space { bytes: size });
            let address = outside.address;
            let kind = LaunchErrorKind::OutOfBounds { space, address, bytes: CHUNK as u32, access, nearest };
            return self.fault(first, ALL, pc, kind);
        }
        if W::ACTIVE {
            // Descriptors say where in the block's own shared memory.
            let own = self.own_window();
            let addresses = |chunks: &[Chunk]| chunks.iter().map(|chunk| own + chunk.address).collect::<Vec<u64>>();
            let (a, b) = (addresses(&a_chunks), addresses(&b_chunks));
            let place = self.place(first, pc);
            self.watch.observer().warpgroup_product(place, observe::WarpgroupProduct { a: &a, b: &b });
        }
        let lists = product.lists().map(|range| &self.launch.program.lists[range]);
        let shared = self.shared;
        let work = Work { product: &product, warps, lists, a: &a_chunks, b: &b_chunks, adds, shared };
        match self.level {
            // SAFETY: `Level::detected` found the features. The decoder allocated all registers, the warps belong to this
            // thread, and all chunks are inside of its shared memory.
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 | Level::Avx512 => unsafe { multiply_avx2(&work) },
            // SAFETY: as above.
            Level::Portable => unsafe { multiply(&work) },
        }
        Ok(())
    }

    /// The matrix whose descriptor all threads of a warpgroup have in a register.
    fn matrix(&self, warps: &[Warp], pc: u32, product: &WarpgroupProduct, matrix: char, row: u32) -> Result<Matrix> {
        // SAFETY: the decoder allocated two rows.
        let descriptors = |warp: &Warp| unsafe { read_wide_row(warp.rows, row) };
        let descriptor = descriptors(&warps[0])[0];
        let wrong = |warp: &Warp, problem: &'static str| {
            self.fault(warp, ALL, pc, LaunchErrorKind::MatrixDescriptor { matrix, descriptor, problem })
        };
        if let Some(warp) = warps.iter().find(|warp| descriptors(warp) != [descriptor; 32]) {
            return wrong(warp, "is not the same for all threads of the warpgroup");
        }
        let along_mn = product.along_mn[usize::from(matrix == 'B')];
        Matrix::decode(descriptor, product, along_mn).or_else(|problem| wrong(&warps[0], problem))
    }
}

/// What a product needs.
struct Work<'w> {
    product: &'w WarpgroupProduct,
    warps: &'w [Warp],
    /// Rows of D, of C and of A.
    lists: [&'w [u32]; 3],
    a: &'w [Chunk],
    b: &'w [Chunk],
    /// Of each warp, whether it has a C.
    adds: [bool; WarpgroupProduct::WARPS as usize],
    shared: *mut u8,
}

/// # Safety
/// As [`multiply`], and the processor must have the features.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn multiply_avx2(work: &Work<'_>) {
    // SAFETY: passed on to the caller.
    unsafe { multiply(work) }
}

/// # Safety
/// All registers must exist, nobody else may use the warps', and the chunks must be inside the shared memory.
#[inline(always)]
unsafe fn multiply(work: &Work<'_>) {
    let Work { product, warps, lists: [d, c, of_a], .. } = *work;
    let n = usize::from(product.n);
    let mut factors =
        Box::new(FactorMatrices { a: [[0.0; MOST_K]; WarpgroupProduct::M as usize], b: [[0.0; MOST_N]; MOST_K] });
    // SAFETY: passed on to the caller.
    unsafe {
        match product.factors {
            Factors::F16 => take_halves(work, &mut factors, f16_to_f32),
            Factors::BF16 => take_halves(work, &mut factors, |bits| f32::from_bits(u32::from(bits) << 16)),
            Factors::TF32 => take_words(work, &mut factors),
        }
        if !of_a.is_empty() {
            for (warp, a) in warps.iter().zip(factors.a.chunks_exact_mut(ROWS)) {
                take_registers(warp.rows, product.factors, of_a, a);
            }
        }
    }
    for (negated, rows) in product.negated.iter().zip([factors.a.as_flattened_mut(), factors.b.as_flattened_mut()]) {
        if *negated {
            rows.iter_mut().for_each(|element| *element = -*element);
        }
    }
    let mut sums = Box::new([[0.0f32; MOST_N]; ROWS]);
    for ((warp, a), adds) in warps.iter().zip(factors.a.chunks_exact(ROWS)).zip(work.adds) {
        if adds {
            for (number, register) in c.iter().enumerate() {
                // SAFETY: passed on to the caller.
                for (lane, bits) in unsafe { read_row(warp.rows, *register) }.into_iter().enumerate() {
                    let (row, column) = place_of_sum(lane, number);
                    sums[row][column] = f32::from_bits(bits);
                }
            }
        } else {
            sums.iter_mut().for_each(|row| row[..n].fill(0.0));
        }
        for (sums, a) in sums.iter_mut().zip(a) {
            for (a, b) in a[..usize::from(product.k())].iter().zip(&factors.b) {
                for (sum, b) in sums[..n].iter_mut().zip(&b[..n]) {
                    *sum = a.mul_add(*b, *sum);
                }
            }
        }
        for (number, register) in d.iter().enumerate() {
            let words = std::array::from_fn(|lane| {
                let (row, column) = place_of_sum(lane, number);
                let sum = sums[row][column];
                if sum.is_nan() { NAN.to_bits() } else { sum.to_bits() }
            });
            // SAFETY: passed on to the caller.
            unsafe { *warp.rows.add(*register as usize) = Row(words) };
        }
    }
}

/// Row, of a warp's, and column of an element of C or D.
#[inline(always)]
fn place_of_sum(lane: usize, register: usize) -> (usize, usize) {
    (lane / 4 + register / 2 % 2 * 8, register / 4 * 8 + lane % 4 * 2 + register % 2)
}

/// Takes factors of 16 bits from shared memory.
///
/// # Safety
/// As [`multiply`].
#[inline(always)]
unsafe fn take_halves(work: &Work<'_>, factors: &mut FactorMatrices, number: impl Fn(u16) -> f32) {
    let elements = |chunk: &Chunk| {
        let host = work.shared.wrapping_add(chunk.address as usize);
        // SAFETY: passed on to the caller; chunks are aligned to their size.
        let words = unsafe { [load::<8>(host), load::<8>(host.wrapping_add(8))] };
        std::array::from_fn::<f32, 8, _>(|index| number((words[index / 4] >> (16 * (index % 4))) as u16))
    };
    let [a_along_m, b_along_n] = work.product.along_mn;
    for chunk in work.a {
        for (index, element) in elements(chunk).into_iter().enumerate() {
            let (m, k) = if a_along_m { (chunk.mn + index, chunk.k) } else { (chunk.mn, chunk.k + index) };
            factors.a[m][k] = element;
        }
    }
    for chunk in work.b {
        let elements = elements(chunk);
        if b_along_n {
            factors.b[chunk.k][chunk.mn..chunk.mn + 8].copy_from_slice(&elements);
        } else {
            elements
                .into_iter()
                .enumerate()
                .for_each(|(index, element)| factors.b[chunk.k + index][chunk.mn] = element);
        }
    }
}

/// Takes factors of tf32 from shared memory, where they lie along K.
///
/// # Safety
/// As [`multiply`].
#[inline(always)]
unsafe fn take_words(work: &Work<'_>, factors: &mut FactorMatrices) {
    let elements = |chunk: &Chunk| {
        let host = work.shared.wrapping_add(chunk.address as usize);
        // SAFETY: passed on to the caller; chunks are aligned to their size.
        std::array::from_fn::<f32, 4, _>(|index| unsafe {
            f32::from_bits(load::<4>(host.wrapping_add(4 * index)) as u32 & TF32)
        })
    };
    for chunk in work.a {
        factors.a[chunk.mn][chunk.k..chunk.k + 4].copy_from_slice(&elements(chunk));
    }
    for chunk in work.b {
        let elements = elements(chunk).into_iter().enumerate();
        elements.for_each(|(index, element)| factors.b[chunk.k + index][chunk.mn] = element);
    }
}

/// Takes a warp's rows of A from its registers.
///
/// # Safety
/// All registers must exist.
#[inline(always)]
unsafe fn take_registers(rows: *const Row, factors: Factors, registers: &[u32], a: &mut [[f32; MOST_K]]) {
    for (number, register) in registers.iter().enumerate() {
        // SAFETY: passed on to the caller.
        for (lane, bits) in unsafe { read_row(rows, *register) }.into_iter().enumerate() {
            let row = lane / 4 + number % 2 * 8;
            match factors {
                Factors::TF32 => a[row][lane % 4 + number / 2 * 4] = f32::from_bits(bits & TF32),
                Factors::F16 | Factors::BF16 => {
                    let number_of = |half: u16| match factors {
                        Factors::F16 => f16_to_f32(half),
                        _ => f32::from_bits(u32::from(half) << 16),
                    };
                    let column = lane % 4 * 2 + number / 2 * 8;
                    a[row][column] = number_of(bits as u16);
                    a[row][column + 1] = number_of((bits >> 16) as u16);
                }
            }
        }
    }
}
