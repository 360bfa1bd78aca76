//! The ring: transients in the order of their acquisition, retired by stamps.

use crate::limits::{BuildError, HANDLE_BITS, SlabLimits, check_capacity};
use crate::scopes::ScopeStack;
use crate::stamps::{Completed, StampRows};
use alloc::boxed::Box;
use cuforge_core::{
    Grant, Handle, Lifetime, Misuse, Progress, Refusal, Request, Rewound, Scope, Segment, SegmentState,
    SlabAllocator, Stamp, Stats,
};

// A span's end and its flags share a word: capacities stay below 2^60.
const RELEASED: u64 = 1 << 63;
const STAMPED: u64 = 1 << 62;
const GENERAL: u64 = 1 << 61;
const END: u64 = (1 << 61) - 1;

/// One grant, with the padding in front of it: from where the span before it ends to its own end.
#[derive(Clone, Copy, Debug)]
struct Span {
    end_and_flags: u64,
    /// The handle of the span's latest grant. The next one in this place is greater by the number of places.
    handle: u64,
}

/// A ring of bytes: grants in ascending order, wrapping at the end, reused from the oldest on.
///
/// For scratch that is released in roughly the order it was acquired. A grant released out of order stays pending
/// until the older ones are gone: **one long-lived grant, or one queue that is stuck, holds everything behind it
/// back** ([`Stats::pending_bytes`] shows it; a ring per queue, or [`RegionSlab`](crate::RegionSlab), avoids it).
/// [`Lifetime::Resident`] is refused as never fitting. An idle ring serves any length up to its capacity.
///
/// | call | time |
/// |---|---|
/// | `acquire`, success and refusal | O(1) |
/// | `release` | O(1) amortised: it also retires what was only waiting for this grant |
/// | `reclaim` | O(retired), at most `reclaim_batch` |
/// | `rewind`, `clear` | O(grants ended) |
/// | `push_scope`, `grow`, `stats` | O(1) |
///
/// Nothing allocates after construction.
///
/// ```
/// use cuforge_core::{Lifetime, QueueId, Refusal, Request, SlabAllocator, Stamp};
/// use cuforge_slab::RingSlab;
///
/// let mut ring = RingSlab::new(1024)?;
/// let scratch = Request::new(600).with_lifetime(Lifetime::Transient);
/// let grant = ring.acquire(&scratch)?;
/// ring.release(grant.handle, &[Stamp { queue: QueueId(0), epoch: 1 }])?;
/// assert!(matches!(ring.acquire(&scratch), Err(Refusal::Full { pending: 600, .. })));
/// assert_eq!(ring.reclaim(&[1]), 600, "the queue has completed epoch 1");
/// assert_eq!(ring.acquire(&scratch)?.offset, 0, "an idle ring starts over");
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RingSlab {
    spans: Box<[Span]>,
    rows: StampRows,
    /// Spans live or pending: `tail_index..head_index`, places in `spans` modulo its length.
    head_index: u64,
    tail_index: u64,
    /// Where the next span starts, and where the oldest does. Equal if empty, or if full to the last byte.
    head: u64,
    tail: u64,
    /// End of the free run at `head`.
    limit: u64,
    /// Whether `head` has gone round and `tail` has not.
    wrapped: bool,
    /// End of the lap that `tail` is in, and of the laps after it (more, if grown meanwhile).
    lap_bytes: u64,
    capacity: u64,
    used: u64,
    pending_bytes: u64,
    pending_grants: u64,
    peak: u64,
    popped_from_head: u64,
    refused: u64,
    scopes: ScopeStack<u64>,
    limits: SlabLimits,
}

impl RingSlab {
    /// A ring of `capacity_bytes` with default limits. O(limits).
    ///
    /// # Errors
    /// [`BuildError::Capacity`] for 0 bytes, [`BuildError::TooLarge`].
    pub fn new(capacity_bytes: u64) -> Result<Self, BuildError> {
        Self::with_limits(capacity_bytes, SlabLimits::default())
    }

