//! The JSON form, with a schema name and stable keys.

use serde::Serialize;

use crate::blame::{Blame, Legs};
use crate::compare::Judged;
use crate::execute::Trespass;
use crate::verdict::{
    Discrimination, Fate, InputsOutcome, InputsReport, MutantReport, Origin, OutputReport, Report,
};

/// The name of the JSON form; it changes when keys change their meaning or go away.
pub const SCHEMA: &str = "cuforge.verify.1";

/// All reports as one JSON document.
///
/// Numbers that JSON cannot write (infinite ratios and errors) are null. Values of elements are strings, exact for
/// every element type.
///
/// ```
/// let text = cuforge_oracle::report::to_json(&[]);
/// assert!(text.contains("\"schema\": \"cuforge.verify.1\""));
/// ```
#[must_use]
pub fn to_json(reports: &[Report]) -> String {
    let document = Document { schema: SCHEMA, cases: reports.iter().map(CaseEntry::from).collect() };
    // Strings, numbers and lists only: there is nothing in it that cannot be written.
    serde_json::to_string_pretty(&document).unwrap_or_default()
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    cases: Vec<CaseEntry<'a>>,
}

#[derive(Serialize)]
struct CaseEntry<'a> {
    case: &'a str,
    kernel: &'a str,
    shape: &'a str,
    schedule: &'a str,
    adapter: &'a str,
    seed: u64,
    verdict: &'static str,
    reason: Option<&'a str>,
    origin: Option<&'static str>,
    outputs: Vec<OutputEntry<'a>>,
    changed_inputs: &'a [String],
    trespasses: Vec<TrespassEntry<'a>>,
    runs: u32,
    blocks: u64,
    inputs: Vec<InputsEntry<'a>>,
    legs: Option<LegsEntry>,
    discrimination: Option<DiscriminationEntry<'a>>,
    samples_ns: &'a [u64],
    median_ns: Option<u64>,
    p95_ns: Option<u64>,
    device_clock: bool,
    instructions: Option<u64>,
    instructions_per_second: Option<f64>,
    provenance: Option<ProvenanceEntry<'a>>,
    notes: &'a [String],
}

#[derive(Serialize)]
struct OutputEntry<'a> {
    buffer: &'a str,
    element: &'static str,
    elements: u64,
    mismatches: u64,
    unwritten: u64,
    not_finite: u64,
    subnormal: u64,
    worst: Option<WorstEntry>,
    worst_elements: Vec<WorstEntry>,
    histogram: HistogramEntry,
    baseline_ratio: Option<f64>,
}

/// Counts of elements by the ratio of error to bound; `high` is null for infinity.
#[derive(Serialize)]
struct HistogramEntry {
    exact: u64,
    unmeasured: u64,
    buckets: Vec<BucketEntry>,
}

#[derive(Serialize)]
struct BucketEntry {
    low: f64,
    high: Option<f64>,
    count: u64,
}

#[derive(Serialize)]
struct TrespassEntry<'a> {
    buffer: &'a str,
    bytes_past_end: Option<u64>,
    bytes_before_start: Option<u64>,
}

#[derive(Serialize)]
struct InputsEntry<'a> {
    inputs: &'static str,
    outcome: &'static str,
    exact: Option<bool>,
    worst_ratio: Option<f64>,
    mismatches: Option<u64>,
    reason: Option<&'a str>,
}

#[derive(Serialize)]
struct LegsEntry {
    shape: String,
    device: String,
    simulated: String,
    between: String,
    blame: Option<&'static str>,
}

#[derive(Serialize)]
struct WorstEntry {
    index: u64,
    outcome: &'static str,
    got: String,
    expected: String,
    bound: f64,
    error: Option<f64>,
    ratio: Option<f64>,
    ulps: Option<u64>,
}

#[derive(Serialize)]
struct DiscriminationEntry<'a> {
    killed: usize,
    ran: usize,
    sites: usize,
    vacuous: Option<&'a str>,
    results: Vec<MutantEntry<'a>>,
    ptx: Vec<MutantEntry<'a>>,
}

#[derive(Serialize)]
struct MutantEntry<'a> {
    operator: &'a str,
    description: &'a str,
    fate: &'static str,
}

#[derive(Serialize)]
struct ProvenanceEntry<'a> {
    source_sha256: &'a str,
    image_sha256: &'a str,
    ptx_sha256: Option<&'a str>,
    cubin_sha256: Option<&'a str>,
    compiler: &'a str,
    driver: &'a str,
    target: &'a str,
    fused: bool,
    flush_to_zero: bool,
    fast_math: bool,
}

fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

impl<'a> From<&'a Report> for CaseEntry<'a> {
    fn from(report: &'a Report) -> Self {
        Self {
            case: &report.case,
            kernel: &report.kernel,
            shape: &report.shape,
            schedule: &report.schedule,
            adapter: &report.adapter,
            seed: report.seed,
            verdict: report.verdict.word(),
            reason: report.verdict.reason(),
            origin: report.origin.map(|origin| match origin {
                Origin::Own => "own",
                Origin::ShippedPtx => "shipped-ptx",
            }),
            outputs: report.outputs.iter().map(OutputEntry::from).collect(),
            changed_inputs: &report.changed_inputs,
            trespasses: report.trespasses.iter().map(TrespassEntry::from).collect(),
            runs: report.runs,
            blocks: u64::try_from(report.blocks).unwrap_or(u64::MAX),
            inputs: report.inputs.iter().map(InputsEntry::from).collect(),
            legs: report.legs.as_ref().map(LegsEntry::from),
            discrimination: report.discrimination.as_ref().map(DiscriminationEntry::from),
            samples_ns: &report.timing.samples_ns,
            median_ns: report.timing.median_ns(),
            p95_ns: report.timing.p95_ns(),
            device_clock: report.timing.device_clock,
            instructions: report.instructions,
            instructions_per_second: report.instructions_per_second(),
            provenance: report.provenance.as_ref().map(|from| ProvenanceEntry {
                source_sha256: &from.source,
                image_sha256: &from.image,
                ptx_sha256: from.ptx.as_deref(),
                cubin_sha256: from.cubin.as_deref(),
                compiler: &from.compiler,
                driver: &from.driver,
                target: &from.target,
                fused: from.fused,
                flush_to_zero: from.flush_to_zero,
                fast_math: from.fast_math,
            }),
            notes: &report.notes,
        }
    }
}

