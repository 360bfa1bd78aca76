//! Kernels as specifications: identity, text, parameters, and what a schedule turns into.

use crate::element::Element;
use crate::geometry::SharedMemory;
use crate::schedule::{Constant, Schedule};
use crate::schedule_error::ScheduleError;
use crate::view::Access;
use alloc::borrow::Cow;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// The language of a kernel's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Language {
    /// CUDA C++, for NVRTC.
    CudaC,
    /// PTX.
    Ptx,
    /// WGSL compute.
    Wgsl,
}

/// A kernel's text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Body {
    /// Its language.
    pub language: Language,
    /// The text.
    pub text: Cow<'static, str>,
}

/// One kernel parameter. A kernel lists its parameters in the order in which it takes them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Parameter {
    /// A pointer to a storage buffer.
    Buffer {
        /// The name that errors use.
        name: Cow<'static, str>,
        /// Bind group of the view that goes here.
        group: u32,
        /// Binding of the view that goes here.
        binding: u32,
        /// What the buffer holds.
        element: Element,
        /// What the kernel does with it.
        access: Access,
    },
    /// The uniform block, by value. At most one.
    Uniform {
        /// Its size in bytes.
        bytes: u32,
        /// Its alignment in bytes, a power of two.
        align: u32,
    },
    /// One scalar, by value.
    Scalar {
        /// The name that errors use.
        name: Cow<'static, str>,
        /// Its type.
        element: Element,
    },
    /// The length in bytes (u64) of the view bound at `(group, binding)`; emitted kernels read it in their guards.
    BufferLength {
        /// Bind group of the buffer.
        group: u32,
        /// Binding of the buffer.
        binding: u32,
    },
}

impl Parameter {
    /// A storage buffer in group 0.
    pub fn buffer(
        name: impl Into<Cow<'static, str>>,
        binding: u32,
        element: Element,
        access: Access,
    ) -> Self {
        Self::Buffer { name: name.into(), group: 0, binding, element, access }
    }

    /// A scalar.
    pub fn scalar(name: impl Into<Cow<'static, str>>, element: Element) -> Self {
        Self::Scalar { name: name.into(), element }
    }
}

/// A block size and item count that a PTX kernel was written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeclaredBlock {
    /// Threads in x, y, z.
    pub workgroup_size: [u32; 3],
    /// Elements a thread.
    pub items_per_invocation: u32,
}

/// A kernel: what it is called, how it is called, and its text.
///
/// ```
/// use cuforge_core::{Access, Element, KernelSpec, Parameter};
/// let source = "extern \"C\" __global__ void twice(float *x) { x[blockIdx.x] *= 2.0f; }";
/// // SAFETY: with one block an element, the kernel touches nothing but the buffer bound as `x`.
/// let spec = unsafe {
///     KernelSpec::cuda_c("twice", "twice", source, vec![
///         Parameter::buffer("x", 0, Element::F32, Access::StorageReadWrite),
///     ])
/// };
/// assert_eq!(spec.entry_point(), "twice");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KernelSpec {
    id: Cow<'static, str>,
    semantic_version: u32,
    entry_point: Cow<'static, str>,
    description: Cow<'static, str>,
    parameters: Vec<Parameter>,
    shared_memory: SharedMemory,
    declared_blocks: Vec<DeclaredBlock>,
    body: Body,
}

impl KernelSpec {
    fn new(
        id: Cow<'static, str>,
        entry_point: Cow<'static, str>,
        body: Body,
        parameters: Vec<Parameter>,
    ) -> Self {
        Self {
            id,
            semantic_version: 1,
            entry_point,
            description: Cow::Borrowed(""),
            parameters,
            shared_memory: SharedMemory::NONE,
            declared_blocks: Vec::new(),
            body,
        }
    }

    /// A kernel in CUDA C, for NVRTC. `entry_point` is the name as the module exports it (`extern "C"`).
    ///
    /// # Safety
    /// CUDA C can write anywhere the device can, mapped host memory included. The caller promises, for every schedule
    /// that the source compiles with and every geometry it is launched with: given views and values that match
    /// `parameters` and the element counts it is told, the kernel reads and writes only the bytes of those views
    /// (writing only those of [`Access::StorageReadWrite`]) and its own shared and local memory.
    #[allow(unsafe_code, reason = "raw device code; the contract is the caller's")]
    pub unsafe fn cuda_c(
        id: impl Into<Cow<'static, str>>,
        entry_point: impl Into<Cow<'static, str>>,
        source: impl Into<Cow<'static, str>>,
        parameters: Vec<Parameter>,
    ) -> Self {
        let body = Body { language: Language::CudaC, text: source.into() };
        Self::new(id.into(), entry_point.into(), body, parameters)
    }

    /// A kernel in PTX, for the blocks given to [`with_declared_blocks`](Self::with_declared_blocks).
    ///
    /// # Safety
    /// As [`cuda_c`](Self::cuda_c).
    #[allow(unsafe_code, reason = "raw device code; the contract is the caller's")]
    pub unsafe fn ptx(
        id: impl Into<Cow<'static, str>>,
        entry_point: impl Into<Cow<'static, str>>,
        text: impl Into<Cow<'static, str>>,
        parameters: Vec<Parameter>,
    ) -> Self {
        let body = Body { language: Language::Ptx, text: text.into() };
        Self::new(id.into(), entry_point.into(), body, parameters)
    }

