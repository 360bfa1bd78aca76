//! The checked shape of one launch, dynamic shared memory included.

use crate::adapter::Constraints;
use crate::schedule_error::ScheduleError;

/// Blocks in the grid, threads in a block, dynamic shared bytes a block.
///
/// ```
/// use cuforge_core::{Constraints, LaunchGeometry};
/// let geometry = LaunchGeometry { grid: [16, 1, 1], block: [128, 1, 1], shared_bytes: 0 };
/// assert_eq!(geometry.validate(&Constraints::default())?.threads(), 2048);
/// # Ok::<(), cuforge_core::ScheduleError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LaunchGeometry {
    /// Blocks in x, y, z. A zero in any dimension launches nothing.
    pub grid: [u32; 3],
    /// Threads a block in x, y, z, each at least 1.
    pub block: [u32; 3],
    /// Dynamic shared memory a block in bytes.
    pub shared_bytes: u32,
}

impl LaunchGeometry {
    /// Whether there is nothing to launch.
    pub const fn is_empty(&self) -> bool {
        self.grid[0] == 0 || self.grid[1] == 0 || self.grid[2] == 0
    }

    /// Blocks in the grid.
    pub fn blocks(&self) -> u128 {
        self.grid.iter().map(|n| u128::from(*n)).product()
    }

    /// Threads a block.
    pub fn threads_per_block(&self) -> u128 {
        self.block.iter().map(|n| u128::from(*n)).product()
    }

    /// Threads in the grid.
    pub fn threads(&self) -> u128 {
        // Both factors are below 2^96; the product of a valid geometry is below 2^74.
        self.blocks().saturating_mul(self.threads_per_block())
    }

    /// Itself, if the device allows it.
    ///
    /// # Errors
    /// [`ScheduleError::EmptyBlock`], [`ScheduleError::BlockTooLarge`], [`ScheduleError::GridTooLarge`],
    /// [`ScheduleError::SharedMemory`].
    pub fn validate(self, constraints: &Constraints) -> Result<Self, ScheduleError> {
        if self.block.contains(&0) {
            return Err(ScheduleError::EmptyBlock { block: self.block });
        }
        let fits = |size: [u32; 3], max: [u32; 3]| size.iter().zip(max).all(|(n, max)| *n <= max);
        if !fits(self.block, constraints.max_block)
            || self.threads_per_block() > u128::from(constraints.max_threads_per_block)
        {
            return Err(ScheduleError::BlockTooLarge {
                block: self.block,
                max_block: constraints.max_block,
                max_threads: constraints.max_threads_per_block,
            });
        }
        if !fits(self.grid, constraints.max_grid) {
            return Err(ScheduleError::GridTooLarge {
                grid: self.grid.map(u64::from),
                max_grid: constraints.max_grid,
            });
        }
        if self.shared_bytes > constraints.max_shared_bytes_opt_in {
            return Err(ScheduleError::SharedMemory {
                bytes: u64::from(self.shared_bytes),
                max_bytes: constraints.max_shared_bytes_opt_in,
            });
        }
        Ok(self)
    }
}

/// Dynamic shared memory that a block of the kernel is launched with. Static shared memory is the module's own and
/// not counted here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SharedMemory {
    /// Bytes whatever the block size.
    pub fixed_bytes: u32,
    /// Bytes for each thread of the block.
    pub bytes_per_thread: u32,
}

impl SharedMemory {
    /// No dynamic shared memory.
    pub const NONE: Self = Self { fixed_bytes: 0, bytes_per_thread: 0 };
}
