//! Runs programs: a launch spreads its clusters over the cores, each of one block unless the kernel says otherwise; a
//! cluster runs the warps of its blocks from barrier to barrier, a warp runs groups of lanes that are at the same place.

mod access;
mod async_stores;
mod atomic;
mod bulk;
mod cluster;
mod cluster_barrier;
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
