//! A view with the lease that keeps its grant: what graph nodes hold.

use crate::error::LaunchError;
use crate::ffi::DeviceAddress;
use crate::held::mark;
use crate::slab::Slab;
use cuforge_core::{BufferView, Lease, MAX_QUEUES};

/// Up to which epoch each queue has used something; 0 where it never has.
pub(crate) type Uses = [u64; MAX_QUEUES];

/// A view, pinned.
pub(crate) struct PinnedView {
    pub(crate) slab: Slab,
    pub(crate) view: BufferView,
    lease: Lease,
}

impl PinnedView {
    pub(crate) fn new(slab: &Slab, view: &BufferView) -> Result<Self, LaunchError> {
        Ok(Self { slab: slab.clone(), view: *view, lease: slab.pins().pin(view)? })
    }

    /// The same view, pinned once more.
    pub(crate) fn again(&self) -> Result<Self, LaunchError> {
        Self::new(&self.slab, &self.view)
    }

    pub(crate) fn address(&self) -> DeviceAddress {
        self.slab.base() + self.view.offset()
    }

    /// Notes what has used it, so that its bytes go to nobody else before that is done.
    pub(crate) fn used(&self, uses: &Uses) {
        lease_used(&self.slab, &self.lease, uses);
    }
}

/// Notes the uses of a lease, and has them sealed.
pub(crate) fn lease_used(slab: &Slab, lease: &Lease, uses: &Uses) {
    for (queue, &epoch) in (0u32..).zip(uses).filter(|(_, epoch)| **epoch != 0) {
        mark(lease, queue, epoch);
        slab.device().gate().ask_for_seal(queue as usize);
    }
}
