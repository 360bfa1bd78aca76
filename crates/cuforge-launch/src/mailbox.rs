//! A mailbox: a few words in mapped pinned memory that the device posts and the host polls.

use crate::device::Device;
use crate::error::LaunchError;
use crate::pinned::PinnedBuffer;
use crate::slab::Slab;
use crate::stream::{Line, Stream};
use cuforge_core::BufferView;
use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;

/// Words that arrive without a synchronize. `Send`. The device copies them into host memory, then marks them as posted.
///
/// One post at a time: posting again before the last post was read waits for it first. Dropping the mailbox waits for
/// nothing: a post in flight lands in memory that is freed when the device is idle.
pub struct Mailbox {
    memory: PinnedBuffer,
    bytes: usize,
    posted: Option<(Arc<Line>, u64)>,
}

impl Mailbox {
    /// For posts of at most `bytes`.
    ///
    /// # Errors
    /// [`LaunchError::Driver`], [`LaunchError::DeviceLost`].
    pub fn new(device: &Device, bytes: usize) -> Result<Self, LaunchError> {
        Ok(Self { memory: device.pinned(bytes)?, bytes: 0, posted: None })
    }

    /// Whether a post has arrived that was not read yet. One load, no driver call.
    pub fn has_arrived(&self) -> bool {
        self.posted.as_ref().is_some_and(|(line, epoch)| line.has_completed(*epoch))
    }

    /// The post, if it has arrived; it is read once. One load, no driver call, no allocation.
    pub fn poll(&mut self) -> Option<&[u8]> {
        if !self.has_arrived() {
            return None;
        }
        self.posted = None;
        Some(&self.memory.as_slice()[..self.bytes])
    }

    /// Waits for the post by polling; empty if nothing was posted. No allocation.
    ///
    /// # Errors
    /// [`LaunchError::DeviceLost`].
    pub fn wait(&mut self) -> Result<&[u8], LaunchError> {
        let Some((line, epoch)) = &self.posted else { return Ok(&[]) };
        // A post that could not be waited for is still on its way.
        line.wait_epoch(*epoch)?;
        self.posted = None;
        Ok(&self.memory.as_slice()[..self.bytes])
    }

    /// Where kernels find the words, for those that post by themselves.
    pub fn device_address(&self) -> u64 {
        self.memory.device_address()
    }
}

impl Slab {
    /// Posts the bytes of `view`, as they are after all that was submitted to `on`, into `mailbox`. Two driver calls,
    /// no allocation.
    ///
    /// # Errors
    /// [`LaunchError::TooLong`] where the mailbox is smaller, [`LaunchError::OtherDevice`] where it is another device's, and
    /// those of [`Slab::read`].
    pub fn post(&self, on: &mut Stream, view: &BufferView, mailbox: &mut Mailbox) -> Result<(), LaunchError> {
        self.ready(on, view, 0)?;
        mailbox.memory.is_of(self.device().gate())?;
        let room = mailbox.memory.len() as u64;
        if view.len() > room {
            return Err(LaunchError::TooLong { bytes: view.len(), view_bytes: room });
        }
        // What is on its way must not land in the middle of what is posted now.
        mailbox.wait()?;
        let bytes = view.len() as usize;
        let from = self.use_on(on, view)?;
        let (gate, to) = (self.device().gate(), mailbox.memory.as_ptr().cast::<c_void>());
        if bytes > 0 {
            // SAFETY: the view is live until the epoch just noted completes; the mailbox has as many bytes, and is
            // freed only when the device is idle.
            gate.check(unsafe { gate.api().copy_to_host(to, from, bytes, on.line().raw()) })?;
        }
        let sealed = on.seal();
        if sealed.is_err() {
            on.settle();
        }
        let epoch = sealed?;
        mailbox.bytes = bytes;
        mailbox.posted = Some((on.line().clone(), epoch));
        Ok(())
    }
}

impl fmt::Debug for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mailbox")
            .field("capacity", &self.memory.len())
            .field("arrived", &self.has_arrived())
            .finish_non_exhaustive()
    }
}
