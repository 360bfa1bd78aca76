//! The stack: grants one on top of the other, taken back a scope at a time.

use crate::limits::{BuildError, MAX_CAPACITY_BYTES, SlabLimits, check_capacity};
use crate::scopes::{ScopeStack, depth_of};
use crate::stamps::{Completed, StampRows};
use alloc::boxed::Box;
use cuforge_core::{
    Grant, Handle, Lifetime, Misuse, Operation, Progress, Refusal, Request, Rewound, Scope, Segment,
    SegmentState, SlabAllocator, Stamp, Stats,
};

const INDEX_BITS: u32 = 25;
const MAX_GENERATION: u64 = (1 << (61 - INDEX_BITS)) - 1;

/// One level of the stack, with the padding below it: from where the level below ends to its own end.
#[derive(Clone, Copy, Debug)]
struct Level {
    end: u64,
    generation: u64,
    /// How many scopes were open when it was acquired.
    depth: u32,
    live: bool,
    lifetime: Lifetime,
}

/// What is live above a scope's mark and below the next scope's.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    grants: u64,
    bytes: u64,
}

/// A stack of bytes with nested checkpoints: restoring one is O(1) however much was acquired since.
///
/// For plans that are acquired as a whole and dropped as a whole: offsets after a restore are those of the first
/// time. Bytes restored in flight stay on the stack as one pending level until their stamps complete; meanwhile
/// acquisition goes on above them. So **work in flight at every restore needs room for two plans**, and a stack that
/// is never idle at its top only grows: where frames overlap for good, use [`RingSlab`](crate::RingSlab) or
/// [`RegionSlab`](crate::RegionSlab), which reuse from the oldest on. A grant released on its own comes free when all
/// above it are gone. [`Lifetime::Resident`] is refused as never fitting.
///
/// | call | time |
/// |---|---|
/// | `acquire`, success and refusal | O(1) |
/// | `release` | O(1) amortised: it also takes down what was only waiting for this grant |
/// | `rewind`, `clear` | O(scopes × queues) |
/// | `reclaim` | O(freed levels), at most `reclaim_batch` |
/// | `push_scope`, `grow`, `stats` | O(1) |
///
/// Nothing allocates after construction.
///
/// ```
/// use cuforge_core::{Request, SlabAllocator};
/// use cuforge_slab::ScopeSlab;
///
/// let mut stack = ScopeSlab::new(1 << 20)?;
/// let weights = stack.acquire(&Request::new(1000))?;
/// let step = stack.push_scope()?;
/// let first = stack.acquire(&Request::new(5000))?;
/// assert_eq!(stack.rewind(step, &[])?.grants, 1);
/// assert_eq!(stack.acquire(&Request::new(5000))?.offset, first.offset, "the same plan, the same places");
/// assert!(stack.release(first.handle, &[]).is_err(), "the first one is over");
/// stack.release(weights.handle, &[])?;
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ScopeSlab {
    levels: Box<[Level]>,
    /// Levels in use.
    height: usize,
    /// What pending levels wait for, and behind them one row for each depth of scopes: the stamps of all that was
    /// released there.
    rows: StampRows,
    /// By depth, from no scope at all on.
    counts: Box<[Counts]>,
    scopes: ScopeStack<usize>,
    capacity: u64,
    live_bytes: u64,
    live_grants: u64,
    peak: u64,
    acquired: u64,
    refused: u64,
    limits: SlabLimits,
}

impl ScopeSlab {
    /// A stack of `capacity_bytes` with default limits. O(limits).
    ///
    /// # Errors
    /// [`BuildError::Capacity`] for 0 bytes, [`BuildError::TooLarge`].
    pub fn new(capacity_bytes: u64) -> Result<Self, BuildError> {
        Self::with_limits(capacity_bytes, SlabLimits::default())
    }

    /// A stack with limits of one's own. It rounds no sizes: `granule_bytes` is not used. O(limits).
    ///
    /// # Errors
    /// As [`new`](Self::new), and [`BuildError::Limit`], [`BuildError::NotPowerOfTwo`].
    pub fn with_limits(capacity_bytes: u64, limits: SlabLimits) -> Result<Self, BuildError> {
        check_capacity(capacity_bytes, 1, &limits)?;
        let level = Level { end: 0, generation: 0, depth: 0, live: false, lifetime: Lifetime::General };
        let depths = limits.scopes as usize + 1;
        Ok(Self {
            levels: (0..limits.grants).map(|_| level).collect(),
            height: 0,
            rows: StampRows::new(limits.grants as usize + depths, limits.queues),
            counts: (0..depths).map(|_| Counts::default()).collect(),
            scopes: ScopeStack::new(limits.scopes),
            capacity: capacity_bytes,
            live_bytes: 0,
            live_grants: 0,
            peak: 0,
            acquired: 0,
            refused: 0,
            limits,
        })
    }

