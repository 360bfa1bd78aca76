//! A few device bytes of the crate's own in a user's slab, zeroed, and given back when the last graph has let go.

use crate::error::LaunchError;
use crate::graph::pinned_view::{PinnedView, Uses};
use crate::graph_error::GraphError;
use crate::pinned::PinnedBuffer;
use crate::slab::Slab;
use crate::stream::Stream;
use cuforge_core::{Access, BufferView, Lifetime, Request};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Bytes of a counter: two words of 64 bits.
const BYTES: u64 = 16;

/// Sixteen device bytes that only this crate's kernels touch.
pub(crate) struct Counter {
    pinned: Option<PinnedView>,
    slab: Slab,
    view: BufferView,
}

impl Counter {
    /// Zeroed when this returns: waits for the stream.
    pub(crate) fn new(on: &mut Stream, slab: &Slab) -> Result<Self, LaunchError> {
        let request = Request { align: 16, lifetime: Lifetime::Resident, ..Request::new(BYTES) };
        let view = slab.acquire(&request)?;
        let counter = Self { pinned: Some(PinnedView::new(slab, &view)?), slab: slab.clone(), view };
        slab.fill(on, &view, 0)?;
        on.synchronize()?;
        Ok(counter)
    }

    /// Bound at (0, `binding`), as the crate's kernels take it.
    pub(crate) fn bound(&self, binding: u32) -> Result<BufferView, LaunchError> {
        Ok(self.view.bound_to(0, binding, Access::StorageReadWrite)?)
    }

    /// Notes what has used it.
    pub(crate) fn used(&self, uses: &Uses) {
        self.pinned.iter().for_each(|pinned| pinned.used(uses));
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        self.pinned = None;
        // Every node that used it was dropped before, its uses noted: the bytes stay pending until those are done.
        if let Err(error) = self.slab.release(self.view) {
            tracing::warn!(%error, "a counter of a graph stays in its slab");
        }
    }
}

/// The iterations of a device loop, counted on the device and told in mapped memory.
pub(crate) struct Counts {
    pub(crate) counter: Counter,
    report: PinnedBuffer,
    /// One node of one graph counts with it, or two loops would count each other's iterations.
    recorded: AtomicBool,
    claimed: AtomicBool,
}

impl Counts {
    pub(crate) fn new(on: &mut Stream, slab: &Slab) -> Result<Self, LaunchError> {
        Ok(Self {
            counter: Counter::new(on, slab)?,
            report: slab.device().pinned(8)?,
            recorded: AtomicBool::new(false),
            claimed: AtomicBool::new(false),
        })
    }

    /// The one loop that counts with it is recorded.
    pub(crate) fn record(&self) -> Result<(), GraphError> {
        if self.recorded.swap(true, Ordering::AcqRel) { Err(GraphError::ConditionTaken) } else { Ok(()) }
    }

    /// Whether an executable graph with that loop was made: one may be.
    pub(crate) fn claimed(&self) -> &AtomicBool {
        &self.claimed
    }

    pub(crate) fn report_address(&self) -> u64 {
        self.report.device_address()
    }

    /// Iterations of all runs that have ended.
    pub(crate) fn total(&self) -> u64 {
        // SAFETY: eight aligned, initialised bytes of the buffer; the device writes them whole, and the host reads them
        // through this atomic alone.
        unsafe { AtomicU64::from_ptr(self.report.as_ptr().cast()) }.load(Ordering::Acquire)
    }
}
