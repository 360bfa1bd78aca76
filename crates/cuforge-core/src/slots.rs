//! The slot table: one atomic word a grant, so that pinning and dropping a lease need neither a lock nor `&mut`.

use crate::atomics::{Arc, AtomicU64, Ordering};
use crate::ledger_error::LedgerError;
use crate::stamp::{QueueId, Stamp};
use crate::view::{BufferView, SlabId, ViewError};
use alloc::boxed::Box;
use core::fmt;

/// The most queues that one ledger tells apart.
pub const MAX_QUEUES: usize = 16;

/// The last generation of a slot. The one after it is 0, under which nothing is ever granted.
pub(crate) const LAST_GENERATION: u32 = u32::MAX;

// A slot's word: generation in the lower half, so that it is compared as it stands in a view; in the upper half whether a
// lease was ever taken under this generation, whether a rewind is deciding over the grant, and how many leases pin it.
// There is no mark of a slot in use: a view of a generation exists from the moment in which the slot is granted under it.
const LEASED: u64 = 1 << 63;
const CLOSING: u64 = 1 << 62;
const ONE_PIN: u64 = 1 << 32;
const PINS: u64 = CLOSING - ONE_PIN;

const fn generation_of(word: u64) -> u32 {
    word as u32
}

/// The word of a slot that nobody has a lease of.
const fn word(generation: u32) -> u64 {
    generation as u64
}

pub(crate) struct SlotTable {
    slab: SlabId,
    words: Box<[AtomicU64]>,
    /// Last epoch in which each queue used each slot's grant: `slot * queues + queue`, 0 for never.
    last_use: Box<[AtomicU64]>,
    queues: usize,
    /// How many [`Pins`] there are. While there are none, nobody but the ledger's owner can take a lease.
    pinners: AtomicU64,
}

impl SlotTable {
    /// All slots start at `generation`.
    pub(crate) fn new(slab: SlabId, slots: u32, queues: usize, generation: u32) -> Self {
        let all = |n: usize, value| (0..n).map(|_| AtomicU64::new(value)).collect();
        Self {
            slab,
            words: all(slots as usize, word(generation)),
            last_use: all(slots as usize * queues, 0),
            queues,
            pinners: AtomicU64::new(0),
        }
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
        if generation_of(now) != view.generation() {
            return Err(stale(view));
        }
        Ok(now)
    }

    pub(crate) fn pin(&self, view: &BufferView) -> Result<(), LedgerError> {
        let mut now = self.live_word(view, Ordering::Relaxed)?;
        loop {
            if generation_of(now) != view.generation() {
                return Err(stale(view).into());
            }
            if now & CLOSING != 0 {
                return Err(LedgerError::Rewinding);
            }
            if now & PINS == PINS {
                return Err(LedgerError::TooManyPins);
            }
            let slot = &self.words[view.slot() as usize];
            match slot.compare_exchange_weak(
                now,
                (now | LEASED) + ONE_PIN,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Ok(()),
                Err(actual) => now = actual,
            }
        }
    }

    fn unpin(&self, slot: u32) {
        // Release: whoever sees the pin gone also sees the uses that the lease recorded.
        self.words[slot as usize].fetch_sub(ONE_PIN, Ordering::Release);
    }

    fn mark_use(&self, slot: u32, stamp: Stamp) -> Result<(), LedgerError> {
        let queue = stamp.queue.0 as usize;
        if queue >= self.queues {
            return Err(LedgerError::UnknownQueue { queue: stamp.queue });
        }
        self.last_use[slot as usize * self.queues + queue].fetch_max(stamp.epoch, Ordering::Relaxed);
        Ok(())
    }

    /// Takes a slot out of use for good under a generation, if no lease was ever taken under it: then there are no uses
    /// to wait for. To be called by the ledger's owner alone.
    #[inline]
    pub(crate) fn close_unleased(&self, slot: u32, generation: u32) -> bool {
        let Some(slot) = self.words.get(slot as usize) else { return false };
        let unleased = word(generation);
        let next = word(generation.wrapping_add(1));
        // Before the word: without pinners there can be no new lease, and those that were taken are seen in the word.
        // Acquire pairs with the last pinner's end.
        if self.pinners.load(Ordering::Acquire) != 0 {
            return slot.compare_exchange(unleased, next, Ordering::Acquire, Ordering::Relaxed).is_ok();
        }
        if slot.load(Ordering::Acquire) != unleased {
            return false;
        }
        slot.store(next, Ordering::Relaxed);
        true
    }

