//! Fuzzing: random kernels that print as CUDA C and PTX and are their own reference, and failures made small.
//!
//! A [`FuzzCase`] is one tree of operations with shape, block and inputs. The same tree prints as CUDA C (which a
//! compiler optimises) and as PTX (which nothing has optimised), and evaluates over [`Real`](crate::Real) or to the bit.
//! Whatever two of them disagree about is a finding: in a printer, a compiler, the simulated device or the hardware.
//!
//! ```
//! use cuforge_oracle::SimContext;
//! use cuforge_oracle::fuzz::{self, FuzzCase, FuzzForm, FuzzOutcome};
//! let mut context = SimContext::builder().memory_bytes(1 << 20).build()?;
//! for number in 0..10 {
//!     let outcome = fuzz::run(&FuzzCase::generate(1, number), FuzzForm::Ptx, &mut context)?;
//!     assert!(!matches!(outcome, FuzzOutcome::Fails(_)), "{number}: {outcome:?}");
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod case;
mod cuda_c;
mod evaluate;
mod generate;
mod program;
mod ptx;
mod raw;
mod shrink;

pub use case::{FuzzCase, FuzzFileError, FuzzForm};
pub use program::{Binary, Ending, Node, Program, Unary, Values};

use cuforge_core::{ContextErrorKind, OracleContext};

use crate::blame::Legs;
use crate::build::Build;
use crate::check::{CheckOptions, checked};
use crate::error::OracleError;
use crate::legs::legs;

/// What became of one random kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FuzzOutcome {
    /// All elements lie within their bounds; their number.
    Agrees(u64),
    /// It failed, as said here.
    Fails(String),
    /// The reference has no bound for it, as said here.
    NotApplicable(String),
    /// The backend cannot run it, as said here.
    NotRun(String),
}

/// Runs a random kernel once over each of two poisons, and compares.
///
/// # Errors
/// Those of the backend that are not about the kernel: no memory, a lost device.
pub fn run(
    case: &FuzzCase,
    form: FuzzForm,
    context: &mut dyn OracleContext,
) -> Result<FuzzOutcome, OracleError> {
    let mut options = CheckOptions::default().with_seed(case.seed);
    options.sampling.samples = 1;
    let case = case.case(form)?;
    let found = Build::new(&case, context)
        .map_err(OracleError::from)
        .and_then(|mut build| checked(&case, context, &mut build, &options));
    let error = match found {
        Ok(found) if found.check.agrees() => {
            let elements = found.check.outputs.iter().map(|output| output.comparison.elements).sum();
            return Ok(FuzzOutcome::Agrees(elements));
        }
        Ok(found) => {
            let what = found.check.outputs.iter().find(|output| !output.comparison.agrees());
            return Ok(FuzzOutcome::Fails(match what {
                Some(output) => {
                    let (wrong, all) = (output.comparison.mismatches, output.comparison.elements);
                    let worst = output.comparison.worst.map(|worst| {
                        let (got, expected) = (worst.got, worst.expected);
                        format!(
                            ", at {} got {got}, expected {expected} within {:e}",
                            worst.index, worst.bound
                        )
                    });
                    format!("{wrong} of {all} elements differ{}", worst.unwrap_or_default())
                }
                None => "it wrote where it may not".to_owned(),
            }));
        }
        Err(error) => error,
    };
    match &error {
        OracleError::Unbounded { .. } | OracleError::Undecided { .. } | OracleError::NanReference { .. } => {
            Ok(FuzzOutcome::NotApplicable(error.to_string()))
        }
        OracleError::Context(context) => match context.kind() {
            ContextErrorKind::Fault | ContextErrorKind::Kernel => Ok(FuzzOutcome::Fails(error.to_string())),
            ContextErrorKind::Unavailable | ContextErrorKind::Unsupported => {
                Ok(FuzzOutcome::NotRun(error.to_string()))
            }
            _ => Err(error),
        },
        _ => Err(error),
    }
}

/// The smallest case found that still fails on this backend, after at most so many runs.
#[must_use]
pub fn shrink(case: &FuzzCase, form: FuzzForm, context: &mut dyn OracleContext, most_runs: u32) -> FuzzCase {
    let fails = |smaller: &FuzzCase| matches!(run(smaller, form, context), Ok(FuzzOutcome::Fails(_)));
    shrink::shrink(case, fails, most_runs)
}

/// Where the fault of a failing case lies: see [`Legs`]. None on the simulated device, which is but one leg, and where
/// the kernel cannot be built.
#[must_use]
pub fn localise(case: &FuzzCase, form: FuzzForm, context: &mut dyn OracleContext) -> Option<Legs> {
    let seed = case.seed;
    let case = case.case(form).ok()?;
    let mut build = Build::new(&case, context).ok()?;
    legs(&case, context, &mut build, seed, true).ok()?
}
