//! Tensor maps: what a bulk copy needs to know of a tensor in global memory (PTX ISA, "Tensors", "Tensor-map").
//!
//! On a GPU the driver makes a tensor map (`cuTensorMapEncodeTiled`), and nobody else knows what its 128 bytes say. Here
//! [`TensorMap::encode`] makes it, of the same arguments and under the same conditions, for kernels that run on this
//! simulator and nowhere else.
//!
//! # Where the elements of a box go
//! A copy moves a *box*, as large as the map says, that begins at coordinates that the copy names. In shared memory the
//! box lies without gaps, the innermost dimension first. Then, if the map swizzles, bits of each byte's address are
//! changed by bits above them, in units of 16 bytes:
//!
//! ```text
//!   128 bytes   bits 4, 5, 6 ^= bits 7, 8, 9:  a row of 128 bytes has its eight chunks exchanged by the row's number mod 8
//!    64 bytes   bits 4, 5    ^= bits 7, 8
//!    32 bytes   bit  4       ^= bit  7
//! ```
//!
//! These are bits of the address itself, not of the offset in the box.

use std::fmt;

/// Bytes of a tensor map.
pub const TENSOR_MAP_BYTES: usize = 128;
/// What the address of a tensor map must be a multiple of.
pub(crate) const ALIGNMENT: u64 = 64;
/// Dimensions that a tensor can have.
pub(crate) const MOST_DIMENSIONS: usize = 5;
/// The first bytes of a tensor map.
const MARK: [u8; 8] = *b"tensor\x1fM";
/// Bytes that a swizzle moves together.
const CHUNK: u64 = 16;

/// The type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TensorElement {
    /// 8 bits.
    U8,
    /// 16 bits.
    U16,
    /// 32 bits.
    U32,
    /// 64 bits.
    U64,
    /// IEEE half precision.
    F16,
    /// The upper half of an `f32`.
    BF16,
    /// Single precision.
    F32,
    /// Double precision.
    F64,
    /// Single precision, which copies into shared memory round to the nearest with 11 bits of significand, halfway to even.
    TF32,
}

impl TensorElement {
    const ALL: [TensorElement; 9] = [
        TensorElement::U8,
        TensorElement::U16,
        TensorElement::U32,
        TensorElement::U64,
        TensorElement::F16,
        TensorElement::BF16,
        TensorElement::F32,
        TensorElement::F64,
        TensorElement::TF32,
    ];

    /// Bytes of an element.
    pub fn bytes(self) -> u32 {
        match self {
            TensorElement::U8 => 1,
            TensorElement::U16 | TensorElement::F16 | TensorElement::BF16 => 2,
            TensorElement::U32 | TensorElement::F32 | TensorElement::TF32 => 4,
            TensorElement::U64 | TensorElement::F64 => 8,
        }
    }
}

/// How addresses in shared memory are changed so that the chunks of a column lie in different banks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Swizzle {
    /// Not at all.
    #[default]
    None,
    /// Chunks of 16 bytes within 32.
    Bytes32,
    /// Within 64.
    Bytes64,
    /// Within 128.
    Bytes128,
}

impl Swizzle {
    const ALL: [Swizzle; 4] = [Swizzle::None, Swizzle::Bytes32, Swizzle::Bytes64, Swizzle::Bytes128];

    /// The bytes within which chunks are exchanged; `None` without a swizzle.
    pub fn span(self) -> Option<u32> {
        match self {
            Swizzle::None => None,
            Swizzle::Bytes32 => Some(32),
            Swizzle::Bytes64 => Some(64),
            Swizzle::Bytes128 => Some(128),
        }
    }

    /// Where what would be at an address lies.
    #[inline(always)]
    pub(crate) fn apply(self, address: u64) -> u64 {
        let keep = match self {
            Swizzle::None => return address,
            Swizzle::Bytes32 => 1,
            Swizzle::Bytes64 => 3,
            Swizzle::Bytes128 => 7,
        };
        address ^ ((address >> 7 & keep) * CHUNK)
    }
}

