//! Final numbers for registers, once it is known how many of them code writes.

use crate::form::{Access, AddressBase, Op, R32, R64, Reg, Test};

type Narrowing<'a> = &'a dyn Fn(R32) -> R32;
type Widening<'a> = &'a dyn Fn(R64) -> R64;

impl Reg {
    fn renumber(&mut self, narrow: Narrowing, wide: Widening) {
        match self {
            Self::Narrow(reg) => *reg = narrow(*reg),
            Self::Wide(reg) => *reg = wide(*reg),
        }
    }
}

impl Test {
    fn renumber(&mut self, narrow: Narrowing, wide: Widening) {
        match self {
            Self::Narrow(_, a, b) => (*a, *b) = (narrow(*a), narrow(*b)),
            Self::Wide(_, a, b) => (*a, *b) = (wide(*a), wide(*b)),
        }
    }
}

impl Access {
    fn renumber(&mut self, narrow: Narrowing, wide: Widening) {
        match &mut self.base {
            AddressBase::Absolute => {}
            AddressBase::Narrow(reg) => *reg = narrow(*reg),
            AddressBase::Wide(reg) => *reg = wide(*reg),
        }
    }
}

impl Op {
    /// Gives the registers that are read their final numbers. What is written has its number already.
    pub(crate) fn renumber(&mut self, narrow: Narrowing, wide: Widening) {
        match self {
            Self::Un32(_, _, a) | Self::Widen(_, _, a) | Self::BranchIndexed(a, _) | Self::WarpSync(a) => {
                *a = narrow(*a);
            }
            Self::Un64(_, _, a) | Self::Shrink(_, _, a) | Self::Split64(_, _, a) => *a = wide(*a),
            Self::Bin32(_, _, a, b)
            | Self::BinWiden(_, _, a, b)
            | Self::Carry32(_, _, a, b)
            | Self::Select32(_, a, b, _)
            | Self::Join64(_, a, b) => (*a, *b) = (narrow(*a), narrow(*b)),
            Self::Bin64(_, _, a, b) | Self::Carry64(_, _, a, b) | Self::Select64(_, a, b, _) => {
                (*a, *b) = (wide(*a), wide(*b));
            }
            Self::Shift64(_, _, a, b) => (*a, *b) = (wide(*a), narrow(*b)),
            Self::Tern32(_, _, a, b, c) => (*a, *b, *c) = (narrow(*a), narrow(*b), narrow(*c)),
            Self::Tern64(_, _, a, b, c) => (*a, *b, *c) = (wide(*a), wide(*b), wide(*c)),
            Self::TernWiden(_, _, a, b, c) => (*a, *b, *c) = (narrow(*a), narrow(*b), wide(*c)),
            Self::Field64(_, _, a, b, c) => (*a, *b, *c) = (wide(*a), narrow(*b), narrow(*c)),
            Self::Quad32(_, _, regs) => *regs = regs.map(narrow),
            Self::Insert64(_, _, a, b, regs) => {
                (*a, *b) = (wide(*a), wide(*b));
                *regs = regs.map(narrow);
            }
            Self::MadCarry32(_, _, _, regs) => *regs = regs.map(narrow),
            Self::MadCarry64(_, _, _, regs) => *regs = regs.map(wide),
            Self::Convert(_, _, a)
            | Self::SplitParts(_, _, a)
            | Self::CvtaTo(_, _, a)
            | Self::CvtaFrom(_, _, a)
            | Self::IsSpace(_, _, a) => a.renumber(narrow, wide),
            Self::SetPred { test, .. } | Self::SetValue { test, .. } => test.renumber(narrow, wide),
            Self::SetHalves { low, high, .. } => {
                low.renumber(narrow, wide);
                high.renumber(narrow, wide);
            }
            Self::SelectBy32(test, _, a, b) => {
                test.renumber(narrow, wide);
                (*a, *b) = (narrow(*a), narrow(*b));
            }
            Self::SelectBy64(test, _, a, b) => {
                test.renumber(narrow, wide);
                (*a, *b) = (wide(*a), wide(*b));
            }
            Self::JoinParts(_, _, parts) => parts.iter_mut().for_each(|part| *part = narrow(*part)),
            Self::Load(load) => load.access.renumber(narrow, wide),
            Self::Store(store) => {
                store.access.renumber(narrow, wide);
                store.sources.iter_mut().for_each(|source| source.renumber(narrow, wide));
            }
            Self::Atomic(atomic) => {
                atomic.access.renumber(narrow, wide);
                atomic.b.renumber(narrow, wide);
                if let Some(c) = &mut atomic.c {
                    c.renumber(narrow, wide);
                }
            }
            Self::Shuffle(op) => {
                (op.a, op.b, op.c) = (narrow(op.a), narrow(op.b), narrow(op.c));
                op.members = op.members.map(narrow);
            }
            Self::Vote(op) => op.members = op.members.map(narrow),
            Self::Match(op) => {
                op.a.renumber(narrow, wide);
                op.members = narrow(op.members);
            }
            Self::Redux(op) => (op.a, op.members) = (narrow(op.a), narrow(op.members)),
            Self::Elect(_, _, members) => *members = narrow(*members),
            Self::Barrier(op) => {
                op.id = narrow(op.id);
                op.threads = op.threads.map(narrow);
            }
            Self::Nop
            | Self::PredLogic(..)
            | Self::PredMove(..)
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
}
