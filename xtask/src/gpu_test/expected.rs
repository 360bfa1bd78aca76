//! What the repository says about its GPU tests: which there are, and which are known to fail where and how.
//!
//! `tests/gpu-tests.txt` has one `program::test` a line: one that no program lists any more fails the run.
//! `tests/gpu-known-failures.txt` has one `test | backend | driver | message | reason` a line: such a failure does not
//! fail the run, and one that passes does.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::outcome::Outcome;
use super::record::Record;
use crate::ending::Stop;

/// The list of tests, below the tests package or an archive.
pub(super) const MANIFEST: &str = "gpu-tests.txt";
/// The known failures, beside it.
pub(super) const KNOWN_FAILURES: &str = "gpu-known-failures.txt";

/// Both lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Expected {
    tests: BTreeSet<String>,
    known: Vec<KnownFailure>,
}

/// One line of the known failures.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KnownFailure {
    test: String,
    /// `cuda` or `sim`.
    backend: String,
    /// What the driver's build or CUDA version begins with; `*` for all.
    driver: String,
    /// What the failure says.
    message: String,
    reason: String,
}

/// What a run's tests run on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ground<'a> {
    pub(super) simulated: bool,
    pub(super) build: Option<&'a str>,
    pub(super) cuda: Option<&'a str>,
}

impl Expected {
    /// Reads both lists in `folder`.
    ///
    /// # Errors
    ///
    /// A list that cannot be read, or a line that is not understood.
    pub(super) fn read(folder: &Path) -> Result<Self, Stop> {
        let text = |name: &str| {
            let path = folder.join(name);
            fs::read_to_string(&path).map_err(|error| Stop::failed(format!("{}: {error}", path.display())))
        };
        let tests = lines(&text(MANIFEST)?).map(str::to_owned).collect();
        let known = lines(&text(KNOWN_FAILURES)?).map(KnownFailure::read).collect::<Result<_, _>>();
        Ok(Self { tests, known: known.map_err(|line| Stop::failed(format!("{KNOWN_FAILURES}: {line}")))? })
    }

    /// Tests that should be there and that no program lists.
    pub(super) fn vanished(&self, listed: &BTreeSet<String>) -> Vec<String> {
        self.tests.difference(listed).cloned().collect()
    }

    /// Tests that a program lists and the manifest does not.
    pub(super) fn unlisted(&self, listed: &BTreeSet<String>) -> Vec<String> {
        listed.difference(&self.tests).cloned().collect()
    }

    /// Why this failure was to be expected here; `None` if it was not.
    pub(super) fn known_failure(&self, record: &Record, ground: Ground<'_>) -> Option<&str> {
        let says = |known: &KnownFailure| {
            record.reason.contains(&known.message) || record.log.contains(&known.message)
        };
        if !matches!(record.outcome, Outcome::Failed | Outcome::Fault) {
            return None;
        }
        let mut known = self.known.iter().filter(|known| known.is_about(&record.name, ground));
        known.find(|known| says(known)).map(|known| known.reason.as_str())
    }

    /// Whether this test is listed as failing here although it passed.
    pub(super) fn is_stale(&self, record: &Record, ground: Ground<'_>) -> bool {
        record.outcome == Outcome::Passed
            && self.known.iter().any(|known| known.is_about(&record.name, ground))
    }
}

impl KnownFailure {
    fn read(line: &str) -> Result<Self, String> {
        let fields: Vec<&str> = line.splitn(5, '|').map(str::trim).collect();
        let [test, backend, driver, message, reason] = fields[..] else {
            return Err(format!("not `test | backend | driver | message | reason`: {line}"));
        };
        if !matches!(backend, "cuda" | "sim") {
            return Err(format!("no backend named {backend:?}, cuda or sim: {line}"));
        }
        if [test, driver, message, reason].contains(&"") {
            return Err(format!("an empty field: {line}"));
        }
        let [test, backend, driver, message, reason] =
            [test, backend, driver, message, reason].map(str::to_owned);
        Ok(Self { test, backend, driver, message, reason })
    }

