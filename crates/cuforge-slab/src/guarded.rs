//! An adaptor that puts red zones around every grant and poisons what is not in use.

use crate::limits::{BuildError, SlabLimits};
use crate::scopes::ScopeStack;
use crate::stamps::{Completed, StampRows};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::num::NonZeroU64;
use cuforge_core::{
    Grant, Handle, Lifetime, Misuse, Progress, Refusal, Request, Rewound, Scope, Segment, SegmentState,
    SlabAllocator, Stamp, Stats,
};

/// What bytes are filled with, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fill {
    /// A new grant: whoever reads it before writing it reads this.
    Fresh,
    /// Around a grant: whoever writes here writes out of bounds.
    RedZone,
    /// A grant that is over, all of its work complete: whoever reads it reads a dead view.
    Dead,
}

/// Access to the memory behind the offsets: what [`Guarded`] fills and checks. A test implements it over a `Vec<u8>`, a
/// program over the launcher's fills and copies (they must be complete when the call returns).
pub trait GuardMemory {
    /// Writes the pattern of `fill` to the `len` bytes from `offset` on.
    fn fill(&mut self, offset: u64, len: u64, fill: Fill);

    /// Whether the `len` bytes from `offset` on still hold the pattern of `fill`.
    fn holds(&mut self, offset: u64, len: u64, fill: Fill) -> bool;
}

/// A grant whose red zones were written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overrun {
    /// The grant, as it was handed out.
    pub grant: Grant,
    /// Its bytes.
    pub len: u64,
    /// Whether bytes in front of it were written.
    pub before: bool,
    /// Whether bytes behind it were written.
    pub behind: bool,
}

impl fmt::Display for Overrun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = match (self.before, self.behind) {
            (true, true) => "in front of and behind",
            (true, false) => "in front of",
            _ => "behind",
        };
        write!(f, "bytes written {side} the grant of {} bytes at {}", self.len, self.grant.offset)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Vacant,
    Live,
    Pending,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    inner: Handle,
    grant: Grant,
    len: u64,
    front: u64,
    state: State,
    lifetime: Lifetime,
    serial: u64,
    generation: u64,
}

/// Red zones around every grant, and poison: fresh bytes, dead bytes and red zones carry patterns.
///
/// Red zones are checked, and dead bytes poisoned, when all work on a grant has completed, so writes by kernels in
/// flight are seen too: [`overruns`](Self::overruns) counts them, [`first_overrun`](Self::first_overrun) names one.
/// Every grant costs `2 * zone_bytes` more, and its alignment in front if that is larger.
///
/// For debugging: `reclaim` looks at every pending grant, `rewind` and `clear` at every grant, `inspect` at every grant
/// for every segment; the rest is O(1) and two fills. Nothing allocates after construction.
///
/// ```
/// use cuforge_core::{Request, SlabAllocator};
/// use cuforge_slab::{Fill, GuardMemory, Guarded, SlabLimits, TlsfSlab};
///
/// struct Bytes(Vec<u8>);
/// impl GuardMemory for Bytes {
///     fn fill(&mut self, offset: u64, len: u64, fill: Fill) {
///         self.0[offset as usize..][..len as usize].fill(fill as u8 + 0xA0);
///     }
///     fn holds(&mut self, offset: u64, len: u64, fill: Fill) -> bool {
///         self.0[offset as usize..][..len as usize].iter().all(|byte| *byte == fill as u8 + 0xA0)
///     }
/// }
///
/// let memory = Bytes(vec![0; 1 << 16]);
/// let mut slab = Guarded::new(TlsfSlab::new(1 << 16)?, memory, 64, SlabLimits::default())?;
/// let grant = slab.acquire(&Request::new(1000))?;
/// slab.memory_mut().0[(grant.offset + 1000) as usize] = 7; // one too far
/// slab.release(grant.handle, &[])?;
/// assert_eq!(slab.first_overrun().map(|overrun| (overrun.before, overrun.behind)), Some((false, true)));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub struct Guarded<A, M> {
    inner: A,
    memory: M,
    zone_bytes: u64,
    entries: Box<[Entry]>,
    vacant: Vec<u32>,
    /// Entries that wait for the stamps in their rows.
    pending: Vec<u32>,
    rows: StampRows,
    scopes: ScopeStack<(Scope, u64)>,
    grants: u32,
    serial: u64,
    refused: u64,
    overruns: u64,
    first_overrun: Option<Overrun>,
}

const INDEX_BITS: u32 = 25;

/// A request for so many bytes more.
fn widened(request: &Request, by: u64) -> Request {
    Request { len: request.len.saturating_add(by), ..*request }
}