/// A tensor, and the boxes that copies move of it. The arguments of `cuTensorMapEncodeTiled`; elements out of bounds are
/// zeros, neighbours in a box are neighbours in the tensor, and nothing is interleaved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorMapLayout {
    /// Type of the elements.
    pub element: TensorElement,
    /// Address in global memory, a multiple of 16.
    pub address: u64,
    /// Elements in each dimension, the innermost first: 1 to 2^32 in each of 1 to 5 dimensions.
    pub sizes: Vec<u64>,
    /// Bytes from an element to the next one in each dimension but the innermost, where elements have no gaps: multiples
    /// of 16, below 2^40.
    pub strides: Vec<u64>,
    /// Elements of a box in each dimension: 1 to 256. Those of the innermost have a multiple of 16 bytes, and no more than
    /// the swizzle's span.
    pub box_sizes: Vec<u32>,
    /// How the box lies in shared memory.
    pub swizzle: Swizzle,
}

/// A tensor map that can't be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TensorMapError {
    /// A number of dimensions that no tensor map has.
    #[error("a tensor of {dimensions} dimensions is not possible: 1 to 5 are")]
    Dimensions {
        /// Dimensions asked for.
        dimensions: usize,
    },
    /// Strides or box sizes that aren't as many as the dimensions need.
    #[error("a tensor of {dimensions} dimensions needs {expected} {what}, got {got}")]
    Count {
        /// `strides` or `box sizes`.
        what: &'static str,
        /// Dimensions of the tensor.
        dimensions: usize,
        /// How many there must be.
        expected: usize,
        /// How many there are.
        got: usize,
    },
    /// An address that isn't aligned.
    #[error("the tensor's address {address:#x} must be a multiple of 16")]
    Address {
        /// The address.
        address: u64,
    },
    /// A size that's zero or too large.
    #[error("dimension {dimension} of {size} elements is not possible: sizes are 1 to 2^32")]
    Size {
        /// The dimension, 0 for the innermost.
        dimension: usize,
        /// Its size.
        size: u64,
    },
    /// A stride that isn't aligned, or too large.
    #[error("the stride of {stride} bytes in dimension {dimension} must be a multiple of 16 below 2^40")]
    Stride {
        /// The dimension, at least 1.
        dimension: usize,
        /// Its stride.
        stride: u64,
    },
    /// A box that's empty or too large.
    #[error("a box of {size} elements in dimension {dimension} is not possible: 1 to 256 are")]
    Box {
        /// The dimension, 0 for the innermost.
        dimension: usize,
        /// The box's size there.
        size: u32,
    },
    /// Rows of a box that aren't whole chunks.
    #[error("the {bytes} bytes of a box in the innermost dimension must be a multiple of 16")]
    Row {
        /// Bytes of a row.
        bytes: u32,
    },
    /// Rows of a tensor that stores would write beyond.
    #[error(
        "the {bytes} bytes of a line must be a multiple of 16, since a copy to it writes whole chunks of 16 bytes and would write beyond"
    )]
    PartialChunk {
        /// Bytes of a row.
        bytes: u64,
    },
    /// Rows of a box that are longer than a swizzle allows.
    #[error(
        "the {bytes} bytes of a box in the innermost dimension are more than the {span} that the swizzle exchanges"
    )]
    Span {
        /// Bytes of a row.
        bytes: u32,
        /// The swizzle's span.
        span: u32,
    },
}

/// A tensor map as kernels of the simulator take it: a parameter of 128 bytes, at a multiple of 64.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TensorMap([u8; TENSOR_MAP_BYTES]);

impl fmt::Debug for TensorMap {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("TensorMap").field(&Tensor::decode(&self.0)).finish()
    }
}

impl TensorMap {
    /// Makes the map of a tensor.
    ///
    /// # Errors
    /// [`TensorMapError`] for what `cuTensorMapEncodeTiled` refuses, too. Whether there is any memory at the address is
    /// found out by the copies.
    pub fn encode(layout: &TensorMapLayout) -> Result<TensorMap, TensorMapError> {
        let TensorMapLayout { element, address, sizes, strides, box_sizes, swizzle } = layout;
        let dimensions = sizes.len();
        if !(1..=MOST_DIMENSIONS).contains(&dimensions) {
            return Err(TensorMapError::Dimensions { dimensions });
        }
        for (what, expected, got) in
            [("strides", dimensions - 1, strides.len()), ("box sizes", dimensions, box_sizes.len())]
        {
            if expected != got {
                return Err(TensorMapError::Count { what, dimensions, expected, got });
            }
        }
        if !address.is_multiple_of(CHUNK) {
            return Err(TensorMapError::Address { address: *address });
        }
        if let Some(dimension) = sizes.iter().position(|size| !(1..=1 << 32).contains(size)) {
            return Err(TensorMapError::Size { dimension, size: sizes[dimension] });
        }
        if let Some(index) = strides.iter().position(|stride| !stride.is_multiple_of(CHUNK) || *stride >= 1 << 40) {
            return Err(TensorMapError::Stride { dimension: index + 1, stride: strides[index] });
        }
        if let Some(dimension) = box_sizes.iter().position(|size| !(1..=256).contains(size)) {
            return Err(TensorMapError::Box { dimension, size: box_sizes[dimension] });
        }
        let bytes = box_sizes[0] * element.bytes();
        if !bytes.is_multiple_of(CHUNK as u32) {
            return Err(TensorMapError::Row { bytes });
        }
        if let Some(span) = swizzle.span().filter(|span| bytes > *span) {
            return Err(TensorMapError::Span { bytes, span });
        }
        Ok(TensorMap(Tensor::of(layout).encode()))
    }

