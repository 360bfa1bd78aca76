//! How far each stream has come: one word a queue in mapped pinned memory, written by the device in stream order.
//!
//! Where streams cannot write words (an attribute tells, and a driver before CUDA 11.7 has no such function), an event
//! marks the end of each epoch instead.

use crate::error::LaunchError;
use crate::events::{Event, EventPool};
use crate::ffi::{RawStream, code};
use crate::gate::Gate;
use crate::pinned::PinnedBuffer;
use cuforge_core::{MAX_QUEUES, Progress, QueueId};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::hint;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Bytes between two words: no two share a cache line.
const STRIDE: usize = 64;

/// Polls between two looks at the stream itself: a fault never writes the word.
const POLLS: u32 = 2_000;

/// How far each queue is: words that the device writes, or events where it cannot write them.
pub(crate) struct Timeline {
    mark: Mark,
    observed: [AtomicU64; MAX_QUEUES],
    /// The last epoch of each queue that was sealed, or tried to be.
    sealed: [AtomicU64; MAX_QUEUES],
}

enum Mark {
    /// One word a queue. One load or two tell how far it is.
    Words(PinnedBuffer),
    /// The sealed epochs of each queue that have not been seen completed, each with the event behind it. Telling how far
    /// a queue is asks the driver about the oldest.
    Events { pool: Arc<EventPool>, sealed: Box<[Sealed]> },
}

/// Sealed epochs of a queue, oldest first.
type Sealed = Mutex<VecDeque<(u64, Event)>>;

impl Timeline {
    /// By words.
    pub(crate) fn words(gate: &Arc<Gate>) -> Result<Self, LaunchError> {
        Ok(Self::with(Mark::Words(PinnedBuffer::new(gate, STRIDE * MAX_QUEUES)?)))
    }

    /// By events.
    pub(crate) fn events(pool: &Arc<EventPool>) -> Self {
        let sealed = (0..MAX_QUEUES).map(|_| Mutex::new(VecDeque::new())).collect();
        Self::with(Mark::Events { pool: pool.clone(), sealed })
    }

    fn with(mark: Mark) -> Self {
        let zeros = || [const { AtomicU64::new(0) }; MAX_QUEUES];
        Self { mark, observed: zeros(), sealed: zeros() }
    }

    pub(crate) fn is_by_events(&self) -> bool {
        matches!(self.mark, Mark::Events { .. })
    }

    /// Seals `epoch`: it counts as completed once all that `stream` was given so far is. One driver call.
    ///
    /// # Safety
    /// The stream is alive, the queue's own, and nobody else seals on it.
    pub(crate) unsafe fn seal(
        &self,
        gate: &Gate,
        queue: usize,
        stream: RawStream,
        epoch: u64,
    ) -> Result<(), LaunchError> {
        // SAFETY: as the caller says.
        let outcome = unsafe { self.mark_end(gate, queue, stream, epoch) };
        // Behind the submissions of the epoch, so that a stream that is seen idle after this was read has done them.
        self.sealed[queue].fetch_max(epoch, Ordering::Release);
        outcome
    }

    /// # Safety
    /// As [`seal`](Self::seal).
    unsafe fn mark_end(
        &self,
        gate: &Gate,
        queue: usize,
        stream: RawStream,
        epoch: u64,
    ) -> Result<(), LaunchError> {
        match &self.mark {
            Mark::Words(words) => {
                let address = words.device_address() + (queue * STRIDE) as u64;
                // SAFETY: the caller says the stream is alive; the address is the queue's own word in pinned memory
                // that outlives the context's work, and only this stream writes it.
                gate.check(unsafe { gate.api().stream_write_value(stream, address, epoch, 0) }?)
            }
            Mark::Events { pool, sealed } => {
                let event = pool.take(false)?;
                // SAFETY: the caller says the stream is alive.
                unsafe { event.record(stream) }?;
                sealed[queue].lock().push_back((epoch, event));
                Ok(())
            }
        }
    }

    /// The last epoch of the queue that was sealed, or tried to be.
    pub(crate) fn last_sealed(&self, queue: usize) -> u64 {
        self.sealed[queue].load(Ordering::Acquire)
    }

    /// The host knows by other means that the queue has completed `epoch`.
    pub(crate) fn observe(&self, queue: usize, epoch: u64) {
        self.observed[queue].fetch_max(epoch, Ordering::Release);
    }

    pub(crate) fn has_completed(&self, queue: usize, epoch: u64) -> bool {
        self.completed(QueueId(queue as u32)) >= epoch
    }

    /// Waits until the queue has completed `epoch`, which was or will be sealed: spins, then yields; asks the stream now and
    /// then, because after a fault the word never comes.
    pub(crate) fn wait(
        &self,
        gate: &Gate,
        queue: usize,
        epoch: u64,
        stream: RawStream,
    ) -> Result<(), LaunchError> {
        let mut polls: u32 = 0;
        while !self.has_completed(queue, epoch) {
            hint::spin_loop();
            polls = polls.wrapping_add(1);
            if polls.is_multiple_of(POLLS) {
                gate.alive()?;
                // A query would spoil a capture, and none may begin meanwhile; the word comes all the same.
                if let Some(_quiet) = gate.quiet() {
                    let sealed = self.last_sealed(queue);
                    // SAFETY: the caller holds the stream.
                    let status = unsafe { gate.api().stream_query(stream) };
                    if status.code != code::NOT_READY {
                        gate.check_wait(status)?;
                        // An idle stream has done all that was submitted; the epoch may still be on its way to it.
                        if epoch <= sealed {
                            self.observe(queue, epoch);
                        }
                    }
                }
                thread::yield_now();
            }
        }
        Ok(())
    }

    /// What the device has told so far.
    fn told(&self, queue: usize) -> u64 {
        match &self.mark {
            Mark::Words(words) => {
                // `queue` is below MAX_QUEUES wherever queues are made, so this stays inside the buffer.
                let word = words.as_ptr().wrapping_add(queue * STRIDE).cast();
                // SAFETY: the word lies in the buffer, 64-byte aligned and initialised; only the device writes it,
                // whole, and the host reads it through atomics alone.
                let word = unsafe { AtomicU64::from_ptr(word) };
                word.load(Ordering::Acquire)
            }
            Mark::Events { sealed, .. } => {
                let mut sealed = sealed[queue].lock();
                let mut epoch = 0;
                while sealed.front().is_some_and(|(_, event)| event.has_happened()) {
                    epoch = sealed.pop_front().map_or(epoch, |(epoch, _)| epoch);
                }
                if epoch > 0 {
                    self.observe(queue, epoch);
                }
                epoch
            }
        }
    }
}

impl Progress for Timeline {
    fn completed(&self, queue: QueueId) -> u64 {
        let queue = queue.0 as usize;
        if queue >= MAX_QUEUES {
            return 0;
        }
        let told = self.told(queue);
        told.max(self.observed[queue].load(Ordering::Acquire))
    }
}
