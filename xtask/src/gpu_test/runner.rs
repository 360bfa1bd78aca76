//! Runs the tests: a process each, one at a time on each device, the devices side by side.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::outcome::{Crumbs, Judgement, Outcome, judge};
use super::programs::Case;
use super::record::Record;
use super::sanitizer::{Findings, Tool};
use super::slots::Slot;
use crate::process::{self, Captured};

/// Bytes of a failed test's output that are kept, its end.
const LOG_BYTES: usize = 64 << 10;

/// How tests are run.
pub(super) struct Rules<'a> {
    /// When a test is stopped.
    pub(super) limit: Duration,
    /// The tool, and the program of the sanitizer.
    pub(super) sanitizer: Option<(Tool, PathBuf)>,
    /// The tests run on the simulated device.
    pub(super) simulated: bool,
    /// Variables of every test's process.
    pub(super) variables: &'a [(String, String)],
    /// A folder for breadcrumbs and sanitizer reports.
    pub(super) scratch: &'a Path,
    /// Whether the device of a slot still answers, asked after a fault.
    pub(super) well: &'a (dyn Fn(&Slot) -> bool + Sync),
    /// Told of each test as it ends.
    pub(super) told: &'a (dyn Fn(&Record) + Sync),
}

/// Runs `cases` on `slots`; one record for each, sorted by name.
pub(super) fn run(cases: &[Case], slots: &[Slot], rules: &Rules<'_>) -> Vec<Record> {
    let waiting: Mutex<VecDeque<&Case>> = Mutex::new(cases.iter().collect());
    let done: Mutex<Vec<Record>> = Mutex::new(Vec::with_capacity(cases.len()));
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let keep = |record: Record| {
        (rules.told)(&record);
        done.lock().unwrap_or_else(PoisonError::into_inner).push(record);
    };
    thread::scope(|scope| {
        for slot in slots {
            scope.spawn(|| {
                while let Some(case) = next() {
                    let record = one(case, slot, rules);
                    let fault = record.outcome == Outcome::Fault;
                    keep(record);
                    if fault && !(rules.well)(slot) {
                        return;
                    }
                }
            });
        }
    });
    // Only a device that faulted and did not come back leaves tests behind.
    while let Some(case) = next() {
        keep(Record::without_a_run(&case.name, Outcome::NotRun, "no device was left that answers"));
    }
    let mut records = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    records.sort_by(|a, b| a.name.cmp(&b.name));
    records
}

/// Runs one test, unless it is one that does not run on this ground.
fn one(case: &Case, slot: &Slot, rules: &Rules<'_>) -> Record {
    if rules.simulated && case.needs_silicon() {
        let why = case.special.as_deref().unwrap_or_default();
        return Record::without_a_run(&case.name, Outcome::Skipped, why);
    }
    let folder = rules.scratch.join(case.name.replace("::", "."));
    let start = Instant::now();
    let ran = fs::create_dir_all(&folder)
        .and_then(|()| process::capture_group(command(case, slot, rules, &folder), rules.limit));
    let mut record = match ran {
        Ok(captured) => judged(case, &captured, rules, &folder),
        Err(error) => {
            Record::without_a_run(&case.name, Outcome::NotRun, &format!("it could not be started: {error}"))
        }
    };
    record.seconds = start.elapsed().as_secs_f64();
    record.device = Some(slot.visible.clone().unwrap_or_else(|| slot.device.clone()));
    // What is left of it goes with the scratch folder at the end.
    let _ = fs::remove_dir_all(&folder);
    record
}

fn command(case: &Case, slot: &Slot, rules: &Rules<'_>, folder: &Path) -> Command {
    let mut command = match &rules.sanitizer {
        Some((tool, sanitizer)) => tool.around(sanitizer, &case.program, &report(folder)),
        None => Command::new(&case.program),
    };
    command.args(["--exact", &case.test, "--include-ignored", "--nocapture", "--color", "never"]);
    command.envs(rules.variables.iter().map(|(name, value)| (name, value)));
    command.env("CUFORGE_BREADCRUMBS", folder);
    if let Some((tool, _)) = &rules.sanitizer {
        command.env("CUFORGE_SANITIZER", tool.name());
    }
    if let Some(visible) = &slot.visible {
        command.env("CUDA_VISIBLE_DEVICES", visible);
    }
    command
}

