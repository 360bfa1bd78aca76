//! Random sizes in random order: 10,000 grants live in 6 GiB, one ended and one taken at a time.

use std::hint::black_box;

use cuforge_core::{Handle, Ledger, LedgerLimits, Request, SlabAllocator};
use cuforge_slab::{SlabLimits, TlsfSlab};
use offset_allocator::{Allocation, Allocator};
use range_alloc::RangeAllocator;

use super::in_band::Memory;
use super::sides::{Outcome, ns_each, ratio};
use super::sizes::{Random, STEP, log_uniform};
use crate::area::Settings;
use crate::figure::{Bar, Figure};
use crate::rounds::repeat;

const CAPACITY: u64 = 6 << 30;
const LIVE: usize = 10_000;
const SIZES: usize = 1 << 16;

/// A load that goes on from round to round: which grants are live, and what comes next.
struct Load<T> {
    held: Vec<T>,
    random: Random,
    turn: usize,
}

impl<T: Copy> Load<T> {
    fn new(sizes: &[u64], mut take: impl FnMut(u64) -> Option<T>) -> Outcome<Self> {
        let held: Option<Vec<T>> = sizes.iter().take(LIVE).map(|len| take(*len)).collect();
        Ok(Self { held: held.ok_or("10,000 grants do not fit")?, random: Random::new(3), turn: LIVE })
    }

    fn go_on(
        &mut self,
        sizes: &[u64],
        operations: usize,
        mut exchange: impl FnMut(T, u64) -> Option<T>,
    ) -> Outcome<f64> {
        ns_each(operations, || {
            for _ in 0..operations {
                let pick = self.random.below(LIVE);
                let len = sizes[self.turn % SIZES];
                self.turn += 1;
                self.held[pick] = black_box(exchange(self.held[pick], len).ok_or("full")?);
            }
            Ok(())
        })
    }
}

fn limits() -> SlabLimits {
    SlabLimits { grants: LIVE as u32 + 1, ..SlabLimits::default() }
}

fn exchange<A: SlabAllocator + ?Sized>(slab: &mut A, old: Handle, len: u64) -> Option<Handle> {
    slab.release(old, &[]).ok()?;
    slab.acquire(&Request::new(len)).ok().map(|grant| grant.handle)
}

pub(crate) fn figures(settings: &Settings) -> Outcome<Vec<Figure>> {
    let sizes = log_uniform(SIZES, 2);
    const OPERATIONS: usize = 2_000;
    let mut slab = TlsfSlab::with_limits(CAPACITY, limits())?;
    let mut load = Load::new(&sizes, |len| slab.acquire(&Request::new(len)).ok().map(|grant| grant.handle))?;
    let mut ours = || load.go_on(&sizes, OPERATIONS, |old, len| exchange(&mut slab, old, len));

    let mut boxed: Box<dyn SlabAllocator + Send> =
        black_box(Box::new(TlsfSlab::with_limits(CAPACITY, limits())?));
    let mut boxed_load =
        Load::new(&sizes, |len| boxed.acquire(&Request::new(len)).ok().map(|grant| grant.handle))?;
    let boxed = || boxed_load.go_on(&sizes, OPERATIONS, |old, len| exchange(&mut *boxed, old, len));

    let inner = Box::new(TlsfSlab::with_limits(CAPACITY, limits())?);
    let mut ledger = Ledger::new(inner, LedgerLimits { grants: LIVE as u32 + 1, queues: 4 });
    ledger.register_queue()?;
    let mut ledger_load = Load::new(&sizes, |len| ledger.acquire(&Request::new(len)).ok())?;
    let ledger = || {
        ledger_load.go_on(&sizes, OPERATIONS, |old, len| {
            ledger.release(old).ok()?;
            ledger.acquire(&Request::new(len)).ok()
        })
    };

    let units = |len: u64| (len / STEP) as u32;
    let mut peer = Allocator::<u32>::new((CAPACITY / STEP) as u32);
    let mut peer_load: Load<Allocation<u32>> = Load::new(&sizes, |len| peer.allocate(units(len)))?;
    let mut theirs = || {
        peer_load.go_on(&sizes, OPERATIONS, |old, len| {
            peer.free(old);
            peer.allocate(units(len))
        })
    };

    let mut figures = vec![
        Figure::new(
            "offset-allocator, random sizes, end and take",
            "ns",
            repeat(settings.rounds(), &mut theirs)?,
            settings.rounds(),
        ),
        ratio("general / offset-allocator", settings, Some(Bar::AtMost(1.25)), &mut ours, &mut theirs)?,
        ratio("general in a Box<dyn> / offset-allocator", settings, None, boxed, &mut theirs)?,
        ratio("general through the ledger / offset-allocator", settings, None, ledger, &mut theirs)?,
    ];

    let mut ranges = RangeAllocator::new(0..CAPACITY);
    let range = |ranges: &mut RangeAllocator<u64>, len| {
        ranges.allocate_range(len).ok().map(|range| (range.start, range.end))
    };
    let mut range_load = Load::new(&sizes, |len| range(&mut ranges, len))?;
    let ranges = || {
        range_load.go_on(&sizes, OPERATIONS / 20, |(start, end), len| {
            ranges.free_range(start..end);
            range(&mut ranges, len)
        })
    };
    figures.push(ratio("range-alloc / offset-allocator", settings, None, ranges, &mut theirs)?);

    // It keeps its books in the memory that it hands out, so it gets real memory, and everything a sixteenth as large.
    let mut memory = Memory::new((CAPACITY / 16) as usize)?;
    let mut in_band_load = Load::new(&sizes, |len| memory.take(len / 16))?;
    let in_band = || {
        in_band_load.go_on(&sizes, OPERATIONS / 4, |old, len| {
            memory.end(old);
            memory.take(len / 16)
        })
    };
    figures.push(ratio(
        "rlsf, sizes / 16, in its own memory / offset-allocator",
        settings,
        None,
        in_band,
        &mut theirs,
    )?);
    Ok(figures)
}
