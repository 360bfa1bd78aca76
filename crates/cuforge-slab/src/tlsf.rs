//! The general allocator: two-level segregated fit over byte offsets, in constant time even when it refuses.

use crate::bins::NONE;
use crate::blocks::{Blocks, MAX_GENERATION, State, UNIT_BITS, fits};
use crate::limits::{BuildError, MAX_CAPACITY_BYTES, SlabLimits, check_capacity};
use crate::pending::Pending;
use crate::scopes::ScopeStack;
use crate::stamps::Completed;
use cuforge_core::{
    Grant, Handle, Lifetime, Misuse, Operation, Progress, Refusal, Request, Rewound, Scope, Segment,
    SegmentState, SlabAllocator, Stamp, Stats,
};

const INDEX_BITS: u32 = 25;

/// A general allocator with grants of any size and lifetime, released in any order.
///
/// Two-level segregated fit with 32 size classes to an octave. Blocks and stamps live in arrays of their own, never
/// in the memory that is handed out. A pending block is neither joined with its neighbours nor cut: it keeps exactly
/// its own stamps until they have completed, and only then joins what is free around it. So no byte waits for a
/// stamp that is not its own, and none leaves before one that is.
///
/// Resident grants are taken from the lower end, the others from the upper ends of free blocks, so that they do not
/// mix. Sizes are rounded up to [`granule_bytes`](SlabLimits::granule_bytes). The newest block of the request's own
/// class is taken if it fits, else one of the next class in which every block fits; where there is none, a few more
/// blocks of its own class are tried. A request is refused although a block would do only if that block is further down
/// in its class, or is only just aligned enough.
///
/// | call | time |
/// |---|---|
/// | `acquire`, success and refusal | O(1) worst case |
/// | `release` | O(1) worst case (O(queues) with stamps) |
/// | `reclaim` | O(queues × freed), at most `reclaim_batch` blocks |
/// | `push_scope`, `grow`, `stats` | O(1) |
/// | `rewind`, `clear`, `inspect` | O(blocks) |
///
/// Nothing allocates after construction.
///
/// ```
/// use cuforge_core::{QueueId, Request, SlabAllocator, Stamp};
/// use cuforge_slab::TlsfSlab;
///
/// let mut slab = TlsfSlab::new(1 << 20)?;
/// let cache = slab.acquire(&Request::new(100_000).with_align(4096))?;
/// assert_eq!(cache.offset % 4096, 0);
/// // Kernels of epoch 3 still read it.
/// slab.release(cache.handle, &[Stamp { queue: QueueId(0), epoch: 3 }])?;
/// assert_eq!(slab.stats().pending_bytes, 100_096, "rounded up to 256 bytes");
/// assert_eq!((slab.reclaim(&[2]), slab.reclaim(&[3])), (0, 100_096));
/// assert_eq!(slab.acquire(&Request::new(1 << 20))?.offset, 0, "all in one piece again");
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TlsfSlab {
    blocks: Blocks,
    pending: Pending,
    scopes: ScopeStack<u64>,
    limits: SlabLimits,
    /// Bytes to granules, and the end that growth can reach.
    shift: u32,
    max_bytes: u64,
    origin: u64,
    /// As asked for; what is beyond the last whole granule is kept for `grow`.
    capacity: u64,
    live_bytes: u64,
    live_grants: u64,
    peak: u64,
    acquired: u64,
    /// Numbers acquisitions and releases.
    serial: u64,
    refused: u64,
    /// The topmost of the resident grants that fill the lower end.
    resident_top: u32,
    /// A range that is never free: its start and end.
    reserved: (u64, u64),
    /// The longest request, whatever its alignment.
    longest: u64,
}

impl TlsfSlab {
    /// An allocator of `capacity_bytes`, rounded down to the granule, with default limits. O(limits).
    ///
    /// # Errors
    /// [`BuildError::Capacity`] if not one granule fits, [`BuildError::TooLarge`].
    pub fn new(capacity_bytes: u64) -> Result<Self, BuildError> {
        Self::with_limits(capacity_bytes, SlabLimits::default())
    }

