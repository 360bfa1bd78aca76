//! What goes wrong on a Vulkan device, and what kind of context error each is.

use cuforge_core::{BindError, ContextError, ContextErrorKind, KernelSpec, Language, ScheduleError};

/// What went wrong on a Vulkan device, named; the source of the [`ContextError`]s of
/// [`WgpuContext`](crate::WgpuContext).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WgpuError {
    /// There is no Vulkan loader, or it knows no device that was asked for.
    #[error("no Vulkan device{}: {}", wanted(.filter.as_deref()), found(.known))]
    NoAdapter {
        /// What its name had to contain.
        filter: Option<String>,
        /// The devices that there are.
        known: Vec<String>,
    },
    /// The device could not be opened, or not with the memory asked for.
    #[error("Vulkan device `{adapter}` does not open: {reason}")]
    Open {
        /// The device's name.
        adapter: String,
        /// Why.
        reason: String,
    },
    /// The device is gone.
    #[error("the Vulkan device is lost: {reason}")]
    Lost {
        /// What the driver said.
        reason: String,
    },
    /// The device has less memory than asked for.
    #[error("out of device memory: {reason}")]
    Memory {
        /// What the driver said.
        reason: String,
    },
    /// The device or its compiler refuses what it was given.
    #[error("{what}: {reason}")]
    Refused {
        /// What it was.
        what: String,
        /// Why.
        reason: String,
    },
    /// A language other than WGSL.
    #[error("kernel `{kernel}` is {language:?}; Vulkan runs WGSL only")]
    Language {
        /// The kernel's id.
        kernel: String,
        /// Its language.
        language: Language,
    },
    /// The launch has another block than the schedule.
    #[error("kernel `{kernel}` was prepared for workgroups of {prepared:?} and launched with {launched:?}")]
    Block {
        /// The kernel's id.
        kernel: String,
        /// The schedule's block.
        prepared: [u32; 3],
        /// The launch's block.
        launched: [u32; 3],
    },
    /// More bytes than the view has.
    #[error("{bytes} bytes do not fit a view of {view_bytes}")]
    ViewBytes {
        /// Bytes given or wanted.
        bytes: u64,
        /// Bytes of the view.
        view_bytes: u64,
    },
    /// A binding that Vulkan, as WebGPU has it, cannot make.
    #[error("kernel `{kernel}`, binding {group}.{binding}: {reason}")]
    Binding {
        /// The kernel's id.
        kernel: String,
        /// Bind group.
        group: u32,
        /// Binding.
        binding: u32,
        /// Why.
        reason: String,
    },
    /// Arguments that do not fit the kernel.
    #[error("kernel `{kernel}`: {source}")]
    Bind {
        /// The kernel's id.
        kernel: String,
        /// What does not fit.
        source: BindError,
    },
}

fn wanted(filter: Option<&str>) -> String {
    filter.map_or_else(String::new, |name| format!(" named like `{name}`"))
}

fn found(known: &[String]) -> String {
    if known.is_empty() {
        "the Vulkan loader is missing or knows none".to_owned()
    } else {
        format!("there are: {}", known.join(", "))
    }
}

impl WgpuError {
    /// As the context error of `operation`.
    pub(super) fn during(self, operation: &'static str) -> ContextError {
        let kind = match self {
            Self::NoAdapter { .. } | Self::Open { .. } => ContextErrorKind::Unavailable,
            Self::Lost { .. } => ContextErrorKind::DeviceLost,
            Self::Memory { .. } => ContextErrorKind::OutOfMemory,
            Self::Refused { .. } => ContextErrorKind::Kernel,
            Self::Language { .. } | Self::Binding { .. } => ContextErrorKind::Unsupported,
            Self::Block { .. } | Self::ViewBytes { .. } | Self::Bind { .. } => ContextErrorKind::Misuse,
        };
        ContextError::new(kind, operation, self)
    }
}

pub(super) fn schedule_error(operation: &'static str, error: ScheduleError) -> ContextError {
    ContextError::new(ContextErrorKind::Misuse, operation, error)
}

pub(super) fn bind_error(operation: &'static str, spec: &KernelSpec, source: BindError) -> ContextError {
    WgpuError::Bind { kernel: spec.id().to_owned(), source }.during(operation)
}
