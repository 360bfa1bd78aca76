//! Sub-allocators over byte offsets of one device slab, and a conformance suite for anyone's allocator.
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
