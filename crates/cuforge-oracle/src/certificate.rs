//! Certificates: what was verified, on what, and how well, as a file that can be verified again.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::build::sha256;
use crate::verdict::{InputsOutcome, OutputReport, Report, Verdict};

/// The name of the form; it changes when fields change their meaning or go away.
const SCHEMA: &str = "cuforge.certificate.1";

/// What a run of passed verifications has shown, in a form that is kept in a file.
///
/// A certificate is no signature: its digest finds damage, not forgery. What makes it worth something is that it can be
/// verified again, by running the same cases from the same seeds and holding the reports against it.
///
/// ```
/// use cuforge_oracle::corpus::{self, Form, Shape};
/// use cuforge_oracle::{Certificate, SimContext, verify};
/// let affine = corpus::find("affine").ok_or("no affine")?;
/// let schedule = affine.schedules(Form::WrittenPtx).swap_remove(0);
/// let case = affine.case(Form::WrittenPtx, &Shape::new(&[3000]), &schedule)?;
/// let report = verify(&case, &mut SimContext::builder().build()?)?;
/// let certificate = Certificate::of(std::slice::from_ref(&report))?;
/// let again = Certificate::from_text(&certificate.to_text())?;
/// assert_eq!(again.entries()[0].shape, "3000");
/// assert!(again.hold_against(&[report]).is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Certificate {
    schema: String,
    entries: Vec<CertifiedCase>,
    /// SHA-256 of the entries' JSON.
    digest: String,
}

/// One case of a certificate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "fields of the file, named as in the reports they are taken from")]
#[non_exhaustive]
pub struct CertifiedCase {
    pub case: String,
    pub kernel: String,
    pub shape: String,
    pub schedule: String,
    pub seed: u64,
    pub adapter: String,
    pub driver: String,
    pub compiler: String,
    pub target: String,
    pub fused: bool,
    pub flush_to_zero: bool,
    pub fast_math: bool,
    pub schedule_sha256: String,
    pub source_sha256: String,
    pub ptx_sha256: Option<String>,
    pub cubin_sha256: Option<String>,
    pub outputs: Vec<CertifiedOutput>,
    pub runs: u32,
    pub blocks: u64,
    /// PTX mutants killed, and those that ran and were reached.
    pub killed: usize,
    pub ran: usize,
    /// Names of further input sets that agreed, `=` behind those that did to the bit.
    pub inputs: Vec<String>,
    /// What device, simulated device and reference made of it, if there were three.
    pub legs: Option<String>,
    pub device_clock: bool,
    /// Samples that were taken while the device did not run at its clock, and do not count.
    pub discarded: u32,
    pub samples_ns: Vec<u64>,
    pub median_ns: Option<u64>,
    pub p95_ns: Option<u64>,
    pub interquartile_ns: Option<u64>,
    /// What ended the sampling; none for a fixed number.
    pub stopped: Option<String>,
}

/// One output of a certified case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "fields of the file, named as in the reports they are taken from")]
#[non_exhaustive]
pub struct CertifiedOutput {
    pub buffer: String,
    pub element: String,
    pub elements: u64,
    /// The largest error in millionths of its bound, and where. Integers, so that a file reads back as what it was.
    pub worst_ratio_ppm: u64,
    pub worst_index: Option<u64>,
    pub worst_ulps: Option<u64>,
    pub baseline_ratio_ppm: Option<u64>,
}

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// Only what passed is certified.
    #[error("`{case}` is no pass but {verdict}")]
    NotPassed {
        /// The case.
        case: String,
        /// What it is.
        verdict: Verdict,
    },
    /// Nothing was verified.
    #[error("there is nothing to certify")]
    Empty,
    /// The text is no JSON of this form.
    #[error("no certificate: {0}")]
    Malformed(#[from] serde_json::Error),
    /// Another form.
    #[error("a certificate of the form `{found}`, this is for `{SCHEMA}`")]
    Schema {
        /// The form that it names.
        found: String,
    },
    /// Something was changed after it was written.
    #[error("its digest is {found}, its entries have {entries}")]
    Digest {
        /// What it says.
        found: String,
        /// What its entries have.
        entries: String,
    },
}

/// How a report differs from what was certified.
///
/// ```
/// use cuforge_oracle::Difference;
/// let difference = Difference {
///     case: "gemm 4x4x4".into(),
///     what: "driver",
///     certified: "535".into(),
///     found: "580".into(),
///     breaks: false,
/// };
/// assert_eq!(difference.to_string(), "gemm 4x4x4: driver was 535, is 580");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Case and shape.
    pub case: String,
    /// What differs.
    pub what: &'static str,
    /// What the certificate says.
    pub certified: String,
    /// What was found now.
    pub found: String,
    /// Whether the certificate no longer holds: another text ran, the case no longer passes, fewer mutants are killed, or
    /// the bound is less well kept. Another device, driver or compiler is worth knowing and breaks nothing.
    pub breaks: bool,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} was {}, is {}", self.case, self.what, self.certified, self.found)
    }
}

