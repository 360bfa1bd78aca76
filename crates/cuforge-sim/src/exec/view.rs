//! Global memory as a running kernel sees it: valid ranges, and the words behind them.

use std::sync::atomic::{AtomicU8, AtomicU32};

use crate::fault::Nearest;
use crate::lanes::{FULL, L64, Mask, lanes_of};
use crate::memory::{Allocation, Memory};
use crate::touched::Touched;

/// A range that accesses must lie in.
#[derive(Clone, Copy, Debug)]
struct Region {
    start: u64,
    end: u64,
    allocation: u32,
}

/// All valid ranges, lowest first.
#[derive(Debug)]
pub(crate) struct GlobalView<'m> {
    memory: &'m Memory,
    allocations: Vec<&'m Allocation>,
    /// The words of each allocation, looked up once.
    words: Vec<&'m [AtomicU32]>,
    touched: Option<&'m [Touched]>,
    regions: Vec<Region>,
}

/// Where the lanes of an access lie.
pub(crate) enum Located {
    /// All in this allocation.
    One(usize),
    /// Each in its own.
    Each(Box<[usize; 32]>),
}

impl Located {
    /// The allocation that a lane's access lies in.
    #[inline(always)]
    pub(crate) fn allocation(&self, lane: usize) -> usize {
        match self {
            Self::One(allocation) => *allocation,
            Self::Each(each) => each[lane],
        }
    }
}

impl<'m> GlobalView<'m> {
    /// The view of a memory as its allocations and marks are now.
    pub(crate) fn new(memory: &'m Memory) -> Self {
        let allocations: Vec<_> = memory.allocations().collect();
        let mut regions = Vec::new();
        for (index, allocation) in allocations.iter().enumerate() {
            let index = index as u32;
            let base = allocation.base;
            if allocation.marks.is_empty() {
                regions.push(Region { start: base, end: base + allocation.len, allocation: index });
            }
            let marks = allocation.marks.keys().filter(|(_, len)| *len > 0);
            regions.extend(marks.map(|(start, len)| Region {
                start: *start,
                end: start + len,
                allocation: index,
            }));
        }
        let words = allocations.iter().map(|allocation| &*allocation.words).collect();
        let touched = memory
            .log()
            .map(|log| log.over(allocations.iter().map(|allocation| (allocation.base, allocation.len))));
        Self { memory, allocations, words, touched, regions }
    }

    /// Sizes of the allocations in bytes, in order.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = u64> {
        self.allocations.iter().map(|allocation| allocation.len)
    }

    /// First address of an allocation.
    #[inline(always)]
    pub(crate) fn base(&self, allocation: usize) -> u64 {
        self.allocations[allocation].base
    }

    /// Whether accesses are noted for others.
    #[inline(always)]
    pub(crate) fn is_watched(&self) -> bool {
        self.touched.is_some()
    }

    /// Where accesses to an allocation are noted for others, if they are.
    #[inline(always)]
    pub(crate) fn touched(&self, allocation: usize) -> Option<&Touched> {
        self.touched.and_then(|touched| touched.get(allocation))
    }

    /// The words of an allocation.
    #[inline(always)]
    pub(crate) fn words(&self, allocation: usize) -> &'m [AtomicU32] {
        self.words[allocation]
    }

    /// Which bytes of an allocation are written; absent if all are.
    #[inline(always)]
    pub(crate) fn known(&self, allocation: usize) -> Option<&'m [AtomicU8]> {
        self.allocations[allocation].known()
    }

    /// Finds the allocations of the lanes' accesses, or the lowest lane that is out of bounds.
    ///
    /// `hint` is the range that the last access of this kind was in.
    #[inline(always)]
    pub(crate) fn locate(
        &self,
        mask: Mask,
        address: &L64,
        bytes: u32,
        hint: &mut u32,
    ) -> Result<Located, usize> {
        let (low, high) = extent(mask, address);
        if let Some(region) = self.regions.get(*hint as usize)
            && low >= region.start
            && high <= region.end.saturating_sub(u64::from(bytes))
        {
            return Ok(Located::One(region.allocation as usize));
        }
        self.locate_anew(mask, address, bytes, hint)
    }

    #[cold]
    fn locate_anew(&self, mask: Mask, address: &L64, bytes: u32, hint: &mut u32) -> Result<Located, usize> {
        let mut each = [0; 32];
        let mut all = None;
        let mut same = true;
        for lane in lanes_of(mask) {
            let region = self.find(address[lane], bytes).ok_or(lane)?;
            *hint = region as u32;
            each[lane] = self.regions[region].allocation as usize;
            same &= *all.get_or_insert(each[lane]) == each[lane];
        }
        match all {
            Some(allocation) if same => Ok(Located::One(allocation)),
            _ => Ok(Located::Each(Box::new(each))),
        }
    }

    fn find(&self, address: u64, bytes: u32) -> Option<usize> {
        let end = address.checked_add(u64::from(bytes))?;
        let after = self.regions.partition_point(|region| region.start <= address);
        let near = after.checked_sub(1)?;
        let allocation = self.regions[near].allocation;
        // Marks may overlap: an earlier one of the same allocation may reach further.
        (0..=near)
            .rev()
            .take_while(|index| self.regions[*index].allocation == allocation)
            .find(|index| end <= self.regions[*index].end)
    }

    /// What lies closest to a wrong address.
    pub(crate) fn nearest(&self, address: u64) -> Nearest {
        if let Some((start, len)) = self.memory.freed_around(address) {
            return Nearest::Freed { start, len };
        }
        let after = self.regions.partition_point(|region| region.start <= address);
        let below = after.checked_sub(1).map(|index| self.regions[index]);
        let above = self.regions.get(after).copied();
        let closest = match (below, above) {
            (Some(below), Some(above)) if above.start - address < address.saturating_sub(below.end) => above,
            (Some(region), _) | (None, Some(region)) => region,
            (None, None) => return Nearest::Nothing,
        };
        Nearest::Range { start: closest.start, len: closest.end - closest.start }
    }
}

