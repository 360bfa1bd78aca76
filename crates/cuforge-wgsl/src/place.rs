//! Places in memory: what a pointer points to, and the comparisons that say whether it is there.

use naga::{AddressSpace, ArraySize, Expression, GlobalVariable, Handle, Scalar, ScalarKind, TypeInner};

use crate::error::EmitError;
use crate::rendered::{Level, Rendered};
use crate::writer::Writer;

/// How the text of a place leads to what is there.
#[derive(Clone, Debug)]
enum Kind {
    /// It is the object.
    Object,
    /// It is a pointer to the object.
    Pointer,
    /// It is a pointer to the first of as many elements as the variable of that name says.
    Elements { length: String },
}

/// A place in memory.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    text: String,
    kind: Kind,
    /// All of these hold where there is something.
    guards: Vec<String>,
    /// It is an element of an array or a column of a matrix, which may be padded.
    is_element: bool,
}

impl Place {
    fn object(text: impl Into<String>) -> Self {
        Self { text: text.into(), kind: Kind::Object, guards: Vec::new(), is_element: false }
    }

    /// A part of it, which exists where it does.
    fn part(&self, text: String) -> Self {
        Self { guards: self.guards.clone(), ..Self::object(text) }
    }

    /// The place as something that can be read and written.
    pub(crate) fn lvalue(&self) -> String {
        match self.kind {
            Kind::Object => self.text.clone(),
            Kind::Pointer | Kind::Elements { .. } => format!("*{}", self.text),
        }
    }

    /// The condition under which it exists; `None` if it always does.
    pub(crate) fn guard(&self) -> Option<String> {
        (!self.guards.is_empty()).then(|| self.guards.join(" && "))
    }

    /// Whether it is an element of an array or a column of a matrix.
    pub(crate) fn is_element(&self) -> bool {
        self.is_element
    }

    fn member(&self, name: &str) -> String {
        match self.kind {
            Kind::Object => format!("{}.{name}", self.text),
            Kind::Pointer | Kind::Elements { .. } => format!("{}->{name}", self.text),
        }
    }

    fn element(&self, index: &str) -> String {
        match self.kind {
            Kind::Pointer => format!("(*{})[{index}]", self.text),
            Kind::Object | Kind::Elements { .. } => format!("{}[{index}]", self.text),
        }
    }
}

impl Writer<'_, '_> {
    /// What the pointer `handle` points to.
    pub(crate) fn place(&mut self, handle: Handle<Expression>) -> Result<Place, EmitError> {
        match self.function.expressions[handle] {
            Expression::GlobalVariable(global) => self.global(global),
            Expression::LocalVariable(local) => Ok(Place::object(self.local(local)?)),
            Expression::FunctionArgument(index) => Ok(Place::object(self.argument(index))),
            Expression::AccessIndex { base, index } => {
                let mut place = self.place(base)?;
                place = match self.pointee(base) {
                    TypeInner::Struct { members, .. } => {
                        let name = self.unit.struct_names[&self.pointee_handle(base)?].members
                            [index as usize]
                            .clone();
                        let member = &members[index as usize];
                        match self.unit.shader.module.types[member.ty].inner {
                            TypeInner::Array { size: ArraySize::Dynamic, .. } => Place {
                                text: place.member(&format!("{name}()")),
                                kind: Kind::Elements { length: self.length_of(handle)? },
                                guards: place.guards,
                                is_element: false,
                            },
                            _ => place.part(place.member(&name)),
                        }
                    }
                    TypeInner::Vector { .. } | TypeInner::ValuePointer { .. } => {
                        place.part(place.member(["x", "y", "z", "w"][index as usize & 3]))
                    }
                    _ => {
                        if let (true, Kind::Elements { length }) = (self.unit.checked(), &place.kind) {
                            place.guards.push(format!("{index}u < {length}"));
                        }
                        Place { is_element: true, ..place.part(place.element(&index.to_string())) }
                    }
                };
                Ok(place)
            }
            Expression::Access { base, index } => {
                let mut place = self.place(base)?;
                let text = match &place.kind {
                    Kind::Elements { length } => {
                        let index = self.value(index)?;
                        if self.unit.checked() {
                            let unsigned = self.unsigned(&index, handle);
                            place.guards.push(format!("{} < {length}", unsigned.at_least(Level::Sum)));
                        }
                        index.text
                    }
                    _ => {
                        let length = self.fixed_length(base);
                        self.clamped(index, length)?
                    }
                };
                Ok(Place { is_element: true, ..place.part(place.element(&text)) })
            }
            _ => Err(self.unsupported("a pointer that is no variable and no part of one", handle)),
        }
    }

    fn global(&mut self, handle: Handle<GlobalVariable>) -> Result<Place, EmitError> {
        let variable = &self.unit.shader.module.global_variables[handle];
        let text = self.unit.globals[&handle].clone();
        let kind = match (variable.space, &self.unit.shader.module.types[variable.ty].inner) {
            (AddressSpace::Storage { .. }, TypeInner::Array { size: ArraySize::Dynamic, .. }) => {
                Kind::Elements { length: self.unit.lengths[&handle].clone() }
            }
            (AddressSpace::Storage { .. }, _) => Kind::Pointer,
            _ => Kind::Object,
        };
        Ok(Place { kind, ..Place::object(text) })
    }

    /// The variable that holds the length of the runtime-sized array that `pointer` points to.
    pub(crate) fn length_of(&self, pointer: Handle<Expression>) -> Result<String, EmitError> {
        match self.function.expressions[pointer] {
            Expression::GlobalVariable(global) => self.unit.lengths.get(&global).cloned(),
            Expression::AccessIndex { base, .. } => return self.length_of(base),
            _ => None,
        }
        .ok_or_else(|| self.unsupported("the length of an array that is no buffer", pointer))
    }

    /// `index` as a number below `length`.
    pub(crate) fn clamped(
        &mut self,
        index: Handle<Expression>,
        length: Option<u32>,
    ) -> Result<String, EmitError> {
        let rendered = self.value(index)?;
        let Some(last) = length.and_then(|length| length.checked_sub(1)) else { return Ok(rendered.text) };
        if !self.unit.checked() || self.upper_bound(index).is_some_and(|bound| bound <= last) {
            return Ok(rendered.text);
        }
        self.unit.prelude.section("at_most");
        Ok(format!("wgsl::at_most({rendered}, {last}u)"))
    }

    /// The index of the access `handle` so that, if negative, it is beyond every length.
    fn unsigned(&self, index: &Rendered, handle: Handle<Expression>) -> Rendered {
        let Expression::Access { index: of, .. } = self.function.expressions[handle] else {
            return index.clone();
        };
        match self.inner(of).scalar() {
            Some(Scalar { kind: ScalarKind::Sint, width: 8 }) => Rendered::primary(format!("u64({index})")),
            Some(Scalar { kind: ScalarKind::Sint, .. }) => Rendered::primary(format!("u32({index})")),
            _ => index.clone(),
        }
    }
}
