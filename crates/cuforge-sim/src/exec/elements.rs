//! Elements of loads and stores: words and bits of words between registers and memory.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::exec::warp::Registers;
use crate::form::{Load, Reg, Store};
use crate::lanes::{FULL, L32, L64, LANES, Mask, lanes_of};

/// Byte offset of each lane's access in what the space's words hold.
type Offsets = [usize; LANES];

/// Loads the elements of all lanes into registers.
#[inline(always)]
pub(crate) fn gather(
    regs: &mut Registers,
    mask: Mask,
    load: &Load,
    offsets: &Offsets,
    word: impl Fn(usize, usize) -> u32,
) {
    let size = load.access.element_bytes;
    for (index, target) in load.targets.iter().enumerate() {
        match (target.reg, size) {
            (None, _) => {}
            (Some(Reg::Narrow(reg)), 4) => {
                let mut out: L32 = [0; LANES];
                if mask == FULL {
                    for lane in 0..LANES {
                        out[lane] = word(lane, offsets[lane] / 4 + index);
                    }
                } else {
                    for lane in lanes_of(mask) {
                        out[lane] = word(lane, offsets[lane] / 4 + index);
                    }
                }
                regs.set32(reg, &out, mask);
            }
            (Some(reg), _) => {
                let mut out: L64 = [0; LANES];
                for lane in lanes_of(mask) {
                    let at = offsets[lane] + index * size as usize;
                    out[lane] = element(at, size, target.signed, |at| word(lane, at));
                }
                regs.set(reg, &out, mask);
            }
        }
    }
}

/// One element at a byte offset, extended to 64 bits.
#[inline(always)]
pub(crate) fn element(at: usize, bytes: u32, signed: bool, word: impl Fn(usize) -> u32) -> u64 {
    let value = match bytes {
        8 => return u64::from(word(at / 4)) | u64::from(word(at / 4 + 1)) << 32,
        4 => word(at / 4),
        2 => word(at / 4) >> (at % 4 * 8) & 0xffff,
        _ => word(at / 4) >> (at % 4 * 8) & 0xff,
    };
    if !signed {
        return u64::from(value);
    }
    let shift = 64 - bytes * 8;
    ((u64::from(value) << shift).cast_signed() >> shift).cast_unsigned()
}

/// Gives the words that stores of all lanes change, with the bits that they change.
#[inline(always)]
pub(crate) fn scatter(
    regs: &Registers,
    mask: Mask,
    store: &Store,
    offsets: &Offsets,
    mut put: impl FnMut(usize, usize, u32, u32),
) {
    let size = store.access.element_bytes;
    for (index, source) in store.sources.iter().enumerate() {
        match (*source, size) {
            (Reg::Narrow(reg), 4) => {
                let value = regs.get32(reg);
                for lane in lanes_of(mask) {
                    put(lane, offsets[lane] / 4 + index, value[lane], u32::MAX);
                }
            }
            (reg, _) => {
                for lane in lanes_of(mask) {
                    let value = match reg {
                        Reg::Narrow(reg) => u64::from(regs.get32(reg)[lane]),
                        Reg::Wide(reg) => regs.get64(reg)[lane],
                    };
                    let at = offsets[lane] + index * size as usize;
                    put_element(at, size, value, |word, value, bits| put(lane, word, value, bits));
                }
            }
        }
    }
}

/// Gives the words, values and bits of one element at a byte offset.
#[inline(always)]
pub(crate) fn put_element(at: usize, bytes: u32, value: u64, mut put: impl FnMut(usize, u32, u32)) {
    let shift = at % 4 * 8;
    match bytes {
        8 => {
            put(at / 4, value as u32, u32::MAX);
            put(at / 4 + 1, (value >> 32) as u32, u32::MAX);
        }
        4 => put(at / 4, value as u32, u32::MAX),
        2 => put(at / 4, (value as u32) << shift, 0xffff << shift),
        _ => put(at / 4, (value as u32) << shift, 0xff << shift),
    }
}

/// Changes some bits of a word that other blocks may change other bits of.
#[inline(always)]
pub(crate) fn put(word: &AtomicU32, value: u32, bits: u32) {
    if bits == u32::MAX {
        word.store(value, Relaxed);
        return;
    }
    let mut old = word.load(Relaxed);
    while let Err(now) = word.compare_exchange_weak(old, old & !bits | value & bits, Relaxed, Relaxed) {
        old = now;
    }
}
