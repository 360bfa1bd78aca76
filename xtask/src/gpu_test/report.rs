//! What a run came to: the closing lines, JSON, `JUnit`, and how the command ends.

use std::fmt::Write as _;

use cuforge_oracle::report::xml_text;
use serde::Serialize;

use super::outcome::Outcome;
use super::record::Record;
use crate::ending::{Ending, Stop};
use crate::probe::Probe;

/// A run. Its keys in JSON are stable under one `schema`.
#[derive(Debug, Serialize)]
pub(super) struct Report<'a> {
    pub(super) schema: &'static str,
    /// What the tests ran on.
    pub(super) probe: &'a Probe,
    /// Why the simulated device was used, if it was.
    pub(super) simulated_because: Option<String>,
    pub(super) sanitizer: Option<&'static str>,
    pub(super) require_gpu: bool,
    pub(super) tests: &'a [Record],
    /// Tests that a run under this sanitizer is not made of.
    pub(super) left_out: &'a [LeftOut],
    /// Tests of the manifest that no program has.
    pub(super) vanished: &'a [String],
    /// Tests that the manifest does not have.
    pub(super) unlisted: &'a [String],
    /// Known failures that passed.
    pub(super) stale: &'a [String],
    /// Programs that could not list their tests.
    pub(super) broken: &'a [String],
}

/// A test that was not chosen, and why: neither skipped nor passed, and no reason for a run to fail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct LeftOut {
    /// `program::test`.
    pub(super) name: String,
    /// What the test says of itself.
    pub(super) reason: String,
}

/// The `schema` of the JSON form.
pub(super) const SCHEMA: &str = "cuforge-gpu-test/1";

impl Report<'_> {
    fn count(&self, outcome: Outcome) -> usize {
        self.tests.iter().filter(|test| test.outcome == outcome && test.known_failure.is_none()).count()
    }

    fn known(&self) -> usize {
        self.tests.iter().filter(|test| test.known_failure.is_some()).count()
    }

    /// How the command ends: a fault outweighs a failure, and what did not run is no success.
    pub(super) fn ending(&self) -> Ending {
        let failed = self.count(Outcome::Failed) + self.count(Outcome::NotRun);
        let wrong = self.vanished.len() + self.stale.len() + self.broken.len();
        let forbidden = if self.require_gpu { self.count(Outcome::Skipped) } else { 0 };
        if self.count(Outcome::Fault) > 0 {
            Ending::DeviceFault
        } else if failed + wrong + forbidden > 0 {
            Ending::Failed
        } else if self.count(Outcome::Passed) == 0 {
            Ending::NothingRan
        } else {
            Ending::Good
        }
    }

    /// What did not pass, with reasons; what is wrong with the lists; and one line that counts every test once.
    pub(super) fn closing(&self) -> String {
        let mut text = String::new();
        for test in self.tests.iter().filter(|test| test.outcome != Outcome::Passed) {
            let word = test.outcome.word().to_uppercase();
            let _ = match &test.known_failure {
                Some(why) => writeln!(text, "known failure, {why}: {} ({})", test.name, test.reason),
                None => writeln!(text, "{word} {}: {}", test.name, test.reason),
            };
            for finding in test.findings.iter().skip(1) {
                let _ = writeln!(text, "    {finding}");
            }
        }
        for test in self.left_out {
            let _ = writeln!(text, "left out, {}: {}", test.reason, test.name);
        }
        for (names, what) in [
            (self.vanished, "VANISHED, listed in the manifest and in no program"),
            (self.stale, "STALE, listed as a known failure and passed"),
            (self.broken, "BROKEN, its tests cannot be listed"),
            (self.unlisted, "new, not in the manifest yet"),
        ] {
            for name in names {
                let _ = writeln!(text, "{what}: {name}");
            }
        }
        let counts = Outcome::ALL.map(|outcome| format!("{} {}", self.count(outcome), outcome.word()));
        let _ = write!(text, "{}", counts.join(", "));
        if self.known() > 0 {
            let _ = write!(text, ", {} known failures", self.known());
        }
        if !self.left_out.is_empty() {
            let tool = self.sanitizer.unwrap_or("this run");
            let _ = write!(text, "; {} left out under {tool}", self.left_out.len());
        }
        match &self.simulated_because {
            Some(why) => {
                let _ = writeln!(text, "; on the simulated device, no GPU was used: {why}");
            }
            None => text.push('\n'),
        }
        text
    }

    /// As JSON.
    ///
    /// # Errors
    ///
    /// None that this program knows of.
    pub(super) fn json(&self) -> Result<String, Stop> {
        serde_json::to_string_pretty(self)
            .map(|text| text + "\n")
            .map_err(|error| Stop::failed(format!("the report cannot be written as JSON: {error}")))
    }

    /// As `JUnit` XML: failures and tests that were never started are failures, faults are errors; skipped ones,
    /// unsupported ones, known failures and what was left out are skipped, each with its reason. What is wrong with the lists is a test
    /// case of its own.
    pub(super) fn junit(&self) -> String {
        let cases: Vec<String> = self
            .tests
            .iter()
            .map(case)
            .chain(self.left_out.iter().map(left_out_case))
            .chain(self.vanished.iter().map(|name| list_case(name, "it vanished")))
            .chain(self.stale.iter().map(|name| list_case(name, "a known failure passed")))
            .chain(self.broken.iter().map(|name| list_case(name, "its tests cannot be listed")))
            .collect();
        let having = |element: &str| cases.iter().filter(|case| case.contains(element)).count();
        let counts = format!(
            "tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\"",
            cases.len(),
            having("<failure "),
            having("<error "),
            having("<skipped ")
        );
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {counts}>\n  <testsuite name=\"cuforge gpu-test\" {counts}>\n{}  </testsuite>\n</testsuites>\n",
            cases.concat()
        )
    }
}

