//! What a general product is: everything that BLAS's `sgemm` can be asked for.

use crate::vectors;

/// C = alpha op(A) op(B) + beta C for a batch of products, as the one parameter of a kernel of
/// [`Signature::Call`](crate::launch::Signature::Call).
///
/// Sizes and distances are in elements. A's element (i, p) lies at `a[i * a_row + p * a_column]` and B's (p, j) at
/// `b[p * b_row + j * b_column]`, so that a transpose is an exchange of two distances. C is row-major: (i, j) lies at
/// `c[i * c_row + j]`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// A, m x k: of the first product, and the others lie `a_batch` apart.
    pub a: *const f32,
    /// B, k x n: of the first product, and the others lie `b_batch` apart.
    pub b: *const f32,
    /// C, m x n: of the first product, and the others lie `c_batch` apart.
    pub c: *mut f32,
    /// Where the A of each product lies, instead of `a`, if it isn't null.
    pub a_list: *const *const f32,
    /// Where the B of each product lies, instead of `b`, if it isn't null.
    pub b_list: *const *const f32,
    /// Where the C of each product lies, instead of `c`, if it isn't null.
    pub c_list: *const *mut f32,
    /// Where the splits of K leave their sums: for each product of the batch, and for each split, m x n sums without
    /// gaps. Not used where there is one split.
    pub workspace: *mut f32,
    /// From a row of A to the next.
    pub a_row: u64,
    /// From a column of A to the next.
    pub a_column: u64,
    /// From a row of B to the next.
    pub b_row: u64,
    /// From a column of B to the next.
    pub b_column: u64,
    /// From a row of C to the next.
    pub c_row: u64,
    /// From one product's A to the next one's; 0 if they share it.
    pub a_batch: u64,
    /// From one product's B to the next one's; 0 if they share it.
    pub b_batch: u64,
    /// From one product's C to the next one's.
    pub c_batch: u64,
    /// Rows of C.
    pub m: u32,
    /// Columns of C.
    pub n: u32,
    /// The inner dimension.
    pub k: u32,
    /// How much of the inner dimension each split takes, the last one perhaps less. The kernel that adds up the splits
    /// gets their number here.
    pub k_per_split: u32,
    /// Rows of tiles in a group, at least 1: a group's blocks start before the next group's.
    pub group: u32,
    /// The factor of the product.
    pub alpha: f32,
    /// The factor of what C holds. With 0, C isn't read.
    pub beta: f32,
    /// Nothing: it makes the size a multiple of 8 bytes without padding.
    pub reserved: u32,
}

/// C = alpha A B + beta C for a batch of products of matrices that have tensor maps, as the last parameter of a kernel of
/// [`Signature::MappedCall`](crate::launch::Signature::MappedCall). Sizes and distances are in elements.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TensorCall {
    /// The address of C, m x n, row-major: of the first product's first split.
    pub c: u64,
    /// From a row of C to the next.
    pub c_row: u64,
    /// From one product's C to the next one's, or, where K is split, from one split's C to the next one's: all of a product follow each other.
    pub c_batch: u64,
    /// Rows of C.
    pub m: u32,
    /// Columns of C.
    pub n: u32,
    /// The inner dimension, which isn't 0.
    pub k: u32,
    /// How much of the inner dimension each split takes, the last one perhaps less; none is empty.
    pub k_per_split: u32,
    /// Splits of the inner dimension, at least 1. With more than one, each has a C of its own.
    pub splits: u32,
    /// Products.
    pub batch: u32,
    /// Rows of tiles in a group, at least 1: a group's tiles are computed before the next group's.
    pub group: u32,
    /// The factor of the product.
    pub alpha: f32,
    /// The factor of what C holds. With 0, C isn't read.
    pub beta: f32,
    /// 1 if C has a tensor map. If not, its parameter is some other matrix's.
    pub c_is_mapped: u32,
    /// 1 if C has the elements of A and B, which have 16 bits, instead of f32.
    pub c_is_half: u32,
    /// Of factors in parts, the number of flags that say whether something is suspect.
    pub flags: u32,
    /// How many neighbours along k tensor cores sum up, 64 or 16, before their sum is added to the others in f32; 0 if all.
    /// Only kernels with 16-bit factors and tiles of up to 128 columns know it.
    pub longest_sum: u32,
    /// Nothing: it makes the size a multiple of 8 bytes without padding.
    pub reserved: u32,
}

impl Call {
    /// Where A, B and C of one product of the batch lie.
    ///
    /// # Safety
    ///
    /// `product` must be in the batch, and lists that aren't null have an address for it.
    #[inline(always)]
    pub unsafe fn matrices(&self, product: u32) -> (*const f32, *const f32, *mut f32) {
        let (at, apart) = (product as u64, |elements: u64| (product as u64 * elements) as usize);
        // A pointer that came in a struct could point to any memory, as far as the compiler knows: it is told which.
        let listed = |list: u64| vectors::load_global_address(list + 8 * at) as usize;
        (
            if self.a_list.is_null() {
                self.a.wrapping_add(apart(self.a_batch))
            } else {
                listed(self.a_list as u64) as *const f32
            },
            if self.b_list.is_null() {
                self.b.wrapping_add(apart(self.b_batch))
            } else {
                listed(self.b_list as u64) as *const f32
            },
            if self.c_list.is_null() {
                self.c.wrapping_add(apart(self.c_batch))
            } else {
                listed(self.c_list as u64) as *mut f32
            },
        )
    }

    /// Where C of one product of the batch lies, if its elements have so many bytes.
    ///
    /// # Safety
    ///
    /// As for [`matrices`](Call::matrices).
    #[inline(always)]
    pub unsafe fn c_address(&self, product: u32, bytes: u32) -> u64 {
        match self.c_list as u64 {
            0 => self.c as u64 + bytes as u64 * product as u64 * self.c_batch,
            list => vectors::load_global_address(list + 8 * product as u64),
        }
    }
}
