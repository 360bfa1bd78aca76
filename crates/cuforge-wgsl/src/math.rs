//! Built-in functions of numbers.

use naga::{Expression, Handle, MathFunction as Fun, Scalar, TypeInner};

use crate::error::EmitError;
use crate::lift::{Lift, Returns};
use crate::prelude::Need;
use crate::rendered::Rendered;
use crate::writer::Writer;

/// The section of the prelude that is the function on scalars, for functions that work component by component.
fn componentwise(fun: Fun) -> Option<&'static str> {
    Some(match fun {
        Fun::Abs => "abs",
        Fun::Min => "min",
        Fun::Max => "max",
        Fun::Clamp => "clamp",
        Fun::Saturate => "saturate",
        Fun::Cos => "cos",
        Fun::Cosh => "cosh",
        Fun::Sin => "sin",
        Fun::Sinh => "sinh",
        Fun::Tan => "tan",
        Fun::Tanh => "tanh",
        Fun::Acos => "acos",
        Fun::Asin => "asin",
        Fun::Atan => "atan",
        Fun::Atan2 => "atan2",
        Fun::Asinh => "asinh",
        Fun::Acosh => "acosh",
        Fun::Atanh => "atanh",
        Fun::Radians => "radians",
        Fun::Degrees => "degrees",
        Fun::Ceil => "ceil",
        Fun::Floor => "floor",
        Fun::Round => "round",
        Fun::Fract => "fract",
        Fun::Trunc => "trunc",
        Fun::Ldexp => "ldexp",
        Fun::Exp => "exp",
        Fun::Exp2 => "exp2",
        Fun::Log => "log",
        Fun::Log2 => "log2",
        Fun::Pow => "pow",
        Fun::Sign => "sign",
        Fun::Fma => "fma",
        Fun::Mix => "mix",
        Fun::Step => "step",
        Fun::SmoothStep => "smoothstep",
        Fun::Sqrt => "sqrt",
        Fun::InverseSqrt => "inverse_sqrt",
        Fun::QuantizeToF16 => "quantize_to_f16",
        Fun::CountTrailingZeros => "count_trailing_zeros",
        Fun::CountLeadingZeros => "count_leading_zeros",
        Fun::CountOneBits => "count_one_bits",
        Fun::ReverseBits => "reverse_bits",
        Fun::ExtractBits => "extract_bits",
        Fun::InsertBits => "insert_bits",
        Fun::FirstTrailingBit => "first_trailing_bit",
        Fun::FirstLeadingBit => "first_leading_bit",
        _ => return None,
    })
}

/// The function of the prelude that is a whole built-in, on vectors of one fixed size or on words.
fn whole(fun: Fun) -> Option<(&'static str, Option<u8>)> {
    Some(match fun {
        Fun::Dot4I8Packed => ("dot4_i8_packed", None),
        Fun::Dot4U8Packed => ("dot4_u8_packed", None),
        Fun::Pack4x8snorm => ("pack4x8snorm", Some(4)),
        Fun::Pack4x8unorm => ("pack4x8unorm", Some(4)),
        Fun::Pack2x16snorm => ("pack2x16snorm", Some(2)),
        Fun::Pack2x16unorm => ("pack2x16unorm", Some(2)),
        Fun::Pack2x16float => ("pack2x16float", Some(2)),
        Fun::Pack4xI8 => ("pack4x_i8", Some(4)),
        Fun::Pack4xU8 => ("pack4x_u8", Some(4)),
        Fun::Pack4xI8Clamp => ("pack4x_i8_clamp", Some(4)),
        Fun::Pack4xU8Clamp => ("pack4x_u8_clamp", Some(4)),
        Fun::Unpack4x8snorm => ("unpack4x8snorm", Some(4)),
        Fun::Unpack4x8unorm => ("unpack4x8unorm", Some(4)),
        Fun::Unpack2x16snorm => ("unpack2x16snorm", Some(2)),
        Fun::Unpack2x16unorm => ("unpack2x16unorm", Some(2)),
        Fun::Unpack2x16float => ("unpack2x16float", Some(2)),
        Fun::Unpack4xI8 => ("unpack4x_i8", Some(4)),
        Fun::Unpack4xU8 => ("unpack4x_u8", Some(4)),
        _ => return None,
    })
}