    /// An allocator with limits of one's own. O(limits).
    ///
    /// # Errors
    /// As [`new`](Self::new), and [`BuildError::Limit`], [`BuildError::NotPowerOfTwo`].
    pub fn with_limits(capacity_bytes: u64, limits: SlabLimits) -> Result<Self, BuildError> {
        Self::with_origin(0, capacity_bytes, limits)
    }

    /// An allocator of the bytes from `origin` on, a multiple of the granule.
    pub(crate) fn with_origin(origin: u64, capacity: u64, limits: SlabLimits) -> Result<Self, BuildError> {
        check_capacity(capacity, limits.granule_bytes, &limits)?;
        let shift = limits.granule_bytes.trailing_zeros();
        let max_bytes = MAX_CAPACITY_BYTES.min(1 << (UNIT_BITS + shift).min(60));
        if origin + capacity >= max_bytes {
            return Err(BuildError::TooLarge { capacity_bytes: capacity });
        }
        // Between n used blocks there are at most n + 1 free ones, and the next grant cuts a block in three.
        let nodes = limits.grants * 2 + 3;
        let usable = capacity & !(limits.granule_bytes - 1);
        Ok(Self {
            blocks: Blocks::new(nodes, origin >> shift, usable >> shift),
            pending: Pending::new(nodes, limits.queues),
            scopes: ScopeStack::new(limits.scopes),
            limits,
            shift,
            max_bytes,
            origin,
            capacity,
            live_bytes: 0,
            live_grants: 0,
            peak: 0,
            acquired: 0,
            serial: 0,
            refused: 0,
            resident_top: NONE,
            reserved: (origin, origin),
            longest: usable,
        })
    }

    /// Takes `len` bytes at the upper end out of circulation for good; where they start.
    pub(crate) fn reserve(&mut self, len: u64, align: u64) -> Option<(Handle, u64)> {
        // Resident, so that it survives; general first, so that it lies at the upper end.
        let request = Request::new(len).with_align(align);
        let grant = self.acquire(&request).ok()?;
        let node = self.live_node(grant.handle).ok()?;
        let block = self.blocks.block_mut(node);
        block.set_live(block.generation(), Lifetime::Resident, block.serial());
        self.reserved = (grant.offset, grant.offset + len.next_multiple_of(self.limits.granule_bytes));
        self.longest = self.longest(1);
        Some((grant.handle, grant.offset))
    }

    /// Live and pending grants.
    pub(crate) fn held(&self) -> u64 {
        self.live_grants + self.pending.grants
    }

