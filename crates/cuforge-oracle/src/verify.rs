//! Verification: a check whose outcome is a verdict, because the case must first show that it can fail.

use cuforge_core::{ContextErrorKind, OracleContext};

use crate::blame::Legs;
use crate::build::Build;
use crate::case::Case;
use crate::check::{CheckOptions, Checked, check_sizes, checked};
use crate::compare::Expected;
use crate::discriminate::{MutantOptions, Unfit, discriminate};
use crate::error::OracleError;
use crate::execute::blocks;
use crate::format::Format;
use crate::inputs::Inputs;
use crate::legs::legs;
use crate::measure::{MeasureOptions, measure};
use crate::number::floats;
use crate::roofline::{floor_ns, least_bytes, too_fast};
use crate::verdict::{InputsOutcome, InputsReport, Origin, Report, Verdict};

/// How a verification runs.
///
/// ```
/// use cuforge_oracle::VerifyOptions;
/// assert_eq!(VerifyOptions::default().with_seed(7).check.seed, 7);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VerifyOptions {
    /// Seed and timed runs.
    pub check: CheckOptions,
    /// How many mutants the case is shown.
    pub mutants: MutantOptions,
    /// Whether the first reduced case runs over every one of [`Inputs::ALL`] too. Default yes.
    pub other_inputs: bool,
    /// How what passed is measured at last. Default not at all: its few checked runs are timed, which is no measurement.
    pub timing: Option<MeasureOptions>,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        let (check, mutants) = (CheckOptions::default(), MutantOptions::default());
        Self { check, mutants, other_inputs: true, timing: None }
    }
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
/// Fresh seeded inputs in buffers between red zones, outputs poisoned with two patterns in turn, one run and a few timed
/// ones, everything read back after each and compared with the reference element by element against its bound. If all
/// agrees, the case is shown a zeroed output, a dropped tail and mutants of its kernel's PTX (on a simulated device of
/// their own, over the reduced case); if it misses them the verdict is [`Verdict::Vacuous`]. On any other device than
/// the simulated one, the same PTX runs there too, and the report says which of the [`Legs`] is at fault. Times below
/// what the memory system allows are a failure too. The same case,
/// seed and backend give the same report but for times.
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
    let seed = options.check.seed;
    let mut report = blank(case, context, seed);
    check_sizes(case, context.constraints())?;
    let mut build = match Build::new(case, context) {
        Ok(build) => build,
        Err(error) => {
            report.verdict = verdict_of(error.into())?;
            return Ok(report);
        }
    };
    match checked(case, context, &mut build, &options.check) {
        Ok(checked) => {
            report.fill_in(&checked);
            if checked.check.agrees() {
                add_baseline(&mut report, case, &checked)?;
                show_mutants(&mut report, case, &checked, &build, options)?;
                // A case that proves nothing, or fails already, is not worth ten more runs.
                if options.other_inputs && report.verdict == Verdict::Passed {
                    try_other_inputs(&mut report, case, context, &mut build, seed)?;
                }
            } else {
                report.verdict = Verdict::Failed;
            }
        }
        Err(error) => {
            report.provenance = Some(build.provenance.clone());
            report.verdict = verdict_of(error)?;
        }
    }
    if report.verdict == Verdict::Passed {
        judge_times(&mut report, case, context, options)?;
    }
    let failed = matches!(report.verdict, Verdict::Failed | Verdict::Fault(_));
    if report.legs.is_none() && (failed || report.verdict == Verdict::Passed) {
        report.legs = legs(case, context, &mut build, seed, failed)?;
    }
    if let Some(blame) = report.legs.as_ref().and_then(Legs::blame) {
        report.notes.push(format!("the fault lies in {}", blame.describe()));
        // A kernel that the device forgives is no right one, and neither is a simulated device that differs.
        if report.verdict == Verdict::Passed {
            report.verdict = Verdict::Failed;
        }
    }
    Ok(report)
}

