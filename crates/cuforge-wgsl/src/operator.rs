//! Binary operators with WGSL's meaning, where C++'s is another.

use naga::{BinaryOperator, Expression, Handle, Literal, ScalarKind, TypeInner};

use crate::error::EmitError;
use crate::expression::vector_operator;
use crate::lift::{Lift, Returns};
use crate::prelude::Need;
use crate::rendered::{Level, Rendered};
use crate::writer::Writer;

/// An operator's sign in C++, the section of the prelude that it is on scalars, and how tightly it binds.
fn known(op: BinaryOperator) -> (&'static str, &'static str, Level) {
    match op {
        BinaryOperator::Add => ("+", "add", Level::Sum),
        BinaryOperator::Subtract => ("-", "sub", Level::Sum),
        BinaryOperator::Multiply => ("*", "mul", Level::Product),
        BinaryOperator::Divide => ("/", "div", Level::Product),
        BinaryOperator::Modulo => ("%", "rem", Level::Product),
        BinaryOperator::Equal => ("==", "equal", Level::Loose),
        BinaryOperator::NotEqual => ("!=", "not_equal", Level::Loose),
        BinaryOperator::Less => ("<", "less", Level::Loose),
        BinaryOperator::LessEqual => ("<=", "less_equal", Level::Loose),
        BinaryOperator::Greater => (">", "greater", Level::Loose),
        BinaryOperator::GreaterEqual => (">=", "greater_equal", Level::Loose),
        BinaryOperator::And => ("&", "bit_and", Level::Loose),
        BinaryOperator::ExclusiveOr => ("^", "bit_xor", Level::Loose),
        BinaryOperator::InclusiveOr => ("|", "bit_or", Level::Loose),
        BinaryOperator::LogicalAnd => ("&&", "bit_and", Level::Loose),
        BinaryOperator::LogicalOr => ("||", "bit_or", Level::Loose),
        BinaryOperator::ShiftLeft => ("<<", "shl", Level::Loose),
        BinaryOperator::ShiftRight => (">>", "shr", Level::Loose),
    }
}

fn is_comparison(op: BinaryOperator) -> bool {
    use BinaryOperator as Op;
    matches!(op, Op::Equal | Op::NotEqual | Op::Less | Op::LessEqual | Op::Greater | Op::GreaterEqual)
}

impl Writer<'_, '_> {
    pub(crate) fn binary(
        &mut self,
        op: BinaryOperator,
        left: Handle<Expression>,
        right: Handle<Expression>,
    ) -> Result<Rendered, EmitError> {
        let (mut sign, name, level) = known(op);
        let (a, b) = (self.value(left)?, self.value(right)?);
        match (self.inner(left), self.inner(right)) {
            (TypeInner::Matrix { .. }, _) | (_, TypeInner::Matrix { .. }) => {
                self.need_matrix_operator(op, left, right);
            }
            (TypeInner::Vector { size, .. }, _) | (_, TypeInner::Vector { size, .. }) => {
                let size = *size as u8;
                if op == BinaryOperator::Multiply && self.components(left) != self.components(right) {
                    self.unit.prelude.section("mul");
                    self.unit.prelude.need(Need::Scale(size));
                } else {
                    let returns = if is_comparison(op) { Returns::Bool } else { Returns::Same };
                    let lifted = vector_operator(match sign {
                        "&&" => "&",
                        "||" => "|",
                        sign => sign,
                    });
                    self.lift(Lift { name: lifted, scalar: name, arity: 2, size, returns });
                }
            }
            (TypeInner::Scalar(scalar), _) => {
                if scalar.kind == ScalarKind::Bool {
                    // Of truth values that are there already, so that nothing is cut short.
                    sign = match sign {
                        "&" => "&&",
                        "|" => "||",
                        "^" => "!=",
                        sign => sign,
                    };
                } else if self.differs_from_c(op, *scalar, right) {
                    return self.call(name, &[a, b]);
                }
            }
            _ => return Err(self.unsupported("this operator", left)),
        }
        Ok(Rendered::infix(&a, sign, &b, level))
    }

    /// Whether C++ means another thing, or nothing, by the operator.
    fn differs_from_c(&self, op: BinaryOperator, scalar: naga::Scalar, right: Handle<Expression>) -> bool {
        use BinaryOperator as Op;
        let signed = scalar.kind == ScalarKind::Sint;
        let integer = signed || scalar.kind == ScalarKind::Uint;
        let constant = match self.function.expressions[right] {
            Expression::Literal(Literal::U32(value)) => Some(i64::from(value)),
            Expression::Literal(Literal::I32(value)) => Some(i64::from(value)),
            Expression::Literal(Literal::U64(value)) => i64::try_from(value).ok(),
            Expression::Literal(Literal::I64(value)) => Some(value),
            _ => None,
        };
        match op {
            // C++ computes on 16-bit integers in 32 bits.
            _ if integer && scalar.width == 2 && !is_comparison(op) => true,
            Op::Add | Op::Subtract | Op::Multiply => signed,
            Op::Divide => integer && constant.is_none_or(|divisor| divisor == 0 || divisor == -1),
            Op::Modulo => !integer || constant.is_none_or(|divisor| divisor == 0 || divisor == -1),
            Op::ShiftLeft => signed || constant.is_none_or(|by| by >= i64::from(scalar.width) * 8),
            Op::ShiftRight => constant.is_none_or(|by| by >= i64::from(scalar.width) * 8),
            _ => false,
        }
    }

    fn need_matrix_operator(
        &mut self,
        op: BinaryOperator,
        left: Handle<Expression>,
        right: Handle<Expression>,
    ) {
        let shape = |inner: &TypeInner| match *inner {
            TypeInner::Matrix { columns, rows, .. } => Some((columns as u8, rows as u8)),
            _ => None,
        };
        let (sign, name, _) = known(op);
        match (shape(self.inner(left)), shape(self.inner(right))) {
            (Some((columns, rows)), Some((inner_columns, _))) if op == BinaryOperator::Multiply => {
                self.unit.prelude.need(Need::MatrixVector { columns, rows });
                self.unit.prelude.need(Need::MatrixMatrix { columns, rows, right: inner_columns });
            }
            (Some((columns, rows)), Some(_)) => {
                let operator = vector_operator(sign);
                self.lift(Lift {
                    name: operator,
                    scalar: name,
                    arity: 2,
                    size: rows,
                    returns: Returns::Same,
                });
                self.unit.prelude.need(Need::MatrixSum { columns, rows, operator });
            }
            (Some((columns, rows)), None) if self.components(right).is_some() => {
                self.unit.prelude.need(Need::MatrixVector { columns, rows });
            }
            (None, Some((columns, rows))) if self.components(left).is_some() => {
                self.unit.prelude.need(Need::VectorMatrix { columns, rows });
            }
            (Some((columns, rows)), None) | (None, Some((columns, rows))) => {
                self.unit.prelude.need(Need::MatrixScale { columns, rows });
            }
            (None, None) => {}
        }
    }
}
