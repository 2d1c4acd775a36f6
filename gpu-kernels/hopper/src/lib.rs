//! # The production kernels for Hopper's tensor cores
//!
//! One generic body, [`pipelined`], for any product whose matrices a tensor map can describe, and an entry for every width of tile, type and
//! layout in [`entries`].
//!
//! Read [`shape`] for what distinguishes one kernel from another, then [`pipelined`]; [`output`] is its last lines, and [`turned`] how factors of tf32
//! are multiplied that lie across k. Products as exact as f32's begin
//! with [`split`] and go on in [`parts`], which, where that isn't enough, turns to [`ieee`].

#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(asm_experimental_arch))]
// Arrays live in registers only if every loop over them is unrolled, and LLVM does that for loops over numbers.
#![allow(clippy::needless_range_loop)]

pub mod entries;
pub mod ieee;
pub mod output;
pub mod pack;
pub mod parts;
pub mod pipelined;
pub mod reduce;
pub mod shape;
pub mod split;
pub mod turned;

pub use entries::{family_of, Family, FAMILIES};
