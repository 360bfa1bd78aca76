//! The ledger: owns an allocator, mints its grants as views and guards their lifetimes.

use crate::allocator::{
    Handle, Lifetime, Misuse, Refusal, Request, Rewound, Scope, Segment, SlabAllocator, Stats,
};
use crate::atomics::Arc;
use crate::ledger_error::LedgerError;
use crate::slots::{LAST_GENERATION, Lease, MAX_QUEUES, Pins, SlotTable};
use crate::stamp::{Progress, QueueId, Stamp};
use crate::view::{BufferView, MAX_SLOTS, SlabId, ViewError};
use alloc::boxed::Box;
use core::fmt;
use core::num::NonZeroU64;

/// How much a ledger keeps track of; all of it is allocated at construction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerLimits {
    /// Grants that can be live at once, at most 2^31 - 1. 24 bytes each, and 8 a queue. Default 65,536.
    pub grants: u32,
    /// Queues told apart, at most [`MAX_QUEUES`]. Default 4.
    pub queues: u32,
}

impl Default for LedgerLimits {
    fn default() -> Self {
        Self { grants: 65_536, queues: 4 }
    }
}

/// A point that [`Ledger::rewind`] can return to, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    slab: SlabId,
    /// How many scopes there were with this one.
    scopes: u64,
    scope: Scope,
}

/// What the ledger knows of a slot's grant, or which free slot comes after it.
#[derive(Clone, Copy, Debug)]
struct Record {
    handle: Handle,
    /// Of a grant: `LIVE`, the scopes opened before it, times two, and one more if it is resident. Of a slot without
    /// one: the generation under which it is granted next, and in the upper half the free slot after it.
    state: u64,
}

const LIVE: u64 = 1 << 63;

/// The end of the list of free slots: no slot has this number, and it leaves the bit of `LIVE` alone.
const NO_SLOT: u32 = MAX_SLOTS;

impl Record {
    /// Vacant, to be granted under `generation`, and after it the slot `next`.
    #[inline]
    const fn vacant(generation: u32, next: u32) -> u64 {
        (next as u64) << 32 | generation as u64
    }

    /// Gives the slot of a grant that ended back, unless that was its last generation.
    #[inline]
    fn vacate(&mut self, slot: u32, ended: u32, free: &mut u32) {
        self.state = Self::vacant(ended.wrapping_add(1), *free);
        if ended != LAST_GENERATION {
            *free = slot;
        }
    }

    /// Whether a rewind to `scopes` ends the grant.
    const fn ends(&self, scopes: u64) -> bool {
        self.state & (LIVE | 1) == LIVE && (self.state & !LIVE) >> 1 >= scopes
    }
}

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
/// #     fn try_acquire(&mut self, r: &Request) -> Option<Grant> {
/// #         let offset = self.0.next_multiple_of(r.align); self.0 = offset + r.len;
/// #         Some(Grant { handle: Handle::new(self.0)?, offset }) }
/// #     fn refusal(&self, _: &Request) -> Refusal { Refusal::Zero }
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
    slab: SlabId,
    /// The first of the list of free slots.
    free: u32,
    records: Box<[Record]>,
    /// Scopes ever opened.
    scopes: u64,
    /// The state of a grant that is made now and is not resident.
    live: u64,
    limits: LedgerLimits,
    queues: u32,
}

impl Ledger {
    /// A ledger over `allocator`. `limits.queues` is capped at [`MAX_QUEUES`] and `limits.grants` at 2^31 - 1, and both
    /// are at least 1.
    /// O(grants × queues), the only call that allocates.
    pub fn new(allocator: Box<dyn SlabAllocator + Send>, limits: LedgerLimits) -> Self {
        Self::starting_at(allocator, limits, 1)
    }

