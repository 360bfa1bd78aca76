//! The whole text: prelude, structures, constants, functions, and the kernel with what stands at its head.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use cuforge_core::Parameter;
use naga::valid::FunctionInfo;
use naga::{AddressSpace, ArraySize, Block, Function, GlobalVariable, Handle, Statement, TypeInner};

use crate::error::EmitError;
use crate::head::{Workgroup, uniform_parameter};
use crate::interface::Interface;
use crate::shader::Shader;
use crate::text::Text;
use crate::unit::{Bounds, Unit};
use crate::writer::Writer;

/// What was written.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) text: String,
    pub(crate) entry_point: String,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) shared_bytes: u32,
}

/// Writes the entry point of `shader` and all that it needs.
pub(crate) fn write(shader: &Shader, id: &str, bounds: Bounds) -> Result<Written, EmitError> {
    let mut unit = Unit::new(shader, bounds)?;
    let interface = Interface::of(&unit)?;
    let workgroup = Workgroup::of(&mut unit)?;
    let mut out = Text::new(&format!("{id}.wgsl"));
    for function in reached(shader) {
        write_function(&mut unit, &mut out, function)?;
    }
    let entry_point = unit.entry_name.clone();
    write_kernel(&mut unit, &mut out, &interface, &workgroup, &entry_point)?;

    if let Some(what) = unit.prelude.missing() {
        return Err(EmitError::Unsupported { what, place: None });
    }
    let mut text = format!("// `{}` of {id}.wgsl in CUDA C.\n\n", shader.entry().name);
    text.push_str(&unit.prelude.write());
    for declaration in unit.structs.values() {
        _ = write!(text, "\n{declaration}");
    }
    if !unit.constants.is_empty() {
        text.push('\n');
    }
    for definition in unit.constants.values() {
        _ = writeln!(text, "{definition}");
    }
    if !workgroup.declarations.is_empty() {
        _ = write!(text, "\n{}", workgroup.declarations);
    }
    text.push('\n');
    text.push_str(&out.into_string());
    let parameters = interface.parameters(&unit);
    Ok(Written { text, entry_point, parameters, shared_bytes: workgroup.dynamic_bytes })
}

/// The functions that the entry point calls, directly or not, each after those that it calls itself.
fn reached(shader: &Shader) -> BTreeSet<Handle<Function>> {
    let mut reached = BTreeSet::new();
    let mut blocks: Vec<&Block> = vec![&shader.entry().function.body];
    while let Some(block) = blocks.pop() {
        for statement in block {
            match statement {
                Statement::Call { function, .. } if reached.insert(*function) => {
                    blocks.push(&shader.module.functions[*function].body);
                }
                Statement::Block(block) => blocks.push(block),
                Statement::If { accept, reject, .. } => blocks.extend([accept, reject]),
                Statement::Switch { cases, .. } => blocks.extend(cases.iter().map(|case| &case.body)),
                Statement::Loop { body, continuing, .. } => blocks.extend([body, continuing]),
                _ => {}
            }
        }
    }
    reached
}

impl Unit<'_> {
    /// The variables of the module that a function is given by its callers, with their types as parameters.
    fn given(&mut self, info: &FunctionInfo) -> Result<Vec<(String, String)>, EmitError> {
        let module = &self.shader.module;
        let mut given = Vec::new();
        for (handle, variable) in module.global_variables.iter() {
            if info[handle].is_empty() {
                continue;
            }
            let name = self.globals[&handle].clone();
            match variable.space {
                AddressSpace::Storage { .. } => {
                    given.push((format!("{}*", self.pointed_to(handle)?), name));
                    if let Some(length) = self.lengths.get(&handle) {
                        given.push(("const u32".to_owned(), length.clone()));
                    }
                }
                AddressSpace::Uniform => given.push((format!("const {}&", self.spell(variable.ty)?), name)),
                AddressSpace::Private => given.push((format!("{}&", self.spell(variable.ty)?), name)),
                AddressSpace::WorkGroup if self.dynamic_workgroup => {
                    given.push((format!("{}&", self.spell(variable.ty)?), name));
                }
                _ => {}
            }
        }
        Ok(given)
    }

    /// The names of those variables, as a caller hands them on.
    pub(crate) fn passed_to(&mut self, function: Handle<Function>) -> Vec<String> {
        let info = self.shader.function_info(function);
        let mut names = Vec::new();
        for (handle, variable) in self.shader.module.global_variables.iter() {
            if info[handle].is_empty() {
                continue;
            }
            match variable.space {
                AddressSpace::Storage { .. } | AddressSpace::Uniform | AddressSpace::Private => {
                    names.push(self.globals[&handle].clone());
                    names.extend(self.lengths.get(&handle).cloned());
                }
                AddressSpace::WorkGroup if self.dynamic_workgroup => {
                    names.push(self.globals[&handle].clone());
                }
                _ => {}
            }
        }
        names
    }

    /// What the pointer to a buffer points to.
    fn pointed_to(&mut self, handle: Handle<GlobalVariable>) -> Result<String, EmitError> {
        let variable = &self.shader.module.global_variables[handle];
        let read_only = matches!(
            variable.space,
            AddressSpace::Storage { access } if !access.contains(naga::StorageAccess::STORE)
        );
        let spelled = match self.shader.module.types[variable.ty].inner {
            TypeInner::Array { base, size: ArraySize::Dynamic, .. } => self.spell_element(base)?,
            _ => self.spell(variable.ty)?,
        };
        Ok(if read_only { format!("const {spelled}") } else { spelled })
    }
}

