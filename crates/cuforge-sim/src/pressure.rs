//! How many registers a thread needs: the most values that are live at once.

use crate::assigned::Numbers;
use crate::dataflow::{Dataflow, Slot};
use crate::form::{Inst, Op};

/// Most registers of a thread.
const MOST: u32 = 255;

/// Fewest that a kernel is given.
const FEWEST: u32 = 8;

/// Instructions times words of a set that finding out may visit; beyond it a kernel counts as one of many registers.
const MAX_WORK: usize = 1 << 24;

/// A set of registers as bits.
type Bits = Vec<u64>;

/// Registers of 32 bits that hold all values which are live at once, predicates apart; those of 64 bits count twice.
///
/// Constants and special registers take none. A value is live from where it is written to its last use on any way through the
/// code, and across every return of a function that it may be used behind.
pub(crate) fn registers(insts: &[Inst], flows: &[Dataflow], counts: [usize; 3]) -> u32 {
    let numbers = Numbers::new(counts);
    let words = numbers.count().div_ceil(64).max(1);
    let mut live: Vec<Bits> = vec![vec![0; words]; insts.len() + 1];
    let mut after_calls: Bits = vec![0; words];
    let mut left = MAX_WORK;
    let mut changed = true;
    while changed {
        changed = false;
        let Some(rest) = left.checked_sub(insts.len() * words) else { return MOST };
        left = rest;
        for at in (0..insts.len()).rev() {
            let (inst, flow) = (&insts[at], &flows[at]);
            let mut now = leaving(insts, at, &live, &after_calls, words);
            if inst.guard.is_none() {
                for number in flow.writes.iter().filter_map(|slot| numbers.of(*slot)) {
                    now[number / 64] &= !(1 << (number % 64));
                }
            }
            let guard = inst.guard.map(|guard| Slot::Pred(guard.pred.0));
            for number in flow.reads.iter().copied().chain(guard).filter_map(|slot| numbers.of(slot)) {
                now[number / 64] |= 1 << (number % 64);
            }
            if matches!(inst.op, Op::Call(..)) {
                changed |= join(&mut after_calls, &live[at + 1].clone());
            }
            changed |= now != live[at];
            live[at] = now;
        }
    }
    let most = live.iter().map(|set| numbers.weight(set)).max().unwrap_or_default();
    most.clamp(FEWEST, MOST)
}

/// What is live behind an instruction.
fn leaving(insts: &[Inst], at: usize, live: &[Bits], after_calls: &Bits, words: usize) -> Bits {
    let inst = &insts[at];
    let mut out = vec![0; words];
    let mut from = |set: Option<&Bits>| {
        if let Some(set) = set {
            join(&mut out, set);
        }
    };
    let falls_through = match &inst.op {
        Op::Branch(target) => {
            from(live.get(*target));
            inst.guard.is_some()
        }
        Op::BranchIndexed(_, targets) => {
            targets.iter().for_each(|target| from(live.get(*target)));
            inst.guard.is_some()
        }
        Op::Call(_, start) => {
            from(live.get(*start));
            true
        }
        Op::Return(_) => {
            from(Some(after_calls));
            inst.guard.is_some()
        }
        Op::Exit | Op::Trap | Op::Unsupported(_) => inst.guard.is_some(),
        _ => true,
    };
    if falls_through {
        from(live.get(at + 1));
    }
    out
}

/// Adds a set to another; whether that changes it.
fn join(into: &mut Bits, from: &Bits) -> bool {
    let mut changed = false;
    for (into, from) in into.iter_mut().zip(from) {
        changed |= from & !*into != 0;
        *into |= from;
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::form::{Pred, PredSource, R32, R64};

    fn of(insts: &[Inst]) -> u32 {
        let flows: Vec<_> = insts.iter().map(Dataflow::of).collect();
        registers(insts, &flows, [20, 20, 2])
    }

    fn inst(op: Op) -> Inst {
        Inst { op, guard: None, line: 0 }
    }

    /// `d = a + a`; registers from 20 on are constants.
    fn set(d: u32, a: u32) -> Inst {
        inst(Op::Bin32(|_, _, _| {}, R32(d), R32(a), R32(a)))
    }

    #[test]
    fn values_that_live_at_once_take_a_register_each_and_wide_ones_two() {
        let make = |count: u32| (0..count).map(|d| set(d, 20));
        // Twelve values, all used behind the last.
        let all: Vec<_> = make(12).chain((0..12).map(|a| set(19, a))).collect();
        assert_eq!(of(&all), 12);
        // One after the other.
        let one: Vec<_> = (0..12).flat_map(|d| [set(d, 20), set(19, d)]).collect();
        assert_eq!(of(&one), FEWEST);
        let wide = |d, a| inst(Op::Bin64(|_, _, _| {}, R64(d), R64(a), R64(a)));
        let all: Vec<_> = (0..9).map(|d| wide(d, 20)).chain((0..9).map(|a| wide(19, a))).collect();
        assert_eq!(of(&all), 18);
    }

    #[test]
    fn a_loop_keeps_alive_what_its_next_turn_reads() {
        let guard = Some(PredSource { pred: Pred(0), negated: false });
        let back = Inst { op: Op::Branch(10), guard, line: 0 };
        // Ten values are made before the loop, which reads them in each turn and makes two of its own.
        let made = (0..10).map(|d| set(d, 20));
        let body = [set(10, 20), set(11, 20)].into_iter().chain((0..12).map(|a| set(19, a)));
        let code: Vec<_> = made.chain(body).chain([back]).collect();
        assert_eq!(of(&code), 12);
    }
}