    fn top(&self) -> u64 {
        self.end_below(self.height)
    }

    fn end_below(&self, level: usize) -> u64 {
        level.checked_sub(1).map_or(0, |below| self.levels[below].end)
    }

    fn row_of_depth(&self, depth: usize) -> usize {
        self.levels.len() + depth
    }

    /// Where a request goes, if there is room.
    fn place(&self, request: &Request) -> Option<(u64, u64)> {
        let admitted = request.len.wrapping_sub(1) < self.capacity
            && request.align.is_power_of_two()
            && request.align <= self.limits.base_align
            && request.lifetime != Lifetime::Resident
            && self.height < self.levels.len()
            && self.levels[self.height].generation < MAX_GENERATION;
        if !admitted {
            return None;
        }
        // No overflow: the top is at most 2^60, the alignment at most 2^63.
        let start = (self.top() + (request.align - 1)) & !(request.align - 1);
        (start <= self.capacity && request.len <= self.capacity - start).then(|| (start, start + request.len))
    }

    fn live_level(&self, handle: Handle) -> Result<usize, Misuse> {
        let index = handle.number() as usize & ((1 << INDEX_BITS) - 1);
        let generation = handle.number() >> INDEX_BITS;
        match self.levels.get(index) {
            Some(level) if level.generation == generation && level.live && index < self.height => Ok(index),
            Some(level) if generation != 0 && generation <= level.generation => Err(Misuse::StaleHandle),
            _ => Err(Misuse::UnknownHandle),
        }
    }

    /// Takes down what is released and complete from the top, at most `budget` levels.
    fn settle(&mut self, completed: Option<&Completed>, mut budget: u32) {
        while let Some(top) = self.height.checked_sub(1) {
            let waits = match completed {
                Some(completed) => self.rows.waits_for(top, 0, completed).is_some(),
                None => self.rows.first(top).is_some(),
            };
            if budget == 0 || self.levels[top].live || waits {
                break;
            }
            self.height = top;
            budget -= 1;
            // What is acquired from here on belongs to every scope that is open.
            for mark in self.scopes.marks_mut().rev().take_while(|mark| **mark > top) {
                *mark = top;
            }
        }
    }

    /// Ends all levels from `mark` on, which were acquired at `depth` or deeper.
    fn end_from(&mut self, mark: usize, depth: usize, after: &[Stamp]) -> Rewound {
        let mut ended = Rewound::default();
        self.peak = self.peak.max(self.top());
        let end = self.top();
        let row = self.row_of_depth(depth);
        self.rows.join(row, after);
        for inner in depth..self.counts.len() {
            let counts = core::mem::take(&mut self.counts[inner]);
            ended.grants += counts.grants;
            ended.bytes += counts.bytes;
            if inner > depth {
                let inner = self.row_of_depth(inner);
                self.rows.join_row(row, inner);
                self.rows.reset(inner);
            }
        }
        self.live_grants -= ended.grants;
        self.live_bytes -= ended.bytes;
        if mark < self.height {
            // One pending level in place of all; the row of its depth is complete with it.
            self.height = mark + 1;
            self.rows.reset(mark);
            self.rows.join_row(mark, row);
            let level = &mut self.levels[mark];
            (level.end, level.live, level.depth) = (end, false, depth.saturating_sub(1) as u32);
            if depth > 0 {
                let outer = self.row_of_depth(depth - 1);
                self.rows.join_row(outer, row);
            }
        }
        self.settle(None, u32::MAX);
        // The pending level of a clear stays at depth 0, and so do its stamps.
        if depth > 0 || self.height == 0 {
            self.rows.reset(row);
        }
        ended
    }
}

