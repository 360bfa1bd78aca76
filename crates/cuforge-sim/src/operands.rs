//! Which registers and predicates an instruction reads, and which it writes.

use crate::form::{
    Access, AddressBase, Atomic, CopySource, HalvesOut, Op, Pred, PredSource, R32, R64, Reg, Test,
};
use crate::gate::{ClusterOp, Completion, Gate, GateAction, Phase};
use crate::tile::{Gathered, Held, Scattered, Tile};

/// What is done with each operand that is visited.
pub(crate) trait Visit {
    /// A register of 32 bits.
    fn narrow(&mut self, reg: &mut R32);
    /// A register of 64 bits.
    fn wide(&mut self, reg: &mut R64);
    /// A predicate.
    fn pred(&mut self, pred: &mut Pred);

    /// A register of either width.
    fn either(&mut self, reg: &mut Reg) {
        match reg {
            Reg::Narrow(reg) => self.narrow(reg),
            Reg::Wide(reg) => self.wide(reg),
        }
    }
}

fn narrow_all<'a>(visit: &mut impl Visit, regs: impl IntoIterator<Item = &'a mut R32>) {
    regs.into_iter().for_each(|reg| visit.narrow(reg));
}

fn wide_all<'a>(visit: &mut impl Visit, regs: impl IntoIterator<Item = &'a mut R64>) {
    regs.into_iter().for_each(|reg| visit.wide(reg));
}

fn either_all<'a>(visit: &mut impl Visit, regs: impl IntoIterator<Item = &'a mut Reg>) {
    regs.into_iter().for_each(|reg| visit.either(reg));
}

impl Test {
    /// The registers that are compared.
    pub(crate) fn registers(&mut self, visit: &mut impl Visit) {
        match self {
            Self::Narrow(_, a, b) => narrow_all(visit, [a, b]),
            Self::Wide(_, a, b) => wide_all(visit, [a, b]),
        }
    }
}

fn of_combination<T>(combine: &mut Option<(T, PredSource)>, visit: &mut impl Visit) {
    if let Some((_, source)) = combine {
        visit.pred(&mut source.pred);
    }
}

fn of_atomic(atomic: &mut Atomic, visit: &mut impl Visit) {
    atomic.access.base_register(visit);
    visit.either(&mut atomic.b);
    either_all(visit, &mut atomic.c);
}

impl Access {
    /// The register that the address comes from.
    pub(crate) fn base_register(&mut self, visit: &mut impl Visit) {
        match &mut self.base {
            AddressBase::Absolute => {}
            AddressBase::Narrow(reg) => visit.narrow(reg),
            AddressBase::Wide(reg) => visit.wide(reg),
        }
    }
}

