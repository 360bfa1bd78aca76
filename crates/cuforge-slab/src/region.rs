//! The default allocator: resident bytes from the bottom, a general region, a ring for transients.

use crate::limits::{BuildError, SlabLimits, check_capacity};
use crate::ring::RingSlab;
use crate::scopes::ScopeStack;
use crate::tlsf::TlsfSlab;
use core::ops::Range;
use cuforge_core::{
    Access, Grant, Handle, Lifetime, Misuse, Progress, QueueId, Refusal, Request, Rewound, Scope, Segment,
    SlabAllocator, Stamp, Stats,
};

/// How a slab is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionLayout {
    /// Bytes of the ring for transients, at the upper end; 0 for none. What does not fit into the ring goes to the
    /// general region.
    pub transient_bytes: u64,
    /// Bytes at the lower end for [`Access::StorageRead`] alone, 0 to let both kinds of access share everything.
    /// CUDA needs no such division. A backend that binds whole buffers does where it forbids one buffer to be bound
    /// for reading and for writing in one dispatch, as WebGPU does: there each kind gets a buffer of its own.
    pub read_only_bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct Marks {
    main: Scope,
    read_only: Option<Scope>,
    ring: Option<Scope>,
}

#[derive(Debug)]
struct Ring {
    slab: RingSlab,
    /// Where it lies, and the handle of the block that reserves it.
    offset: u64,
    align: u64,
    block: Handle,
}

impl Ring {
    #[inline]
    fn takes(&self, request: &Request) -> bool {
        request.lifetime == Lifetime::Transient && request.align <= self.align
    }
}

// Whose handle it is: the upper three bits.
const TAG_SHIFT: u32 = 61;
const MAIN: u64 = 0;
const READ_ONLY: u64 = 1;
const RING: u64 = 2;

/// The default allocator of a slab: every lifetime in the place that suits it.
///
/// From the bottom up: optionally a region for read-only access; resident grants, written once and kept through every
/// rewind and clear; general grants, from the upper end of free blocks; and a [`RingSlab`] for transients. Only the
/// ring's place is fixed: resident and general grants share the rest through a [`TlsfSlab`] and meet in the middle.
/// Transients that the ring has no room for go to the general region, and so no long-lived transient blocks others
/// for long. Growth extends the general region behind the ring.
///
/// Costs are those of [`RingSlab`] for transients and of [`TlsfSlab`] for all else; `acquire` and `release` are O(1).
/// Nothing allocates after construction.
///
/// ```
/// use cuforge_core::{Ledger, LedgerLimits, Lifetime, Request};
/// use cuforge_slab::RegionSlab;
///
/// let mut ledger = Ledger::new(Box::new(RegionSlab::new(64 << 20)?), LedgerLimits::default());
/// let weights = ledger.acquire(&Request::new(8 << 20).with_lifetime(Lifetime::Resident))?;
/// let step = ledger.push_scope()?;
/// let scratch = ledger.acquire(&Request::new(1 << 20).with_lifetime(Lifetime::Transient))?;
/// assert_eq!((weights.offset(), scratch.offset()), (0, 48 << 20));
/// assert_eq!(ledger.rewind(step)?.grants, 1);
/// assert!(ledger.check(&scratch).is_err() && ledger.check(&weights).is_ok());
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RegionSlab {
    main: TlsfSlab,
    read_only: Option<TlsfSlab>,
    ring: Option<Ring>,
    scopes: ScopeStack<Marks>,
    limits: SlabLimits,
    peak: u64,
    acquired: u64,
    refused: u64,
}

impl RegionSlab {
    /// A slab of `capacity_bytes` of which a quarter is the ring, with default limits. O(limits).
    ///
    /// # Errors
    /// [`BuildError::Capacity`] if not one granule fits, [`BuildError::TooLarge`].
    pub fn new(capacity_bytes: u64) -> Result<Self, BuildError> {
        let layout = RegionLayout { transient_bytes: capacity_bytes / 4, read_only_bytes: 0 };
        Self::with_layout(capacity_bytes, layout, SlabLimits::default())
    }

