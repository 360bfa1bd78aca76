//! What the blocks of a launch share, and the state of the one block that a host thread runs.

use std::cell::OnceCell;
use std::sync::Mutex;

use crate::code::Code;
use crate::exec::bank::{Arrivals, Bank, ClusterTold, Meeting, RANK_SHIFT};
use crate::exec::flights::Copies;
use crate::exec::options::LaunchOptions;
use crate::exec::view::GlobalView;
use crate::exec::warp::Warp;
use crate::fault::{AccessKind, Fault, MemorySpace, Nearest, Party, Place};
use crate::form::{Inst, Op, Space};
use crate::gate::{Completion, GateAction};
use crate::lanes::LANES;
use crate::shadow::clocks::{Clocks, Touch};
use crate::shadow::global::GlobalShadow;
use crate::shadow::journal::Journal;
use crate::shadow::order::Order;
use crate::shadow::own::OwnShadow;
use crate::shadow::shared::SharedShadow;

/// Where shared memory appears in the generic space.
pub(crate) const SHARED_WINDOW: u64 = 0x0100_0000;
/// Where a thread's local memory appears in the generic space.
pub(crate) const LOCAL_WINDOW: u64 = 0x0200_0000;
/// Where the parameters appear in the generic space.
pub(crate) const PARAM_WINDOW: u64 = 0x0300_0000;
/// Bytes of each window.
pub(crate) const WINDOW_BYTES: u64 = 0x0100_0000;

/// First generic address of a space; 0 for those that lie in the generic space as they are.
pub(crate) fn window(space: Space) -> u64 {
    match space {
        Space::Shared | Space::Cluster => SHARED_WINDOW,
        Space::Local => LOCAL_WINDOW,
        Space::Param => PARAM_WINDOW,
        Space::Global | Space::Generic => 0,
    }
}

/// The space that a generic address lies in.
#[inline(always)]
pub(crate) fn space_of(address: u64) -> Space {
    match address & !(WINDOW_BYTES - 1) {
        SHARED_WINDOW if (address - SHARED_WINDOW) >> RANK_SHIFT == 0 => Space::Shared,
        SHARED_WINDOW => Space::Cluster,
        LOCAL_WINDOW => Space::Local,
        PARAM_WINDOW => Space::Param,
        _ => Space::Global,
    }
}

/// One launch: what all its blocks share.
#[derive(Debug)]
pub(crate) struct Shot<'a> {
    pub(crate) code: &'a Code,
    pub(crate) view: GlobalView<'a>,
    /// What blocks access plainly.
    pub(crate) shadow: Option<GlobalShadow>,
    /// What blocks write by atomics and other strong accesses.
    pub(crate) strong: Option<GlobalShadow>,
    /// The order between blocks, in kernels that make one.
    pub(crate) order: Option<Mutex<Order>>,
    /// What memory held before; kept where blocks run side by side.
    pub(crate) journal: Option<Journal>,
    /// What blocks have printed, with their linear indices; in the order of their turns where they run in turns.
    pub(crate) printed: Mutex<Vec<(u32, Vec<u8>)>>,
    /// The parameter space as words.
    pub(crate) params: Vec<u32>,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    /// Blocks of a cluster.
    pub(crate) cluster: [u32; 3],
    /// Whether the launch or the kernel asks for clusters.
    pub(crate) is_clustered: bool,
    /// Whether blocks run on one host thread, as they may communicate.
    pub(crate) communicates: bool,
    /// Whether accesses of other blocks to shared memory are followed.
    pub(crate) follows_clusters: bool,
    pub(crate) options: LaunchOptions,
    /// First byte and end of every shared variable, the dynamic one included.
    pub(crate) shared_regions: Vec<(u64, u64)>,
    /// Constants that depend on where the module's variables lie.
    pub(crate) addresses: Vec<u64>,
    pub(crate) dynamic_shared: u32,
}

