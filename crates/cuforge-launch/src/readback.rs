//! Readbacks as tickets: asked for now, waited for later, from any thread.

use crate::error::LaunchError;
use crate::host_room::host_room;
use crate::landing::{Landing, SLOT_BYTES};
use crate::pinned::PinnedBuffer;
use crate::slab::Slab;
use crate::stream::{Line, Stream};
use bytemuck::Pod;
use cuforge_core::BufferView;
use std::ffi::c_void;
use std::fmt;
use std::slice;
use std::sync::Arc;

/// A readback in flight. `Send`: another thread may wait for it. Dropping it waits for nothing.
#[must_use = "wait for it to have the bytes"]
pub struct Readback {
    line: Arc<Line>,
    epoch: u64,
    landing: Landing,
    len: usize,
}

impl Slab {
    /// Asks for the bytes of `view` as they are after all that was submitted to `on`; wait on the ticket for them. Two
    /// driver calls and no allocation for up to 64 KiB with at most 16 tickets about; pinned memory of its own beyond.
    ///
    /// # Errors
    /// As [`Slab::read`].
    pub fn read_later(&self, on: &mut Stream, view: &BufferView) -> Result<Readback, LaunchError> {
        self.ready(on, view, 0)?;
        let len = usize::try_from(view.len()).unwrap_or(usize::MAX);
        let line = on.line().clone();
        let pool = on.readbacks()?;
        let slot =
            if len <= SLOT_BYTES { Landing::slot(&pool, |epoch| line.has_completed(epoch)) } else { None };
        let landing = match slot {
            Some(slot) => slot,
            None => Landing::Own(PinnedBuffer::new(self.device().gate(), len)?),
        };
        // From here on a failure gives the slot back through the ticket's drop.
        let mut ticket = Readback { line, epoch: on.open_epoch(), landing, len };
        if len > 0 {
            let from = self.use_on(on, view)?;
            let (gate, to) = (self.device().gate(), ticket.landing.at().cast::<c_void>());
            // SAFETY: the view is live until the epoch just noted completes; the landing has as many bytes and is given
            // to nobody else before that.
            gate.check(unsafe { gate.api().copy_to_host(to, from, len, on.line().raw()) })?;
        }
        ticket.epoch = on.seal()?;
        Ok(ticket)
    }
}

impl Readback {
    /// Whether the bytes are there. One load, no driver call.
    pub fn is_done(&self) -> bool {
        self.line.has_completed(self.epoch)
    }

    /// The number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Waits, and copies the bytes to the start of `out`; fewer than there are are fine. No allocation.
    ///
    /// # Errors
    /// [`LaunchError::TooLong`] for more bytes than there are, [`LaunchError::DeviceLost`].
    pub fn wait_into(self, out: &mut [u8]) -> Result<(), LaunchError> {
        if out.len() > self.len {
            return Err(LaunchError::TooLong { bytes: out.len() as u64, view_bytes: self.len as u64 });
        }
        self.line.wait_epoch(self.epoch)?;
        out.copy_from_slice(&self.bytes()[..out.len()]);
        Ok(())
    }

    /// Waits; the elements in a new vector, a ragged end left out.
    ///
    /// # Errors
    /// [`LaunchError::DeviceLost`], [`LaunchError::HostMemory`].
    pub fn wait_vec<T: Pod>(self) -> Result<Vec<T>, LaunchError> {
        self.line.wait_epoch(self.epoch)?;
        let count = self.len / size_of::<T>().max(1);
        let mut out = host_room("a readback", count)?;
        out.resize(count, T::zeroed());
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut out);
        let len = bytes.len();
        bytes.copy_from_slice(&self.bytes()[..len]);
        Ok(out)
    }

    /// The landed bytes, once the epoch has completed.
    fn bytes(&self) -> &[u8] {
        // SAFETY: `len` initialised bytes of the landing, which is this ticket's alone; the device wrote them before
        // the epoch that was waited for.
        unsafe { slice::from_raw_parts(self.landing.at(), self.len) }
    }
}

impl Drop for Readback {
    fn drop(&mut self) {
        self.landing.leave_to(self.epoch);
    }
}

impl fmt::Debug for Readback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Readback")
            .field("len", &self.len)
            .field("done", &self.is_done())
            .finish_non_exhaustive()
    }
}