    /// A ring with limits of one's own. It rounds no sizes: `granule_bytes` is not used. A small ring of places
    /// stays in the first-level cache: grants in flight rounded up to a power of two are enough.
    ///
    /// # Errors
    /// As [`new`](Self::new), and [`BuildError::Limit`], [`BuildError::NotPowerOfTwo`].
    pub fn with_limits(capacity_bytes: u64, limits: SlabLimits) -> Result<Self, BuildError> {
        check_capacity(capacity_bytes, 1, &limits)?;
        let places = u64::from(limits.grants).next_power_of_two();
        Ok(Self {
            // The first handle in place p is p + places: 0 is never given out.
            spans: (0..places).map(|place| Span { end_and_flags: RELEASED, handle: place }).collect(),
            rows: StampRows::new(places as usize, limits.queues),
            head_index: 0,
            tail_index: 0,
            head: 0,
            tail: 0,
            limit: capacity_bytes,
            wrapped: false,
            lap_bytes: capacity_bytes,
            capacity: capacity_bytes,
            used: 0,
            pending_bytes: 0,
            pending_grants: 0,
            peak: 0,
            popped_from_head: 0,
            refused: 0,
            scopes: ScopeStack::new(limits.scopes),
            limits,
        })
    }

    /// Live and pending grants.
    pub(crate) fn held(&self) -> u64 {
        self.head_index - self.tail_index
    }

