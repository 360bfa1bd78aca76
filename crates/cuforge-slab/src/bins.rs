//! Size classes of the general allocator: 32 to an octave, found by two bitmaps.

use alloc::boxed::Box;
use alloc::vec;

const SUB_BITS: u32 = 5;
const SUBS: usize = 1 << SUB_BITS;
/// One row of exact classes, then one an octave up to 2^60 units.
const ROWS: usize = 57;

/// No block.
pub(crate) const NONE: u32 = u32::MAX;

/// A size class: classes ascend with the sizes in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Bin(u16);

impl Bin {
    /// The class of a block of `units`, at least 1.
    #[inline]
    pub(crate) fn of(units: u64) -> Self {
        let octave = units.max(1).ilog2();
        if octave < SUB_BITS {
            return Self(units as u16);
        }
        let row = octave - SUB_BITS + 1;
        let sub = (units >> (octave - SUB_BITS)) as u16 & (SUBS as u16 - 1);
        Self((row as u16) << SUB_BITS | sub)
    }

    /// The class above.
    pub(crate) fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The lowest class all of whose blocks have at least `units`.
    #[inline]
    pub(crate) fn all_fit(units: u64) -> Self {
        let octave = units.max(1).ilog2();
        let slack = if octave < SUB_BITS { 0 } else { (1u64 << (octave - SUB_BITS)) - 1 };
        Self::of(units + slack)
    }
}

/// The head of every class's list, and which are not empty.
#[derive(Debug)]
pub(crate) struct Bins {
    rows: u64,
    subs: [u32; ROWS],
    heads: Box<[u32]>,
}

impl Bins {
    pub(crate) fn new() -> Self {
        Self { rows: 0, subs: [0; ROWS], heads: vec![NONE; ROWS * SUBS].into_boxed_slice() }
    }

    #[inline]
    pub(crate) fn head(&self, bin: Bin) -> u32 {
        self.heads[bin.0 as usize]
    }

    /// Sets the head; [`NONE`] empties the class.
    #[inline]
    pub(crate) fn set_head(&mut self, bin: Bin, head: u32) {
        self.heads[bin.0 as usize] = head;
        let (row, sub) = (bin.0 as usize >> SUB_BITS, bin.0 as usize & (SUBS - 1));
        if head == NONE {
            self.subs[row] &= !(1 << sub);
            if self.subs[row] == 0 {
                self.rows &= !(1 << row);
            }
        } else {
            self.subs[row] |= 1 << sub;
            self.rows |= 1 << row;
        }
    }

    /// Sets another head in a class that stays non-empty.
    #[inline]
    pub(crate) fn replace_head(&mut self, bin: Bin, head: u32) {
        self.heads[bin.0 as usize] = head;
    }

    /// The lowest class from `bin` on that is not empty. Two bit scans.
    #[inline]
    pub(crate) fn first_from(&self, bin: Bin) -> Option<Bin> {
        let (row, sub) = (bin.0 as usize >> SUB_BITS, bin.0 as usize & (SUBS - 1));
        if row >= ROWS {
            return None;
        }
        let here = self.subs[row] & (u32::MAX << sub);
        if here != 0 {
            return Some(Self::bin(row, here.trailing_zeros()));
        }
        let above = self.rows & (u64::MAX << row << 1);
        if above == 0 {
            return None;
        }
        let row = above.trailing_zeros() as usize;
        Some(Self::bin(row, self.subs[row].trailing_zeros()))
    }

    /// The highest class that is not empty.
    pub(crate) fn last(&self) -> Option<Bin> {
        let row = self.rows.checked_ilog2()? as usize;
        self.subs[row].checked_ilog2().map(|sub| Self::bin(row, sub))
    }

    #[inline]
    fn bin(row: usize, sub: u32) -> Bin {
        Bin((row << SUB_BITS) as u16 | sub as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// Every edge 2^k, 2^k ± 1 and the edges of the classes between, ± 1.
    fn edges() -> impl Iterator<Item = u64> {
        (0..60u32).flat_map(|octave| {
            let step = (1u64 << octave) >> SUB_BITS;
            (0..SUBS as u64).flat_map(move |sub| {
                let edge = (1u64 << octave) + step * sub;
                [edge.saturating_sub(1).max(1), edge, edge + 1]
            })
        })
    }

    #[test]
    fn classes_ascend_with_sizes_and_stay_inside_the_table_at_every_edge() {
        let mut sizes: Vec<u64> = edges().collect();
        sizes.sort_unstable();
        let bins = Bins::new();
        for pair in sizes.windows(2) {
            assert!(Bin::of(pair[0]) <= Bin::of(pair[1]), "{pair:?}");
            assert_eq!(bins.head(Bin::of(pair[1])), NONE);
            assert_eq!(bins.head(Bin::all_fit(pair[1])), NONE);
        }
    }

    #[test]
    fn whatever_lies_in_an_all_fit_class_fits() {
        for units in edges() {
            let bin = Bin::all_fit(units);
            assert!(Bin::of(units) <= bin);
            if units > 1 {
                assert!(Bin::of(units - 1) < bin, "{units}: a smaller block would be in the class");
            }
        }
    }

    #[test]
    fn a_search_finds_the_lowest_class_that_is_not_empty() {
        let mut bins = Bins::new();
        assert_eq!(bins.first_from(Bin::of(1)), None);
        for units in [1, 31, 32, 33, 1000, 1 << 40, 1 << 59] {
            bins.set_head(Bin::of(units), 5);
            assert_eq!(bins.first_from(Bin::of(1)), Some(Bin::of(units)));
            assert_eq!(bins.first_from(Bin::of(units)), Some(Bin::of(units)));
            assert_eq!(bins.last(), Some(Bin::of(units)));
            assert_eq!(bins.first_from(Bin(Bin::of(units).0 + 1)), None);
            bins.set_head(Bin::of(units), NONE);
        }
        assert_eq!((bins.first_from(Bin::of(1)), bins.last()), (None, None));
    }
}
