//! Sweeps: one case over many seeds, to see that a correct kernel is never accused.

use cuforge_core::{BuildOptions, OracleContext};

use crate::build::Build;
use crate::case::Case;
use crate::check::{Check, Right, check_sizes, run_once};
use crate::compare::Expected;
use crate::error::OracleError;
use crate::execute::Stage;
use crate::model::ErrorModel;

/// What a sweep found.
///
/// ```
/// use cuforge_core::BuildOptions;
/// use cuforge_oracle::corpus::{self, Form, Shape};
/// use cuforge_oracle::{SimContext, sweep};
///
/// let affine = corpus::find("affine").ok_or("no affine")?;
/// let schedule = &affine.schedules(Form::WrittenPtx)[0];
/// let case = affine.case(Form::WrittenPtx, &Shape::new(&[300]), schedule)?;
/// let found = sweep(&case, &[BuildOptions::default()], 0..5, &mut SimContext::builder().build()?)?;
/// assert_eq!((found.checks, found.failures.len()), (5, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sweep {
    /// Runs whose results were compared.
    pub checks: u64,
    /// Elements that were compared.
    pub elements: u64,
    /// The largest error over its bound among all elements: above 1 only where there is a failure.
    pub worst_ratio: f64,
    /// The checks that do not agree.
    pub failures: Vec<SweepFailure>,
}

/// One check of a sweep that does not agree.
#[derive(Clone, Debug, PartialEq)]
pub struct SweepFailure {
    /// The seed of its inputs.
    pub seed: u64,
    /// How the kernel was built.
    pub build: BuildOptions,
    /// What was found.
    pub check: Check,
}

impl Sweep {
    /// Adds what another sweep found.
    pub fn absorb(&mut self, other: Self) {
        self.checks += other.checks;
        self.elements += other.elements;
        self.worst_ratio = self.worst_ratio.max(other.worst_ratio);
        self.failures.extend(other.failures);
    }
}

/// Checks a case over every one of `seeds` under every one of `builds`, as often as [`check`](crate::check) would, but
/// at a fraction of its cost: each build is prepared once, the buffers are allocated once, and the reference is evaluated
/// once a seed where the builds have one error model. A run costs one write and one read a buffer, and the launch.
///
/// As a check it proves little alone: sweep what [`verify`](crate::verify) has shown to be able to fail. Ends all
/// allocations of the backend but resident ones.
///
/// # Errors
/// Those of [`check`](crate::check). What has been found until then is lost.
pub fn sweep(
    case: &Case,
    builds: &[BuildOptions],
    seeds: impl IntoIterator<Item = u64>,
    context: &mut dyn OracleContext,
) -> Result<Sweep, OracleError> {
    check_sizes(case, context.constraints())?;
    let mut built = Vec::with_capacity(builds.len());
    for options in builds {
        built.push((*options, Build::new(&case.clone().with_build(*options), context)?));
    }
    let stage = Stage::new(context, case, 0)?;
    let mut found = Sweep::default();
    for seed in seeds {
        let contents = case.contents(seed)?;
        let mut known: Option<(ErrorModel, Vec<Option<Expected>>)> = None;
        for (options, build) in &mut built {
            let expected = match known.take().filter(|(model, _)| *model == build.model) {
                Some((_, expected)) => expected,
                None => case.expected(&contents, &build.model)?,
            };
            let right = Right { case, contents: &contents, expected: &expected };
            let (check, _) = run_once(context, build, &stage, &right)?;
            found.add(seed, *options, check);
            known = Some((build.model, expected));
        }
    }
    Ok(found)
}

impl Sweep {
    fn add(&mut self, seed: u64, build: BuildOptions, check: Check) {
        self.checks += 1;
        for output in &check.outputs {
            self.elements += output.comparison.elements;
            self.worst_ratio = self.worst_ratio.max(output.comparison.worst_ratio());
        }
        if !check.agrees() {
            self.failures.push(SweepFailure { seed, build, check });
        }
    }
}
