//! Accesses to global memory in kernels whose blocks order what they do: fences, barriers, and who must come after whom.

use crate::exec::machine::Machine;
use crate::exec::view::Located;
use crate::exec::warp::Warp;
use crate::fault::{AccessKind, Fault, Party};
use crate::form::{Access, Strength};
use crate::lanes::{L64, LANES, Mask, lanes_of};
use crate::shadow::order::{Actor, Clocks, Manner, Order, Touch};

impl Machine<'_> {
    /// Works on the order of the launch, if that is followed.
    fn with_order<T>(&self, f: impl FnOnce(&mut Order) -> T) -> Option<T> {
        let order = self.shot.order.as_ref()?;
        Some(f(&mut order.lock().unwrap_or_else(std::sync::PoisonError::into_inner)))
    }

    /// Linear index in the grid of a warp of this block.
    fn warp_in_grid(&self, warp: usize) -> u32 {
        self.block_index * self.shot.threads().div_ceil(LANES as u32) + warp as u32
    }

    /// A fence of a scope wider than the block.
    pub(crate) fn fence(&self, warp: &Warp) {
        self.with_order(|order| order.fence(self.warp_in_grid(warp.index)));
    }

    /// A barrier that these warps of the block have met at.
    pub(crate) fn order_barrier(&self, warps: impl Iterator<Item = usize> + Clone) {
        self.with_order(|order| order.barrier(warps.map(|warp| self.warp_in_grid(warp))));
    }

    /// What a warp of this block knows of other warps, for others to learn; absent if that is not followed.
    pub(crate) fn tell_order(&self, warp: usize) -> Option<Clocks> {
        self.with_order(|order| order.tell(self.warp_in_grid(warp)))
    }

    /// A warp knows from now on what others have told.
    pub(crate) fn learn_order(&self, warp: &Warp, told: &Clocks) {
        self.with_order(|order| order.learn(self.warp_in_grid(warp.index), told));
    }

    /// Notes an access of a lane to a memory of that number; gives the first earlier one that is not ordered with it.
    pub(crate) fn ordered_access(
        &self,
        warp: &Warp,
        lane: usize,
        manner: Manner,
        memory: usize,
        offset: u64,
        bytes: u32,
    ) -> Option<(Touch, u64)> {
        let by = Actor {
            warp: self.warp_in_grid(warp.index),
            block: self.block_index,
            thread: warp.thread(lane),
            pc: warp.pc,
        };
        self.with_order(|order| order.access(by, manner, memory, offset, bytes)).flatten()
    }

    /// Notes an access; one that is not ordered with an earlier one of another block or warp is a fault.
    pub(crate) fn touch_in_order(
        &self,
        warp: &Warp,
        located: &Located,
        mask: Mask,
        address: &L64,
        access: &Access,
        kind: AccessKind,
    ) -> Result<(), Box<Fault>> {
        let strong = access.strength == Strength::Strong;
        let checks = &self.shot.options.checks;
        let manner = Manner {
            kind,
            strong,
            acquire: access.acquire,
            release: access.release,
            among_warps: checks.global_hazards && !self.shot.code.synchronizes_block,
        };
        for lane in lanes_of(mask) {
            let allocation = located.allocation(lane);
            let base = self.shot.view.base(allocation);
            let offset = address[lane].wrapping_sub(base);
            let found = self.ordered_access(warp, lane, manner, allocation, offset, access.bytes());
            if let Some((earlier, at)) = found {
                let block = self.shot.ctaid(earlier.by.block);
                let place = self.shot.place(block, earlier.by.thread, earlier.by.pc);
                let other =
                    Party { access: earlier.kind, line: place.line, block, thread: Some(place.thread) };
                let (place, address) = (self.place(warp, lane), base + at);
                return Err(Box::new(if earlier.by.block == self.block_index {
                    Fault::GlobalHazard { place, access: kind, address, other }
                } else {
                    Fault::GlobalConflict { place, access: kind, address, other }
                }));
            }
        }
        Ok(())
    }
}
