//! The ring: transients in the order of their acquisition, retired by stamps.

mod map;

use crate::limits::{BuildError, HANDLE_BITS, SlabLimits, check_capacity};
use crate::scopes::ScopeStack;
use crate::span::{RELEASED, STAMPED, Span};
use crate::stamps::{Completed, StampRows};
use alloc::boxed::Box;
use core::hint::cold_path;
use cuforge_core::{
    Grant, Handle, Lifetime, Misuse, Operation, Progress, Refusal, Request, Rewound, Scope, Segment,
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
    hot: Hot,
    /// The bits that an alignment minus one must not have.
    misaligned: u64,
    pending_grants: u64,
    /// The number of the oldest span while something is pending.
    parked: u64,
    /// The number of places less one.
    mask: usize,
    spans: Box<[Span]>,
    /// Numbers ascend even when the newest span is taken back: then those in use are raised by the number of places,
    /// and so is `bias`. `next - bias` counts spans as if nothing were ever taken back.
    bias: u64,
    /// Bytes of a lap. As long as the ring goes round it keeps its size; `grown` takes effect after that.
    capacity: u64,
    grown: u64,
    /// How many grants there can be: `limit`, or 0 once the handles are used up.
    grants: u64,
    limit: u32,
    rows: StampRows,
    pending_bytes: u64,
    popped_from_head: u64,
    refused: u64,
    scopes: ScopeStack<u64>,
    reclaim_batch: u32,
}

/// What a call writes that neither goes round nor waits for anything, in one line of the cache: a processor takes longer
/// over stores that go from line to line.
#[derive(Debug)]
#[repr(C, align(64))]
struct Hot {
    /// The number of the next span, which is its handle. Spans in use are numbered `oldest()..next`; a span's place is
    /// its number modulo the number of places.
    next: u64,
    /// Where the newest span ends in the slab, at most `capacity`.
    offset: u64,
    /// The number of the oldest span if nothing is pending, so that a release of it has nothing else to look at; else 0.
    front: u64,
    /// The logical position in which the oldest span begins. What is from here to `lap + offset` is in use.
    tail: u64,
    peak: u64,
    /// The logical position of offset 0 in the newest span's lap.
    lap: u64,
    /// `next` may come up to here, and no further without a look at what has been retired since.
    next_limit: u64,
    /// Grants may end up to here, and no further without a look at what has been retired since: the bytes from
    /// `offset` on are free.
    room_end: u64,
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
    /// stays in the first-level cache: grants in flight rounded up to a power of two are enough. O(limits).
    ///
    /// # Errors
    /// As [`new`](Self::new), and [`BuildError::Limit`], [`BuildError::NotPowerOfTwo`].
    pub fn with_limits(capacity_bytes: u64, limits: SlabLimits) -> Result<Self, BuildError> {
        check_capacity(capacity_bytes, 1, &limits)?;
        let places = u64::from(limits.grants).next_power_of_two();
        Ok(Self {
            hot: Hot {
                // 0 is never given out.
                next: places,
                offset: 0,
                front: places,
                tail: FIRST_POSITION,
                peak: 0,
                lap: FIRST_POSITION,
                next_limit: 0,
                room_end: 0,
            },
            misaligned: limits.base_align.wrapping_neg(),
            pending_grants: 0,
            parked: 0,
            mask: places as usize - 1,
            spans: (0..places).map(|_| Span { end: 0, handle_and_flags: RELEASED }).collect(),
            bias: places,
            capacity: capacity_bytes,
            grown: capacity_bytes,
            grants: u64::from(limits.grants),
            limit: limits.grants,
            rows: StampRows::new(places as usize, limits.queues),
            pending_bytes: 0,
            popped_from_head: 0,
            refused: 0,
            scopes: ScopeStack::new(limits.scopes),
            reclaim_batch: limits.reclaim_batch,
        })
    }

