//! Verdicts and the report of one verification.

use std::fmt;

use cuforge_core::Element;

use crate::blame::Legs;
use crate::compare::{Comparison, Judged};
use crate::execute::Trespass;
use crate::inputs::Inputs;

/// What a verification found.
///
/// ```
/// use cuforge_oracle::Verdict;
/// assert!(Verdict::Vacuous.is_failure());
/// assert_eq!(Verdict::NotRun("no compiler".into()).to_string(), "not-run: no compiler");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Every element of every output lies within its bound, and the case has shown that it can fail.
    Passed,
    /// The kernel computed something else; the report says where.
    Failed,
    /// The outputs agree, but the case would not have noticed if they did not: it proves nothing.
    Vacuous,
    /// The backend cannot run this, for the stated reason.
    Unsupported(String),
    /// The kernel did something illegal on the device.
    Fault(String),
    /// Nothing ran, for the stated reason.
    NotRun(String),
}

impl Verdict {
    /// One lower-case word: `passed`, `failed`, `vacuous`, `unsupported`, `fault`, `not-run`. Stable.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Vacuous => "vacuous",
            Self::Unsupported(_) => "unsupported",
            Self::Fault(_) => "fault",
            Self::NotRun(_) => "not-run",
        }
    }

    /// Why, for the verdicts that carry a reason.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Unsupported(reason) | Self::Fault(reason) | Self::NotRun(reason) => Some(reason),
            _ => None,
        }
    }

    /// Whether this counts against the kernel or the case: failed, vacuous and faulted ones do.
    #[must_use]
    pub const fn is_failure(&self) -> bool {
        matches!(self, Self::Failed | Self::Vacuous | Self::Fault(_))
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reason() {
            Some(reason) => write!(f, "{}: {reason}", self.word()),
            None => f.write_str(self.word()),
        }
    }
}

/// What ran as the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The kernel's own text.
    Own,
    /// The PTX shipped beside it, for want of a compiler.
    ShippedPtx,
}

/// The comparison of one output.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputReport {
    /// The buffer's name.
    pub buffer: String,
    /// Its element type.
    pub element: Element,
    /// How it compared.
    pub comparison: Comparison,
    /// The largest error over that of the reference with every operation rounded to the kernel's format, in source
    /// order: about 1 for a kernel as careful as a plain one, less for one with a reduction tree. A second opinion that
    /// no verdict follows from; none for exact outputs and where it was not asked for.
    pub baseline_ratio: Option<f64>,
}

/// One mutant that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MutantReport {
    /// The operator that made it, or `result` for a change of the output itself.
    pub operator: String,
    /// What was changed, and where.
    pub description: String,
    /// What became of it.
    pub fate: Fate,
}

/// What became of a mutant.
///
/// ```
/// use cuforge_oracle::Fate;
/// assert!(Fate::Faults.is_killed() && !Fate::Stillborn.is_killed());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Its outputs differ beyond their bounds.
    Differs,
    /// The device reported a fault.
    Faults,
    /// The case did not notice.
    Survives,
    /// The case did not notice, and no thread comes to the place that was changed: it says nothing of the case.
    Unreached,
    /// It does not load or run, so it says nothing of the case.
    Stillborn,
}

impl Fate {
    /// Whether the case noticed.
    #[must_use]
    pub const fn is_killed(self) -> bool {
        matches!(self, Self::Differs | Self::Faults)
    }
}

/// Whether a case can fail: the mutants it was shown.
///
/// ```
/// use cuforge_oracle::{Discrimination, Fate, MutantReport};
/// let mutant = MutantReport { operator: "drop-store".into(), description: "line 9".into(), fate: Fate::Differs };
/// let found = Discrimination { ptx: vec![mutant], ..Discrimination::default() };
/// assert_eq!(found.kill_score(), (1, 1));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Discrimination {
    /// Changes of the outputs: zeroed, dropped tail and the like.
    pub results: Vec<MutantReport>,
    /// Changes of the kernel's PTX, run on the simulated device.
    pub ptx: Vec<MutantReport>,
    /// All PTX mutations that there are, of which [`Discrimination::ptx`] is a sample.
    pub ptx_sites: usize,
    /// Why the case counts as one that cannot fail, if it does.
    pub vacuous: Option<String>,
}

impl Discrimination {
    /// PTX mutants killed, and PTX mutants that ran and whose place was reached.
    #[must_use]
    pub fn kill_score(&self) -> (usize, usize) {
        let counts = |mutant: &&MutantReport| !matches!(mutant.fate, Fate::Stillborn | Fate::Unreached);
        let ran = self.ptx.iter().filter(counts);
        (ran.clone().filter(|mutant| mutant.fate.is_killed()).count(), ran.count())
    }
}

