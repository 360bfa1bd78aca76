//! A warp: its registers, and which of its lanes are where.
//!
//! The lanes at the lowest place run first, so that lanes which took different ways meet again as early as they
//! can. Lanes that wait for others are parked.

use crate::exec::taint::{Taint, slot};
use crate::form::{Pred, PredSource, R32, R64, Reg};
use crate::lanes::{L32, L64, LANES, Mask, lanes_of, merge};

/// Registers of a warp, an array of lanes each.
#[derive(Debug)]
pub(crate) struct Registers {
    pub(crate) narrow: Vec<L32>,
    pub(crate) wide: Vec<L64>,
    pub(crate) preds: Vec<Mask>,
    /// The carry flag.
    pub(crate) carry: Mask,
    /// What is undefined, if that is followed.
    pub(crate) taint: Option<Box<Taint>>,
}

impl Registers {
    #[inline(always)]
    pub(crate) fn get32(&self, reg: R32) -> &L32 {
        &self.narrow[reg.0 as usize]
    }

    #[inline(always)]
    pub(crate) fn get64(&self, reg: R64) -> &L64 {
        &self.wide[reg.0 as usize]
    }

    #[inline(always)]
    pub(crate) fn set32(&mut self, reg: R32, value: &L32, mask: Mask) {
        merge(&mut self.narrow[reg.0 as usize], value, mask);
    }

    #[inline(always)]
    pub(crate) fn set64(&mut self, reg: R64, value: &L64, mask: Mask) {
        merge(&mut self.wide[reg.0 as usize], value, mask);
    }

    /// The lanes in which the predicate, negated or not, holds.
    #[inline(always)]
    pub(crate) fn test(&self, source: PredSource) -> Mask {
        let mask = self.preds[source.pred.0 as usize];
        if source.negated { !mask } else { mask }
    }

    #[inline(always)]
    pub(crate) fn set_pred(&mut self, pred: Pred, value: Mask, mask: Mask) {
        let old = &mut self.preds[pred.0 as usize];
        *old = *old & !mask | value & mask;
    }

    /// The lanes in which a register is undefined.
    pub(crate) fn undefined(&self, reg: Reg) -> Mask {
        self.taint.as_ref().map_or(0, |taint| taint.mask(slot(reg)))
    }

    /// Any register as 64-bit lanes, zero-extended.
    pub(crate) fn get(&self, reg: Reg) -> L64 {
        match reg {
            Reg::Narrow(reg) => self.get32(reg).map(u64::from),
            Reg::Wide(reg) => *self.get64(reg),
        }
    }

    /// Any register from 64-bit lanes, cut to its width.
    pub(crate) fn set(&mut self, reg: Reg, value: &L64, mask: Mask) {
        match reg {
            Reg::Narrow(reg) => self.set32(reg, &value.map(|value| value as u32), mask),
            Reg::Wide(reg) => self.set64(reg, value, mask),
        }
    }
}

/// What parked lanes wait for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Wait {
    /// Nothing: they can run.
    Ready,
    /// The other lanes of the member mask, at the same instruction.
    Members(Mask),
    /// The other lanes of the member mask, at any `bar.warp.sync`.
    WarpSync(Mask),
    /// A barrier of the block.
    Barrier(u32),
    /// More phases of the block's mbarriers than these; then it looks again.
    Gate(u64),
    /// A later phase of the cluster's barrier than this one.
    Cluster(u32),
}

/// Lanes that are together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    pub(crate) pc: usize,
    pub(crate) mask: Mask,
    pub(crate) wait: Wait,
}

/// A warp of the running block.
#[derive(Debug)]
pub(crate) struct Warp {
    pub(crate) index: usize,
    pub(crate) regs: Registers,
    /// Local memory: word `w` of lane `l` at `w * 32 + l`.
    pub(crate) local: Vec<u32>,
    /// Which bytes of local memory are written, word by word as above; empty if that is not followed.
    pub(crate) local_known: Vec<u8>,
    /// Lanes that have not exited.
    pub(crate) live: Mask,
    /// The lanes that run, and where.
    pub(crate) active: Mask,
    pub(crate) pc: usize,
    /// All other live lanes.
    pub(crate) groups: Vec<Group>,
    /// The place at which the running lanes must look for others.
    pub(crate) limit: usize,
}

impl Warp {
    /// Puts all lanes of the mask at the entry.
    pub(crate) fn start(&mut self, entry: usize, lanes: Mask) {
        self.live = lanes;
        self.active = lanes;
        self.pc = entry;
        self.groups.clear();
        self.limit = usize::MAX;
    }

    /// Thread index of a lane in its block.
    pub(crate) fn thread(&self, lane: usize) -> u32 {
        (self.index * LANES + lane) as u32
    }

    /// Runs the lanes that can run at the lowest place; false if there are none.
    pub(crate) fn switch(&mut self) -> bool {
        let ready = |group: &&Group| group.wait == Wait::Ready;
        let Some(pc) = self.groups.iter().filter(ready).map(|group| group.pc).min() else {
            self.active = 0;
            return false;
        };
        self.pc = pc;
        self.active = self.take(|group| group.wait == Wait::Ready && group.pc == pc);
        self.limit = self.groups.iter().filter(ready).map(|group| group.pc).min().unwrap_or(usize::MAX);
        true
    }

