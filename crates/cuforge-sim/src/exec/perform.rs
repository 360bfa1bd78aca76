//! What each instruction does that neither jumps nor waits.

use crate::exec::access::addresses;
use crate::exec::exchange::{match_values, redux, shuffle, vote};
use crate::exec::flights::Copies;
use crate::exec::machine::{Machine, space_of, window};
use crate::exec::warp::{Registers, Warp};
use crate::fault::{AccessKind, Fault};
use crate::form::{BoolOp, CarryUse, HalvesOut, Op, Pred, PredSource, R32, R64, Space, Test};
use crate::lanes::{L32, L64, LANES, Mask, lanes_of, map1};

impl Machine<'_> {
    /// Runs an instruction that neither jumps nor waits.
    #[inline(always)]
    pub(crate) fn perform(&mut self, warp: &mut Warp, mask: Mask, op: &Op) -> Result<(), Box<Fault>> {
        let regs = &mut warp.regs;
        let mut narrow: L32 = [0; LANES];
        let mut wide: L64 = [0; LANES];
        match op {
            Op::Nop => {}
            Op::Un32(f, d, a) => {
                f(regs.get32(*a), &mut narrow);
                regs.set32(*d, &narrow, mask);
            }
            Op::Un64(f, d, a) => {
                f(regs.get64(*a), &mut wide);
                regs.set64(*d, &wide, mask);
            }
            Op::Widen(f, d, a) => {
                f(regs.get32(*a), &mut wide);
                regs.set64(*d, &wide, mask);
            }
            Op::Shrink(f, d, a) => {
                f(regs.get64(*a), &mut narrow);
                regs.set32(*d, &narrow, mask);
            }
            Op::Bin32(f, d, a, b) => {
                f(regs.get32(*a), regs.get32(*b), &mut narrow);
                regs.set32(*d, &narrow, mask);
            }
            Op::Bin64(f, d, a, b) => {
                f(regs.get64(*a), regs.get64(*b), &mut wide);
                regs.set64(*d, &wide, mask);
            }
            Op::Shift64(f, d, a, b) => {
                f(regs.get64(*a), regs.get32(*b), &mut wide);
                regs.set64(*d, &wide, mask);
            }
            Op::BinWiden(f, d, a, b) => {
                f(regs.get32(*a), regs.get32(*b), &mut wide);
                regs.set64(*d, &wide, mask);
            }
            Op::Tern32(f, d, a, b, c) => {
                f(regs.get32(*a), regs.get32(*b), regs.get32(*c), &mut narrow);
                regs.set32(*d, &narrow, mask);
            }
            Op::Tern64(f, d, a, b, c) => {
                f(regs.get64(*a), regs.get64(*b), regs.get64(*c), &mut wide);
                regs.set64(*d, &wide, mask);
            }
            Op::TernWiden(f, d, a, b, c) => {
                f(regs.get32(*a), regs.get32(*b), regs.get64(*c), &mut wide);
                regs.set64(*d, &wide, mask);
            }
            Op::Field64(f, d, a, b, c) => {
                f(regs.get64(*a), regs.get32(*b), regs.get32(*c), &mut wide);
                regs.set64(*d, &wide, mask);
            }
            Op::Quad32(f, d, [a, b, c, e]) => {
                f(regs.get32(*a), regs.get32(*b), regs.get32(*c), regs.get32(*e), &mut narrow);
                regs.set32(*d, &narrow, mask);
            }
            Op::Insert64(f, d, a, b, [c, e]) => {
                f(regs.get64(*a), regs.get64(*b), regs.get32(*c), regs.get32(*e), &mut wide);
                regs.set64(*d, &wide, mask);
            }
            Op::Convert(how, d, a) => {
                let from = regs.get(*a);
                map1(&from, &mut wide, |value| how.apply(value));
                regs.set(*d, &wide, mask);
            }
            Op::SetPred { test, p, q, combine } => set_pred(regs, mask, *test, [*p, *q], *combine),
            Op::SetValue { test, d, value, combine } => {
                let holds = combined(regs, compare(regs, *test), *combine);
                let out = std::array::from_fn(|lane| if holds >> lane & 1 != 0 { *value } else { 0 });
                regs.set32(*d, &out, mask);
            }
            Op::SetHalves { low, high, out, combine } => {
                let low = combined(regs, compare(regs, *low), *combine);
                let high = combined(regs, compare(regs, *high), *combine);
                match out {
                    HalvesOut::Preds(p, q) => {
                        regs.set_pred(*p, low, mask);
                        if let Some(q) = q {
                            regs.set_pred(*q, high, mask);
                        }
                    }
                    HalvesOut::Value(d, value) => {
                        let out = std::array::from_fn(|lane| {
                            ((low >> lane & 1) * (value & 0xffff))
                                | ((high >> lane & 1) * (value & 0xffff_0000))
                        });
                        regs.set32(*d, &out, mask);
                    }
                }
            }
            Op::Select32(d, a, b, p) => {
                let (a, b, p) = (regs.get32(*a), regs.get32(*b), regs.test(*p));
                let out = std::array::from_fn(|lane| if p >> lane & 1 != 0 { a[lane] } else { b[lane] });
                regs.set32(*d, &out, mask);
            }
            Op::Select64(d, a, b, p) => {
                let (a, b, p) = (regs.get64(*a), regs.get64(*b), regs.test(*p));
                let out = std::array::from_fn(|lane| if p >> lane & 1 != 0 { a[lane] } else { b[lane] });
                regs.set64(*d, &out, mask);
            }
            Op::SelectBy32(test, d, a, b) => {
                let (a, b, p) = (regs.get32(*a), regs.get32(*b), compare(regs, *test));
                let out = std::array::from_fn(|lane| if p >> lane & 1 != 0 { a[lane] } else { b[lane] });
                regs.set32(*d, &out, mask);
            }
            Op::SelectBy64(test, d, a, b) => {
                let (a, b, p) = (regs.get64(*a), regs.get64(*b), compare(regs, *test));
                let out = std::array::from_fn(|lane| if p >> lane & 1 != 0 { a[lane] } else { b[lane] });
                regs.set64(*d, &out, mask);
            }
            Op::PredLogic(how, d, a, b) => {
                let value = how.apply(regs.test(*a), regs.test(*b));
                regs.set_pred(*d, value, mask);
            }
            Op::PredMove(d, a) => regs.set_pred(*d, regs.test(*a), mask),
            Op::Split64(low, high, a) => {
                let a = *regs.get64(*a);
                if let Some(low) = low {
                    regs.set32(*low, &a.map(|a| a as u32), mask);
                }
                if let Some(high) = high {
                    regs.set32(*high, &a.map(|a| (a >> 32) as u32), mask);
                }
            }
            Op::Join64(d, low, high) => {
                let (low, high) = (regs.get32(*low), regs.get32(*high));
                let out = std::array::from_fn(|lane| u64::from(low[lane]) | u64::from(high[lane]) << 32);
                regs.set64(*d, &out, mask);
            }
            Op::LoadParam(offset, targets, bytes) => self.load_param(warp, mask, *offset, targets, *bytes),
            Op::Load(load) => self.load(warp, mask, load)?,
            Op::Store(store) => self.store(warp, mask, store)?,
            other => self.perform_rare(warp, mask, other)?,
        }
        Ok(())
    }

    fn perform_rare(&mut self, warp: &mut Warp, mask: Mask, op: &Op) -> Result<(), Box<Fault>> {
        let regs = &mut warp.regs;
        match op {
            Op::Carry32(how, d, a, b) => {
                let (a, b) = (*regs.get32(*a), *regs.get32(*b));
                carry32(regs, mask, *how, *d, &a, &b);
            }
            Op::Carry64(how, d, a, b) => {
                let (a, b) = (*regs.get64(*a), *regs.get64(*b));
                carry64(regs, mask, *how, *d, &a, &b);
            }
            Op::MadCarry32(f, how, d, [a, b, c]) => {
                let mut product = [0; LANES];
                f(regs.get32(*a), regs.get32(*b), &mut product);
                let c = *regs.get32(*c);
                carry32(regs, mask, *how, *d, &product, &c);
            }
            Op::MadCarry64(f, how, d, [a, b, c]) => {
                let mut product = [0; LANES];
                f(regs.get64(*a), regs.get64(*b), &mut product);
                let c = *regs.get64(*c);
                carry64(regs, mask, *how, *d, &product, &c);
            }
            Op::SplitParts(bits, parts, a) => {
                let a = regs.get(*a);
                for (index, part) in parts.iter().enumerate() {
                    if let Some(part) = part {
                        let shift = *bits * index as u32;
                        let out = a.map(|a| (a >> shift) as u32 & (u32::MAX >> (32 - bits)));
                        regs.set32(*part, &out, mask);
                    }
                }
            }
            Op::JoinParts(bits, d, parts) => {
                let mut out = [0; LANES];
                for (index, part) in parts.iter().enumerate() {
                    let part = regs.get32(*part);
                    for lane in 0..LANES {
                        let value = u64::from(part[lane] & (u32::MAX >> (32 - bits)));
                        out[lane] |= value << (*bits * index as u32);
                    }
                }
                regs.set(*d, &out, mask);
            }
            Op::MovePair([to_low, to_high], [low, high]) => {
                let (low, high) = (*regs.get64(*low), *regs.get64(*high));
                regs.set64(*to_low, &low, mask);
                regs.set64(*to_high, &high, mask);
            }
            Op::Print { .. } | Op::AssertFail { .. } => self.print(warp, mask, op)?,
            Op::Fence => self.fence(warp),
            Op::CopyLocal { from, to, bytes } => {
                for at in 0..*bytes as usize {
                    copy_byte(warp, mask, *from as usize + at, *to as usize + at);
                }
            }
            Op::PairAtomic(atomic) => self.pair_atomic(warp, mask, atomic)?,
            Op::VectorAtomic(access, list) => {
                let address = addresses(&warp.regs, access);
                let bytes = access.bytes();
                self.check_alignment(warp, mask, &address, bytes, AccessKind::Atomic, access.space)?;
                for atomic in list {
                    self.atomic(warp, mask, atomic)?;
                }
            }
            Op::AsyncCopy(copy) => self.start_copy(warp, mask, copy)?,
            Op::CopyCommit => {
                lanes_of(mask).for_each(|lane| Copies::commit(&mut self.copies.committed, warp.thread(lane)));
            }
            Op::Gate(gate) => self.gate(warp, mask, gate)?,
            Op::Bulk(bulk) => self.start_bulk(warp, mask, bulk)?,
            Op::BulkCommit => {
                lanes_of(mask)
                    .for_each(|lane| Copies::commit(&mut self.copies.bulk_committed, warp.thread(lane)));
            }
            Op::BulkWait(most) => self.wait_for_bulk(warp, mask, *most)?,
            Op::Cluster(op) => self.cluster(warp, mask, op)?,
            Op::CopyWait(most) => self.wait_for_copies(warp, mask, *most),
            Op::Atomic(atomic) => self.atomic(warp, mask, atomic)?,
            Op::CvtaTo(space, d, a) => {
                let base = window(*space);
                let out = regs.get(*a).map(|address| address.wrapping_add(base));
                regs.set(*d, &out, mask);
            }
            Op::CvtaFrom(space, d, a) => {
                let base = window(*space);
                let out = regs.get(*a).map(|address| address.wrapping_sub(base));
                regs.set(*d, &out, mask);
            }
            Op::IsSpace(space, p, a) => {
                let a = regs.get(*a);
                let wide = *space == Space::Cluster;
                let is = |found| found == *space || wide && found == Space::Shared;
                let inside = lanes_of(mask).filter(|lane| is(space_of(a[*lane])));
                let inside = inside.fold(0, |mask, lane| mask | 1 << lane);
                regs.set_pred(*p, inside, mask);
            }
            Op::Shuffle(op) => shuffle(regs, mask, op),
            Op::Vote(op) => vote(regs, mask, op),
            Op::Match(op) => match_values(regs, mask, op),
            Op::Redux(op) => redux(regs, mask, op),
            Op::Tile(tile) => self.tile(warp, mask, tile)?,
            Op::ActiveMask(d) => regs.set32(*d, &[mask; LANES], mask),
            Op::Elect(d, p, members) => {
                let members = *regs.get32(*members);
                let leader: L32 = members.map(|members| Warp::lowest(mask & members) as u32);
                let elected = lanes_of(mask).filter(|lane| leader[*lane] == *lane as u32);
                let elected = elected.fold(0, |mask, lane| mask | 1 << lane);
                if let Some(d) = d {
                    regs.set32(*d, &leader, mask);
                }
                if let Some(p) = p {
                    regs.set_pred(*p, elected, mask);
                }
            }
            Op::Clock(d) => regs.set(*d, &[self.steps; LANES], mask),
            Op::Trap => return Err(Box::new(Fault::Trap { place: self.place(warp, Warp::lowest(mask)) })),
            Op::Unsupported(form) => return Err(self.unsupported(warp, Warp::lowest(mask), form)),
            _ => {
                return Err(self.unsupported(warp, Warp::lowest(mask), "an instruction without an executor"));
            }
        }
        Ok(())
    }
}

