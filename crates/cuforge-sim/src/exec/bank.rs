//! Shared memory of one block of a cluster, and where the cluster meets.

use std::collections::BTreeMap;

use crate::exec::mbarrier::Mbarrier;
use crate::lanes::{LANES, Mask};
use crate::meeting::MbarrierMisuse;
use crate::memory::POISON_WORD;
use crate::shadow::clocks::Published;
use crate::shadow::order;

/// Bytes between the shared memories of two blocks of a cluster in the shared window, as a power of two: more than a block
/// can have. A block sees its own from 0 on, and that of the block of rank `r` from `r + 1` times this on.
pub(crate) const RANK_SHIFT: u32 = 19;

/// Shared memory of a block, and the mbarriers in it.
#[derive(Debug, Default)]
pub(crate) struct Bank {
    pub(crate) words: Vec<u32>,
    /// Which bytes are written; empty if that is not followed.
    pub(crate) known: Vec<u8>,
    /// By their addresses.
    pub(crate) mbarriers: BTreeMap<u32, Mbarrier>,
    /// Phases that its mbarriers have completed.
    pub(crate) phases: u64,
    /// Linear index of its block in the grid.
    pub(crate) block: u32,
    /// All threads of its block have exited.
    pub(crate) is_gone: bool,
}

impl Bank {
    /// Memory of so many bytes; what is written is followed if `followed`.
    pub(crate) fn new(bytes: usize, followed: bool) -> Self {
        let words = bytes.div_ceil(4);
        Self {
            words: vec![0; words],
            known: if followed { vec![0; words] } else { Vec::new() },
            ..Self::default()
        }
    }

    /// Poison everywhere, for a block that starts.
    pub(crate) fn start_block(&mut self, block: u32) {
        self.words.fill(POISON_WORD);
        self.known.fill(0);
        self.mbarriers.clear();
        self.phases = 0;
        self.block = block;
        self.is_gone = false;
    }

    /// Works on an mbarrier, and counts the phase that this may complete.
    pub(crate) fn on_gate(
        &mut self,
        at: u32,
        f: impl FnOnce(&mut Mbarrier) -> Result<bool, MbarrierMisuse>,
    ) -> Result<(), MbarrierMisuse> {
        let barrier = self.mbarriers.get_mut(&at).ok_or(MbarrierMisuse::NotThere)?;
        self.phases += u64::from(f(barrier)?);
        Ok(())
    }
}

/// Which lanes of a warp have arrived at the cluster's barrier and not waited yet, and in which phase.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arrivals {
    pub(crate) arrived: Mask,
    pub(crate) phase: [u32; LANES],
}

/// What threads of the block have told each other at the cluster's barrier.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClusterTold {
    pub(crate) phase: u32,
    pub(crate) arriving: Published,
    pub(crate) completed: Published,
}

/// The barrier of a cluster.
#[derive(Debug, Default)]
pub(crate) struct Meeting {
    /// Phases that are complete.
    pub(crate) phases: u32,
    /// Threads of the cluster.
    threads: u32,
    /// Threads that have arrived in this phase, or exited.
    here: u32,
    exited: u32,
    /// What arrivals of this phase, and of the one before, have told blocks.
    pub(crate) arriving: order::Clocks,
    pub(crate) completed: order::Clocks,
}

impl Meeting {
    /// For so many threads, none of which has arrived.
    pub(crate) fn new(threads: u32) -> Self {
        Self { threads, ..Self::default() }
    }

    /// So many threads arrive.
    pub(crate) fn arrive(&mut self, threads: u32) {
        self.here += threads;
        self.settle();
    }

    /// So many threads exit, of which some have arrived in this phase.
    pub(crate) fn leave(&mut self, threads: u32, arrived: u32) {
        self.exited += threads;
        self.here += threads - arrived;
        self.settle();
    }

    fn settle(&mut self) {
        if self.here >= self.threads && self.exited < self.threads {
            self.phases = self.phases.wrapping_add(1);
            self.here = self.exited;
            self.completed = std::mem::take(&mut self.arriving);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_of_the_cluster_is_complete_when_all_have_arrived_or_exited() {
        let mut meeting = Meeting::new(64);
        meeting.arrive(32);
        assert_eq!(meeting.phases, 0);
        // One that has arrived and one that has not.
        meeting.leave(2, 1);
        assert_eq!((meeting.phases, meeting.here), (0, 33));
        meeting.arrive(31);
        assert_eq!((meeting.phases, meeting.here), (1, 2));
        meeting.arrive(62);
        assert_eq!(meeting.phases, 2);
        meeting.leave(62, 0);
        assert_eq!(meeting.phases, 2, "nobody is left to meet");
    }
}
