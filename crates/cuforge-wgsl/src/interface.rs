//! The kernel's parameters: what the bindings of the entry point are in CUDA C, and what the launcher is told of them.

use cuforge_core::{Access, Element, KernelSpec, Parameter};
use naga::{AddressSpace, GlobalVariable, Handle, Scalar, ScalarKind, StorageAccess, Type, TypeInner};

use crate::error::EmitError;
use crate::unit::Unit;

/// Bytes of parameters that every device takes.
const MAX_PARAMETER_BYTES: u32 = 4096;

/// A storage buffer or a uniform of the entry point.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub(crate) handle: Handle<GlobalVariable>,
    pub(crate) group: u32,
    pub(crate) binding: u32,
    pub(crate) ty: Handle<Type>,
    pub(crate) writable: bool,
}

/// The bindings of an entry point.
#[derive(Debug, Default)]
pub(crate) struct Interface {
    /// Storage buffers in (group, binding) order.
    pub(crate) buffers: Vec<Bound>,
    /// Uniforms in (group, binding) order, each with its offset in the one block that they become.
    pub(crate) uniforms: Vec<(Bound, u32)>,
    /// Bytes of that block, and its alignment.
    pub(crate) uniform_layout: (u32, u32),
}

impl Interface {
    /// Of the variables that the entry point uses.
    pub(crate) fn of(unit: &Unit<'_>) -> Result<Self, EmitError> {
        let module = &unit.shader.module;
        let mut interface = Self::default();
        for (handle, variable) in module.global_variables.iter() {
            if unit.shader.entry_info()[handle].is_empty() {
                continue;
            }
            let span = module.global_variables.get_span(handle);
            let what = match variable.space {
                AddressSpace::Storage { .. } | AddressSpace::Uniform => None,
                AddressSpace::Function | AddressSpace::Private | AddressSpace::WorkGroup => continue,
                AddressSpace::Handle => Some(match module.types[variable.ty].inner {
                    TypeInner::Sampler { .. } => "a sampler",
                    TypeInner::AccelerationStructure { .. } => "a ray query",
                    _ => "a texture",
                }),
                AddressSpace::Immediate => Some("an immediate"),
                _ => Some("this address space"),
            };
            if let Some(what) = what {
                return Err(unit.unsupported(what, span));
            }
            if matches!(module.types[variable.ty].inner, TypeInner::BindingArray { .. }) {
                return Err(unit.unsupported("an array of bindings", span));
            }
            let Some(binding) = variable.binding else {
                return Err(unit.unsupported("a resource without a binding", span));
            };
            let bound = Bound {
                handle,
                group: binding.group,
                binding: binding.binding,
                ty: variable.ty,
                writable: matches!(
                    variable.space,
                    AddressSpace::Storage { access } if access.contains(StorageAccess::STORE)
                ),
            };
            match variable.space {
                AddressSpace::Uniform => interface.uniforms.push((bound, 0)),
                _ => interface.buffers.push(bound),
            }
        }
        interface.buffers.sort_by_key(|b| (b.group, b.binding));
        interface.uniforms.sort_by_key(|(b, _)| (b.group, b.binding));
        let (mut end, mut align) = (0_u32, 1);
        for (bound, offset) in &mut interface.uniforms {
            let (bytes, natural) = unit.c_layout(bound.ty);
            *offset = end.next_multiple_of(natural);
            end = offset.saturating_add(bytes);
            align = align.max(natural);
        }
        interface.uniform_layout = (end.next_multiple_of(align), align);
        let pointers = u32::try_from(interface.buffers.len()).unwrap_or(u32::MAX).saturating_mul(16);
        if end.saturating_add(pointers) > MAX_PARAMETER_BYTES {
            let span = interface
                .uniforms
                .first()
                .map_or(naga::Span::UNDEFINED, |(bound, _)| module.global_variables.get_span(bound.handle));
            return Err(unit.unsupported("more than 4096 bytes of uniforms and pointers", span));
        }
        Ok(interface)
    }

