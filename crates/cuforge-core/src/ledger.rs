//! The ledger: owns an allocator, mints its grants as views and guards their lifetimes.

use crate::allocator::{Handle, Lifetime, Misuse, Refusal, Request, Rewound, Scope, SlabAllocator, Stats};
use crate::atomics::Arc;
use crate::slots::{Lease, MAX_QUEUES, Pins, SlotTable};
use crate::stamp::{Progress, QueueId, Stamp};
use crate::view::{BufferView, SlabId, ViewError};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

/// How much a ledger keeps track of; all of it is allocated at construction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerLimits {
    /// Grants that can be live at once. 8 bytes each, and 8 a queue, and 48 of bookkeeping. Default 65,536.
    pub grants: u32,
    /// Queues told apart, at most [`MAX_QUEUES`]. Default 4.
    pub queues: u32,
}

impl Default for LedgerLimits {
    fn default() -> Self {
        Self { grants: 65_536, queues: 4 }
    }
}

/// What the ledger answers when it cannot do as told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// The view is foreign, stale or out of range.
    #[error(transparent)]
    View(#[from] ViewError),
    /// Leases keep the grants alive.
    #[error("{grants} grants are pinned by leases")]
    Pinned {
        /// How many grants.
        grants: u64,
    },
    /// A rewind is deciding over the grant in this moment.
    #[error("a rewind is deciding over this grant, ask again")]
    Rewinding,
    /// 2^30 leases pin one grant.
    #[error("too many leases on one grant")]
    TooManyPins,
    /// Only a whole grant can be released, not a slice of it.
    #[error("a slice of {len} bytes cannot be released, its grant has {grant_len}")]
    Slice {
        /// Bytes of the view given.
        len: u64,
        /// Bytes of the grant.
        grant_len: u64,
    },
    /// The queue was not registered, or no more can be.
    #[error("queue {queue:?} is not registered with this ledger")]
    UnknownQueue {
        /// The queue named.
        queue: QueueId,
    },
    /// The checkpoint was made by another ledger.
    #[error("checkpoint of slab {checkpoint} used with slab {slab}", checkpoint = checkpoint.number(), slab = slab.number())]
    ForeignCheckpoint {
        /// The checkpoint's slab.
        checkpoint: SlabId,
        /// The ledger's slab.
        slab: SlabId,
    },
    /// The allocator says that the call is wrong, or that it cannot do it.
    #[error(transparent)]
    Allocator(#[from] Misuse),
}

/// A point that [`Ledger::rewind`] can return to, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    slab: SlabId,
    sequence: u64,
    scope: Scope,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    handle: Handle,
    len: u64,
    /// Grants are numbered in order of acquisition; `u64::MAX` marks a slot without one.
    sequence: u64,
    lifetime: Lifetime,
}

const VACANT: Record =
    Record { handle: Handle(u64::MAX), len: 0, sequence: u64::MAX, lifetime: Lifetime::General };

/// Owns a [`SlabAllocator`] and mints its grants as [`BufferView`]s.
///
/// The ledger is the only source of views and the only place that decides over their lifetimes. Its own calls take
/// `&mut self`; what other threads need (checking, pinning, dropping leases) goes through [`Pins`] without a lock.
/// Nothing allocates after construction.
///
/// ```
/// # use cuforge_core::*;
/// # #[derive(Debug)] struct Bump(u64, Stats);
/// # unsafe impl SlabAllocator for Bump {
/// #     fn acquire(&mut self, r: &Request) -> Result<Grant, Refusal> {
/// #         let offset = self.0.next_multiple_of(r.align); self.0 = offset + r.len;
/// #         Ok(Grant { handle: Handle(offset), offset, len: r.len }) }
/// #     fn release(&mut self, _: Handle, _: &[Stamp]) -> Result<(), Misuse> { Ok(()) }
/// #     fn reclaim(&mut self, _: &dyn Progress) -> u64 { 0 }
/// #     fn stats(&self) -> Stats { self.1 }
/// # }
/// # let allocator = Box::new(Bump(0, Stats::default()));
/// let mut ledger = Ledger::new(allocator, LedgerLimits::default());
/// let view = ledger.acquire(&Request::new(1024))?;
/// let lease = ledger.pins().pin(&view)?;
/// assert_eq!(ledger.release(view), Err(LedgerError::Pinned { grants: 1 }));
/// drop(lease);
/// ledger.release(view)?;
/// assert!(ledger.pins().check(&view).is_err(), "released views are stale");
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub struct Ledger {
    allocator: Box<dyn SlabAllocator + Send>,
    table: Arc<SlotTable>,
    records: Box<[Record]>,
    free_slots: Vec<u32>,
    limits: LedgerLimits,
    queues: u32,
    next_sequence: u64,
}

