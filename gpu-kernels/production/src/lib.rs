//! # The production kernels
//!
//! What the lessons of `gpu-kernels` lead to, for any product: one generic body, [`pipelined`], and an entry for every
//! shape of tile that is worth having, in [`entries`]. [`reduce`] adds up what splits of K have left, and [`pack`] makes
//! f32 of 16-bit matrices.
//!
//! Read [`shape`] for what distinguishes one kernel from another, [`operand`] for how A and B come into shared memory,
//! then [`pipelined`]; [`block_order`] and [`output`] are its first and its last lines.

#![no_std]
// Arrays live in registers only if every loop over them is unrolled, and LLVM does that for loops over numbers.
#![allow(clippy::needless_range_loop)]

pub mod block_order;
pub mod entries;
pub mod operand;
pub mod output;
pub mod pack;
pub mod pipelined;
pub mod reduce;
pub mod shape;

pub use entries::{Family, FAMILIES};
pub use operand::Copying;
