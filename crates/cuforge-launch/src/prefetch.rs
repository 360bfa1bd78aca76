//! Prefetch: a second stream uploads while the first computes, guarded in both directions.

use crate::courier::Letter;
use crate::error::LaunchError;
use crate::events::Event;
use crate::owned::{Between, OwnedUpload};
use crate::pinned::PinnedBuffer;
use crate::slab::Slab;
use crate::stream::{Line, Stream};
use crate::upload::{Unsent, Upload};
use cuforge_core::{BufferView, Lease, Request};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// States of a buffer: nobody reads it and nothing guards it; filled or filling; leased to compute; given back, its
/// readers behind the event; given back by a drop that could not record the event, so never filled again; given back
/// while its stream was captured, its readers behind an epoch.
const IDLE: u8 = 0;
const FILLED: u8 = 1;
const LEASED: u8 = 2;
const READ: u8 = 3;
const LOST: u8 = 4;
const SEALED: u8 = 5;

/// Device buffers in turn, filled on a stream of their own while compute reads others. `Send`, not `Sync`.
///
/// A copy into a buffer waits on the device for the compute that still reads it; compute waits for the copy. The host
/// waits for neither. Both guards hang on the [`Prefetched`] lease, so they cannot be forgotten: a buffer is filled
/// again only after its lease was dropped, and behind what the lease's stream had been given by then.
pub struct Prefetcher {
    slab: Slab,
    copies: Stream,
    slots: Vec<Slot>,
    /// Filled slots, oldest first.
    filled: VecDeque<usize>,
    next: usize,
    pushed: bool,
}

struct Slot {
    view: BufferView,
    guard: Arc<Guard>,
    copied: Arc<Event>,
    /// What fills it, while the courier may still be submitting that.
    letter: Option<Arc<dyn Letter>>,
    source: Option<PinnedBuffer>,
    /// The copy stream's epoch that reads `source`.
    epoch: u64,
    bytes: usize,
}

/// What a lease and its slot share. The grant is released when both are gone.
struct Guard {
    state: AtomicU8,
    read: Arc<Event>,
    /// The readers of a buffer that was given back while its stream was captured: done with that epoch.
    readers: Mutex<Option<(Arc<Line>, u64)>>,
    slab: Slab,
    view: BufferView,
    /// Keeps the grant until then.
    pin: Option<Lease>,
}

/// A filled buffer, leased to the compute of one stream. `Send`. Dropping it lets the buffer be filled again, behind everything
/// that the stream was given until then.
#[must_use = "dropping it gives the buffer back"]
pub struct Prefetched {
    view: BufferView,
    guard: Arc<Guard>,
    line: Arc<Line>,
}

impl Prefetcher {
    /// `depth` buffers (at least 1; 2 hide a copy behind compute) as `request` says, and a stream for the copies.
    /// Pinned memory is made by the first use of each buffer. The buffers are released with the prefetcher and its last
    /// lease, unless a bound launch still holds them then.
    ///
    /// # Errors
    /// [`LaunchError::Refused`], [`LaunchError::TooManyStreams`], [`LaunchError::Driver`].
    pub fn new(slab: &Slab, request: &Request, depth: usize) -> Result<Self, LaunchError> {
        let copies = Stream::new(slab.device())?;
        // Not with that capacity: the slab refuses a depth that is out of all reason before the host's memory does.
        let mut slots = Vec::new();
        for _ in 0..depth.max(1) {
            let events = slab.device().events();
            let (read, copied) = (Arc::new(events.take(false)?), Arc::new(events.take(false)?));
            let view = slab.acquire(request)?;
            let (state, readers, slab) = (AtomicU8::new(IDLE), Mutex::default(), slab.clone());
            let mut guard = Guard { state, read, readers, slab, view, pin: None };
            guard.pin = Some(guard.slab.pins().pin(&view)?);
            slots.push(Slot {
                view,
                guard: Arc::new(guard),
                copied,
                letter: None,
                source: None,
                epoch: 0,
                bytes: 0,
            });
        }
        let filled = VecDeque::with_capacity(slots.len());
        Ok(Self { slab: slab.clone(), copies, slots, filled, next: 0, pushed: false })
    }

    /// How many buffers there are.
    pub fn depth(&self) -> usize {
        self.slots.len()
    }

