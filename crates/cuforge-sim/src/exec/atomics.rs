//! `atom` and `red`: lane by lane, lowest first.

use std::sync::atomic::Ordering::Relaxed;

use crate::exec::access::{addresses, by_space};
use crate::exec::cluster::within;
use crate::exec::elements::{element, put, put_element};
use crate::exec::known::{are_known, mark, note};
use crate::exec::machine::{Machine, named, window};
use crate::exec::taint::slot;
use crate::exec::warp::{Registers, Warp};
use crate::fault::{AccessKind, Fault, UndefinedUse};
use crate::form::{Access, Atomic, AtomicKind, PairAtomic, Reg, Space};
use crate::lanes::{L64, LANES, Mask, lanes_of};

impl Machine<'_> {
    /// `atom` or `red`.
    pub(crate) fn atomic(&mut self, warp: &mut Warp, mask: Mask, atomic: &Atomic) -> Result<(), Box<Fault>> {
        let mut old = [0; LANES];
        let unknown =
            self.change(warp, mask, &atomic.access, atomic.replaces, |regs, space, lane, word| {
                old[lane] = word as u64;
                let kind = if space == Space::Shared { atomic.shared_kind } else { atomic.kind };
                u128::from(changed(regs, atomic, kind, lane, old[lane]))
            })?;
        if let Some(target) = atomic.target {
            warp.regs.set(target, &old, mask);
            if let Some(taint) = &mut warp.regs.taint {
                let origin = Some((warp.pc as u32, named(atomic.access.space)));
                taint.set_from(slot(target), mask, unknown, origin);
            }
        }
        Ok(())
    }

    /// `atom` on 128 bits.
    pub(crate) fn pair_atomic(
        &mut self,
        warp: &mut Warp,
        mask: Mask,
        atomic: &PairAtomic,
    ) -> Result<(), Box<Fault>> {
        let (mut low, mut high) = ([0; LANES], [0; LANES]);
        self.change(warp, mask, &atomic.access, atomic.c.is_none(), |regs, _, lane, old| {
            (low[lane], high[lane]) = (old as u64, (old >> 64) as u64);
            let operand = |[low, high]: [crate::form::R64; 2]| {
                u128::from(regs.get64(low)[lane]) | u128::from(regs.get64(high)[lane]) << 64
            };
            match atomic.c {
                None => operand(atomic.b),
                Some(c) if operand(atomic.b) == old => operand(c),
                Some(_) => old,
            }
        })?;
        if let Some([to_low, to_high]) = atomic.target {
            warp.regs.set64(to_low, &low, mask);
            warp.regs.set64(to_high, &high, mask);
        }
        Ok(())
    }

    /// Puts what `f` makes of the old value in its place, lane by lane; gives the lanes whose old value nothing had written,
    /// which is a fault unless it is only `replaced`.
    fn change(
        &mut self,
        warp: &Warp,
        mask: Mask,
        access: &Access,
        replaced: bool,
        mut f: impl FnMut(&Registers, Space, usize, u128) -> u128,
    ) -> Result<Mask, Box<Fault>> {
        let address = addresses(&warp.regs, access);
        let settled = |machine: &Self, space, unknown| {
            if unknown == 0 || replaced {
                return Ok(unknown);
            }
            let origin = Some((warp.pc as u32, named(space)));
            machine.undefined(warp, Warp::lowest(unknown), UndefinedUse::Output, origin).map(|()| unknown)
        };
        if access.space != Space::Generic {
            let unknown = self.change_in(access.space, warp, mask, &address, access, &mut f)?;
            return settled(self, access.space, unknown);
        }
        let mut all = 0;
        for (space, lanes) in by_space(mask, &address) {
            let inside = address.map(|address| address.wrapping_sub(window(space)));
            let unknown = self.change_in(space, warp, lanes, &inside, access, &mut f)?;
            all |= settled(self, space, unknown)?;
        }
        Ok(all)
    }

    fn change_in(
        &mut self,
        space: Space,
        warp: &Warp,
        mask: Mask,
        address: &L64,
        access: &Access,
        f: &mut impl FnMut(&Registers, Space, usize, u128) -> u128,
    ) -> Result<Mask, Box<Fault>> {
        let kind = AccessKind::Atomic;
        let bytes = access.bytes();
        let mut unknown = 0;
        self.check_alignment(warp, mask, address, bytes, kind, space)?;
        match space {
            Space::Global | Space::Generic => {
                let located = self.locate(warp, mask, address, access, kind)?;
                self.touch_global(warp, &located, mask, address, access, kind)?;
                for lane in lanes_of(mask) {
                    let allocation = located.allocation(lane);
                    let words = self.shot.view.words(allocation);
                    let at = (address[lane] - self.shot.view.base(allocation)) as usize;
                    let old = value(at, bytes, |word| words[word].load(Relaxed));
                    let new = f(&warp.regs, space, lane, old);
                    put_value(at, bytes, new, |word, value, bits| put(&words[word], value, bits));
                    if let Some(known) = self.shot.view.known(allocation) {
                        let old = are_known(at, bytes, |word| known[word].load(Relaxed));
                        unknown |= u32::from(!old && warp.regs.taint.is_some()) << lane;
                        mark(at, bytes, |word, bits| note(&known[word], bits));
                    }
                }
            }
            Space::Shared => {
                self.check_shared(warp, mask, address, bytes, (access, kind))?;
                for lane in lanes_of(mask) {
                    let at = address[lane] as u32;
                    let thread = warp.thread(lane);
                    let found = self
                        .hazards
                        .as_mut()
                        .and_then(|hazards| hazards.write(&self.clocks, at, bytes, thread, warp.pc, true));
                    if let Some(found) = found {
                        return Err(self.hazard(warp, lane, kind, found));
                    }
                    let shared = &mut self.bank.words[..];
                    let new = f(&warp.regs, space, lane, value(at as usize, bytes, |word| shared[word]));
                    put_value(at as usize, bytes, new, |word, value, bits| {
                        shared[word] = shared[word] & !bits | value & bits;
                    });
                    if warp.regs.taint.is_some() {
                        let known = &mut self.bank.known[..];
                        unknown |= u32::from(!are_known(at as usize, bytes, |word| known[word])) << lane;
                        mark(at as usize, bytes, |word, bits| known[word] |= bits);
                    }
                }
            }
            Space::Cluster => {
                for (rank, lanes) in self.ranks(mask, address) {
                    let first = Warp::lowest(lanes);
                    self.enter(rank, warp, first, (kind, address[first], bytes))?;
                    let done =
                        self.change_in(Space::Shared, warp, lanes, &address.map(within), access, &mut *f);
                    self.leave();
                    unknown |= done?;
                }
            }
            Space::Local | Space::Param => {
                let what = "atomic on local or parameter memory";
                return Err(self.unsupported(warp, Warp::lowest(mask), what));
            }
        }
        Ok(unknown)
    }
}

/// A value of up to 16 bytes.
#[inline(always)]
fn value(at: usize, bytes: u32, word: impl Fn(usize) -> u32) -> u128 {
    if bytes == 16 {
        return u128::from(element(at, 8, false, &word)) | u128::from(element(at + 8, 8, false, &word)) << 64;
    }
    u128::from(element(at, bytes, false, word))
}

#[inline(always)]
fn put_value(at: usize, bytes: u32, value: u128, mut put: impl FnMut(usize, u32, u32)) {
    if bytes == 16 {
        put_element(at, 8, value as u64, &mut put);
        put_element(at + 8, 8, (value >> 64) as u64, put);
    } else {
        put_element(at, bytes, value as u64, put);
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
