//! Instructions on mbarriers, lane by lane.

use crate::exec::access::addresses;
use crate::exec::bank::Bank;
use crate::exec::cluster::{from_generic, within};
use crate::exec::machine::{Machine, WINDOW_BYTES};
use crate::exec::mbarrier::{MBARRIER_BYTES, Mbarrier, Told};
use crate::exec::warp::{Wait, Warp};
use crate::fault::{AccessKind, Fault};
use crate::form::{Access, Op, Space};
use crate::gate::{Arrive, Gate, GateAction, GateWait, Phase};
use crate::lanes::{L64, Mask, lanes_of};
use crate::meeting::MbarrierMisuse;

impl Machine<'_> {
    /// Any instruction on an mbarrier.
    pub(crate) fn gate(&mut self, warp: &mut Warp, mask: Mask, gate: &Gate) -> Result<(), Box<Fault>> {
        let address = self.gate_addresses(warp, mask, &gate.access)?;
        let kind = match gate.action {
            GateAction::Init(_) | GateAction::Invalidate => AccessKind::Write,
            GateAction::Wait(_) => AccessKind::Read,
            _ => AccessKind::Atomic,
        };
        for (rank, lanes) in self.ranks(mask, &address) {
            let first = Warp::lowest(lanes);
            self.enter(rank, warp, first, (kind, address[first], MBARRIER_BYTES))?;
            let inside = address.map(within);
            let done = self.gate_inside(warp, lanes, &inside, gate, kind);
            self.leave();
            done?;
        }
        Ok(())
    }

    /// Where the mbarriers of the lanes lie in the shared window.
    pub(crate) fn gate_addresses(&self, warp: &Warp, mask: Mask, access: &Access) -> Result<L64, Box<Fault>> {
        let given = addresses(&warp.regs, access);
        let address = if access.space == Space::Generic { given.map(from_generic) } else { given };
        let outside = |lane: &usize| access.space == Space::Generic && address[*lane] >= WINDOW_BYTES;
        if let Some(lane) = lanes_of(mask).find(outside) {
            return Err(self.unsupported(warp, lane, "an mbarrier outside of shared memory"));
        }
        self.check_alignment(warp, mask, &address, MBARRIER_BYTES, AccessKind::Atomic, Space::Shared)?;
        Ok(address)
    }

    fn gate_inside(
        &mut self,
        warp: &mut Warp,
        mask: Mask,
        address: &L64,
        gate: &Gate,
        kind: AccessKind,
    ) -> Result<(), Box<Fault>> {
        self.check_shared_bounds(warp, mask, address, MBARRIER_BYTES, kind)?;
        for lane in lanes_of(mask) {
            self.note_gate(warp, lane, address[lane] as u32, kind)?;
        }
        match &gate.action {
            GateAction::Wait(wait) => return self.wait_at_gate(warp, mask, address, wait),
            GateAction::AfterCopies { counts } => {
                return self.arrive_after_copies(warp, mask, address, *counts);
            }
            _ => {}
        }
        let mut states = [0; crate::lanes::LANES];
        for lane in lanes_of(mask) {
            let at = address[lane] as u32;
            let value = |reg| warp.regs.get32(reg)[lane];
            let done = match &gate.action {
                GateAction::Init(count) => Mbarrier::new(value(*count)).map(|barrier| {
                    self.bank.mbarriers.insert(at, barrier);
                }),
                GateAction::Invalidate => match self.bank.mbarriers.remove(&at) {
                    Some(_) => Ok(()),
                    None => Err(MbarrierMisuse::NotThere),
                },
                GateAction::Expect(bytes) => {
                    self.bank.on_gate(at, |barrier| barrier.expect(value(*bytes)).map(|()| false))
                }
                GateAction::Receive(bytes) => self.bank.on_gate(at, |barrier| barrier.receive(value(*bytes))),
                GateAction::Arrive(how) => {
                    let same = lanes_of(mask).filter(|other| address[*other] == address[lane]);
                    let same = same.fold(0, |mask, lane| mask | 1 << lane);
                    if how.releases {
                        self.tell_gate(warp, same, at);
                    }
                    let (count, bytes) = (how.count.map_or(1, value), how.bytes.map(value));
                    arrive(&mut self.bank, at, how, count, bytes).map(|state| states[lane] = state)
                }
                GateAction::Wait(_) | GateAction::AfterCopies { .. } => Ok(()),
            };
            done.map_err(|misuse| self.gate_fault(warp, lane, at, misuse))?;
        }
        if let GateAction::Arrive(Arrive { state: Some(target), .. }) = &gate.action {
            warp.regs.set64(*target, &states, mask);
        }
        Ok(())
    }

    /// Notes the use of an mbarrier as an access to its bytes: initialising and invalidating it must be ordered with all
    /// other uses, which need no order among themselves.
    fn note_gate(&mut self, warp: &Warp, lane: usize, at: u32, kind: AccessKind) -> Result<(), Box<Fault>> {
        let strong = kind != AccessKind::Write;
        let (thread, bytes) = (warp.thread(lane), MBARRIER_BYTES);
        let found = self.hazards.as_mut().and_then(|hazards| match kind {
            AccessKind::Read => hazards.read(&self.clocks, at, bytes, thread, warp.pc, strong),
            _ => hazards.write(&self.clocks, at, bytes, thread, warp.pc, strong),
        });
        match found {
            Some(found) => Err(self.hazard(warp, lane, kind, found)),
            None => Ok(()),
        }
    }

    /// Adds what these lanes know to what the current phase of an mbarrier tells.
    fn tell_gate(&mut self, warp: &Warp, lanes: Mask, at: u32) {
        let at_home = self.visits.is_none();
        let grid = self.tell_order(warp.index);
        let Some(barrier) = self.bank.mbarriers.get_mut(&at) else { return };
        if at_home {
            self.clocks.publish(warp.index, lanes, warp.live, &mut barrier.arriving.block);
        }
        if let Some(told) = grid {
            barrier.arriving.grid.join(&told);
        }
    }

    fn wait_at_gate(
        &mut self,
        warp: &mut Warp,
        mask: Mask,
        address: &L64,
        wait: &GateWait,
    ) -> Result<(), Box<Fault>> {
        if self.visits.is_some() {
            return Err(self.unsupported(
                warp,
                Warp::lowest(mask),
                "waiting at an mbarrier of another block",
            ));
        }
        let mut complete = 0;
        for lane in lanes_of(mask) {
            let at = address[lane] as u32;
            let parity = match wait.phase {
                Phase::Parity(reg) => warp.regs.get32(reg)[lane],
                Phase::State(reg) => Mbarrier::parity_of(warp.regs.get64(reg)[lane]),
            };
            match self.bank.mbarriers.get(&at) {
                None => return Err(self.gate_fault(warp, lane, at, MbarrierMisuse::NotThere)),
                Some(barrier) if barrier.is_complete(parity) => complete |= 1 << lane,
                Some(_) => {}
            }
        }
        if wait.acquires {
            let mut seen = None;
            for lane in lanes_of(complete).filter(|lane| seen.replace(address[*lane]) != Some(address[*lane]))
            {
                self.learn_gate(warp, address[lane] as u32);
            }
        }
        let left = mask & !complete;
        if wait.blocks {
            warp.regs.set_pred(wait.p, complete, complete);
            warp.active &= !left;
            warp.set_aside(warp.pc, left, Wait::Gate(self.bank.phases));
            return Ok(());
        }
        warp.regs.set_pred(wait.p, complete, mask);
        if left != 0 {
            // Who looks in vain gives others a turn.
            self.turn_end = self.steps;
        }
        Ok(())
    }

    fn learn_gate(&mut self, warp: &Warp, at: u32) {
        if let Some(Told { block, grid }) = self.bank.mbarriers.get(&at).map(|barrier| &barrier.completed) {
            self.clocks.learn(warp.index, block);
            self.learn_order(warp, grid);
        }
    }

    /// The lanes of a warp whose time at an mbarrier is over go on without what they waited for.
    pub(crate) fn time_out(&self, warp: &mut Warp) -> bool {
        let mut any = false;
        for index in 0..warp.groups.len() {
            let group = warp.groups[index];
            if !matches!(group.wait, Wait::Gate(_)) {
                continue;
            }
            if let Some(Op::Gate(gate)) = self.shot.code.insts.get(group.pc).map(|inst| &inst.op)
                && let GateAction::Wait(wait) = &gate.action
            {
                warp.regs.set_pred(wait.p, 0, group.mask);
            }
            warp.groups[index].wait = Wait::Ready;
            warp.groups[index].pc += 1;
            any = true;
        }
        warp.look_again(any)
    }

    /// The fault of lanes that wait at an mbarrier for ever.
    #[cold]
    pub(crate) fn never_completes(&self, warp: &mut Warp) -> Option<Box<Fault>> {
        let group = warp.groups.iter().find(|group| matches!(group.wait, Wait::Gate(_))).copied()?;
        let Some(Op::Gate(gate)) = self.shot.code.insts.get(group.pc).map(|inst| &inst.op) else {
            return None;
        };
        warp.pc = group.pc;
        let lane = Warp::lowest(group.mask);
        let address = self.gate_addresses(warp, 1 << lane, &gate.access).ok()?;
        let at = within(address[lane]) as u32;
        let (pending, bytes) = self.bank.mbarriers.get(&at).map(Mbarrier::left)?;
        Some(self.gate_fault(warp, lane, at, MbarrierMisuse::NeverCompletes { pending, bytes }))
    }

    /// A write that hits an mbarrier.
    #[cold]
    pub(crate) fn check_gates(
        &self,
        warp: &Warp,
        mask: Mask,
        address: &L64,
        bytes: u32,
    ) -> Result<(), Box<Fault>> {
        for lane in lanes_of(mask) {
            let end = (address[lane] + u64::from(bytes)) as u32;
            let hit = self.bank.mbarriers.range(..end).next_back();
            if let Some((at, _)) = hit.filter(|(at, _)| u64::from(**at + MBARRIER_BYTES) > address[lane]) {
                return Err(self.gate_fault(warp, lane, *at, MbarrierMisuse::Overwritten));
            }
        }
        Ok(())
    }

    #[cold]
    pub(crate) fn gate_fault(&self, warp: &Warp, lane: usize, at: u32, misuse: MbarrierMisuse) -> Box<Fault> {
        self.gate_fault_at(warp.thread(lane), warp.pc, at, misuse)
    }

    /// As [`Machine::gate_fault`], for what a thread started earlier.
    #[cold]
    pub(crate) fn gate_fault_at(
        &self,
        thread: u32,
        pc: usize,
        at: u32,
        misuse: MbarrierMisuse,
    ) -> Box<Fault> {
        let place = self.shot.place(self.ctaid, thread, pc);
        Box::new(Fault::Mbarrier { place, address: u64::from(at), misuse })
    }
}

/// One arrival; gives the state from before.
fn arrive(
    bank: &mut Bank,
    at: u32,
    how: &Arrive,
    count: u32,
    bytes: Option<u32>,
) -> Result<u64, MbarrierMisuse> {
    let mut state = 0;
    bank.on_gate(at, |barrier| {
        if let Some(bytes) = bytes {
            barrier.expect(bytes)?;
        }
        state = barrier.state();
        if how.drops {
            barrier.leave(count)?;
        }
        let completed = barrier.arrive(count)?;
        if completed && how.completes_nothing { Err(MbarrierMisuse::Completes) } else { Ok(completed) }
    })?;
    Ok(state)
}
