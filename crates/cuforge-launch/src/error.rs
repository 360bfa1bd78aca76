//! What can go wrong between this crate and a driver: misuse apart from environment, codes kept as numbers.

use crate::graph_error::GraphError;
use cuforge_core::{
    BindError, ContextError, ContextErrorKind, DriverVersion, LedgerError, Refusal, ScheduleError, ViewError,
};
use std::fmt;
use std::path::PathBuf;

/// A result code of the driver: the call that answered it, the number, and what the driver says about it. Printing
/// it asks no driver; a code that this driver does not know is kept as its number.
///
/// ```
/// use cuforge_launch::DriverError;
/// let error = DriverError::unnamed("cuInit", 4242);
/// assert_eq!(error.to_string(), "cuInit answered code 4242, which this driver does not name");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverError {
    call: &'static str,
    code: i32,
    name: Option<&'static str>,
    description: Option<&'static str>,
}

impl DriverError {
    /// A code that no driver was asked about.
    pub const fn unnamed(call: &'static str, code: i32) -> Self {
        Self { call, code, name: None, description: None }
    }

    pub(crate) const fn named(self, name: Option<&'static str>, description: Option<&'static str>) -> Self {
        Self { name, description, ..self }
    }

    /// The driver function that answered.
    pub const fn call(&self) -> &'static str {
        self.call
    }

    /// The number that it answered.
    pub const fn code(&self) -> i32 {
        self.code
    }

    /// The driver's name for the code (`CUDA_ERROR_..`), if it has one.
    pub const fn name(&self) -> Option<&'static str> {
        self.name
    }
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { call, code, .. } = self;
        match (self.name, self.description) {
            (Some(name), Some(text)) => write!(f, "{call} answered {name} ({code}): {text}"),
            (Some(name), None) => write!(f, "{call} answered {name} ({code})"),
            _ => write!(f, "{call} answered code {code}, which this driver does not name"),
        }
    }
}

impl std::error::Error for DriverError {}

/// A library name that was tried, and why it was not the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    /// The file name or path given to the loader.
    pub library: String,
    /// The loader's answer.
    pub reason: String,
}

fn listed(list: &[Tried]) -> String {
    list.iter().map(|t| format!("{}: {}", t.library, t.reason)).collect::<Vec<_>>().join("; ")
}

/// An image that the driver did not take, with all that is known about why.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rejection {
    /// `cubin` or `PTX`.
    pub form: &'static str,
    /// The `.version` of PTX text.
    pub ptx_version: Option<String>,
    /// The CUDA version of the driver.
    pub driver: DriverVersion,
    /// What the driver answered.
    pub error: DriverError,
    /// The driver's JIT log, whole; empty if it said nothing.
    pub log: String,
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the driver (CUDA {}) rejects the {}", self.driver, self.form)?;
        if let Some(version) = &self.ptx_version {
            write!(f, " of PTX version {version}")?;
        }
        write!(f, ": {}", self.error)?;
        if self.log.is_empty() { Ok(()) } else { write!(f, "\n{}", self.log) }
    }
}

impl std::error::Error for Rejection {}