    fn is_about(&self, test: &str, ground: Ground<'_>) -> bool {
        let backend = if ground.simulated { "sim" } else { "cuda" };
        let version = |version: Option<&str>| version.is_some_and(|text| text.starts_with(&self.driver));
        self.test == test
            && self.backend == backend
            && (self.driver == "*" || version(ground.build) || version(ground.cuda))
    }
}

/// The lines that say something: no comments, no blank ones.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CUDA: Ground<'_> = Ground { simulated: false, build: Some("580.159.04"), cuda: Some("13.0") };

    fn expected(known: &str) -> Expected {
        Expected {
            tests: ["gpu_a::x", "gpu_a::y"].map(str::to_owned).into(),
            known: lines(known).map(|line| KnownFailure::read(line).unwrap()).collect(),
        }
    }

    fn record(outcome: Outcome, reason: &str) -> Record {
        Record { name: "gpu_a::x".into(), outcome, reason: reason.into(), ..Record::default() }
    }

    #[test]
    fn a_test_that_vanished_and_one_that_is_new_are_both_seen() {
        let listed = ["gpu_a::x", "gpu_a::z"].map(str::to_owned).into();
        assert_eq!(expected("").vanished(&listed), ["gpu_a::y"]);
        assert_eq!(expected("").unlisted(&listed), ["gpu_a::z"]);
    }

    #[test]
    fn a_known_failure_is_known_by_test_backend_driver_and_message() {
        let list = expected("# why\n\ngpu_a::x | cuda | 580. | code 999 | the driver's fault");
        let failed = record(Outcome::Failed, "cuInit answered code 999");
        assert_eq!(list.known_failure(&failed, CUDA), Some("the driver's fault"));
        assert_eq!(list.known_failure(&record(Outcome::Failed, "other"), CUDA), None);
        let elsewhere = [Ground { build: Some("575.1"), ..CUDA }, Ground { simulated: true, ..CUDA }];
        assert!(elsewhere.into_iter().all(|ground| list.known_failure(&failed, ground).is_none()));
        let by_cuda = expected("gpu_a::x | cuda | 13. | code 999 | r");
        assert!(by_cuda.known_failure(&failed, CUDA).is_some());
    }

    #[test]
    fn a_known_failure_that_passes_is_stale_where_it_was_known_only() {
        let list = expected("gpu_a::x | sim | * | wrong | not simulated");
        let passed = record(Outcome::Passed, "");
        assert!(list.is_stale(&passed, Ground { simulated: true, ..CUDA }));
        assert!(!list.is_stale(&passed, CUDA));
        assert!(!list.is_stale(&record(Outcome::Skipped, ""), Ground { simulated: true, ..CUDA }));
    }

    #[test]
    fn a_line_that_is_not_understood_is_named() {
        for line in ["gpu_a::x", "gpu_a::x | rocm | * | m | r", "gpu_a::x | sim | * | | r"] {
            assert!(KnownFailure::read(line).unwrap_err().contains(line), "{line}");
        }
    }

    /// The tests in `source` that say `needs a GPU`, by the function behind the attribute.
    fn gpu_tests(source: &str) -> Vec<String> {
        let behind = |rest: &str| {
            let (_, name) = rest.split_once("fn ")?;
            Some(name.split_once('(')?.0.to_owned())
        };
        source.split("#[ignore = \"needs a GPU").skip(1).filter_map(behind).collect()
    }

    #[test]
    fn the_manifest_lists_every_gpu_test_of_the_sources_and_no_other() {
        let folder = crate::workspace::root().join("tests");
        let mut sources = BTreeSet::new();
        for file in fs::read_dir(folder.join("tests")).unwrap().flatten().map(|entry| entry.path()) {
            let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            if stem.starts_with("gpu_") && file.is_file() {
                let tests = gpu_tests(&fs::read_to_string(&file).unwrap());
                sources.extend(tests.into_iter().map(|test| format!("{stem}::{test}")));
            }
        }
        let expected = Expected::read(&folder).unwrap();
        assert_eq!(
            expected.tests, sources,
            "tests/{MANIFEST} lists the left ones, the sources have the right ones"
        );
    }
}