impl Shot<'_> {
    /// Threads a block.
    pub(crate) fn threads(&self) -> u32 {
        self.block.iter().product()
    }

    /// `%ctaid` of the block with that linear index.
    pub(crate) fn ctaid(&self, index: u32) -> [u32; 3] {
        split(index, self.grid)
    }

    /// `%tid` of the thread with that linear index.
    pub(crate) fn tid(&self, index: u32) -> [u32; 3] {
        split(index, self.block)
    }

    /// Blocks of a cluster in all.
    pub(crate) fn blocks_of_cluster(&self) -> u32 {
        self.cluster.iter().product()
    }

    /// Clusters of the grid in each dimension.
    pub(crate) fn clusters(&self) -> [u32; 3] {
        std::array::from_fn(|dimension| self.grid[dimension] / self.cluster[dimension].max(1))
    }

    /// Linear index of the block of that rank in a cluster.
    pub(crate) fn block_at(&self, cluster: u32, rank: u32) -> u32 {
        let (first, inside) = (split(cluster, self.clusters()), split(rank, self.cluster));
        let at = |dimension: usize| first[dimension] * self.cluster[dimension] + inside[dimension];
        at(0) + self.grid[0] * (at(1) + self.grid[1] * at(2))
    }

    /// Place of a block in its cluster.
    pub(crate) fn in_cluster(&self, ctaid: [u32; 3]) -> [u32; 3] {
        std::array::from_fn(|dimension| ctaid[dimension] % self.cluster[dimension].max(1))
    }

    /// Rank of a block in its cluster.
    pub(crate) fn rank(&self, ctaid: [u32; 3]) -> u32 {
        let [x, y, z] = self.in_cluster(ctaid);
        x + self.cluster[0] * (y + self.cluster[1] * z)
    }

    /// Bytes that shared memory spans.
    pub(crate) fn shared_span(&self) -> usize {
        self.shared_regions.iter().map(|(_, end)| *end as usize).max().unwrap_or_default()
    }

    /// The place of a thread at an instruction.
    pub(crate) fn place(&self, block: [u32; 3], thread: u32, pc: usize) -> Place {
        let line = self.code.insts.get(pc).map_or(0, |inst| inst.line);
        self.place_at_line(block, thread, line)
    }

    /// The place of a thread at a line.
    pub(crate) fn place_at_line(&self, block: [u32; 3], thread: u32, line: u32) -> Place {
        Place {
            kernel: self.code.name.clone(),
            line,
            source_line: self.code.source_line(line),
            block,
            thread: self.tid(thread),
        }
    }
}

fn split(index: u32, size: [u32; 3]) -> [u32; 3] {
    let [x, y, _] = size.map(|n| n.max(1));
    [index % x, index / x % y, index / x / y]
}

/// The block that a host thread runs.
#[derive(Debug)]
pub(crate) struct Machine<'a> {
    pub(crate) shot: &'a Shot<'a>,
    pub(crate) ctaid: [u32; 3],
    pub(crate) block_index: u32,
    /// Rank of the block in its cluster.
    pub(crate) rank: u32,
    /// Shared memory of the block, or of the one that is visited.
    pub(crate) bank: Bank,
    /// Shared memory of the other blocks of the cluster, by rank, while this one runs.
    pub(crate) peers: Vec<Bank>,
    /// Which of the peers is visited: it is in the place of the own bank.
    pub(crate) visits: Option<usize>,
    /// What looks for hazards at home, while another block is visited.
    pub(crate) away: Option<SharedShadow>,
    /// The cluster's barrier, and who of this block has arrived there.
    pub(crate) meeting: Meeting,
    pub(crate) arrivals: Vec<Arrivals>,
    pub(crate) cluster_told: ClusterTold,
    /// Warp instructions after which the turn of the running warp is over.
    pub(crate) turn_end: u64,
    /// What the warps of the block know of each other.
    pub(crate) clocks: Clocks,
    pub(crate) hazards: Option<SharedShadow>,
    /// What the threads of the block access of global memory.
    pub(crate) own: Option<OwnShadow>,
    pub(crate) copies: Copies,
    /// A fault that is reported at the end of the block, if none says more.
    pub(crate) pending: OnceCell<Box<Fault>>,
    /// Range that the last access of each global site was in.
    pub(crate) hints: Vec<u32>,
    /// What the block has printed so far.
    pub(crate) printed: Vec<u8>,
    /// Warp instructions of this block so far.
    pub(crate) steps: u64,
    /// Thread instructions of all blocks so far.
    pub(crate) instructions: u64,
}

impl<'a> Machine<'a> {
    /// A machine that has run no block.
    pub(crate) fn new(shot: &'a Shot<'a>) -> Self {
        let span = shot.shared_span();
        let named = |inst: &Inst| matches!(&inst.op, Op::Barrier(barrier) if barrier.threads.is_some());
        let partial = shot.code.insts.iter().any(named);
        let watched = shot.options.checks.shared_hazards && span > 0 && shot.threads() > 1;
        // Where fences, acquires and releases order the accesses of a block too, no barrier need.
        let orders = shot.code.orders() || shot.blocks_of_cluster() > 1;
        let own = shot.options.checks.global_hazards && shot.threads() > 1 && !orders;
        Self {
            shot,
            ctaid: [0; 3],
            block_index: 0,
            rank: 0,
            bank: Bank::new(span, shot.options.checks.uninitialised),
            peers: Vec::new(),
            visits: None,
            away: None,
            meeting: Meeting::default(),
            arrivals: vec![Arrivals::default(); (shot.threads() as usize).div_ceil(LANES)],
            cluster_told: ClusterTold::default(),
            turn_end: 0,
            clocks: Clocks::new(),
            hazards: watched.then(|| SharedShadow::new(span, shot.code.shared_granule_log2, partial)),
            own: own.then(|| OwnShadow::new(shot.code.global_granule_log2, partial)),
            copies: Copies::default(),
            pending: OnceCell::new(),
            hints: vec![0; shot.code.global_sites.len()],
            printed: Vec::new(),
            steps: 0,
            instructions: 0,
        }
    }

