//! Order between blocks that talk to each other: happens-before by vector clocks over the warps of a launch.
//!
//! A fence, or an access that releases, publishes what its warp knows at the place that the warp then writes strongly; a
//! warp that reads there strongly, and acquires or fences afterwards, knows it from then on. Barriers join what the warps
//! of a block know. Two accesses of different blocks, or of different warps where that is asked for, one of them a write and
//! one of them plain, must be ordered so.

use std::collections::HashMap;

use crate::fault::AccessKind;

/// Of each warp, the clock below which its accesses are known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clocks(HashMap<u32, u32>);

impl Clocks {
    /// Knows what the other does too.
    pub(crate) fn join(&mut self, from: &Self) {
        for (warp, clock) in &from.0 {
            let known = self.0.entry(*warp).or_default();
            *known = (*known).max(*clock);
        }
    }
}

/// Who accesses memory: linear indices of warp (in the grid), block (in the grid) and thread (in the block), and the place
/// in the code.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Actor {
    pub(crate) warp: u32,
    pub(crate) block: u32,
    pub(crate) thread: u32,
    pub(crate) pc: usize,
}

/// How memory is accessed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Manner {
    pub(crate) kind: AccessKind,
    pub(crate) strong: bool,
    pub(crate) acquire: bool,
    pub(crate) release: bool,
    /// Whether it must be ordered with other warps of its block too.
    pub(crate) among_warps: bool,
}

/// One access.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Touch {
    pub(crate) by: Actor,
    pub(crate) kind: AccessKind,
    strong: bool,
    clock: u32,
}

/// The last write of a granule, the last read of each warp since, and what its strong writes have published.
#[derive(Debug, Default)]
struct Cell {
    writer: Option<Touch>,
    readers: Vec<Touch>,
    published: Clocks,
}

/// What one warp knows and is about to know or tell.
#[derive(Clone, Debug, Default)]
struct Warp {
    clock: u32,
    known: Clocks,
    /// What it knew at its last fence: what its strong writes publish.
    fenced: Clocks,
    /// What its strong reads have seen: what its next fence makes known.
    seen: Clocks,
}

/// The order of a launch so far.
#[derive(Debug)]
pub(crate) struct Order {
    warps: Vec<Warp>,
    /// By allocation and granule.
    cells: HashMap<(usize, u64), Cell>,
    granule_log2: u32,
}

impl Warp {
    /// What it knows, its own past included; what it does next is not part of it.
    fn tell(&mut self, own: u32) -> Clocks {
        self.clock += 1;
        let mut told = self.known.clone();
        told.0.insert(own, self.clock);
        told
    }
}

impl Touch {
    /// Whether it comes before what a warp that knows so much does.
    fn is_before(&self, known: &Clocks) -> bool {
        known.0.get(&self.by.warp).is_some_and(|clock| self.clock < *clock)
    }

    fn conflicts(&self, later: &Self, known: &Clocks, among_warps: bool) -> bool {
        let apart = self.by.block != later.by.block || among_warps && self.by.warp != later.by.warp;
        apart && !(self.strong && later.strong) && !self.is_before(known)
    }
}

impl Order {
    /// Nothing has happened, among so many warps.
    pub(crate) fn new(warps: usize, granule_log2: u32) -> Self {
        Self { warps: vec![Warp::default(); warps], cells: HashMap::new(), granule_log2 }
    }

    /// A fence of a scope wider than the block.
    pub(crate) fn fence(&mut self, warp: u32) {
        let Some(state) = self.warps.get_mut(warp as usize) else { return };
        let seen = std::mem::take(&mut state.seen);
        state.known.join(&seen);
        state.fenced = state.tell(warp);
    }

    /// What a warp knows now, its own past included, for others to learn.
    pub(crate) fn tell(&mut self, warp: u32) -> Clocks {
        self.warps.get_mut(warp as usize).map(|state| state.tell(warp)).unwrap_or_default()
    }

    /// A warp knows from now on what others have told.
    pub(crate) fn learn(&mut self, warp: u32, told: &Clocks) {
        if let Some(state) = self.warps.get_mut(warp as usize) {
            state.known.join(told);
        }
    }

    /// A barrier that these warps have met at.
    pub(crate) fn barrier(&mut self, warps: impl Iterator<Item = u32> + Clone) {
        let mut joined = Clocks::default();
        for warp in warps.clone() {
            if let Some(state) = self.warps.get_mut(warp as usize) {
                joined.join(&state.tell(warp));
            }
        }
        for warp in warps {
            if let Some(state) = self.warps.get_mut(warp as usize) {
                state.known.clone_from(&joined);
            }
        }
    }

