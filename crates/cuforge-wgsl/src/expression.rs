//! Expressions: values from values.

use naga::{Expression, Handle, SwizzleComponent, TypeInner, UnaryOperator, VectorSize};

use crate::error::EmitError;
use crate::lift::{Lift, Returns};
use crate::prelude::Need;
use crate::rendered::{Level, Rendered};
use crate::writer::Writer;

const COMPONENTS: [&str; 4] = ["x", "y", "z", "w"];

impl Writer<'_, '_> {
    /// Writes an expression, whether or not it has a name.
    pub(crate) fn render(&mut self, handle: Handle<Expression>) -> Result<Rendered, EmitError> {
        match &self.function.expressions[handle] {
            Expression::Literal(literal) => Ok(self.unit.literal(*literal)),
            Expression::Constant(constant) => self.unit.constant(*constant),
            Expression::ZeroValue(ty) => self.unit.zero(*ty),
            Expression::FunctionArgument(index) => Ok(Rendered::primary(self.argument(*index))),
            Expression::Compose { ty, components } => {
                let parts = components.iter().map(|c| self.value(*c)).collect::<Result<Vec<_>, _>>()?;
                self.need_joined(handle, parts.len());
                self.unit.compose(*ty, &parts)
            }
            Expression::Splat { value, .. } => {
                let spelled = self.spell(handle)?;
                Ok(Rendered::primary(format!("{spelled}({})", self.value(*value)?)))
            }
            Expression::Swizzle { size, vector, pattern } => self.swizzle(*size, *vector, *pattern),
            Expression::Access { base, index } => {
                let length = self.fixed_length(*base);
                let index = self.clamped(*index, length)?;
                let text = format!("{}[{index}]", self.value(*base)?.at_least(Level::Primary));
                self.unpadded(self.inner(handle), text, Level::Primary)
            }
            Expression::AccessIndex { base, index } => {
                let value = self.value(*base)?.at_least(Level::Primary);
                let text = match self.inner(*base) {
                    TypeInner::Struct { .. } => {
                        let ty = self.info[*base].ty.handle();
                        let names = ty.and_then(|ty| self.unit.struct_names.get(&ty));
                        let name = names.and_then(|names| names.members.get(*index as usize));
                        let name =
                            name.ok_or_else(|| self.unsupported("a structure without a name", handle))?;
                        return Ok(Rendered::primary(format!("{value}.{name}")));
                    }
                    TypeInner::Vector { .. } => format!("{value}.{}", COMPONENTS[*index as usize & 3]),
                    _ => format!("{value}[{index}]"),
                };
                self.unpadded(self.inner(handle), text, Level::Primary)
            }
            Expression::Load { pointer } => self.load(*pointer),
            Expression::ArrayLength(pointer) => Ok(Rendered::primary(self.length_of(*pointer)?)),
            Expression::Unary { op, expr } => self.unary(*op, *expr),
            Expression::Binary { op, left, right } => self.binary(*op, *left, *right),
            Expression::Select { condition, accept, reject } => self.select(*condition, *accept, *reject),
            Expression::Relational { fun, argument } => self.relational(*fun, *argument, handle),
            Expression::Math { fun, arg, arg1, arg2, arg3 } => {
                let more = [*arg1, *arg2, *arg3];
                let arguments: Vec<_> = std::iter::once(*arg).chain(more.into_iter().flatten()).collect();
                self.math(*fun, &arguments, handle)
            }
            Expression::As { expr, kind, convert } => self.convert(*expr, *kind, *convert, handle),
            Expression::ImageSample { .. } | Expression::ImageLoad { .. } | Expression::ImageQuery { .. } => {
                Err(self.unsupported("a texture", handle))
            }
            Expression::RayQueryVertexPositions { .. }
            | Expression::RayQueryProceedResult
            | Expression::RayQueryGetIntersection { .. } => Err(self.unsupported("a ray query", handle)),
            Expression::Derivative { .. } => Err(self.unsupported("a derivative", handle)),
            Expression::CooperativeLoad { .. } | Expression::CooperativeMultiplyAdd { .. } => {
                Err(self.unsupported("a cooperative matrix", handle))
            }
            Expression::Override(_)
            | Expression::GlobalVariable(_)
            | Expression::LocalVariable(_)
            | Expression::CallResult(_)
            | Expression::AtomicResult { .. }
            | Expression::WorkGroupUniformLoadResult { .. }
            | Expression::SubgroupBallotResult
            | Expression::SubgroupOperationResult { .. } => Err(self.unsupported("this expression", handle)),
        }
    }

    /// What is read from a place; zero where there is nothing.
    pub(crate) fn load(&mut self, pointer: Handle<Expression>) -> Result<Rendered, EmitError> {
        let place = self.place(pointer)?;
        let (mut text, mut level) = (place.lvalue(), Level::Primary);
        if text.starts_with('*') {
            level = Level::Prefix;
        }
        let pointee = self.pointee(pointer);
        if let TypeInner::Atomic(_) = pointee {
            self.unit.prelude.section("load_relaxed");
            (text, level) = (format!("wgsl::load_relaxed({text})"), Level::Primary);
        }
        let Some(guard) = place.guard() else {
            if place.is_element() {
                return self.unpadded(&pointee, text, level);
            }
            return Ok(Rendered::new(text, level));
        };
        let zero = match (pointee, self.inner(pointer)) {
            (TypeInner::Scalar(scalar) | TypeInner::Atomic(scalar), _) => self.zero_of(scalar),
            (_, TypeInner::Pointer { base, .. }) => self.unit.zero(*base)?.text,
            (inner, _) => {
                let span = self.function.expressions.get_span(pointer);
                format!("{}{{}}", self.unit.spell_inner(&inner, span)?)
            }
        };
        Ok(Rendered::new(format!("{guard} ? {text} : {zero}"), Level::Loose))
    }

