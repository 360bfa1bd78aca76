//! Every allocator and adaptor of this crate keeps the whole contract.

use cuforge_slab::{
    Fill, GuardMemory, Guarded, Limited, RegionLayout, RegionSlab, RingSlab, ScopeSlab, SlabLimits, TlsfSlab,
    Traced, conformance,
};

const SMALL: SlabLimits =
    SlabLimits { grants: 40, queues: 3, scopes: 6, granule_bytes: 1, base_align: 4096, reclaim_batch: 16 };

conformance!(ring, |capacity| RingSlab::with_limits(capacity, SMALL));
conformance!(stack, |capacity| ScopeSlab::with_limits(capacity, SMALL));
conformance!(general, |capacity| TlsfSlab::with_limits(capacity, SMALL));
conformance!(general_with_granules, |capacity| {
    TlsfSlab::with_limits(capacity, SlabLimits { granule_bytes: 64, ..SMALL })
});

conformance!(regions, |capacity| {
    let layout = RegionLayout { transient_bytes: capacity / 4, read_only_bytes: 0 };
    RegionSlab::with_layout(capacity, layout, SMALL)
});
conformance!(regions_without_a_ring, |capacity| {
    RegionSlab::with_layout(capacity, RegionLayout { transient_bytes: 0, read_only_bytes: 0 }, SMALL)
});
conformance!(regions_kept_apart, |capacity| {
    let layout = RegionLayout { transient_bytes: capacity / 3, read_only_bytes: capacity / 3 };
    RegionSlab::with_layout(capacity, layout, SlabLimits { granule_bytes: 16, ..SMALL })
});
conformance!(regions_by_default, RegionSlab::new);

conformance!(limited, |capacity| {
    TlsfSlab::with_limits(capacity, SMALL).map(|slab| Limited::new(slab, (capacity / 2).max(1)))
});

/// Memory that knows what each byte was filled with last.
struct Patterns(Vec<Option<Fill>>);

impl GuardMemory for Patterns {
    fn fill(&mut self, offset: u64, len: u64, fill: Fill) {
        let end = (offset + len) as usize;
        self.0.resize(self.0.len().max(end), None);
        self.0[offset as usize..end].fill(Some(fill));
    }

    fn holds(&mut self, offset: u64, len: u64, fill: Fill) -> bool {
        self.0[offset as usize..(offset + len) as usize].iter().all(|byte| *byte == Some(fill))
    }
}

conformance!(guarded_general, |capacity| {
    TlsfSlab::with_limits(capacity, SMALL).and_then(|slab| Guarded::new(slab, Patterns(Vec::new()), 3, SMALL))
});
conformance!(guarded_ring, |capacity| {
    RingSlab::with_limits(capacity, SMALL).and_then(|slab| Guarded::new(slab, Patterns(Vec::new()), 8, SMALL))
});

conformance!(traced, |capacity| {
    RegionSlab::with_layout(
        capacity,
        RegionLayout { transient_bytes: capacity / 4, read_only_bytes: 0 },
        SMALL,
    )
    .and_then(|slab| Traced::new(slab, 300, SMALL))
});
conformance!(stacked_adaptors, |capacity| {
    let slab = TlsfSlab::with_limits(capacity, SMALL);
    let slab = slab.and_then(|slab| Guarded::new(slab, Patterns(Vec::new()), 4, SMALL));
    slab.and_then(|slab| Traced::new(Limited::new(slab, capacity), 300, SMALL))
});
