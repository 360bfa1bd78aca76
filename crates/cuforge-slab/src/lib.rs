//! Sub-allocators over byte offsets of one device slab, and a conformance suite for anyone's allocator.
#![no_std]
#![deny(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod bins;
mod blocks;
pub mod conformance;
mod limits;
mod pending;
mod region;
mod ring;
mod scope;
mod scopes;
mod stamps;
mod tlsf;

pub use limits::{BuildError, MAX_CAPACITY_BYTES, SlabLimits};
pub use region::{RegionLayout, RegionSlab};
pub use ring::RingSlab;
pub use scope::ScopeSlab;
pub use tlsf::TlsfSlab;
