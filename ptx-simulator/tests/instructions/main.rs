//! One test per family of PTX instructions, each against the same thing computed in Rust, edge values included.
//!
//! Where the PTX manual leaves a result open (division by zero, a NaN that becomes a whole number, which products
//! `.ftz` flushes), the expected values are those of an H200.

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
mod matrices;
mod matrix_products;
mod packed_integers;
mod rounding;
mod special_registers;
mod warps;
