//! The allocator trait that a user swaps, and the words it is spoken in: requests, grants, refusals, misuse.

use crate::stamp::{Progress, QueueId, Stamp};
use crate::view::Access;
use alloc::boxed::Box;

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
}

/// An allocator's name for one grant: opaque, chosen by the allocator (an index and a generation, say), and never
/// valid for two grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle(pub u64);

/// Bytes handed out: free of any pending work when granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// What [`SlabAllocator::release`] takes.
    pub handle: Handle,
    /// First byte, counted from the slab's base; a multiple of the request's alignment.
    pub offset: u64,
    /// Bytes granted: exactly the request's length.
    pub len: u64,
}

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

/// A call that is wrong in itself: the caller's code has a fault. State is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Misuse {
    /// The handle names no live grant: released before, or ended by a rewind or clear.
    #[error("stale handle {handle:?}")]
    StaleHandle {
        /// The handle given.
        handle: Handle,
    },
    /// The handle was never given out by this allocator.
    #[error("handle {handle:?} was never given out")]
    UnknownHandle {
        /// The handle given.
        handle: Handle,
    },
    /// The scope was rewound before, or an outer one was.
    #[error("stale scope {scope:?}")]
    StaleScope {
        /// The scope given.
        scope: Scope,
    },
    /// The scope was never pushed on this allocator.
    #[error("scope {scope:?} was never pushed here")]
    UnknownScope {
        /// The scope given.
        scope: Scope,
    },
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
    #[error("{operation} by {bytes} bytes would overflow")]
    Overflow {
        /// What was asked for.
        operation: &'static str,
        /// By how much.
        bytes: u64,
    },
    /// This allocator does not do that.
    #[error("{operation} is not supported by this allocator")]
    Unsupported {
        /// What was asked for.
        operation: &'static str,
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
    /// Bytes neither live nor pending. O(1).
    pub const fn free_bytes(&self) -> u64 {
        self.capacity_bytes.saturating_sub(self.live_bytes).saturating_sub(self.pending_bytes)
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
    /// Bytes for `request`, all of them free.
    ///
    /// # Errors
    /// A [`Refusal`]: data that says why, with the state unchanged.
    fn acquire(&mut self, request: &Request) -> Result<Grant, Refusal>;

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
        Err(Misuse::Unsupported { operation: "grow" })
    }

    /// Ends every grant that is not [`Lifetime::Resident`]; their bytes stay pending until `after` has completed.
    /// Scopes pushed before become stale.
    ///
    /// # Errors
    /// [`Misuse::Unsupported`] unless overridden.
    fn clear(&mut self, after: &[Stamp]) -> Result<Rewound, Misuse> {
        let _ = after;
        Err(Misuse::Unsupported { operation: "clear" })
    }

    /// Opens a scope: a later [`rewind`](Self::rewind) ends what was acquired since.
    ///
    /// # Errors
    /// [`Misuse::Unsupported`] unless overridden; [`Misuse::ScopeDepth`].
    fn push_scope(&mut self) -> Result<Scope, Misuse> {
        Err(Misuse::Unsupported { operation: "push_scope" })
    }

    /// Ends every grant acquired since `scope` was pushed that is live and not [`Lifetime::Resident`]; their bytes
    /// stay pending until `after` has completed. The scope and those pushed inside it become stale.
    ///
    /// # Errors
    /// [`Misuse::Unsupported`] unless overridden; [`Misuse::StaleScope`], [`Misuse::UnknownScope`].
    fn rewind(&mut self, scope: Scope, after: &[Stamp]) -> Result<Rewound, Misuse> {
        let _ = (scope, after);
        Err(Misuse::Unsupported { operation: "rewind" })
    }

    /// Calls `visit` with every segment, in ascending order and without gaps: together they are the capacity.
    /// O(segments), no allocation.
    ///
    /// # Errors
    /// [`Misuse::Unsupported`] unless overridden.
    fn inspect(&self, visit: &mut dyn FnMut(Segment)) -> Result<(), Misuse> {
        let _ = visit;
        Err(Misuse::Unsupported { operation: "inspect" })
    }
}

// SAFETY: every call is forwarded to the boxed allocator, which keeps the contract.
#[allow(unsafe_code, reason = "implements the unsafe trait by forwarding")]
unsafe impl<A: SlabAllocator + ?Sized> SlabAllocator for Box<A> {
    fn acquire(&mut self, request: &Request) -> Result<Grant, Refusal> {
        (**self).acquire(request)
    }
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