    /// Live and pending bytes.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.live_bytes + self.pending_bytes()
    }

    fn pending_bytes(&self) -> u64 {
        self.pending.granules << self.shift
    }

    /// The stamp that the block released first waits for.
    pub(crate) fn oldest(&self) -> Option<Stamp> {
        self.pending.oldest()
    }

    /// One past the last byte.
    pub(crate) fn end_offset(&self) -> u64 {
        self.origin + self.usable()
    }

    fn usable(&self) -> u64 {
        self.capacity & !(self.limits.granule_bytes - 1)
    }

    /// The longest request with this alignment that an empty allocator serves.
    pub(crate) fn longest(&self, align: u64) -> u64 {
        if align > self.limits.base_align {
            return 0;
        }
        // A power of two at most 2^63 and offsets at most 2^60 do not overflow.
        let run = |from: u64, to: u64| to.saturating_sub(from.next_multiple_of(align));
        run(self.origin, self.reserved.0).max(run(self.reserved.1, self.end_offset()))
    }

    /// Where a request of `len` granules goes: the block and the place in it.
    #[inline]
    fn place(&self, len: u64, request: &Request) -> Option<(u32, u64)> {
        let align = (request.align >> self.shift).max(1);
        if request.lifetime == Lifetime::Resident {
            let bottom = match self.resident_top {
                NONE => self.blocks.first,
                top => self.blocks.block(top).after,
            };
            let snug = |node: u32| {
                let block = self.blocks.block(node);
                block.is_free() && fits(block, len, align)
            };
            let node = if bottom != NONE && snug(bottom) { bottom } else { self.blocks.find(len, align)? };
            return Some((node, self.blocks.block(node).offset().next_multiple_of(align)));
        }
        let node = self.blocks.find(len, align)?;
        Some((node, (self.blocks.block(node).end() - len) & !(align - 1)))
    }

    #[cold]
    fn refuse(&mut self) -> Option<Grant> {
        self.refused += 1;
        None
    }

    /// Whether the request may be looked for: one comparison sorts out zero and what can never fit.
    #[inline]
    fn admits(&self, request: &Request) -> bool {
        request.len.wrapping_sub(1) < self.longest
            && request.align.is_power_of_two()
            && request.align <= self.limits.base_align
            && !self.out_of_nodes()
    }

    /// How many granules hold so many bytes, at most the longest request.
    #[inline]
    fn granules(&self, bytes: u64) -> u64 {
        (bytes + (self.limits.granule_bytes - 1)) >> self.shift
    }

    #[inline]
    fn out_of_nodes(&self) -> bool {
        self.live_grants + self.pending.grants >= u64::from(self.limits.grants) || !self.blocks.can_cut()
    }

    /// The node of a live grant.
    #[inline]
    fn live_node(&self, handle: Handle) -> Result<u32, Misuse> {
        let node = handle.number() as u32 & ((1 << INDEX_BITS) - 1);
        let generation = handle.number() >> INDEX_BITS;
        let Some(block) = self.blocks.get(node) else {
            return Err(Misuse::UnknownHandle);
        };
        if block.generation() == generation && block.is_live() {
            return Ok(node);
        }
        if generation == 0 || generation > block.generation() {
            Err(Misuse::UnknownHandle)
        } else {
            Err(Misuse::StaleHandle)
        }
    }

    /// Ends a live grant; the node that holds its bytes then.
    #[inline]
    fn end(&mut self, node: u32, after: &[Stamp]) -> u32 {
        if node == self.resident_top {
            let before = self.blocks.get(self.blocks.block(node).before);
            let resident =
                before.is_some_and(|block| block.is_live() && block.lifetime() == Lifetime::Resident);
            self.resident_top = if resident { self.blocks.block(node).before } else { NONE };
        }
        self.peak = self.peak.max(self.used_bytes());
        self.live_bytes -= self.blocks.block(node).len() << self.shift;
        self.live_grants -= 1;
        if after.iter().all(|stamp| stamp.epoch == 0) {
            return self.blocks.free(node);
        }
        self.blocks.block_mut(node).set_state(State::Pending);
        self.pending.push(&mut self.blocks, node, after);
        node
    }

    /// Ends the live grants that are not resident and were acquired from `serial` on.
    fn end_since(&mut self, serial: u64, after: &[Stamp]) -> Rewound {
        let mut ended = Rewound::default();
        let mut node = self.blocks.first;
        while node != NONE {
            let block = *self.blocks.block(node);
            if block.is_live() && block.serial() >= serial && block.lifetime() != Lifetime::Resident {
                ended.grants += 1;
                ended.bytes += block.len() << self.shift;
                node = self.end(node, after);
            }
            node = self.blocks.block(node).after;
        }
        ended
    }
}

// SAFETY: the blocks are a chain by place that covers the capacity without overlap, and a grant is one block, live or
// pending until `Pending` hands it back with all of its stamps complete; `carve` only cuts free blocks that hold the
// rounded request at its alignment. A node's generation grows with every grant in it and is never used twice; scope
// tokens are numbered by `ScopeStack`.
#[allow(unsafe_code, reason = "implements the allocator trait")]
unsafe impl SlabAllocator for TlsfSlab {
    #[inline]
    fn try_acquire(&mut self, request: &Request) -> Option<Grant> {
        if !self.admits(request) {
            return self.refuse();
        }
        let len = self.granules(request.len);
        let Some((node, offset)) = self.place(len, request) else {
            return self.refuse();
        };
        let generation = self.blocks.block(node).generation() + 1;
        let handle = Handle::new(generation << INDEX_BITS | u64::from(node));
        let Some(handle) = handle.filter(|_| generation <= MAX_GENERATION) else {
            return self.refuse();
        };
        self.blocks.carve(node, offset, len);
        let block = self.blocks.block_mut(node);
        block.set_live(generation, request.lifetime, self.serial);
        if request.lifetime == Lifetime::Resident && block.before == self.resident_top {
            self.resident_top = node;
        }
        self.serial += 1;
        self.live_bytes += len << self.shift;
        self.live_grants += 1;
        self.acquired += 1;
        Some(Grant { handle, offset: offset << self.shift })
    }