impl Op {
    /// Visits the registers and predicates that are read, those of addresses included; the guard is not part of the
    /// operation.
    pub(crate) fn sources(&mut self, visit: &mut impl Visit) {
        match self {
            Self::Un32(_, _, a) | Self::Widen(_, _, a) | Self::BranchIndexed(a, _) | Self::WarpSync(a) => {
                visit.narrow(a);
            }
            Self::Un64(_, _, a) | Self::Shrink(_, _, a) | Self::Split64(_, _, a) => visit.wide(a),
            Self::Bin32(_, _, a, b)
            | Self::BinWiden(_, _, a, b)
            | Self::Carry32(_, _, a, b)
            | Self::Join64(_, a, b) => narrow_all(visit, [a, b]),
            Self::Bin64(_, _, a, b) | Self::Carry64(_, _, a, b) => wide_all(visit, [a, b]),
            Self::Select32(_, a, b, p) => {
                narrow_all(visit, [a, b]);
                visit.pred(&mut p.pred);
            }
            Self::Select64(_, a, b, p) => {
                wide_all(visit, [a, b]);
                visit.pred(&mut p.pred);
            }
            Self::Shift64(_, _, a, b) => {
                visit.wide(a);
                visit.narrow(b);
            }
            Self::Tern32(_, _, a, b, c) => narrow_all(visit, [a, b, c]),
            Self::Tern64(_, _, a, b, c) => wide_all(visit, [a, b, c]),
            Self::TernWiden(_, _, a, b, c) => {
                narrow_all(visit, [a, b]);
                visit.wide(c);
            }
            Self::Field64(_, _, a, b, c) => {
                visit.wide(a);
                narrow_all(visit, [b, c]);
            }
            Self::Quad32(_, _, regs) => narrow_all(visit, regs),
            Self::Insert64(_, _, a, b, regs) => {
                wide_all(visit, [a, b]);
                narrow_all(visit, regs);
            }
            Self::MadCarry32(_, _, _, regs) => narrow_all(visit, regs),
            Self::MadCarry64(_, _, _, regs) => wide_all(visit, regs),
            Self::Convert(_, _, a)
            | Self::SplitParts(_, _, a)
            | Self::CvtaTo(_, _, a)
            | Self::CvtaFrom(_, _, a)
            | Self::IsSpace(_, _, a) => visit.either(a),
            Self::SetPred { test, combine, .. } | Self::SetValue { test, combine, .. } => {
                test.registers(visit);
                of_combination(combine, visit);
            }
            Self::SetHalves { low, high, combine, .. } => {
                low.registers(visit);
                high.registers(visit);
                of_combination(combine, visit);
            }
            Self::SelectBy32(test, _, a, b) => {
                test.registers(visit);
                narrow_all(visit, [a, b]);
            }
            Self::SelectBy64(test, _, a, b) => {
                test.registers(visit);
                wide_all(visit, [a, b]);
            }
            Self::MovePair(_, halves) => wide_all(visit, halves),
            Self::PairAtomic(atomic) => {
                atomic.access.base_register(visit);
                wide_all(visit, atomic.b.iter_mut().chain(atomic.c.iter_mut().flatten()));
            }
            Self::PredLogic(_, _, a, b) => {
                visit.pred(&mut a.pred);
                visit.pred(&mut b.pred);
            }
            Self::PredMove(_, a) => visit.pred(&mut a.pred),
            Self::JoinParts(_, _, parts) => narrow_all(visit, parts),
            Self::Load(load) => load.access.base_register(visit),
            Self::Store(store) => {
                store.access.base_register(visit);
                either_all(visit, &mut store.sources);
            }
            Self::Atomic(atomic) => of_atomic(atomic, visit),
            Self::VectorAtomic(access, list) => {
                access.base_register(visit);
                list.iter_mut().for_each(|atomic| of_atomic(atomic, visit));
            }
            Self::AsyncCopy(copy) => {
                copy.target.base_register(visit);
                copy.source.base_register(visit);
                match &mut copy.part {
                    CopySource::Whole => {}
                    CopySource::Bytes(bytes) => visit.narrow(bytes),
                    CopySource::Unless(ignore) => visit.pred(&mut ignore.pred),
                }
            }
            Self::Gate(gate) => gate.sources(visit),
            Self::Bulk(bulk) => {
                bulk.target.base_register(visit);
                bulk.source.base_register(visit);
                if let Completion::Gate(gate) = &mut bulk.completion {
                    gate.base_register(visit);
                }
                visit.narrow(&mut bulk.bytes);
                narrow_all(visit, &mut bulk.blocks);
            }
            Self::Cluster(ClusterOp::Map { a, rank, .. }) => {
                visit.either(a);
                visit.narrow(rank);
            }
            Self::Cluster(ClusterOp::Rank { a, .. }) => visit.either(a),
            Self::Shuffle(op) => {
                narrow_all(visit, [&mut op.a, &mut op.b, &mut op.c]);
                narrow_all(visit, &mut op.members);
            }
            Self::Vote(op) => {
                visit.pred(&mut op.source.pred);
                narrow_all(visit, &mut op.members);
            }
            Self::Match(op) => {
                visit.either(&mut op.a);
                visit.narrow(&mut op.members);
            }
            Self::Redux(op) => narrow_all(visit, [&mut op.a, &mut op.members]),
            Self::Tile(tile) => tile.sources(visit),
            Self::Elect(_, _, members) => visit.narrow(members),
            Self::Barrier(op) => {
                visit.narrow(&mut op.id);
                narrow_all(visit, &mut op.threads);
                of_combination(&mut op.reduction, visit);
            }
            Self::Nop
            | Self::Fence
            | Self::CopyLocal { .. }
            | Self::Print { .. }
            | Self::AssertFail { .. }
            | Self::CopyCommit
            | Self::CopyWait(_)
            | Self::BulkCommit
            | Self::BulkWait(_)
            | Self::Cluster(ClusterOp::Arrive { .. } | ClusterOp::Wait)
            | Self::LoadParam(..)
            | Self::ActiveMask(_)
            | Self::Clock(_)
            | Self::Branch(_)
            | Self::Call(..)
            | Self::Return(_)
            | Self::Exit
            | Self::Trap
            | Self::Unsupported(_) => {}
        }
    }