    /// The place of a lane at the warp's current instruction.
    #[cold]
    pub(crate) fn place(&self, warp: &Warp, lane: usize) -> Place {
        self.shot.place(self.ctaid, warp.thread(lane), warp.pc)
    }

    #[cold]
    pub(crate) fn unsupported(&self, warp: &Warp, lane: usize, form: &str) -> Box<Fault> {
        Box::new(Fault::Unsupported { place: self.place(warp, lane), form: form.to_owned() })
    }

    #[cold]
    pub(crate) fn out_of_bounds(
        &self,
        warp: &Warp,
        lane: usize,
        access: AccessKind,
        space: Space,
        address: u64,
        bytes: u32,
    ) -> Box<Fault> {
        let nearest = match space {
            Space::Global | Space::Generic => self.shot.view.nearest(address),
            Space::Shared | Space::Cluster => nearest_of(self.shot.shared_regions.iter().copied(), address),
            Space::Local => nearest_of(self.shot.code.local_regions.iter().copied(), address),
            Space::Param => nearest_of([(0, u64::from(self.shot.code.param_bytes))].into_iter(), address),
        };
        let place = self.place(warp, lane);
        Box::new(Fault::OutOfBounds { place, access, space: named(space), address, bytes, nearest })
    }

    #[cold]
    pub(crate) fn misaligned(
        &self,
        warp: &Warp,
        lane: usize,
        access: AccessKind,
        space: Space,
        address: u64,
        bytes: u32,
    ) -> Box<Fault> {
        Box::new(Fault::Misaligned {
            place: self.place(warp, lane),
            access,
            space: named(space),
            address,
            bytes,
        })
    }

    #[cold]
    pub(crate) fn hazard(
        &self,
        warp: &Warp,
        lane: usize,
        access: AccessKind,
        (earlier, address): (Touch, u32),
    ) -> Box<Fault> {
        let (place, address) = (self.place(warp, lane), u64::from(address));
        let writes = |op: &Op| match op {
            Op::Store(_) | Op::AsyncCopy(_) => true,
            Op::Tile(tile) => tile.stores(),
            Op::Bulk(bulk) => matches!(bulk.completion, Completion::Gate(_)),
            Op::Gate(gate) => matches!(gate.action, GateAction::Init(_) | GateAction::Invalidate),
            _ => false,
        };
        Box::new(Fault::SharedHazard { place, access, address, other: self.party(earlier, writes) })
    }

    /// As [`Machine::hazard`], in global memory.
    #[cold]
    pub(crate) fn global_hazard(
        &self,
        warp: &Warp,
        lane: usize,
        access: AccessKind,
        (earlier, address): (Touch, u64),
    ) -> Box<Fault> {
        let place = self.place(warp, lane);
        let writes = |op: &Op| match op {
            Op::Store(_) => true,
            Op::Tile(tile) => tile.stores(),
            Op::Bulk(bulk) => matches!(bulk.completion, Completion::Group),
            _ => false,
        };
        Box::new(Fault::GlobalHazard { place, access, address, other: self.party(earlier, writes) })
    }

    /// Who made an earlier access of this block; `writes` tells which instructions write there.
    fn party(&self, earlier: Touch, writes: impl Fn(&Op) -> bool) -> Party {
        let place = self.shot.place(self.ctaid, earlier.thread(), earlier.pc());
        let access = match self.shot.code.insts.get(earlier.pc()).map(|inst| &inst.op) {
            Some(Op::Atomic(_) | Op::PairAtomic(_) | Op::VectorAtomic(..)) => AccessKind::Atomic,
            Some(op) if writes(op) => AccessKind::Write,
            Some(Op::Gate(gate)) if !matches!(gate.action, GateAction::Wait(_)) => AccessKind::Atomic,
            _ => AccessKind::Read,
        };
        Party { access, line: place.line, block: self.ctaid, thread: Some(place.thread) }
    }
}

/// The space as faults name it.
pub(crate) fn named(space: Space) -> MemorySpace {
    match space {
        Space::Global | Space::Generic => MemorySpace::Global,
        Space::Shared | Space::Cluster => MemorySpace::Shared,
        Space::Local => MemorySpace::Local,
        Space::Param => MemorySpace::Param,
    }
}

fn nearest_of(ranges: impl Iterator<Item = (u64, u64)>, address: u64) -> Nearest {
    let distance = |(start, end): &(u64, u64)| {
        if address < *start { start - address } else { address.saturating_sub(*end) }
    };
    ranges
        .filter(|(start, end)| start < end)
        .min_by_key(distance)
        .map_or(Nearest::Nothing, |(start, end)| Nearest::Range { start, len: end - start })
}

/// Lanes that the warp with that index has in a block of so many threads.
pub(crate) fn lanes_in(warp: usize, threads: u32) -> u32 {
    let left = (threads as usize).saturating_sub(warp * LANES);
    if left >= LANES { u32::MAX } else { (1 << left) - 1 }
}
