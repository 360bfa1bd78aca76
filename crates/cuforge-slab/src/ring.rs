//! The ring: transients in the order of their acquisition, retired by stamps.

use crate::limits::{BuildError, HANDLE_BITS, SlabLimits, check_capacity};
use crate::scopes::ScopeStack;
use crate::span::{RELEASED, STAMPED, Span};
use crate::stamps::{Completed, StampRows};
use alloc::boxed::Box;
use cuforge_core::{
    Grant, Handle, Lifetime, Misuse, Progress, Refusal, Request, Rewound, Scope, Segment, SegmentState,
    SlabAllocator, Stamp, Stats,
};

/// A lap that begins with a handle beyond this one is not begun.
const LAST_LAP: u64 = 1 << (HANDLE_BITS - 1);

/// Positions start so that every ring soon counts past `u64::MAX`: what would break there breaks in every test.
const FIRST_POSITION: u64 = u64::MAX - 2047;

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
    /// Spans live or pending: `tail_index..head_index`, places in `spans` modulo its length.
    head_index: u64,
    tail_index: u64,
    /// The next handle is `head_index + bias`. A multiple of the number of places, raised by it whenever `head_index`
    /// goes back.
    bias: u64,
    /// Logical positions: where the newest span ends and the oldest begins. What is between is in use.
    head: u64,
    tail: u64,
    /// Where `head` is in the slab, at most `capacity`.
    offset: u64,
    /// Bytes of a lap. As long as the ring goes round it keeps its size; `grown` takes effect after that.
    capacity: u64,
    grown: u64,
    peak: u64,
    base_align: u64,
    /// How many grants there can be: `limit`, or 0 once the handles are used up.
    grants: u64,
    limit: u32,
    /// The logical position of offset 0 in the lap of `head`.
    lap: u64,
    rows: StampRows,
    pending_bytes: u64,
    pending_grants: u64,
    popped_from_head: u64,
    refused: u64,
    scopes: ScopeStack<u64>,
    reclaim_batch: u32,
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
            spans: (0..places).map(|_| Span { end: 0, handle_and_flags: RELEASED }).collect(),
            head_index: 0,
            tail_index: 0,
            // 0 is never given out.
            bias: places,
            head: FIRST_POSITION,
            tail: FIRST_POSITION,
            offset: 0,
            capacity: capacity_bytes,
            grown: capacity_bytes,
            peak: 0,
            base_align: limits.base_align,
            grants: u64::from(limits.grants),
            limit: limits.grants,
            lap: FIRST_POSITION,
            rows: StampRows::new(places as usize, limits.queues),
            pending_bytes: 0,
            pending_grants: 0,
            popped_from_head: 0,
            refused: 0,
            scopes: ScopeStack::new(limits.scopes),
            reclaim_batch: limits.reclaim_batch,
        })
    }

    /// Live and pending grants.
    pub(crate) fn held(&self) -> u64 {
        self.head_index - self.tail_index
    }

    /// Live and pending bytes.
    #[inline]
    pub(crate) fn used_bytes(&self) -> u64 {
        self.head.wrapping_sub(self.tail)
    }

    pub(crate) fn capacity_bytes(&self) -> u64 {
        self.grown
    }

    #[inline]
    fn place(&self, index: u64) -> usize {
        index as usize & (self.spans.len() - 1)
    }

    /// Whether the request is one that an empty ring serves, and a place is left for it.
    #[inline]
    fn admits(&self, request: &Request) -> bool {
        request.len.wrapping_sub(1) < self.capacity
            && request.align.is_power_of_two()
            && request.align <= self.base_align
            && request.lifetime != Lifetime::Resident
            && self.head_index - self.tail_index < self.grants
    }

    /// Grants `len` bytes at `offset`, if what they take from `head` on leaves the oldest span alone.
    #[inline]
    fn commit(&mut self, offset: u64, charge: u64, request: &Request) -> Option<Grant> {
        let head = self.head.wrapping_add(charge);
        let used = head.wrapping_sub(self.tail);
        if used > self.capacity {
            return None;
        }
        let handle = self.head_index + self.bias;
        let place = self.place(self.head_index);
        self.spans[place] = Span { end: head, handle_and_flags: handle };
        self.head_index += 1;
        self.head = head;
        self.offset = offset + request.len;
        if used > self.peak {
            self.peak = used;
        }
        Some(Grant { handle: Handle(handle), offset, len: request.len })
    }

    /// Goes round, starts over, or says why not.
    #[cold]
    #[inline(never)]
    fn acquire_elsewhere(&mut self, request: Request) -> Result<Grant, Refusal> {
        // By value: a request that is never looked at in memory need not be written there.
        let request = &request;
        self.take_growth();
        self.count_handles();
        if self.admits(request) {
            let start = (self.offset + (request.align - 1)) & !(request.align - 1);
            // Ahead first even if idle: whether growth took effect now or in a call that was refused makes no difference.
            let granted = if start <= self.capacity && request.len <= self.capacity - start {
                self.commit(start, start - self.offset + request.len, request)
            } else if self.head_index == self.tail_index {
                self.offset = 0;
                self.lap = self.head;
                self.commit(0, request.len, request)
            } else {
                let skipped = self.capacity - self.offset;
                let lap = self.head.wrapping_add(skipped);
                let granted = self.commit(0, skipped + request.len, request);
                self.lap = if granted.is_some() { lap } else { self.lap };
                granted
            };
            if let Some(grant) = granted {
                return Ok(grant);
            }
        }
        self.refused += 1;
        Err(self.refusal(request))
    }

    /// Stops granting before handles repeat. It is enough to ask when the ring goes round and when `bias` is raised: a
    /// lap has fewer than 2^60 bytes, and so fewer than 2^60 grants.
    fn count_handles(&mut self) {
        if self.head_index + self.bias > LAST_LAP {
            self.grants = 0;
        }
    }

    fn refusal(&self, request: &Request) -> Refusal {
        if request.len == 0 {
            Refusal::Zero
        } else if !request.align.is_power_of_two() {
            Refusal::Alignment { align: request.align }
        } else if request.lifetime == Lifetime::Resident || request.align > self.base_align {
            Refusal::NeverFits { max_bytes: 0 }
        } else if request.len > self.grown {
            Refusal::NeverFits { max_bytes: self.grown }
        } else if self.held() >= self.grants {
            Refusal::OutOfNodes { capacity: self.limit }
        } else {
            Refusal::Full {
                total_free: self.grown - self.used_bytes(),
                largest_free: self.largest_free(),
                pending: self.pending_bytes,
                oldest: self.oldest(),
            }
        }
    }

    /// Whether the oldest span begins in an earlier lap than `head`.
    fn wrapped(&self) -> bool {
        self.lap.wrapping_sub(self.tail).wrapping_sub(1) < self.used_bytes()
    }

    /// Where the oldest span begins in the slab.
    fn tail_offset(&self) -> u64 {
        if self.wrapped() {
            self.capacity - self.lap.wrapping_sub(self.tail)
        } else {
            self.offset - self.used_bytes()
        }
    }

    fn take_growth(&mut self) {
        if !self.wrapped() {
            self.capacity = self.grown;
        }
    }

    fn largest_free(&self) -> u64 {
        if self.head_index == self.tail_index {
            self.grown
        } else if self.wrapped() {
            self.tail_offset() - self.offset
        } else {
            (self.grown - self.offset).max(self.tail_offset())
        }
    }

    /// The stamp to wait for at either end; none if the grants at both ends are live.
    pub(crate) fn oldest(&self) -> Option<Stamp> {
        [self.tail_index, self.head_index.wrapping_sub(1)].into_iter().find_map(|index| {
            let place = self.place(index);
            let stamped = self.spans[place].handle_and_flags & STAMPED != 0;
            (stamped && self.held() > 0).then(|| self.rows.first(place)).flatten()
        })
    }

    /// The logical position in which a span begins: where the one before it ends.
    fn start_of(&self, index: u64) -> u64 {
        if index == self.tail_index { self.tail } else { self.spans[self.place(index - 1)].end }
    }

    fn bytes_of(&self, index: u64) -> u64 {
        self.spans[self.place(index)].end.wrapping_sub(self.start_of(index))
    }

    /// Retires the oldest span.
    #[inline]
    fn pop_tail(&mut self) {
        self.tail = self.spans[self.place(self.tail_index)].end;
        self.tail_index += 1;
    }

    /// Takes the newest span back, as if it had never been acquired; its handle stays used up.
    fn pop_head(&mut self) {
        let index = self.head_index - 1;
        let start = self.start_of(index);
        // Before the lap's first byte, or at it with the end of the lap before skipped or filled up.
        let into_lap = start.wrapping_sub(self.lap);
        if into_lap <= self.head.wrapping_sub(self.lap) && (into_lap > 0 || !self.wrapped()) {
            self.offset = into_lap;
        } else {
            self.offset = self.capacity - self.lap.wrapping_sub(start);
            self.lap = self.lap.wrapping_sub(self.capacity);
        }
        self.head_index = index;
        self.bias += self.spans.len() as u64;
        self.count_handles();
        self.head = start;
        self.popped_from_head += 1;
        // What is acquired from here on belongs to every scope that is open.
        for mark in self.scopes.marks_mut().rev().take_while(|mark| **mark > index) {
            *mark = index;
        }
    }

    /// Whether the span is released and waits for nothing but its neighbours; `completed` settles stamps.
    fn retires(&self, index: u64, completed: Option<&Completed>) -> bool {
        let place = self.place(index);
        match self.spans[place].handle_and_flags & (RELEASED | STAMPED) {
            0 => false,
            RELEASED => true,
            _ => completed.is_some_and(|completed| self.rows.waits_for(place, 0, completed).is_none()),
        }
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
            self.pending_bytes -= self.bytes_of(index);
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
        self.spans[place].handle_and_flags |= if waits { RELEASED | STAMPED } else { RELEASED };
        let bytes = self.bytes_of(index);
        self.pending_bytes += bytes;
        self.pending_grants += 1;
        bytes
    }

    #[cold]
    fn dead_handle(&self, handle: Handle) -> Misuse {
        let first = self.spans.len() as u64;
        if (first..self.head_index + self.bias).contains(&handle.0) {
            Misuse::StaleHandle { handle }
        } else {
            Misuse::UnknownHandle { handle }
        }
    }

    #[inline(never)]
    fn release_elsewhere(&mut self, handle: Handle, after: &[Stamp]) -> Result<(), Misuse> {
        self.rows.check(after)?;
        if self.spans[self.place(handle.0)].handle_and_flags != handle.0 {
            return Err(self.dead_handle(handle));
        }
        // A place is an index modulo their number, and the span is among the places in use.
        let index = self.tail_index + self.place(handle.0.wrapping_sub(self.tail_index)) as u64;
        self.make_pending(index, after);
        // What waits for a stamp retires by `reclaim`, and nothing waits for it to be released.
        if self.spans[self.place(index)].handle_and_flags & STAMPED == 0 {
            self.settle(None, self.reclaim_batch);
        }
        Ok(())
    }

    fn end_from(&mut self, index: u64, after: &[Stamp]) -> Rewound {
        let mut ended = Rewound::default();
        for index in index.max(self.tail_index)..self.head_index {
            if self.spans[self.place(index)].handle_and_flags & RELEASED == 0 {
                ended.bytes += self.make_pending(index, after);
                ended.grants += 1;
            }
        }
        self.settle(None, u32::MAX);
        ended
    }

    /// Calls `visit` with the pieces of all spans that lie between two logical positions, in order; `offset` is where
    /// the first is in the slab.
    fn visit_spans(&self, visit: &mut dyn FnMut(Segment), from: u64, to: u64, offset: u64) {
        let inside = |position: u64| position.wrapping_sub(self.tail);
        for index in self.tail_index..self.head_index {
            let place = self.place(index);
            let start = inside(self.start_of(index)).max(inside(from));
            let end = inside(self.spans[place].end).min(inside(to));
            if start >= end {
                continue;
            }
            let flags = self.spans[place].handle_and_flags;
            let state = if flags & RELEASED != 0 {
                let waits_for = (flags & STAMPED != 0).then(|| self.rows.first(place)).flatten();
                SegmentState::Pending { waits_for }
            } else {
                SegmentState::Live { lifetime: Lifetime::Transient }
            };
            visit(Segment { offset: offset + (start - inside(from)), len: end - start, state });
        }
    }
}

