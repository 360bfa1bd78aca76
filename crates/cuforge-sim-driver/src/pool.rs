//! Pools that memory is taken from in stream order, and physical memory that is mapped.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::physical::Physical;
use crate::space::Charge;

/// A memory pool. It keeps nothing back: what is freed is free at once, whatever its release threshold says.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) handle: u64,
    pub(crate) ordinal: usize,
    /// The device's default one, which cannot be destroyed.
    pub(crate) default: bool,
    pub(crate) release_threshold: AtomicU64,
    pub(crate) used_bytes: AtomicU64,
    pub(crate) most_used_bytes: AtomicU64,
}

impl Pool {
    /// The default pool of a device.
    pub(crate) fn of_device(handle: u64, ordinal: usize) -> Self {
        Self { default: true, ..Self::new(handle, ordinal) }
    }

    pub(crate) fn new(handle: u64, ordinal: usize) -> Self {
        Self {
            handle,
            ordinal,
            default: false,
            release_threshold: AtomicU64::new(0),
            used_bytes: AtomicU64::new(0),
            most_used_bytes: AtomicU64::new(0),
        }
    }

    /// Bytes were taken from it.
    pub(crate) fn count(&self, bytes: u64) {
        let used = self.used_bytes.fetch_add(bytes, Relaxed) + bytes;
        self.most_used_bytes.fetch_max(used, Relaxed);
    }
}

/// Physical memory that can be mapped anywhere, any number of times.
#[derive(Debug)]
pub(crate) struct PhysicalMemory {
    pub(crate) device: usize,
    pub(crate) physical: Arc<Physical>,
    pub(crate) bytes: u64,
    pub(crate) charge: Arc<Charge>,
}