    fn refusal(&self, request: &Request) -> Refusal {
        if let Some(refusal) = request.malformed() {
            return refusal;
        }
        let max_bytes = self.longest(request.align);
        if request.len > max_bytes {
            return Refusal::NeverFits { max_bytes };
        }
        // A place that there is and that was not granted has no generation left.
        if self.out_of_nodes() || self.place(self.granules(request.len), request).is_some() {
            return Refusal::OutOfNodes { capacity: self.limits.grants };
        }
        Refusal::full(&self.stats(), self.pending.oldest())
    }

    #[inline]
    fn release(&mut self, handle: Handle, after: &[Stamp]) -> Result<(), Misuse> {
        let node = self.live_node(handle)?;
        self.pending.check(after)?;
        self.end(node, after);
        Ok(())
    }

    fn reclaim(&mut self, progress: &dyn Progress) -> u64 {
        if self.pending.grants == 0 {
            return 0;
        }
        let completed = Completed::read(progress, self.pending.queues());
        let before = self.pending.granules;
        self.peak = self.peak.max(self.used_bytes());
        let mut budget = self.limits.reclaim_batch;
        for queue in 0..self.pending.queues() as usize {
            while budget > 0 {
                let Some(freed) = self.pending.pop(&mut self.blocks, queue, &completed) else {
                    break;
                };
                budget -= 1;
                if let Some(node) = freed {
                    self.blocks.free(node);
                }
            }
        }
        (before - self.pending.granules) << self.shift
    }

    fn stats(&self) -> Stats {
        Stats {
            capacity_bytes: self.usable(),
            live_bytes: self.live_bytes,
            pending_bytes: self.pending_bytes(),
            largest_free_bytes: self.blocks.largest_free() << self.shift,
            peak_bytes: self.peak.max(self.used_bytes()),
            live_grants: self.live_grants,
            acquired_total: self.acquired,
            refused_total: self.refused,
        }
    }

    fn grow(&mut self, extra_bytes: u64) -> Result<u64, Misuse> {
        let grown = self
            .capacity
            .checked_add(extra_bytes)
            .filter(|bytes| self.origin.saturating_add(*bytes) < self.max_bytes);
        let Some(grown) = grown.filter(|_| self.blocks.can_cut() || !self.out_of_nodes()) else {
            return Err(Misuse::Overflow { operation: Operation::Grow });
        };
        let before = self.usable();
        self.capacity = grown;
        if self.usable() > before {
            self.blocks.extend((self.usable() - before) >> self.shift);
            self.longest = self.longest(1);
        }
        Ok(self.usable())
    }

    fn clear(&mut self, after: &[Stamp]) -> Result<Rewound, Misuse> {
        self.pending.check(after)?;
        self.scopes.close_all();
        Ok(self.end_since(0, after))
    }

    fn push_scope(&mut self) -> Result<Scope, Misuse> {
        self.scopes.push(self.serial)
    }

    fn rewind(&mut self, scope: Scope, after: &[Stamp]) -> Result<Rewound, Misuse> {
        self.pending.check(after)?;
        let serial = self.scopes.mark(scope)?;
        self.scopes.close(scope);
        Ok(self.end_since(serial, after))
    }

