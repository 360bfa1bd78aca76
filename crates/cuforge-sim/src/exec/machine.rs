//! What the blocks of a launch share, and the state of the one block that a host thread runs.

use std::cell::OnceCell;
use std::sync::Mutex;

use crate::code::Code;
use crate::exec::flights::Copies;
use crate::exec::options::LaunchOptions;
use crate::exec::view::GlobalView;
use crate::exec::warp::Warp;
use crate::fault::{AccessKind, Fault, MemorySpace, Nearest, Party, Place};
use crate::form::{Inst, Op, Space};
use crate::lanes::LANES;
use crate::shadow::global::GlobalShadow;
use crate::shadow::journal::Journal;
use crate::shadow::order::Order;
use crate::shadow::shared::{SharedShadow, Touch};

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
        Space::Shared => SHARED_WINDOW,
        Space::Local => LOCAL_WINDOW,
        Space::Param => PARAM_WINDOW,
        Space::Global | Space::Generic => 0,
    }
}

/// The space that a generic address lies in.
#[inline(always)]
pub(crate) fn space_of(address: u64) -> Space {
    match address & !(WINDOW_BYTES - 1) {
        SHARED_WINDOW => Space::Shared,
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
    pub(crate) shared: Vec<u32>,
    /// Which bytes of shared memory are written; empty if that is not followed.
    pub(crate) shared_known: Vec<u8>,
    pub(crate) hazards: Option<SharedShadow>,
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
        Self {
            shot,
            ctaid: [0; 3],
            block_index: 0,
            shared: vec![0; span.div_ceil(4)],
            shared_known: if shot.options.checks.uninitialised {
                vec![0; span.div_ceil(4)]
            } else {
                Vec::new()
            },
            hazards: watched.then(|| SharedShadow::new(span, shot.code.shared_granule_log2, partial)),
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
            Space::Shared => nearest_of(self.shot.shared_regions.iter().copied(), address),
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
        let earlier_place = self.shot.place(self.ctaid, earlier.thread(), earlier.pc());
        let kind = match self.shot.code.insts.get(earlier.pc()).map(|inst| &inst.op) {
            Some(Op::Store(_) | Op::AsyncCopy(_)) => AccessKind::Write,
            Some(Op::Tile(tile)) if tile.stores() => AccessKind::Write,
            Some(Op::Atomic(_)) => AccessKind::Atomic,
            _ => AccessKind::Read,
        };
        Box::new(Fault::SharedHazard {
            place: self.place(warp, lane),
            access,
            address: u64::from(address),
            other: Party {
                access: kind,
                line: earlier_place.line,
                block: self.ctaid,
                thread: Some(earlier_place.thread),
            },
        })
    }
}

/// The space as faults name it.
pub(crate) fn named(space: Space) -> MemorySpace {
    match space {
        Space::Global | Space::Generic => MemorySpace::Global,
        Space::Shared => MemorySpace::Shared,
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
