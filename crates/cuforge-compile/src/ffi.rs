//! The foreign calls of this crate: NVRTC and nvJitLink, opened by absolute path, integer result codes, no statics.
//!
//! Nothing outside this folder is unsafe. A library stays loaded until the process ends: NVRTC keeps thread-local and
//! global state that does not survive an unload.
#![allow(unsafe_code)]

pub(crate) mod nvjitlink;
pub(crate) mod nvrtc;

use std::fmt;
use std::path::{Path, PathBuf};

/// Why a library cannot be used.
#[derive(Debug)]
pub(crate) enum OpenError {
    /// The loader refused the file.
    Open { path: PathBuf, source: libloading::Error },
    /// The library lacks a function that every supported version has.
    Symbol { path: PathBuf, name: &'static str },
    /// The library answered a first query with this code.
    Query { path: PathBuf, call: &'static str, code: i32 },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Query { path, call, code } => write!(f, "{}: {call} answered {code}", path.display()),
            Self::Symbol { path, name } => write!(f, "{} has no function {name}", path.display()),
        }
    }
}

impl std::error::Error for OpenError {}

/// Opens a library and never unloads it.
fn open(path: &Path) -> Result<&'static libloading::Library, OpenError> {
    // SAFETY: opening runs the library's initialisers; the path is one that the search rules or the user named as
    // NVIDIA's library, whose initialisers have no requirements on the caller.
    let library = unsafe { libloading::Library::new(path) };
    let library = library.map_err(|source| OpenError::Open { path: path.to_path_buf(), source })?;
    Ok(Box::leak(Box::new(library)))
}

/// The address of `name` as a function pointer of type `T`, if the library exports it.
///
/// # Safety
///
/// `T` must be the `unsafe extern "C" fn` type that the library's header declares for `name`.
unsafe fn lookup<T: Copy + 'static>(library: &'static libloading::Library, name: &str) -> Option<T> {
    // SAFETY: the caller vouches for the type, and the library is never unloaded.
    let symbol = unsafe { library.get::<T>(name.as_bytes()) };
    symbol.ok().map(|symbol| *symbol)
}
