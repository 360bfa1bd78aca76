//! Reads what Rust's test harness prints: one outcome a test, and the closing count that must agree with them.

use std::collections::{BTreeMap, BTreeSet};

use super::tally::Tally;

/// Why an example that only had to compile is no passed test.
const COMPILED: &str = "the example is marked `no_run`: it compiles";

/// What one run of a test program said about one test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It ran and held.
    Passed,
    /// It ran and failed.
    Failed,
    /// It was left out, for this reason (empty if none was given).
    Ignored(String),
}

/// The outcomes in the output of a test program, and whether it came to its closing line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Output {
    /// By test name.
    pub(crate) outcomes: BTreeMap<String, Outcome>,
    /// False when the program died before it had told all.
    pub(crate) closed: bool,
}

impl Output {
    /// Reads `stdout` of a test program, or of several one after the other.
    pub(crate) fn read(stdout: &str) -> Self {
        let mut output = Self::default();
        for line in stdout.lines() {
            if line.starts_with("test result: ") {
                output.closed = true;
            } else if line.starts_with("running ") {
                output.closed = false;
            } else if let Some((name, outcome)) = outcome(line) {
                output.outcomes.insert(name, outcome);
            }
        }
        output
    }

    /// Counts every test of `expected` once; one that has no outcome did not run, which is a failure.
    ///
    /// Ignored tests count as skipped for the reason that `reason` makes of the harness's.
    pub(crate) fn tally(&self, expected: &BTreeSet<String>, reason: impl Fn(&str) -> String) -> Tally {
        let mut tally = Tally::default();
        for name in expected {
            match self.outcomes.get(name) {
                Some(Outcome::Passed) => tally.passed += 1,
                Some(Outcome::Failed) => tally.fail(name),
                Some(Outcome::Ignored(why)) => tally.skip(reason(why), name),
                None => tally.fail(format!("{name} (did not run to its end)")),
            }
        }
        if !self.closed {
            tally.fail("(the test program died before its closing line)");
        }
        tally
    }
}

/// The tests that a program lists with `--list --format terse`; `None` if that is no such list.
pub(crate) fn listed(stdout: &str) -> Option<BTreeSet<String>> {
    stdout
        .lines()
        .filter(|line| !line.is_empty() && !line.ends_with(": benchmark"))
        .map(|line| line.strip_suffix(": test").map(str::to_owned))
        .collect()
}

/// `test NAME ... OUTCOME`. Output of the test itself may stand in front when it was not captured.
fn outcome(line: &str) -> Option<(String, Outcome)> {
    let start = line.find("test ")?;
    let (name, said) = line[start + 5..].rsplit_once(" ... ")?;
    let outcome = match said {
        "ok" => Outcome::Passed,
        "FAILED" => Outcome::Failed,
        "ignored" => Outcome::Ignored(String::new()),
        _ => Outcome::Ignored(said.strip_prefix("ignored, ")?.to_owned()),
    };
    // An example marked `no_run` has been compiled, and that is all.
    let compiled = name.strip_suffix(" - compile");
    let outcome = match (compiled, outcome) {
        (Some(_), Outcome::Passed) => Outcome::Ignored(COMPILED.to_owned()),
        (_, outcome) => outcome,
    };
    let name = [" - should panic", " - compile fail"]
        .iter()
        .fold(compiled.unwrap_or(name), |name, mark| name.strip_suffix(mark).unwrap_or(name));
    Some((name.to_owned(), outcome))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = "
running 5 tests
test ring::wraps ... ok
test ring::panics - should panic ... ok
test ring::breaks ... FAILED
test nvrtc::compiles ... ignored, needs NVRTC
test src/lib.rs - view (line 12) ... ok

test result: FAILED. 3 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s
";

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn every_outcome_is_read() {
        let output = Output::read(RUN);
        assert!(output.closed);
        let all = names(&[
            "ring::wraps",
            "ring::panics",
            "ring::breaks",
            "nvrtc::compiles",
            "src/lib.rs - view (line 12)",
        ]);
        let tally = output.tally(&all, str::to_owned);
        assert_eq!(tally.to_string(), "3 passed, 1 failed, 1 skipped");
        assert_eq!(tally.skipped["needs NVRTC"], ["nvrtc::compiles"]);
    }

    #[test]
    fn a_listed_test_without_an_outcome_is_a_failure_and_so_is_a_program_that_died() {
        let output = Output::read("running 2 tests\ntest a ... ok\n");
        let tally = output.tally(&names(&["a", "b"]), str::to_owned);
        assert_eq!((tally.passed, tally.failed.len()), (1, 2));
    }

    #[test]
    fn an_example_that_was_only_compiled_is_no_passed_test() {
        let output = Output::read(
            "running 3 tests\ntest src/a.rs - a (line 1) - compile ... ok\n\
             test src/a.rs - b (line 2) - compile fail ... ok\n\
             test src/a.rs - c (line 3) - compile ... FAILED\n\ntest result: FAILED. 2 passed\n",
        );
        let told = output.outcomes.keys().cloned().collect();
        let tally = output.tally(&told, str::to_owned);
        assert_eq!(tally.to_string(), "1 passed, 1 failed, 1 skipped");
        assert_eq!(tally.skipped[COMPILED], ["src/a.rs - a (line 1)"]);
    }

    #[test]
    fn a_list_gives_names_and_anything_else_gives_none() {
        assert_eq!(listed("a::b: test\nc: test\n\n"), Some(names(&["a::b", "c"])));
        assert_eq!(listed(""), Some(names(&[])));
        assert_eq!(listed("usage: bench [OPTIONS]\n"), None);
    }
}
