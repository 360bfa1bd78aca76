//! Hazards in shared memory: unordered accesses of the threads of a block.

use std::collections::HashMap;

use crate::shadow::clocks::{Cell, Clocks, Read, Readers, Touch};

/// The shadow of one block's shared memory.
#[derive(Debug)]
pub(crate) struct SharedShadow {
    cells: Vec<Cell>,
    granule_log2: u32,
    /// Where barriers of some warps only are possible: readers beyond the two of a cell. With barriers of the whole
    /// block alone, two are enough, as both are ordered before a later write or none is.
    others: Option<HashMap<usize, Readers>>,
    /// Granules that copies beside the threads are about to write: nothing is ordered with those yet.
    in_flight: HashMap<usize, Touch>,
    /// Granules that such copies are still reading: no write is ordered with those yet.
    in_reading: HashMap<usize, Touch>,
}

impl SharedShadow {
    /// A shadow for that many bytes, in granules of `2^granule_log2` bytes; `partial` if barriers may be of some warps
    /// only.
    pub(crate) fn new(bytes: usize, granule_log2: u32, partial: bool) -> Self {
        Self {
            cells: vec![Cell::default(); bytes.div_ceil(1 << granule_log2)],
            granule_log2,
            others: partial.then(HashMap::new),
            in_flight: HashMap::new(),
            in_reading: HashMap::new(),
        }
    }

    /// Starts a block, with cells made anew if its clocks have been.
    pub(crate) fn start_block(&mut self, anew: bool) {
        if anew {
            self.cells.fill(Cell::default());
        }
        if let Some(others) = &mut self.others {
            others.clear();
        }
        self.in_flight.clear();
        self.in_reading.clear();
    }

