//! How undefined values go through instructions, and where they decide something.

use crate::dataflow::Slot;
use crate::exec::machine::Machine;
use crate::exec::taint::{Origin, Taint, slot};
use crate::exec::warp::{Registers, Warp};
use crate::fault::{Fault, MemorySpace, UndefinedSource, UndefinedUse};
use crate::form::{BoolOp, Op, PredSource};
use crate::lanes::{FULL, Mask, lanes_of};
use crate::tile::{Held, Multiply, Tile};

impl Machine<'_> {
    /// Passes what is undefined from the operands of an instruction on to its results, before it runs.
    ///
    /// Loads and shuffles settle their results themselves, as these depend on more than registers.
    #[inline(always)]
    pub(crate) fn propagate(&self, warp: &mut Warp, mask: Mask, op: &Op) -> Result<(), Box<Fault>> {
        let Some(taint) = warp.regs.taint.as_mut().filter(|taint| taint.is_any()) else { return Ok(()) };
        let Some(flow) = self.shot.code.flows.get(warp.pc) else { return Ok(()) };
        let undefined = flow.reads.iter().fold(0, |undefined, slot| undefined | taint.mask(*slot));
        if undefined & mask == 0 && taint.carry & mask == 0 {
            for slot in &flow.writes {
                taint.set(*slot, mask, 0);
            }
            return Ok(());
        }
        self.propagate_undefined(warp, mask, op, undefined & mask)
    }

    #[cold]
    fn propagate_undefined(
        &self,
        warp: &mut Warp,
        mask: Mask,
        op: &Op,
        undefined: Mask,
    ) -> Result<(), Box<Fault>> {
        let Some(flow) = self.shot.code.flows.get(warp.pc) else { return Ok(()) };
        for address in &flow.addresses {
            self.decides(warp, mask, *address, UndefinedUse::Address)?;
        }
        for output in &flow.outputs {
            self.decides(warp, mask, *output, UndefinedUse::Output)?;
        }
        let Some(mut taint) = warp.regs.taint.take() else { return Ok(()) };
        let origin = flow.reads.iter().find(|slot| taint.mask(**slot) & mask != 0);
        let origin = origin.and_then(|slot| taint.origin(*slot));
        let regs = &warp.regs;
        let result = match op {
            Op::Select32(_, a, b, p) => chosen(&taint, regs, *p, Slot::Narrow(a.0), Slot::Narrow(b.0)),
            Op::Select64(_, a, b, p) => chosen(&taint, regs, *p, Slot::Wide(a.0), Slot::Wide(b.0)),
            Op::PredLogic(how, _, a, b) => {
                logic(*how, of_pred(&taint, *a), regs.test(*a), of_pred(&taint, *b), regs.test(*b))
            }
            Op::SetPred { combine: Some((how, with)), .. }
            | Op::SetValue { combine: Some((how, with)), .. } => {
                let with_undefined = of_pred(&taint, *with);
                let compared = flow.compared.iter().fold(0, |all, slot| all | taint.mask(*slot));
                // The comparison's own value is not known to matter.
                decided(*how, compared, with_undefined, regs.test(*with)) | with_undefined
            }
            Op::Vote(_) | Op::Match(_) | Op::Redux(_) | Op::Barrier(_) => mask,
            Op::Carry32(how, ..)
            | Op::Carry64(how, ..)
            | Op::MadCarry32(_, how, ..)
            | Op::MadCarry64(_, how, ..) => {
                let result = undefined | if how.takes { taint.carry } else { 0 };
                if how.gives {
                    taint.carry = taint.carry & !mask | result & mask;
                }
                result
            }
            Op::Tile(tile) => {
                match &**tile {
                    Tile::Multiply(op) => multiplied(&mut taint, op, origin),
                    _ => flow.writes.iter().for_each(|slot| taint.set(*slot, mask, undefined)),
                }
                warp.regs.taint = Some(taint);
                return Ok(());
            }
            _ => undefined,
        };
        // Without an undefined operand, only an old carry brought us here.
        for slot in &flow.writes {
            taint.set_from(*slot, mask, result, origin);
        }
        warp.regs.taint = Some(taint);
        Ok(())
    }

    /// A fault if the value is undefined in one of the lanes.
    pub(crate) fn decides(
        &self,
        warp: &Warp,
        mask: Mask,
        slot: Slot,
        used_as: UndefinedUse,
    ) -> Result<(), Box<Fault>> {
        let Some(taint) = &warp.regs.taint else { return Ok(()) };
        let undefined = taint.mask(slot) & mask;
        if undefined == 0 {
            return Ok(());
        }
        self.undefined(warp, Warp::lowest(undefined), used_as, taint.origin(slot))
    }

    /// The use of an undefined value: a fault, at once or at the end of the block.
    #[cold]
    pub(crate) fn undefined(
        &self,
        warp: &Warp,
        lane: usize,
        used_as: UndefinedUse,
        origin: Origin,
    ) -> Result<(), Box<Fault>> {
        let fault = self.undefined_fault(warp, lane, used_as, origin);
        // Shared memory that is not written may be about to be: then the hazard between the two says more.
        let may_race = matches!(origin, Some((_, MemorySpace::Shared))) && self.hazards.is_some();
        if may_race && used_as != UndefinedUse::Address {
            let _ = self.pending.set(fault);
            return Ok(());
        }
        Err(fault)
    }

    #[cold]
    fn undefined_fault(&self, warp: &Warp, lane: usize, used_as: UndefinedUse, origin: Origin) -> Box<Fault> {
        let line = |pc: u32| self.shot.code.insts.get(pc as usize).map_or(0, |inst| inst.line);
        let origin = match origin {
            None => UndefinedSource::Register,
            Some((pc, space)) => UndefinedSource::Memory { space, line: line(pc) },
        };
        Box::new(Fault::Uninitialised { place: self.place(warp, lane), used_as, origin })
    }
}