    /// Notes an access; gives the first earlier one that is not ordered with it, and its byte offset.
    pub(crate) fn access(
        &mut self,
        by: Actor,
        manner: Manner,
        allocation: usize,
        offset: u64,
        bytes: u32,
    ) -> Option<(Touch, u64)> {
        let state = self.warps.get_mut(by.warp as usize)?;
        if manner.release {
            state.fenced = state.tell(by.warp);
        }
        let touch = Touch { by, kind: manner.kind, strong: manner.strong, clock: state.clock };
        let (writes, reads) = (manner.kind != AccessKind::Read, manner.kind != AccessKind::Write);
        let mut found = None;
        for granule in offset >> self.granule_log2..=(offset + u64::from(bytes) - 1) >> self.granule_log2 {
            let cell = self.cells.entry((allocation, granule)).or_default();
            if manner.strong && reads {
                // What is acquired orders this very access too.
                if manner.acquire { &mut state.known } else { &mut state.seen }.join(&cell.published);
            }
            let at = granule << self.granule_log2;
            let conflicts = |earlier: &&Touch| earlier.conflicts(&touch, &state.known, manner.among_warps);
            let earlier = cell.writer.iter().find(conflicts);
            let earlier =
                earlier.or_else(|| cell.readers.iter().find(|earlier| writes && conflicts(earlier)));
            found = found.or(earlier.map(|earlier| (*earlier, at)));
            if !writes {
                cell.readers.retain(|reader| reader.by.warp != by.warp);
                cell.readers.push(touch);
                continue;
            }
            cell.writer = Some(touch);
            cell.readers.clear();
            match (manner.strong, manner.kind) {
                (true, AccessKind::Atomic) => cell.published.join(&state.fenced),
                (true, _) => cell.published.clone_from(&state.fenced),
                (false, _) => cell.published.0.clear(),
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Manner =
        Manner { kind: AccessKind::Read, strong: false, acquire: false, release: false, among_warps: false };

    fn by(warp: u32) -> Actor {
        Actor { warp, block: warp / 2, thread: warp % 2 * 32, pc: 7 }
    }

    fn manner(kind: AccessKind, strong: bool) -> Manner {
        Manner { kind, strong, ..PLAIN }
    }

    /// Warp 0 writes data at 0 and a flag at 64; warp 2, of another block, reads the flag and then the data.
    fn message(publish: impl Fn(&mut Order), receive: impl Fn(&mut Order)) -> bool {
        let mut order = Order::new(4, 2);
        assert_eq!(order.access(by(0), manner(AccessKind::Write, false), 0, 0, 4), None);
        publish(&mut order);
        receive(&mut order);
        order.access(by(2), PLAIN, 0, 0, 4).is_none()
    }

    fn put(order: &mut Order, release: bool) {
        let manner = Manner { release, ..manner(AccessKind::Write, true) };
        assert_eq!(order.access(by(0), manner, 0, 64, 4), None);
    }

    fn take(order: &mut Order, acquire: bool) {
        let manner = Manner { acquire, ..manner(AccessKind::Read, true) };
        assert_eq!(order.access(by(2), manner, 0, 64, 4), None);
    }

    #[test]
    fn a_message_needs_a_release_and_an_acquire() {
        assert!(message(|order| put(order, true), |order| take(order, true)));
        let fence_put = |order: &mut Order| {
            order.fence(0);
            put(order, false);
        };
        let take_fence = |order: &mut Order| {
            take(order, false);
            order.fence(2);
        };
        assert!(message(fence_put, take_fence));
        assert!(message(fence_put, |order| take(order, true)));
        assert!(!message(|order| put(order, false), take_fence));
        assert!(!message(fence_put, |order| take(order, false)));
        // A fence before the flag is read makes nothing known.
        assert!(!message(fence_put, |order| {
            order.fence(2);
            take(order, false);
        }));
        // Nor does one that comes after the flag is written.
        assert!(!message(
            |order| {
                put(order, false);
                order.fence(0);
            },
            take_fence
        ));
    }

    #[test]
    fn barriers_pass_on_what_one_warp_of_a_block_knows() {
        let through = |first: bool, second: bool| {
            let mut order = Order::new(4, 2);
            order.access(by(1), manner(AccessKind::Write, false), 0, 0, 4);
            if first {
                order.barrier([0, 1].into_iter());
            }
            order.fence(0);
            put(&mut order, false);
            take(&mut order, true);
            if second {
                order.barrier([2, 3].into_iter());
            }
            order.access(by(3), PLAIN, 0, 0, 4).is_none()
        };
        assert!(through(true, true));
        assert!(!through(false, true) && !through(true, false));
    }

    #[test]
    fn an_atomic_of_others_keeps_what_was_published_and_a_store_does_not() {
        let with = |kind| {
            let between = |order: &mut Order| {
                order.fence(0);
                put(order, false);
                order.access(by(3), manner(kind, true), 0, 64, 4);
            };
            message(between, |order| take(order, true))
        };
        assert!(with(AccessKind::Atomic));
        assert!(!with(AccessKind::Write));
    }

    #[test]
    fn warps_of_a_block_are_compared_where_that_is_asked_for() {
        let among = Manner { among_warps: true, ..PLAIN };
        let write = Manner { kind: AccessKind::Write, ..among };
        let mut order = Order::new(4, 2);
        assert_eq!(order.access(by(0), write, 0, 0, 4), None);
        assert_eq!(order.access(by(0), among, 0, 0, 4), None, "the same warp");
        assert_eq!(order.access(by(1), PLAIN, 0, 0, 4), None, "not asked for");
        assert_eq!(order.access(by(1), among, 0, 0, 4).map(|(touch, _)| touch.by), Some(by(0)));
        order.barrier([0, 1].into_iter());
        assert_eq!(order.access(by(1), among, 0, 0, 4), None);
    }

    #[test]
    fn a_write_after_an_unordered_read_conflicts_too() {
        let mut order = Order::new(4, 2);
        assert_eq!(order.access(by(0), PLAIN, 0, 8, 8), None);
        assert_eq!(order.access(by(1), manner(AccessKind::Write, false), 0, 8, 4), None, "the same block");
        let mut order = Order::new(4, 2);
        order.access(by(0), PLAIN, 0, 8, 8);
        let (touch, offset) = order.access(by(2), manner(AccessKind::Write, false), 0, 12, 4).unwrap();
        assert_eq!((touch.by, touch.kind, offset), (by(0), AccessKind::Read, 12));
    }
}
