//! One block: its warps in a seeded order, turn by turn, from barrier to barrier.

use crate::code::{LaneMask, Special};
use crate::exec::bank::{Arrivals, ClusterTold};
use crate::exec::barrier::Barriers;
use crate::exec::machine::{Machine, Shot, lanes_in};
use crate::exec::options::LaunchOptions;
use crate::exec::random::Random;
use crate::exec::sync::Stop;
use crate::exec::taint::Taint;
use crate::exec::warp::{Registers, Wait, Warp};
use crate::fault::Fault;
use crate::lanes::{L64, LANES};
use crate::memory::POISON_WORD;

/// Warp instructions of one turn of a warp.
const TURN: u64 = 1 << 14;

/// What one round over the warps of a block came to.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Round {
    /// All have exited.
    Done,
    /// None can run before an mbarrier or the cluster's barrier has come further.
    Waits,
    /// Every warp that could run has run up to a barrier, to its end, or for a while.
    Ran,
    /// At least one has used up its turn: it may wait for another block.
    Spun,
}

/// Runs blocks of one launch, one after the other, on one host thread.
#[derive(Debug)]
pub(crate) struct BlockRunner<'a> {
    pub(crate) machine: Machine<'a>,
    warps: Vec<Warp>,
    barriers: Barriers,
    runnable: Vec<bool>,
    order: Vec<usize>,
    random: Random,
}

impl<'a> BlockRunner<'a> {
    /// Makes the warps, with all registers that no block changes set.
    pub(crate) fn new(shot: &'a Shot<'a>) -> Self {
        let count = (shot.threads() as usize).div_ceil(LANES);
        Self {
            machine: Machine::new(shot),
            warps: (0..count).map(|index| new_warp(shot, index)).collect(),
            barriers: Barriers::default(),
            runnable: Vec::new(),
            order: Vec::new(),
            random: Random::new(0, 0),
        }
    }

    /// Thread instructions of all blocks so far.
    pub(crate) fn instructions(&self) -> u64 {
        self.machine.instructions
    }

    /// Gives every warp of the started block that can run one turn, in the order that the seed picks.
    pub(crate) fn round(&mut self) -> Result<Round, Box<Fault>> {
        let turns = self.turns();
        if !self.machine.printed.is_empty() {
            let text = std::mem::take(&mut self.machine.printed);
            let printed = self.machine.shot.printed.lock();
            printed.unwrap_or_else(std::sync::PoisonError::into_inner).push((self.machine.block_index, text));
        }
        match (turns, self.machine.pending.get().is_some()) {
            (Err(fault), true) if !matches!(*fault, Fault::SharedHazard { .. }) => {
                Err(self.machine.pending.take().unwrap_or(fault))
            }
            (Ok(Round::Done), true) => match self.machine.pending.take() {
                Some(pending) => Err(pending),
                None => Ok(Round::Done),
            },
            (round, _) => round,
        }
    }

    fn turns(&mut self) -> Result<Round, Box<Fault>> {
        let machine = &mut self.machine;
        let LaunchOptions { step_budget: budget, seed, .. } = machine.shot.options;
        if seed != 0 {
            machine.land_some(&mut self.random)?;
        }
        self.random.shuffle(&mut self.order);
        if machine.shot.code.parks {
            for (warp, runnable) in self.warps.iter_mut().zip(&mut self.runnable) {
                let (gates, meetings) = (machine.bank.phases, machine.meeting.phases);
                *runnable |= warp.wake(|wait| match wait {
                    Wait::Gate(seen) => seen != gates,
                    Wait::Cluster(phase) => phase != meetings,
                    _ => false,
                });
            }
        }
        let mut round = Round::Done;
        let mut lands = false;
        for &warp in &self.order {
            if !std::mem::take(&mut self.runnable[warp]) {
                continue;
            }
            if round == Round::Done {
                round = Round::Ran;
            }
            let whole = if seed == 0 { TURN } else { 1 << self.random.below(TURN.ilog2() as usize + 1) };
            let turn = whole.min(budget.saturating_sub(machine.steps));
            if turn == 0 {
                let (warp, lane) = (&self.warps[warp], Warp::lowest(self.warps[warp].active));
                return Err(Box::new(Fault::StepBudget { place: machine.place(warp, lane), budget }));
            }
            let freed = match machine.run(&mut self.warps[warp], turn)? {
                Stop::Yield => {
                    if whole == TURN {
                        round = Round::Spun;
                    }
                    lands = seed == 0;
                    self.warps[warp].rotate();
                    vec![warp]
                }
                Stop::Barrier(id) => self.barriers.reach(machine, &mut self.warps, warp, id)?,
                Stop::Parked => Vec::new(),
                Stop::Exited => self.barriers.after_exit(machine, &mut self.warps)?,
            };
            for warp in freed {
                self.runnable[warp] = true;
            }
        }
        if lands {
            machine.land_all()?;
        }
        if round != Round::Done {
            return Ok(round);
        }
        if self.warps.iter().any(Warp::is_parked) {
            return Ok(Round::Waits);
        }
        if self.warps.iter().any(|warp| warp.live != 0) {
            return Err(self.barriers.deadlock(&self.machine, &self.warps));
        }
        self.machine.land_all()?;
        self.machine.bank.is_gone = true;
        Ok(Round::Done)
    }