    /// Takes a live, unpinned slot out of use for good under its generation.
    pub(crate) fn close(&self, view: &BufferView) -> Result<(), LedgerError> {
        let mut now = self.live_word(view, Ordering::Relaxed)?;
        loop {
            if generation_of(now) != view.generation() {
                return Err(stale(view).into());
            }
            if now & PINS != 0 {
                return Err(LedgerError::Pinned { grants: 1 });
            }
            let next = word(generation_of(now).wrapping_add(1));
            // Acquire pairs with `unpin`: the last uses are complete once no pin is left.
            let slot = &self.words[view.slot() as usize];
            match slot.compare_exchange(now, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                Err(actual) => now = actual,
            }
        }
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

    /// Last step of a rewind over a slot that `begin_closing` took; the generation that it ends.
    pub(crate) fn finish_closing(&self, slot: u32) -> u32 {
        let generation = generation_of(self.words[slot as usize].load(Ordering::Relaxed));
        self.words[slot as usize].store(word(generation.wrapping_add(1)), Ordering::Release);
        generation
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
///
/// As long as one exists, every release has to reckon with a lease that is taken in this very moment and costs a
/// compare-and-swap; without one it costs a plain store.
#[derive(Debug)]
pub struct Pins {
    table: Arc<SlotTable>,
}

impl Pins {
    pub(crate) fn new(table: Arc<SlotTable>) -> Self {
        // Relaxed: the ledger's owner made it, or it is cloned from one that is counted.
        table.pinners.fetch_add(1, Ordering::Relaxed);
        Self { table }
    }

    /// Whether the view's grant is live now. One atomic load; by the time of use it may be gone: pin it to be
    /// sure. O(1).
    ///
    /// # Errors
    /// [`ViewError::Foreign`], [`ViewError::Stale`].
    pub fn check(&self, view: &BufferView) -> Result<(), ViewError> {
        self.table.check(view)
    }

    /// Keeps the view's grant alive until the lease is dropped: release, rewind and clear answer
    /// [`LedgerError::Pinned`] meanwhile. Writes are not refused. No allocation; a compare-and-swap and a reference
    /// count, O(1).
    ///
    /// # Errors
    /// [`LedgerError::View`] (foreign or stale view), [`LedgerError::Rewinding`] (a rewind is deciding over the grant
    /// in this very moment: ask again), [`LedgerError::TooManyPins`] (2^30 leases).
    pub fn pin(&self, view: &BufferView) -> Result<Lease, LedgerError> {
        Lease::take(&self.table, view)
    }
}

impl Clone for Pins {
    fn clone(&self) -> Self {
        Self::new(self.table.clone())
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        // Release: whoever sees no pinner sees all leases that were taken through this one.
        self.table.pinners.fetch_sub(1, Ordering::Release);
    }
}

/// A pin on one grant. Dropping it takes neither a lock nor `&mut` of the ledger.
#[derive(Debug)]
pub struct Lease {
    table: Arc<SlotTable>,
    slot: u32,
}

impl Lease {
    pub(crate) fn take(table: &Arc<SlotTable>, view: &BufferView) -> Result<Self, LedgerError> {
        table.pin(view)?;
        Ok(Self { table: table.clone(), slot: view.slot() })
    }

    /// Records that work up to `stamp` uses the grant: once released, its bytes stay pending until then. Uses of the
    /// same queue merge to the latest. O(1): one atomic maximum.
    ///
    /// # Errors
    /// [`LedgerError::UnknownQueue`] if the queue was not registered with the ledger.
    pub fn mark_use(&self, stamp: Stamp) -> Result<(), LedgerError> {
        self.table.mark_use(self.slot, stamp)
    }

    /// The latest use of the grant that was recorded for `queue`; 0 for none. O(queues).
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