impl Ledger {
    /// A ledger over `allocator`. `limits.queues` is capped at [`MAX_QUEUES`] and both limits are at least 1.
    pub fn new(allocator: Box<dyn SlabAllocator + Send>, limits: LedgerLimits) -> Self {
        Self::starting_at(allocator, limits, 1)
    }

    /// As [`new`](Self::new), with the first generation given, so that tests reach the last one.
    fn starting_at(allocator: Box<dyn SlabAllocator + Send>, limits: LedgerLimits, generation: u32) -> Self {
        let limits =
            LedgerLimits { grants: limits.grants.max(1), queues: limits.queues.clamp(1, MAX_QUEUES as u32) };
        let table = SlotTable::new(SlabId::next(), limits.grants, limits.queues as usize);
        table.start_generations(generation);
        Self {
            allocator,
            table: Arc::new(table),
            records: (0..limits.grants).map(|_| VACANT).collect(),
            free_slots: (0..limits.grants).rev().collect(),
            limits,
            queues: 0,
            next_sequence: 0,
        }
    }

    /// The identity that this ledger's views carry.
    pub fn slab(&self) -> SlabId {
        self.table.slab()
    }

    /// Registers a queue; stamps of other queues are refused.
    ///
    /// # Errors
    /// [`LedgerError::UnknownQueue`] with the number that would have been next, if all are taken.
    pub fn register_queue(&mut self) -> Result<QueueId, LedgerError> {
        let queue = QueueId(self.queues);
        if self.queues == self.limits.queues {
            return Err(LedgerError::UnknownQueue { queue });
        }
        self.queues += 1;
        Ok(queue)
    }

    /// What other threads check and pin views with.
    pub fn pins(&self) -> Pins {
        Pins::new(self.table.clone())
    }

    /// Keeps a grant alive; see [`Pins::pin`].
    ///
    /// # Errors
    /// As [`Pins::pin`].
    pub fn pin(&self, view: &BufferView) -> Result<Lease, LedgerError> {
        self.pins().pin(view)
    }

    /// Whether the view's grant is live; see [`Pins::check`].
    ///
    /// # Errors
    /// As [`Pins::check`].
    pub fn check(&self, view: &BufferView) -> Result<(), ViewError> {
        self.table.check(view)
    }

    /// Bytes for `request`, as a view.
    ///
    /// # Errors
    /// The allocator's [`Refusal`], or [`Refusal::OutOfSlots`]; state is unchanged.
    pub fn acquire(&mut self, request: &Request) -> Result<BufferView, Refusal> {
        let Some(&slot) = self.free_slots.last() else {
            return Err(Refusal::OutOfSlots { capacity: self.limits.grants });
        };
        let grant = self.allocator.acquire(request)?;
        self.free_slots.pop();
        self.records[slot as usize] = Record {
            handle: grant.handle,
            len: grant.len,
            sequence: self.next_sequence,
            lifetime: request.lifetime,
        };
        self.next_sequence += 1;
        let generation = self.table.open(slot);
        Ok(BufferView::mint(self.slab(), slot, generation, grant.offset, grant.len, request.access))
    }

    /// Releases a whole grant; its bytes stay pending until the uses that leases recorded have completed.
    ///
    /// # Errors
    /// [`LedgerError::View`], [`LedgerError::Pinned`], [`LedgerError::Slice`]; state is unchanged.
    pub fn release(&mut self, view: BufferView) -> Result<(), LedgerError> {
        self.release_after(view, &[])
    }

    /// As [`release`](Self::release), and pending until `after` has completed too.
    ///
    /// # Errors
    /// As [`release`](Self::release), and [`LedgerError::UnknownQueue`].
    pub fn release_after(&mut self, view: BufferView, after: &[Stamp]) -> Result<(), LedgerError> {
        let mut epochs = self.merged(after)?;
        self.table.check(&view)?;
        let record = self.records[view.slot() as usize];
        if view.len() != record.len {
            return Err(LedgerError::Slice { len: view.len(), grant_len: record.len });
        }
        self.table.close(&view)?;
        self.table.merge_last_use(view.slot(), &mut epochs);
        let (stamps, count) = stamps_of(&epochs);
        self.vacate(view.slot());
        Ok(self.allocator.release(record.handle, &stamps[..count])?)
    }

    /// Frees what has completed; bytes that became free.
    pub fn reclaim(&mut self, progress: &dyn Progress) -> u64 {
        self.allocator.reclaim(progress)
    }

    /// The allocator's counters.
    pub fn stats(&self) -> Stats {
        self.allocator.stats()
    }

