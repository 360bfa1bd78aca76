//! The memory of a result ring: slots that the device fills and marks, and what replays so far were promised of them.

use crate::error::LaunchError;
use crate::graph::counter::Counter;
use crate::graph_error::GraphError;
use crate::pinned::PinnedBuffer;
use crate::stream::{Line, Stream};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes before the values of a slot: the turn that they are of.
const TAG_BYTES: usize = 8;

/// The memory of a ring, which its graphs share.
pub(crate) struct Ring {
    pub(crate) page: PinnedBuffer,
    pub(crate) counter: Counter,
    pub(crate) bytes: usize,
    pub(crate) stride: usize,
    pub(crate) slots: usize,
    /// Results that the replays so far post at most.
    promised: AtomicU64,
    /// Results that the host has taken.
    taken: AtomicU64,
    /// The stream of the last replay.
    line: Mutex<Option<Arc<Line>>>,
}

impl Ring {
    /// Bytes from one slot to the next, for results of `bytes`, if there is such a number.
    pub(crate) fn stride(bytes: usize) -> Option<usize> {
        TAG_BYTES.checked_add(bytes)?.checked_next_multiple_of(64)
    }

    /// Over a page of `slots` slots, each `stride` bytes behind the last.
    pub(crate) fn new(
        page: PinnedBuffer,
        counter: Counter,
        bytes: usize,
        (stride, slots): (usize, usize),
    ) -> Self {
        Self {
            page,
            counter,
            bytes,
            stride,
            slots,
            promised: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            line: Mutex::new(None),
        }
    }

    /// Whether a replay on that stream that posts so many results may be launched.
    pub(crate) fn admits(&self, results: u64, on: &Stream) -> Result<(), LaunchError> {
        if self.outstanding() + results > self.slots as u64 {
            return Err(GraphError::ResultsFull { slots: self.slots }.into());
        }
        let line = self.line.lock();
        let Some(before) = line.as_ref().filter(|known| !Arc::ptr_eq(known, on.line())) else {
            return Ok(());
        };
        // Two streams that post side by side would take one slot for two.
        match before.is_idle() {
            Some(Ok(true)) => Ok(()),
            Some(Ok(false)) => Err(GraphError::ResultsElsewhere.into()),
            Some(Err(error)) => Err(error),
            None => Err(GraphError::Capturing { what: "the stream" }.into()),
        }
    }

    /// A replay that posts so many results was launched on that stream.
    pub(crate) fn promise(&self, results: u64, on: &Stream) {
        self.promised.fetch_add(results, Ordering::AcqRel);
        let mut line = self.line.lock();
        if !line.as_ref().is_some_and(|known| Arc::ptr_eq(known, on.line())) {
            *line = Some(on.line().clone());
        }
    }

    /// So many of the promised results do not come.
    pub(crate) fn forgo(&self, results: u64) {
        self.promised.fetch_sub(results, Ordering::AcqRel);
    }

    pub(crate) fn outstanding(&self) -> u64 {
        // A result may be taken before its replay has come back to promise it.
        self.promised.load(Ordering::Acquire).saturating_sub(self.taken.load(Ordering::Acquire))
    }

    fn slot(&self, turn: u64) -> *mut u8 {
        self.page.as_ptr().wrapping_add((turn % self.slots as u64) as usize * self.stride)
    }

    pub(crate) fn has_next(&self) -> bool {
        let turn = self.taken.load(Ordering::Relaxed);
        // SAFETY: eight aligned, initialised bytes of the page; the device writes them whole, and the host reads them
        // through this atomic alone.
        unsafe { AtomicU64::from_ptr(self.slot(turn).cast()) }.load(Ordering::Acquire) == turn + 1
    }

    /// Copies the next result, which has arrived, and frees its slot.
    pub(crate) fn take(&self, out: &mut [u8]) {
        let turn = self.taken.load(Ordering::Relaxed);
        let values = self.slot(turn).wrapping_add(TAG_BYTES);
        let len = out.len().min(self.bytes);
        // SAFETY: the slot has as many bytes, which the device wrote before it marked the slot; no replay is let write
        // there before the slot is freed below.
        unsafe { std::ptr::copy_nonoverlapping(values, out.as_mut_ptr(), len) };
        self.taken.store(turn + 1, Ordering::Release);
    }

    /// Asks the stream of the last replay: after a fault nothing comes, and when it is idle all has come.
    pub(crate) fn look(&self) -> Result<(), LaunchError> {
        let Some(line) = self.line.lock().clone() else { return Ok(()) };
        line.device().gate().alive()?;
        match line.is_idle().transpose()? {
            Some(true) if !self.has_next() => Err(GraphError::NoResult.into()),
            // More may come.
            _ => Ok(()),
        }
    }
}