    /// Notes a read of `bytes` at `address`; gives the first unordered earlier write and its address.
    #[inline(always)]
    pub(crate) fn read(
        &mut self,
        clocks: &Clocks,
        address: u32,
        bytes: u32,
        thread: u32,
        pc: usize,
        strong: bool,
    ) -> Option<(Touch, u32)> {
        let (touch, known) = clocks.now(thread, pc, strong);
        let (first, last) = self.granules(address, bytes);
        if let Some(found) = flying(&self.in_flight, first, last) {
            return Some((found.0, (found.1 << self.granule_log2) as u32));
        }
        for (index, cell) in self.cells.get_mut(first..=last)?.iter_mut().enumerate() {
            match cell.read(touch, known) {
                Read::Noted => {}
                Read::Conflict(writer) => {
                    return Some((writer, ((first + index) << self.granule_log2) as u32));
                }
                Read::Full(touch) => {
                    if let Some(others) = &mut self.others {
                        others.entry(first + index).or_default().add(touch, known);
                    }
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

    /// Notes the start of a copy beside the thread: it needs the order of a write before, and has none after.
    pub(crate) fn start_copy(
        &mut self,
        clocks: &Clocks,
        address: u32,
        bytes: u32,
        thread: u32,
        pc: usize,
    ) -> Option<(Touch, u32)> {
        let found = self.write(clocks, address, bytes, thread, pc, false);
        let (touch, _) = clocks.now(thread, pc, false);
        let (first, last) = self.granules(address, bytes);
        self.in_flight.extend((first..=last).map(|at| (at, touch)));
        found
    }

    /// Notes that a thread has waited for a copy: its writes are now those of the thread.
    pub(crate) fn end_copy(&mut self, clocks: &Clocks, address: u32, bytes: u32, thread: u32, pc: usize) {
        let (touch, _) = clocks.now(thread, pc, false);
        let (first, last) = self.granules(address, bytes);
        for at in first..=last {
            self.in_flight.remove(&at);
            if let Some(cell) = self.cells.get_mut(at) {
                *cell = Cell::written(touch);
            }
        }
    }

    /// Notes the start of a copy out of shared memory: it needs the order of a read before, and no write has one after.
    pub(crate) fn start_reading(
        &mut self,
        clocks: &Clocks,
        address: u32,
        bytes: u32,
        thread: u32,
        pc: usize,
    ) -> Option<(Touch, u32)> {
        let found = self.read(clocks, address, bytes, thread, pc, false);
        let (touch, _) = clocks.now(thread, pc, false);
        let (first, last) = self.granules(address, bytes);
        self.in_reading.extend((first..=last).map(|at| (at, touch)));
        found
    }

    /// Notes that a thread has waited for such a copy to have read: its reads are now those of the thread.
    pub(crate) fn end_reading(&mut self, clocks: &Clocks, address: u32, bytes: u32, thread: u32, pc: usize) {
        let (first, last) = self.granules(address, bytes);
        (first..=last).for_each(|at| {
            self.in_reading.remove(&at);
        });
        self.read(clocks, address, bytes, thread, pc, false);
    }

    /// Notes a write; gives the first unordered earlier access and its address.
    #[inline(always)]
    pub(crate) fn write(
        &mut self,
        clocks: &Clocks,
        address: u32,
        bytes: u32,
        thread: u32,
        pc: usize,
        strong: bool,
    ) -> Option<(Touch, u32)> {
        let (touch, known) = clocks.now(thread, pc, strong);
        let (first, last) = self.granules(address, bytes);
        let in_use = flying(&self.in_flight, first, last).or_else(|| flying(&self.in_reading, first, last));
        if let Some(found) = in_use {
            return Some((found.0, (found.1 << self.granule_log2) as u32));
        }
        for (index, cell) in self.cells.get_mut(first..=last)?.iter_mut().enumerate() {
            let at = ((first + index) << self.granule_log2) as u32;
            if let Some(earlier) = cell.write(touch, known) {
                return Some((earlier, at));
            }
            if let Some(others) = &mut self.others
                && let Some(list) = others.remove(&(first + index))
                && let Some(earlier) = list.conflict(touch, known)
            {
                return Some((earlier, at));
            }
        }
        None
    }
}

/// The first of the granules that a copy uses.
#[inline(always)]
fn flying(copies: &HashMap<usize, Touch>, first: usize, last: usize) -> Option<(Touch, usize)> {
    if copies.is_empty() {
        return None;
    }
    (first..=last).find_map(|at| Some((*copies.get(&at)?, at)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shadow::clocks::Published;

    /// A shadow with the clocks of its block.
    struct Block {
        clocks: Clocks,
        cells: SharedShadow,
    }

    type Found = Option<(Touch, u32)>;

    impl Block {
        fn new(bytes: usize, granule_log2: u32, partial: bool) -> Self {
            Self { clocks: Clocks::new(), cells: SharedShadow::new(bytes, granule_log2, partial) }
        }

        fn read(&mut self, address: u32, bytes: u32, thread: u32, pc: usize, strong: bool) -> Found {
            self.cells.read(&self.clocks, address, bytes, thread, pc, strong)
        }

        fn write(&mut self, address: u32, bytes: u32, thread: u32, pc: usize, strong: bool) -> Found {
            self.cells.write(&self.clocks, address, bytes, thread, pc, strong)
        }

        fn start_copy(&mut self, address: u32, bytes: u32, thread: u32, pc: usize) -> Found {
            self.cells.start_copy(&self.clocks, address, bytes, thread, pc)
        }

        fn end_copy(&mut self, address: u32, bytes: u32, thread: u32, pc: usize) {
            self.cells.end_copy(&self.clocks, address, bytes, thread, pc);
        }

        fn start_block(&mut self) {
            let anew = self.clocks.start_block();
            self.cells.start_block(anew);
        }
    }

    fn shadow() -> Block {
        Block::new(64, 2, true)
    }

    #[test]
    fn write_then_read_by_another_thread_is_a_hazard_unless_a_barrier_is_between() {
        let mut s = shadow();
        assert_eq!(s.write(8, 4, 0, 5, false), None);
        let (touch, address) = s.read(8, 4, 40, 6, false).unwrap();
        assert_eq!((touch.thread(), touch.pc(), address), (0, 5, 8));
        let mut s = shadow();
        s.write(8, 4, 0, 5, false);
        s.clocks.barrier(&[0, 1], &[]);
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
        s.clocks.warp_sync(0, u32::MAX);
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
    fn an_atomic_of_the_writer_itself_does_not_hide_its_plain_write() {
        let mut s = shadow();
        assert_eq!(s.write(0, 4, 0, 1, false), None);
        assert_eq!(s.write(0, 4, 0, 2, true), None);
        assert_eq!(s.write(0, 4, 1, 2, true).map(|(touch, _)| touch.pc()), Some(1));
        // With a barrier between the two it is over.
        let mut s = shadow();
        s.write(0, 4, 0, 1, false);
        s.clocks.barrier(&[0, 1], &[]);
        assert_eq!(s.write(0, 4, 0, 2, true).or(s.write(0, 4, 1, 2, true)), None);
    }

    #[test]
    fn a_barrier_of_some_warps_orders_only_those() {
        let mut s = shadow();
        s.write(0, 4, 0, 1, false);
        s.clocks.barrier(&[0, 1], &[]);
        assert_eq!(s.read(0, 4, 32, 2, false), None);
        assert!(s.read(0, 4, 64, 2, false).is_some());
    }

    #[test]
    fn arriving_orders_the_past_of_the_arriving_warp_only() {
        let mut s = shadow();
        s.write(0, 4, 0, 1, false);
        let clock = s.clocks.arrive(0);
        s.write(4, 4, 0, 2, false);
        s.clocks.barrier(&[1], &[(0, clock)]);
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
        s.clocks.barrier(&[0, 1], &[]);
        // Neither a barrier nor being the same thread helps.
        assert_eq!(s.read(4, 4, 3, 6, false).unwrap().1, 4);
        assert!(s.write(12, 4, 40, 6, false).is_some());
        assert_eq!(s.read(16, 4, 3, 6, false), None);
        s.end_copy(0, 16, 3, 5);
        assert_eq!(s.read(4, 4, 3, 6, false), None);
        assert!(s.read(4, 4, 40, 6, false).is_some());
        s.clocks.barrier(&[0, 1], &[]);
        assert_eq!(s.read(8, 4, 40, 6, false), None);
    }

    #[test]
    fn neighbouring_bytes_are_apart_in_byte_granules() {
        let mut s = Block::new(16, 0, false);
        assert_eq!(s.write(0, 1, 0, 1, false), None);
        assert_eq!(s.write(1, 1, 1, 1, false), None);
        assert_eq!(s.read(0, 4, 0, 2, false).unwrap().1, 1);
    }

    #[test]
    fn what_is_published_orders_only_those_who_learn_it() {
        let mut s = shadow();
        s.write(0, 4, 0, 1, false);
        let mut published = Published::default();
        s.clocks.publish(0, u32::MAX, u32::MAX, &mut published);
        s.write(4, 4, 0, 2, false);
        assert!(s.read(0, 4, 64, 3, false).is_some());
        s.clocks.learn(1, &published);
        assert_eq!(s.read(0, 4, 32, 3, false), None);
        assert!(s.read(4, 4, 32, 3, false).is_some(), "written after it was published");
        // What the learner knows goes on with a barrier of its own.
        s.clocks.barrier(&[1, 2], &[]);
        assert_eq!(s.read(0, 4, 64, 3, false), None);
    }

    #[test]
    fn one_lane_publishes_what_it_did_and_not_what_its_neighbours_did() {
        let mut s = shadow();
        s.write(0, 4, 0, 1, false);
        s.write(4, 4, 1, 1, false);
        let mut published = Published::default();
        s.clocks.publish(0, 1, u32::MAX, &mut published);
        s.clocks.learn(1, &published);
        assert_eq!(s.read(0, 4, 32, 2, false), None);
        assert!(s.read(4, 4, 32, 2, false).is_some());
    }

    #[test]
    fn what_a_copy_reads_is_not_written_before_its_thread_has_waited() {
        let mut s = shadow();
        assert_eq!(s.cells.start_reading(&s.clocks, 0, 16, 3, 5), None);
        s.clocks.barrier(&[0, 1], &[]);
        assert_eq!(s.read(4, 4, 40, 6, false), None);
        assert!(s.write(4, 4, 3, 6, false).is_some() && s.write(12, 4, 40, 6, false).is_some());
        s.cells.end_reading(&s.clocks, 0, 16, 3, 5);
        assert_eq!(s.write(4, 4, 3, 6, false).map(|(touch, _)| touch.thread()), Some(40), "the reader's");
        assert!(s.write(8, 4, 40, 6, false).is_some());
        s.clocks.barrier(&[0, 1], &[]);
        assert_eq!(s.write(8, 4, 40, 6, false), None);
    }
}
