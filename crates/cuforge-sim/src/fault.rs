//! What a launch can end with instead of results.

use std::fmt;

use crate::meeting::{MbarrierMisuse, Missing};

/// Where in the launch something happened.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Place {
    /// Name of the kernel.
    pub kernel: String,
    /// Line of the PTX text, from 1; 0 if unknown.
    pub line: u32,
    /// Line of the source that `.loc` names, if the text has it.
    pub source_line: Option<u32>,
    /// `%ctaid` of the block.
    pub block: [u32; 3],
    /// `%tid` of the thread.
    pub thread: [u32; 3],
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([bx, by, bz], [tx, ty, tz]) = (self.block, self.thread);
        write!(f, "{}, PTX line {}", self.kernel, self.line)?;
        if let Some(line) = self.source_line {
            write!(f, " (source line {line})")?;
        }
        write!(f, ", block ({bx}, {by}, {bz}), thread ({tx}, {ty}, {tz})")
    }
}

/// Kind of memory access.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum AccessKind {
    /// A load.
    Read,
    /// A store.
    Write,
    /// `atom` or `red`.
    Atomic,
}

impl fmt::Display for AccessKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Atomic => "atomic",
        })
    }
}

/// State space of a faulting access.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum MemorySpace {
    /// Device memory.
    Global,
    /// Shared memory of a block.
    Shared,
    /// A thread's own memory.
    Local,
    /// Kernel parameters.
    Param,
}

impl fmt::Display for MemorySpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Global => "global",
            Self::Shared => "shared",
            Self::Local => "local",
            Self::Param => "parameter",
        })
    }
}

/// The other party of a hazard or conflict.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Party {
    /// What it did.
    pub access: AccessKind,
    /// Line of the PTX text; 0 if unknown.
    pub line: u32,
    /// Its block.
    pub block: [u32; 3],
    /// Its thread; absent where only the block is known.
    pub thread: Option<[u32; 3]>,
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [bx, by, bz] = self.block;
        write!(f, "{} at PTX line {} by block ({bx}, {by}, {bz})", self.access, self.line)?;
        if let Some([x, y, z]) = self.thread {
            write!(f, ", thread ({x}, {y}, {z})")?;
        }
        Ok(())
    }
}

