//! An adaptor that logs every call and knows who holds what.

use crate::events::Event;
use crate::limits::{BuildError, SlabLimits};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;
use cuforge_core::{
    Grant, Handle, Lifetime, MAX_QUEUES, Misuse, Progress, QueueId, Refusal, Request, Rewound, Scope,
    Segment, SlabAllocator, Stamp, Stats,
};

/// A live grant and who holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    /// Numbers acquisitions in order, from 0: the lowest is the oldest.
    pub serial: u64,
    /// The grant.
    pub grant: Grant,
    /// Its bytes.
    pub len: u64,
    /// The lifetime asked for.
    pub lifetime: Lifetime,
    /// Who asked.
    pub holder: &'static str,
}

/// Logs every call so that it can be [replayed](crate::replay) and [drawn](crate::timeline_svg), and names the holders
/// of what is still live.
///
/// The log has a fixed length; once it is full it stops, so that what it holds stays replayable, and
/// [`lost`](Self::lost) counts. Holders are tracked all the same. On top of the allocator's own time: O(1) expected a
/// call, O(live grants) for `rewind` and `clear`. Nothing allocates after construction except the reports.
///
/// ```
/// use cuforge_core::{Request, SlabAllocator};
/// use cuforge_slab::{SlabLimits, TlsfSlab, Traced, replay};
///
/// let mut slab = Traced::new(TlsfSlab::new(1 << 20)?, 1000, SlabLimits::default())?;
/// slab.set_holder("kv cache");
/// slab.acquire(&Request::new(4096))?;
/// slab.set_holder("logits");
/// let logits = slab.acquire(&Request::new(1024))?;
/// slab.release(logits.handle, &[])?;
/// assert_eq!(slab.leak_report(8), "1 grants live, 4096 bytes\n  #0 kv cache: 4096 bytes at 1044480, General\n");
///
/// let again = replay(slab.log(), &mut TlsfSlab::new(1 << 20)?)?;
/// assert_eq!((again.calls, again.moved), (3, 0));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Traced<A> {
    inner: A,
    log: Vec<Event>,
    lost: u64,
    holder: &'static str,
    table: Table,
    scopes: Vec<(Scope, u64)>,
    serial: u64,
    completed: [u64; MAX_QUEUES],
}

impl<A: SlabAllocator> Traced<A> {
    /// Traces `inner` from here on, with room for `events` entries and for `limits.grants` live grants. O(both).
    ///
    /// # Errors
    /// [`BuildError::Limit`], [`BuildError::NotPowerOfTwo`].
    pub fn new(inner: A, events: usize, limits: SlabLimits) -> Result<Self, BuildError> {
        limits.check()?;
        Ok(Self {
            inner,
            log: Vec::with_capacity(events),
            lost: 0,
            holder: "unnamed",
            table: Table::new(limits.grants),
            scopes: Vec::with_capacity(limits.scopes as usize),
            serial: 0,
            completed: [0; MAX_QUEUES],
        })
    }

    /// Whose the grants are that are acquired from here on. O(1).
    pub fn set_holder(&mut self, holder: &'static str) {
        self.holder = holder;
    }

    /// The calls so far, oldest first. O(1).
    pub fn log(&self) -> &[Event] {
        &self.log
    }

    /// Calls that the log had no room for; once one is lost, so are all after it. O(1).
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// The live grants, oldest first. O(n log n) in the grants; allocates. Grants beyond the limit are not known.
    pub fn holdings(&self) -> Vec<Holding> {
        let mut holdings: Vec<_> = self.table.slots.iter().flatten().copied().collect();
        holdings.sort_unstable_by_key(|holding| holding.serial);
        holdings
    }

    /// What is live, and the `most` oldest holders of it, one a line. Empty if nothing is. O(n log n)
    /// in the grants; allocates.
    pub fn leak_report(&self, most: usize) -> String {
        let holdings = self.holdings();
        let mut report = String::new();
        if holdings.is_empty() {
            return report;
        }
        let bytes: u64 = holdings.iter().map(|holding| holding.len).sum();
        // Writing to a `String` cannot fail.
        let _ = writeln!(report, "{} grants live, {bytes} bytes", holdings.len());
        for Holding { serial, grant, len, lifetime, holder } in holdings.iter().take(most) {
            let _ = writeln!(report, "  #{serial} {holder}: {len} bytes at {}, {lifetime:?}", grant.offset);
        }
        if holdings.len() > most {
            let _ = writeln!(report, "  and {} younger", holdings.len() - most);
        }
        report
    }

    /// The allocator without the trace. O(1).
    pub fn into_inner(self) -> A {
        self.inner
    }

    /// Logs a call with the stamps that belong to it, or nothing of it.
    fn note(&mut self, stamps: &[Stamp], wrap: fn(Stamp) -> Event, event: Event) {
        if self.lost > 0 || self.log.capacity() - self.log.len() <= stamps.len() {
            self.lost += 1;
            return;
        }
        self.log.extend(stamps.iter().map(|stamp| wrap(*stamp)));
        self.log.push(event);
    }
}

