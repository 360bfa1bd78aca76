//! Checking one case once on a backend: run, read back, compare. No verdict yet: a check may be unable to fail.

use std::sync::Arc;

use cuforge_core::{
    Arithmetic, Constraints, ContextError, ContextErrorKind, Evidence, KernelSpec, OracleContext, Prepared,
    Sampling, Schedule,
};

use crate::case::{Case, ShippedPtx};
use crate::compare::Expected;
use crate::error::OracleError;
use crate::execute::{Stage, changed_inputs, compare_all};
use crate::format::Format;
use crate::interface::Role;
use crate::model::{ErrorModel, Function, Limit};
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
    /// Timed runs after the first, whose results are checked too. Default no warm-up, 3 samples.
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
    /// Each output's comparison; the worse one where outputs were compared twice.
    pub outputs: Vec<OutputReport>,
    /// Names of inputs that the kernel changed.
    pub changed_inputs: Vec<String>,
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
    /// Whether every element of every output lies within its bound and no input was changed.
    #[must_use]
    pub fn agrees(&self) -> bool {
        self.changed_inputs.is_empty() && self.outputs.iter().all(|output| output.comparison.agrees())
    }
}

/// A check with what verification needs further.
pub(crate) struct Checked {
    pub(crate) check: Check,
    pub(crate) expected: Vec<Option<Expected>>,
    pub(crate) got: Vec<Vec<u8>>,
    pub(crate) poison: u8,
    pub(crate) model: ErrorModel,
    pub(crate) ptx: Option<Arc<str>>,
    /// What ran: the case's kernel and schedule, or those of its shipped PTX.
    pub(crate) ran: (KernelSpec, Schedule),
}

/// Outputs hold NaN in every float format, and -1, before the first run.
pub(crate) const FIRST_POISON: u8 = 0xff;
/// Outputs hold an ordinary number before the timed runs, so that a kernel cannot pass by what the first poison means
/// to it.
pub(crate) const SECOND_POISON: u8 = 0xa5;

/// Runs a case once and compares its outputs with the reference. Ends all allocations of the backend but resident
/// ones.
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
    checked(case, context, options).map(|checked| checked.check)
}

pub(crate) fn checked(
    case: &Case,
    context: &mut dyn OracleContext,
    options: &CheckOptions,
) -> Result<Checked, OracleError> {
    check_sizes(case, context.constraints())?;
    let (mut prepared, origin, ran) = prepare(case, context)?;
    let model = error_model(case, &prepared.evidence.arithmetic);
    let contents = case.contents(options.seed)?;
    let expected = case.expected(&contents, &model)?;

    let stage = Stage::new(context, case, &contents, FIRST_POISON)?;
    let mut first = Vec::new();
    stage.fill(context)?;
    stage.run(context, &mut prepared, Sampling { warmups: 0, samples: 1 }, &mut first)?;
    let instructions = context.instructions();
    let got = stage.read(context)?;
    let mut check = Check {
        outputs: compare_outputs(case, &got, &expected, stage.poison()),
        changed_inputs: changed_inputs(case, &got, &contents),
        timing: Timing { samples_ns: first.clone(), device_clock: context.timestamp_supported() },
        instructions,
        origin,
        provenance: provenance(&prepared.evidence, &prepared.image.target.to_string()),
    };
    let mut samples = affordable(options, first.first().copied().unwrap_or(0));
    if looks_like_poison(case, &expected, stage.poison()) {
        // What was never written may look right: other poison must tell, whatever another run costs.
        samples = samples.max(1);
    }
    if check.agrees() && samples > 0 {
        repeat(case, context, &mut prepared, &contents, &expected, samples, options, &mut check)?;
    }
    let ptx = prepared.image.ptx.clone();
    Ok(Checked { check, expected, got, poison: FIRST_POISON, model, ptx, ran })
}