    /// Live and pending bytes.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.used
    }

    pub(crate) fn capacity_bytes(&self) -> u64 {
        self.capacity
    }

    fn place(&self, index: u64) -> usize {
        index as usize & (self.spans.len() - 1)
    }

    /// Whether the request is one that an empty ring serves, and a place is left for it.
    #[inline]
    fn admits(&self, request: &Request) -> bool {
        request.len.wrapping_sub(1) < self.capacity
            && request.align.is_power_of_two()
            && request.align <= self.limits.base_align
            && request.lifetime != Lifetime::Resident
            && self.head_index - self.tail_index < u64::from(self.limits.grants)
    }

    #[inline]
    fn commit(&mut self, start: u64, end: u64, charge: u64, request: &Request) -> Result<Grant, Refusal> {
        let place = self.place(self.head_index);
        let places = self.spans.len() as u64;
        let span = &mut self.spans[place];
        let handle = span.handle + places;
        if handle >> HANDLE_BITS != 0 {
            return Err(self.out_of_nodes());
        }
        let general = if request.lifetime == Lifetime::General { GENERAL } else { 0 };
        *span = Span { end_and_flags: end | general, handle };
        self.head_index += 1;
        self.head = end;
        self.used += charge;
        Ok(Grant { handle: Handle(handle), offset: start, len: request.len })
    }

    #[cold]
    fn out_of_nodes(&mut self) -> Refusal {
        self.refused += 1;
        Refusal::OutOfNodes { capacity: self.limits.grants }
    }

    /// Wraps, starts over, or says why not.
    #[cold]
    #[inline(never)]
    fn acquire_elsewhere(&mut self, request: &Request) -> Result<Grant, Refusal> {
        if self.admits(request) {
            if self.head_index == self.tail_index {
                self.start_over();
                return self.commit(0, request.len, request.len, request);
            }
            if !self.wrapped && request.len <= self.tail {
                let charge = self.lap_bytes - self.head + request.len;
                let grant = self.commit(0, request.len, charge, request)?;
                self.wrapped = true;
                self.limit = self.tail;
                return Ok(grant);
            }
        }
        self.refused += 1;
        Err(self.refusal(request))
    }

    fn refusal(&self, request: &Request) -> Refusal {
        if request.len == 0 {
            Refusal::Zero
        } else if !request.align.is_power_of_two() {
            Refusal::Alignment { align: request.align }
        } else if request.lifetime == Lifetime::Resident || request.align > self.limits.base_align {
            Refusal::NeverFits { max_bytes: 0 }
        } else if request.len > self.capacity {
            Refusal::NeverFits { max_bytes: self.capacity }
        } else if self.head_index - self.tail_index == u64::from(self.limits.grants) {
            Refusal::OutOfNodes { capacity: self.limits.grants }
        } else {
            Refusal::Full {
                total_free: self.capacity - self.used,
                largest_free: self.largest_free(),
                pending: self.pending_bytes,
                oldest: self.oldest(),
            }
        }
    }

    fn largest_free(&self) -> u64 {
        if self.head_index == self.tail_index {
            self.capacity
        } else if self.wrapped {
            self.limit - self.head
        } else {
            (self.limit - self.head).max(self.tail)
        }
    }

    /// The stamp to wait for at either end; none if the grants at both ends are live.
    pub(crate) fn oldest(&self) -> Option<Stamp> {
        [self.tail_index, self.head_index.wrapping_sub(1)].into_iter().find_map(|index| {
            let place = self.place(index);
            let stamped = self.spans[place].end_and_flags & STAMPED != 0;
            (stamped && self.used > 0).then(|| self.rows.first(place)).flatten()
        })
    }

    fn start_over(&mut self) {
        self.head = 0;
        self.tail = 0;
        self.wrapped = false;
        self.lap_bytes = self.capacity;
        self.limit = self.capacity;
    }

    /// Where the span in front of `index` ends.
    fn start_of(&self, index: u64) -> u64 {
        if index == self.tail_index {
            self.tail
        } else {
            self.spans[self.place(index - 1)].end_and_flags & END
        }
    }

    /// Bytes of a span from `start` to `end`, going round if need be.
    fn charge(&self, start: u64, end: u64) -> u64 {
        if end > start { end - start } else { self.lap_bytes - start + end }
    }

    /// Retires the oldest span.
    #[inline]
    fn pop_tail(&mut self) {
        let end = self.spans[self.place(self.tail_index)].end_and_flags & END;
        let freed = self.charge(self.tail, end);
        self.peak = self.peak.max(self.used);
        self.used -= freed;
        let went_round = end <= self.tail;
        self.tail = end;
        self.tail_index += 1;
        if self.wrapped {
            if went_round {
                self.unwrap();
            } else if end == self.lap_bytes {
                // The next span starts at 0 without padding.
                self.tail = 0;
                self.unwrap();
            } else {
                self.limit = end;
            }
        }
    }

    fn unwrap(&mut self) {
        self.wrapped = false;
        self.lap_bytes = self.capacity;
        self.limit = self.capacity;
    }

    /// Takes the newest span back, as if it had never been acquired; its handle stays used up.
    fn pop_head(&mut self) {
        let index = self.head_index - 1;
        let end = self.spans[self.place(index)].end_and_flags & END;
        let start = self.start_of(index);
        self.peak = self.peak.max(self.used);
        self.used -= self.charge(start, end);
        self.head_index = index;
        self.head = start;
        self.popped_from_head += 1;
        if end <= start {
            self.unwrap();
        }
        // What is acquired from here on belongs to every scope that is open.
        for mark in self.scopes.marks_mut().rev().take_while(|mark| **mark > index) {
            *mark = index;
        }
    }

    /// Whether the released span waits for nothing but its neighbours; `completed` settles stamps.
    fn retires(&mut self, index: u64, completed: Option<&Completed>) -> bool {
        let place = self.place(index);
        let flags = self.spans[place].end_and_flags;
        if flags & RELEASED == 0 {
            return false;
        }
        flags & STAMPED == 0
            || completed.is_some_and(|completed| self.rows.waits_for(place, 0, completed).is_none())
    }

    /// Retires what can be from both ends, at most `budget` spans.
    #[inline(never)]
    fn settle(&mut self, completed: Option<&Completed>, mut budget: u32) {
        while budget > 0 && self.head_index != self.tail_index {
            let from_tail = self.retires(self.tail_index, completed);
            if !from_tail && !self.retires(self.head_index - 1, completed) {
                break;
            }
            let index = if from_tail { self.tail_index } else { self.head_index - 1 };
            let end = self.spans[self.place(index)].end_and_flags & END;
            self.pending_bytes -= self.charge(self.start_of(index), end);
            self.pending_grants -= 1;
            if from_tail {
                self.pop_tail();
            } else {
                self.pop_head();
            }
            budget -= 1;
        }
    }

    /// Turns a live span pending; its bytes.
    fn make_pending(&mut self, index: u64, after: &[Stamp]) -> u64 {
        let place = self.place(index);
        let waits = self.rows.write(place, after);
        let span = &mut self.spans[place];
        span.end_and_flags |= if waits { RELEASED | STAMPED } else { RELEASED };
        let end = span.end_and_flags & END;
        let bytes = self.charge(self.start_of(index), end);
        self.pending_bytes += bytes;
        self.pending_grants += 1;
        bytes
    }

    #[cold]
    fn dead_handle(&self, handle: Handle) -> Misuse {
        let latest = self.spans[self.place(handle.0)].handle;
        if handle.0 > latest || handle.0 < self.spans.len() as u64 {
            Misuse::UnknownHandle { handle }
        } else {
            Misuse::StaleHandle { handle }
        }
    }

    #[inline(never)]
    fn release_elsewhere(&mut self, handle: Handle, after: &[Stamp]) -> Result<(), Misuse> {
        self.rows.check(after)?;
        let span = self.spans[self.place(handle.0)];
        if span.handle != handle.0 || span.end_and_flags & RELEASED != 0 {
            return Err(self.dead_handle(handle));
        }
        // Places are indices modulo their number, and the span is among the places in use.
        let places = self.spans.len() as u64;
        let index = self.tail_index + (handle.0.wrapping_sub(self.tail_index) & (places - 1));
        self.make_pending(index, after);
        self.settle(None, self.limits.reclaim_batch);
        Ok(())
    }

    fn end_from(&mut self, index: u64, after: &[Stamp]) -> Rewound {
        let mut ended = Rewound::default();
        for index in index.max(self.tail_index)..self.head_index {
            if self.spans[self.place(index)].end_and_flags & RELEASED == 0 {
                ended.bytes += self.make_pending(index, after);
                ended.grants += 1;
            }
        }
        self.settle(None, u32::MAX);
        ended
    }

    fn visit_spans(&self, visit: &mut dyn FnMut(Segment), lap: Lap) {
        let mut went_round = false;
        for index in self.tail_index..self.head_index {
            let (start, place) = (self.start_of(index), self.place(index));
            let word = self.spans[place].end_and_flags;
            let state = if word & RELEASED != 0 {
                SegmentState::Pending {
                    waits_for: (word & STAMPED != 0).then(|| self.rows.first(place)).flatten(),
                }
            } else if word & GENERAL != 0 {
                SegmentState::Live { lifetime: Lifetime::General }
            } else {
                SegmentState::Live { lifetime: Lifetime::Transient }
            };
            let end = word & END;
            let mut emit = |wanted: Lap, from: u64, to: u64| {
                if lap == wanted && from < to {
                    visit(Segment { offset: from, len: to - from, state });
                }
            };
            if end <= start {
                emit(Lap::Tail, start, self.lap_bytes);
                emit(Lap::Head, 0, end);
                went_round = true;
            } else {
                emit(if went_round { Lap::Head } else { Lap::Tail }, start, end);
            }
            went_round |= self.wrapped && end == self.lap_bytes;
        }
    }
}

