//! Random kernels in number, and single ones from files.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use cuforge_core::OracleContext;
use cuforge_oracle::fuzz::{self, FuzzCase, FuzzForm, FuzzOutcome};

use crate::ending::{Ending, Stop};
use crate::workspace;

const FORMS: [FuzzForm; 2] = [FuzzForm::CudaC, FuzzForm::Ptx];
/// Runs that a failure may take to be made small.
const MOST_SHRINKING_RUNS: u32 = 1000;

#[derive(Debug, Default)]
struct Counts {
    agreed: u64,
    elements: u64,
    failed: u64,
    not_applicable: u64,
    not_run: u64,
}

/// Runs `count` random kernels in both forms; what fails is made small and kept.
///
/// # Errors
///
/// A failure could not be written down, or the device cannot go on.
pub(crate) fn run(count: u64, seed: u64, context: &mut dyn OracleContext) -> Result<Ending, Stop> {
    let start = Instant::now();
    let mut counts = Counts::default();
    for number in 0..count {
        let case = FuzzCase::generate(seed, number);
        for form in FORMS {
            let outcome = outcome(&case, form, context)?;
            if let FuzzOutcome::Fails(what) = &outcome {
                println!("{number} in {}: {what}", form.name());
                let small = fuzz::shrink(&case, form, context, MOST_SHRINKING_RUNS);
                let file = keep(&small, seed, number, form)?;
                println!("  made small: {}", file.display());
                show_legs(&small, form, context);
            }
            counts.add(outcome);
        }
    }
    let Counts { agreed, elements, failed, not_applicable, not_run } = counts;
    println!(
        "{agreed} agreed ({elements} elements), {failed} failed, {not_applicable} without a bound, {not_run} not run \
         in {:.1} s",
        start.elapsed().as_secs_f64()
    );
    Ok(counts.ending())
}

/// Runs cases from files, in both forms.
///
/// # Errors
///
/// A file cannot be read, or the device cannot go on.
pub(crate) fn replay(files: &[PathBuf], context: &mut dyn OracleContext) -> Result<Ending, Stop> {
    let mut counts = Counts::default();
    for file in files {
        let wrong = |error: &dyn std::fmt::Display| Stop::failed(format!("{}: {error}", file.display()));
        let text = fs::read_to_string(file).map_err(|error| wrong(&error))?;
        let case = FuzzCase::from_text(&text).map_err(|error| wrong(&error))?;
        for form in FORMS {
            let outcome = outcome(&case, form, context)?;
            let what = match &outcome {
                FuzzOutcome::Agrees(elements) => format!("agrees in {elements} elements"),
                FuzzOutcome::Fails(what) => format!("fails: {what}"),
                FuzzOutcome::NotApplicable(why) => format!("has no bound: {why}"),
                FuzzOutcome::NotRun(why) => format!("not run: {why}"),
            };
            println!("{} in {}: {what}", file.display(), form.name());
            if matches!(outcome, FuzzOutcome::Fails(_)) {
                println!("\n{}", case.source(form));
                show_legs(&case, form, context);
            }
            counts.add(outcome);
        }
    }
    Ok(counts.ending())
}

impl Counts {
    fn add(&mut self, outcome: FuzzOutcome) {
        match outcome {
            FuzzOutcome::Agrees(elements) => {
                (self.agreed, self.elements) = (self.agreed + 1, self.elements + elements);
            }
            FuzzOutcome::Fails(_) => self.failed += 1,
            FuzzOutcome::NotApplicable(_) => self.not_applicable += 1,
            FuzzOutcome::NotRun(_) => self.not_run += 1,
        }
    }

    const fn ending(&self) -> Ending {
        match (self.failed, self.agreed) {
            (0, 0) => Ending::NothingRan,
            (0, _) => Ending::Good,
            _ => Ending::Failed,
        }
    }
}

fn outcome(case: &FuzzCase, form: FuzzForm, context: &mut dyn OracleContext) -> Result<FuzzOutcome, Stop> {
    fuzz::run(case, form, context)
        .map_err(|error| Stop::new(Ending::DeviceFault, format!("{error}\n{}", case.to_text())))
}

fn show_legs(case: &FuzzCase, form: FuzzForm, context: &mut dyn OracleContext) {
    if let Some(legs) = fuzz::localise(case, form, context) {
        let blame = legs.blame().map_or("nothing", |blame| blame.describe());
        println!("  {legs}\n  at fault: {blame}");
    }
}

fn keep(case: &FuzzCase, seed: u64, number: u64, form: FuzzForm) -> Result<PathBuf, Stop> {
    let folder = workspace::root().join("target/fuzz");
    let form = if form == FuzzForm::Ptx { "ptx" } else { "cuda" };
    let file = folder.join(format!("{seed}-{number}-{form}.json"));
    let written = fs::create_dir_all(&folder).and_then(|()| fs::write(&file, case.to_text()));
    written.map(|()| file.clone()).map_err(|error| failed_to_write(&file, &error))
}

fn failed_to_write(file: &Path, error: &std::io::Error) -> Stop {
    Stop::failed(format!("writing {}: {error}", file.display()))
}
