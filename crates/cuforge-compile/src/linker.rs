//! A loaded nvJitLink: PTX to a cubin in user space, for drivers that are older than the PTX.

use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use cuforge_core::DriverVersion;

use crate::build_id;
use crate::engine::Identity;
use crate::error::CompileError;
use crate::ffi::nvjitlink::Table;
use crate::policy::newest_ptx_for;
use crate::ptx_header::PtxVersion;

/// nvJitLink, loaded by absolute path.
///
/// ```no_run
/// use cuforge_compile::{Linker, SearchPaths};
/// let found = SearchPaths::default().find();
/// let path = found.candidates.iter().find_map(|candidate| candidate.nvjitlink.as_deref());
/// let linker = Linker::load(path.ok_or("no nvJitLink here")?)?;
/// let (cubin, log) = linker.link("k.ptx", ".version 8.0\n.target sm_90\n", "sm_90")?;
/// # let _ = (cubin, log);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Linker {
    table: Table,
    identity: Identity,
    library: PathBuf,
}

/// A linker that is loaded when it is first needed, or none.
#[derive(Debug, Default)]
pub(crate) struct OnDemand {
    library: Option<PathBuf>,
    loaded: OnceLock<Option<Linker>>,
}

impl OnDemand {
    pub(crate) fn at(library: Option<PathBuf>) -> Self {
        Self { library, loaded: OnceLock::new() }
    }

    /// The linker; one that cannot be loaded is none, with a warning.
    pub(crate) fn get(&self) -> Option<&Linker> {
        let load = |library: &PathBuf| match Linker::load(library) {
            Ok(linker) => Some(linker),
            Err(error) => {
                tracing::warn!(%error, "nvJitLink was found but cannot be used");
                None
            }
        };
        self.loaded.get_or_init(|| self.library.as_ref().and_then(load)).as_ref()
    }
}

impl From<Option<Linker>> for OnDemand {
    fn from(linker: Option<Linker>) -> Self {
        Self { library: None, loaded: OnceLock::from(linker) }
    }
}

impl Linker {
    /// Loads this library.
    ///
    /// # Errors
    ///
    /// [`CompileError::LinkerUnusable`] if it cannot be loaded or lacks a function.
    pub fn load(library: &Path) -> Result<Self, CompileError> {
        let unusable = |reason: String| CompileError::LinkerUnusable { reason };
        let build =
            build_id::of_file(library).map_err(|e| unusable(format!("{}: {e}", library.display())))?;
        let table = Table::load(library).map_err(|error| unusable(error.to_string()))?;
        let identity = Identity { kind: "nvjitlink".to_owned(), version: table.version(), build };
        Ok(Self { table, identity, library: library.to_path_buf() })
    }

    /// Who it is.
    pub const fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The library's path.
    pub fn library(&self) -> &Path {
        &self.library
    }

    /// The newest PTX that it takes.
    pub fn newest_ptx(&self) -> Option<PtxVersion> {
        let part = |number: u32| u16::try_from(number).unwrap_or(u16::MAX);
        let (major, minor) = self.identity.version;
        newest_ptx_for(DriverVersion { major: part(major), minor: part(minor) })
    }

    /// The cubin of `ptx` for `architecture` (`sm_90a`), and the linker's log.
    ///
    /// # Errors
    ///
    /// [`CompileError::Call`] with the linker's whole log; [`CompileError::NulByte`].
    pub fn link(&self, name: &str, ptx: &str, architecture: &str) -> Result<(Vec<u8>, String), CompileError> {
        let text = |what, text: &str| {
            CString::new(text).map_err(|error| CompileError::NulByte { what, at: error.nul_position() })
        };
        let options = [text("architecture", &format!("-arch={architecture}"))?];
        let linked = self.table.link(&text("name", name)?, &text("ptx", ptx)?, &options);
        let log = String::from_utf8_lossy(&linked.log).trim_end_matches('\0').to_owned();
        if linked.code != 0 {
            let text = format!("nvJitLink error {}", linked.code);
            return Err(CompileError::Call { call: linked.call, code: linked.code, text, log });
        }
        Ok((linked.cubin, log))
    }
}
