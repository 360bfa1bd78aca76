//! What stands at the head of a kernel: uniforms, lengths, built-in values, and the workgroup's memory zeroed.

use std::fmt::Write as _;

use naga::{AddressSpace, Binding, BuiltIn, GlobalVariable, Handle, TypeInner};

use crate::error::EmitError;
use crate::interface::{Bound, Interface};
use crate::text::Text;
use crate::unit::Unit;
use crate::writer::Writer;

/// Static shared memory that a block can have; more must be dynamic.
const MAX_STATIC_SHARED_BYTES: u32 = 48 * 1024;

/// The workgroup's memory.
#[derive(Debug, Default)]
pub(crate) struct Workgroup {
    /// The variables, in the order of the module.
    pub(crate) variables: Vec<(Handle<GlobalVariable>, String)>,
    pub(crate) declarations: String,
    pub(crate) dynamic_bytes: u32,
    /// Offsets of the variables in dynamic memory.
    pub(crate) offsets: Vec<u32>,
}

impl Workgroup {
    pub(crate) fn of(unit: &mut Unit<'_>) -> Result<Self, EmitError> {
        let shader = unit.shader;
        let mut workgroup = Self::default();
        let mut end = 0_u32;
        for (handle, variable) in shader.module.global_variables.iter() {
            if variable.space != AddressSpace::WorkGroup || shader.entry_info()[handle].is_empty() {
                continue;
            }
            let spelled = unit.spell(variable.ty)?;
            let (bytes, align) = unit.c_layout(variable.ty);
            let offset = end.next_multiple_of(align);
            end = offset.checked_add(bytes).ok_or_else(|| {
                let span = shader.module.global_variables.get_span(handle);
                unit.unsupported("more than 4 GiB of workgroup memory", span)
            })?;
            workgroup.variables.push((handle, spelled));
            workgroup.offsets.push(offset);
        }
        if end > MAX_STATIC_SHARED_BYTES {
            workgroup.dynamic_bytes = end;
            workgroup.declarations.push_str("extern __shared__ u64 wgsl_workgroup[];\n");
            unit.dynamic_workgroup = true;
        } else {
            for (handle, spelled) in &workgroup.variables {
                _ = writeln!(workgroup.declarations, "static __shared__ {spelled} {};", unit.globals[handle]);
            }
        }
        Ok(workgroup)
    }
}

/// How the uniforms reach the kernel.
pub(crate) struct Uniforms {
    pub(crate) parameter: Option<String>,
    pub(crate) references: Vec<String>,
}

pub(crate) fn uniform_parameter(
    unit: &mut Unit<'_>,
    out: &mut Text,
    interface: &Interface,
) -> Result<Uniforms, EmitError> {
    let by_value = |ty: &str, name: &str| format!("const __grid_constant__ {ty} {name}");
    match interface.uniforms.as_slice() {
        [] => Ok(Uniforms { parameter: None, references: Vec::new() }),
        [(bound, _)] => {
            let parameter = by_value(&unit.spell(bound.ty)?, &unit.globals[&bound.handle]);
            Ok(Uniforms { parameter: Some(parameter), references: Vec::new() })
        }
        several => {
            let [ty, block] = unit.uniform_names.clone();
            let mut references = Vec::new();
            out.open(&format!("struct {ty} {{"));
            for (bound, _) in several {
                let (spelled, name) = (unit.spell(bound.ty)?, unit.globals[&bound.handle].clone());
                out.line(&format!("{spelled} {name};"));
                references.push(format!("const {spelled}& {name} = {block}.{name};"));
            }
            out.close("};");
            out.line("");
            Ok(Uniforms { parameter: Some(by_value(&ty, &block)), references })
        }
    }
}

impl Writer<'_, '_> {
    /// Ends the kernel if a buffer is too short for the part of it whose size is fixed, or not aligned for its elements.
    pub(crate) fn refuse_unfit(&mut self, interface: &Interface) -> Result<(), EmitError> {
        if !self.unit.checked() {
            return Ok(());
        }
        for bound in &interface.buffers {
            let least = self.unit.fixed_bytes(bound.ty);
            let align = self.unit.layouter[bound.ty].alignment.round_up(1);
            let (name, bytes) = (&self.unit.globals[&bound.handle], &self.unit.byte_names[&bound.handle]);
            let mut conditions = Vec::new();
            if least > 0 {
                conditions.push(format!("{bytes} < {least}"));
            }
            // Up to 8 bytes the launcher sees to it.
            if align > 8 {
                conditions.push(format!("(u64){name} % {align} != 0"));
            }
            if !conditions.is_empty() {
                self.out.line(&format!("if ({}) {{ return; }}", conditions.join(" || ")));
            }
        }
        Ok(())
    }

