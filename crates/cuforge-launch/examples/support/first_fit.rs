//! A plain allocator for tests: first fit, released runs rest until their stamps are done.

use cuforge_core::{Grant, Handle, Misuse, Progress, Refusal, Request, SlabAllocator, Stamp, Stats};

/// First fit over a sorted list of free runs; a released run rests until its stamps are done.
pub(crate) struct FirstFit {
    free: Vec<(u64, u64)>,
    pending: Vec<(u64, u64, Vec<Stamp>)>,
    live: Vec<(Handle, u64, u64)>,
    capacity: u64,
    granted: u64,
}

impl FirstFit {
    pub(crate) fn boxed(capacity: u64) -> Box<dyn SlabAllocator + Send> {
        Box::new(Self {
            free: vec![(0, capacity)],
            pending: Vec::with_capacity(64),
            live: Vec::with_capacity(64),
            capacity,
            granted: 0,
        })
    }
}

// SAFETY: a run is taken off the free list before it is granted and goes back after its stamps.
unsafe impl SlabAllocator for FirstFit {
    fn try_acquire(&mut self, request: &Request) -> Option<Grant> {
        if request.malformed().is_some() {
            return None;
        }
        for at in 0..self.free.len() {
            let (start, len) = self.free[at];
            let offset = start.next_multiple_of(request.align);
            let Some(left) = (start + len).checked_sub(offset + request.len) else { continue };
            // Nothing of no length is kept, or the list would grow for ever.
            if left == 0 {
                self.free.swap_remove(at);
            } else {
                self.free[at] = (offset + request.len, left);
            }
            if offset > start {
                self.free.push((start, offset - start));
            }
            self.granted += 1;
            let handle = Handle::new(self.granted)?;
            self.live.push((handle, offset, request.len));
            return Some(Grant { handle, offset });
        }
        None
    }
    fn refusal(&self, request: &Request) -> Refusal {
        if let Some(refusal) = request.malformed() {
            return refusal;
        }
        let oldest = self.pending.first().and_then(|(_, _, after)| after.first()).copied();
        let pending = self.pending.iter().map(|p| p.1).sum();
        let total_free = self.free.iter().map(|f| f.1).sum();
        let largest_free = self.free.iter().map(|f| f.1).max().unwrap_or(0);
        Refusal::Full { total_free, largest_free, pending, oldest }
    }
    fn release(&mut self, handle: Handle, after: &[Stamp]) -> Result<(), Misuse> {
        let at = self.live.iter().position(|(live, ..)| *live == handle);
        let (_, offset, len) = self.live.swap_remove(at.ok_or(Misuse::StaleHandle)?);
        self.pending.push((offset, len, after.to_vec()));
        Ok(())
    }
    fn reclaim(&mut self, progress: &dyn Progress) -> u64 {
        let mut bytes = 0;
        let free = &mut self.free;
        self.pending.retain_mut(|(offset, len, after)| {
            after.retain(|stamp| !stamp.is_complete(progress));
            let done = after.is_empty();
            if done {
                bytes += *len;
                free.push((*offset, *len));
            }
            !done
        });
        bytes
    }
    fn stats(&self) -> Stats {
        Stats { capacity_bytes: self.capacity, live_grants: self.live.len() as u64, ..Stats::default() }
    }
    fn grow(&mut self, extra_bytes: u64) -> Result<u64, Misuse> {
        self.free.push((self.capacity, extra_bytes));
        self.capacity += extra_bytes;
        Ok(self.capacity)
    }
}