    /// The number of the oldest span, or of the next if there is none.
    #[inline]
    fn oldest(&self) -> u64 {
        if self.hot.front == 0 { self.parked } else { self.hot.front }
    }

    /// To be called whenever `pending_grants` changes too.
    fn set_oldest(&mut self, number: u64) {
        (self.hot.front, self.parked) = if self.pending_grants == 0 { (number, 0) } else { (0, number) };
    }

    /// Live and pending grants.
    #[inline]
    pub(crate) fn held(&self) -> u64 {
        self.hot.next - self.oldest()
    }

    /// Live and pending bytes.
    #[inline]
    pub(crate) fn used_bytes(&self) -> u64 {
        self.head().wrapping_sub(self.hot.tail)
    }

    pub(crate) fn capacity_bytes(&self) -> u64 {
        self.grown
    }

    /// The logical position in which the newest span ends.
    #[inline]
    fn head(&self) -> u64 {
        self.hot.lap.wrapping_add(self.hot.offset)
    }

    #[inline]
    fn place(&self, number: u64) -> usize {
        number as usize & self.mask
    }

    /// Whether any ring of this base alignment can serve the request's alignment and lifetime.
    #[inline]
    fn serves(&self, request: &Request) -> bool {
        // No bit in common with what is below it: a power of two, or 0, of which all bits below are set.
        let below = request.align.wrapping_sub(1);
        (request.align | self.misaligned) & below == 0 && request.lifetime != Lifetime::Resident
    }

    /// Grants the next `len` bytes in this lap, if they end before `room_end`.
    #[inline]
    fn ahead(&mut self, request: &Request) -> Option<Grant> {
        let number = self.hot.next;
        if !self.serves(request) || number >= self.hot.next_limit {
            return None;
        }
        // No overflow: the offset is below 2^60, the alignment at most 2^63.
        let start = (self.hot.offset + (request.align - 1)) & request.align.wrapping_neg();
        let end = start.wrapping_add(request.len);
        // An end that is not past the start belongs to a length of 0, or to one that wraps.
        if end <= start || end > self.hot.room_end {
            return None;
        }
        let position = self.hot.lap.wrapping_add(end);
        let used = position.wrapping_sub(self.hot.tail);
        if used > self.hot.peak {
            // Seldom, and so out of the way of the rest.
            cold_path();
            self.hot.peak = used;
        }
        let handle = Handle::new(number)?;
        let place = self.place(number);
        *self.spans.get_mut(place)? = Span { end: position, handle_and_flags: number };
        self.hot.next = number + 1;
        self.hot.offset = end;
        Some(Grant { handle, offset: start })
    }

    /// Ends the oldest grant, if nothing is pending and it waits for nothing.
    #[inline]
    fn retire(&mut self, handle: Handle, after: &[Stamp]) -> Option<()> {
        let number = handle.number();
        if number != self.hot.front || !after.is_empty() {
            return None;
        }
        // There is a span in use under the oldest number, or its place holds an older one.
        let span = self.spans.get(self.place(number))?;
        if span.handle_and_flags != number {
            return None;
        }
        self.hot.tail = span.end;
        self.hot.front = number + 1;
        Some(())
    }

    /// Looks again at what is free, goes round, starts over, or says why not.
    #[cold]
    #[inline(never)]
    fn acquire_elsewhere(&mut self, request: Request) -> Option<Grant> {
        // By value: a request that is never looked at in memory need not be written there.
        let request = &request;
        self.take_growth();
        self.count_handles();
        self.hot.next_limit = self.oldest() + self.grants;
        self.hot.room_end = if self.wrapped() { self.tail_offset() } else { self.capacity };
        // Ahead first even if idle: whether growth took effect now or in a call that was refused makes no difference.
        let granted = self.ahead(request).or_else(|| self.start_lap(request));
        self.refused += u64::from(granted.is_none());
        granted
    }

