//! What became of a test: six outcomes that are never mixed up, read from what its process left behind.

use serde::Serialize;

use crate::process::Captured;
use crate::test::libtest::{Outcome as Told, Output};

/// A panic message that begins like this says that the test cannot run here, and why.
const SKIPPED: &str = "skipped here: ";
/// A panic message that begins like this says that the device cannot do what the test is about.
const UNSUPPORTED: &str = "unsupported here: ";

/// What became of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    /// It ran to its end and held, and its device was well.
    Passed,
    /// It did not hold, its process died, or it ran past its limit.
    Failed,
    /// It could not run here: something but the device is missing.
    Skipped,
    /// The device cannot do what it is about.
    Unsupported,
    /// The device faulted, whatever the test itself said.
    Fault,
    /// It was never started.
    NotRun,
}

impl Outcome {
    pub(super) const ALL: [Self; 6] =
        [Self::Passed, Self::Failed, Self::Skipped, Self::Unsupported, Self::Fault, Self::NotRun];

    /// In a word or two.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Unsupported => "unsupported",
            Self::Fault => "fault",
            Self::NotRun => "not run",
        }
    }
}

/// What a process left: an outcome and, unless it passed, why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Judgement {
    pub(super) outcome: Outcome,
    pub(super) reason: String,
}

impl Judgement {
    pub(super) fn new(outcome: Outcome, reason: impl Into<String>) -> Self {
        Self { outcome, reason: reason.into() }
    }
}

/// What the breadcrumb file of a process says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Crumbs {
    /// `in cuStreamSynchronize`, or `after cuLaunchKernel 0`.
    pub(super) last: Option<String>,
    /// `cuStreamSynchronize 700`: the first answer that means a lost device.
    pub(super) fault: Option<String>,
}

impl Crumbs {
    /// Reads the file's text.
    pub(super) fn read(text: &str) -> Self {
        let mut lines = text.lines().map(|line| line.trim_matches([' ', '\0']));
        let last = lines.next().filter(|line| !line.is_empty()).map(str::to_owned);
        let fault = lines.next().and_then(|line| line.strip_prefix("fault ")).map(str::to_owned);
        Self { last, fault }
    }

    fn last_words(&self) -> String {
        self.last.as_ref().map_or_else(
            || "it had made no driver call".to_owned(),
            |last| format!("its last driver call: {last}"),
        )
    }
}

/// Judges the process that ran the one test `name`.
pub(super) fn judge(name: &str, captured: &Captured, crumbs: &Crumbs) -> Judgement {
    if let Some(fault) = &crumbs.fault {
        let hung = if captured.status.is_none() { "; then it hung" } else { "" };
        return Judgement::new(Outcome::Fault, format!("the device faulted, seen by {fault}{hung}"));
    }
    if captured.status.is_none() {
        let why = format!("stopped at its time limit; {}", crumbs.last_words());
        return Judgement::new(Outcome::Failed, why);
    }
    if let Some(why) = said(captured, UNSUPPORTED) {
        return Judgement::new(Outcome::Unsupported, why);
    }
    if let Some(why) = said(captured, SKIPPED) {
        return Judgement::new(Outcome::Skipped, why);
    }
    if let Some(Told::Ignored(why)) = Output::read(&captured.stdout).outcomes.get(name) {
        return Judgement::new(Outcome::Skipped, why.clone());
    }
    // What a test prints may stand in its line, so the closing count is what is believed.
    let closing = captured.stdout.lines().rev().find(|line| line.starts_with("test result: "));
    let counted = closing.is_some_and(|line| line.starts_with("test result: ok. 1 passed; 0 failed"));
    match (captured.succeeded(), counted, closing) {
        (true, true, _) => Judgement::new(Outcome::Passed, ""),
        (true, false, Some(_)) => Judgement::new(Outcome::Failed, "its program did not count it as passed"),
        (_, _, Some(_)) => Judgement::new(Outcome::Failed, panic_message(captured)),
        (_, _, None) => {
            let why = format!("its process died: {}; {}", captured.ending(), crumbs.last_words());
            Judgement::new(Outcome::Failed, why)
        }
    }
}

/// The rest of a line of either output that begins with `mark`.
fn said(captured: &Captured, mark: &str) -> Option<String> {
    if captured.succeeded() {
        // A test that says so and then ends well has broken the rule that nothing passes by doing nothing.
        return None;
    }
    let mut lines = captured.stderr.lines().chain(captured.stdout.lines());
    lines.find_map(|line| line.strip_prefix(mark)).map(|why| why.trim().to_owned())
}

