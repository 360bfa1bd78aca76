//! Nothing allocates host memory after construction: counted by a global allocator, over every call there is.
#![allow(clippy::unwrap_used, reason = "in a test that is how a broken promise is told")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use cuforge_core::{Grant, Lifetime, QueueId, Request, SlabAllocator, Stamp};
use cuforge_slab::{
    Fill, GuardMemory, Guarded, Limited, RegionLayout, RegionSlab, RingSlab, ScopeSlab, SlabLimits, TlsfSlab,
    Traced,
};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: forwards to the system allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`, and all memory is the system allocator's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

struct Nowhere;

impl GuardMemory for Nowhere {
    fn fill(&mut self, _offset: u64, _len: u64, _fill: Fill) {}

    fn holds(&mut self, _offset: u64, _len: u64, _fill: Fill) -> bool {
        true
    }
}

/// Every call, success, refusal and misuse, over many laps; how many host allocations they made.
fn allocations_of(slab: &mut dyn SlabAllocator) -> u64 {
    let mut held: [Option<Grant>; 64] = [None; 64];
    let before = ALLOCATIONS.with(Cell::get);
    for turn in 0..20_000u64 {
        let lifetime = match turn % 5 {
            0 => Lifetime::General,
            1 if turn % 400 == 1 => Lifetime::Resident,
            _ => Lifetime::Transient,
        };
        let request = Request::new(1 + turn * 7919 % 9000).with_lifetime(lifetime);
        let slot = (turn % 64) as usize;
        let stamps = [Stamp { queue: QueueId(0), epoch: turn }, Stamp { queue: QueueId(1), epoch: turn / 2 }];
        let after = &stamps[..(turn % 3) as usize];
        if let Some(old) = held[slot].take() {
            let _ = slab.release(old.handle, after);
            assert!(slab.release(old.handle, after).is_err());
        }
        held[slot] = slab.acquire(&request).ok();
        let _ = slab.acquire(&Request::new(u64::MAX));
        if turn % 7 == 0 {
            slab.reclaim(&[turn.saturating_sub(3), turn]);
        }
        if turn % 50 == 0
            && let Ok(scope) = slab.push_scope()
        {
            for _ in 0..4 {
                let _ = slab.acquire(&Request::new(600).with_lifetime(Lifetime::Transient));
            }
            slab.rewind(scope, after).unwrap();
            assert!(slab.rewind(scope, after).is_err());
        }
        if turn % 3000 == 0 {
            let _ = slab.clear(after);
            let _ = slab.grow(256);
        }
        let _ = slab.stats();
        let _ = slab.inspect(&mut |segment| assert!(segment.len > 0));
    }
    ALLOCATIONS.with(Cell::get) - before
}

#[test]
fn the_counter_counts() {
    let before = ALLOCATIONS.with(Cell::get);
    drop(std::hint::black_box(Box::new(1)));
    assert_eq!(ALLOCATIONS.with(Cell::get) - before, 1);
}

#[test]
fn no_allocator_or_adaptor_takes_host_memory_after_construction() {
    const CAPACITY: u64 = 300_000;
    let limits = SlabLimits { grants: 256, queues: 2, scopes: 4, ..SlabLimits::default() };
    let layout = RegionLayout { transient_bytes: CAPACITY / 4, read_only_bytes: CAPACITY / 8 };
    let general = || TlsfSlab::with_limits(CAPACITY, limits).unwrap();
    let slabs: [(&str, Box<dyn SlabAllocator>); 7] = [
        ("ring", Box::new(RingSlab::with_limits(CAPACITY, limits).unwrap())),
        ("stack", Box::new(ScopeSlab::with_limits(CAPACITY, limits).unwrap())),
        ("general", Box::new(general())),
        ("regions", Box::new(RegionSlab::with_layout(CAPACITY, layout, limits).unwrap())),
        ("limited", Box::new(Limited::new(general(), CAPACITY / 2))),
        ("guarded", Box::new(Guarded::new(general(), Nowhere, 64, limits).unwrap())),
        ("traced", Box::new(Traced::new(general(), 5_000, limits).unwrap())),
    ];
    for (name, mut slab) in slabs {
        assert_eq!(allocations_of(&mut *slab), 0, "{name}");
        let stats = slab.stats();
        assert!(stats.acquired_total > 5_000 && stats.refused_total > 10_000, "{name}: {stats:?}");
    }
}
