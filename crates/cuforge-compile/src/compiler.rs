//! The compiler that the other crates use: requests in, module images out.

use std::path::PathBuf;
use std::sync::Arc;

use cuforge_core::{
    CompileFailure, CompileFailureKind, CompileRequest, Digest, KernelCompiler, Language, ModuleImage,
};
use sha2::{Digest as _, Sha256};

use crate::engine::{Engine, Job, Limits, Output};
use crate::error::CompileError;
use crate::locate::SearchPaths;
use crate::nvrtc::Nvrtc;
use crate::options;
use crate::policy::{self, Architecture};
use crate::ptx_header::PtxHeader;

/// Compiles CUDA C with an [`Engine`] and checks hand-written PTX.
///
/// ```no_run
/// use cuforge_compile::{Compiler, SearchPaths};
/// use cuforge_core::{CompileRequest, ComputeCapability, KernelCompiler, Target};
///
/// let compiler = Compiler::find(&SearchPaths::default())?;
/// let target = Target::new(ComputeCapability { major: 9, minor: 0 });
/// let source = "extern \"C\" __global__ void one(float *x) { *x = 1.0f; }";
/// let image = compiler.compile(&CompileRequest::cuda_c("one.cu", source, target))?;
/// assert_eq!(image.entry_points, ["one"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Compiler {
    engine: Arc<dyn Engine>,
    /// Header folders that belong to the compiler.
    include_dirs: Vec<PathBuf>,
    limits: Limits,
}

impl Compiler {
    /// With the best NVRTC that a search finds, and the headers that belong to it.
    ///
    /// # Errors
    ///
    /// As [`Nvrtc::find`].
    pub fn find(paths: &SearchPaths) -> Result<Self, CompileError> {
        Ok(Self::with_nvrtc(Nvrtc::find(paths)?))
    }

    /// With this NVRTC and the headers that belong to it.
    pub fn with_nvrtc(nvrtc: Nvrtc) -> Self {
        let include_dirs = nvrtc.include_dirs().to_vec();
        Self::with_engine(Arc::new(nvrtc), include_dirs)
    }

    /// With any engine; `include_dirs` are searched for headers after those of a request.
    pub fn with_engine(engine: Arc<dyn Engine>, include_dirs: Vec<PathBuf>) -> Self {
        Self { engine, include_dirs, limits: Limits::default() }
    }

    /// With bounds on every compilation.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The engine.
    pub fn engine(&self) -> &dyn Engine {
        &*self.engine
    }

    /// As [`KernelCompiler::compile`], with this crate's own errors.
    ///
    /// # Errors
    ///
    /// Any [`CompileError`].
    pub fn image(&self, request: &CompileRequest) -> Result<Arc<ModuleImage>, CompileError> {
        let image = match request.language {
            Language::CudaC => self.cuda_c(request)?,
            Language::Ptx => ptx(request)?,
            _ => return Err(CompileError::Request("only CUDA C and PTX can be compiled")),
        };
        Ok(Arc::new(image))
    }

    fn cuda_c(&self, request: &CompileRequest) -> Result<ModuleImage, CompileError> {
        let identity = self.engine.identity();
        let architecture =
            policy::architecture(&request.target, self.engine.supported_archs(), identity.version)?;
        let dirs = mentions_include(request).then(|| self.include_dirs_for(request));
        let (mut name, mut source) = (request.name.clone(), Arc::clone(&request.source));
        if dirs.is_some() {
            let (unplaced_name, unplaced_source) = options::unplaced(&name, &source);
            (name, source) = (unplaced_name, unplaced_source.into());
        }
        let options =
            options::effective(&architecture.name, &request.options, dirs.as_deref(), identity.version)?;
        let job = Job {
            name,
            source,
            options,
            headers: request.options.headers.iter().map(|(n, t)| (n.clone(), t.as_str().into())).collect(),
            name_expressions: request.options.name_expressions.clone(),
        };
        let output = self.engine.run(&job, &self.limits).map_err(|error| placed(request, error))?;
        let compiler = format!("NVRTC {}.{}", identity.version.0, identity.version.1);
        built_image(request, &architecture, output, compiler)
    }

    /// The folders of the request, then those of the compiler.
    fn include_dirs_for(&self, request: &CompileRequest) -> Vec<PathBuf> {
        let own = request.options.include_folders.iter().map(PathBuf::from);
        own.chain(self.include_dirs.iter().cloned()).collect()
    }
}

impl KernelCompiler for Compiler {
    fn compile(&self, request: &CompileRequest) -> Result<Arc<ModuleImage>, CompileFailure> {
        self.image(request).map_err(CompileFailure::from)
    }

