//! Why a kernel in WGSL could not be emitted, and where in its text.

use std::fmt;

use cuforge_core::ScheduleError;

/// A place in the WGSL text.
///
/// ```
/// assert_eq!(cuforge_wgsl::Place { line: 3, column: 14 }.to_string(), "3:14");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Line, from 1.
    pub line: u32,
    /// Column in bytes, from 1.
    pub column: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A place if it is known, as a prefix of a message.
struct At(Option<Place>);

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |place| write!(f, "{place}: "))
    }
}

/// Why a kernel in WGSL could not be emitted. All but [`Unsupported`](Self::Unsupported) are faults of the caller's
/// kernel or schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EmitError {
    /// The kernel's text is not WGSL.
    #[error("kernel `{kernel}` is not written in WGSL")]
    Language {
        /// The kernel's id.
        kernel: String,
    },
    /// The text does not parse.
    #[error("{}{message}", At(*place))]
    Parse {
        /// Where.
        place: Option<Place>,
        /// What is wrong, in one line.
        message: String,
        /// The same with the lines of the text that it speaks of.
        report: String,
    },
    /// The text is nested more deeply than can be read safely.
    #[error("{brackets} brackets in each other and {tokens} words and signs in one expression are too many")]
    TooDeep {
        /// Brackets in each other, of which 256 are taken.
        brackets: u32,
        /// Words and signs without a comma, semicolon or brace between them, of which 4096 are taken.
        tokens: u32,
    },
    /// The text parses and is not valid: types, uniformity, addresses, limits.
    #[error("{}{message}", At(*place))]
    Invalid {
        /// Where.
        place: Option<Place>,
        /// What is wrong, in one line.
        message: String,
        /// The same with the lines of the text that it speaks of.
        report: String,
    },
    /// A barrier, or another operation for which all invocations of a workgroup must meet, that only some of them may reach.
    #[error("{}a barrier that not all invocations of a workgroup may reach", At(*place))]
    Divergent {
        /// Where.
        place: Option<Place>,
    },
    /// The text has no compute entry point of this name.
    #[error("no compute entry point `{name}`; there are: {}", known.join(", "))]
    EntryPoint {
        /// The name.
        name: String,
        /// The compute entry points that there are.
        known: Vec<String>,
    },
    /// The schedule gives the text an override that it does not have, or a value that the override does not take.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// The overrides that result from the schedule are not valid together.
    #[error("overrides: {message}")]
    Overrides {
        /// What is wrong.
        message: String,
    },
    /// The entry point's workgroup size is fixed, or computed, to something else than the schedule's.
    #[error("`@workgroup_size` is {declared:?}, the schedule's is {schedule:?}")]
    WorkgroupSize {
        /// The entry point's.
        declared: [u32; 3],
        /// The schedule's.
        schedule: [u32; 3],
    },
    /// The specification lists parameters that are not those of the text.
    #[error("parameters: {message}")]
    Parameters {
        /// What differs.
        message: String,
    },
    /// Valid WGSL for which there is no CUDA C here.
    #[error("{}{what} is not supported", At(*place))]
    Unsupported {
        /// What.
        what: &'static str,
        /// Where, if the text says.
        place: Option<Place>,
    },
}
