//! The allocator trait that a user swaps, and the words it is spoken in: requests, grants, refusals, misuse.

use crate::stamp::{Progress, QueueId, Stamp};
use crate::view::Access;
use alloc::boxed::Box;
use core::fmt;
use core::num::NonZeroU64;

/// How long bytes are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
// As wide as leaves no gap in a request: a gap would be a store of its own.
#[repr(u16)]
pub enum Lifetime {
    /// Written once and kept: survives `clear` and every rewind (weights).
    Resident,
    /// Until released (caches, activations of unknown lifetime).
    General,
    /// Released in roughly the order of acquisition (per-step scratch).
    Transient,
}

/// A request for bytes. Plain data: every method is O(1).
///
/// ```
/// use cuforge_core::{Access, Lifetime, Request};
/// let weights = Request::new(4096).with_lifetime(Lifetime::Resident).with_access(Access::StorageRead);
/// assert_eq!((weights.len, weights.align), (4096, Request::DEFAULT_ALIGN));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// In this order: what hardly varies lies in the lower half of a word, and is written as a constant of 32 bits.
#[repr(C)]
pub struct Request {
    /// Bytes wanted, at least 1.
    pub len: u64,
    /// Alignment of the offset in bytes, a power of two.
    pub align: u64,
    /// What kernels will do with the bytes.
    pub access: Access,
    /// How long the bytes are wanted.
    pub lifetime: Lifetime,
    /// The queue that will use the bytes first; a hint for where to reuse pending memory soonest.
    pub queue: QueueId,
}

impl Request {
    /// The alignment of requests that name none: 256 bytes, what `cuMemAlloc` promises.
    pub const DEFAULT_ALIGN: u64 = 256;

    /// General read-write bytes, aligned to [`DEFAULT_ALIGN`](Self::DEFAULT_ALIGN), for queue 0.
    pub const fn new(len: u64) -> Self {
        Self {
            len,
            align: Self::DEFAULT_ALIGN,
            access: Access::StorageReadWrite,
            lifetime: Lifetime::General,
            queue: QueueId(0),
        }
    }

    /// With another alignment in bytes.
    pub const fn with_align(self, align: u64) -> Self {
        Self { align, ..self }
    }

    /// With another access.
    pub const fn with_access(self, access: Access) -> Self {
        Self { access, ..self }
    }

    /// With another lifetime.
    pub const fn with_lifetime(self, lifetime: Lifetime) -> Self {
        Self { lifetime, ..self }
    }

    /// With another first queue.
    pub const fn with_queue(self, queue: QueueId) -> Self {
        Self { queue, ..self }
    }

    /// What no allocator serves, whatever its state: [`Refusal::Zero`] or [`Refusal::Alignment`].
    pub const fn malformed(&self) -> Option<Refusal> {
        if self.len == 0 {
            Some(Refusal::Zero)
        } else if !self.align.is_power_of_two() {
            Some(Refusal::Alignment { align: self.align })
        } else {
            None
        }
    }
}

/// An allocator's name for one grant: opaque, chosen by the allocator (an index and a generation, say), and never
/// valid for two grants. It is never 0, so that a grant or none of it fits into two registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle(pub NonZeroU64);

impl Handle {
    /// The handle of a number; none for 0. O(1).
    #[inline]
    pub const fn new(number: u64) -> Option<Self> {
        match NonZeroU64::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// The number behind the handle. O(1).
    #[inline]
    pub const fn number(self) -> u64 {
        self.0.get()
    }
}

/// Bytes handed out: exactly as many as were asked for, and free of any pending work when granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// What [`SlabAllocator::release`] takes.
    pub handle: Handle,
    /// First byte, counted from the slab's base; a multiple of the request's alignment.
    pub offset: u64,
}

// What `try_acquire` and `release` answer travels in registers: an answer through memory takes a quarter of the time of
// an acquisition from a ring.
const _: () = assert!(size_of::<Option<Grant>>() == 16 && size_of::<Result<(), Misuse>>() == 8);