    /// The bytes of the kernel's parameter.
    pub fn bytes(&self) -> [u8; TENSOR_MAP_BYTES] {
        self.0
    }
}

/// What a tensor map says, with as many dimensions as there can be: those that aren't there have a size and a box of 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tensor {
    pub element: TensorElement,
    pub dimensions: usize,
    pub address: u64,
    pub sizes: [u64; MOST_DIMENSIONS],
    /// In bytes; the first one is an element's.
    pub strides: [u64; MOST_DIMENSIONS],
    pub box_sizes: [u32; MOST_DIMENSIONS],
    pub swizzle: Swizzle,
}

impl Tensor {
    fn of(layout: &TensorMapLayout) -> Tensor {
        let mut tensor = Tensor {
            element: layout.element,
            dimensions: layout.sizes.len(),
            address: layout.address,
            sizes: [1; MOST_DIMENSIONS],
            strides: [0; MOST_DIMENSIONS],
            box_sizes: [1; MOST_DIMENSIONS],
            swizzle: layout.swizzle,
        };
        tensor.strides[0] = u64::from(layout.element.bytes());
        tensor.sizes[..layout.sizes.len()].copy_from_slice(&layout.sizes);
        tensor.strides[1..=layout.strides.len()].copy_from_slice(&layout.strides);
        tensor.box_sizes[..layout.box_sizes.len()].copy_from_slice(&layout.box_sizes);
        tensor
    }

    /// Bytes of a box in shared memory.
    pub fn box_bytes(&self) -> u32 {
        self.box_sizes.iter().product::<u32>() * self.element.bytes()
    }

    fn encode(&self) -> [u8; TENSOR_MAP_BYTES] {
        let position = |found: Option<usize>| found.unwrap_or(0) as u8;
        let element = position(TensorElement::ALL.iter().position(|element| *element == self.element));
        let swizzle = position(Swizzle::ALL.iter().position(|swizzle| *swizzle == self.swizzle));
        let mut bytes = Vec::with_capacity(TENSOR_MAP_BYTES);
        bytes.extend(MARK);
        bytes.extend([element, swizzle, self.dimensions as u8]);
        // Box sizes and sizes are at least 1, so that 2^8 and 2^32 fit.
        bytes.extend(self.box_sizes.map(|size| (size - 1) as u8));
        bytes.extend(self.sizes.iter().flat_map(|size| ((size - 1) as u32).to_le_bytes()));
        bytes.extend(self.address.to_le_bytes());
        bytes.extend(self.strides.iter().flat_map(|stride| stride.to_le_bytes()));
        bytes.resize(TENSOR_MAP_BYTES, 0);
        bytes.try_into().expect("the fields have fewer bytes")
    }

