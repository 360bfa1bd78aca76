//! Values that nothing has written, followed through registers until they decide something.
//!
//! A register holds such a value where a lane's bit is set here. Arithmetic passes it on; a branch, an address or an output
//! that depends on one is a fault. Memory keeps the same by byte (`known` masks: one bit a byte, four in a word).

use std::collections::HashMap;

use crate::dataflow::Slot;
use crate::fault::MemorySpace;
use crate::form::Reg;
use crate::lanes::{FULL, Mask};

/// All bytes of a word.
pub(crate) const WHOLE: u8 = 0xf;

/// Where an undefined value was read: the place in the code, and the space; absent for a register that was never written.
pub(crate) type Origin = Option<(u32, MemorySpace)>;

/// The lanes in which each register and predicate of a warp is undefined.
#[derive(Clone, Debug, Default)]
pub(crate) struct Taint {
    narrow: Vec<Mask>,
    wide: Vec<Mask>,
    preds: Vec<Mask>,
    /// The lanes whose carry flag is undefined.
    pub(crate) carry: Mask,
    origins: HashMap<Slot, Origin>,
    any: bool,
}

impl Taint {
    /// For so many registers and predicates, all defined.
    pub(crate) fn new(narrow: usize, wide: usize, preds: usize) -> Self {
        Self { narrow: vec![0; narrow], wide: vec![0; wide], preds: vec![0; preds], ..Self::default() }
    }

    /// These are undefined, all else is not.
    pub(crate) fn start_block(&mut self, undefined: &[Slot]) {
        if self.any {
            self.narrow.fill(0);
            self.wide.fill(0);
            self.preds.fill(0);
            self.carry = 0;
            self.origins.clear();
        }
        self.any = !undefined.is_empty();
        undefined.iter().for_each(|slot| self.set(*slot, FULL, FULL));
    }

    /// Whether anything has been undefined since the block started.
    #[inline(always)]
    pub(crate) fn is_any(&self) -> bool {
        self.any
    }

    /// The lanes in which it is undefined.
    #[inline(always)]
    pub(crate) fn mask(&self, slot: Slot) -> Mask {
        match slot {
            Slot::Narrow(index) => self.narrow[index as usize],
            Slot::Wide(index) => self.wide[index as usize],
            Slot::Pred(index) => self.preds[index as usize],
        }
    }

    /// Sets the lanes of `mask` to those of `undefined`.
    #[inline(always)]
    pub(crate) fn set(&mut self, slot: Slot, mask: Mask, undefined: Mask) {
        let old = match slot {
            Slot::Narrow(index) => &mut self.narrow[index as usize],
            Slot::Wide(index) => &mut self.wide[index as usize],
            Slot::Pred(index) => &mut self.preds[index as usize],
        };
        *old = *old & !mask | undefined & mask;
        self.any |= undefined & mask != 0;
    }

    /// As [`Taint::set`], and remembers where the value comes from.
    pub(crate) fn set_from(&mut self, slot: Slot, mask: Mask, undefined: Mask, origin: Origin) {
        self.set(slot, mask, undefined);
        if undefined & mask != 0 {
            self.origins.insert(slot, origin);
        }
    }

    /// Where the value comes from.
    pub(crate) fn origin(&self, slot: Slot) -> Origin {
        self.origins.get(&slot).copied().flatten()
    }
}

/// The slot of a register.
pub(crate) fn slot(reg: Reg) -> Slot {
    match reg {
        Reg::Narrow(reg) => Slot::Narrow(reg.0),
        Reg::Wide(reg) => Slot::Wide(reg.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_block_starts_with_what_it_is_told() {
        let mut taint = Taint::new(3, 1, 2);
        assert!(!taint.is_any());
        taint.start_block(&[Slot::Narrow(1), Slot::Pred(0)]);
        assert_eq!((taint.mask(Slot::Narrow(1)), taint.mask(Slot::Narrow(2))), (FULL, 0));
        assert_eq!((taint.mask(Slot::Pred(0)), taint.mask(Slot::Pred(1))), (FULL, 0));
        taint.set_from(Slot::Wide(0), 0xff, 0xf, Some((3, MemorySpace::Global)));
        assert_eq!(taint.mask(Slot::Wide(0)), 0xf);
        assert_eq!(taint.origin(Slot::Wide(0)), Some((3, MemorySpace::Global)));
        taint.start_block(&[]);
        assert!(!taint.is_any() && taint.mask(Slot::Wide(0)) == 0 && taint.mask(Slot::Narrow(1)) == 0);
    }
}