    /// As [`new`](Self::new), with the first generation given, so that tests reach the last one.
    fn starting_at(allocator: Box<dyn SlabAllocator + Send>, limits: LedgerLimits, generation: u32) -> Self {
        let limits = LedgerLimits {
            grants: limits.grants.clamp(1, MAX_SLOTS),
            queues: limits.queues.clamp(1, MAX_QUEUES as u32),
        };
        let slab = SlabId::next();
        let table = SlotTable::new(slab, limits.grants, limits.queues as usize, generation);
        let record = |slot| {
            let next_free = if slot + 1 < limits.grants { slot + 1 } else { NO_SLOT };
            Record { handle: Handle(NonZeroU64::MAX), state: Record::vacant(generation, next_free) }
        };
        Self {
            allocator,
            table: Arc::new(table),
            slab,
            free: 0,
            records: (0..limits.grants).map(record).collect(),
            scopes: 0,
            live: LIVE,
            limits,
            queues: 0,
        }
    }

    /// The identity that this ledger's views carry. O(1).
    pub fn slab(&self) -> SlabId {
        self.slab
    }

    /// Registers a queue; stamps of other queues are refused. O(1).
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

    /// What other threads check and pin views with. O(1). As long as it is held, a release costs a compare-and-swap.
    pub fn pins(&self) -> Pins {
        Pins::new(self.table.clone())
    }

    /// Keeps a grant alive; see [`Pins::pin`]. O(1).
    ///
    /// # Errors
    /// As [`Pins::pin`].
    pub fn pin(&self, view: &BufferView) -> Result<Lease, LedgerError> {
        Lease::take(&self.table, view)
    }

    /// Whether the view's grant is live; see [`Pins::check`]. O(1).
    ///
    /// # Errors
    /// As [`Pins::check`].
    pub fn check(&self, view: &BufferView) -> Result<(), ViewError> {
        self.table.check(view)
    }

    /// Bytes for `request`, as a view. O(1) on top of the allocator's own time: one virtual call, no atomic
    /// read-modify-write.
    ///
    /// # Errors
    /// The allocator's [`Refusal`], or [`Refusal::OutOfSlots`]; state is unchanged.
    #[inline]
    pub fn acquire(&mut self, request: &Request) -> Result<BufferView, Refusal> {
        let slot = self.free;
        let Some(record) = self.records.get_mut(slot as usize) else {
            return Err(Refusal::OutOfSlots { capacity: self.limits.grants });
        };
        let grant = self.allocator.acquire(request)?;
        let generation = record.state as u32;
        self.free = (record.state >> 32) as u32;
        let state = self.live | u64::from(request.lifetime == Lifetime::Resident);
        *record = Record { handle: grant.handle, state };
        // The length that was asked for is the grant's, by the allocator's contract. Read back beside the offset, it would
        // be loaded as one with it, right after two stores: that waits for both to leave the store buffer.
        Ok(BufferView::mint(self.slab, slot, generation, grant.offset, request.len, request.access))
    }

    /// Releases a whole grant; its bytes stay pending until the uses that leases recorded have completed.
    /// O(1) on top of the allocator's own time if no lease was ever taken, else O(queues).
    ///
    /// # Errors
    /// [`LedgerError::View`], [`LedgerError::Pinned`], [`LedgerError::Slice`]; state is unchanged.
    #[inline]
    pub fn release(&mut self, view: BufferView) -> Result<(), LedgerError> {
        self.release_after(view, &[])
    }

    /// As [`release`](Self::release), and pending until `after` has completed too. O(queues + stamps).
    ///
    /// # Errors
    /// As [`release`](Self::release), and [`LedgerError::UnknownQueue`].
    #[inline]
    pub fn release_after(&mut self, view: BufferView, after: &[Stamp]) -> Result<(), LedgerError> {
        // What most transients come to: no lease ever, and so nothing to wait for and no row of uses to forget.
        if after.is_empty()
            && view.slab() == self.slab
            && let slot = view.whole_slot()
            && let Some(record) = self.records.get_mut(slot as usize)
            && self.table.close_unleased(slot, view.generation())
        {
            record.vacate(slot, view.generation(), &mut self.free);
            return Ok(self.allocator.release(record.handle, &[])?);
        }
        // What it is bound to does not matter, and so need not be read.
        self.release_leased(view.unbound(), after)
    }