    /// Fills the next buffer with `bytes` that `write` puts into pinned memory. Waits on the host only for the copy
    /// that read that memory last, `depth` pushes ago, and where the buffer's lease was dropped while its stream was
    /// captured for what that stream did before. No allocation once every buffer was used.
    ///
    /// # Errors
    /// [`LaunchError::PrefetchFull`] while that buffer is filled or leased (`write` is not called then),
    /// [`LaunchError::TooLong`], [`LaunchError::DeviceLost`].
    pub fn push(&mut self, bytes: usize, write: impl FnOnce(&mut [u8])) -> Result<(), LaunchError> {
        let number = self.vacant()?;
        let slot = &mut self.slots[number];
        let room = slot.view.len();
        if bytes as u64 > room {
            return Err(LaunchError::TooLong { bytes: bytes as u64, view_bytes: room });
        }
        self.copies.wait_epoch(slot.epoch)?;
        let mut source = match slot.source.take() {
            Some(source) if source.len() >= bytes => source,
            _ => self.slab.device().pinned(room as usize)?,
        };
        write(&mut source.as_mut_slice()[..bytes]);
        self.start(number, source, bytes).map_err(|unsent| unsent.error)
    }

    /// Fills the next buffer from pinned memory, whose first `bytes` are sent; the host waits for nothing. The upload
    /// that filled this buffer last comes back, to be waited for by whoever wants its source again.
    ///
    /// # Errors
    /// [`Unsent`] with the source, and what [`push`](Self::push) answers.
    pub fn push_pinned(&mut self, source: PinnedBuffer, bytes: usize) -> Result<Option<Upload>, Box<Unsent>> {
        let number = match self.vacant() {
            Ok(number) => number,
            Err(error) => return Err(Box::new(Unsent { error, source })),
        };
        let slot = &mut self.slots[number];
        let (line, epoch, before) = (self.copies.line().clone(), slot.epoch, slot.source.take());
        if let Err(unsent) = self.start(number, source, bytes) {
            self.slots[number].source = before;
            return Err(unsent);
        }
        Ok(before.map(|source| Upload::in_flight(line, epoch, source)))
    }

