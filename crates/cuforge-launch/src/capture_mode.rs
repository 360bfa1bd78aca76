//! What a thread may call while it captures.

use crate::error::LaunchError;
use crate::gate::Gate;

/// `CU_STREAM_CAPTURE_MODE_RELAXED`.
const RELAXED: i32 = 2;

/// As long as it lives, calls of this thread that allocate or ask do not break a capture that the thread has begun.
pub(crate) struct Relaxed<'g> {
    gate: &'g Gate,
    before: i32,
}

impl<'g> Relaxed<'g> {
    pub(crate) fn new(gate: &'g Gate) -> Result<Self, LaunchError> {
        let mut mode = RELAXED;
        // SAFETY: the pointer is valid for one mode, in and out.
        gate.check(unsafe { gate.api().thread_capture_mode(&raw mut mode) }?)?;
        Ok(Self { gate, before: mode })
    }
}

impl Drop for Relaxed<'_> {
    fn drop(&mut self) {
        let mut mode = self.before;
        // SAFETY: as above.
        if let Ok(status) = unsafe { self.gate.api().thread_capture_mode(&raw mut mode) } {
            self.gate.note_in_drop(status);
        }
    }
}