    /// Grants bytes from offset 0 on, if the request fits there: in the next lap, or in this one if nothing is in use.
    fn start_lap(&mut self, request: &Request) -> Option<Grant> {
        let (offset, lap, room_end) = (self.hot.offset, self.hot.lap, self.hot.room_end);
        if self.held() == 0 {
            self.hot.lap = self.head();
            self.hot.room_end = self.capacity;
        } else if self.wrapped() {
            return None;
        } else {
            self.hot.room_end = self.tail_offset();
            self.hot.lap = self.hot.lap.wrapping_add(self.capacity);
        }
        self.hot.offset = 0;
        let granted = self.ahead(request);
        if granted.is_none() {
            (self.hot.offset, self.hot.lap, self.hot.room_end) = (offset, lap, room_end);
        }
        granted
    }

    /// Stops granting before handles repeat. It is enough to ask when the ring goes round and when numbers are raised: a
    /// lap has fewer than 2^60 bytes, and so fewer than 2^60 grants.
    fn count_handles(&mut self) {
        if self.hot.next > LAST_LAP {
            self.grants = 0;
        }
    }

    /// Whether the oldest span begins in an earlier lap than the newest ends in.
    fn wrapped(&self) -> bool {
        self.hot.lap.wrapping_sub(self.hot.tail).wrapping_sub(1) < self.used_bytes()
    }

    /// Where the oldest span begins in the slab.
    fn tail_offset(&self) -> u64 {
        if self.wrapped() {
            self.capacity - self.hot.lap.wrapping_sub(self.hot.tail)
        } else {
            self.hot.offset - self.used_bytes()
        }
    }

    fn take_growth(&mut self) {
        if !self.wrapped() {
            self.capacity = self.grown;
        }
    }

    fn largest_free(&self) -> u64 {
        if self.held() == 0 {
            self.grown
        } else if self.wrapped() {
            self.tail_offset() - self.hot.offset
        } else {
            (self.grown - self.hot.offset).max(self.tail_offset())
        }
    }

    /// The stamp to wait for at either end; none if the grants at both ends are live.
    pub(crate) fn oldest_stamp(&self) -> Option<Stamp> {
        [self.oldest(), self.hot.next - 1].into_iter().find_map(|number| {
            let place = self.place(number);
            let stamped = self.spans[place].handle_and_flags & STAMPED != 0;
            (stamped && self.held() > 0).then(|| self.rows.first(place)).flatten()
        })
    }

    /// The logical position in which a span begins: where the one before it ends.
    fn start_of(&self, number: u64) -> u64 {
        if number == self.oldest() { self.hot.tail } else { self.spans[self.place(number - 1)].end }
    }

    fn bytes_of(&self, number: u64) -> u64 {
        self.spans[self.place(number)].end.wrapping_sub(self.start_of(number))
    }

    /// Retires the oldest span.
    fn pop_tail(&mut self) {
        let oldest = self.oldest();
        self.hot.tail = self.spans[self.place(oldest)].end;
        self.set_oldest(oldest + 1);
    }

    /// Takes the newest span back, as if it had never been acquired; its handle stays used up.
    fn pop_head(&mut self) {
        let start = self.start_of(self.hot.next - 1);
        // Before the lap's first byte, or at it with the end of the lap before skipped or filled up.
        let into_lap = start.wrapping_sub(self.hot.lap);
        if into_lap <= self.hot.offset && (into_lap > 0 || !self.wrapped()) {
            self.hot.offset = into_lap;
        } else {
            self.hot.offset = self.capacity - self.hot.lap.wrapping_sub(start);
            self.hot.lap = self.hot.lap.wrapping_sub(self.capacity);
        }
        // What is free ahead is looked up anew: it was so in the lap that may be left, and for other numbers.
        self.hot.next_limit = 0;
        let counted = self.hot.next - 1 - self.bias;
        let places = self.spans.len() as u64;
        self.hot.next += places - 1;
        self.set_oldest(self.oldest() + places);
        self.bias += places;
        self.count_handles();
        self.popped_from_head += 1;
        // What is acquired from here on belongs to every scope that is open.
        for mark in self.scopes.marks_mut().rev().take_while(|mark| **mark > counted) {
            *mark = counted;
        }
    }

