//! Schedules: how a kernel is cut into blocks and tuned, and how that becomes defines and a launch.

use crate::adapter::Constraints;
use crate::geometry::{LaunchGeometry, SharedMemory};
use crate::schedule_error::ScheduleError;
use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};

/// The value of a schedule constant.
#[derive(Clone, Copy, Debug)]
pub enum Constant {
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// A truth value.
    Bool(bool),
}

// Equal by bits, so that schedules can be keys.
impl Constant {
    fn key(self) -> (u8, u64) {
        match self {
            Self::Int(value) => (0, value as u64),
            Self::Float(value) => (1, value.to_bits()),
            Self::Bool(value) => (2, u64::from(value)),
        }
    }

    /// The value as a C literal: `-4`, `0.25`, `1`.
    pub fn literal(self) -> String {
        match self {
            // C has no negative literals, and the magnitude of this one fits no signed type.
            Self::Int(i64::MIN) => format!("({} - 1)", i64::MIN + 1),
            Self::Int(value) if value < 0 => format!("({value})"),
            Self::Int(value) => format!("{value}"),
            Self::Float(value) if value.is_sign_negative() => format!("({value:?})"),
            Self::Float(value) => format!("{value:?}"),
            Self::Bool(value) => format!("{}", u8::from(value)),
        }
    }
}

impl PartialEq for Constant {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Constant {}

impl Hash for Constant {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

/// How a kernel is cut into blocks and tuned; part of a pipeline's identity.
///
/// CUDA C receives it as the defines `CUFORGE_BLOCK_X`, `CUFORGE_BLOCK_Y`, `CUFORGE_BLOCK_Z`, `CUFORGE_ITEMS` and one
/// define a constant; WGSL as pipeline overrides; PTX takes only the blocks that its spec declares.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Schedule {
    /// Threads a block in x, y, z.
    pub workgroup_size: [u32; 3],
    /// Elements that one thread handles; at least 1.
    pub items_per_invocation: u32,
    /// Named constants, in the order in which they are defined.
    pub constants: Vec<(Cow<'static, str>, Constant)>,
}

impl Schedule {
    /// Blocks of `workgroup_size` threads, one item each, no constants.
    pub const fn new(workgroup_size: [u32; 3]) -> Self {
        Self { workgroup_size, items_per_invocation: 1, constants: Vec::new() }
    }

    /// With so many elements a thread.
    #[must_use]
    pub fn with_items_per_invocation(mut self, items: u32) -> Self {
        self.items_per_invocation = items;
        self
    }

    /// With one more constant.
    #[must_use]
    pub fn with_constant(mut self, name: impl Into<Cow<'static, str>>, value: Constant) -> Self {
        self.constants.push((name.into(), value));
        self
    }

    /// The integer constant of that name.
    pub fn int(&self, name: &str) -> Option<i64> {
        self.constants.iter().find_map(|(n, value)| match value {
            Constant::Int(value) if n == name => Some(*value),
            _ => None,
        })
    }

    /// The one-dimensional launch that covers `elements`, checked against the device. Zero elements give an empty
    /// grid, which is valid and launches nothing.
    ///
    /// # Errors
    /// [`ScheduleError::NoItems`] and those of [`LaunchGeometry::validate`].
    pub fn geometry(
        &self,
        elements: u64,
        shared: SharedMemory,
        constraints: &Constraints,
    ) -> Result<LaunchGeometry, ScheduleError> {
        if self.items_per_invocation == 0 {
            return Err(ScheduleError::NoItems);
        }
        let threads: u128 = self.workgroup_size.iter().map(|n| u128::from(*n)).product();
        if threads == 0 {
            return Err(ScheduleError::EmptyBlock { block: self.workgroup_size });
        }
        let blocks = u128::from(elements).div_ceil(threads * u128::from(self.items_per_invocation));
        // At most `elements` blocks, so 64 bits hold them.
        let blocks = u64::try_from(blocks).unwrap_or(u64::MAX);
        let Ok(x) = u32::try_from(blocks) else {
            return Err(ScheduleError::GridTooLarge { grid: [blocks, 1, 1], max_grid: constraints.max_grid });
        };
        let shared_bytes = self.shared_bytes(shared, constraints)?;
        LaunchGeometry { grid: [x, 1, 1], block: self.workgroup_size, shared_bytes }.validate(constraints)
    }