    /// Visits the registers and predicates that are written.
    pub(crate) fn targets(&mut self, visit: &mut impl Visit) {
        match self {
            Self::Un32(_, d, _)
            | Self::Shrink(_, d, _)
            | Self::Bin32(_, d, ..)
            | Self::Tern32(_, d, ..)
            | Self::Quad32(_, d, _)
            | Self::Carry32(_, d, ..)
            | Self::MadCarry32(_, _, d, _)
            | Self::SetValue { d, .. }
            | Self::Select32(d, ..)
            | Self::SelectBy32(_, d, ..)
            | Self::ActiveMask(d)
            | Self::Call(d, _) => visit.narrow(d),
            Self::Un64(_, d, _)
            | Self::Widen(_, d, _)
            | Self::Bin64(_, d, ..)
            | Self::Shift64(_, d, ..)
            | Self::BinWiden(_, d, ..)
            | Self::Tern64(_, d, ..)
            | Self::TernWiden(_, d, ..)
            | Self::Field64(_, d, ..)
            | Self::Insert64(_, d, ..)
            | Self::Carry64(_, d, ..)
            | Self::MadCarry64(_, _, d, _)
            | Self::Select64(d, ..)
            | Self::SelectBy64(_, d, ..)
            | Self::Join64(d, ..) => visit.wide(d),
            Self::Convert(_, d, _)
            | Self::JoinParts(_, d, _)
            | Self::CvtaTo(_, d, _)
            | Self::CvtaFrom(_, d, _)
            | Self::Clock(d) => visit.either(d),
            Self::SetPred { p, q, .. } => p.iter_mut().chain(q).for_each(|pred| visit.pred(pred)),
            Self::SetHalves { out: HalvesOut::Preds(p, q), .. } => {
                visit.pred(p);
                q.iter_mut().for_each(|pred| visit.pred(pred));
            }
            Self::SetHalves { out: HalvesOut::Value(d, _), .. } => visit.narrow(d),
            Self::PredLogic(_, d, ..) | Self::PredMove(d, _) | Self::IsSpace(_, d, _) => visit.pred(d),
            Self::Split64(low, high, _) => narrow_all(visit, low.iter_mut().chain(high)),
            Self::SplitParts(_, parts, _) => narrow_all(visit, parts.iter_mut().flatten()),
            Self::LoadParam(_, targets, _) => {
                either_all(visit, targets.iter_mut().filter_map(|target| target.reg.as_mut()));
            }
            Self::Load(load) => {
                either_all(visit, load.targets.iter_mut().filter_map(|target| target.reg.as_mut()));
            }
            Self::MovePair(halves, _) => wide_all(visit, halves),
            Self::PairAtomic(atomic) => wide_all(visit, atomic.target.iter_mut().flatten()),
            Self::Atomic(atomic) => either_all(visit, &mut atomic.target),
            Self::VectorAtomic(_, list) => {
                either_all(visit, list.iter_mut().filter_map(|atomic| atomic.target.as_mut()));
            }
            Self::Shuffle(op) => {
                narrow_all(visit, &mut op.d);
                op.p.iter_mut().for_each(|pred| visit.pred(pred));
            }
            Self::Vote(op) => {
                narrow_all(visit, &mut op.d);
                op.p.iter_mut().for_each(|pred| visit.pred(pred));
            }
            Self::Match(op) => {
                visit.narrow(&mut op.d);
                op.p.iter_mut().for_each(|pred| visit.pred(pred));
            }
            Self::Redux(op) => visit.narrow(&mut op.d),
            Self::Gate(gate) => match &mut gate.action {
                GateAction::Arrive(arrive) => wide_all(visit, &mut arrive.state),
                GateAction::Wait(wait) => visit.pred(&mut wait.p),
                _ => {}
            },
            Self::Cluster(ClusterOp::Map { d, .. }) => visit.either(d),
            Self::Cluster(ClusterOp::Rank { d, .. }) => visit.narrow(d),
            Self::Tile(tile) => tile.targets(visit),
            Self::Elect(d, p, _) => {
                narrow_all(visit, d);
                p.iter_mut().for_each(|pred| visit.pred(pred));
            }
            Self::Barrier(op) => {
                narrow_all(visit, &mut op.d);
                op.p.iter_mut().for_each(|pred| visit.pred(pred));
            }
            Self::Nop
            | Self::Fence
            | Self::CopyLocal { .. }
            | Self::Print { .. }
            | Self::AssertFail { .. }
            | Self::AsyncCopy(_)
            | Self::CopyCommit
            | Self::CopyWait(_)
            | Self::Bulk(_)
            | Self::BulkCommit
            | Self::BulkWait(_)
            | Self::Cluster(ClusterOp::Arrive { .. } | ClusterOp::Wait)
            | Self::Store(_)
            | Self::WarpSync(_)
            | Self::Branch(_)
            | Self::BranchIndexed(..)
            | Self::Return(_)
            | Self::Exit
            | Self::Trap
            | Self::Unsupported(_) => {}
        }
    }
}