    /// Whether the span is released and waits for nothing but its neighbours; `completed` settles stamps.
    fn retires(&self, number: u64, completed: Option<&Completed>) -> bool {
        let place = self.place(number);
        match self.spans[place].handle_and_flags & (RELEASED | STAMPED) {
            0 => false,
            RELEASED => true,
            _ => completed.is_some_and(|completed| self.rows.waits_for(place, 0, completed).is_none()),
        }
    }

    /// Retires what can be from both ends, at most `budget` spans.
    #[inline(never)]
    fn settle(&mut self, completed: Option<&Completed>, mut budget: u32) {
        while budget > 0 && self.held() > 0 {
            let from_tail = self.retires(self.oldest(), completed);
            if !from_tail && !self.retires(self.hot.next - 1, completed) {
                break;
            }
            let number = if from_tail { self.oldest() } else { self.hot.next - 1 };
            self.pending_bytes -= self.bytes_of(number);
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
    fn make_pending(&mut self, number: u64, after: &[Stamp]) -> u64 {
        let place = self.place(number);
        let waits = self.rows.write(place, after);
        self.spans[place].handle_and_flags |= if waits { RELEASED | STAMPED } else { RELEASED };
        let bytes = self.bytes_of(number);
        self.pending_bytes += bytes;
        let oldest = self.oldest();
        self.pending_grants += 1;
        self.set_oldest(oldest);
        bytes
    }

    #[cold]
    fn dead_handle(&self, handle: Handle) -> Misuse {
        let first = self.spans.len() as u64;
        if (first..self.hot.next).contains(&handle.number()) {
            Misuse::StaleHandle
        } else {
            Misuse::UnknownHandle
        }
    }

    #[cold]
    #[inline(never)]
    fn release_elsewhere(&mut self, handle: Handle, after: &[Stamp]) -> Result<(), Misuse> {
        self.rows.check(after)?;
        // The span in use that has the handle's place, if there is one: a place outlives the span that was in it.
        let number = self.oldest() + self.place(handle.number().wrapping_sub(self.oldest())) as u64;
        if number >= self.hot.next
            || self.spans[self.place(handle.number())].handle_and_flags != handle.number()
        {
            return Err(self.dead_handle(handle));
        }
        self.make_pending(number, after);
        // What waits for a stamp retires by `reclaim`, and nothing waits for it to be released.
        if self.spans[self.place(number)].handle_and_flags & STAMPED == 0 {
            self.settle(None, self.reclaim_batch);
        }
        Ok(())
    }

    fn end_from(&mut self, number: u64, after: &[Stamp]) -> Rewound {
        let mut ended = Rewound::default();
        for number in number.max(self.oldest())..self.hot.next {
            if self.spans[self.place(number)].handle_and_flags & RELEASED == 0 {
                ended.bytes += self.make_pending(number, after);
                ended.grants += 1;
            }
        }
        self.settle(None, u32::MAX);
        ended
    }
}

// SAFETY: spans in use are consecutive from `tail` to `lap + offset`, together at most a lap, so they are disjoint;
// `ahead` stays below `room_end`, up to which nothing is in use: retiring only frees bytes, and after `pop_head` it
// is looked up anew. A span leaves the ring only from an end, when it is released and its stamps have completed.
// Handles only grow; scope tokens are numbered by `ScopeStack`.
#[allow(unsafe_code, reason = "implements the allocator trait")]
unsafe impl SlabAllocator for RingSlab {
    #[inline(always)]
    fn try_acquire(&mut self, request: &Request) -> Option<Grant> {
        match self.ahead(request) {
            Some(grant) => Some(grant),
            None => self.acquire_elsewhere(*request),
        }
    }

    fn refusal(&self, request: &Request) -> Refusal {
        if let Some(refusal) = request.malformed() {
            refusal
        } else if !self.serves(request) {
            Refusal::NeverFits { max_bytes: 0 }
        } else if request.len > self.grown {
            Refusal::NeverFits { max_bytes: self.grown }
        } else if self.held() >= self.grants {
            Refusal::OutOfNodes { capacity: self.limit }
        } else {
            Refusal::full(&self.stats(), self.oldest_stamp())
        }
    }

    #[inline(always)]
    fn release(&mut self, handle: Handle, after: &[Stamp]) -> Result<(), Misuse> {
        match self.retire(handle, after) {
            Some(()) => Ok(()),
            None => self.release_elsewhere(handle, after),
        }
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
            peak_bytes: self.hot.peak,
            live_grants: self.held() - self.pending_grants,
            acquired_total: self.hot.next - self.bias + self.popped_from_head,
            refused_total: self.refused,
        }
    }

    fn grow(&mut self, extra_bytes: u64) -> Result<u64, Misuse> {
        let grown = self.grown.checked_add(extra_bytes).filter(|bytes| *bytes < crate::MAX_CAPACITY_BYTES);
        self.grown = grown.ok_or(Misuse::Overflow { operation: Operation::Grow })?;
        self.take_growth();
        Ok(self.grown)
    }

    fn clear(&mut self, after: &[Stamp]) -> Result<Rewound, Misuse> {
        self.rows.check(after)?;
        self.scopes.close_all();
        Ok(self.end_from(self.oldest(), after))
    }

    fn push_scope(&mut self) -> Result<Scope, Misuse> {
        self.scopes.push(self.hot.next - self.bias)
    }

    fn rewind(&mut self, scope: Scope, after: &[Stamp]) -> Result<Rewound, Misuse> {
        self.rows.check(after)?;
        let mark = self.scopes.mark(scope)?;
        self.scopes.close(scope);
        Ok(self.end_from(mark + self.bias, after))
    }

    fn inspect(&self, visit: &mut dyn FnMut(Segment)) -> Result<(), Misuse> {
        self.visit(visit);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_was_raised_is_no_handle_of_the_grant_that_has_it() {
        let mut ring =
            RingSlab::with_limits(1024, SlabLimits { grants: 4, ..SlabLimits::default() }).unwrap();
        let request = Request::new(64).with_lifetime(Lifetime::Transient);
        let [older, newer] = [(); 2].map(|()| ring.acquire(&request).unwrap());
        ring.release(newer.handle, &[]).unwrap();
        let raised = Handle::new(ring.oldest()).unwrap();
        assert_ne!(raised, older.handle, "taking the newest back raises the numbers of the rest");
        assert_eq!(ring.release(raised, &[]), Err(Misuse::StaleHandle));
        assert_eq!(ring.stats().live_grants, 1);
        assert_eq!(ring.release(older.handle, &[]), Ok(()));
    }

    #[test]
    fn handles_run_out_before_they_repeat() {
        let mut ring =
            RingSlab::with_limits(1024, SlabLimits { grants: 2, ..SlabLimits::default() }).unwrap();
        for number in [&mut ring.hot.next, &mut ring.hot.front, &mut ring.bias] {
            *number = LAST_LAP - 2;
        }
        let request = Request::new(400).with_lifetime(Lifetime::Transient);
        let handles: std::vec::Vec<_> = core::iter::from_fn(|| {
            let grant = ring.acquire(&request).ok()?;
            ring.release(grant.handle, &[]).ok()?;
            Some(grant.handle.number())
        })
        .collect();
        assert!(handles.len() >= 2 && handles.iter().all(|handle| *handle < 1 << HANDLE_BITS), "{handles:?}");
        assert!(handles.windows(2).all(|pair| pair[0] < pair[1]), "{handles:?}");
        assert_eq!(ring.acquire(&request), Err(Refusal::OutOfNodes { capacity: 2 }));
    }
}