    #[cold]
    #[inline(never)]
    fn release_leased(&mut self, view: BufferView, after: &[Stamp]) -> Result<(), LedgerError> {
        let mut epochs = self.merged(after)?;
        self.table.check(&view)?;
        let slot = view.slot();
        if !view.is_whole() {
            return Err(LedgerError::Slice { len: view.len() });
        }
        let handle = self.records[slot as usize].handle;
        self.table.close(&view)?;
        self.table.merge_last_use(slot, &mut epochs);
        self.table.reset_last_use(slot);
        self.records[slot as usize].vacate(slot, view.generation(), &mut self.free);
        let (stamps, count) = stamps_of(&epochs);
        Ok(self.allocator.release(handle, &stamps[..count])?)
    }

    /// Frees what has completed; bytes that became free. The allocator's time.
    pub fn reclaim(&mut self, progress: &dyn Progress) -> u64 {
        self.allocator.reclaim(progress)
    }

    /// The allocator's counters. O(1).
    pub fn stats(&self) -> Stats {
        self.allocator.stats()
    }

    /// The allocator's memory map; see [`SlabAllocator::inspect`]. O(segments).
    ///
    /// # Errors
    /// The allocator's [`Misuse`].
    pub fn inspect(&self, visit: &mut dyn FnMut(Segment)) -> Result<(), LedgerError> {
        Ok(self.allocator.inspect(visit)?)
    }

    /// Extends the slab; the new capacity in bytes. The allocator's time.
    ///
    /// # Errors
    /// The allocator's [`Misuse`].
    pub fn grow(&mut self, extra_bytes: u64) -> Result<u64, LedgerError> {
        Ok(self.allocator.grow(extra_bytes)?)
    }

    /// A point to return to. The allocator's time, O(1) in those of `cuforge-slab`.
    ///
    /// # Errors
    /// The allocator's [`Misuse`] ([`Misuse::Unsupported`] from one without scopes).
    pub fn push_scope(&mut self) -> Result<Checkpoint, LedgerError> {
        let scope = self.allocator.push_scope()?;
        self.scopes += 1;
        self.live = LIVE | self.scopes << 1;
        Ok(Checkpoint { slab: self.slab, scopes: self.scopes, scope })
    }