/// Mutants decide whether outputs that agree are a pass.
fn show_mutants(
    report: &mut Report,
    case: &Case,
    checked: &Checked,
    build: &Build,
    options: &VerifyOptions,
) -> Result<(), OracleError> {
    match discriminate(case, checked, build, options.check.seed, &options.mutants) {
        Ok(mut found) => {
            if let Some(few) = too_few_blocks(case, checked.check.blocks) {
                found.vacuous.get_or_insert(few);
            }
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
    Ok(())
}

/// The first reduced case over every other kind of inputs.
fn try_other_inputs(
    report: &mut Report,
    case: &Case,
    context: &mut dyn OracleContext,
    build: &mut Build,
    seed: u64,
) -> Result<(), OracleError> {
    let Some(reduced) = case.reduced().next() else { return Ok(()) };
    for inputs in Inputs::ALL {
        let Some(other) = reduced.with_inputs(inputs) else { continue };
        let outcome = match checked(&other, context, build, &CheckOptions::default().with_seed(seed).once()) {
            Ok(found) if found.check.agrees() => InputsOutcome::Agrees {
                exact: found.expected.iter().flatten().all(Expected::is_exact),
                worst_ratio: found
                    .check
                    .outputs
                    .iter()
                    .map(|o| o.comparison.worst_ratio())
                    .fold(0.0, f64::max),
            },
            Ok(found) => InputsOutcome::Differs {
                mismatches: found.check.outputs.iter().map(|output| output.comparison.mismatches).sum(),
            },
            Err(
                error @ (OracleError::Undecided { .. }
                | OracleError::Unbounded { .. }
                | OracleError::NanReference { .. }),
            ) => InputsOutcome::NotApplicable(error.to_string()),
            Err(error) => {
                let verdict = verdict_of(error)?;
                report.notes.push(format!("over {} inputs at {}: {verdict}", inputs.name(), other.shape()));
                report.verdict = verdict;
                return Ok(());
            }
        };
        if let InputsOutcome::Differs { mismatches } = outcome {
            report.verdict = Verdict::Failed;
            report.notes.push(format!(
                "over {} inputs at {}, {mismatches} elements differ",
                inputs.name(),
                other.shape()
            ));
            report.legs = legs(&other, context, build, seed, false)?;
        }
        report.inputs.push(InputsReport { inputs, outcome });
    }
    Ok(())
}

/// A right result in a time that cannot be is no pass: the clock, or what it was stopped for, is wrong.
fn judge_times(
    report: &mut Report,
    case: &Case,
    context: &mut dyn OracleContext,
    options: &VerifyOptions,
) -> Result<(), OracleError> {
    let refused = match &options.timing {
        Some(how) => {
            let measured = measure(case, context, &MeasureOptions { seed: options.check.seed, ..*how })?;
            report.timing = measured.timing;
            measured.rejected
        }
        None => {
            let bytes = least_bytes(case);
            too_fast(&report.timing, bytes, floor_ns(bytes, context.constraints(), false))
        }
    };
    if let Some(why) = refused {
        report.notes.push(format!("no measurement: {why}"));
        report.verdict = Verdict::Failed;
    }
    Ok(())
}

/// Why a case says nothing of blocks that disturb each other, if it does not: a device that shares what belongs to a
/// block, or a kernel that relies on being alone, passes with one block.
fn too_few_blocks(case: &Case, launched: u128) -> Option<String> {
    let of = |case: &Case| blocks(case.extent(), case.schedule());
    let most = case.reduced().map(of).fold(launched, u128::max);
    let few = most < LEAST_BLOCKS && !case.is_edge();
    few.then(|| format!("it launches {most} blocks, {LEAST_BLOCKS} are required of a case that is no edge"))
}

const LEAST_BLOCKS: u128 = 3;

/// The second opinion: the largest error of each output over that of the plainest kernel of the same precision.
fn add_baseline(report: &mut Report, case: &Case, checked: &Checked) -> Result<(), OracleError> {
    let baseline = case.baseline(&checked.contents)?;
    let buffers = case.buffers().iter().zip(&checked.got).zip(&checked.expected).zip(baseline);
    let ratios = buffers.filter_map(|(((buffer, got), expected), baseline)| {
        let expected = expected.as_ref()?;
        Some(match (expected, baseline) {
            (Expected::Bounded { values, .. }, Some(baseline)) => {
                let format = Format::of(buffer.element)?;
                let furthest = |others: &mut dyn Iterator<Item = f64>| {
                    let apart = others.zip(values).map(|(other, value)| (other - value).abs());
                    apart.filter(|apart| apart.is_finite()).fold(0.0, f64::max)
                };
                let largest = values
                    .iter()
                    .copied()
                    .filter(|value| value.is_finite())
                    .fold(0.0, |a: f64, b| a.max(b.abs()));
                // Storing the result rounds, whoever computed it.
                let plain = furthest(&mut baseline.into_iter()) + 0.5 * format.ulp(largest);
                Some(furthest(&mut floats(buffer.element, got)) / plain)
            }
            _ => None,
        })
    });
    for (output, ratio) in report.outputs.iter_mut().zip(ratios) {
        output.baseline_ratio = ratio;
    }
    Ok(())
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
    let verdict = Verdict::NotRun("not run yet".to_owned());
    Report {
        kernel: case.kernel().id().to_owned(),
        shape: case.shape().to_owned(),
        schedule: case.schedule().to_string(),
        ..Report::blank(case.name(), context.adapter().name.clone(), seed, verdict)
    }
}

impl Report {
    fn fill_in(&mut self, checked: &Checked) {
        let check = &checked.check;
        self.origin = Some(check.origin);
        self.outputs.clone_from(&check.outputs);
        self.changed_inputs.clone_from(&check.changed_inputs);
        self.trespasses.clone_from(&check.trespasses);
        (self.runs, self.blocks) = (check.runs, check.blocks);
        self.timing = check.timing.clone();
        self.instructions = check.instructions;
        self.provenance = Some(check.provenance.clone());
        if check.origin == Origin::ShippedPtx {
            self.notes.push("no CUDA C compiler here: the shipped PTX of this kernel ran".to_owned());
        }
        for input in &check.changed_inputs {
            self.notes.push(format!("the kernel changed its input `{input}`"));
        }
        self.notes.extend(check.trespasses.iter().map(|trespass| format!("the kernel {trespass}")));
    }
}
