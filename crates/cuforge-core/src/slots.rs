//! The slot table: one atomic word a grant, so that pinning and dropping a lease need neither a lock nor `&mut`.

use crate::atomics::{Arc, AtomicU64, Ordering};
use crate::ledger_error::LedgerError;
use crate::stamp::{QueueId, Stamp};
use crate::view::{BufferView, SlabId, ViewError};
use alloc::boxed::Box;
use core::fmt;

/// The most queues that one ledger tells apart.
pub const MAX_QUEUES: usize = 16;

// A slot's word: generation in the upper half; in the lower half whether the grant is live, whether a rewind is
// deciding over it, and how many leases pin it.
const LIVE: u64 = 1 << 31;
const CLOSING: u64 = 1 << 30;
const PINS: u64 = CLOSING - 1;

const fn generation_of(word: u64) -> u32 {
    (word >> 32) as u32
}

const fn word(generation: u32, flags: u64) -> u64 {
    (generation as u64) << 32 | flags
}

pub(crate) struct SlotTable {
    slab: SlabId,
    words: Box<[AtomicU64]>,
    /// Last epoch in which each queue used each slot's grant: `slot * queues + queue`, 0 for never.
    last_use: Box<[AtomicU64]>,
    queues: usize,
}

impl SlotTable {
    pub(crate) fn new(slab: SlabId, slots: u32, queues: usize) -> Self {
        let zeros = |n: usize| (0..n).map(|_| AtomicU64::new(0)).collect();
        Self { slab, words: zeros(slots as usize), last_use: zeros(slots as usize * queues), queues }
    }

    pub(crate) fn slab(&self) -> SlabId {
        self.slab
    }

    /// Makes a free slot live; its generation.
    #[inline]
    pub(crate) fn open(&self, slot: u32) -> u32 {
        let word_now = self.words[slot as usize].load(Ordering::Relaxed);
        let generation = generation_of(word_now);
        self.words[slot as usize].store(word(generation, LIVE), Ordering::Release);
        generation
    }

    /// Whether the view's grant is live.
    #[inline]
    pub(crate) fn check(&self, view: &BufferView) -> Result<(), ViewError> {
        self.live_word(view, Ordering::Acquire).map(|_| ())
    }

    #[inline]
    fn live_word(&self, view: &BufferView, order: Ordering) -> Result<u64, ViewError> {
        if view.slab() != self.slab {
            return Err(ViewError::Foreign { view: view.slab(), slab: self.slab });
        }
        let now = self.words.get(view.slot() as usize).map_or(0, |word| word.load(order));
        if now & LIVE == 0 || generation_of(now) != view.generation() {
            return Err(stale(view));
        }
        Ok(now)
    }

    fn pin(&self, view: &BufferView) -> Result<(), LedgerError> {
        let mut now = self.live_word(view, Ordering::Relaxed)?;
        loop {
            if now & LIVE == 0 || generation_of(now) != view.generation() {
                return Err(stale(view).into());
            }
            if now & CLOSING != 0 {
                return Err(LedgerError::Rewinding);
            }
            if now & PINS == PINS {
                return Err(LedgerError::TooManyPins);
            }
            let slot = &self.words[view.slot() as usize];
            match slot.compare_exchange_weak(now, now + 1, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                Err(actual) => now = actual,
            }
        }
    }

    fn unpin(&self, slot: u32) {
        // Release: whoever sees the pin gone also sees the uses that the lease recorded.
        self.words[slot as usize].fetch_sub(1, Ordering::Release);
    }

    fn mark_use(&self, slot: u32, stamp: Stamp) -> Result<(), LedgerError> {
        let queue = stamp.queue.0 as usize;
        if queue >= self.queues {
            return Err(LedgerError::UnknownQueue { queue: stamp.queue });
        }
        self.last_use[slot as usize * self.queues + queue].fetch_max(stamp.epoch, Ordering::Relaxed);
        Ok(())
    }

    /// Takes a live, unpinned slot out of use for good under its generation.
    #[inline]
    pub(crate) fn close(&self, view: &BufferView) -> Result<(), LedgerError> {
        let mut now = self.live_word(view, Ordering::Relaxed)?;
        loop {
            if now & LIVE == 0 || generation_of(now) != view.generation() {
                return Err(stale(view).into());
            }
            if now & PINS != 0 {
                return Err(LedgerError::Pinned { grants: 1 });
            }
            match self.try_close(view.slot(), now) {
                Ok(()) => return Ok(()),
                Err(actual) => now = actual,
            }
        }
    }

    #[inline]
    fn try_close(&self, slot: u32, now: u64) -> Result<(), u64> {
        let next = word(generation_of(now).wrapping_add(1), 0);
        // Acquire pairs with `unpin`: the last uses are complete once no pin is left.
        self.words[slot as usize]
            .compare_exchange(now, next, Ordering::Acquire, Ordering::Relaxed)
            .map(|_| ())
    }

