//! Trials of the tuner in this process: a context that is opened anew after a fault.

use std::fmt;

use cuforge_core::{ContextError, ContextErrorKind, OracleContext, Schedule};

use crate::case::Case;
use crate::check::{CheckOptions, check};
use crate::error::OracleError;
use crate::measure::{MeasureOptions, measure};
use crate::stopping::Stopping;
use crate::tune::{Rejection, Trials};

/// Runs trials of one kernel over one shape in this process.
///
/// A candidate that faults costs its context, which is opened anew; one that hangs or takes the process down takes the
/// search with it. Where that may happen, run this in a process of its own, as `cargo xtask tune` does.
///
/// ```
/// use cuforge_oracle::corpus::{self, Form, Shape};
/// use cuforge_oracle::{LocalTrials, SimContext, TuneOptions, tune};
/// let affine = corpus::find("affine").ok_or("no affine")?;
/// let schedules = affine.schedules(Form::WrittenPtx);
/// let case = move |schedule: &_| affine.case(Form::WrittenPtx, &Shape::new(&[3000]), schedule);
/// let mut trials = LocalTrials::new(case, || Ok(Box::new(SimContext::builder().build()?)));
/// let options = TuneOptions { first_samples: 1, last_samples: 1, ..TuneOptions::default() };
/// assert!(tune(&schedules, &mut trials, &options).winner.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct LocalTrials<'a> {
    case: Box<MakeCase<'a>>,
    open: Box<Open<'a>>,
    context: Option<Box<dyn OracleContext>>,
    seed: u64,
    flush_cache: bool,
}

type MakeCase<'a> = dyn Fn(&Schedule) -> Result<Case, OracleError> + 'a;
type Open<'a> = dyn FnMut() -> Result<Box<dyn OracleContext>, ContextError> + 'a;

impl fmt::Debug for LocalTrials<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalTrials").field("open", &self.context.is_some()).finish_non_exhaustive()
    }
}

impl<'a> LocalTrials<'a> {
    /// Trials of the cases that `case` makes, on contexts that `open` opens.
    pub fn new(
        case: impl Fn(&Schedule) -> Result<Case, OracleError> + 'a,
        open: impl FnMut() -> Result<Box<dyn OracleContext>, ContextError> + 'a,
    ) -> Self {
        Self { case: Box::new(case), open: Box::new(open), context: None, seed: 0, flush_cache: false }
    }

    /// With another seed of the inputs.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// With the last cache overwritten before every sample.
    #[must_use]
    pub fn with_cold_cache(mut self) -> Self {
        self.flush_cache = true;
        self
    }

    fn on_context<T>(
        &mut self,
        schedule: &Schedule,
        run: impl FnOnce(&Case, &mut dyn OracleContext) -> Result<T, OracleError>,
    ) -> Result<T, (Rejection, String)> {
        let mut context = match self.context.take() {
            Some(context) => context,
            None => (self.open)().map_err(|error| rejection(&error.into()))?,
        };
        let outcome = (self.case)(schedule).and_then(|case| run(&case, &mut *context));
        let outcome = outcome.map_err(|error| rejection(&error));
        // What faulted may have left anything behind.
        self.context = Some(context).filter(|_| !matches!(outcome, Err((Rejection::Fault, _))));
        outcome
    }
}

impl Trials for LocalTrials<'_> {
    fn check(&mut self, schedule: &Schedule) -> Result<(), (Rejection, String)> {
        let options = CheckOptions::default().with_seed(self.seed);
        let found = self.on_context(schedule, |case, context| check(case, context, &options))?;
        let worst = found.outputs.iter().find(|output| !output.comparison.agrees());
        match worst {
            None if found.agrees() => Ok(()),
            None => Err((Rejection::Wrong, "it wrote where it may not".to_owned())),
            Some(output) => {
                let (wrong, all) = (output.comparison.mismatches, output.comparison.elements);
                Err((Rejection::Wrong, format!("{wrong} of {all} elements of `{}` differ", output.buffer)))
            }
        }
    }

    fn sample(&mut self, schedule: &Schedule, samples: u32) -> Result<Vec<u64>, (Rejection, String)> {
        let stopping =
            Stopping { least_samples: samples, least_total_ns: 0, deviation: 1e9, ..Stopping::default() };
        let (seed, flush_cache) = (self.seed, self.flush_cache);
        let options = MeasureOptions { seed, flush_cache, stopping, ..MeasureOptions::default() };
        let found = self.on_context(schedule, |case, context| measure(case, context, &options))?;
        match found.rejected {
            Some(why) => Err((Rejection::Wrong, why)),
            None => Ok(found.timing.samples_ns),
        }
    }
}

fn rejection(error: &OracleError) -> (Rejection, String) {
    let why = match error {
        OracleError::Context(context)
            if matches!(context.kind(), ContextErrorKind::Fault | ContextErrorKind::DeviceLost) =>
        {
            Rejection::Fault
        }
        _ => Rejection::Unfit,
    };
    (why, error.to_string())
}
