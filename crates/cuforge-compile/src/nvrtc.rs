//! A loaded NVRTC: version, build, supported architectures, and compilations in this process.

use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

use crate::build_id;
use crate::engine::{Engine, Identity, Job, Limits, Output};
use crate::error::CompileError;
use crate::ffi::nvrtc::{self as ffi, Outcome, Stop, Table};
use crate::locate::{Candidate, Found, SearchPaths};

/// The kind in its [`Identity`].
pub(crate) const KIND: &str = "nvrtc";
/// `NVRTC_ERROR_INVALID_OPTION`.
const INVALID_OPTION: i32 = 5;
/// `NVRTC_ERROR_COMPILATION`.
const COMPILATION: i32 = 6;
/// `NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID`.
const NAME_EXPRESSION: i32 = 10;

/// Every NVRTC of this process. They are never unloaded, and two patch releases of one version would share the first
/// one's builtins library, so the second is refused.
static LOADED: Mutex<Vec<Arc<Loaded>>> = Mutex::new(Vec::new());

/// NVRTC, loaded by absolute path. Cloning shares it.
///
/// Several versions can be loaded side by side. Compilations from several threads are safe; the library serialises
/// much of the work inside one process (use [`HelperPool`](crate::HelperPool) for real parallelism).
///
/// ```no_run
/// use cuforge_compile::{Nvrtc, SearchPaths};
/// let nvrtc = Nvrtc::find(&SearchPaths::default())?;
/// println!("{nvrtc:?} supports {:?}", nvrtc.archs());
/// # Ok::<(), cuforge_compile::CompileError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Nvrtc {
    loaded: Arc<Loaded>,
    includes: Vec<PathBuf>,
}

#[derive(Debug)]
struct Loaded {
    table: Table,
    identity: Identity,
    archs: Vec<u32>,
    candidate: Candidate,
}

impl Nvrtc {
    /// The best NVRTC there is, by the order of [`Origin`](crate::Origin).
    ///
    /// # Errors
    ///
    /// [`CompileError::NvrtcNotFound`] with every place searched and why each library there was refused;
    /// [`CompileError::PatchConflict`] if the best one is another build of a version that is loaded.
    pub fn find(paths: &SearchPaths) -> Result<Self, CompileError> {
        Self::first_usable(paths.find(), None)
    }

    /// The best NVRTC of exactly this major and minor version.
    ///
    /// # Errors
    ///
    /// As [`Nvrtc::find`].
    pub fn find_version(paths: &SearchPaths, major: u32, minor: u32) -> Result<Self, CompileError> {
        Self::first_usable(paths.find(), Some((major, minor)))
    }

    /// Loads this library, its builtins library first.
    ///
    /// # Errors
    ///
    /// [`CompileError::NvrtcUnusable`] if it cannot be loaded or queried, [`CompileError::PatchConflict`] as above.
    pub fn load(candidate: &Candidate) -> Result<Self, CompileError> {
        let unusable =
            |reason: String| CompileError::NvrtcUnusable { library: candidate.library.clone(), reason };
        let build = build_of(candidate)
            .map_err(|error| unusable(format!("{}: {error}", candidate.library.display())))?;
        let mut all = LOADED.lock();
        // Known before anything is opened: the same build from another path, or another build of a version whose
        // number the file names tell.
        if let Some(same) = all.iter().find(|known| known.identity.build == build) {
            return Ok(Self::new(Arc::clone(same), candidate));
        }
        refuse_conflict(&all, candidate, candidate.version)?;
        let builtins = candidate.builtins.as_deref();
        let table = Table::load(&candidate.library, builtins).map_err(|error| unusable(error.to_string()))?;
        let answered =
            |call: &str, code| unusable(format!("{call} answered {code} ({})", table.error_text(code)));
        let version = table.version().map_err(|code| answered("nvrtcVersion", code))?;
        refuse_conflict(&all, candidate, Some(version))?;
        let mut archs = table.supported_archs().map_err(|code| answered("nvrtcGetSupportedArchs", code))?;
        archs.sort_unstable();
        let identity = Identity { kind: KIND.to_owned(), version, build };
        tracing::debug!(compiler = %identity, library = %candidate.library.display(), "nvrtc loaded");
        let loaded = Arc::new(Loaded { table, identity, archs, candidate: candidate.clone() });
        all.push(Arc::clone(&loaded));
        Ok(Self::new(loaded, candidate))
    }

    /// Major and minor version.
    pub fn version(&self) -> (u32, u32) {
        self.loaded.identity.version
    }

    /// The architectures that it supports, ascending (90 for `sm_90`).
    pub fn archs(&self) -> &[u32] {
        &self.loaded.archs
    }

    /// The library's path.
    pub fn library(&self) -> &Path {
        &self.loaded.candidate.library
    }

    /// The candidate it was loaded from.
    pub fn candidate(&self) -> &Candidate {
        &self.loaded.candidate
    }

    /// Folders with CUDA's headers that belong to it; empty if none were found.
    pub fn include_dirs(&self) -> &[PathBuf] {
        &self.includes
    }

    /// Whether CUDA's headers are bundled in the library (13.3 and later).
    pub fn has_bundled_headers(&self) -> bool {
        self.loaded.table.has_bundled_headers()
    }

