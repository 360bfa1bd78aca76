//! Verification: a check whose outcome is a verdict, because the case must first show that it can fail.

use cuforge_core::{Constant, ContextErrorKind, OracleContext, Schedule};

use crate::case::Case;
use crate::check::{CheckOptions, Checked, checked};
use crate::discriminate::{MutantOptions, Unfit, discriminate};
use crate::error::OracleError;
use crate::verdict::{Origin, Report, Timing, Verdict};

/// How a verification runs.
///
/// ```
/// use cuforge_oracle::VerifyOptions;
/// assert_eq!(VerifyOptions::default().with_seed(7).check.seed, 7);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifyOptions {
    /// Seed and timed runs.
    pub check: CheckOptions,
    /// How many mutants the case is shown.
    pub mutants: MutantOptions,
}

impl VerifyOptions {
    /// With another seed.
    #[must_use]
    pub const fn with_seed(mut self, seed: u64) -> Self {
        self.check.seed = seed;
        self
    }
}

/// Verifies a case on a backend with the default options.
///
/// Fresh seeded inputs, poisoned outputs, one run and a few timed ones, everything read back and compared with the
/// reference element by element against its bound. If all agrees, the case is shown a zeroed output, a dropped tail and
/// mutants of its kernel's PTX (on a simulated device of their own, over the reduced case); if it misses them the
/// verdict is [`Verdict::Vacuous`]. The same case, seed and backend give the same report but for times.
///
/// Ends all allocations of the backend but resident ones.
///
/// # Errors
/// Faults of the case or its reference, and those errors of the backend that no verdict stands for: misuse, a kernel
/// that does not compile, no memory.
pub fn verify(case: &Case, context: &mut dyn OracleContext) -> Result<Report, OracleError> {
    verify_with(case, context, &VerifyOptions::default())
}

/// As [`verify`], with options.
///
/// # Errors
/// As [`verify`].
pub fn verify_with(
    case: &Case,
    context: &mut dyn OracleContext,
    options: &VerifyOptions,
) -> Result<Report, OracleError> {
    let mut report = blank(case, context, options.check.seed);
    let checked = match checked(case, context, &options.check) {
        Ok(checked) => checked,
        Err(error) => {
            report.verdict = verdict_of(error)?;
            return Ok(report);
        }
    };
    report.fill_in(&checked);
    if !checked.check.agrees() {
        report.verdict = Verdict::Failed;
    } else {
        match discriminate(case, &checked, options.check.seed, &options.mutants) {
            Ok(found) => {
                report.verdict = if found.vacuous.is_some() { Verdict::Vacuous } else { Verdict::Passed };
                report.notes.extend(found.vacuous.iter().map(|why| format!("vacuous: {why}")));
                report.discrimination = Some(found);
            }
            Err(Unfit::ReducedFails(why)) => {
                report.notes.push(why);
                report.verdict = Verdict::Failed;
            }
            Err(Unfit::TooLong(why)) => {
                report.notes.push(why);
                report.verdict = Verdict::Vacuous;
            }
            Err(Unfit::Error(error)) => return Err(error),
        }
    }
    Ok(report)
}

/// The verdict that an error of the backend stands for, if it stands for one.
fn verdict_of(error: OracleError) -> Result<Verdict, OracleError> {
    let OracleError::Context(context) = error else { return Err(error) };
    match context.kind() {
        ContextErrorKind::Unsupported => Ok(Verdict::Unsupported(context.to_string())),
        ContextErrorKind::Fault | ContextErrorKind::DeviceLost => Ok(Verdict::Fault(context.to_string())),
        ContextErrorKind::Unavailable => Ok(Verdict::NotRun(context.to_string())),
        _ => Err(OracleError::Context(context)),
    }
}

fn blank(case: &Case, context: &dyn OracleContext, seed: u64) -> Report {
    Report {
        case: case.name().to_owned(),
        kernel: case.kernel().id().to_owned(),
        shape: case.shape().to_owned(),
        schedule: schedule_text(case.schedule()),
        adapter: context.adapter().name.clone(),
        seed,
        verdict: Verdict::NotRun("not run yet".to_owned()),
        origin: None,
        outputs: Vec::new(),
        changed_inputs: Vec::new(),
        discrimination: None,
        timing: Timing::default(),
        instructions: None,
        provenance: None,
        notes: Vec::new(),
    }
}

impl Report {
    fn fill_in(&mut self, checked: &Checked) {
        let check = &checked.check;
        self.origin = Some(check.origin);
        self.outputs.clone_from(&check.outputs);
        self.changed_inputs.clone_from(&check.changed_inputs);
        self.timing = check.timing.clone();
        self.instructions = check.instructions;
        self.provenance = Some(check.provenance.clone());
        if check.origin == Origin::ShippedPtx {
            self.notes.push("no CUDA C compiler here: the shipped PTX of this kernel ran".to_owned());
        }
        for input in &check.changed_inputs {
            self.notes.push(format!("the kernel changed its input `{input}`"));
        }
    }
}

/// Block, items and constants in one line, such as `256x1x1 items 4 TILE_M=64`.
fn schedule_text(schedule: &Schedule) -> String {
    let [x, y, z] = schedule.workgroup_size;
    let mut text = format!("{x}x{y}x{z} items {}", schedule.items_per_invocation);
    for (name, value) in &schedule.constants {
        let value = match value {
            Constant::Int(value) => value.to_string(),
            Constant::Float(value) => format!("{value:?}"),
            Constant::Bool(value) => value.to_string(),
        };
        text.push_str(&format!(" {name}={value}"));
    }
    text
}