    /// A kernel in WGSL: bounds-checked by construction, so safe.
    pub fn wgsl(
        id: impl Into<Cow<'static, str>>,
        entry_point: impl Into<Cow<'static, str>>,
        source: impl Into<Cow<'static, str>>,
        parameters: Vec<Parameter>,
    ) -> Self {
        let body = Body { language: Language::Wgsl, text: source.into() };
        Self::new(id.into(), entry_point.into(), body, parameters)
    }

    /// With one sentence that says what it computes.
    #[must_use]
    pub fn with_description(mut self, description: impl Into<Cow<'static, str>>) -> Self {
        self.description = description.into();
        self
    }

    /// With another version of its meaning (default 1): results of different versions are not comparable.
    #[must_use]
    pub fn with_semantic_version(mut self, version: u32) -> Self {
        self.semantic_version = version;
        self
    }

    /// With dynamic shared memory.
    #[must_use]
    pub fn with_shared_memory(mut self, shared_memory: SharedMemory) -> Self {
        self.shared_memory = shared_memory;
        self
    }

    /// With the blocks that a PTX kernel takes.
    #[must_use]
    pub fn with_declared_blocks(mut self, blocks: Vec<DeclaredBlock>) -> Self {
        self.declared_blocks = blocks;
        self
    }

    /// What the kernel is called in reports and caches.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The version of its meaning.
    pub fn semantic_version(&self) -> u32 {
        self.semantic_version
    }

    /// The name that its module exports.
    pub fn entry_point(&self) -> &str {
        &self.entry_point
    }

    /// What it computes.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// What it takes, in order.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// The dynamic shared memory that its blocks need.
    pub fn shared_memory(&self) -> SharedMemory {
        self.shared_memory
    }

    /// The blocks that a PTX kernel takes.
    pub fn declared_blocks(&self) -> &[DeclaredBlock] {
        &self.declared_blocks
    }

    /// Its text.
    pub fn body(&self) -> &Body {
        &self.body
    }

    /// The defines that `schedule` gives a CUDA C source, in order: `CUFORGE_BLOCK_X`, `_Y`, `_Z`, `CUFORGE_ITEMS`, then
    /// each constant. For PTX an empty list.
    ///
    /// # Errors
    /// [`ScheduleError::UnknownConstant`] for a constant (or an item count other than 1) that the source does not
    /// name, [`ScheduleError::BadConstant`] for one that is no identifier, double, or reserved, and
    /// [`ScheduleError::Undeclared`] for PTX that does not declare the block.
    pub fn defines(&self, schedule: &Schedule) -> Result<Vec<(String, String)>, ScheduleError> {
        if self.body.language == Language::Ptx {
            return self.check_declared(schedule).map(|()| Vec::new());
        }
        let mut defines = Vec::with_capacity(4 + schedule.constants.len());
        for (axis, size) in ["X", "Y", "Z"].into_iter().zip(schedule.workgroup_size) {
            defines.push((alloc::format!("CUFORGE_BLOCK_{axis}"), size.to_string()));
        }
        if schedule.items_per_invocation != 1 {
            self.check_named("CUFORGE_ITEMS")?;
        }
        defines.push(("CUFORGE_ITEMS".to_string(), schedule.items_per_invocation.to_string()));
        for (name, value) in &schedule.constants {
            let bad =
                |reason| Err(ScheduleError::BadConstant { constant: name.clone().into_owned(), reason });
            if !is_identifier(name) {
                return bad("is not an identifier");
            }
            if defines.iter().any(|(defined, _)| defined == name) {
                return bad("is defined twice");
            }
            if matches!(value, Constant::Float(value) if !value.is_finite()) {
                return bad("is no finite number, which no literal stands for");
            }
            self.check_named(name)?;
            defines.push((name.clone().into_owned(), value.literal()));
        }
        Ok(defines)
    }

    fn check_declared(&self, schedule: &Schedule) -> Result<(), ScheduleError> {
        let declared = DeclaredBlock {
            workgroup_size: schedule.workgroup_size,
            items_per_invocation: schedule.items_per_invocation,
        };
        if let Some((constant, _)) = schedule.constants.first() {
            let constant = constant.clone().into_owned();
            return Err(ScheduleError::UnknownConstant { kernel: self.id.to_string(), constant });
        }
        if self.declared_blocks.contains(&declared) {
            return Ok(());
        }
        Err(ScheduleError::Undeclared {
            kernel: self.id.to_string(),
            block: schedule.workgroup_size,
            items: schedule.items_per_invocation,
        })
    }

    fn check_named(&self, constant: &str) -> Result<(), ScheduleError> {
        if names(&self.body.text, constant) {
            return Ok(());
        }
        Err(ScheduleError::UnknownConstant { kernel: self.id.to_string(), constant: constant.to_string() })
    }
}

