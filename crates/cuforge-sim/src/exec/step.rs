//! The loop that runs a warp's instructions.

use crate::dataflow::Slot;
use crate::exec::machine::Machine;
use crate::exec::sync::Stop;
use crate::exec::warp::{Wait, Warp};
use crate::fault::{Fault, UndefinedUse};
use crate::form::{Inst, Op, R32};
use crate::lanes::{LANES, lanes_of};

impl Machine<'_> {
    /// Runs the warp until it exits, waits at a barrier of the block, or has run `turn` instructions.
    pub(crate) fn run(&mut self, warp: &mut Warp, turn: u64) -> Result<Stop, Box<Fault>> {
        let code: &[Inst] = &self.shot.code.insts;
        self.turn_end = self.steps + turn;
        let mut instructions = 0;
        let stop = loop {
            if self.steps >= self.turn_end {
                break Stop::Yield;
            }
            self.steps += 1;
            let Some(inst) = code.get(warp.pc) else {
                return Err(self.unsupported(
                    warp,
                    Warp::lowest(warp.active),
                    "running past the end of the code",
                ));
            };
            let mask = match inst.guard {
                None => warp.active,
                Some(guard) => {
                    self.decides(warp, warp.active, Slot::Pred(guard.pred.0), UndefinedUse::Branch)?;
                    warp.active & warp.regs.test(guard)
                }
            };
            instructions += u64::from(mask.count_ones());
            if mask == 0 {
                warp.jump(warp.pc + 1);
                continue;
            }
            match &inst.op {
                Op::Branch(target) => {
                    if mask == warp.active {
                        warp.jump(*target);
                    } else {
                        warp.diverge(mask, *target, warp.pc + 1);
                    }
                    continue;
                }
                Op::Exit => {
                    if self.shot.code.meets {
                        self.exit_cluster(warp, mask);
                    }
                    warp.live &= !mask;
                    warp.active &= !mask;
                }
                Op::Barrier(barrier) => {
                    self.propagate(warp, mask, &inst.op)?;
                    if let Some(id) = self.wait_at_barrier(warp, mask, barrier)? {
                        break Stop::Barrier(id);
                    }
                    warp.switch();
                }
                Op::WarpSync(members) => {
                    let members = *warp.regs.get32(*members);
                    self.warp_sync(warp, mask, &members)?;
                    if warp.active != 0 {
                        warp.jump(warp.pc + 1);
                        continue;
                    }
                }
                Op::BranchIndexed(index, targets) => {
                    self.decides(warp, mask, Slot::Narrow(index.0), UndefinedUse::Branch)?;
                    let index = *warp.regs.get32(*index);
                    for lane in lanes_of(mask) {
                        let Some(target) = targets.get(index[lane] as usize) else {
                            return Err(self.unsupported(
                                warp,
                                lane,
                                "brx.idx with an index beyond its table",
                            ));
                        };
                        warp.set_aside(*target, 1 << lane, Wait::Ready);
                    }
                    warp.set_aside(warp.pc + 1, warp.active & !mask, Wait::Ready);
                    warp.switch();
                    continue;
                }
                Op::Call(link, target) => {
                    self.propagate(warp, mask, &inst.op)?;
                    warp.regs.set32(*link, &[warp.pc as u32 + 1; LANES], mask);
                    warp.diverge(mask, *target, warp.pc + 1);
                    continue;
                }
                Op::Return(link) => {
                    let back = *warp.regs.get32(*link);
                    for lane in lanes_of(mask) {
                        warp.set_aside(back[lane] as usize, 1 << lane, Wait::Ready);
                    }
                    warp.set_aside(warp.pc + 1, warp.active & !mask, Wait::Ready);
                    warp.switch();
                    continue;
                }
                op => {
                    if let Some(members) = members(op) {
                        let members = *warp.regs.get32(members);
                        let meeting = self.meet(warp, mask, &members)?;
                        if meeting != 0 {
                            self.propagate(warp, meeting, op)?;
                            self.perform(warp, meeting, op)?;
                        }
                    } else {
                        self.propagate(warp, mask, op)?;
                        self.perform(warp, mask, op)?;
                    }
                    if warp.active != 0 {
                        warp.jump(warp.pc + 1);
                        continue;
                    }
                }
            }
            // Only those come here whose lanes may all be gone.
            if warp.active != 0 {
                if !matches!(inst.op, Op::Barrier(_)) {
                    warp.jump(warp.pc + 1);
                }
            } else if !warp.switch()
                && let Some(stop) = self.settle(warp)?
            {
                break stop;
            }
        };
        self.instructions += instructions;
        Ok(stop)
    }
}

/// The member mask of an instruction at which lanes meet.
#[inline(always)]
fn members(op: &Op) -> Option<R32> {
    match op {
        Op::Shuffle(op) => op.members,
        Op::Vote(op) => op.members,
        Op::Match(op) => Some(op.members),
        Op::Redux(op) => Some(op.members),
        Op::Tile(tile) => Some(tile.members()),
        Op::Elect(_, _, members) => Some(*members),
        _ => None,
    }
}