/// The timed runs: their last result is compared too, over other poison.
#[allow(clippy::too_many_arguments, reason = "one caller; a struct would only rename the locals of it")]
fn repeat(
    case: &Case,
    context: &mut dyn OracleContext,
    prepared: &mut Prepared,
    contents: &[Vec<u8>],
    expected: &[Option<Expected>],
    samples: u32,
    options: &CheckOptions,
    check: &mut Check,
) -> Result<(), OracleError> {
    let stage = Stage::new(context, case, contents, SECOND_POISON)?;
    let mut times = Vec::new();
    let in_place = case.buffers().iter().any(|buffer| buffer.role == Role::InOut);
    // A kernel that works in place changes its own input: fill again before every run of it.
    let (rounds, sampling) = if in_place {
        (samples, Sampling { warmups: 0, samples: 1 })
    } else {
        (1, Sampling { warmups: options.sampling.warmups, samples })
    };
    for _ in 0..rounds {
        stage.fill(context)?;
        stage.run(context, prepared, sampling, &mut times)?;
    }
    let got = stage.read(context)?;
    for (output, again) in check.outputs.iter_mut().zip(compare_outputs(case, &got, expected, stage.poison()))
    {
        let (old, new) = (&output.comparison, &again.comparison);
        if new.mismatches > old.mismatches || new.worst_ratio() > old.worst_ratio() {
            *output = again;
        }
    }
    check.changed_inputs = changed_inputs(case, &got, contents);
    check.timing.samples_ns = times;
    Ok(())
}

/// Before anything is allocated: that the device could hold all buffers.
fn check_sizes(case: &Case, device: &Constraints) -> Result<(), OracleError> {
    let mut total = 0u64;
    for buffer in case.buffers() {
        let bytes = buffer.size_bytes();
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
        })
        .collect()
}

/// Builds the case's kernel; where there is no compiler, its shipped PTX.
fn prepare(
    case: &Case,
    context: &mut dyn OracleContext,
) -> Result<(Prepared, Origin, (KernelSpec, Schedule)), ContextError> {
    let own = context.prepare(case.kernel(), case.schedule(), case.build_options());
    match (own, case.shipped()) {
        (Ok(prepared), _) => Ok((prepared, Origin::Own, (case.kernel().clone(), case.schedule().clone()))),
        (Err(error), Some(shipped)) if error.kind() == ContextErrorKind::Unavailable => {
            let schedule = ptx_schedule(shipped);
            let prepared = context.prepare(&shipped.spec, &schedule, case.build_options())?;
            Ok((prepared, Origin::ShippedPtx, (shipped.spec.clone(), schedule)))
        }
        (Err(error), _) => Err(error),
    }
}

/// The shipped PTX's schedule without the constants, which are compiled in.
fn ptx_schedule(shipped: &ShippedPtx) -> Schedule {
    Schedule { constants: Vec::new(), ..shipped.schedule.clone() }
}

/// The error model that follows from the arithmetic that ran, unless the case insists on its own.
fn error_model(case: &Case, arithmetic: &Arithmetic) -> ErrorModel {
    if let Some(model) = case.model() {
        return *model;
    }
    let base = match (case.format(), arithmetic.fast_math) {
        (Format::F32, true) => ErrorModel::fast_f32(),
        (format, _) => ErrorModel::native(format),
    };
    let flush = base.flush_to_zero() || arithmetic.flush_to_zero;
    arithmetic.bounds.iter().fold(base.with_flush_to_zero(flush), |model, bound| {
        match Function::ALL.into_iter().find(|function| is_named(*function, bound.function)) {
            Some(function) => model.with_limit(function, Limit::Ulps(bound.max_ulp), "stated by the backend"),
            None => model,
        }
    })
}

/// `exp`, `expf` and `exp.approx` all name the exponential.
fn is_named(function: Function, name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or(name);
    stem == function.name() || stem.strip_suffix('f') == Some(function.name())
}

fn provenance(evidence: &Evidence, target: &str) -> Provenance {
    Provenance {
        source: evidence.source.to_string(),
        image: evidence.image.to_string(),
        compiler: evidence.compiler.clone(),
        driver: evidence.driver.clone(),
        target: target.to_owned(),
        fused: evidence.arithmetic.fused,
        flush_to_zero: evidence.arithmetic.flush_to_zero,
        fast_math: evidence.arithmetic.fast_math,
    }
}
