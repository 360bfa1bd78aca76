//! An adaptor that refuses what would exceed a limit.

use cuforge_core::{
    Grant, Handle, Misuse, Progress, Refusal, Request, Rewound, Scope, Segment, SlabAllocator, Stamp, Stats,
};

/// Caps the live and pending bytes of an allocator: a request that would pass the limit gets [`Refusal::Limit`].
///
/// What counts is what the allocator's statistics count, plus the request's length. Padding and rounding of the last
/// grant may pass the limit. O(1) on top of the allocator's own time.
///
/// ```
/// use cuforge_core::{Refusal, Request, SlabAllocator};
/// use cuforge_slab::{Limited, TlsfSlab};
///
/// let mut half = Limited::new(TlsfSlab::new(1 << 20)?, 512 << 10);
/// assert!(half.acquire(&Request::new(400 << 10)).is_ok());
/// let refusal = half.acquire(&Request::new(200 << 10));
/// assert_eq!(refusal, Err(Refusal::Limit { limit_bytes: 512 << 10, used_bytes: 400 << 10 }));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Limited<A> {
    inner: A,
    limit_bytes: u64,
    refused: u64,
}

impl<A: SlabAllocator> Limited<A> {
    /// `inner`, capped at `limit_bytes`. O(1), as all here.
    pub fn new(inner: A, limit_bytes: u64) -> Self {
        Self { inner, limit_bytes, refused: 0 }
    }

    /// The limit in bytes. O(1).
    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// Another limit; what is in use beyond it stays valid. O(1).
    pub fn set_limit_bytes(&mut self, limit_bytes: u64) {
        self.limit_bytes = limit_bytes;
    }

    /// The allocator without the limit. O(1).
    pub fn into_inner(self) -> A {
        self.inner
    }

    fn passes_limit(&self, request: &Request) -> bool {
        request.align.is_power_of_two()
            && request.len > self.limit_bytes.saturating_sub(self.inner.stats().used_bytes())
    }
}

// SAFETY: every grant is the inner allocator's, which keeps the contract; refusing more changes none of it.
#[allow(unsafe_code, reason = "implements the allocator trait by forwarding")]
unsafe impl<A: SlabAllocator> SlabAllocator for Limited<A> {
    fn try_acquire(&mut self, request: &Request) -> Option<Grant> {
        if self.passes_limit(request) {
            self.refused += 1;
            return None;
        }
        self.inner.try_acquire(request)
    }

    fn refusal(&self, request: &Request) -> Refusal {
        if self.passes_limit(request) {
            return Refusal::Limit {
                limit_bytes: self.limit_bytes,
                used_bytes: self.inner.stats().used_bytes(),
            };
        }
        self.inner.refusal(request)
    }

    fn release(&mut self, handle: Handle, after: &[Stamp]) -> Result<(), Misuse> {
        self.inner.release(handle, after)
    }

    fn reclaim(&mut self, progress: &dyn Progress) -> u64 {
        self.inner.reclaim(progress)
    }

    fn stats(&self) -> Stats {
        let stats = self.inner.stats();
        Stats { refused_total: stats.refused_total + self.refused, ..stats }
    }

    fn grow(&mut self, extra_bytes: u64) -> Result<u64, Misuse> {
        self.inner.grow(extra_bytes)
    }

    fn clear(&mut self, after: &[Stamp]) -> Result<Rewound, Misuse> {
        self.inner.clear(after)
    }

    fn push_scope(&mut self) -> Result<Scope, Misuse> {
        self.inner.push_scope()
    }

    fn rewind(&mut self, scope: Scope, after: &[Stamp]) -> Result<Rewound, Misuse> {
        self.inner.rewind(scope, after)
    }

    fn inspect(&self, visit: &mut dyn FnMut(Segment)) -> Result<(), Misuse> {
        self.inner.inspect(visit)
    }
}
