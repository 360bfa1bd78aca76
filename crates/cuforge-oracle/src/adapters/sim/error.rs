//! What goes wrong on the simulated device, and what kind of context error each is.

use cuforge_core::{
    BindError, CompileFailure, CompileFailureKind, ContextError, ContextErrorKind, KernelSpec, Language,
    ScheduleError,
};
use cuforge_sim::ptx::ParseError;
use cuforge_sim::{Fault, LoadError, MemoryError};

/// What went wrong on the simulated device, named; the source of the [`ContextError`]s of [`SimContext`](crate::SimContext).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// The PTX does not parse.
    #[error("malformed PTX of kernel `{kernel}`: {source}")]
    Malformed {
        /// The kernel's id.
        kernel: String,
        /// Where and why.
        source: ParseError,
    },
    /// The PTX uses what the simulated device cannot run.
    #[error("PTX of kernel `{kernel}` does not load: {source}")]
    Load {
        /// The kernel's id.
        kernel: String,
        /// What it is.
        source: LoadError,
    },
    /// The module does not have the entry point that the kernel names.
    #[error("kernel `{kernel}`: its module has no entry `{entry}`, but {}", list(.found))]
    NoEntry {
        /// The kernel's id.
        kernel: String,
        /// The name looked for.
        entry: String,
        /// The names that there are.
        found: Vec<String>,
    },
    /// The PTX is made for a newer device.
    #[error("kernel `{kernel}` is PTX for {target}, the device is sm_{device}")]
    Target {
        /// The kernel's id.
        kernel: String,
        /// The PTX's target.
        target: String,
        /// The device's capability.
        device: u16,
    },
    /// The entry takes other parameters than the kernel declares.
    #[error("kernel `{kernel}` declares {declared} bytes of parameters, its entry takes {taken}")]
    ParameterBytes {
        /// The kernel's id.
        kernel: String,
        /// Bytes that the declared parameters pack to.
        declared: usize,
        /// Bytes that the entry takes.
        taken: usize,
    },
    /// CUDA C without a compiler.
    #[error("kernel `{kernel}` is CUDA C, and this context was given no compiler")]
    NoCompiler {
        /// The kernel's id.
        kernel: String,
    },
    /// A language that is not run here.
    #[error("kernel `{kernel}` is {language:?}, which the simulated device does not run")]
    Language {
        /// The kernel's id.
        kernel: String,
        /// Its language.
        language: Language,
    },
    /// The compiler made an image without PTX.
    #[error("the image of kernel `{kernel}` has no PTX to simulate")]
    NoPtx {
        /// The kernel's id.
        kernel: String,
    },
    /// The launch has another block than the schedule.
    #[error(
        "kernel `{kernel}` was prepared for blocks of {prepared:?} threads and launched with {launched:?}"
    )]
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
    /// Arguments that do not fit the kernel.
    #[error("kernel `{kernel}`: {source}")]
    Bind {
        /// The kernel's id.
        kernel: String,
        /// What does not fit.
        source: BindError,
    },
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "no entry at all".to_owned() } else { format!("`{}`", names.join("`, `")) }
}

pub(super) fn fault(fault: Fault) -> ContextError {
    let kind = match fault {
        Fault::Unsupported { .. } => ContextErrorKind::Unsupported,
        Fault::BadLaunch { .. } => ContextErrorKind::Misuse,
        _ => ContextErrorKind::Fault,
    };
    ContextError::new(kind, "launch", fault)
}

pub(super) fn memory_error(operation: &'static str, error: MemoryError) -> ContextError {
    let kind = match error {
        MemoryError::OutOfMemory { .. } | MemoryError::HostMemory { .. } => ContextErrorKind::OutOfMemory,
        _ => ContextErrorKind::Misuse,
    };
    ContextError::new(kind, operation, error)
}

pub(super) fn schedule_error(operation: &'static str, error: ScheduleError) -> ContextError {
    ContextError::new(ContextErrorKind::Misuse, operation, error)
}

pub(super) fn bind_error(operation: &'static str, spec: &KernelSpec, source: BindError) -> ContextError {
    let error = SimError::Bind { kernel: spec.id().to_owned(), source };
    ContextError::new(ContextErrorKind::Misuse, operation, error)
}

pub(in crate::adapters) fn compile_error(failure: CompileFailure) -> ContextError {
    let kind = match failure.kind {
        CompileFailureKind::Unavailable => ContextErrorKind::Unavailable,
        CompileFailureKind::Source => ContextErrorKind::Kernel,
        CompileFailureKind::Request => ContextErrorKind::Misuse,
        CompileFailureKind::Target => ContextErrorKind::Unsupported,
        _ => ContextErrorKind::System,
    };
    ContextError::new(kind, "compile", failure)
}