/// The line after `panicked at`.
fn panic_message(captured: &Captured) -> String {
    let mut lines = captured.stderr.lines().chain(captured.stdout.lines());
    let message = lines.find(|line| line.contains("panicked at")).and_then(|_| lines.next());
    message.map_or_else(|| captured.ending(), |line| line.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::capture;
    use std::process::Command;
    use std::time::Duration;

    const OK: &str = "running 1 test\ntest a ... it says something\nok\n\ntest result: ok. 1 passed; 0 failed; 0 ignored\n";

    fn ran(stdout: &str, stderr: &str, end: &str) -> Captured {
        let mut command = Command::new("sh");
        let script = format!("printf '%s' \"$1\"; printf '%s' \"$2\" >&2; {end}");
        command.args(["-c", &script, "sh", stdout, stderr]);
        capture(command, Duration::from_secs(60)).unwrap()
    }

    fn outcome(stdout: &str, stderr: &str, end: &str) -> Judgement {
        judge("a", &ran(stdout, stderr, end), &Crumbs::default())
    }

    #[test]
    fn only_a_counted_pass_of_a_program_that_ended_well_is_a_pass() {
        assert_eq!(outcome(OK, "", "exit 0").outcome, Outcome::Passed);
        assert_eq!(outcome(OK, "", "exit 101").outcome, Outcome::Failed);
        assert_eq!(outcome("running 1 test\n", "", "exit 0").outcome, Outcome::Failed);
        let nothing = "running 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored\n";
        assert_eq!(outcome(nothing, "", "exit 0").outcome, Outcome::Failed);
    }

    #[test]
    fn a_failure_carries_the_panic_and_a_death_its_signal() {
        let failed = "running 1 test\ntest a ... FAILED\n\ntest result: FAILED. 0 passed; 1 failed\n";
        let stderr = "thread 'a' panicked at tests/x.rs:1:2:\nfour is not five\nnote: run\n";
        let judged = outcome(failed, stderr, "exit 101");
        assert_eq!(judged, Judgement::new(Outcome::Failed, "four is not five"));
        let died = outcome("running 1 test\n", "", "kill -SEGV $$");
        assert!(died.outcome == Outcome::Failed && died.reason.contains("signal: 11"), "{died:?}");
        assert!(died.reason.contains("no driver call"), "{died:?}");
    }

    #[test]
    fn what_a_test_says_of_itself_counts_only_if_it_did_not_end_well() {
        let failed = "test result: FAILED. 0 passed; 1 failed\n";
        let panic = |message: &str| format!("thread 'a' panicked at tests/x.rs:1:2:\n{message}\n");
        let unsupported = outcome(failed, &panic("unsupported here: clusters"), "exit 101");
        assert_eq!(unsupported, Judgement::new(Outcome::Unsupported, "clusters"));
        let skipped = outcome(failed, &panic("skipped here: no NVRTC"), "exit 101");
        assert_eq!(skipped, Judgement::new(Outcome::Skipped, "no NVRTC"));
        assert_eq!(outcome(OK, "skipped here: no reason\n", "exit 0").outcome, Outcome::Passed);
    }

    #[test]
    fn an_ignored_test_is_skipped_with_its_reason() {
        let ignored = "running 1 test\ntest a ... ignored, needs two GPUs\n\ntest result: ok. 0 passed; 0 failed; 1 ignored\n";
        assert_eq!(outcome(ignored, "", "exit 0"), Judgement::new(Outcome::Skipped, "needs two GPUs"));
    }

    #[test]
    fn a_lost_device_is_a_fault_whatever_the_test_said() {
        let crumbs = Crumbs::read("after cuCtxPopCurrent_v2 0      \nfault cuStreamSynchronize 700   \n");
        let judged = judge("a", &ran(OK, "", "exit 0"), &crumbs);
        assert_eq!(
            judged,
            Judgement::new(Outcome::Fault, "the device faulted, seen by cuStreamSynchronize 700")
        );
    }

    #[test]
    fn a_hung_test_is_named_with_its_last_driver_call() {
        let mut command = Command::new("sh");
        command.args(["-c", "exec sleep 600"]);
        let hung = capture(command, Duration::from_millis(200)).unwrap();
        let judged = judge("a", &hung, &Crumbs::read("in cuStreamSynchronize      \n"));
        let why = "stopped at its time limit; its last driver call: in cuStreamSynchronize";
        assert_eq!(judged, Judgement::new(Outcome::Failed, why));
    }

    #[test]
    fn crumbs_may_be_empty_or_cut() {
        assert_eq!(Crumbs::read(""), Crumbs::default());
        assert_eq!(Crumbs::read("in cuInit").last.as_deref(), Some("in cuInit"));
        assert_eq!(Crumbs::read("in cuInit\n\n").fault, None);
    }
}
