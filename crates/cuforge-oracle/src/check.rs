//! Checking one case once on a backend: run, read back, compare. No verdict yet: a check may be unable to fail.

use cuforge_core::{Constraints, OracleContext, Sampling};

use crate::build::Build;
use crate::case::Case;
use crate::compare::Expected;
use crate::error::OracleError;
use crate::execute::{RED_ZONE_BYTES, Stage, Trespass, blocks, changed_inputs, compare_all};
use crate::interface::Role;
use crate::verdict::{Origin, OutputReport, Provenance, Timing};

/// How a check runs.
///
/// ```
/// use cuforge_oracle::CheckOptions;
/// assert_eq!(CheckOptions::default().with_seed(7).once().sampling.samples, 0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckOptions {
    /// The seed of all generated inputs. Default 0.
    pub seed: u64,
    /// Timed runs after the first, whose results are checked too, warm-ups as well. Default no warm-up, 3 samples.
    pub sampling: Sampling,
    /// Nanoseconds that the timed runs may take together, judged by the first run: fewer samples are taken if they
    /// would take longer. Default 2 seconds.
    pub sampling_budget_ns: u64,
}

impl Default for CheckOptions {
    fn default() -> Self {
        Self { seed: 0, sampling: Sampling { warmups: 0, samples: 3 }, sampling_budget_ns: 2_000_000_000 }
    }
}

impl CheckOptions {
    /// With another seed.
    #[must_use]
    pub const fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Without timed runs: each kernel runs once.
    #[must_use]
    pub const fn once(mut self) -> Self {
        self.sampling = Sampling { warmups: 0, samples: 0 };
        self
    }
}

/// What one check found.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// Each output's comparison; the worst one of all runs.
    pub outputs: Vec<OutputReport>,
    /// Names of inputs that the kernel changed.
    pub changed_inputs: Vec<String>,
    /// What it wrote outside of its buffers.
    pub trespasses: Vec<Trespass>,
    /// Runs whose results were compared, the timed ones among them.
    pub runs: u32,
    /// Blocks of a launch.
    pub blocks: u128,
    /// Times.
    pub timing: Timing,
    /// Instructions of one run, counted per thread, where the backend counts.
    pub instructions: Option<u64>,
    /// What ran.
    pub origin: Origin,
    /// What ran where.
    pub provenance: Provenance,
}

impl Check {
    /// Whether every element of every output lies within its bound, no input was changed and nothing was written
    /// outside of the buffers.
    #[must_use]
    pub fn agrees(&self) -> bool {
        self.changed_inputs.is_empty()
            && self.trespasses.is_empty()
            && self.outputs.iter().all(|output| output.comparison.agrees())
    }
}

/// A check with what verification needs further.
pub(crate) struct Checked {
    pub(crate) check: Check,
    pub(crate) contents: Vec<Vec<u8>>,
    pub(crate) expected: Vec<Option<Expected>>,
    /// What the first run left in every buffer.
    pub(crate) got: Vec<Vec<u8>>,
    pub(crate) poison: u8,
}

/// Outputs hold NaN in every float format, and -1, before the first run.
pub(crate) const FIRST_POISON: u8 = 0xff;
/// Outputs hold an ordinary number before the next run, so that a kernel cannot pass by what the first poison means
/// to it.
pub(crate) const SECOND_POISON: u8 = 0xa5;

/// Runs a case and compares its outputs with the reference: once over each of two poisons and after each timed run,
/// as the options say. Ends all allocations of the backend but resident ones.
///
/// A check alone proves little: use it to repeat what [`verify`](crate::verify) has shown to be able to fail, over
/// many seeds say.
///
/// # Errors
/// Faults of the case or its reference, and every [`OracleError::Context`] of the backend, device faults included.
pub fn check(
    case: &Case,
    context: &mut dyn OracleContext,
    options: &CheckOptions,
) -> Result<Check, OracleError> {
    check_sizes(case, context.constraints())?;
    let mut build = Build::new(case, context)?;
    checked(case, context, &mut build, options).map(|checked| checked.check)
}

pub(crate) fn checked(
    case: &Case,
    context: &mut dyn OracleContext,
    build: &mut Build,
    options: &CheckOptions,
) -> Result<Checked, OracleError> {
    let contents = case.contents(options.seed)?;
    let expected = case.expected(&contents, &build.model)?;
    let stage = Stage::new(context, case, options.seed)?;
    let right = Right { case, contents: &contents, expected: &expected };
    let (mut check, got) = run_once(context, build, &stage, &right)?;
    let mut samples = affordable(options, check.timing.samples_ns.first().copied().unwrap_or(0));
    if looks_like_poison(case, &expected, FIRST_POISON) {
        // What was never written may look right: other poison must tell, whatever another run costs.
        samples = samples.max(1);
    }
    if check.agrees() && samples > 0 {
        let sampling = Sampling { warmups: options.sampling.warmups, samples };
        repeat(context, build, &stage, &right, got.clone(), sampling, &mut check)?;
    }
    Ok(Checked { check, contents, expected, got, poison: FIRST_POISON })
}

