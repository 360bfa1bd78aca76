//! Criterion benches of the allocators: one call pair each, for profiling; ratios against peers are in `cargo xtask bench slab`.
#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use cuforge_core::{Ledger, LedgerLimits, Lifetime, Request, SlabAllocator};
use cuforge_slab::{RegionSlab, RingSlab, ScopeSlab, TlsfSlab};

const CAPACITY: u64 = 256 << 20;

fn request(lifetime: Lifetime) -> Request {
    Request::new(black_box(70_000)).with_lifetime(lifetime)
}

fn pairs(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("acquire and release");
    let mut pair = |name: &str, lifetime: Lifetime, slab: Option<Box<dyn SlabAllocator>>| {
        let Some(mut slab) = slab else { return };
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let grant = slab.acquire(&request(lifetime));
                grant.map(|grant| slab.release(black_box(grant).handle, &[]))
            });
        });
    };
    pair("ring", Lifetime::Transient, RingSlab::new(CAPACITY).ok().map(|slab| Box::new(slab) as _));
    pair("stack", Lifetime::Transient, ScopeSlab::new(CAPACITY).ok().map(|slab| Box::new(slab) as _));
    pair("general", Lifetime::General, TlsfSlab::new(CAPACITY).ok().map(|slab| Box::new(slab) as _));
    pair(
        "regions, general",
        Lifetime::General,
        RegionSlab::new(CAPACITY).ok().map(|slab| Box::new(slab) as _),
    );
    pair(
        "regions, transient",
        Lifetime::Transient,
        RegionSlab::new(CAPACITY).ok().map(|slab| Box::new(slab) as _),
    );
    group.finish();
}

fn through_the_ledger(criterion: &mut Criterion) {
    let Ok(slab) = RegionSlab::new(CAPACITY) else { return };
    let mut ledger = Ledger::new(Box::new(slab), LedgerLimits::default());
    criterion.bench_function("regions through the ledger, transient", |bencher| {
        bencher.iter(|| {
            ledger.acquire(&request(Lifetime::Transient)).map(|view| ledger.release(black_box(view)))
        });
    });
}

criterion_group!(benches, pairs, through_the_ledger);
criterion_main!(benches);
