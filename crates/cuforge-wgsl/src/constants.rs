//! Literals, and constants of the module by their names.

use naga::{Expression, Handle, Literal, Type, TypeInner};

use crate::error::EmitError;
use crate::rendered::{Level, Rendered};
use crate::unit::Unit;

impl Unit<'_> {
    /// A literal, of exactly its value and type.
    pub(crate) fn literal(&mut self, literal: Literal) -> Rendered {
        let text = match literal {
            Literal::Bool(value) => value.to_string(),
            Literal::U32(value) => format!("{value}u"),
            Literal::I32(i32::MIN) => "(-2147483647 - 1)".to_owned(),
            Literal::I32(value) => value.to_string(),
            Literal::U64(value) => format!("{value}ull"),
            Literal::I64(i64::MIN) | Literal::AbstractInt(i64::MIN) => {
                "(-9223372036854775807ll - 1)".to_owned()
            }
            Literal::I64(value) | Literal::AbstractInt(value) => format!("{value}ll"),
            Literal::U16(value) => format!("u16({value})"),
            Literal::I16(value) => format!("i16({value})"),
            Literal::F32(value) => format!("{value:?}f"),
            Literal::F64(value) | Literal::AbstractFloat(value) => format!("{value:?}"),
            Literal::F16(value) => {
                self.spell_scalar(naga::Scalar::F16);
                format!("f16({:?}f)", value.to_f32())
            }
        };
        let level = if text.starts_with('-') { Level::Prefix } else { Level::Primary };
        Rendered::new(text, level)
    }

    /// Zero of a type.
    pub(crate) fn zero(&mut self, ty: Handle<Type>) -> Result<Rendered, EmitError> {
        match self.shader.module.types[ty].inner {
            TypeInner::Scalar(scalar) | TypeInner::Atomic(scalar) => Ok(Literal::zero(scalar).map_or_else(
                || Rendered::primary(format!("{}(0)", crate::unit::scalar_name(scalar))),
                |zero| self.literal(zero),
            )),
            _ => Ok(Rendered::primary(format!("{}{{}}", self.spell(ty)?))),
        }
    }

    /// A constant, by its name.
    pub(crate) fn constant(&mut self, constant: Handle<naga::Constant>) -> Result<Rendered, EmitError> {
        let naga::Constant { name, ty, init } = self.shader.module.constants[constant].clone();
        let value = self.global_expression(init)?;
        let inner = &self.shader.module.types[ty].inner;
        let by_value = matches!(
            inner,
            TypeInner::Scalar(naga::Scalar::F16) | TypeInner::Vector { .. } | TypeInner::Matrix { .. }
        );
        // What is in the module only as the place of a value has no name; and vectors are better in instructions than in
        // memory.
        if name.is_none() || by_value {
            return Ok(value);
        }
        let name = self.constant_names[&constant].clone();
        if !self.constants.contains_key(&constant.index()) {
            let spelled = self.spell(ty)?;
            let definition = match self.shader.module.types[ty].inner {
                TypeInner::Scalar(_) => format!("static constexpr {spelled} {name} = {value};"),
                _ => format!("static __constant__ const {spelled} {name} = {value};"),
            };
            self.constants.insert(constant.index(), definition);
        }
        Ok(Rendered::primary(name))
    }

    /// An expression of the module, outside of functions.
    pub(crate) fn global_expression(&mut self, handle: Handle<Expression>) -> Result<Rendered, EmitError> {
        let module = &self.shader.module;
        match &module.global_expressions[handle] {
            Expression::Literal(literal) => Ok(self.literal(*literal)),
            Expression::Constant(constant) => self.constant(*constant),
            Expression::ZeroValue(ty) => self.zero(*ty),
            Expression::Compose { ty, components } => {
                let parts =
                    components.iter().map(|c| self.global_expression(*c)).collect::<Result<Vec<_>, _>>()?;
                self.compose(*ty, &parts)
            }
            Expression::Splat { size, value } => {
                let value = self.global_expression(*value)?;
                self.prelude.need(crate::prelude::Need::Vector(*size as u8));
                Ok(Rendered::primary(format!("vec{}({value})", *size as u8)))
            }
            _ => {
                Err(self.unsupported("this constant expression", module.global_expressions.get_span(handle)))
            }
        }
    }

    /// A value of type `ty` from its components.
    pub(crate) fn compose(&mut self, ty: Handle<Type>, parts: &[Rendered]) -> Result<Rendered, EmitError> {
        let spelled = self.spell(ty)?;
        let list = parts.iter().map(|part| part.text.as_str()).collect::<Vec<_>>().join(", ");
        Ok(Rendered::primary(match self.shader.module.types[ty].inner {
            TypeInner::Array { .. } => format!("{spelled}{{{{{list}}}}}"),
            TypeInner::Struct { .. } => format!("{spelled}{{{list}}}"),
            _ => format!("{spelled}({list})"),
        }))
    }
}
