//! The ring: 192 grants in flight in 256 MiB, first in, first out, beside one written by hand without a check.

use std::collections::VecDeque;
use std::hint::black_box;
use std::num::NonZeroU64;

use cuforge_core::{
    BufferView, Grant, Handle, Ledger, LedgerLimits, Lifetime, Misuse, Progress, QueueId, Refusal, Request,
    SlabAllocator, Stamp, Stats,
};
use cuforge_slab::{RegionLayout, RegionSlab, RingSlab, SlabLimits, TlsfSlab};
use offset_allocator::{Allocation, Allocator};
use range_alloc::RangeAllocator;

use super::sides::{Outcome, Side, ns_each, ratio};
use super::sizes::{STEP, log_uniform};
use crate::area::Settings;
use crate::figure::{Bar, Figure};
use crate::rounds::repeat;

const CAPACITY: u64 = 256 << 20;
const IN_FLIGHT: usize = 192;
/// So many a slice.
const OPERATIONS: usize = 8_192;
const SIZES: usize = 4_096;

/// A ring as one writes it by hand: logical ends that only grow, a physical start beside them, no division. It rounds,
/// wraps and sees when it is full, and checks nothing else: no zero length, no overflow, no alignment but 256, no stale
/// or repeated end, no order, no statistics.
#[derive(Default)]
struct Bare {
    start: u64,
    head: u64,
    tail: u64,
}

impl Bare {
    #[inline]
    fn acquire(&mut self, len: u64) -> Option<(u64, u64)> {
        let start = (self.start + 255) & !255;
        if start + len > CAPACITY {
            return self.go_round(len);
        }
        let head = self.head + (start - self.start) + len;
        if head - self.tail > CAPACITY {
            return None;
        }
        self.head = head;
        self.start = start + len;
        Some((start, head))
    }

    /// Out of line, so that the wrap is a branch that is predicted and no select in the way of the next call.
    #[cold]
    fn go_round(&mut self, len: u64) -> Option<(u64, u64)> {
        let head = self.head + (CAPACITY - self.start) + len;
        if head - self.tail > CAPACITY {
            return None;
        }
        self.head = head;
        self.start = len;
        Some((0, head))
    }

    #[inline]
    fn retire(&mut self, end: u64) {
        self.tail = end;
    }
}

/// The same with what retiring the oldest takes: the ends of what is in flight, in a queue of its own without a check.
struct ByHand {
    bare: Bare,
    ends: [u64; 256],
    newest: u8,
    oldest: u8,
}

impl Default for ByHand {
    fn default() -> Self {
        Self { bare: Bare::default(), ends: [0; 256], newest: 0, oldest: 0 }
    }
}

/// Fills the flight, then ends the oldest and takes a new one, over and over; nanoseconds for both. What is in flight
/// waits in a queue, as it does in a program. What is handed out is used (it goes to a black box), and the allocator
/// lives in memory between calls: a loop that does nothing else would keep a small one in registers.
fn laps<S: Side>(sizes: &[u64], side: &mut S) -> Outcome<f64> {
    let flight: Option<VecDeque<S::Token>> =
        sizes.iter().take(IN_FLIGHT).map(|len| Some(side.take(*len)?.1)).collect();
    let mut flight = flight.ok_or("the first lap does not fit")?;
    let mut ok = true;
    let mut sizes = sizes.iter().cycle().skip(IN_FLIGHT);
    let ns = ns_each(OPERATIONS, || {
        for _ in 0..OPERATIONS {
            let side = black_box(&mut *side);
            ok &= flight.pop_front().is_some_and(|token| side.end(token));
            let taken = sizes.next().and_then(|len| side.take(black_box(*len)));
            match taken {
                Some((offset, token)) => {
                    black_box(offset);
                    flight.push_back(token);
                }
                None => ok = false,
            }
        }
        Ok(())
    })?;
    ok &= flight.into_iter().all(|token| side.end(token));
    if ok { Ok(ns) } else { Err("a call was refused".into()) }
}

impl Side for ByHand {
    type Token = u64;

    #[inline]
    fn take(&mut self, len: u64) -> Option<(u64, u64)> {
        let (start, end) = self.bare.acquire(len)?;
        self.ends[self.newest as usize] = end;
        self.newest = self.newest.wrapping_add(1);
        Some((start, start))
    }

    #[inline]
    fn end(&mut self, _: u64) -> bool {
        self.bare.retire(self.ends[self.oldest as usize]);
        self.oldest = self.oldest.wrapping_add(1);
        true
    }
}

/// The caller keeps the ends itself.
impl Side for Bare {
    type Token = u64;

    #[inline]
    fn take(&mut self, len: u64) -> Option<(u64, u64)> {
        self.acquire(len)
    }

    #[inline]
    fn end(&mut self, end: u64) -> bool {
        self.retire(end);
        true
    }
}

/// The ring by hand behind the allocator trait, still without a check: what remains is what two virtual calls take with
/// a request and an answer that go through memory, and so the least that any ring behind the trait can take.
#[derive(Default)]
struct HandSlab(ByHand);