// SAFETY: levels in use are consecutive runs from 0 to `top`, so they are disjoint; a grant starts at or above `top` and
// ends inside the capacity. A level leaves the stack only from its top, not live and with the stamps of all that it
// replaced complete. A level's generation grows with every grant in it; scope tokens are numbered by `ScopeStack`.
#[allow(unsafe_code, reason = "implements the allocator trait")]
unsafe impl SlabAllocator for ScopeSlab {
    fn try_acquire(&mut self, request: &Request) -> Option<Grant> {
        let Some((start, end)) = self.place(request) else {
            self.refused += 1;
            return None;
        };
        let (index, depth, bytes) = (self.height, self.scopes.depth(), end - self.top());
        let level = &mut self.levels[index];
        let generation = level.generation + 1;
        let handle = Handle::new(generation << INDEX_BITS | index as u64)?;
        *level = Level { end, generation, depth: depth as u32, live: true, lifetime: request.lifetime };
        self.height += 1;
        self.counts[depth].grants += 1;
        self.counts[depth].bytes += bytes;
        self.live_bytes += bytes;
        self.live_grants += 1;
        self.acquired += 1;
        Some(Grant { handle, offset: start })
    }

    fn refusal(&self, request: &Request) -> Refusal {
        if let Some(refusal) = request.malformed() {
            refusal
        } else if request.lifetime == Lifetime::Resident || request.align > self.limits.base_align {
            Refusal::NeverFits { max_bytes: 0 }
        } else if request.len > self.capacity {
            Refusal::NeverFits { max_bytes: self.capacity }
        } else if self.height == self.levels.len() {
            Refusal::OutOfNodes { capacity: self.limits.grants }
        } else {
            let top = self.height.checked_sub(1).filter(|top| !self.levels[*top].live);
            Refusal::full(&self.stats(), top.and_then(|top| self.rows.first(top)))
        }
    }

    fn release(&mut self, handle: Handle, after: &[Stamp]) -> Result<(), Misuse> {
        self.rows.check(after)?;
        let index = self.live_level(handle)?;
        let bytes = self.levels[index].end - self.end_below(index);
        let depth = self.levels[index].depth as usize;
        self.peak = self.peak.max(self.top());
        self.levels[index].live = false;
        self.rows.write(index, after);
        let row = self.row_of_depth(depth);
        self.rows.join(row, after);
        self.counts[depth].grants -= 1;
        self.counts[depth].bytes -= bytes;
        self.live_bytes -= bytes;
        self.live_grants -= 1;
        self.settle(None, self.limits.reclaim_batch);
        Ok(())
    }

    fn reclaim(&mut self, progress: &dyn Progress) -> u64 {
        let completed = Completed::read(progress, self.rows.queues());
        let before = self.top();
        self.settle(Some(&completed), self.limits.reclaim_batch);
        before - self.top()
    }

    fn stats(&self) -> Stats {
        Stats {
            capacity_bytes: self.capacity,
            live_bytes: self.live_bytes,
            pending_bytes: self.top() - self.live_bytes,
            largest_free_bytes: self.capacity - self.top(),
            peak_bytes: self.peak.max(self.top()),
            live_grants: self.live_grants,
            acquired_total: self.acquired,
            refused_total: self.refused,
        }
    }

    fn grow(&mut self, extra_bytes: u64) -> Result<u64, Misuse> {
        let grown = self.capacity.checked_add(extra_bytes).filter(|bytes| *bytes < MAX_CAPACITY_BYTES);
        self.capacity = grown.ok_or(Misuse::Overflow { operation: Operation::Grow })?;
        Ok(self.capacity)
    }

    fn clear(&mut self, after: &[Stamp]) -> Result<Rewound, Misuse> {
        self.rows.check(after)?;
        self.scopes.close_all();
        Ok(self.end_from(0, 0, after))
    }

    fn push_scope(&mut self) -> Result<Scope, Misuse> {
        self.scopes.push(self.height)
    }

    fn rewind(&mut self, scope: Scope, after: &[Stamp]) -> Result<Rewound, Misuse> {
        self.rows.check(after)?;
        let mark = self.scopes.mark(scope)?;
        self.scopes.close(scope);
        Ok(self.end_from(mark, depth_of(scope) + 1, after))
    }

    fn inspect(&self, visit: &mut dyn FnMut(Segment)) -> Result<(), Misuse> {
        let mut offset = 0;
        for (index, level) in self.levels[..self.height].iter().enumerate() {
            let state = if level.live {
                SegmentState::Live { lifetime: level.lifetime }
            } else {
                SegmentState::Pending { waits_for: self.rows.first(index) }
            };
            if level.end > offset {
                visit(Segment { offset, len: level.end - offset, state });
            }
            offset = level.end;
        }
        if offset < self.capacity {
            visit(Segment { offset, len: self.capacity - offset, state: SegmentState::Free });
        }
        Ok(())
    }
}
