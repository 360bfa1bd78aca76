//! Certificates of a verification: written, and verified again.

use std::fs;
use std::path::Path;

use cuforge_core::OracleContext;
use cuforge_oracle::corpus::{self, CorpusKernel, Form, Shape};
use cuforge_oracle::{Certificate, CertifiedCase, Report, VerifyOptions};

use crate::ending::{Ending, Stop};
use crate::judge::{self, Judged};

/// Writes a certificate of what passed.
///
/// # Errors
///
/// Something did not pass, or the file cannot be written.
pub(crate) fn write(file: &Path, reports: &[Report]) -> Result<(), Stop> {
    let certificate = Certificate::of(reports)
        .map_err(|error| Stop::failed(format!("no certificate was written: {error}")))?;
    fs::write(file, certificate.to_text())
        .map_err(|error| Stop::failed(format!("writing {}: {error}", file.display())))?;
    println!("certified {} cases in {}", certificate.entries().len(), file.display());
    Ok(())
}

/// Verifies every case of a certificate again, and shows what differs.
///
/// # Errors
///
/// The file is no certificate, or names a kernel, form, shape or schedule that there is not.
pub(crate) fn again(file: &Path, context: &mut dyn OracleContext) -> Result<Ending, Stop> {
    let wrong = |error: &dyn std::fmt::Display| Stop::failed(format!("{}: {error}", file.display()));
    let text = fs::read_to_string(file).map_err(|error| wrong(&error))?;
    let certificate = Certificate::from_text(&text).map_err(|error| wrong(&error))?;
    let mut judged = Vec::new();
    for entry in certificate.entries() {
        judged.push(verify(entry, context).map_err(|why| wrong(&why))?);
    }
    judge::show(&judged);
    let differences = certificate.hold_against(&judge::reports(&judged));
    for difference in &differences {
        println!("{}{difference}", if difference.breaks { "BREAKS  " } else { "        " });
    }
    let broken = differences.iter().filter(|difference| difference.breaks).count();
    println!("{}; {broken} differences break the certificate", judge::count(&judged));
    Ok(match judge::ending(&judged) {
        Ending::Good if broken > 0 => Ending::Failed,
        ending => ending,
    })
}

fn verify(entry: &CertifiedCase, context: &mut dyn OracleContext) -> Result<Judged, String> {
    let (kernel, form) =
        find(&entry.kernel).ok_or_else(|| format!("the corpus has no `{}`", entry.kernel))?;
    let shape: Shape = entry.shape.parse().map_err(|error| format!("shape `{}`: {error}", entry.shape))?;
    if shape != kernel.real_shape() {
        return Err(format!("`{}` is not verified at {shape}", entry.kernel));
    }
    let schedule = entry.schedule.parse().map_err(|error| format!("schedule: {error}"))?;
    let options = VerifyOptions::default().with_seed(entry.seed);
    Ok(judge::judge_under(&kernel, form, &schedule, context, &options))
}

/// The corpus kernel whose id this is, and in which form.
fn find(id: &str) -> Option<(CorpusKernel, Form)> {
    let forms = [Form::CudaC, Form::WrittenPtx];
    let all = corpus::ALL.into_iter().flat_map(|kernel| forms.map(|form| (kernel, form)));
    all.into_iter().find(|(kernel, form)| kernel.spec(*form).is_some_and(|spec| spec.id() == id))
}
