//! The largest value that an index can have, where its expression alone says so: then it need not be clamped.

use naga::{
    BinaryOperator, Binding, Block, BuiltIn, Expression, Handle, Literal, LocalVariable, MathFunction,
    Scalar, ScalarKind, Statement,
};

use crate::writer::Writer;

/// Levels of an expression that are looked at.
const MAX_DEPTH: u32 = 16;

impl Writer<'_, '_> {
    /// A bound of the value of `handle`, if it is an integer that is never negative and never above it.
    pub(crate) fn upper_bound(&self, handle: Handle<Expression>) -> Option<u32> {
        self.bound(handle, MAX_DEPTH)
    }

    fn bound(&self, handle: Handle<Expression>, depth: u32) -> Option<u32> {
        let depth = depth.checked_sub(1)?;
        let of = |handle| self.bound(handle, depth);
        let signed = self.inner(handle).scalar_kind() == Some(ScalarKind::Sint);
        // Beyond this a signed sum or product wraps to a negative number.
        let limit = if signed { i32::MAX as u32 } else { u32::MAX };
        match self.function.expressions[handle] {
            Expression::Literal(Literal::U32(value)) => Some(value),
            Expression::Literal(Literal::I32(value)) => u32::try_from(value).ok(),
            // The counter of a loop around, which the loop's condition bounds.
            Expression::Load { pointer } => match self.function.expressions[pointer] {
                Expression::LocalVariable(local) => self.counters.get(&local).copied(),
                _ => None,
            },
            Expression::Constant(_) => self.literal_of(handle),
            Expression::AccessIndex { base, index } => match self.built_in(base)? {
                BuiltIn::LocalInvocationId => {
                    Some(self.workgroup_size.get(index as usize)?.saturating_sub(1))
                }
                _ => None,
            },
            Expression::FunctionArgument(_) => match self.built_in(handle)? {
                BuiltIn::LocalInvocationIndex => {
                    let size = self.workgroup_size.iter().try_fold(1_u32, |all, n| all.checked_mul(*n))?;
                    Some(size.saturating_sub(1))
                }
                BuiltIn::SubgroupInvocationId => Some(31),
                _ => None,
            },
            Expression::Math { fun: MathFunction::Min, arg, arg1: Some(other), .. } if !signed => {
                match (of(arg), of(other)) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (one, another) => one.or(another),
                }
            }
            Expression::Binary { op, left, right } => match op {
                BinaryOperator::Add => of(left)?.checked_add(of(right)?).filter(|sum| *sum <= limit),
                BinaryOperator::Multiply => of(left)?.checked_mul(of(right)?).filter(|all| *all <= limit),
                BinaryOperator::And => match (of(left), of(right)) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (one, another) => one.or(another),
                },
                BinaryOperator::Modulo if !signed || of(left).is_some() => match self.literal_of(right)? {
                    0 => None,
                    divisor => Some(divisor - 1),
                },
                BinaryOperator::Divide => match self.literal_of(right)? {
                    0 => None,
                    divisor => Some(of(left)? / divisor),
                },
                BinaryOperator::ShiftRight => of(left)?.checked_shr(self.literal_of(right)?),
                _ => None,
            },
            _ => None,
        }
    }

    fn built_in(&self, handle: Handle<Expression>) -> Option<BuiltIn> {
        let Expression::FunctionArgument(index) = self.function.expressions[handle] else { return None };
        match self.function.arguments.get(index as usize)?.binding {
            Some(Binding::BuiltIn(built_in)) => Some(built_in),
            _ => None,
        }
    }

    /// The value of a constant that is not negative.
    fn literal_of(&self, handle: Handle<Expression>) -> Option<u32> {
        let module = &self.unit.shader.module;
        let expression = match &self.function.expressions[handle] {
            Expression::Constant(constant) => &module.global_expressions[module.constants[*constant].init],
            expression => expression,
        };
        match *expression {
            Expression::Literal(Literal::U32(value)) => Some(value),
            Expression::Literal(Literal::I32(value)) => u32::try_from(value).ok(),
            _ => None,
        }
    }

    /// The variable that the loop with this condition and these blocks counts with, and its largest value in the body: if
    /// the condition says so, and nothing in the body writes it.
    pub(crate) fn counter(
        &self,
        condition: Handle<Expression>,
        body: &Block,
        continuing: &Block,
    ) -> Option<(Handle<LocalVariable>, u32)> {
        let Expression::Binary { op, left, right } = self.function.expressions[condition] else {
            return None;
        };
        let Expression::Load { pointer } = self.function.expressions[left] else { return None };
        let Expression::LocalVariable(local) = self.function.expressions[pointer] else { return None };
        let limit = self.upper_bound(right)?;
        let largest = match op {
            BinaryOperator::Less => limit.checked_sub(1)?,
            BinaryOperator::LessEqual => limit,
            _ => return None,
        };
        if self.writes(body, local) {
            return None;
        }
        match self.inner(left).scalar()? {
            Scalar::U32 => Some((local, largest)),
            Scalar::I32 => self.only_counts_up(local, largest, continuing).then_some((local, largest)),
            _ => None,
        }
    }

    /// Whether a signed variable is never negative: it begins at numbers that are not, and the one step that it takes
    /// does not wrap.
    fn only_counts_up(&self, local: Handle<LocalVariable>, largest: u32, continuing: &Block) -> bool {
        let step = |value: Handle<Expression>| match self.function.expressions[value] {
            Expression::Binary { op: BinaryOperator::Add, left, right } => {
                let counts = match self.function.expressions[left] {
                    Expression::Load { pointer } => self.is_local(pointer, local),
                    _ => false,
                };
                let next = self.literal_of(right).and_then(|by| largest.checked_add(by));
                counts && next.is_some_and(|next| next <= i32::MAX as u32)
            }
            _ => false,
        };
        let init = self.function.local_variables[local].init;
        let begins = |value: Handle<Expression>| self.literal_of(value).is_some();
        let mut steps = 0;
        let mut all = init.is_none_or(begins);
        visit(&self.function.body, &mut |statement| match statement {
            Statement::Store { pointer, value } if self.is_local(*pointer, local) => {
                if step(*value) {
                    steps += 1;
                } else {
                    all &= begins(*value);
                }
            }
            Statement::Call { arguments, .. } => all &= !arguments.iter().any(|a| self.is_local(*a, local)),
            _ => {}
        });
        all && steps == 1 && self.writes(continuing, local)
    }

    /// Whether a block writes a variable, or hands it on to who may.
    fn writes(&self, block: &Block, local: Handle<LocalVariable>) -> bool {
        let mut writes = false;
        visit(block, &mut |statement| match statement {
            Statement::Store { pointer, .. } => writes |= self.is_local(*pointer, local),
            Statement::Call { arguments, .. } => writes |= arguments.iter().any(|a| self.is_local(*a, local)),
            _ => {}
        });
        writes
    }

    fn is_local(&self, pointer: Handle<Expression>, local: Handle<LocalVariable>) -> bool {
        matches!(self.function.expressions[pointer], Expression::LocalVariable(this) if this == local)
    }
}

/// Calls `seen` with each statement of a block and of the blocks in it.
pub(crate) fn visit<'b>(block: &'b Block, seen: &mut dyn FnMut(&'b Statement)) {
    for statement in block {
        seen(statement);
        match statement {
            Statement::Block(block) => visit(block, seen),
            Statement::If { accept, reject, .. } => {
                visit(accept, seen);
                visit(reject, seen);
            }
            Statement::Switch { cases, .. } => cases.iter().for_each(|case| visit(&case.body, seen)),
            Statement::Loop { body, continuing, .. } => {
                visit(body, seen);
                visit(continuing, seen);
            }
            _ => {}
        }
    }
}
