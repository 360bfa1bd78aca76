//! Hazards in global memory inside one block: unordered accesses of its threads.
//!
//! A block touches little of global memory, so granules are kept in pages that are made when they are first touched, and
//! used again by the next block.

use std::collections::HashMap;

use crate::shadow::clocks::{Cell, Clocks, Read, Readers, Touch};

/// Granules of a page.
const PAGE_LOG2: u32 = 9;

/// A page's allocation, and its number there.
type Piece = (u32, u32);

/// The shadow of what one block touches of global memory.
#[derive(Debug)]
pub(crate) struct OwnShadow {
    pages: Vec<Box<[Cell]>>,
    /// Which page stands for which piece of memory.
    places: HashMap<Piece, usize>,
    /// The last one that was used.
    last: Option<(Piece, usize)>,
    granule_log2: u32,
    /// Readers beyond the two of a cell, where barriers of some warps only are possible.
    others: Option<HashMap<(u32, u64), Readers>>,
}

/// Where an access lies, and how it is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    pub(crate) allocation: usize,
    pub(crate) offset: u64,
    pub(crate) bytes: u32,
    pub(crate) thread: u32,
    pub(crate) pc: usize,
    pub(crate) strong: bool,
}

impl OwnShadow {
    /// A shadow in granules of `2^granule_log2` bytes; `partial` if barriers may be of some warps only.
    pub(crate) fn new(granule_log2: u32, partial: bool) -> Self {
        Self {
            pages: Vec::new(),
            places: HashMap::new(),
            last: None,
            granule_log2,
            others: partial.then(HashMap::new),
        }
    }

    /// Starts a block, with cells made anew if its clocks have been.
    pub(crate) fn start_block(&mut self, anew: bool) {
        // Cells of blocks before are ordered before all of this one.
        self.places.clear();
        self.last = None;
        if let Some(others) = &mut self.others {
            others.clear();
        }
        if anew {
            self.pages.clear();
        }
    }

    /// The page of a piece of memory.
    #[inline(always)]
    fn page(&mut self, piece: Piece) -> usize {
        match self.last {
            Some((last, page)) if last == piece => page,
            _ => self.find_page(piece),
        }
    }

    fn find_page(&mut self, piece: Piece) -> usize {
        let next = self.places.len();
        let page = *self.places.entry(piece).or_insert(next);
        if page == self.pages.len() {
            self.pages.push(vec![Cell::default(); 1 << PAGE_LOG2].into_boxed_slice());
        }
        self.last = Some((piece, page));
        page
    }

    /// Notes a read or a write; gives the first earlier access that is not ordered before it, and its byte offset.
    #[inline(always)]
    pub(crate) fn touch(&mut self, clocks: &Clocks, spot: Spot, writes: bool) -> Option<(Touch, u64)> {
        let (touch, known) = clocks.now(spot.thread, spot.pc, spot.strong);
        let first = spot.offset >> self.granule_log2;
        let last = (spot.offset + u64::from(spot.bytes) - 1) >> self.granule_log2;
        for granule in first..=last {
            let allocation = spot.allocation as u32;
            let page = self.page((allocation, (granule >> PAGE_LOG2) as u32));
            let cell = &mut self.pages[page][(granule & ((1 << PAGE_LOG2) - 1)) as usize];
            let found = if writes {
                let before = self.others.as_mut().and_then(|others| others.remove(&(allocation, granule)));
                let before = before.and_then(|readers| readers.conflict(touch, known));
                cell.write(touch, known).or(before)
            } else {
                match cell.read(touch, known) {
                    Read::Noted => None,
                    Read::Conflict(writer) => Some(writer),
                    Read::Full(touch) => {
                        if let Some(others) = &mut self.others {
                            others.entry((allocation, granule)).or_default().add(touch, known);
                        }
                        None
                    }
                }
            };
            if let Some(earlier) = found {
                return Some((earlier, granule << self.granule_log2));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spot(allocation: usize, offset: u64, thread: u32) -> Spot {
        Spot { allocation, offset, bytes: 4, thread, pc: 1, strong: false }
    }

    #[test]
    fn threads_of_a_block_conflict_unless_a_barrier_is_between() {
        let (mut clocks, mut own) = (Clocks::new(), OwnShadow::new(2, false));
        assert_eq!(own.touch(&clocks, spot(1, 1 << 20, 3), true), None);
        assert_eq!(own.touch(&clocks, spot(0, 1 << 20, 4), false), None, "another allocation");
        let (touch, offset) = own.touch(&clocks, spot(1, 1 << 20, 4), false).unwrap();
        assert_eq!((touch.thread(), offset), (3, 1 << 20));
        clocks.barrier(&[0, 1], &[]);
        assert_eq!(own.touch(&clocks, spot(1, 1 << 20, 40), false), None);
        assert_eq!(own.touch(&clocks, spot(1, 1 << 20, 4), false), None);
        assert_eq!(own.touch(&clocks, spot(1, 1 << 20, 3), true).unwrap().0.thread(), 40);
    }

    #[test]
    fn strong_accesses_do_not_conflict_with_each_other() {
        let (clocks, mut own) = (Clocks::new(), OwnShadow::new(0, false));
        let strong = |thread| Spot { strong: true, ..spot(0, 8, thread) };
        assert_eq!(own.touch(&clocks, strong(1), true), None);
        assert_eq!(own.touch(&clocks, strong(2), true), None);
        assert!(own.touch(&clocks, spot(0, 11, 3), false).is_some());
    }

    #[test]
    fn the_next_block_uses_the_pages_of_the_last_and_knows_nothing_of_it() {
        let (mut clocks, mut own) = (Clocks::new(), OwnShadow::new(2, false));
        for block in 0..5 {
            let anew = clocks.start_block();
            own.start_block(anew);
            for page in 0..3 {
                assert_eq!(own.touch(&clocks, spot(block, page << 20, 3), true), None);
            }
            assert_eq!(own.pages.len(), 3);
        }
    }
}
