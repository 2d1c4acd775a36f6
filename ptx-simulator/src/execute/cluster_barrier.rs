//! The barrier of a cluster, `barrier.cluster` (PTX ISA, "Parallel Synchronization and Communication Instructions:
//! barrier.cluster"): arriving and waiting are two instructions, and threads that have exited aren't waited for.

use super::cluster::Cluster;
use super::coordination::Coordination;
use super::run::{Executor, Result};
use super::warp::{State, Warp};
use crate::error::{ClusterBarrierProblem, LaunchErrorKind};
use crate::observe::Watch;

/// Where each thread of the cluster is between an arrival and its wait: a mask of lanes for each warp.
pub(super) struct ClusterBarrier {
    /// Those that have arrived in the phase at hand.
    arrived: Vec<u32>,
    /// Those that have arrived in a phase that is complete, and haven't waited yet.
    complete: Vec<u32>,
    /// Somebody has arrived or exited since completeness was looked at.
    changed: bool,
}

impl ClusterBarrier {
    pub fn new(warps: u32) -> Self {
        ClusterBarrier { arrived: vec![0; warps as usize], complete: vec![0; warps as usize], changed: false }
    }

    pub fn restart(&mut self) {
        self.arrived.fill(0);
        self.complete.fill(0);
        self.changed = false;
    }

    /// Threads have exited.
    pub fn exited(&mut self) {
        self.changed = true;
    }

    /// Threads that have arrived in the phase at hand.
    pub fn arrivals(&self) -> u32 {
        self.arrived.iter().map(|lanes| lanes.count_ones()).sum()
    }
}

impl<W: Watch> Executor<'_, W> {
    /// Lanes arrive at the cluster's barrier.
    pub fn arrive_at_cluster(
        &mut self,
        warp: &Warp,
        pc: u32,
        active: u32,
        releases: bool,
        coordination: &mut Coordination,
    ) -> Result<()> {
        let (barrier, number) = (&mut coordination.cluster_barrier, warp.number as usize);
        let again = active & (barrier.arrived[number] | barrier.complete[number]);
        if again != 0 {
            return self.fault(warp, again, pc, LaunchErrorKind::ClusterBarrier(ClusterBarrierProblem::ArrivedTwice));
        }
        barrier.arrived[number] |= active;
        barrier.changed = true;
        coordination.events += 1;
        if W::ACTIVE {
            let place = self.place(warp, pc);
            self.watch.observer().cluster_barrier_arrives(place, active, releases);
        }
        Ok(())
    }

    /// Lanes wait at the cluster's barrier: those whose phase isn't complete yet have to.
    pub fn wait_for_cluster(
        &mut self,
        warp: &mut Warp,
        index: usize,
        pc: u32,
        active: u32,
        coordination: &mut Coordination,
    ) -> Result<()> {
        let (barrier, number) = (&mut coordination.cluster_barrier, warp.number as usize);
        let strangers = active & !(barrier.arrived[number] | barrier.complete[number]);
        if strangers != 0 {
            return self.fault(warp, strangers, pc, LaunchErrorKind::ClusterBarrier(ClusterBarrierProblem::NotArrived));
        }
        let through = active & barrier.complete[number];
        barrier.complete[number] &= !through;
        if W::ACTIVE && through != 0 {
            let place = self.place(warp, pc);
            self.watch.observer().cluster_barrier_waited(place, through);
        }
        let waiting = active & !through;
        warp.groups[index].pc = pc + 1;
        if waiting == warp.groups[index].mask {
            warp.groups[index].state = State::AtClusterBarrier;
        } else if waiting != 0 {
            warp.split(index, waiting, pc + 1, State::AtClusterBarrier);
        }
        Ok(())
    }

    /// Lets the threads go on that wait at the cluster's barrier, if nobody is missing any more.
    pub fn release_cluster(&mut self, cluster: &mut Cluster) {
        let barrier = &mut cluster.coordination.cluster_barrier;
        if !std::mem::take(&mut barrier.changed) {
            return;
        }
        let missing = cluster.warps.iter().zip(&barrier.arrived).any(|(warp, arrived)| warp.live & !arrived != 0);
        if missing || barrier.arrived.iter().all(|lanes| *lanes == 0) {
            return;
        }
        cluster.coordination.events += 1;
        if W::ACTIVE {
            self.watch.observer().cluster_barrier_completes(cluster.blocks[0]);
        }
        for warp in &mut cluster.warps {
            let number = warp.number as usize;
            barrier.complete[number] |= std::mem::take(&mut barrier.arrived[number]);
            for group in warp.groups.iter_mut().filter(|group| group.state == State::AtClusterBarrier) {
                group.state = State::Runnable;
                barrier.complete[number] &= !group.mask;
                if W::ACTIVE {
                    let place = crate::observe::Place {
                        block: cluster.blocks[warp.rank as usize],
                        warp: warp.index,
                        instruction: group.pc - 1,
                    };
                    self.watch.observer().cluster_barrier_waited(place, group.mask);
                }
            }
        }
    }
}