/// Lowest and highest address of the lanes.
#[inline(always)]
fn extent(mask: Mask, address: &L64) -> (u64, u64) {
    let mut low = u64::MAX;
    let mut high = 0;
    if mask == FULL {
        for &address in address {
            low = low.min(address);
            high = high.max(address);
        }
    } else {
        for lane in lanes_of(mask) {
            low = low.min(address[lane]);
            high = high.max(address[lane]);
        }
    }
    (low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lanes(first: u64, step: u64) -> L64 {
        std::array::from_fn(|lane| first + lane as u64 * step)
    }

    #[test]
    fn lanes_inside_one_allocation_are_found_and_remembered() {
        let mut memory = Memory::new(4096);
        memory.allocate(64, 1).unwrap();
        let second = memory.allocate(128, 1).unwrap();
        let view = GlobalView::new(&memory);
        let mut hint = 0;
        for _ in 0..2 {
            let located = view.locate(FULL, &lanes(second, 4), 4, &mut hint);
            assert!(matches!(located, Ok(Located::One(1))));
            assert_eq!(hint, 1);
        }
        assert_eq!(view.locate(FULL, &lanes(second + 4, 4), 4, &mut hint).err(), Some(31));
        assert_eq!(view.locate(1, &lanes(second + 125, 0), 4, &mut hint).err(), Some(0));
        assert!(view.locate(FULL, &lanes(u64::MAX - 200, 4), 4, &mut hint).is_err());
    }

    #[test]
    fn an_access_must_lie_in_one_mark_once_there_is_one() {
        let mut memory = Memory::new(4096);
        let base = memory.allocate(256, 1).unwrap();
        memory.mark(base, 16).unwrap();
        memory.mark(base + 16, 16).unwrap();
        memory.mark(base + 4, 100).unwrap();
        let view = GlobalView::new(&memory);
        let mut hint = 0;
        assert!(view.locate(1, &lanes(base, 0), 16, &mut hint).is_ok());
        assert!(view.locate(1, &lanes(base, 0), 17, &mut hint).is_err());
        // Inside the long mark that starts before the nearer one.
        assert!(view.locate(1, &lanes(base + 20, 0), 40, &mut hint).is_ok());
        assert!(view.locate(1, &lanes(base + 104, 0), 4, &mut hint).is_err());
    }

    #[test]
    fn lanes_in_different_allocations_are_told_apart() {
        let mut memory = Memory::new(4096);
        let first = memory.allocate(64, 1).unwrap();
        let second = memory.allocate(64, 1).unwrap();
        let view = GlobalView::new(&memory);
        let mut address = [first; 32];
        address[3] = second;
        let Ok(Located::Each(each)) = view.locate(FULL, &address, 4, &mut 0) else {
            panic!("one allocation")
        };
        assert_eq!((each[2], each[3]), (0, 1));
    }

    #[test]
    fn a_wrong_address_names_what_is_near() {
        let mut memory = Memory::new(4096);
        let first = memory.allocate(64, 1).unwrap();
        let second = memory.allocate(64, 1).unwrap();
        memory.free(second).unwrap();
        let view = GlobalView::new(&memory);
        assert_eq!(view.nearest(first + 64), Nearest::Range { start: first, len: 64 });
        assert_eq!(view.nearest(second + 1), Nearest::Freed { start: second, len: 64 });
    }
}