fn write_function(unit: &mut Unit<'_>, out: &mut Text, handle: Handle<Function>) -> Result<(), EmitError> {
    let shader = unit.shader;
    let function = &shader.module.functions[handle];
    let info = shader.function_info(handle);
    let given = unit.given(info)?;
    let name = unit.functions[&handle].clone();
    let result = match &function.result {
        Some(result) => unit.spell(result.ty)?,
        None => "void".to_owned(),
    };
    let mut writer = Writer::new(unit, out, function, info);
    let mut parameters = Vec::new();
    for (index, argument) in function.arguments.iter().enumerate() {
        let (ty, reference) = match shader.module.types[argument.ty].inner {
            TypeInner::Pointer { base, .. } => (writer.unit.spell(base)?, "&"),
            TypeInner::ValuePointer { size, scalar, .. } => {
                let inner = match size {
                    Some(size) => TypeInner::Vector { size, scalar },
                    None => TypeInner::Scalar(scalar),
                };
                (writer.unit.spell_inner(&inner, naga::Span::UNDEFINED)?, "&")
            }
            _ => (format!("const {}", writer.unit.spell(argument.ty)?), ""),
        };
        parameters.push(format!("{ty}{reference} {}", writer.arguments[index]));
    }
    parameters.extend(given.iter().map(|(ty, name)| format!("{ty} {name}")));
    writer.at(shader.module.functions.get_span(handle));
    writer.out.open(&format!("static __device__ {result} {name}({}) {{", parameters.join(", ")));
    writer.variables()?;
    writer.body(&function.body)?;
    writer.out.close("}");
    writer.out.line("");
    Ok(())
}

impl Writer<'_, '_> {
    /// The variables of a function, each with its initial value or zero.
    fn variables(&mut self) -> Result<(), EmitError> {
        for (handle, local) in self.function.local_variables.iter() {
            let used = self.function.expressions.iter().any(|(at, expression)| {
                matches!(expression, naga::Expression::LocalVariable(l) if *l == handle)
                    && self.plan.is_used(at)
            });
            if !used {
                continue;
            }
            let spelled = self.unit.spell(local.ty)?;
            let value = match local.init {
                Some(init) => self.value(init)?,
                None => self.unit.zero(local.ty)?,
            };
            let line = format!("{spelled} {} = {value};", self.locals[&handle]);
            self.at(self.function.local_variables.get_span(handle));
            self.out.line(&line);
        }
        Ok(())
    }
}

fn write_kernel(
    unit: &mut Unit<'_>,
    out: &mut Text,
    interface: &Interface,
    workgroup: &Workgroup,
    name: &str,
) -> Result<(), EmitError> {
    let shader = unit.shader;
    let function = &shader.entry().function;
    let mut parameters = Vec::new();
    let private_copies = !unit.writes_are_shared();
    for bound in &interface.buffers {
        let restrict = if !bound.writable || private_copies { " __restrict__" } else { "" };
        let pointed = unit.pointed_to(bound.handle)?;
        parameters.push(format!("{pointed}*{restrict} {}", unit.globals[&bound.handle]));
    }
    let uniforms = uniform_parameter(unit, out, interface)?;
    parameters.extend(uniforms.parameter);
    for bound in &interface.buffers {
        parameters.push(format!("const u64 {}", unit.byte_names[&bound.handle]));
    }
    let threads: u64 = shader.entry().workgroup_size.iter().map(|n| u64::from(*n)).product();
    let mut writer = Writer::new(unit, out, function, shader.entry_info());
    writer.out.line(&format!("extern \"C\" __global__ void __launch_bounds__({threads})"));
    writer.out.line(&format!("{name}({})", parameters.join(",\n    ")));
    writer.out.open("{");
    for line in &uniforms.references {
        writer.out.line(line);
    }
    writer.refuse_unfit(interface)?;
    for bound in &interface.buffers {
        writer.measure(bound);
    }
    writer.private_variables()?;
    writer.built_ins()?;
    writer.zero_workgroup(workgroup);
    writer.variables()?;
    writer.body(&function.body)?;
    writer.out.close("}");
    Ok(())
}

impl Unit<'_> {
    /// Whether invocations can see what others write to buffers while they run: then the compiler must not take a buffer
    /// for its own.
    fn writes_are_shared(&self) -> bool {
        let module = &self.shader.module;
        let info = self.shader.entry_info();
        let atomic = module.global_variables.iter().any(|(handle, variable)| {
            matches!(variable.space, AddressSpace::Storage { access } if access.contains(naga::StorageAccess::STORE))
                && info[handle].contains(naga::valid::GlobalUse::READ)
                && info[handle].contains(naga::valid::GlobalUse::WRITE)
        });
        atomic && self.has_barrier()
    }

    fn has_barrier(&self) -> bool {
        let mut blocks: Vec<&Block> = vec![&self.shader.entry().function.body];
        blocks.extend(reached(self.shader).into_iter().map(|f| &self.shader.module.functions[f].body));
        while let Some(block) = blocks.pop() {
            for statement in block {
                match statement {
                    Statement::ControlBarrier(_)
                    | Statement::MemoryBarrier(_)
                    | Statement::Atomic { .. }
                    | Statement::WorkGroupUniformLoad { .. } => return true,
                    Statement::Block(block) => blocks.push(block),
                    Statement::If { accept, reject, .. } => blocks.extend([accept, reject]),
                    Statement::Switch { cases, .. } => blocks.extend(cases.iter().map(|case| &case.body)),
                    Statement::Loop { body, continuing, .. } => blocks.extend([body, continuing]),
                    _ => {}
                }
            }
        }
        false
    }
}