    /// What 128 bytes say, if they're a tensor map.
    pub fn decode(bytes: &[u8; TENSOR_MAP_BYTES]) -> Option<Tensor> {
        let (mark, rest) = bytes.split_at(MARK.len());
        let (&[element, swizzle, dimensions], rest) = rest.split_first_chunk()?;
        let (box_sizes, rest) = rest.split_first_chunk::<MOST_DIMENSIONS>()?;
        let (sizes, rest) = rest.split_at_checked(4 * MOST_DIMENSIONS)?;
        let (address, rest) = rest.split_first_chunk()?;
        let (strides, rest) = rest.split_at_checked(8 * MOST_DIMENSIONS)?;
        if mark != MARK || rest.iter().any(|byte| *byte != 0) {
            return None;
        }
        let size = |index: usize| Some(u64::from(u32::from_le_bytes(*sizes[4 * index..].first_chunk()?)) + 1);
        let stride = |index: usize| Some(u64::from_le_bytes(*strides[8 * index..].first_chunk()?));
        let mut tensor = Tensor {
            element: *TensorElement::ALL.get(usize::from(element))?,
            dimensions: usize::from(dimensions),
            address: u64::from_le_bytes(*address),
            sizes: [1; MOST_DIMENSIONS],
            strides: [0; MOST_DIMENSIONS],
            box_sizes: box_sizes.map(|size| u32::from(size) + 1),
            swizzle: *Swizzle::ALL.get(usize::from(swizzle))?,
        };
        for index in 0..MOST_DIMENSIONS {
            (tensor.sizes[index], tensor.strides[index]) = (size(index)?, stride(index)?);
        }
        Some(tensor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> TensorMapLayout {
        TensorMapLayout {
            element: TensorElement::BF16,
            address: 0x10_0000_0100,
            sizes: vec![64, 1 << 32, 3],
            strides: vec![1 << 39, 128],
            box_sizes: vec![64, 256, 2],
            swizzle: Swizzle::Bytes128,
        }
    }

    #[test]
    fn a_map_says_what_it_was_made_of() {
        let map = TensorMap::encode(&layout()).unwrap();
        let tensor = Tensor::decode(&map.bytes()).unwrap();
        assert_eq!(tensor, Tensor::of(&layout()));
        assert_eq!((tensor.box_bytes(), tensor.dimensions), (64 * 256 * 2 * 2, 3));
    }

    #[test]
    fn other_bytes_are_no_map() {
        assert_eq!(Tensor::decode(&[0; 128]), None);
        assert_eq!(Tensor::decode(&[0xff; 128]), None);
        let mut bytes = TensorMap::encode(&layout()).unwrap().bytes();
        bytes[8] = 200;
        assert_eq!(Tensor::decode(&bytes), None);
    }

    #[test]
    fn what_the_driver_refuses_is_refused_by_name() {
        let error = |change: fn(&mut TensorMapLayout)| {
            let mut layout = layout();
            change(&mut layout);
            TensorMap::encode(&layout).unwrap_err()
        };
        assert_eq!(error(|layout| layout.sizes.clear()), TensorMapError::Dimensions { dimensions: 0 });
        assert_eq!(error(|layout| layout.sizes = vec![1; 6]), TensorMapError::Dimensions { dimensions: 6 });
        assert_eq!(
            error(|layout| layout.strides.truncate(1)),
            TensorMapError::Count { what: "strides", dimensions: 3, expected: 2, got: 1 }
        );
        assert_eq!(
            error(|layout| layout.box_sizes.push(1)),
            TensorMapError::Count { what: "box sizes", dimensions: 3, expected: 3, got: 4 }
        );
        assert_eq!(error(|layout| layout.address += 8), TensorMapError::Address { address: 0x10_0000_0108 });
        assert_eq!(error(|layout| layout.sizes[2] = 0), TensorMapError::Size { dimension: 2, size: 0 });
        assert_eq!(error(|layout| layout.strides[1] = 24), TensorMapError::Stride { dimension: 2, stride: 24 });
        assert_eq!(
            error(|layout| layout.strides[0] = 1 << 40),
            TensorMapError::Stride { dimension: 1, stride: 1 << 40 }
        );
        assert_eq!(error(|layout| layout.box_sizes[1] = 257), TensorMapError::Box { dimension: 1, size: 257 });
        assert_eq!(error(|layout| layout.box_sizes[0] = 12), TensorMapError::Row { bytes: 24 });
        assert_eq!(error(|layout| layout.box_sizes[0] = 128), TensorMapError::Span { bytes: 256, span: 128 });
    }

    #[test]
    fn swizzles_exchange_chunks_within_their_span() {
        for (swizzle, span) in [(Swizzle::Bytes32, 32), (Swizzle::Bytes64, 64), (Swizzle::Bytes128, 128)] {
            for row in 0..16 {
                let mut chunks: Vec<u64> = (0..8).map(|chunk| swizzle.apply(row * 128 + chunk * 16 + 5)).collect();
                for (chunk, address) in chunks.iter().enumerate() {
                    assert_eq!(address / span, (row * 128 + chunk as u64 * 16) / span);
                    let want = chunk as u64 ^ (row % (span / 16));
                    assert_eq!(address % 128, want * 16 + 5);
                }
                chunks.sort_unstable();
                chunks.dedup();
                assert_eq!(chunks.len(), 8);
            }
        }
        assert_eq!(Swizzle::None.apply(0x3f7), 0x3f7);
    }
}