fn case(test: &Record) -> String {
    let (program, name) = test.name.split_once("::").unwrap_or(("", &test.name));
    let word = test.outcome.word();
    let reason = xml_text(&test.reason);
    let log = xml_text(&test.log);
    let inner = match (&test.known_failure, test.outcome) {
        (Some(why), _) => format!("<skipped message=\"known failure: {}: {reason}\"/>", xml_text(why)),
        (None, Outcome::Passed) => String::new(),
        (None, Outcome::Failed | Outcome::NotRun) => {
            format!("<failure message=\"{word}: {reason}\" type=\"{word}\">{log}</failure>")
        }
        (None, Outcome::Fault) => format!("<error message=\"{reason}\" type=\"{word}\">{log}</error>"),
        (None, Outcome::Skipped | Outcome::Unsupported) => {
            format!("<skipped message=\"{word}: {reason}\"/>")
        }
    };
    element(program, name, test.seconds, &inner)
}

fn left_out_case(test: &LeftOut) -> String {
    let (program, name) = test.name.split_once("::").unwrap_or(("", &test.name));
    let reason = xml_text(&test.reason);
    element(program, name, 0.0, &format!("<skipped message=\"left out: {reason}\"/>"))
}

fn list_case(name: &str, why: &str) -> String {
    element("manifest", name, 0.0, &format!("<failure message=\"{why}\" type=\"manifest\"/>"))
}

