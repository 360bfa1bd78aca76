//! Portable kernels: WGSL compute shaders, parsed and validated by [naga], emitted as CUDA C.
//!
//! [`emit`] takes a [`KernelSpec`] whose body is WGSL and a [`Schedule`], and returns CUDA C for NVRTC that means what the
//! WGSL says: integer division by zero, shifts, conversions, zeroed memory and indices out of bounds are WGSL's. What
//! WGSL has and CUDA C cannot express is [`EmitError::Unsupported`], with the place. The text is for people too: names
//! are kept, and `#line` points back to the WGSL. The same input gives the same bytes.
//!
//! ```
//! use cuforge_core::{KernelSpec, Schedule};
//!
//! let source = "
//!     @group(0) @binding(0) var<storage, read_write> x: array<f32>;
//!     override CUFORGE_BLOCK_X: u32 = 64;
//!     @compute @workgroup_size(CUFORGE_BLOCK_X)
//!     fn twice(@builtin(global_invocation_id) id: vec3<u32>) {
//!         x[id.x] = x[id.x] * 2.0;
//!     }";
//! let spec = KernelSpec::wgsl("twice", "twice", source, vec![]);
//! let emitted = cuforge_wgsl::emit(&spec, &Schedule::new([256, 1, 1]))?;
//! assert!(emitted.cuda_c.contains("(id.x < x_length ? x[id.x] : 0.0f) * 2.0f"));
//! assert_eq!(emitted.parameters.len(), 2); // a pointer and a length
//! # Ok::<(), cuforge_wgsl::EmitError>(())
//! ```
#![forbid(unsafe_code)]

mod constants;
mod convert;
mod depth;
mod error;
mod expression;
mod half;
mod head;
mod inline;
mod interface;
mod kernel;
mod lift;
mod linear;
mod loops;
mod math;
mod names;
mod need;
mod operands;
mod operator;
mod overrides;
mod place;
mod portable;
mod prelude;
mod range;
mod rendered;
mod shader;
mod source;
mod statement;
mod struct_names;
mod structs;
mod subgroup;
mod text;
mod uniformity;
mod unit;
mod writer;

use cuforge_core::{KernelSpec, Parameter, Schedule, SharedMemory};

pub use error::{EmitError, Place};
pub use portable::{Portable, UniformBinding, portable};
pub use unit::Bounds;

/// A kernel in CUDA C, and how it is called.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Emitted {
    /// The text, for NVRTC. It takes no defines: the schedule is in it. With 16-bit floats it includes `cuda_fp16.h`,
    /// otherwise nothing.
    pub cuda_c: String,
    /// The name that the module exports: that of the entry point, unless C++ has taken it (`main` becomes `main_`).
    pub entry_point: String,
    /// What the kernel takes, in order: a pointer to each storage buffer in ascending (group, binding), the uniforms in
    /// one block by value, the length of each buffer in bytes.
    pub parameters: Vec<Parameter>,
    /// The dynamic shared memory that its blocks need: none up to 48 KiB, which are static, and all of it beyond.
    pub shared_memory: SharedMemory,
}

/// Emits the entry point of `spec` under `schedule`, with all checks.
///
/// The schedule reaches the text as overrides: its workgroup size as those that `@workgroup_size` names and as
/// `CUFORGE_BLOCK_X`, `_Y` and `_Z`, its items as `CUFORGE_ITEMS`, its constants by their names. A workgroup size written
/// as a number must be the schedule's. If `spec` lists parameters, they must be those of the text (the lengths may be
/// left out); if it lists none, they follow from the text.
///
/// # Errors
/// [`EmitError`]; for valid WGSL under a fitting schedule only [`EmitError::Unsupported`].
pub fn emit(spec: &KernelSpec, schedule: &Schedule) -> Result<Emitted, EmitError> {
    emit_with(spec, schedule, Bounds::Checked)
}

/// As [`emit`], with a choice of what becomes of indices out of bounds.
///
/// # Errors
/// As [`emit`].
pub fn emit_with(spec: &KernelSpec, schedule: &Schedule, bounds: Bounds) -> Result<Emitted, EmitError> {
    depth::with_stack_for(&spec.body().text, || {
        let shader = shader::Shader::read(spec, schedule)?;
        uniformity::check(&shader)?;
        let written = kernel::write(&shader, spec.id(), bounds)?;
        Ok(Emitted {
            cuda_c: written.text,
            entry_point: written.entry_point,
            parameters: interface::agreed(spec, written.parameters)?,
            shared_memory: SharedMemory { fixed_bytes: written.shared_bytes, bytes_per_thread: 0 },
        })
    })
}