    /// Removes the groups for which `f` holds and gives their lanes.
    pub(crate) fn take(&mut self, f: impl Fn(&Group) -> bool) -> Mask {
        let mut taken = 0;
        self.groups.retain(|group| {
            let hit = f(group);
            if hit {
                taken |= group.mask;
            }
            !hit
        });
        taken
    }

    /// Sets the running lanes aside and runs the lowest.
    pub(crate) fn reconverge(&mut self) {
        self.set_aside(self.pc, self.active, Wait::Ready);
        self.switch();
    }

    /// Adds a group; nothing happens for no lanes.
    pub(crate) fn set_aside(&mut self, pc: usize, mask: Mask, wait: Wait) {
        if mask != 0 {
            self.groups.push(Group { pc, mask, wait });
        }
    }

    /// Continues the running lanes at `pc`.
    #[inline(always)]
    pub(crate) fn jump(&mut self, pc: usize) {
        self.pc = pc;
        if pc >= self.limit {
            self.reconverge();
        }
    }

    /// Sends the lanes of `taken` to `target` and the others on to `next`.
    pub(crate) fn diverge(&mut self, taken: Mask, target: usize, next: usize) {
        self.set_aside(target, taken, Wait::Ready);
        self.set_aside(next, self.active & !taken, Wait::Ready);
        self.switch();
    }

    /// Gives lanes that can run but are not the lowest a turn, until the next call of `switch`.
    pub(crate) fn rotate(&mut self) {
        let ready = self.groups.iter().filter(|group| group.wait == Wait::Ready).map(|group| group.pc);
        let Some(next) = ready.clone().filter(|pc| *pc > self.pc).min().or_else(|| ready.min()) else {
            return;
        };
        self.set_aside(self.pc, self.active, Wait::Ready);
        self.pc = next;
        self.active = self.take(|group| group.wait == Wait::Ready && group.pc == next);
        self.limit = usize::MAX;
    }

    /// Lets the lanes that wait at a barrier go on behind it.
    pub(crate) fn release_barrier(&mut self) {
        for group in &mut self.groups {
            if matches!(group.wait, Wait::Barrier(_)) {
                group.wait = Wait::Ready;
                group.pc += 1;
            }
        }
        if self.active != 0 {
            self.set_aside(self.pc, self.active, Wait::Ready);
        }
        self.switch();
    }

    /// Whether lanes wait for an mbarrier or the cluster.
    pub(crate) fn is_parked(&self) -> bool {
        self.groups.iter().any(|group| matches!(group.wait, Wait::Gate(_) | Wait::Cluster(_)))
    }

    /// Lets those lanes look again for which `f` holds; whether there are any.
    pub(crate) fn wake(&mut self, f: impl Fn(Wait) -> bool) -> bool {
        let mut any = false;
        for group in self.groups.iter_mut().filter(|group| f(group.wait)) {
            group.wait = Wait::Ready;
            any = true;
        }
        self.look_again(any)
    }

    /// Makes sure that lanes run, if some have become ready.
    pub(crate) fn look_again(&mut self, any: bool) -> bool {
        if any && self.active == 0 {
            self.switch();
        } else if any {
            let ready = self.groups.iter().filter(|group| group.wait == Wait::Ready).map(|group| group.pc);
            self.limit = self.limit.min(ready.min().unwrap_or(usize::MAX));
        }
        any
    }

    /// The lowest lane of a mask.
    pub(crate) fn lowest(mask: Mask) -> usize {
        lanes_of(mask).next().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warp() -> Warp {
        let regs = Registers { narrow: vec![], wide: vec![], preds: vec![], carry: 0, taint: None };
        let mut warp = Warp {
            index: 0,
            regs,
            local: vec![],
            local_known: vec![],
            live: 0,
            active: 0,
            pc: 0,
            groups: vec![],
            limit: 0,
        };
        warp.start(0, u32::MAX);
        warp
    }

    #[test]
    fn the_lowest_place_runs_first_and_lanes_meet_again() {
        let mut warp = warp();
        warp.pc = 5;
        warp.diverge(0xff, 20, 6);
        assert_eq!((warp.pc, warp.active, warp.limit), (6, !0xff, 20));
        warp.jump(30);
        assert_eq!((warp.pc, warp.active), (20, 0xff));
        warp.jump(30);
        assert_eq!((warp.pc, warp.active, warp.limit), (30, u32::MAX, usize::MAX));
    }

    #[test]
    fn parked_lanes_do_not_run() {
        let mut warp = warp();
        warp.diverge(1, 2, 3);
        assert_eq!((warp.pc, warp.active), (2, 1));
        warp.set_aside(2, warp.active, Wait::Members(u32::MAX));
        assert!(warp.switch());
        assert_eq!((warp.pc, warp.active), (3, !1));
        warp.set_aside(3, warp.active, Wait::Barrier(0));
        assert!(!warp.switch());
    }

    #[test]
    fn a_turn_goes_to_lanes_that_are_not_lowest() {
        let mut warp = warp();
        warp.diverge(1, 2, 9);
        warp.rotate();
        assert_eq!((warp.pc, warp.active, warp.limit), (9, !1, usize::MAX));
        warp.rotate();
        assert_eq!((warp.pc, warp.active), (2, 1));
    }
}
