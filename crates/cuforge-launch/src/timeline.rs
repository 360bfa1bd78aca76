//! How far each stream has come: one word a queue in mapped pinned memory, written by the device in stream order.

use crate::error::LaunchError;
use crate::ffi::{DeviceAddress, RawStream, code};
use crate::gate::Gate;
use crate::pinned::PinnedBuffer;
use cuforge_core::{MAX_QUEUES, Progress, QueueId};
use std::hint;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Bytes between two words: no two share a cache line.
const STRIDE: usize = 64;

/// Polls between two looks at the stream itself: a fault never writes the word.
const POLLS: u32 = 2_000;

/// The words, and what the host has learnt by waiting. One load or two tell how far a queue is.
pub(crate) struct Timeline {
    words: PinnedBuffer,
    observed: [AtomicU64; MAX_QUEUES],
}

impl Timeline {
    pub(crate) fn new(gate: &Arc<Gate>) -> Result<Self, LaunchError> {
        let words = PinnedBuffer::new(gate, STRIDE * MAX_QUEUES)?;
        Ok(Self { words, observed: [const { AtomicU64::new(0) }; MAX_QUEUES] })
    }

    /// Where the device writes the queue's completed epoch.
    pub(crate) fn address(&self, queue: usize) -> DeviceAddress {
        self.words.device_address() + (queue * STRIDE) as u64
    }

    /// The host knows by other means that the queue has completed `epoch`.
    pub(crate) fn observe(&self, queue: usize, epoch: u64) {
        self.observed[queue].fetch_max(epoch, Ordering::Release);
    }

    pub(crate) fn has_completed(&self, queue: usize, epoch: u64) -> bool {
        self.completed(QueueId(queue as u32)) >= epoch
    }

    /// Waits until the queue has completed the sealed `epoch`: spins on the word, then yields; asks the stream now and
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
                // SAFETY: the caller holds the stream.
                let status = unsafe { gate.api().stream_query(stream) };
                if status.code != code::NOT_READY {
                    gate.check_wait(status)?;
                    // An idle stream has done all that was submitted, the sealed epoch included.
                    self.observe(queue, epoch);
                }
                thread::yield_now();
            }
        }
        Ok(())
    }

    fn word(&self, queue: usize) -> &AtomicU64 {
        // `queue` is below MAX_QUEUES wherever queues are made, so this stays inside the buffer.
        let word = self.words.as_ptr().wrapping_add(queue * STRIDE).cast();
        // SAFETY: the word lies in the buffer, 64-byte aligned and initialised; only the device writes it, whole, and
        // the host reads it through atomics alone.
        unsafe { AtomicU64::from_ptr(word) }
    }
}

impl Progress for Timeline {
    fn completed(&self, queue: QueueId) -> u64 {
        let queue = queue.0 as usize;
        if queue >= MAX_QUEUES {
            return 0;
        }
        let observed = self.observed[queue].load(Ordering::Acquire);
        observed.max(self.word(queue).load(Ordering::Acquire))
    }
}
