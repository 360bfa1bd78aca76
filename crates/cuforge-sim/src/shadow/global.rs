//! Conflicts between blocks in global memory.
//!
//! Of every granule the shadow keeps the two lowest different blocks that wrote it and the two lowest that read it,
//! each with the place in the code. Keeping the lowest is commutative and idempotent, so what remains after the
//! launch does not depend on the order in which host threads ran the blocks.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Granules in one lazily made piece of shadow.
const CHUNK_LOG2: u32 = 10;

/// `!(block << site_bits | site)`, so that 0 is none and the largest is the lowest block.
type Entry = AtomicU32;

/// Lowest and second lowest writing block, lowest and second lowest reading block.
#[derive(Debug, Default)]
struct Cell([Entry; 4]);

type Chunk = OnceLock<Box<[Cell]>>;

/// The shadow of all allocations during one launch.
#[derive(Debug)]
pub(crate) struct GlobalShadow {
    allocations: Vec<Vec<Chunk>>,
    granule_log2: u32,
    site_bits: u32,
}

/// A block's access to a conflicting granule.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Toucher {
    /// Linear index of the block.
    pub(crate) block: u32,
    /// Site number of the access; absent if the launch has too many blocks to keep it.
    pub(crate) site: Option<u32>,
    /// Whether it wrote.
    pub(crate) wrote: bool,
}

/// The lowest conflict.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Conflict {
    /// Index of the allocation.
    pub(crate) allocation: usize,
    /// Byte offset in it.
    pub(crate) offset: u64,
    /// The lowest writer.
    pub(crate) writer: Toucher,
    /// Another block that reads or writes.
    pub(crate) other: Toucher,
}

impl GlobalShadow {
    /// A shadow over allocations of these sizes in bytes, for a launch of `blocks` blocks of a kernel with `sites`
    /// global accesses.
    pub(crate) fn new(
        sizes: impl Iterator<Item = u64>,
        granule_log2: u32,
        blocks: u32,
        sites: usize,
    ) -> Self {
        let wanted = usize::BITS - sites.leading_zeros();
        let room = blocks.leading_zeros();
        let chunks = |bytes: u64| {
            let count = bytes.div_ceil(1 << (granule_log2 + CHUNK_LOG2));
            (0..count).map(|_| Chunk::new()).collect()
        };
        Self {
            allocations: sizes.map(chunks).collect(),
            granule_log2,
            site_bits: if wanted <= room { wanted } else { 0 },
        }
    }

    /// Notes that a block touched bytes of an allocation.
    #[inline(always)]
    pub(crate) fn touch(
        &self,
        allocation: usize,
        offset: u64,
        bytes: u32,
        block: u32,
        site: u32,
        wrote: bool,
    ) {
        let key = if self.site_bits == 0 { block } else { block << self.site_bits | site };
        let entry = !key;
        let first = offset >> self.granule_log2;
        let last = (offset + u64::from(bytes) - 1) >> self.granule_log2;
        let Some(chunks) = self.allocations.get(allocation) else { return };
        for granule in first..=last {
            let Some(chunk) = chunks.get((granule >> CHUNK_LOG2) as usize) else { return };
            let cells = chunk.get_or_init(|| (0..1 << CHUNK_LOG2).map(|_| Cell::default()).collect());
            let [w1, w2, r1, r2] = &cells[(granule & ((1 << CHUNK_LOG2) - 1)) as usize].0;
            let (lowest, second) = if wrote { (w1, w2) } else { (r1, r2) };
            self.insert(lowest, second, entry);
        }
    }

    #[inline(always)]
    fn insert(&self, lowest: &Entry, second: &Entry, entry: u32) {
        let known = lowest.load(Relaxed);
        let same_block = (known ^ entry) >> self.site_bits == 0 && known != 0;
        if entry <= known && (same_block || entry <= second.load(Relaxed)) {
            return;
        }
        let before = lowest.fetch_max(entry, Relaxed);
        let loser = before.min(entry);
        // What does not stay lowest competes for second, unless its own block is the lowest.
        if loser != 0 && (before ^ entry) >> self.site_bits != 0 {
            second.fetch_max(loser, Relaxed);
        }
    }

