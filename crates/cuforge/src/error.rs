//! What can go wrong in a session: the parts' own errors, and what wiring them together can miss.

use cuforge_compile::CompileError;
use cuforge_core::{
    CompileFailure, CompileFailureKind, ContextError, ContextErrorKind, Language, ScheduleError,
};
use cuforge_launch::LaunchError;
use cuforge_slab::BuildError;

/// Every failure of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The launcher's: no driver, no device, misuse, faults.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// The source does not compile; the log is whole.
    #[error(transparent)]
    Compile(CompileFailure),
    /// The kernel is CUDA C and there is no compiler.
    #[error("kernel `{kernel}` is CUDA C and there is no compiler: {source}")]
    NoCompiler {
        /// The kernel.
        kernel: String,
        /// Where NVRTC was looked for.
        source: CompileError,
    },
    /// The kernel's language is not one that this build emits.
    #[error("kernel `{kernel}` is {language:?}, which this build does not emit")]
    Language {
        /// The kernel.
        kernel: String,
        /// Its language.
        language: Language,
    },
    /// The schedule does not fit the kernel.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// The slab's size does not make an allocator.
    #[error(transparent)]
    Allocator(#[from] BuildError),
}

impl SessionError {
    /// What kind of thing went wrong, in the words that cross the crates' seams.
    pub fn kind(&self) -> ContextErrorKind {
        match self {
            Self::Launch(error) => error.kind(),
            Self::Compile(failure) => match failure.kind {
                CompileFailureKind::Source => ContextErrorKind::Kernel,
                CompileFailureKind::Request => ContextErrorKind::Misuse,
                CompileFailureKind::Target => ContextErrorKind::Unsupported,
                CompileFailureKind::Unavailable => ContextErrorKind::Unavailable,
                _ => ContextErrorKind::System,
            },
            Self::NoCompiler { .. } => ContextErrorKind::Unavailable,
            Self::Language { .. } => ContextErrorKind::Unsupported,
            Self::Schedule(_) | Self::Allocator(_) => ContextErrorKind::Misuse,
        }
    }

    /// This error as it crosses the crates' seams.
    pub fn during(self, operation: &'static str) -> ContextError {
        ContextError::new(self.kind(), operation, self)
    }
}
