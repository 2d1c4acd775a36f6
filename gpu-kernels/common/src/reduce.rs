//! The second half of a split product: adding up.
//!
//! Where C has few tiles and K is long, several blocks share a tile, each with its split of K ([`Call::k_per_split`]), and
//! leave their sums in the workspace. This kernel adds those up, always in the same order, so that the same product has
//! the same bits every time, and applies alpha and beta. (Adding to C with atomics would need no second kernel, and
//! give other bits every time.)

use cuda_std::*;

use crate::elements::Element;
use crate::launch::{Architecture, Kernel, LaunchShape, Precision, Registers, Signature, Tile};
use crate::{vectors, Call};

/// Threads of a block.
pub const THREADS: usize = 256;

/// How a kernel that adds up splits is described, by its entry's name.
pub const fn kernel(name: &'static str, architecture: Architecture) -> Kernel {
    Kernel {
        name,
        title: "the sums of all splits of K, added up",
        entry: name,
        architecture,
        precision: Precision::F32,
        signature: Signature::Call,
        tile: Tile { m: 1, n: THREADS as u32, k: 1 },
        block: [THREADS as u32, 1, 1],
        registers: Registers::Any,
        shared_bytes: (THREADS * size_of::<f32>()) as u32,
        launch_shape: |_, _, _| None,
    }
}

/// The launch for an `m` x `n` matrix C and so many splits, of one product of a batch.
///
/// A thread adds up every h-th split of an element, and the first of h threads adds up those sums. More threads for an
/// element where there are few elements and many splits: h is the largest power of 2 up to 8 and the number of splits,
/// as long as there are less than 2^20 threads.
pub fn launch_shape(m: usize, n: usize, splits: u32) -> Option<LaunchShape> {
    let elements = m as u64 * n as u64;
    let mut high = 1;
    while high < 8 && high * 2 <= splits && elements * (high as u64) < 1 << 20 {
        high *= 2;
    }
    let wide = THREADS as u32 / high;
    let grid = u32::try_from(elements.div_ceil(wide as u64)).ok().filter(|&blocks| blocks > 0 && blocks < 1 << 31)?;
    Some(LaunchShape { grid: [grid, 1, 1], block: [wide, high, 1], dynamic_shared_bytes: 0 })
}

/// C = alpha (the sum of the splits' matrices in the workspace) + beta C; with 0 splits C = beta C. C has elements of `C`.
///
/// # Safety
///
/// `call` must describe a C and a workspace that the GPU can reach, with the number of splits in `k_per_split`, and the
/// launch must have the shape that [`launch_shape`] gives, with the products of the batch along z. `partial` must be [`THREADS`] words of shared memory.
#[inline(always)]
pub unsafe fn add_up<C: Element>(call: &Call, partial: *mut f32) {
    let (x, y) = (thread::thread_idx_x(), thread::thread_idx_y());
    let (wide, high) = (thread::block_dim_x(), thread::block_dim_y());
    let product = thread::block_idx_z();
    let splits = call.k_per_split;
    let elements = call.m as u64 * call.n as u64;
    let element = thread::block_idx_x() as u64 * wide as u64 + x as u64;

    let mut sum = 0.0;
    if element < elements {
        let sums = call.workspace as u64 + (product as u64 * splits as u64 * elements + element) * 4;
        let load = |split: u32| vectors::load_global_word(sums + split as u64 * elements * 4);
        let mut split = y;
        // Four at a time, so that their loads are on their way together.
        while split + 3 * high < splits {
            let four = [load(split), load(split + high), load(split + 2 * high), load(split + 3 * high)];
            for i in 0..4 {
                sum += four[i];
            }
            split += 4 * high;
        }
        while split < splits {
            sum += load(split);
            split += high;
        }
    }
    if high > 1 {
        *partial.add((y * wide + x) as usize) = sum;
        thread::sync_threads();
        if y == 0 {
            for other in 1..high {
                sum += *partial.add((other * wide + x) as usize);
            }
        }
    }
    if y == 0 && element < elements {
        // The host launches nothing for an empty C; without the promise, the division comes with a panic.
        core::hint::assert_unchecked(call.n != 0);
        let (row, column) = (element / call.n as u64, element % call.n as u64);
        let address = call.c_address(product, C::BYTES) + (row * call.c_row + column) * C::BYTES as u64;
        let mut value = call.alpha * sum;
        if call.beta != 0.0 {
            value = C::load_global(address).mul_add(call.beta, value);
        }
        C::store_global(address, value);
    }
}