// SAFETY: a lie, fit for this bench alone: it releases whatever is the oldest, at once, and has no other operation.
#[allow(unsafe_code, reason = "implements the allocator trait")]
unsafe impl SlabAllocator for HandSlab {
    #[inline]
    fn try_acquire(&mut self, request: &Request) -> Option<Grant> {
        let (offset, _) = self.0.take(request.len)?;
        Some(Grant { handle: Handle::new(offset | 1)?, offset })
    }

    fn refusal(&self, _: &Request) -> Refusal {
        Refusal::NeverFits { max_bytes: 0 }
    }

    #[inline]
    fn release(&mut self, handle: Handle, _: &[Stamp]) -> Result<(), Misuse> {
        self.0.end(handle.number());
        Ok(())
    }

    fn reclaim(&mut self, _: &dyn Progress) -> u64 {
        0
    }

    fn stats(&self) -> Stats {
        Stats::default()
    }
}

/// An allocator that does nothing: what is left is the two calls.
struct Nothing;

// SAFETY: a lie, fit for this bench alone: all its grants overlap.
#[allow(unsafe_code, reason = "implements the allocator trait")]
unsafe impl SlabAllocator for Nothing {
    #[inline]
    fn try_acquire(&mut self, request: &Request) -> Option<Grant> {
        Some(Grant { handle: Handle::new(request.len)?, offset: request.len })
    }

    fn refusal(&self, _: &Request) -> Refusal {
        Refusal::Zero
    }

    #[inline]
    fn release(&mut self, _: Handle, _: &[Stamp]) -> Result<(), Misuse> {
        Ok(())
    }

    fn reclaim(&mut self, _: &dyn Progress) -> u64 {
        0
    }

    fn stats(&self) -> Stats {
        Stats::default()
    }
}

fn by_hand(sizes: &[u64]) -> Outcome<f64> {
    laps(sizes, &mut black_box(ByHand::default()))
}

fn bare(sizes: &[u64]) -> Outcome<f64> {
    laps(sizes, &mut black_box(Bare::default()))
}

fn transient(len: u64) -> Request {
    Request::new(len).with_lifetime(Lifetime::Transient)
}

fn limits() -> SlabLimits {
    SlabLimits { grants: 256, ..SlabLimits::default() }
}

/// By value: no side is looked up through a pointer that a program would not have.
struct Slab<A>(A);

impl<A: SlabAllocator> Side for Slab<A> {
    type Token = Handle;

    #[inline]
    fn take(&mut self, len: u64) -> Option<(u64, Handle)> {
        self.0.acquire(&transient(len)).ok().map(|grant| (grant.offset, grant.handle))
    }

    #[inline]
    fn end(&mut self, handle: Handle) -> bool {
        self.0.release(handle, &[]).is_ok()
    }
}

impl Side for Ledger {
    type Token = BufferView;

    #[inline]
    fn take(&mut self, len: u64) -> Option<(u64, BufferView)> {
        self.acquire(&transient(len)).ok().map(|view| (view.offset(), view))
    }

    #[inline]
    fn end(&mut self, view: BufferView) -> bool {
        self.release(view).is_ok()
    }
}

impl Side for Allocator<u32> {
    type Token = Allocation<u32>;

    fn take(&mut self, len: u64) -> Option<(u64, Allocation<u32>)> {
        self.allocate((len / STEP) as u32).map(|taken| (u64::from(taken.offset), taken))
    }

    fn end(&mut self, taken: Allocation<u32>) -> bool {
        self.free(taken);
        true
    }
}

impl Side for RangeAllocator<u64> {
    type Token = (u64, u64);

    fn take(&mut self, len: u64) -> Option<(u64, (u64, u64))> {
        self.allocate_range(len).ok().map(|range| (range.start, (range.start, range.end)))
    }

    fn end(&mut self, (start, end): (u64, u64)) -> bool {
        self.free_range(start..end);
        true
    }
}

/// Frames of 64 grants ended by stamps: one sealed epoch a frame, two frames in flight, reclaimed once a frame.
fn by_stamps(slab: &mut dyn SlabAllocator, sizes: &[u64]) -> Outcome<f64> {
    const FRAME: usize = 64;
    let mut epoch = 0;
    let mut handles = [Handle(NonZeroU64::MAX); FRAME];
    let mut ok = true;
    let frames = OPERATIONS / FRAME;
    let ns = ns_each(frames * FRAME, || {
        for frame in 0..frames {
            for (slot, len) in handles.iter_mut().zip(&sizes[frame % 32 * FRAME..]) {
                match slab.acquire(&transient(*len)) {
                    Ok(grant) => *slot = grant.handle,
                    Err(_) => ok = false,
                }
            }
            epoch += 1;
            let after = [Stamp { queue: QueueId(0), epoch }];
            for handle in handles {
                ok &= slab.release(handle, &after).is_ok();
            }
            black_box(slab.reclaim(&[epoch - 1]));
        }
        Ok(())
    })?;
    slab.reclaim(&[u64::MAX]);
    if ok { Ok(ns) } else { Err("a call was refused".into()) }
}

