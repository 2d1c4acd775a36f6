//! Is there memory for a product? Asked before anything is made.

use anyhow::ensure;
use host::{device::available_memory, verify};

/// Bytes of host memory per element of A, B and C: f32, once here and once on the simulator.
const BYTES_PER_ELEMENT: u128 = 2 * 4;

/// Whether there is host memory for the matrices of an `m` x `n` product with inner dimension `k`, the reference that
/// it's compared with, and `further` bytes for each element of the matrices.
pub fn ensure_product_fits([m, n, k]: [usize; 3], further: u128) -> anyhow::Result<()> {
    let elements = |rows: usize, columns: usize| rows as u128 * columns as u128;
    let all = elements(m, k).saturating_add(elements(k, n)).saturating_add(elements(m, n));
    let matrices = all.saturating_mul(BYTES_PER_ELEMENT + further);
    let needed = matrices.saturating_add(verify::reference_bytes(m, n, k));
    let available = available_memory();
    ensure!(
        needed <= u128::from(available),
        "a {m} x {n} product with K = {k} needs {needed} bytes of host memory, and {available} are available; choose smaller sizes"
    );
    Ok(())
}
