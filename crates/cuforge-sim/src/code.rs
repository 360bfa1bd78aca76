//! A kernel's decoded code with all that running it needs to know.

use crate::dataflow::{Dataflow, Slot};
use crate::form::{Inst, R32, R64, Reg};

/// A read-only value that the launch, the block or the thread fixes.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Hash)]
pub(crate) enum Special {
    /// `%tid` in dimension 0, 1 or 2.
    Tid(u8),
    /// `%ntid`
    Ntid(u8),
    /// `%ctaid`
    Ctaid(u8),
    /// `%nctaid`
    Nctaid(u8),
    /// `%laneid`
    LaneId,
    /// `%warpid`
    WarpId,
    /// `%nwarpid`
    WarpCount,
    /// `%lanemask_eq`, `_lt`, `_le`, `_gt`, `_ge`
    LaneMask(LaneMask),
    /// `%smid`, `%gridid`, `%envreg`: always 0.
    Zero,
    /// `%nsmid`
    One,
    /// `%cluster_ctaid`
    ClusterCtaid(u8),
    /// `%cluster_nctaid`
    ClusterNctaid(u8),
    /// `%clusterid`
    ClusterId(u8),
    /// `%nclusterid`
    ClusterCount(u8),
    /// `%cluster_ctarank`
    ClusterRank,
    /// `%cluster_nctarank`
    ClusterBlocks,
    /// `%is_explicit_cluster`
    IsCluster,
    /// `%dynamic_smem_size`
    DynamicShared,
    /// `%total_smem_size`
    TotalShared,
}

/// Which lanes `%lanemask_*` has, against the own lane.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Hash)]
pub(crate) enum LaneMask {
    Equal,
    Below,
    UpTo,
    Above,
    From,
}

/// A constant that is an address of a module variable, known once the module is in a memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Relocation {
    pub(crate) reg: Reg,
    /// Index of the variable.
    pub(crate) variable: usize,
    pub(crate) offset: i64,
}

/// Shared memory of a block: where each variable lies.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct SharedLayout {
    /// First byte and length of each variable, in order, with gaps between them.
    pub(crate) variables: Vec<(u32, u32)>,
    /// Bytes of all variables without the gaps.
    pub(crate) static_bytes: u64,
    /// Where dynamic shared memory starts.
    pub(crate) dynamic_start: u32,
}

/// A decoded kernel.
#[derive(Clone, Debug, Default)]
pub(crate) struct Code {
    pub(crate) name: String,
    pub(crate) insts: Vec<Inst>,
    /// Where execution starts.
    pub(crate) entry: usize,
    /// 32-bit registers that code writes; constants and special values come behind them.
    pub(crate) written32: usize,
    pub(crate) written64: usize,
    pub(crate) total32: usize,
    pub(crate) total64: usize,
    pub(crate) predicates: usize,
    pub(crate) constants32: Vec<(R32, u32)>,
    pub(crate) constants64: Vec<(R64, u64)>,
    pub(crate) specials: Vec<(Special, Reg)>,
    pub(crate) relocations: Vec<Relocation>,
    pub(crate) param_bytes: u32,
    pub(crate) shared: SharedLayout,
    pub(crate) local_bytes: u32,
    /// First byte and end of every local variable.
    pub(crate) local_regions: Vec<(u64, u64)>,
    /// What flows through each instruction.
    pub(crate) flows: Vec<Dataflow>,
    /// Registers and predicates that some way through the code reads before it writes them.
    pub(crate) maybe_unwritten: Vec<Slot>,
    /// `.reqnctapercluster`
    pub(crate) required_cluster: Option<[u32; 3]>,
    /// `.reqntid`
    pub(crate) required_block: Option<[u32; 3]>,
    /// Registers of 32 bits that a thread needs.
    pub(crate) registers: u32,
    /// Most threads a block, by `.maxntid`.
    pub(crate) max_threads: u32,
    /// Line of each global access, by its site number.
    pub(crate) global_sites: Vec<u32>,
    /// Whether blocks may talk to each other by atomics, fences or strong accesses, so that they run in order.
    pub(crate) communicates: bool,
    /// Whether blocks may order their plain accesses by fences, acquires and releases.
    pub(crate) synchronizes: bool,
    /// Whether threads of one block may order their accesses by fences, acquires and releases of the block's scope.
    pub(crate) synchronizes_block: bool,
    /// Whether threads may wait for mbarriers or their cluster.
    pub(crate) parks: bool,
    /// Whether blocks of a cluster meet at its barrier.
    pub(crate) meets: bool,
    /// Whether copies run beside their threads.
    pub(crate) copies: bool,
    /// Smallest access to shared memory in bytes, as a power of two, at most 2.
    pub(crate) shared_granule_log2: u32,
    /// Smallest access to global memory in bytes, as a power of two, at most 2.
    pub(crate) global_granule_log2: u32,
    /// Line of the source for a line of PTX, ascending, from `.loc`.
    pub(crate) source_lines: Vec<(u32, u32)>,
    /// Line and text of each instruction the table does not know.
    pub(crate) unsupported: Vec<(u32, String)>,
}

impl Code {
    /// Whether anything but barriers orders the accesses of a block's threads to global memory.
    pub(crate) fn orders(&self) -> bool {
        self.synchronizes || self.synchronizes_block
    }

    /// The source line that `.loc` gives for a PTX line.
    pub(crate) fn source_line(&self, line: u32) -> Option<u32> {
        let index = self.source_lines.binary_search_by_key(&line, |(ptx, _)| *ptx).ok()?;
        Some(self.source_lines[index].1)
    }
}
