//! Captures: begun on a drained stream, and ended or aborted whatever happens in between.

use crate::error::LaunchError;
use crate::graph::recorder::Recorder;
use crate::graph::recording::Recording;
use crate::graph::scope::CaptureScope;
use crate::stream::Stream;
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

/// `CU_STREAM_CAPTURE_MODE_THREAD_LOCAL`: other threads may allocate and load modules meanwhile.
const THREAD_LOCAL: i32 = 1;

/// `CU_STREAM_NON_BLOCKING`.
const NON_BLOCKING: u32 = 1;

/// A capture under way, as an object: what [`Stream::capture`] does, for code that does not fit into a closure.
///
/// Dropping it aborts the capture, and the stream is usable again. Not `Send`: the thread that begins ends.
#[must_use = "dropping it aborts the capture"]
pub struct Capture<'s> {
    scope: CaptureScope<'s>,
    ended: bool,
}

impl Stream {
    /// Records what `record` submits to the scope, in place of running it.
    ///
    /// The stream is drained first. Whether `record` returns, fails or panics, the capture is ended, and the stream
    /// usable. What no capture allows has no method on the scope: allocating, synchronizing, reading back, loading a
    /// module. Calls of this crate that would spoil the capture answer [`GraphError::Capturing`] on the capturing
    /// thread, and it goes on.
    ///
    /// Costs the wait, and some 2 us a node.
    ///
    /// ```
    /// use cuforge_launch::{BoundLaunch, LaunchError, Recording, Stream};
    /// fn twice(stream: &mut Stream, kernel: &mut BoundLaunch) -> Result<Recording, LaunchError> {
    ///     stream.capture(|scope| {
    ///         kernel.launch(scope)?;
    ///         kernel.launch(scope)
    ///     })
    /// }
    /// ```
    ///
    /// A scope does not wait:
    /// ```compile_fail,E0599
    /// # use cuforge_launch::{LaunchError, Recording, Stream};
    /// fn wait(stream: &mut Stream) -> Result<Recording, LaunchError> {
    ///     stream.capture(|scope| scope.synchronize())
    /// }
    /// ```
    /// nor can the stream while it is captured:
    /// ```compile_fail,E0499
    /// # use cuforge_launch::{LaunchError, Recording, Stream};
    /// fn wait(stream: &mut Stream) -> Result<Recording, LaunchError> {
    ///     stream.capture(|_| stream.synchronize())
    /// }
    /// ```
    /// It does not read back, and takes no memory that is not pinned:
    /// ```compile_fail,E0308
    /// # use cuforge_launch::{LaunchError, Recording, Slab, Stream};
    /// # use cuforge_core::BufferView;
    /// fn read(stream: &mut Stream, slab: &Slab, view: &BufferView) -> Result<Recording, LaunchError> {
    ///     stream.capture(|scope| slab.read(scope, view, &mut [0; 4]))
    /// }
    /// ```
    /// ```compile_fail,E0308
    /// # use cuforge_launch::{LaunchError, Recording, Slab, Stream};
    /// # use cuforge_core::BufferView;
    /// fn write(stream: &mut Stream, slab: &Slab, view: &BufferView) -> Result<Recording, LaunchError> {
    ///     stream.capture(|scope| scope.upload(slab, view, &vec![0u8; 4]))
    /// }
    /// ```
    ///
    /// # Errors
    /// Those of `record`; [`GraphError`]: `Empty`, `Invalidated`, `Unjoined`, `Escaped`, `Census`;
    /// [`LaunchError::Unsupported`] on the legacy stream or one that waits for it; those of the driver.
    ///
    /// [`GraphError`]: crate::GraphError
    /// [`GraphError::Capturing`]: crate::GraphError::Capturing
    pub fn capture(
        &mut self,
        record: impl FnOnce(&mut CaptureScope<'_>) -> Result<(), LaunchError>,
    ) -> Result<Recording, LaunchError> {
        let mut capture = self.begin_capture()?;
        record(capture.scope())?;
        capture.end()
    }

    /// Begins a capture; see [`capture`](Self::capture).
    ///
    /// # Errors
    /// As [`capture`](Self::capture).
    pub fn begin_capture(&mut self) -> Result<Capture<'_>, LaunchError> {
        self.synchronize()?;
        self.can_be_captured()?;
        self.device().gate().api().need_captures()?;
        let line = self.line().clone();
        let gate = line.device().gate().clone();
        gate.capture_begins(line.queue());
        // SAFETY: the stream is alive and of the gate's context.
        let begun = unsafe { gate.api().capture_begin(line.raw(), THREAD_LOCAL) };
        if let Err(error) = begun.and_then(|status| gate.check(status)) {
            gate.capture_lets_go(line.queue());
            gate.capture_ended();
            return Err(error);
        }
        let recorder = Rc::new(RefCell::new(Recorder::new(&gate, &line)));
        Ok(Capture { scope: CaptureScope::new(recorder, line), ended: false })
    }

    /// Work on the legacy stream escapes a capture, and a capture on a stream that waits for it spoils the work of
    /// other threads there.
    pub(crate) fn can_be_captured(&self) -> Result<(), LaunchError> {
        let raw = self.line().raw();
        let refused = |why| Err(LaunchError::Unsupported { what: "a capture of this stream", why });
        if matches!(raw as usize, 0 | 1) {
            return refused("it is the legacy stream");
        }
        let (gate, mut flags) = (self.device().gate(), 0);
        // SAFETY: the stream is alive; the pointer is valid for the flags.
        if let Ok(status) = unsafe { gate.api().stream_flags(raw, &raw mut flags) } {
            gate.check(status)?;
            if flags & NON_BLOCKING == 0 {
                return refused("it waits for the legacy stream: make it non-blocking");
            }
        }
        Ok(())
    }
}

impl<'s> Capture<'s> {
    /// What takes the submissions.
    pub fn scope(&mut self) -> &mut CaptureScope<'s> {
        &mut self.scope
    }

    /// Ends the capture and holds what was captured against what was recorded.
    ///
    /// # Errors
    /// As [`Stream::capture`].
    pub fn end(mut self) -> Result<Recording, LaunchError> {
        self.ended = true;
        let mut recorder = self.scope.recorder().borrow_mut();
        let template = recorder.end(self.scope.line().raw())?;
        recorder.gate.alive()?;
        recorder.census(&template)?;
        recorder.read_priorities()?;
        Ok(Recording::new(template, std::mem::take(&mut recorder.recorded)))
    }

    /// Ends the capture and keeps nothing of it.
    pub fn abort(self) {}
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let mut recorder = self.scope.recorder().borrow_mut();
        match recorder.end(self.scope.line().raw()) {
            // What spoilt the capture, if anything did, was told where it was met.
            Ok(_) | Err(LaunchError::Graph(_) | LaunchError::DeviceLost { .. }) => {}
            Err(error) => tracing::warn!(%error, "an aborted capture"),
        }
    }
}

impl fmt::Debug for Capture<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capture").field("scope", &self.scope).finish_non_exhaustive()
    }
}
