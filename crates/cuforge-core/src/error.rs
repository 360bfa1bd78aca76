//! The one error that travels across the trait seams.

use alloc::boxed::Box;
use core::error::Error;
use core::fmt;

/// What kind of thing went wrong, for code that decides what to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ContextErrorKind {
    /// The caller's code is wrong: a missing binding, a wrong size, an unknown constant, a stale view.
    Misuse,
    /// The kernel's text is wrong: it does not compile, parse or load.
    Kernel,
    /// Memory for this is not there now.
    OutOfMemory,
    /// This backend cannot do it, and says what.
    Unsupported,
    /// Something that must be installed is not there: a driver, a device, NVRTC.
    Unavailable,
    /// The kernel did something illegal on the device: out of bounds, a race, a divergent barrier, no end.
    Fault,
    /// The device is lost for this process.
    DeviceLost,
    /// The system failed: I/O, a helper process.
    System,
}

/// An error of a backend: its kind, the operation that met it, and the backend's own error.
///
/// ```
/// use cuforge_core::{ContextError, ContextErrorKind};
/// let error = ContextError::new(ContextErrorKind::Misuse, "bind", "missing buffer `x`");
/// assert_eq!(error.to_string(), "bind: missing buffer `x`");
/// ```
#[derive(Debug)]
pub struct ContextError {
    kind: ContextErrorKind,
    operation: &'static str,
    source: Box<dyn Error + Send + Sync>,
}

impl ContextError {
    /// An error of `kind` that `operation` met.
    pub fn new(
        kind: ContextErrorKind,
        operation: &'static str,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        Self { kind, operation, source: source.into() }
    }

    /// What kind of thing went wrong.
    pub fn kind(&self) -> ContextErrorKind {
        self.kind
    }

    /// The operation that met it.
    pub fn operation(&self) -> &'static str {
        self.operation
    }
}

impl fmt::Display for ContextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.operation, self.source)
    }
}

impl Error for ContextError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.source)
    }
}
