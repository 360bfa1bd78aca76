//! What can go wrong between a source text and a module image.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::locate::Looked;

/// Every way in which this crate can fail.
///
/// [`CompileError::is_misuse`] tells a request that can never work from a machine that lacks something.
///
/// ```
/// use cuforge_compile::{CompileError, Nvrtc, SearchPaths};
/// let error = Nvrtc::find(&SearchPaths::only(["/nowhere"])).unwrap_err();
/// assert!(matches!(error, CompileError::NvrtcNotFound { .. }));
/// assert!(error.to_string().contains("/nowhere"));
/// ```
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// No usable NVRTC: every place that was searched, and what was wrong there.
    #[error("no nvrtc{} found; looked in: {}", version_text(*wanted), list(looked))]
    NvrtcNotFound {
        /// The version that was asked for, if any.
        wanted: Option<(u32, u32)>,
        /// Where it looked.
        looked: Vec<Looked>,
    },
    /// A library that was named cannot be loaded or answers its first query with an error.
    #[error("nvrtc cannot be used: {reason}")]
    NvrtcUnusable {
        /// The library.
        library: PathBuf,
        /// The loader's or the library's own words.
        reason: String,
    },
    /// Another patch release of the same NVRTC version is loaded in this process; the two would share one builtins
    /// library.
    #[error(
        "{} is nvrtc {}.{}, and another build of that version is loaded in this process: {}",
        refused.display(), version.0, version.1, loaded.display()
    )]
    PatchConflict {
        /// The library that was not loaded.
        refused: PathBuf,
        /// The one that is.
        loaded: PathBuf,
        /// Their common major and minor version.
        version: (u32, u32),
    },
    /// No nvJitLink: the PTX cannot be linked in user space.
    #[error("nvjitlink cannot be used: {reason}")]
    LinkerUnusable {
        /// Why.
        reason: String,
    },
    /// The source does not compile. The log is the compiler's, whole, with the file name of the request.
    #[error("compilation of {name} failed:\n{log}")]
    Source {
        /// The file name that the request gave.
        name: String,
        /// The compiler's whole log.
        log: String,
    },
    /// The compiler refuses an option.
    #[error("option refused by the compiler: {log}")]
    InvalidOption {
        /// The options as they were passed, in order.
        options: Vec<String>,
        /// The compiler's log, which names the option.
        log: String,
    },
    /// A call failed for a reason that is not the source's (out of memory, builtins not loadable, internal error).
    #[error("{call} answered {code} ({text}){}", log_text(log))]
    Call {
        /// The function.
        call: &'static str,
        /// Its result code.
        code: i32,
        /// The library's text for the code.
        text: String,
        /// The log, if there was one.
        log: String,
    },
    /// An option that this crate owns, or that would make the result depend on what no key can hold.
    #[error("option {option:?} is not accepted: {why}")]
    OptionRefused {
        /// The option as given.
        option: String,
        /// What to use in its place, or what is wrong with it.
        why: &'static str,
    },
    /// Text for the compiler holds a zero byte.
    #[error("{what} holds a zero byte at byte {at}")]
    NulByte {
        /// Which text: `source`, `option`, `header name`, ...
        what: &'static str,
        /// Offset of the byte.
        at: usize,
    },
    /// The target architecture is not one that this compiler (or any driver) can produce code for.
    #[error("no code for {wanted} with this compiler, which supports {supported}: {why}")]
    Target {
        /// The target as written, for example `sm_101a`.
        wanted: String,
        /// What the library lists.
        supported: String,
        /// Which rule refused it.
        why: &'static str,
    },
    /// Hand-written PTX that cannot be used as it is.
    #[error("ptx line {line}: {reason}")]
    Ptx {
        /// 1-based line.
        line: u32,
        /// What is wrong.
        reason: String,
    },
    /// There is code, but no form of it that this driver would load: every form that was tried, and what was wrong.
    #[error("nothing that the driver would load for {target}: {}", tried.join("; "))]
    Unloadable {
        /// The target.
        target: String,
        /// Each form and its reason, in the order of preference.
        tried: Vec<String>,
    },
    /// A bundle of compiled kernels cannot be read or written.
    #[error("bundle {}: {reason}", path.display())]
    Bundle {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The compilation ran past its time limit.
    #[error("compilation took longer than its limit of {} ms", limit.as_millis())]
    TimedOut {
        /// The limit.
        limit: Duration,
    },
    /// The compilation was cancelled.
    #[error("compilation was cancelled")]
    Cancelled,
    /// A compiler that runs outside this process failed as a process.
    #[error("helper process {}: {reason}", helper.display())]
    Helper {
        /// The helper binary.
        helper: PathBuf,
        /// What happened.
        reason: String,
    },
    /// The request is wrong in a way that no other variant names.
    #[error("bad request: {0}")]
    Request(&'static str),
}

impl CompileError {
    /// Whether the request itself is wrong: no other machine or moment would help.
    pub const fn is_misuse(&self) -> bool {
        matches!(
            self,
            Self::Source { .. }
                | Self::InvalidOption { .. }
                | Self::OptionRefused { .. }
                | Self::NulByte { .. }
                | Self::Ptx { .. }
                | Self::Request(_)
        )
    }

    /// The compiler's log, if the failure has one.
    pub fn log(&self) -> Option<&str> {
        match self {
            Self::Source { log, .. } | Self::InvalidOption { log, .. } | Self::Call { log, .. } => Some(log),
            _ => None,
        }
    }
}

fn version_text(version: Option<(u32, u32)>) -> String {
    version.map(|(major, minor)| format!(" {major}.{minor}")).unwrap_or_default()
}

fn list<T: fmt::Display>(items: &[T]) -> String {
    let texts: Vec<String> = items.iter().map(ToString::to_string).collect();
    if texts.is_empty() { "nowhere".to_owned() } else { texts.join("; ") }
}

fn log_text(log: &str) -> String {
    if log.is_empty() { String::new() } else { format!(":\n{log}") }
}
