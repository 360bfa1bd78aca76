//! One emission: the module, the names and the pieces of the prelude that were asked for so far.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use naga::proc::{IndexableLength, Layouter};
use naga::{
    AddressSpace, ArraySize, Constant, Function, GlobalVariable, Handle, Scalar, ScalarKind, Span, Type,
    TypeInner,
};

use crate::error::EmitError;
use crate::names::Names;
use crate::prelude::{Need, Prelude};
use crate::shader::Shader;
use crate::struct_names::StructNames;

/// What becomes of an index that is out of bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Bounds {
    /// As WGSL promises (the default): a read outside of a buffer gives zero, a write or an atomic there does nothing, and
    /// an index into a vector, a matrix or an array of fixed size is clamped to its last element. Costs a comparison
    /// an access.
    #[default]
    Checked,
    /// Nothing is checked: what results may read and write anywhere the device can. For trusted kernels only; the text
    /// is then raw CUDA C, under the contract of [`KernelSpec::cuda_c`](cuforge_core::KernelSpec::cuda_c).
    Unchecked,
}

/// One emission.
#[derive(Debug)]
pub(crate) struct Unit<'a> {
    pub(crate) shader: &'a Shader,
    pub(crate) bounds: Bounds,
    pub(crate) prelude: Prelude,
    /// Names of the whole text.
    pub(crate) names: Rc<Names>,
    /// What the kernel is called.
    pub(crate) entry_name: String,
    /// The structure of several uniforms, and the parameter of that type.
    pub(crate) uniform_names: [String; 2],
    pub(crate) layouter: Layouter,
    pub(crate) globals: HashMap<Handle<GlobalVariable>, String>,
    pub(crate) functions: HashMap<Handle<Function>, String>,
    /// Variables that hold the lengths of the runtime-sized arrays of buffers, in elements.
    pub(crate) lengths: HashMap<Handle<GlobalVariable>, String>,
    /// Parameters that hold the lengths of buffers, in bytes.
    pub(crate) byte_names: HashMap<Handle<GlobalVariable>, String>,
    /// The workgroup's memory is more than can be static.
    pub(crate) dynamic_workgroup: bool,
    pub(crate) struct_names: HashMap<Handle<Type>, StructNames>,
    /// Declarations of structures that were asked for, in the order of the module's types.
    pub(crate) structs: BTreeMap<usize, String>,
    pub(crate) constant_names: HashMap<Handle<Constant>, String>,
    /// Definitions of constants that were asked for, in the order of the module.
    pub(crate) constants: BTreeMap<usize, String>,
}

impl<'a> Unit<'a> {
    pub(crate) fn new(shader: &'a Shader, bounds: Bounds) -> Result<Self, EmitError> {
        let module = &shader.module;
        let mut names = Names::default();
        let mut layouter = Layouter::default();
        layouter
            .update(module.to_ctx())
            .map_err(|_| EmitError::Unsupported { what: "a type of more than 4 GiB", place: None })?;
        let mut named =
            |name: &Option<String>, otherwise: &str| names.take(name.as_deref().unwrap_or(otherwise));
        let struct_names = module
            .types
            .iter()
            .filter_map(|(handle, ty)| match &ty.inner {
                TypeInner::Struct { members, .. } => {
                    let wanted = predeclared_name(module, handle).or_else(|| ty.name.clone());
                    Some((handle, StructNames::new(named(&wanted, "Struct"), members)))
                }
                _ => None,
            })
            .collect();
        let globals: HashMap<_, _> =
            module.global_variables.iter().map(|(h, v)| (h, named(&v.name, "global"))).collect();
        let functions = module.functions.iter().map(|(h, f)| (h, named(&f.name, "function"))).collect();
        let constant_names = module.constants.iter().map(|(h, c)| (h, named(&c.name, "CONSTANT"))).collect();
        let buffers = module
            .global_variables
            .iter()
            .filter(|(_, variable)| matches!(variable.space, AddressSpace::Storage { .. }));
        let (mut lengths, mut byte_names) = (HashMap::new(), HashMap::new());
        for (handle, variable) in buffers {
            byte_names.insert(handle, names.take(&format!("{}_bytes", globals[&handle])));
            if module.types[variable.ty].inner.is_dynamically_sized(&module.types) {
                lengths.insert(handle, names.take(&format!("{}_length", globals[&handle])));
            }
        }
        let entry_name = names.take(&shader.entry().name);
        let uniform_names = ["Uniforms", "uniforms"].map(|name| names.take(name));
        Ok(Self {
            shader,
            bounds,
            prelude: Prelude::default(),
            names: Rc::new(names),
            entry_name,
            uniform_names,
            layouter,
            globals,
            functions,
            lengths,
            byte_names,
            dynamic_workgroup: false,
            struct_names,
            structs: BTreeMap::new(),
            constant_names,
            constants: BTreeMap::new(),
        })
    }