impl Certificate {
    /// Certifies reports, all of which passed.
    ///
    /// # Errors
    /// [`CertificateError::NotPassed`] with the first that did not; [`CertificateError::Empty`].
    pub fn of(reports: &[Report]) -> Result<Self, CertificateError> {
        if let Some(report) = reports.iter().find(|report| report.verdict != Verdict::Passed) {
            let case = format!("{} {}", report.case, report.shape);
            return Err(CertificateError::NotPassed { case, verdict: report.verdict.clone() });
        }
        if reports.is_empty() {
            return Err(CertificateError::Empty);
        }
        let entries: Vec<CertifiedCase> = reports.iter().map(CertifiedCase::from).collect();
        Ok(Self { schema: SCHEMA.to_owned(), digest: digest(&entries), entries })
    }

    /// The text of the file: JSON.
    #[must_use]
    pub fn to_text(&self) -> String {
        // Strings, numbers and lists only: there is nothing in it that cannot be written.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// Reads a file's text.
    ///
    /// # Errors
    /// [`CertificateError::Malformed`], [`CertificateError::Schema`], [`CertificateError::Digest`].
    pub fn from_text(text: &str) -> Result<Self, CertificateError> {
        let read: Self = serde_json::from_str(text)?;
        if read.schema != SCHEMA {
            return Err(CertificateError::Schema { found: read.schema });
        }
        let entries = digest(&read.entries);
        if read.digest != entries {
            return Err(CertificateError::Digest { found: read.digest, entries });
        }
        Ok(read)
    }

    /// The certified cases.
    #[must_use]
    pub fn entries(&self) -> &[CertifiedCase] {
        &self.entries
    }

    /// Holds reports of the same cases, in the same order, against the certificate. None means that nothing differs.
    #[must_use]
    pub fn hold_against(&self, reports: &[Report]) -> Vec<Difference> {
        let mut differences = Vec::new();
        for (index, entry) in self.entries.iter().enumerate() {
            match reports.get(index) {
                Some(report) => entry.hold_against(report, &mut differences),
                None => {
                    entry.differ(
                        &mut differences,
                        "verdict",
                        "passed".to_owned(),
                        "not run".to_owned(),
                        true,
                    );
                }
            }
        }
        differences
    }
}

impl CertifiedCase {
    fn hold_against(&self, report: &Report, differences: &mut Vec<Difference>) {
        let mut differ = |what, certified: String, found: String, breaks| {
            if certified != found {
                self.differ(differences, what, certified, found, breaks);
            }
        };
        differ("verdict", Verdict::Passed.to_string(), report.verdict.to_string(), true);
        let now = Self::from(report);
        differ("kernel", self.kernel.clone(), now.kernel, true);
        differ("shape", self.shape.clone(), now.shape, true);
        differ("schedule", self.schedule_sha256.clone(), now.schedule_sha256, true);
        differ("source", self.source_sha256.clone(), now.source_sha256, true);
        let same_compiler = self.compiler == now.compiler && self.target == now.target;
        let text = |hash: &Option<String>| hash.clone().unwrap_or_else(|| "none".to_owned());
        // Another compiler makes another text of the same source; the same one must not.
        differ("PTX", text(&self.ptx_sha256), text(&now.ptx_sha256), same_compiler);
        differ("machine code", text(&self.cubin_sha256), text(&now.cubin_sha256), false);
        differ("device", self.adapter.clone(), now.adapter, false);
        differ("driver", self.driver.clone(), now.driver, false);
        differ("compiler", self.compiler.clone(), now.compiler, false);
        let flags = |case: &Self| (case.fused, case.flush_to_zero, case.fast_math);
        let now = Self::from(report);
        differ("arithmetic", format!("{:?}", flags(self)), format!("{:?}", flags(&now)), true);
        if now.killed < self.killed && same_compiler {
            differ("killed mutants", self.killed.to_string(), now.killed.to_string(), true);
        }
        for (before, after) in self.outputs.iter().zip(&now.outputs) {
            differ("elements", before.elements.to_string(), after.elements.to_string(), true);
        }
    }

