//! What a bound launch keeps alive, and up to where its queues have used it.

use crate::pipeline::Pipeline;
use crate::slab::Slab;
use cuforge_core::{BufferView, Lease, MAX_QUEUES, QueueId, Stamp};
use std::sync::atomic::{AtomicU64, Ordering};

/// A kernel's pipeline, its slab and views with the leases that keep them, and the last epoch of each queue that used
/// them.
pub(crate) struct Held {
    pub(crate) pipeline: Pipeline,
    pub(crate) slab: Slab,
    pub(crate) views: Box<[BufferView]>,
    leases: Vec<Lease>,
    uses: [AtomicU64; MAX_QUEUES],
}

impl Held {
    pub(crate) fn new(pipeline: Pipeline, slab: Slab, views: &[BufferView], leases: Vec<Lease>) -> Self {
        let uses = [const { AtomicU64::new(0) }; MAX_QUEUES];
        Self { pipeline, slab, views: views.into(), leases, uses }
    }

    /// Work of that epoch uses the views. One store.
    #[inline]
    pub(crate) fn used(&self, queue: usize, epoch: u64) {
        self.uses[queue].store(epoch, Ordering::Relaxed);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        for (queue, used) in (0u32..).zip(&mut self.uses) {
            let epoch = *used.get_mut();
            if epoch == 0 {
                continue;
            }
            for lease in &self.leases {
                mark(lease, queue, epoch);
            }
            self.slab.device().gate().ask_for_seal(queue as usize);
        }
    }
}

/// Notes the last use of a lease about to be dropped.
pub(crate) fn mark(lease: &Lease, queue: u32, epoch: u64) {
    // The slab registered every queue there is, so the ledger knows this one.
    let known = lease.mark_use(Stamp { queue: QueueId(queue), epoch });
    debug_assert!(known.is_ok(), "{known:?}");
}
