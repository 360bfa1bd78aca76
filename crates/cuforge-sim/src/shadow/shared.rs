//! Hazards in shared memory: happens-before by vector clocks over the warps of a block.
//!
//! Every warp has a clock and knows, of every other warp, up to which clock it is ordered before itself. Barriers
//! raise what a warp knows; `bar.warp.sync` of all lanes does so for the warp itself, one of some lanes for those
//! lanes. An earlier access is ordered before a later one if the same thread made it, or if its clock is below what
//! the later thread's warp, or the later lane, knows of its warp or lane.

use std::collections::HashMap;

/// Most warps of a block.
pub(crate) const MAX_WARPS: usize = 32;

const STRONG: u64 = 1 << 10;
const PC_SHIFT: u32 = 11;
const PC_MAX: u64 = (1 << 21) - 1;
const CLOCK_SHIFT: u32 = 32;

/// One access: clock, place in the code, strength and thread in one word; 0 is none.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Touch(u64);

impl Touch {
    #[inline(always)]
    fn new(thread: u32, pc: usize, strong: bool, clock: u32) -> Self {
        let pc = (pc as u64).min(PC_MAX);
        let strong = if strong { STRONG } else { 0 };
        Self(u64::from(clock) << CLOCK_SHIFT | pc << PC_SHIFT | strong | u64::from(thread))
    }

    /// Linear index of the thread in its block.
    #[inline(always)]
    pub(crate) fn thread(self) -> u32 {
        (self.0 & 0x3ff) as u32
    }

    /// Index of the instruction.
    pub(crate) fn pc(self) -> usize {
        (self.0 >> PC_SHIFT & PC_MAX) as usize
    }

    #[inline(always)]
    fn conflicts(self, later: Self, known: Known) -> bool {
        !self.is_ordered(later, known) && self.0 & later.0 & STRONG == 0
    }

    #[inline(always)]
    fn is_ordered(self, later: Self, known: Known) -> bool {
        let clock = (self.0 >> CLOCK_SHIFT) as u32;
        clock < known.warps[(self.thread() >> 5) as usize]
            || self.thread() == later.thread()
            || known.lanes.is_some_and(|lanes| {
                self.thread() >> 5 == later.thread() >> 5
                    && clock < lanes[(later.thread() & 31) as usize][(self.thread() & 31) as usize]
            })
    }
}

/// Of the lanes of one warp: `[a][b]` is the clock below which accesses of lane `b` are ordered before lane `a`.
type LaneClocks = [[u32; 32]; 32];

/// What a warp knows, and what its lanes know of each other, if they ever met without the others.
#[derive(Clone, Copy)]
struct Known<'a> {
    warps: &'a [u32; MAX_WARPS],
    lanes: Option<&'a LaneClocks>,
}

/// The last writer of a granule, and up to two different threads that read it since.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    writer: Touch,
    reader: Touch,
    second: Touch,
}

/// The shadow of one block's shared memory.
#[derive(Debug)]
pub(crate) struct SharedShadow {
    cells: Vec<Cell>,
    granule_log2: u32,
    clocks: [u32; MAX_WARPS],
    /// `known[w][v]`: accesses of warp `v` below this clock are ordered before what warp `w` does.
    known: Box<[[u32; MAX_WARPS]; MAX_WARPS]>,
    /// Clocks of lanes, for warps some lanes of which met alone.
    lanes: Vec<Option<Box<LaneClocks>>>,
    /// Where barriers of some warps only are possible: readers beyond the two of a cell. With barriers of the whole
    /// block alone, two are enough, as both are ordered before a later write or none is.
    others: Option<HashMap<usize, Vec<Touch>>>,
    /// Granules that copies beside the threads are about to write: nothing is ordered with those yet.
    in_flight: HashMap<usize, Touch>,
}