    /// The length of a buffer's runtime-sized array.
    pub(crate) fn measure(&mut self, bound: &Bound) {
        let Some(length) = self.unit.lengths.get(&bound.handle).cloned() else { return };
        let (offset, stride) = self.unit.runtime_array(bound.ty);
        self.unit.prelude.section("length");
        let bytes = &self.unit.byte_names[&bound.handle];
        self.out.line(&format!("const u32 {length} = wgsl::length({bytes}, {offset}, {stride});"));
    }

    pub(crate) fn private_variables(&mut self) -> Result<(), EmitError> {
        for (handle, variable) in self.unit.shader.module.global_variables.iter() {
            if variable.space != AddressSpace::Private || self.info[handle].is_empty() {
                continue;
            }
            let spelled = self.unit.spell(variable.ty)?;
            let value = match variable.init {
                Some(init) => self.unit.global_expression(init)?,
                None => self.unit.zero(variable.ty)?,
            };
            self.out.line(&format!("{spelled} {} = {value};", self.unit.globals[&handle]));
        }
        Ok(())
    }

    /// The built-in values that the entry point takes, one by one or in structures.
    pub(crate) fn built_ins(&mut self) -> Result<(), EmitError> {
        let size = self.workgroup_size;
        for (index, argument) in self.function.arguments.iter().enumerate() {
            let spelled = self.unit.spell(argument.ty)?;
            let value = match (&argument.binding, &self.unit.shader.module.types[argument.ty].inner) {
                (Some(Binding::BuiltIn(built_in)), _) => self.built_in_value(*built_in, size),
                (None, TypeInner::Struct { members, .. }) => {
                    let values = members.iter().map(|member| match member.binding {
                        Some(Binding::BuiltIn(built_in)) => self.built_in_value(built_in, size),
                        _ => None,
                    });
                    let values: Option<Vec<String>> = values.collect();
                    values.map(|values| format!("{spelled}{{{}}}", values.join(", ")))
                }
                _ => None,
            };
            let value =
                value.ok_or_else(|| self.unit.unsupported("this built-in value", naga::Span::UNDEFINED))?;
            self.out.line(&format!("const {spelled} {} = {value};", self.arguments[index]));
        }
        Ok(())
    }

    fn built_in_value(&self, built_in: BuiltIn, size: [u32; 3]) -> Option<String> {
        let threads: u64 = size.iter().map(|n| u64::from(*n)).product();
        Some(match built_in {
            BuiltIn::GlobalInvocationId => {
                let axis = |name: &str, size: u32| match size {
                    1 => format!("blockIdx.{name}"),
                    size => format!("blockIdx.{name} * {size}u + threadIdx.{name}"),
                };
                format!("vec3<u32>({}, {}, {})", axis("x", size[0]), axis("y", size[1]), axis("z", size[2]))
            }
            BuiltIn::LocalInvocationId => "vec3<u32>(threadIdx.x, threadIdx.y, threadIdx.z)".to_owned(),
            BuiltIn::LocalInvocationIndex => local_index(size),
            BuiltIn::WorkGroupId => "vec3<u32>(blockIdx.x, blockIdx.y, blockIdx.z)".to_owned(),
            BuiltIn::WorkGroupSize => format!("vec3<u32>({}u, {}u, {}u)", size[0], size[1], size[2]),
            BuiltIn::NumWorkGroups => "vec3<u32>(gridDim.x, gridDim.y, gridDim.z)".to_owned(),
            BuiltIn::NumSubgroups => format!("{}u", threads.div_ceil(32)),
            BuiltIn::SubgroupId => format!("({}) / 32u", local_index(size)),
            BuiltIn::SubgroupSize => "32u".to_owned(),
            BuiltIn::SubgroupInvocationId => format!("({}) % 32u", local_index(size)),
            _ => return None,
        })
    }

    /// Zeroes the workgroup's memory, all invocations together.
    pub(crate) fn zero_workgroup(&mut self, workgroup: &Workgroup) {
        if workgroup.dynamic_bytes > 0 {
            for ((handle, spelled), offset) in workgroup.variables.iter().zip(&workgroup.offsets) {
                let name = &self.unit.globals[handle];
                self.out
                    .line(&format!("{spelled}& {name} = *({spelled}*)((char*)wgsl_workgroup + {offset});"));
            }
        }
        if workgroup.variables.is_empty() {
            return;
        }
        self.unit.prelude.section("zero");
        let threads: u64 = self.workgroup_size.iter().map(|n| u64::from(*n)).product();
        let index = local_index(self.workgroup_size);
        for (handle, _) in &workgroup.variables {
            let name = &self.unit.globals[handle];
            self.out.line(&format!("wgsl::zero({name}, {index}, {threads}u);"));
        }
        self.out.line("__syncthreads();");
    }
}

fn local_index(size: [u32; 3]) -> String {
    match size {
        [_, 1, 1] => "threadIdx.x".to_owned(),
        [x, _, 1] => format!("threadIdx.y * {x}u + threadIdx.x"),
        [x, y, _] => format!("(threadIdx.z * {y}u + threadIdx.y) * {x}u + threadIdx.x"),
    }
}