/// Every failure of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// No CUDA driver library was found, or what was found is no driver.
    #[error("no CUDA driver: install the NVIDIA driver, or name its folder in LD_LIBRARY_PATH ({})", listed(.tried))]
    NoDriver {
        /// What was looked for.
        tried: Vec<Tried>,
    },
    /// The driver lacks a function.
    #[error("the driver {} has no {symbol}, which came with CUDA {since}", library.display())]
    MissingSymbol {
        /// The function.
        symbol: &'static str,
        /// The CUDA version that has it.
        since: &'static str,
        /// The driver library, by real path.
        library: PathBuf,
        /// Whether nothing runs on the driver without it; else it only cannot do what was asked for.
        required: bool,
    },
    /// The driver is older than this crate needs.
    #[error("the driver {} supports CUDA {found}, at least {needed} is needed", library.display())]
    DriverTooOld {
        /// What the driver says.
        found: DriverVersion,
        /// What is needed.
        needed: DriverVersion,
        /// The driver library, by real path.
        library: PathBuf,
    },
    /// The driver sees no device.
    #[error("the driver {} sees no CUDA device", library.display())]
    NoDevice {
        /// The driver library, by real path.
        library: PathBuf,
    },
    /// There is no device of that number.
    #[error("no device {ordinal}: the driver sees {count}")]
    NoSuchDevice {
        /// The number asked for.
        ordinal: u32,
        /// How many devices there are.
        count: u32,
    },
    /// The driver refused a call.
    #[error(transparent)]
    Driver(DriverError),
    /// The device faulted earlier. The driver cannot recover from it in this process: a new process can.
    #[error("the device is lost to this process (start a new one): {first}")]
    DeviceLost {
        /// The call that first saw it, and what it answered.
        first: DriverError,
    },
    /// The device or driver cannot do this.
    #[error("{what} is not supported here: {why}")]
    Unsupported {
        /// What was asked for.
        what: &'static str,
        /// What is missing.
        why: &'static str,
    },
    /// The driver does not take an image.
    #[error(transparent)]
    ImageRejected(Box<Rejection>),
    /// An image without machine code and without PTX.
    #[error("the image of `{entry}` holds neither machine code nor PTX")]
    EmptyImage {
        /// The kernel asked for.
        entry: String,
    },
    /// The module has no kernel of that name.
    #[error("the module has no kernel `{entry}`")]
    NoSuchKernel {
        /// The name asked for.
        entry: String,
    },
    /// The declared parameters are not those of the kernel.
    #[error("kernel `{entry}`: parameter {index} is {found}, declared as {declared}")]
    ParameterMismatch {
        /// The kernel.
        entry: String,
        /// Which parameter, from 0.
        index: usize,
        /// What the kernel's own layout says.
        found: String,
        /// What the specification says.
        declared: String,
    },
    /// The geometry's block is not the one that the kernel was built for.
    #[error("block {given:?} given, kernel `{entry}` was built for {built:?}")]
    BlockMismatch {
        /// The kernel.
        entry: String,
        /// Threads a block given.
        given: [u32; 3],
        /// Threads a block of the schedule.
        built: [u32; 3],
    },
    /// The geometry has less dynamic shared memory than the kernel's specification asks for.
    #[error("{given} bytes of shared memory given, kernel `{entry}` needs {need}")]
    SharedTooSmall {
        /// The kernel.
        entry: String,
        /// Bytes given.
        given: u32,
        /// Bytes needed.
        need: u32,
    },
    /// The block has more threads than the compiled kernel's registers allow.
    #[error("a block of {threads} threads: kernel `{entry}` as compiled runs at most {max}")]
    BlockTooLargeForKernel {
        /// The kernel.
        entry: String,
        /// Threads asked for.
        threads: u32,
        /// The compiled kernel's limit.
        max: u32,
    },
    /// A stream, slab or pipeline of one device was used with one of another.
    #[error("{what} of another device")]
    OtherDevice {
        /// What came from elsewhere.
        what: &'static str,
    },
    /// More bytes than the view has; nothing was copied.
    #[error("{bytes} bytes for a view of {view_bytes}")]
    TooLong {
        /// Bytes given or wanted.
        bytes: u64,
        /// Bytes of the view.
        view_bytes: u64,
    },
    /// The view does not hold whole, aligned elements of the type.
    #[error("{bytes} bytes at offset {offset} are not whole, aligned elements of {element_bytes} bytes")]
    NotWholeElements {
        /// Bytes of the view.
        bytes: u64,
        /// Offset of the view in the slab.
        offset: u64,
        /// An element's size.
        element_bytes: u64,
    },
    /// The staging memory is in use by copies that have not completed; nothing was copied.
    #[error("staging is full: {bytes} bytes would have to wait")]
    StagingFull {
        /// Bytes that were to be staged.
        bytes: u64,
    },
    /// An upload from owned memory did not reach the stream.
    #[error("an upload failed on its way to the stream: its ticket says why")]
    UploadFailed,
    /// Every prefetched buffer is filled or being read.
    #[error("all {depth} prefetch buffers are in use: take or drop one first")]
    PrefetchFull {
        /// How many there are.
        depth: usize,
    },
    /// More streams on one device than its slabs tell apart.
    #[error("at most {most} streams on a device")]
    TooManyStreams {
        /// The limit.
        most: usize,
    },
    /// More of something than there can be; nothing was made.
    #[error("at most {most} {what}, not {asked}")]
    TooMany {
        /// What was counted.
        what: &'static str,
        /// How many were asked for.
        asked: u64,
        /// The limit.
        most: u64,
    },
    /// The host has no memory for what was asked for.
    #[error("the host has no {bytes} bytes for {what}")]
    HostMemory {
        /// What it is for.
        what: &'static str,
        /// Bytes asked for.
        bytes: u64,
    },
    /// The address range that the slab reserved is used up, or the slab cannot grow.
    #[error("the slab cannot grow by {bytes} bytes: {mapped} of {reserved} reserved bytes are mapped")]
    CannotGrow {
        /// Bytes asked for.
        bytes: u64,
        /// Bytes mapped.
        mapped: u64,
        /// Bytes reserved.
        reserved: u64,
    },
    /// The slab's allocator says no.
    #[error("slab: {0}")]
    Refused(Refusal),
    /// The view is foreign, stale or out of range.
    #[error(transparent)]
    View(#[from] ViewError),
    /// The ledger says no.
    #[error(transparent)]
    Ledger(LedgerError),
    /// The arguments do not fit the kernel's parameters.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The schedule or geometry does not fit the device.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// A capture or a graph says no.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

impl From<LedgerError> for LaunchError {
    fn from(error: LedgerError) -> Self {
        match error {
            LedgerError::View(view) => Self::View(view),
            other => Self::Ledger(other),
        }
    }
}

impl From<Refusal> for LaunchError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// `CUDA_ERROR_OUT_OF_MEMORY`.
const OUT_OF_MEMORY: i32 = 2;

impl LaunchError {
    /// What kind of thing went wrong, in the words that cross the crates' seams.
    pub fn kind(&self) -> ContextErrorKind {
        match self {
            Self::NoDriver { .. }
            | Self::MissingSymbol { required: true, .. }
            | Self::DriverTooOld { .. }
            | Self::NoDevice { .. }
            | Self::NoSuchDevice { .. } => ContextErrorKind::Unavailable,
            Self::DeviceLost { .. } => ContextErrorKind::DeviceLost,
            Self::Driver(error) if error.code == OUT_OF_MEMORY => ContextErrorKind::OutOfMemory,
            Self::Driver(_) | Self::UploadFailed => ContextErrorKind::System,
            Self::Unsupported { .. } | Self::MissingSymbol { .. } => ContextErrorKind::Unsupported,
            Self::ImageRejected(_) | Self::EmptyImage { .. } | Self::NoSuchKernel { .. } => {
                ContextErrorKind::Kernel
            }
            Self::StagingFull { .. } | Self::CannotGrow { .. } | Self::HostMemory { .. } => {
                ContextErrorKind::OutOfMemory
            }
            Self::Refused(Refusal::Zero | Refusal::Alignment { .. }) => ContextErrorKind::Misuse,
            Self::Refused(_) => ContextErrorKind::OutOfMemory,
            _ => ContextErrorKind::Misuse,
        }
    }

    /// This error as it crosses the crates' seams.
    pub fn during(self, operation: &'static str) -> ContextError {
        ContextError::new(self.kind(), operation, self)
    }
}
