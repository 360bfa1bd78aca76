//! The copies of a block that are on their way.

use crate::form::AtomicKind;
use crate::lanes::LANES;

/// A copy of a few words on its way, which its thread waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight {
    /// Copies of the block that were started before.
    pub(crate) number: u64,
    pub(crate) thread: u32,
    /// Number of the group of its thread.
    pub(crate) group: u32,
    /// Where in shared memory it lands.
    pub(crate) at: u32,
    pub(crate) bytes: u32,
    pub(crate) data: [u32; 4],
    /// Which bytes of the data are written.
    pub(crate) known: [u8; 4],
    pub(crate) pc: usize,
}

/// An mbarrier: rank of its block in the cluster, and address there.
pub(crate) type GateAt = (u64, u32);

/// What becomes of a bulk flight when it lands.
#[derive(Clone, Debug)]
pub(crate) enum Landing {
    /// Words go to shared memory of a block of that rank; the gate hears of it.
    Shared { rank: u64, at: u32, gate: GateAt },
    /// Words go to global memory.
    Global { allocation: usize, offset: u64 },
    /// Copies of the thread that were started before this many land, and then it arrives at an mbarrier.
    Arrival { before: u64, at: u32 },
}

/// A bulk copy, or an arrival that waits for copies, on its way.
#[derive(Clone, Debug)]
pub(crate) struct BulkFlight {
    pub(crate) thread: u32,
    pub(crate) pc: usize,
    /// Number of the bulk group of its thread, if it is part of one.
    pub(crate) group: Option<u32>,
    /// Where in the block's own shared memory it comes from, and whether that may still not be written.
    pub(crate) source: Option<u32>,
    pub(crate) data: Vec<u32>,
    /// Which bytes of the data are written.
    pub(crate) known: Vec<u8>,
    /// What is done with elements of so many bytes at the target; absent for a copy.
    pub(crate) reduction: Option<(AtomicKind, u32)>,
    pub(crate) landing: Landing,
}

impl BulkFlight {
    /// Bytes on their way.
    pub(crate) fn bytes(&self) -> u32 {
        self.data.len() as u32 * 4
    }
}

/// The copies of a block on their way, and the groups that its threads have committed.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    pub(crate) flights: Vec<Flight>,
    pub(crate) committed: Vec<u32>,
    /// Copies of a few words that were started so far.
    pub(crate) started: u64,
    pub(crate) bulk: Vec<BulkFlight>,
    pub(crate) bulk_committed: Vec<u32>,
}

impl Copies {
    /// Forgets all copies, for a block of so many threads.
    pub(crate) fn start_block(&mut self, threads: u32) {
        self.flights.clear();
        self.bulk.clear();
        self.started = 0;
        for groups in [&mut self.committed, &mut self.bulk_committed] {
            groups.clear();
            groups.resize((threads as usize).next_multiple_of(LANES), 0);
        }
    }

    /// Closes a thread's group.
    pub(crate) fn commit(groups: &mut [u32], thread: u32) {
        if let Some(count) = groups.get_mut(thread as usize) {
            *count += 1;
        }
    }

    /// Whether a group is among those that a wait for all but the latest `most` is for; absent for all copies.
    pub(crate) fn is_awaited(groups: &[u32], thread: u32, group: u32, most: Option<u32>) -> bool {
        let committed = groups.get(thread as usize).copied().unwrap_or_default();
        most.is_none_or(|most| u64::from(group) + u64::from(most) < u64::from(committed))
    }
}