fn element(class: &str, name: &str, seconds: f64, inner: &str) -> String {
    let (class, name) = (xml_text(class), xml_text(name));
    format!("    <testcase classname=\"{class}\" name=\"{name}\" time=\"{seconds:.3}\">{inner}</testcase>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(name: &str, outcome: Outcome) -> Record {
        Record { name: format!("gpu_a::{name}"), outcome, reason: "it <says>".into(), ..Record::default() }
    }

    fn with<R>(
        tests: &[Record],
        vanished: &[&str],
        require_gpu: bool,
        look: impl FnOnce(&mut Report<'_>) -> R,
    ) -> R {
        let vanished: Vec<String> = vanished.iter().map(|&name| name.to_owned()).collect();
        look(&mut Report {
            schema: SCHEMA,
            probe: &Probe::default(),
            simulated_because: None,
            sanitizer: None,
            require_gpu,
            tests,
            left_out: &[],
            vanished: &vanished,
            unlisted: &[],
            stale: &[],
            broken: &[],
        })
    }

    fn ending(outcomes: &[Outcome], require_gpu: bool) -> Ending {
        let tests: Vec<Record> = outcomes.iter().map(|&outcome| record("x", outcome)).collect();
        with(&tests, &[], require_gpu, |report| report.ending())
    }

    #[test]
    fn a_fault_outweighs_a_failure_and_nothing_run_is_no_success() {
        use Outcome::{Failed, Fault, NotRun, Passed, Skipped, Unsupported};
        assert_eq!(ending(&[Passed, Failed, Fault], false), Ending::DeviceFault);
        assert_eq!(ending(&[Passed, Failed], false), Ending::Failed);
        assert_eq!(ending(&[Passed, NotRun], false), Ending::Failed);
        assert_eq!(ending(&[Passed, Skipped, Unsupported], false), Ending::Good);
        assert_eq!(ending(&[Skipped, Unsupported], false), Ending::NothingRan);
        assert_eq!(ending(&[], false), Ending::NothingRan);
    }

    #[test]
    fn a_required_gpu_forbids_skips_and_a_vanished_test_fails_any_run() {
        assert_eq!(ending(&[Outcome::Passed, Outcome::Skipped], true), Ending::Failed);
        assert_eq!(ending(&[Outcome::Passed, Outcome::Unsupported], true), Ending::Good);
        let passed = [record("x", Outcome::Passed)];
        assert_eq!(with(&passed, &["gpu_a::y"], false, |report| report.ending()), Ending::Failed);
    }

    #[test]
    fn a_known_failure_fails_nothing_and_is_counted_apart() {
        let known = Record { known_failure: Some("a driver fault".into()), ..record("x", Outcome::Failed) };
        let tests = [known, record("y", Outcome::Passed)];
        with(&tests, &[], true, |report| {
            assert_eq!(report.ending(), Ending::Good);
            let closing = report.closing();
            assert!(
                closing.ends_with(
                    "1 passed, 0 failed, 0 skipped, 0 unsupported, 0 fault, 0 not run, 1 known failures\n"
                ),
                "{closing}"
            );
        });
    }

    #[test]
    fn what_a_sanitizer_leaves_out_forbids_no_clean_run_and_is_counted_apart() {
        let left_out: &[_] =
            Vec::leak(vec![LeftOut { name: "gpu_a::long".into(), reason: "soak: <many>".into() }]);
        let under_memcheck = |tests: &[Record], look: &dyn Fn(&Report<'_>)| {
            with(tests, &[], true, |report| {
                (report.sanitizer, report.left_out) = (Some("memcheck"), left_out);
                look(report);
            });
        };
        under_memcheck(&[record("x", Outcome::Passed)], &|report| {
            assert_eq!(report.ending(), Ending::Good);
            let closing = report.closing();
            assert!(closing.starts_with("left out, soak: <many>: gpu_a::long\n1 passed, "), "{closing}");
            assert!(
                closing
                    .ends_with("0 skipped, 0 unsupported, 0 fault, 0 not run; 1 left out under memcheck\n")
            );
            let junit = report.junit();
            assert!(junit.contains("tests=\"2\" failures=\"0\" errors=\"0\" skipped=\"1\""), "{junit}");
            assert!(junit.contains("message=\"left out: soak: &lt;many&gt;\""), "{junit}");
            assert!(report.json().unwrap().contains("\"left_out\""));
        });
        under_memcheck(&[], &|report| assert_eq!(report.ending(), Ending::NothingRan));
        let skipped = [record("x", Outcome::Passed), record("y", Outcome::Skipped)];
        under_memcheck(&skipped, &|report| assert_eq!(report.ending(), Ending::Failed));
    }

    #[test]
    fn junit_counts_what_it_lists_and_keeps_every_reason() {
        let tests: Vec<Record> = Outcome::ALL.iter().map(|&outcome| record("x", outcome)).collect();
        let xml = with(&tests, &["gpu_a::gone"], false, |report| report.junit());
        assert!(xml.contains("tests=\"7\" failures=\"3\" errors=\"1\" skipped=\"2\""), "{xml}");
        assert!(xml.contains("message=\"skipped: it &lt;says&gt;\"") && xml.contains("it vanished"), "{xml}");
    }

    #[test]
    fn the_json_form_has_a_schema_and_the_reasons() {
        let json = with(&[record("x", Outcome::Skipped)], &[], false, |report| report.json().unwrap());
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(value["schema"], SCHEMA);
        assert_eq!(
            (&value["tests"][0]["outcome"], &value["tests"][0]["reason"]),
            (&"skipped".into(), &"it <says>".into())
        );
    }
}
