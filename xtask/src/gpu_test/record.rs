//! What is kept of each test of a run.

use serde::Serialize;

use super::outcome::Outcome;

/// One test of a run. Its keys in JSON are stable under the report's `schema`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Record {
    /// `program::test`.
    pub(super) name: String,
    /// What became of it.
    pub(super) outcome: Outcome,
    /// Why, unless it passed.
    pub(super) reason: String,
    /// Why this failure was to be expected; it then does not fail the run.
    pub(super) known_failure: Option<String>,
    /// How long it took, in seconds.
    pub(super) seconds: f64,
    /// The device that it ran on, as `CUDA_VISIBLE_DEVICES` names it.
    pub(super) device: Option<String>,
    /// Its last driver call, where it left one.
    pub(super) last_driver_call: Option<String>,
    /// What the sanitizer found, one line each.
    pub(super) findings: Vec<String>,
    /// What it printed; kept of those that did not pass.
    pub(super) log: String,
}

impl Default for Record {
    fn default() -> Self {
        Self {
            name: String::new(),
            outcome: Outcome::NotRun,
            reason: String::new(),
            known_failure: None,
            seconds: 0.0,
            device: None,
            last_driver_call: None,
            findings: Vec::new(),
            log: String::new(),
        }
    }
}

impl Record {
    /// A test that was not started.
    pub(super) fn without_a_run(name: &str, outcome: Outcome, reason: &str) -> Self {
        Self { name: name.to_owned(), outcome, reason: reason.to_owned(), ..Self::default() }
    }
}