/// The same by hand: a queue of epochs and what each of them used.
fn by_hand_by_epochs(sizes: &[u64]) -> Outcome<f64> {
    const FRAME: usize = 64;
    let mut ring = black_box(Bare::default());
    let mut ends = [0u64; 2];
    let frames = OPERATIONS / FRAME;
    ns_each(frames * FRAME, || {
        for frame in 0..frames {
            for len in &sizes[frame % 32 * FRAME..][..FRAME] {
                ends[frame % 2] = black_box(ring.acquire(*len).ok_or("full")?).1;
            }
            // The frame before is complete.
            ring.retire(ends[1 - frame % 2]);
        }
        Ok(())
    })
}

pub(crate) fn figures(settings: &Settings) -> Outcome<Vec<Figure>> {
    let sizes = log_uniform(SIZES, 1);
    let hand = || by_hand(&sizes);
    let boxed = |slab: Box<dyn SlabAllocator + Send>| Slab(black_box(slab));
    let ledger =
        |slab: Box<dyn SlabAllocator + Send>| Ledger::new(slab, LedgerLimits { grants: 256, queues: 4 });
    let mut ring = Slab(RingSlab::with_limits(CAPACITY, limits())?);
    let mut boxed_ring = boxed(Box::new(RingSlab::with_limits(CAPACITY, limits())?));
    let mut boxed_nothing = boxed(Box::new(Nothing));
    let mut ledger_nothing = ledger(Box::new(Nothing));
    let mut boxed_hand = boxed(Box::<HandSlab>::default());
    let mut ledger_ring = ledger(Box::new(RingSlab::with_limits(CAPACITY, limits())?));
    let mut ledger_shared = ledger(Box::new(RingSlab::with_limits(CAPACITY, limits())?));
    let mut ledger_hand = ledger(Box::<HandSlab>::default());
    let pins = ledger_shared.pins();
    let layout = RegionLayout { transient_bytes: CAPACITY, read_only_bytes: 0 };
    let mut regions = Slab(RegionSlab::with_layout(2 * CAPACITY, layout, limits())?);
    let mut general = Slab(TlsfSlab::with_limits(CAPACITY, limits())?);
    let absolute = repeat(settings.rounds(), hand)?;
    let mut figures =
        vec![Figure::new("ring by hand, unchecked, take and end", "ns", absolute, settings.rounds())];
    let mut beside_hand = |name: &str, bar, ours: &mut dyn FnMut() -> Outcome<f64>| {
        figures.push(ratio(name, settings, bar, ours, hand)?);
        Ok::<(), Box<dyn std::error::Error>>(())
    };
    beside_hand("ring / by hand", Some(Bar::AtMost(1.35)), &mut || laps(&sizes, &mut ring))?;
    beside_hand("ring in a Box<dyn> / by hand", Some(Bar::AtMost(1.8)), &mut || {
        laps(&sizes, &mut boxed_ring)
    })?;
    beside_hand("by hand in a Box<dyn> / by hand", None, &mut || laps(&sizes, &mut boxed_hand))?;
    beside_hand("nothing in a Box<dyn> / by hand", None, &mut || laps(&sizes, &mut boxed_nothing))?;
    beside_hand("ring through the ledger / by hand", Some(Bar::AtMost(3.0)), &mut || {
        laps(&sizes, &mut ledger_ring)
    })?;
    beside_hand("ring through the ledger, pins held / by hand", None, &mut || {
        laps(&sizes, &mut ledger_shared)
    })?;
    drop(pins);
    beside_hand("by hand through the ledger / by hand", None, &mut || laps(&sizes, &mut ledger_hand))?;
    beside_hand("nothing through the ledger / by hand", None, &mut || laps(&sizes, &mut ledger_nothing))?;
    beside_hand("ring inside regions / by hand", None, &mut || laps(&sizes, &mut regions))?;
    beside_hand("general on a ring's load / by hand", None, &mut || laps(&sizes, &mut general))?;
    figures.push(ratio(
        "ring / by hand with the ends kept by the caller",
        settings,
        None,
        || laps(&sizes, &mut ring),
        || bare(&sizes),
    )?);
    figures.push(ratio(
        "ring by stamps, a frame of 64 an epoch / by hand by epochs",
        settings,
        None,
        || by_stamps(&mut ring.0, &sizes),
        || by_hand_by_epochs(&sizes),
    )?);
    let peer = || laps(&sizes, &mut Allocator::<u32>::with_max_allocs((CAPACITY / STEP) as u32, 1024));
    figures.push(ratio("offset-allocator on a ring's load / by hand", settings, None, peer, hand)?);
    let peer = || laps(&sizes, &mut RangeAllocator::new(0..CAPACITY));
    figures.push(ratio("range-alloc on a ring's load / by hand", settings, None, peer, hand)?);
    Ok(figures)
}
