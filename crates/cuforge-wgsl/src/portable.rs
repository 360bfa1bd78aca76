//! A kernel as an API sees it that takes WGSL itself: values of overrides, and what is bound where.

use cuforge_core::{KernelSpec, Parameter, Schedule};

use crate::error::EmitError;
use crate::interface::{self, Interface};
use crate::shader::Shader;
use crate::unit::{Bounds, Unit};

/// A uniform variable: where it is bound, and which bytes of the uniform block it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UniformBinding {
    /// Bind group.
    pub group: u32,
    /// Binding.
    pub binding: u32,
    /// First byte in the uniform block.
    pub offset: u32,
    /// Bytes.
    pub bytes: u32,
}

/// A kernel for WebGPU, or Vulkan through wgpu: its text stays as it is.
///
/// ```
/// use cuforge_core::{KernelSpec, Schedule};
/// let source = "
///     @group(0) @binding(0) var<storage, read_write> x: array<f32>;
///     @group(0) @binding(3) var<uniform> factor: f32;
///     override CUFORGE_BLOCK_X: u32 = 64;
///     @compute @workgroup_size(CUFORGE_BLOCK_X)
///     fn scale(@builtin(global_invocation_id) id: vec3<u32>) {
///         x[id.x] = x[id.x] * factor;
///     }";
/// let spec = KernelSpec::wgsl("scale", "scale", source, vec![]);
/// let portable = cuforge_wgsl::portable(&spec, &Schedule::new([256, 1, 1]))?;
/// assert_eq!(portable.overrides, [("CUFORGE_BLOCK_X".to_owned(), 256.0)]);
/// assert_eq!((portable.uniforms[0].binding, portable.uniforms[0].bytes), (3, 4));
/// # Ok::<(), cuforge_wgsl::EmitError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Portable {
    /// Values of overrides, by name or, where the override has one, by number; sorted.
    pub overrides: Vec<(String, f64)>,
    /// Uniform variables in (group, binding) order.
    pub uniforms: Vec<UniformBinding>,
    /// The storage buffers in (group, binding) order, then the uniform block. Buffers have no lengths here: the API binds
    /// them with theirs.
    pub parameters: Vec<Parameter>,
}

/// What `spec` is under `schedule` to an API that takes WGSL.
///
/// # Errors
/// As [`emit`](crate::emit).
pub fn portable(spec: &KernelSpec, schedule: &Schedule) -> Result<Portable, EmitError> {
    let shader = Shader::read(spec, schedule)?;
    let mut overrides: Vec<(String, f64)> =
        shader.given.iter().map(|(name, value)| (name.clone(), *value)).collect();
    overrides.sort_by(|a, b| a.0.cmp(&b.0));
    let unit = Unit::new(&shader, Bounds::Checked)?;
    let bound = Interface::of(&unit)?;
    let uniforms = bound.uniforms.iter().map(|(at, offset)| UniformBinding {
        group: at.group,
        binding: at.binding,
        offset: *offset,
        bytes: unit.c_layout(at.ty).0,
    });
    let mut parameters = interface::agreed(spec, bound.parameters(&unit))?;
    parameters.retain(|parameter| !matches!(parameter, Parameter::BufferLength { .. }));
    Ok(Portable { overrides, uniforms: uniforms.collect(), parameters })
}
