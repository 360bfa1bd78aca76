//! Meeting of lanes at `.sync` instructions and at barriers.

use crate::exec::machine::Machine;
use crate::exec::warp::{Wait, Warp};
use crate::fault::Fault;
use crate::form::{Barrier, Op};
use crate::lanes::{L32, Mask, lanes_of};
use crate::meeting::Missing;

/// How a run of a warp ends for now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Stop {
    /// All lanes have exited.
    Exited,
    /// All live lanes are at the block's barrier of that number.
    Barrier(u32),
    /// No lane can run before an mbarrier or the cluster's barrier has come further.
    Parked,
    /// The turn is over.
    Yield,
}

impl Machine<'_> {
    /// Lets the lanes of `mask` meet those of their member masks at the current instruction.
    ///
    /// Gives the lanes whose members are all there; the others are parked and no longer active.
    pub(crate) fn meet(&self, warp: &mut Warp, mask: Mask, members: &L32) -> Result<Mask, Box<Fault>> {
        let pc = warp.pc;
        let mut meeting = 0;
        for lane in lanes_of(mask) {
            let named = members[lane];
            if meeting >> lane & 1 != 0 {
                continue;
            }
            let here =
                lanes_of(mask).filter(|other| members[*other] == named).fold(0, |m, other| m | 1 << other);
            if named & here != here {
                return Err(self.stuck(warp, Warp::lowest(here & !named), named, here));
            }
            let present = here | warp.take(|group| group.pc == pc && group.wait == Wait::Members(named));
            if named & warp.live & !present == 0 {
                meeting |= present;
                warp.active |= present;
            } else {
                warp.active &= !here;
                warp.set_aside(pc, present, Wait::Members(named));
                meeting &= !present;
            }
        }
        Ok(meeting & warp.active)
    }

    /// `bar.warp.sync`: as [`Machine::meet`], but lanes may come to any such instruction. All lanes of `mask` are
    /// parked behind it until their members have come.
    pub(crate) fn warp_sync(&mut self, warp: &mut Warp, mask: Mask, members: &L32) -> Result<(), Box<Fault>> {
        let mut rest = mask;
        while rest != 0 {
            let lane = Warp::lowest(rest);
            let named = members[lane];
            let here =
                lanes_of(rest).filter(|other| members[*other] == named).fold(0, |m, other| m | 1 << other);
            if named & here != here {
                return Err(self.stuck(warp, Warp::lowest(here & !named), named, here));
            }
            rest &= !here;
            let parked = warp.groups.iter().filter(|group| group.wait == Wait::WarpSync(named));
            let present = parked.fold(here, |mask, group| mask | group.mask);
            if named & warp.live & !present == 0 {
                self.release_warp_sync(warp, named);
            } else {
                warp.active &= !here;
                warp.set_aside(warp.pc + 1, here, Wait::WarpSync(named));
            }
        }
        Ok(())
    }

    fn release_warp_sync(&mut self, warp: &mut Warp, named: Mask) {
        for group in &mut warp.groups {
            if group.wait == Wait::WarpSync(named) {
                group.wait = Wait::Ready;
                warp.limit = warp.limit.min(group.pc);
            }
        }
        self.clocks.warp_sync(warp.index, named);
    }

    /// Lets the lanes of `mask` wait at the block's barrier; tells whether all live lanes are there now.
    pub(crate) fn wait_at_barrier(
        &self,
        warp: &mut Warp,
        mask: Mask,
        barrier: &Barrier,
    ) -> Result<Option<u32>, Box<Fault>> {
        let ids = warp.regs.get32(barrier.id);
        let lane = Warp::lowest(mask);
        let id = ids[lane];
        if id > 15 || lanes_of(mask).any(|lane| ids[lane] != id) {
            return Err(self.unsupported(
                warp,
                lane,
                "bar with a number above 15 or of different numbers in a warp",
            ));
        }
        let pc = warp.pc;
        let other = warp
            .groups
            .iter()
            .find(|group| matches!(group.wait, Wait::Barrier(other) if other != id || barrier.aligned && group.pc != pc))
            .copied();
        if let Some(group) = other {
            return Err(self.diverged(warp, lane, id, group.pc, group.mask));
        }
        let together = mask | warp.take(|group| group.pc == pc && group.wait == Wait::Barrier(id));
        warp.active &= !mask;
        warp.set_aside(pc, together, Wait::Barrier(id));
        warp.set_aside(pc + 1, warp.active, Wait::Ready);
        warp.active = 0;
        Ok(self.barrier_reached(warp))
    }

    /// The barrier at which all live lanes of the warp wait.
    fn barrier_reached(&self, warp: &Warp) -> Option<u32> {
        let mut waiting = 0;
        let mut at = None;
        for group in &warp.groups {
            if let Wait::Barrier(id) = group.wait {
                waiting |= group.mask;
                at = Some(id);
            }
        }
        at.filter(|_| waiting == warp.live)
    }

    /// What to do when no lane of the warp can run: all have exited, all wait at a barrier, or lanes that waited
    /// for exited ones go on. Anything else is a fault.
    pub(crate) fn settle(&mut self, warp: &mut Warp) -> Result<Option<Stop>, Box<Fault>> {
        if warp.live == 0 {
            return Ok(Some(Stop::Exited));
        }
        if let Some(id) = self.barrier_reached(warp) {
            return Ok(Some(Stop::Barrier(id)));
        }
        let live = warp.live;
        let mut synced = None;
        let mut freed = false;
        for index in 0..warp.groups.len() {
            let group = warp.groups[index];
            match group.wait {
                Wait::Members(named) if named & live & !group.mask == 0 => {
                    warp.groups[index].wait = Wait::Ready;
                    freed = true;
                }
                Wait::WarpSync(named) => {
                    let parked = warp.groups.iter().filter(|group| group.wait == Wait::WarpSync(named));
                    if named & live & !parked.fold(0, |mask, group| mask | group.mask) == 0 {
                        synced = Some(named);
                    }
                }
                _ => {}
            }
        }
        if let Some(named) = synced {
            self.release_warp_sync(warp, named);
            freed = true;
        }
        if freed && warp.switch() {
            return Ok(None);
        }
        if warp.is_parked() {
            return Ok(Some(Stop::Parked));
        }
        Err(self.deadlock(warp))
    }

    #[cold]
    fn deadlock(&self, warp: &mut Warp) -> Box<Fault> {
        let barrier = warp.groups.iter().find(|group| matches!(group.wait, Wait::Barrier(_))).copied();
        let member = warp.groups.iter().find(|group| !matches!(group.wait, Wait::Barrier(_))).copied();
        match (barrier, member) {
            (Some(at), other) => {
                warp.pc = at.pc;
                let id = if let Wait::Barrier(id) = at.wait { id } else { 0 };
                let missing = other.map_or((at.pc, at.mask), |group| (group.pc, group.mask));
                self.diverged(warp, Warp::lowest(at.mask), id, missing.0, missing.1)
            }
            (None, Some(group)) => {
                let (named, back) = match group.wait {
                    Wait::WarpSync(named) => (named, 1),
                    Wait::Members(named) => (named, 0),
                    _ => (group.mask, 0),
                };
                warp.pc = group.pc - back;
                self.stuck(warp, Warp::lowest(group.mask), named, group.mask)
            }
            (None, None) => self.unsupported(warp, 0, "a warp without lanes"),
        }
    }

    #[cold]
    fn stuck(&self, warp: &Warp, lane: usize, members: Mask, present: Mask) -> Box<Fault> {
        Box::new(Fault::WarpDivergence { place: self.place(warp, lane), members, present })
    }

    #[cold]
    fn diverged(&self, warp: &Warp, lane: usize, barrier: u32, pc: usize, mask: Mask) -> Box<Fault> {
        let thread = self.shot.tid(warp.thread(Warp::lowest(mask)));
        let line = self.shot.code.insts.get(pc).map_or(0, |inst| inst.line);
        let missing = Missing::Waits { thread, line };
        Box::new(Fault::BarrierDivergence { place: self.place(warp, lane), barrier, missing })
    }

    /// The barrier instruction that parked lanes wait at.
    pub(crate) fn barrier_at(&self, pc: usize) -> Option<&Barrier> {
        match self.shot.code.insts.get(pc).map(|inst| &inst.op) {
            Some(Op::Barrier(barrier)) => Some(barrier),
            _ => None,
        }
    }
}