    /// A slab with a division and limits of one's own. Region sizes are rounded down to the granule.
    /// O(limits).
    ///
    /// # Errors
    /// As [`new`](Self::new), and [`BuildError::Regions`] if the regions leave nothing for general grants,
    /// [`BuildError::Limit`], [`BuildError::NotPowerOfTwo`].
    pub fn with_layout(
        capacity_bytes: u64,
        layout: RegionLayout,
        limits: SlabLimits,
    ) -> Result<Self, BuildError> {
        check_capacity(capacity_bytes, limits.granule_bytes, &limits)?;
        let round = |bytes: u64| bytes & !(limits.granule_bytes - 1);
        let (transient, read_only) = (round(layout.transient_bytes), round(layout.read_only_bytes));
        let regions = transient.saturating_add(read_only);
        let too_much = BuildError::Regions { regions_bytes: regions, capacity_bytes };
        if regions >= round(capacity_bytes) {
            return Err(too_much);
        }
        // One block more than grants: the ring's.
        let pool_limits = SlabLimits { grants: limits.grants + 1, ..limits };
        let mut main = TlsfSlab::with_origin(read_only, capacity_bytes - read_only, pool_limits)?;
        let read_only = match read_only {
            0 => None,
            bytes => Some(TlsfSlab::with_limits(bytes, limits)?),
        };
        let ring = match transient {
            0 => None,
            bytes => {
                // As aligned as its size makes worthwhile, so that few transients have to go elsewhere.
                let align = 1u64 << (bytes / 16).max(1).ilog2();
                let align = align.max(limits.granule_bytes).min(limits.base_align);
                let (block, offset) =
                    main.reserve(bytes, align).or_else(|| main.reserve(bytes, 1)).ok_or(too_much)?;
                let align = limits.base_align.min(1 << offset.trailing_zeros().min(63));
                let slab = RingSlab::with_limits(bytes, SlabLimits { base_align: align, ..limits })?;
                Some(Ring { slab, offset, align, block })
            }
        };
        let scopes = ScopeStack::new(limits.scopes);
        Ok(Self { main, read_only, ring, scopes, limits, peak: 0, acquired: 0, refused: 0 })
    }

    /// The bytes that grants of an access come from: what a backend that binds them apart makes one buffer of. Both
    /// are the whole slab unless the layout divides them; growth extends the read-write range. O(1).
    pub fn range_of(&self, access: Access) -> Range<u64> {
        match (&self.read_only, access) {
            (Some(pool), Access::StorageRead) => 0..pool.end_offset(),
            (Some(pool), Access::StorageReadWrite) => pool.end_offset()..self.main.end_offset(),
            (None, _) => 0..self.main.end_offset(),
        }
    }

    /// The bytes of the ring for transients; empty if there is none. O(1).
    pub fn transient_range(&self) -> Range<u64> {
        self.ring.as_ref().map_or(0..0, |ring| ring.offset..ring.offset + ring.slab.capacity_bytes())
    }

    fn held(&self) -> u64 {
        let ring = self.ring.as_ref().map_or(0, |ring| ring.slab.held());
        let reserved = u64::from(self.ring.is_some());
        self.main.held() - reserved + self.read_only.as_ref().map_or(0, TlsfSlab::held) + ring
    }

    /// Whether the request belongs to the region for read-only access.
    #[inline]
    fn is_apart(&self, request: &Request) -> bool {
        self.read_only.is_some() && request.access == Access::StorageRead
    }

    /// The ring, if the request belongs there.
    #[inline]
    fn ring_for(&mut self, request: &Request) -> Option<&mut Ring> {
        let apart = self.is_apart(request);
        self.ring.as_mut().filter(|ring| ring.takes(request) && !apart)
    }

    /// The bytes of the ring, if the request belongs there, else 0.
    fn ring_bytes_for(&self, request: &Request) -> u64 {
        let ring = self.ring.as_ref().filter(|ring| ring.takes(request) && !self.is_apart(request));
        ring.map_or(0, |ring| ring.slab.capacity_bytes())
    }

    /// The pool that the request belongs to, if the ring does not take it.
    fn pool_for(&self, request: &Request) -> &TlsfSlab {
        match &self.read_only {
            Some(pool) if request.access == Access::StorageRead => pool,
            _ => &self.main,
        }
    }

    #[inline]
    fn pool_mut_for(&mut self, request: &Request) -> (&mut TlsfSlab, u64) {
        match &mut self.read_only {
            Some(pool) if request.access == Access::StorageRead => (pool, READ_ONLY),
            _ => (&mut self.main, MAIN),
        }
    }

