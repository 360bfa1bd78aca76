//! Every allocator and adaptor of this crate keeps the whole contract.

use cuforge_slab::{RingSlab, ScopeSlab, SlabLimits, TlsfSlab, conformance};

const SMALL: SlabLimits =
    SlabLimits { grants: 40, queues: 3, scopes: 6, granule_bytes: 1, base_align: 4096, reclaim_batch: 16 };

conformance!(ring, |capacity| RingSlab::with_limits(capacity, SMALL));
conformance!(stack, |capacity| ScopeSlab::with_limits(capacity, SMALL));
conformance!(general, |capacity| TlsfSlab::with_limits(capacity, SMALL));
conformance!(general_with_granules, |capacity| {
    TlsfSlab::with_limits(capacity, SlabLimits { granule_bytes: 64, ..SMALL })
});