    /// The parameters in the order of the kernel ABI: a pointer to each buffer, the uniform block, the length of each
    /// buffer.
    pub(crate) fn parameters(&self, unit: &Unit<'_>) -> Vec<Parameter> {
        let module = &unit.shader.module;
        let buffers = self.buffers.iter().map(|bound| Parameter::Buffer {
            name: module.global_variables[bound.handle].name.clone().unwrap_or_default().into(),
            group: bound.group,
            binding: bound.binding,
            element: element_of(unit, bound.ty),
            access: if bound.writable { Access::StorageReadWrite } else { Access::StorageRead },
        });
        let (bytes, align) = self.uniform_layout;
        let uniform = (bytes > 0).then_some(Parameter::Uniform { bytes, align });
        let lengths = self
            .buffers
            .iter()
            .map(|bound| Parameter::BufferLength { group: bound.group, binding: bound.binding });
        buffers.chain(uniform).chain(lengths).collect()
    }
}

/// What a buffer is made of: its scalar if it has but one, or else words of its alignment.
fn element_of(unit: &Unit<'_>, ty: Handle<Type>) -> Element {
    let mut scalars = Vec::new();
    scalars_of(unit, ty, &mut scalars);
    let first = scalars.first().copied().and_then(element);
    match first {
        Some(first) if scalars.iter().all(|s| element(*s) == Some(first)) => first,
        _ => match unit.layouter[ty].alignment.round_up(1) {
            1 => Element::U8,
            2 => Element::U16,
            _ => Element::U32,
        },
    }
}

fn scalars_of(unit: &Unit<'_>, ty: Handle<Type>, found: &mut Vec<Scalar>) {
    match &unit.shader.module.types[ty].inner {
        TypeInner::Scalar(scalar) | TypeInner::Atomic(scalar) => found.push(*scalar),
        TypeInner::Vector { scalar, .. } | TypeInner::Matrix { scalar, .. } => found.push(*scalar),
        TypeInner::Array { base, .. } => scalars_of(unit, *base, found),
        TypeInner::Struct { members, .. } => members.iter().for_each(|m| scalars_of(unit, m.ty, found)),
        _ => {}
    }
}

fn element(scalar: Scalar) -> Option<Element> {
    Some(match (scalar.kind, scalar.width) {
        (ScalarKind::Sint, 2) => Element::I16,
        (ScalarKind::Sint, 4) => Element::I32,
        (ScalarKind::Sint, 8) => Element::I64,
        (ScalarKind::Uint, 2) => Element::U16,
        (ScalarKind::Uint, 4) => Element::U32,
        (ScalarKind::Uint, 8) => Element::U64,
        (ScalarKind::Float, 2) => Element::F16,
        (ScalarKind::Float, 4) => Element::F32,
        (ScalarKind::Float, 8) => Element::F64,
        _ => return None,
    })
}

/// Holds what `spec` lists, if it lists anything, against what the text takes. Names and elements are the
/// specification's own to choose.
pub(crate) fn agreed(spec: &KernelSpec, derived: Vec<Parameter>) -> Result<Vec<Parameter>, EmitError> {
    let listed = spec.parameters();
    // A specification may leave the lengths to the emitter.
    let without_lengths = !listed.iter().any(|p| matches!(p, Parameter::BufferLength { .. }));
    let (lengths, mut rest): (Vec<_>, Vec<_>) =
        derived.into_iter().partition(|p| matches!(p, Parameter::BufferLength { .. }));
    if listed.is_empty() {
        rest.extend(lengths);
        return Ok(rest);
    }
    let wrong = |message: String| Err(EmitError::Parameters { message });
    if !without_lengths {
        rest.extend(lengths.iter().cloned());
    }
    if listed.len() != rest.len() {
        return wrong(format!("{} are listed, the text takes {}", listed.len(), rest.len()));
    }
    for (at, (listed, taken)) in listed.iter().zip(&rest).enumerate() {
        let same = match (listed, taken) {
            (
                Parameter::Buffer { group, binding, access, .. },
                Parameter::Buffer { group: g, binding: b, access: a, .. },
            ) => (group, binding, access) == (g, b, a),
            (listed, taken) => listed == taken,
        };
        if !same {
            return wrong(format!("number {at} is listed as {listed:?}, the text takes {taken:?}"));
        }
    }
    let mut parameters = listed.to_vec();
    if without_lengths {
        parameters.extend(lengths);
    }
    Ok(parameters)
}