/// What a case is given, and what is right for it.
pub(crate) struct Right<'a> {
    pub(crate) case: &'a Case,
    pub(crate) contents: &'a [Vec<u8>],
    pub(crate) expected: &'a [Option<Expected>],
}

/// One run over the first poison, and what it left in every buffer.
pub(crate) fn run_once(
    context: &mut dyn OracleContext,
    build: &mut Build,
    stage: &Stage<'_>,
    right: &Right<'_>,
) -> Result<(Check, Vec<Vec<u8>>), OracleError> {
    let case = right.case;
    stage.fill(context, right.contents, FIRST_POISON)?;
    let nanoseconds = stage.run(context, &mut build.prepared)?;
    let instructions = context.instructions();
    let left = stage.read(context)?;
    let check = Check {
        outputs: compare_outputs(case, &left.buffers, right.expected, FIRST_POISON),
        changed_inputs: changed_inputs(case, &left.buffers, right.contents),
        trespasses: left.trespasses,
        runs: 1,
        blocks: blocks(case.extent(), case.schedule()),
        timing: Timing {
            samples_ns: vec![nanoseconds],
            device_clock: context.timestamp_supported(),
            ..Timing::default()
        },
        instructions,
        origin: build.origin,
        provenance: build.provenance.clone(),
    };
    Ok((check, left.buffers))
}

/// The timed runs. Each starts from fresh poison, the first from the second one and then in turn, and each result is
/// compared: a kernel that does its work only once, or only when it is looked at, does not get far.
fn repeat(
    context: &mut dyn OracleContext,
    build: &mut Build,
    stage: &Stage<'_>,
    right: &Right<'_>,
    mut judged: Vec<Vec<u8>>,
    sampling: Sampling,
    check: &mut Check,
) -> Result<(), OracleError> {
    check.timing.samples_ns.clear();
    for round in 0..sampling.warmups.saturating_add(sampling.samples) {
        let poison = if round % 2 == 0 { SECOND_POISON } else { FIRST_POISON };
        stage.fill(context, right.contents, poison)?;
        let nanoseconds = stage.run(context, &mut build.prepared)?;
        if round >= sampling.warmups {
            check.timing.samples_ns.push(nanoseconds);
        }
        check.runs += 1;
        let left = stage.read(context)?;
        check.trespasses = left.trespasses;
        // The very bytes of an earlier run have been judged; over other poison, what was left unwritten differs.
        if left.buffers == judged {
            continue;
        }
        check.changed_inputs.extend(changed_inputs(right.case, &left.buffers, right.contents));
        let new = compare_outputs(right.case, &left.buffers, right.expected, poison);
        check.outputs = std::mem::take(&mut check.outputs).into_iter().zip(new).map(worse).collect();
        judged = left.buffers;
    }
    check.changed_inputs.sort_unstable();
    check.changed_inputs.dedup();
    Ok(())
}

/// The worse of two comparisons of one output.
fn worse((old, new): (OutputReport, OutputReport)) -> OutputReport {
    let badness = |output: &OutputReport| (output.comparison.mismatches, output.comparison.worst_ratio());
    if badness(&new) > badness(&old) { new } else { old }
}

/// Before anything is allocated: that the device could hold all buffers.
pub(crate) fn check_sizes(case: &Case, device: &Constraints) -> Result<(), OracleError> {
    let mut total = 0u64;
    for buffer in case.buffers() {
        let bytes = buffer.size_bytes().saturating_add(2 * RED_ZONE_BYTES);
        total = total.saturating_add(bytes);
        let one_is_too_large = bytes > device.max_buffer_bytes;
        if one_is_too_large || total > device.memory_bytes {
            return Err(OracleError::BeyondDevice {
                case: case.name().to_owned(),
                buffer: buffer.name.to_string(),
                bytes: if one_is_too_large { bytes } else { total },
                device_bytes: if one_is_too_large { device.max_buffer_bytes } else { device.memory_bytes },
            });
        }
    }
    Ok(())
}

/// Whether an output is right, bit for bit, where it still holds the poison.
fn looks_like_poison(case: &Case, expected: &[Option<Expected>], poison: u8) -> bool {
    case.buffers().iter().zip(expected).any(|(buffer, expected)| match expected {
        Some(Expected::Exact(bytes)) if buffer.role == Role::Output => {
            let mut elements = bytes.chunks_exact(buffer.element.size_bytes() as usize);
            elements.any(|element| element.iter().all(|byte| *byte == poison))
        }
        _ => false,
    })
}

fn affordable(options: &CheckOptions, first_ns: u64) -> u32 {
    let each = first_ns.max(1);
    let runs = u32::try_from(options.sampling_budget_ns / each).unwrap_or(u32::MAX);
    options.sampling.samples.min(runs.saturating_sub(options.sampling.warmups))
}

fn compare_outputs(
    case: &Case,
    got: &[Vec<u8>],
    expected: &[Option<Expected>],
    poison: u8,
) -> Vec<OutputReport> {
    compare_all(case, got, expected, poison)
        .map(|(buffer, comparison)| OutputReport {
            buffer: buffer.name.to_string(),
            element: buffer.element,
            comparison,
            baseline_ratio: None,
        })
        .collect()
}
