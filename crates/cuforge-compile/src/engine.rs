//! What turns a finished job into images: the seam between the cache and whatever compiles.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::error::CompileError;

/// Who a compiler is, exactly enough that two with equal identity give equal bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// What it is: `nvrtc`, or a name of one's own.
    pub kind: String,
    /// Major and minor version.
    pub version: (u32, u32),
    /// Build of the compiler and of what it loads: a build id or a digest of the files.
    pub build: String,
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}.{} ({})", self.kind, self.version.0, self.version.1, self.build)
    }
}

/// One compilation as the compiler sees it: nothing left to decide.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Job {
    /// File name for messages; never opened.
    pub name: String,
    /// The source text.
    pub source: Arc<str>,
    /// All options in order, in the operating system's encoding.
    pub options: Vec<Vec<u8>>,
    /// In-memory headers: the name as an include directive writes it, and the text.
    pub headers: Vec<(String, Arc<str>)>,
    /// Name expressions whose lowered names are wanted.
    pub name_expressions: Vec<String>,
}

/// What a compilation gives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// PTX text without its terminating zero, if there is any.
    pub ptx: Option<String>,
    /// The cubin, if the target is a real one.
    pub cubin: Option<Vec<u8>>,
    /// The compiler's log; often not empty after a success.
    pub log: String,
    /// Lowered names in the order of the name expressions.
    pub lowered: Vec<String>,
}

/// Bounds on one compilation.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// Wall-clock limit; none by default.
    pub time: Option<Duration>,
    /// Ends the compilation when it is cancelled.
    pub cancel: Option<CancelToken>,
}

/// A shared flag that ends the compilations it was handed to.
///
/// ```
/// use cuforge_compile::CancelToken;
/// let token = CancelToken::default();
/// let other = token.clone();
/// other.cancel();
/// assert!(token.is_cancelled());
/// ```
#[derive(Clone, Debug, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// Sets the flag; it stays set.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether the flag is set.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// A compiler. [`Nvrtc`](crate::Nvrtc) is one in this process, and [`HelperPool`](crate::HelperPool) runs it in others.
///
/// Implement it to put the cache before a compiler of your own. The cache trusts two things: equal identity and equal
/// job give an equally good result, and a failure says whose fault it is.
///
/// ```
/// use cuforge_compile::{CompileError, Engine, Identity, Job, Limits, Output};
///
/// #[derive(Debug)]
/// struct Echo(Identity);
/// impl Engine for Echo {
///     fn identity(&self) -> &Identity { &self.0 }
///     fn supported_archs(&self) -> &[u32] { &[90] }
///     fn run(&self, job: &Job, _limits: &Limits) -> Result<Output, CompileError> {
///         Ok(Output { ptx: Some(job.source.to_string()), ..Output::default() })
///     }
/// }
/// ```
pub trait Engine: Send + Sync + fmt::Debug {
    /// Who it is; part of every key.
    fn identity(&self) -> &Identity;

    /// The architectures it lists, as in `nvrtcGetSupportedArchs` (90 for `sm_90`).
    fn supported_archs(&self) -> &[u32];

    /// Compiles one job; blocks until it is done or a limit ends it.
    ///
    /// # Errors
    ///
    /// Any [`CompileError`]; a source that does not compile is [`CompileError::Source`] with the whole log.
    fn run(&self, job: &Job, limits: &Limits) -> Result<Output, CompileError>;
}

impl<E: Engine + ?Sized> Engine for Arc<E> {
    fn identity(&self) -> &Identity {
        (**self).identity()
    }

    fn supported_archs(&self) -> &[u32] {
        (**self).supported_archs()
    }

    fn run(&self, job: &Job, limits: &Limits) -> Result<Output, CompileError> {
        (**self).run(job, limits)
    }
}
