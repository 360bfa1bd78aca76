//! A bump allocator with red zones between grants, for the simulated device's slab.
//!
//! It implements the unsafe allocator trait, which is the only reason why this file may allow unsafe code.
#![allow(unsafe_code, reason = "an allocator promises disjoint grants, on which safe code relies")]

use cuforge_core::{
    Grant, Handle, Lifetime, Misuse, Progress, Refusal, Request, Rewound, SlabAllocator, Stamp, Stats,
};

/// Bytes kept free behind every grant: a kernel that runs over the end of a buffer meets no other buffer soon.
pub(super) const RED_ZONE_BYTES: u64 = 256;

#[derive(Clone, Copy, Debug)]
struct Live {
    handle: Handle,
    end: u64,
    len: u64,
    resident: bool,
}

/// Grants bytes upwards; only `clear` gives any back, and only those above the highest resident grant.
#[derive(Debug)]
pub(super) struct Bump {
    next: u64,
    next_handle: u64,
    live: Vec<Live>,
    /// What must complete before bytes may be granted again.
    pending: Vec<Stamp>,
    /// Where `next` returns to once nothing is pending.
    rewind_to: Option<u64>,
    stats: Stats,
}

impl Bump {
    pub(super) fn new(capacity_bytes: u64) -> Self {
        let stats = Stats { capacity_bytes, largest_free_bytes: capacity_bytes, ..Stats::default() };
        Self { next: 0, next_handle: 1, live: Vec::new(), pending: Vec::new(), rewind_to: None, stats }
    }

    fn free(&self) -> u64 {
        self.stats.capacity_bytes.saturating_sub(self.next)
    }

    /// The longest request that an empty slab serves.
    fn longest(&self) -> u64 {
        self.stats.capacity_bytes.saturating_sub(RED_ZONE_BYTES)
    }

    fn place(&self, request: &Request) -> Option<u64> {
        if request.malformed().is_some() || request.len > self.longest() {
            return None;
        }
        let start = self.next.checked_next_multiple_of(request.align)?;
        let end = start.checked_add(request.len + RED_ZONE_BYTES)?;
        (end <= self.stats.capacity_bytes).then_some(start)
    }

    fn forget(&mut self, gone: Live) {
        self.stats.live_bytes -= gone.len;
        self.stats.live_grants -= 1;
    }

    fn settle(&mut self) -> u64 {
        let Some(target) = self.rewind_to.take_if(|_| self.pending.is_empty()) else { return 0 };
        let freed = self.next.saturating_sub(target);
        self.next = target;
        self.stats.largest_free_bytes = self.free();
        freed
    }
}

// SAFETY: `next` only grows, past each grant and its red zone, so grants never overlap and lie inside the capacity,
// with the length and alignment asked for. It falls back only in `settle`: to the end of the highest live grant, and
// only when no stamp of a release or clear is pending. Handles count up and are never given twice.
unsafe impl SlabAllocator for Bump {
    fn try_acquire(&mut self, request: &Request) -> Option<Grant> {
        let (Some(offset), Some(handle)) = (self.place(request), Handle::new(self.next_handle)) else {
            self.stats.refused_total += 1;
            return None;
        };
        // A grant above the mark would be cut off by a rewind that is still to come.
        self.rewind_to = None;
        self.next = offset + request.len + RED_ZONE_BYTES;
        self.next_handle += 1;
        let resident = request.lifetime == Lifetime::Resident;
        self.live.push(Live { handle, end: self.next, len: request.len, resident });
        self.stats.live_bytes += request.len;
        self.stats.live_grants += 1;
        self.stats.acquired_total += 1;
        self.stats.peak_bytes = self.stats.peak_bytes.max(self.stats.live_bytes);
        self.stats.largest_free_bytes = self.free();
        Some(Grant { handle, offset })
    }

    fn refusal(&self, request: &Request) -> Refusal {
        if let Some(refusal) = request.malformed() {
            refusal
        } else if request.len > self.longest() {
            Refusal::NeverFits { max_bytes: self.longest() }
        } else {
            Refusal::full(&Stats { live_bytes: self.next, ..self.stats }, None)
        }
    }

    fn release(&mut self, handle: Handle, after: &[Stamp]) -> Result<(), Misuse> {
        let Some(at) = self.live.iter().position(|live| live.handle == handle) else {
            let known = handle.number() < self.next_handle;
            return Err(if known { Misuse::StaleHandle } else { Misuse::UnknownHandle });
        };
        let gone = self.live.swap_remove(at);
        self.forget(gone);
        self.pending.extend(after.iter().filter(|stamp| stamp.epoch != 0));
        Ok(())
    }

    fn reclaim(&mut self, progress: &dyn Progress) -> u64 {
        self.pending.retain(|stamp| !stamp.is_complete(progress));
        self.settle()
    }

    fn stats(&self) -> Stats {
        self.stats
    }

    fn clear(&mut self, after: &[Stamp]) -> Result<Rewound, Misuse> {
        let mut rewound = Rewound::default();
        let (kept, ended): (Vec<Live>, Vec<Live>) = self.live.drain(..).partition(|live| live.resident);
        self.live = kept;
        for gone in ended {
            rewound.grants += 1;
            rewound.bytes += gone.len;
            self.forget(gone);
        }
        self.pending.extend(after.iter().filter(|stamp| stamp.epoch != 0));
        self.rewind_to = Some(self.live.iter().map(|live| live.end).max().unwrap_or(0));
        self.settle();
        Ok(rewound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuforge_core::QueueId;

    #[test]
    fn grants_keep_a_red_zone_apart_and_never_overlap() {
        let mut bump = Bump::new(1 << 16);
        let mut end = 0;
        for len in [1, 255, 4096] {
            let grant = bump.acquire(&Request::new(len)).unwrap();
            assert!(grant.offset >= end && grant.offset.is_multiple_of(256));
            end = grant.offset + len + RED_ZONE_BYTES;
        }
    }

    #[test]
    fn what_cannot_fit_is_refused_with_the_reason() {
        let mut bump = Bump::new(4096);
        assert_eq!(bump.acquire(&Request::new(0)), Err(Refusal::Zero));
        assert_eq!(bump.acquire(&Request::new(1).with_align(3)), Err(Refusal::Alignment { align: 3 }));
        assert!(matches!(bump.acquire(&Request::new(u64::MAX)), Err(Refusal::NeverFits { .. })));
        bump.acquire(&Request::new(2048)).unwrap();
        assert!(matches!(bump.acquire(&Request::new(2048)), Err(Refusal::Full { .. })));
        assert_eq!(bump.stats().refused_total, 4);
    }

    #[test]
    fn clear_keeps_resident_grants_and_waits_for_stamps() {
        let mut bump = Bump::new(1 << 16);
        let weights = bump.acquire(&Request::new(100).with_lifetime(Lifetime::Resident)).unwrap();
        let scratch = bump.acquire(&Request::new(100)).unwrap();
        let stamp = Stamp { queue: QueueId(0), epoch: 5 };
        assert_eq!(bump.clear(&[stamp]).unwrap(), Rewound { grants: 1, bytes: 100 });
        assert_eq!(bump.release(scratch.handle, &[]), Err(Misuse::StaleHandle));
        assert_eq!(bump.reclaim(&[4u64]), 0);
        assert!(bump.reclaim(&[5u64]) > 0);
        let again = bump.acquire(&Request::new(100)).unwrap();
        assert!(again.offset > weights.offset + 100 && again.offset <= scratch.offset);
    }
}