fn is_identifier(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Whether `identifier` stands in the source outside comments and string literals.
fn names(source: &str, identifier: &str) -> bool {
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(comment) = rest.strip_prefix("/*") {
            comment.find("*/").map_or(rest.len(), |end| end + 4)
        } else if first == '"' || first == '\'' {
            literal_len(rest)
        } else if first.is_ascii_alphanumeric() || first == '_' {
            let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
            if &rest[..end] == identifier {
                return true;
            }
            end
        } else {
            first.len_utf8()
        };
        rest = &rest[skipped..];
    }
    false
}

/// Length of the string or character literal at the start of `text`; a line ends an open one.
fn literal_len(text: &str) -> usize {
    let quote = text.as_bytes()[0];
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'\n' => return at,
            byte if byte == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[allow(unsafe_code, reason = "raw specs are made by unsafe functions; these are never run")]
#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn spec(source: &'static str) -> KernelSpec {
        // SAFETY: never launched.
        unsafe { KernelSpec::cuda_c("k", "k", source, vec![]) }
    }

    #[test]
    fn schedules_reach_cuda_c_as_defines_in_order() {
        let schedule = Schedule::new([64, 2, 1])
            .with_items_per_invocation(4)
            .with_constant("TILE", Constant::Int(-8))
            .with_constant("SCALE", Constant::Float(0.5));
        let defines = spec("int x[CUFORGE_ITEMS * TILE]; float y = SCALE;").defines(&schedule).unwrap();
        let text: Vec<String> = defines.iter().map(|(n, v)| alloc::format!("{n}={v}")).collect();
        let want =
            ["CUFORGE_BLOCK_X=64", "CUFORGE_BLOCK_Y=2", "CUFORGE_BLOCK_Z=1", "CUFORGE_ITEMS=4", "TILE=(-8)"];
        assert_eq!(text[..5], want);
        assert_eq!(text[5], "SCALE=0.5");
    }

    #[test]
    fn a_constant_that_the_source_does_not_name_is_an_error() {
        let tile = Schedule::new([32, 1, 1]).with_constant("TILE", Constant::Int(8));
        for source in [
            "int x;",
            "// TILE\nint x;",
            "/* TILE */ int x;",
            "const char *x = \"TILE\";",
            "int TILES, TILE_M, xTILE;",
            "/* TILE",
            "\"TILE",
            "const char *x = \"\\\"TILE\";",
        ] {
            let error = spec(source).defines(&tile);
            assert!(matches!(error, Err(ScheduleError::UnknownConstant { .. })), "{source}: {error:?}");
        }
        for source in ["int x[TILE];", "// c\nTILE", "'\"' + TILE", "ü TILE", "/* a */TILE", "\"\\\\\" TILE"]
        {
            assert!(spec(source).defines(&tile).is_ok(), "{source}");
        }
        let items = Schedule::new([32, 1, 1]).with_items_per_invocation(2);
        assert!(matches!(spec("int x;").defines(&items), Err(ScheduleError::UnknownConstant { .. })));
    }

    #[test]
    fn constants_without_a_literal_are_errors_and_the_least_integer_has_one() {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let schedule = Schedule::new([32, 1, 1]).with_constant("TILE", Constant::Float(value));
            let error = spec("TILE").defines(&schedule).unwrap_err();
            assert!(matches!(error, ScheduleError::BadConstant { constant, .. } if constant == "TILE"));
        }
        assert_eq!(Constant::Int(i64::MIN).literal(), "(-9223372036854775807 - 1)");
    }

    #[test]
    fn constants_that_are_no_identifier_double_or_reserved_are_errors() {
        for name in ["", "1A", "A B", "A=1", "CUFORGE_BLOCK_X", "CUFORGE_ITEMS"] {
            let schedule = Schedule::new([32, 1, 1]).with_constant(name, Constant::Int(1));
            let error = spec("CUFORGE_BLOCK_X CUFORGE_ITEMS").defines(&schedule);
            assert!(matches!(error, Err(ScheduleError::BadConstant { .. })), "{name}: {error:?}");
        }
        let twice = Schedule::new([32, 1, 1])
            .with_constant("A", Constant::Int(1))
            .with_constant("A", Constant::Int(1));
        assert!(matches!(spec("A").defines(&twice), Err(ScheduleError::BadConstant { .. })));
    }

    #[test]
    fn ptx_takes_only_the_blocks_that_its_spec_declares() {
        let declared = DeclaredBlock { workgroup_size: [128, 1, 1], items_per_invocation: 1 };
        // SAFETY: never launched.
        let spec = unsafe { KernelSpec::ptx("k", "k", ".version 7.0", vec![]) };
        let spec = spec.with_declared_blocks(vec![declared]);
        assert_eq!(spec.defines(&Schedule::new([128, 1, 1])), Ok(vec![]));
        let other = spec.defines(&Schedule::new([64, 1, 1]));
        assert!(matches!(other, Err(ScheduleError::Undeclared { .. })));
        let constant = Schedule::new([128, 1, 1]).with_constant("A", Constant::Int(1));
        assert!(matches!(spec.defines(&constant), Err(ScheduleError::UnknownConstant { .. })));
    }
}
