//! The `JUnit` XML form: one test case a report.

use std::fmt::Write as _;

use super::table::details;
use crate::verdict::{Report, Verdict};

/// All reports as one `JUnit` XML document, a test suite of the given name.
///
/// Failed and vacuous cases are failures, device faults are errors, unsupported and not run ones are skipped, with
/// their reason. Times are the median in seconds.
///
/// ```
/// assert!(cuforge_oracle::report::to_junit("verify", &[]).contains("tests=\"0\""));
/// ```
#[must_use]
pub fn to_junit(suite: &str, reports: &[Report]) -> String {
    let count = |wanted: fn(&Verdict) -> bool| reports.iter().filter(|r| wanted(&r.verdict)).count();
    let failures = count(|verdict| matches!(verdict, Verdict::Failed | Verdict::Vacuous));
    let errors = count(|verdict| matches!(verdict, Verdict::Fault(_)));
    let skipped = count(|verdict| matches!(verdict, Verdict::Unsupported(_) | Verdict::NotRun(_)));
    let counts = format!(
        "tests=\"{}\" failures=\"{failures}\" errors=\"{errors}\" skipped=\"{skipped}\"",
        reports.len()
    );
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    // Writing to a string cannot fail.
    let _ = writeln!(text, "<testsuites {counts}>\n  <testsuite name=\"{}\" {counts}>", xml_text(suite));
    for report in reports {
        let name = format!("{} {} [{}]", report.case, report.shape, report.schedule);
        let seconds = report.timing.median_ns().unwrap_or(0) as f64 / 1e9;
        let _ = write!(
            text,
            "    <testcase classname=\"{}\" name=\"{}\" time=\"{seconds:.6}\"",
            xml_text(&report.adapter),
            xml_text(&name)
        );
        match element(report) {
            Some(inner) => {
                let _ = writeln!(text, ">\n      {inner}\n    </testcase>");
            }
            None => text.push_str("/>\n"),
        }
    }
    text.push_str("  </testsuite>\n</testsuites>\n");
    text
}

fn element(report: &Report) -> Option<String> {
    let body = xml_text(&details(report).join("\n"));
    let word = report.verdict.word();
    match &report.verdict {
        Verdict::Passed => None,
        Verdict::Failed | Verdict::Vacuous => {
            Some(format!("<failure message=\"{word}\" type=\"{word}\">{body}</failure>"))
        }
        Verdict::Fault(reason) => {
            Some(format!("<error message=\"{}\" type=\"{word}\">{body}</error>", xml_text(reason)))
        }
        Verdict::Unsupported(reason) | Verdict::NotRun(reason) => {
            Some(format!("<skipped message=\"{word}: {}\"/>", xml_text(reason)))
        }
    }
}

/// Text as XML takes it in content and in quoted attributes; control characters that XML forbids become spaces.
///
/// ```
/// assert_eq!(cuforge_oracle::report::xml_text("a < \"b\""), "a &lt; &quot;b&quot;");
/// ```
#[must_use]
pub fn xml_text(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\t' => escaped.push(c),
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::samples;

    #[test]
    fn a_skip_is_never_counted_as_passed() {
        let text =
            to_junit("a \"suite\" & <more>", &[samples::passed(), samples::failed(), samples::not_run()]);
        assert!(text.contains("tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"1\""), "{text}");
        assert!(text.contains("<skipped message=\"not-run: no compiler\"/>"), "{text}");
        assert!(text.contains("a &quot;suite&quot; &amp; &lt;more&gt;"), "{text}");
        assert_eq!(text.matches("<testcase").count(), 3);
    }

    #[test]
    fn a_failure_carries_its_worst_element() {
        let text = to_junit("s", &[samples::failed()]);
        assert!(text.contains("<failure message=\"failed\"") && text.contains("index 3"), "{text}");
    }
}
