//! The compiler trait, and requests and failures in its terms.

use crate::context::BuildOptions;
use crate::image::ModuleImage;
use crate::kernel::{KernelSpec, Language};
use crate::schedule::Schedule;
use crate::schedule_error::ScheduleError;
use crate::target::Target;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Options of a compilation; their order is kept where it means something.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CompileOptions {
    /// Approximate functions, flush to zero, contraction. Default off.
    pub fast_math: bool,
    /// Contract multiply and add to FMA; `None` is the compiler's default (on).
    pub fmad: Option<bool>,
    /// Flush subnormals to zero; `None` is the compiler's default (off without fast math).
    pub flush_to_zero: Option<bool>,
    /// Registers a thread at most.
    pub max_registers: Option<u32>,
    /// Keep source lines in the code.
    pub line_info: bool,
    /// Defines, name and value, in order.
    pub defines: Vec<(String, String)>,
    /// Name expressions whose lowered names are wanted.
    pub name_expressions: Vec<String>,
    /// Headers in memory: the name as included, and the text.
    pub headers: Vec<(String, String)>,
    /// Folders to look for headers in, in order.
    pub include_folders: Vec<String>,
    /// Raw options, passed as they are, last.
    pub raw: Vec<String>,
}

/// One compilation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CompileRequest {
    /// The file name that diagnostics show.
    pub name: String,
    /// The text.
    pub source: Arc<str>,
    /// Its language: CUDA C or PTX.
    pub language: Language,
    /// What to make code for.
    pub target: Target,
    /// How.
    pub options: CompileOptions,
}

impl CompileRequest {
    /// CUDA C with default options.
    pub fn cuda_c(name: impl Into<String>, source: impl Into<Arc<str>>, target: Target) -> Self {
        Self {
            name: name.into(),
            source: source.into(),
            language: Language::CudaC,
            target,
            options: CompileOptions::default(),
        }
    }

    /// What to compile for a CUDA C kernel under a schedule: the request that every backend makes, so that an image made
    /// for one of them answers the others too.
    ///
    /// # Errors
    /// A schedule that the kernel does not take.
    pub fn for_kernel(
        spec: &KernelSpec,
        schedule: &Schedule,
        options: &BuildOptions,
        target: Target,
    ) -> Result<Self, ScheduleError> {
        let compile = CompileOptions {
            fast_math: options.fast_math,
            fmad: (!options.fmad).then_some(false),
            defines: spec.defines(schedule)?,
            ..CompileOptions::default()
        };
        let source = Arc::from(&*spec.body().text);
        let name = alloc::format!("{}.cu", spec.id());
        Ok(Self { name, source, language: Language::CudaC, target, options: compile })
    }

    /// PTX, to be checked against the target.
    pub fn ptx(name: impl Into<String>, text: impl Into<Arc<str>>, target: Target) -> Self {
        Self { language: Language::Ptx, ..Self::cuda_c(name, text, target) }
    }

    /// With other options.
    #[must_use]
    pub fn with_options(mut self, options: CompileOptions) -> Self {
        self.options = options;
        self
    }
}

/// What kind of failure a compilation met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CompileFailureKind {
    /// The source has errors; the log says where.
    Source,
    /// The request itself is wrong: an option, a NUL byte, a language that this compiler does not take.
    Request,
    /// The compiler does not know the target, or the target cannot run the code.
    Target,
    /// There is no compiler: NVRTC was not found or does not load.
    Unavailable,
    /// Cancelled, or over its time limit.
    Cancelled,
    /// The compiler failed for a reason of its own (out of memory, internal error, crash of a helper process).
    Internal,
}

/// A failed compilation, with the compiler's whole log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}{}{log}", if log.is_empty() { "" } else { "\n" })]
pub struct CompileFailure {
    /// What kind.
    pub kind: CompileFailureKind,
    /// One line that says what went wrong.
    pub message: String,
    /// The compiler's log, whole; empty if it said nothing.
    pub log: String,
}

impl CompileFailure {
    /// A failure without a log.
    pub fn new(kind: CompileFailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), log: String::new() }
    }

    /// With the compiler's log.
    #[must_use]
    pub fn with_log(mut self, log: impl Into<String>) -> Self {
        self.log = log.into();
        self
    }
}

/// Turns requests into images; usable from any thread. Cached or not is the implementor's business, wrong never.
pub trait KernelCompiler: Send + Sync {
    /// The image for `request`. May take as long as a compilation.
    ///
    /// # Errors
    /// A [`CompileFailure`].
    fn compile(&self, request: &CompileRequest) -> Result<Arc<ModuleImage>, CompileFailure>;

    /// Tells the compiler that a driver rejected `image`, and why, so that it does not serve the image there again.
    fn reject(&self, image: &ModuleImage, why: &str);
}

const _: fn(&dyn KernelCompiler) = |_| {};
