//! What an allocator is built with: metadata limits, all paid for at construction, and the errors of bad ones.

use cuforge_core::MAX_QUEUES;

/// What the capacity of an allocator here stays below, in bytes: 2^60. The general allocator's stays below 2^44
/// granules too (4 PiB of the default ones).
pub const MAX_CAPACITY_BYTES: u64 = 1 << 60;

/// Handles use the lower 61 bits, so that a composed allocator can say in the upper three whose they are.
pub(crate) const HANDLE_BITS: u32 = 61;

/// How much an allocator keeps track of. All metadata is allocated at construction and never grows.
///
/// ```
/// use cuforge_slab::{SlabLimits, TlsfSlab};
/// let limits = SlabLimits { grants: 128, ..SlabLimits::default() };
/// let slab = TlsfSlab::with_limits(1 << 20, limits)?;
/// # Ok::<(), cuforge_slab::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlabLimits {
    /// Grants that can be live or pending at once, 1 to 2^24. Exactly so many can be made. Default 16,384. Costs 16
    /// bytes each in a ring and 96 in the general allocator, and 8 a queue in a ring and 16 in the general allocator.
    pub grants: u32,
    /// Queues whose stamps are told apart, 1 to [`MAX_QUEUES`]; stamps of others are refused. Default 4.
    pub queues: u32,
    /// Scopes that can be nested, 1 to 256. Default 32.
    pub scopes: u32,
    /// What the general allocator rounds sizes up to, in bytes, a power of two. Default 256. Smaller wastes less on
    /// small grants and costs time on none.
    pub granule_bytes: u64,
    /// Alignment of the slab's base address in bytes, a power of two: requests aligned higher are refused, since
    /// their offsets would be aligned and their addresses not. Default 2 MiB, the granularity of CUDA's virtual
    /// memory mapping.
    pub base_align: u64,
    /// The most pending grants that one `reclaim` looks at, at least 1. Default 4,096.
    pub reclaim_batch: u32,
}

impl Default for SlabLimits {
    fn default() -> Self {
        Self {
            grants: 16_384,
            queues: 4,
            scopes: 32,
            granule_bytes: 256,
            base_align: 2 << 20,
            reclaim_batch: 4096,
        }
    }
}

impl SlabLimits {
    /// Whether everything is in its range. O(1).
    ///
    /// # Errors
    /// [`BuildError::Limit`], [`BuildError::NotPowerOfTwo`].
    pub fn check(&self) -> Result<(), BuildError> {
        let ranges = [
            ("grants", u64::from(self.grants), 1 << 24),
            ("queues", u64::from(self.queues), MAX_QUEUES as u64),
            ("scopes", u64::from(self.scopes), 256),
            ("reclaim_batch", u64::from(self.reclaim_batch), u64::from(u32::MAX)),
        ];
        for (name, value, max) in ranges {
            if value == 0 || value > max {
                return Err(BuildError::Limit { name, value, max });
            }
        }
        for (name, value) in [("granule_bytes", self.granule_bytes), ("base_align", self.base_align)] {
            if !value.is_power_of_two() {
                return Err(BuildError::NotPowerOfTwo { name, value });
            }
        }
        Ok(())
    }
}

/// Why an allocator cannot be built. All are the caller's misuse; nothing was allocated that is not dropped again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// No byte could ever be handed out.
    #[error("a capacity of {capacity_bytes} bytes is less than the smallest unit of {unit_bytes}")]
    Capacity {
        /// The capacity given.
        capacity_bytes: u64,
        /// The least that is needed.
        unit_bytes: u64,
    },
    /// [`MAX_CAPACITY_BYTES`] or more, or too many granules.
    #[error("a capacity of {capacity_bytes} bytes is too large")]
    TooLarge {
        /// The capacity given.
        capacity_bytes: u64,
    },
    /// A limit is out of its range.
    #[error("limit {name} is {value}, it must be 1 to {max}")]
    Limit {
        /// Which field.
        name: &'static str,
        /// Its value.
        value: u64,
        /// The largest allowed.
        max: u64,
    },
    /// A size or alignment is no power of two.
    #[error("{name} is {value}, it must be a power of two")]
    NotPowerOfTwo {
        /// Which field.
        name: &'static str,
        /// Its value.
        value: u64,
    },
    /// Regions are larger than the whole.
    #[error("regions of {regions_bytes} bytes do not fit into {capacity_bytes}")]
    Regions {
        /// What the regions add up to.
        regions_bytes: u64,
        /// The capacity given.
        capacity_bytes: u64,
    },
}

/// Checks limits and a capacity together.
pub(crate) fn check_capacity(
    capacity_bytes: u64,
    unit_bytes: u64,
    limits: &SlabLimits,
) -> Result<(), BuildError> {
    limits.check()?;
    if capacity_bytes < unit_bytes.max(1) {
        return Err(BuildError::Capacity { capacity_bytes, unit_bytes: unit_bytes.max(1) });
    }
    if capacity_bytes >= MAX_CAPACITY_BYTES {
        return Err(BuildError::TooLarge { capacity_bytes });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacity_zero_and_limits_out_of_range_are_errors_at_construction() {
        let limits = SlabLimits::default();
        assert!(matches!(check_capacity(0, 1, &limits), Err(BuildError::Capacity { .. })));
        assert!(matches!(check_capacity(u64::MAX, 1, &limits), Err(BuildError::TooLarge { .. })));
        for bad in [
            SlabLimits { grants: 0, ..limits },
            SlabLimits { queues: 17, ..limits },
            SlabLimits { scopes: 257, ..limits },
            SlabLimits { reclaim_batch: 0, ..limits },
            SlabLimits { granule_bytes: 3, ..limits },
            SlabLimits { base_align: 0, ..limits },
        ] {
            assert!(check_capacity(1, 1, &bad).is_err(), "{bad:?}");
        }
    }
}