    /// An element of an array or a column of a matrix as a value: without the padding of three components.
    fn unpadded(&mut self, inner: &TypeInner, text: String, level: Level) -> Result<Rendered, EmitError> {
        match *inner {
            TypeInner::Vector { size: VectorSize::Tri, scalar } => {
                Ok(Rendered::primary(format!("vec3<{}>({text})", self.unit.spell_scalar(scalar))))
            }
            _ => Ok(Rendered::new(text, level)),
        }
    }

    pub(crate) fn zero_of(&mut self, scalar: naga::Scalar) -> String {
        match naga::Literal::zero(scalar) {
            Some(zero) => self.unit.literal(zero).text,
            None => format!("{}(0)", crate::unit::scalar_name(scalar)),
        }
    }

    /// The constructors of vectors from shorter ones, if this is one of them.
    fn need_joined(&mut self, handle: Handle<Expression>, parts: usize) {
        if let Some(size) = self.components(handle)
            && parts < usize::from(size)
        {
            self.unit.prelude.need(Need::Joined(size));
        }
    }

    fn swizzle(
        &mut self,
        size: VectorSize,
        vector: Handle<Expression>,
        pattern: [SwizzleComponent; 4],
    ) -> Result<Rendered, EmitError> {
        let from = self.components(vector).unwrap_or(4);
        let picked = [0, 1, 2, 3].map(|at| if at < size as u8 { pattern[usize::from(at)] as u8 } else { 0 });
        self.unit.prelude.need(Need::Swizzle { from, size: size as u8, picked });
        let name: String = picked.iter().take(size as usize).map(|c| COMPONENTS[usize::from(*c)]).collect();
        Ok(Rendered::primary(format!("wgsl::{name}({})", self.value(vector)?)))
    }

    fn unary(&mut self, op: UnaryOperator, expr: Handle<Expression>) -> Result<Rendered, EmitError> {
        let value = self.value(expr)?;
        let integer = self.is_kind(expr, naga::ScalarKind::Sint);
        let (operator, name) = match op {
            UnaryOperator::Negate => ("-", "neg"),
            UnaryOperator::LogicalNot => ("!", "logical_not"),
            UnaryOperator::BitwiseNot => ("~", "bitwise_not"),
        };
        let narrow = self.inner(expr).scalar_width() == Some(2);
        match self.components(expr) {
            Some(size) => {
                let returns = if op == UnaryOperator::LogicalNot { Returns::Bool } else { Returns::Same };
                self.lift(Lift { name: vector_operator(operator), scalar: name, arity: 1, size, returns });
            }
            // Negating the least integer gives itself, which in C++ is undefined.
            None if integer && op == UnaryOperator::Negate => return self.call(name, &[value]),
            None if narrow && op == UnaryOperator::BitwiseNot => return self.call(name, &[value]),
            None => {}
        }
        Ok(Rendered::new(format!("{operator}{}", value.at_least(Level::Primary)), Level::Prefix))
    }

    fn select(
        &mut self,
        condition: Handle<Expression>,
        accept: Handle<Expression>,
        reject: Handle<Expression>,
    ) -> Result<Rendered, EmitError> {
        let [chosen, yes, no] = [self.value(condition)?, self.value(accept)?, self.value(reject)?];
        if let Some(size) = self.components(condition) {
            self.unit.prelude.section("select");
            self.unit.prelude.need(Need::Vector(size));
            self.unit.prelude.need(Need::Select(size));
            return Ok(Rendered::primary(format!("wgsl::select({no}, {yes}, {chosen})")));
        }
        let [chosen, yes, no] = [chosen, yes, no].map(|part| part.at_least(Level::Sum));
        Ok(Rendered::new(format!("{chosen} ? {yes} : {no}"), Level::Loose))
    }

    /// A call of a function of the prelude that is a section of its own.
    pub(crate) fn call(&mut self, name: &'static str, arguments: &[Rendered]) -> Result<Rendered, EmitError> {
        self.unit.prelude.section(name);
        let list = arguments.iter().map(|a| a.text.as_str()).collect::<Vec<_>>().join(", ");
        Ok(Rendered::primary(format!("wgsl::{name}({list})")))
    }

    pub(crate) fn lift(&mut self, lift: Lift) {
        self.unit.prelude.need(Need::Lift(lift));
    }
}

/// An operator's name on vectors.
pub(crate) fn vector_operator(operator: &str) -> &'static str {
    match operator {
        "+" => "operator+",
        "-" => "operator-",
        "*" => "operator*",
        "/" => "operator/",
        "%" => "operator%",
        "==" => "operator==",
        "!=" => "operator!=",
        "<" => "operator<",
        "<=" => "operator<=",
        ">" => "operator>",
        ">=" => "operator>=",
        "&" => "operator&",
        "|" => "operator|",
        "^" => "operator^",
        "<<" => "operator<<",
        ">>" => "operator>>",
        "!" => "operator!",
        _ => "operator~",
    }
}