impl SharedShadow {
    /// A shadow for that many bytes, in granules of `2^granule_log2` bytes; `partial` if barriers may be of some warps
    /// only.
    pub(crate) fn new(bytes: usize, granule_log2: u32, partial: bool) -> Self {
        let mut shadow = Self {
            cells: vec![Cell::default(); bytes.div_ceil(1 << granule_log2)],
            granule_log2,
            clocks: [0; MAX_WARPS],
            known: Box::new([[0; MAX_WARPS]; MAX_WARPS]),
            lanes: vec![None; MAX_WARPS],
            others: partial.then(HashMap::new),
            in_flight: HashMap::new(),
        };
        shadow.start_block();
        shadow
    }

    /// Forgets all accesses.
    pub(crate) fn start_block(&mut self) {
        let latest = self.clocks.iter().copied().max().unwrap_or_default();
        let first = if latest > u32::MAX / 2 {
            self.cells.fill(Cell::default());
            1
        } else {
            latest + 1
        };
        self.lanes.fill(None);
        if let Some(others) = &mut self.others {
            others.clear();
        }
        self.in_flight.clear();
        self.clocks = [first; MAX_WARPS];
        *self.known = [[first; MAX_WARPS]; MAX_WARPS];
    }

    /// `bar.warp.sync` of the lanes `members`: orders their accesses so far before their later ones.
    pub(crate) fn warp_sync(&mut self, warp: usize, members: u32) {
        self.clocks[warp] += 1;
        if members == u32::MAX {
            self.known[warp][warp] = self.clocks[warp];
            return;
        }
        let clocks = self.lanes[warp].get_or_insert_with(|| Box::new([[0; 32]; 32]));
        let inside = || (0..32).filter(|lane| members >> lane & 1 != 0);
        let mut joined = [0; 32];
        for lane in inside() {
            for (join, clock) in joined.iter_mut().zip(&clocks[lane]) {
                *join = (*join).max(*clock);
            }
        }
        inside().for_each(|lane| joined[lane] = self.clocks[warp]);
        inside().for_each(|lane| clocks[lane] = joined);
    }

    /// A barrier that the warps `waiting` waited at, and that `arrived` (which did not wait) reached when their
    /// clocks were as given.
    pub(crate) fn barrier(&mut self, waiting: &[usize], arrived: &[(usize, u32)]) {
        let mut joined = [0; MAX_WARPS];
        for &warp in waiting.iter().chain(arrived.iter().map(|(warp, _)| warp)) {
            for (join, known) in joined.iter_mut().zip(&self.known[warp]) {
                *join = (*join).max(*known);
            }
        }
        for &warp in waiting {
            self.clocks[warp] += 1;
            joined[warp] = joined[warp].max(self.clocks[warp]);
        }
        for &(warp, clock) in arrived {
            joined[warp] = joined[warp].max(clock);
        }
        for &warp in waiting {
            self.known[warp] = joined;
        }
    }

    /// `bar.arrive`: the clock that a later waiter of the barrier is ordered after.
    pub(crate) fn arrive(&mut self, warp: usize) -> u32 {
        self.clocks[warp] += 1;
        self.clocks[warp]
    }

    /// Notes a read of `bytes` at `address`; gives the first unordered earlier write and its address.
    #[inline(always)]
    pub(crate) fn read(
        &mut self,
        address: u32,
        bytes: u32,
        thread: u32,
        pc: usize,
        strong: bool,
    ) -> Option<(Touch, u32)> {
        let warp = (thread >> 5) as usize;
        let touch = Touch::new(thread, pc, strong, self.clocks[warp]);
        let known = Known { warps: &self.known[warp], lanes: self.lanes[warp].as_deref() };
        let (first, last) = self.granules(address, bytes);
        if let Some(found) = self.in_flight(first, last) {
            return Some(found);
        }
        for (index, cell) in self.cells.get_mut(first..=last)?.iter_mut().enumerate() {
            if cell.writer.conflicts(touch, known) {
                return Some((cell.writer, ((first + index) << self.granule_log2) as u32));
            }
            if cell.reader.is_ordered(touch, known) {
                cell.reader = touch;
            } else if cell.second.is_ordered(touch, known) {
                cell.second = touch;
            } else if let Some(others) = &mut self.others {
                let list = others.entry(first + index).or_default();
                match list.iter_mut().find(|other| other.is_ordered(touch, known)) {
                    Some(other) => *other = touch,
                    None => list.push(touch),
                }
            }
        }
        None
    }

