//! Every allocator and adaptor of this crate keeps the whole contract.

use cuforge_slab::{RegionLayout, RegionSlab, RingSlab, ScopeSlab, SlabLimits, TlsfSlab, conformance};

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