    /// Fills the next buffer with all bytes of memory that is handed over; the host waits for nothing, and the source
    /// comes back from the ticket. See [`Slab::upload_owned`]. Allocates.
    ///
    /// # Errors
    /// [`Unsent`] with the source, and what [`push`](Self::push) answers.
    pub fn push_owned<S: AsRef<[u8]> + Send + 'static>(
        &mut self,
        source: S,
    ) -> Result<OwnedUpload<S>, Box<Unsent<S>>> {
        let number = match self.vacant() {
            Ok(number) => number,
            Err(error) => return Err(Box::new(Unsent { error, source })),
        };
        let (slot, bytes) = (&mut self.slots[number], source.as_ref().len());
        if let Err(error) = slot.guard.wait_for_readers() {
            return Err(Box::new(Unsent { error, source }));
        }
        let read = slot.guard.state.load(Ordering::Acquire) == READ;
        let between =
            Between { after: read.then(|| slot.guard.read.clone()), mark: Some(slot.copied.clone()) };
        let ticket = self.slab.send_owned(&mut self.copies, &slot.view, source, between)?;
        slot.letter = Some(ticket.letter());
        self.filled(number, bytes);
        Ok(ticket)
    }

    /// The oldest filled buffer, leased to `on`, which waits on the device for its copy; `None` if none is filled. Where
    /// the buffer is filled from owned memory the host waits until the last byte was submitted.
    ///
    /// # Errors
    /// [`LaunchError::OtherDevice`], [`LaunchError::Driver`], [`LaunchError::DeviceLost`];
    /// [`LaunchError::UploadFailed`], which leaves the buffer empty.
    pub fn take(&mut self, on: &mut Stream) -> Result<Option<Prefetched>, LaunchError> {
        on.same_device(self.slab.device())?;
        let Some(&number) = self.filled.front() else { return Ok(None) };
        let slot = &mut self.slots[number];
        if let Some(letter) = slot.letter.take()
            && !letter.wait_sent()
        {
            self.filled.pop_front();
            // Whether the copy was put behind the last readers is not known, so the next one is.
            slot.guard.state.store(READ, Ordering::Relaxed);
            return Err(LaunchError::UploadFailed);
        }
        on.hold_for(&slot.copied)?;
        self.filled.pop_front();
        slot.guard.state.store(LEASED, Ordering::Relaxed);
        let view = slot.view.slice(0, slot.bytes as u64)?;
        Ok(Some(Prefetched { view, guard: slot.guard.clone(), line: on.line().clone() }))
    }

    /// Makes `stream` wait for every copy so far; does nothing where there was none.
    ///
    /// # Errors
    /// [`LaunchError::OtherDevice`], [`LaunchError::Driver`], [`LaunchError::DeviceLost`].
    pub fn join(&mut self, stream: &mut Stream) -> Result<(), LaunchError> {
        if self.pushed { stream.wait_for(&mut self.copies) } else { Ok(()) }
    }

    /// The next buffer in turn, if it may be filled.
    fn vacant(&self) -> Result<usize, LaunchError> {
        self.slab.device().gate().alive()?;
        match self.slots[self.next].guard.state.load(Ordering::Acquire) {
            IDLE | READ | SEALED => Ok(self.next),
            _ => Err(LaunchError::PrefetchFull { depth: self.depth() }),
        }
    }

    fn start(&mut self, number: usize, source: PinnedBuffer, bytes: usize) -> Result<(), Box<Unsent>> {
        match self.copy(number, &source, bytes) {
            Ok(epoch) => {
                let slot = &mut self.slots[number];
                (slot.source, slot.epoch) = (Some(source), epoch);
                self.filled(number, bytes);
                Ok(())
            }
            Err(error) => Err(Box::new(Unsent { error, source })),
        }
    }

    fn filled(&mut self, number: usize, bytes: usize) {
        let slot = &mut self.slots[number];
        slot.bytes = bytes;
        slot.guard.state.store(FILLED, Ordering::Relaxed);
        self.filled.push_back(number);
        self.next = (number + 1) % self.slots.len();
        self.pushed = true;
    }

    fn copy(&mut self, number: usize, source: &PinnedBuffer, bytes: usize) -> Result<u64, LaunchError> {
        let slot = &self.slots[number];
        slot.guard.wait_for_readers()?;
        if slot.guard.state.load(Ordering::Acquire) == READ {
            self.copies.hold_for(&slot.guard.read)?;
        }
        let epoch = self.slab.send(&mut self.copies, &slot.view, source, bytes)?;
        // SAFETY: the copy stream is alive and of the pool's context.
        let recorded = unsafe { slot.copied.record(self.copies.line().raw()) };
        if recorded.is_err() {
            // The source goes back to the caller.
            self.copies.settle();
        }
        recorded.map(|()| epoch)
    }
}

impl Prefetched {
    /// The filled bytes; bind it to launch kernels on the stream that it was leased to.
    pub fn view(&self) -> BufferView {
        self.view
    }
}

impl Drop for Prefetched {
    fn drop(&mut self) {
        // In a capture the event would become a part of it.
        let recorded = self.line.gate().unless_captured(self.line.queue(), || {
            // SAFETY: the line keeps its stream alive; it is of the pool's context.
            unsafe { self.guard.read.record(self.line.raw()) }
        });
        let state = match recorded {
            Some(Ok(())) => READ,
            Some(Err(error)) => {
                tracing::warn!(%error, "a prefetch buffer cannot be guarded and is not filled again");
                LOST
            }
            None => {
                *self.guard.readers.lock() = Some((self.line.clone(), self.line.last_sealed()));
                SEALED
            }
        };
        self.guard.state.store(state, Ordering::Release);
    }
}

impl Guard {
    /// Waits on the host for readers that no event marks: of a buffer that was given back while its stream was captured.
    fn wait_for_readers(&self) -> Result<(), LaunchError> {
        let mut readers = self.readers.lock();
        if let Some((line, epoch)) = &*readers {
            line.wait_epoch(*epoch)?;
        }
        *readers = None;
        Ok(())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.pin = None;
        // Copies and launches have noted their uses, so the bytes stay pending until those are done.
        if let Err(error) = self.slab.release(self.view) {
            tracing::debug!(%error, "a prefetch buffer stays with what still holds it");
        }
    }
}

impl fmt::Debug for Prefetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prefetcher")
            .field("depth", &self.depth())
            .field("filled", &self.filled.len())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Prefetched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prefetched").field("view", &self.view).finish_non_exhaustive()
    }
}