    /// First and last granule of an access.
    #[inline(always)]
    fn granules(&self, address: u32, bytes: u32) -> (usize, usize) {
        ((address >> self.granule_log2) as usize, ((address + bytes - 1) >> self.granule_log2) as usize)
    }

    /// The first of the granules that a copy is about to write.
    #[inline(always)]
    fn in_flight(&self, first: usize, last: usize) -> Option<(Touch, u32)> {
        if self.in_flight.is_empty() {
            return None;
        }
        let copied = |at: usize| Some((*self.in_flight.get(&at)?, (at << self.granule_log2) as u32));
        (first..=last).find_map(copied)
    }

    /// Notes the start of a copy beside the thread: it needs the order of a write before, and has none after.
    pub(crate) fn start_copy(
        &mut self,
        address: u32,
        bytes: u32,
        thread: u32,
        pc: usize,
    ) -> Option<(Touch, u32)> {
        let found = self.write(address, bytes, thread, pc, false);
        let touch = Touch::new(thread, pc, false, self.clocks[(thread >> 5) as usize]);
        let (first, last) = self.granules(address, bytes);
        self.in_flight.extend((first..=last).map(|at| (at, touch)));
        found
    }

    /// Notes that a thread has waited for a copy: its writes are now those of the thread.
    pub(crate) fn end_copy(&mut self, address: u32, bytes: u32, thread: u32, pc: usize) {
        let touch = Touch::new(thread, pc, false, self.clocks[(thread >> 5) as usize]);
        let (first, last) = self.granules(address, bytes);
        for at in first..=last {
            self.in_flight.remove(&at);
            if let Some(cell) = self.cells.get_mut(at) {
                *cell = Cell { writer: touch, ..Cell::default() };
            }
        }
    }