/// Copies one byte of each lane's local memory, and whether it is written.
fn copy_byte(warp: &mut Warp, mask: Mask, from: usize, to: usize) {
    let (shift_from, shift_to) = (from % 4 * 8, to % 4 * 8);
    for lane in lanes_of(mask) {
        let (source, target) = (from / 4 * LANES + lane, to / 4 * LANES + lane);
        let byte = warp.local[source] >> shift_from & 0xff;
        warp.local[target] = warp.local[target] & !(0xff << shift_to) | byte << shift_to;
        if let Some(known) = warp.local_known.get(source) {
            let bit = known >> (from % 4) & 1;
            let target = &mut warp.local_known[target];
            *target = *target & !(1 << (to % 4)) | bit << (to % 4);
        }
    }
}

#[inline(always)]
fn compare(regs: &Registers, test: Test) -> Mask {
    match test {
        Test::Narrow(f, a, b) => f(regs.get32(a), regs.get32(b)),
        Test::Wide(f, a, b) => f(regs.get64(a), regs.get64(b)),
    }
}

#[inline(always)]
fn combined(regs: &Registers, holds: Mask, combine: Option<(BoolOp, PredSource)>) -> Mask {
    match combine {
        None => holds,
        Some((how, source)) => how.apply(holds, regs.test(source)),
    }
}

