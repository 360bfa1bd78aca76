//! One block: its warps in a seeded order, turn by turn, from barrier to barrier.

use crate::code::{LaneMask, Special};
use crate::exec::barrier::Barriers;
use crate::exec::machine::{Machine, Shot, lanes_in};
use crate::exec::sync::Stop;
use crate::exec::taint::Taint;
use crate::exec::warp::{Registers, Warp};
use crate::fault::Fault;
use crate::lanes::{L64, LANES};
use crate::memory::POISON_WORD;

/// Warp instructions of one turn of a warp.
const TURN: u64 = 1 << 14;

/// Runs blocks of one launch, one after the other, on one host thread.
#[derive(Debug)]
pub(crate) struct BlockRunner<'a> {
    machine: Machine<'a>,
    warps: Vec<Warp>,
    barriers: Barriers,
}

impl<'a> BlockRunner<'a> {
    /// Makes the warps, with all registers that no block changes set.
    pub(crate) fn new(shot: &'a Shot<'a>) -> Self {
        let count = (shot.threads() as usize).div_ceil(LANES);
        Self {
            machine: Machine::new(shot),
            warps: (0..count).map(|index| new_warp(shot, index)).collect(),
            barriers: Barriers::default(),
        }
    }

    /// Thread instructions of all blocks so far.
    pub(crate) fn instructions(&self) -> u64 {
        self.machine.instructions
    }

    /// Runs the block with that linear index from start to end.
    pub(crate) fn run(&mut self, index: u32) -> Result<(), Box<Fault>> {
        self.start(index);
        let ended = self.run_warps(index);
        match (ended, self.machine.pending.take()) {
            (Err(fault), Some(_)) if matches!(*fault, Fault::SharedHazard { .. }) => Err(fault),
            (_, Some(pending)) => Err(pending),
            (ended, None) => ended,
        }
    }

    fn run_warps(&mut self, index: u32) -> Result<(), Box<Fault>> {
        let machine = &mut self.machine;
        let budget = machine.shot.options.step_budget;
        let mut runnable = vec![true; self.warps.len()];
        let mut order: Vec<usize> = (0..self.warps.len()).collect();
        let mut random = Random::new(machine.shot.options.seed, u64::from(index));
        loop {
            random.shuffle(&mut order);
            let mut ran = false;
            for &warp in &order {
                if !std::mem::take(&mut runnable[warp]) {
                    continue;
                }
                ran = true;
                let turn = TURN.min(budget.saturating_sub(machine.steps));
                if turn == 0 {
                    let (warp, lane) = (&self.warps[warp], Warp::lowest(self.warps[warp].active));
                    return Err(Box::new(Fault::StepBudget { place: machine.place(warp, lane), budget }));
                }
                let freed = match machine.run(&mut self.warps[warp], turn)? {
                    Stop::Yield => {
                        self.warps[warp].rotate();
                        vec![warp]
                    }
                    Stop::Barrier(id) => self.barriers.reach(machine, &mut self.warps, warp, id)?,
                    Stop::Exited => self.barriers.after_exit(machine, &mut self.warps)?,
                };
                for warp in freed {
                    runnable[warp] = true;
                }
            }
            if !ran {
                break;
            }
        }
        if self.warps.iter().any(|warp| warp.live != 0) {
            return Err(self.barriers.deadlock(&self.machine, &self.warps));
        }
        Ok(())
    }

    fn start(&mut self, index: u32) {
        let machine = &mut self.machine;
        let code = machine.shot.code;
        machine.block_index = index;
        machine.ctaid = machine.shot.ctaid(index);
        machine.steps = 0;
        machine.shared.fill(POISON_WORD);
        machine.shared_known.fill(0);
        if let Some(hazards) = &mut machine.hazards {
            hazards.start_block();
        }
        if code.copies {
            machine.copies.start_block(machine.shot.threads());
        }
        self.barriers.start_block();
        for warp in &mut self.warps {
            let regs = &mut warp.regs;
            regs.narrow[..code.written32].fill([POISON_WORD; LANES]);
            regs.wide[..code.written64].fill([u64::from(POISON_WORD) << 32 | u64::from(POISON_WORD); LANES]);
            regs.preds.fill(0);
            regs.carry = 0;
            if let Some(taint) = &mut regs.taint {
                taint.start_block(code.written32, code.written64, code.never);
            }
            warp.local.fill(POISON_WORD);
            warp.local_known.fill(0);
            for &(special, reg) in &code.specials {
                if let Special::Ctaid(dimension) = special {
                    let value = u64::from(machine.ctaid[usize::from(dimension)]);
                    regs.set(reg, &[value; LANES], u32::MAX);
                }
            }
            warp.start(code.entry, lanes_in(warp.index, machine.shot.threads()));
        }
    }
}

