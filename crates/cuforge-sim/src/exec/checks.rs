//! Where and how memory may be accessed: bounds, alignment, and what is noted of each access.

use crate::exec::machine::Machine;
use crate::exec::view::Located;
use crate::exec::warp::Warp;
use crate::fault::{AccessKind, Fault};
use crate::form::{Access, Space, Strength};
use crate::lanes::{FULL, L64, Mask, lanes_of};
use crate::shadow::own::Spot;
use crate::touched::Touch;

impl Machine<'_> {
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

    /// Notes an access to global memory: against those of other blocks, and for undoing it. In a kernel whose blocks order
    /// what they do, an access that is not ordered with one of another block is a fault at once.
    #[inline(always)]
    pub(crate) fn touch_global(
        &mut self,
        warp: &Warp,
        located: &Located,
        mask: Mask,
        address: &L64,
        access: &Access,
        kind: AccessKind,
    ) -> Result<(), Box<Fault>> {
        if self.shot.view.is_watched() {
            self.note_touch(located, mask, address, access, kind);
        }
        if self.own.is_some() {
            self.touch_own(warp, located, mask, address, access, kind)?;
        }
        if self.shot.order.is_some() {
            return self.touch_in_order(warp, located, mask, address, access, kind);
        }
        let wrote = kind != AccessKind::Read;
        let shadow = match access.strength {
            Strength::Weak => &self.shot.shadow,
            Strength::Strong if wrote => &self.shot.strong,
            Strength::Strong => return Ok(()),
        };
        let Some(shadow) = shadow else { return Ok(()) };
        let view = &self.shot.view;
        for lane in lanes_of(mask) {
            let allocation = located.allocation(lane);
            let offset = address[lane].wrapping_sub(view.base(allocation));
            if let Some(journal) = self.shot.journal.as_ref().filter(|_| wrote) {
                journal.keep(
                    allocation,
                    offset,
                    access.bytes(),
                    view.words(allocation),
                    view.known(allocation),
                );
            }
            shadow.touch(allocation, offset, access.bytes(), self.block_index, access.site, wrote);
        }
        Ok(())
    }

    /// Notes an access; one that is not ordered with an earlier one of another thread of the block is a fault.
    #[inline(always)]
    fn touch_own(
        &mut self,
        warp: &Warp,
        located: &Located,
        mask: Mask,
        address: &L64,
        access: &Access,
        kind: AccessKind,
    ) -> Result<(), Box<Fault>> {
        let Some(own) = &mut self.own else { return Ok(()) };
        let strong = access.strength == Strength::Strong;
        for lane in lanes_of(mask) {
            let allocation = located.allocation(lane);
            let base = self.shot.view.base(allocation);
            let offset = address[lane].wrapping_sub(base);
            let (bytes, thread) = (access.bytes(), warp.thread(lane));
            let spot = Spot { allocation, offset, bytes, thread, pc: warp.pc, strong };
            if let Some((earlier, offset)) = own.touch(&self.clocks, spot, kind != AccessKind::Read) {
                return Err(self.global_hazard(warp, lane, kind, (earlier, base + offset)));
            }
        }
        Ok(())
    }

    /// Notes an access for whoever orders launches.
    #[cold]
    fn note_touch(&self, located: &Located, mask: Mask, address: &L64, access: &Access, kind: AccessKind) {
        let touch = match (kind, access.strength) {
            (AccessKind::Atomic, _) | (_, Strength::Strong) => Touch::Atomic,
            (AccessKind::Write, _) => Touch::Written,
            (AccessKind::Read, _) => Touch::Read,
        };
        let view = &self.shot.view;
        for lane in lanes_of(mask) {
            let allocation = located.allocation(lane);
            if let Some(touched) = view.touched(allocation) {
                touched.note(address[lane].wrapping_sub(view.base(allocation)), access.bytes(), touch);
            }
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
        (access, kind): (&Access, AccessKind),
    ) -> Result<(), Box<Fault>> {
        self.check_shared_bounds(warp, mask, address, bytes, kind)?;
        if kind != AccessKind::Read && !self.bank.mbarriers.is_empty() {
            self.check_gates(warp, mask, address, bytes)?;
        }
        if self.shot.follows_clusters {
            self.touch_cluster(warp, mask, address, bytes, (access, kind))?;
        }
        Ok(())
    }

    /// Only where shared memory is accessed.
    #[inline(always)]
    pub(crate) fn check_shared_bounds(
        &self,
        warp: &Warp,
        mask: Mask,
        address: &L64,
        bytes: u32,
        kind: AccessKind,
    ) -> Result<(), Box<Fault>> {
        self.check_regions(warp, mask, address, bytes, kind, Space::Shared, &self.shot.shared_regions)
    }

    /// Checks that each access lies in one of the regions of a space.
    #[inline(always)]
    #[allow(clippy::too_many_arguments, reason = "one access, and where it may lie")]
    fn check_regions(
        &self,
        warp: &Warp,
        mask: Mask,
        address: &L64,
        bytes: u32,
        kind: AccessKind,
        space: Space,
        regions: &[(u64, u64)],
    ) -> Result<(), Box<Fault>> {
        let inside = |address: u64, (start, end): &(u64, u64)| {
            address >= *start && address <= end.wrapping_sub(u64::from(bytes)) && *end >= u64::from(bytes)
        };
        let first = address[Warp::lowest(mask)];
        let Some(region) = regions.iter().find(|region| inside(first, region)) else {
            return Err(self.out_of_bounds(warp, Warp::lowest(mask), kind, space, first, bytes));
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
            Some(lane) => Err(self.out_of_bounds(warp, lane, kind, space, address[lane], bytes)),
        }
    }

    /// Checks local accesses against their variables, and those of parameters against the size of the space.
    pub(crate) fn check_plain(
        &self,
        warp: &Warp,
        mask: Mask,
        address: &L64,
        bytes: u32,
        kind: AccessKind,
        space: Space,
    ) -> Result<(), Box<Fault>> {
        if space == Space::Local {
            return self.check_regions(
                warp,
                mask,
                address,
                bytes,
                kind,
                space,
                &self.shot.code.local_regions,
            );
        }
        let size = self.shot.code.param_bytes;
        let outside = |lane: &usize| address[*lane].saturating_add(u64::from(bytes)) > u64::from(size);
        match lanes_of(mask).find(outside) {
            None => Ok(()),
            Some(lane) => Err(self.out_of_bounds(warp, lane, kind, space, address[lane], bytes)),
        }
    }
}