impl<'a> From<&'a OutputReport> for OutputEntry<'a> {
    fn from(output: &'a OutputReport) -> Self {
        let found = &output.comparison;
        Self {
            buffer: &output.buffer,
            element: output.element.name(),
            elements: found.elements,
            mismatches: found.mismatches,
            unwritten: found.unwritten,
            not_finite: found.not_finite,
            subnormal: found.subnormal,
            worst: found.worst.as_ref().map(WorstEntry::from),
            worst_elements: found.worst_elements.iter().map(WorstEntry::from).collect(),
            histogram: HistogramEntry {
                exact: found.histogram.exact,
                unmeasured: found.histogram.unmeasured,
                buckets: found
                    .histogram
                    .buckets()
                    .filter(|(_, _, count)| *count > 0)
                    .map(|(low, high, count)| BucketEntry { low, high: finite(high), count })
                    .collect(),
            },
            baseline_ratio: output.baseline_ratio.and_then(finite),
        }
    }
}

impl From<&Judged> for WorstEntry {
    fn from(judged: &Judged) -> Self {
        Self {
            index: judged.index,
            outcome: judged.outcome.describe(),
            got: judged.got.to_string(),
            expected: judged.expected.to_string(),
            bound: judged.bound,
            error: finite(judged.error),
            ratio: finite(judged.ratio()),
            ulps: judged.ulps,
        }
    }
}

impl<'a> From<&'a Trespass> for TrespassEntry<'a> {
    fn from(trespass: &'a Trespass) -> Self {
        Self {
            buffer: &trespass.buffer,
            bytes_past_end: trespass.bytes_past_end,
            bytes_before_start: trespass.bytes_before_start,
        }
    }
}

impl<'a> From<&'a InputsReport> for InputsEntry<'a> {
    fn from(report: &'a InputsReport) -> Self {
        let inputs = report.inputs.name();
        let entry = |outcome| Self {
            inputs,
            outcome,
            exact: None,
            worst_ratio: None,
            mismatches: None,
            reason: None,
        };
        match &report.outcome {
            InputsOutcome::Agrees { exact, worst_ratio } => {
                Self { exact: Some(*exact), worst_ratio: finite(*worst_ratio), ..entry("agrees") }
            }
            InputsOutcome::Differs { mismatches } => {
                Self { mismatches: Some(*mismatches), ..entry("differs") }
            }
            InputsOutcome::NotApplicable(reason) => Self { reason: Some(reason), ..entry("not-applicable") },
        }
    }
}

impl From<&Legs> for LegsEntry {
    fn from(legs: &Legs) -> Self {
        Self {
            shape: legs.shape.clone(),
            device: legs.device.to_string(),
            simulated: legs.simulated.to_string(),
            between: legs.between.to_string(),
            blame: legs.blame().map(Blame::word),
        }
    }
}

impl<'a> From<&'a Discrimination> for DiscriminationEntry<'a> {
    fn from(found: &'a Discrimination) -> Self {
        let (killed, ran) = found.kill_score();
        Self {
            killed,
            ran,
            sites: found.ptx_sites,
            vacuous: found.vacuous.as_deref(),
            results: found.results.iter().map(MutantEntry::from).collect(),
            ptx: found.ptx.iter().map(MutantEntry::from).collect(),
        }
    }
}

impl<'a> From<&'a MutantReport> for MutantEntry<'a> {
    fn from(mutant: &'a MutantReport) -> Self {
        let fate = match mutant.fate {
            Fate::Differs => "differs",
            Fate::Faults => "faults",
            Fate::Survives => "survives",
            Fate::Unreached => "unreached",
            Fate::Stillborn => "stillborn",
        };
        Self { operator: &mutant.operator, description: &mutant.description, fate }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::samples;

    #[test]
    fn keys_and_words_are_stable() {
        let text = to_json(&[samples::passed(), samples::failed(), samples::not_run()]);
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(document["schema"], SCHEMA);
        let [passed, failed, not_run] = [0, 1, 2].map(|index| &document["cases"][index]);
        assert_eq!(passed["verdict"], "passed");
        assert_eq!(passed["discrimination"]["killed"], 5);
        assert_eq!(passed["median_ns"], 2000);
        assert_eq!(failed["outputs"][0]["worst"]["got"], "2.5");
        assert_eq!(failed["outputs"][0]["mismatches"], 1);
        assert_eq!(not_run["reason"], "no compiler");
        let mut keys: Vec<&str> = passed.as_object().unwrap().keys().map(String::as_str).collect();
        keys.sort_unstable();
        assert_eq!(
            keys,
            [
                "adapter",
                "blocks",
                "case",
                "changed_inputs",
                "device_clock",
                "discrimination",
                "inputs",
                "instructions",
                "instructions_per_second",
                "kernel",
                "legs",
                "median_ns",
                "notes",
                "origin",
                "outputs",
                "p95_ns",
                "provenance",
                "reason",
                "runs",
                "samples_ns",
                "schedule",
                "seed",
                "shape",
                "trespasses",
                "verdict"
            ]
        );
    }
}