/// Times of the verified runs.
///
/// ```
/// use cuforge_oracle::Timing;
/// let timing = Timing { samples_ns: vec![30, 10, 20], ..Timing::default() };
/// assert_eq!((timing.median_ns(), timing.p95_ns()), (Some(20), Some(30)));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// Nanoseconds of each timed run, in order.
    pub samples_ns: Vec<u64>,
    /// Further samples that do not count, because the device did not run at its clock.
    pub discarded: u32,
    /// Whether the device's own clock took them.
    pub device_clock: bool,
    /// What ended the sampling; none for a fixed number of samples.
    pub stopped: Option<Stopped>,
}

/// What ended a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stopped {
    /// The relative standard deviation is small enough.
    Converged,
    /// It does not change any more.
    Stable,
    /// The time is up.
    Cap,
}

impl Stopped {
    /// One lower-case word. Stable.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Converged => "converged",
            Self::Stable => "stable",
            Self::Cap => "cap",
        }
    }
}

impl Timing {
    /// The value below which so many percent of the samples lie (nearest rank); none without samples.
    #[must_use]
    pub fn percentile_ns(&self, percent: u32) -> Option<u64> {
        let mut sorted = self.samples_ns.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() * percent as usize).div_ceil(100).max(1);
        sorted.get(rank - 1).copied()
    }

    /// The median (nearest rank).
    #[must_use]
    pub fn median_ns(&self) -> Option<u64> {
        self.percentile_ns(50)
    }

    /// The distance of the quartiles (nearest rank).
    #[must_use]
    pub fn interquartile_ns(&self) -> Option<u64> {
        Some(self.percentile_ns(75)? - self.percentile_ns(25)?)
    }

    /// The 95th percentile (nearest rank).
    #[must_use]
    pub fn p95_ns(&self) -> Option<u64> {
        self.percentile_ns(95)
    }
}

/// What ran where: enough to find it again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    /// Digest of the kernel's text, as hexadecimal digits.
    pub source: String,
    /// Digest of what was loaded.
    pub image: String,
    /// Digest of the PTX text, where there is one.
    pub ptx: Option<String>,
    /// Digest of the machine code, where it was made before it was loaded.
    pub cubin: Option<String>,
    /// Name and version of the compiler.
    pub compiler: String,
    /// Name and version of the driver.
    pub driver: String,
    /// What the image was made for.
    pub target: String,
    /// Multiply and add may have been fused.
    pub fused: bool,
    /// Subnormals may have been flushed.
    pub flush_to_zero: bool,
    /// Fast math was on.
    pub fast_math: bool,
}

/// What became of a case over other inputs.
#[derive(Clone, Debug, PartialEq)]
pub struct InputsReport {
    /// Which.
    pub inputs: Inputs,
    /// What was found.
    pub outcome: InputsOutcome,
}

/// What was found over other inputs.
#[derive(Clone, Debug, PartialEq)]
pub enum InputsOutcome {
    /// Every element lies within its bound.
    Agrees {
        /// Every bound is zero: equal to the bit.
        exact: bool,
        /// The largest error over its bound.
        worst_ratio: f64,
    },
    /// Something differs, or was written where nothing may be.
    Differs {
        /// In how many elements.
        mismatches: u64,
    },
    /// The reference has no bound for them, for the stated reason.
    NotApplicable(String),
}

/// The report of one verification.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The case.
    pub case: String,
    /// The kernel's id.
    pub kernel: String,
    /// The shape.
    pub shape: String,
    /// The schedule in one line.
    pub schedule: String,
    /// The device.
    pub adapter: String,
    /// The seed of the inputs, and of the mutants' sample.
    pub seed: u64,
    /// What was found.
    pub verdict: Verdict,
    /// What ran; none if nothing did.
    pub origin: Option<Origin>,
    /// Each output's comparison.
    pub outputs: Vec<OutputReport>,
    /// Names of inputs that the kernel changed.
    pub changed_inputs: Vec<String>,
    /// What it wrote outside of its buffers.
    pub trespasses: Vec<Trespass>,
    /// Runs whose results were compared.
    pub runs: u32,
    /// Blocks of a launch.
    pub blocks: u128,
    /// Other inputs that were tried, on a reduced case.
    pub inputs: Vec<InputsReport>,
    /// Reference, device and simulated device on one PTX; none where the device is the simulated one.
    pub legs: Option<Legs>,
    /// The mutants, if the case got that far.
    pub discrimination: Option<Discrimination>,
    /// Times.
    pub timing: Timing,
    /// Instructions of one run, counted per thread, where the backend counts.
    pub instructions: Option<u64>,
    /// What ran where, if anything did.
    pub provenance: Option<Provenance>,
    /// Remarks for people, such as why the shipped PTX ran.
    pub notes: Vec<String>,
}