    fn reject(&self, image: &ModuleImage, why: &str) {
        tracing::warn!(digest = %image.digest, target = %image.target, why, "image rejected by a driver");
    }
}

/// Whether any text of the request could hold an include directive; a word in a comment counts as one.
fn mentions_include(request: &CompileRequest) -> bool {
    let headers = request.options.headers.iter().map(|(_, text)| text.as_str());
    let mut texts = headers.chain([&*request.source]);
    // A line splice may stand inside the word.
    texts.any(|text| text.contains("include") || text.contains("\\\n") || text.contains("\\\r\n"))
}

/// The failure with the name that the user knows.
fn placed(request: &CompileRequest, error: CompileError) -> CompileError {
    match error {
        CompileError::Source { log, .. } => {
            CompileError::Source { name: request.name.clone(), log: options::placed_log(&log) }
        }
        CompileError::Call { call, code, text, log } => {
            CompileError::Call { call, code, text, log: options::placed_log(&log) }
        }
        other => other,
    }
}

fn built_image(
    request: &CompileRequest,
    architecture: &Architecture,
    output: Output,
    compiler: String,
) -> Result<ModuleImage, CompileError> {
    let entry_points = match &output.ptx {
        Some(ptx) => PtxHeader::parse(ptx)?.entry_points,
        None => Vec::new(),
    };
    let form = if architecture.real && output.cubin.is_some() { "cubin with PTX kept" } else { "PTX" };
    let names = request.options.name_expressions.iter().cloned();
    let digest = digest(output.cubin.as_deref(), output.ptx.as_deref());
    Ok(ModuleImage {
        cubin: output.cubin.map(Into::into),
        ptx: output.ptx.map(Into::into),
        entry_points,
        lowered_names: names.zip(output.lowered).collect(),
        target: request.target,
        decision: format!("{form} for {}: {}", architecture.name, architecture.reason),
        compiler,
        log: options::placed_log(&output.log),
        digest,
    })
}

/// Checks hand-written PTX against the target; the text itself is left as it is.
fn ptx(request: &CompileRequest) -> Result<ModuleImage, CompileError> {
    let options = &request.options;
    let text_options =
        [options.defines.len(), options.headers.len(), options.name_expressions.len(), options.raw.len()];
    if text_options.iter().any(|&len| len != 0) {
        return Err(CompileError::Request("PTX takes no defines, headers, name expressions or raw options"));
    }
    let header = PtxHeader::parse(&request.source)?;
    if let Some(why) = header.unfit(request.target.capability) {
        let reason = format!("target {} does not run on {}: {why}", header.target(), request.target);
        return Err(CompileError::Ptx { line: header.target_line, reason });
    }
    let newest = request.target.driver.map(|driver| (driver, policy::newest_ptx_for(driver)));
    if let Some((driver, newest)) = newest
        && newest.is_none_or(|newest| header.version > newest)
    {
        let reason = format!("version {} is newer than a CUDA {driver} driver loads", header.version);
        return Err(CompileError::Ptx { line: header.version_line, reason });
    }
    Ok(ModuleImage {
        cubin: None,
        ptx: Some(Arc::clone(&request.source)),
        entry_points: header.entry_points,
        lowered_names: Vec::new(),
        target: request.target,
        decision: format!("hand-written PTX {} for sm_{}, left as it is", header.version, header.sm),
        compiler: "hand-written PTX".to_owned(),
        log: String::new(),
        digest: digest(None, Some(&request.source)),
    })
}

fn digest(cubin: Option<&[u8]>, ptx: Option<&str>) -> Digest {
    let mut hasher = Sha256::new();
    for part in [cubin.unwrap_or_default(), ptx.unwrap_or_default().as_bytes()] {
        hasher.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
        hasher.update(part);
    }
    Digest(hasher.finalize().into())
}

impl From<CompileError> for CompileFailure {
    fn from(error: CompileError) -> Self {
        let kind = match &error {
            CompileError::Source { .. } | CompileError::Ptx { .. } => CompileFailureKind::Source,
            CompileError::Target { .. } => CompileFailureKind::Target,
            CompileError::NvrtcNotFound { .. }
            | CompileError::NvrtcUnusable { .. }
            | CompileError::PatchConflict { .. }
            | CompileError::LinkerUnusable { .. } => CompileFailureKind::Unavailable,
            CompileError::TimedOut { .. } | CompileError::Cancelled => CompileFailureKind::Cancelled,
            CompileError::Call { .. } | CompileError::Helper { .. } => CompileFailureKind::Internal,
            _ => CompileFailureKind::Request,
        };
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
