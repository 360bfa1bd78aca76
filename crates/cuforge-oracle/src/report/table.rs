//! The text table: one line a case, and the details of what did not pass.

use std::fmt::Write as _;

use super::chart::{heat_map, histogram};
use crate::compare::Outcome;
use crate::verdict::{Fate, Report, Verdict};

const HEADS: [&str; 10] = [
    "kernel",
    "shape",
    "schedule",
    "verdict",
    "worst error/bound",
    "ulps",
    "killed",
    "median",
    "p95",
    "instr/s",
];

/// A table with one line a report, columns aligned, without a line end behind the last.
///
/// Columns: kernel, shape, schedule, verdict, the worst ratio of an error to its bound, units in the last place of
/// that element, PTX mutants killed of those that ran and were reached, median and 95th percentile of the time, instructions a second.
/// What is not known is a dash.
///
/// ```
/// assert!(cuforge_oracle::report::to_table(&[]).starts_with("kernel"));
/// ```
#[must_use]
pub fn to_table(reports: &[Report]) -> String {
    let mut rows = vec![HEADS.map(str::to_owned)];
    rows.extend(reports.iter().map(row));
    let widths: Vec<usize> = (0..HEADS.len())
        .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
        .collect();
    let lines = rows.iter().map(|row| {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            // Words to the left, figures to the right.
            if column < 4 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn row(report: &Report) -> [String; 10] {
    let dash = || "-".to_owned();
    let worst = report.worst().map(|(_, judged)| judged);
    let ratio = worst.map_or_else(dash, |judged| match judged.outcome {
        Outcome::Agrees | Outcome::BeyondBound => ratio_text(judged.ratio()),
        other => other.describe().to_owned(),
    });
    let killed = report.discrimination.as_ref().map_or_else(dash, |found| {
        let (killed, ran) = found.kill_score();
        format!("{killed}/{ran}")
    });
    [
        report.case.clone(),
        report.shape.clone(),
        report.schedule.clone(),
        report.verdict.word().to_owned(),
        ratio,
        worst.and_then(|judged| judged.ulps).map_or_else(dash, |ulps| ulps.to_string()),
        killed,
        report.timing.median_ns().map_or_else(dash, time_text),
        report.timing.p95_ns().map_or_else(dash, time_text),
        report.instructions_per_second().map_or_else(dash, |rate| format!("{:.1} M", rate / 1e6)),
    ]
}

/// What a person wants to know of a report that did not pass, and remarks of one that did; a line each, none if there
/// is nothing to say.
#[must_use]
pub fn details(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    let at = format!("{} {}", report.case, report.shape);
    if let Some(reason) = report.verdict.reason() {
        lines.push(format!("{at}: {}: {reason}", report.verdict.word()));
    }
    if report.verdict == Verdict::Failed {
        for output in &report.outputs {
            let found = &output.comparison;
            let Some(worst) = found.worst.filter(|_| !found.agrees()) else { continue };
            let mut line = format!(
                "{at}: `{}` differs in {} of {} elements ({} never written); worst at index {}: {}, got {}, expected {}",
                output.buffer,
                found.mismatches,
                found.elements,
                found.unwritten,
                worst.index,
                worst.outcome.describe(),
                worst.got,
                worst.expected
            );
            if worst.bound > 0.0 {
                // Writing to a string cannot fail.
                let _ = write!(line, " within {:e}, off by {:e}", worst.bound, worst.error);
            }
            if let Some(ulps) = worst.ulps {
                let _ = write!(line, ", {ulps} ulps");
            }
            lines.push(line);
            lines.extend(found.worst_elements.iter().skip(1).map(|judged| {
                let (index, outcome) = (judged.index, judged.outcome.describe());
                format!("    index {index}: {outcome}, got {}, expected {}", judged.got, judged.expected)
            }));
            lines.push("    errors by size, in units of each element's own bound:".to_owned());
            lines.extend(histogram(found).lines().map(|line| format!("    {line}")));
            let map = &found.map;
            lines.push(format!("    where, in {} rows of {}:", map.tensor_rows(), map.row_elements()));
            lines.extend(heat_map(found).lines().map(|line| format!("    {line}")));
        }
    }
    if let Some(legs) = report.legs.as_ref().filter(|legs| legs.blame().is_some()) {
        lines.push(format!("{at}: {legs}"));
    }
    lines.extend(report.notes.iter().map(|note| format!("{at}: {note}")));
    if let (Verdict::Vacuous, Some(found)) = (&report.verdict, &report.discrimination) {
        let survivors = found.results.iter().chain(&found.ptx).filter(|mutant| mutant.fate == Fate::Survives);
        lines.extend(
            survivors.map(|mutant| format!("{at}: survived: {} ({})", mutant.description, mutant.operator)),
        );
    }
    lines
}

fn ratio_text(ratio: f64) -> String {
    if ratio == 0.0 {
        "exact".to_owned()
    } else if (0.001..1000.0).contains(&ratio) {
        format!("{ratio:.3}")
    } else {
        format!("{ratio:.1e}")
    }
}

fn time_text(nanoseconds: u64) -> String {
    let value = nanoseconds as f64;
    match nanoseconds {
        0..1_000 => format!("{nanoseconds} ns"),
        1_000..1_000_000 => format!("{:.1} us", value / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", value / 1e6),
        _ => format!("{:.2} s", value / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::samples;

    #[test]
    fn a_table_has_one_aligned_line_a_case() {
        let table = to_table(&[samples::passed(), samples::failed(), samples::not_run()]);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 4);
        let column = lines[0].find("verdict").unwrap();
        assert!(lines[1][column..].starts_with("passed") && lines[2][column..].starts_with("failed"));
        assert!(lines[1].contains("5/6") && lines[1].contains("2.0 us"), "{table}");
        assert!(lines[3].contains("not-run") && lines[3].ends_with('-'), "{table}");
    }

    #[test]
    fn details_name_the_worst_element_of_a_failure() {
        let text = details(&samples::failed()).join("\n");
        for part in ["`y`", "index 3", "got 2.5", "expected 2.0", "1 of 4"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(details(&samples::not_run()).join("").contains("no compiler"));
        assert!(details(&samples::passed()).is_empty());
    }
}