    /// First step of a rewind: no new pin from here on. `false` if the slot is pinned.
    pub(crate) fn begin_closing(&self, slot: u32) -> bool {
        let word = &self.words[slot as usize];
        let now = word.fetch_or(CLOSING, Ordering::Acquire);
        if now & PINS != 0 {
            word.fetch_and(!CLOSING, Ordering::Relaxed);
            return false;
        }
        true
    }

    /// Undoes [`begin_closing`](Self::begin_closing).
    pub(crate) fn abort_closing(&self, slot: u32) {
        self.words[slot as usize].fetch_and(!CLOSING, Ordering::Relaxed);
    }

    /// Last step of a rewind over a slot that `begin_closing` took.
    pub(crate) fn finish_closing(&self, slot: u32) {
        let generation = generation_of(self.words[slot as usize].load(Ordering::Relaxed));
        self.words[slot as usize].store(word(generation.wrapping_add(1), 0), Ordering::Release);
    }

    /// Whether the slot may be opened again: its generations are not used up.
    #[inline]
    pub(crate) fn reusable(&self, slot: u32) -> bool {
        generation_of(self.words[slot as usize].load(Ordering::Relaxed)) != 0
    }

    /// Whether any use of the slot was recorded.
    #[inline]
    pub(crate) fn was_used(&self, slot: u32) -> bool {
        let row = slot as usize * self.queues;
        self.last_use[row..row + self.queues].iter().any(|epoch| epoch.load(Ordering::Relaxed) != 0)
    }

    /// Merges the slot's last uses into `stamps` (index = queue).
    pub(crate) fn merge_last_use(&self, slot: u32, stamps: &mut [u64; MAX_QUEUES]) {
        let row = slot as usize * self.queues;
        for (queue, stamp) in stamps.iter_mut().enumerate().take(self.queues) {
            *stamp = (*stamp).max(self.last_use[row + queue].load(Ordering::Relaxed));
        }
    }

    /// Forgets the last uses of a closed slot.
    pub(crate) fn reset_last_use(&self, slot: u32) {
        let row = slot as usize * self.queues;
        for queue in 0..self.queues {
            self.last_use[row + queue].store(0, Ordering::Relaxed);
        }
    }

    /// New slots start at generation 1, so that generation 0 marks one that has wrapped.
    pub(crate) fn start_generations(&self, first: u32) {
        for slot in &self.words {
            slot.store(word(first, 0), Ordering::Relaxed);
        }
    }
}

fn stale(view: &BufferView) -> ViewError {
    ViewError::Stale { generation: view.generation(), offset: view.offset(), len: view.len() }
}

impl fmt::Debug for SlotTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlotTable").field("slab", &self.slab).field("slots", &self.words.len()).finish()
    }
}

/// Checks and pins views of one ledger from any thread, without its lock: `Clone`, `Send`, `Sync`.
#[derive(Clone, Debug)]
pub struct Pins {
    table: Arc<SlotTable>,
}

impl Pins {
    pub(crate) fn new(table: Arc<SlotTable>) -> Self {
        Self { table }
    }

    /// Whether the view's grant is live now. One atomic load; by the time of use it may be gone: pin it to be sure.
    ///
    /// # Errors
    /// [`ViewError::Foreign`], [`ViewError::Stale`].
    pub fn check(&self, view: &BufferView) -> Result<(), ViewError> {
        self.table.check(view)
    }

    /// Keeps the view's grant alive until the lease is dropped: release, rewind and clear answer
    /// [`LedgerError::Pinned`] meanwhile. Writes are not refused. No allocation; a compare-and-swap and a reference
    /// count.
    ///
    /// # Errors
    /// [`LedgerError::View`] (foreign or stale view), [`LedgerError::Rewinding`] (a rewind is deciding over the grant
    /// in this very moment: ask again), [`LedgerError::TooManyPins`] (2^30 leases).
    pub fn pin(&self, view: &BufferView) -> Result<Lease, LedgerError> {
        self.table.pin(view)?;
        Ok(Lease { table: self.table.clone(), slot: view.slot() })
    }
}

/// A pin on one grant. Dropping it takes neither a lock nor `&mut` of the ledger.
#[derive(Debug)]
pub struct Lease {
    table: Arc<SlotTable>,
    slot: u32,
}

impl Lease {
    /// Records that work up to `stamp` uses the grant: once released, its bytes stay pending until then. Uses of the
    /// same queue merge to the latest.
    ///
    /// # Errors
    /// [`LedgerError::UnknownQueue`] if the queue was not registered with the ledger.
    pub fn mark_use(&self, stamp: Stamp) -> Result<(), LedgerError> {
        self.table.mark_use(self.slot, stamp)
    }

    /// The latest use of the grant that was recorded for `queue`; 0 for none.
    pub fn last_use(&self, queue: QueueId) -> u64 {
        let mut stamps = [0; MAX_QUEUES];
        self.table.merge_last_use(self.slot, &mut stamps);
        stamps.get(queue.0 as usize).copied().unwrap_or(0)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.table.unpin(self.slot);
    }
}
