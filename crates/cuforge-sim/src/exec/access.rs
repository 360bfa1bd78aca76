//! Loads and stores of all spaces: addresses, checks, data.

use std::sync::atomic::Ordering::Relaxed;

use crate::exec::cluster::within;
use crate::exec::elements::{element, gather, put, scatter};
use crate::exec::known::{first_undefined, note, settle, spread};
use crate::exec::machine::{Machine, named, space_of, window};
use crate::exec::taint::WHOLE;
use crate::exec::view::Located;
use crate::exec::warp::{Registers, Warp};
use crate::fault::{AccessKind, Fault, UndefinedUse};
use crate::form::{Access, AddressBase, Load, LoadTarget, Reg, Space, Store, Strength};
use crate::lanes::{L64, LANES, Mask, lanes_of};

impl Machine<'_> {
    /// `ld`
    pub(crate) fn load(&mut self, warp: &mut Warp, mask: Mask, load: &Load) -> Result<(), Box<Fault>> {
        let address = addresses(&warp.regs, &load.access);
        if load.access.space != Space::Generic {
            return self.load_from(load.access.space, warp, mask, &address, load);
        }
        for (space, lanes) in by_space(mask, &address) {
            let inside = address.map(|address| address.wrapping_sub(window(space)));
            self.load_from(space, warp, lanes, &inside, load)?;
        }
        Ok(())
    }

    /// `st`
    pub(crate) fn store(&mut self, warp: &mut Warp, mask: Mask, store: &Store) -> Result<(), Box<Fault>> {
        let address = addresses(&warp.regs, &store.access);
        if store.access.space != Space::Generic {
            return self.store_to(store.access.space, warp, mask, &address, store);
        }
        for (space, lanes) in by_space(mask, &address) {
            let inside = address.map(|address| address.wrapping_sub(window(space)));
            self.store_to(space, warp, lanes, &inside, store)?;
        }
        Ok(())
    }

    /// `ld.param` from a fixed offset, the same in all lanes.
    pub(crate) fn load_param(
        &self,
        warp: &mut Warp,
        mask: Mask,
        offset: u32,
        targets: &[LoadTarget],
        element_bytes: u32,
    ) {
        for (index, target) in targets.iter().enumerate() {
            let at = offset as usize + index * element_bytes as usize;
            let value = element(at, element_bytes, target.signed, |word| {
                self.shot.params.get(word).copied().unwrap_or_default()
            });
            match target.reg {
                Some(Reg::Narrow(reg)) => warp.regs.set32(reg, &[value as u32; LANES], mask),
                Some(Reg::Wide(reg)) => warp.regs.set64(reg, &[value; LANES], mask),
                None => {}
            }
        }
    }

    pub(crate) fn load_from(
        &mut self,
        space: Space,
        warp: &mut Warp,
        mask: Mask,
        address: &L64,
        load: &Load,
    ) -> Result<(), Box<Fault>> {
        let bytes = load.access.bytes();
        self.check_alignment(warp, mask, address, bytes, AccessKind::Read, space)?;
        let origin = Some((warp.pc as u32, named(space)));
        match space {
            Space::Global | Space::Generic => {
                let located = self.locate(warp, mask, address, &load.access, AccessKind::Read)?;
                self.touch_global(warp, &located, mask, address, &load.access, AccessKind::Read)?;
                let view = &self.shot.view;
                match located {
                    Located::One(allocation) => {
                        let (base, words) = (view.base(allocation), view.words(allocation));
                        let offsets = address.map(|address| address.wrapping_sub(base) as usize);
                        gather(&mut warp.regs, mask, load, &offsets, |_, word| words[word].load(Relaxed));
                        if let (Some(taint), Some(known)) = (&mut warp.regs.taint, view.known(allocation)) {
                            let known = |_, word: usize| known[word].load(Relaxed);
                            settle(taint, mask, load, &offsets, origin, known);
                        }
                    }
                    Located::Each(each) => {
                        let offsets = std::array::from_fn(|lane| {
                            address[lane].wrapping_sub(view.base(each[lane])) as usize
                        });
                        gather(&mut warp.regs, mask, load, &offsets, |lane, word| {
                            view.words(each[lane])[word].load(Relaxed)
                        });
                        if let Some(taint) = &mut warp.regs.taint {
                            let known = |lane: usize, word: usize| {
                                view.known(each[lane]).map_or(WHOLE, |known| known[word].load(Relaxed))
                            };
                            settle(taint, mask, load, &offsets, origin, known);
                        }
                    }
                }
            }
            Space::Shared => {
                self.check_shared(warp, mask, address, bytes, (&load.access, AccessKind::Read))?;
                let strong = load.access.strength == Strength::Strong;
                if let Some(hazards) = &mut self.hazards {
                    for lane in lanes_of(mask) {
                        let (at, thread) = (address[lane] as u32, warp.thread(lane));
                        let found = hazards.read(&self.clocks, at, bytes, thread, warp.pc, strong);
                        if let Some(found) = found {
                            return Err(self.hazard(warp, lane, AccessKind::Read, found));
                        }
                    }
                }
                let offsets = address.map(|address| address as usize);
                let shared = &self.bank.words[..];
                gather(&mut warp.regs, mask, load, &offsets, |_, word| shared[word]);
                if let Some(taint) = &mut warp.regs.taint {
                    let known = &self.bank.known[..];
                    settle(taint, mask, load, &offsets, origin, |_, word| known[word]);
                }
            }
            Space::Cluster => {
                for (rank, lanes) in self.ranks(mask, address) {
                    let first = Warp::lowest(lanes);
                    self.enter(rank, warp, first, (AccessKind::Read, address[first], bytes))?;
                    let done = self.load_from(Space::Shared, warp, lanes, &address.map(within), load);
                    self.leave();
                    done?;
                }
            }
            Space::Local => {
                self.check_plain(warp, mask, address, bytes, AccessKind::Read, space)?;
                let offsets = address.map(|address| address as usize);
                let local = &warp.local[..];
                gather(&mut warp.regs, mask, load, &offsets, |lane, word| local[word * LANES + lane]);
                if let Some(taint) = &mut warp.regs.taint {
                    let known = &warp.local_known[..];
                    settle(taint, mask, load, &offsets, origin, |lane, word| known[word * LANES + lane]);
                }
            }
            Space::Param => {
                self.check_plain(warp, mask, address, bytes, AccessKind::Read, space)?;
                let offsets = address.map(|address| address as usize);
                let params = &self.shot.params[..];
                gather(&mut warp.regs, mask, load, &offsets, |_, word| params[word]);
            }
        }
        Ok(())
    }

    pub(crate) fn store_to(
        &mut self,
        space: Space,
        warp: &mut Warp,
        mask: Mask,
        address: &L64,
        store: &Store,
    ) -> Result<(), Box<Fault>> {
        let bytes = store.access.bytes();
        self.check_alignment(warp, mask, address, bytes, AccessKind::Write, space)?;
        match space {
            Space::Global | Space::Generic => {
                if warp.regs.taint.is_some()
                    && let Some((slot, lane)) = first_undefined(&warp.regs, mask, store)
                {
                    self.decides(warp, 1 << lane, slot, UndefinedUse::Output)?;
                }
                let located = self.locate(warp, mask, address, &store.access, AccessKind::Write)?;
                self.touch_global(warp, &located, mask, address, &store.access, AccessKind::Write)?;
                let view = &self.shot.view;
                let regs = &warp.regs;
                match located {
                    Located::One(allocation) => {
                        let (base, words) = (view.base(allocation), view.words(allocation));
                        let offsets = address.map(|address| address.wrapping_sub(base) as usize);
                        scatter(regs, mask, store, &offsets, |_, word, value, bits| {
                            put(&words[word], value, bits);
                        });
                        if let Some(known) = view.known(allocation) {
                            spread(regs, mask, store, &offsets, |_, word, bits, _| note(&known[word], bits));
                        }
                    }
                    Located::Each(each) => {
                        let offsets = std::array::from_fn(|lane| {
                            address[lane].wrapping_sub(view.base(each[lane])) as usize
                        });
                        scatter(regs, mask, store, &offsets, |lane, word, value, bits| {
                            put(&view.words(each[lane])[word], value, bits);
                        });
                        spread(regs, mask, store, &offsets, |lane, word, bits, _| {
                            if let Some(known) = view.known(each[lane]) {
                                note(&known[word], bits);
                            }
                        });
                    }
                }
            }
            Space::Shared => {
                self.check_shared(warp, mask, address, bytes, (&store.access, AccessKind::Write))?;
                self.store_shared(warp, mask, address, store)?;
                if warp.regs.taint.is_some() {
                    let offsets = address.map(|address| address as usize);
                    let known = &mut self.bank.known[..];
                    spread(&warp.regs, mask, store, &offsets, |_, word, bits, defined| {
                        known[word] = if defined { known[word] | bits } else { known[word] & !bits };
                    });
                }
            }
            Space::Cluster => {
                for (rank, lanes) in self.ranks(mask, address) {
                    let first = Warp::lowest(lanes);
                    self.enter(rank, warp, first, (AccessKind::Write, address[first], bytes))?;
                    let done = self.store_to(Space::Shared, warp, lanes, &address.map(within), store);
                    self.leave();
                    done?;
                }
            }
            Space::Local => {
                self.check_plain(warp, mask, address, bytes, AccessKind::Write, space)?;
                let offsets = address.map(|address| address as usize);
                let local = &mut warp.local[..];
                scatter(&warp.regs, mask, store, &offsets, |lane, word, value, bits| {
                    let old = &mut local[word * LANES + lane];
                    *old = *old & !bits | value & bits;
                });
                if warp.regs.taint.is_some() {
                    let known = &mut warp.local_known[..];
                    spread(&warp.regs, mask, store, &offsets, |lane, word, bits, defined| {
                        let old = &mut known[word * LANES + lane];
                        *old = if defined { *old | bits } else { *old & !bits };
                    });
                }
            }
            Space::Param => {
                return Err(self.unsupported(warp, Warp::lowest(mask), "st to kernel parameters"));
            }
        }
        Ok(())
    }

    /// Lane by lane, as lanes of one instruction may hit the same byte.
    fn store_shared(
        &mut self,
        warp: &Warp,
        mask: Mask,
        address: &L64,
        store: &Store,
    ) -> Result<(), Box<Fault>> {
        let offsets = address.map(|address| address as usize);
        let strong = store.access.strength == Strength::Strong;
        let bytes = store.access.bytes();
        if self.hazards.is_none() {
            let shared = &mut self.bank.words[..];
            scatter(&warp.regs, mask, store, &offsets, |_, word, value, bits| {
                let old = &mut shared[word];
                *old = *old & !bits | value & bits;
            });
            return Ok(());
        }
        for lane in lanes_of(mask) {
            let found = self.hazards.as_mut().and_then(|hazards| {
                let (at, thread) = (address[lane] as u32, warp.thread(lane));
                hazards.write(&self.clocks, at, bytes, thread, warp.pc, strong)
            });
            let mut changes = false;
            let shared = &mut self.bank.words[..];
            scatter(&warp.regs, 1 << lane, store, &offsets, |_, word, value, bits| {
                let old = &mut shared[word];
                changes |= (*old ^ value) & bits != 0;
                *old = *old & !bits | value & bits;
            });
            if let Some(found) = found {
                let fault = self.hazard(warp, lane, AccessKind::Write, found);
                let after_read =
                    matches!(&*fault, Fault::SharedHazard { other, .. } if other.access == AccessKind::Read);
                if changes || after_read || !self.shot.options.checks.same_value_writes {
                    return Err(fault);
                }
            }
        }
        Ok(())
    }
}

/// The address of each lane.
#[inline(always)]
pub(crate) fn addresses(regs: &Registers, access: &Access) -> L64 {
    let offset = access.offset;
    match access.base {
        AddressBase::Absolute => [offset.cast_unsigned(); LANES],
        AddressBase::Narrow(reg) => {
            let base = regs.get32(reg);
            std::array::from_fn(|lane| u64::from(base[lane].wrapping_add(offset as u32)))
        }
        AddressBase::Wide(reg) => {
            let base = regs.get64(reg);
            std::array::from_fn(|lane| base[lane].wrapping_add_signed(offset))
        }
    }
}

/// The lanes of generic addresses, space by space.
pub(crate) fn by_space(mask: Mask, address: &L64) -> impl Iterator<Item = (Space, Mask)> {
    let lanes = [Space::Global, Space::Shared, Space::Cluster, Space::Local, Space::Param].map(|space| {
        let inside = lanes_of(mask).filter(|lane| space_of(address[*lane]) == space);
        (space, inside.fold(0, |mask, lane| mask | 1 << lane))
    });
    lanes.into_iter().filter(|(_, lanes)| *lanes != 0)
}
