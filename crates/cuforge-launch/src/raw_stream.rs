//! Streams as the driver has them: made non-blocking, destroyed without a wait.

use crate::error::LaunchError;
use crate::ffi::RawStream;
use crate::gate::Gate;
use std::any::Any;
use std::ptr;
use std::sync::Arc;

/// What keeps a stream alive: an [`OwnStream`], or the owner of one that was brought in.
pub(crate) type StreamKeeper = Box<dyn Any + Send + Sync>;

/// `CU_STREAM_NON_BLOCKING`: no hidden waits for the legacy stream.
const NON_BLOCKING: u32 = 1;

/// A `CUstream` of our own. By itself it has no number among the queues that ledgers tell apart.
pub(crate) struct OwnStream {
    gate: Arc<Gate>,
    raw: RawStream,
}

// SAFETY: stream handles may be used from any thread.
unsafe impl Send for OwnStream {}
// SAFETY: as above.
unsafe impl Sync for OwnStream {}

impl OwnStream {
    pub(crate) fn new(gate: &Arc<Gate>, priority: i32) -> Result<Self, LaunchError> {
        let _context = gate.enter()?;
        let mut raw = ptr::null_mut();
        // SAFETY: the pointer is valid for one handle, and the context is current.
        gate.check(unsafe { gate.api().stream_create(&raw mut raw, NON_BLOCKING, priority) })?;
        Ok(Self { gate: gate.clone(), raw })
    }

    pub(crate) fn raw(&self) -> RawStream {
        self.raw
    }

    /// Waits for all that it was given.
    pub(crate) fn wait(&self) -> Result<(), LaunchError> {
        // SAFETY: the stream is alive.
        self.gate.check_wait(unsafe { self.gate.api().stream_synchronize(self.raw) })
    }
}

impl Drop for OwnStream {
    fn drop(&mut self) {
        // SAFETY: this was its last user; the driver lets its work finish.
        let status = unsafe { self.gate.api().stream_destroy(self.raw) };
        self.gate.note_in_drop(status);
    }
}