/// Spans before and after the ring goes round.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lap {
    Tail,
    Head,
}

// SAFETY: spans in use are consecutive runs of the ring from `tail` to `head`, so they are disjoint; `commit` is only
// reached with an end inside the free run at `head` (or, going round, at most `tail`), and a span leaves the ring only
// from an end, when it is released and its stamps have completed. Handles in one place only grow; scope tokens are
// numbered by `ScopeStack`.
#[allow(unsafe_code, reason = "implements the allocator trait")]
unsafe impl SlabAllocator for RingSlab {
    #[inline]
    fn acquire(&mut self, request: &Request) -> Result<Grant, Refusal> {
        if self.admits(request) {
            // No overflow: `head` is at most 2^60, the alignment at most 2^63.
            let start = (self.head + (request.align - 1)) & !(request.align - 1);
            if start <= self.limit && request.len <= self.limit - start {
                let end = start + request.len;
                return self.commit(start, end, end - self.head, request);
            }
        }
        self.acquire_elsewhere(request)
    }

    #[inline]
    fn release(&mut self, handle: Handle, after: &[Stamp]) -> Result<(), Misuse> {
        let place = self.place(handle.0);
        if place == self.place(self.tail_index) && after.is_empty() {
            let span = &mut self.spans[place];
            if span.handle == handle.0 && span.end_and_flags & RELEASED == 0 {
                span.end_and_flags |= RELEASED;
                self.pop_tail();
                if self.pending_grants > 0 {
                    self.settle(None, self.limits.reclaim_batch);
                }
                return Ok(());
            }
        }
        self.release_elsewhere(handle, after)
    }