    #[cold]
    fn refuse(&mut self) -> Option<Grant> {
        self.refused += 1;
        None
    }

    /// Whether all grants that there can be are held, so that a request that is none at all is left for a region to say so.
    #[inline]
    fn is_out_of_grants(&self, request: &Request) -> bool {
        self.held() >= u64::from(self.limits.grants) && request.malformed().is_none()
    }

    /// What the pool's refusal means for the slab as a whole.
    fn widened(&self, request: &Request, refusal: Refusal) -> Refusal {
        let ring = self.ring_bytes_for(request);
        match refusal {
            Refusal::NeverFits { max_bytes } if request.len > ring => {
                Refusal::NeverFits { max_bytes: max_bytes.max(ring) }
            }
            Refusal::NeverFits { .. } | Refusal::Full { .. } => {
                Refusal::full(&self.stats(), self.oldest(request, refusal))
            }
            other => other,
        }
    }

    /// The stamp to wait for: of the region that the request belongs to, else of any.
    fn oldest(&self, request: &Request, refusal: Refusal) -> Option<Stamp> {
        let own = match refusal {
            Refusal::Full { oldest, .. } => oldest,
            _ => None,
        };
        let ring = self.ring.as_ref().and_then(|ring| ring.slab.oldest_stamp());
        let main = self.main.oldest();
        let read_only = self.read_only.as_ref().and_then(TlsfSlab::oldest);
        let first = if request.lifetime == Lifetime::Transient { ring.or(own) } else { own.or(main) };
        first.or(main).or(read_only).or(ring)
    }

    fn check_stamps(&self, after: &[Stamp]) -> Result<(), Misuse> {
        let unknown = after.iter().find(|stamp| stamp.queue >= QueueId(self.limits.queues));
        unknown.map_or(Ok(()), |stamp| Err(Misuse::UnknownQueue { queue: stamp.queue }))
    }

    #[inline]
    fn note_peak(&mut self) {
        let (ring, reserved) =
            self.ring.as_ref().map_or((0, 0), |ring| (ring.slab.used_bytes(), ring.slab.capacity_bytes()));
        let read_only = self.read_only.as_ref().map_or(0, TlsfSlab::used_bytes);
        self.peak = self.peak.max(self.main.used_bytes() - reserved + ring + read_only);
    }
}

fn add(ended: &mut Rewound, more: Rewound) {
    ended.grants += more.grants;
    ended.bytes += more.bytes;
}

// SAFETY: the regions are disjoint: the read-only pool lies below `main`, and the ring inside one block of `main` that
// stays live for good (it is resident, and its handle is refused). Each region keeps the contract, offsets of the ring
// are moved by the block's start, and the upper bits of a handle keep the regions' handles apart.
#[allow(unsafe_code, reason = "implements the allocator trait")]
unsafe impl SlabAllocator for RegionSlab {
    #[inline]
    fn try_acquire(&mut self, request: &Request) -> Option<Grant> {
        if self.is_out_of_grants(request) {
            return self.refuse();
        }
        let from_ring = self.ring_for(request).and_then(|ring| {
            let grant = ring.slab.try_acquire(request)?;
            let handle = Handle(grant.handle.0 | RING << TAG_SHIFT);
            Some(Grant { handle, offset: ring.offset + grant.offset })
        });
        let granted = from_ring.or_else(|| {
            let (pool, tag) = self.pool_mut_for(request);
            let grant = pool.try_acquire(request)?;
            Some(Grant { handle: Handle(grant.handle.0 | tag << TAG_SHIFT), ..grant })
        });
        if granted.is_none() {
            return self.refuse();
        }
        self.acquired += 1;
        granted
    }

    fn refusal(&self, request: &Request) -> Refusal {
        let pool = self.pool_for(request);
        if !self.is_out_of_grants(request) {
            return self.widened(request, pool.refusal(request));
        }
        let max_bytes = pool.longest(request.align).max(self.ring_bytes_for(request));
        if request.len > max_bytes {
            Refusal::NeverFits { max_bytes }
        } else {
            Refusal::OutOfNodes { capacity: self.limits.grants }
        }
    }

