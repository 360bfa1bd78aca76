//! The sixteen barriers of a block.

use crate::exec::machine::{Machine, lanes_in};
use crate::exec::options::ExitedThreads;
use crate::exec::warp::{Group, Wait, Warp};
use crate::fault::Fault;
use crate::form::BarrierReduction;
use crate::lanes::{LANES, lanes_of};
use crate::meeting::Missing;

/// Barriers in all.
const COUNT: usize = 16;

/// One barrier between two completions.
#[derive(Clone, Debug, Default)]
struct Slot {
    /// Warps that wait.
    waiting: Vec<usize>,
    /// Warps that arrived without waiting, and their clocks then.
    arrived: Vec<(usize, u32)>,
    /// Threads that take part; absent for all of the block.
    threads: Option<u32>,
    /// Threads whose predicate held, and how many brought one.
    held: u32,
    brought: u32,
}

/// The barriers of a block.
#[derive(Debug, Default)]
pub(crate) struct Barriers {
    slots: [Slot; COUNT],
}

impl Barriers {
    /// Forgets everything.
    pub(crate) fn start_block(&mut self) {
        self.slots = Default::default();
    }

    /// A warp whose live lanes are all parked at barrier `id`.
    ///
    /// Releases the warps of the barrier when it is complete, and gives the warps that can run again.
    pub(crate) fn reach(
        &mut self,
        machine: &mut Machine,
        warps: &mut [Warp],
        index: usize,
        id: u32,
    ) -> Result<Vec<usize>, Box<Fault>> {
        let slot = &mut self.slots[(id as usize).min(COUNT - 1)];
        let mut released = Vec::new();
        let mut arrives = false;
        for group in waiting(&warps[index]) {
            let Some(barrier) = machine.barrier_at(group.pc) else { continue };
            arrives |= barrier.arrive;
            let lane = Warp::lowest(group.mask);
            let regs = &warps[index].regs;
            let threads = barrier.threads.map(|threads| regs.get32(threads)[lane]);
            let used = !slot.waiting.is_empty() || !slot.arrived.is_empty();
            let wrong = threads.is_some_and(|threads| threads == 0 || threads % LANES as u32 != 0);
            if wrong || used && slot.threads != threads {
                let missing = Missing::ThreadCount { threads: threads.or(slot.threads).unwrap_or_default() };
                return Err(missed(machine, &warps[index], id, missing));
            }
            slot.threads = threads;
            if let Some((_, source)) = barrier.reduction {
                slot.held += (regs.test(source) & group.mask).count_ones();
                slot.brought += group.mask.count_ones();
            }
        }
        if arrives {
            let clock = machine.clocks.arrive(index);
            slot.arrived.push((index, clock));
            warps[index].release_barrier();
            released.push(index);
        } else {
            slot.waiting.push(index);
        }
        released.extend(self.complete(machine, warps, id)?);
        Ok(released)
    }

    /// Looks at all barriers again after a warp has exited.
    pub(crate) fn after_exit(
        &mut self,
        machine: &mut Machine,
        warps: &mut [Warp],
    ) -> Result<Vec<usize>, Box<Fault>> {
        let mut released = Vec::new();
        for id in 0..COUNT as u32 {
            released.extend(self.complete(machine, warps, id)?);
        }
        Ok(released)
    }

    fn complete(
        &mut self,
        machine: &mut Machine,
        warps: &mut [Warp],
        id: u32,
    ) -> Result<Vec<usize>, Box<Fault>> {
        let slot = &mut self.slots[(id as usize).min(COUNT - 1)];
        if slot.waiting.is_empty() {
            return Ok(Vec::new());
        }
        let here = slot.waiting.len() + slot.arrived.len();
        let complete = match slot.threads {
            Some(threads) => here * LANES >= threads as usize,
            None => here >= warps.iter().filter(|warp| warp.live != 0).count(),
        };
        if !complete {
            return Ok(Vec::new());
        }
        if slot.threads.is_none()
            && machine.shot.options.checks.exited_threads == ExitedThreads::Fault
            && let Some(thread) = first_exited(machine, warps)
        {
            let missing = Missing::Exited { thread: machine.shot.tid(thread) };
            let first = slot.waiting.iter().min().copied().unwrap_or_default();
            return Err(missed(machine, &warps[first], id, missing));
        }
        let done = std::mem::take(slot);
        machine.order_barrier(done.waiting.iter().copied().chain(done.arrived.iter().map(|(warp, _)| *warp)));
        machine.clocks.barrier(&done.waiting, &done.arrived);
        for &index in &done.waiting {
            let warp = &mut warps[index];
            for group in waiting(warp) {
                let Some(barrier) = machine.barrier_at(group.pc) else { continue };
                if let Some((how, _)) = barrier.reduction {
                    let holds = match how {
                        BarrierReduction::And => done.held == done.brought,
                        BarrierReduction::Or | BarrierReduction::Popc => done.held > 0,
                    };
                    if let Some(d) = barrier.d {
                        warp.regs.set32(d, &[done.held; LANES], group.mask);
                    }
                    if let Some(p) = barrier.p {
                        warp.regs.set_pred(p, if holds { u32::MAX } else { 0 }, group.mask);
                    }
                }
            }
            warp.release_barrier();
        }
        Ok(done.waiting)
    }

    /// The fault of a block in which no warp can run any more.
    #[cold]
    pub(crate) fn deadlock(&self, machine: &Machine, warps: &[Warp]) -> Box<Fault> {
        let stuck = |slot: &&Slot| !slot.waiting.is_empty();
        let mut used = (0..COUNT).filter(|id| stuck(&&self.slots[*id]));
        let Some(id) = used.next() else {
            return machine.unsupported(&warps[0], 0, "a block in which no warp can run");
        };
        let slot = &self.slots[id];
        let first = slot.waiting.iter().min().copied().unwrap_or_default();
        let elsewhere = used.flat_map(|other| self.slots[other].waiting.iter().copied()).min();
        let missing = match (elsewhere, slot.threads) {
            (Some(other), _) => {
                let at = waiting(&warps[other]).first().copied();
                let lane = at.map_or(0, |group| Warp::lowest(group.mask));
                let line =
                    at.and_then(|group| machine.shot.code.insts.get(group.pc)).map_or(0, |inst| inst.line);
                Missing::Waits { thread: machine.shot.tid(warps[other].thread(lane)), line }
            }
            (None, threads) => Missing::TooFewThreads { threads: threads.unwrap_or(machine.shot.threads()) },
        };
        missed(machine, &warps[first], id as u32, missing)
    }
}

fn waiting(warp: &Warp) -> Vec<Group> {
    warp.groups.iter().filter(|group| matches!(group.wait, Wait::Barrier(_))).copied().collect()
}

fn first_exited(machine: &Machine, warps: &[Warp]) -> Option<u32> {
    let threads = machine.shot.threads();
    warps.iter().find_map(|warp| {
        let exited = lanes_in(warp.index, threads) & !warp.live;
        lanes_of(exited).next().map(|lane| warp.thread(lane))
    })
}

#[cold]
fn missed(machine: &Machine, warp: &Warp, barrier: u32, missing: Missing) -> Box<Fault> {
    let at = waiting(warp).first().copied();
    let thread = warp.thread(at.map_or(0, |group| Warp::lowest(group.mask)));
    let place = machine.shot.place(machine.ctaid, thread, at.map_or(warp.pc, |group| group.pc));
    Box::new(Fault::BarrierDivergence { place, barrier, missing })
}