    /// Whether indices are checked.
    pub(crate) fn checked(&self) -> bool {
        self.bounds == Bounds::Checked
    }

    pub(crate) fn unsupported(&self, what: &'static str, span: Span) -> EmitError {
        EmitError::Unsupported { what, place: self.shader.place(span) }
    }

    /// The C++ type of a type of the module, as a value.
    pub(crate) fn spell(&mut self, ty: Handle<Type>) -> Result<String, EmitError> {
        let types = &self.shader.module.types;
        match &types[ty].inner {
            TypeInner::Struct { .. } => {
                self.declare(ty)?;
                Ok(self.struct_names[&ty].name.clone())
            }
            TypeInner::Array { base, size, .. } if *size != ArraySize::Dynamic => {
                self.prelude.need(Need::Array);
                let length = self.array_length(*size).unwrap_or(0);
                Ok(format!("array<{}, {length}>", self.spell_element(*base)?))
            }
            inner => self.spell_inner(inner, types.get_span(ty)),
        }
    }

    /// The elements of an array, if their number is fixed, be it by an override.
    pub(crate) fn array_length(&self, size: ArraySize) -> Option<u32> {
        match size.resolve(self.shader.module.to_ctx()) {
            Ok(IndexableLength::Known(length)) => Some(length),
            _ => None,
        }
    }

    /// The C++ type of an element of an array: with the padding that puts elements at WGSL's stride.
    pub(crate) fn spell_element(&mut self, ty: Handle<Type>) -> Result<String, EmitError> {
        match self.shader.module.types[ty].inner {
            TypeInner::Vector { size: naga::VectorSize::Tri, scalar } => {
                self.prelude.need(Need::AlignedVec3);
                Ok(format!("aligned_vec3<{}>", self.spell_scalar(scalar)))
            }
            _ => self.spell(ty),
        }
    }

    /// The C++ type of what is neither a structure nor an array.
    pub(crate) fn spell_inner(&mut self, inner: &TypeInner, span: Span) -> Result<String, EmitError> {
        let what = match *inner {
            TypeInner::Scalar(scalar) | TypeInner::Atomic(scalar) => {
                return Ok(self.spell_scalar(scalar).into());
            }
            TypeInner::Vector { size, scalar } => {
                self.prelude.need(Need::Vector(size as u8));
                return Ok(format!("vec{}<{}>", size as u8, self.spell_scalar(scalar)));
            }
            TypeInner::Matrix { columns, rows, scalar } => {
                self.prelude.need(Need::Matrix(columns as u8, rows as u8));
                return Ok(format!("mat{}x{}<{}>", columns as u8, rows as u8, self.spell_scalar(scalar)));
            }
            TypeInner::Image { .. } => "a texture",
            TypeInner::Sampler { .. } => "a sampler",
            TypeInner::AccelerationStructure { .. } | TypeInner::RayQuery { .. } => "a ray query",
            TypeInner::BindingArray { .. } => "an array of bindings",
            TypeInner::CooperativeMatrix { .. } => "a cooperative matrix",
            TypeInner::Array { .. } => "a runtime-sized array as a value",
            TypeInner::Struct { .. } | TypeInner::Pointer { .. } | TypeInner::ValuePointer { .. } => {
                "a value of this type"
            }
        };
        Err(self.unsupported(what, span))
    }

    /// The C++ name of a scalar.
    pub(crate) fn spell_scalar(&mut self, scalar: Scalar) -> &'static str {
        if scalar == Scalar::F16 {
            self.prelude.need(Need::Half);
        }
        scalar_name(scalar)
    }
}

/// The name of a scalar in WGSL, which the prelude gives it in CUDA C too.
pub(crate) fn scalar_name(scalar: Scalar) -> &'static str {
    match (scalar.kind, scalar.width) {
        (ScalarKind::Sint | ScalarKind::AbstractInt, 8) => "i64",
        (ScalarKind::Sint, 2) => "i16",
        (ScalarKind::Sint | ScalarKind::AbstractInt, _) => "i32",
        (ScalarKind::Uint, 8) => "u64",
        (ScalarKind::Uint, 2) => "u16",
        (ScalarKind::Uint, _) => "u32",
        (ScalarKind::Float | ScalarKind::AbstractFloat, 8) => "f64",
        (ScalarKind::Float, 2) => "f16",
        (ScalarKind::Float | ScalarKind::AbstractFloat, _) => "f32",
        (ScalarKind::Bool, _) => "bool",
    }
}

/// A name for a structure that WGSL has without being told, where naga's own is none that C++ takes.
fn predeclared_name(module: &naga::Module, ty: Handle<Type>) -> Option<String> {
    module.special_types.predeclared_types.iter().find_map(|(predeclared, handle)| match predeclared {
        naga::PredeclaredType::AtomicCompareExchangeWeakResult(scalar) if *handle == ty => {
            Some(format!("atomic_compare_exchange_result_{}", scalar_name(*scalar)))
        }
        _ => None,
    })
}
