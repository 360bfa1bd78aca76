//! Tests that pages name: each is there, and each numbered invariant of `ARCHITECTURE.md` names one or says that nothing
//! keeps it yet.

use std::path::{Path, PathBuf};

use super::tidy::TextFile;

/// How an invariant says that the part which it binds is not built.
const NOT_YET: &str = "not built yet";

/// Every finding in the invariants of `page`.
///
/// A test is named as `path/from/the/root.rs::test_name`, in backticks.
pub(crate) fn findings(page: &TextFile) -> Vec<String> {
    let shown = page.path.display();
    let mut findings = Vec::new();
    let mut numbers = Vec::new();
    for invariant in invariants(&page.text) {
        numbers.push(invariant.number);
        let named = tests_named(&invariant.text);
        if named.is_empty() && !invariant.text.to_lowercase().contains(NOT_YET) {
            findings.push(format!("{shown}: invariant {} names no test", invariant.number));
        }
    }
    if numbers != (1..=numbers.len()).collect::<Vec<_>>() || numbers.is_empty() {
        findings.push(format!("{shown}: the invariants must be numbered from 1 without a gap"));
    }
    findings
}

/// The tests that `page` names and that are not in `files`.
pub(crate) fn gone(page: &TextFile, files: &[TextFile]) -> Vec<String> {
    let mut findings = Vec::new();
    for (path, test) in tests_named(&page.text) {
        if !files.iter().any(|file| file.path == path && has_function(&file.text, test)) {
            findings.push(format!("{}: no test {test} in {}", page.path.display(), path.display()));
        }
    }
    findings
}

struct Invariant {
    number: usize,
    text: String,
}

/// The items of the numbered list under the heading `Invariants`.
fn invariants(text: &str) -> Vec<Invariant> {
    let mut invariants: Vec<Invariant> = Vec::new();
    let section = text.lines().skip_while(|line| *line != "## Invariants").skip(1);
    for line in section.take_while(|line| !line.starts_with("## ")) {
        let number = line.split_once(". ").and_then(|(number, _)| number.parse().ok());
        if let Some(number) = number {
            invariants.push(Invariant { number, text: String::new() });
        }
        if let Some(invariant) = invariants.last_mut() {
            // Joined with a space, so that a sentence may break anywhere.
            invariant.text.push_str(line.trim());
            invariant.text.push(' ');
        }
    }
    invariants
}

fn tests_named(text: &str) -> Vec<(PathBuf, &str)> {
    let code = text.split('`').skip(1).step_by(2);
    code.filter_map(|code| {
        let (path, test) = code.split_once("::")?;
        path.ends_with(".rs").then(|| (Path::new(path).to_path_buf(), test))
    })
    .collect()
}

fn has_function(source: &str, name: &str) -> bool {
    let head = format!("fn {name}(");
    source.lines().any(|line| line.trim_start().starts_with(&head))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> TextFile {
        TextFile { path: path.into(), text: text.into() }
    }

    fn said(list: &str) -> Vec<String> {
        let page = file(
            "ARCHITECTURE.md",
            &format!("# X\n\n1. not this\n\n## Invariants\n\n{list}\n\n## Next\n\n9. nor this\n"),
        );
        let files = [file("crates/x/src/ring.rs", "#[test]\n    fn it_wraps() {}\n")];
        [findings(&page), gone(&page, &files)].concat()
    }

    #[test]
    fn an_invariant_that_names_a_test_or_says_that_its_part_is_not_there_is_fine() {
        let list =
            "1. Rings wrap\n   (`crates/x/src/ring.rs::it_wraps`).\n2. Graphs own all: not built\n   yet.";
        assert_eq!(said(list), Vec::<String>::new());
    }

    #[test]
    fn an_invariant_without_a_test_or_with_one_that_is_gone_is_named() {
        assert_eq!(said("1. Rings wrap."), ["ARCHITECTURE.md: invariant 1 names no test"]);
        let gone = said("1. Rings wrap (`crates/x/src/ring.rs::it_wrapped`).");
        assert_eq!(gone, ["ARCHITECTURE.md: no test it_wrapped in crates/x/src/ring.rs"]);
    }

    #[test]
    fn invariants_are_numbered_without_a_gap() {
        let list = "1. A `crates/x/src/ring.rs::it_wraps`\n3. B `crates/x/src/ring.rs::it_wraps`";
        assert_eq!(said(list).len(), 1);
        assert_eq!(said("none").len(), 1);
    }
}
