//! Why threads do not meet: at barriers of the block and the cluster, and at mbarriers.

use std::fmt;

/// Why a thread misses a barrier.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Missing {
    /// It has exited.
    Exited {
        /// `%tid` of the thread.
        thread: [u32; 3],
    },
    /// It waits elsewhere.
    Waits {
        /// `%tid` of the thread.
        thread: [u32; 3],
        /// Line of the PTX text where it waits.
        line: u32,
    },
    /// The barrier's thread count is no positive multiple of the warp size, or differs between its users.
    ThreadCount {
        /// The count that was given.
        threads: u32,
    },
    /// The block has fewer threads than the barrier counts.
    TooFewThreads {
        /// The count that was given.
        threads: u32,
    },
    /// At the barrier of a cluster, threads wait that have not arrived, or arrive again before they have waited.
    Unpaired,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited { thread: [x, y, z] } => write!(f, "thread ({x}, {y}, {z}) has exited"),
            Self::Waits { thread: [x, y, z], line } => {
                write!(f, "thread ({x}, {y}, {z}) waits at PTX line {line}")
            }
            Self::ThreadCount { threads } => write!(f, "its thread count {threads} is not one it can have"),
            Self::TooFewThreads { threads } => write!(f, "the block has fewer than {threads} threads left"),
            Self::Unpaired => f.write_str("each thread must arrive once and then wait once"),
        }
    }
}

/// What is wrong with the use of an mbarrier.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum MbarrierMisuse {
    /// There is none at this address: it was never initialised, or invalidated.
    NotThere,
    /// A count of arrivals that none can have: 0, or 2^20 and more.
    Count {
        /// The count.
        count: u32,
    },
    /// More threads arrive than the phase waits for.
    TooManyArrivals {
        /// How many arrive.
        count: u32,
        /// How many are still expected.
        pending: u32,
    },
    /// The phase waits for, or has received ahead of time, 2^20 bytes or more.
    TooManyBytes {
        /// Bytes still expected; negative where they have come ahead of time.
        bytes: i64,
    },
    /// An arrival with `.noComplete` completes the phase.
    Completes,
    /// It is written other than by mbarrier instructions before it is invalidated.
    Overwritten,
    /// Threads wait for a phase, and nothing is under way that could complete it.
    NeverCompletes {
        /// Arrivals that are still expected.
        pending: u32,
        /// Bytes that are still expected.
        bytes: i64,
    },
}

impl fmt::Display for MbarrierMisuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotThere => f.write_str("there is none, it was not initialised or is invalidated"),
            Self::Count { count } => write!(f, "its count would be {count}, allowed are 1 to 1048575"),
            Self::TooManyArrivals { count, pending } => {
                write!(f, "{count} arrivals where the phase waits for {pending}")
            }
            Self::TooManyBytes { bytes } => {
                write!(f, "its phase would wait for {bytes} bytes, allowed are 1048575 either way")
            }
            Self::Completes => f.write_str("an arrival with .noComplete completes the phase"),
            Self::Overwritten => f.write_str("it is written by an instruction that knows nothing of it"),
            Self::NeverCompletes { pending, bytes } => write!(
                f,
                "its phase waits for {pending} arrivals and {bytes} bytes, and nobody is left to bring them"
            ),
        }
    }
}
