//! What the suite reports: which promise was broken, and by which calls.

use alloc::string::String;
use core::fmt;

/// A broken promise of the allocator contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The promise, in a few words.
    pub promise: &'static str,
    /// What happened instead.
    pub detail: String,
    /// The calls that lead there, one a line; empty if `detail` says it all.
    pub calls: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "broken promise: {}\n  {}", self.promise, self.detail)?;
        if !self.calls.is_empty() {
            write!(f, "\n  after these calls:\n{}", self.calls)?;
        }
        Ok(())
    }
}

impl core::error::Error for Violation {}

/// `Ok` if `kept`, else the violation with its detail written.
pub(crate) fn promise(
    kept: bool,
    promise: &'static str,
    detail: impl FnOnce() -> String,
) -> Result<(), Violation> {
    if kept { Ok(()) } else { Err(Violation { promise, detail: detail(), calls: String::new() }) }
}
