//! Uploads from memory that the caller owns: handed over, sent by the stream's courier, given back by the ticket.

use crate::bulk::{Bulk, CHUNK_BYTES};
use crate::courier::Letter;
use crate::error::LaunchError;
use crate::events::Event;
use crate::ffi::DeviceAddress;
use crate::movers::Movers;
use crate::ranges::range;
use crate::slab::Slab;
use crate::stream::{Line, Stream};
use crate::upload::Unsent;
use cuforge_core::{BufferView, Stamp};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// An upload of owned memory on its way. `Send`. Dropping it waits for nothing and stops nothing.
#[must_use = "wait for it to have the source back"]
pub struct OwnedUpload<S> {
    line: Arc<Line>,
    parcel: Arc<Parcel<S>>,
    /// The epoch that the copy is done with.
    epoch: u64,
}

impl Slab {
    /// Sends all bytes of `source` to the start of `view`, in stream order, and returns at once: a thread of the stream
    /// brings them into pinned memory while earlier ones travel. The source comes back from the ticket.
    ///
    /// What is submitted to the stream next waits, on the host, until the last byte was submitted; so give uploads a
    /// stream of their own, or prefetch ([`Prefetcher::push_owned`](crate::Prefetcher::push_owned)). The first upload of
    /// a stream starts the thread, which pins 24 MiB where the machine has the cores to fill them.
    ///
    /// Works with a `Vec<u8>`, a boxed slice, an `Arc<[u8]>`, a memory map. At most one driver call; allocates.
    ///
    /// # Errors
    /// [`Unsent`] with the source, and what [`Slab::write`] answers.
    pub fn upload_owned<S: AsRef<[u8]> + Send + 'static>(
        &self,
        on: &mut Stream,
        view: &BufferView,
        source: S,
    ) -> Result<OwnedUpload<S>, Box<Unsent<S>>> {
        self.send_owned(on, view, source, Between::default())
    }

    pub(crate) fn send_owned<S: AsRef<[u8]> + Send + 'static>(
        &self,
        on: &mut Stream,
        view: &BufferView,
        source: S,
        between: Between,
    ) -> Result<OwnedUpload<S>, Box<Unsent<S>>> {
        let bytes = source.as_ref().len();
        let pieces = if self.device().movers().is_some() { bytes.div_ceil(CHUNK_BYTES).max(1) } else { 1 };
        let (to, epochs) = match self.place_owned(on, view, bytes, pieces as u64) {
            Ok(place) => place,
            Err(error) => return Err(Box::new(Unsent { error, source })),
        };
        let line = on.line().clone();
        let load = Load { line: line.clone(), _slab: self.clone(), to, bytes, epochs, between };
        let parcel = Arc::new(Parcel {
            state: Mutex::new(State { load: Some(load), source: Some(source), outcome: None }),
            sent: AtomicBool::new(false),
            told: Condvar::new(),
        });
        on.post(parcel.clone());
        Ok(OwnedUpload { line, parcel, epoch: epochs.1 })
    }

    /// Where the bytes go, and the epochs in which they do: first and last.
    fn place_owned(
        &self,
        on: &mut Stream,
        view: &BufferView,
        bytes: usize,
        pieces: u64,
    ) -> Result<(DeviceAddress, (u64, u64)), LaunchError> {
        self.fits(on, view, bytes)?;
        self.device().gate().alive()?;
        on.line().not_capturing()?;
        let lease = self.pins().pin(view)?;
        let first = on.reserve_epochs(pieces)?;
        let last = first + pieces - 1;
        // Until the last of them has completed the bytes go to nobody else, whatever happens to the grant.
        lease.mark_use(Stamp { queue: on.queue(), epoch: last })?;
        Ok((self.base() + view.offset(), (first, last)))
    }
}

impl<S> OwnedUpload<S> {
    /// Whether the copy is done. Two loads, no driver call.
    pub fn is_done(&self) -> bool {
        self.parcel.sent.load(Ordering::Acquire) && self.line.has_completed(self.epoch)
    }

    /// Waits for the copy; the source.
    ///
    /// # Errors
    /// [`LaunchError::DeviceLost`], and whatever the driver answered a copy. The source is dropped then.
    pub fn wait(self) -> Result<S, LaunchError> {
        let source = {
            let mut state = self.parcel.sent_state();
            if !matches!(state.outcome, Some(Ok(()))) {
                return Err(state.outcome.take().and_then(Result::err).unwrap_or(LaunchError::UploadFailed));
            }
            state.source.take()
        };
        self.line.wait_epoch(self.epoch)?;
        source.ok_or(LaunchError::UploadFailed)
    }
}

impl<S: AsRef<[u8]> + Send + 'static> OwnedUpload<S> {
    pub(crate) fn letter(&self) -> Arc<dyn Letter> {
        self.parcel.clone()
    }
}

/// What a prefetch puts around a copy on the copying stream.
#[derive(Default)]
pub(crate) struct Between {
    /// The copy waits for it.
    pub(crate) after: Option<Arc<Event>>,
    /// Recorded behind the copy.
    pub(crate) mark: Option<Arc<Event>>,
}

/// The source on its way, and what became of it.
struct Parcel<S> {
    state: Mutex<State<S>>,
    sent: AtomicBool,
    told: Condvar,
}

