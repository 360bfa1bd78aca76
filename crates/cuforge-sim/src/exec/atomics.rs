//! `atom` and `red`: lane by lane, lowest first.

use std::sync::atomic::Ordering::Relaxed;

use crate::exec::access::{addresses, by_space};
use crate::exec::elements::{element, put, put_element};
use crate::exec::machine::{Machine, window};
use crate::exec::view::Located;
use crate::exec::warp::{Registers, Warp};
use crate::fault::{AccessKind, Fault};
use crate::form::{Atomic, AtomicKind, Reg, Space};
use crate::lanes::{L64, LANES, Mask, lanes_of};

impl Machine<'_> {
    /// `atom` or `red`.
    pub(crate) fn atomic(&mut self, warp: &mut Warp, mask: Mask, atomic: &Atomic) -> Result<(), Box<Fault>> {
        let address = addresses(&warp.regs, &atomic.access);
        if atomic.access.space != Space::Generic {
            return self.atomic_in(atomic.access.space, warp, mask, &address, atomic);
        }
        for (space, lanes) in by_space(mask, &address) {
            let inside = address.map(|address| address.wrapping_sub(window(space)));
            self.atomic_in(space, warp, lanes, &inside, atomic)?;
        }
        Ok(())
    }

    fn atomic_in(
        &mut self,
        space: Space,
        warp: &mut Warp,
        mask: Mask,
        address: &L64,
        atomic: &Atomic,
    ) -> Result<(), Box<Fault>> {
        let kind = AccessKind::Atomic;
        let bytes = atomic.access.bytes();
        self.check_alignment(warp, mask, address, bytes, kind, space)?;
        let mut old = [0; LANES];
        match space {
            Space::Global | Space::Generic => {
                let located = self.locate(warp, mask, address, &atomic.access, kind)?;
                self.touch_global(&located, mask, address, &atomic.access, true);
                for lane in lanes_of(mask) {
                    let allocation = match &located {
                        Located::One(allocation) => *allocation,
                        Located::Each(each) => each[lane],
                    };
                    let words = self.shot.view.words(allocation);
                    let at = (address[lane] - self.shot.view.base(allocation)) as usize;
                    old[lane] = element(at, bytes, false, |word| words[word].load(Relaxed));
                    let new = changed(&warp.regs, atomic, atomic.kind, lane, old[lane]);
                    put_element(at, bytes, new, |word, value, bits| put(&words[word], value, bits));
                }
            }
            Space::Shared => {
                self.check_shared(warp, mask, address, bytes, kind)?;
                for lane in lanes_of(mask) {
                    let at = address[lane] as u32;
                    let found = self
                        .hazards
                        .as_mut()
                        .and_then(|hazards| hazards.write(at, bytes, warp.thread(lane), warp.pc, true));
                    if let Some(found) = found {
                        return Err(self.hazard(warp, lane, kind, found));
                    }
                    let shared = &mut self.shared[..];
                    old[lane] = element(at as usize, bytes, false, |word| shared[word]);
                    let new = changed(&warp.regs, atomic, atomic.shared_kind, lane, old[lane]);
                    put_element(at as usize, bytes, new, |word, value, bits| {
                        shared[word] = shared[word] & !bits | value & bits;
                    });
                }
            }
            Space::Local | Space::Param => {
                return Err(self.unsupported(
                    warp,
                    Warp::lowest(mask),
                    "atomic on local or parameter memory",
                ));
            }
        }
        if let Some(target) = atomic.target {
            warp.regs.set(target, &old, mask);
        }
        Ok(())
    }
}

/// The value that the atomic puts in place of `old`.
#[inline(always)]
fn changed(regs: &Registers, atomic: &Atomic, kind: AtomicKind, lane: usize, old: u64) -> u64 {
    let operand = |reg: Reg| match reg {
        Reg::Narrow(reg) => u64::from(regs.get32(reg)[lane]),
        Reg::Wide(reg) => regs.get64(reg)[lane],
    };
    let b = operand(atomic.b);
    match kind {
        AtomicKind::Narrow(f) => u64::from(f(old as u32, b as u32)),
        AtomicKind::Wide(f) => f(old, b),
        AtomicKind::Cas => {
            let width = u64::MAX >> (64 - atomic.access.bytes() * 8);
            if old == b & width { atomic.c.map_or(old, operand) } else { old }
        }
    }
}
