//! Uploads from pinned memory: the host returns at once and gets its buffer back when the copy is done.

use crate::error::LaunchError;
use crate::pinned::PinnedBuffer;
use crate::slab::Slab;
use crate::stream::{Line, Stream};
use cuforge_core::BufferView;
use std::fmt;
use std::sync::Arc;

/// An upload in flight. `Send`. It holds the source, so that nobody writes it meanwhile.
///
/// Dropping it waits for nothing and stops nothing: the source's memory is then freed when the device is idle.
#[must_use = "wait for it to have the source back"]
pub struct Upload {
    line: Arc<Line>,
    epoch: u64,
    source: PinnedBuffer,
}

/// An upload that was refused, with the source given back.
pub struct Unsent<S = PinnedBuffer> {
    /// Why.
    pub error: LaunchError,
    /// What was to be sent.
    pub source: S,
}

impl<S> fmt::Debug for Unsent<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unsent").field("error", &self.error).finish_non_exhaustive()
    }
}

impl<S> fmt::Display for Unsent<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<S> std::error::Error for Unsent<S> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl Slab {
    /// Copies the first `bytes` of pinned memory to the start of `view`, in stream order; the host does not wait. Two
    /// driver calls.
    ///
    /// # Errors
    /// [`Unsent`] with the source and [`LaunchError::TooLong`] (also where the source is shorter),
    /// [`LaunchError::OtherDevice`] for pinned memory of another device, or what [`Slab::write`] answers.
    pub fn upload(
        &self,
        on: &mut Stream,
        view: &BufferView,
        source: PinnedBuffer,
        bytes: usize,
    ) -> Result<Upload, Box<Unsent>> {
        match self.send(on, view, &source, bytes) {
            Ok(epoch) => Ok(Upload::in_flight(on.line().clone(), epoch, source)),
            Err(error) => Err(Box::new(Unsent { error, source })),
        }
    }

    /// Submits the copy and seals its epoch. After a failure nothing reads the source.
    pub(crate) fn send(
        &self,
        on: &mut Stream,
        view: &BufferView,
        source: &PinnedBuffer,
        bytes: usize,
    ) -> Result<u64, LaunchError> {
        self.ready(on, view, bytes)?;
        source.is_of(self.device().gate())?;
        if bytes > source.len() {
            return Err(LaunchError::TooLong { bytes: bytes as u64, view_bytes: source.len() as u64 });
        }
        if bytes == 0 {
            return on.seal();
        }
        let to = self.use_on(on, view)?;
        // SAFETY: the view is live until the epoch just noted completes; whoever holds the source keeps it from being
        // written or freed until then.
        unsafe { on.send(to, source.as_ptr(), bytes) }?;
        let sealed = on.seal();
        if sealed.is_err() {
            on.settle();
        }
        sealed
    }
}

impl Upload {
    /// A copy that the stream of `line` finishes with `epoch`.
    pub(crate) fn in_flight(line: Arc<Line>, epoch: u64, source: PinnedBuffer) -> Self {
        Self { line, epoch, source }
    }

    /// Whether the copy is done. One load, no driver call.
    pub fn is_done(&self) -> bool {
        self.line.has_completed(self.epoch)
    }

    /// Waits for the copy; the source.
    ///
    /// # Errors
    /// [`LaunchError::DeviceLost`].
    pub fn wait(self) -> Result<PinnedBuffer, LaunchError> {
        self.line.wait_epoch(self.epoch)?;
        Ok(self.source)
    }
}

impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upload").field("done", &self.is_done()).finish_non_exhaustive()
    }
}