    /// Dynamic shared bytes of one block under this schedule.
    ///
    /// # Errors
    /// [`ScheduleError::SharedMemory`] if the device does not have as many.
    pub fn shared_bytes(
        &self,
        shared: SharedMemory,
        constraints: &Constraints,
    ) -> Result<u32, ScheduleError> {
        let threads: u128 = self.workgroup_size.iter().map(|n| u128::from(*n)).product();
        let bytes =
            u128::from(shared.fixed_bytes) + threads.saturating_mul(u128::from(shared.bytes_per_thread));
        match u32::try_from(bytes) {
            Ok(bytes) if bytes <= constraints.max_shared_bytes_opt_in => Ok(bytes),
            _ => Err(ScheduleError::SharedMemory {
                bytes: u64::try_from(bytes).unwrap_or(u64::MAX),
                max_bytes: constraints.max_shared_bytes_opt_in,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid_x(schedule: &Schedule, elements: u64, max_x: u32) -> Result<u32, ScheduleError> {
        let constraints = Constraints { max_grid: [max_x, 65_535, 65_535], ..Constraints::default() };
        schedule.geometry(elements, SharedMemory::NONE, &constraints).map(|g| g.grid[0])
    }

    #[test]
    fn element_counts_up_to_and_beyond_32_bits_are_valid_where_the_grid_allows_it() {
        let wide = Schedule::new([256, 1, 1]);
        let cases = [(0, 0), (1, 1), (1 << 31, 1 << 23), (1 << 32, 1 << 24), ((1 << 32) + 5, (1 << 24) + 1)];
        for (elements, blocks) in cases {
            assert_eq!(grid_x(&wide, elements, i32::MAX as u32), Ok(blocks), "{elements} elements");
        }
        assert!(wide.geometry(0, SharedMemory::NONE, &Constraints::default()).unwrap().is_empty());
    }

    #[test]
    fn element_counts_beyond_the_grid_are_a_typed_error() {
        let narrow = Schedule::new([1, 1, 1]);
        let too_large = |grid| {
            Err(ScheduleError::GridTooLarge {
                grid: [grid, 1, 1],
                max_grid: [i32::MAX as u32, 65_535, 65_535],
            })
        };
        for elements in [1 << 31, 1 << 32, (1 << 32) + 5, u64::MAX] {
            assert_eq!(grid_x(&narrow, elements, i32::MAX as u32), too_large(elements));
        }
        assert_eq!(grid_x(&narrow, (1 << 31) - 1, i32::MAX as u32), Ok(i32::MAX as u32));
        assert!(grid_x(&Schedule::new([256, 1, 1]), 1 << 24, 65_535).is_err());
    }

    #[test]
    fn blocks_and_shared_memory_beyond_the_device_are_named() {
        let limits = Constraints::default();
        let block = |b: [u32; 3]| Schedule::new(b).geometry(1, SharedMemory::NONE, &limits);
        assert!(matches!(block([1025, 1, 1]), Err(ScheduleError::BlockTooLarge { .. })));
        assert!(matches!(block([64, 64, 1]), Err(ScheduleError::BlockTooLarge { .. })));
        assert!(matches!(block([1, 1, 65]), Err(ScheduleError::BlockTooLarge { .. })));
        assert!(matches!(block([u32::MAX; 3]), Err(ScheduleError::BlockTooLarge { .. })));
        assert!(matches!(block([0, 1, 1]), Err(ScheduleError::EmptyBlock { .. })));
        let no_items = Schedule::new([32, 1, 1]).with_items_per_invocation(0);
        assert_eq!(no_items.geometry(1, SharedMemory::NONE, &limits), Err(ScheduleError::NoItems));
        let shared = SharedMemory { fixed_bytes: 16, bytes_per_thread: 64 };
        let bytes = |threads| Schedule::new([threads, 1, 1]).shared_bytes(shared, &limits);
        assert_eq!(bytes(1023), Ok(16 + 1023 * 64));
        assert_eq!(bytes(1024), Err(ScheduleError::SharedMemory { bytes: 65_552, max_bytes: 65_536 }));
    }
}