    /// Unpacks the bundled headers into `folder` (2,400 files, 21 MB, once) and uses them as include folders.
    ///
    /// # Errors
    ///
    /// [`CompileError::Call`] with the library's reason; [`CompileError::Request`] if it has no bundled headers.
    pub fn with_bundled_headers(mut self, folder: &Path) -> Result<Self, CompileError> {
        if !self.has_bundled_headers() {
            return Err(CompileError::Request("this nvrtc has no bundled headers"));
        }
        let path = c_text("header folder", folder.as_os_str().as_encoded_bytes())?;
        self.loaded.table.install_headers(&path).map_err(|(code, text)| CompileError::Call {
            call: "nvrtcInstallBundledHeaders",
            code,
            text,
            log: String::new(),
        })?;
        let core = folder.join("cccl");
        self.includes = vec![folder.to_path_buf()];
        if core.is_dir() {
            self.includes.push(core);
        }
        Ok(self)
    }

    fn new(loaded: Arc<Loaded>, candidate: &Candidate) -> Self {
        Self { loaded, includes: candidate.includes.clone() }
    }

    fn first_usable(found: Found, wanted: Option<(u32, u32)>) -> Result<Self, CompileError> {
        let mut looked = found.looked;
        for candidate in found.candidates {
            if wanted.is_some() && candidate.version.is_some() && candidate.version != wanted {
                continue;
            }
            let refused = match Self::load(&candidate) {
                Ok(nvrtc) if wanted.is_none_or(|version| version == nvrtc.version()) => return Ok(nvrtc),
                Ok(nvrtc) => format!("is version {}.{}", nvrtc.version().0, nvrtc.version().1),
                Err(error @ CompileError::PatchConflict { .. }) => return Err(error),
                Err(error) => error.to_string(),
            };
            let (origin, path) = (candidate.origin, candidate.library);
            looked.push(crate::locate::Looked { origin, path, outcome: refused });
        }
        Err(CompileError::NvrtcNotFound { wanted, looked })
    }
}

impl Engine for Nvrtc {
    fn identity(&self) -> &Identity {
        &self.loaded.identity
    }

    fn supported_archs(&self) -> &[u32] {
        self.archs()
    }

    fn run(&self, job: &Job, limits: &Limits) -> Result<Output, CompileError> {
        let name = c_text("source name", job.name.as_bytes())?;
        let source = c_text("source", job.source.as_bytes())?;
        let mut options = Vec::with_capacity(job.options.len());
        for option in &job.options {
            options.push(c_text("option", option)?);
        }
        let mut headers = Vec::with_capacity(job.headers.len());
        for (header, text) in &job.headers {
            headers.push((c_text("header name", header.as_bytes())?, c_text("header", text.as_bytes())?));
        }
        let mut names = Vec::with_capacity(job.name_expressions.len());
        for expression in &job.name_expressions {
            names.push(c_text("name expression", expression.as_bytes())?);
        }
        let table = &self.loaded.table;
        let stop = Stop::new(limits.time.map(|limit| Instant::now() + limit), limits.cancel.clone());
        let wants_stop = table.can_stop() && (limits.time.is_some() || limits.cancel.is_some());
        let outcome = table.run(&ffi::Job {
            name: &name,
            source: &source,
            headers: &headers,
            options: &options,
            name_expressions: &names,
            stop: wants_stop.then_some(&stop),
        });
        if outcome.code == ffi::SUCCESS {
            Ok(output(outcome))
        } else {
            Err(self.failure(job, limits, outcome))
        }
    }
}

impl Nvrtc {
    fn failure(&self, job: &Job, limits: &Limits, outcome: Outcome) -> CompileError {
        let log = text(outcome.log);
        match outcome.code {
            COMPILATION | NAME_EXPRESSION => CompileError::Source { name: job.name.clone(), log },
            INVALID_OPTION => {
                let options = job.options.iter().map(|o| String::from_utf8_lossy(o).into_owned()).collect();
                CompileError::InvalidOption { options, log }
            }
            ffi::CANCELLED => match limits.time {
                Some(limit) if !limits.cancel.as_ref().is_some_and(|token| token.is_cancelled()) => {
                    CompileError::TimedOut { limit }
                }
                _ => CompileError::Cancelled,
            },
            code => {
                CompileError::Call { call: outcome.call, code, text: self.loaded.table.error_text(code), log }
            }
        }
    }
}

fn output(outcome: Outcome) -> Output {
    let some = |bytes: Vec<u8>| (!bytes.is_empty()).then_some(bytes);
    Output {
        ptx: some(outcome.ptx).map(text),
        cubin: some(outcome.cubin),
        log: text(outcome.log),
        lowered: outcome.lowered,
    }
}

/// Build of the compiler and of its builtins library, which holds half of what it emits.
pub(crate) fn build_of(candidate: &Candidate) -> std::io::Result<String> {
    let mut build = build_id::of_file(&candidate.library)?;
    if let Some(builtins) = &candidate.builtins {
        build.push_str(" builtins ");
        build.push_str(&build_id::of_file(builtins)?);
    }
    Ok(build)
}

fn refuse_conflict(
    all: &[Arc<Loaded>],
    candidate: &Candidate,
    version: Option<(u32, u32)>,
) -> Result<(), CompileError> {
    let Some(version) = version else { return Ok(()) };
    match all.iter().find(|known| known.identity.version == version) {
        Some(known) => Err(CompileError::PatchConflict {
            refused: candidate.library.clone(),
            loaded: known.candidate.library.clone(),
            version,
        }),
        None => Ok(()),
    }
}

fn c_text(what: &'static str, bytes: &[u8]) -> Result<CString, CompileError> {
    CString::new(bytes).map_err(|error| CompileError::NulByte { what, at: error.nul_position() })
}

/// The library's text without its terminating zeros.
fn text(mut bytes: Vec<u8>) -> String {
    while bytes.last() == Some(&0) {
        bytes.pop();
    }
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