    /// Ends every non-resident grant acquired since `checkpoint`; their bytes stay pending until their recorded uses
    /// have completed. O(slots).
    ///
    /// # Errors
    /// [`LedgerError::Pinned`] while a lease pins any of them, [`LedgerError::ForeignCheckpoint`], the allocator's
    /// [`Misuse`]; state is unchanged.
    pub fn rewind(&mut self, checkpoint: Checkpoint) -> Result<Rewound, LedgerError> {
        if checkpoint.slab != self.slab {
            return Err(LedgerError::ForeignCheckpoint { checkpoint: checkpoint.slab, slab: self.slab });
        }
        self.end_since(checkpoint.scopes, |allocator, stamps| allocator.rewind(checkpoint.scope, stamps))
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
        scopes: u64,
        end: impl FnOnce(&mut dyn SlabAllocator, &[Stamp]) -> Result<Rewound, Misuse>,
    ) -> Result<Rewound, LedgerError> {
        let mut pinned = 0;
        let mut taken = 0;
        for slot in (0..self.limits.grants).filter(|slot| self.records[*slot as usize].ends(scopes)) {
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
            for slot in (0..self.limits.grants).filter(|slot| self.records[*slot as usize].ends(scopes)) {
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
            if !self.records[slot as usize].ends(scopes) {
                continue;
            }
            if outcome.is_ok() {
                let generation = self.table.finish_closing(slot);
                self.table.reset_last_use(slot);
                self.records[slot as usize].vacate(slot, generation, &mut self.free);
            } else {
                self.table.abort_closing(slot);
            }
        }
        outcome
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

#[allow(unsafe_code, reason = "a test allocator implements the unsafe trait")]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocator::{Grant, Operation};
    use alloc::vec;
    use alloc::vec::Vec;
    use std::sync::{Arc as StdArc, Mutex};

    /// Hands out ever new bytes and logs the stamps that ends came with.
    struct Endless {
        next: u64,
        live: Vec<(Handle, u64, Lifetime)>,
        log: StdArc<Mutex<Vec<Vec<Stamp>>>>,
    }

    impl Endless {
        fn end_since(&mut self, since: u64, after: &[Stamp]) -> Rewound {
            let before = self.live.len();
            self.live.retain(|(_, offset, life)| *offset < since || *life == Lifetime::Resident);
            self.log.lock().unwrap().push(after.to_vec());
            Rewound { grants: (before - self.live.len()) as u64, bytes: 0 }
        }
    }

    // SAFETY: no byte is ever handed out twice.
    unsafe impl SlabAllocator for Endless {
        fn try_acquire(&mut self, request: &Request) -> Option<Grant> {
            let offset = self.next.next_multiple_of(request.align);
            // As long as lengths are not 0, no two grants end in the same place.
            let handle = Handle::new(offset + request.len).filter(|_| request.len > 0)?;
            self.next = offset + request.len;
            self.live.push((handle, offset, request.lifetime));
            Some(Grant { handle, offset })
        }
        fn refusal(&self, _: &Request) -> Refusal {
            Refusal::Zero
        }
        fn release(&mut self, handle: Handle, after: &[Stamp]) -> Result<(), Misuse> {
            let at = self.live.iter().position(|(live, ..)| *live == handle);
            self.live.remove(at.ok_or(Misuse::StaleHandle)?);
            self.log.lock().unwrap().push(after.to_vec());
            Ok(())
        }
        fn reclaim(&mut self, _: &dyn Progress) -> u64 {
            0
        }
        fn stats(&self) -> Stats {
            Stats { live_grants: self.live.len() as u64, ..Stats::default() }
        }
        fn clear(&mut self, after: &[Stamp]) -> Result<Rewound, Misuse> {
            Ok(self.end_since(0, after))
        }
        fn push_scope(&mut self) -> Result<Scope, Misuse> {
            Ok(Scope(self.next))
        }
        fn rewind(&mut self, scope: Scope, after: &[Stamp]) -> Result<Rewound, Misuse> {
            if scope.0 > self.next {
                return Err(Misuse::UnknownScope);
            }
            Ok(self.end_since(scope.0, after))
        }
    }

    type EndLog = StdArc<Mutex<Vec<Vec<Stamp>>>>;

    fn ledger(grants: u32, generation: u32) -> (Ledger, EndLog) {
        let log = EndLog::default();
        let allocator = Endless { next: 0, live: vec![], log: log.clone() };
        let limits = LedgerLimits { grants, queues: 2 };
        let mut ledger = Ledger::starting_at(Box::new(allocator), limits, generation);
        assert_eq!(ledger.register_queue(), Ok(QueueId(0)));
        assert_eq!(ledger.register_queue(), Ok(QueueId(1)));
        (ledger, log)
    }

    fn stamp(queue: u32, epoch: u64) -> Stamp {
        Stamp { queue: QueueId(queue), epoch }
    }

    #[test]
    fn released_views_are_stale_and_a_reused_slot_does_not_revive_them() {
        let (mut ledger, _) = ledger(1, 1);
        let old = ledger.acquire(&Request::new(64)).unwrap();
        assert_eq!(ledger.acquire(&Request::new(64)), Err(Refusal::OutOfSlots { capacity: 1 }));
        ledger.release(old).unwrap();
        let new = ledger.acquire(&Request::new(64)).unwrap();
        assert!(new.generation() > old.generation());
        let stale = ViewError::Stale { generation: old.generation(), offset: 0, len: 64 };
        assert_eq!(ledger.check(&old), Err(stale));
        assert_eq!(ledger.pin(&old).map(|_| ()), Err(stale.into()));
        assert_eq!(ledger.release(old), Err(stale.into()));
        assert_eq!(ledger.check(&new), Ok(()), "a refused release ends nothing");
    }

    #[test]
    fn a_slot_whose_generations_are_used_up_is_never_opened_again() {
        let (mut ledger, _) = ledger(2, LAST_GENERATION);
        for _ in 0..2 {
            let view = ledger.acquire(&Request::new(8)).unwrap();
            ledger.release(view).unwrap();
            assert!(ledger.check(&view).is_err());
        }
        assert_eq!(ledger.acquire(&Request::new(8)), Err(Refusal::OutOfSlots { capacity: 2 }));
    }

    #[test]
    fn a_foreign_view_or_checkpoint_is_refused() {
        let ((mut mine, _), (mut other, _)) = (ledger(4, 1), ledger(4, 1));
        let view = other.acquire(&Request::new(8)).unwrap();
        let foreign = ViewError::Foreign { view: other.slab(), slab: mine.slab() };
        assert_eq!(mine.check(&view), Err(foreign));
        assert_eq!(mine.release(view), Err(foreign.into()));
        let checkpoint = other.push_scope().unwrap();
        assert!(matches!(mine.rewind(checkpoint), Err(LedgerError::ForeignCheckpoint { .. })));
    }

    #[test]
    fn only_a_whole_grant_can_be_released_and_a_slice_pins_all_of_it() {
        let (mut ledger, _) = ledger(4, 1);
        let view = ledger.acquire(&Request::new(64)).unwrap();
        let part = view.slice(16, 8).unwrap();
        assert_eq!(ledger.release(part), Err(LedgerError::Slice { len: 8 }));
        let lease = ledger.pin(&part).unwrap();
        assert_eq!(ledger.release(view), Err(LedgerError::Pinned { grants: 1 }));
        drop(lease);
        assert_eq!(ledger.release(view), Ok(()));
        assert!(ledger.check(&part).is_err());
    }

    #[test]
    fn a_release_carries_the_latest_recorded_use_of_each_queue_and_nothing_of_the_last_tenant() {
        let (mut ledger, log) = ledger(1, 1);
        let view = ledger.acquire(&Request::new(64)).unwrap();
        let lease = ledger.pin(&view.slice(8, 8).unwrap()).unwrap();
        for use_ in [stamp(0, 7), stamp(0, 3), stamp(1, 4)] {
            lease.mark_use(use_).unwrap();
        }
        assert_eq!(lease.last_use(QueueId(0)), 7);
        assert_eq!(lease.mark_use(stamp(2, 1)), Err(LedgerError::UnknownQueue { queue: QueueId(2) }));
        drop(lease);
        let unknown = ledger.release_after(view, &[stamp(9, 1)]);
        assert_eq!(unknown, Err(LedgerError::UnknownQueue { queue: QueueId(9) }));
        ledger.release_after(view, &[stamp(1, 6), stamp(0, 2)]).unwrap();
        let next = ledger.acquire(&Request::new(64)).unwrap();
        ledger.release(next).unwrap();
        assert_eq!(*log.lock().unwrap(), [vec![stamp(0, 7), stamp(1, 6)], vec![]]);
    }

    #[test]
    fn a_rewind_ends_what_came_since_but_not_residents_and_is_refused_while_pinned() {
        let (mut ledger, log) = ledger(8, 1);
        let before = ledger.acquire(&Request::new(8)).unwrap();
        let checkpoint = ledger.push_scope().unwrap();
        let resident = ledger.acquire(&Request::new(8).with_lifetime(Lifetime::Resident)).unwrap();
        let (a, b) = (ledger.acquire(&Request::new(8)).unwrap(), ledger.acquire(&Request::new(8)).unwrap());
        let (lease_before, lease_b) = (ledger.pin(&before).unwrap(), ledger.pin(&b).unwrap());
        lease_b.mark_use(stamp(1, 9)).unwrap();
        assert_eq!(ledger.rewind(checkpoint), Err(LedgerError::Pinned { grants: 1 }));
        for view in [before, resident, a, b] {
            assert_eq!(ledger.check(&view), Ok(()), "a refused rewind ends nothing");
            assert!(ledger.pin(&view).is_ok(), "a refused rewind leaves no mark");
        }
        drop(lease_b);
        assert_eq!(ledger.rewind(checkpoint).map(|r| r.grants), Ok(2));
        assert_eq!(log.lock().unwrap().last(), Some(&vec![stamp(1, 9)]));
        assert_eq!([before, resident, a, b].map(|v| ledger.check(&v).is_ok()), [true, true, false, false]);
        assert_eq!(ledger.clear(), Err(LedgerError::Pinned { grants: 1 }));
        drop(lease_before);
        assert_eq!(ledger.clear().map(|r| r.grants), Ok(1));
        assert_eq!(ledger.check(&resident), Ok(()), "residents survive a clear");
    }

    #[test]
    fn no_allocator_without_scopes_is_asked_to_pretend() {
        struct Plain;
        // SAFETY: never grants.
        unsafe impl SlabAllocator for Plain {
            fn try_acquire(&mut self, _: &Request) -> Option<Grant> {
                None
            }
            fn refusal(&self, _: &Request) -> Refusal {
                Refusal::Zero
            }
            fn release(&mut self, _: Handle, _: &[Stamp]) -> Result<(), Misuse> {
                Err(Misuse::UnknownHandle)
            }
            fn reclaim(&mut self, _: &dyn Progress) -> u64 {
                0
            }
            fn stats(&self) -> Stats {
                Stats::default()
            }
        }
        let mut ledger = Ledger::new(Box::new(Plain), LedgerLimits { grants: 1, queues: 99 });
        let unsupported = |operation| Err(LedgerError::Allocator(Misuse::Unsupported { operation }));
        assert_eq!(ledger.grow(1), unsupported(Operation::Grow).map(|()| 0));
        assert_eq!(ledger.clear(), unsupported(Operation::Clear).map(|()| Rewound::default()));
        assert_eq!(ledger.push_scope().map(|_| ()), unsupported(Operation::PushScope));
    }

    mod against_a_model {
        use super::*;
        use proptest::prelude::*;

        #[derive(Clone, Copy, Debug)]
        enum Step {
            Acquire(Lifetime),
            Release(usize),
            Pin(usize),
            Unpin(usize),
            Use(usize, u32, u64),
            Push,
            Rewind(usize),
            Clear,
        }

        fn step() -> impl Strategy<Value = Step> {
            let lifetime =
                prop_oneof![Just(Lifetime::Resident), Just(Lifetime::General), Just(Lifetime::Transient)];
            prop_oneof![
                4 => lifetime.prop_map(Step::Acquire),
                3 => (0..12usize).prop_map(Step::Release),
                2 => (0..12usize).prop_map(Step::Pin),
                2 => (0..12usize).prop_map(Step::Unpin),
                2 => (0..12usize, 0..2u32, 1..9u64).prop_map(|(i, q, e)| Step::Use(i, q, e)),
                1 => Just(Step::Push),
                1 => (0..4usize).prop_map(Step::Rewind),
                1 => Just(Step::Clear),
            ]
        }

        struct Tenant {
            view: BufferView,
            live: bool,
            resident: bool,
            pins: usize,
            uses: [u64; 2],
        }

        fn stamps(uses: [u64; 2]) -> Vec<Stamp> {
            (0..2).filter(|q| uses[*q as usize] > 0).map(|q| stamp(q, uses[q as usize])).collect()
        }

        proptest! {
            #[test]
            fn liveness_pins_and_stamps_agree_with_a_naive_model(steps in prop::collection::vec(step(), 1..80)) {
                let (mut ledger, log) = ledger(8, 1);
                let mut tenants: Vec<Tenant> = vec![];
                let mut leases: Vec<(usize, Lease)> = vec![];
                let mut scopes: Vec<(Checkpoint, usize)> = vec![];
                for step in steps {
                    match step {
                        Step::Acquire(lifetime) => {
                            let full = tenants.iter().filter(|t| t.live).count() == 8;
                            let got = ledger.acquire(&Request::new(8).with_lifetime(lifetime));
                            prop_assert_eq!(got.is_err(), full);
                            if let Ok(view) = got {
                                let resident = lifetime == Lifetime::Resident;
                                tenants.push(Tenant { view, live: true, resident, pins: 0, uses: [0; 2] });
                            }
                        }
                        Step::Release(i) => {
                            let Some(tenant) = tenants.get_mut(i) else { continue };
                            let got = ledger.release(tenant.view);
                            match (tenant.live, tenant.pins) {
                                (false, _) => {
                                    let stale = matches!(got, Err(LedgerError::View(ViewError::Stale { .. })));
                                    prop_assert!(stale, "a dead view was released");
                                }
                                (true, 0) => {
                                    prop_assert_eq!(got, Ok(()));
                                    let told = log.lock().unwrap().last().cloned();
                                    prop_assert_eq!(told, Some(stamps(tenant.uses)));
                                    tenant.live = false;
                                }
                                _ => prop_assert_eq!(got, Err(LedgerError::Pinned { grants: 1 })),
                            }
                        }
                        Step::Pin(i) => {
                            let Some(tenant) = tenants.get_mut(i) else { continue };
                            let got = ledger.pin(&tenant.view);
                            prop_assert_eq!(got.is_ok(), tenant.live);
                            if let Ok(lease) = got {
                                tenant.pins += 1;
                                leases.push((i, lease));
                            }
                        }
                        Step::Unpin(i) if i < leases.len() => {
                            let (tenant, _) = leases.swap_remove(i);
                            tenants[tenant].pins -= 1;
                        }
                        Step::Use(i, queue, epoch) if i < leases.len() => {
                            leases[i].1.mark_use(stamp(queue, epoch)).unwrap();
                            let uses = &mut tenants[leases[i].0].uses[queue as usize];
                            *uses = epoch.max(*uses);
                        }
                        Step::Unpin(_) | Step::Use(..) => {}
                        Step::Push => scopes.push((ledger.push_scope().unwrap(), tenants.len())),
                        Step::Rewind(i) => {
                            let Some((checkpoint, first)) = scopes.get(i).copied() else { continue };
                            scopes.truncate(i);
                            end(&mut tenants[first..], ledger.rewind(checkpoint), &log)?;
                        }
                        Step::Clear => {
                            scopes.clear();
                            end(&mut tenants, ledger.clear(), &log)?;
                        }
                    }
                    for tenant in &tenants {
                        prop_assert_eq!(ledger.check(&tenant.view).is_ok(), tenant.live);
                    }
                }
            }
        }

        fn end(
            tenants: &mut [Tenant],
            got: Result<Rewound, LedgerError>,
            log: &EndLog,
        ) -> Result<(), TestCaseError> {
            let mut ending: Vec<_> = tenants.iter_mut().filter(|t| t.live && !t.resident).collect();
            let pinned = ending.iter().filter(|t| t.pins > 0).count() as u64;
            if pinned > 0 {
                prop_assert_eq!(got, Err(LedgerError::Pinned { grants: pinned }));
                return Ok(());
            }
            prop_assert_eq!(got.map(|r| r.grants), Ok(ending.len() as u64));
            let latest = [0, 1].map(|q| ending.iter().map(|t| t.uses[q]).max().unwrap_or(0));
            prop_assert_eq!(log.lock().unwrap().last().cloned(), Some(stamps(latest)));
            ending.iter_mut().for_each(|t| t.live = false);
            Ok(())
        }
    }
}