/// Why an allocator says no. Data, not failure: no allocation and no state change lies behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Nothing was asked for.
    #[error("a request of 0 bytes")]
    Zero,
    /// The alignment is no power of two.
    #[error("alignment {align} is not a power of two")]
    Alignment {
        /// The alignment asked for.
        align: u64,
    },
    /// No state of this allocator could ever serve the request.
    #[error("the request can never fit: at most {max_bytes} bytes")]
    NeverFits {
        /// The most that one request of this kind can get.
        max_bytes: u64,
    },
    /// Too little is free now; releasing or waiting may help.
    #[error("full: {total_free} bytes free (largest run {largest_free}), {pending} bytes pending on queues")]
    Full {
        /// Bytes free now.
        total_free: u64,
        /// The longest free run in bytes.
        largest_free: u64,
        /// Bytes released whose stamps have not completed.
        pending: u64,
        /// The pending stamp to wait for first, if any bytes are pending.
        oldest: Option<Stamp>,
    },
    /// The allocator's fixed metadata is used up.
    #[error("out of allocator nodes ({capacity} in all)")]
    OutOfNodes {
        /// How many nodes it was built with.
        capacity: u32,
    },
    /// The ledger's fixed table of grants is used up.
    #[error("out of ledger slots ({capacity} in all)")]
    OutOfSlots {
        /// How many slots it was built with.
        capacity: u32,
    },
    /// A limit that somebody set is reached.
    #[error("limit of {limit_bytes} bytes reached: {used_bytes} in use")]
    Limit {
        /// The limit in bytes.
        limit_bytes: u64,
        /// Bytes in use under it.
        used_bytes: u64,
    },
}

impl Refusal {
    /// [`Full`](Self::Full), as an allocator's counters tell it; `oldest` is the pending stamp to wait for first. O(1).
    pub const fn full(stats: &Stats, oldest: Option<Stamp>) -> Self {
        Self::Full {
            total_free: stats.free_bytes(),
            largest_free: stats.largest_free_bytes,
            pending: stats.pending_bytes,
            oldest,
        }
    }
}

/// What an allocator may be asked for and need not be able to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// [`SlabAllocator::grow`].
    Grow,
    /// [`SlabAllocator::clear`].
    Clear,
    /// [`SlabAllocator::push_scope`].
    PushScope,
    /// [`SlabAllocator::rewind`].
    Rewind,
    /// [`SlabAllocator::inspect`].
    Inspect,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Grow => "grow",
            Self::Clear => "clear",
            Self::PushScope => "push_scope",
            Self::Rewind => "rewind",
            Self::Inspect => "inspect",
        })
    }
}

/// A call that is wrong in itself: the caller's code has a fault. State is unchanged. What the caller gave (a handle, a
/// scope, a number of bytes) is not repeated: an answer fits into one register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Misuse {
    /// The handle names no live grant: released before, or ended by a rewind or clear.
    #[error("stale handle: its grant is over")]
    StaleHandle,
    /// The handle was never given out by this allocator.
    #[error("a handle that was never given out here")]
    UnknownHandle,
    /// The scope was rewound before, or an outer one was.
    #[error("stale scope: it was rewound or cleared, or an outer one was")]
    StaleScope,
    /// The scope was never pushed on this allocator.
    #[error("a scope that was never pushed here")]
    UnknownScope,
    /// Scopes are nested deeper than the allocator keeps.
    #[error("scopes nest at most {max_depth} deep")]
    ScopeDepth {
        /// The deepest nesting.
        max_depth: u32,
    },
    /// More stamps than the allocator can keep apart, or an unknown queue.
    #[error("queue {queue:?} is unknown here")]
    UnknownQueue {
        /// The queue named.
        queue: QueueId,
    },
    /// The operation would wrap a counter or the slab's size.
    #[error("{operation} would overflow")]
    Overflow {
        /// What was asked for.
        operation: Operation,
    },
    /// This allocator does not do that.
    #[error("{operation} is not supported by this allocator")]
    Unsupported {
        /// What was asked for.
        operation: Operation,
    },
}

/// An allocator's token for a checkpoint: opaque, never valid twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scope(pub u64);