fn new_warp(shot: &Shot, index: usize) -> Warp {
    let code = shot.code;
    let followed = shot.options.checks.uninitialised;
    let local_words = code.local_bytes.div_ceil(4) as usize * LANES;
    let mut regs = Registers {
        narrow: vec![[0; LANES]; code.total32],
        wide: vec![[0; LANES]; code.total64],
        preds: vec![0; code.predicates],
        carry: 0,
        taint: followed.then(|| Box::new(Taint::new(code.total32, code.total64, code.predicates))),
    };
    for &(reg, value) in &code.constants32 {
        regs.set32(reg, &[value; LANES], u32::MAX);
    }
    for &(reg, value) in &code.constants64 {
        regs.set64(reg, &[value; LANES], u32::MAX);
    }
    for (relocation, &address) in code.relocations.iter().zip(&shot.addresses) {
        regs.set(relocation.reg, &[address; LANES], u32::MAX);
    }
    for &(special, reg) in &code.specials {
        regs.set(reg, &special_value(shot, index, special), u32::MAX);
    }
    Warp {
        index,
        regs,
        local: vec![0; local_words],
        local_known: if followed { vec![0; local_words] } else { Vec::new() },
        live: 0,
        active: 0,
        pc: 0,
        groups: Vec::new(),
        limit: usize::MAX,
    }
}

fn special_value(shot: &Shot, warp: usize, special: Special) -> L64 {
    let uniform = |value: u32| [u64::from(value); LANES];
    let each = |f: &dyn Fn(usize) -> u32| std::array::from_fn(|lane| u64::from(f(lane)));
    match special {
        Special::Tid(dimension) => {
            each(&|lane| shot.tid((warp * LANES + lane) as u32)[usize::from(dimension)])
        }
        Special::Ntid(dimension) => uniform(shot.block[usize::from(dimension)]),
        Special::Nctaid(dimension) => uniform(shot.grid[usize::from(dimension)]),
        // Set anew for every block.
        Special::Ctaid(_) | Special::Zero => uniform(0),
        Special::One => uniform(1),
        Special::LaneId => each(&|lane| lane as u32),
        Special::WarpId => uniform(warp as u32),
        Special::WarpCount => uniform(shot.threads().div_ceil(LANES as u32)),
        Special::DynamicShared => uniform(shot.dynamic_shared),
        Special::TotalShared => uniform(shot.shared_span() as u32),
        Special::LaneMask(which) => each(&|lane| {
            let own = 1u32 << lane;
            let below = own - 1;
            match which {
                LaneMask::Equal => own,
                LaneMask::Below => below,
                LaneMask::UpTo => below | own,
                LaneMask::Above => !(below | own),
                LaneMask::From => !below,
            }
        }),
    }
}

/// A small generator (`SplitMix64`) for the order of warps.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn new(seed: u64, block: u64) -> Self {
        let mut random = Self(seed);
        let first = random.next();
        Self(first ^ block.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn shuffle(&mut self, order: &mut [usize]) {
        for last in (1..order.len()).rev() {
            let other = (self.next() % (last as u64 + 1)) as usize;
            order.swap(last, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_fixed_by_seed_and_block() {
        let order = |seed, block| {
            let mut order: Vec<usize> = (0..8).collect();
            Random::new(seed, block).shuffle(&mut order);
            order
        };
        assert_eq!(order(1, 2), order(1, 2));
        assert_ne!(order(1, 2), order(2, 2));
        assert_ne!(order(1, 2), order(1, 3));
        let mut sorted = order(5, 5);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..8).collect::<Vec<_>>());
    }
}
