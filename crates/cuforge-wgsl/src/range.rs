//! The largest value that an index can have, where its expression alone says so: then it need not be clamped.

use naga::{BinaryOperator, Binding, BuiltIn, Expression, Handle, Literal, MathFunction, ScalarKind};

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

    fn literal_of(&self, handle: Handle<Expression>) -> Option<u32> {
        match self.function.expressions[handle] {
            Expression::Literal(Literal::U32(value)) => Some(value),
            Expression::Literal(Literal::I32(value)) => u32::try_from(value).ok(),
            _ => None,
        }
    }
}
