//! Where readback tickets land: pinned slots that the tickets of one stream share, or memory of their own.

use crate::error::LaunchError;
use crate::gate::Gate;
use crate::pinned::PinnedBuffer;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Slots of a stream's pool, and bytes of each: a pinned mebibyte in all.
const SLOTS: usize = 16;
pub(crate) const SLOT_BYTES: usize = 64 * 1024;

/// A slot that somebody holds. Any other value is the epoch after which the slot is free.
const TAKEN: u64 = u64::MAX;

/// The slots of one stream.
pub(crate) struct ReadbackPool {
    memory: PinnedBuffer,
    slots: [AtomicU64; SLOTS],
}

impl ReadbackPool {
    pub(crate) fn new(gate: &Arc<Gate>) -> Result<Self, LaunchError> {
        let memory = PinnedBuffer::new(gate, SLOTS * SLOT_BYTES)?;
        Ok(Self { memory, slots: [const { AtomicU64::new(0) }; SLOTS] })
    }

    /// A slot that no unfinished epoch of the stream writes.
    fn take(&self, done: impl Fn(u64) -> bool) -> Option<usize> {
        (0..SLOTS).find(|slot| {
            let free_after = self.slots[*slot].load(Ordering::Acquire);
            let take = |now| {
                self.slots[*slot].compare_exchange(now, TAKEN, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            };
            free_after != TAKEN && done(free_after) && take(free_after)
        })
    }
}

/// Where one readback lands.
pub(crate) enum Landing {
    Slot(Arc<ReadbackPool>, usize),
    /// Too long for a slot, or none was free.
    Own(PinnedBuffer),
}

impl Landing {
    /// A free slot of the pool.
    pub(crate) fn slot(pool: &Arc<ReadbackPool>, done: impl Fn(u64) -> bool) -> Option<Self> {
        pool.take(done).map(|slot| Self::Slot(pool.clone(), slot))
    }

    pub(crate) fn at(&self) -> *mut u8 {
        match self {
            Self::Slot(pool, slot) => pool.memory.as_ptr().wrapping_add(slot * SLOT_BYTES),
            Self::Own(buffer) => buffer.as_ptr(),
        }
    }

    /// The device may write it until `epoch`, and nobody reads it any more.
    pub(crate) fn leave_to(&self, epoch: u64) {
        if let Self::Slot(pool, slot) = self {
            pool.slots[*slot].store(epoch, Ordering::Release);
        }
    }
}