impl Gate {
    fn sources(&mut self, visit: &mut impl Visit) {
        self.access.base_register(visit);
        match &mut self.action {
            GateAction::Init(number) | GateAction::Expect(number) | GateAction::Receive(number) => {
                visit.narrow(number);
            }
            GateAction::Arrive(arrive) => {
                narrow_all(visit, arrive.count.iter_mut().chain(&mut arrive.bytes));
            }
            GateAction::Wait(wait) => match &mut wait.phase {
                Phase::Parity(parity) => visit.narrow(parity),
                Phase::State(state) => visit.wide(state),
            },
            GateAction::Invalidate | GateAction::AfterCopies { .. } => {}
        }
    }
}

impl Tile {
    fn sources(&mut self, visit: &mut impl Visit) {
        let stored = |pieces: &mut Vec<Scattered>, visit: &mut _| {
            for piece in pieces {
                match &mut piece.split {
                    Some((whole, ..)) => Visit::either(visit, whole),
                    None => either_all(visit, piece.stores.iter_mut().flat_map(|store| &mut store.sources)),
                }
            }
        };
        match self {
            Self::Multiply(op) => {
                let held = |held: &mut Held, visit: &mut _| either_all(visit, &mut held.registers);
                held(&mut op.a, visit);
                held(&mut op.b, visit);
                held(&mut op.c, visit);
                visit.narrow(&mut op.members);
            }
            Self::FragmentLoad(op) => {
                op.access.base_register(visit);
                narrow_all(visit, [&mut op.stride, &mut op.members]);
            }
            Self::FragmentStore(op) => {
                op.access.base_register(visit);
                narrow_all(visit, [&mut op.stride, &mut op.members]);
                stored(&mut op.pieces, visit);
            }
            Self::RowsLoad(op) => {
                op.access.base_register(visit);
                visit.narrow(&mut op.members);
            }
            Self::RowsStore(op) => {
                op.access.base_register(visit);
                visit.narrow(&mut op.members);
                stored(&mut op.pieces, visit);
            }
            Self::Transpose(op) => narrow_all(visit, [&mut op.a, &mut op.members]),
        }
    }

    fn targets(&mut self, visit: &mut impl Visit) {
        let loaded = |pieces: &mut Vec<Gathered>, visit: &mut _| {
            for piece in pieces {
                if let Some((whole, _)) = &mut piece.packed {
                    Visit::either(visit, whole);
                }
                let targets = piece.loads.iter_mut().flat_map(|load| &mut load.targets);
                either_all(visit, targets.filter_map(|target| target.reg.as_mut()));
            }
        };
        match self {
            Self::Multiply(op) => either_all(visit, &mut op.d.registers),
            Self::FragmentLoad(op) => loaded(&mut op.pieces, visit),
            Self::RowsLoad(op) => loaded(&mut op.pieces, visit),
            Self::Transpose(op) => visit.narrow(&mut op.d),
            Self::FragmentStore(_) | Self::RowsStore(_) => {}
        }
    }
}