    /// Notes a write; gives the first unordered earlier access and its address.
    #[inline(always)]
    pub(crate) fn write(
        &mut self,
        address: u32,
        bytes: u32,
        thread: u32,
        pc: usize,
        strong: bool,
    ) -> Option<(Touch, u32)> {
        let warp = (thread >> 5) as usize;
        let touch = Touch::new(thread, pc, strong, self.clocks[warp]);
        let known = Known { warps: &self.known[warp], lanes: self.lanes[warp].as_deref() };
        let (first, last) = self.granules(address, bytes);
        if let Some(found) = self.in_flight(first, last) {
            return Some(found);
        }
        for (index, cell) in self.cells.get_mut(first..=last)?.iter_mut().enumerate() {
            let at = ((first + index) << self.granule_log2) as u32;
            for earlier in [cell.writer, cell.reader, cell.second] {
                if earlier.conflicts(touch, known) {
                    return Some((earlier, at));
                }
            }
            if let Some(others) = &mut self.others
                && let Some(list) = others.remove(&(first + index))
                && let Some(earlier) = list.into_iter().find(|other| other.conflicts(touch, known))
            {
                return Some((earlier, at));
            }
            *cell = Cell { writer: touch, ..Cell::default() };
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shadow() -> SharedShadow {
        SharedShadow::new(64, 2, true)
    }

    #[test]
    fn write_then_read_by_another_thread_is_a_hazard_unless_a_barrier_is_between() {
        let mut s = shadow();
        assert_eq!(s.write(8, 4, 0, 5, false), None);
        let (touch, address) = s.read(8, 4, 40, 6, false).unwrap();
        assert_eq!((touch.thread(), touch.pc(), address), (0, 5, 8));
        let mut s = shadow();
        s.write(8, 4, 0, 5, false);
        s.barrier(&[0, 1], &[]);
        assert_eq!(s.read(8, 4, 40, 6, false), None);
    }

    #[test]
    fn a_thread_never_races_with_itself() {
        let mut s = shadow();
        assert_eq!(s.write(0, 4, 7, 1, false), None);
        assert_eq!(s.read(0, 4, 7, 2, false), None);
        assert_eq!(s.write(0, 4, 7, 3, false), None);
    }

    #[test]
    fn a_write_sees_any_of_several_readers() {
        let mut s = shadow();
        for thread in 0..4 {
            assert_eq!(s.read(0, 4, thread, 1, false), None);
        }
        assert!(s.write(0, 4, 0, 2, false).is_some());
        let mut s = shadow();
        s.read(0, 4, 1, 1, false);
        assert_eq!(s.write(0, 4, 1, 2, false), None);
    }

    #[test]
    fn a_warp_barrier_orders_only_its_own_warp() {
        let mut s = shadow();
        s.write(0, 4, 0, 1, false);
        s.warp_sync(0, u32::MAX);
        assert_eq!(s.read(0, 4, 5, 2, false), None);
        assert!(s.read(0, 4, 40, 2, false).is_some());
    }

    #[test]
    fn atomics_do_not_race_with_each_other_but_with_plain_accesses() {
        let mut s = shadow();
        assert_eq!(s.write(0, 4, 0, 1, true), None);
        assert_eq!(s.write(0, 4, 33, 1, true), None);
        assert!(s.read(0, 4, 0, 2, false).is_some());
    }

    #[test]
    fn a_barrier_of_some_warps_orders_only_those() {
        let mut s = shadow();
        s.write(0, 4, 0, 1, false);
        s.barrier(&[0, 1], &[]);
        assert_eq!(s.read(0, 4, 32, 2, false), None);
        assert!(s.read(0, 4, 64, 2, false).is_some());
    }

    #[test]
    fn arriving_orders_the_past_of_the_arriving_warp_only() {
        let mut s = shadow();
        s.write(0, 4, 0, 1, false);
        let clock = s.arrive(0);
        s.write(4, 4, 0, 2, false);
        s.barrier(&[1], &[(0, clock)]);
        assert_eq!(s.read(0, 4, 32, 3, false), None);
        assert!(s.read(4, 4, 32, 3, false).is_some());
    }

    #[test]
    fn a_new_block_starts_without_a_past() {
        let mut s = shadow();
        s.write(0, 4, 0, 1, false);
        s.start_block();
        assert_eq!(s.write(0, 4, 100, 1, false), None);
    }

    #[test]
    fn a_copy_is_ordered_with_nobody_until_its_thread_has_waited() {
        let mut s = shadow();
        assert_eq!(s.start_copy(0, 16, 3, 5), None);
        s.barrier(&[0, 1], &[]);
        // Neither a barrier nor being the same thread helps.
        assert_eq!(s.read(4, 4, 3, 6, false).unwrap().1, 4);
        assert!(s.write(12, 4, 40, 6, false).is_some());
        assert_eq!(s.read(16, 4, 3, 6, false), None);
        s.end_copy(0, 16, 3, 5);
        assert_eq!(s.read(4, 4, 3, 6, false), None);
        assert!(s.read(4, 4, 40, 6, false).is_some());
        s.barrier(&[0, 1], &[]);
        assert_eq!(s.read(8, 4, 40, 6, false), None);
    }

    #[test]
    fn neighbouring_bytes_are_apart_in_byte_granules() {
        let mut s = SharedShadow::new(16, 0, false);
        assert_eq!(s.write(0, 1, 0, 1, false), None);
        assert_eq!(s.write(1, 1, 1, 1, false), None);
        assert_eq!(s.read(0, 4, 0, 2, false).unwrap().1, 1);
    }
}
