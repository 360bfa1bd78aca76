//! Sub-allocators over byte offsets of one device slab, and a conformance suite for anyone's allocator.
//!
//! All of them implement [`SlabAllocator`](cuforge_core::SlabAllocator), know no device and keep their books apart from
//! the memory that they hand out, in arrays made at construction. A released byte is pending until all of its stamps
//! have completed, and only then granted again.
//!
//! | you want | take |
//! |---|---|
//! | a good default for weights, caches and scratch in one slab | [`RegionSlab`] |
//! | scratch in the order of its release, as cheap as it gets | [`RingSlab`] |
//! | plans that are acquired as a whole and lie in the same places every time | [`ScopeSlab`] |
//! | any size, any lifetime, any order, in constant time | [`TlsfSlab`] |
//! | a cap, red zones and poison, a log with leak reports | [`Limited`], [`Guarded`], [`Traced`] around any of them |
//! | a picture of it | [`Snapshot::to_svg`], [`timeline_svg`] |
//! | your own | implement the trait, and let [`conformance!`] test it |
//!
//! Nothing here is concurrent: every call takes `&mut self`. What other threads may do with a grant goes through the
//! [`Ledger`](cuforge_core::Ledger) that owns the allocator.
//!
//! ```
//! use cuforge_core::{Ledger, LedgerLimits, Lifetime, Request, Stamp};
//! use cuforge_slab::RegionSlab;
//!
//! let mut ledger = Ledger::new(Box::new(RegionSlab::new(1 << 30)?), LedgerLimits::default());
//! let stream = ledger.register_queue()?;
//! let scratch = ledger.acquire(&Request::new(1 << 20).with_lifetime(Lifetime::Transient).with_queue(stream))?;
//! ledger.release_after(scratch, &[Stamp { queue: stream, epoch: 1 }])?; // work of epoch 1 still uses it
//! assert_eq!(ledger.stats().pending_bytes, 1 << 20);
//! assert_eq!(ledger.reclaim(&[1]), 1 << 20);
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
#![no_std]
#![deny(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod bins;
mod blocks;
pub mod conformance;
mod events;
mod guarded;
mod limited;
mod limits;
mod map;
mod pending;
mod region;
mod ring;
mod scope;
mod scopes;
mod snapshot;
mod span;
mod stamps;
mod svg;
mod timeline;
mod tlsf;
mod traced;

pub use events::{Event, ReplayError, Replayed, replay};
pub use guarded::{Fill, GuardMemory, Guarded, Overrun};
pub use limited::Limited;
pub use limits::{BuildError, MAX_CAPACITY_BYTES, SlabLimits};
pub use region::{RegionLayout, RegionSlab};
pub use ring::RingSlab;
pub use scope::ScopeSlab;
pub use snapshot::Snapshot;
pub use timeline::timeline_svg;
pub use tlsf::TlsfSlab;
pub use traced::{Holding, Traced};