// SAFETY: every call is the inner allocator's, which keeps the contract.
#[allow(unsafe_code, reason = "implements the allocator trait by forwarding")]
unsafe impl<A: SlabAllocator> SlabAllocator for Traced<A> {
    fn try_acquire(&mut self, request: &Request) -> Option<Grant> {
        let answer = self.inner.acquire(request);
        let (request, holder) = (*request, self.holder);
        match answer {
            Ok(grant) => {
                let Request { len, lifetime, .. } = request;
                self.table.insert(Holding { serial: self.serial, grant, len, lifetime, holder });
                self.serial += 1;
                let Grant { handle, offset } = grant;
                self.note(&[], Event::After, Event::Acquired { request, handle, offset, holder });
            }
            Err(refusal) => self.note(&[], Event::After, Event::Refused { request, refusal }),
        }
        answer.ok()
    }

    fn refusal(&self, request: &Request) -> Refusal {
        self.inner.refusal(request)
    }

    fn release(&mut self, handle: Handle, after: &[Stamp]) -> Result<(), Misuse> {
        self.inner.release(handle, after)?;
        self.table.remove(handle);
        self.note(after, Event::After, Event::Released { handle });
        Ok(())
    }

    fn reclaim(&mut self, progress: &dyn Progress) -> u64 {
        let mut further = [Stamp { queue: QueueId(0), epoch: 0 }; MAX_QUEUES];
        let mut count = 0;
        for (queue, known) in (0..).map(QueueId).zip(&mut self.completed) {
            let epoch = progress.completed(queue);
            if epoch > *known {
                *known = epoch;
                further[count] = Stamp { queue, epoch };
                count += 1;
            }
        }
        // By what was logged, so that a replay frees the same.
        let bytes = self.inner.reclaim(&self.completed);
        self.note(&further[..count], Event::Completed, Event::Reclaimed { bytes });
        bytes
    }

    fn stats(&self) -> Stats {
        self.inner.stats()
    }

    fn grow(&mut self, extra_bytes: u64) -> Result<u64, Misuse> {
        let grown = self.inner.grow(extra_bytes)?;
        self.note(&[], Event::After, Event::Grown { extra_bytes });
        Ok(grown)
    }

    fn clear(&mut self, after: &[Stamp]) -> Result<Rewound, Misuse> {
        let ended = self.inner.clear(after)?;
        self.scopes.clear();
        self.table.end_since(0);
        self.note(after, Event::After, Event::Cleared { ended });
        Ok(ended)
    }

    fn push_scope(&mut self) -> Result<Scope, Misuse> {
        let scope = self.inner.push_scope()?;
        self.scopes.push((scope, self.serial));
        self.note(&[], Event::After, Event::Pushed { scope });
        Ok(scope)
    }

    fn rewind(&mut self, scope: Scope, after: &[Stamp]) -> Result<Rewound, Misuse> {
        let ended = self.inner.rewind(scope, after)?;
        if let Some(position) = self.scopes.iter().position(|(open, _)| *open == scope) {
            self.table.end_since(self.scopes[position].1);
            self.scopes.truncate(position);
        }
        self.note(after, Event::After, Event::Rewound { scope, ended });
        Ok(ended)
    }

    fn inspect(&self, visit: &mut dyn FnMut(Segment)) -> Result<(), Misuse> {
        self.inner.inspect(visit)
    }
}

/// Live grants by handle: open addressing, at most half full.
#[derive(Debug)]
struct Table {
    slots: Box<[Option<Holding>]>,
    len: usize,
}

impl Table {
    fn new(grants: u32) -> Self {
        let slots = (grants as usize * 2).next_power_of_two();
        Self { slots: (0..slots).map(|_| None).collect(), len: 0 }
    }

    fn home(&self, handle: Handle) -> usize {
        (handle.number().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & (self.slots.len() - 1)
    }

    /// Beyond half of the slots nothing is put in.
    fn insert(&mut self, holding: Holding) {
        if self.len * 2 >= self.slots.len() {
            return;
        }
        let mut slot = self.home(holding.grant.handle);
        while self.slots[slot].is_some() {
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        self.slots[slot] = Some(holding);
        self.len += 1;
    }

    fn remove(&mut self, handle: Handle) {
        let mut slot = self.home(handle);
        while let Some(holding) = self.slots[slot] {
            if holding.grant.handle == handle {
                self.take(slot);
                return;
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
    }

    /// Empties a slot and moves back what was pushed behind it.
    fn take(&mut self, slot: usize) {
        let mask = self.slots.len() - 1;
        self.slots[slot] = None;
        self.len -= 1;
        let (mut hole, mut next) = (slot, (slot + 1) & mask);
        while let Some(holding) = self.slots[next] {
            let home = self.home(holding.grant.handle);
            // It may move back unless its home lies behind the hole.
            if (next.wrapping_sub(home) & mask) >= (next.wrapping_sub(hole) & mask) {
                self.slots[hole] = self.slots[next].take();
                hole = next;
            }
            next = (next + 1) & mask;
        }
    }

    fn end_since(&mut self, serial: u64) {
        let ends = |slot: &Option<Holding>| {
            slot.is_some_and(|held| held.serial >= serial && held.lifetime != Lifetime::Resident)
        };
        // Taking one may move another into its slot: look again there. One that wraps round to the front is found by
        // the second pass.
        for _ in 0..2 {
            let mut slot = 0;
            while slot < self.slots.len() {
                if ends(&self.slots[slot]) {
                    self.take(slot);
                } else {
                    slot += 1;
                }
            }
        }
    }
}