impl<A: SlabAllocator, M: GuardMemory> Guarded<A, M> {
    /// Guards `inner`, whose offsets `memory` knows, with `zone_bytes` on either side of a grant. `limits` says how
    /// many grants, queues and scopes to keep track of. O(limits).
    ///
    /// # Errors
    /// [`BuildError::Limit`], [`BuildError::NotPowerOfTwo`].
    pub fn new(inner: A, memory: M, zone_bytes: u64, limits: SlabLimits) -> Result<Self, BuildError> {
        limits.check()?;
        let handle = Handle(NonZeroU64::MAX);
        let entry = Entry {
            inner: handle,
            grant: Grant { handle, offset: 0 },
            len: 0,
            front: 0,
            state: State::Vacant,
            lifetime: Lifetime::General,
            serial: 0,
            generation: 0,
        };
        Ok(Self {
            inner,
            memory,
            zone_bytes,
            entries: (0..limits.grants).map(|_| entry).collect(),
            vacant: (0..limits.grants).rev().collect(),
            pending: Vec::with_capacity(limits.grants as usize),
            rows: StampRows::new(limits.grants as usize, limits.queues),
            scopes: ScopeStack::new(limits.scopes),
            grants: limits.grants,
            serial: 0,
            refused: 0,
            overruns: 0,
            first_overrun: None,
        })
    }

    /// Grants found with a red zone written to so far. O(1).
    pub fn overruns(&self) -> u64 {
        self.overruns
    }

    /// The first of them. O(1).
    pub fn first_overrun(&self) -> Option<&Overrun> {
        self.first_overrun.as_ref()
    }

    /// The memory behind the offsets. O(1).
    pub fn memory_mut(&mut self) -> &mut M {
        &mut self.memory
    }

    /// Checks the red zones of all live grants now; how many were written to since the last look. O(grants).
    pub fn check_live(&mut self) -> u64 {
        let before = self.overruns;
        for index in 0..self.entries.len() {
            if self.entries[index].state == State::Live {
                self.check_zones(index);
            }
        }
        self.overruns - before
    }

    fn check_zones(&mut self, index: usize) {
        let Entry { grant, len, front, .. } = self.entries[index];
        let end = grant.offset + len;
        let before = !self.memory.holds(grant.offset - front, front, Fill::RedZone);
        let behind = !self.memory.holds(end, self.zone_bytes, Fill::RedZone);
        if before || behind {
            self.overruns += 1;
            self.first_overrun.get_or_insert(Overrun { grant, len, before, behind });
            // Told once.
            self.memory.fill(grant.offset - front, front, Fill::RedZone);
            self.memory.fill(end, self.zone_bytes, Fill::RedZone);
        }
    }

    /// Bytes of the zone in front, at least as wide as the alignment asks for, and of both zones.
    fn zones(&self, request: &Request) -> (u64, u64) {
        let front = self.zone_bytes.checked_next_multiple_of(request.align).unwrap_or(u64::MAX);
        (front, front.saturating_add(self.zone_bytes))
    }

    fn live_entry(&self, handle: Handle) -> Result<usize, Misuse> {
        let index = handle.number() as usize & ((1 << INDEX_BITS) - 1);
        let generation = handle.number() >> INDEX_BITS;
        match self.entries.get(index) {
            Some(entry) if entry.generation == generation && entry.state == State::Live => Ok(index),
            Some(entry) if generation != 0 && generation <= entry.generation => Err(Misuse::StaleHandle),
            _ => Err(Misuse::UnknownHandle),
        }
    }

    /// The grant is over; its bytes are looked at once `after` has completed.
    fn end(&mut self, index: usize, after: &[Stamp]) {
        if self.rows.write(index, after) {
            self.entries[index].state = State::Pending;
            self.pending.push(index as u32);
        } else {
            self.finish(index);
        }
    }

    fn finish(&mut self, index: usize) {
        self.check_zones(index);
        let Entry { grant, len, front, generation, .. } = self.entries[index];
        self.memory.fill(grant.offset - front, front + len + self.zone_bytes, Fill::Dead);
        self.entries[index].state = State::Vacant;
        if generation < (1 << (61 - INDEX_BITS)) - 1 {
            self.vacant.push(index as u32);
        }
    }

    fn end_since(&mut self, serial: u64, after: &[Stamp]) {
        for index in 0..self.entries.len() {
            let entry = &self.entries[index];
            if entry.state == State::Live && entry.serial >= serial && entry.lifetime != Lifetime::Resident {
                self.end(index, after);
            }
        }
    }
}

impl<A: fmt::Debug, M> fmt::Debug for Guarded<A, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guarded")
            .field("inner", &self.inner)
            .field("zone_bytes", &self.zone_bytes)
            .field("overruns", &self.overruns)
            .finish_non_exhaustive()
    }
}

