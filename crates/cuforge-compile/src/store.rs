//! Where artifacts and images are kept: memory, disk, bundles, and the rules that bound them.

pub(crate) mod bundle;
pub(crate) mod disk;
pub(crate) mod flight;
pub(crate) mod memory;
pub(crate) mod rejects;
pub(crate) mod stats;
pub(crate) mod sweep;