// SAFETY: spans in use are consecutive from `tail` to `head`, together at most a lap, so they are disjoint; `commit`
// refuses what would reach the oldest, and is only called with bytes that end inside the lap. A span leaves the ring
// only from an end, when it is released and its stamps have completed. Handles in one place only grow; scope tokens are
// numbered by `ScopeStack`.
#[allow(unsafe_code, reason = "implements the allocator trait")]
unsafe impl SlabAllocator for RingSlab {
    #[inline]
    fn acquire(&mut self, request: &Request) -> Result<Grant, Refusal> {
        if self.admits(request) {
            // No overflow: the offset is below 2^60, the alignment at most 2^63.
            let start = (self.offset + (request.align - 1)) & !(request.align - 1);
            if start + request.len <= self.capacity
                && let Some(grant) = self.commit(start, start - self.offset + request.len, request)
            {
                return Ok(grant);
            }
        }
        self.acquire_elsewhere(*request)
    }

    #[inline]
    fn release(&mut self, handle: Handle, after: &[Stamp]) -> Result<(), Misuse> {
        let (place, places) = (self.place(handle.0), self.spans.len() as u64);
        let span = &mut self.spans[place];
        let live = span.handle_and_flags == handle.0;
        if live && after.is_empty() && (handle.0 ^ self.tail_index) & (places - 1) == 0 {
            span.handle_and_flags = RELEASED;
            self.tail = span.end;
            self.tail_index += 1;
            if self.pending_grants > 0 {
                self.settle(None, self.reclaim_batch);
            }
            return Ok(());
        }
        self.release_elsewhere(handle, after)
    }

