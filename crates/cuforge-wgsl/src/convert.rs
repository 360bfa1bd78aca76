//! Conversions of values, and bits taken for another type.

use naga::{Expression, Handle, RelationalFunction, Scalar, ScalarKind, TypeInner};

use crate::error::EmitError;
use crate::lift::{Lift, Returns};
use crate::prelude::Need;
use crate::rendered::{Level, Rendered};
use crate::unit::scalar_name;
use crate::writer::Writer;

impl Writer<'_, '_> {
    /// `expr` as a value of `kind`: converted, or its bits taken as they are if `width` is `None`.
    pub(crate) fn convert(
        &mut self,
        expr: Handle<Expression>,
        kind: ScalarKind,
        width: Option<u8>,
        handle: Handle<Expression>,
    ) -> Result<Rendered, EmitError> {
        let value = self.value(expr)?;
        let Some(from) = self.inner(expr).scalar() else {
            return Err(self.unsupported("a conversion of this", handle));
        };
        let to = Scalar { kind, width: width.unwrap_or(from.width) };
        if to == from {
            return Ok(value);
        }
        let name = self.unit.spell_scalar(to);
        if width.is_none() {
            self.unit.prelude.section("bitcast");
            let spelled = self.spell(handle)?;
            return Ok(Rendered::primary(format!("wgsl::bitcast<{spelled}>({value})")));
        }
        match *self.inner(expr) {
            TypeInner::Scalar(_) => self.convert_scalar(value, from, to),
            TypeInner::Vector { size, .. } => {
                self.need_conversion(from, to);
                self.lift(Lift {
                    name: "to",
                    scalar: "to",
                    arity: 1,
                    size: size as u8,
                    returns: Returns::Named,
                });
                Ok(Rendered::primary(format!("wgsl::to<{name}>({value})")))
            }
            TypeInner::Matrix { columns, rows, .. } => {
                self.need_conversion(from, to);
                self.lift(Lift {
                    name: "to",
                    scalar: "to",
                    arity: 1,
                    size: rows as u8,
                    returns: Returns::Named,
                });
                let (columns, rows) = (columns as u8, rows as u8);
                self.unit.prelude.need(Need::Matrix(columns, rows));
                self.unit.prelude.need(Need::MatrixTo { columns, rows });
                Ok(Rendered::primary(format!("wgsl::to<{name}>({value})")))
            }
            _ => Err(self.unsupported("a conversion of this", handle)),
        }
    }

    fn convert_scalar(&mut self, value: Rendered, from: Scalar, to: Scalar) -> Result<Rendered, EmitError> {
        let name = scalar_name(to);
        if to.kind == ScalarKind::Bool {
            let zero = Rendered::primary(self.zero_of(from));
            return Ok(Rendered::infix(&value, "!=", &zero, Level::Loose));
        }
        let float = |scalar: Scalar| scalar.kind == ScalarKind::Float;
        if (float(from) && !float(to)) || from == Scalar::F16 || to == Scalar::F16 {
            self.need_conversion(from, to);
            return Ok(Rendered::primary(format!("wgsl::to<{name}>({value})")));
        }
        Ok(Rendered::primary(format!("{name}({value})")))
    }

    fn need_conversion(&mut self, from: Scalar, to: Scalar) {
        self.unit.prelude.section("to");
        if from == Scalar::F16 || to == Scalar::F16 {
            self.unit.prelude.section("to_f16");
        }
    }

    pub(crate) fn relational(
        &mut self,
        fun: RelationalFunction,
        argument: Handle<Expression>,
        handle: Handle<Expression>,
    ) -> Result<Rendered, EmitError> {
        let value = self.value(argument)?;
        let all = match fun {
            RelationalFunction::All => true,
            RelationalFunction::Any => false,
            RelationalFunction::IsNan | RelationalFunction::IsInf => {
                return Err(self.unsupported("a test for infinity or NaN", handle));
            }
        };
        let Some(size) = self.components(argument) else { return Ok(value) };
        self.unit.prelude.need(Need::Fold { all, size });
        Ok(Rendered::primary(format!("wgsl::{}({value})", if all { "all" } else { "any" })))
    }
}