/// What a rewind or clear ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rewound {
    /// Grants that were live and are no more.
    pub grants: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Counters of an allocator; reading them costs O(1) and no allocation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Bytes that the allocator hands out from.
    pub capacity_bytes: u64,
    /// Bytes of live grants, with what alignment and size classes add.
    pub live_bytes: u64,
    /// Released bytes whose stamps have not completed as far as the last `reclaim` knew.
    pub pending_bytes: u64,
    /// The longest free run in bytes, or a lower bound of it where finding it would not be O(1).
    pub largest_free_bytes: u64,
    /// Highest `live_bytes + pending_bytes` so far.
    pub peak_bytes: u64,
    /// Live grants.
    pub live_grants: u64,
    /// Grants ever made.
    pub acquired_total: u64,
    /// Refusals ever answered.
    pub refused_total: u64,
}

impl Stats {
    /// Bytes live or pending. O(1).
    pub const fn used_bytes(&self) -> u64 {
        self.live_bytes.saturating_add(self.pending_bytes)
    }

    /// Bytes neither live nor pending. O(1).
    pub const fn free_bytes(&self) -> u64 {
        self.capacity_bytes.saturating_sub(self.used_bytes())
    }
}

/// What a run of bytes is, for memory maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SegmentState {
    /// Part of a live grant of this lifetime, padding included.
    Live {
        /// The lifetime asked for.
        lifetime: Lifetime,
    },
    /// Released, not reusable yet.
    Pending {
        /// A stamp that it waits for; `None` if only an older neighbour holds it back.
        waits_for: Option<Stamp>,
    },
    /// Free.
    Free,
    /// Red zone around a live grant.
    Guard,
}

/// A run of bytes in one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First byte, counted from the slab's base.
    pub offset: u64,
    /// Length in bytes, at least 1.
    pub len: u64,
    /// What the bytes are.
    pub state: SegmentState,
}

/// A sub-allocator of one slab: hands out byte offsets, knows no device.
///
/// A byte is *live* (granted), *pending* (released, its stamps not complete) or *free*. Any refusal or misuse leaves
/// the state as it was. Nothing here allocates host memory after construction.
///
/// The launcher, the oracle and the facade take `Box<dyn SlabAllocator + Send>`. The conformance suite of
/// `cuforge-slab` tests any implementation against this contract.
///
/// An acquisition is two methods, and [`acquire`](Self::acquire) for whoever wants one `Result` of both: a grant or none of
/// it is an answer in two registers, whereas a [`Refusal`] with its numbers goes through memory, and is wanted seldom.
///
/// # Safety
/// Safe code of others relies on the implementor for the following, device memory safety included:
/// - two grants that are live or pending never overlap, and each lies inside the capacity;
/// - a grant has the length and alignment asked for;
/// - released, rewound and cleared bytes are not granted again before every stamp given with them has completed
///   according to a [`Progress`] passed to [`reclaim`](Self::reclaim); what cannot be tracked is kept back longer,
///   never shorter;
/// - a handle or scope is never valid for two grants or checkpoints.
#[allow(unsafe_code, reason = "implementors promise disjointness, on which safe code relies")]
pub unsafe trait SlabAllocator {
    /// Bytes for `request`, all of them free; none if it is refused, with the state unchanged but for the count of
    /// refusals. [`refusal`](Self::refusal) then says why.
    fn try_acquire(&mut self, request: &Request) -> Option<Grant>;

    /// Why [`try_acquire`](Self::try_acquire) has just refused `request`: it is asked before any other call, and what it
    /// says of a request that was not refused has no meaning.
    fn refusal(&self, request: &Request) -> Refusal;

    /// Bytes for `request`, all of them free: [`try_acquire`](Self::try_acquire) and, only if it gives none,
    /// [`refusal`](Self::refusal). Nobody needs to override it.
    ///
    /// # Errors
    /// A [`Refusal`]: data that says why, with the state unchanged.
    #[inline]
    fn acquire(&mut self, request: &Request) -> Result<Grant, Refusal> {
        match self.try_acquire(request) {
            Some(grant) => Ok(grant),
            None => Err(explain(self, request)),
        }
    }

    /// Ends a grant; its bytes stay pending until all of `after` have completed (at once free if `after` is empty).
    ///
    /// # Errors
    /// [`Misuse::StaleHandle`] or [`Misuse::UnknownHandle`].
    fn release(&mut self, handle: Handle, after: &[Stamp]) -> Result<(), Misuse>;

    /// Frees what has completed; bytes that became free. Bounded work: an implementation may leave some for the next
    /// call.
    fn reclaim(&mut self, progress: &dyn Progress) -> u64;