    #[inline]
    fn release(&mut self, handle: Handle, after: &[Stamp]) -> Result<(), Misuse> {
        self.note_peak();
        let Some(inner) = Handle::new(handle.number() & ((1 << TAG_SHIFT) - 1)) else {
            return Err(Misuse::UnknownHandle);
        };
        match (handle.number() >> TAG_SHIFT, &mut self.ring, &mut self.read_only) {
            (RING, Some(ring), _) => ring.slab.release(inner, after),
            (MAIN, Some(ring), _) if ring.block == handle => Err(Misuse::UnknownHandle),
            (MAIN, _, _) => self.main.release(inner, after),
            (READ_ONLY, _, Some(pool)) => pool.release(inner, after),
            _ => Err(Misuse::UnknownHandle),
        }
    }

    fn reclaim(&mut self, progress: &dyn Progress) -> u64 {
        self.note_peak();
        let ring = self.ring.as_mut().map_or(0, |ring| ring.slab.reclaim(progress));
        let read_only = self.read_only.as_mut().map_or(0, |pool| pool.reclaim(progress));
        ring + read_only + self.main.reclaim(progress)
    }

    fn stats(&self) -> Stats {
        let mut stats = self.main.stats();
        if let Some(ring) = &self.ring {
            // The reserved block counts as what is in it.
            let inside = ring.slab.stats();
            stats.live_bytes = stats.live_bytes - inside.capacity_bytes + inside.live_bytes;
            stats.live_grants = stats.live_grants - 1 + inside.live_grants;
            stats.pending_bytes += inside.pending_bytes;
            stats.largest_free_bytes = stats.largest_free_bytes.max(inside.largest_free_bytes);
        }
        if let Some(pool) = &self.read_only {
            let pool = pool.stats();
            stats.capacity_bytes += pool.capacity_bytes;
            stats.live_bytes += pool.live_bytes;
            stats.live_grants += pool.live_grants;
            stats.pending_bytes += pool.pending_bytes;
            stats.largest_free_bytes = stats.largest_free_bytes.max(pool.largest_free_bytes);
        }
        stats.peak_bytes = self.peak.max(stats.live_bytes + stats.pending_bytes);
        stats.acquired_total = self.acquired;
        stats.refused_total = self.refused;
        stats
    }

    fn grow(&mut self, extra_bytes: u64) -> Result<u64, Misuse> {
        self.main.grow(extra_bytes)?;
        Ok(self.stats().capacity_bytes)
    }

    fn clear(&mut self, after: &[Stamp]) -> Result<Rewound, Misuse> {
        self.check_stamps(after)?;
        self.note_peak();
        self.scopes.close_all();
        let mut ended = self.main.clear(after)?;
        if let Some(pool) = &mut self.read_only {
            add(&mut ended, pool.clear(after)?);
        }
        if let Some(ring) = &mut self.ring {
            add(&mut ended, ring.slab.clear(after)?);
        }
        Ok(ended)
    }

    fn push_scope(&mut self) -> Result<Scope, Misuse> {
        // All stacks are equally deep, so either all push or none.
        let main = self.main.push_scope()?;
        let read_only = self.read_only.as_mut().map(TlsfSlab::push_scope).transpose()?;
        let ring = self.ring.as_mut().map(|ring| ring.slab.push_scope()).transpose()?;
        self.scopes.push(Marks { main, read_only, ring })
    }

    fn rewind(&mut self, scope: Scope, after: &[Stamp]) -> Result<Rewound, Misuse> {
        self.check_stamps(after)?;
        let marks = self.scopes.mark(scope)?;
        self.note_peak();
        self.scopes.close(scope);
        let mut ended = self.main.rewind(marks.main, after)?;
        if let (Some(pool), Some(mark)) = (&mut self.read_only, marks.read_only) {
            add(&mut ended, pool.rewind(mark, after)?);
        }
        if let (Some(ring), Some(mark)) = (&mut self.ring, marks.ring) {
            add(&mut ended, ring.slab.rewind(mark, after)?);
        }
        Ok(ended)
    }

    fn inspect(&self, visit: &mut dyn FnMut(Segment)) -> Result<(), Misuse> {
        if let Some(pool) = &self.read_only {
            pool.inspect(visit)?;
        }
        let mut inside = Ok(());
        self.main.inspect(&mut |segment| match &self.ring {
            Some(ring) if segment.offset == ring.offset => {
                inside = ring.slab.inspect(&mut |inner| {
                    visit(Segment { offset: inner.offset + ring.offset, ..inner });
                });
            }
            _ => visit(segment),
        })?;
        inside
    }
}
