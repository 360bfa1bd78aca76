//! Judges corpus kernels with the oracle: where their code comes from, which context runs them, how a run ends.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cuforge::Session;
use cuforge_compile::{Bundle, CompileError, Compiler, Nvrtc, SearchPaths};
use cuforge_core::{Adapter, KernelCompiler, OracleContext, Schedule};
use cuforge_oracle::corpus::{CorpusKernel, Form};
use cuforge_oracle::report::{details, to_table};
use cuforge_oracle::{CudaContext, Report, SimContext, Verdict, VerifyOptions, verify_with};

use crate::archive;
use crate::device::Choice;
use crate::ending::{Ending, Stop};
use crate::toolchain::{self, Version};

/// Where the code of CUDA C kernels comes from.
#[derive(Clone)]
pub(crate) enum Code {
    /// It is compiled on this machine.
    Compiled {
        /// By this.
        compiler: Arc<dyn KernelCompiler>,
        /// Where its NVRTC was found.
        paths: SearchPaths,
        /// Which NVRTC, in words.
        what: String,
    },
    /// It was compiled into an archive, because this machine has no NVRTC.
    Bundled {
        /// Answers what the archive holds.
        compiler: Arc<dyn KernelCompiler>,
        /// The bundle.
        file: PathBuf,
        /// How much there is, in words.
        what: String,
    },
    /// The PTX beside the kernels runs, because NVRTC is not to be had.
    Shipped {
        /// Why it is not.
        why: String,
    },
}

impl Code {
    /// The pinned NVRTC, fetched if need be, else one of this machine, else the shipped PTX. Out of an archive, where
    /// nothing can be fetched: an NVRTC of this machine, else the images that were compiled into the archive.
    pub(crate) fn find() -> Self {
        match archive::here() {
            Some(archive) => Self::beside(&archive),
            None => Self::fetched(),
        }
    }

    fn fetched() -> Self {
        let pinned = toolchain::ensure(&[Version::V12_9]).map_err(|error| {
            // What pip printed stands behind the first colon; the line would drown in it.
            let said = error.to_string();
            said.split(": ").next().unwrap_or(&said).to_owned()
        });
        let pinned = pinned.and_then(|made| {
            let paths = SearchPaths::only(made.into_iter().map(|made| made.root));
            Nvrtc::find(&paths).map(|nvrtc| (nvrtc, paths)).map_err(|error| error.to_string())
        });
        match pinned {
            Ok((nvrtc, paths)) => Self::compiled(nvrtc, paths, "pinned, in target/cuda"),
            Err(why) => Self::of_this_machine(&why).unwrap_or_else(|| Self::Shipped { why }),
        }
    }

    fn beside(archive: &Path) -> Self {
        let opened = || {
            let file = archive.join(archive::BUNDLE);
            let bundle = Bundle::open(&file)?;
            let what = format!("{} images of {}", bundle.len(), file.display());
            let compiler: Arc<dyn KernelCompiler> = Arc::new(Compiler::from_bundle(bundle)?);
            Ok(Self::Bundled { compiler, file, what })
        };
        Self::of_this_machine("out of an archive").unwrap_or_else(|| {
            opened().unwrap_or_else(|error: CompileError| Self::Shipped { why: error.to_string() })
        })
    }

    /// The NVRTC that the machine has, and why it is not the pinned one.
    fn of_this_machine(why: &str) -> Option<Self> {
        let paths = SearchPaths::default();
        let nvrtc = Nvrtc::find(&paths).ok()?;
        Some(Self::compiled(nvrtc, paths, &format!("of this machine; {why}")))
    }

    fn compiled(nvrtc: Nvrtc, paths: SearchPaths, place: &str) -> Self {
        let (major, minor) = nvrtc.version();
        let what = format!("NVRTC {major}.{minor} ({place})");
        Self::Compiled { compiler: Arc::new(Compiler::with_nvrtc(nvrtc)), paths, what }
    }

    /// What is run, and why if it is second best; one line.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Compiled { what, .. } => format!("CUDA C, compiled by {what}"),
            Self::Bundled { what, .. } => format!("CUDA C, compiled ahead of time: {what}"),
            Self::Shipped { why } => {
                format!("the PTX shipped with the kernels, because NVRTC is not to be had: {why}")
            }
        }
    }
}

/// The chosen device, with code from where `code` says.
///
/// # Errors
///
/// The device could not be made ready.
pub(crate) fn context(choice: &Choice, code: &Code) -> Result<Box<dyn OracleContext>, Stop> {
    let Some(device) = &choice.device else { return Ok(Box::new(simulated(code)?)) };
    let builder = Session::builder().device(device.clone());
    let builder = match code {
        Code::Compiled { paths, .. } => builder.search_paths(paths.clone()),
        Code::Bundled { file, .. } => {
            builder.search_paths(SearchPaths::only::<PathBuf>([])).bundle(file.clone())
        }
        Code::Shipped { .. } => builder.search_paths(SearchPaths::only::<PathBuf>([])),
    };
    let session = builder.build().map_err(|error| Stop::failed(format!("the CUDA device: {error}")))?;
    Ok(Box::new(CudaContext::new(session)))
}