    fn reclaim(&mut self, progress: &dyn Progress) -> u64 {
        if self.pending_grants == 0 {
            return 0;
        }
        let completed = Completed::read(progress, self.rows.queues());
        let before = self.used_bytes();
        self.settle(Some(&completed), self.reclaim_batch);
        before - self.used_bytes()
    }

    fn stats(&self) -> Stats {
        Stats {
            capacity_bytes: self.grown,
            live_bytes: self.used_bytes() - self.pending_bytes,
            pending_bytes: self.pending_bytes,
            largest_free_bytes: self.largest_free(),
            peak_bytes: self.peak,
            live_grants: self.held() - self.pending_grants,
            acquired_total: self.head_index + self.popped_from_head,
            refused_total: self.refused,
        }
    }

    fn grow(&mut self, extra_bytes: u64) -> Result<u64, Misuse> {
        let grown = self.grown.checked_add(extra_bytes).filter(|bytes| *bytes < crate::MAX_CAPACITY_BYTES);
        self.grown = grown.ok_or(Misuse::Overflow { operation: "grow", bytes: extra_bytes })?;
        self.take_growth();
        Ok(self.grown)
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
        if self.wrapped() {
            self.visit_spans(visit, self.lap, self.head, 0);
            free(self.offset, self.tail_offset(), visit);
            self.visit_spans(visit, self.tail, self.lap, self.tail_offset());
            free(self.capacity, self.grown, visit);
        } else {
            free(0, self.tail_offset(), visit);
            self.visit_spans(visit, self.tail, self.head, self.tail_offset());
            free(self.offset, self.grown, visit);
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
        ring.bias = LAST_LAP - 2;
        let request = Request::new(400).with_lifetime(Lifetime::Transient);
        let handles: std::vec::Vec<_> = core::iter::from_fn(|| {
            let grant = ring.acquire(&request).ok()?;
            ring.release(grant.handle, &[]).ok()?;
            Some(grant.handle.0)
        })
        .collect();
        assert!(handles.len() >= 2 && handles.iter().all(|handle| *handle < 1 << HANDLE_BITS), "{handles:?}");
        assert!(handles.windows(2).all(|pair| pair[0] < pair[1]), "{handles:?}");
        assert_eq!(ring.acquire(&request), Err(Refusal::OutOfNodes { capacity: 2 }));
    }
}
