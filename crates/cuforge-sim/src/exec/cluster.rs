//! What blocks of a cluster do with each other: shared memory of others, and the cluster's barrier.

use crate::exec::bank::RANK_SHIFT;
use crate::exec::machine::{Machine, SHARED_WINDOW};
use crate::exec::warp::{Wait, Warp};
use crate::fault::{AccessKind, Fault, Party};
use crate::form::{Access, Space, Strength};
use crate::gate::ClusterOp;
use crate::lanes::{L64, Mask, lanes_of};
use crate::meeting::Missing;
use crate::shadow::order::Manner;

/// Number of the cluster's barrier in faults, behind those of a block.
pub(crate) const CLUSTER_BARRIER: u32 = 16;

/// The place within its block's shared memory that an address of the shared window means.
pub(crate) fn within(address: u64) -> u64 {
    address & ((1 << RANK_SHIFT) - 1)
}

impl Machine<'_> {
    /// The lanes whose addresses lie in shared memory of the same block, with its rank in the cluster.
    pub(crate) fn ranks(&self, mask: Mask, address: &L64) -> Vec<(u64, Mask)> {
        let mut found: Vec<(u64, Mask)> = Vec::new();
        for lane in lanes_of(mask) {
            let rank = self.rank_of(address[lane]);
            match found.iter_mut().find(|(known, _)| *known == rank) {
                Some((_, lanes)) => *lanes |= 1 << lane,
                None => found.push((rank, 1 << lane)),
            }
        }
        found
    }

    /// The rank of the block whose shared memory an address of the shared window lies in.
    pub(crate) fn rank_of(&self, address: u64) -> u64 {
        (address >> RANK_SHIFT).checked_sub(1).unwrap_or(u64::from(self.rank))
    }

    /// The address of a place in shared memory of the block of that rank, seen from this one.
    pub(crate) fn address_at(&self, rank: u32, address: u64) -> u64 {
        if rank == self.rank {
            within(address)
        } else {
            (u64::from(rank) + 1) << RANK_SHIFT | within(address)
        }
    }

    /// Works on the shared memory of the block of that rank until [`Machine::leave`]; hazards among its threads are not
    /// looked for from here. A fault if there is no such block, or it has exited.
    pub(crate) fn enter(
        &mut self,
        rank: u64,
        warp: &Warp,
        lane: usize,
        (kind, address, bytes): (AccessKind, u64, u32),
    ) -> Result<(), Box<Fault>> {
        if self.visit(rank) {
            return Ok(());
        }
        Err(self.out_of_bounds(warp, lane, kind, Space::Shared, address, bytes))
    }

    /// As [`Machine::enter`]; false if there is no such block, or it has exited.
    pub(crate) fn visit(&mut self, rank: u64) -> bool {
        if rank == u64::from(self.rank) {
            return true;
        }
        let there = usize::try_from(rank).ok();
        let there = there.filter(|rank| self.peers.get(*rank).is_some_and(|bank| !bank.is_gone));
        let Some(there) = there else { return false };
        std::mem::swap(&mut self.bank, &mut self.peers[there]);
        self.away = self.hazards.take();
        self.visits = Some(there);
        true
    }

    /// Comes back from [`Machine::enter`] and [`Machine::visit`].
    pub(crate) fn leave(&mut self) {
        if let Some(there) = self.visits.take() {
            std::mem::swap(&mut self.bank, &mut self.peers[there]);
            self.hazards = self.away.take();
        }
    }

    /// Notes an access to shared memory that other blocks may access too; one that is not ordered with theirs is a fault.
    #[cold]
    pub(crate) fn touch_cluster(
        &self,
        warp: &Warp,
        mask: Mask,
        address: &L64,
        bytes: u32,
        (access, kind): (&Access, AccessKind),
    ) -> Result<(), Box<Fault>> {
        let manner = Manner {
            kind,
            strong: access.strength == Strength::Strong,
            acquire: access.acquire,
            release: access.release,
            among_warps: false,
        };
        for lane in lanes_of(mask) {
            let memory = usize::MAX - self.bank.block as usize;
            if let Some((earlier, at)) = self.ordered_access(warp, lane, manner, memory, address[lane], bytes)
            {
                let block = self.shot.ctaid(earlier.by.block);
                let place = self.shot.place(block, earlier.by.thread, earlier.by.pc);
                let other =
                    Party { access: earlier.kind, line: place.line, block, thread: Some(place.thread) };
                let place = self.place(warp, lane);
                return Err(Box::new(Fault::SharedHazard { place, access: kind, address: at, other }));
            }
        }
        Ok(())
    }

    /// Any instruction that is about the cluster.
    pub(crate) fn cluster(&mut self, warp: &mut Warp, mask: Mask, op: &ClusterOp) -> Result<(), Box<Fault>> {
        match *op {
            ClusterOp::Arrive { releases } => self.arrive_at_cluster(warp, mask, releases)?,
            ClusterOp::Wait => self.wait_at_cluster(warp, mask)?,
            ClusterOp::Map { d, a, rank, generic } => {
                let base = if generic { SHARED_WINDOW } else { 0 };
                let (from, ranks) = (warp.regs.get(a), warp.regs.get32(rank));
                let out: L64 = std::array::from_fn(|lane| {
                    base + self.address_at(ranks[lane], from[lane].wrapping_sub(base))
                });
                warp.regs.set(d, &out, mask);
            }
            ClusterOp::Rank { d, a, generic } => {
                let base = if generic { SHARED_WINDOW } else { 0 };
                let out = warp.regs.get(a).map(|address| self.rank_of(address.wrapping_sub(base)) as u32);
                warp.regs.set32(d, &out, mask);
            }
        }
        Ok(())
    }

    /// `barrier.cluster.arrive`
    pub(crate) fn arrive_at_cluster(
        &mut self,
        warp: &Warp,
        mask: Mask,
        releases: bool,
    ) -> Result<(), Box<Fault>> {
        let phase = self.meeting.phases;
        let arrivals = &mut self.arrivals[warp.index];
        let twice = arrivals.arrived & mask;
        if twice != 0 {
            return Err(self.unpaired(warp, twice));
        }
        arrivals.arrived |= mask;
        lanes_of(mask).for_each(|lane| arrivals.phase[lane] = phase);
        if releases {
            self.roll_cluster();
            self.clocks.publish(warp.index, mask, warp.live, &mut self.cluster_told.arriving);
            if let Some(told) = self.tell_order(warp.index) {
                self.meeting.arriving.join(&told);
            }
        }
        self.meeting.arrive(mask.count_ones());
        Ok(())
    }

    /// `barrier.cluster.wait`: lanes whose phase is not complete are parked and no longer active.
    pub(crate) fn wait_at_cluster(&mut self, warp: &mut Warp, mask: Mask) -> Result<(), Box<Fault>> {
        let phase = self.meeting.phases;
        let arrivals = &mut self.arrivals[warp.index];
        let unpaired = mask & !arrivals.arrived;
        if unpaired != 0 {
            return Err(self.unpaired(warp, unpaired));
        }
        let complete = lanes_of(mask).filter(|lane| arrivals.phase[*lane] != phase);
        let complete = complete.fold(0, |mask, lane| mask | 1 << lane);
        arrivals.arrived &= !complete;
        if complete != 0 {
            self.roll_cluster();
            self.clocks.learn(warp.index, &self.cluster_told.completed);
            self.learn_order(warp, &self.meeting.completed);
        }
        warp.active &= !(mask & !complete);
        warp.set_aside(warp.pc, mask & !complete, Wait::Cluster(phase));
        Ok(())
    }

    /// Lanes that exit no longer count at the cluster's barrier.
    pub(crate) fn exit_cluster(&mut self, warp: &Warp, mask: Mask) {
        let phase = self.meeting.phases;
        let Some(arrivals) = self.arrivals.get(warp.index) else { return };
        let arrived = lanes_of(mask & arrivals.arrived).filter(|lane| arrivals.phase[*lane] == phase);
        let arrived = arrived.count() as u32;
        self.meeting.leave(mask.count_ones(), arrived);
    }

    /// Takes note of a phase that has been completed since.
    fn roll_cluster(&mut self) {
        let told = &mut self.cluster_told;
        if told.phase != self.meeting.phases {
            told.phase = self.meeting.phases;
            told.completed = std::mem::take(&mut told.arriving);
        }
    }

    #[cold]
    fn unpaired(&self, warp: &Warp, lanes: Mask) -> Box<Fault> {
        let place = self.place(warp, Warp::lowest(lanes));
        Box::new(Fault::BarrierDivergence { place, barrier: CLUSTER_BARRIER, missing: Missing::Unpaired })
    }
}

/// The place in the shared window that a generic address means.
pub(crate) fn from_generic(address: u64) -> u64 {
    address.wrapping_sub(SHARED_WINDOW)
}