    fn reclaim(&mut self, progress: &dyn Progress) -> u64 {
        if self.pending_grants == 0 {
            return 0;
        }
        let completed = Completed::read(progress, self.rows.queues());
        let before = self.used;
        self.settle(Some(&completed), self.limits.reclaim_batch);
        before - self.used
    }

    fn stats(&self) -> Stats {
        Stats {
            capacity_bytes: self.capacity,
            live_bytes: self.used - self.pending_bytes,
            pending_bytes: self.pending_bytes,
            largest_free_bytes: self.largest_free(),
            peak_bytes: self.peak.max(self.used),
            live_grants: self.head_index - self.tail_index - self.pending_grants,
            acquired_total: self.head_index + self.popped_from_head,
            refused_total: self.refused,
        }
    }

    fn grow(&mut self, extra_bytes: u64) -> Result<u64, Misuse> {
        let grown =
            self.capacity.checked_add(extra_bytes).filter(|bytes| *bytes <= crate::MAX_CAPACITY_BYTES);
        let Some(grown) = grown else {
            return Err(Misuse::Overflow { operation: "grow", bytes: extra_bytes });
        };
        self.capacity = grown;
        if !self.wrapped {
            self.unwrap();
        }
        Ok(grown)
    }

    fn clear(&mut self, after: &[Stamp]) -> Result<Rewound, Misuse> {
        self.rows.check(after)?;
        self.scopes.close_all();
        Ok(self.end_from(self.tail_index, after))
    }

    fn push_scope(&mut self) -> Result<Scope, Misuse> {
        self.scopes.push(self.head_index)
    }

    fn rewind(&mut self, scope: Scope, after: &[Stamp]) -> Result<Rewound, Misuse> {
        self.rows.check(after)?;
        let mark = self.scopes.mark(scope)?;
        self.scopes.close(scope);
        Ok(self.end_from(mark, after))
    }

    fn inspect(&self, visit: &mut dyn FnMut(Segment)) -> Result<(), Misuse> {
        let free = |from: u64, to: u64, visit: &mut dyn FnMut(Segment)| {
            if from < to {
                visit(Segment { offset: from, len: to - from, state: SegmentState::Free });
            }
        };
        if self.head_index == self.tail_index {
            free(0, self.capacity, visit);
        } else if self.wrapped {
            self.visit_spans(visit, Lap::Head);
            free(self.head, self.tail, visit);
            self.visit_spans(visit, Lap::Tail);
            free(self.lap_bytes, self.capacity, visit);
        } else {
            free(0, self.tail, visit);
            self.visit_spans(visit, Lap::Tail);
            free(self.head, self.capacity, visit);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_run_out_before_they_repeat() {
        let mut ring =
            RingSlab::with_limits(1024, SlabLimits { grants: 2, ..SlabLimits::default() }).unwrap();
        let last = (1 << HANDLE_BITS) - 4;
        ring.spans[0].handle = last;
        ring.spans[1].handle = last + 1;
        let request = Request::new(64).with_lifetime(Lifetime::Transient);
        for expected in [last + 2, last + 3] {
            let grant = ring.acquire(&request).unwrap();
            assert_eq!(grant.handle, Handle(expected));
            ring.release(grant.handle, &[]).unwrap();
        }
        assert_eq!(ring.acquire(&request), Err(Refusal::OutOfNodes { capacity: 2 }));
    }
}