    /// Lets those go on without what they waited for whose time at an mbarrier is over; whether there are any.
    pub(crate) fn time_out(&mut self) -> bool {
        let mut any = false;
        for (warp, runnable) in self.warps.iter_mut().zip(&mut self.runnable) {
            if self.machine.time_out(warp) {
                *runnable = true;
                any = true;
            }
        }
        any
    }

    /// The fault of threads that wait at an mbarrier for ever.
    pub(crate) fn stuck_at_gate(&mut self) -> Option<Box<Fault>> {
        self.warps.iter_mut().find_map(|warp| self.machine.never_completes(warp))
    }

    /// The first thread that waits at the cluster's barrier, or elsewhere, and where.
    pub(crate) fn first_waiting(&self, at_cluster: bool) -> Option<(u32, usize)> {
        self.warps.iter().find_map(|warp| {
            let group =
                warp.groups.iter().find(|group| matches!(group.wait, Wait::Cluster(_)) == at_cluster)?;
            Some((warp.thread(Warp::lowest(group.mask)), group.pc))
        })
    }

    /// Puts the block with that linear index at its start.
    pub(crate) fn start(&mut self, index: u32) {
        self.runnable = vec![true; self.warps.len()];
        self.order = (0..self.warps.len()).collect();
        self.random = Random::new(self.machine.shot.options.seed, u64::from(index));
        let machine = &mut self.machine;
        machine.pending.take();
        let code = machine.shot.code;
        machine.block_index = index;
        machine.ctaid = machine.shot.ctaid(index);
        machine.steps = 0;
        machine.rank = machine.shot.rank(machine.ctaid);
        machine.bank.start_block(index);
        machine.arrivals.fill(Arrivals::default());
        machine.cluster_told = ClusterTold::default();
        let anew = machine.clocks.start_block();
        if let Some(hazards) = &mut machine.hazards {
            hazards.start_block(anew);
        }
        if let Some(own) = &mut machine.own {
            own.start_block(anew);
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
                taint.start_block(&code.maybe_unwritten);
            }
            warp.local.fill(POISON_WORD);
            warp.local_known.fill(0);
            for &(special, reg) in &code.specials {
                if let Some(value) = special_of_block(machine, special) {
                    regs.set(reg, &[u64::from(value); LANES], u32::MAX);
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

/// The value of a special register that each block has its own of.
fn special_of_block(machine: &Machine, special: Special) -> Option<u32> {
    let (shot, ctaid) = (machine.shot, machine.ctaid);
    Some(match special {
        Special::Ctaid(dimension) => ctaid[usize::from(dimension)],
        Special::ClusterCtaid(dimension) => shot.in_cluster(ctaid)[usize::from(dimension)],
        Special::ClusterId(dimension) => {
            ctaid[usize::from(dimension)] / shot.cluster[usize::from(dimension)].max(1)
        }
        Special::ClusterRank => machine.rank,
        _ => return None,
    })
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
        Special::Ctaid(_)
        | Special::ClusterCtaid(_)
        | Special::ClusterId(_)
        | Special::ClusterRank
        | Special::Zero => uniform(0),
        Special::ClusterNctaid(dimension) => uniform(shot.cluster[usize::from(dimension)]),
        Special::ClusterCount(dimension) => uniform(shot.clusters()[usize::from(dimension)]),
        Special::ClusterBlocks => uniform(shot.blocks_of_cluster()),
        Special::IsCluster => uniform(u32::from(shot.is_clustered)),
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