#[inline(always)]
fn set_pred(
    regs: &mut Registers,
    mask: Mask,
    test: Test,
    out: [Option<Pred>; 2],
    combine: Option<(BoolOp, PredSource)>,
) {
    let holds = compare(regs, test);
    let (yes, no) = (combined(regs, holds, combine), combined(regs, !holds, combine));
    if let Some(p) = out[0] {
        regs.set_pred(p, yes, mask);
    }
    if let Some(q) = out[1] {
        regs.set_pred(q, no, mask);
    }
}

fn carry32(regs: &mut Registers, mask: Mask, how: CarryUse, d: R32, a: &L32, b: &L32) {
    let mut out = [0; LANES];
    let mut carries = 0;
    for lane in 0..LANES {
        let carry = if how.takes { u64::from(regs.carry >> lane & 1) } else { 0 };
        let (a, b) = (u64::from(a[lane]), u64::from(b[lane]));
        let sum = if how.subtract { a.wrapping_sub(b).wrapping_sub(carry) } else { a + b + carry };
        out[lane] = sum as u32;
        carries |= u32::from(sum >> 32 != 0) << lane;
    }
    regs.set32(d, &out, mask);
    if how.gives {
        regs.carry = regs.carry & !mask | carries & mask;
    }
}

fn carry64(regs: &mut Registers, mask: Mask, how: CarryUse, d: R64, a: &L64, b: &L64) {
    let mut out = [0; LANES];
    let mut carries = 0;
    for lane in 0..LANES {
        let carry = if how.takes { u128::from(regs.carry >> lane & 1) } else { 0 };
        let (a, b) = (u128::from(a[lane]), u128::from(b[lane]));
        let sum = if how.subtract { a.wrapping_sub(b).wrapping_sub(carry) } else { a + b + carry };
        out[lane] = sum as u64;
        carries |= u32::from(sum >> 64 != 0) << lane;
    }
    regs.set64(d, &out, mask);
    if how.gives {
        regs.carry = regs.carry & !mask | carries & mask;
    }
}
