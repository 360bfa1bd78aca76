//! This crate's errors in the terms of the compiler trait.

use cuforge_core::{CompileFailure, CompileFailureKind};

use crate::error::CompileError;

impl From<CompileError> for CompileFailure {
    fn from(error: CompileError) -> Self {
        let kind = match &error {
            CompileError::Source { .. } | CompileError::Ptx { .. } => CompileFailureKind::Source,
            CompileError::Target { .. } | CompileError::Unloadable { .. } => CompileFailureKind::Target,
            CompileError::NvrtcNotFound { .. }
            | CompileError::NvrtcUnusable { .. }
            | CompileError::PatchConflict { .. }
            | CompileError::Bundle { .. }
            | CompileError::LinkerUnusable { .. } => CompileFailureKind::Unavailable,
            CompileError::TimedOut { .. } | CompileError::Cancelled => CompileFailureKind::Cancelled,
            CompileError::Call { .. } | CompileError::Helper { .. } => CompileFailureKind::Internal,
            _ => CompileFailureKind::Request,
        };
        // The log travels apart from the line that says what went wrong.
        let message = match &error {
            CompileError::Source { name, .. } => format!("compilation of {name} failed"),
            CompileError::InvalidOption { .. } => "option refused by the compiler".to_owned(),
            CompileError::Call { call, code, text, .. } => format!("{call} answered {code} ({text})"),
            other => other.to_string(),
        };
        let log = error.log().unwrap_or_default().to_owned();
        Self::new(kind, message).with_log(log)
    }
}
