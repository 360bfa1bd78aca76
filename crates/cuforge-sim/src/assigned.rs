//! Which registers may be read before they are written, as far as the code tells without running.

use std::collections::HashSet;

use crate::dataflow::{Dataflow, Slot};
use crate::form::{Inst, Op};

/// Instructions times words of a set beyond which every register counts as unwritten: what a check costs to make stays
/// small beside decoding.
const MAX_WORK: usize = 1 << 22;

/// Visits of instructions, times words of a set, that finding out may take.
const MAX_VISITS: usize = 1 << 25;

/// A set of registers and predicates as bits.
type Bits = Vec<u64>;

/// How registers and predicates are numbered in a set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbers {
    written32: usize,
    written64: usize,
    predicates: usize,
}

impl Numbers {
    /// For so many of 32 bits, of 64 bits, and predicates, that code writes.
    pub(crate) fn new([written32, written64, predicates]: [usize; 3]) -> Self {
        Self { written32, written64, predicates }
    }

    /// Absent for constants and special values, which nothing writes.
    pub(crate) fn of(self, slot: Slot) -> Option<usize> {
        let (index, start, end) = match slot {
            Slot::Narrow(index) => (index as usize, 0, self.written32),
            Slot::Wide(index) => (index as usize, self.written32, self.written64),
            Slot::Pred(index) => (index as usize, self.written32 + self.written64, self.predicates),
        };
        (index < end).then_some(start + index)
    }

    /// Registers of 32 bits that those of a set take, predicates apart.
    pub(crate) fn weight(self, set: &[u64]) -> u32 {
        let wide = self.written32 + self.written64;
        let has = |number: &usize| set[number / 64] >> (number % 64) & 1 != 0;
        let narrow = (0..self.written32).filter(has).count();
        (narrow + 2 * (self.written32..wide).filter(has).count()) as u32
    }

    pub(crate) fn count(self) -> usize {
        self.written32 + self.written64 + self.predicates
    }

    fn slot(self, number: usize) -> Slot {
        let wide = self.written32 + self.written64;
        match number {
            n if n < self.written32 => Slot::Narrow(n as u32),
            n if n < wide => Slot::Wide((n - self.written32) as u32),
            n => Slot::Pred((n - wide) as u32),
        }
    }
}

/// Registers and predicates that some way through the code reads before it writes them. A write under a guard, or within
/// a function that is called, counts as none.
pub(crate) fn maybe_unwritten(
    insts: &[Inst],
    flows: &[Dataflow],
    entry: usize,
    counts: [usize; 3],
) -> Vec<Slot> {
    let numbers = Numbers::new(counts);
    let words = numbers.count().div_ceil(64).max(1);
    let all = || (0..numbers.count()).map(|number| numbers.slot(number)).collect();
    if insts.len().saturating_mul(words) > MAX_WORK {
        return all();
    }
    let mut visits = 0;
    // What is written for sure before each instruction; absent where no way leads.
    let mut before: Vec<Option<Bits>> = vec![None; insts.len()];
    let mut found = HashSet::new();
    let mut open = vec![(entry, vec![0u64; words])];
    while let Some((at, written)) = open.pop() {
        let Some(known) = before.get_mut(at) else { continue };
        let met = match known {
            None => written,
            Some(known) => {
                let met: Bits = known.iter().zip(&written).map(|(a, b)| a & b).collect();
                if met == *known {
                    continue;
                }
                met
            }
        };
        *known = Some(met.clone());
        visits += words;
        if visits > MAX_VISITS {
            return all();
        }
        let (inst, flow) = (&insts[at], &flows[at]);
        let is_written = |slot: Slot| numbers.of(slot).is_none_or(|n| met[n / 64] >> (n % 64) & 1 != 0);
        let guard = inst.guard.map(|guard| Slot::Pred(guard.pred.0));
        found.extend(flow.reads.iter().copied().chain(guard).filter(|slot| !is_written(*slot)));
        let mut after = met;
        if inst.guard.is_none() {
            for number in flow.writes.iter().filter_map(|slot| numbers.of(*slot)) {
                after[number / 64] |= 1 << (number % 64);
            }
        }
        let mut go = |to: usize| open.push((to, after.clone()));
        let falls_through = match &inst.op {
            Op::Branch(target) => {
                go(*target);
                inst.guard.is_some()
            }
            Op::BranchIndexed(_, targets) => {
                targets.iter().for_each(|target| go(*target));
                inst.guard.is_some()
            }
            Op::Call(_, start) => {
                go(*start);
                true
            }
            Op::Return(_) | Op::Exit | Op::Trap | Op::Unsupported(_) => inst.guard.is_some(),
            _ => true,
        };
        if falls_through {
            go(at + 1);
        }
    }
    let mut found: Vec<Slot> = found.into_iter().collect();
    found.sort_unstable();
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::form::{Pred, PredSource, R32};

    /// `d = a + b`, guarded by predicate 0 if `guarded`.
    fn add(d: u32, a: u32, b: u32, guarded: bool) -> Inst {
        let guard = guarded.then_some(PredSource { pred: Pred(0), negated: false });
        Inst { op: Op::Bin32(|_, _, _| {}, R32(d), R32(a), R32(b)), guard, line: 0 }
    }

    fn bra(target: usize, guarded: bool) -> Inst {
        Inst { op: Op::Branch(target), ..add(0, 0, 0, guarded) }
    }

    /// Registers 0 to 3 are written by code, 4 and up are constants; predicate 0 too is written.
    fn found(insts: &[Inst]) -> Vec<Slot> {
        let flows: Vec<_> = insts.iter().map(Dataflow::of).collect();
        maybe_unwritten(insts, &flows, 0, [4, 0, 1])
    }

    #[test]
    fn a_write_on_every_way_counts_and_one_on_some_does_not() {
        assert_eq!(found(&[add(0, 4, 4, false), add(1, 0, 5, false)]), []);
        assert_eq!(found(&[add(1, 0, 5, false)]), [Slot::Narrow(0)]);
        let guard = Slot::Pred(0);
        assert_eq!(found(&[add(0, 4, 4, true), add(1, 0, 5, false)]), [Slot::Narrow(0), guard]);
        let both =
            [bra(3, true), add(0, 4, 4, false), bra(4, false), add(0, 5, 5, false), add(1, 0, 4, false)];
        assert_eq!(found(&both), [guard]);
        let one = [bra(2, true), add(0, 4, 4, false), add(1, 0, 4, false)];
        assert_eq!(found(&one), [Slot::Narrow(0), guard]);
    }

    #[test]
    fn what_a_loop_writes_at_its_end_is_not_written_at_its_start() {
        // Register 2 is read at the head, written behind it.
        let body = [add(0, 4, 4, false), add(1, 2, 0, false), add(2, 0, 1, false), bra(1, true)];
        assert_eq!(found(&body), [Slot::Narrow(2), Slot::Pred(0)]);
    }

    #[test]
    fn a_function_is_entered_with_what_all_its_callers_have_written() {
        let call = |at: usize| Inst { op: Op::Call(R32(3), at), ..add(0, 0, 0, false) };
        let back = Inst { op: Op::Return(R32(3)), ..add(0, 0, 0, false) };
        let exit = Inst { op: Op::Exit, ..add(0, 0, 0, false) };
        let code = [call(4), add(0, 4, 4, false), call(4), exit, add(1, 0, 4, false), back];
        assert_eq!(found(&code), [Slot::Narrow(0)]);
    }
}
