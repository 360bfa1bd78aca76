//! Which bytes of memory are written: four bits for each word.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use crate::dataflow::Slot;
use crate::exec::taint::{Origin, Taint, WHOLE, slot};
use crate::exec::warp::Registers;
use crate::form::{Load, Store};
use crate::lanes::{LANES, Mask, lanes_of};

/// The bits of up to 4 bytes within a word.
#[inline(always)]
pub(crate) fn bits(at: usize, bytes: u32) -> u8 {
    (((1u32 << bytes.min(4)) - 1) << (at % 4)) as u8
}

/// Whether all bytes from `at` on are known.
#[inline(always)]
pub(crate) fn are_known(at: usize, bytes: u32, known: impl Fn(usize) -> u8) -> bool {
    if bytes <= 4 {
        let bits = bits(at, bytes);
        return known(at / 4) & bits == bits;
    }
    (0..bytes as usize / 4).all(|word| known(at / 4 + word) == WHOLE)
}

/// Marks the bytes from `at` on.
#[inline(always)]
pub(crate) fn mark(at: usize, bytes: u32, mut put: impl FnMut(usize, u8)) {
    if bytes <= 4 {
        put(at / 4, bits(at, bytes));
        return;
    }
    (0..bytes as usize / 4).for_each(|word| put(at / 4 + word, WHOLE));
}

/// Settles which lanes of the targets of a load are undefined.
#[inline(always)]
pub(crate) fn settle(
    taint: &mut Taint,
    mask: Mask,
    load: &Load,
    offsets: &[usize; LANES],
    origin: Origin,
    known: impl Fn(usize, usize) -> u8,
) {
    let size = load.access.element_bytes;
    for (index, target) in load.targets.iter().enumerate() {
        let Some(reg) = target.reg else { continue };
        let unknown = |lane: &usize| {
            !are_known(offsets[*lane] + index * size as usize, size, |word| known(*lane, word))
        };
        let undefined = lanes_of(mask).filter(unknown).fold(0, |undefined, lane| undefined | 1 << lane);
        taint.set_from(slot(reg), mask, undefined, origin);
    }
}

/// Adds bytes to those of a word that are known.
#[inline(always)]
pub(crate) fn note(known: &AtomicU8, bits: u8) {
    if bits == WHOLE {
        known.store(WHOLE, Relaxed);
    } else {
        known.fetch_or(bits, Relaxed);
    }
}

/// Gives the words whose bytes a store makes known, or unknown where what it stores is undefined.
#[inline(always)]
pub(crate) fn spread(
    regs: &Registers,
    mask: Mask,
    store: &Store,
    offsets: &[usize; LANES],
    mut put: impl FnMut(usize, usize, u8, bool),
) {
    let size = store.access.element_bytes;
    for (index, source) in store.sources.iter().enumerate() {
        let undefined = regs.undefined(*source);
        for lane in lanes_of(mask) {
            let defined = undefined >> lane & 1 == 0;
            let at = offsets[lane] + index * size as usize;
            mark(at, size, |word, bits| put(lane, word, bits, defined));
        }
    }
}

/// The first source of a store that is undefined, and the lowest lane of it.
pub(crate) fn first_undefined(regs: &Registers, mask: Mask, store: &Store) -> Option<(Slot, usize)> {
    store.sources.iter().find_map(|source| {
        let lane = lanes_of(regs.undefined(*source) & mask).next()?;
        Some((slot(*source), lane))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_words_are_told_apart() {
        let mut words = [0u8; 3];
        mark(2, 2, |word, bits| words[word] |= bits);
        mark(4, 8, |word, bits| words[word] |= bits);
        assert_eq!(words, [0b1100, WHOLE, WHOLE]);
        let known = |word: usize| words[word];
        assert!(are_known(3, 1, known) && !are_known(1, 1, known));
        assert!(!are_known(0, 4, known) && are_known(8, 4, known) && are_known(4, 8, known));
        assert!(!are_known(0, 8, known));
    }
}