    /// The conflict at the lowest address; `strong` is the shadow of what atomics and other strong accesses write,
    /// which conflicts with plain accesses and not with itself.
    pub(crate) fn first_conflict(&self, strong: Option<&Self>) -> Option<Conflict> {
        for (allocation, chunks) in self.allocations.iter().enumerate() {
            for (number, chunk) in chunks.iter().enumerate() {
                let Some(cells) = chunk.get() else { continue };
                let strong = strong.and_then(|shadow| shadow.allocations.get(allocation)?.get(number)?.get());
                for (index, cell) in cells.iter().enumerate() {
                    if let Some((writer, other)) = self.judge(cell, strong.map(|cells| &cells[index])) {
                        let granule = (number << CHUNK_LOG2 | index) as u64;
                        return Some(Conflict {
                            allocation,
                            offset: granule << self.granule_log2,
                            writer,
                            other,
                        });
                    }
                }
            }
        }
        None
    }

    fn judge(&self, cell: &Cell, strong: Option<&Cell>) -> Option<(Toucher, Toucher)> {
        let [w1, w2, r1, r2] = &cell.0;
        let all = |cells: [&Entry; 2], wrote| cells.map(|entry| self.toucher(entry.load(Relaxed), wrote));
        let writers = all([w1, w2], true).into_iter().flatten();
        let readers = all([r1, r2], false).into_iter().flatten();
        let strong =
            strong.map_or([None; 2], |cell| all([&cell.0[0], &cell.0[1]], true)).into_iter().flatten();
        let plain = writers.clone().next().and_then(|writer| {
            let others = writers.clone().chain(readers.clone()).chain(strong.clone());
            Some((writer, others.clone().find(|other| other.block != writer.block)?))
        });
        let beside = || {
            let apart = |reader: Toucher| strong.clone().find(|writer| writer.block != reader.block);
            readers.clone().find_map(|reader| Some((apart(reader)?, reader)))
        };
        plain.or_else(beside)
    }

    fn toucher(&self, entry: u32, wrote: bool) -> Option<Toucher> {
        let key = !entry;
        (entry != 0).then(|| Toucher {
            block: key >> self.site_bits,
            site: (self.site_bits != 0).then_some(key & ((1 << self.site_bits) - 1)),
            wrote,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shadow() -> GlobalShadow {
        GlobalShadow::new([4096u64, 100_000].into_iter(), 2, 100, 5)
    }

    #[test]
    fn blocks_on_their_own_words_do_not_conflict() {
        let s = shadow();
        for block in 0..100 {
            s.touch(1, u64::from(block) * 4, 4, block, 0, true);
            s.touch(1, u64::from(block) * 4, 4, block, 1, false);
            s.touch(0, 8, 4, block, 2, false);
        }
        assert_eq!(s.first_conflict(None), None);
    }

    #[test]
    fn the_lowest_parties_are_named_in_whatever_order_they_came() {
        for order in [[7, 3, 9], [3, 9, 7], [9, 7, 3], [9, 3, 7]] {
            let s = shadow();
            for block in order {
                s.touch(1, 50_000, 4, block, 4, false);
            }
            s.touch(1, 50_000, 4, 9, 2, true);
            s.touch(1, 50_000, 4, 9, 1, true);
            let conflict = s.first_conflict(None).unwrap();
            assert_eq!((conflict.allocation, conflict.offset), (1, 50_000));
            assert_eq!(conflict.writer, Toucher { block: 9, site: Some(1), wrote: true });
            assert_eq!(conflict.other, Toucher { block: 3, site: Some(4), wrote: false });
        }
    }

    #[test]
    fn a_reader_that_is_also_the_writer_does_not_hide_another_reader() {
        let s = shadow();
        s.touch(0, 0, 4, 1, 0, true);
        s.touch(0, 0, 4, 1, 1, false);
        assert_eq!(s.first_conflict(None), None);
        s.touch(0, 0, 4, 6, 1, false);
        assert_eq!(s.first_conflict(None).unwrap().other.block, 6);
    }

    #[test]
    fn two_writers_conflict() {
        let s = shadow();
        s.touch(0, 4, 8, 5, 0, true);
        s.touch(0, 8, 4, 2, 0, true);
        let conflict = s.first_conflict(None).unwrap();
        assert_eq!((conflict.offset, conflict.writer.block, conflict.other.block), (8, 2, 5));
        assert!(conflict.other.wrote);
    }

    #[test]
    fn byte_granules_tell_neighbours_apart() {
        let s = GlobalShadow::new([64u64].into_iter(), 0, 10, 1);
        s.touch(0, 0, 1, 0, 0, true);
        s.touch(0, 1, 1, 1, 0, true);
        assert_eq!(s.first_conflict(None), None);
        s.touch(0, 0, 2, 1, 0, false);
        assert_eq!(s.first_conflict(None).unwrap().offset, 0);
    }
}
