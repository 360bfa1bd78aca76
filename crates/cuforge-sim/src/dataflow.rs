//! What flows through each instruction: registers in and out, and which of them are addresses or outputs.

use crate::form::{Inst, Op, Pred, R32, R64};
use crate::operands::Visit;
use crate::tile::Tile;

/// A register or predicate.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Hash, PartialOrd, Ord)]
pub(crate) enum Slot {
    Narrow(u32),
    Wide(u32),
    Pred(u32),
}

/// Registers of one instruction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dataflow {
    pub(crate) reads: Vec<Slot>,
    pub(crate) writes: Vec<Slot>,
    /// Those of the reads that decide where memory is accessed.
    pub(crate) addresses: Vec<Slot>,
    /// Those of the reads that atomics put into memory.
    pub(crate) outputs: Vec<Slot>,
    /// Those of the reads that a comparison compares.
    pub(crate) compared: Vec<Slot>,
}

#[derive(Default)]
struct Listed(Vec<Slot>);

impl Visit for Listed {
    fn narrow(&mut self, reg: &mut R32) {
        self.0.push(Slot::Narrow(reg.0));
    }

    fn wide(&mut self, reg: &mut R64) {
        self.0.push(Slot::Wide(reg.0));
    }

    fn pred(&mut self, pred: &mut Pred) {
        self.0.push(Slot::Pred(pred.0));
    }
}

impl Dataflow {
    /// What flows through an instruction whose registers have their final numbers.
    pub(crate) fn of(inst: &Inst) -> Self {
        // Visiting needs to be able to change; what is listed is a copy.
        let mut op = inst.op.clone();
        let [mut reads, mut writes, mut addresses, mut outputs, mut compared]: [Listed; 5] =
            Default::default();
        op.sources(&mut reads);
        op.targets(&mut writes);
        let of_addresses: &mut Listed = &mut addresses;
        let of_outputs: &mut Listed = &mut outputs;
        let of_compared: &mut Listed = &mut compared;
        match &mut op {
            Op::Load(load) => load.access.base_register(of_addresses),
            Op::Store(store) => store.access.base_register(of_addresses),
            Op::Atomic(atomic) => {
                atomic.access.base_register(of_addresses);
                of_outputs.either(&mut atomic.b);
                atomic.c.iter_mut().for_each(|c| of_outputs.either(c));
            }
            Op::VectorAtomic(access, list) => {
                access.base_register(of_addresses);
                list.iter_mut().for_each(|atomic| of_outputs.either(&mut atomic.b));
            }
            Op::PairAtomic(atomic) => {
                atomic.access.base_register(of_addresses);
                let operands = atomic.b.iter_mut().chain(atomic.c.iter_mut().flatten());
                operands.for_each(|reg| of_outputs.wide(reg));
            }
            // Where a copy goes, and how much of it; which phase is waited for, and with whom.
            Op::AsyncCopy(_) | Op::Bulk(_) | Op::Gate(_) => op.sources(of_addresses),
            Op::SetPred { test, .. } | Op::SetValue { test, .. } => test.registers(of_compared),
            Op::Tile(tile) => match &mut **tile {
                Tile::FragmentLoad(op) => {
                    op.access.base_register(of_addresses);
                    of_addresses.narrow(&mut op.stride);
                }
                Tile::FragmentStore(op) => {
                    op.access.base_register(of_addresses);
                    of_addresses.narrow(&mut op.stride);
                }
                Tile::RowsLoad(op) => op.access.base_register(of_addresses),
                Tile::RowsStore(op) => op.access.base_register(of_addresses),
                Tile::Multiply(_) | Tile::Transpose(_) => {}
            },
            _ => {}
        }
        Self {
            reads: reads.0,
            writes: writes.0,
            addresses: addresses.0,
            outputs: outputs.0,
            compared: compared.0,
        }
    }
}