fn report(folder: &Path) -> PathBuf {
    folder.join("sanitizer.txt")
}

fn judged(case: &Case, captured: &Captured, rules: &Rules<'_>, folder: &Path) -> Record {
    let crumbs = crumbs(folder, captured.process, rules.sanitizer.is_some());
    let mut judgement = judge(&case.test, captured, &crumbs);
    let mut findings = Findings::default();
    if rules.sanitizer.is_some() {
        findings = Findings::read(&report(folder));
        judgement = with_findings(judgement, &findings);
    }
    let passed = judgement.outcome == Outcome::Passed;
    let log = if passed { String::new() } else { end_of(&format!("{}{}", captured.stdout, captured.stderr)) };
    Record {
        name: case.name.clone(),
        outcome: judgement.outcome,
        reason: judgement.reason,
        last_driver_call: crumbs.last,
        findings: findings.lines,
        log,
        ..Record::default()
    }
}

/// Findings fail a test that held by itself, and so does a report that says nothing.
fn with_findings(judgement: Judgement, findings: &Findings) -> Judgement {
    if !matches!(judgement.outcome, Outcome::Passed | Outcome::Failed) {
        return judgement;
    }
    match findings.count {
        Some(0) => judgement,
        Some(count) => {
            let first = findings.lines.first().map_or("no details", String::as_str);
            Judgement::new(Outcome::Failed, format!("the sanitizer found {count}: {first}"))
        }
        None if judgement.outcome == Outcome::Failed => judgement,
        None => Judgement::new(Outcome::Failed, "the sanitizer gave no summary"),
    }
}

/// The breadcrumbs of `process`. A sanitizer starts the test itself: the first process that left crumbs is taken then,
/// for its last call alone, since what faults may be a child that the test started for that.
fn crumbs(folder: &Path, process: u32, by_sanitizer: bool) -> Crumbs {
    let read = |process: u32| {
        let bytes = fs::read(folder.join(process.to_string())).ok()?;
        Some(Crumbs::read(&String::from_utf8_lossy(&bytes)))
    };
    if !by_sanitizer {
        return read(process).unwrap_or_default();
    }
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    Crumbs { fault: None, ..processes.min().and_then(read).unwrap_or_default() }
}

/// The last [`LOG_BYTES`] of a text.
fn end_of(text: &str) -> String {
    let start = text.len().saturating_sub(LOG_BYTES);
    let start = (start..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    text[start..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_fail_a_test_that_held_and_a_silent_sanitizer_does_too() {
        let passed = || Judgement::new(Outcome::Passed, "");
        let found = |count| Findings { count, lines: vec!["Invalid write".into()] };
        assert_eq!(with_findings(passed(), &found(Some(0))), passed());
        let failed = with_findings(passed(), &found(Some(2)));
        assert_eq!(failed, Judgement::new(Outcome::Failed, "the sanitizer found 2: Invalid write"));
        assert_eq!(with_findings(passed(), &Findings::default()).outcome, Outcome::Failed);
        let skipped = Judgement::new(Outcome::Skipped, "no NVRTC");
        assert_eq!(with_findings(skipped.clone(), &Findings::default()), skipped);
    }

    #[test]
    fn tests_behind_a_device_that_does_not_come_back_are_not_run_and_never_passed() {
        let case = |name: &str| Case {
            name: format!("p::{name}"),
            test: name.to_owned(),
            program: "/bin/sh".into(),
            special: None,
        };
        let slot = Slot { device: "x".into(), visible: None };
        let scratch = std::env::temp_dir().join(format!("cuforge-runner-{}", std::process::id()));
        let rules = Rules {
            limit: Duration::from_secs(60),
            sanitizer: None,
            simulated: false,
            variables: &[],
            scratch: &scratch,
            well: &|_| false,
            told: &|_| {},
        };
        assert!(run(&[], std::slice::from_ref(&slot), &rules).is_empty());
        let without = run(&[case("a"), case("b")], &[], &rules);
        assert!(without.iter().all(|record| record.outcome == Outcome::NotRun), "{without:?}");
    }

    #[test]
    fn a_long_log_keeps_its_end() {
        assert_eq!(end_of("short"), "short");
        let long = format!("{}é", "x".repeat(LOG_BYTES));
        assert!(end_of(&long).ends_with('é') && end_of(&long).len() <= LOG_BYTES);
    }
}