/// A fresh simulated device that compiles as `code` says.
///
/// # Errors
///
/// The device could not be made.
pub(crate) fn simulated(code: &Code) -> Result<SimContext, Stop> {
    let builder = SimContext::builder();
    let builder = match code {
        Code::Compiled { compiler, .. } | Code::Bundled { compiler, .. } => {
            builder.compiler(Arc::clone(compiler))
        }
        Code::Shipped { .. } => builder,
    };
    builder.build().map_err(|error| Stop::failed(format!("the simulated device: {error}")))
}

/// What came of one kernel in one form.
pub(crate) struct Judged {
    /// The report. Where the case or the backend made an error it says that nothing ran, and why.
    pub(crate) report: Report,
    /// The error, if there was one: it counts as a failure.
    pub(crate) error: Option<String>,
}

impl Judged {
    /// True for a kernel that ran and was verified.
    pub(crate) fn passed(&self) -> bool {
        self.error.is_none() && self.report.verdict == Verdict::Passed
    }

    fn failed(&self) -> bool {
        self.error.is_some() || self.report.verdict.is_failure()
    }
}

/// Judges `kernel` in `form` at its real size, under its default schedule where the form takes it.
pub(crate) fn judge(kernel: &CorpusKernel, form: Form, context: &mut dyn OracleContext, seed: u64) -> Judged {
    let schedules = kernel.schedules(form);
    let default = kernel.default_schedule();
    let schedule =
        if schedules.contains(&default) { &default } else { schedules.first().unwrap_or(&default) };
    judge_under(kernel, form, schedule, context, &VerifyOptions::default().with_seed(seed))
}

/// As [`judge`], under this schedule.
pub(crate) fn judge_under(
    kernel: &CorpusKernel,
    form: Form,
    schedule: &Schedule,
    context: &mut dyn OracleContext,
    options: &VerifyOptions,
) -> Judged {
    let verified = kernel
        .case(form, &kernel.real_shape(), schedule)
        .and_then(|case| verify_with(&case, context, options));
    match verified {
        Ok(report) => Judged { report, error: None },
        Err(error) => {
            let error = error.to_string();
            let report = not_run(kernel, form, context.adapter(), options.check.seed, error.clone());
            Judged { report, error: Some(error) }
        }
    }
}

fn not_run(kernel: &CorpusKernel, form: Form, adapter: &Adapter, seed: u64, why: String) -> Report {
    let case = format!("{} ({})", kernel.name(), form.name());
    Report {
        kernel: kernel.name().to_owned(),
        shape: kernel.real_shape().to_string(),
        ..Report::blank(case, adapter.name.clone(), seed, Verdict::NotRun(why))
    }
}

/// Prints the table, then for each kernel that did not pass what was found.
pub(crate) fn show(judged: &[Judged]) {
    println!("{}\n", to_table(&reports(judged)));
    for judged in judged.iter().filter(|judged| !judged.passed()) {
        for line in details(&judged.report) {
            println!("{line}");
        }
    }
}

/// The reports alone.
pub(crate) fn reports(judged: &[Judged]) -> Vec<Report> {
    judged.iter().map(|judged| judged.report.clone()).collect()
}

/// How a run over `judged` ends: a device fault before a failure, a failure before "nothing ran".
pub(crate) fn ending(judged: &[Judged]) -> Ending {
    if judged.iter().any(|judged| matches!(judged.report.verdict, Verdict::Fault(_))) {
        Ending::DeviceFault
    } else if judged.iter().any(Judged::failed) {
        Ending::Failed
    } else if judged.iter().any(Judged::passed) {
        Ending::Good
    } else {
        Ending::NothingRan
    }
}

/// `5 passed, 1 failed, 0 not run`.
pub(crate) fn count(judged: &[Judged]) -> String {
    let passed = judged.iter().filter(|judged| judged.passed()).count();
    let failed = judged.iter().filter(|judged| judged.failed()).count();
    format!("{passed} passed, {failed} failed, {} not run", judged.len() - passed - failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuforge_oracle::corpus;

    fn with(verdict: Verdict) -> Judged {
        let context = simulated(&Code::Shipped { why: "test".into() }).unwrap();
        let mut report = not_run(&corpus::ALL[0], Form::CudaC, context.adapter(), 1, "x".into());
        report.verdict = verdict;
        Judged { report, error: None }
    }

    #[test]
    fn a_fault_outweighs_a_failure_which_outweighs_what_did_not_run() {
        let fault = || with(Verdict::Fault("out of bounds".into()));
        let not_run = || with(Verdict::NotRun("no device".into()));
        assert_eq!(ending(&[with(Verdict::Failed), fault()]), Ending::DeviceFault);
        assert_eq!(ending(&[with(Verdict::Passed), with(Verdict::Vacuous)]), Ending::Failed);
        assert_eq!(ending(&[with(Verdict::Passed), not_run()]), Ending::Good);
        assert_eq!(ending(&[not_run()]), Ending::NothingRan);
        assert_eq!(ending(&[]), Ending::NothingRan);
    }

    #[test]
    fn an_error_of_the_case_is_a_failure_and_what_did_not_run_is_never_counted_as_passed() {
        let broken = Judged { error: Some("no PTX".into()), ..with(Verdict::NotRun("no PTX".into())) };
        let judged = [with(Verdict::Passed), broken, with(Verdict::Unsupported("wmma".into()))];
        assert_eq!(count(&judged), "1 passed, 1 failed, 1 not run");
        assert_eq!(ending(&judged), Ending::Failed);
    }
}