impl Writer<'_, '_> {
    /// A call of a built-in function.
    pub(crate) fn math(
        &mut self,
        fun: Fun,
        arguments: &[Handle<Expression>],
        handle: Handle<Expression>,
    ) -> Result<Rendered, EmitError> {
        let first = arguments[0];
        let Some(scalar) = self.inner(first).scalar() else {
            return Err(self.unsupported("this function of this", handle));
        };
        if scalar == Scalar::F16 {
            self.unit.spell_scalar(scalar);
        }
        if let Some(name) = componentwise(fun) {
            return self.by_component(name, arguments, scalar);
        }
        let values = arguments.iter().map(|a| self.value(*a)).collect::<Result<Vec<_>, _>>()?;
        if let Some((name, size)) = whole(fun) {
            if let Some(size) = size {
                self.unit.prelude.need(Need::Vector(size));
            }
            return self.call(name, &values);
        }
        let size = self.components(first);
        match fun {
            Fun::Modf | Fun::Frexp => {
                let result = self.spell(handle)?;
                let parts =
                    if fun == Fun::Modf { ["fract_of", "trunc"] } else { ["frexp_fract", "frexp_exp"] };
                let whole = if fun == Fun::Modf { "modf" } else { "frexp" };
                for part in parts {
                    self.need_scalar(part, scalar);
                    if let Some(size) = size {
                        let returns = if part == "frexp_exp" { Returns::Int } else { Returns::Same };
                        self.lift(Lift { name: part, scalar: part, arity: 1, size, returns });
                    }
                }
                self.unit.prelude.section(whole);
                Ok(Rendered::primary(format!("wgsl::{whole}<{result}>({})", values[0])))
            }
            Fun::Dot => {
                self.need_dot(size.unwrap_or(4));
                self.plain_call("dot", &values)
            }
            Fun::Cross => {
                self.unit.prelude.need(Need::Vector(3));
                self.call("cross", &values)
            }
            Fun::Length | Fun::Distance | Fun::Normalize | Fun::FaceForward | Fun::Reflect | Fun::Refract => {
                self.geometric(fun, &values, size, scalar)
            }
            Fun::Transpose => {
                if let TypeInner::Matrix { columns, rows, .. } = *self.inner(first) {
                    let (columns, rows) = (columns as u8, rows as u8);
                    self.unit.prelude.need(Need::Transpose { columns, rows });
                }
                self.plain_call("transpose", &values)
            }
            Fun::Determinant => {
                if let TypeInner::Matrix { columns, .. } = *self.inner(first) {
                    self.unit.prelude.need(Need::Determinant(columns as u8));
                }
                self.plain_call("determinant", &values)
            }
            _ => Err(self.unsupported("this function", handle)),
        }
    }

    fn plain_call(&mut self, name: &str, values: &[Rendered]) -> Result<Rendered, EmitError> {
        let list = values.iter().map(|v| v.text.as_str()).collect::<Vec<_>>().join(", ");
        Ok(Rendered::primary(format!("wgsl::{name}({list})")))
    }

    /// A function on scalars, or on vectors component by component; a scalar among vectors stands for all components.
    fn by_component(
        &mut self,
        name: &'static str,
        arguments: &[Handle<Expression>],
        scalar: Scalar,
    ) -> Result<Rendered, EmitError> {
        self.need_scalar(name, scalar);
        let size = arguments.iter().find_map(|a| self.components(*a));
        let mut values = Vec::with_capacity(arguments.len());
        for argument in arguments {
            let value = self.value(*argument)?;
            values.push(match (size, self.components(*argument), self.inner(*argument).scalar()) {
                (Some(size), None, Some(of)) => {
                    let of = self.unit.spell_scalar(of);
                    Rendered::primary(format!("vec{size}<{of}>({value})"))
                }
                _ => value,
            });
        }
        if let Some(size) = size {
            let arity = u8::try_from(values.len()).unwrap_or(u8::MAX);
            self.lift(Lift { name, scalar: name, arity, size, returns: Returns::Same });
        }
        self.plain_call(name, &values)
    }

    /// A section, with its overload for 16-bit floats where they are what it is for.
    fn need_scalar(&mut self, name: &'static str, scalar: Scalar) {
        self.unit.prelude.section(name);
        if scalar == Scalar::F16 {
            self.unit.prelude.need(Need::HalfOf(name));
        }
    }

    fn need_dot(&mut self, size: u8) {
        self.unit.prelude.section("add");
        self.unit.prelude.section("mul");
        self.unit.prelude.need(Need::Vector(size));
        self.unit.prelude.need(Need::Dot(size));
    }

    fn geometric(
        &mut self,
        fun: Fun,
        values: &[Rendered],
        size: Option<u8>,
        scalar: Scalar,
    ) -> Result<Rendered, EmitError> {
        let name = match fun {
            Fun::Length => "length_of",
            Fun::Distance => "distance",
            Fun::Normalize => "normalize",
            Fun::FaceForward => "face_forward",
            Fun::Reflect => "reflect",
            _ => "refract",
        };
        self.need_scalar("abs", scalar);
        self.need_scalar("sqrt", scalar);
        if let Some(size) = size {
            self.need_dot(size);
            self.unit.prelude.need(Need::Scale(size));
            for (operator, on_scalars, arity) in [("operator-", "sub", 2), ("operator-", "neg", 1)] {
                self.lift(Lift { name: operator, scalar: on_scalars, arity, size, returns: Returns::Same });
            }
        }
        self.call(name, values)
    }
}