    fn differ(
        &self,
        differences: &mut Vec<Difference>,
        what: &'static str,
        certified: String,
        found: String,
        breaks: bool,
    ) {
        let case = format!("{} {}", self.case, self.shape);
        differences.push(Difference { case, what, certified, found, breaks });
    }
}

fn digest(entries: &[CertifiedCase]) -> String {
    sha256(serde_json::to_string(entries).unwrap_or_default().as_bytes())
}

impl From<&Report> for CertifiedCase {
    fn from(report: &Report) -> Self {
        let from = report.provenance.clone().unwrap_or_default();
        let (killed, ran) = report.discrimination.as_ref().map_or((0, 0), |found| found.kill_score());
        let inputs = report.inputs.iter().filter_map(|tried| match tried.outcome {
            InputsOutcome::Agrees { exact, .. } => {
                Some(format!("{}{}", tried.inputs.name(), if exact { "=" } else { "" }))
            }
            _ => None,
        });
        Self {
            case: report.case.clone(),
            kernel: report.kernel.clone(),
            shape: report.shape.clone(),
            schedule: report.schedule.clone(),
            seed: report.seed,
            adapter: report.adapter.clone(),
            driver: from.driver,
            compiler: from.compiler,
            target: from.target,
            fused: from.fused,
            flush_to_zero: from.flush_to_zero,
            fast_math: from.fast_math,
            schedule_sha256: sha256(report.schedule.as_bytes()),
            source_sha256: from.source,
            ptx_sha256: from.ptx,
            cubin_sha256: from.cubin,
            outputs: report.outputs.iter().map(CertifiedOutput::from).collect(),
            runs: report.runs,
            blocks: u64::try_from(report.blocks).unwrap_or(u64::MAX),
            killed,
            ran,
            inputs: inputs.collect(),
            legs: report.legs.as_ref().map(ToString::to_string),
            device_clock: report.timing.device_clock,
            discarded: report.timing.discarded,
            samples_ns: report.timing.samples_ns.clone(),
            median_ns: report.timing.median_ns(),
            p95_ns: report.timing.p95_ns(),
            interquartile_ns: report.timing.interquartile_ns(),
            stopped: report.timing.stopped.map(|stopped| stopped.word().to_owned()),
        }
    }
}

impl From<&OutputReport> for CertifiedOutput {
    fn from(output: &OutputReport) -> Self {
        let worst = output.comparison.worst;
        Self {
            buffer: output.buffer.clone(),
            element: output.element.name().to_owned(),
            elements: output.comparison.elements,
            worst_ratio_ppm: millionths(output.comparison.worst_ratio()),
            worst_index: worst.map(|worst| worst.index),
            worst_ulps: worst.and_then(|worst| worst.ulps),
            baseline_ratio_ppm: output.baseline_ratio.map(millionths),
        }
    }
}

/// Rounded up: what is not exact is not zero.
fn millionths(ratio: f64) -> u64 {
    (ratio * 1e6).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::samples;

    #[test]
    fn only_passes_are_certified() {
        assert!(Certificate::of(&[samples::passed()]).is_ok());
        let mixed = Certificate::of(&[samples::passed(), samples::failed()]);
        assert!(matches!(mixed, Err(CertificateError::NotPassed { .. })));
        assert!(matches!(Certificate::of(&[samples::not_run()]), Err(CertificateError::NotPassed { .. })));
        assert!(matches!(Certificate::of(&[]), Err(CertificateError::Empty)));
    }

    #[test]
    fn a_certificate_reads_back_and_every_changed_value_is_found() {
        let text = Certificate::of(&[samples::passed()]).unwrap().to_text();
        assert_eq!(Certificate::from_text(&text).unwrap().to_text(), text);
        for (old, new) in [("\"killed\": 5", "\"killed\": 6"), ("\"shape\": \"4\"", "\"shape\": \"5\"")] {
            let forged = text.replace(old, new);
            assert_ne!(forged, text, "{old}");
            assert!(matches!(Certificate::from_text(&forged), Err(CertificateError::Digest { .. })));
        }
        let other = text.replace("certificate.1", "certificate.2");
        assert!(matches!(Certificate::from_text(&other), Err(CertificateError::Schema { .. })));
        assert!(matches!(Certificate::from_text("{}"), Err(CertificateError::Malformed(_))));
    }

    #[test]
    fn ratios_that_no_decimal_fraction_hits_survive_the_file() {
        let mut report = samples::passed();
        let worst = report.outputs[0].comparison.worst.as_mut().unwrap();
        (worst.error, worst.bound) = (1.0 / 3.0, 0.7);
        report.outputs[0].baseline_ratio = Some(2.0 / 3.0);
        let text = Certificate::of(&[report]).unwrap().to_text();
        let read = Certificate::from_text(&text).unwrap();
        assert_eq!(read.entries()[0].outputs[0].worst_ratio_ppm, 476_191);
        assert_eq!(read.entries()[0].outputs[0].baseline_ratio_ppm, Some(666_667));
    }

    #[test]
    fn another_text_or_verdict_breaks_it_and_another_driver_does_not() {
        let certificate = Certificate::of(&[samples::passed()]).unwrap();
        let changed = |change: fn(&mut Report)| {
            let mut report = samples::passed();
            change(&mut report);
            let differences = certificate.hold_against(&[report]);
            differences.into_iter().map(|found| (found.what, found.breaks)).collect::<Vec<_>>()
        };
        assert_eq!(changed(|_| ()), []);
        assert_eq!(changed(|report| report.verdict = Verdict::Failed), [("verdict", true)]);
        assert_eq!(
            changed(|report| report.provenance.as_mut().unwrap().source = "other".into()),
            [("source", true)]
        );
        assert_eq!(
            changed(|report| report.provenance.as_mut().unwrap().driver = "other".into()),
            [("driver", false)]
        );
        assert_eq!(
            changed(|report| report.discrimination.as_mut().unwrap().ptx.truncate(4)),
            [("killed mutants", true)]
        );
        assert_eq!(
            certificate.hold_against(&[]).iter().map(|found| found.breaks).collect::<Vec<_>>(),
            [true]
        );
    }
}