    fn inspect(&self, visit: &mut dyn FnMut(Segment)) -> Result<(), Misuse> {
        let mut node = self.blocks.first;
        while node != NONE {
            let block = self.blocks.block(node);
            let state = match block.state() {
                State::Free => SegmentState::Free,
                State::Live => SegmentState::Live { lifetime: block.lifetime() },
                State::Pending => SegmentState::Pending { waits_for: Some(self.pending.waits_for(node)) },
            };
            visit(Segment { offset: block.offset() << self.shift, len: block.len() << self.shift, state });
            node = block.after;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn slab(capacity: u64, grants: u32) -> TlsfSlab {
        TlsfSlab::with_limits(capacity, SlabLimits { grants, ..SlabLimits::default() }).unwrap()
    }

    fn most_steps(slab: &mut TlsfSlab, seed: u64, rounds: u64) -> [u32; 3] {
        let mut held = Vec::new();
        let mut most = [0; 3];
        let mut random = seed | 1;
        for _ in 0..rounds {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let len = 256u64 << ((random >> 8) % 12);
            let request = Request::new(len + (random >> 20) % len).with_align(256 << ((random >> 50) % 5));
            slab.blocks.take_steps();
            let kind = match slab.acquire(&request) {
                Ok(grant) => {
                    held.push(grant.handle);
                    0
                }
                Err(_) => {
                    most[1] = most[1].max(slab.blocks.take_steps());
                    let handle = held.swap_remove(random as usize % held.len());
                    slab.blocks.take_steps();
                    slab.release(handle, &[]).unwrap();
                    2
                }
            };
            most[kind] = most[kind].max(slab.blocks.take_steps());
        }
        most
    }

    #[test]
    fn success_refusal_and_release_take_a_bounded_number_of_steps_however_many_blocks_there_are() {
        let small = most_steps(&mut slab(4 << 20, 20_000), 1, 30_000);
        let large = most_steps(&mut slab(1 << 30, 200_000), 2, 400_000);
        for most in [small, large] {
            // Blocks and classes visited: a search of PROBES entries, a cut in three, a join of three.
            assert!(most[0] <= 40 && most[1] <= 20 && most[2] <= 40, "{small:?} {large:?}");
        }
    }

    #[test]
    fn a_failing_search_stays_bounded_when_its_own_class_is_full_of_blocks_that_are_too_small() {
        let mut slab = slab(64 << 20, 60_000);
        // 256-byte separators between blocks of 33 granules: class of 33, none of which holds 33 granules aligned.
        let mut holes = Vec::new();
        while let Ok(hole) = slab.acquire(&Request::new(66 * 256)) {
            holes.push(hole.handle);
            if slab.acquire(&Request::new(256)).is_err() {
                break;
            }
        }
        while slab.acquire(&Request::new(256)).is_ok() {}
        let count = holes.len();
        holes.into_iter().for_each(|hole| slab.release(hole, &[]).unwrap());
        assert!(count > 3_000);
        slab.blocks.take_steps();
        // 67 granules are of the same class as the holes of 66.
        assert!(matches!(slab.acquire(&Request::new(67 * 256)), Err(Refusal::Full { .. })));
        assert!(slab.blocks.take_steps() <= 20, "of {count} blocks in the class");
    }

    #[test]
    fn exactly_as_many_grants_as_there_are_nodes_for_can_be_made() {
        for grants in [1, 2, 8, 100] {
            let mut slab = slab(1 << 20, grants);
            let made: Vec<_> = core::iter::from_fn(|| slab.acquire(&Request::new(300)).ok()).collect();
            assert_eq!(made.len(), grants as usize);
            let refusal = slab.acquire(&Request::new(1)).unwrap_err();
            assert_eq!(refusal, Refusal::OutOfNodes { capacity: grants });
        }
    }

    #[test]
    fn a_node_whose_generations_are_used_up_is_never_granted_again() {
        let mut slab = slab(1 << 16, 4);
        slab.blocks.start_generations(MAX_GENERATION - 2);
        let mut handles = Vec::new();
        while let Ok(grant) = slab.acquire(&Request::new(256)) {
            assert!(!handles.contains(&grant.handle), "{grant:?}");
            handles.push(grant.handle);
            slab.release(grant.handle, &[]).unwrap();
            assert!(slab.release(grant.handle, &[]).is_err());
        }
        assert!(handles.len() >= 4, "all nodes were used before giving up: {}", handles.len());
        assert!(matches!(slab.acquire(&Request::new(256)), Err(Refusal::OutOfNodes { .. })));
    }
}
