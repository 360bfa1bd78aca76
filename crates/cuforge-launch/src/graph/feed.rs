//! The host's side of a parameter block: a ring of slots in mapped memory that replays take their values out of.

use crate::error::LaunchError;
use crate::ffi::code;
use crate::graph::counter::Counter;
use crate::pinned::PinnedBuffer;
use crate::stream::Stream;
use parking_lot::Mutex;
use std::hint;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Replays whose values can be under way.
pub(crate) const SLOTS: usize = 64;

/// Polls between two looks at the stream: a fault never frees a slot.
const POLLS: u32 = 2_000;

/// The host's side of a block, which its graph shares.
pub(crate) struct Feed {
    /// The slots, then the word that tells how many were taken.
    page: PinnedBuffer,
    current: Mutex<Box<[u8]>>,
    /// Slots handed to replays so far.
    next: AtomicU64,
    claimed: AtomicBool,
    stride: usize,
    _counter: Counter,
}

impl Feed {
    /// Over a page of slots of `stride` bytes, for values of `bytes`.
    pub(crate) fn new(page: PinnedBuffer, bytes: usize, stride: usize, counter: Counter) -> Self {
        Self {
            page,
            current: Mutex::new(vec![0; bytes].into()),
            next: AtomicU64::new(0),
            claimed: AtomicBool::new(false),
            stride,
            _counter: counter,
        }
    }

    /// Sets the start of the values for the next replay and those after it.
    pub(crate) fn set(&self, bytes: &[u8]) -> Result<(), LaunchError> {
        let mut current = self.current.lock();
        let room = current.len();
        let Some(place) = current.get_mut(..bytes.len()) else {
            return Err(LaunchError::TooLong { bytes: bytes.len() as u64, view_bytes: room as u64 });
        };
        place.copy_from_slice(bytes);
        Ok(())
    }

    /// Bytes of the values, and replays so far.
    pub(crate) fn sizes(&self) -> (usize, u64) {
        (self.current.lock().len(), self.next.load(Ordering::Relaxed))
    }

    /// Whether an executable graph that it feeds was made: one may be.
    pub(crate) fn claimed(&self) -> &AtomicBool {
        &self.claimed
    }

    /// Puts the current values into the next slot; waits only while all 64 are under way.
    pub(crate) fn stage(&self, on: &Stream) -> Result<(), LaunchError> {
        let next = self.next.load(Ordering::Relaxed);
        let mut polls: u32 = 0;
        while next - self.taken() >= SLOTS as u64 {
            hint::spin_loop();
            polls = polls.wrapping_add(1);
            if polls.is_multiple_of(POLLS) {
                let gate = on.device().gate();
                gate.alive()?;
                // SAFETY: the stream is alive.
                let status = unsafe { gate.api().stream_query(on.line().raw()) };
                if status.code != code::NOT_READY {
                    gate.check_wait(status)?;
                }
                std::thread::yield_now();
            }
        }
        let current = self.current.lock();
        let slot = self.page.as_ptr().wrapping_add((next % SLOTS as u64) as usize * self.stride);
        // SAFETY: the slot has `stride` bytes, no fewer than the values; the replay that read it last has said so.
        unsafe { std::ptr::copy_nonoverlapping(current.as_ptr(), slot, current.len()) };
        Ok(())
    }

    /// The replay with the staged values was launched.
    pub(crate) fn launched(&self) {
        self.next.fetch_add(1, Ordering::Relaxed);
    }

    fn taken(&self) -> u64 {
        let word = self.page.as_ptr().wrapping_add(SLOTS * self.stride).cast();
        // SAFETY: eight aligned, initialised bytes at the end of the page; the device writes them whole, and the host
        // reads them through this atomic alone.
        unsafe { AtomicU64::from_ptr(word) }.load(Ordering::Acquire)
    }
}
