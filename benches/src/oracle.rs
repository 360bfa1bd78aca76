//! The oracle over the kernel corpus on the simulated device: what one verification costs, mutants included.

use std::time::Instant;

use cuforge_core::OracleContext;
use cuforge_oracle::corpus::{self, CorpusKernel, Form};
use cuforge_oracle::{CheckOptions, SimContext, Verdict, VerifyOptions, check, verify_with};

use crate::area::{Measured, Settings};
use crate::figure::Figure;
use crate::rounds::repeat;

/// Measures the area. The contexts have no compiler, so the shipped PTX runs: compiling is the compile area's.
pub(crate) fn run(settings: &Settings) -> Measured {
    let rounds = settings.rounds() / 3;
    let mut figures = Vec::new();
    for kernel in corpus::ALL {
        let mut context = SimContext::builder().build()?;
        let name = format!("verify {} {}", kernel.name(), kernel.real_shape());
        let spread = repeat(rounds, || verify_once(&kernel, &mut context))?;
        figures.push(Figure::new(name, "ms", spread, rounds));
        let name = format!("check alone {} {}", kernel.name(), kernel.real_shape());
        let spread = repeat(rounds, || check_once(&kernel, &mut context))?;
        figures.push(Figure::new(name, "ms", spread, rounds));
    }
    Ok(figures)
}

fn verify_once(
    kernel: &CorpusKernel,
    context: &mut dyn OracleContext,
) -> Result<f64, Box<dyn std::error::Error>> {
    let case = kernel.case(Form::CudaC, &kernel.real_shape(), &kernel.default_schedule())?;
    let start = Instant::now();
    let report = verify_with(&case, context, &VerifyOptions::default())?;
    let milliseconds = start.elapsed().as_secs_f64() * 1e3;
    if report.verdict == Verdict::Passed {
        Ok(milliseconds)
    } else {
        Err(format!("{} is {}: a wrong answer has no speed", kernel.name(), report.verdict).into())
    }
}

fn check_once(
    kernel: &CorpusKernel,
    context: &mut dyn OracleContext,
) -> Result<f64, Box<dyn std::error::Error>> {
    let case = kernel.case(Form::CudaC, &kernel.real_shape(), &kernel.default_schedule())?;
    let start = Instant::now();
    let checked = check(&case, context, &CheckOptions::default())?;
    let milliseconds = start.elapsed().as_secs_f64() * 1e3;
    if checked.agrees() { Ok(milliseconds) } else { Err(format!("{} is wrong", kernel.name()).into()) }
}
