//! Decoded forms around mbarriers: their own instructions, bulk copies, and what a cluster does.

use crate::atomic::AtomicKind;
use crate::place::{Access, Pred, R32, R64, Reg};

/// The bits of an mbarrier's state that hold its pending arrivals.
pub(crate) const PENDING_MASK: u32 = (1 << 20) - 1;

/// What an instruction does with an mbarrier.
#[derive(Clone, Debug)]
pub(crate) enum GateAction {
    /// `mbarrier.init` with a count.
    Init(R32),
    /// `mbarrier.inval`
    Invalidate,
    /// `mbarrier.expect_tx`
    Expect(R32),
    /// `mbarrier.complete_tx`
    Receive(R32),
    /// `mbarrier.arrive` and `mbarrier.arrive_drop`
    Arrive(Arrive),
    /// `mbarrier.test_wait` and `mbarrier.try_wait`
    Wait(GateWait),
    /// `cp.async.mbarrier.arrive`: arrives when the copies of the thread so far have landed. One more arrival is expected
    /// for it if `counts`.
    AfterCopies { counts: bool },
}

/// How threads arrive.
#[derive(Clone, Debug)]
pub(crate) struct Arrive {
    /// Where the state from before goes.
    pub(crate) state: Option<R64>,
    /// How many arrivals a thread stands for; absent for one.
    pub(crate) count: Option<R32>,
    /// Bytes that the phase waits for from now on.
    pub(crate) bytes: Option<R32>,
    /// The thread is not expected in later phases.
    pub(crate) drops: bool,
    /// The phase must not be completed.
    pub(crate) completes_nothing: bool,
    /// What the thread did before is known to those who wait.
    pub(crate) releases: bool,
}

/// The phase that is waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Phase {
    Parity(R32),
    State(R64),
}

/// How threads wait.
#[derive(Clone, Debug)]
pub(crate) struct GateWait {
    pub(crate) p: Pred,
    pub(crate) phase: Phase,
    /// `.try_wait`: may wait for a while.
    pub(crate) blocks: bool,
    /// What others did before they arrived is known from now on.
    pub(crate) acquires: bool,
}

/// An instruction on an mbarrier.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    /// Where it lies in shared memory; 8 bytes.
    pub(crate) access: Access,
    pub(crate) action: GateAction,
}

/// How a bulk copy tells that it is complete.
#[derive(Clone, Debug)]
pub(crate) enum Completion {
    /// Its bytes arrive at this mbarrier.
    Gate(Access),
    /// As part of the bulk group of its thread.
    Group,
}

/// `cp.async.bulk` and `cp.reduce.async.bulk`
#[derive(Clone, Debug)]
pub(crate) struct Bulk {
    pub(crate) target: Access,
    pub(crate) source: Access,
    pub(crate) bytes: R32,
    pub(crate) completion: Completion,
    /// Ranks of the blocks that it goes to, a bit each; absent for the one that the target lies in.
    pub(crate) blocks: Option<R32>,
    /// What is done with each element of so many bytes at the target; absent for a copy.
    pub(crate) reduction: Option<(AtomicKind, u32)>,
}

/// What one thread of a cluster does that the others know of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ClusterOp {
    /// `barrier.cluster.arrive`; what the thread did before is known to those who wait if `releases`.
    Arrive { releases: bool },
    /// `barrier.cluster.wait`
    Wait,
    /// `mapa`: the address of the same place in shared memory of the block of that rank.
    Map { d: Reg, a: Reg, rank: R32, generic: bool },
    /// `getctarank`: the rank of the block whose shared memory the address lies in.
    Rank { d: R32, a: Reg, generic: bool },
}
