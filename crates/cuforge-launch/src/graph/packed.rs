//! Values and geometries of the crate's own kernels.

use cuforge_core::{Extent, LaunchGeometry};

/// Values for a kernel, one after the other.
#[derive(Default)]
pub(crate) struct Packed(pub(crate) Vec<u8>);

impl Packed {
    pub(crate) fn wide(mut self, value: u64) -> Self {
        self.0.resize(self.0.len().next_multiple_of(8), 0);
        self.0.extend(value.to_le_bytes());
        self
    }

    pub(crate) fn word(mut self, value: u32) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }
}

/// One block of so many threads.
pub(crate) fn one_block(threads: u32) -> Extent {
    Extent::Geometry(LaunchGeometry { grid: [1, 1, 1], block: [threads, 1, 1], shared_bytes: 0 })
}
