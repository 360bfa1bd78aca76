//! A differential oracle for GPU kernels: the same kernel on several backends against a CPU reference, with a verdict that can be trusted
//!
//! A [`Case`] is a kernel under a schedule over a shape, with generated inputs and a [`Reference`] in plain Rust. The
//! reference is written once, generic over [`Real`]: run with `f64` it gives the value, run with [`Tracked`] it also
//! gives a rigorous bound on how far a correct kernel may be off, so that no tolerance is a bare constant.
//! A verdict is [`Verdict::Passed`] only if the case has shown that it can fail.
//!
//! # Example: a kernel of the corpus on the simulated device
//!
//! ```
//! use cuforge_oracle::corpus::{self, Form, Shape};
//! use cuforge_oracle::{SimContext, Verdict, report, verify};
//!
//! let rms_norm = corpus::find("rms_norm").ok_or("no rms_norm")?;
//! let schedule = &rms_norm.schedules(Form::WrittenPtx)[0];
//! let case = rms_norm.case(Form::WrittenPtx, &Shape::new(&[4, 100]), schedule)?;
//! let report = verify(&case, &mut SimContext::builder().build()?)?;
//! assert_eq!(report.verdict, Verdict::Passed);
//! assert!(report.worst().is_some_and(|(_, element)| element.ratio() <= 1.0));
//! println!("{}", report::to_table(&[report]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Case::builder`] shows how a kernel of your own becomes a case.
#![deny(unsafe_code)]

mod adapters;
mod adversary;
mod baseline;
mod blame;
mod build;
mod case;
mod certificate;
mod check;
mod closure;
mod compare;
mod cores;
pub mod corpus;
mod discriminate;
mod error;
mod execute;
mod fill;
mod fit;
mod format;
pub mod fuzz;
mod inputs;
mod interface;
mod legs;
mod local_trials;
mod measure;
mod model;
mod number;
mod random;
mod real;
mod reference;
pub mod report;
mod result_mutants;
mod roofline;
mod second_kernel;
mod simulate;
mod sizes;
mod spread;
mod stopping;
mod sweep;
mod tracked;
mod tune;
mod verdict;
mod verify;

pub use adapters::{CudaContext, SimContext, SimContextBuilder, SimError};
#[cfg(feature = "wgpu")]
pub use adapters::{WgpuContext, WgpuContextBuilder, WgpuError};
pub use blame::{Blame, Leg, Legs};
pub use build::source_digest;
pub use case::{Case, CaseBuilder, ShippedPtx};
pub use certificate::{Certificate, CertificateError, CertifiedCase, CertifiedOutput, Difference};
pub use check::{Check, CheckOptions, check};
pub use closure::ExpectedElement;
pub use compare::{Comparison, Expected, Judged, Outcome, Policy, compare};
pub use discriminate::MutantOptions;
pub use error::OracleError;
pub use execute::Trespass;
pub use fill::{Custom, Fill};
pub use format::Format;
pub use inputs::Inputs;
pub use interface::{Buffer, Role};
pub use local_trials::LocalTrials;
pub use measure::{MeasureOptions, Measurement, measure};
pub use model::{ErrorModel, Function, Limit, StatedLimit};
pub use number::{Number, Scalar};
pub use random::Random;
pub use real::{Real, Summation};
pub use reference::{Evaluation, Judge, Reference};
pub use second_kernel::SecondKernel;
pub use sizes::odd_sizes;
pub use spread::{HeatMap, Histogram};
pub use stopping::Stopping;
pub use sweep::{Sweep, SweepFailure, sweep};
pub use tracked::{Tracked, Tracker, Undecided};
pub use tune::{Candidate, Rejection, Standing, Trials, TuneOptions, Tuned, tune};
pub use verdict::{
    Discrimination, Fate, InputsOutcome, InputsReport, MutantReport, Origin, OutputReport, Provenance,
    Report, Timing, Verdict,
};
pub use verify::{VerifyOptions, verify, verify_with};
