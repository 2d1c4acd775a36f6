//! One test per family of PTX instructions, each against the same thing computed in Rust, edge values included.
//!
//! The expected values were also compared with what an H200 gives for the same PTX text.

#[path = "../support/mod.rs"]
mod support;

mod address_patterns;
mod address_spaces;
mod atomics;
mod barriers;
mod bits;
mod comparisons;
mod control_flow;
mod conversions;
mod floats;
mod functions;
mod halves;
mod integers;
mod loads_and_stores;
mod packed_integers;
mod rounding;
mod special_registers;
mod warps;