// SAFETY: every grant lies inside a grant of the inner allocator, which keeps the contract, at a multiple of the
// alignment that the inner grant has too. Poison is only written to bytes whose stamps had completed by the same
// progress that the inner allocator is then asked to reclaim by, or that are being granted. Generations only grow.
#[allow(unsafe_code, reason = "implements the allocator trait by forwarding")]
unsafe impl<A: SlabAllocator, M: GuardMemory> SlabAllocator for Guarded<A, M> {
    fn try_acquire(&mut self, request: &Request) -> Option<Grant> {
        if request.malformed().is_some() {
            return self.inner.try_acquire(request);
        }
        let Some(&index) = self.vacant.last() else {
            self.refused += 1;
            return None;
        };
        let generation = self.entries[index as usize].generation + 1;
        let handle = Handle::new(generation << INDEX_BITS | u64::from(index))?;
        let (front, around) = self.zones(request);
        let inner = self.inner.try_acquire(&widened(request, around))?;
        self.vacant.pop();
        let grant = Grant { handle, offset: inner.offset + front };
        self.entries[index as usize] = Entry {
            inner: inner.handle,
            grant,
            len: request.len,
            front,
            state: State::Live,
            lifetime: request.lifetime,
            serial: self.serial,
            generation,
        };
        self.serial += 1;
        self.memory.fill(inner.offset, front, Fill::RedZone);
        self.memory.fill(grant.offset, request.len, Fill::Fresh);
        self.memory.fill(grant.offset + request.len, self.zone_bytes, Fill::RedZone);
        Some(grant)
    }

    fn refusal(&self, request: &Request) -> Refusal {
        if request.malformed().is_some() {
            return self.inner.refusal(request);
        }
        if self.vacant.is_empty() {
            return Refusal::OutOfNodes { capacity: self.grants };
        }
        let (_, around) = self.zones(request);
        match self.inner.refusal(&widened(request, around)) {
            Refusal::NeverFits { max_bytes } => {
                Refusal::NeverFits { max_bytes: max_bytes.saturating_sub(around) }
            }
            other => other,
        }
    }

    fn release(&mut self, handle: Handle, after: &[Stamp]) -> Result<(), Misuse> {
        self.rows.check(after)?;
        let index = self.live_entry(handle)?;
        self.inner.release(self.entries[index].inner, after)?;
        self.end(index, after);
        Ok(())
    }

    fn reclaim(&mut self, progress: &dyn Progress) -> u64 {
        let completed = Completed::read(progress, self.rows.queues());
        let mut next = 0;
        while let Some(&index) = self.pending.get(next) {
            if self.rows.waits_for(index as usize, 0, &completed).is_some() {
                next += 1;
            } else {
                self.pending.swap_remove(next);
                self.finish(index as usize);
            }
        }
        // By the same state of the queues: nothing comes free there that was not poisoned here.
        self.inner.reclaim(&completed)
    }

    fn stats(&self) -> Stats {
        let stats = self.inner.stats();
        Stats { refused_total: stats.refused_total + self.refused, ..stats }
    }

    fn grow(&mut self, extra_bytes: u64) -> Result<u64, Misuse> {
        self.inner.grow(extra_bytes)
    }

    fn clear(&mut self, after: &[Stamp]) -> Result<Rewound, Misuse> {
        self.rows.check(after)?;
        let rewound = self.inner.clear(after)?;
        self.scopes.close_all();
        self.end_since(0, after);
        Ok(rewound)
    }

    fn push_scope(&mut self) -> Result<Scope, Misuse> {
        if !self.scopes.has_room() {
            return Err(self.scopes.too_deep());
        }
        let inner = self.inner.push_scope()?;
        self.scopes.push((inner, self.serial))
    }

    fn rewind(&mut self, scope: Scope, after: &[Stamp]) -> Result<Rewound, Misuse> {
        self.rows.check(after)?;
        let (inner, serial) = self.scopes.mark(scope)?;
        let rewound = self.inner.rewind(inner, after)?;
        self.scopes.close(scope);
        self.end_since(serial, after);
        Ok(rewound)
    }

    fn inspect(&self, visit: &mut dyn FnMut(Segment)) -> Result<(), Misuse> {
        let live = |segment: &Segment| {
            let inside = |entry: &&Entry| {
                entry.state == State::Live
                    && entry.grant.offset >= segment.offset
                    && entry.grant.offset < segment.offset + segment.len
            };
            let found = self.entries.iter().find(inside);
            found.map(|entry| (entry.grant.offset, entry.grant.offset + entry.len))
        };
        self.inner.inspect(&mut |segment| {
            let (SegmentState::Live { .. }, Some((start, end))) = (segment.state, live(&segment)) else {
                return visit(segment);
            };
            let last = segment.offset + segment.len;
            for (from, to, state) in [
                (segment.offset, start, SegmentState::Guard),
                (start, end, segment.state),
                (end, last, SegmentState::Guard),
            ] {
                if from < to {
                    visit(Segment { offset: from, len: to - from, state });
                }
            }
        })
    }
}