/// Why a launch gave no result. The device memory then holds what the blocks had written so far.
///
/// For one program, memory, seed and set of options the fault is always the same, whatever the number of host
/// threads: that of the lowest block which faults.
///
/// ```
/// use cuforge_sim::{Fault, Place};
///
/// let place = Place { kernel: "scale".into(), line: 12, source_line: None, block: [1, 0, 0], thread: [4, 0, 0] };
/// let fault = Fault::Trap { place };
/// assert_eq!(fault.to_string(), "trap reached at scale, PTX line 12, block (1, 0, 0), thread (4, 0, 0)");
/// ```
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The launch itself is wrong; nothing ran.
    #[error("bad launch of {kernel}: {reason}")]
    BadLaunch {
        /// Name of the kernel.
        kernel: String,
        /// What is wrong.
        reason: LaunchMisuse,
    },
    /// An access outside every allocation, mark, shared variable, local frame or the parameters.
    #[error("{space} {access} of {bytes} bytes out of bounds at address {address:#x}: {place}{nearest}")]
    OutOfBounds {
        /// Where.
        place: Place,
        /// Kind of access.
        access: AccessKind,
        /// State space.
        space: MemorySpace,
        /// First byte of the access.
        address: u64,
        /// Size of the access.
        bytes: u32,
        /// What lies closest.
        nearest: Nearest,
    },
    /// An address that is no multiple of the access size.
    #[error("{space} {access} of {bytes} bytes misaligned at address {address:#x}: {place}")]
    Misaligned {
        /// Where.
        place: Place,
        /// Kind of access.
        access: AccessKind,
        /// State space.
        space: MemorySpace,
        /// First byte of the access.
        address: u64,
        /// Size of the access, the alignment it needs.
        bytes: u32,
    },
    /// Two threads of a block or of a cluster touch the same shared byte, at least one writes, and no barrier is between.
    #[error("shared memory hazard at address {address:#x}: {access} at {place}, unordered with {other}")]
    SharedHazard {
        /// The later access.
        place: Place,
        /// Kind of the later access.
        access: AccessKind,
        /// Shared address of the lowest byte both touch.
        address: u64,
        /// The earlier access.
        other: Party,
    },
    /// Two threads of a block touch the same global byte, at least one writes, not both are atomic or otherwise strong, and
    /// no barrier is between.
    #[error("global memory hazard at address {address:#x}: {access} at {place}, unordered with {other}")]
    GlobalHazard {
        /// The later access.
        place: Place,
        /// Kind of the later access.
        access: AccessKind,
        /// Lowest address in conflict.
        address: u64,
        /// The earlier access, of the same block.
        other: Party,
    },
    /// Two blocks touch the same global byte in one launch, at least one writes, not both are atomic or otherwise strong, and
    /// no fences, releases and acquires order them.
    #[error("conflict between blocks at global address {address:#x}: {access} at {place}, and {other}")]
    GlobalConflict {
        /// In kernels with fences or acquires and releases, the later access; in others a write, whose thread is not
        /// known.
        place: Place,
        /// Kind of this access.
        access: AccessKind,
        /// Lowest global address in conflict.
        address: u64,
        /// The other block.
        other: Party,
    },
    /// A value that nothing has written decides a branch or an address, or is put out.
    #[error("undefined value used as {used_as} at {place}; {origin}")]
    Uninitialised {
        /// Where it is used.
        place: Place,
        /// What it decides.
        used_as: UndefinedUse,
        /// Where it comes from.
        origin: UndefinedSource,
    },
    /// A barrier that not all of its threads reach.
    #[error("barrier {barrier} is not reached by all threads: waiting at {place}, but {missing}")]
    BarrierDivergence {
        /// A waiting thread.
        place: Place,
        /// Number of the barrier.
        barrier: u32,
        /// A thread that does not come.
        missing: Missing,
    },
    /// An mbarrier is not used as one must be, or never completes.
    #[error("mbarrier at shared address {address:#x}: {misuse}: {place}")]
    Mbarrier {
        /// Where.
        place: Place,
        /// Where the mbarrier lies in shared memory of its block.
        address: u64,
        /// What is wrong.
        misuse: MbarrierMisuse,
    },
    /// Lanes named in the member mask of a `.sync` instruction do not come, or a lane outside it does.
    #[error(
        "lanes {members:#010x} never meet at a warp-wide instruction: {place}, lanes {present:#010x} are there"
    )]
    WarpDivergence {
        /// A waiting thread.
        place: Place,
        /// The member mask.
        members: u32,
        /// The lanes that came.
        present: u32,
    },
    /// A block ran more warp instructions than allowed.
    #[error("step budget of {budget} warp instructions a block used up: {place}")]
    StepBudget {
        /// Where it stopped.
        place: Place,
        /// The budget.
        budget: u64,
    },
    /// An instruction, or a use of it, that the simulator does not know.
    #[error("unsupported form {form}: {place}")]
    Unsupported {
        /// Where.
        place: Place,
        /// The instruction's text.
        form: String,
    },
    /// `assert` of device code failed; what it says is printed.
    #[error("assertion failed at {place}")]
    AssertionFailed {
        /// Where.
        place: Place,
    },
    /// `trap` was executed.
    #[error("trap reached at {place}")]
    Trap {
        /// Where.
        place: Place,
    },
}

impl Fault {
    /// Where it happened; absent for a launch that never started.
    pub fn place(&self) -> Option<&Place> {
        match self {
            Self::BadLaunch { .. } => None,
            Self::OutOfBounds { place, .. }
            | Self::Misaligned { place, .. }
            | Self::SharedHazard { place, .. }
            | Self::GlobalHazard { place, .. }
            | Self::GlobalConflict { place, .. }
            | Self::Uninitialised { place, .. }
            | Self::BarrierDivergence { place, .. }
            | Self::Mbarrier { place, .. }
            | Self::WarpDivergence { place, .. }
            | Self::StepBudget { place, .. }
            | Self::Unsupported { place, .. }
            | Self::AssertionFailed { place }
            | Self::Trap { place } => Some(place),
        }
    }
}