impl Report {
    /// A report of a case that nothing has been found of yet.
    #[must_use]
    pub fn blank(case: impl Into<String>, adapter: impl Into<String>, seed: u64, verdict: Verdict) -> Self {
        let case = case.into();
        Self {
            kernel: case.clone(),
            case,
            shape: String::new(),
            schedule: String::new(),
            adapter: adapter.into(),
            seed,
            verdict,
            origin: None,
            outputs: Vec::new(),
            changed_inputs: Vec::new(),
            trespasses: Vec::new(),
            runs: 0,
            blocks: 0,
            inputs: Vec::new(),
            legs: None,
            discrimination: None,
            timing: Timing::default(),
            instructions: None,
            provenance: None,
            notes: Vec::new(),
        }
    }

    /// The worst element of all outputs and the output it is in.
    #[must_use]
    pub fn worst(&self) -> Option<(&OutputReport, &Judged)> {
        let judged = self.outputs.iter().filter_map(|o| o.comparison.worst.as_ref().map(|worst| (o, worst)));
        // The first of equals, so that reports do not depend on float ordering quirks.
        judged.reduce(|best, next| if next.1.ratio() > best.1.ratio() { next } else { best })
    }

    /// Elements that do not agree, in all outputs.
    #[must_use]
    pub fn mismatches(&self) -> u64 {
        self.outputs.iter().map(|output| output.comparison.mismatches).sum()
    }

    /// Instructions a second at the median time.
    #[must_use]
    pub fn instructions_per_second(&self) -> Option<f64> {
        let (instructions, median) = (self.instructions?, self.timing.median_ns()?);
        (instructions > 0 && median > 0).then(|| instructions as f64 * 1e9 / median as f64)
    }
}

/// Reports of each kind, for the tests of their written forms.
#[cfg(test)]
pub(crate) mod samples {
    use super::*;
    use crate::compare::Outcome;
    use crate::number::Number;

    fn report(verdict: Verdict, outcome: Outcome, got: f64) -> Report {
        let judged = Judged {
            index: 3,
            outcome,
            got: Number::Float(got),
            expected: Number::Float(2.0),
            bound: 0.25,
            error: (got - 2.0).abs(),
            ulps: Some(7),
        };
        let mismatches = u64::from(outcome != Outcome::Agrees);
        let comparison = Comparison { elements: 4, mismatches, worst: Some(judged), ..Comparison::default() };
        let baseline_ratio = Some(0.5);
        Report {
            kernel: "twice".into(),
            shape: "4".into(),
            schedule: "32x1x1 items 1".into(),
            origin: Some(Origin::Own),
            outputs: vec![OutputReport {
                buffer: "y".into(),
                element: Element::F32,
                comparison,
                baseline_ratio,
            }],
            runs: 4,
            blocks: 3,
            timing: Timing { samples_ns: vec![1000, 2000, 3000], ..Timing::default() },
            instructions: Some(100),
            provenance: Some(Provenance::default()),
            ..Report::blank("twice", "simulated sm_90", 1, verdict)
        }
    }

    pub(crate) fn passed() -> Report {
        let mutant = |fate| MutantReport { operator: "drop-store".into(), description: "d".into(), fate };
        let mut ptx = vec![mutant(Fate::Differs); 5];
        ptx.push(mutant(Fate::Survives));
        Report {
            discrimination: Some(Discrimination { ptx, ..Discrimination::default() }),
            ..report(Verdict::Passed, Outcome::Agrees, 2.125)
        }
    }

    pub(crate) fn failed() -> Report {
        report(Verdict::Failed, Outcome::BeyondBound, 2.5)
    }

    pub(crate) fn not_run() -> Report {
        Report::blank("twice", "simulated sm_90", 1, Verdict::NotRun("no compiler".into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples_by_nearest_rank() {
        let timing = Timing { samples_ns: vec![50, 10, 40, 20, 30], ..Timing::default() };
        assert_eq!((timing.median_ns(), timing.p95_ns()), (Some(30), Some(50)));
        let one = Timing { samples_ns: vec![7], ..Timing::default() };
        assert_eq!((one.median_ns(), one.p95_ns()), (Some(7), Some(7)));
        assert_eq!(Timing::default().median_ns(), None);
    }

    #[test]
    fn stillborn_and_unreached_mutants_count_neither_way() {
        let mutant = |fate| MutantReport { operator: "o".into(), description: "d".into(), fate };
        let fates = [Fate::Differs, Fate::Faults, Fate::Survives, Fate::Stillborn, Fate::Unreached];
        let ptx = fates.map(mutant).to_vec();
        assert_eq!(Discrimination { ptx, ..Discrimination::default() }.kill_score(), (2, 3));
    }
}