    /// Extends the slab; the new capacity in bytes.
    ///
    /// # Errors
    /// The allocator's [`Misuse`].
    pub fn grow(&mut self, extra_bytes: u64) -> Result<u64, LedgerError> {
        Ok(self.allocator.grow(extra_bytes)?)
    }

    /// A point to return to.
    ///
    /// # Errors
    /// The allocator's [`Misuse`] ([`Misuse::Unsupported`] from one without scopes).
    pub fn push_scope(&mut self) -> Result<Checkpoint, LedgerError> {
        let scope = self.allocator.push_scope()?;
        Ok(Checkpoint { slab: self.slab(), sequence: self.next_sequence, scope })
    }

    /// Ends every non-resident grant acquired since `checkpoint`; their bytes stay pending until their recorded uses
    /// have completed. O(slots).
    ///
    /// # Errors
    /// [`LedgerError::Pinned`] while a lease pins any of them, [`LedgerError::ForeignCheckpoint`], the allocator's
    /// [`Misuse`]; state is unchanged.
    pub fn rewind(&mut self, checkpoint: Checkpoint) -> Result<Rewound, LedgerError> {
        if checkpoint.slab != self.slab() {
            return Err(LedgerError::ForeignCheckpoint { checkpoint: checkpoint.slab, slab: self.slab() });
        }
        self.end_since(checkpoint.sequence, |allocator, stamps| allocator.rewind(checkpoint.scope, stamps))
    }

    /// Ends every non-resident grant. O(slots).
    ///
    /// # Errors
    /// As [`rewind`](Self::rewind).
    pub fn clear(&mut self) -> Result<Rewound, LedgerError> {
        self.end_since(0, |allocator, stamps| allocator.clear(stamps))
    }

    fn end_since(
        &mut self,
        sequence: u64,
        end: impl FnOnce(&mut dyn SlabAllocator, &[Stamp]) -> Result<Rewound, Misuse>,
    ) -> Result<Rewound, LedgerError> {
        let ends = |record: &Record| {
            record.sequence != u64::MAX
                && record.sequence >= sequence
                && record.lifetime != Lifetime::Resident
        };
        let mut pinned = 0;
        let mut taken = 0;
        for slot in (0..self.limits.grants).filter(|slot| ends(&self.records[*slot as usize])) {
            if self.table.begin_closing(slot) {
                taken += 1;
            } else {
                pinned += 1;
            }
        }
        let mut epochs = [0; MAX_QUEUES];
        let outcome = if pinned > 0 {
            Err(LedgerError::Pinned { grants: pinned })
        } else {
            for slot in (0..self.limits.grants).filter(|slot| ends(&self.records[*slot as usize])) {
                self.table.merge_last_use(slot, &mut epochs);
            }
            let (stamps, count) = stamps_of(&epochs);
            end(&mut *self.allocator, &stamps[..count]).map_err(LedgerError::from)
        };
        debug_assert!(
            outcome.is_err() || outcome.is_ok_and(|r| r.grants == taken),
            "allocator and ledger agree"
        );
        for slot in 0..self.limits.grants {
            if !ends(&self.records[slot as usize]) {
                continue;
            }
            if outcome.is_ok() {
                self.table.finish_closing(slot);
                self.vacate(slot);
            } else {
                self.table.abort_closing(slot);
            }
        }
        outcome
    }

    /// Gives a closed slot back, unless its generations are used up.
    fn vacate(&mut self, slot: u32) {
        self.table.reset_last_use(slot);
        self.records[slot as usize] = VACANT;
        if self.table.reusable(slot) {
            self.free_slots.push(slot);
        }
    }

    fn merged(&self, after: &[Stamp]) -> Result<[u64; MAX_QUEUES], LedgerError> {
        let mut epochs = [0u64; MAX_QUEUES];
        for stamp in after {
            match epochs.get_mut(stamp.queue.0 as usize) {
                Some(epoch) if stamp.queue.0 < self.queues => *epoch = stamp.epoch.max(*epoch),
                _ => return Err(LedgerError::UnknownQueue { queue: stamp.queue }),
            }
        }
        Ok(epochs)
    }
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger")
            .field("slab", &self.slab())
            .field("limits", &self.limits)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

/// The nonzero epochs as stamps, and how many.
fn stamps_of(epochs: &[u64; MAX_QUEUES]) -> ([Stamp; MAX_QUEUES], usize) {
    let mut stamps = [Stamp { queue: QueueId(0), epoch: 0 }; MAX_QUEUES];
    let mut count = 0;
    for (queue, &epoch) in (0..).zip(epochs).filter(|(_, epoch)| **epoch != 0) {
        stamps[count] = Stamp { queue: QueueId(queue), epoch };
        count += 1;
    }
    (stamps, count)
}
