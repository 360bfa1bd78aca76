//! Loads and stores of all spaces: addresses, checks, data.

use std::sync::atomic::Ordering::Relaxed;

use crate::exec::elements::{element, gather, put, scatter};
use crate::exec::machine::{Machine, space_of, window};
use crate::exec::view::Located;
use crate::exec::warp::{Registers, Warp};
use crate::fault::{AccessKind, Fault};
use crate::form::{Access, AddressBase, Load, LoadTarget, Reg, Space, Store, Strength};
use crate::lanes::{FULL, L64, LANES, Mask, lanes_of};

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
        match space {
            Space::Global | Space::Generic => {
                let located = self.locate(warp, mask, address, &load.access, AccessKind::Read)?;
                self.touch_global(&located, mask, address, &load.access, false);
                let view = &self.shot.view;
                match located {
                    Located::One(allocation) => {
                        let (base, words) = (view.base(allocation), view.words(allocation));
                        let offsets = address.map(|address| address.wrapping_sub(base) as usize);
                        gather(&mut warp.regs, mask, load, &offsets, |_, word| words[word].load(Relaxed));
                    }
                    Located::Each(each) => {
                        let offsets = std::array::from_fn(|lane| {
                            address[lane].wrapping_sub(view.base(each[lane])) as usize
                        });
                        gather(&mut warp.regs, mask, load, &offsets, |lane, word| {
                            view.words(each[lane])[word].load(Relaxed)
                        });
                    }
                }
            }
            Space::Shared => {
                self.check_shared(warp, mask, address, bytes, AccessKind::Read)?;
                let strong = load.access.strength == Strength::Strong;
                if let Some(hazards) = &mut self.hazards {
                    for lane in lanes_of(mask) {
                        let found =
                            hazards.read(address[lane] as u32, bytes, warp.thread(lane), warp.pc, strong);
                        if let Some(found) = found {
                            return Err(self.hazard(warp, lane, AccessKind::Read, found));
                        }
                    }
                }
                let offsets = address.map(|address| address as usize);
                let shared = &self.shared[..];
                gather(&mut warp.regs, mask, load, &offsets, |_, word| shared[word]);
            }
            Space::Local => {
                self.check_plain(warp, mask, address, bytes, AccessKind::Read, space)?;
                let offsets = address.map(|address| address as usize);
                let local = &warp.local[..];
                gather(&mut warp.regs, mask, load, &offsets, |lane, word| local[word * LANES + lane]);
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
                let located = self.locate(warp, mask, address, &store.access, AccessKind::Write)?;
                self.touch_global(&located, mask, address, &store.access, true);
                let view = &self.shot.view;
                let regs = &warp.regs;
                match located {
                    Located::One(allocation) => {
                        let (base, words) = (view.base(allocation), view.words(allocation));
                        let offsets = address.map(|address| address.wrapping_sub(base) as usize);
                        scatter(regs, mask, store, &offsets, |_, word, value, bits| {
                            put(&words[word], value, bits);
                        });
                    }
                    Located::Each(each) => {
                        let offsets = std::array::from_fn(|lane| {
                            address[lane].wrapping_sub(view.base(each[lane])) as usize
                        });
                        scatter(regs, mask, store, &offsets, |lane, word, value, bits| {
                            put(&view.words(each[lane])[word], value, bits);
                        });
                    }
                }
            }
            Space::Shared => {
                self.check_shared(warp, mask, address, bytes, AccessKind::Write)?;
                self.store_shared(warp, mask, address, store)?;
            }
            Space::Local => {
                self.check_plain(warp, mask, address, bytes, AccessKind::Write, space)?;
                let offsets = address.map(|address| address as usize);
                let local = &mut warp.local[..];
                scatter(&warp.regs, mask, store, &offsets, |lane, word, value, bits| {
                    let old = &mut local[word * LANES + lane];
                    *old = *old & !bits | value & bits;
                });
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
            let shared = &mut self.shared[..];
            scatter(&warp.regs, mask, store, &offsets, |_, word, value, bits| {
                let old = &mut shared[word];
                *old = *old & !bits | value & bits;
            });
            return Ok(());
        }
        for lane in lanes_of(mask) {
            let found = self.hazards.as_mut().and_then(|hazards| {
                hazards.write(address[lane] as u32, bytes, warp.thread(lane), warp.pc, strong)
            });
            let mut changes = false;
            let shared = &mut self.shared[..];
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

    /// Finds the allocations, or faults.
    #[inline(always)]
    pub(crate) fn locate(
        &mut self,
        warp: &Warp,
        mask: Mask,
        address: &L64,
        access: &Access,
        kind: AccessKind,
    ) -> Result<Located, Box<Fault>> {
        let bytes = access.bytes();
        let hint = &mut self.hints[access.site as usize];
        match self.shot.view.locate(mask, address, bytes, hint) {
            Ok(located) => Ok(located),
            Err(lane) => Err(self.out_of_bounds(warp, lane, kind, Space::Global, address[lane], bytes)),
        }
    }

    /// Notes an access of the block; of strong ones only what they write.
    pub(crate) fn touch_global(
        &self,
        located: &Located,
        mask: Mask,
        address: &L64,
        access: &Access,
        wrote: bool,
    ) {
        let shadow = match access.strength {
            Strength::Weak => &self.shot.shadow,
            Strength::Strong if wrote => &self.shot.strong,
            Strength::Strong => return,
        };
        let Some(shadow) = shadow else { return };
        let view = &self.shot.view;
        for lane in lanes_of(mask) {
            let allocation = match located {
                Located::One(allocation) => *allocation,
                Located::Each(each) => each[lane],
            };
            let offset = address[lane].wrapping_sub(view.base(allocation));
            shadow.touch(allocation, offset, access.bytes(), self.block_index, access.site, wrote);
        }
    }

    #[inline(always)]
    pub(crate) fn check_alignment(
        &self,
        warp: &Warp,
        mask: Mask,
        address: &L64,
        bytes: u32,
        kind: AccessKind,
        space: Space,
    ) -> Result<(), Box<Fault>> {
        let low = u64::from(bytes - 1);
        let any = if mask == FULL {
            address.iter().fold(0, |any, address| any | address)
        } else {
            lanes_of(mask).fold(0, |any, lane| any | address[lane])
        };
        if any & low == 0 {
            return Ok(());
        }
        let lane = lanes_of(mask).find(|lane| address[*lane] & low != 0).unwrap_or_default();
        Err(self.misaligned(warp, lane, kind, space, address[lane], bytes))
    }

    #[inline(always)]
    pub(crate) fn check_shared(
        &self,
        warp: &Warp,
        mask: Mask,
        address: &L64,
        bytes: u32,
        kind: AccessKind,
    ) -> Result<(), Box<Fault>> {
        let regions = &self.shot.shared_regions[..];
        let inside = |address: u64, (start, end): &(u64, u64)| {
            address >= *start && address <= end.wrapping_sub(u64::from(bytes)) && *end >= u64::from(bytes)
        };
        let first = address[Warp::lowest(mask)];
        let Some(region) = regions.iter().find(|region| inside(first, region)) else {
            return Err(self.out_of_bounds(warp, Warp::lowest(mask), kind, Space::Shared, first, bytes));
        };
        let mut all = true;
        if mask == FULL {
            for &address in address {
                all &= inside(address, region);
            }
        } else {
            all = lanes_of(mask).all(|lane| inside(address[lane], region));
        }
        if all {
            return Ok(());
        }
        let outside = |lane: &usize| !regions.iter().any(|region| inside(address[*lane], region));
        match lanes_of(mask).find(outside) {
            None => Ok(()),
            Some(lane) => Err(self.out_of_bounds(warp, lane, kind, Space::Shared, address[lane], bytes)),
        }
    }

    /// Checks local and parameter accesses against the size of the space.
    pub(crate) fn check_plain(
        &self,
        warp: &Warp,
        mask: Mask,
        address: &L64,
        bytes: u32,
        kind: AccessKind,
        space: Space,
    ) -> Result<(), Box<Fault>> {
        let size = match space {
            Space::Local => self.shot.code.local_bytes,
            _ => self.shot.code.param_bytes,
        };
        let outside = |lane: &usize| address[*lane].saturating_add(u64::from(bytes)) > u64::from(size);
        match lanes_of(mask).find(outside) {
            None => Ok(()),
            Some(lane) => Err(self.out_of_bounds(warp, lane, kind, space, address[lane], bytes)),
        }
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
    let lanes = [Space::Global, Space::Shared, Space::Local, Space::Param].map(|space| {
        let inside = lanes_of(mask).filter(|lane| space_of(address[*lane]) == space);
        (space, inside.fold(0, |mask, lane| mask | 1 << lane))
    });
    lanes.into_iter().filter(|(_, lanes)| *lanes != 0)
}