/// What a value that nothing has written is used for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum UndefinedUse {
    /// It decides whether an instruction runs, or which comes next.
    Branch,
    /// It decides where memory is accessed.
    Address,
    /// It goes to global memory, where the host sees it, or into an atomic.
    Output,
}

impl fmt::Display for UndefinedUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Branch => "a condition",
            Self::Address => "an address",
            Self::Output => "an output",
        })
    }
}

/// Where a value comes from that nothing has written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum UndefinedSource {
    /// A register that was read before it was written, or a lane that took no part in a shuffle.
    Register,
    /// Memory that was read before it was written.
    Memory {
        /// State space.
        space: MemorySpace,
        /// Line of the PTX text that read it.
        line: u32,
    },
}

impl fmt::Display for UndefinedSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Register => f.write_str("it comes from a register that was never written"),
            Self::Memory { space, line } => {
                write!(f, "it comes from {space} memory that was never written, read at PTX line {line}")
            }
        }
    }
}

/// What is wrong with a launch before it starts.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchMisuse {
    /// The parameters have the wrong size.
    #[error("parameters have {got} bytes, the kernel takes {expected}")]
    ParamBytes {
        /// Bytes that were given.
        got: usize,
        /// Bytes the kernel declares.
        expected: usize,
    },
    /// A block of no threads, or of more than the kernel or the device takes.
    #[error("block of {x} x {y} x {z} threads, allowed are 1 to {limit}, 64 in z")]
    BlockSize {
        /// Threads in x.
        x: u32,
        /// Threads in y.
        y: u32,
        /// Threads in z.
        z: u32,
        /// Most threads in all.
        limit: u32,
    },
    /// A cluster of no blocks or of more than 16, one that the grid is no multiple of, or another than the kernel declares.
    #[error(
        "clusters of {cluster:?} blocks do not fit a grid of {grid:?} blocks, or are not what the kernel declares"
    )]
    Cluster {
        /// Blocks of a cluster.
        cluster: [u32; 3],
        /// Blocks of the grid.
        grid: [u32; 3],
    },
    /// `.reqntid` asks for another block.
    #[error("block of {got:?} threads, the kernel requires {required:?}")]
    RequiredBlock {
        /// The block that was asked for.
        got: [u32; 3],
        /// What the kernel declares.
        required: [u32; 3],
    },
    /// More blocks in a dimension than a grid can have, or more in all than the simulator counts.
    #[error(
        "grid of {blocks} blocks, at most 2147483647 x 65535 x 65535 can be asked for and 4294967294 simulated"
    )]
    GridSize {
        /// Blocks in all.
        blocks: u128,
    },
    /// Static and dynamic shared memory exceed what a block can have.
    #[error("{bytes} bytes of shared memory a block, at most {limit}")]
    SharedBytes {
        /// Static and dynamic bytes.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The module's variables do not fit the memory.
    #[error("module variables need {bytes} bytes, only {free} are free")]
    ModuleVariables {
        /// Bytes needed.
        bytes: u64,
        /// Bytes free.
        free: u64,
    },
}

/// The allocation or mark closest to a wrong address.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Nearest {
    /// There is none to speak of.
    Nothing,
    /// The valid range just below or around the address.
    Range {
        /// First byte.
        start: u64,
        /// Length in bytes.
        len: u64,
    },
    /// The address lies in memory that was freed.
    Freed {
        /// First byte.
        start: u64,
        /// Length in bytes.
        len: u64,
    },
}

impl fmt::Display for Nearest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => Ok(()),
            Self::Range { start, len } => write!(f, "; the nearest valid range is {start:#x}, {len} bytes"),
            Self::Freed { start, len } => write!(f, "; inside freed memory {start:#x}, {len} bytes"),
        }
    }
}
