//! What a test run came to: every test counted once, as passed, failed or skipped for a reason.

use std::collections::BTreeMap;
use std::fmt;

/// Counts and names of a test run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Tests that ran and held.
    pub(crate) passed: usize,
    /// Tests that failed, or did not run although they should have.
    pub(crate) failed: Vec<String>,
    /// Tests that did not run, by reason.
    pub(crate) skipped: BTreeMap<String, Vec<String>>,
}

impl Tally {
    /// Counts a failure.
    pub(crate) fn fail(&mut self, name: impl Into<String>) {
        self.failed.push(name.into());
    }

    /// Counts a test that did not run, for `reason`.
    pub(crate) fn skip(&mut self, reason: impl Into<String>, name: impl Into<String>) {
        self.skipped.entry(reason.into()).or_default().push(name.into());
    }

    /// Adds the counts of `other`, its names prefixed with where they come from.
    pub(crate) fn absorb(&mut self, place: &str, other: Self) {
        self.passed += other.passed;
        self.failed.extend(other.failed.into_iter().map(|name| format!("{place} {name}")));
        for (reason, names) in other.skipped {
            let names = names.into_iter().map(|name| format!("{place} {name}"));
            self.skipped.entry(reason).or_default().extend(names);
        }
    }

    /// How many tests did not run.
    pub(crate) fn skipped_count(&self) -> usize {
        self.skipped.values().map(Vec::len).sum()
    }
}

/// The closing line that scripts read: `N passed, N failed, N skipped`.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed.len(), self.skipped_count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_line_counts_every_test_once() {
        let mut tally = Tally { passed: 3, ..Tally::default() };
        let mut other = Tally { passed: 1, ..Tally::default() };
        other.fail("a");
        other.skip("needs a GPU", "b");
        other.skip("needs a GPU", "c");
        tally.absorb("core", other);
        assert_eq!(tally.to_string(), "4 passed, 1 failed, 2 skipped");
        assert_eq!(tally.failed, ["core a"]);
        assert_eq!(tally.skipped["needs a GPU"], ["core b", "core c"]);
    }
}