fn of_pred(taint: &Taint, source: PredSource) -> Mask {
    taint.mask(Slot::Pred(source.pred.0))
}

/// `p ? a : b`
fn chosen(taint: &Taint, regs: &Registers, p: PredSource, a: Slot, b: Slot) -> Mask {
    let holds = regs.test(p);
    of_pred(taint, p) | holds & taint.mask(a) | !holds & taint.mask(b)
}

/// What stays undefined of a value that is combined with another: not where the other one decides alone.
fn decided(how: BoolOp, undefined: Mask, other_undefined: Mask, other: Mask) -> Mask {
    match how {
        BoolOp::And => undefined & (other | other_undefined),
        BoolOp::Or => undefined & (!other | other_undefined),
        BoolOp::Xor => undefined,
    }
}

fn logic(how: BoolOp, a_undefined: Mask, a: Mask, b_undefined: Mask, b: Mask) -> Mask {
    decided(how, a_undefined, b_undefined, b) | decided(how, b_undefined, a_undefined, a)
}

/// An element of a product is undefined if its row of A, its column of B or its element of C is.
fn multiplied(taint: &mut Taint, op: &Multiply, origin: Origin) {
    let matrix = |held: &Held| -> Vec<bool> {
        let fragment = &held.fragment;
        let mut undefined = vec![false; fragment.len()];
        for (register, reg) in held.registers.iter().enumerate() {
            let mask = taint.mask(slot(*reg));
            for lane in lanes_of(mask) {
                for part in 0..fragment.element.per_register() {
                    let (row, column) = fragment.place(lane as u32, register as u32, part);
                    undefined[(row * fragment.columns + column) as usize] = true;
                }
            }
        }
        undefined
    };
    let (a, b, c) = (matrix(&op.a), matrix(&op.b), matrix(&op.c));
    let shape = op.product.shape;
    let row = |row: u32| (0..shape.k).any(|k| a[(row * shape.k + k) as usize]);
    let column = |column: u32| (0..shape.k).any(|k| b[(k * shape.n + column) as usize]);
    let rows: Vec<bool> = (0..shape.m).map(row).collect();
    let columns: Vec<bool> = (0..shape.n).map(column).collect();
    let fragment = &op.d.fragment;
    for (register, reg) in op.d.registers.iter().enumerate() {
        let undefined = |lane: u32| {
            (0..fragment.element.per_register()).any(|part| {
                let (row, column) = fragment.place(lane, register as u32, part);
                rows[row as usize] || columns[column as usize] || c[(row * shape.n + column) as usize]
            })
        };
        let mask = (0..32).filter(|lane| undefined(*lane)).fold(0, |mask, lane| mask | 1 << lane);
        taint.set_from(slot(*reg), FULL, mask, origin);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_the_other_one_decides_is_defined() {
        let (undefined, zeros, ones) = (0b1111, 0b0011, 0b1100);
        assert_eq!(zeros & ones, 0);
        assert_eq!(logic(BoolOp::And, undefined, 0, 0, ones), 0b1100);
        assert_eq!(logic(BoolOp::Or, undefined, 0, 0, ones) & 0b1111, 0b0011);
        assert_eq!(logic(BoolOp::Xor, undefined, 0, 0, ones), 0b1111);
        assert_eq!(logic(BoolOp::And, undefined, 0, undefined, 0), 0b1111);
    }
}
