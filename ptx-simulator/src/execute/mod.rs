//! Runs programs: a launch spreads its blocks over the cores, a block runs its warps from barrier to barrier, a warp
//! runs groups of lanes that are at the same place.

mod access;
mod atomic;
mod block;
mod bulk;
mod collective;
mod coordination;
mod copies;
mod fault;
mod launch;
mod matrices;
mod mbarrier;
mod pattern;
mod products;
mod run;
#[cfg(test)]
mod tests;
mod warp;
mod warpgroup;

pub(crate) use access::lanes;
pub(crate) use fault::Fault;
pub(crate) use launch::Launch;
