//! One function in the making: what its expressions, variables and arguments are called.

use std::collections::{HashMap, HashSet};

use naga::valid::FunctionInfo;
use naga::{Expression, Function, Handle, LocalVariable, ScalarKind, Type, TypeInner};

use crate::error::EmitError;
use crate::inline::Plan;
use crate::names::Names;
use crate::rendered::Rendered;
use crate::text::Text;
use crate::unit::Unit;

/// One function in the making.
#[derive(Debug)]
pub(crate) struct Writer<'u, 'a> {
    pub(crate) unit: &'u mut Unit<'a>,
    pub(crate) out: &'u mut Text,
    pub(crate) function: &'a Function,
    pub(crate) info: &'a FunctionInfo,
    pub(crate) plan: Plan,
    pub(crate) names: Names,
    pub(crate) workgroup_size: [u32; 3],
    pub(crate) arguments: Vec<String>,
    pub(crate) locals: HashMap<Handle<LocalVariable>, String>,
    /// The names of the expressions that have got one.
    pub(crate) values: HashMap<Handle<Expression>, String>,
    /// Those of them that are declared already, before the block that gives them their value.
    pub(crate) declared: HashSet<Handle<Expression>>,
    /// Counters of the loops around, with their largest values in there.
    pub(crate) counters: HashMap<Handle<LocalVariable>, u32>,
    /// For each loop around, innermost last, the label where its next turn begins if `continue` does not do.
    pub(crate) labels: Vec<Option<String>>,
}

impl<'u, 'a> Writer<'u, 'a> {
    pub(crate) fn new(
        unit: &'u mut Unit<'a>,
        out: &'u mut Text,
        function: &'a Function,
        info: &'a FunctionInfo,
    ) -> Self {
        let mut names = Names::within(&unit.names);
        let arguments = function
            .arguments
            .iter()
            .map(|argument| names.take(argument.name.as_deref().unwrap_or("argument")))
            .collect();
        let locals = function
            .local_variables
            .iter()
            .map(|(handle, local)| (handle, names.take(local.name.as_deref().unwrap_or("local"))))
            .collect();
        Self {
            plan: Plan::of(&unit.shader.module, function, info, unit.checked()),
            workgroup_size: unit.shader.entry().workgroup_size,
            unit,
            out,
            function,
            info,
            names,
            arguments,
            locals,
            values: HashMap::new(),
            declared: HashSet::new(),
            counters: HashMap::new(),
            labels: Vec::new(),
        }
    }

    /// The type of an expression.
    pub(crate) fn inner(&self, handle: Handle<Expression>) -> &'a TypeInner {
        self.info[handle].ty.inner_with(&self.unit.shader.module.types)
    }

    /// The C++ type of an expression.
    pub(crate) fn spell(&mut self, handle: Handle<Expression>) -> Result<String, EmitError> {
        match self.info[handle].ty.handle() {
            Some(ty) => self.unit.spell(ty),
            None => {
                let span = self.function.expressions.get_span(handle);
                self.unit.spell_inner(self.inner(handle), span)
            }
        }
    }

    /// The type of what a pointer points to.
    pub(crate) fn pointee(&self, pointer: Handle<Expression>) -> TypeInner {
        match self.inner(pointer) {
            TypeInner::Pointer { base, .. } => self.unit.shader.module.types[*base].inner.clone(),
            TypeInner::ValuePointer { size: Some(size), scalar, .. } => {
                TypeInner::Vector { size: *size, scalar: *scalar }
            }
            TypeInner::ValuePointer { size: None, scalar, .. } => TypeInner::Scalar(*scalar),
            inner => inner.clone(),
        }
    }

    /// The handle of the type of what a pointer points to.
    pub(crate) fn pointee_handle(&self, pointer: Handle<Expression>) -> Result<Handle<Type>, EmitError> {
        match self.inner(pointer) {
            TypeInner::Pointer { base, .. } => Ok(*base),
            _ => Err(self.unsupported("a pointer to this", pointer)),
        }
    }

    /// The elements of what is indexed, if their number is fixed: of a vector, a matrix or an array, or behind a pointer.
    pub(crate) fn fixed_length(&self, base: Handle<Expression>) -> Option<u32> {
        match self.pointee(base) {
            TypeInner::Array { size, .. } => self.unit.array_length(size),
            TypeInner::Vector { size, .. } => Some(size as u32),
            TypeInner::Matrix { columns, .. } => Some(columns as u32),
            _ => None,
        }
    }

    /// Whether an expression is of integers of this signedness.
    pub(crate) fn is_kind(&self, handle: Handle<Expression>, kind: ScalarKind) -> bool {
        self.inner(handle).scalar_kind() == Some(kind)
    }

    /// Components of an expression that is a vector.
    pub(crate) fn components(&self, handle: Handle<Expression>) -> Option<u8> {
        match *self.inner(handle) {
            TypeInner::Vector { size, .. } => Some(size as u8),
            _ => None,
        }
    }

    pub(crate) fn unsupported(&self, what: &'static str, handle: Handle<Expression>) -> EmitError {
        self.unit.unsupported(what, self.function.expressions.get_span(handle))
    }

    pub(crate) fn argument(&self, index: u32) -> String {
        self.arguments.get(index as usize).cloned().unwrap_or_default()
    }

    pub(crate) fn local(&self, local: Handle<LocalVariable>) -> Result<String, EmitError> {
        Ok(self.locals[&local].clone())
    }

    /// An expression as it is written where it is used.
    pub(crate) fn value(&mut self, handle: Handle<Expression>) -> Result<Rendered, EmitError> {
        match self.values.get(&handle) {
            Some(name) => Ok(Rendered::primary(name.clone())),
            None => self.render(handle),
        }
    }

    /// Gives an expression a name, which is the one it has in the WGSL if it has one.
    pub(crate) fn name(&mut self, handle: Handle<Expression>) -> String {
        let wanted = self.function.named_expressions.get(&handle).map_or("t", String::as_str);
        let name = self.names.take(wanted);
        self.values.insert(handle, name.clone());
        name
    }

    /// The line that gives the named expression `handle` its value.
    pub(crate) fn define(&mut self, handle: Handle<Expression>, value: &str) -> Result<String, EmitError> {
        if self.declared.contains(&handle) {
            let name = self.values[&handle].clone();
            return Ok(format!("{name} = {value};"));
        }
        let spelled = self.spell(handle)?;
        let name = self.name(handle);
        Ok(format!("const {spelled} {name} = {value};"))
    }

    /// Says that what follows comes from `span`.
    pub(crate) fn at(&mut self, span: naga::Span) {
        self.out.at(self.unit.shader.place(span).map(|place| place.line));
    }
}