struct State<S> {
    /// What is to be submitted; the courier takes it, so that it holds nothing of the device when all is sent.
    load: Option<Load>,
    source: Option<S>,
    outcome: Option<Result<(), LaunchError>>,
}

/// Where the source goes.
struct Load {
    line: Arc<Line>,
    /// Keeps the target's memory.
    _slab: Slab,
    to: DeviceAddress,
    bytes: usize,
    /// First and last epoch that the stream has reserved for it: one a piece.
    epochs: (u64, u64),
    between: Between,
}

impl<S> Parcel<S> {
    /// The state once all was submitted, or never will be.
    fn sent_state(&self) -> MutexGuard<'_, State<S>> {
        let mut state = self.state.lock();
        while !self.sent.load(Ordering::Acquire) {
            self.told.wait(&mut state);
        }
        state
    }
}

impl Load {
    fn submit(&self, source: &impl AsRef<[u8]>, chunks: &mut Option<Bulk>) -> Result<(), LaunchError> {
        if let Some(event) = &self.between.after {
            // SAFETY: the line keeps its stream alive.
            unsafe { event.hold(self.line.raw()) }?;
        }
        // Whatever the source says of itself this time, no more bytes are read than it shows, nor more than were checked.
        let bytes = source.as_ref().get(..self.bytes).ok_or(LaunchError::UploadFailed)?;
        match self.line.device().movers() {
            Some(movers) if !bytes.is_empty() => self.submit_moved(movers, bytes, chunks)?,
            None if !bytes.is_empty() => {
                // SAFETY: the target is live until the last epoch, which is sealed below; the driver has read pageable
                // memory when this returns (CUDA driver API, "API synchronization behavior", memcpy, asynchronous).
                unsafe { self.line.copy_to_device(self.to, bytes.as_ptr(), bytes.len()) }?;
            }
            _ => {}
        }
        match &self.between.mark {
            // SAFETY: as above.
            Some(event) => unsafe { event.record(self.line.raw()) },
            None => Ok(()),
        }
    }

    /// Through pinned chunks that several threads fill. The last piece's epoch is left to the caller to seal.
    fn submit_moved(
        &self,
        movers: &Movers,
        bytes: &[u8],
        chunks: &mut Option<Bulk>,
    ) -> Result<(), LaunchError> {
        let mut bulk = match chunks.take() {
            Some(bulk) => bulk,
            None => Bulk::new(self.line.gate())?,
        };
        let (first, last) = self.epochs;
        let mut at = self.to;
        let mut outcome = Ok(());
        for (epoch, piece) in (first..=last).zip(bytes.chunks(CHUNK_BYTES)) {
            let (number, wait_for) = bulk.turn();
            outcome = self.line.wait_epoch(wait_for).and_then(|()| {
                let chunk = bulk.chunk(number, piece.len());
                movers.copy(chunk, piece);
                // SAFETY: the target is live until the last epoch, and the chunk is not filled again before the epoch
                // that is noted for it below has completed.
                unsafe { self.line.copy_to_device(at, chunk.as_ptr(), piece.len()) }
            });
            bulk.left_to(number, epoch);
            if outcome.is_err() {
                break;
            }
            if epoch != last {
                // SAFETY: until all is sent nobody else seals on the stream.
                unsafe { self.line.seal(epoch) }?;
            }
            at += piece.len() as u64;
        }
        *chunks = Some(bulk);
        outcome
    }
}

impl<S: AsRef<[u8]> + Send> Letter for Parcel<S> {
    fn carry(&self, chunks: &mut Option<Bulk>) {
        range!("upload");
        let mut state = self.state.lock();
        let Some(load) = state.load.take() else { return };
        let mut ending = Ending { load: &load, sealed: false };
        let submitted = match &state.source {
            Some(source) => load.submit(source, chunks),
            None => Ok(()),
        };
        let sealed = ending.seal();
        state.outcome = Some(submitted.and(sealed));
    }

    fn tell(&self) {
        // Under the lock, or somebody who has just looked would sleep through it.
        let _state = self.state.lock();
        self.sent.store(true, Ordering::Release);
        self.told.notify_all();
    }

    fn is_sent(&self) -> bool {
        self.sent.load(Ordering::Acquire)
    }

    fn wait_sent(&self) -> bool {
        matches!(self.sent_state().outcome, Some(Ok(())))
    }
}

/// Seals the last epoch, whichever way `carry` ends: also where it fails, and where a source's own code panics. Else
/// somebody might wait for an epoch that never comes.
struct Ending<'l> {
    load: &'l Load,
    sealed: bool,
}

impl Ending<'_> {
    fn seal(&mut self) -> Result<(), LaunchError> {
        self.sealed = true;
        // SAFETY: until all is sent nobody else seals on the stream.
        unsafe { self.load.line.seal(self.load.epochs.1) }
    }
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        if !self.sealed
            && let Err(error) = self.seal()
        {
            tracing::warn!(%error, "the epoch of a failed upload could not be sealed");
        }
    }
}

impl<S> fmt::Debug for OwnedUpload<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedUpload").field("done", &self.is_done()).finish_non_exhaustive()
    }
}