    /// The counters, in O(1).
    fn stats(&self) -> Stats;

    /// Extends the capacity by `extra_bytes` at its end without moving anything; the new capacity in bytes.
    ///
    /// # Errors
    /// [`Misuse::Unsupported`] unless overridden; [`Misuse::Overflow`].
    fn grow(&mut self, extra_bytes: u64) -> Result<u64, Misuse> {
        let _ = extra_bytes;
        Err(Misuse::Unsupported { operation: Operation::Grow })
    }

    /// Ends every grant that is not [`Lifetime::Resident`]; their bytes stay pending until `after` has completed.
    /// Scopes pushed before become stale.
    ///
    /// # Errors
    /// [`Misuse::Unsupported`] unless overridden.
    fn clear(&mut self, after: &[Stamp]) -> Result<Rewound, Misuse> {
        let _ = after;
        Err(Misuse::Unsupported { operation: Operation::Clear })
    }

    /// Opens a scope: a later [`rewind`](Self::rewind) ends what was acquired since.
    ///
    /// # Errors
    /// [`Misuse::Unsupported`] unless overridden; [`Misuse::ScopeDepth`].
    fn push_scope(&mut self) -> Result<Scope, Misuse> {
        Err(Misuse::Unsupported { operation: Operation::PushScope })
    }

    /// Ends every grant acquired since `scope` was pushed that is live and not [`Lifetime::Resident`]; their bytes
    /// stay pending until `after` has completed. The scope and those pushed inside it become stale.
    ///
    /// # Errors
    /// [`Misuse::Unsupported`] unless overridden; [`Misuse::StaleScope`], [`Misuse::UnknownScope`].
    fn rewind(&mut self, scope: Scope, after: &[Stamp]) -> Result<Rewound, Misuse> {
        let _ = (scope, after);
        Err(Misuse::Unsupported { operation: Operation::Rewind })
    }

    /// Calls `visit` with every segment, in ascending order and without gaps: together they are the capacity.
    /// O(segments), no allocation.
    ///
    /// # Errors
    /// [`Misuse::Unsupported`] unless overridden.
    fn inspect(&self, visit: &mut dyn FnMut(Segment)) -> Result<(), Misuse> {
        let _ = visit;
        Err(Misuse::Unsupported { operation: Operation::Inspect })
    }
}

/// Out of line, so that whoever acquires in a loop has no more in it than the call and a branch.
#[cold]
#[inline(never)]
fn explain<A: SlabAllocator + ?Sized>(allocator: &A, request: &Request) -> Refusal {
    allocator.refusal(request)
}

// SAFETY: every call is forwarded to the boxed allocator, which keeps the contract.
#[allow(unsafe_code, reason = "implements the unsafe trait by forwarding")]
unsafe impl<A: SlabAllocator + ?Sized> SlabAllocator for Box<A> {
    #[inline]
    fn try_acquire(&mut self, request: &Request) -> Option<Grant> {
        (**self).try_acquire(request)
    }
    fn refusal(&self, request: &Request) -> Refusal {
        (**self).refusal(request)
    }
    #[inline]
    fn release(&mut self, handle: Handle, after: &[Stamp]) -> Result<(), Misuse> {
        (**self).release(handle, after)
    }
    fn reclaim(&mut self, progress: &dyn Progress) -> u64 {
        (**self).reclaim(progress)
    }
    fn stats(&self) -> Stats {
        (**self).stats()
    }
    fn grow(&mut self, extra_bytes: u64) -> Result<u64, Misuse> {
        (**self).grow(extra_bytes)
    }
    fn clear(&mut self, after: &[Stamp]) -> Result<Rewound, Misuse> {
        (**self).clear(after)
    }
    fn push_scope(&mut self) -> Result<Scope, Misuse> {
        (**self).push_scope()
    }
    fn rewind(&mut self, scope: Scope, after: &[Stamp]) -> Result<Rewound, Misuse> {
        (**self).rewind(scope, after)
    }
    fn inspect(&self, visit: &mut dyn FnMut(Segment)) -> Result<(), Misuse> {
        (**self).inspect(visit)
    }
}

const _: fn(&dyn SlabAllocator) = |_| {};
