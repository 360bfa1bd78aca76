//! Why a schedule does not fit a kernel or a device.

use alloc::string::String;

/// Why a schedule does not fit a kernel or a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// A block without threads.
    #[error("block {block:?} has a dimension of 0")]
    EmptyBlock {
        /// Threads in x, y, z.
        block: [u32; 3],
    },
    /// No items per thread.
    #[error("items per invocation is 0")]
    NoItems,
    /// More threads than a block may have.
    #[error("block {block:?} exceeds {max_block:?} or {max_threads} threads")]
    BlockTooLarge {
        /// Threads in x, y, z.
        block: [u32; 3],
        /// The device's limit in each dimension.
        max_block: [u32; 3],
        /// The device's limit of their product.
        max_threads: u32,
    },
    /// More blocks than a grid may have.
    #[error("grid {grid:?} exceeds {max_grid:?}")]
    GridTooLarge {
        /// Blocks in x, y, z.
        grid: [u64; 3],
        /// The device's limit in each dimension.
        max_grid: [u32; 3],
    },
    /// More shared memory than a block may have.
    #[error("{bytes} bytes of shared memory exceed {max_bytes}")]
    SharedMemory {
        /// Bytes wanted.
        bytes: u64,
        /// The device's limit with opt-in.
        max_bytes: u32,
    },
    /// A constant that nothing consumes.
    #[error("kernel `{kernel}`: its source names no constant `{constant}`")]
    UnknownConstant {
        /// The kernel's id.
        kernel: String,
        /// The constant's name.
        constant: String,
    },
    /// A constant that is no identifier, is given twice, or takes one of the defines of the schedule itself.
    #[error("constant `{constant}` {reason}")]
    BadConstant {
        /// The constant's name.
        constant: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A PTX kernel is launched only with the blocks that its spec declares.
    #[error(
        "kernel `{kernel}` is PTX and declares no schedule of {block:?} threads with {items} items and no constants"
    )]
    Undeclared {
        /// The kernel's id.
        kernel: String,
        /// Threads in x, y, z.
        block: [u32; 3],
        /// Items per thread.
        items: u32,
    },
}
