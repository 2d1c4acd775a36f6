//! # The production kernels for Hopper's tensor cores
//!
//! One generic body, [`pipelined`], for any product whose matrices a tensor map can describe, and an entry for every width of tile, type and
//! layout in [`entries`].
//!
//! Read [`shape`] for what distinguishes one kernel from another, then [`pipelined`]; [`output`] is its last lines.

#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(asm_experimental_arch))]

pub mod entries;
pub mod ieee;
pub mod output;
pub mod parts;
pub mod pipelined;
pub mod shape;
pub mod split;

pub use entries::{family_of, Family, FAMILIES};
